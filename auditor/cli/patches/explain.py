"""``patches explain``: why a patch conflicts, which commit did it, and what to do."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from auditor.cli.command import Option, VerbCommand
from auditor.cli.patches.base import FOLDER
from auditor.cli.patches.target import (
    base_tree,
    clones,
    from_option,
    judge_for,
    load,
    onto_option,
    output_options,
    shown_tree,
    sources_for,
    target_options,
)
from auditor.cli.patches.upstreams import bases_of, chosen_upstreams, clones_of, elsewhere, targets_of
from auditor.cli.words import PatchsetType, PatchType
from auditor.errors import EXIT_CONFLICT, EXIT_OK

if TYPE_CHECKING:
    from auditor.patching.past.explain import Explained, HunkStory
    from auditor.patching.past.since import Since
    from auditor.patching.planning.model import Planned

#: Lines of either side that are shown of one hunk.
_SHOWN = 12


@click.command(
    cls=VerbCommand,
    example=(
        "patches explain sm120 deepgemm-gate --onto v0.5.18",
        "patches explain sm120 deepgemm-gate --onto 0.5.18 --clone ../sglang",
    ),
)
@click.argument("patchset", type=PatchsetType())
@click.argument("patch", type=PatchType())
@onto_option
@click.option(
    "--releases",
    cls=Option,
    metavar="V,V,…",
    help="Which of these releases is the first to have it; by content.",
)
@click.option("--full", is_flag=True, cls=Option, help="All lines, files and commits.")
@from_option
@FOLDER
@target_options
@output_options
def explain(
    patchset: str,
    patch: str,
    onto: tuple[str, ...],
    releases: str | None,
    full: bool,
    made_for: tuple[str, ...],
    folder: str | None,
    to: tuple[str, ...],
    installed: str | None,
    clone: tuple[str, ...],
    form: str,
    color: str,
    quiet: bool,
) -> int:
    """Why does this patch conflict, because of which commit, and what now? Or: since when is it upstream?

    The commit that is named is the one before which the hunk goes and with which it stops. Exit codes: 0 it
    does not conflict, 3 it does.
    """
    from auditor.cli.color import use_color
    from auditor.patching.past.explain import explain as tell
    from auditor.patching.planning.plan import plan

    found = load(patchset, folder)
    profiles = chosen_upstreams(found, (), (patch,))
    ((name, profile),) = profiles.items()
    near = clones_of(found, profiles, clone).get(name)
    if onto:
        tree = bases_of(found, profiles, onto, {name: near} if near else {})[name]
    else:
        tree = targets_of(found, profiles, to, installed)[0].tree
    sources = sources_for(tree, near, profile, made_for)
    there = elsewhere(found, profiles)
    planned = plan(found, tree, profile, sources=sources, stop=False, judge=judge_for(profile), there=there)
    repo = getattr(tree, "repo", None) or next(iter(clones(near, profile)), None)
    told = tell(planned, patch, sources, repo)
    since = since_of(told.entry, tree, repo, sources, profile, found.new_file)
    first = None
    if releases is not None:
        first = _first(found, patch, profile, near, made_for, [w for w in releases.split(",") if w])
    if form == "json":
        _say(_json(told, since, tree, first).decode())
    else:
        lines = _page(
            told,
            since,
            tree,
            onto[0] if onto else None,
            use_color(color, sys.stdout),
            full,
            quiet,
            found.name,
        )
        if first is not None:
            words = f"first of {releases}: {first}" if first else f"none of {releases} has it"
            lines.insert(1, words)
        _say("\n".join(lines) + "\n")
    return EXIT_CONFLICT if told.entry.outcome.status == "conflict" else EXIT_OK


def _first(
    found: Any, patch: str, profile: Any, clone: str | None, made_for: tuple[str, ...], releases: list[str]
) -> str:
    """The first of some releases, in the order given, on which the patch is upstream; "" if none is."""
    from auditor.patching.planning.plan import plan

    for release in releases:
        tree = base_tree(release, clone, profile)
        sources = sources_for(tree, clone, profile, made_for)
        there = elsewhere(found, [profile.name])
        entries = plan(
            found, tree, profile, sources=sources, stop=False, judge=judge_for(profile), there=there
        ).entries
        if next(e for e in entries if e.name == patch).outcome.status == "upstream":
            return release
    return ""


def since_of(entry: Planned, tree: Any, repo: Any, sources: Any, profile: Any, files: Any) -> Since | None:
    """Since when a patch is upstream; None where it is not, or no history tells."""
    if entry.outcome.status != "upstream" or repo is None:
        return None
    from auditor.patching.past.since import since, since_edits
    from auditor.patching.planning.remade import Names

    below = [f"{each}/" for each in profile.roots.repository if each]
    metadata = profile.start.metadata if profile.start is not None else ()
    names = [name for name in profile.markers if name.endswith("version.py")]
    names += [name for name in metadata if "*" not in name]
    versions = [top + name for top in below for name in names]
    outcome = entry.outcome
    if entry.changes is None:
        return since_edits(entry.patch, outcome, tree, repo, profile, files=files, version_files=versions)
    root = Names(profile, tree.blobs()).repository("")
    return since(entry.changes, outcome, tree, repo, blobs=sources.blob, root=root, version_files=versions)


def _say(text: str) -> None:
    from auditor.cli.output import write_bytes

    write_bytes(text.encode("utf-8", "backslashreplace"), None)


def _page(
    told: Explained,
    since: Since | None,
    tree: Any,
    onto: str | None,
    color: bool,
    full: bool,
    quiet: bool,
    patchset: str,
) -> list[str]:
    from auditor.cli.patches.page import hunk_lines, painted, remark
    from auditor.patching.model import GLYPHS

    entry = told.entry
    status = entry.outcome.status
    header = entry.patch.header
    head = painted(f"{GLYPHS[status]} {entry.name}", status, color)
    lines = [f"{head} on {tree_words(tree)}: {status}"]
    lines.append(f"wants     {header.title}")
    if header.why is not None:
        lines.append(f"why       {header.why.kind}: {header.why.link or header.why.reason}".rstrip(": "))
    if since is not None:
        lines.append(f"{since.text()}")
        lines.append(f"          {since.date} {since.subject}")
        lines += [f"          first release unknown: {since.why}"] if since.why else []
    elif status != "conflict":
        note = remark(entry)
        lines += [f"note      {note}"] if note else []
    if not told.stories:
        lines += [f"  {text}" for text in hunk_lines(entry.outcome)]
    for story in told.stories:
        lines += _story(story, color, full)
    if not quiet:
        lines += _next(patchset, onto, entry)
    return lines


def tree_words(tree: Any) -> str:
    """The tree as the head of a page names it."""
    return shown_tree(tree)


def _story(story: HunkStory, color: bool, full: bool) -> list[str]:
    from auditor.cli.patches.page import painted

    where = story.path if story.index < 0 else f"{story.path} {story.what} {story.index + 1}"
    symbol = f" in {story.symbol}" if story.symbol else ""
    lines = ["", painted(f"{where}{symbol}", "conflict", color)]
    lines += [f"  {story.fact}"] if story.fact else []
    culprit = story.culprit
    if culprit is not None:
        entry = culprit.entry
        lines.append(f"  culprit   {entry.oid[:9]} {entry.date} {entry.subject}")
        lines.append(f"            the {story.what} goes on the commit before it, and not with it")
        lines += [f"            told of the clone's main line: {story.why}"] if story.why else []
        if culprit.moved:
            lines.append(f"            it moved the file to {culprit.moved}")
        files = sorted(culprit.files, key=lambda each: story.path not in each)
        some = files if full else files[:4]
        shown = ", ".join(f"{kind} {old if old == new else f'{old} → {new}'}" for kind, old, new in some)
        more = len(culprit.files) - len(some)
        lines.append(f"  touched   {shown}{f' and {more} more' if more else ''}")
        if culprit.lost:
            some_lost = culprit.lost if full else culprit.lost[:8]
            names = ", ".join(f"{n.name} (perhaps now {n.now})" if n.now else n.name for n in some_lost)
            more = len(culprit.lost) - len(some_lost)
            lines.append(f"  took away {names}{f' and {more} more' if more else ''}")
    else:
        lines.append(f"  culprit   unknown: {story.why}")
    if story.also:
        some_also = story.also if full else story.also[-3:]
        names = ", ".join(f"{e.oid[:9]}{f' #{e.pr}' if e.pr else ''}" for e in some_also)
        lines.append(f"  also      {len(story.also)} more changed these lines: {names}")
    for title, side in (("patch", story.patch), ("upstream", story.upstream)):
        some_lines = side if full else side[:_SHOWN]
        for number, (mark, text) in enumerate(some_lines):
            label = f"{title:<9}" if number == 0 else " " * 9
            tint = {"-": "conflict", "+": "clean"}[mark]
            lines.append(f"  {label} {painted(f'{mark} {text}', tint, color)}")
        if len(side) > len(some_lines):
            lines.append(f"            … {len(side) - len(some_lines)} more lines (--full)")
    lines += [f"  near      {text}" for text in story.near]
    return lines


def _next(patchset: str, onto: str | None, entry: Planned) -> list[str]:
    base = f" --onto {onto}" if onto is not None else ""
    if entry.outcome.status == "conflict":
        rev = onto or "REV"
        retire = f"patches rebase {patchset} --onto {rev} --retire {entry.name}"
        return [
            "",
            f"next: patches rebase {patchset} --onto {rev}   # its files, marked, in rebase/{entry.name}/",
            f"      edit them, then: patches rebase {patchset} --continue",
            f"      or, if it is not wanted any more: {retire}",
        ]
    if entry.outcome.status in ("upstream", "obsolete") and base:
        return [f"next: patches rebase {patchset}{base} --retire {entry.name}"]
    return []


def _json(told: Explained, since: Since | None, tree: Any, first: str | None) -> bytes:
    from auditor.cli.patches.page import envelope

    info = tree.info()
    stories = []
    for story in told.stories:
        found: dict[str, Any] = {
            "path": story.path,
            "hunk": story.index,
            "symbol": story.symbol,
            "fact": story.fact,
            "patch": [f"{mark}{text}" for mark, text in story.patch],
            "upstream": [f"{mark}{text}" for mark, text in story.upstream],
            "why_unknown": story.why,
            "also": [_commit(entry) for entry in story.also],
            "near": list(story.near),
            "culprit": None,
        }
        if story.culprit is not None:
            found["culprit"] = _commit(story.culprit.entry) | {
                "moved": story.culprit.moved,
                "files": [list(each) for each in story.culprit.files],
                "lost": [{"name": lost.name, "now": lost.now} for lost in story.culprit.lost],
            }
        stories.append(found)
    return envelope(
        "explain",
        patch=told.entry.name,
        status=told.entry.outcome.status,
        tree={"kind": info.kind, "label": info.label, "id": info.content_id, "commit": info.commit},
        since=since_json(since),
        first_release=first,
        hunks=stories,
    )


def since_json(since: Since | None) -> dict[str, Any] | None:
    """The same as data."""
    if since is None:
        return None
    return {
        "commit": since.oid,
        "date": since.date,
        "subject": since.subject,
        "pr": since.pr,
        "release": since.release or None,
        "note": since.why,
        "hunks": since.hunks,
        "of": since.of,
    }


def _commit(entry: Any) -> dict[str, Any]:
    return {"commit": entry.oid, "date": entry.date, "subject": entry.subject, "pr": entry.pr}
