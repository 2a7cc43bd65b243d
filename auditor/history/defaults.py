"""Environment flags whose default flipped, where a target's trouble hangs on them.

A flag that nobody sets is what its declaration says. Where that changes, nothing changes at the gates that
read it: what is not known of the flag stays unknown. But a fresh start goes another way, and where the audit
says that a target is in trouble at a place which names the flag, that is what a person has to look at.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping

from auditor import pytext
from auditor.gates.model import VERDICTS, Finding, Report
from auditor.history.flags import Flag
from auditor.history.model import Change

#: A setting that is forced is so whatever its default is.
_TROUBLE = tuple(
    v for v in VERDICTS if v not in ("env-forced", "workaround", "fallback", "undecided", "same")
)


def default_of(declared: str) -> str | None:
    """What a declaration gives where nothing is set, as text; None where that cannot be read.

    It is the first argument of the declaring call, the argument named ``default``, or the literal itself.
    """
    try:
        node: ast.expr = pytext.parse_expression(declared)
    except (SyntaxError, ValueError, RecursionError):
        return None
    if isinstance(node, ast.Call):
        named = [keyword.value for keyword in node.keywords if keyword.arg == "default"]
        given = [*node.args[:1], *named]
        if not given:
            return None
        node = given[0]
    try:
        return repr(ast.literal_eval(node))
    except (ValueError, TypeError, RecursionError, MemoryError):
        return None


def with_flipped_defaults(
    changes: Iterable[Change], old: Mapping[str, Flag], new: Mapping[str, Flag], report: Report
) -> list[Change]:
    """``changes`` of flags, those told as a default that decide about trouble of a target in ``report``.

    ``report`` is the newer audit. Which way is the bad one is not asked: a flag that was turned off ends a
    refusal as often as it brings one.
    """
    out = []
    for change in changes:
        was, now = old.get(change.what), new.get(change.what)
        before = default_of(was.declared) if was else None
        after = default_of(now.declared) if now else None
        told = None
        if None not in (before, after) and before != after:
            told = _told(change, str(before), str(after), report)
        out.append(told or change)
    return out


def _told(change: Change, before: str, after: str, report: Report) -> Change | None:
    """The change as a default, with the worst of the findings that name the flag; None where none does."""
    named = re.compile(rf"(?<!\w){re.escape(change.what)}(?!\w)")
    hit = [f for f in report.findings if named.search(" ".join((f.message, *f.detail)))]
    rows = [(_worst(f, report.targets), f.path, f.line, f.message, f) for f in hit]
    rows = sorted((row for row in rows if row[0] < len(_TROUBLE)), key=lambda row: row[:4])
    if not rows:
        return None
    worst = rows[0][-1]
    targets = [t for t in report.targets if any(row[-1].verdict.get(t) in _TROUBLE for row in rows)]
    words = next(v for t in targets if (v := worst.verdict.get(t)) in _TROUBLE)
    place = f"{worst.path.rpartition('/')[2]}:{worst.line}"
    more = f" (as do {len(rows) - 1} more)" if len(rows) > 1 else ""
    return Change(
        kind="default",
        what=f"{change.what} is {after} by default, was {before}; {place} is {words},"
        f" and it hangs on this{more}: {worst.message}",
        path=change.path,
        line=change.line,
        symbol=change.what,
        gate=worst.gate,
        before=dict.fromkeys(targets, before),
        after=dict.fromkeys(targets, after),
        why=worst.query,
        row="flag",
        area=worst.area,
    )


def _worst(finding: Finding, targets: Iterable[str]) -> int:
    """Place of the worst verdict of any target in the order of troubles, beyond it where there is none."""
    places = [_TROUBLE.index(v) for t in targets if (v := finding.verdict.get(t)) in _TROUBLE]
    return min(places, default=len(_TROUBLE))


__all__ = ["default_of", "with_flipped_defaults"]
