"""Compiles what a patchset declares, for every target, and holds it against what the target has."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from auditor import __version__
from auditor.arch import Target, blocks_per_sm
from auditor.errors import UserError
from auditor.native.triton.kernel_facts import Compiled, CudaJob, Job, TritonJob, compiled, kept
from auditor.patching.kernels.declared import Config, Declared, declared_kernels, undeclared
from auditor.patching.kernels.formula import Wrong, value_of
from auditor.patching.kernels.launches import launches_of
from auditor.patching.kernels.pin import the_version
from auditor.patching.kernels.report import SCHEMA_VERSION, GateReport, GateRow, Launched
from auditor.patching.sets.patchset import Patchset
from auditor.trees.assembler import assembler_of, find_disassembler, find_nvcc, nvcc_version
from auditor.trees.workers import Lost, run_all

#: Seconds for one configuration: compiling takes up to 10.
LIMIT_S = 300.0
#: Variables that make Triton compile something else than it would for the user of the kernel.
_PREFIXES = ("TRITON_", "MLIR_", "LLVM_", "DISABLE_", "NVPTX_", "PTXAS_")


@dataclass(frozen=True)
class _Item:
    """One row to be: a configuration on a target, with what it needs to be compiled."""

    declared: Declared
    config: Config
    target: Target
    job: Job | None  # None: the CUDA compiler is not here


def run_gate(patchset: Patchset, progress: Callable[[int, int], None] = lambda done, of: None) -> GateReport:
    """Every configuration of every declared kernel on every target of its patch.

    UserError P090 (declaration), P091 to P093 (compiler). ``progress`` is told how many are compiled.
    """
    kernels = declared_kernels(patchset)
    version = the_version()
    items = _items(kernels, version)
    launches = [
        launches_of(item.declared, item.config, item.target) for item in items
    ]  # formulas are looked at before anything is compiled
    found = _compile([item.job for item in items if item.job is not None], progress)
    rows = tuple(_row(item, found, launched) for item, launched in zip(items, launches))
    left = [item for item in items if item.job is None]
    failures = (*_without_legal(kernels, rows), *undeclared(patchset, kernels))
    notes = [f"{each.kernel.file} {each.kernel.function}: not compiled, no nvcc here" for each in kernels
             if any(item.declared is each for item in left)]  # fmt: skip
    notes += sorted({
        f"numerics: not run here; python -m pytest {each.kernel.numerics}"
        for each in kernels if each.kernel.numerics
    })  # fmt: skip
    return GateReport(
        schema_version=SCHEMA_VERSION,
        tool=f"sglang-auditor {__version__}",
        patchset=patchset.name,
        compiler=f"triton {version}",
        targets=tuple(dict.fromkeys(target.name for each in kernels for target in each.targets)),
        ok=not failures and all(row.ok for row in rows),
        rows=rows,
        failures=failures,
        notes=tuple(notes),
    )


def _items(kernels: tuple[Declared, ...], version: str) -> list[_Item]:
    lister = find_disassembler()
    nvcc = find_nvcc() if any(each.source is None for each in kernels) else None
    made = nvcc_version(nvcc) if nvcc else ""
    out = []
    for each in kernels:
        for target in each.targets:
            for config in each.configs:
                job: Job | None = None
                if each.source is not None:
                    tool = assembler_of(target.capability)
                    launch = each.launch(config)
                    job = TritonJob(each.source, launch, target.capability, version, tool, lister)
                elif nvcc:
                    macros = {name: str(int(v) if isinstance(v, bool) else v)
                              for name, v in config.constants.items() if v is not None}  # fmt: skip
                    arch = f"{target.name}a" if target.capability >= (9, 0) else target.name
                    block = _number(each, "threads", each.kernel.threads, config)
                    shared = _number(each, "shared", each.kernel.shared, config)
                    name = each.kernel.function
                    job = CudaJob(each.text, name, macros, block, shared, arch, made, nvcc, lister)
                out.append(_Item(each, config, target, job))
    return out


def _number(each: Declared, field: str, formula: str | int, config: Config) -> int:
    try:
        return value_of(formula, {**config.constants, **config.values})
    except Wrong as error:
        raise each.error(str(error), field) from None


def _compile(jobs: list[Job], progress: Callable[[int, int], None]) -> dict[str, Compiled]:
    """Results by key; what is known already is not made again."""
    found: dict[str, Compiled] = {}
    left: dict[str, Job] = {}
    for job in jobs:
        key = job.key()
        before = kept(job) if key not in found and key not in left else None
        if before is not None:
            found[key] = before
        elif key not in found:
            left[key] = job
    if not left:
        return found
    with _private_folder() as folder:
        foreign = [name for name in os.environ if name.startswith(_PREFIXES)]
        environment: dict[str, str | None] = {name: None for name in foreign}
        environment |= {"TMPDIR": folder, "TRITON_CACHE_DIR": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        count = max(1, min(os.cpu_count() or 1, 8))
        answers = run_all(
            compiled,
            list(left.values()),
            environment=environment,
            count=count,
            limit_s=LIMIT_S,
            done=lambda number: progress(number, len(left)),
        )
    for key, answer in zip(left, answers):
        found[key] = Compiled(error=answer.why) if isinstance(answer, Lost) else answer
    return found


@contextmanager
def _private_folder() -> Iterator[str]:
    """A folder for the compiler's own files. UserError P093 where the disk takes none."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="auditor-")
    except OSError as error:
        fact = f"no folder can be made for the compiler: {error.strerror or error}"
        raise UserError("P093", fact, hints=["set TMPDIR to a folder that can be written"]) from None
    with folder as place:
        yield place


def _row(item: _Item, found: dict[str, Compiled], launches: tuple[Launched, ...]) -> GateRow:
    each = item.declared
    row = GateRow(
        patch=each.patch.name,
        file=each.kernel.file,
        function=each.kernel.function,
        language=each.kernel.language,
        target=item.target.name,
        constants=each.constants,
        config=item.config.text,
        ok=False,
        reasons=("not compiled: no nvcc here",),
        launches=launches,
    )
    if item.job is None:
        return row
    facts = found[item.job.key()]
    if facts.error:
        return msgspec.structs.replace(row, reasons=(f"not compiled: {facts.error}",))
    held = blocks_per_sm(item.target, threads=facts.threads, registers=facts.registers, shared=facts.shared)
    reasons = [*_faults(item, facts, held.blocks, held.limit), *_grids(item, launches)]
    return msgspec.structs.replace(
        row,
        ok=not reasons,
        reasons=tuple(reasons),
        arch=facts.arch,
        shared=facts.shared,
        registers=facts.registers,
        threads=facts.threads,
        spill_stores=facts.spill_stores,
        spill_loads=facts.spill_loads,
        stack=facts.stack,
        local_loads=facts.local_loads,
        local_stores=facts.local_stores,
        tensor=facts.tensor,
        blocks_per_sm=held.blocks,
        limited_by=held.limit,
        scratch=facts.scratch,
    )


def _faults(item: _Item, facts: Compiled, blocks: int, limit: str) -> list[str]:
    """What is wrong with the code itself."""
    target, out = item.target, []
    most = target.smem_per_block
    if facts.shared > most:
        over = facts.shared - most
        out.append(f"{facts.shared:,} bytes of shared memory: {over:,} more than the {most:,} of a block")
    if facts.spill_stores or facts.spill_loads:
        out.append(f"spills registers: {facts.spill_stores:,} bytes stored, {facts.spill_loads:,} loaded")
    elif facts.local_loads or facts.local_stores or facts.stack:
        out.append(
            f"local memory: {facts.local_loads} LDL, {facts.local_stores} STL, {facts.stack:,} bytes of stack"
        )
    if item.declared.kernel.tensor_cores == "required" and not facts.tensor:
        out.append(f"no instruction of the tensor cores among {facts.instructions:,}")
    lacks = [name for name in facts.foreign if not _has(target, name)]
    if lacks:
        out.append(f"{', '.join(lacks)}: not on {target.name}")
    least = item.declared.kernel.blocks_per_sm
    if blocks < least and facts.shared <= most:
        out.append(f"{blocks} block{'s' * (blocks != 1)} per SM ({limit}), {least} are wanted")
    return out


def _has(target: Target, instruction: str) -> bool:
    """Whether the target has an instruction that only some have."""
    if instruction.startswith("UTC") or instruction == "tcgen05":
        return target.has("tcgen05")
    return target.has("wgmma")


def _grids(item: _Item, launches: tuple[Launched, ...]) -> list[str]:
    if not launches:
        return ["no declared shape is launched with it"]
    out = []
    for each in launches:
        if each.blocks < each.wanted:
            shape = ", ".join(f"{name} {size}" for name, size in each.shape.items())
            out.append(f"{each.blocks} blocks for {shape}: {each.wanted} could work ({item.target.sms} SMs)")
    return out


def _without_legal(kernels: tuple[Declared, ...], rows: tuple[GateRow, ...]) -> list[str]:
    """Kernels of which no configuration is good on a target, and shapes that nothing is launched for."""
    out = []
    for each in kernels:
        mine = [r for r in rows if (r.patch, r.file, r.function, r.constants) == _name(each)]
        for target in each.targets:
            here = [row for row in mine if row.target == target.name]
            if here and not any(row.ok for row in here):
                out.append(f"files/{each.kernel.file} {each.kernel.function}: none of its {len(here)} "
                           f"configuration{'s' * (len(here) != 1)} is good on {target.name}")  # fmt: skip
            served = [launch.shape for row in here for launch in row.launches]
            for shape in each.kernel.launch.shapes:
                if shape not in served:
                    text = ", ".join(f"{name} {size}" for name, size in shape.items())
                    out.append(f"files/{each.kernel.file} {each.kernel.function}: no configuration is "
                               f"launched for {text}")  # fmt: skip
    return list(dict.fromkeys(out))


def _name(each: Declared) -> tuple[str, str, str, str]:
    return each.patch.name, each.kernel.file, each.kernel.function, each.constants
