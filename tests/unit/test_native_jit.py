"""Kernels that are compiled at run time: what for, whether they are reached, what their sources say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import pytest

from auditor.arch import load_targets
from auditor.native.jit.rows import jit_rows
from auditor.native.model import Row
from auditor.native.sources.libraries import Files
from auditor.profile import JitLoader, load_profile

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120", "sm_121")

BUILDER = """
import functools
import os
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
import torch

def once(fn):
    kept = {}
    @functools.wraps(fn)
    def inner(*args):
        if args not in kept:
            kept[args] = fn(*args)
        return kept[args]
    return inner

@dataclass
class Made:
    big: int
    small: int
    tail: str

    @property
    def flag(self) -> str:
        return f"{self.big}.{self.small}{self.tail}"

    @property
    def define(self) -> str:
        return f"-DAPP_ARCH={self.big * 100 + self.small * 10}"

@once
def compiler_version():
    text = subprocess.check_output(["nvcc", "--version"], text=True)
    return tuple(int(n) for n in text.split(".")[:2])

def tail_of(big, small):
    if big == 12:
        return "f" if small == 0 and compiler_version() >= (12, 9) else "a"
    return "a" if big >= 9 else ""

@once
def find():
    global _MADE
    try:
        big, small = torch.cuda.get_device_capability(torch.cuda.current_device())
    except Exception:
        big, small = 0, 0
    _MADE = Made(big, small, tail_of(big, small))

def made():
    find()
    return _MADE

@contextmanager
def pretend(big, small, tail=""):
    global _MADE
    old = made()
    _MADE = Made(big, small, tail)
    try:
        yield
    finally:
        _MADE = old

def flags():
    return [made().define, "-O3"]

def build(*names, cuda=None, calls=None, more=None):
    raise NotImplementedError
"""

KERNELS = """
import torch
from pathlib import Path
from app.builder import build, once, pretend

HERE = Path(__file__).resolve().parent / "own"

@once
def plain(dtype):
    return build("plain", str(dtype), cuda=["plain.cuh"], calls=[("go", "Go::run"), ("stop", "Stop::run")])

def _only_new():
    big, small = torch.cuda.get_device_capability()
    if big < 10:
        raise RuntimeError(f"needs 10.0, got {big}.{small}")
    return pretend(big, small, tail="a")

@once
def scaled():
    with _only_new():
        return build("scaled", cuda=["plain.cuh"])

def beside():
    return build("beside", cuda=[str(HERE / "beside.cu")])

def computed(n):
    return build("computed", cuda=[f"tile_{n}.cuh"])

def gone():
    return build("gone", cuda=["gone.cuh"])

def several(kind):
    return build("warp", cuda=["warp.cuh"]), build("guarded", cuda=["guarded.cuh"])

class Holder:
    def load(self):
        return build("refused", cuda=["refused.cuh"])

def rest():
    build("void", cuda=["void.cuh"])
    build("path", cuda=["path.cuh"])
    build("outside", cuda=["outside.cuh"])
    build("shared", cuda=["shared.cuh"])
    build("asks", cuda=["asks.cuh"])
"""

SOURCES = {
    "csrc/plain.cuh": (
        "#include <app/tools.cuh>\n#include <cstdint>\n__global__ void k(int* p) { *p = APP_ARCH; }\n"
    ),
    "csrc/warp.cuh": (
        '#include <cuda_runtime.h>\n__global__ void k() {\n  asm volatile("wgmma.fence.sync.aligned;");\n}\n'
    ),
    "csrc/guarded.cuh": (
        "#include <app/tools.cuh>\n__global__ void k() {\n#if APP_HOPPER\n"
        '  asm("griddepcontrol.wait;");\n#else\n  int nothing = 0;\n#endif\n}\n'
    ),
    "csrc/void.cuh": (
        "__global__ void k(int* p) {\n#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200\n"
        "  *p = 1;\n#endif\n}\n"
    ),
    "csrc/path.cuh": (
        "__device__ int f(int a) {\n#if APP_ARCH >= 1000 && APP_ARCH < 1100\n  return fast(a);\n#endif\n"
        "  return slow(a);\n}\n"
    ),
    "csrc/refused.cuh": "#ifndef USE_OTHER\n#error only for the other vendor\n#endif\n",
    "csrc/outside.cuh": '#include "thirdparty/gemm.hpp"\n',
    "csrc/shared.cuh": "void f() { set(k, cudaFuncAttributeMaxDynamicSharedMemorySize, n); }\n",
    "csrc/asks.cuh": "#include <app/tools.cuh>\nvoid f() {\n  if (generation() > 9) { g(); }\n}\n",
    "include/app/tools.cuh": (
        "#pragma once\n#define APP_HOPPER (APP_ARCH >= 900)\n"
        "inline int generation() { int v; get(&v, cudaDevAttrComputeCapabilityMajor, 0); return v; }\n"
    ),
}


class Tree:
    def __init__(self, files: dict[str, str]) -> None:
        self.files = {k: v.encode() for k, v in files.items()}

    def blobs(self) -> dict[str, str]:
        return dict.fromkeys(sorted(self.files), "x")

    def read_many(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        return ((path, self.files[path]) for path in paths)


def rows(cuda: str = "13.0", **change: str) -> dict[str, Row]:
    files = {
        "app/__init__.py": "",
        "app/builder.py": BUILDER,
        "app/kernels.py": KERNELS,
        "app/own/beside.cu": "__global__ void k() {}\n",
        **{f"app/{k}": v for k, v in SOURCES.items()},
        **change,
    }
    loader = JitLoader(
        load="app.builder.build",
        arch="app.builder.made",
        name="flag",
        state="app.builder._MADE",
        folder="app",
        sources="csrc",
        override="app.builder.pretend",
        flags="app.builder.flags",
        compiler=("app.builder.compiler_version",),
        files=("cuda",),
        exports=("calls",),
    )
    profile = msgspec.structs.replace(load_profile("sglang"), package="app", jit_loaders=(loader,))
    tree = Tree(files)
    python = {k: v for k, v in tree.files.items() if k.endswith(".py")}
    targets = {name: t for name, t in load_targets().items() if name in TARGETS}
    found, problems = jit_rows(python, "", Files(tree), profile, targets, cuda)  # type: ignore[arg-type]
    assert problems == ()
    return {row.name: row for row in found}


@pytest.fixture(scope="module")
def known() -> dict[str, Row]:
    return rows()


def outcomes(row: Row) -> list[str]:
    return [row.cells[t].outcome for t in TARGETS]


def compiled(row: Row) -> list[str]:
    return [row.cells[t].reason.partition(";")[0].removeprefix("compiled for ") for t in TARGETS]


def test_every_build_has_a_row(known: dict[str, Row]) -> None:
    assert sorted(known) == [
        f"jit::{n}"
        for n in (
            "asks beside computed gone guarded outside path plain refused scaled shared void warp".split()
        )
    ]
    row = known["jit::plain"]
    assert (row.path, row.line, row.function) == ("app/kernels.py", 10, "app.kernels.plain")
    assert row.schema == "go, stop"


def test_the_architecture_is_that_of_the_trees_own_detection(known: dict[str, Row]) -> None:
    row = known["jit::plain"]
    assert compiled(row) == ["8.0", "9.0a", "10.0a", "12.0f", "12.1a"]
    assert outcomes(row) == ["runs"] * 5
    assert compiled(rows(cuda="12.8")["jit::plain"]) == ["8.0", "9.0a", "10.0a", "12.0a", "12.1a"]


def test_a_context_manager_sets_another_and_refuses_old_targets(known: dict[str, Row]) -> None:
    row = known["jit::scaled"]
    assert outcomes(row) == ["raises", "raises", "runs", "runs", "runs"]
    assert compiled(row)[2:] == ["10.0a", "12.0a", "12.1a"]
    assert row.cells["sm_90"].reason == "_only_new refuses it with RuntimeError"
    assert row.cells["sm_90"].proof[-1].line == 15


def test_sources_that_are_not_known_or_not_there(known: dict[str, Row]) -> None:
    assert known["jit::computed"].cells["sm_120"].reason == (
        "compiled for 12.0f; its cuda are not known: argument n"
    )
    assert known["jit::gone"].cells["sm_120"].reason == "compiled for 12.0f; gone.cuh is not in the tree"
    assert outcomes(known["jit::beside"]) == ["runs"] * 5


def test_an_instruction_that_a_target_lacks(known: dict[str, Row]) -> None:
    row = known["jit::warp"]
    assert outcomes(row) == ["unknown", "runs", "unknown", "unknown", "unknown"]
    assert row.cells["sm_120"].reason == "compiled for 12.0f; warp.cuh:3 has wgmma., which sm_120 lacks"
    plain = rows(**{"app/builder.py": BUILDER.replace('return "a" if big >= 9 else ""', 'return ""')})
    assert plain["jit::warp"].cells["sm_90"].reason == (
        "compiled for 9.0; warp.cuh:3 has wgmma., which plain code cannot hold"
    )


def test_parts_that_only_some_targets_get(known: dict[str, Row]) -> None:
    assert outcomes(known["jit::guarded"]) == ["runs"] * 5  # the other arm stands there
    assert outcomes(known["jit::void"]) == ["unknown", "unknown", "unknown", "runs", "runs"]
    assert known["jit::void"].cells["sm_100"].reason == (
        "compiled for 10.0a; void.cuh:3 leaves out code that other GPUs get"
    )
    assert outcomes(known["jit::path"]) == ["runs"] * 5  # it returns a value the other way


def test_what_refuses_hides_or_asks(known: dict[str, Row]) -> None:
    assert outcomes(known["jit::refused"]) == ["raises"] * 5
    assert known["jit::refused"].function == "app.kernels.Holder.load"
    assert "thirdparty/gemm.hpp, which is not in the tree" in known["jit::outside"].cells["sm_120"].reason
    assert "asks for shared memory at launch" in known["jit::shared"].cells["sm_120"].reason
    assert known["jit::asks"].cells["sm_120"].reason.endswith("asks.cuh:3 asks the device what it is")


def test_headers_in_a_ring_and_in_a_long_chain_end() -> None:
    ring = {
        "app/csrc/plain.cuh": '#include "one.cuh"\n',
        "app/csrc/one.cuh": '#include "two.cuh"\n',
        "app/csrc/two.cuh": '#include "one.cuh"\n',
    }
    assert outcomes(rows(**ring)["jit::plain"]) == ["runs"] * 5
    chain = {f"app/csrc/h{n}.cuh": f'#include "h{n + 1}.cuh"\n' for n in range(2000)}
    row = rows(**chain, **{"app/csrc/plain.cuh": '#include "h0.cuh"\n'})["jit::plain"]
    assert "headers are nested too deep" in row.cells["sm_120"].reason


def test_a_tree_without_the_loader_has_no_rows() -> None:
    assert rows(**{"app/builder.py": "", "app/kernels.py": ""}) == {}
