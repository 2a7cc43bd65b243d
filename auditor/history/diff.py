"""Two audits compared: what changed in meaning, target by target, and what only moved."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher
from typing import Any

import msgspec

from auditor import __version__
from auditor.errors import UserError
from auditor.gates.model import Gate, Report
from auditor.history.arms import arm_words, own_arm, refuses
from auditor.history.causes import with_causes
from auditor.history.defaults import with_flipped_defaults
from auditor.history.findings import finding_changes
from auditor.history.flags import Flag
from auditor.history.join import join, same_condition
from auditor.history.model import KINDS, Change, Diff
from auditor.history.words import short_name
from auditor.native.model import Availability, Cell, Row

SCHEMA_VERSION = "1.2"
_ORDER = list(KINDS)


def compare(
    old: Report,
    new: Report,
    *,
    kernels: tuple[Availability, Availability] | None = None,
    flags: tuple[Mapping[str, Flag], Mapping[str, Flag]] | None = None,
    notes: Iterable[str] = (),
) -> Diff:
    """What changed from ``old`` to ``new``. UserError H001 where the two were not asked the same."""
    _refuse_other_questions(old, new)
    changes, stats = gate_changes(old, new)
    changes = with_causes(changes, new, old)
    changes += finding_changes(old, new)
    if kernels is not None:
        changes += kernel_changes(*kernels, new.targets)
    if flags is not None:
        changes += with_flipped_defaults(flag_changes(*flags), *flags, new)
    counted = Counter(change.kind for change in changes)
    stats.update({kind: counted[kind] for kind in KINDS if counted[kind]})
    return Diff(
        schema_version=SCHEMA_VERSION,
        tool=f"sglang-auditor {__version__}",
        project=new.project,
        old=old.tree,
        new=new.tree,
        targets=new.targets,
        reference=new.reference,
        assumptions=new.assumptions,
        changes=tuple(sorted(changes, key=_key)),
        stats=stats,
        notes=tuple(notes),
    )


def _refuse_other_questions(old: Report, new: Report) -> None:
    """UserError H001 with both answers and the option that asks what the older audit was asked."""
    for name, option in (("project", "--project"), ("targets", "--target"), ("reference", "--against")):
        was, now = (
            ",".join(value) if isinstance(value, tuple) else value
            for value in (getattr(old, name), getattr(new, name))
        )
        if was != now:
            raise UserError(
                "H001",
                f"the two audits differ in their {name}, {was} and {now}:"
                " what changed cannot be told from what was asked",
                place=f"{old.tree.label} and {new.tree.label}",
                hints=[f"{option} {was}"],
            )
    if old.assumptions != new.assumptions:
        was, now = (
            " ".join(f"--assume {key}={value}" for key, value in report.assumptions.items())
            for report in (old, new)
        )
        raise UserError(
            "H001",
            f"the two audits differ in their assumptions, {was or 'none'} and {now or 'none'}",
            place=f"{old.tree.label} and {new.tree.label}",
            hints=[was or f"without {now}"],
        )


def _key(change: Change) -> tuple[object, ...]:
    return _ORDER.index(change.kind), change.path, change.line, change.what, change.gate


# -- gates -----------------------------------------------------------------------------------------


def outcome(gate: Gate, target: str) -> str:
    """Which way a target goes at a gate, in a word."""
    if gate.reached[target] == "false":
        return "not reached"
    return {"true": "yes", "false": "no", "unknown": "unknown"}[gate.truth[target]]


def gate_changes(old: Report, new: Report) -> tuple[list[Change], dict[str, int]]:
    """Changes of gates, and how many are the same (and of these how many undecided on both sides)."""
    pairs, removed, added = join(old.gates, new.gates)
    changes = []
    same = undecided = 0
    for a, b in pairs:
        change = change_of(a, b, new.targets)
        if change is None:
            same += 1
            undecided += any(outcome(b, target) == "unknown" for target in new.targets)
        else:
            changes.append(change)
    there = _functions(old)
    for gate in added:
        change = came(gate, new.targets)
        if f"{gate.path}:{gate.symbol}" in there:
            stopped = tuple(target for target in new.targets if refuses(gate, target))
            change = msgspec.structs.replace(change, refuses=stopped)
        changes.append(change)
    here = {key for gate in added for key in same_condition(gate)}
    for gate in removed:
        change = went(gate, old.targets)
        if change.own and not here.isdisjoint(same_condition(gate)):
            change = msgspec.structs.replace(change, own=())  # it is asked elsewhere now
        changes.append(change)
    return changes, {"gates": len(new.gates), "same": same, "undecided in both": undecided}


def _functions(report: Report) -> set[str]:
    """Functions that ask for the GPU, as path:symbol: what an audit knows of what was there."""
    out = {f"{gate.path}:{gate.symbol}" for gate in report.gates}
    modules = {gate.path: gate.module for gate in report.gates}
    for item in report.predicates:
        if item.path in modules:
            out.add(f"{item.path}:{item.name.removeprefix(modules[item.path] + '.')}")
    return out


def came(gate: Gate, targets: tuple[str, ...]) -> Change:
    """A gate that was not there before."""
    return _of_gate("added", gate, after={target: outcome(gate, target) for target in targets})


def went(gate: Gate, targets: tuple[str, ...]) -> Change:
    """A gate that is not there any more."""
    return _of_gate(
        "removed",
        gate,
        before={target: outcome(gate, target) for target in targets},
        own=tuple(target for target in targets if own_arm(gate, target)),
    )


def _of_gate(kind: str, gate: Gate, **facts: Any) -> Change:
    return Change(
        kind=kind,
        what=gate.predicate,
        path=gate.path,
        line=gate.line,
        symbol=gate.symbol,
        gate=gate.id,
        area=gate.area,
        **facts,
    )


def change_of(a: Gate, b: Gate, targets: tuple[str, ...]) -> Change | None:
    """What changed between two states of one gate, or None."""
    differing = [target for target in targets if outcome(a, target) != outcome(b, target)]
    other_words = a.predicate != b.predicate
    if differing:
        kind = "predicate" if other_words and _elsewhere(a, b, targets) else "outcome"
    elif other_words:
        # the same on the targets asked for; "means the same" is said only if it does on all of them
        kind = "predicate" if (a.truth, a.reached) != (b.truth, b.reached) else "respelled"
    elif a.path != b.path or a.symbol != b.symbol:
        kind = "moved"
    else:
        return None
    return _of_gate(
        kind,
        b,
        old_gate=a.id if a.id != b.id else "",
        old_path=a.path if a.path != b.path else "",
        old_line=a.line if a.path != b.path else 0,
        old_what=a.predicate if other_words else "",
        before={target: outcome(a, target) for target in differing},
        after={target: outcome(b, target) for target in differing},
        did=_told(a, differing),
        does=_told(b, differing),
        why=_open(a, b, differing),
    )


#: Reasons that are told for what is open.
_REASONS = 3


def _open(was: Gate, now: Gate, targets: Iterable[str]) -> str:
    """What has to be known where a target's way is open, the reasons that are new first."""
    if not any(outcome(now, target) == "unknown" for target in targets):
        return ""
    reasons = sorted(now.unknown_because, key=lambda reason: (reason in was.unknown_because, reason))
    more = f" and {len(reasons) - _REASONS} more" if len(reasons) > _REASONS else ""
    return f"open: {', '.join(reasons[:_REASONS])}{more}" if reasons else ""


def _told(gate: Gate, targets: Iterable[str]) -> dict[str, str]:
    words = {target: arm_words(gate, target) for target in targets}
    return {target: text for target, text in words.items() if text}


def _elsewhere(a: Gate, b: Gate, targets: tuple[str, ...]) -> bool:
    """Whether what changed for the targets is only between decided and undecided."""
    return all(
        "unknown" in (outcome(a, target), outcome(b, target))
        for target in targets
        if outcome(a, target) != outcome(b, target)
    )


# -- kernels ---------------------------------------------------------------------------------------


def kernel_changes(old: Availability, new: Availability, targets: tuple[str, ...]) -> list[Change]:
    """Operators that a target gained or lost, or of which that cannot be said any more."""
    before = {(row.kind, row.name): row for row in old.rows}
    after = {(row.kind, row.name): row for row in new.rows}
    gone = [row for key, row in before.items() if key not in after]
    come = [row for key, row in after.items() if key not in before]
    renamed = _moved_rows(gone, come)
    # a kernel that was built ahead and is compiled at run time now is the same one
    taken = {*renamed, *renamed.values()}
    renamed |= _moved_rows(
        [row for row in gone if row.kind == "op" and (row.kind, row.name) not in taken],
        [row for row in come if row.kind == "jit" and (row.kind, row.name) not in taken],
        any_kind=True,
    )
    out = []
    for key in sorted({*before, *after}):
        if key in renamed.values():
            continue  # told with the name it has now
        was, now = before.get(key), after.get(key)
        if now is not None and key in renamed:
            was = before[renamed[key]]
        row = now or was
        assert row is not None
        names = [t for t in targets if _cell(was, t).outcome != _cell(now, t).outcome]
        moved = was if was is not None and (was.name, was.path) != (row.name, row.path) else None
        if not names and moved is None:
            continue
        elsewhere = moved is not None and moved.path != row.path
        out.append(
            Change(
                kind="kernel" if names else "moved",
                what=row.name,
                path=row.path,
                line=row.line,
                old_what=moved.name if moved and moved.name != row.name else "",
                old_path=moved.path if moved and elsewhere else "",
                old_line=moved.line if moved and elsewhere else 0,
                before={t: _cell(was, t).outcome for t in names},
                after={t: _cell(now, t).outcome for t in names},
                why=_why(now, names),
                row=row.kind,
                area=row.area,
            )
        )
    return out


def _moved_rows(
    gone: list[Row], come: list[Row], any_kind: bool = False
) -> dict[tuple[str, str], tuple[str, str]]:
    """New key -> old key of kernels that stand elsewhere now: the same function, as often on each side.

    Of several with one name those are the same that share most of the rest of it (a folder kept its name).
    """
    left: dict[tuple[str, str], list[Row]] = {}
    right: dict[tuple[str, str], list[Row]] = {}
    for rows, by_name in ((gone, left), (come, right)):
        for row in rows:
            backend = row.name.partition("[")[2]
            kind = "" if any_kind else row.kind
            by_name.setdefault((kind, f"{short_name(row.name)}[{backend}"), []).append(row)
    out = {}
    for name in sorted(left.keys() & right.keys()):
        if len(left[name]) == len(right[name]):
            for a, b in _by_shared_parts(left[name], right[name]):
                out[b.kind, b.name] = a.kind, a.name
    return out


def _by_shared_parts(old: list[Row], new: list[Row]) -> list[tuple[Row, Row]]:
    def shared(a: Row, b: Row) -> int:
        parts = [set(re.split(r"[./:]+", f"{row.name} {row.path}".replace(" ", "/"))) for row in (a, b)]
        return len(parts[0] & parts[1])

    options = [(-shared(a, b), a.name, b.name, a, b) for a in old for b in new]
    gone: set[str] = set()
    taken: set[str] = set()
    pairs = []
    for _, a_name, b_name, a, b in sorted(options, key=lambda option: option[:3]):
        if a_name not in gone and b_name not in taken:
            gone.add(a_name)
            taken.add(b_name)
            pairs.append((a, b))
    return pairs


def _why(now: Row | None, targets: list[str]) -> str:
    """The reason in the newer tree, per target where they differ."""
    if now is None:
        return "no longer registered"
    reasons = {target: _cell(now, target).reason for target in targets}
    if len(set(reasons.values())) < 2:
        return next(iter(reasons.values()), "")
    return "; ".join(f"{target}: {reason}" for target, reason in reasons.items() if reason)


def _cell(row: Row | None, target: str) -> Cell:
    return Cell("absent") if row is None else row.cells.get(target, Cell("unknown"))


# -- flags -----------------------------------------------------------------------------------------


def flag_changes(old: Mapping[str, Flag], new: Mapping[str, Flag]) -> list[Change]:
    """Declared flags that came, went, were renamed or got another default."""
    if not old or not new:
        return []
    gone = [old[name] for name in sorted(old) if name not in new]
    come = [new[name] for name in sorted(new) if name not in old]
    out = []
    for flag in gone:
        options = [
            (SequenceMatcher(None, flag.name, other.name, autojunk=False).ratio(), other.name, other)
            for other in come
            if other.declared == flag.declared
        ]
        best = max(options, default=None, key=lambda option: option[:2])
        if best is not None and best[0] >= 0.8:
            come.remove(best[2])
            out.append(_of_flag(best[2], old_what=flag.name, why="renamed"))
        else:
            out.append(_of_flag(flag, why="dropped"))
    out += [_of_flag(flag, why="declared") for flag in come]
    for name in sorted({*old} & {*new}):
        if old[name].declared != new[name].declared:
            why = f"declared as {new[name].declared}, was {old[name].declared}"
            out.append(_of_flag(new[name], why=why))
    return out


def _of_flag(flag: Flag, *, why: str, old_what: str = "") -> Change:
    return Change(kind="flag", what=flag.name, path=flag.path, line=flag.line, why=why, old_what=old_what)
