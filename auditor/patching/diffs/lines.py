"""Two contents as the hunks of a diff.

Lines that occur once on both sides hold the diff together (patience), what lies between them is compared by
the standard library. The result depends on nothing but the two contents.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TypeVar

from auditor.patching.diffs.rising import longest_rising
from auditor.patching.model import FileChange, Hunk

T = TypeVar("T")
_CONTEXT = 3
#: A longer stretch without any line that occurs once on both sides is taken as replaced whole.
_QUADRATIC = 2000


def split_lines(data: bytes) -> list[bytes]:
    """Lines with their ends; only ``\\n`` ends one."""
    lines = [line + b"\n" for line in data.split(b"\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def file_change(path: str, old: bytes | None, new: bytes | None, *, mode: str = "") -> FileChange | None:
    """The change of one file, with both blob ids; None where nothing differs.

    A content with a NUL in its first 8000 bytes is binary, as it is for git.
    """
    from auditor.trees.names import blob_id

    if old == new:
        return None
    old_path, new_path = (None if side is None else path for side in (old, new))
    ids = ["" if side is None else blob_id(side) for side in (old, new)]
    if b"\0" in (old or b"")[:8000] or b"\0" in (new or b"")[:8000]:
        return FileChange(
            old_path, new_path, (), ids[0], ids[1], new_mode=mode if old is None else "",
            binary=new, binary_old=old,
        )  # fmt: skip
    hunks = diff_hunks(split_lines(old or b""), split_lines(new or b""))
    return FileChange(old_path, new_path, hunks, ids[0], ids[1], new_mode=mode if old is None else "")


def diff_hunks(old: list[bytes], new: list[bytes], context: int = _CONTEXT) -> tuple[Hunk, ...]:
    """The hunks that make ``new`` of ``old``, with ``context`` lines around each."""
    groups: list[list[tuple[int, int, int, int]]] = []
    for span in changed_ranges(old, new):
        if groups and span[0] - groups[-1][-1][1] <= 2 * context:
            groups[-1].append(span)
        else:
            groups.append([span])
    return tuple(_hunk(old, new, group, context) for group in groups)


def _hunk(old: list[bytes], new: list[bytes], group: list[tuple[int, int, int, int]], context: int) -> Hunk:
    start = max(group[0][0] - context, 0)
    end = min(group[-1][1] + context, len(old))
    lines: list[tuple[str, bytes]] = []
    at = start
    for first, last, new_first, new_last in group:
        lines += [(" ", text) for text in old[at:first]]
        lines += [("-", text) for text in old[first:last]]
        lines += [("+", text) for text in new[new_first:new_last]]
        at = last
    lines += [(" ", text) for text in old[at:end]]
    new_start = group[0][2] - (group[0][0] - start)
    has_old = any(mark != "+" for mark, _ in lines)
    has_new = any(mark != "-" for mark, _ in lines)
    return Hunk(start + has_old, new_start + has_new, tuple(lines))


def same_start(a: list[T], a0: int, a1: int, b: list[T], b0: int, b1: int) -> int:
    """How many items are the same at the start of ``a[a0:a1]`` and ``b[b0:b1]``.

    Compared in growing stretches, then in halves of the one that differs: one by one takes far longer.
    """
    most = min(a1 - a0, b1 - b0)
    same, step, growing = 0, 1, True
    while same < most:
        step = min(step, most - same)
        i, j = a0 + same, b0 + same
        if a[i : i + step] == b[j : j + step]:
            same += step
            step = step * 2 if growing else max(step // 2, 1)
        elif step == 1:
            break
        else:
            growing, step = False, step // 2
    return same


def same_end(a: list[T], a0: int, a1: int, b: list[T], b0: int, b1: int) -> int:
    """The same for their ends."""
    most = min(a1 - a0, b1 - b0)
    same, step, growing = 0, 1, True
    while same < most:
        step = min(step, most - same)
        i, j = a1 - same, b1 - same
        if a[i - step : i] == b[j - step : j]:
            same += step
            step = step * 2 if growing else max(step // 2, 1)
        elif step == 1:
            break
        else:
            growing, step = False, step // 2
    return same


def changed_ranges(old: list[bytes], new: list[bytes]) -> list[tuple[int, int, int, int]]:
    """``old[a:b]`` became ``new[c:d]``, in order; never empty on both sides."""
    out: list[tuple[int, int, int, int]] = []

    def add(first: int, last: int, new_first: int, new_last: int) -> None:
        if first == last and new_first == new_last:
            return
        if out and out[-1][1] == first and out[-1][3] == new_first:
            first, new_first = out.pop()[::2]
        out.append((first, last, new_first, new_last))

    pending = [(0, len(old), 0, len(new))]
    while pending:
        first, last, new_first, new_last = pending.pop()
        start = same_start(old, first, last, new, new_first, new_last)
        first, new_first = first + start, new_first + start
        end = same_end(old, first, last, new, new_first, new_last)
        last, new_last = last - end, new_last - end
        if first == last or new_first == new_last:
            add(first, last, new_first, new_last)
            continue
        pins = _pins(old, new, first, last, new_first, new_last)
        if pins:
            edges = [(first, new_first), *pins, (last, new_last)]
            parts = [
                (left[0] + (at > 0), right[0], left[1] + (at > 0), right[1])
                for at, (left, right) in enumerate(zip(edges, edges[1:]))
            ]
            pending.extend(reversed(parts))
            continue
        if max(last - first, new_last - new_first) > _QUADRATIC:
            add(first, last, new_first, new_last)
            continue
        matcher = SequenceMatcher(None, old[first:last], new[new_first:new_last], autojunk=False)
        for tag, a, b, c, d in matcher.get_opcodes():
            if tag != "equal":
                add(first + a, first + b, new_first + c, new_first + d)
    return out


def _pins(
    old: list[bytes], new: list[bytes], first: int, last: int, new_first: int, new_last: int
) -> list[tuple[int, int]]:
    """The longest rising row of lines that occur exactly once in both parts."""
    count: dict[bytes, int] = {}
    for line in old[first:last]:
        count[line] = count.get(line, 0) + 1
    where: dict[bytes, int] = {}
    again: set[bytes] = set()
    for at in range(new_first, new_last):
        if new[at] in where:
            again.add(new[at])
        where[new[at]] = at
    return longest_rising(
        [
            (at, where[old[at]])
            for at in range(first, last)
            if count[old[at]] == 1 and old[at] in where and old[at] not in again
        ]
    )
