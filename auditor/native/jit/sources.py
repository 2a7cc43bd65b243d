"""What the CUDA sources of a just-in-time kernel say about the GPU they are compiled for.

Nothing is compiled. The question is only whether anything in the sources depends on the GPU: parts that are
left out below some architecture, instructions that a target does not have, headers that are not in the tree,
shared memory that is asked for at launch, questions to the device.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import msgspec

from auditor.arch import CompiledFor, Target
from auditor.native.cxx.index import source_of
from auditor.native.model import Library, Step
from auditor.native.sources.libraries import Files, Part, toolkit_macros
from auditor.native.sources.macros import INCLUDE, Macros, header_of
from auditor.native.sources.text import Lookup, Number, Prepared, prepare
from auditor.profile import Native

replace = msgspec.structs.replace

#: PTX as it stands in inline assembly -> the feature of the target that it needs (``arch/targets.json``).
INSTRUCTIONS: tuple[tuple[str, str, re.Pattern[str]], ...] = (
    ("wgmma", "wgmma.", re.compile(r"\bwgmma\.")),
    ("tcgen05", "tcgen05.", re.compile(r"\btcgen05\.")),
    ("cta_group_2", "cta_group::2", re.compile(r"\bcta_group::2\b")),
    ("tma", "async.bulk", re.compile(r"\bcp\.(?:reduce\.)?async\.bulk\b")),
    ("setmaxnreg", "setmaxnreg", re.compile(r"\bsetmaxnreg\b")),
    ("clc", "clusterlaunchcontrol", re.compile(r"\bclusterlaunchcontrol\b")),
    ("cluster", "cluster", re.compile(r"\bbarrier\.cluster\b|\bmapa\.[\w:]*shared::cluster")),
    ("stmatrix", "stmatrix", re.compile(r"\bstmatrix\b")),
    ("pdl", "griddepcontrol", re.compile(r"\bgriddepcontrol\b")),
    ("mma_f8f6f4", "kind::f8f6f4", re.compile(r"\bmma\.sync[\w.:]*kind::f8f6f4")),
    ("mma_mxf8f6f4", "kind::mxf8f6f4", re.compile(r"\bmma\.sync[\w.:]*kind::mxf8f6f4")),
    ("mma_mxf4nvf4", "kind::mxf4nvf4", re.compile(r"\bmma\.sync[\w.:]*kind::mxf4nvf4")),
    ("mma_mxf4", "kind::mxf4", re.compile(r"\bmma\.sync[\w.:]*kind::mxf4\b")),
    ("cvt_fp4", "cvt.", re.compile(r"\bcvt\.[\w.]*(?:e2m1x2|e2m3x2|e3m2x2)")),
    ("cvt_fp8", "cvt.", re.compile(r"\bcvt\.[\w.]*(?:e4m3x2|e5m2x2)")),
    ("fp8_mma", "mma.sync", re.compile(r"\bmma\.sync[\w.]*\.(?:e4m3|e5m2)\b")),
)
#: Headers of the language and of the CUDA toolkit and the interface to Python: they run wherever CUDA does.
_PLAIN = re.compile(
    r"(?:[a-z_]+|[a-z_]+\.h|c[a-z]+|cuda\w*\.h(?:pp)?|cuda/[\w./]+|cub/[\w./]+|thrust/[\w./]+|nv/[\w./]+"
    r"|cooperative_groups[\w./]*|mma\.h|vector_types\.h|nvtx3/[\w./]+|tvm/[\w./]+|dlpack/[\w./]+|nccl\.h)\Z"
)
_DEVICE = re.compile(
    r"\bcudaDevAttrComputeCapability\w*|\bcudaGetDeviceProperties\w*|\bcudaDeviceProp\b|\bcuDeviceComputeCapability\b"
)
_SHARED = re.compile(r"\bcudaFuncAttributeMaxDynamicSharedMemorySize\b")
_PLAIN_ONLY = ", which plain code cannot hold"
_REFUSE = re.compile(r"\bstatic_assert\s*\(\s*(?:false|0)\s*[,)]")
_ERROR = re.compile(r"^[ \t]*#[ \t]*error\b[^\n]*", re.MULTILINE)
_RETURNS = re.compile(r"\breturn\s+[^;\s]")
#: Headers that include headers are followed this far.
MAX_DEPTH = 60
REFUSED = "refuses to be compiled"


@dataclass
class SourceFacts:
    """Reasons, per target, why what happens there is not known; none where nothing depends on the GPU."""

    open: dict[str, list[Step]]
    files: tuple[str, ...]


@dataclass
class _Unit:
    """One file under the macros of every target, with what it and its headers define."""

    path: str
    includes: tuple[str, ...]  # in the tree
    defines: dict[str, dict[str, str | Number]]  # target -> name -> text
    steps: dict[str, list[Step]] = field(default_factory=dict)


class _Known(Macros):
    """Macros of a file whose headers have been read already.

    A file is read once per target, whatever suffix the builds that include it are compiled with.
    """

    def _find(self, name: str, path: str) -> str | Number | None:
        if name.startswith("__CUDA_ARCH_") and name != "__CUDA_ARCH__":
            return Number(None, (f"{name} depends on the suffix that is compiled for",))
        return super()._find(name, path)

    def _defined(self, path: str) -> dict[str, list[tuple[str, str, int]]]:
        return {}


class JitSources:
    """The sources below one folder of a tree, read for all targets.

    ``macros`` are the definitions of the command line and ``arch`` the compiler's target, per GPU target.
    """

    def __init__(
        self,
        files: Files,
        folder: str,
        native: Native,
        targets: dict[str, Target],
        cuda: str,
        macros: dict[str, dict[str, str]],
    ) -> None:
        self.files = files
        self.folder = folder
        self.native = native
        self.targets = targets
        self.cuda = cuda
        self.macros = macros
        self._units: dict[str, _Unit] = {}
        self._askers: set[str] | None = None
        self._asking: set[str] = set()
        self._depth = 0

    def facts(self, sources: tuple[str, ...], arch: dict[str, str]) -> SourceFacts:
        """What these files and the headers of the tree that they include leave open on each target.

        ``arch`` is what the compiler is told to compile for, per GPU target.
        """
        every: dict[str, None] = {}
        waiting = list(sources)
        while waiting:
            path = waiting.pop(0)
            if path not in every:
                every[path] = None
                waiting += self._unit(path).includes
        out: dict[str, list[Step]] = {}
        for name, target in self.targets.items():
            out[name] = []
            for path in every:
                unit = self._unit(path)
                out[name] += [s for s in unit.steps.get(name, ()) if self._counts(s, target, arch[name])]
        return SourceFacts(out, tuple(every))

    @staticmethod
    def _counts(step: Step, target: Target, arch: str) -> bool:
        """Instructions that only specific code may hold are no question where it is compiled as such."""
        return not step.text.endswith(_PLAIN_ONLY) or arch[-1:] not in ("a", "f")

    def _unit(self, path: str) -> _Unit:
        unit = self._units.get(path)
        if unit is None:
            unit = self._units[path] = _Unit(path, (), {name: {} for name in self.targets})
            self._read(unit)
        return unit

    def _read(self, unit: _Unit) -> None:
        path, bare = unit.path, self.files.bare(unit.path)
        found = [self._resolved(path, m[1]) for m in INCLUDE.finditer(bare)]
        unit.includes = tuple(dict.fromkeys(p for p in found if p is not None and p != path))
        if self._depth >= MAX_DEPTH:
            unit.includes = ()
            unit.steps = {name: [Step("headers are nested too deep", path, 1)] for name in self.targets}
            return
        self._depth += 1
        text = _keep_includes(bare)
        compiler = {"__CUDACC__": "1", "__NVCC__": "1", **toolkit_macros(self.cuda)}
        given: dict[str, dict[str, str | Number]] = {}
        for name in self.targets:
            given[name] = {**compiler, **self.macros[name]}
            for header in unit.includes:
                given[name].update(self._unit(header).defines[name])
        active: dict[str, Prepared] = {}
        asked: set[str] = set()
        done: list[tuple[str, Prepared]] = []
        for name, target in self.targets.items():
            known = _Known(
                self.files,
                Part(Library("jit", "", path), (path,), (), given[name], self.folder),
                self.native,
                self.cuda,
                CompiledFor(target.capability),
            )
            look = known.lookup(path)
            same = next((p for other, p in done if self._agree(asked, given, name, other)), None)
            if same is None:
                same = prepare(text, _noting(look, asked))
                done.append((name, same))
            active[name] = same
            unit.defines[name] = {**given[name], **{k: _body(k, v) for k, v in same.defines.items()}}
        self._judge(unit, active)
        self._depth -= 1

    def _agree(self, asked: set[str], given: dict[str, dict[str, str | Number]], a: str, b: str) -> bool:
        """Whether all macros that a file has asked for are the same on two targets."""
        return not any(n.startswith("__CUDA_ARCH") for n in asked) and all(
            given[a].get(n) == given[b].get(n) for n in asked
        )

    def _judge(self, unit: _Unit, active: dict[str, Prepared]) -> None:
        path = unit.path
        told: dict[int, tuple[list[tuple[str, Step]], list[Step]]] = {}
        for name, target in self.targets.items():
            prepared = active[name]
            if id(prepared) not in told:
                told[id(prepared)] = self._scan(prepared, path)
            features, always = told[id(prepared)]
            unit.steps[name] = list(always)
            for feature, step in features:
                fact = target.features.get(feature)
                if fact is None:
                    continue
                if not fact.value:
                    unit.steps[name].append(replace(step, text=f"{step.text}, which {target.name} lacks"))
                elif fact.suffix:
                    unit.steps[name].append(replace(step, text=f"{step.text}{_PLAIN_ONLY}"))
        if len({id(p) for p in active.values()}) > 1:
            lines = {name: prepared.text.split("\n") for name, prepared in active.items()}
            bodies: dict[int, list[tuple[int, int, bool]]] = {}
            for name, line in _short(lines):
                prepared = active[name]
                if id(prepared) not in bodies:
                    bodies[id(prepared)] = _bodies(path, prepared.text)
                inside = [b for b in bodies[id(prepared)] if b[0] <= line <= b[1]]
                if not any(returns for _first, _last, returns in inside):
                    unit.steps[name].append(Step("leaves out code that other GPUs get", path, line))

    def _scan(self, prepared: Prepared, path: str) -> tuple[list[tuple[str, Step]], list[Step]]:
        """Instructions that need a feature, and what is open on every target."""
        text = prepared.text
        always = [
            Step(f"a condition is not decided: {u.text}", path, u.line)
            for u in prepared.unsure
            if re.search(r"ARCH|SM\d|CAPABILITY", u.text, re.IGNORECASE)
        ]
        for match in re.finditer(r'__include__\("([^"]+)"\)', text):
            if self._resolved(path, match[1]) is None and not _PLAIN.match(match[1]):
                at = _line(text, match.start())
                always.append(Step(f"uses {match[1]}, which is not in the tree", path, at))
                break
        if "__refused__;" in text and not prepared.unsure:
            always.append(Step(REFUSED, path, _line(text, text.index("__refused__;"))))
        for word, pattern, what in (
            ("static_assert", _REFUSE, "may refuse to be compiled"),
            (
                "MaxDynamicSharedMemorySize",
                _SHARED,
                "asks for shared memory at launch, how much is not known",
            ),
        ):
            found = pattern.search(text) if word in text else None
            if found is not None:
                always.append(Step(what, path, _line(text, found.start())))
        features = []
        for feature, word, pattern in INSTRUCTIONS:
            found = pattern.search(text) if word in text else None
            if found is not None:
                features.append((feature, Step(f"has {found[0]}", path, _line(text, found.start()))))
        asks = None
        if path not in self.askers():
            asks = _DEVICE.search(text) or next(
                (m for m in re.finditer(r"\b([A-Za-z_]\w*)\s*\(", text) if m[1] in self._asking), None
            )
        if asks is not None:
            always.append(Step("asks the device what it is", path, _line(text, asks.start())))
        return features, always

    def askers(self) -> set[str]:
        """Headers with functions that ask the device for its capability."""
        if self._askers is None:
            self._askers, self._asking = set(), set()
            headers = [p for p in self.files.paths if p.startswith(f"{self.folder}/include/")]
            self.files.load(headers)
            for path in headers:
                bare = self.files.bare(path)
                if not _DEVICE.search(bare):
                    continue
                source = source_of(path, bare, lambda name: None, bare=bare)
                for name, definitions in source.functions.items():
                    if any(_DEVICE.search(source.body(d)) for d in definitions):
                        self._askers.add(path)
                        self._asking.add(name)
        return self._askers

    def _resolved(self, path: str, name: str) -> str | None:
        return header_of(self.files, self.folder, path, name)


def _body(name: str, defined: tuple[tuple[str, int], ...]) -> str | Number:
    """What a file leaves a name defined to."""
    bodies = {body for body, _line in defined}
    return bodies.pop() if len(bodies) == 1 else Number(None, (f"{name} is defined in more than one way",))


def _noting(look: Lookup, asked: set[str]) -> Lookup:
    """The same macros; ``asked`` collects the names."""

    def find(name: str) -> str | Number | None:
        asked.add(name)
        return look(name)

    return find


def _keep_includes(text: str) -> str:
    """Includes and refusals as statements, so that they stay where their condition holds."""
    text = INCLUDE.sub(lambda m: f'__include__("{m[1]}")', text)
    return _ERROR.sub("__refused__;", text) if "error" in text else text


def _bodies(path: str, text: str) -> list[tuple[int, int, bool]]:
    """Functions by first and last line, and whether they return a value: what they do without a part is then
    another way to the same result, not nothing."""
    source = source_of(path, text, lambda name: None, bare=text)
    found = (d for each in source.functions.values() for d in each)
    return [(source.line(d.open), source.line(d.close), bool(_RETURNS.search(source.body(d)))) for d in found]


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _short(active: dict[str, list[str]]) -> list[tuple[str, int]]:
    """Targets for which a conditional part is empty that is not for others, with the line it starts at."""
    out = []
    lines = max((len(each) for each in active.values()), default=0)
    at = 0
    while at < lines:
        held = {name: each[at].strip() if at < len(each) else "" for name, each in active.items()}
        if len(set(held.values())) < 2:
            at += 1
            continue
        start, full = at, {name: False for name in active}
        while at < lines:
            held = {name: each[at].strip() if at < len(each) else "" for name, each in active.items()}
            texts = set(held.values())
            if len(texts) == 1 and texts != {""}:
                break
            for name, text in held.items():
                full[name] = full[name] or bool(text)
            at += 1
        out += [(name, start + 1) for name, some in full.items() if not some]
    return out
