"""C++ and CUDA: comments, conditions, definitions, registrations, launches, guards of device code."""

from __future__ import annotations

import msgspec

from auditor.native.availability import availability
from auditor.native.cxx.index import source_of
from auditor.native.cxx.ops import registrations
from auditor.native.sources.text import Number, hollowed, prepare, without_comments
from auditor.native.world import KernelOptions
from auditor.profile import KernelTag, Native, NativeBuild
from auditor.queries.exampletree import PRELUDE, PROFILE, MemoryTree

_NATIVE = Native(
    builds=(NativeBuild("kern", "kern/python", "kern_pkg"),),
    tags={"Sm90": KernelTag(runs=("sm_90",), suffix=True, source="wgmma")},
    tag_namespaces=("tool::arch",),
)
_PROFILE = msgspec.structs.replace(PROFILE, native=_NATIVE)
_CMAKE = (
    "project(kern LANGUAGES CXX CUDA)\nfind_package(Torch REQUIRED)\nPython_add_library(fast MODULE csrc/ops.cu csrc/bind.cc)\n"
    "target_compile_options(fast PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-gencode=arch=compute_90a,code=sm_90a -gencode=arch=compute_120,code=sm_120>)\n"
    "install(TARGETS fast LIBRARY DESTINATION kern_pkg)\n"
)
_BIND = 'TORCH_LIBRARY_FRAGMENT(kern, m) {\n  m.def("go(Tensor p) -> ()");\n  m.impl("go", torch::kCUDA, &go);\n}\n'
WORDS = (
    b"#if ", b"#elif ", b"#else\n", b"#endif\n", b"#ifdef A\n", b"#define A(x, ...) x##__VA_ARGS__\n", b"#define A A A\n", b"#include \"ops.cu\"\n",
    b"#include \"x.h\"\n", b"defined(__CUDA_ARCH__)", b"__CUDA_ARCH__ >= 900", b"/*", b"*/", b"//", b'R"x(', b')x"', b'"', b"'", b"\\\n", b"{", b"}", b"(",
    b")", b"<<<1, 32>>>", b"template <typename A, int N = 3>", b"template <", b"struct G { using ArchTag = tool::arch::Sm90; };", b"__global__ void k() ",
    b"namespace a::b { ", b"if (major == 12) ", b"if constexpr (", b"return ", b"switch (x) { case 1: ", b"TORCH_CHECK(", b"m.def(\"", b"m.impl(\"go\", ",
    b"cudaDeviceProp p; cudaGetDeviceProperties(&p, 0);", b"int x = go(x);", b"1 << 99999999", b"9999999999999999999999", b"0x", b"? : ", b"(" * 400, b"{" * 400,
    b"<" * 400, b"A(" * 300, b"go(", b"const int v = get_sm();", b"constexpr int K = ", b"extern \"C\" ", b"enum class E { ", b"else ",
)  # fmt: skip
SEEDS = (
    b"#define SM(x) x\nint get_sm() { cudaDeviceProp p; cudaGetDeviceProperties(&p, 0); return p.major * 10 + p.minor; }\n"
    b"template <typename A> struct Gemm { static void run(float* p) { plain<<<1, 32>>>(p); } };\n__global__ void plain(float* p) {\n"
    b'#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900\n  p[0] = 1;\n#else\n  asm("trap;");\n#endif\n}\n'
    b"void go(float* p) {\n  const int v = get_sm();\n  if (v >= 100 && v < 120) { Gemm<int>::run(p); } else if (v == 90) { plain<<<1, 32>>>(p); }\n"
    b'  else TORCH_CHECK(false, "no", v);\n}\n',
    b"namespace a { struct G90 { using ArchTag = tool::arch::Sm90; static void run(float* p) { k<<<1, 32>>>(p); } }; }\n"
    b"__global__ void k(float* p) { p[0] = '{'; }\nconstexpr int K = 3 * (4 + 1) << 2;\nvoid go(float* p) { switch (K) { case 1: return; default: a::G90::run(p); } }\n",
    _BIND.encode(),
    b'auto s = R"x(\n #if )x"; // \\\n c\n/* a */ char q = \'"\';\n#ifndef A\n#error no\n#endif\n',
)


def one_input(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    lookup = {"A": "1", "B": Number(None, ("B",))}.get
    assert without_comments(text).count("\n") == text.count("\n"), "lines moved"
    assert len(hollowed(text)) == len(text), "offsets moved"
    prepare(without_comments(text), lookup)
    source_of("f.cu", text, lookup)
    registrations(text, "kern")
    files: dict[str, str | bytes] = {
        **PRELUDE, "kern/CMakeLists.txt": _CMAKE, "kern/csrc/bind.cc": _BIND, "kern/csrc/ops.cu": data, "kern/csrc/x.h": "#pragma once\n",
        "kern/python/kern_pkg/__init__.py": "",
    }  # fmt: skip
    availability(
        MemoryTree(files),
        KernelOptions(("sm_90", "sm_120"), {"cuda": "13.0"}, profile=_PROFILE, declared=False),
    )
