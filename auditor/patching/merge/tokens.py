"""Three versions of one statement (or of one header), merged by token and by element of its brackets.

Only changes that do not overlap are merged. What both sides put at one place is kept where the place has
no order: keyword arguments, entries of a dictionary or a set; in any other list it is kept and marked as a
guess.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from auditor.patching.merge.align import dice
from auditor.patching.merge.lines import edits, matching
from auditor.patching.merge.statements import Token

_OPEN = {b"(": b")", b"[": b"]", b"{": b"}"}
_WORDS = {
    b"in", b"not", b"and", b"or", b"is", b"if", b"else", b"elif", b"return", b"yield", b"await", b"lambda",
    b"assert", b"del", b"for", b"while", b"with", b"import", b"from", b"as", b"raise", b"except", b"case",
    b"match", b"async", b"print",
}  # fmt: skip


class Overlap(Exception):
    """Both sides changed the same tokens."""


@dataclass
class Group:
    """A bracket with its elements, each a list of tokens and groups."""

    open: Token
    close: Token
    elements: list[list[Token | Group]]
    commas: list[Token]

    @property
    def start(self) -> int:
        return self.open.start

    @property
    def end(self) -> int:
        return self.close.end


Item = Token | Group


@dataclass
class Splice:
    """``data[start:end]`` of ours becomes ``text``."""

    start: int
    end: int
    text: bytes


def tree(tokens: Sequence[Token]) -> list[Item]:
    """Tokens as nested groups, dotted names as one. ValueError where brackets do not match."""
    outer = Group(Token(b"", 0, 0), Token(b"", 0, 0), [[]], [])
    stack = [outer]
    for token in tokens:
        top = stack[-1]
        here = top.elements[-1]
        before = here[-1] if here else None
        if token.text in _OPEN:
            group = Group(token, token, [[]], [])
            here.append(group)
            stack.append(group)
        elif token.text in _OPEN.values():
            if len(stack) == 1 or _OPEN[top.open.text] != token.text:
                raise ValueError("brackets do not match")
            stack.pop()
            top.close = token
            if not top.elements[-1]:
                top.elements.pop()
        elif token.text == b"," and len(stack) > 1:
            top.elements.append([])
            top.commas.append(token)
        elif isinstance(before, Token) and _joins(before, token):
            here[-1] = Token(before.text + token.text, before.start, token.end)
        else:
            here.append(token)
    if len(stack) != 1:
        raise ValueError("brackets do not match")
    return outer.elements[0]


def _is_name(text: bytes) -> bool:
    return text[-1:].isalnum() or text[-1:] == b"_"


def _joins(before: Token, token: Token) -> bool:
    """Whether two tokens are parts of one dotted name."""
    if token.text == b".":
        return _is_name(before.text) and before.text not in _WORDS and not before.text[:1].isdigit()
    return before.text[-1:] == b"." and len(before.text) > 1 and _is_name(token.text)


def norm(items: Sequence[Item]) -> tuple[bytes, ...]:
    """The tokens of items, brackets and commas included."""
    out: list[bytes] = []
    for item in items:
        if isinstance(item, Token):
            out.append(item.text)
        else:
            out.append(item.open.text)
            for at, element in enumerate(item.elements):
                out += [b","] if at else []
                out += norm(element)
            out += [b",", item.close.text] if _one_tuple(item) else [item.close.text]
    return tuple(out)


def _one_tuple(group: Group) -> bool:
    """Whether a comma makes it a tuple of one; one behind the last of several is no token."""
    return len(group.commas) == len(group.elements) == 1


@dataclass
class TokenMerge:
    """Merges one statement; ``splices`` are the changes to ours, ``guess`` says why an order is one."""

    base: bytes
    ours: bytes
    theirs: bytes
    shift: Callable[[bytes], bytes] = bytes  # moves theirs' continuation lines to ours' indentation
    ordered_calls: bool = False  # brackets after a name are parameter lists: their order means something
    splices: list[Splice] = field(default_factory=list)
    guess: str = ""

    def run(self, base: Sequence[Token], ours: Sequence[Token], theirs: Sequence[Token]) -> None:
        """Collect what has to change in ours. Overlap where that cannot be said."""
        try:
            self.items(tree(base), tree(ours), tree(theirs))
        except ValueError:
            raise Overlap from None

    def text(self, start: int, end: int) -> bytes:
        return self.shift(self.theirs[start:end])

    def items(self, base: list[Item], ours: list[Item], theirs: list[Item]) -> None:
        """Merge three sequences of items."""
        nb, no, nt = norm(base), norm(ours), norm(theirs)
        if nb == nt or no == nt:
            return
        if nb == no and base and theirs:
            self.splices.append(
                Splice(ours[0].start, ours[-1].end, self.text(theirs[0].start, theirs[-1].end))
            )
            return
        kb, ko, kt = _skeleton(base), _skeleton(ours), _skeleton(theirs)
        bo, bt = matching(kb, ko), matching(kb, kt)
        to_ours = {i + k: j + k for i, j, n in bo for k in range(n)}
        to_theirs = {i + k: j + k for i, j, n in bt for k in range(n)}
        left = edits(bo, len(base), len(ours))
        for e in edits(bt, len(base), len(theirs)):
            clash = [x for x in left if x.a0 <= e.a1 and e.a0 <= x.a1]
            if clash:
                x = clash[0]
                if len(clash) == 1 and (x.a0, x.a1) == (e.a0, e.a1):
                    if norm(ours[x.b0 : x.b1]) == norm(theirs[e.b0 : e.b1]):
                        continue
                raise Overlap
            if any(norm([base[k]]) != norm([ours[to_ours[k]]]) for k in range(e.a0, e.a1)):
                raise Overlap  # a bracket that goes or is replaced, in which ours changed something
            self._replace(e.a0, e.a1, e.b0, e.b1, ours, theirs, to_ours)
        for i, item in enumerate(base):
            if isinstance(item, Group) and i in to_theirs:
                other = theirs[to_theirs[i]]
                if norm([item]) == norm([other]):
                    continue
                mine = ours[to_ours[i]] if i in to_ours else None
                if not isinstance(mine, Group) or not isinstance(other, Group):
                    raise Overlap
                self.group(item, mine, other)

    def _replace(
        self, a0: int, a1: int, b0: int, b1: int, ours: list[Item], theirs: list[Item], mate: dict[int, int]
    ) -> None:
        if a1 > a0:
            o0, o1 = mate[a0], mate[a1 - 1]
            if b1 > b0:
                text = self.text(theirs[b0].start, theirs[b1 - 1].end)
                self.splices.append(Splice(ours[o0].start, ours[o1].end, text))
            elif o0 > 0:
                self.splices.append(Splice(ours[o0 - 1].end, ours[o1].end, b""))
            else:
                self.splices.append(Splice(ours[o0].start, ours[o1 + 1].start, b""))  # theirs keeps some
        elif a0 > 0:
            at = ours[mate[a0 - 1]].end
            self.splices.append(Splice(at, at, self.text(theirs[b0 - 1].end, theirs[b1 - 1].end)))
        else:
            at = ours[mate[0]].start
            self.splices.append(Splice(at, at, self.text(theirs[b0].start, theirs[b1].start)))

    # brackets

    def group(self, base: Group, ours: Group, theirs: Group) -> None:
        """Merge three versions of one bracket, element by element."""
        no = norm([ours])
        if no == norm([theirs]):
            return
        if no == norm([base]):
            self.splices.append(Splice(ours.start, ours.end, self.text(theirs.start, theirs.end)))
            return
        if len({_one_tuple(each) for each in (base, ours, theirs)}) > 1:
            raise Overlap  # what it is changes with its comma
        if max(len(base.elements), len(ours.elements), len(theirs.elements)) == 1 and base.elements:
            if not ours.elements or not theirs.elements:
                raise Overlap
            self.items(base.elements[0], ours.elements[0], theirs.elements[0])
            return
        kb, ko, kt = _keys(base), _keys(ours), _keys(theirs)
        to_ours, to_theirs = _pairs(base, ours, kb, ko), _pairs(base, theirs, kb, kt)
        there = set(to_theirs.values())
        added_by_us = set(range(len(ko))) - set(to_ours.values())
        for i, j in to_theirs.items():
            b, t = base.elements[i], theirs.elements[j]
            if norm(b) == norm(t):
                continue
            if i not in to_ours:
                raise Overlap
            self.items(b, ours.elements[to_ours[i]], t)
        at_b = at_t = 0
        chain = _chain(to_theirs)
        for i, j in [*chain, (len(kb), len(kt))]:
            removed = [k for k in range(at_b, i) if k not in to_theirs]
            added = [k for k in range(at_t, j) if k not in there]
            if removed or added:
                self._gap(base, ours, theirs, removed, added, at_b - 1, i, to_ours, added_by_us, ko, kt)
            at_b, at_t = i + 1, j + 1

    def _gap(
        self,
        base: Group,
        ours: Group,
        theirs: Group,
        removed: list[int],
        added: list[int],
        before: int,
        after: int,
        to_ours: dict[int, int],
        added_by_us: set[int],
        ko: list[tuple[str, tuple[bytes, ...]]],
        kt: list[tuple[str, tuple[bytes, ...]]],
    ) -> None:
        wanted = []
        for j in added:
            same = [k for k in added_by_us if ko[k] == kt[j]]
            if not same:
                wanted.append(j)
            elif norm(ours.elements[same[0]]) != norm(theirs.elements[j]):
                raise Overlap  # both added it, each its own way
        gone = [i for i in removed if i not in to_ours]
        here = [to_ours[i] for i in removed if i in to_ours]
        for i in removed:
            if i in to_ours and norm(ours.elements[to_ours[i]]) != norm(base.elements[i]):
                raise Overlap
        if gone and added:
            if not wanted and not here:
                return
            raise Overlap
        if gone and added_by_us.intersection(
            range(to_ours.get(before, -1) + 1, to_ours.get(after, len(ours.elements)))
        ):
            raise Overlap  # ours put another one in its place
        texts = [self._element(theirs, j) for j in wanted]
        if here and texts:
            if here != list(range(here[0], here[-1] + 1)):
                raise Overlap
            first, last = ours.elements[here[0]], ours.elements[here[-1]]
            self.splices.append(
                Splice(first[0].start, last[-1].end, (b"," + self._separator(ours)).join(texts))
            )
            return
        for k in here:
            self.remove(ours, k)
        if not texts:
            return
        low = to_ours.get(before, -1 if before < 0 else None)
        high = to_ours.get(after, len(ours.elements) if after >= len(base.elements) else None)
        free = all(kt[j][0] == "=" for j in wanted) and not self.ordered_calls
        real = before >= 0 and before in to_ours or after < len(base.elements) and after in to_ours
        if not real and free and 2 * len(to_ours) >= len(base.elements):
            low, high, real = None, len(ours.elements), True  # keywords stand in any order
        if low is None and high is None or base.elements and not real:
            raise Overlap
        between = (high if high is not None else low + 1) - (low if low is not None else high - 1) - 1  # type: ignore[operator]
        at = high if high is not None else (low or 0) + 1
        first_between = (low if low is not None else at - 1) + 1
        starred = any(
            ours.elements[k][0].text[:1] == b"*"  # type: ignore[union-attr]
            for k in range(first_between, min(at, len(ours.elements)))
            if isinstance(ours.elements[k][0], Token)
        )
        if starred and low is not None:
            at = low + 1
        if between or low is None or high is None:
            place = None if free else _sorted_place(ours, theirs, wanted)
            if place is not None:
                at = place
            elif not free:
                self.guess = "both sides added elements at one place of a list"
        self.insert(ours, at, texts)

    def _element(self, group: Group, at: int) -> bytes:
        element = group.elements[at]
        return self.text(element[0].start, element[-1].end)

    def _separator(self, group: Group) -> bytes:
        """What stands between two elements: a blank, or a line end and the indentation."""
        if not group.elements:
            return b" "
        first = group.elements[0][0].start
        lead = self.ours[group.open.end : first]
        if b"\n" not in lead:
            return b" "
        line = self.ours.rfind(b"\n", 0, first) + 1
        return b"\n" + self.ours[line:first]

    def insert(self, group: Group, at: int, texts: list[bytes]) -> None:
        """Put elements before element ``at`` of ours (after the last one if there is none)."""
        separator = self._separator(group)
        if not group.elements:
            self.splices.append(Splice(group.open.end, group.open.end, (b"," + separator).join(texts)))
            return
        if at == 0:
            first = group.elements[0][0].start
            text = b"".join(text + b"," + separator for text in texts)
            self.splices.append(Splice(first, first, text))
            return
        last = group.elements[at - 1][-1].end
        comma = next((c for c in group.commas if c.start >= last), None)
        limit = group.elements[at][0].start if at < len(group.elements) else group.close.start
        if comma is None or comma.start > limit:
            text = b"".join(b"," + separator + text for text in texts)
            self.splices.append(Splice(last, last, text))
            return
        end = comma.end
        if b"\n" in separator:  # a comment behind the comma stays with its element
            line_end = self.ours.find(b"\n", end, limit)
            end = line_end if line_end >= 0 else end
            end -= self.ours[end - 1 : end] == b"\r"
        text = b"".join(separator + text + b"," for text in texts)
        if at == len(group.elements) and b"\n" not in separator:
            text = text[:-1]
        self.splices.append(Splice(end, end, text))

    def remove(self, group: Group, at: int) -> None:
        """Take element ``at`` of ours out, with its comma."""
        element = group.elements[at]
        if at + 1 < len(group.elements):
            self.splices.append(Splice(element[0].start, group.elements[at + 1][0].start, b""))
        elif at:
            self.splices.append(Splice(group.elements[at - 1][-1].end, element[-1].end, b""))
        else:
            self.splices.append(Splice(group.open.end, group.close.start, b""))


def _sorted_place(ours: Group, theirs: Group, wanted: list[int]) -> int | None:
    """Where one new element goes in a list that both sides keep sorted; None if they do not."""
    mine = [norm(element) for element in ours.elements]
    other = [norm(element) for element in theirs.elements]
    if len(wanted) != 1 or len(mine) < 3 or sorted(mine) != mine or sorted(other) != other:
        return None
    new = norm(theirs.elements[wanted[0]])
    return sum(1 for element in mine if element < new)


def _skeleton(items: Sequence[Item]) -> list[bytes]:
    return [item.text if isinstance(item, Token) else item.open.text for item in items]


def _keys(group: Group) -> list[tuple[str, tuple[bytes, ...]]]:
    """What names each element: its keyword, its key in a dictionary, or all of it."""
    out = []
    for element in group.elements:
        key = ("", norm(element))
        if group.open.text == b"{":
            texts = [item.text if isinstance(item, Token) else b"" for item in element]
            if b":" in texts:
                key = (":", norm(element[: texts.index(b":")]))
        elif group.open.text == b"(" and len(element) > 1 and isinstance(element[0], Token):
            second = element[1]
            if isinstance(second, Token) and second.text in (b"=", b":"):
                key = ("=", (element[0].text,))
        out.append(key)
    return out


def _pairs(
    a: Group, b: Group, ka: list[tuple[str, tuple[bytes, ...]]], kb: list[tuple[str, tuple[bytes, ...]]]
) -> dict[int, int]:
    """Element of ``a`` -> the same element of ``b``."""
    mates = {i + k: j + k for i, j, n in matching(ka, kb) for k in range(n)}
    taken = set(mates.values())
    for i, key in enumerate(ka):  # named ones wherever they stand
        if key[0] and i not in mates and ka.count(key) == 1 and kb.count(key) == 1:
            mates[i] = kb.index(key)
            taken.add(mates[i])
    at_a = at_b = 0
    for i, j in [*_chain(mates), (len(ka), len(kb))]:
        gap_a = [k for k in range(at_a, i) if k not in mates and not ka[k][0]]
        gap_b = [k for k in range(at_b, j) if k not in taken and not kb[k][0]]
        if len(gap_a) == len(gap_b):
            for x, y in zip(gap_a, gap_b):
                if dice(Counter(norm(a.elements[x])), Counter(norm(b.elements[y]))) >= 0.4:
                    mates[x] = y
                    taken.add(y)
        at_a, at_b = i + 1, j + 1
    return mates


def _chain(mates: dict[int, int]) -> list[tuple[int, int]]:
    """Pairs in order on both sides (greedy from the left; order is only broken by named elements)."""
    out: list[tuple[int, int]] = []
    for i, j in sorted(mates.items()):
        if not out or j > out[-1][1]:
            out.append((i, j))
    return out
