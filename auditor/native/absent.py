"""What the main audit says about operators that are not there: rows of the tree, sites, findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

import msgspec

from auditor.arch import load_targets
from auditor.errors import UserError
from auditor.gates.model import Finding, Problem
from auditor.gates.path.packages import requirements
from auditor.native.model import Row
from auditor.native.sites.facts import NativeFacts, known_versions, load_facts
from auditor.native.sites.findings import findings, merged, settled
from auditor.native.sites.run import derive
from auditor.native.sources.digest import native_digest
from auditor.profile import Profile
from auditor.program.program import Program
from auditor.readback import Damaged, from_json
from auditor.trees.base import SourceTree
from auditor.trees.cache import cached_bytes, store_bytes
from auditor.trees.names import normal_name

ROWS = "native-rows"


class Kept(NamedTuple):
    """Rows of operators, and what could not be read for them."""

    rows: tuple[Row, ...]
    problems: tuple[Problem, ...]


class Pinned(NamedTuple):
    """A package of kernels as a tree asks for it, and what is known of that version."""

    text: str  # "sglang-kernel==0.4.4"
    path: str
    line: int
    facts: NativeFacts | None


def rows_of(
    tree: SourceTree, profile: Profile, assumptions: Mapping[str, str], *, tool: str = "", digest: str = ""
) -> Kept:
    """The operators of a tree's native source. ``tool`` names this version of the tool: with it and the
    ``digest`` of the sources, rows are kept for other trees with the same sources."""
    from auditor.native.availability import availability
    from auditor.native.world import KernelOptions

    given = {k: v for k, v in assumptions.items() if k in ("cuda", "machine") or k.startswith("cmake.")}
    key = ""
    if tool and digest:
        key = sha256(
            "\0".join((tool, digest, profile.name, repr(sorted(given.items())))).encode()
        ).hexdigest()
        stored = cached_bytes(ROWS, key)
        if stored is not None:
            try:
                return from_json(stored, Kept)
            except Damaged:
                pass
    try:
        found = availability(
            tree, KernelOptions(tuple(load_targets()), given, profile.name, profile, declared=False)
        )
    except UserError as error:
        if error.code == "N001":
            return Kept((), ())
        return Kept((), (Problem((error.place or "").partition(":")[0], 1, error.fact),))
    kept = Kept(found.rows, found.problems)
    if key:
        store_bytes(ROWS, key, msgspec.json.encode(kept))
    return kept


def pinned_facts(tree: SourceTree, profile: Profile) -> Pinned | None:
    """The package of kernels that a tree asks for, where its metadata says so. UserError N020."""
    root = profile.root_of(tree.blobs())
    ours = {normal_name(name) for name in profile.native_distributions}
    for item in requirements(tree, profile, root or "") if root is not None else ():
        if item.name in ours and not item.extra:
            facts = load_facts(item.name, item.version) if item.version else None
            return Pinned(item.text.partition(";")[0].strip(), item.place.path, item.place.line, facts)
    return None


def from_facts(
    found: list[Finding],
    tree: SourceTree,
    program: Program,
    profile: Profile,
    targets: Sequence[str],
    assumptions: Mapping[str, str],
    pinned: Pinned,
) -> list[Finding]:
    """The same for a tree without native source, from what is known of the version that it pins; one note
    where nothing is known."""
    facts = pinned.facts
    if facts is None:
        have = ", ".join(v for name in profile.native_distributions for v in known_versions(name))
        why = f"nothing is known of {pinned.text}" + (f", only of {have}" if have else "")
        return [*found, _silent(pinned, why, targets)]
    rows = facts.rows(program.world.cuda, assumptions.get("machine"))
    unknown = [t for t in targets if all(row.cells[t].reason.startswith("no facts about") for row in rows)]
    if unknown:
        found = [*found, _silent(pinned, rows[0].cells[unknown[0]].reason, targets)]
    uses = facts.uses(program.full)
    derived = derive(tree, program, profile, rows, targets, assumptions, uses)
    return merged(found, findings(derived, rows, targets), settled(derived, rows, targets))


def _silent(pinned: Pinned, why: str, targets: Sequence[str]) -> Finding:
    return Finding(
        query="",
        gate="",
        path=pinned.path,
        line=pinned.line,
        symbol="",
        verdict=dict.fromkeys(targets, "undecided"),
        severity="note",
        message=f"calls of compiled kernels are not judged: {why}",
        detail=("no call is called unguarded in this report, and that says nothing about the tree",),
    )


def with_unguarded(
    found: list[Finding],
    tree: SourceTree,
    program: Program,
    profile: Profile,
    targets: Sequence[str],
    assumptions: Mapping[str, str],
    kept: Kept,
) -> list[Finding]:
    """``found`` and the calls of operators that are not there for a target, each place once."""
    if not kept.rows:
        return found
    derived = derive(tree, program, profile, kept.rows, targets, assumptions)
    own = findings(derived, kept.rows, targets)
    return merged(found, own, settled(derived, kept.rows, targets))


__all__ = ["Kept", "Pinned", "from_facts", "pinned_facts", "native_digest", "rows_of", "with_unguarded"]
