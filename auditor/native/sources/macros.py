"""What the macros of a compilation are: command line, compiler, headers outside, and headers of the tree."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from fnmatch import fnmatchcase

from auditor.arch import CompiledFor
from auditor.native.cmake.values import compare_versions
from auditor.native.sources.libraries import CUDA, Files, Part
from auditor.native.sources.text import Number
from auditor.profile import Native

#: Macros of other compilers and systems: not defined in the build that is audited.
_ABSENT = re.compile(
    r"(?:_MSC_VER|_WIN32|_WIN64|WIN32|__APPLE__|__clang__|__HIP\w*|__MUSA\w*|__CUDA_ARCH\w*|__MINGW\w*|__ICC"
    r"|__INTEL\w*|__NVCOMPILER|__CUDACC_RTC__|NDEBUG|__aarch64__|__x86_64__|__ARM\w*|__SYCL\w*)\Z"
)
#: A directive, with the name of the header.
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">]', re.MULTILINE)


def device_macros(code: CompiledFor, cuda: str) -> dict[str, str]:
    """What nvcc defines in code for the device (CUDA Programming Guide, "Compute Capabilities").

    The macros with SPECIFIC came with 12.9; ``__CUDA_ARCH_FEAT_SM90_ALL`` and the like are older.
    """
    number = code.capability[0] * 100 + code.capability[1] * 10
    out = {"__CUDA_ARCH__": str(number)}
    order = compare_versions(cuda, "12.9")
    recent = order is None or order >= 0
    if code.suffix == "a":
        out[f"__CUDA_ARCH_FEAT_SM{number // 10}_ALL"] = "1"
        if recent:
            out["__CUDA_ARCH_SPECIFIC__"] = str(number)
    if code.suffix and recent:
        out["__CUDA_ARCH_FAMILY_SPECIFIC__"] = str(number)
    return out


def header_of(files: Files, folder: str, path: str, name: str) -> str | None:
    """The file of the tree that ``path`` includes as ``name``: beside it, else where the build in ``folder``
    keeps headers."""
    for place in (posixpath.dirname(path), folder, f"{folder}/include", f"{folder}/csrc"):
        found = posixpath.normpath(posixpath.join(place, name))
        if found in files.paths:
            return found
    return None


class Macros:
    """The macros of one library. ``arch``: what is compiled for, in code for the device; None on the host."""

    def __init__(
        self, files: Files, part: Part, native: Native, cuda: str, arch: CompiledFor | None = None
    ) -> None:
        self.files = files
        self.part = part
        self.native = native
        self.cuda = cuda
        self.arch = arch
        self._own: dict[str, dict[str, list[tuple[str, str, int]]]] = {}

    def lookup(self, path: str) -> Callable[[str], str | Number | None]:
        """The macros as a file sees them before its own first line."""

        def find(name: str) -> str | Number | None:
            return self._find(name, path)

        return find

    def _find(self, name: str, path: str) -> str | Number | None:
        if name in self.part.macros:
            return self.part.macros[name]
        if name.startswith("__CUDA_ARCH_"):
            return None if self.arch is None else device_macros(self.arch, self.cuda).get(name)
        if name in ("__CUDACC__", "__NVCC__"):
            return "1" if path.endswith(CUDA) else None
        known = self.native.macros.get(name)
        if known is not None:
            order = compare_versions(self.cuda, known.cuda)
            return "1" if order is not None and order >= 0 else None
        if _ABSENT.match(name):
            return None
        defined = self._defined(path).get(name)
        if defined:
            bodies = {body for body, _where, _line in defined}
            if len(defined) == 1 and len(bodies) == 1 and re.fullmatch(r"\d+", next(iter(bodies))):
                return next(iter(bodies))
            where = ", ".join(f"{place}:{line}" for _body, place, line in defined[:2])
            return Number(None, (f"{name} is defined in {where}",))
        if any(fnmatchcase(name, pattern) for pattern in self.native.outside) or name.startswith("__"):
            return Number(None, (f"{name} comes from a header outside the tree",))
        return None

    def _defined(self, path: str) -> dict[str, list[tuple[str, str, int]]]:
        """Macros that headers of the tree define which this file includes, include guards left out."""
        found = self._own.get(path)
        if found is None:
            found = self._own[path] = {}
            for header in self.included(path):
                raw = self.files.raw(header) or ""
                for match in re.finditer(
                    r"^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)[ \t]*(.*)$", raw, re.MULTILINE
                ):
                    guard = rf"#[ \t]*ifndef[ \t]+{match[1]}\s*\n\s*#[ \t]*define[ \t]+{match[1]}\b"
                    if match[2] or not re.search(guard, raw):
                        line = raw.count("\n", 0, match.start()) + 1
                        found.setdefault(match[1], []).append((match[2].strip(), header, line))
        return found

    def preload(self) -> None:
        """Read the sources and all headers of the tree behind them, level by level: few calls to git."""
        level = list(self.part.sources)
        seen = set(level)
        while level:
            self.files.load(level)
            found = {header for path in level for header in self._direct(path)}
            level = sorted(found - seen)
            seen |= found

    def _direct(self, path: str) -> list[str]:
        """The headers of the tree that a file names itself."""
        known = self.files.direct.get((self.part.folder, path))
        if known is None:
            raw = self.files.raw(path) or ""
            named = (
                header_of(self.files, self.part.folder, path, match[1]) for match in INCLUDE.finditer(raw)
            )
            known = [header for header in named if header is not None]
            self.files.direct[self.part.folder, path] = known
        return known

    def included(self, path: str) -> list[str]:
        """Headers of the tree that a file includes, through others too, nearest first."""
        out: dict[str, None] = {}
        waiting = [path]
        while waiting and len(out) < 400:
            now = waiting.pop(0)
            for header in self._direct(now):
                if header not in out and header != path:
                    out[header] = None
                    waiting.append(header)
        return list(out)
