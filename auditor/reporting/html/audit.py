"""The report of an audit as one self-contained HTML page: gates and targets to filter, sort and open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from auditor.gates.model import VERDICTS, Report
from auditor.history.pasts import Event, Pasts
from auditor.history.sweeping.trend import Trend
from auditor.reporting.html.document import Texts, document, repository
from auditor.reporting.html.gate import gate_facts, known_targets, predicate_facts
from auditor.reporting.html.trend import folded_trend
from auditor.reporting.items import GLYPHS, MEANING, items, of_gate, shown_targets
from auditor.reporting.terminal import tree_words

_NONE = Pasts({}, ())


def page(
    report: Report,
    lines: Iterable[str],
    *,
    past: Pasts = _NONE,
    trend: Trend | None = None,
    url: str = "",
) -> bytes:
    """The page as UTF-8. The same report gives the same bytes.

    ``lines`` are its head; ``past`` is what is known of the past of its gates, ``trend`` of their number;
    ``url`` is the project's public repository, for links.
    """
    return document(
        f"{report.project} {report.tree.label}",
        lines,
        facts=_facts(report, past, url),
        scripts=("page.js", "gate.js", "audit.js"),
        problems=(f"{p.path}:{p.line} {p.message}" for p in report.problems),
        above=folded_trend(trend) if trend is not None else "",
    )


def _facts(report: Report, past: Pasts, url: str) -> dict[str, Any]:
    texts = Texts()
    every = known_targets(report)
    return {
        "targets": every,
        "shown": list(shown_targets(report)),
        "reference": report.reference,
        # a list: JSON objects have their keys sorted, and this is an order of weight
        "verdicts": [[v, GLYPHS[v], MEANING[v].format(reference=report.reference)] for v in VERDICTS],
        "rows": _rows(report, texts, every, past.events),
        "predicates": predicate_facts(report, report.gates, texts, every),
        "where": f"audit gate GATE {tree_words(report)}".strip(),
        "from": [[texts(words), texts(empty)] for words, empty in past.sources],
        "upstream": repository(url),
        "tree": report.tree.commit or "",
        "texts": texts.all,
    }


def _rows(
    report: Report, texts: Texts, every: Sequence[str], past: Mapping[str, Sequence[Event]]
) -> list[dict[str, Any]]:
    shown = shown_targets(report)
    entries = items(report)
    spoken = {entry.gate.id for entry in entries if entry.gate is not None}
    entries += [of_gate(gate, shown) for gate in report.gates if gate.id not in spoken]
    rank = {verdict: number for number, verdict in enumerate(VERDICTS)}
    entries.sort(key=lambda entry: (rank.get(entry.verdict, -1), entry.key))
    rows = []
    for entry in entries:
        gate, finding = entry.gate, entry.finding
        row: dict[str, Any] = {
            "v": [entry.verdicts.get(target, "same") for target in shown],
            "a": texts(entry.area or "other"),
            "p": texts(entry.path),
            "l": entry.line,
            "s": texts(entry.symbol),
        }
        if entry.message:
            row["m"] = texts(entry.message)
        if finding is not None:
            row["e"] = finding.severity
            row.update({"q": texts(finding.query)} if finding.query else {})
            row.update({"d": texts.many(finding.detail)} if finding.detail else {})
            row.update({"x": texts(finding.fix)} if finding.fix else {})
        if gate is not None:
            row.update(gate_facts(gate, texts, every))
            if gate.id in past:
                row["h"] = [[*commit_facts(e, texts), texts(e.what)] for e in past[gate.id]]
        rows.append(row)
    return rows


def commit_facts(event: Event, texts: Texts) -> list[Any]:
    """``[id, date, number of the pull request, subject]`` of what made an event."""
    return [texts(event.commit), texts(event.date), texts(event.pr), texts(event.subject)]
