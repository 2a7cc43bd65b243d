"""A patchset with small kernels, each to show one thing to the gate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from auditor.patching.kernels.gate import run_gate
from auditor.patching.kernels.report import GateReport, GateRow
from auditor.patching.sets.patchset import load_patchset

KERNELS = """
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import mma_v2

SCALE = tl.constexpr(0.5)
CONFIGS = (
    {"BM": 64, "BN": 64, "BK": 64, "num_warps": 4, "num_stages": 3},
    {"BM": 128, "BN": 64, "BK": 64, "num_warps": 8, "num_stages": 3},
)


@triton.jit
def scaled(x):
    return x * SCALE


@triton.jit
def product(a, b, c, depth, stride, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.arange(0, BN)
    deep = tl.arange(0, BK)
    acc = tl.zeros([BM, BN], dtype=tl.float32)
    for i in range(0, depth):
        x = tl.load(a + rows[:, None] * stride + (i * BK + deep)[None, :])
        y = tl.load(b + (i * BK + deep)[:, None] * stride + cols[None, :])
        acc += tl.dot(x, y)
    tl.store(c + rows[:, None] * stride + cols[None, :], scaled(acc).to(tl.bfloat16))


@gluon.jit
def in_shared(a, c, ROWS: gl.constexpr, BYTES: gl.constexpr):
    flat: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    one: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
    held = gl.allocate_shared_memory(gl.uint8, [ROWS, BYTES], flat)
    at = gl.arange(0, BYTES, layout=one)
    for i in range(ROWS):
        held.index(i).store(gl.load(a + i * BYTES + at))
    total = gl.zeros([BYTES], gl.int32, layout=one)
    for i in range(ROWS):
        total += held.index(ROWS - 1 - i).load(one).to(gl.int32)
    gl.store(c + at, total)


@gluon.jit
def gluon_product(a, b, c, N: gl.constexpr):
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [2, 2], [16, 8])
    ordinary: gl.constexpr = gl.BlockedLayout([1, 8], [8, 4], [4, 1], [1, 0])
    first: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    second: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    rows = gl.arange(0, N, layout=gl.SliceLayout(1, ordinary))
    cols = gl.arange(0, N, layout=gl.SliceLayout(0, ordinary))
    at = rows[:, None] * N + cols[None, :]
    x = gl.convert_layout(gl.load(a + at), first)
    y = gl.convert_layout(gl.load(b + at), second)
    acc = mma_v2(x, y, gl.zeros([N, N], gl.float32, layout=mma))
    gl.store(c + at, gl.convert_layout(acc, ordinary))
"""

#: Declarations by name. A shape "B" is what a launch has in work.
ONE = {"grid": ["B"], "tiles": "B", "shapes": [{"B": 1}, {"B": 64}]}
PRODUCT: dict[str, Any] = {
    "file": "ops.py",
    "function": "product",
    "signature": {"a": "*bf16", "b": "*bf16", "c": "*bf16", "depth": "i32", "stride": "i32"},
    "divisible": ["stride"],
    "configs": "CONFIGS",
    "tensor-cores": "required",
    "launch": {"grid": ["cdiv(M, BM)"], "tiles": "cdiv(M, BM)", "shapes": [{"M": 4096}]},
}
SPILLING: dict[str, Any] = {
    **PRODUCT,
    "configs": [{"BM": 64, "BN": 64, "BK": 64, "num_warps": 4, "num_stages": 1, "maxnreg": 40}],
}
SHARED: dict[str, Any] = {
    "file": "ops.py",
    "function": "in_shared",
    "language": "gluon",
    "signature": {"a": "*u8", "c": "*i32"},
    "constexprs": {"BYTES": 1024},
    "configs": [{"ROWS": 99, "num_warps": 4}],
    "tensor-cores": "none",
    "launch": ONE,
}
GLUON: dict[str, Any] = {
    "file": "ops.py",
    "function": "gluon_product",
    "language": "gluon",
    "signature": {"a": "*bf16", "b": "*bf16", "c": "*fp32"},
    "configs": [{"N": 64, "num_warps": 4}],
    "tensor-cores": "required",
    "launch": ONE,
}


def patchset(
    folder: Path,
    *kernels: dict[str, Any],
    text: str = KERNELS,
    targets: str = "[sm_120]",
    more: dict[str, str] | None = None,
) -> Path:
    """A patchset on disk that declares these kernels; ``more`` are further files below ``files/``."""
    import json

    place = folder / "mine"
    (place / "patches").mkdir(parents=True, exist_ok=True)
    (place / "files").mkdir(exist_ok=True)
    files = {"ops.py": text, **(more or {})}
    listed = {name: {"licence": "Apache-2.0", "provenance": "written here"} for name in files}
    for name, content in files.items():
        (place / "files" / name).parent.mkdir(parents=True, exist_ok=True)
        (place / "files" / name).write_text(content)
    (place / "patchset.yaml").write_text(
        f"title: mine\nupstreams: {{sglang: {{}}}}\norder: [ops]\nfiles: {json.dumps(listed)}\n"
    )
    (place / "patches" / "ops.yaml").write_text(
        "title: kernels\nwhy: {kind: local-only, reason: a test}\nremoval: never\n"
        f"targets: {targets}\n"
        "edits:\n  - add-file: {path: example/ops.py, from: ops.py}\n"
        f"kernels: {json.dumps(list(kernels))}\n"
    )
    return place


def gate(folder: Path, *kernels: dict[str, Any], **more: Any) -> GateReport:
    """The gate over such a patchset."""
    return run_gate(load_patchset(patchset(folder, *kernels, **more)))


def rows(report: GateReport, function: str) -> list[GateRow]:
    """The rows of one kernel."""
    return [row for row in report.rows if row.function == function]
