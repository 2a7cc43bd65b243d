"""Which statement of one version is which statement of another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

from auditor.patching.diffs.rising import longest_rising
from auditor.patching.merge.lines import matching
from auditor.patching.merge.statements import Arm, Statement

#: Statements that have less than this in common are two statements, not one that was changed.
LIKE = 0.5

_ALIKE = {
    "AnnAssign": "Assign",
    "AsyncFunctionDef": "FunctionDef",
    "AsyncFor": "For",
    "AsyncWith": "With",
}
Pair = tuple[Statement, Statement]


def dice(a: Counter[bytes], b: Counter[bytes]) -> float:
    """How much two bags of tokens have in common, 0 to 1."""
    size = sum(a.values()) + sum(b.values())
    if not size:
        return 1.0
    small, large = (a, b) if len(a) <= len(b) else (b, a)
    return 2 * sum(min(count, large[key]) for key, count in small.items() if key in large) / size


def likeness(a: Statement, b: Statement) -> float:
    """How sure it is that ``b`` is ``a``, changed. 0 for statements of different kinds."""
    if _ALIKE.get(a.kind, a.kind) != _ALIKE.get(b.kind, b.kind):
        return 0.0
    if a.norm == b.norm:
        return 1.0
    score = dice(a.bag, b.bag)
    if a.is_scope:
        return max(score, 0.75) if a.name == b.name else score * 0.8
    if a.arms and b.arms:
        return max(score, 0.5 + score / 2) if a.head == b.head else score * 0.75
    if a.kind in ("Assign", "AnnAssign", "AugAssign"):
        return score * 0.7 + 0.3 if _target(a) == _target(b) else score * 0.6
    if a.kind == "ImportFrom":
        return score * 0.5 + 0.5 if _module(a) == _module(b) else score * 0.5
    return score


def _target(statement: Statement) -> tuple[bytes, ...]:
    norm = statement.norm
    for stop in (b"=", b":", b"+=", b"|=", b"-=", b"*="):
        if stop in norm:
            return norm[: norm.index(stop)]
    return norm


def _module(statement: Statement) -> tuple[bytes, ...]:
    norm = statement.norm
    return norm[: norm.index(b"import")] if b"import" in norm else norm


def align(left: Sequence[Statement], right: Sequence[Statement]) -> list[Pair]:
    """Pairs of the same statement, changed or not, sorted by the left one; each statement at most once.

    Functions and classes are matched by name wherever they stand; everything else keeps its order.
    """
    numbers: dict[Hashable, int] = {}
    a = [numbers.setdefault(s.norm, len(numbers)) for s in left]
    b = [numbers.setdefault(s.norm, len(numbers)) for s in right]
    mates: dict[int, int] = {}
    for i, j, n in matching(a, b):
        for k in range(n):
            mates[i + k] = j + k
    _told_apart(left, right, mates)
    taken = set(mates.values())
    _by_name(left, right, mates, taken)
    at_a = at_b = 0
    for i, j in [*longest_rising(sorted(mates.items())), (len(left), len(right))]:
        gap_a = [k for k in range(at_a, i) if k not in mates]
        gap_b = [k for k in range(at_b, j) if k not in taken]
        if gap_a and gap_b:
            _by_likeness(left, right, gap_a, gap_b, mates)
        at_a, at_b = i + 1, j + 1
    return [(left[i], right[j]) for i, j in sorted(mates.items())]


def _told_apart(left: Sequence[Statement], right: Sequence[Statement], mates: dict[int, int]) -> None:
    """Of two neighbours with the same tokens the mate is the one whose comment behind it is the same, too."""
    taken = set(mates.values())
    for i, j in list(mates.items()):
        if _own(left[i]) == _own(right[j]):
            continue
        for at in (j - 1, j + 1):
            if 0 <= at < len(right) and at not in taken and _own(left[i]) == _own(right[at]):
                taken = (taken - {j}) | {at}
                mates[i] = at
                break
        for at in (i - 1, i + 1):
            if mates[i] == j and 0 <= at < len(left) and at not in mates and _own(left[at]) == _own(right[j]):
                del mates[i]
                mates[at] = j
                break


def _own(statement: Statement) -> bytes:
    return statement.source.data[statement.start : statement.end]


def _names(statements: Sequence[Statement], free: Sequence[int]) -> dict[tuple[str, bytes], int]:
    """Key of a named statement -> where it is, if it is the only one of that key."""
    out: dict[tuple[str, bytes], int] = {}
    twice: set[tuple[str, bytes]] = set()
    for at in free:
        statement = statements[at]
        if statement.is_scope:
            key = ("def", statement.name.encode())
        elif statement.kind in ("Assign", "AnnAssign") and not statement.in_function():
            target = _target(statement)
            if len(target) != 1:
                continue
            key = ("=", target[0])
        else:
            continue
        if key in out:
            twice.add(key)
        out[key] = at
    return {key: at for key, at in out.items() if key not in twice}


def _by_name(
    left: Sequence[Statement], right: Sequence[Statement], mates: dict[int, int], taken: set[int]
) -> None:
    here = _names(left, [i for i in range(len(left)) if i not in mates])
    there = _names(right, [j for j in range(len(right)) if j not in taken])
    for key, i in here.items():
        if key in there:
            mates[i] = there[key]
            taken.add(there[key])


def _by_likeness(
    left: Sequence[Statement],
    right: Sequence[Statement],
    gap_a: list[int],
    gap_b: list[int],
    mates: dict[int, int],
) -> None:
    """Between two sure pairs: the assignment, in order, with the most in common."""
    if len(gap_a) * len(gap_b) > 4000:
        return
    width = len(gap_b) + 1
    best = [[0.0] * width for _ in range(len(gap_a) + 1)]
    score = [[likeness(left[i], right[j]) for j in gap_b] for i in gap_a]
    for x in range(len(gap_a) - 1, -1, -1):
        for y in range(len(gap_b) - 1, -1, -1):
            here = score[x][y] + best[x + 1][y + 1] if score[x][y] >= LIKE else 0.0
            best[x][y] = max(here, best[x + 1][y], best[x][y + 1])
    x = y = 0
    while x < len(gap_a) and y < len(gap_b):
        if score[x][y] >= LIKE and best[x][y] == score[x][y] + best[x + 1][y + 1]:
            mates[gap_a[x]] = gap_b[y]
            x, y = x + 1, y + 1
        elif best[x][y] == best[x + 1][y]:
            x += 1
        else:
            y += 1


def pair_arms(left: Sequence[Arm], right: Sequence[Arm]) -> dict[int, int]:
    """Index of an arm -> index of the same arm.

    By what is under it, where that is the same, then by header and by how alike it is under it, then by
    keyword and place between those. An ``else`` that became an ``elif`` before a new ``else`` is that.
    """
    mates: dict[int, int] = {0: 0} if left and right else {}
    a, b = [_under(arm) for arm in left[1:]], [_under(arm) for arm in right[1:]]
    for i, j, n in matching(a, b):
        for k in range(n):
            body = a[i + k]
            if sum(map(len, body)) >= 4 and a.count(body) == b.count(body) == 1:
                mates[1 + i + k] = 1 + j + k
    for gap_a, gap_b in _gaps(mates, len(left), len(right)):
        mates.update(_best(left, right, gap_a, gap_b))
    for gap_a, gap_b in _gaps(mates, len(left), len(right)):
        if [left[k].head[:1] for k in gap_a] == [right[k].head[:1] for k in gap_b]:
            mates.update(zip(gap_a, gap_b))
    return mates


def _under(arm: Arm) -> tuple[tuple[bytes, ...], ...]:
    return tuple(child.norm for child in arm.children)


def _best(
    left: Sequence[Arm], right: Sequence[Arm], gap_a: list[int], gap_b: list[int]
) -> Iterator[tuple[int, int]]:
    """Of arms with the same header, or with much the same under them, the pairs with the most in common."""
    if not gap_b or len(gap_a) * len(gap_b) > 4000:
        return
    bags = [[_bag(arms[k]) for k in gap] for arms, gap in ((left, gap_a), (right, gap_b))]
    best = [[0.0] * (len(gap_b) + 1) for _ in range(len(gap_a) + 1)]
    score = [[0.0] * len(gap_b) for _ in gap_a]
    for x in range(len(gap_a) - 1, -1, -1):
        for y in range(len(gap_b) - 1, -1, -1):
            same = left[gap_a[x]].head == right[gap_b[y]].head
            alike = dice(bags[0][x], bags[1][y])
            score[x][y] = alike + 0.4 * same if same or alike >= LIKE else 0.0
            here = score[x][y] + best[x + 1][y + 1] if score[x][y] else 0.0
            best[x][y] = max(here, best[x + 1][y], best[x][y + 1])
    x = y = 0
    while x < len(gap_a) and y < len(gap_b):
        if score[x][y] and best[x][y] == score[x][y] + best[x + 1][y + 1]:
            yield gap_a[x], gap_b[y]
            x, y = x + 1, y + 1
        elif best[x][y] == best[x + 1][y]:
            x += 1
        else:
            y += 1


def _bag(arm: Arm) -> Counter[bytes]:
    out: Counter[bytes] = Counter()
    for child in arm.children:
        out.update(child.bag)
    return out


def _gaps(mates: dict[int, int], len_a: int, len_b: int) -> list[tuple[list[int], list[int]]]:
    """What lies between pairs, on both sides."""
    out = []
    at_a = at_b = 0
    for i, j in [*sorted(mates.items()), (len_a, len_b)]:
        if at_a < i:
            out.append((list(range(at_a, i)), list(range(at_b, j))))
        at_a, at_b = i + 1, j + 1
    return out
