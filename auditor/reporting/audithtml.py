"""The report of an audit as one self-contained HTML page: nothing is fetched, everything can be filtered.

The facts travel as JSON within the page, each text once, and its script (``page/audit.js``) shows them as
text only: nothing of the audited tree is ever markup. The page names its own style and script by hash and
forbids everything else, so that even a fault here could run nothing foreign.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any, NamedTuple

import msgspec

from auditor.gates.model import VERDICTS, Arm, Gate, Predicate, Report
from auditor.reporting.items import GLYPHS, MEANING, items, of_gate, shown_targets
from auditor.reporting.terminal import tree_words
from auditor.reporting.text import clean

_TRUTH = {"true": "t", "false": "f", "unknown": "u"}


class Past(NamedTuple):
    """One commit that changed what a gate means."""

    commit: str
    date: str
    pr: str  # "" if its subject names none
    what: str  # "sm_120: no → yes"


def page(
    report: Report,
    lines: Iterable[str],
    *,
    history: Mapping[str, Sequence[Past]] | None = None,
    where: str = "",
) -> bytes:
    """The page as UTF-8. The same report gives the same bytes.

    ``lines`` are its head, ``history`` what is known of the past of gates, by id.
    """
    title = f"{report.project} {report.tree.label}"
    data = msgspec.json.encode(_facts(report, history or {}), order="deterministic").decode()
    style, script = _file("audit.css"), _file("audit.js")
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    out = [
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{_text(title)}</title>\n<style>{style}</style></head><body>",
        f"<header><h1>{_text(title)}</h1>",
        *(f"<p>{_text(line)}</p>" for line in lines if line != title),
        *(
            f'<p class="problem">not audited: {_text(f"{p.path}:{p.line} {p.message}")}</p>'
            for p in report.problems
        ),
        "</header>",
        "<noscript><p>This page needs its own script to show the gates; it fetches nothing.</p></noscript>",
        '<main id="main"></main>',
        f'<script type="application/json" id="facts">{_inert(data)}</script>',
        f"<script>{script}</script></body></html>\n",
    ]
    return "\n".join(out).encode("utf-8", "backslashreplace")


def _file(name: str) -> str:
    return (resources.files("auditor.reporting") / "page" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _inert(data: str) -> str:
    """JSON that cannot end its element."""
    return data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _text(text: str) -> str:
    return escape(clean(text))


class _Texts:
    """Every text once; facts hold its number."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._numbers: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self.all)
            self.all.append(clean(text))
        return number

    def many(self, texts: Iterable[str]) -> list[int]:
        return [self(text) for text in texts]


def _facts(report: Report, history: Mapping[str, Sequence[Past]]) -> dict[str, Any]:
    texts = _Texts()
    every = _known(report)
    return {
        "targets": every,
        "shown": list(shown_targets(report)),
        "reference": report.reference,
        "verdicts": {v: [GLYPHS[v], MEANING[v].format(reference=report.reference)] for v in VERDICTS},
        "rows": _rows(report, texts, every, history),
        "predicates": {item.name: _predicate(item, texts, every) for item in _used(report)},
        "where": f"audit gate GATE {tree_words(report)}".strip(),
        "texts": texts.all,
    }


def _known(report: Report) -> list[str]:
    """Every target with values in the report, by number."""
    names = {*report.targets, report.reference, *(name for gate in report.gates for name in gate.truth)}
    return sorted(names, key=lambda name: (len(name), name))


def _used(report: Report) -> list[Predicate]:
    return sorted(report.predicates, key=lambda item: item.name)


def _rows(
    report: Report, texts: _Texts, every: Sequence[str], history: Mapping[str, Sequence[Past]]
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
            row.update(_gate(gate, texts, every))
            if gate.id in history:
                row["h"] = [[texts(word) for word in past] for past in history[gate.id]]
        rows.append(row)
    return rows


def _gate(gate: Gate, texts: _Texts, every: Sequence[str]) -> dict[str, Any]:
    out: dict[str, Any] = {
        "id": gate.id,
        "c": texts(f"{gate.kind} {gate.predicate}"),
        "t": "".join(_TRUTH.get(gate.truth.get(target, ""), "-") for target in every),
        "r": "".join(_TRUTH.get(gate.reached.get(target, ""), "-") for target in every),
        "n": texts.many(gate.via),
        "o": texts.many(gate.roots),
    }
    if gate.scope != "arch":
        out["k"] = gate.scope
    if gate.unknown_because:
        out["u"] = texts.many(gate.unknown_because)
    if gate.arms:
        out["w"] = [_arm(arm, texts) for arm in gate.arms]
    return out


def _arm(arm: Arm, texts: _Texts) -> list[Any]:
    does = [texts(f"{effect.kind} {effect.what}") for effect in arm.effects]
    if arm.value is not None:
        does.insert(0, texts(f"gives {arm.value}"))
    return [_TRUTH[arm.when], arm.line, arm.end_line, does]


def _predicate(item: Predicate, texts: _Texts, every: Sequence[str]) -> list[Any]:
    words = {"true": "yes", "false": "no", "unknown": "?"}
    values = [item.value.get(target) or words.get(item.truth.get(target, ""), "") for target in every]
    return [texts(item.path), item.line, texts.many(values), texts.many(item.via), texts.many(item.roots)]
