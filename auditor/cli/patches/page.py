"""How a plan looks: one line a patch, a legend, and the same as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from auditor.patching.model import GLYPHS, HunkResult, Outcome

if TYPE_CHECKING:
    from auditor.patching.planning.model import Plan, Planned

_COLORS = {
    "clean": "32", "moved": "36", "upstream": "34", "partly": "36", "look": "33", "conflict": "31",
    "obsolete": "34", "skipped": "2", "not-tried": "2",
}  # fmt: skip


def painted(text: str, status: str, color: bool) -> str:
    """``text`` in the colour of a status."""
    return f"\x1b[{_COLORS[status]}m{text}\x1b[0m" if color and status in _COLORS else text


def counted(counts: dict[str, int], what: str = "patch") -> str:
    """``9 patches: 3 clean, 2 moved``."""
    total = sum(counts.values())
    parts = ", ".join(f"{count} {status}" for status, count in counts.items())
    plural = what + ("es" if what.endswith("ch") else "s") if total != 1 else what
    return f"{total} {plural}" + (f": {parts}" if parts else "")


def table(
    entries: Iterable[Planned], color: bool, *, indent: str = "", remarks: Mapping[str, str] | None = None
) -> list[str]:
    """One line a patch; below a patch that needs a person, its hunks. ``remarks`` replace the half line."""
    rows = list(entries)
    width = min(40, max((len(entry.name) for entry in rows), default=0))
    out = []
    for entry in rows:
        status = entry.outcome.status
        head = f"{GLYPHS[status]} {entry.name:<{width}}  {status:<9}"
        told = (remarks or {}).get(entry.name) or remark(entry)
        line = f"{indent}{painted(head, status, color)}  {told}".rstrip()
        out.append(line)
        if status in ("conflict", "look"):
            out += [f"{indent}    {text}" for text in hunk_lines(entry.outcome, only=(status,))]
    return out


def remark(entry: Planned) -> str:
    """The half line behind a status: where to, how much, or why."""
    outcome = entry.outcome
    if outcome.note:
        return outcome.note
    hunks = [hunk for hunk in outcome.hunks if hunk.status != "skipped"]
    done = [hunk for hunk in hunks if hunk.status == "upstream"]
    if outcome.status in ("upstream", "partly") and hunks:
        return f"{len(done)} of {len(hunks)} hunk{'s' if len(hunks) != 1 else ''} already there"
    if outcome.status == "moved":
        places = dict.fromkeys(hunk.to_path for hunk in hunks if hunk.to_path and hunk.to_path != hunk.path)
        moved = [hunk for hunk in hunks if hunk.status == "moved"]
        return "now in " + ", ".join(places) if places else f"{len(moved)} of {len(hunks)} hunks elsewhere"
    if outcome.status == "conflict":
        bad = [hunk for hunk in hunks if hunk.status == "conflict"]
        return f"{len(bad)} of {len(hunks)} hunks do not go" if len(hunks) > 1 else ""
    left = [hunk for hunk in outcome.hunks if hunk.status == "skipped"]
    return f"without {len(left)} files that are not here" if left and outcome.status != "skipped" else ""


def hunk_lines(outcome: Outcome, only: tuple[str, ...] = ()) -> list[str]:
    """A line for each hunk (with a status of ``only``)."""
    return [_hunk(hunk) for hunk in outcome.hunks if not only or hunk.status in only]


def _hunk(hunk: HunkResult) -> str:
    where = hunk.path if hunk.index < 0 else f"{hunk.path} hunk {hunk.index + 1}"
    told = [f"in {hunk.symbol}"] if hunk.symbol else []
    told += [text for text in (hunk.proof, hunk.note) if text]
    return f"{where}: {'; '.join(told) or hunk.status}"


def legend(statuses: Iterable[str]) -> str:
    """The glyphs that a page used."""
    used = set(statuses)
    return "legend: " + "  ".join(f"{glyph} {name}" for name, glyph in GLYPHS.items() if name in used)


def plan_json(plan: Plan) -> dict[str, Any]:
    """A plan as data: no path of this machine, no clock."""
    info = plan.tree.info()
    return {
        "patchset": plan.patchset.name,
        "tree": {
            "kind": info.kind,
            "label": info.label,
            "id": info.content_id,
            "commit": info.commit,
            "version": info.version,
        },
        "counts": plan.counts(),
        "patches": [
            {
                "name": entry.name,
                "project": entry.project,
                "sha256": entry.sha256,
                "status": entry.outcome.status,
                "note": remark(entry),
                "hunks": [_hunk_json(hunk) for hunk in entry.outcome.hunks],
                "files": sorted(entry.outcome.files),
            }
            for entry in plan.entries
        ],
    }


def _hunk_json(hunk: HunkResult) -> dict[str, Any]:
    found: dict[str, Any] = {
        "path": hunk.path,
        "hunk": hunk.index,
        "status": hunk.status,
        "proof": hunk.proof,
    }
    found |= {"to": hunk.to_path} if hunk.to_path else {}
    found |= {"line": hunk.line} if hunk.line else {}
    found |= {"symbol": hunk.symbol} if hunk.symbol else {}
    return found | ({"note": hunk.note} if hunk.note else {})


def envelope(verb: str, **facts: Any) -> bytes:
    """The JSON that a verb prints."""
    import msgspec

    from auditor import __version__

    body = {"schema_version": "1.0", "tool": f"sglang-auditor {__version__}", "verb": verb, **facts}
    return msgspec.json.format(msgspec.json.encode(body), indent=2) + b"\n"
