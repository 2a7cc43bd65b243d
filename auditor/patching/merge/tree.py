"""A patch's changes carried to another version of the file, statement by statement.

Each change is settled on its own: where it goes and what to write there, that it is there already, or why it
cannot be said. Nothing overlapping is resolved; an order inside a function that had to be chosen is a guess
and says so.
"""

from __future__ import annotations

from auditor.patching.diffs.lines import split_lines
from auditor.patching.merge.align import likeness, pair_arms
from auditor.patching.merge.beside import beside
from auditor.patching.merge.changes import Change
from auditor.patching.merge.gaps import GapMerge, Settled
from auditor.patching.merge.imports import is_import
from auditor.patching.merge.statements import Arm, Statement, tokens
from auditor.patching.merge.text import first_words
from auditor.patching.merge.tokens import Overlap, Splice, TokenMerge

__all__ = ["Settled", "TreeMerge", "first_words"]

#: Told of what changes no statement and no comment.
LEFT_OUT = "blank lines only, left out"


class TreeMerge(GapMerge):
    """Carries changes from ``base`` to ``ours``. ``homes`` maps scopes of the base to where they went."""

    def settle(self, change: Change) -> Settled:
        """Where ``change`` goes in ours."""
        if change.kind in ("gap", "leaf") and all(map(is_import, change.removed + change.added)):
            settled = self._imports(change)
            if settled is not None:
                return settled
        settled = {
            "gap": self._gap,
            "leaf": self._leaf,
            "head": self._head,
            "arm": self._arm,
            "trivia": self._trivia,
        }[change.kind](change)
        owner = self._owner(change)
        scope = owner if owner is not None and owner.is_scope else owner.scope() if owner else None
        settled.symbol = scope.qualified() if scope is not None else ""
        if settled.conflict and settled.homeless is None:
            settled.homeless = self._lost(owner)
        return settled

    def _lost(self, owner: Statement | None) -> Statement | None:
        """The outermost function or class around ``owner`` that ours does not have."""
        lost = None
        while owner is not None:
            if owner.is_scope and self.mate(owner) is None:
                lost = owner
            owner = owner.parent
        return lost

    def _leaf(self, change: Change) -> Settled:
        b, t = change.removed[0], change.added[0]
        o = self.mate(b)
        if o is None or (o.norm != b.norm and o.norm != t.norm and likeness(o, b) < 1):
            other = self._elsewhere(b)
            o = other if other is not None else o
        if o is None:
            scope = b.scope()
            home = self.mate(scope) if scope is not None else None
            if home is not None and any(s.norm == t.norm for s in home.walk()) and len(t.norm) > 6:
                assert scope is not None
                if not any(s.norm == t.norm for s in scope.walk()):
                    return Settled(already=True)
            return Settled(conflict=f"`{first_words(b)}` is gone, which the patch changes")
        if o.norm == t.norm:
            return Settled(already=True)
        if o.arm is not None and any(s.norm == t.norm for s in self._new_in(change.arm_base, o.arm)):
            return Settled(conflict=f"`{first_words(t)}` is there already, and what it replaces is too")
        if o.norm == b.norm:
            return Settled([Splice(o.start, o.end, self._moved(t.source, t.start, t.end, t.arm, o.arm))])
        if b.arms or o.arms or t.arms:
            return Settled(conflict=f"`{first_words(b)}` was changed on both sides")
        if b.is_text and o.is_text and t.is_text:
            return self._lines(b, o, t)
        return self._tokens(b, o, t, b.tokens, o.tokens, t.tokens)

    def _lines(self, b: Statement, o: Statement, t: Statement) -> Settled:
        """A docstring that both sides changed, line by line."""
        texts = [split_lines(s.source.data[s.start : s.end]) for s in (b, o, t)]
        lines = beside(*texts)
        if lines is None:
            return Settled(conflict=f"`{first_words(b)}` was changed on both sides")
        text = b"".join(lines)
        return Settled([Splice(o.start, o.end, text)]) if lines != texts[1] else Settled(already=True)

    def _head(self, change: Change) -> Settled:
        b, t = change.removed[0], change.added[0]
        assert change.head_base is not None and change.head_theirs is not None
        o = self.mate(b)
        arm = self.arm(change.head_base, b) if o is not None else None
        if o is None or arm is None:
            other = self._elsewhere(b)
            if other is None:
                return Settled(conflict=f"`{first_words(b)}` is gone, which the patch changes")
            o = other
            arm = o.arms[next(i for i, a in enumerate(b.arms) if a is change.head_base)]
        if arm.head == change.head_theirs.head:
            return Settled(already=True)
        if o.arm is not None and any(s.norm == t.norm for s in self._new_in(change.arm_base, o.arm)):
            return Settled(conflict=f"`{first_words(t)}` is there already, and what it replaces is too")
        return self._tokens(
            b,
            o,
            t,
            tokens(b.source.data, change.head_base.start, change.head_base.head_end),
            tokens(o.source.data, arm.start, arm.head_end),
            tokens(t.source.data, change.head_theirs.start, change.head_theirs.head_end),
        )

    def _tokens(self, b, o, t, base, ours, theirs) -> Settled:  # type: ignore[no-untyped-def]
        merge = TokenMerge(
            b.source.data,
            o.source.data,
            t.source.data,
            shift=lambda text: text,
            ordered_calls=b.kind in ("FunctionDef", "AsyncFunctionDef"),
        )
        try:
            merge.run(base, ours, theirs)
        except Overlap:
            return Settled(conflict=f"`{first_words(b)}` was changed on both sides")
        return Settled(merge.splices, already=not merge.splices, guess=merge.guess)

    def _arm(self, change: Change) -> Settled:
        b, t = change.removed[0], change.added[0]
        o = self.mate(b)
        if o is None:
            return Settled(conflict=f"`{first_words(b)}` is gone, which the patch changes")
        if change.head_base is not None:  # an arm goes
            arm = self.arm(change.head_base, b)
            if arm is None:
                return Settled(already=True)
            if _arm_norm(arm) != _arm_norm(change.head_base):
                return Settled(conflict=f"`{first_words(b)}`: an arm it removes was changed")
            return Settled([Splice(arm.start, arm.end, b"")])
        new = change.head_theirs
        assert new is not None
        if any(_arm_norm(a) == _arm_norm(new) for a in o.arms):
            return Settled(already=True)
        at = next(i for i, a in enumerate(t.arms) if a is new)
        pairs, forth = pair_arms(b.arms, t.arms), pair_arms(b.arms, o.arms)
        back = {j: i for i, j in pairs.items()}
        other = {forth[i] for i, j in pairs.items() if i in forth and b.arms[i].head != t.arms[j].head}
        if any(a.head == new.head for k, a in enumerate(o.arms) if k not in other):
            return Settled(conflict=f"`{first_words(b)}`: the same arm was added on both sides")
        earlier = [back[j] for j in range(at) if j in back]
        later = [back[j] for j in range(at + 1, len(t.arms)) if j in back]
        low = forth.get(earlier[-1]) if earlier else None
        high = forth.get(later[0]) if later else len(o.arms)
        if low is None or high is None:
            return Settled(conflict=f"`{first_words(b)}`: the arms around the new one are gone")
        if high != low + 1:
            return Settled(conflict=f"`{first_words(b)}`: both sides added arms at one place of the chain")
        where = o.arms[low].end
        text = self._moved(t.source, new.start, new.end, t.arm, o.arm)
        return Settled([Splice(where, where, text)])

    def _trivia(self, change: Change) -> Settled:
        b, t = change.removed[0], change.added[0]
        o = self.mate(b)
        if o is None:
            return Settled(already=True, note="comments of a statement that is gone were left out")
        spans = [((b.lead, b.start), (o.lead, o.start), (t.lead, t.start))]
        if not b.arms and b.norm == t.norm:
            spans.append(((b.start, b.end), (o.start, o.end), (t.start, t.end)))
        settled = Settled()
        for base, ours, theirs in spans:
            was = self.base.data[slice(*base)]
            new = t.source.data[slice(*theirs)]
            here = self.ours.data[slice(*ours)]
            if was == new or here == new:
                continue
            if was.strip() == new.strip():
                settled.note = settled.note or LEFT_OUT
            elif here.strip() == was.strip():
                settled.splices.append(Splice(*ours, self._moved(t.source, *theirs, t.arm, o.arm)))
            else:
                settled.note = "a comment changed on both sides; ours was kept"
        settled.already = not settled.splices
        return settled


def _arm_norm(arm: Arm) -> tuple[object, ...]:
    return (arm.head, tuple(child.norm for child in arm.children))
