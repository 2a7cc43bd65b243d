"""NVIDIA's assembler and disassembler: what a kernel's assembly text comes to on a card that is not here.

``ptxas`` comes with the package ``triton``, which is looked up and not imported; ``nvdisasm`` with a package
of NVIDIA's or the toolkit (Triton's own may be too old for a target); ``nvcc`` is the toolkit's.
They run on files in a private folder that is gone afterwards, with fixed arguments, no input and a time
limit. Nothing that they make is ever loaded.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from auditor.errors import UserError
from auditor.trees.tools import first_program, of_packages, of_toolkit, of_triton, run_tool

#: Seconds for one kernel. A large one takes about 10.
LIMIT_S = 120


class Refused(Exception):
    """What a tool did not take, in its own words, one line."""


@dataclass(frozen=True)
class Machine:
    """A kernel as machine code: what the assembler reported (``-v``), and the code as text."""

    report: str
    code: str


def assembler_of(capability: tuple[int, int]) -> str:
    """The assembler that Triton uses for a capability. UserError P093 where it is not there."""
    name = "ptxas-blackwell" if capability >= (10, 0) else "ptxas"
    return _there(first_program(of_triton(name)), name)


def find_disassembler() -> str:
    """``nvdisasm`` of a package of NVIDIA, of the toolkit, or Triton's (which may be older than the target).
    UserError P093 where there is none."""
    name = "nvdisasm"
    found = first_program(of_packages(name)) or shutil.which(name)
    return _there(found or first_program([*of_toolkit(name), *of_triton(name)]), name)


def _there(found: str | None, name: str) -> str:
    if found is None:
        raise UserError(
            "P093",
            f"there is no {name} here: nothing can be assembled and looked at",
            hints=["python -m pip install --force-reinstall 'sglang-auditor[kernels]'"],
        )
    return found


def assemble(ptx: str, arch: str, tool: str, disassembler: str) -> Machine:
    """Machine code of a kernel, with the arguments that Triton gives. ``Refused`` in the tool's words."""
    with tempfile.TemporaryDirectory(prefix="auditor-") as name:
        folder = Path(name)
        (folder / "kernel.ptx").write_text(ptx, encoding="utf-8")
        made = run_tool(
            [tool, "-lineinfo", "-v", f"--gpu-name={arch}", "kernel.ptx", "-o", "kernel.cubin"],
            folder,
            LIMIT_S,
        )
        if made.code:
            raise Refused(_said(made.said or made.text, made.late))
        return Machine(made.said, _disassembled(disassembler, folder))


def find_nvcc() -> str | None:
    """The CUDA compiler on PATH or of CUDA_HOME, or None."""
    return shutil.which("nvcc") or first_program(of_toolkit("nvcc"))


def compile_cuda(text: bytes, arch: str, macros: dict[str, str], tool: str, disassembler: str) -> Machine:
    """Machine code of a CUDA source that needs nothing beside it. ``Refused`` in the compiler's words."""
    with tempfile.TemporaryDirectory(prefix="auditor-") as name:
        folder = Path(name)
        (folder / "kernel.cu").write_bytes(text)
        given = [f"-D{macro}={value}" for macro, value in sorted(macros.items())]
        fixed = ["-std=c++17", "-O3", "--resource-usage", "-cubin", f"-arch={arch}"]
        made = run_tool([tool, *fixed, *given, "kernel.cu", "-o", "kernel.cubin"], folder, LIMIT_S)
        if made.code:
            raise Refused(_said(made.said or made.text, made.late))
        return Machine(made.said or made.text, _disassembled(disassembler, folder))


def _disassembled(tool: str, folder: Path) -> str:
    shown = run_tool([tool, "-c", "kernel.cubin"], folder, LIMIT_S)
    if shown.code:
        raise Refused(f"nvdisasm: {_said(shown.said or shown.text, shown.late)}")
    return shown.text


def _said(text: str, late: bool) -> str:
    if late:
        return f"not done after {LIMIT_S} seconds"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower() or "fatal" in line.lower()]
    return (errors or lines or ["no reason given"])[0][:200]


def nvcc_version(tool: str) -> str:
    """What ``nvcc --version`` ends with; "" where it says nothing."""
    with tempfile.TemporaryDirectory(prefix="auditor-") as name:
        lines = run_tool([tool, "--version"], Path(name), LIMIT_S).text.split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
