"""Architecture tags of kernels, the macros of device code, and which of several pieces of code decides."""

from __future__ import annotations

import msgspec
import pytest

from auditor.arch import load_targets, parse_arch
from auditor.errors import UserError
from auditor.native.availability import availability
from auditor.native.model import Cell
from auditor.native.sources.macros import device_macros
from auditor.native.world import KernelOptions
from auditor.profile import KernelTag, Native, NativeBuild, load_profile
from auditor.queries.exampletree import PRELUDE, PROFILE, MemoryTree

NATIVE = Native(
    builds=(NativeBuild("kern", "kern/python", "kern_pkg"),),
    tags={
        "Sm89": KernelTag(runs=("sm_89",), or_newer=True, source="fp8 mma"),
        "Sm90": KernelTag(runs=("sm_90",), suffix=True, source="wgmma"),
        "Sm100": KernelTag(runs=("sm_100", "sm_103"), unknown=("sm_110",), suffix=True, source="tcgen05"),
    },
    tag_namespaces=("tool::arch",),
)
OPS = """
__global__ void plain_kernel(float* p) { p[0] = 1; }
template <typename A> struct Gemm { static void run(float* p) { plain_kernel<<<1, 32>>>(p); } };
struct G89 { using ArchTag = tool::arch::Sm89; static void run(float* p) { plain_kernel<<<1, 32>>>(p); } };
struct G90 { using ArchTag = tool::arch::Sm90; static void run(float* p) { plain_kernel<<<1, 32>>>(p); } };
struct G100 { using ArchTag = tool::arch::Sm100; static void run(float* p) { plain_kernel<<<1, 32>>>(p); } };
struct G130 { using ArchTag = tool::arch::Sm130; static void run(float* p) { plain_kernel<<<1, 32>>>(p); } };
void op89(float* p) { G89::run(p); }
void op90(float* p) { G90::run(p); }
void op100(float* p) { G100::run(p); }
void op130(float* p) { G130::run(p); }
__global__ void exact_kernel(float* p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  p[0] = 2;
#endif
}
__global__ void family_kernel(float* p) {
#if defined(__CUDA_ARCH_FAMILY_SPECIFIC__) && __CUDA_ARCH_FAMILY_SPECIFIC__ >= 1000
  p[0] = 2;
#endif
}
void exact_op(float* p) { exact_kernel<<<1, 32>>>(p); }
void family_op(float* p) { family_kernel<<<1, 32>>>(p); }
"""
NAMES = ("op89", "op90", "op100", "op130", "exact_op", "family_op")
BIND = (
    "TORCH_LIBRARY_FRAGMENT(kern, m) {\n"
    + "".join(f'  m.def("{n}(Tensor p) -> ()");\n  m.impl("{n}", torch::kCUDA, &{n});\n' for n in NAMES)
    + "}\n"
)
TARGETS = ("sm_80", "sm_89", "sm_90", "sm_100", "sm_103", "sm_110", "sm_120")


def cells(name: str, *codes: str, flags: str = "", cuda: str = "13.0") -> dict[str, Cell]:
    """What the targets get from an operator of a library that is built for these architectures."""
    built = " ".join(f"-gencode=arch=compute_{one},code=sm_{one}" for one in codes)
    files = {
        **PRELUDE,
        "kern/CMakeLists.txt": "project(kern LANGUAGES CXX CUDA)\nfind_package(Torch REQUIRED)\n"
        "Python_add_library(fast MODULE csrc/bind.cc csrc/ops.cu)\n"
        f"target_compile_options(fast PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:{built} {flags}>)\n"
        "install(TARGETS fast LIBRARY DESTINATION kern_pkg)\n",
        "kern/csrc/bind.cc": BIND,
        "kern/csrc/ops.cu": OPS,
        "kern/python/kern_pkg/__init__.py": "",
    }
    profile = msgspec.structs.replace(PROFILE, native=NATIVE)
    options = KernelOptions(TARGETS, {"cuda": cuda}, profile=profile, declared=False)
    (row,) = [row for row in availability(MemoryTree(files), options).rows if row.name == f"kern::{name}"]
    return row.cells


def said(name: str, *codes: str, flags: str = "", cuda: str = "13.0") -> dict[str, str]:
    return {target: cell.outcome for target, cell in cells(name, *codes, flags=flags, cuda=cuda).items()}


def test_a_tag_wants_the_suffix_in_the_code_that_is_loaded() -> None:
    # A cubin for plain 90 loads on sm_90, but wgmma is only in code for 90a.
    assert said("op90", "90", "90a")["sm_90"] == "runs"
    assert said("op90", "90")["sm_90"] == "not-built"
    assert "Sm90" in cells("op90", "90")["sm_90"].reason
    assert cells("op90", "90")["sm_90"].reason.endswith("left out of code for 90")
    assert said("op90", "120a")["sm_120"] == "not-built"


@pytest.mark.parametrize(
    ("codes", "sm_100", "sm_103"),
    [
        (("100a", "103a"), "runs", "runs"),
        (("100f",), "runs", "runs"),
        (("100",), "not-built", "not-built"),
        (("100a",), "runs", "not-built"),
        (("100", "103a"), "not-built", "runs"),
    ],
)
def test_a_family_is_as_good_as_the_exact_code(codes: tuple[str, ...], sm_100: str, sm_103: str) -> None:
    got = said("op100", *codes)
    assert (got["sm_100"], got["sm_103"]) == (sm_100, sm_103)


def test_or_newer_is_asked_of_the_code_and_not_of_the_card() -> None:
    # The cubin of 80 loads on sm_89, and the fp8 instructions are not in it.
    assert said("op89", "80")["sm_89"] == "not-built"
    assert said("op89", "80", "89", "120")["sm_89"] == "runs"
    assert said("op89", "80", "89", "120")["sm_120"] == "runs"
    assert said("op89", "80", "89", "120")["sm_80"] == "not-built"


def test_a_tag_that_the_data_do_not_list_is_unknown() -> None:
    cell = cells("op130", "100a", "120a")["sm_120"]
    assert cell.outcome == "unknown"
    assert "Sm130" in cell.reason


def test_device_code_knows_the_suffix_it_is_compiled_for() -> None:
    assert said("exact_op", "90a")["sm_90"] == "runs"
    assert said("exact_op", "90")["sm_90"] == "not-built"
    assert said("exact_op", "100a")["sm_100"] == "not-built"
    assert said("family_op", "100f", "120a")["sm_103"] == "runs"
    assert said("family_op", "100f", "120a")["sm_120"] == "runs"
    assert said("family_op", "100", "90a")["sm_100"] == "not-built"
    assert said("family_op", "90a")["sm_90"] == "not-built"
    # The family macro came with 12.9.
    assert said("family_op", "100a", cuda="12.8")["sm_100"] == "not-built"


def test_macros_of_device_code() -> None:
    assert device_macros(parse_arch("90"), "13.0") == {"__CUDA_ARCH__": "900"}
    assert device_macros(parse_arch("90a"), "12.4") == {
        "__CUDA_ARCH__": "900",
        "__CUDA_ARCH_FEAT_SM90_ALL": "1",
    }
    assert device_macros(parse_arch("120f"), "12.9") == {
        "__CUDA_ARCH__": "1200",
        "__CUDA_ARCH_FAMILY_SPECIFIC__": "1200",
    }
    assert device_macros(parse_arch("100a"), "13.0") == {
        "__CUDA_ARCH__": "1000",
        "__CUDA_ARCH_FEAT_SM100_ALL": "1",
        "__CUDA_ARCH_SPECIFIC__": "1000",
        "__CUDA_ARCH_FAMILY_SPECIFIC__": "1000",
    }


@pytest.mark.parametrize(
    "flags",
    ["-gencode=arch=compute_native,code=sm_native", "-gencode=arch=compute_9,code=sm_9", "-arch=native"],
)
def test_an_architecture_that_nobody_knows_does_not_end_the_map(flags: str) -> None:
    got = said("op89", "90a", flags=flags)
    assert got["sm_90"] == "runs"
    assert got["sm_120"] in ("unknown", "not-built")


@pytest.mark.parametrize(
    "text", ["", "9", "sm_", "native", "90b", "1" * 5000, "9.", "٩٠", "ſm_90", "90aa", "sm_-90"]
)
def test_what_is_no_architecture_is_said(text: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_arch(text)
    assert caught.value.code == "E002"


def test_the_tags_and_macros_of_the_profile_are_sound() -> None:
    native = load_profile("sglang").native
    known = load_targets()
    for tag in native.tags.values():
        assert set(tag.runs) | set(tag.unknown) <= set(known)
        assert not (tag.or_newer and tag.suffix)
    # cutlass/arch/config.h: CUDA 12.0 for Sm90, not the first that could compile for sm_90.
    assert native.macros["CUTLASS_ARCH_MMA_SM90_SUPPORTED"].cuda == "12.0"
    assert native.tags["Sm90"].suffix and native.tags["Sm120"].suffix
