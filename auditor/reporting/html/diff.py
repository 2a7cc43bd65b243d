"""``audit diff`` and ``audit guard`` as one self-contained HTML page: a row a change.

The guard's page begins with its verdict and with what to do now; what tripped comes first and says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from auditor.gates.model import Gate, Report
from auditor.history.model import KINDS, Change, Commit, Diff, PatchState
from auditor.reporting import whattodo
from auditor.reporting.diffpage import QUIET_KINDS
from auditor.reporting.html.document import Texts, document, repository
from auditor.reporting.html.gate import gate_facts, known_targets, predicate_facts
from auditor.reporting.notes import GROUPS, PATCH_NEWS, arm_lines, group_of

#: The row kind of what becomes of patches; the others are those of changes.
_PATCH = "patch"
_MEANING = {**KINDS, _PATCH: "what becomes of a patch that you carry, or of a check of the patched tree"}
#: Pull requests that the head lists.
_MOST_PULLS = 12


#: Why a change tripped that would not by itself.
_ASKED = "asked for with --trip-on or --fail-on, or gates that tripped follow from it"


class Judged(NamedTuple):
    """What a guard says of a comparison: what tripped it, and what is said where nothing did."""

    tripped: tuple[Change, ...]
    quiet: str


def page(
    diff: Diff,
    lines: Iterable[str],
    new: Report,
    *,
    old: Report | None = None,
    judged: Judged | None = None,
    url: str = "",
    repo: str = "",
) -> bytes:
    """The page as UTF-8. The same comparison gives the same bytes.

    ``lines`` are its head, ``new`` the newer audit, ``old`` the older. ``judged``: it is the page of a guard,
    and ``diff`` holds all changes, also those that did not trip it. ``url`` is the project's public
    repository, for links; ``repo`` the option that names the clone, for commands (" --repo PATH" or "").
    """
    title = f"{diff.project} {diff.old.label} → {diff.new.label}"
    return document(
        title,
        lines,
        facts=_facts(diff, new, old, judged, url, repo),
        scripts=("page.js", "gate.js", "diff.js"),
        problems=(f"{p.path}:{p.line} {p.message}" for p in new.problems),
    )


def _facts(
    diff: Diff, new: Report, old: Report | None, judged: Judged | None, url: str, repo: str
) -> dict[str, Any]:
    texts = Texts()
    every = known_targets(new)
    at = whattodo.trees(diff, repo)
    changes = _marked(diff.changes, judged)
    gates = {gate.id: gate for gate in new.gates}
    shown = [gates[change.gate] for change, _ in changes if change.kind != "removed" and change.gate in gates]
    rows = [_row(change, trips, diff, gates, texts, every, at, judged) for change, trips in changes]
    gone = {gate.id: gate for gate in old.gates} if old is not None else {}
    for row, (change, _) in zip(rows, changes, strict=True):
        if change.kind == "removed" and change.gate in gone:
            row["r"] = gate_facts(gone[change.gate], texts, every).get("w", [])
    rows += [_patch_row(state, diff, texts, at) for state in diff.patches]
    follow = Counter(change.follows for change in diff.changes if change.follows)
    weight = list(GROUPS)
    # what tripped comes first: the surest loss, and of these what most hangs on; the rest as it was compared
    rows.sort(key=lambda row: (weight.index(row["k"]), -follow[row.get("i", "")]) if "x" in row else (99, 0))
    return {
        "targets": every,
        "shown": list(diff.targets),
        "kinds": [[kind, _MEANING[kind]] for kind in _MEANING if any(row["y"] == kind for row in rows)],
        "quietKinds": list(QUIET_KINDS),
        "groups": [
            [name, text] for name, text in GROUPS.items() if any(row.get("k") == name for row in rows)
        ],
        "names": [diff.old.label, diff.new.label],
        "rows": rows,
        "predicates": predicate_facts(new, shown, texts, every),
        "guard": _guard(diff, judged, changes, texts, at) if judged is not None else None,
        "upstream": repository(url),
        "tree": diff.new.commit or "",
        "oldTree": diff.old.commit or "",
        "texts": texts.all,
    }


def _marked(changes: Iterable[Change], judged: Judged | None) -> list[tuple[Change, bool]]:
    """Each change, as the guard tells it where it tripped, and whether it did."""
    tripped = {_name(change): change for change in judged.tripped} if judged is not None else {}
    return [(tripped.get(_name(change), change), _name(change) in tripped) for change in changes]


def _name(change: Change) -> tuple[object, ...]:
    return change.kind, change.gate, change.row, change.path, change.line, change.what


def _row(
    change: Change,
    trips: bool,
    diff: Diff,
    gates: dict[str, Gate],
    texts: Texts,
    every: list[str],
    at: whattodo.Trees,
    judged: Judged | None,
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "y": change.kind,
        "a": texts(change.area or "other"),
        "p": texts(change.path),
        "l": change.line,
        "s": texts(change.symbol),
        "b": texts(change.what),
        "f": [
            [target, texts(change.before.get(target, "")), texts(change.after.get(target, ""))]
            for target in dict.fromkeys((*change.before, *change.after))
        ],
    }
    if change.gate:
        row["i"] = change.gate
    if change.old_gate:
        row["j"] = change.old_gate
    if change.old_path:
        row["q"], row["m"] = texts(change.old_path), change.old_line
    if change.old_what and change.old_what != change.what:
        row["e"] = texts(change.old_what)
    if change.why:
        row["h"] = texts(change.why)
    if change.row:
        row["z"] = change.row
    if change.follows:
        row["d"] = change.follows
    if change.commits:
        row["v"] = [_commit(commit, texts) for commit in change.commits]
    if change.gate in gates and change.kind != "removed":
        gate = gates[change.gate]
        row["g"] = {**gate_facts(gate, texts, every), "v": [gate.verdict.get(t, "") for t in every]}
    if arms := arm_lines(change):
        row["o"] = texts.many(arms)
    if judged is not None and trips:
        row["x"], row["k"] = 1, group_of(change)
        row["w"] = texts(_because(change))
        row["u"] = _steps(whattodo.of_change(change, diff, at), texts)
    return row


def _because(change: Change) -> str:
    """Why a change tripped: what its kind is about, for whom, or that others follow from it."""
    if change.refuses:
        return f"{whattodo.REFUSED}: {' '.join(change.refuses)}"
    known = whattodo.TRIPS.get(change.kind)
    if known is not None and change.own:
        return f"{known}: {' '.join(change.own)}"
    if known is None or not change.after:
        return known if known and "flag" in (change.kind, change.row) else _ASKED
    open_ = [target for target, after in change.after.items() if after == "unknown"]
    other = [target for target in change.after if target not in open_]
    said = [f"{known}: {' '.join(other)}"] if other else []
    return "; ".join([*said, *([f"{whattodo.OPEN}: {' '.join(open_)}"] if open_ else [])])


def _patch_row(state: PatchState, diff: Diff, texts: Texts, at: whattodo.Trees) -> dict[str, Any]:
    loud = state.trips or state.status in PATCH_NEWS
    row: dict[str, Any] = {
        "y": _PATCH,
        "a": texts("patches"),
        "p": texts(state.path),
        "l": state.line,
        "s": texts(f"{state.patchset}: {state.name}"),
        "b": texts(state.note),
        "f": [["", texts(state.before if state.before != state.status else ""), texts(state.status)]],
        "c": state.kind,
    }
    if state.detail:
        row["n"] = texts.many(state.detail)
    if state.trips:
        row["x"], row["k"] = 1, "patches"
        row["w"] = texts(
            "it does not go on the newer tree" if state.kind == _PATCH else "it does not hold there"
        )
    if loud:
        row["u"] = _steps(whattodo.of_patch(state, diff, at), texts)
    return row


def _commit(commit: Commit, texts: Texts) -> list[int]:
    return [texts(commit.id), texts(commit.date), texts(commit.pr), texts(commit.subject)]


def _steps(steps: Iterable[whattodo.Step], texts: Texts) -> list[list[Any]]:
    return [[texts(step.words), texts.many(step.commands)] for step in steps]


def _guard(
    diff: Diff,
    judged: Judged,
    changes: Collection[tuple[Change, bool]],
    texts: Texts,
    at: whattodo.Trees,
) -> dict[str, Any]:
    """The head of a guard's page: its verdict, what to do now, and which pull requests it comes down to."""
    tripped = [change for change, trips in changes if trips]
    patches = sum(state.trips for state in diff.patches)
    pulls: Counter[Commit] = Counter(c.commits[0] for c in tripped if len(c.commits) == 1)
    told = sorted(pulls.items(), key=lambda item: (-item[1], item[0].date, item[0].id))
    open_ = sum(len(change.commits) != 1 for change in tripped)
    return {
        "tripped": len(tripped),
        "patches": patches,
        "quiet": texts(judged.quiet),
        "steps": _steps(whattodo.of_guard(diff, at, len(tripped), patches), texts),
        "pulls": [[_commit(commit, texts), number] for commit, number in told[:_MOST_PULLS]],
        "morePulls": max(0, len(told) - _MOST_PULLS),
        "noCommit": open_ if told else 0,
    }
