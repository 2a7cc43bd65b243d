"""The kernels of a patchset with everything that was declared about them, checked against their files.

Nothing is compiled here, and Triton need not be installed.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass
from typing import Any

from auditor.arch.targets import Target, load_targets
from auditor.errors import UserError
from auditor.lazyre import lazy
from auditor.native.triton.build import LANGUAGES, Launch, Outside, Source
from auditor.patching.kernels.formula import Wrong as WrongFormula
from auditor.patching.kernels.formula import names_of
from auditor.patching.kernels.model import Kernel
from auditor.patching.kernels.source import (
    KernelFile,
    Wrong,
    configs_of,
    read_file,
    source_of,
    tuned_otherwise,
)
from auditor.patching.sets.patchset import Patch, Patchset

#: What a configuration may say about the launch; everything else in it is a compile-time value.
OPTIONS = frozenset({"num_warps", "num_stages", "num_ctas", "maxnreg"})
_GLOBAL = lazy(rb"\b__global__\b[^;{]*?\b(\w+)\s*\(")
_TYPE = lazy(r"\*?(?:[iu](?:1|8|16|32|64)|fp(?:16|32|64)|bf16|f16|f32|fp8e\w+)")


@dataclass(frozen=True)
class Config:
    """One configuration with one variant: what is compiled."""

    values: dict[str, Any]  # of the configuration: compile-time values, and what only formulas use
    constants: dict[str, Any]  # all compile-time values of the kernel
    options: dict[str, Any]
    text: str


@dataclass(frozen=True)
class Declared:
    """A kernel that a patch declares; ``source`` for Triton's, ``text`` for CUDA."""

    patch: Patch
    index: int
    kernel: Kernel
    targets: tuple[Target, ...]
    configs: tuple[Config, ...]
    source: Source | None
    text: bytes

    @property
    def constants(self) -> str:
        """The compile-time values that are the same in every configuration, as text."""
        return ", ".join(f"{name} {_word(value)}" for name, value in self.kernel.constexprs.items())

    def launch(self, config: Config) -> Launch:
        """How it is launched in a configuration."""
        pointers = {name for name, kind in self.kernel.signature.items() if kind.startswith("*")}
        divisible = (pointers - set(self.kernel.unaligned)) | set(self.kernel.divisible)
        signature = {n: t for n, t in self.kernel.signature.items() if n not in config.constants}
        return Launch(signature, config.constants, frozenset(divisible), config.options)

    def error(self, fact: str, *path: str | int, hints: tuple[str, ...] = ()) -> UserError:
        """A UserError P090 at a field of the declaration."""
        return _error(self.patch, self.index, fact, *path, hints=hints)


class Files:
    """The files of kernels below ``files/``, each read once."""

    def __init__(self, patchset: Patchset) -> None:
        self.patchset = patchset
        self._read: dict[str, KernelFile] = {}

    def names(self) -> list[str]:
        """Every file that the patchset brings, sorted."""
        return sorted(self.patchset.file.files)

    def read(self, name: str) -> KernelFile:
        """A file of Python, read. ``Wrong`` where it does not parse."""
        if name not in self._read:
            self._read[name] = read_file(name, self.patchset.new_file(name))
        return self._read[name]

    def find(self, module: str) -> KernelFile | None:
        """The one file that holds a module of this name."""
        tail = module.replace(".", "/") + ".py"
        found = [name for name in self.names() if name == tail or name.endswith(f"/{tail}")]
        if not found and "." in module:  # laid out otherwise below files/: by the last name
            last = tail.rpartition("/")[2]
            found = [name for name in self.names() if name.rpartition("/")[2] == last]
        return self.read(found[0]) if len(found) == 1 else None


def declared_kernels(patchset: Patchset) -> tuple[Declared, ...]:
    """Every kernel that the patches declare, in their order.

    UserError P090 where a declaration and its file do not agree, or where there is none; P024 where a file is
    not there.
    """
    files = Files(patchset)
    out = []
    for patch in patchset.patches:
        for index, kernel in enumerate(patch.file.kernels if patch.file is not None else ()):
            out.append(read_declaration(files, patch, index, kernel))
    if not out:
        raise UserError(
            "P090",
            f"no patch of {patchset.name} declares a kernel: there is nothing to compile",
            place=patchset.place,
            hints=["add `kernels:` to the patch that brings one: docs/kernels.md"],
        )
    return tuple(out)


def undeclared(patchset: Patchset, known: tuple[Declared, ...]) -> tuple[str, ...]:
    """Kernels in the patchset's files that nobody declares and no other kernel calls, a line each."""
    files = Files(patchset)
    ours = {(each.kernel.file, each.kernel.function) for each in known}
    out = []
    there: list[tuple[str, str, int]] = []
    called: set[str] = set()
    for name in files.names():
        if name.endswith(".py"):
            try:
                read = files.read(name)
            except Wrong as error:
                out.append(f"files/{name}:{error.line}: {error}")
                continue
            called |= read.called()
            there += [(name, each, read.functions[each].lineno) for each in read.jitted]
        elif name.endswith((".cu", ".cuh")):
            text = patchset.new_file(name)
            for match in _GLOBAL.finditer(text):
                there.append((name, match[1].decode(), text.count(b"\n", 0, match.start(1)) + 1))
    for name, function, line in there:
        if (name, function) not in ours and function not in called:
            out.append(f"files/{name}:{line}: the kernel {function} is not declared by any patch")
    return tuple(out)


def _error(patch: Patch, index: int, fact: str, *path: str | int, hints: tuple[str, ...] = ()) -> UserError:
    if patch.document is None:
        return UserError("P090", fact, place=patch.place, hints=hints)
    return patch.document.error(fact, "kernels", index, *path, code="P090", hints=hints)


def read_declaration(files: Files, patch: Patch, index: int, kernel: Kernel) -> Declared:
    """One declaration with what its file says. UserError P090 or P024."""

    def wrong(fact: str, *path: str | int, hints: tuple[str, ...] = ()) -> UserError:
        return _error(patch, index, fact, *path, hints=hints)

    known = load_targets()
    names = [name for name in known if any(fnmatch.fnmatch(name, glob) for glob in patch.header.targets)]
    if not names:
        raise UserError(
            "P090",
            "a patch with kernels names the targets that they are for",
            place=patch.place,
            hints=["add `targets: [sm_120, sm_121]`"],
        )
    text, source, table = b"", None, kernel.configs
    try:
        if kernel.language == "cuda":
            text = files.patchset.new_file(kernel.file)
            found = {match.decode() for match in _GLOBAL.findall(text)}
            if kernel.function not in found:
                raise Wrong(f"no __global__ function {kernel.function} in it")
            if isinstance(table, str):
                raise wrong("configurations of a CUDA kernel are listed here", "configs")
        else:
            read = files.read(kernel.file)
            source = source_of(read, kernel.function, files.find)
            spoken = read.jitted[kernel.function]
            if spoken != kernel.language:
                raise wrong(f"{kernel.function} is a kernel of {spoken}", "language")
            if isinstance(table, str):
                if tuned_otherwise(read, kernel.function, table):
                    raise wrong(f"its autotuner tries others than those in {table}", "configs")
                table = configs_of(read, table)
    except Wrong as error:
        at = f"files/{kernel.file}" + (f":{error.line}" if error.line else "")
        raise wrong(f"{at}: {error}", "function") from None
    configs = _configs(kernel, source, table or ({},), wrong)
    targets = tuple(known[name] for name in names)
    made = Declared(patch, index, kernel, targets, configs, source, text)
    _check_arguments(made)
    _check_formulas(made)
    return made


def _configs(kernel: Kernel, source: Source | None, table: Any, wrong: Any) -> tuple[Config, ...]:
    parameters = {a.arg for a in source.function.args.args} if source is not None else None
    out = []
    for number, row in enumerate(table):
        options = {name: value for name, value in row.items() if name in OPTIONS} if parameters else {}
        for name, value in options.items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise wrong(f"{name} is a number from 1, not {value!r}", "configs", number)
        values = {name: value for name, value in row.items() if name not in options}
        for variant in kernel.variants or ({},):
            constants = {name: _value(v, wrong) for name, v in {**kernel.constexprs, **variant}.items()}
            constants |= {n: v for n, v in values.items() if parameters is None or n in parameters}
            words = [f"{n} {_word(v)}" for n, v in {**variant, **values, **options}.items()]
            out.append(Config({**values, **options}, constants, options, ", ".join(words)))
    return tuple(out)


def _value(value: Any, wrong: Any) -> Any:
    """A compile-time value; ``tl.float32`` is the type."""
    if isinstance(value, str) and re.fullmatch(r"(tl|gl)\.[a-z]\w*", value):
        return Outside(f"{LANGUAGES[value.startswith('gl.')]}.{value[3:]}")
    return value


def _word(value: Any) -> str:
    if isinstance(value, Outside):
        return value.name.rpartition(".")[2]
    return "true" if value is True else "false" if value is False else "null" if value is None else str(value)


def _check_arguments(made: Declared) -> None:
    kernel = made.kernel
    for name, kind in kernel.signature.items():
        if made.source is not None and not _TYPE.fullmatch(kind):
            raise made.error(f"{kind!r} is no type of an argument", "signature", name)
    for field, names in (("divisible", kernel.divisible), ("unaligned", kernel.unaligned)):
        for number, name in enumerate(names):
            if name not in kernel.signature:
                raise made.error(f"{name} stands in no signature", field, number)
    if made.source is None:
        if not kernel.threads:
            raise made.error("`threads` is missing: how many a block of this CUDA kernel has")
        return
    parameters = [a.arg for a in made.source.function.args.args]
    given = set(kernel.signature) | set(kernel.constexprs) | {n for v in kernel.variants for n in v}
    for name in sorted(given - set(parameters)):
        raise made.error(f"{kernel.function} has no parameter {name}")
    for config in made.configs:
        missing = [n for n in parameters if n not in kernel.signature and n not in config.constants]
        if missing:
            raise made.error(f"nothing is declared for {', '.join(missing)} of {kernel.function}")


def _check_formulas(made: Declared) -> None:
    """Formulas parse, and use every value of a configuration that is no parameter."""
    launch = made.kernel.launch
    used: set[str] = set()
    for formula in (
        *launch.grid,
        launch.tiles,
        launch.step,
        *launch.let.values(),
        made.kernel.threads,
        made.kernel.shared,
    ):
        try:
            used |= names_of(formula)
        except WrongFormula as error:
            raise made.error(str(error), "launch") from None
    sizes = {name for shape in launch.shapes for name in shape}
    for config in made.configs:
        for name in config.values:
            if name in config.constants or name in config.options or name in used or name in sizes:
                continue
            raise made.error(
                f"{name} in the configuration {config.text!r} is no parameter of {made.kernel.function}, "
                "and no formula uses it",
                "configs",
            )
