"""Counting statements: what a merge may add or take away is what the patch adds or takes away."""

from __future__ import annotations

from collections import Counter

from auditor.patching.merge.statements import Source, Statement, source_of, tokens

Norm = tuple[bytes, ...]


def _parts(source: Source) -> dict[bytes, tuple[int, Norm | None, Statement]]:
    """Text of each simple statement and each header -> how often it stands there, and one of them."""
    out: dict[bytes, tuple[int, Norm | None, Statement]] = {}
    for statement in source.statements():
        spans = [(arm.start, arm.head_end) for arm in statement.arms] or [(statement.start, statement.end)]
        heads: list[Norm | None] = [arm.head for arm in statement.arms] or [None]
        for (start, end), head in zip(spans, heads):
            text = source.data[start:end].strip()
            count, _, _ = out.get(text, (0, None, statement))
            out[text] = (count + 1, head, statement)
    return out


def difference(before: Source, after: Source) -> Counter[Norm]:
    """Statements of ``after`` minus those of ``before``, by their tokens; counts may be negative, not 0."""
    a, b = _parts(before), _parts(after)
    out: Counter[Norm] = Counter()
    for text in a.keys() | b.keys():
        count = (b[text][0] if text in b else 0) - (a[text][0] if text in a else 0)
        if count:
            head = (b if text in b else a)[text][1]
            out[head if head is not None else tuple(t.text for t in tokens(text, 0, len(text)))] += count
    return Counter({norm: count for norm, count in out.items() if count})


def unaccounted(base: Source, theirs: Source, ours: Source, result: bytes) -> str:
    """A statement that came or went though the patch neither adds nor removes it; "" if there is none.

    A statement that both sides changed without overlap is new to both; it stands for one of ours.
    """
    after = source_of(result)
    wanted, got = difference(base, theirs), difference(ours, after)
    known = {tuple(s.head) for s in theirs.statements()} if any(got[n] > wanted[n] for n in got) else set()
    # What the patch takes away and ours no longer had, ours may have in another form.
    merged = sum(got[norm] - count for norm, count in wanted.items() if count < 0 and got[norm] > count)
    for norm, count in got.items():
        if count > 0 and count > wanted[norm]:
            if norm in known:
                return _words(norm)
            merged += count - max(wanted[norm], 0)
    for norm, count in got.items():
        if count < 0 and count < wanted[norm]:
            merged += count - min(wanted[norm], 0)
            if merged < 0:
                return _words(norm)
    return ""


def _words(norm: Norm) -> str:
    text = b" ".join(norm).decode("utf-8", "replace")
    return text if len(text) <= 60 else text[:57] + "..."
