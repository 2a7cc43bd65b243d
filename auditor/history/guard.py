"""Which changes between two audits should stop a person: what a target lost, not what moved or got better."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

import msgspec

from auditor.gates.model import Gate
from auditor.history.model import Change, Diff

#: What an operator that does not run gives, besides not being known.
_NO_KERNEL = ("not-built", "raises", "falls-through", "absent")
#: Kernels in the project itself: one that is deleted goes with its callers, for every target alike.
_WITH_THEIR_CALLERS = ("jit", "triton")
_WORSE = ("env-forced", "wrong-default")


def tripping(diff: Diff, kinds: Collection[str] = (), deliberate: Collection[str] = ()) -> tuple[Change, ...]:
    """The changes that trip the guard, in their order. With ``kinds``: all changes of these kinds.

    Gates whose ids are ``deliberate`` trip nothing.
    """
    found = diff.changes
    if deliberate:
        found = tuple(c for c in found if {c.gate, c.old_gate}.isdisjoint(deliberate))
    if kinds:
        return tuple(change for change in found if change.kind in kinds)
    trips = [_trips(change, diff.targets) for change in found]
    # that a condition is asked, or no longer, and says no: what leads there or away is the change
    told = {(c.path, c.symbol) for c, trip in zip(found, trips, strict=True) if trip and not _only_asked(c)}
    # and so is an arm that they take and that came or went there
    told |= {
        (c.path, c.symbol)
        for c in found
        if c.kind in ("added", "removed") and "yes" in {*c.before.values(), *c.after.values()}
    }
    trips = [
        trip and not (_only_asked(c) and (c.path, c.symbol) in told)
        for c, trip in zip(found, trips, strict=True)
    ]
    # the change that others follow from is what a person has to look at
    causes = {change.follows for change, trip in zip(found, trips, strict=True) if trip and change.follows}
    return tuple(c for c, trip in zip(found, trips, strict=True) if trip or (c.gate and c.gate in causes))


def judged(
    diff: Diff, gates: Iterable[Gate], verdicts: Collection[str], deliberate: Collection[str] = ()
) -> tuple[Change, ...]:
    """New and changed gates that give a target one of these verdicts, each with that as its reason.

    ``gates`` are those of the newer tree.
    """
    known = {gate.id: gate for gate in gates if gate.id not in deliberate}
    out = []
    for change in diff.changes:
        gate = known.get(change.gate) if change.kind in ("added", "predicate", "outcome") else None
        if gate is None:
            continue
        hit = {t: gate.verdict[t] for t in diff.targets if gate.verdict.get(t) in verdicts}
        if hit:
            said = ", ".join(f"{verdict} on {target}" for target, verdict in hit.items())
            why = f"{change.why}; {said}" if change.why else said
            out.append(msgspec.structs.replace(change, why=why))
    return tuple(out)


def joined(diff: Diff, changes: Collection[Change], others: Collection[Change]) -> tuple[Change, ...]:
    """Both, each once, in the order of the comparison; of a gate in both, that of ``others``."""
    first = {id(change) for change in changes}
    instead = {(change.kind, change.gate): change for change in others}
    at = [(instead.get((c.kind, c.gate)), c) for c in diff.changes]
    return tuple(other or own for other, own in at if other or id(own) in first)


#: Ways of a condition that is asked now, or no longer, without a target that fulfils it for sure.
_ASKED = (frozenset(("not reached", "no")), frozenset(("not reached", "unknown")))


def _only_asked(change: Change, ways: Collection[frozenset[str]] = _ASKED) -> bool:
    """Whether all that changed is whether a condition is asked at all."""
    pairs = {frozenset((before, change.after.get(t, ""))) for t, before in change.before.items()}
    return change.kind == "outcome" and pairs <= set(ways)


def _named_for(flag: str, targets: Collection[str]) -> bool:
    """Whether a flag has a target in its name (``..._SM120_...``): whoever has that GPU lives by it."""
    numbers = "|".join(target.removeprefix("sm_") for target in targets)
    return re.search(rf"(?<![A-Z0-9])SM_?(?:{numbers})(?![0-9])", flag, re.IGNORECASE) is not None


def _trips(change: Change, targets: Collection[str]) -> bool:
    if change.refuses:
        return True
    if change.kind == "flag":
        return _named_for(change.what, targets) or _named_for(change.old_what, targets)
    if change.kind == "removed":
        return bool(change.own)
    if _only_asked(change, _ASKED[:1]) and not change.did and not change.does:
        return False  # no is not followed by anything
    pairs = [(before, change.after.get(target, "")) for target, before in change.before.items()]
    if change.kind == "outcome":
        # what was open before and is decided now is news, but nobody relied on it
        return any(before != "unknown" for before, _ in pairs)
    if change.kind == "kernel":
        # an operator that is gone from its library was called, whatever was known of it
        gone = change.row == "op" and any(
            before == "unknown" and after == "absent" for before, after in pairs
        )
        if change.row in _WITH_THEIR_CALLERS and set(change.after.values()) == {"absent"}:
            return False
        return gone or any(before == "runs" and after in _NO_KERNEL for before, after in pairs)
    if change.kind == "default" and change.row == "flag":
        return True  # trouble of a target hangs on the flag, and which way is the bad one is not known
    if change.kind in ("forced", "default"):
        return any(after in _WORSE for _, after in pairs)
    return False
