"""The map of operators and targets on a small project of our own: guards, loaders, tags, the unknown."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import msgspec
import pytest

from auditor.arch import load_targets
from auditor.errors import UserError
from auditor.native.availability import availability
from auditor.native.model import Availability, Row
from auditor.native.world import KernelOptions
from auditor.profile import CudaMacro, KernelTag, Native, NativeBuild
from auditor.queries.exampletree import PRELUDE, PROFILE, MemoryTree
from auditor.reporting import kernels as page
from auditor.reporting import kernelsjson

TAGS = {
    "Sm80": KernelTag(runs=("sm_80",), or_newer=True, source="mma of sm_80"),
    "Sm90": KernelTag(runs=("sm_90",), source="wgmma"),
    "Sm100": KernelTag(runs=("sm_100", "sm_103"), unknown=("sm_110",), source="tcgen05"),
}
NATIVE = Native(
    builds=(NativeBuild("kern", "kern/python", "kern_pkg"), NativeBuild("gone/kern")),
    macros={"TOOL_HAS_NEW": CudaMacro("12.8", "toolkit")},
    outside=("TOOL_*",),
    tags=TAGS,
    tag_namespaces=("tool::arch",),
)
TARGETS = ("sm_80", "sm_90", "sm_100", "sm_110", "sm_120", "sm_121")

CMAKE = """
project(kern LANGUAGES CXX CUDA)
find_package(Torch REQUIRED)
set(FLAGS "-gencode=arch=compute_80,code=sm_80" "-gencode=arch=compute_90a,code=sm_90a")
if(CUDA_VERSION VERSION_GREATER_EQUAL "12.8")
  list(APPEND FLAGS "-gencode=arch=compute_100a,code=sm_100a" "-gencode=arch=compute_120a,code=sm_120a")
  list(APPEND FLAGS -DWITH_NEW)
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
    list(APPEND FLAGS "-gencode=arch=compute_110a,code=sm_110a" "-gencode=arch=compute_121a,code=sm_121a")
  endif()
endif()
set(SRC csrc/bind.cc csrc/ops.cu csrc/far.cu ${fetched_SOURCE_DIR}/away.cu)
Python_add_library(fast MODULE ${SRC})
target_compile_options(fast PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:${FLAGS}> -O3)
set_target_properties(fast PROPERTIES OUTPUT_NAME main)
install(TARGETS fast LIBRARY DESTINATION kern_pkg/quick)
Python_add_library(safe MODULE ${SRC})
target_compile_options(safe PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:${FLAGS}>)
set_target_properties(safe PROPERTIES OUTPUT_NAME main)
install(TARGETS safe LIBRARY DESTINATION kern_pkg/exact)
Python_add_library(only90 MODULE csrc/bind90.cc ${fetched_SOURCE_DIR}/away90.cu)
target_compile_options(only90 PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-gencode=arch=compute_90a,code=sm_90a>)
install(TARGETS only90 LIBRARY DESTINATION kern_pkg)
"""
UTIL = """
#pragma once
inline int whichGpu() {
  int device = -1;
  CHECK_STATUS(cudaGetDevice(&device));
  int hi = 0, lo = 0;
  CHECK_STATUS(cudaDeviceGetAttribute(&hi, cudaDevAttrComputeCapabilityMajor, device));
  CHECK_STATUS(cudaDeviceGetAttribute(&lo, cudaDevAttrComputeCapabilityMinor, device));
  return hi * 10 + lo;
}
inline bool newerThan(int least) { return whichGpu() >= least; }
"""
OPS = """
#include "util.h"
__global__ void plain_kernel(float* p) { p[0] = 1; }
#define GO(...) plain_kernel<<<1, 32>>>(__VA_ARGS__)
void free_op(float* p) { GO(p); }
void exact_op(float* p) {
  auto gpu = whichGpu();
  TORCH_CHECK(gpu == 100, "exactly ", 100)
  plain_kernel<<<1, 32>>>(p);
}
float* chain_op(float* p, bool wide) {
  int gpu = whichGpu();
#if defined(TOOL_HAS_NEW)
  if (gpu >= 120
#if CUDA_VERSION >= 12090
      || gpu == 103
#endif
  ) { GO(p); return p; }
#endif
  if (gpu == 90) {
    if (wide) { GO(p); } else { TORCH_CHECK(false, "not wide"); }
    return p;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(false, "nothing for this GPU: ", gpu);
}
void silent_op(float* p) {
  if (whichGpu() == 90) { GO(p); } else if (whichGpu() == 80) { GO(p); }
}
void flagged_op(float* p, int kind) {
  bool done = false;
  const bool blackwell = newerThan(100) && !newerThan(110);
  if (blackwell) {
    if (kind == 1) GO(p); else GO(p);
    done = true;
  }
  TORCH_CHECK(done, "no kernel");
}
void early_op(float* p, int n) {
  if (n == 0) return;
  DISPATCH(n, [&] { TORCH_CHECK(newerThan(90), "too old"); GO(p); return true; });
}
void props_op(float* p) {
  cudaDeviceProp prop;
  cudaGetDeviceProperties(&prop, 0);
  if (prop.major < 9) throw std::runtime_error("too old");
  GO(p);
}
void pytorch_props_op(float* p) {
  auto* prop = at::cuda::getCurrentDeviceProperties();
  if (prop->major == 12) { AT_ERROR("not there"); }
  GO(p);
}
void switch_op(float* p) {
  switch (whichGpu()) {
    case 80:
    case 90:
      GO(p);
      break;
    default:
      throw std::runtime_error("no");
  }
}
void refuses_elsewhere(float* p);
void through_op(float* p) { refuses_elsewhere(p); }
template <typename T>
struct Gemm90 {
  using ArchTag = tool::arch::Sm90;
  static void run(T* p) { plain_kernel<<<1, 32>>>(p); }
};
struct Gemm100 {
  using ArchTag = tool::arch::Sm100;
  static void run(float* p) { plain_kernel<<<1, 32>>>(p); }
};
void tagged_op(float* p) { Gemm90<float>::run(p); }
void tagged_new_op(float* p) { Gemm100::run(p); }
void mixed_op(float* p) {
  if (whichGpu() >= 100) { Gemm100::run(p); } else { Gemm90<float>::run(p); }
}
__global__ void hollow_kernel(float* p) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
  p[0] = 2;
#else
  __trap();
#endif
}
int careful_op(int n) {
  if (n > 8) throw std::invalid_argument("too many");
  return n;
}
void picky_op(float* p, bool odd) {
  if (whichGpu() == 90) { GO(p); }
  if (odd) { throw std::invalid_argument("odd"); }
}
int never_op(int n) { TORCH_CHECK(false, "not in this build"); }
#define NEEDS(least, ...) TORCH_CHECK(whichGpu() >= (least), "needs " __VA_ARGS__)
#define ON_HOPPER (whichGpu() == HOPPER)
#define HOPPER 90
constexpr int kLast = 100;
static const int kThisGpu = whichGpu();
void macro_op(float* p) { NEEDS(100, "newer"); GO(p); }
void macro_value_op(float* p) { if (!ON_HOPPER) { throw std::runtime_error("no"); } GO(p); }
void constant_op(float* p) { TORCH_CHECK(whichGpu() <= kLast, "too new"); GO(p); }
void global_op(float* p) { if (kThisGpu >= 120) { throw std::runtime_error("no"); } GO(p); }
void hollow_op(float* p) { hollow_kernel<<<1, 32>>>(p); }
int host_op(int n) { auto twice = [](int m) { return m * 2; }; return std::max(twice(n), 3); }
int foreign_op(int n) { return vendor::work(n); }
void open_op(float* p) {
#ifdef TOOL_UNKNOWN
  TORCH_CHECK(false, "off");
#else
  GO(p);
#endif
}
void either_op(float* p) {
#ifdef TOOL_UNKNOWN
  GO(p);
#else
  plain_kernel<<<2, 32>>>(p);
#endif
}
void doubtful_op(float* p, bool flag) {
  if (whichGpu() + p[0] > 90) { throw std::runtime_error("maybe"); }
  GO(p);
}
"""
FAR = """
#include "util.h"
__global__ void far_kernel(float* p) { p[0] = 1; }
void refuses_elsewhere(float* p) {
  TORCH_CHECK(whichGpu() < 120, "not on workstations");
  far_kernel<<<1, 1>>>(p);
}
"""
NAMES = [
    "free", "exact", "chain", "silent", "flagged", "early", "props", "pytorch_props", "switch", "through",
    "tagged", "tagged_new", "mixed", "hollow", "host", "foreign", "open", "either", "doubtful", "away",
    "careful", "picky", "never", "macro", "macro_value", "constant", "global",
]  # fmt: skip
BIND = (
    '#include "util.h"\nTORCH_LIBRARY_FRAGMENT(kern, m) {\n'
    + "".join(f'  m.def("{n}(Tensor p) -> ()");\n  m.impl("{n}", torch::kCUDA, &{n}_op);\n' for n in NAMES)
    + '#ifdef WITH_NEW\n  m.def("newest", &free_op);\n#endif\n}\n'
)
BIND90 = """TORCH_LIBRARY_FRAGMENT(kern, m) {
  m.def("ninety(Tensor p) -> ()");
  m.impl("ninety", torch::kCUDA, &ninety);
}
"""
LOADER = """
import torch
from pathlib import Path


def load():
    high, low = torch.cuda.get_device_capability()
    if high * 10 + low == 90:
        folder = "quick"
    else:
        folder = "exact"
    return Path(__file__).parent / folder / "main"
"""
FILES = {
    **PRELUDE,
    "kern/CMakeLists.txt": CMAKE,
    "kern/csrc/bind.cc": BIND,
    "kern/csrc/bind90.cc": BIND90,
    "kern/csrc/ops.cu": OPS,
    "kern/csrc/far.cu": FAR,
    "kern/include/util.h": UTIL,
    "kern/csrc/other_build.cc": 'TORCH_LIBRARY(kern_other, m) {\n  m.def("left() -> ()");\n}\n',
    "kern/python/kern_pkg/__init__.py": "from kern_pkg.loading import load\n",
    "kern/python/kern_pkg/loading.py": LOADER,
}


def mapped(
    files: dict[str, str] | None = None, targets: tuple[str, ...] = TARGETS, **assume: str
) -> Availability:
    profile = msgspec.structs.replace(PROFILE, native=NATIVE)
    return availability(MemoryTree(files or FILES), KernelOptions(targets, assume, profile=profile))


def outcomes(found: Availability) -> dict[str, str]:
    """Operator -> one letter per target: R runs, X raises, N not-built, F falls-through, ? unknown."""
    letters = {"runs": "R", "raises": "X", "not-built": "N", "falls-through": "F", "unknown": "?"}
    return {
        row.name.partition("::")[2]: "".join(letters[row.cells[t].outcome] for t in found.targets)
        for row in found.rows
    }


@pytest.fixture(scope="module")
def found() -> Availability:
    return mapped()


def row(found: Availability, name: str) -> Row:
    (one,) = [one for one in found.rows if one.name == f"kern::{name}"]
    return one


#           80 90 100 110 120 121
WANTED = {
    "free": "RRRRRR",
    "exact": "XXRXXX",
    "chain": "XRXXRR",
    "silent": "RRFFFF",
    "flagged": "XXRXXX",
    "early": "XRRRRR",
    "props": "XRRRRR",
    "pytorch_props": "RRRRXX",
    "switch": "RRXXXX",
    "through": "RRRRXX",
    "tagged": "NRNNNN",
    "tagged_new": "NNR?NN",
    "mixed": "NRR?NN",
    "careful": "RRRRRR",
    "picky": "FRFFFF",
    "never": "XXXXXX",
    "macro": "XXRRRR",
    "macro_value": "XRXXXX",
    "constant": "RRRXXX",
    "global": "RRRRXX",
    "hollow": "NNRRRR",
    "host": "RRRRRR",
    "foreign": "??????",
    "open": "??????",
    "either": "RRRRRR",
    "doubtful": "??????",
    "away": "??????",
    "ninety": "N?NNNN",
    "newest": "RRRRRR",
}


@pytest.mark.parametrize("name", sorted(WANTED))
def test_what_each_target_gets(found: Availability, name: str) -> None:
    assert outcomes(found)[name] == WANTED[name]


def test_nothing_is_made_up_and_nothing_dropped(found: Availability) -> None:
    assert set(outcomes(found)) == set(WANTED)
    assert found.problems == ()
    assert [(p.path, p.line) for p in found.unread] == [("kern/csrc/other_build.cc", 1)]
    cells = len(WANTED) * len(TARGETS)
    assert (found.stats["rows"], found.stats["cells"]) == (len(WANTED), cells)
    assert found.stats["decided"] == cells - sum(text.count("?") for text in WANTED.values())
    for one in found.rows:
        for cell in one.cells.values():
            assert cell.reason
            assert cell.proof[0].path == one.path and cell.proof[0].line == one.line


def test_reasons_name_the_place(found: Availability) -> None:
    exact = row(found, "exact").cells["sm_120"]
    assert exact.reason == "TORCH_CHECK(gpu == 100) fails: exactly"
    line = OPS.split("\n").index('  TORCH_CHECK(gpu == 100, "exactly ", 100)') + 1
    assert (exact.proof[-1].path, exact.proof[-1].line) == ("kern/csrc/ops.cu", line)
    assert "refuses_elsewhere is called" in [
        step.text for step in row(found, "through").cells["sm_120"].proof
    ]
    assert row(found, "away").cells["sm_120"].reason == "the source of away_op is not in this tree"
    assert "vendor::work" in row(found, "foreign").cells["sm_120"].reason
    assert "TOOL_UNKNOWN" in row(found, "open").cells["sm_120"].reason
    assert "Sm90" in row(found, "tagged").cells["sm_120"].reason
    assert row(found, "ninety").cells["sm_120"].reason == "only90: 90a"


def test_the_loader_picks_the_library(found: Availability) -> None:
    def library(target: str) -> str:
        proof = row(found, "free").cells[target].proof
        return next(step.text for step in proof if step.text.startswith("library "))

    assert "fast" in library("sm_90") and "safe" in library("sm_120")
    assert row(found, "free").libraries == ("fast", "safe")


def test_without_a_loader_both_libraries_count() -> None:
    files = {path: text for path, text in FILES.items() if not path.startswith("kern/python")}
    assert outcomes(mapped(files))["free"] == "RRRRRR"
    # one of the two has nothing for sm_100: then it depends
    files["kern/CMakeLists.txt"] = CMAKE.replace(
        "target_compile_options(safe PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:${FLAGS}>)",
        "target_compile_options(safe PRIVATE -gencode=arch=compute_80,code=sm_80)",
    )
    both = mapped(files)
    assert outcomes(both)["free"] == "R?????"
    assert "library that is loaded" in row(both, "free").cells["sm_120"].reason


def test_machines_and_compilers() -> None:
    assert outcomes(mapped(machine="x86_64"))["free"] == "RRRNRN"
    assert row(mapped(machine="x86_64"), "free").cells["sm_121"].reason == "safe: 80 90a 100a 120a"
    old = mapped(cuda="12.4")
    assert outcomes(old)["free"] == "RRNNNN"
    assert outcomes(old)["newest"] == "NNNNNN"
    left_out = row(old, "newest").cells["sm_90"]
    assert left_out.reason == "its registration is left out by #ifdef WITH_NEW"
    assert [(step.path, step.line) for step in left_out.proof] == [
        ("kern/csrc/bind.cc", BIND.count("\n", 0, BIND.index("newest")) + 1),
        ("kern/csrc/bind.cc", BIND.count("\n", 0, BIND.index("#ifdef")) + 1),
    ]
    assert old.assumptions == {"cuda": "12.4", "machine": "x86_64,aarch64"}


def test_guards_come_before_missing_code() -> None:
    assert outcomes(mapped(machine="x86_64"))["exact"] == "XXRXXX"
    assert outcomes(mapped(machine="x86_64"))["host"] == "RRRRRR"


def test_names_mean_nothing() -> None:
    """The law: rename helpers, variables, operators and libraries, and the same cells come out."""
    renames = {
        "whichGpu": "q7",
        "newerThan": "zz_",
        "gpu": "w",
        "plain_kernel": "k0",
        "refuses_elsewhere": "r0",
    }
    renames |= {"GO": "QQ", "Gemm90": "Alpha", "Gemm100": "Beta", "hollow_kernel": "k1", "util": "odds"}
    renames |= {f"{name}_op": f"fn{index}" for index, name in enumerate(NAMES)}
    files = {}
    for path, text in FILES.items():
        if path.startswith("kern/csrc") or path.startswith("kern/include"):
            for old, new in renames.items():
                text = re.sub(rf"\b{old}\b", new, text)
            path = path.replace("util.h", "odds.h")
        files[path] = text
    for index, name in enumerate(NAMES):
        files["kern/csrc/bind.cc"] = re.sub(rf'"{name}\b', f'"op{index}', files["kern/csrc/bind.cc"])
    got = outcomes(mapped(files))
    for index, name in enumerate(NAMES):
        assert got[f"op{index}"] == WANTED[name], name


def test_the_json_has_the_published_form(found: Availability) -> None:
    committed = Path(__file__).parents[2] / "reports" / "schema" / "kernels-1.json"
    assert committed.read_bytes() == kernelsjson.kernels_schema()
    jsonschema.validate(json.loads(kernelsjson.dumps(found)), json.loads(committed.read_bytes()))


def test_the_same_bytes() -> None:
    assert kernelsjson.dumps(mapped()) == kernelsjson.dumps(mapped())


def test_a_tree_without_native_sources() -> None:
    with pytest.raises(UserError) as error:
        mapped(dict(PRELUDE))
    assert error.value.code == "N001" and "kern/CMakeLists.txt" in error.value.fact


@pytest.mark.parametrize(
    "damage",
    [
        {"kern/CMakeLists.txt": CMAKE.replace("endif()\nset(SRC", "endif(\nset(SRC")},
        {"kern/csrc/ops.cu": OPS[: len(OPS) // 2]},
        {"kern/csrc/ops.cu": OPS.replace("}", "", 9)},
        {"kern/csrc/bind.cc": BIND.replace('m.impl("chain"', 'm.impl(("chain"')},
        {"kern/csrc/ops.cu": "\x00\xff" * 300},
        {"kern/include/util.h": '#include "util.h"\n#if (\n' + UTIL},
        {"kern/CMakeLists.txt": CMAKE.replace("csrc/ops.cu", "csrc/gone.cu")},
    ],
)
def test_damage_stays_where_it_is(damage: dict[str, str]) -> None:
    """The rest is still told, and no cell is decided that the whole tree decides otherwise."""
    found = mapped({**FILES, **damage})
    got = outcomes(found)
    for name, text in got.items():
        for letter, wanted in zip(text, WANTED[name]):
            assert letter in (wanted, "?") or "CMakeLists" in next(iter(damage)) or letter == "N"
    assert found.rows or found.problems


def test_braces_that_do_not_match_are_a_problem_with_its_place() -> None:
    found = mapped({**FILES, "kern/csrc/far.cu": FAR + "void half(int n) {\n  if (n) {\n}\n"})
    line = (FAR + "void").count("\n") + 1
    assert [(p.path, p.line) for p in found.problems] == [("kern/csrc/far.cu", line)]
    assert outcomes(found)["through"] == "??????"
    assert f"kern/csrc/far.cu:{line}" in row(found, "through").cells["sm_120"].reason
    assert {n: t for n, t in outcomes(found).items() if n != "through"} == {
        n: t for n, t in WANTED.items() if n != "through"
    }


def test_a_missing_source_is_a_problem() -> None:
    found = mapped({**FILES, "kern/CMakeLists.txt": CMAKE.replace("csrc/far.cu", "csrc/gone.cu")})
    assert any("kern/csrc/gone.cu" in problem.message for problem in found.problems)
    assert outcomes(found)["free"] == "RRRRRR" and outcomes(found)["through"] == "??????"


def test_one_operator_on_the_page(found: Availability) -> None:
    only = page.only(found, "exact")
    assert [one.name for one in only.rows] == ["kern::exact"]
    with pytest.raises(UserError) as error:
        page.only(found, "exakt")
    assert error.value.code == "N002" and "--op exact" in error.value.hints


def test_every_target_has_a_machine() -> None:
    machines = {name: target.machine for name, target in load_targets().items()}
    assert machines["sm_121"] == machines["sm_110"] == "aarch64"
    assert {machines[name] for name in machines if name not in ("sm_110", "sm_121")} == {"x86_64"}
