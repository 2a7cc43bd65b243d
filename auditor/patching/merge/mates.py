"""Which statement of ours is which of the base, wherever it went within the file."""

from __future__ import annotations

from collections import Counter

from auditor.patching.merge.align import Pair, align, dice, pair_arms
from auditor.patching.merge.changes import Change
from auditor.patching.merge.statements import Arm, Source, Statement
from auditor.patching.merge.text import first_words


class Mates:
    """Finds statements of ``base`` in ``ours``. ``homes`` maps scopes of the base to where they went."""

    def __init__(
        self, base: Source, ours: Source, *, homes: dict[Statement, Statement] | None = None
    ) -> None:
        self.base = base
        self.ours = ours
        self.homes = dict(homes or {})
        self._pairs: dict[tuple[int, int], dict[int, Statement]] = {}
        self._mated: dict[tuple[int, int], set[int]] = {}
        self._scopes: tuple[dict[str, list[Statement]], dict[str, list[Statement]]] | None = None
        self._counts: tuple[Counter[tuple[bytes, ...]], ...] | None = None

    # who is who

    def mate(self, statement: Statement) -> Statement | None:
        """The same statement of ours; None where ours does not have it."""
        if statement in self.homes:
            return self.homes[statement]
        assert statement.arm is not None
        arm = self.arm(statement.arm, statement.parent)
        found = self._children(statement.arm, arm).get(id(statement)) if arm is not None else None
        if found is None and statement.is_scope:
            found = self._moved_scope(statement)
            if found is not None:
                self.homes[statement] = found
        return found

    def arm(self, arm: Arm, owner: Statement | None) -> Arm | None:
        """The same arm of ours."""
        if owner is None:
            return self.ours.top
        mate = self.mate(owner)
        if mate is None or not mate.arms:
            return None
        if len(owner.arms) == len(mate.arms) == 1:
            return mate.arms[0]
        at = pair_arms(owner.arms, mate.arms).get(next(i for i, a in enumerate(owner.arms) if a is arm))
        return None if at is None else mate.arms[at]

    def _children(self, arm: Arm, other: Arm) -> dict[int, Statement]:
        key = (id(arm), id(other))
        if key not in self._pairs:
            pairs = _unmoved(align(arm.children, other.children), other)
            self._pairs[key] = {id(s): t for s, t in pairs}
            self._mated[key] = {id(t) for _, t in pairs}
        return self._pairs[key]

    def _new_in(self, arm: Arm, other: Arm) -> list[Statement]:
        """The statements of ours in ``other`` that are none of the base's."""
        self._children(arm, other)
        mated = self._mated[(id(arm), id(other))]
        return [o for o in other.children if id(o) not in mated]

    def _moved_scope(self, statement: Statement) -> Statement | None:
        """A function or class of the same name elsewhere in ours, if it can only be that one."""
        if self._scopes is None:
            self._scopes = _scopes_by_name(self.base), _scopes_by_name(self.ours)
        known, now = (scopes.get(statement.name, []) for scopes in self._scopes)
        there = [o for o in now if likeness_of_bodies(statement, o) >= 0.6]
        taken = set()
        for other in known:
            if other is not statement and other.arm is not None:
                arm = self.arm(other.arm, other.parent) if other.scope() is not statement else None
                found = self._children(other.arm, arm).get(id(other)) if arm is not None else None
                taken.add(id(found))
        there = [o for o in there if id(o) not in taken]
        return there[0] if len(there) == 1 and len(known) - len(taken) <= 1 else None

    def _elsewhere(self, statement: Statement) -> Statement | None:
        """The same statement at another depth of the same function, if there is only one on both sides."""
        there = self._copies(statement)
        return there[0] if len(there) == 1 else None

    def _copies(self, statement: Statement) -> list[Statement]:
        """The same statement anywhere in the same function of ours, if the base has it once in there."""
        scope = statement.scope()
        if scope is None or scope.kind == "ClassDef" or len(statement.norm) < 4:
            return []
        home = self.mate(scope)
        if home is None or sum(s.norm == statement.norm for s in scope.walk()) != 1:
            return []
        return [s for s in home.walk() if s.norm == statement.norm]

    def _moved_about(self, statement: Statement, change: Change) -> str:
        """Why a statement that theirs removes and ours does not have here may not just be left away."""
        base, ours, other = self._often(statement, change)
        if ours > other:
            return f"`{first_words(statement)}` stands elsewhere now"
        if other >= base > 0:
            return f"`{first_words(statement)}` is gone, and the patch moves it"
        return ""

    def _moves(self, statement: Statement, change: Change) -> bool:
        """Whether theirs has a statement that it removes here somewhere else."""
        base, _, other = self._often(statement, change)
        return other >= base > 0

    def _often(self, statement: Statement, change: Change) -> tuple[int, int, int]:
        """How often base, ours and theirs have a statement; 0 for one that is too short to tell."""
        if len(statement.norm) < 5 or not change.arm_theirs.children:
            return 0, 0, 0
        if self._counts is None:
            theirs = change.arm_theirs.children[0].source
            self._counts = (
                Counter(s.norm for s in self.base.statements()),
                Counter(s.norm for s in self.ours.statements()),
                Counter(s.norm for s in theirs.statements()),
            )
        base, ours, other = (counts[statement.norm] for counts in self._counts)
        return base, ours, other


def _scopes_by_name(source: Source) -> dict[str, list[Statement]]:
    """The functions and classes of a file by their last name, in order."""
    found: dict[str, list[Statement]] = {}
    for statement in source.statements():
        if statement.is_scope:
            found.setdefault(statement.name, []).append(statement)
    return found


def _unmoved(pairs: list[Pair], other: Arm) -> list[Pair]:
    """The pairs, with a statement that went to another place of its block paired with itself.

    What stands where it stood, and is only like it, is another statement.
    """
    taken = {id(o) for _, o in pairs}
    free: dict[tuple[bytes, ...], list[Statement]] = {}
    for o in other.children:
        if id(o) not in taken:
            free.setdefault(o.norm, []).append(o)
    out = []
    for b, o in pairs:
        same = free.get(b.norm, ()) if o.norm != b.norm and len(b.norm) > 3 else ()
        out.append((b, same[0]) if len(same) == 1 else (b, o))
    return out if len({id(o) for _, o in out}) == len(out) else pairs


def likeness_of_bodies(a: Statement, b: Statement) -> float:
    """How much the bodies of two functions or classes have in common."""
    return dice(a.bag, b.bag) if a.is_scope and b.is_scope else 0.0
