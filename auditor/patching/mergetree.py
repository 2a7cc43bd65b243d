"""A patch's changes carried to another version of the file, statement by statement.

Each change is settled on its own: where it goes and what to write there, that it is there already, or why it
cannot be said. Nothing overlapping is resolved; an order inside a function that had to be chosen is a guess
and says so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from auditor.patching.mergealign import align, dice, likeness, pair_arms
from auditor.patching.mergechanges import Change
from auditor.patching.mergeimports import Import, ImportEdit, bound, imported, is_import
from auditor.patching.mergetokens import Overlap, Splice, TokenMerge
from auditor.patching.statements import Arm, Source, Statement, tokens


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


class TreeMerge:
    """Carries changes from ``base`` to ``ours``. ``homes`` maps scopes of the base to where they went."""

    def __init__(
        self, base: Source, ours: Source, *, homes: dict[Statement, Statement] | None = None
    ) -> None:
        self.base = base
        self.ours = ours
        self.homes = dict(homes or {})
        self._pairs: dict[tuple[int, int], dict[int, Statement]] = {}
        self._mated: dict[tuple[int, int], set[int]] = {}
        self._scopes: dict[str, list[Statement]] | None = None
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
            pairs = align(arm.children, other.children)
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
            self._scopes = {}
            for other in self.ours.statements():
                if other.is_scope:
                    self._scopes.setdefault(other.name, []).append(other)
        there = [o for o in self._scopes.get(statement.name, ()) if likeness_of_bodies(statement, o) >= 0.6]
        known = [s for s in self.base.statements() if s.is_scope and s.name == statement.name]
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
        if len(statement.norm) < 5 or not change.arm_theirs.children:
            return ""
        if self._counts is None:
            theirs = change.arm_theirs.children[0].source
            self._counts = (
                Counter(s.norm for s in self.base.statements()),
                Counter(s.norm for s in self.ours.statements()),
                Counter(s.norm for s in theirs.statements()),
            )
        base, ours, other = (counts[statement.norm] for counts in self._counts)
        if ours > other:
            return f"`{first_words(statement)}` stands elsewhere now"
        if other >= base:
            return f"`{first_words(statement)}` is gone, and the patch moves it"
        return ""

    # settling

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

    @staticmethod
    def _owner(change: Change) -> Statement | None:
        """The compound statement that the change happens in."""
        if change.kind == "head" or change.kind == "arm":
            return change.removed[0]
        children = change.arm_base.children
        return children[0].parent if children else None

    def _lost(self, owner: Statement | None) -> Statement | None:
        """The outermost function or class around ``owner`` that ours does not have."""
        lost = None
        while owner is not None:
            if owner.is_scope and self.mate(owner) is None:
                lost = owner
            owner = owner.parent
        return lost

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
        add = [item for item in after if item not in before and item not in known]
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
                if not removed and not _overloads(t, arm):
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
            text = self._text(change, wanted, first.arm)
            settled.splices.insert(0, Splice(settled.splices[0].start, settled.splices[0].start, text))
        return settled

    def _insert(self, change: Change, arm: Arm, owner: Statement | None, wanted: list[Statement]) -> Settled:
        mates = self._children(change.arm_base, arm)
        siblings = change.arm_base.children
        low = high = None
        far_low = far_high = 0
        for at in range(change.before, -1, -1):
            low = self._place(siblings[at], mates, arm)
            if low is not None:
                break
            far_low += 1
        else:
            low, far_low = (-1, far_low) if not far_low else (None, far_low)
        for at in range(change.after, len(siblings)):
            high = self._place(siblings[at], mates, arm)
            if high is not None:
                break
            far_high += 1
        else:
            high, far_high = (len(arm.children), far_high) if not far_high else (None, far_high)
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
            elif between and not far_low and not far_high and _after(change, wanted, arm, low, high):
                at = high
            sure = high == low + 1 and not far_low and not far_high
        elif low is not None:
            at, sure = low + 1, False
        else:
            assert high is not None
            at, sure = high, False
        settled = Settled()
        inside = bool(wanted) and wanted[0].in_function()
        if not sure and inside:
            settled.guess = (
                "the statements around it changed, and the order inside a function means something"
            )
        text = self._text(change, wanted, arm)
        where = arm.children[at].lead if at < len(arm.children) else arm.children[-1].end
        if at == len(arm.children) and not self.ours.data[:where].endswith(b"\n"):
            text = b"\n" + text.rstrip(b"\n")
        settled.splices.append(Splice(where, where, text))
        return settled

    def _place(self, sibling: Statement, mates: dict[int, Statement], arm: Arm) -> int | None:
        """Where in ``arm`` of ours a statement of the base stands, or the one that it was put into."""
        mate = mates.get(id(sibling))
        found = [mate] if mate is not None else self._copies(sibling)
        places: set[int] = set()
        for o in found:
            at: Statement | None = o
            while at is not None and at.arm is not arm:
                at = at.parent
            if at is not None:
                places.add(next(k for k, s in enumerate(arm.children) if s is at))
        return places.pop() if len(places) == 1 else None

    def _insert_elsewhere(self, change: Change) -> Settled:
        """The block is gone; its neighbours may stand at another depth of the same function."""
        siblings = change.arm_base.children
        before = self._elsewhere(siblings[change.before]) if change.before >= 0 else None
        after = self._elsewhere(siblings[change.after]) if change.after < len(siblings) else None
        if before is not None and after is not None and before.arm is after.arm and before.end == after.lead:
            assert before.arm is not None
            text = self._text(change, change.added, before.arm)
            return Settled([Splice(after.lead, after.lead, text)])
        anchor = before or after
        if anchor is None or anchor.arm is None:
            lost = siblings[change.before] if change.before >= 0 else (siblings or change.added)[0]
            return Settled(
                conflict=f"what stood around `{first_words(change.added[0])}` is gone: `{first_words(lost)}`"
            )
        text = self._text(change, change.added, anchor.arm)
        where = anchor.end if anchor is before else anchor.lead
        return Settled([Splice(where, where, text)], guess="only one of its neighbours is left")

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
        return self._tokens(b, o, t, b.tokens, o.tokens, t.tokens)

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
        if any(a.head == new.head for a in o.arms):
            return Settled(conflict=f"`{first_words(b)}`: the same arm was added on both sides")
        at = next(i for i, a in enumerate(t.arms) if a is new)
        back = {j: i for i, j in pair_arms(b.arms, t.arms).items()}
        earlier = [back[j] for j in range(at) if j in back]
        later = [back[j] for j in range(at + 1, len(t.arms)) if j in back]
        forth = pair_arms(b.arms, o.arms)
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
            if was == new or here == new or was.strip() == new.strip():
                continue
            if here.strip() == was.strip():
                settled.splices.append(Splice(*ours, self._moved(t.source, *theirs, t.arm, o.arm)))
            else:
                settled.note = "a comment changed on both sides; ours was kept"
        settled.already = not settled.splices
        return settled

    # text

    def _text(self, change: Change, wanted: Sequence[Statement], arm: Arm) -> bytes:
        source = wanted[0].source
        return b"".join(self._moved(source, s.lead, s.end, s.arm, arm) for s in wanted)

    def _moved(self, source: Source, start: int, end: int, old: Arm | None, new: Arm | None) -> bytes:
        text = reindented(source, start, end, old.indent if old else b"", new.indent if new else b"")
        if b"\r\n" in self.ours.data[:4096] and b"\r\n" not in text:
            text = text.replace(b"\n", b"\r\n")
        return text if text.endswith(b"\n") else text + b"\n"


def reindented(source: Source, start: int, end: int, old: bytes, new: bytes) -> bytes:
    """``data[start:end]`` with the indentation ``old`` replaced by ``new``; strings over lines stay."""
    data = source.data[start:end]
    if old == new:
        return data
    inside = [
        (t.start - start, t.end - start)
        for t in tokens(source.data, start, end)
        if b"\n" in source.data[t.start : t.end]
    ]
    out: list[bytes] = []
    at = 0
    for line in data.splitlines(keepends=True):
        within = any(s < at < e for s, e in inside)
        moves = not within and line.startswith(old) and line.strip()
        out.append(new + line[len(old) :] if moves else line)
        at += len(line)
    return b"".join(out)


def likeness_of_bodies(a: Statement, b: Statement) -> float:
    """How much the bodies of two functions or classes have in common."""
    return dice(a.bag, b.bag) if a.is_scope and b.is_scope else 0.0


def first_words(statement: Statement) -> str:
    """The first line of a statement, short enough for a message."""
    text = statement.source.data[statement.start : statement.end].decode("utf-8", "replace").strip()
    line = text.split("\n")[0].strip()
    return line if len(line) <= 60 else line[:57] + "..."


def _arm_norm(arm: Arm) -> tuple[object, ...]:
    return (arm.head, tuple(child.norm for child in arm.children))


def _free(statements: Sequence[Statement]) -> bool:
    """Whether statements may stand anywhere in their block: outside functions."""
    return not statements[0].in_function()


def _overloads(statement: Statement, arm: Arm) -> bool:
    """Whether several definitions of one name are meant: properties, overloads."""
    return statement.norm[:1] == (b"@",)


def _after(change: Change, wanted: Sequence[Statement], arm: Arm, low: int, high: int) -> bool:
    """Whether what theirs adds rather goes behind what ours added at the same place.

    A guess from two signs: which of them is set off from its neighbours by blank lines, and which of them
    shares names with them.
    """
    siblings = change.arm_theirs.children
    end = next(at for at, s in enumerate(siblings) if s is wanted[0]) + len(wanted)
    mine = arm.children[low + 1 : high]
    score = 2 * (_set_off(wanted[0]) - _set_off(mine[0]))
    if end < len(siblings) and high < len(arm.children):
        score += 2 * (_set_off(arm.children[high]) - _set_off(siblings[end]))
    before = _words(arm.children[low : low + 1]) if low >= 0 else set()
    behind = _words(arm.children[high : high + 1])
    other, here = _words(wanted), _words(mine)
    score += _sign(len(here & before) - len(other & before))
    score += _sign(len(other & behind) - len(here & behind))
    return score >= 0


def _set_off(statement: Statement) -> int:
    """1 for a statement with a blank line above it."""
    return int(b"\n" in statement.lead_text.split(b"#")[0])


def _words(statements: Sequence[Statement]) -> set[bytes]:
    return {w for s in statements for w in s.norm if w[:1].isalpha() and len(w) > 3 and w != b"self"}


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


def _removal(o: Statement, removed: Sequence[Statement]) -> tuple[int, int]:
    """What goes with a statement: its comments too, where they are those that the patch removes."""
    mine = next((b for b in removed if b.norm == o.norm), None)
    same = mine is not None and mine.lead_text.split() == o.lead_text.split()
    return (o.lead, o.end) if same else (o.start, o.end)
