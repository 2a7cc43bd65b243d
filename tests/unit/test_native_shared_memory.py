"""Shared memory that a launch asks for: computed from constants of the source, held against the target."""

from __future__ import annotations

import msgspec
import pytest

from auditor.native.availability import availability
from auditor.native.cxx.const import _NotConstant, _Reader
from auditor.native.model import Cell
from auditor.native.world import KernelOptions
from auditor.profile import Native, NativeBuild
from auditor.queries.exampletree import PRELUDE, PROFILE, MemoryTree

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")
CMAKE = """
project(kern LANGUAGES CXX CUDA)
find_package(Torch REQUIRED)
Python_add_library(fast MODULE csrc/bind.cc csrc/ops.cu)
target_compile_options(fast PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-gencode=arch=compute_80,code=sm_80
  -gencode=arch=compute_90,code=sm_90 -gencode=arch=compute_100,code=sm_100
  -gencode=arch=compute_120,code=sm_120>)
install(TARGETS fast LIBRARY DESTINATION kern_pkg)
"""
ASK = "cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, {});"
START = "__global__ void kernel(float* p) { p[0] = 1; }\nusing item_t = __nv_bfloat16;\n"


def cells(code: str, targets: tuple[str, ...] = TARGETS) -> dict[str, Cell]:
    """What the targets get from ``op``, which this code defines."""
    files = {
        **PRELUDE,
        "kern/CMakeLists.txt": CMAKE,
        "kern/csrc/bind.cc": 'TORCH_LIBRARY_FRAGMENT(kern, m) {\n  m.def("op(Tensor p) -> ()");\n'
        '  m.impl("op", torch::kCUDA, &op);\n}\n',
        "kern/csrc/ops.cu": START + code,
        "kern/python/kern_pkg/__init__.py": "",
    }
    native = Native(builds=(NativeBuild("kern", "kern/python", "kern_pkg"),))
    options = KernelOptions(targets, profile=msgspec.structs.replace(PROFILE, native=native), declared=False)
    (row,) = availability(MemoryTree(files), options).rows
    return row.cells


def test_without_code_for_the_target_that_is_what_is_said() -> None:
    code = f"constexpr int kAll = 300000;\nvoid op(float* p) {{ {ASK.format('kAll')} {LAUNCH} }}"
    assert cells(code, targets=("sm_110",))["sm_110"].outcome == "not-built"


def said(code: str) -> str:
    """One letter per target: R runs, X raises, ? unknown."""
    letters = {"runs": "R", "raises": "X", "unknown": "?"}
    return "".join(letters[cells(code)[target].outcome] for target in TARGETS)


LAUNCH = "kernel<<<1, 32, bytes>>>(p);"
TEMPLATE = f"""
template <typename T, int kStages, int kTile>
void start(float* p) {{
  constexpr int tile = std::max(256, 1024 / kTile);
  constexpr int stages = kStages > 16 ? 16 : kStages;
  constexpr int bytes = (16 + kTile) * tile * stages * sizeof(item_t);
  if (bytes >= (48 * 1024)) {{
    {ASK.format("bytes")}
  }}
  {LAUNCH}
}}
"""


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (f"void op(float* p) {{ constexpr int bytes = 32 * 1024; {ASK.format('bytes')} {LAUNCH} }}", "RRRR"),
        (f"void op(float* p) {{ constexpr int bytes = 100 * 1024; {ASK.format('bytes')} {LAUNCH} }}", "RRRX"),
        (f"void op(float* p) {{ constexpr int bytes = 99 << 10; {ASK.format('bytes')} {LAUNCH} }}", "RRRR"),
        (f"void op(float* p) {{ const size_t bytes = 200'000; {ASK.format('bytes')} {LAUNCH} }}", "?RR?"),
        (f"void op(float* p) {{ const size_t bytes = 200000; {ASK.format('bytes')} {LAUNCH} }}", "XRRX"),
        (f"constexpr int kAll = 300000;\nvoid op(float* p) {{ {ASK.format('kAll')} {LAUNCH} }}", "XXXX"),
        (f"void op(float* p, int bytes) {{ {ASK.format('bytes')} {LAUNCH} }}", "?RR?"),
        (f"void op(float* p) {{ constexpr int bytes = T::kBytes; {ASK.format('bytes')} {LAUNCH} }}", "?RR?"),
    ],
)
def test_amounts_in_a_function(code: str, expected: str) -> None:
    assert said(code) == expected


def test_template_arguments_are_put_in_and_every_instantiation_counts() -> None:
    # (16 + 8) * 256 * 16 * 2 = 196,608 bytes; with two stages 24,576.
    much = TEMPLATE + "void op(float* p) { constexpr int n = 28; start<float, n, 8>(p); }"
    assert said(much) == "XRRX"
    cell = cells(much)["sm_120"]
    assert cell.reason == "asks for 196,608 bytes of shared memory at launch; sm_120 has at most 101,376"
    assert (cell.proof[-1].path, cell.proof[-1].line) == ("kern/csrc/ops.cu", 10)
    assert said(TEMPLATE + "void op(float* p) { start<float, 2, 8>(p); }") == "RRRR"
    both = "void op(float* p, int n) { if (n) { start<float, 28, 8>(p); } else { start<float, 2, 8>(p); } }"
    assert said(TEMPLATE + both) == "?RR?"


def test_a_chain_of_templates_through_another_template_is_not_guessed() -> None:
    code = TEMPLATE + "template <int N> void between(float* p) { start<float, N, 8>(p); }\n"
    assert said(code + "void op(float* p) { between<28>(p); }") == "?RR?"


def names(word: str) -> int:
    return {"a": 7, "ns::b": 3}[word]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("7 / 2 - 9 % 4", 2),
        ("-7 / 2", -3),
        ("0x10u + 2ul", 18),
        ("a > ns::b ? a : ns::b", 7),
        ("a<ns::b?1:2", 2),
        ("std::max(a, 4) + std::min(a, 4)", 11),
        ("static_cast<size_t>(a) << 2", 28),
        ("sizeof(float) * 2", 8),
        ("!a || a == 7 && a != 8", 1),
    ],
)
def test_constant_expressions(text: str, value: int) -> None:
    assert _Reader(text, names, {"float": 4}.__getitem__).whole() == value


@pytest.mark.parametrize(
    "text",
    ["", "1 +", "f(2)", "a.b", "1 / 0", "1 << 99", "(1", "1 2", '"s"', "1.5", "sizeof(a b)", "x ? 1", "-"],
)
def test_what_is_no_constant(text: str) -> None:
    with pytest.raises((_NotConstant, KeyError)):
        _Reader(text, names, {"float": 4}.__getitem__).whole()
