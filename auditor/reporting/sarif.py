"""SARIF 2.1.0, as GitHub's code scanning takes it.

One run; the targets of a result are in its properties. Nothing about the clock, the machine or the folder
is in it. ``gateHash/v1`` is our own fingerprint: it stays the same when code moves within its file.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from auditor import __version__
from auditor.reporting.linehash import line_hashes
from auditor.reporting.notes import Note, Paper, Rule, counted, sentence
from auditor.reporting.text import clean

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
#: GitHub's limits for one run: more are refused or not shown. The worst results are kept.
MOST_RESULTS = 25_000
MOST_BYTES = 10_000_000  # compressed
MOST_STEPS = 1_000
_BASE = "SRCROOT"


def dumps(paper: Paper, *, source: Callable[[str], bytes] | None, url: str, automation: str) -> bytes:
    """The log as UTF-8 JSON with a final newline.

    ``source`` reads a file of the audited tree, for the hashes of lines; None where the tree is the checkout,
    for which the upload makes them. ``url`` is the repository of the audited project, ``automation`` the
    category that tells several uploads of one commit apart.
    """
    kept = MOST_RESULTS
    while True:
        data = _log(paper, paper.notes[:kept], source, url, automation)
        if kept == 0 or len(data) <= MOST_BYTES or len(gzip.compress(data, mtime=0)) <= MOST_BYTES:
            return data
        kept = min(kept, len(paper.notes)) * 3 // 4


def _log(
    paper: Paper, notes: tuple[Note, ...], source: Callable[[str], bytes] | None, url: str, automation: str
) -> bytes:
    rules = [paper.rules[name] for name in sorted({note.rule for note in notes})]
    index = {rule.id: number for number, rule in enumerate(rules)}
    hashes = _hashes(notes, source)
    run: dict[str, Any] = {
        "tool": {
            "driver": {
                "name": "sglang-auditor",
                "semanticVersion": __version__,
                "version": __version__,
                "informationUri": url,
                "rules": [_rule(rule) for rule in rules],
            }
        },
        "automationDetails": {"id": f"{automation}/"},
        "columnKind": "utf16CodeUnits",
        "originalUriBaseIds": {_BASE: {"description": {"text": "The root of the audited tree."}}},
        "properties": {"targets": list(paper.targets), "tree": paper.tree.label, "summary": counted(paper)},
        "invocations": [
            {"executionSuccessful": True, "toolExecutionNotifications": _notices(paper, len(notes))}
        ],
        "results": [_result(note, index[note.rule], hashes) for note in notes],
    }
    if paper.tree.commit:
        run["versionControlProvenance"] = [
            {"repositoryUri": url, "revisionId": paper.tree.commit, "mappedTo": {"uriBaseId": _BASE}}
        ]
    body = msgspec.json.encode({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})
    return msgspec.json.format(body, indent=1) + b"\n"


def _rule(rule: Rule) -> dict[str, Any]:
    text = clean(rule.text)
    return {
        "id": rule.id,
        "name": _pascal(rule.id),
        "shortDescription": {"text": _sentence(clean(rule.title))},
        "fullDescription": {"text": _sentence(text)},
        "help": {"text": _sentence(text), "markdown": _sentence(_plain_markdown(text))},
        "defaultConfiguration": {"level": rule.level},
        "properties": {"tags": ["gpu-architecture", rule.id.partition("/")[0]], "precision": "high"},
    }


def _pascal(name: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in name.replace("/", "-").split("-"))


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _plain_markdown(text: str) -> str:
    """Text that Markdown shows as it stands: nothing of it is a link, an image or markup."""
    return "".join(f"\\{c}" if c in r"\`*_{}[]()<>#+-!|~&" else c for c in text)


def _place(path: str, line: int, end_line: int = 0) -> dict[str, Any]:
    from urllib.parse import quote

    region = {"startLine": max(line, 1)}
    if end_line > max(line, 1):
        region["endLine"] = end_line
    uri = quote(path.encode("utf-8", "surrogateescape"))
    return {"physicalLocation": {"artifactLocation": {"uri": uri, "uriBaseId": _BASE}, "region": region}}


def _result(note: Note, rule: int, hashes: Mapping[tuple[str, int], str]) -> dict[str, Any]:
    text = "\n".join(
        [sentence(note), *map(clean, note.detail), *([f"fix: {clean(note.fix)}"] if note.fix else [])]
    )
    location = _place(note.path, note.line, note.end_line)
    if note.symbol:
        location["logicalLocations"] = [{"fullyQualifiedName": clean(note.symbol), "kind": "function"}]
    prints = {"gateHash/v1": note.key}
    if (note.path, note.line) in hashes:
        prints["primaryLocationLineHash"] = hashes[note.path, note.line]
    out: dict[str, Any] = {
        "ruleId": note.rule,
        "ruleIndex": rule,
        "level": note.level,
        "message": {"text": _sentence(text)},
        "locations": [location],
        "partialFingerprints": prints,
        "properties": {"targets": dict(note.verdicts), **({"area": note.area} if note.area else {})},
    }
    steps = [step for step in note.chain if step.path][:MOST_STEPS]
    if len(steps) > 1:
        out["codeFlows"] = [
            {
                "threadFlows": [
                    {
                        "locations": [
                            {"location": {**_place(s.path, s.line), "message": {"text": clean(s.text)}}}
                            for s in steps
                        ]
                    }
                ]
            }
        ]
    return out


def _hashes(notes: tuple[Note, ...], source: Callable[[str], bytes] | None) -> dict[tuple[str, int], str]:
    if source is None:
        return {}
    lines: dict[str, set[int]] = {}
    for note in notes:
        lines.setdefault(note.path, set()).add(note.line)
    out = {}
    for path in sorted(lines):
        for line, value in line_hashes(source(path), lines[path]).items():
            out[path, line] = value
    return out


def _notices(paper: Paper, kept: int) -> list[dict[str, Any]]:
    said = [(text, "warning") for text in (f"Not audited: {clean(problem)}" for problem in paper.problems)]
    if kept < len(paper.notes):
        said.append(
            (
                f"{len(paper.notes) - kept:,} of {len(paper.notes):,} results left out, the least bad.",
                "warning",
            )
        )
    if any(paper.left_out.values()):
        said.append((f"{counted(paper)}.", "note"))
    return [{"message": {"text": text}, "level": level} for text, level in said]
