"""Findings from sites: one line per place where a guard is missing, with the chain down to the build file."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from auditor.gates.model import Finding
from auditor.native.model import Row
from auditor.native.sites.sites import GONE, Derived

VERDICT = "unguarded"
Settled = tuple[str, str]
#: Texts of conditions and lists of places are cut here.
WIDTH = 160
PLACES = 6


def findings(derived: Iterable[Derived], rows: Iterable[Row], targets: Sequence[str]) -> list[Finding]:
    """What to say about the sites that are unguarded on one of the targets, by path and line."""
    by_name = {row.name: row for row in rows}
    groups: dict[tuple[str, int, str], list[Derived]] = {}
    for one in derived:
        if any(t in one.site.unguarded for t in targets):
            groups.setdefault(_group(one, targets), []).append(one)
    return [_finding(groups[key], by_name, targets) for key in sorted(groups)]


def _group(one: Derived, targets: Sequence[str]) -> tuple[str, int, str]:
    """Sites behind one missing guard; those of a class that somebody has to choose stand together."""
    if one.settings and _all_chosen(one, targets):
        return one.path, 0, f"{one.symbol.split('.', 1)[0]}\0{one.settings}"
    return one.path, one.line, one.symbol


def _all_chosen(one: Derived, targets: Sequence[str]) -> bool:
    bad = [t for t in targets if t in one.site.unguarded]
    return all(t in one.chosen for t in bad)


def _finding(group: list[Derived], rows: dict[str, Row], targets: Sequence[str]) -> Finding:
    group = sorted(group, key=lambda d: (d.path, d.line, d.site.path, d.site.line, d.site.op))
    first = group[0]
    bad = [t for t in targets if any(t in one.site.unguarded for one in group)]
    chosen = all(_all_chosen(one, targets) for one in group)
    unseen = all(any(b.startswith("no caller of ") for b in one.site.because) for one in group)
    calls = list(dict.fromkeys(one.site.call.rpartition(".")[2] for one in group))
    falls = {rows[one.site.op].cells[t].outcome for one in group for t in bad if t in one.site.unguarded}
    many = len(calls) > 1
    if falls == {"falls-through"}:
        what = "do nothing" if many else "does nothing"
    else:
        what = "have no code" if many else "has no code"
    message = f"{_listed(calls, 3)} {what} for {_listed(bad, 9)}, and no guard stands before it"
    if chosen:
        message += f"; only where {_listed(first.settings, 4)} is chosen"
    detail = list(dict.fromkeys(line for one in group for line in _detail(one, rows, bad)))
    if len(group) > 1:
        places = list(dict.fromkeys(f"{one.site.path.rpartition('/')[2]}:{one.site.line}" for one in group))
        if len(places) > 1:
            detail.append(f"at {_listed(places, PLACES)}")
    return Finding(
        query="",
        gate="",
        path=first.path,
        line=first.line,
        symbol=first.symbol,
        verdict={t: VERDICT if t in bad else "same" for t in targets},
        severity="note" if unseen else "warning" if chosen else "error",
        message=message,
        area=first.site.area,
        detail=tuple(detail),
    )


def _detail(one: Derived, rows: dict[str, Row], bad: Collection[str]) -> list[str]:
    site, row = one.site, rows[one.site.op]
    target = next(t for t in bad if t in site.unguarded)
    cell = row.cells[target]
    place = (
        f" ({site.path.rpartition('/')[2]}:{site.line})"
        if (site.path, site.line) != (one.path, one.line)
        else ""
    )
    chain = [f"{site.call.rpartition('.')[2]}{place}", *one.via, row.name.replace("::", "."), cell.reason]
    out = [" ← ".join(part for part in chain if part)]
    if one.conditions:
        out.append("when " + _cut(" and ".join(_paren(c.text) for c in one.conditions)))
    for because in site.because:
        if because.startswith("no caller of "):
            out.append(because)
    if one.tried:
        out.append("inside a try: what is raised may be caught, a wrong result is not")
    out += [f"{step.text}  {step.path}:{step.line}" if step.path else step.text for step in cell.proof]
    return out


def _paren(text: str) -> str:
    return f"({text})" if " or " in text and " and " not in text else text


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"


def _listed(words: Sequence[str], most: int) -> str:
    """``a, b and 3 more``"""
    words = list(words)
    if len(words) > most:
        return f"{', '.join(words[:most])} and {len(words) - most} more"
    return ", ".join(words[:-1]) + (" and " if len(words) > 1 else "") + words[-1] if words else ""


def settled(derived: Iterable[Derived], rows: Iterable[Row], targets: Sequence[str]) -> frozenset[Settled]:
    """(path, target) where calls of operators that are not there for the target have been looked at."""
    by_name = {row.name: row for row in rows}
    return frozenset(
        (path, target)
        for one in derived
        for target in targets
        if by_name[one.site.op].cells[target].outcome in GONE
        for path in {one.path, one.site.path}
    )


def merged(
    found: Sequence[Finding], derived: Sequence[Finding], known: Collection[Settled] = ()
) -> list[Finding]:
    """Both without saying anything twice, and without contradiction.

    Where a query speaks about a place that is derived too, its words and its advice stay and the chain is
    added; whether a target is unguarded there is what was derived. Where a query calls a place unguarded
    that is not derived, in a file whose calls have been looked at (``known``), it is wrong: a guard stands
    somewhere that it does not see.
    """
    places = {(one.path, one.line): one for one in derived}
    out = []
    used = set()
    for finding in found:
        if VERDICT not in finding.verdict.values() or not finding.query:
            out.append(finding)
            continue
        other = places.get((finding.path, finding.line))
        verdict = {}
        for target, word in finding.verdict.items():
            here = other.verdict.get(target) if other is not None else None
            if here == VERDICT or (word == VERDICT and (finding.path, target) in known):
                word = here or "same"
            verdict[target] = word
        if other is not None and VERDICT in other.verdict.values():
            used.add((other.path, other.line))
            detail = (*finding.detail, *other.detail)
            out.append(msgspec.structs.replace(finding, verdict=verdict, detail=detail))
        elif any(word != "same" for word in verdict.values()):
            out.append(msgspec.structs.replace(finding, verdict=verdict))
    return out + [one for one in derived if (one.path, one.line) not in used]


__all__ = ["VERDICT", "findings", "merged", "settled"]
