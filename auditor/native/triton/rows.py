"""A row per Triton kernel: how many configurations it has, and for those with a declared signature whether a
target has the shared memory that each one needs.

Signatures are data (``queries/triton/*.yaml``): they say with which types and sizes a kernel is launched. The
configurations come from the tree.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from auditor import pytext, yamlio
from auditor.arch import Target, load_targets
from auditor.data import data_root
from auditor.gates.reading import for_all_targets
from auditor.native.model import Cell, Row, Step
from auditor.native.triton.build import (
    LANGUAGES,
    Launch,
    Outside,
    Source,
    Uncompiled,
    compiler_version,
    shared_bytes,
)
from auditor.native.triton.list import Config, Kernel, TritonProgram
from auditor.native.triton.safe import free_names
from auditor.profile import Profile
from auditor.program.values import External, Function, is_const

_LANGUAGES = tuple(f"{name}." for name in LANGUAGES)


class Signature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a kernel is launched. ``kernels`` are its full names over time."""

    kernels: tuple[str, ...]
    why: str  # the model and the sizes this stands for
    arguments: dict[str, str]  # parameter -> type as Triton writes it: *bf16, i32, fp32
    constants: dict[str, int | float | bool | str | None] = {}
    divisible: tuple[str, ...] = ()  # by 16, besides all pointers
    options: dict[str, int] = {}  # num_warps, num_stages of a kernel without configurations


def signatures(folder: Path | None = None) -> dict[str, Signature]:
    """The declared signatures by kernel. UserError Q051 for a mistake in a file."""
    base = folder if folder is not None else data_root() / "queries" / "triton"
    out: dict[str, Signature] = {}
    for path in sorted(base.glob("*.yaml")):
        document = yamlio.load(path.read_bytes(), f"queries/triton/{path.name}", code="Q051")
        signature = document.convert(Signature)
        for index, name in enumerate(signature.kernels):
            if name in out:
                raise document.error(f"{name} is declared twice", "kernels", index)
            out[name] = signature
    return out


def triton_rows(
    files: dict[str, bytes],
    root: str,
    profile: Profile,
    targets: dict[str, Target],
    cuda: str = "13.0",
    *,
    compiled: bool = False,
    declared: dict[str, Signature] | None = None,
) -> tuple[Row, ...]:
    """The Triton kernels of the package below ``root``. ``compiled``: check those with a signature."""
    program = for_all_targets(TritonProgram, files, root, profile, {"cuda": cuda, "defaults": "yes"})
    kernels = program.kernels()
    known = signatures() if declared is None else declared
    maker = _Maker(program, {kernel.name: kernel for kernel in kernels})
    short = _short_names([kernel.name for kernel in kernels])
    return tuple(
        Row(
            name=f"triton::{short[kernel.name]}",
            kind="triton",
            path=kernel.path,
            line=kernel.line,
            cells=_cells(kernel, known.get(kernel.name), maker, targets, compiled),
            function=kernel.name,
            area=profile.area(kernel.path),
        )
        for kernel in kernels
    )


def _short_names(names: list[str]) -> dict[str, str]:
    """For each full name its shortest end of two parts or more that no other has."""
    ends: dict[str, set[str]] = {}
    for name in names:
        parts = name.split(".")
        for cut in range(len(parts)):
            ends.setdefault(".".join(parts[cut:]), set()).add(name)
    out = {}
    for name in names:
        parts = name.split(".")
        options = [".".join(parts[-n:]) for n in range(2, len(parts) + 1)]
        out[name] = next((end for end in options if len(ends[end]) == 1), name)
    return out


def _cells(
    kernel: Kernel, signature: Signature | None, maker: _Maker, targets: dict[str, Target], compiled: bool
) -> dict[str, Cell]:
    index = {name: i for i, name in enumerate(load_targets())}
    version = compiler_version() if compiled else None
    out = {}
    for name, target in targets.items():
        i = index[name]
        configs = kernel.configs[i]
        proof = (Step(_counted(kernel, configs), kernel.path, kernel.line),)
        why = _unchecked(kernel, configs, signature, compiled, version)
        if why is not None:
            out[name] = Cell("unknown", f"unchecked: {why}; {_counted(kernel, configs)}", proof)
            continue
        assert signature is not None and configs is not None
        out[name] = _checked(kernel, signature, maker, configs, target, i, version or "", proof)
    return out


def _counted(kernel: Kernel, configs: tuple[Config, ...] | None) -> str:
    if not kernel.tuned:
        return "not tuned"
    if configs is None:
        return f"configurations are open: {kernel.why}"
    return f"{len(configs)} configuration{'' if len(configs) == 1 else 's'}"


def _unchecked(
    kernel: Kernel,
    configs: tuple[Config, ...] | None,
    signature: Signature | None,
    compiled: bool,
    version: str | None,
) -> str | None:
    if kernel.gluon:
        return "a Gluon kernel"
    if configs is None:
        return "its configurations are not known"
    if signature is None:
        return "no signature is declared"
    if not compiled:
        return "not asked to compile"
    if version is None:
        return "the package triton is not installed"
    return None


def _checked(
    kernel: Kernel,
    signature: Signature,
    maker: _Maker,
    configs: tuple[Config, ...],
    target: Target,
    i: int,
    version: str,
    proof: tuple[Step, ...],
) -> Cell:
    """The shared memory of every configuration against what a block of the target may have."""
    limit = target.smem_per_block
    tried = configs or (Config((), tuple(sorted(signature.options.items()))),)
    needs: list[tuple[int, Config]] = []
    steps = []
    for config in tried:
        try:
            needed = shared_bytes(
                maker.source(kernel, i), _launch(kernel, signature, config), target.capability
            )
        except Uncompiled as error:
            return Cell("unknown", f"unchecked: {error}; {_counted(kernel, configs)}", proof)
        except (RecursionError, SyntaxError, ValueError) as error:
            what = f"its source cannot be read ({type(error).__name__})"
            return Cell("unknown", f"unchecked: {what}; {_counted(kernel, configs)}", proof)
        needs.append((needed, config))
        text = f"{config.text or 'no values'}: {needed:,} bytes of shared memory"
        steps.append(Step(text, kernel.path, kernel.line))
    least, most = min(n for n, _c in needs), max(n for n, _c in needs)
    span = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    facts = f"{span} bytes of shared memory of {limit:,}; Triton {version}"
    over = [config for needed, config in needs if needed > limit]
    if not over:
        return Cell("runs", f"{_counted(kernel, configs)}: {facts}", (*proof, *steps))
    if len(over) == len(needs):
        return Cell("raises", f"none of its configurations fits: {facts}", (*proof, *steps))
    text = (
        f"{len(needs) - len(over)} of {len(needs)} configurations fit: {facts}; too much for {over[0].text}"
    )
    return Cell("runs", text, (*proof, *steps))


def _launch(kernel: Kernel, signature: Signature, config: Config) -> Launch:
    constants = {**signature.constants, **dict(config.values)}
    pointers = {name for name, kind in signature.arguments.items() if kind.startswith("*")}
    return Launch(
        signature.arguments,
        constants,
        frozenset(pointers | set(signature.divisible)),
        dict(config.options) or signature.options,
    )


class _Maker:
    """Finds a kernel's source and what the names in it mean, on one target."""

    def __init__(self, program: TritonProgram, kernels: dict[str, Kernel]) -> None:
        self.program = program
        self.kernels = kernels
        self._trees: dict[str, dict[int, ast.FunctionDef]] = {}

    def source(self, kernel: Kernel, i: int, depth: int = 0) -> Source:
        """``Uncompiled`` where a name is neither a constant, a kernel nor a function of Triton."""
        function = self._function(kernel)
        module = self.program.module(kernel.module)
        if function is None or module is None or depth > 6:
            raise Uncompiled("its source is not found")
        frame = self.program.module_frame(module)
        names: dict[str, Any] = {}
        for name in free_names(function):
            scalar = self.program.name_value(name, frame).at(i)
            if isinstance(scalar, External) and f"{scalar.name}.".startswith(_LANGUAGES):
                names[name] = Outside(scalar.name)
            elif isinstance(scalar, Function) and self._known(scalar) is not None:
                names[name] = self.source(self._known(scalar) or kernel, i, depth + 1)
            elif is_const(scalar) and isinstance(scalar, (bool, int, float, str, type(None))):
                names[name] = scalar
            else:
                raise Uncompiled(f"not handed to the compiler: the name {name}")
        return Source(function, kernel.path, names)

    def _known(self, function: Any) -> Kernel | None:
        return self.kernels.get(function.fullname)

    def _function(self, kernel: Kernel) -> ast.FunctionDef | None:
        held = self._trees.get(kernel.path)
        if held is None:
            module = self.program.module(kernel.module)
            nodes: Iterable[ast.AST] = ast.walk(pytext.parse(module.text)) if module is not None else ()
            held = {n.lineno: n for n in nodes if isinstance(n, ast.FunctionDef)}
            self._trees[kernel.path] = held
        return held.get(kernel.line)
