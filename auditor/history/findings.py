"""Forced settings and wrong defaults that came or went. Other verdicts show at their gates.

A finding is known again by its query, its symbol and what it says, without the places that it names: that
something is read at other lines, or that a method became a function of another file, is no change.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from difflib import SequenceMatcher

from auditor.gates.model import Finding, Report
from auditor.history.join import plain
from auditor.history.model import Change

#: Verdicts of queries whose coming and going is a kind of change of its own.
_OF_VERDICT = {"env-forced": "forced", "wrong-default": "default"}
#: Findings of one query in one function that say things less alike than this are two.
_ALIKE = 0.6
_PLACES = re.compile(r"(?:, )?[\w./-]+:\d+(?: \([\w.]+\))?")

Pair = tuple["Finding | None", "Finding | None"]


def finding_changes(old: Report, new: Report) -> list[Change]:
    """What came, went, or is said of other targets now."""
    out = []
    for was, now in _pairs(_told(old), _told(new)):
        here = now or was
        assert here is not None
        old_words = {t: v for t, v in was.verdict.items() if t in old.targets} if was else {}
        new_words = {t: v for t, v in now.verdict.items() if t in new.targets} if now else {}
        names = [t for t in new.targets if old_words.get(t, "same") != new_words.get(t, "same")]
        if not names:
            continue
        kind = next(_OF_VERDICT[v] for v in (*old_words.values(), *new_words.values()) if v in _OF_VERDICT)
        out.append(
            Change(
                kind=kind,
                what=here.message,
                path=here.path,
                line=here.line,
                symbol=here.symbol,
                gate=here.gate,
                before={t: old_words.get(t, "same") for t in names},
                after={t: new_words.get(t, "same") for t in names},
                why=here.query,
                area=here.area,
            )
        )
    return out


def _told(report: Report) -> list[Finding]:
    found = [f for f in report.findings if set(f.verdict.values()) & set(_OF_VERDICT)]
    return sorted(found, key=lambda f: (f.path, f.line, f.query, f.message))


def _pairs(old: list[Finding], new: list[Finding]) -> list[Pair]:
    """Each finding with the one that it was, if it was there."""
    pairs: list[Pair] = []
    for key in (_exactly, _by_words):
        found, old, new = _equal(old, new, key)
        pairs += found
    scored = []
    for i, a in enumerate(old):
        for j, b in enumerate(new):
            if (a.query, _leaf(a), _subject(a)) == (b.query, _leaf(b), _subject(b)):
                score = SequenceMatcher(None, _said(a), _said(b), autojunk=False).ratio()
                if score >= _ALIKE:
                    scored.append((-score, i, j))
    gone: set[int] = set()
    come: set[int] = set()
    for _, i, j in sorted(scored):
        if i not in gone and j not in come:
            gone.add(i)
            come.add(j)
            pairs.append((old[i], new[j]))
    pairs += [(a, None) for i, a in enumerate(old) if i not in gone]
    pairs += [(None, b) for j, b in enumerate(new) if j not in come]
    return pairs


def _equal(
    old: list[Finding], new: list[Finding], key: Callable[[Finding], object]
) -> tuple[list[Pair], list[Finding], list[Finding]]:
    there: dict[object, list[Finding]] = defaultdict(list)
    for finding in new:
        there[key(finding)].append(finding)
    pairs: list[Pair] = []
    rest = []
    for finding in old:
        options = there.get(key(finding))
        if options:
            pairs.append((finding, options.pop(0)))
        else:
            rest.append(finding)
    left = [finding for options in there.values() for finding in options]
    return pairs, rest, sorted(left, key=lambda f: (f.path, f.line, f.query, f.message))


def _exactly(finding: Finding) -> object:
    return finding.query, _leaf(finding), _said(finding)


def _by_words(finding: Finding) -> object:
    return finding.query, _said(finding)


def _leaf(finding: Finding) -> str:
    return finding.symbol.rpartition(".")[2].lstrip("_")


def _subject(finding: Finding) -> str:
    """What a message begins with: the setting or the model class that it is about."""
    return _said(finding).partition(" ")[0].rstrip(":,")


def _said(finding: Finding) -> str:
    """The message without places, without the symbol's own name, and with conditions as they are compared."""
    text = _PLACES.sub("", finding.message)
    for name in (finding.symbol, finding.symbol.rpartition(".")[2]):
        text = text.replace(name, "it") if name else text
    return plain(text)


__all__ = ["finding_changes"]
