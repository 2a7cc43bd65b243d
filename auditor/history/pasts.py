"""What files that are already there know of the past of many gates: sweeps, histories, comparisons.

A sweep names a gate by file, symbol, kind and condition, an audit by an id; both spell conditions alike, so
the gates of the newest tree are followed back from there: through moves by symbol, kind and condition, as a
sweep itself follows them, and through comparisons by the older id that each change names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from auditor.gates.model import Gate
from auditor.history.model import Change, Commit, Diff
from auditor.history.past import Past
from auditor.history.sweeping.model import CommitLine, GateChange, GateFact, Head

#: Conditions of one symbol, of which one goes where the other comes, are two gates if they are less alike.
_ALIKE = 0.6
_Key = tuple[str, str, str]  # symbol, kind, condition
#: How the values of a sweep are said, as everywhere else.
_WORDS = {"true": "yes", "false": "no", "unknown": "unknown"}


class Event(NamedTuple):
    """Something that changed what a gate means."""

    commit: str  # "" where it is only known between which trees it lies
    date: str
    pr: str  # number, "" if its subject names none
    subject: str
    what: str  # "sm_120: no → yes"


class Pasts(NamedTuple):
    """The events of gates by id, oldest first; per source what it is, and what it means to have none."""

    events: Mapping[str, Sequence[Event]]
    sources: tuple[tuple[str, str], ...]

    def __add__(self, other: object) -> Pasts:
        """Both: the events of a gate from each, in the order of their dates where they have any."""
        assert isinstance(other, Pasts)
        events = {gate: list(found) for gate, found in self.events.items()}
        for gate, found in other.events.items():
            here = events.setdefault(gate, [])
            known = {event[0:2] for event in here if event.commit}
            here += [event for event in found if event[0:2] not in known]
            if all(event.date for event in here):
                here.sort(key=lambda event: event.date)
        return Pasts(events, (*self.sources, *other.sources))


def of_sweep(gates: Iterable[Gate], head: Head, lines: Iterable[CommitLine]) -> Pasts:
    """What a sweep says of these gates. One of level ``full`` counts alone and says nothing of gates."""
    between = f"{head.first[:9] or 'the first commit'}..{head.last[:9]}"
    if head.setup.level != "quick":
        source = f"the sweep of {between} holds whole audits: it counts gates and follows none"
        return Pasts({}, ((source, ""),))
    told = list(lines)
    by_key: dict[_Key, list[tuple[int, GateChange]]] = {}
    for number, line in enumerate(told):
        for change in line.changes:
            by_key.setdefault(_key(change.gate), []).append((number, change))
    here = list(gates)
    many = Counter(_key(gate) for gate in here)
    events = {}
    for gate in here:
        found = _followed(gate, told, by_key, alone=many[_key(gate)] == 1)
        if found:
            events[gate.id] = found[::-1]
    source = f"quick sweep of {len(told):,} of {head.commits:,} commits, {between}"
    return Pasts(events, ((source, f"no commit of {between} changed it, as far as a quick sweep sees"),))


def _followed(
    gate: Gate,
    told: Sequence[CommitLine],
    by_key: Mapping[_Key, list[tuple[int, GateChange]]],
    *,
    alone: bool,
) -> list[Event]:
    """The events of a gate, newest first. ``alone``: no other gate of its tree has the same words."""
    key, path, last = _key(gate), gate.path, len(told)
    out: list[Event] = []
    while True:
        for number, change in reversed(by_key.get(key, ())):
            # of the same words in two files, what was said of the other one is not taken
            if number >= last or not (alone or path in (change.gate.path, change.old_path)):
                continue
            line, last = told[number], number
            before = _spelled(change, line) if change.kind == "added" else None
            what = _ways(change.kind, change.before, change.after)
            if before is not None:
                what = _ways("condition changed", before.before, change.after)
                what += f"  (was {before.gate.predicate})"
            out.append(Event(line.commit, line.date, line.pr, "", what))
            path = change.old_path or change.gate.path
            if before is not None:
                key = _key(before.gate)
                break  # from here on under the words that it had
            if change.kind in ("added", "removed"):
                return out
        else:
            return out


def _spelled(new: GateChange, line: CommitLine) -> GateChange | None:
    """The gate that a commit spelled otherwise: gone from the same symbol and kind, with words like these."""
    own = new.gate
    best, score = None, _ALIKE
    for change in line.changes:
        gone = change.gate
        if change.kind == "removed" and (gone.path, gone.symbol, gone.kind) == (
            own.path,
            own.symbol,
            own.kind,
        ):
            alike = SequenceMatcher(None, gone.predicate, own.predicate, autojunk=False).ratio()
            if alike >= score:
                best, score = change, alike
    return best


def _key(gate: Gate | GateFact) -> _Key:
    return gate.symbol, gate.kind, gate.predicate


def _ways(kind: str, before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """``changed  sm_120: no → yes``."""
    words = {
        t: (_WORDS.get(before.get(t, ""), ""), _WORDS.get(after.get(t, ""), "")) for t in (*before, *after)
    }
    return said(kind, words)


def said(kind: str, ways: Mapping[str, tuple[str, str]]) -> str:
    """What happened in one line, targets that went the same way together."""
    groups: dict[tuple[str, str], list[str]] = {}
    for target, pair in ways.items():
        groups.setdefault(pair, []).append(target)
    parts = [
        f"{' '.join(names)}: {' → '.join(word for word in pair if word)}"
        for pair, names in groups.items()
        if pair[0] != pair[1]
    ]
    return f"{kind}  {' · '.join(parts)}" if parts else kind


def of_history(found: Past) -> Pasts:
    """What ``audit history`` wrote of one gate."""
    events = [_event(change) for change in found.events]
    source = f"audit history of {found.gate}, {found.old} → {found.new}"
    return Pasts({found.gate: events} if events else {}, ((source, ""),))


def of_diffs(gates: Iterable[Gate], found: Sequence[Diff]) -> Pasts:
    """What comparisons say of these gates, the newest last; each follows on from the one before."""
    names = {gate.id: gate.id for gate in gates}  # the id that a gate has at the tree looked at, and now
    events: dict[str, list[Event]] = {}
    for diff in reversed(found):
        later: dict[str, str] = {}
        gone = set[str]()
        for change in diff.changes:
            if change.gate not in names or change.kind == "removed":
                continue
            now = names[change.gate]
            if change.kind not in ("moved", "respelled"):
                events.setdefault(now, []).insert(0, _event(change, f"{diff.old.label} → {diff.new.label}: "))
            if change.kind == "added":
                gone.add(change.gate)
            elif change.old_gate:
                gone.add(change.gate)
                later[change.old_gate] = now
        names = {**{old: now for old, now in names.items() if old not in gone}, **later}
    sources = [f"comparison {diff.old.label} → {diff.new.label}" for diff in found]
    return Pasts(events, tuple((source, "") for source in sources))


def _event(change: Change, head: str = "") -> Event:
    commit = change.commits[0] if len(change.commits) == 1 else Commit("", "", "", "")
    ways = {
        target: (change.before.get(target, ""), change.after.get(target, ""))
        for target in dict.fromkeys((*change.before, *change.after))
    }
    return Event(commit.id, commit.date, commit.pr, commit.subject, head + said(change.kind, ways))


__all__ = ["Event", "Pasts", "of_diffs", "of_history", "of_sweep", "said"]
