"""Kernels that are compiled at run time: for which architecture on each target, and whether that is all there
is to know.

A cell ``runs`` says that the build is reached, for which architecture it compiles, and that nothing in its
sources is left out there, refused, or beyond what the target has. ``raises``: the function that builds it
refuses the target, or its sources do. Everything else is unknown, with the place it hangs on.
"""

from __future__ import annotations

import posixpath
import re
from functools import partial
from typing import Any

from auditor.arch import Target, load_targets
from auditor.gates.model import Problem
from auditor.gates.reading import for_all_targets
from auditor.native.jit.run import Build, JitProgram, text_of
from auditor.native.jit.sources import REFUSED, JitSources
from auditor.native.model import Cell, Row, Step
from auditor.native.sources.libraries import Files
from auditor.profile import JitLoader, Profile
from auditor.program.values import Seq, Unknown, V, reasons_of

_DEFINE = re.compile(r"-D([A-Za-z_]\w*)(?:=(.*))?\Z")


def jit_rows(
    program_files: dict[str, bytes],
    root: str,
    files: Files,
    profile: Profile,
    targets: dict[str, Target],
    cuda: str = "13.0",
    assumptions: dict[str, str] | None = None,
) -> tuple[tuple[Row, ...], tuple[Problem, ...]]:
    """A row per build of a kernel at run time, and what could not be read.

    ``program_files`` are the Python files of the package below ``root``, ``files`` those of the whole tree.
    """
    rows: list[Row] = []
    problems: list[Problem] = []
    for loader in profile.jit_loaders:
        given = {"cuda": cuda, **(assumptions or {})}
        program = for_all_targets(partial(JitProgram, loader), program_files, root, profile, given)
        program.build_all()
        problems += [
            Problem(path, line, f"{name} builds a kernel and could not be followed")
            for path, line, name in program.left_out
        ]
        if program.builds:
            reader = _Reader(loader, program, root, files, profile, targets, cuda)
            rows += reader.rows()
            problems += reader.problems
    return tuple(sorted(rows, key=lambda r: (r.name, r.path, r.line))), tuple(problems)


class _Reader:
    def __init__(
        self,
        loader: JitLoader,
        program: JitProgram,
        root: str,
        files: Files,
        profile: Profile,
        targets: dict[str, Target],
        cuda: str,
    ) -> None:
        self.loader = loader
        self.program = program
        self.files = files
        self.profile = profile
        self.targets = targets
        self.index = {name: i for i, name in enumerate(load_targets())}
        self.folder = posixpath.join(root, loader.folder)
        self.problems: list[Problem] = []
        self.flags = program.ask(loader.flags) if loader.flags else V(Seq("list", ()))
        macros = {name: self._macros(self.index[name]) for name in targets}
        self.sources = JitSources(files, self.folder, profile.native, targets, cuda, macros)
        module = program.module(loader.arch.rpartition(".")[0])
        assert module is not None  # the builds were found through it
        self.frame = program.module_frame(module)
        inside = f"{self.folder}/"
        files.load(p for p in files.paths if p.startswith(inside) and not p.endswith(".py"))

    def rows(self) -> list[Row]:
        by_place: dict[tuple[str, int, int], list[Build]] = {}
        for build in self.program.builds:
            by_place.setdefault((build.path, build.line, build.column), []).append(build)
        return [self._row(builds) for _place, builds in sorted(by_place.items())]

    def _row(self, builds: list[Build]) -> Row:
        build = builds[0]
        may = 0
        for each in builds:
            may |= each.may
        marker = build.args[0].one if build.args and build.args[0].each is None else None
        name = marker if isinstance(marker, str) else f"{build.module}.{build.symbol}"
        arch = {t: self._arch(build, i) for t, i in self.index.items() if t in self.targets}
        sources, why = self._files(build)
        shown = {t: a if isinstance(a, str) else "" for t, a in arch.items()}
        facts = self.sources.facts(sources, shown) if sources and why is None else None
        cells = {}
        for target in self.targets:
            start = Step("built here", build.path, build.line)
            compiled = arch[target]
            if not may >> self.index[target] & 1:
                cells[target] = self._refused(build, target, start)
            elif not isinstance(compiled, str):
                because = ", ".join(sorted(reasons_of(compiled))) or "it is not followed"
                cells[target] = Cell(
                    "unknown", f"the architecture it is compiled for is open: {because}", (start,)
                )
            else:
                proof = [start, *(Step(f"compiled for {compiled}", path, 1) for path in sources)]
                if facts is None:
                    cells[target] = Cell("unknown", f"compiled for {compiled}; {why}", tuple(proof))
                    continue
                open_ = facts.open[target]
                refused = next((s for s in open_ if s.text == REFUSED), None)
                if refused is not None:
                    place = f"{posixpath.basename(refused.path)}:{refused.line}"
                    reason = f"compiled for {compiled}; {place} {REFUSED}"
                    cells[target] = Cell("raises", reason, (*proof, refused))
                elif open_:
                    first = open_[0]
                    more = f" and {len(open_) - 1} more" if len(open_) > 1 else ""
                    place = f"{posixpath.basename(first.path)}:{first.line}"
                    reason = f"compiled for {compiled}; {place} {first.text}{more}"
                    cells[target] = Cell("unknown", reason, (*proof, *open_[:8]))
                else:
                    count = len(facts.files)
                    reason = f"compiled for {compiled}; no part of its {count} files is left out or refused"
                    cells[target] = Cell("runs", reason, tuple(proof))
        exports = self._exports(build)
        return Row(
            name=f"jit::{name}",
            kind="jit",
            path=build.path,
            line=build.line,
            cells=cells,
            schema=", ".join(exports),
            function=f"{build.module}.{build.symbol}",
            area=self.profile.area(build.path),
        )

    def _refused(self, build: Build, target: str, start: Step) -> Cell:
        bit = 1 << self.index[target]
        for raised in self.program.raised:
            if raised.may & bit and raised.path == build.path:
                step = Step(f"raises {raised.what}", raised.path, raised.line)
                return Cell("raises", f"{raised.symbol} refuses it with {raised.what}", (start, step))
        return Cell("unknown", "the build is not reached, why is not known", (start,))

    def _arch(self, build: Build, i: int) -> Any:
        value = self.program.attribute(V(build.arch.at(i)), self.loader.name, self.frame)
        return value.at(i)

    def _files(self, build: Build) -> tuple[tuple[str, ...], str | None]:
        """The source files, and why they are not all known."""
        out: list[str] = []
        given = False
        for keyword in self.loader.files:
            value = build.kwargs.get(keyword)
            if value is None or (value.each is None and value.one is None):
                continue
            given = True
            scalar = value.one
            if value.each is not None or not isinstance(scalar, Seq):
                return tuple(out), f"its {keyword} are not known"
            for item in map(text_of, scalar.items):
                if not isinstance(item, str):
                    because = ", ".join(sorted(reasons_of(item))) if isinstance(item, Unknown) else ""
                    return tuple(out), f"its {keyword} are not known{': ' + because if because else ''}"
                path = posixpath.normpath(posixpath.join(self.folder, self.loader.sources, item)).lstrip("/")
                if path not in self.files.paths:
                    return tuple(out), f"{item} is not in the tree"
                out.append(path)
        return tuple(out), None if given and out else "it names no sources"

    def _macros(self, i: int) -> dict[str, str]:
        flags = self.flags.at(i)
        out = {}
        for item in flags.items if isinstance(flags, Seq) else ():
            match = _DEFINE.match(item) if isinstance(item, str) else None
            if match is not None:
                out[match[1]] = match[2] if match[2] is not None else "1"
        return out

    def _exports(self, build: Build) -> list[str]:
        """The names that Python calls."""
        out = []
        for keyword in self.loader.exports:
            value = build.kwargs.get(keyword)
            scalar = value.one if value is not None else None
            for item in scalar.items if isinstance(scalar, Seq) else ():
                if isinstance(item, Seq) and item.items and isinstance(item.items[0], str):
                    out.append(item.items[0])
        return out
