"""``audit cache``: what the tool keeps on disk."""

from __future__ import annotations

import os

import click

from auditor.cli.command import SubGroup, VerbCommand
from auditor.errors import UserError


@click.group(cls=SubGroup, example=("audit cache info", "audit cache clear --yes"))
def cache() -> None:
    """What is cached, where, and how do I get rid of it?"""


@cache.command(cls=VerbCommand, example="audit cache info")
def info() -> None:
    """Where is the cache, and how large is each part?"""
    from auditor.trees.cache import SIZE_VARIABLE, VARIABLE, cache_dir, cache_limit, cache_usage

    click.echo(f"{cache_dir()}    (set {VARIABLE} to move it)")
    click.echo(
        f"at most {_text(cache_limit())} of facts and reports    (set {SIZE_VARIABLE}=500M to change it)"
    )
    usage = cache_usage()
    if not usage:
        click.echo("empty")
        return
    total = (sum(files for files, _ in usage.values()), sum(size for _, size in usage.values()))
    for name, (files, size) in [*usage.items(), ("total", total)]:
        click.echo(f"{name:<16}{files:>8,} files {_text(size):>12}")


@cache.command(cls=VerbCommand, example="audit cache clear --yes")
@click.option("--yes", is_flag=True, help="Do not ask. Not asked either without a terminal or in CI.")
def clear(yes: bool) -> None:
    """How do I delete everything cached? All of it can be made again."""
    from auditor.trees.cache import VARIABLE, cache_dir, cache_usage, clear_cache

    root = cache_dir()
    usage = cache_usage()
    if not usage:
        click.echo("nothing to clear")
        return
    if not (root / "CACHEDIR.TAG").is_file():  # a mistyped variable must not empty somebody's home
        hints = [f"unset {VARIABLE}", "audit cache info"]
        fact = "not a cache of this tool: no CACHEDIR.TAG in it"
        raise UserError("U008", fact, place=str(root), hints=hints)
    files = sum(count for count, _ in usage.values())
    size = sum(size for _, size in usage.values())
    asks = not yes and os.isatty(0) and not os.environ.get("CI")
    if asks and not click.confirm(f"delete {files:,} files, {_text(size)}, below {root}?", err=True):
        raise click.Abort
    click.echo(f"cleared {_text(clear_cache())}")


def _text(size: int) -> str:
    if size < 1024:
        return f"{size} B"
    value = size / 1024
    for unit in ("KiB", "MiB"):
        if value < 1024:
            return f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"
