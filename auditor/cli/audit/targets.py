"""``audit targets``: the GPUs that are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from auditor.cli.command import VerbCommand
from auditor.cli.words import TargetsType

if TYPE_CHECKING:
    from rich.console import Console

    from auditor.arch import Target


@click.command(cls=VerbCommand, example=("audit targets", "audit targets sm_100,sm_120 -v --format json"))
@click.argument("names", type=TargetsType(), default="all", metavar="[LIST]")
@click.option(
    "--format", "form", type=click.Choice(("terminal", "json")), default="terminal", help="How to print it."
)
@click.option("--output", metavar="FILE", help="Write there instead of stdout.")
@click.option("--color", type=click.Choice(("auto", "always", "never")), default="auto", help="Colour.")
@click.option("-v", "--verbose", count=True, help="Every fact with its NVIDIA source.")
def targets(names: tuple[str, ...], form: str, output: str | None, color: str, verbose: int) -> None:
    """Which GPU targets are known, what can each one do, and who says so?"""
    from auditor.arch import fact_sources, load_targets
    from auditor.cli.output import render, write_bytes

    known = load_targets()
    chosen = [known[name] for name in names]
    if form == "json":
        write_bytes(_json(chosen, fact_sources()), output)
    else:
        render(
            lambda console: _table(console, chosen, fact_sources() if verbose else None),
            output,
            color,
            rich=True,
        )


def _json(chosen: list[Target], sources: dict[str, str]) -> bytes:
    import msgspec

    def facts(rows: dict[str, Any]) -> dict[str, Any]:
        return {
            name: {"value": fact.value, "unit": fact.unit, "suffix": fact.suffix, "source": fact.source}
            for name, fact in rows.items()
        }

    rows = [
        {
            "name": target.name,
            "capability": target.capability_text,
            "generation": target.generation,
            "cards": target.cards,
            "limits": facts(target.limits),
            "features": facts(target.features),
        }
        for target in chosen
    ]
    data = {"schema_version": "1.0", "targets": rows, "sources": sources}
    return msgspec.json.format(msgspec.json.encode(data, order="sorted"), indent=2) + b"\n"


def _value(fact: Any) -> str:
    if isinstance(fact.value, bool):
        return f"yes {fact.suffix}".strip() if fact.value else "-"
    if fact.unit == "bytes" and fact.value % 1024 == 0:
        return f"{fact.value // 1024} KiB"
    return f"{fact.value:,}"


def _table(console: Console, chosen: list[Target], sources: dict[str, str] | None) -> None:
    """Targets across, facts down: nine targets fit into a hundred columns, their facts would not. Where there
    is less room, some targets come below the others. With ``sources``, what each fact means and who says so
    follows at the end."""
    from rich.table import Table

    rows: list[tuple[str, list[str]]] = [
        ("capability", [target.capability_text for target in chosen]),
        ("generation", [target.generation for target in chosen]),
    ]
    said: list[tuple[str, str, str]] = []
    for group in ("limits", "features"):
        for name in getattr(chosen[0], group):
            facts = [getattr(target, group)[name] for target in chosen]
            rows.append((name, [_value(fact) for fact in facts]))
            first = facts[0]
            unit = f" ({first.unit})" if first.unit != "bytes" and first.unit not in first.title else ""
            said.append((name, f"{first.title}{unit}", "; ".join(dict.fromkeys(f.source for f in facts))))
    wide = [max(len(row[at]) for _, row in rows) + 1 for at in range(len(chosen))]
    head = max(len(label) for label, _ in rows) + 1
    start = 0
    while start < len(chosen):
        end = start + 1
        while end < len(chosen) and head + sum(wide[start : end + 1]) <= console.width:
            end += 1
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
        table.add_column("", no_wrap=True)
        for target in chosen[start:end]:
            table.add_column(target.name, overflow="fold")
        for label, row in rows:
            table.add_row(label, *row[start:end])
        console.print(table)
        start = end
    for target in chosen:
        console.print(f"{target.name:<8}{', '.join(target.cards)}", soft_wrap=True)
    if any(fact.suffix for target in chosen for fact in target.features.values()):
        console.print(
            "a, f: only code built for the architecture- (a) or family-specific (f) target may use it"
        )
    if sources is not None:
        for name, title, source in said:
            console.print()
            console.print(f"{name}: {title}", soft_wrap=True)
            console.print(f"    {source}", soft_wrap=True)
        console.print()
        for name, text in sources.items():
            console.print(f"{name:<10}{text}", soft_wrap=True)
