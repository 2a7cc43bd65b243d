"""How the gate of kernels looks: a line per configuration, the reasons below those that fail."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from auditor.patching.kernels.report import GateReport, GateRow
    from auditor.patching.proof.verify import Check, Checks
    from auditor.patching.sets.patchset import Patchset

_HEADS = ("configuration", "smem B", "regs", "spill B", "HMMA/QMMA/OMMA", "blocks/SM", "grid", "verdict")


def gate_report(patchset: Patchset, quiet: bool) -> GateReport:
    """Runs the gate with a line of progress."""
    from auditor.cli.progress import Progress
    from auditor.patching.kernels.gate import run_gate

    with Progress(quiet) as progress:
        return run_gate(patchset, lambda done, of: progress("compiling kernels", done, of))


def gate_check(report: GateReport) -> Check:
    """The same as one level of ``patches verify``."""
    from auditor.patching.proof.verify import Check

    failed = [row for row in report.rows if not row.ok]
    facts = [f"{_place(row)} {row.target}, {row.config}: {'; '.join(row.reasons)}" for row in failed]
    kernels = len({(row.file, row.function) for row in report.rows})
    said = (
        f"{len(report.rows) - len(failed)} of {len(report.rows)} compilations of {_count(kernels, 'kernel')} "
        f"hold on {', '.join(report.targets)}, {report.compiler}; no numerics"
    )
    status = "ok" if report.ok else "failed"
    return Check("kernels", status, said, (*report.failures, *facts, *report.notes))  # type: ignore[arg-type]


def with_gate(checks: Checks, report: GateReport) -> Checks:
    """The levels with the gate's in place of the one that says that kernels were not looked at."""
    levels = (gate_check(report) if each.level == "kernels" else each for each in checks.checks)
    return replace(checks, checks=tuple(levels))


def gate_lines(report: GateReport, color: bool, quiet: bool = False) -> list[str]:
    """The report for a terminal; ``quiet`` leaves out what holds."""
    out: list[str] = []
    rows = [row for row in report.rows if not (quiet and row.ok)]
    cells = [_cells(row) for row in rows]
    widths = [max(len(row[i]) for row in (*cells, _HEADS)) for i in range(len(_HEADS))]
    before: tuple[str, ...] | None = None
    for row, texts in zip(rows, cells):
        group = (_place(row), row.target, row.constants)
        if group != before:
            said = f"; {row.constants}" if row.constants else ""
            out += [""] * bool(out) + [f"{group[0]} ({row.language}, {row.patch}) on {row.target}{said}"]
            out.append("  " + _aligned(_HEADS, widths))
            before = group
        line = "  " + _aligned(texts, widths)
        out.append(f"\x1b[31m{line}\x1b[0m" if color and not row.ok else line)
        out += [f"      {reason}" for reason in row.reasons]
    out += [""] * bool(out)
    out += [f"✗ {failure}" for failure in report.failures]
    failed = sum(not row.ok for row in report.rows)
    kernels = len({(row.file, row.function) for row in report.rows})
    mark = "✓" if report.ok else "✗"
    out.append(
        f"{mark} {_count(kernels, 'kernel')}, {len(report.rows) - failed} of {len(report.rows)} compilations "
        f"hold on {', '.join(report.targets)} ({report.compiler})"
    )
    return out + [f"note: {note}" for note in report.notes]


def _place(row: GateRow) -> str:
    return f"{row.file} {row.function}"


def _cells(row: GateRow) -> tuple[str, ...]:
    compiled = bool(row.arch)
    grids = sorted({(launch.blocks, launch.wanted) for launch in row.launches})
    shown = " ".join(
        f"{blocks}≥{wanted}" if blocks >= wanted else f"{blocks}<{wanted}" for blocks, wanted in grids
    )
    return (
        row.config or "as declared",
        f"{row.shared:,}" if compiled else "?",
        str(row.registers) if compiled else "?",
        f"{row.spill_stores + row.spill_loads:,}" if compiled else "?",
        "/".join(str(row.tensor.get(name, 0)) for name in ("HMMA", "QMMA", "OMMA")) if compiled else "?",
        str(row.blocks_per_sm) if compiled else "?",
        shown or "-",
        "ok" if row.ok else "fails",
    )


def _aligned(texts: tuple[str, ...], widths: list[int]) -> str:
    """The first and the last two columns from the left, numbers from the right."""
    last = len(texts) - 1
    cells = [
        text.ljust(width) if i in (0, last - 1, last) else text.rjust(width)
        for i, (text, width) in enumerate(zip(texts, widths))
    ]
    return "  ".join(cells).rstrip()


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"
