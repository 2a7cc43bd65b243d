"""Which changes between two audits should stop a person: what a target lost, not what moved or got better."""

from __future__ import annotations

from collections.abc import Collection

from auditor.history.model import Change, Diff

#: What an operator that does not run gives, besides not being known.
_NO_KERNEL = ("not-built", "raises", "falls-through", "absent")
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
    return tuple(change for change in found if _trips(change))


def _trips(change: Change) -> bool:
    pairs = [(before, change.after.get(target, "")) for target, before in change.before.items()]
    if change.kind == "outcome":
        # what was open before and is decided now is news, but nobody relied on it
        return any(before != "unknown" for before, _ in pairs)
    if change.kind == "kernel":
        # an operator that is gone from its library was called, whatever was known of it
        gone = change.row == "op" and any(
            before == "unknown" and after == "absent" for before, after in pairs
        )
        return gone or any(before == "runs" and after in _NO_KERNEL for before, after in pairs)
    if change.kind in ("forced", "default"):
        return any(after in _WORSE for _, after in pairs)
    return False
