"""Statements that a patch adds, removes or replaces: where they go in ours."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from auditor.patching.merge.align import likeness
from auditor.patching.merge.changes import Change
from auditor.patching.merge.imports import Import, ImportEdit, bound, imported, is_import
from auditor.patching.merge.mates import Mates
from auditor.patching.merge.order import goes_behind, set_off
from auditor.patching.merge.statements import Arm, Source, Statement
from auditor.patching.merge.text import first_words, reindented
from auditor.patching.merge.tokens import Splice

#: A neighbour that has less in common with what it was does not tell an order inside a function.
ANCHOR = 0.75


@dataclass
class Settled:
    """What becomes of one change: ``done`` carried or already there, ``guess`` and ``conflict`` say why."""

    splices: list[Splice] = field(default_factory=list)
    already: bool = False
    partly: bool = False  # some of it was there
    guess: str = ""
    conflict: str = ""
    homeless: Statement | None = None  # the function or class of the base that ours does not have
    symbol: str = ""
    note: str = ""


class GapMerge(Mates):
    """Settles changes that add or remove whole statements."""

    @staticmethod
    def _owner(change: Change) -> Statement | None:
        """The compound statement that the change happens in."""
        if change.kind == "head" or change.kind == "arm":
            return change.removed[0]
        children = change.arm_base.children
        return children[0].parent if children else None

    def known(self, change: Change) -> bool:
        """Whether ours has some of the statements that a gap adds, and the base has not."""
        owner = self._owner(change)
        arm = self.arm(change.arm_base, owner)
        if arm is None:
            return False
        new = {o.norm for o in self._new_in(change.arm_base, arm)}
        return any(t.norm in new for t in change.added)

    def _gap(self, change: Change) -> Settled:
        owner = self._owner(change)
        arm = self.arm(change.arm_base, owner)
        if arm is None and not change.removed:
            return self._insert_elsewhere(change)
        wanted = list(change.added)
        partly = False
        if arm is not None:
            wanted, partly, clash = self._not_yet(change, arm)
            if clash:
                return Settled(conflict=clash)
        mates: list[Statement] = []
        vanished: list[Statement] = []
        for b in change.removed:
            o = self.mate(b) if arm is not None else None
            if o is None:
                o = self._elsewhere(b)
                if o is not None and self._moves(b, change):
                    return Settled(conflict=f"`{first_words(b)}` was put elsewhere on both sides")
            if o is None:
                vanished.append(b)
            elif o.norm != b.norm:
                if any(o.norm == t.norm for t in change.added):
                    continue
                return Settled(conflict=f"`{first_words(b)}` was changed on both sides")
            else:
                mates.append(o)
        for b in vanished:
            if why := self._moved_about(b, change):
                return Settled(conflict=why)
        if not mates and arm is None:
            lost = (vanished or change.added)[0]
            return Settled(conflict=f"the block of `{first_words(lost)}` is gone")
        if not mates and not wanted:
            if other := self._instead(change, arm):
                fact = f"`{first_words(vanished[0])}` is gone, and `{first_words(other)}` stands in its place"
                return Settled(conflict=fact)
            return Settled(already=True)
        if vanished and wanted:
            return Settled(conflict=f"`{first_words(vanished[0])}` is gone, which the patch replaces")
        if mates:
            return self._replace(change, mates, wanted, partly or bool(vanished))
        assert arm is not None
        if change.removed:  # all removed ones changed into what the patch adds; the rest has no place
            return Settled(conflict="part of it is there, and the rest has no certain place")
        settled = self._insert(change, arm, owner, wanted)
        settled.partly = partly
        return settled

    def _instead(self, change: Change, arm: Arm | None) -> Statement | None:
        """What ours has where the patch takes something away that ours does not have, and puts nothing."""
        if arm is None or change.added:
            return None
        mates, siblings = self._children(change.arm_base, arm), change.arm_base.children
        low, far_low, _ = self._nearest(siblings[: change.before + 1][::-1], mates, arm, -1)
        high, far_high, _ = self._nearest(siblings[change.after :], mates, arm, len(arm.children))
        if (
            low is None
            or high is None
            or change.before >= 0
            and far_low
            or change.after < len(siblings)
            and far_high
        ):
            return None
        new = {id(o) for o in self._new_in(change.arm_base, arm) if not is_import(o)}
        return next((o for o in arm.children[low + 1 : high] if id(o) in new), None)

    def _imports(self, change: Change) -> Settled | None:
        """Imports as sets; None where they have to be merged as other statements."""
        owner = self._owner(change)
        arm = self.arm(change.arm_base, owner)
        if arm is None:
            return None
        before, after = imported(change.removed), imported(change.added)
        elsewhere = [s for s in change.arm_base.children if s not in change.removed]
        still = imported([s for s in change.arm_theirs.children if s not in change.added])
        known = imported(elsewhere)
        add = [
            item
            for item in after
            if item not in before and (item not in known or self._once_more(item, change))
        ]
        remove = [item for item in before if item not in after and item not in still]
        ours = imported(arm.children)
        names = {bound(item): item for item in ours}
        others = {bound(item) for item in known}
        for item in add:
            rival = names.get(bound(item))
            if rival is not None and rival != item and rival not in remove and bound(item) not in others:
                return Settled(conflict=f"`{bound(item)}` is imported from elsewhere on the other side")
        missing = [item for item in add if item not in ours]
        gone = [item for item in remove if item in ours and not self._more_uses(bound(item))]
        kept = [item for item in remove if item in ours and item not in gone]
        note = f"`{bound(kept[0])}` is used by more now, and stays imported" if kept else ""
        if not missing and not gone:
            return Settled(already=True, note=note)
        edits: dict[int, ImportEdit] = {}
        for item in gone:
            edits.setdefault(id(ours[item]), ImportEdit(ours[item], [], [])).remove.append(item)
        left: list[Import] = []
        for item in missing:
            home = next((s for i, s in ours.items() if i[0] == item[0] and item[0]), None)
            if home is None:
                left.append(item)
            else:
                edits.setdefault(id(home), ImportEdit(home, [], [])).add.append(item)
        settled = Settled(note=note, partly=len(missing) < len(add))
        if left:
            whole = [t for t in change.added if set(imported([t])) <= set(left)]
            if {i for t in whole for i in imported([t])} != set(left):
                return None
            inserted = self._insert(change, arm, owner, whole)
            if inserted.conflict:
                return None
            settled.splices += inserted.splices
            settled.guess = inserted.guess
        for edit in edits.values():
            settled.splices += edit.splices()
        return settled

    @staticmethod
    def _once_more(item: Import, change: Change) -> bool:
        """Whether the patch imports a name again that the base imports there already, and moves nothing."""
        before, after = (
            sum(item in imported([s]) for s in arm.children) for arm in (change.arm_base, change.arm_theirs)
        )
        return after > before

    def _more_uses(self, name: str) -> bool:
        """Whether ours uses a name more often than the base did."""
        pattern = re.compile(rb"\b" + re.escape(name.encode()) + rb"\b")
        return len(pattern.findall(self.ours.data)) > len(pattern.findall(self.base.data))

    def _not_yet(self, change: Change, arm: Arm) -> tuple[list[Statement], bool, str]:
        """Which added statements ours does not have yet in this block."""
        new = self._new_in(change.arm_base, arm)
        wanted: list[Statement] = []
        partly = False
        for t in change.added:
            same = [o for o in new if o.norm == t.norm]
            if same:
                partly = True
                new.remove(same[0])
                continue
            if t.is_scope and any(o.is_scope and o.name == t.name for o in arm.children):
                removed = any(b.is_scope and b.name == t.name for b in change.removed)
                if not removed and not _overloads(t):
                    return [], False, f"`{t.name}` was added on both sides, each its own way"
            if t.kind in ("Assign", "AnnAssign") and not t.in_function():
                rivals = [o for o in new if o.kind == t.kind and o.norm[:2] == t.norm[:2]]
                if rivals and not change.removed:
                    return [], False, f"`{first_words(t)}` was added on both sides, each its own way"
            wanted.append(t)
        return wanted, partly, ""

    def _replace(
        self, change: Change, mates: list[Statement], wanted: list[Statement], partly: bool
    ) -> Settled:
        settled = Settled(partly=partly)
        first = mates[0]
        for at, o in enumerate(mates):
            settled.splices.append(Splice(*_removal(o, change.removed), b""))
            if at and (o.arm is not mates[at - 1].arm or o.lead != mates[at - 1].end):
                settled.guess = settled.guess or (
                    "statements it replaces do not stand together" if wanted else ""
                )
        if wanted:
            assert first.arm is not None
            where = settled.splices[0].start
            early, beside = self._beside(change, mates, wanted, first.arm)
            if beside and len(wanted) > len(mates) and _ordered(wanted):
                settled.guess = settled.guess or "ours added statements beside those that it replaces"
            if early:
                text = self._text(wanted[:early], first.arm)
                settled.splices.insert(0, Splice(beside, beside, text))
            text = self._text(wanted[early:], first.arm)
            settled.splices.insert(bool(early), Splice(where, where, text))
        return settled

    def _beside(
        self, change: Change, mates: list[Statement], wanted: list[Statement], arm: Arm
    ) -> tuple[int, int]:
        """How many of the new statements belong to the one before the replaced ones, and where that ends.

        (0, 0) where ours has nothing new beside the replaced statements.
        """
        siblings = change.arm_base.children
        pairs = self._children(change.arm_base, arm)
        here = [at for at, s in enumerate(arm.children) if any(s is o for o in mates)]
        after = self._nearest(siblings[change.after : change.after + 1], pairs, arm, len(arm.children))[0]
        before = self._nearest(siblings[max(change.before, 0) : change.before + 1], pairs, arm, -1)[0]
        if not here:
            return 0, 0
        apart = before is not None and before < here[0] - 1
        if not apart or before is None or before < 0:
            return 0, int(after is not None and after > here[-1] + 1)
        first = next((at for at, t in enumerate(wanted) if at and set_off(t)), 0)
        return (0 if set_off(wanted[0]) else first), arm.children[before].end

    def _insert(self, change: Change, arm: Arm, owner: Statement | None, wanted: list[Statement]) -> Settled:
        mates = self._children(change.arm_base, arm)
        siblings = change.arm_base.children
        low, far_low, low_wrapped = self._nearest(siblings[: change.before + 1][::-1], mates, arm, -1)
        high, far_high, high_wrapped = self._nearest(siblings[change.after :], mates, arm, len(arm.children))
        if low is None and high is None:
            if change.arm_base.children and not _free(wanted):
                return self._insert_elsewhere(change)
            low = len(arm.children) - 1
        if low is not None and high is not None and low >= high:
            at, sure = (low + 1, False) if far_low <= far_high else (high, False)
        elif low is not None and high is not None:
            at = low + 1 if not far_low else high
            between = arm.children[low + 1 : high]
            if between and all(map(is_import, [*between, *wanted])):
                at = low + 1 + sum(o.norm < wanted[0].norm for o in between)
            elif between and not far_low and not far_high:
                # What was put into a block of its own took its neighbour along.
                wrapped = low_wrapped != high_wrapped
                behind = high_wrapped if wrapped else goes_behind(change, wanted, arm, low, high)
                at = high if behind else low + 1
            sure = high == low + 1 and not far_low and not far_high
        elif low is not None:
            at, sure = low + 1, False
        else:
            assert high is not None
            at, sure = high, False
        near = siblings[max(change.before, 0) : change.before + 1] + siblings[change.after : change.after + 1]
        sure = sure and not any(self._barely(s, mates.get(id(s))) for s in near)
        settled = Settled()
        inside = bool(wanted) and _ordered(wanted)
        if not sure and inside:
            settled.guess = (
                "the statements around it changed, and the order inside a function means something"
            )
        if inside and not settled.guess and at == len(arm.children) and self._followed(owner):
            settled.guess = "ours added statements right behind the block that it ends"
        text = self._text(wanted, arm)
        where = arm.children[at].lead if at < len(arm.children) else arm.children[-1].end
        if at == len(arm.children) and not self.ours.data[:where].endswith(b"\n"):
            text = b"\n" + text.rstrip(b"\n")
        settled.splices.append(Splice(where, where, text))
        return settled

    def _followed(self, owner: Statement | None) -> bool:
        """Whether ours put something right behind the block of a function that ``owner`` is in ours."""
        mate = self.mate(owner) if owner is not None and not owner.is_scope else None
        if owner is None or mate is None or owner.arm is None or mate.arm is None:
            return False
        base, ours = owner.arm.children, mate.arm.children
        after = base[base.index(owner) + 1 :][:1]
        behind = ours[ours.index(mate) + 1 :][:1]
        if not behind:
            return False
        return not after or self._children(owner.arm, mate.arm).get(id(after[0])) is not behind[0]

    @staticmethod
    def _barely(b: Statement, o: Statement | None) -> bool:
        """Whether it is not sure that ``o`` is ``b``, changed, and not another statement at its place."""
        return o is not None and not b.arms and not o.arms and likeness(b, o) < ANCHOR

    def _nearest(
        self, siblings: Sequence[Statement], mates: dict[int, Statement], arm: Arm, end: int
    ) -> tuple[int | None, int, bool]:
        """The nearest sibling that ours has: its place, how many it has not before it, whether it is wrapped.

        Without any sibling on that side the place is ``end``.
        """
        for far, sibling in enumerate(siblings):
            place = self._place(sibling, mates, arm)
            if place is not None:
                return place[0], far, place[1]
        return (None if siblings else end), len(siblings), False

    def _place(self, sibling: Statement, mates: dict[int, Statement], arm: Arm) -> tuple[int, bool] | None:
        """Where in ``arm`` of ours a statement of the base stands, or the one that it was put into.

        The second value says that it was put into another one.
        """
        mate = mates.get(id(sibling))
        found = [mate] if mate is not None else self._copies(sibling)
        places: set[int] = set()
        for o in found:
            at: Statement | None = o
            while at is not None and at.arm is not arm:
                at = at.parent
            if at is not None:
                places.add(next(k for k, s in enumerate(arm.children) if s is at))
        return (places.pop(), mate is None) if len(places) == 1 else None

    def _insert_elsewhere(self, change: Change) -> Settled:
        """The block is gone; its neighbours may stand at another depth of the same function."""
        siblings = change.arm_base.children
        before = self._elsewhere(siblings[change.before]) if change.before >= 0 else None
        after = self._elsewhere(siblings[change.after]) if change.after < len(siblings) else None
        if before is not None and after is not None and before.arm is after.arm and before.end == after.lead:
            assert before.arm is not None
            text = self._text(change.added, before.arm)
            return Settled([Splice(after.lead, after.lead, text)])
        anchor = before or after
        if anchor is None or anchor.arm is None:
            lost = siblings[change.before] if change.before >= 0 else (siblings or change.added)[0]
            return Settled(
                conflict=f"what stood around `{first_words(change.added[0])}` is gone: `{first_words(lost)}`"
            )
        text = self._text(change.added, anchor.arm)
        where = anchor.end if anchor is before else anchor.lead
        return Settled([Splice(where, where, text)], guess="only one of its neighbours is left")

    # text

    def _text(self, wanted: Sequence[Statement], arm: Arm) -> bytes:
        source = wanted[0].source
        return b"".join(self._moved(source, s.lead, s.end, s.arm, arm) for s in wanted)

    def _moved(self, source: Source, start: int, end: int, old: Arm | None, new: Arm | None) -> bytes:
        text = reindented(source, start, end, old.indent if old else b"", new.indent if new else b"")
        if b"\r\n" in self.ours.data[:4096] and b"\r\n" not in text:
            text = text.replace(b"\n", b"\r\n")
        return text if text.endswith(b"\n") else text + b"\n"


def _free(statements: Sequence[Statement]) -> bool:
    """Whether statements may stand anywhere in their block: outside functions."""
    return not statements[0].in_function()


def _ordered(statements: Sequence[Statement]) -> bool:
    """Whether it means something which of the statements around them run first."""
    return statements[0].in_order() and not all(map(is_import, statements))


def _overloads(statement: Statement) -> bool:
    """Whether several definitions of one name are meant: properties, overloads."""
    return statement.norm[:1] == (b"@",)


def _removal(o: Statement, removed: Sequence[Statement]) -> tuple[int, int]:
    """What goes with a statement: its comments too, where they are those that the patch removes."""
    mine = next((b for b in removed if b.norm == o.norm), None)
    same = mine is not None and mine.lead_text.split() == o.lead_text.split()
    return (o.lead, o.end) if same else (o.start, o.end)
