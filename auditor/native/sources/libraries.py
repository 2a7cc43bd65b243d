"""The native sources of a tree: its CMake builds, run for each machine, with their libraries and files."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from auditor.gates.model import Problem
from auditor.native.cmake.build import TOP, Build, Target
from auditor.native.cmake.eval import Evaluator
from auditor.native.cmake.flags import built_by_flags, built_by_property, expressions, unique
from auditor.native.cmake.values import Item, merged
from auditor.native.model import Built, Library
from auditor.native.sources.text import Number, without_comments
from auditor.profile import Native, NativeBuild
from auditor.trees.base import SourceTree

#: Files above this size are generated tables.
MAX_FILE = 2_000_000
#: Ends of names of files that are C++ or CUDA.
SUFFIXES = (".cu", ".cuh", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".inl")
CUDA = (".cu", ".cuh")


@dataclass
class Part:
    """One library with what its files are compiled with, on one machine."""

    library: Library  # as on this machine alone
    sources: tuple[str, ...]  # those in the tree
    outside: tuple[str, ...]  # the others, as written
    macros: dict[str, str | Number]
    folder: str


@dataclass
class NativeSource:
    """One build of a tree. ``parts``: machine -> library name -> part."""

    spec: NativeBuild
    path: str  # of CMakeLists.txt
    libraries: tuple[Library, ...]
    parts: dict[str, dict[str, Part]]
    files: Files
    problems: list[Problem] = field(default_factory=list)
    outside: dict[str, tuple[str, int]] = field(default_factory=dict)  # trees fetched at build time -> place


class Files:
    """Text of files of a tree, read once. Reading many at a time is one call to git."""

    def __init__(self, tree: SourceTree) -> None:
        self.tree = tree
        self.paths = tree.blobs()
        self._raw: dict[str, str | None] = {}
        self._bare: dict[str, str] = {}
        self.direct: dict[
            tuple[str, str], list[str]
        ] = {}  # headers that a file names, by folder of the build
        self.left_out: list[Problem] = []

    def load(self, paths: Iterable[str]) -> None:
        """Read these files, in one go."""
        wanted = [path for path in dict.fromkeys(paths) if path in self.paths and path not in self._raw]
        if not wanted:
            return
        for path, data in self.tree.read_many(wanted):
            if len(data) > MAX_FILE:
                self.left_out.append(
                    Problem(path, 1, f"not read: {len(data):,} bytes, more than {MAX_FILE:,}")
                )
                self._raw[path] = None
            else:
                self._raw[path] = data.decode("utf-8", "replace").replace("\r\n", "\n")

    def raw(self, path: str) -> str | None:
        """The text of a file, None where there is none."""
        if path not in self._raw:
            self.load([path])
        return self._raw.get(path)

    def any_has(self, words: Iterable[str], paths: Iterable[str]) -> bool:
        """Whether one of the words stands in one of these files."""
        texts = [text for text in map(self.raw, paths) if text]
        return any(word in text for text in texts for word in words)

    def bare(self, path: str) -> str:
        """The text without comments; "" where there is none."""
        if path not in self._bare:
            self._bare[path] = without_comments(self.raw(path) or "")
        return self._bare[path]


def native_sources(
    tree: SourceTree, native: Native, machines: Iterable[str], cuda: str, given: dict[str, str]
) -> list[NativeSource]:
    """The builds of the profile that this tree has, each run for every machine."""
    files = Files(tree)
    out = []
    for spec in native.builds:
        path = posixpath.join(spec.folder, "CMakeLists.txt")
        if path in files.paths:
            out.append(_source(files, spec, path, tuple(dict.fromkeys(machines)), cuda, given))
    return out


def cuda_variables(cuda: str, machine: str) -> dict[str, str]:
    """What find_package and the compiler check of CMake set for a CUDA version.

    FindCUDA, which PyTorch's package runs, sets CUDA_VERSION to major and minor only; the others have a
    third part that an assumption leaves open.
    """
    major, _, minor = cuda.partition(".")
    whole = f"{cuda}.*"
    return {
        "CUDA_VERSION": cuda,
        "CUDA_VERSION_MAJOR": major,
        "CUDA_VERSION_MINOR": minor or "0",
        "CUDA_VERSION_STRING": cuda,
        "CUDAToolkit_VERSION": whole,
        "CUDAToolkit_VERSION_MAJOR": major,
        "CUDAToolkit_VERSION_MINOR": minor or "0",
        "CMAKE_CUDA_COMPILER_VERSION": whole,
        "CMAKE_SYSTEM_PROCESSOR": machine,
        "CMAKE_HOST_SYSTEM_PROCESSOR": machine,
    }


def toolkit_macros(cuda: str) -> dict[str, str]:
    """What the headers of a CUDA version and its compiler define."""
    major, _, minor = cuda.partition(".")
    number = str(int(major) * 1000 + int(minor or 0) * 10)
    return {
        "CUDA_VERSION": number,
        "CUDART_VERSION": number,
        "__CUDACC_VER_MAJOR__": major,
        "__CUDACC_VER_MINOR__": minor or "0",
    }


def _source(
    files: Files, spec: NativeBuild, path: str, machines: tuple[str, ...], cuda: str, given: dict[str, str]
) -> NativeSource:
    problems: list[Problem] = []
    parts: dict[str, dict[str, Part]] = {}
    outside: dict[str, tuple[str, int]] = {}
    folders = _by_folder(files.paths, spec.folder)
    files.load(
        name for name in folders if name.endswith((".cmake", "CMakeLists.txt")) and "/csrc/" not in name
    )
    for machine in machines:
        variables = {**cuda_variables(cuda, machine), **given}
        run = Evaluator(files.raw, folders, variables, spec.folder)
        build = run.run(path)
        problems += [found for found in build.problems if found not in problems]
        outside.update(build.outside)
        parts[machine] = {
            target.name: _part(run, build, target, machine, cuda) for target in build.targets.values()
        }
    libraries = _merged(parts, machines)
    return NativeSource(spec, path, libraries, parts, files, problems, outside)


def _by_folder(paths: Iterable[str], folder: str) -> dict[str, None]:
    prefix = f"{folder}/"
    return {path: None for path in paths if path.startswith(prefix)}


def _part(run: Evaluator, build: Build, target: Target, machine: str, cuda: str) -> Part:
    inside: dict[str, None] = {}
    outside: dict[str, None] = {}
    for item in target.sources:
        if item.when == "false":
            continue
        path = _in_tree(item.text, target.folder)
        if path is not None and not item.open:
            inside[path] = None
        else:
            outside[item.text] = None
    flags = (*build.flags, *target.options)
    built = built_by_flags(tuple(flags))
    architectures = target.properties.get("CUDA_ARCHITECTURES")
    if architectures is not None:
        built = unique([*built, *built_by_property(architectures)])
    elif "Torch" not in build.packages and any(path.endswith(CUDA) for path in inside):
        # PyTorch's package switches CMake's own choice off; without it the compiler's default is added.
        why = "CUDA_ARCHITECTURES is not set: the compiler's default is added"
        built.append(Built("ptx", "", "unknown", (why,), target.line, target.path))
    names = target.properties.get("OUTPUT_NAME", ())
    name = names[-1].text if names and not names[-1].open else target.name
    output = posixpath.join(target.destination, name) if target.destination else name
    library = Library(
        target.name,
        output,
        target.path,
        target.line,
        tuple(sorted([*inside, *(text.replace(TOP, "") for text in outside)])),
        tuple(_with_path(one, target) for one in built),
        target.when,
        target.because,
    )
    return Part(library, tuple(inside), tuple(outside), _macros(flags, target, machine, cuda), target.folder)


def _with_path(built: Built, target: Target) -> Built:
    return built if built.path else msgspec.structs.replace(built, path=target.path)


def _in_tree(text: str, folder: str) -> str | None:
    if "${" in text or "$<" in text:
        return None
    if text.startswith(TOP):
        text = text[len(TOP) :]
    elif text.startswith("/"):
        return None
    else:
        text = posixpath.join(folder, text)
    path = posixpath.normpath(text)
    return None if path.startswith("../") else path


def _macros(flags: tuple[Item, ...], target: Target, machine: str, cuda: str) -> dict[str, str | Number]:
    """Macros of the command line, and those of the compilers that the audited build uses."""
    out: dict[str, str | Number] = {
        **toolkit_macros(cuda),
        "__cplusplus": "201703",
        "__GNUC__": "11",
        "__linux__": "1",
        "__x86_64__" if machine == "x86_64" else f"__{machine}__": "1",
    }
    for item in expressions(tuple(flags), "CUDA"):
        for match in re.finditer(r"(?:^|\s)-D\s*([A-Za-z_]\w*)(?:=(\S*))?", item.text):
            _define(out, match[1], match[2], item)
    for item in expressions(tuple(target.definitions), "CUDA"):
        name, equals, value = item.text.removeprefix("-D").partition("=")
        if re.fullmatch(r"[A-Za-z_]\w*", name):
            _define(out, name, value if equals else None, item)
    return out


def _define(out: dict[str, str | Number], name: str, value: str | None, item: Item) -> None:
    if item.when == "unknown":
        out[name] = Number(None, merged((f"-D{name}",), item.because))
    elif item.when == "true":
        out[name] = "1" if value is None else value


def _merged(parts: dict[str, dict[str, Part]], machines: tuple[str, ...]) -> tuple[Library, ...]:
    """One record per library over the machines; what only some of them build says so."""
    out: list[Library] = []
    for name in dict.fromkeys(name for of in parts.values() for name in of):
        records = [(machine, parts[machine][name].library) for machine in machines if name in parts[machine]]
        built: dict[tuple[str, ...], tuple[Built, list[str]]] = {}
        for machine, record in records:
            for one in record.built:
                key = (one.what, one.arch, one.when, one.path, str(one.line), *one.because)
                built.setdefault(key, (one, []))[1].append(machine)
        pieces = [
            one if len(where) == len(machines) else msgspec.structs.replace(one, machines=tuple(where))
            for one, where in built.values()
        ]
        first = records[0][1]
        sources = tuple(sorted({source for _machine, record in records for source in record.sources}))
        out.append(msgspec.structs.replace(first, built=tuple(pieces), sources=sources))
    return tuple(sorted(out, key=lambda library: (library.output, library.name)))
