"""The gate's answer as data: a row per configuration and target. Makes ``reports/schema/gate-1.json``."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from auditor.reporting.published import TARGET, indented, report_schema

SCHEMA_ID = "urn:sglang-auditor:schema:gate:1"
SCHEMA_VERSION = "1.0"


class Launched(msgspec.Struct, frozen=True):
    """A launch for one of the declared shapes: its blocks, and how many there should be at least."""

    shape: dict[str, int]
    blocks: int
    wanted: int  # SMs or pieces of work, the fewer, rounded down to whole steps if one fits; 0: SMs not known


class GateRow(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration of one kernel on one target. Sizes in bytes, registers a thread."""

    patch: str
    file: str
    function: str
    language: Literal["triton", "gluon", "cuda"]
    target: str
    constants: str  # compile-time values that are the same in every configuration: "HEADS 64, PAGED true"
    config: str  # "BLOCK_N 64, num_warps 4"
    ok: bool
    reasons: tuple[str, ...]  # why not
    arch: str = ""
    shared: int = 0
    registers: int = 0
    threads: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    stack: int = 0
    local_loads: int = 0
    local_stores: int = 0
    tensor: dict[str, int] = {}
    blocks_per_sm: int = 0
    limited_by: str = ""
    scratch: int = 0
    launches: tuple[Launched, ...] = ()


class GateReport(msgspec.Struct, frozen=True, kw_only=True):
    """What the kernels of a patchset come to when they are compiled; ``failures`` concern no one row."""

    schema_version: str
    tool: str
    patchset: str
    compiler: str  # "triton 3.6.0"
    targets: tuple[str, ...]
    ok: bool
    rows: tuple[GateRow, ...]
    failures: tuple[str, ...]
    notes: tuple[str, ...]


def report_json(report: GateReport) -> bytes:
    """The report as published: the same report gives the same bytes."""
    return indented(report, SCHEMA_ID)


def gate_schema() -> bytes:
    """The JSON Schema of the report, as committed in ``reports/schema/gate-1.json``."""

    def narrow(definitions: dict[str, Any]) -> None:
        definitions["GateRow"]["properties"]["target"] = TARGET
        definitions["GateReport"]["properties"]["targets"]["items"] = TARGET

    return report_schema(GateReport, SCHEMA_ID, "Kernels of a patchset, compiled for its targets", narrow)
