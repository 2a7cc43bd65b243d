"""What a Triton or CUDA kernel comes to on a target, from its compiler and assembler.

Everything that is found out is kept under a hash of what it depends on: source, launch, architecture, the
version of the compiler, and this code.
"""

from __future__ import annotations

import ast
import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from auditor.native.triton import build, machine_code, safe
from auditor.native.triton.build import Launch, Outside, Source, Uncompiled, assembly
from auditor.native.triton.machine_code import Unreadable, instructions, resources, threads
from auditor.readback import Damaged, from_msgpack
from auditor.trees import assembler
from auditor.trees.assembler import Machine, Refused, assemble, compile_cuda
from auditor.trees.cache import cached_bytes, store_bytes

_KIND = "kernel-facts"


class Compiled(msgspec.Struct, frozen=True, kw_only=True):
    """One kernel in one configuration for one target. Sizes in bytes; ``error`` says why there are none."""

    error: str = ""
    arch: str = ""
    shared: int = 0  # that a launch asks for, and static, together
    scratch: int = 0  # global memory that the runtime has to bring
    registers: int = 0
    threads: int = 0  # of a block
    spill_stores: int = 0
    spill_loads: int = 0
    stack: int = 0
    local_loads: int = 0  # instructions
    local_stores: int = 0
    tensor: dict[str, int] = {}
    foreign: tuple[str, ...] = ()
    instructions: int = 0


@dataclass(frozen=True)
class TritonJob:
    """A kernel of Triton's to be compiled."""

    source: Source
    launch: Launch
    capability: tuple[int, int]
    version: str  # of Triton
    assembler: str
    disassembler: str

    def key(self) -> str:
        """A hash of all that the result depends on."""
        launch = (sorted(self.launch.signature.items()), sorted(map(repr, self.launch.constants.items())))
        rest = (sorted(self.launch.divisible), sorted(map(repr, self.launch.options.items())))
        return _digest(_dumped(self.source), repr(launch), repr(rest), repr(self.capability), self.version)


@dataclass(frozen=True)
class CudaJob:
    """A kernel of a CUDA source to be compiled by ``nvcc``."""

    text: bytes
    kernel: str
    macros: dict[str, str]
    threads: int
    shared: int  # dynamic, in bytes
    arch: str
    version: str  # of nvcc
    compiler: str
    disassembler: str

    def key(self) -> str:
        """A hash of all that the result depends on."""
        facts = (self.kernel, sorted(self.macros.items()), self.threads, self.shared, self.arch, self.version)
        return _digest(hashlib.sha256(self.text).hexdigest(), repr(facts))


Job = TritonJob | CudaJob


def kept(job: Job) -> Compiled | None:
    """What was found out about the same job before."""
    data = cached_bytes(_KIND, job.key())
    if data is None:
        return None
    try:
        found: Compiled = from_msgpack(data, Compiled)
        return found
    except Damaged:
        return None


def compiled(job: Job) -> Compiled:
    """Compile, assemble, take apart; the answer is kept."""
    try:
        found = _triton(job) if isinstance(job, TritonJob) else _cuda(job)
    except (Uncompiled, Refused, Unreadable) as error:
        return Compiled(error=str(error) or type(error).__name__)  # not kept: what it needs may come
    store_bytes(_KIND, job.key(), msgspec.msgpack.encode(found))
    return found


def _triton(job: TritonJob) -> Compiled:
    made = assembly(job.source, job.launch, job.capability)
    machine = assemble(made.ptx, made.arch, job.assembler, job.disassembler)
    return _facts(machine, made.arch, made.ptx, "", threads(made.ptx), made.shared, made.scratch)


def _cuda(job: CudaJob) -> Compiled:
    machine = compile_cuda(job.text, job.arch, job.macros, job.compiler, job.disassembler)
    return _facts(machine, job.arch, "", job.kernel, job.threads, job.shared, 0)


def _facts(
    machine: Machine, arch: str, ptx: str, kernel: str, block: int, shared: int, scratch: int
) -> Compiled:
    used = resources(machine.report, kernel)
    counted = instructions(machine.code, ptx, kernel)
    return Compiled(
        arch=arch,
        shared=shared + used.shared,
        scratch=scratch,
        registers=used.registers,
        threads=block,
        spill_stores=used.spill_stores,
        spill_loads=used.spill_loads,
        stack=used.stack,
        local_loads=counted.local_loads,
        local_stores=counted.local_stores,
        tensor=counted.tensor,
        foreign=counted.foreign,
        instructions=counted.total,
    )


def _dumped(source: Source) -> str:
    """A text that is the same for sources that mean the same, wherever they stand."""
    parts = [ast.dump(source.function), "gluon" if source.gluon else "triton"]
    for name, value in sorted(source.names.items()):
        parts.append(f"{name}={_dumped(value) if isinstance(value, Source) else _shown(value)}")
    return "\n".join(parts)


def _shown(value: Any) -> str:
    return value.name if isinstance(value, Outside) else repr(value)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join((_code(), *parts)).encode("utf-8", "backslashreplace")).hexdigest()


@lru_cache(maxsize=1)
def _code() -> str:
    """A digest of the code that finds it out: this module, and those that it gets there by."""
    files = [__file__, *(str(module.__file__) for module in (build, machine_code, safe, assembler))]
    return hashlib.sha256(b"\0".join(Path(path).read_bytes() for path in files)).hexdigest()
