"""What NVIDIA's assembler reports about a kernel, and what its machine code is made of.

Text only: the report of ``ptxas -v``, the listing of ``nvdisasm -c``, PTX. Sources: CUDA Binary Utilities
(instruction sets of Hopper and Blackwell), PTX ISA (``wgmma``, ``tcgen05``).
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)", re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_WORD = re.compile(r"\b(wgmma|tcgen05)\.[a-z]")
#: Of Hopper's warp groups, and of the tensor memory of sm_100: other cards have neither.
_WARP_GROUP = frozenset({"HGMMA", "QGMMA", "IGMMA", "BGMMA"})
#: Instructions of the tensor cores that a warp gives by itself.
TENSOR = ("HMMA", "QMMA", "OMMA", "IMMA", "DMMA")
_FIFTH = re.compile(r"UTC[A-Z]*MMA")


class Unreadable(Exception):
    """A report in another form than is known here."""


@dataclass(frozen=True)
class Resources:
    """What one kernel takes: registers a thread, and bytes a thread (spills, stack) or a block (shared)."""

    registers: int
    spill_stores: int
    spill_loads: int
    stack: int
    shared: int  # static: what the launch asks for comes on top


def resources(report: str, kernel: str = "") -> Resources:
    """Of the kernel whose name holds ``kernel``, with every function that was not inlined added to it.

    ``Unreadable`` where the report lacks a line, or holds no or several such kernels.
    """
    parts = re.split(r"Compiling entry function '([^']+)'", report)
    names = parts[1::2]
    found = [i for i, name in enumerate(names) if kernel in name]
    if len(found) != 1:
        listed = ", ".join(names) or "none"
        raise Unreadable(f"{len(found)} kernels are called {kernel or 'anything'}: {listed}")
    text = parts[2 + 2 * found[0]]
    registers = re.search(r"Used ([0-9]{1,18}) registers", text)
    frames = re.findall(
        r"([0-9]{1,18}) bytes stack frame, ([0-9]{1,18}) bytes spill stores, ([0-9]{1,18}) bytes spill loads",
        text,
    )
    if registers is None or not frames:
        raise Unreadable("the assembler's report names no registers or no stack")
    shared = re.search(r"([0-9]{1,18}) bytes smem", text)
    stack, stores, loads = (sum(int(frame[i]) for frame in frames) for i in range(3))
    return Resources(int(registers[1]), stores, loads, stack, int(shared[1]) if shared else 0)


@dataclass(frozen=True)
class Instructions:
    """How often a kernel's machine code holds what matters here."""

    tensor: dict[str, int]  # HMMA, QMMA, … -> count, without those that are not there; foreign ones too
    local_loads: int  # LDL: from memory that belongs to one thread
    local_stores: int  # STL
    foreign: tuple[str, ...]  # instructions that only other cards have
    total: int


def instructions(code: str, ptx: str = "", kernel: str = "") -> Instructions:
    """Counts over a listing; ``kernel`` picks the sections of code whose name holds it.

    ``Unreadable`` for a listing without an instruction.
    """
    sections = re.split(r"(?m)^//-+ (\.\S+) +-+$", code)
    texts = [text for name, text in zip(sections[1::2], sections[2::2]) if _wanted(name, kernel)]
    counts = Counter(_INSTRUCTION.findall("\n".join(texts or [code])))
    if not counts:
        raise Unreadable("the listing holds no instruction")
    foreign = {name for name in counts if name in _WARP_GROUP or name.startswith("UTC")}
    foreign |= set(_WORD.findall(_COMMENT.sub("", ptx)))
    return Instructions(
        {name: counts[name] for name in sorted(counts) if name in TENSOR or _is_other(name)},
        counts["LDL"],
        counts["STL"],
        tuple(sorted(foreign)),
        sum(counts.values()),
    )


def _is_other(name: str) -> bool:
    """Whether it multiplies on the tensor cores of the cards that have more than a warp's own."""
    return name in _WARP_GROUP or _FIFTH.fullmatch(name) is not None


def _wanted(section: str, kernel: str) -> bool:
    return section.startswith(".text") and kernel in section


def threads(ptx: str) -> int:
    """Threads of a block, as the kernel's own directive says. ``Unreadable`` where there is none."""
    found = re.search(r"\.(?:req|max)ntid\s+([0-9]{1,18})(?:,\s*([0-9]{1,18}))?(?:,\s*([0-9]{1,18}))?", ptx)
    if found is None:
        raise Unreadable("the assembly text says nothing about the number of threads")
    product = 1
    for each in found.groups():
        product *= int(each or 1)
    return product
