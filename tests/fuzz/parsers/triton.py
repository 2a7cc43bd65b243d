"""Files of Triton kernels: the kernels of a tree, and those that a patchset brings and declares."""

from __future__ import annotations

import sys

import msgspec

from auditor.arch import load_targets
from auditor.native.triton.rows import triton_rows
from auditor.native.triton.safe import chains, free_names, refusal
from auditor.patching.kernels import formula, source
from auditor.profile import load_profile
from tests.fuzz import engine
from tests.fuzz.parsers import python

sys.path.insert(0, str(engine.ROOT / "tests" / "unit"))
from test_native_triton import KERNELS  # noqa: E402

WORDS = (
    *python.WORDS, b"@triton.jit\n", b"@triton.autotune(configs=[", b"triton.Config({'A': 1}, num_warps=4)", b"tl.constexpr", b"tl.dot(a, b)", b"@tl.inline\n", b"X: tl.constexpr = ",
    b"cdiv(A, B) * ", b"min(A, 4)", b"key=['M']", b"def k(x, A: tl.constexpr):\n    ", b"tl.__class__", b"from triton import jit as j\n",
)  # fmt: skip
SEEDS = (
    KERNELS.encode(),
    b"import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef k(x, N: tl.constexpr):\n    tl.store(x + tl.arange(0, N), N)\n",
)
_PROFILE = msgspec.structs.replace(load_profile("sglang"), package="app", exclude=())
_TARGETS = {name: target for name, target in load_targets().items() if name in ("sm_90", "sm_120")}


def one_input(data: bytes) -> None:
    triton_rows({"app/__init__.py": b"", "app/k.py": data}, "", _PROFILE, _TARGETS, declared={})
    text = data.decode("utf-8", "replace")
    for words in (text[:300], text.splitlines()[-1][:300] if text.splitlines() else ""):
        try:
            formula.names_of(words)
            formula.value_of(words, {"A": 3, "B": 0, "H": 1 << 40})
        except formula.Wrong:
            continue
    try:
        file = source.read_file("app/k.py", data)
    except source.Wrong:
        return
    for name, function in file.functions.items():
        refusal(function, frozenset({"x"}))
        chains(function)
        free_names(function)
        for read in (
            lambda name=name: source.source_of(file, name, lambda _: file),
            lambda name=name: source.configs_of(file, name),
            lambda name=name: source.tuned_otherwise(file, name, "x"),
        ):
            try:
                read()
            except source.Wrong:
                continue
