"""The C++ and CUDA files of one library as a program: where names are defined, and what code reaches.

Files are read when a name leads to them. Facts about a function (whether it launches kernels, asks for the
capability, names an architecture tag) come from its text and from what its text names, boundedly.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from auditor.native.cxx.const import REQUEST, Amounts
from auditor.native.cxx.index import Definition, Source, source_of
from auditor.native.cxx.parse import closed_checks, parse_block
from auditor.native.cxx.parse import text as text_of
from auditor.native.sources.libraries import Files, Part
from auditor.native.sources.macros import Macros
from auditor.profile import Native

#: Functions that are followed from one operator.
MOST = 600
DEPTH = 14
_WORD = re.compile(r"[A-Za-z_]\w*")
_CALLED = re.compile(r"(?<![\w.:>])([A-Za-z_]\w*)[<(]")
_LAUNCH = re.compile(r"<<<|\b(?:cudaLaunch\w*Kernel\w*|cuLaunchKernel\w*|hipLaunchKernelGGL)\b")
#: How CUDA and PyTorch are asked which GPU this is.
ASKING = re.compile(
    r"ComputeCapabilityM(?:ajor|inor)|COMPUTE_CAPABILITY_M(?:AJOR|INOR)|cudaGetDeviceProperties|cuDeviceComputeCapability"
    r"|getCurrentDeviceProperties|getDeviceProperties|cudaDevAttrMaxSharedMemoryPerBlockOptin"
)
_ASKS = re.compile(
    r"\bmajor\b|\bminor\b|ComputeCapability|COMPUTE_CAPABILITY|PerBlockOptin|sharedMemPerBlockOptin"
)
#: Templates of CUTLASS that launch a kernel.
_ADAPTER = re.compile(r"\bGemmUniversalAdapter\b|\bgemm::device::\w+")
_DEVICE = re.compile(r"__global__")
#: Namespaces whose functions launch no kernels of the library, or are templates known by their tags.
_KNOWN = frozenset("std torch at c10 cute cutlass cuda cub thrust nvcuda __nv ATen".split())
_NOISE = frozenset(
    """if else for while do switch case default return const constexpr auto int float double bool char void
    long short unsigned signed static inline template typename class struct using namespace true false nullptr
    sizeof new delete this int64_t int32_t uint32_t uint64_t uint8_t int8_t size_t std torch at c10 cute
    cutlass cuda break continue decltype static_assert max min""".split()
)


class Facts(NamedTuple):
    """What code reaches. ``launches`` and ``tags``: each with the places that show it."""

    launches: frozenset[tuple[str, int]] = frozenset()
    tags: frozenset[tuple[str, str, int]] = frozenset()  # tag, path, line
    asks: bool = False  # some of it depends on the capability
    kernels: frozenset[Definition] = frozenset()  # __global__ functions
    open: frozenset[str] = frozenset()  # called by plain name, not defined in this tree
    outside: bool = False  # uses templates of libraries outside that launch kernels of their own
    unsure: frozenset[tuple[str, int, str]] = frozenset()  # undecided #if on the way: path, line, condition
    broken: frozenset[tuple[str, int]] = frozenset()  # files on the way whose braces do not match, with lines
    shared: frozenset[tuple[str, int]] = frozenset()  # requests for shared memory at launch

    def plus(self, other: Facts) -> Facts:
        """Both together."""
        if other is NOTHING:
            return self
        return Facts(
            self.launches | other.launches,
            self.tags | other.tags,
            self.asks or other.asks,
            self.kernels | other.kernels,
            self.open | other.open,
            self.outside or other.outside,
            self.unsure | other.unsure,
            self.broken | other.broken,
            self.shared | other.shared,
        )


NOTHING = Facts()


class CxxProgram:
    """The files of one library under its macros."""

    def __init__(
        self,
        files: Files,
        part: Part,
        native: Native,
        cuda: str,
        choices: dict[str, dict[int, bool]] | None = None,
    ) -> None:
        self.choices = choices or {}
        self.files = files
        self.part = part
        self.native = native
        self.macros = Macros(files, part, native, cuda)
        self._sources: dict[str, Source] = {}
        self._found: dict[tuple[str, str], tuple[Definition, ...]] = {}
        self._facts: dict[tuple[str, int], Facts] = {}
        self._names: dict[str, frozenset[str]] = {}
        self._declared: dict[str, frozenset[str]] = {}
        self.seen: dict[tuple[str, int, int, int, str], tuple[frozenset[str], Facts, bool]] = {}
        self._blocks: dict[tuple[str, int], Any] = {}
        self._asking: dict[tuple[str, str], bool] = {}
        self._outer: dict[tuple[str, str], tuple[str | None, bool]] = {}
        self._pieces: dict[str, Any] = {}
        self._open: dict[Definition, list[str]] = {}
        self._included: dict[str, list[str]] = {}
        self.amounts = Amounts(self)
        self.macros.preload()
        spaces = "|".join(re.escape(text) for text in native.tag_namespaces)
        # Tags of the same shape that the data do not list are found too: they are unknown, not nothing.
        tags = "|".join(sorted({re.escape(tag.rstrip("0123456789")) for tag in native.tags}))
        pattern = rf"\b(?:{spaces})::((?:{tags})\d+)\b" if spaces and tags else r"(?!)"
        self._tag = re.compile(pattern)

    def source(self, path: str) -> Source:
        """A file, read once."""
        source = self._sources.get(path)
        if source is None:
            lookup, bare = self.macros.lookup(path), self.files.bare(path)
            source = source_of(path, "", lookup, self.choices.get(path), bare)
            self._sources[path] = source
        return source

    def included(self, path: str) -> list[str]:
        """The headers of the tree behind a file."""
        found = self._included.get(path)
        if found is None:
            found = self._included[path] = self.macros.included(path)
        return found

    # names

    def names(self, path: str) -> frozenset[str]:
        """Everything that a file and its headers define: functions, types, aliases and macros."""
        known = self._names.get(path)
        if known is None:
            out: set[str] = set()
            for one in (path, *self.included(path)):
                source = self.source(one)
                out.update(source.functions, source.types, source.aliases, source.globals)
                out.update(source.prepared.defines)
            known = self._names[path] = frozenset(out - _NOISE)
        return known

    def functions(self, name: str, path: str) -> tuple[Definition, ...]:
        """The definitions that a plain name used in a file may mean, nearest first; () where it has none."""
        key = (name, path)
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._look(name, path)
        return found

    def _look(self, name: str, path: str) -> tuple[Definition, ...]:
        for one in (path, *self.included(path)):
            raw = self.files.raw(one)
            if raw is not None and name in raw:
                there = self.source(one).functions.get(name)
                if there:
                    return tuple(there)
        out: list[Definition] = []
        for one in self.part.sources:
            raw = self.files.raw(one)
            if one != path and raw is not None and name in raw:
                out += [d for d in self.source(one).functions.get(name, ()) if "static" not in d.head.split()]
        return tuple(out)

    def declared(self, path: str) -> frozenset[str]:
        """Functions that a file or its headers declare without a body."""
        known = self._declared.get(path)
        if known is None:
            sources = [self.source(one) for one in (path, *self.included(path))]
            known = frozenset(name for source in sources for name in source.declared) - _NOISE
            self._declared[path] = known
        return known

    def macro(self, name: str, path: str) -> tuple[str, tuple[str, ...] | None] | None:
        """The body and the parameters of a macro that a file sees; None without one, or with several."""
        found: dict[str, tuple[str, ...] | None] = {}
        for one in (path, *self.included(path)):
            prepared = self.source(one).prepared
            for body, _line in prepared.defines.get(name, ()):
                found[body] = prepared.params.get(name)
        return next(iter(found.items())) if len(found) == 1 else None

    def variable(self, name: str, path: str) -> str | None:
        """What a variable outside of functions is initialised with; None without one, or with several."""
        found = {
            text
            for one in (path, *self.included(path))
            for text, _at in self.source(one).globals.get(name, ())
        }
        return next(iter(found)) if len(found) == 1 else None

    def asking_macro(self, name: str, path: str) -> bool:
        """Whether a name of a file is a macro behind which the capability is asked for."""
        key = (name, path)
        known = self._asking.get(key)
        if known is None:
            known = (
                name in self.names(path)
                and self.name_facts(name, path).asks
                and not self.functions(name, path)
                and any(name in self.source(one).prepared.defines for one in (path, *self.included(path)))
            )
            self._asking[key] = known
        return known

    def outer(self, name: str, path: str) -> tuple[str | None, bool]:
        """What a macro or an outer variable stands for, and whether it asks for the capability."""
        key = (name, path)
        known = self._outer.get(key)
        if known is None:
            code, asks = None, False
            if name in self.names(path):
                found = self.macro(name, path)
                code = found[0] if found is not None and found[1] is None else self.variable(name, path)
                asks = self.name_facts(name, path).asks
            known = self._outer[key] = code, asks
        return known

    def parsed(self, code: str) -> Any:
        """The statements of a piece of code, kept."""
        block = self._pieces.get(code)
        if block is None:
            block = self._pieces[code] = parse_block(code)
        return block

    def broken(self) -> list[tuple[str, int]]:
        """Files that were read and whose braces do not match, with the line."""
        return sorted((path, source.broken) for path, source in self._sources.items() if source.broken)

    def otherwise(self, unsure: Iterable[tuple[str, int, str]]) -> CxxProgram:
        """The same library with undecided conditions taken the other way."""
        choices: dict[str, dict[int, bool]] = {}
        for path, line, _text in unsure:
            choices.setdefault(path, {})[line] = False
        return CxxProgram(self.files, self.part, self.native, self.macros.cuda, choices)

    def block(self, definition: Definition) -> Any:
        """The parsed body of a function, kept: every target runs the same."""
        key = (definition.path, definition.open)
        block = self._blocks.get(key)
        if block is None:
            body = closed_checks(self.source(definition.path).body(definition))
            block = self._blocks[key] = parse_block(body)
        return block

    # facts

    def text_facts(self, text: str, path: str, line: int, depth: int = 0) -> Facts:
        """What a piece of code of a file reaches."""
        facts = NOTHING
        if "<<<" in text or "aunch" in text:
            for match in _LAUNCH.finditer(text):
                where = (path, line + text.count("\n", 0, match.start()))
                facts = facts.plus(Facts(launches=frozenset([where])))
        if "MaxDynamicSharedMemorySize" in text:
            for match in REQUEST.finditer(text):
                where = (path, line + text.count("\n", 0, match.start()))
                facts = facts.plus(Facts(shared=frozenset([where])))
        for match in self._tag.finditer(text):
            there = line + text.count("\n", 0, match.start())
            facts = facts.plus(Facts(tags=frozenset([(match[1], path, there)])))
        if ASKING.search(text) and _ASKS.search(text):
            facts = facts.plus(Facts(asks=True))
        if _ADAPTER.search(text):
            facts = facts.plus(Facts(outside=True))
        known = self.names(path)
        words = set(_WORD.findall(text))
        for name in sorted(words & known):
            facts = facts.plus(self.name_facts(name, path, depth + 1))
        elsewhere = (words & self.declared(path)) - known
        if elsewhere:
            for name in sorted(elsewhere.intersection(_CALLED.findall(text))):
                facts = facts.plus(self._elsewhere(name, path, depth + 1))
        return facts

    def _elsewhere(self, name: str, path: str, depth: int) -> Facts:
        """A function that is called by its plain name, and that another file of the library may define."""
        definitions = self.functions(name, path)
        if definitions:
            return self._joined(definitions, depth)
        return Facts(open=frozenset([name]))

    def _joined(self, definitions: Iterable[Definition], depth: int) -> Facts:
        facts = NOTHING
        for definition in definitions:
            facts = facts.plus(self.facts(definition, depth))
        return facts

    def name_facts(self, name: str, path: str, depth: int = 0) -> Facts:
        """What a name of this file or its headers reaches."""
        if depth > DEPTH:
            return NOTHING
        facts = NOTHING
        for one in (path, *self.included(path)):
            source = self.source(one)
            if name in source.functions:
                return self._joined(source.functions[name], depth)
            hit = False
            for opened, closed in source.types.get(name, ()):
                facts = facts.plus(self._type(source, name, opened, closed, depth))
                hit = True
            for text, at in source.aliases.get(name, ()):
                facts = facts.plus(self._alias(source, name, text, depth, source.line(at)))
                hit = True
            for text, at in source.globals.get(name, ()):
                hit = True
                if "(" in text:  # only a call can ask the device
                    facts = facts.plus(self._alias(source, f"={name}", text, depth, source.line(at)))
            for body, line in source.prepared.defines.get(name, ()):
                hit = True
                if not body or body.isdigit():
                    continue
                facts = facts.plus(self._alias(source, f"#{name}", body, depth, line))
            if hit:
                return facts
        return facts

    def _type(self, source: Source, name: str, opened: int, closed: int, depth: int) -> Facts:
        """A type: its members. Methods count where they are called by name."""
        key = (source.path, -opened)
        facts = self._facts.get(key)
        if facts is None:
            self._facts[key] = NOTHING
            text = source.text[opened : closed + 1]
            inside = [
                one for there in source.functions.values() for one in there if opened < one.open < closed
            ]
            for one in sorted(inside, key=lambda d: -d.open):
                start = source.text.rfind(one.name, opened, one.params) - opened
                body = text[start : one.close - opened + 1]
                text = text[:start] + "\n" * body.count("\n") + text[one.close - opened + 1 :]
            facts = self._facts[key] = self.text_facts(text, source.path, source.line(opened), depth)
        return facts

    def _span(self, source: Source, opened: int, closed: int, depth: int) -> Facts:
        key = (source.path, opened)
        facts = self._facts.get(key)
        if facts is None:
            self._facts[key] = NOTHING  # what leads back here adds nothing
            line = source.line(opened)
            facts = self.text_facts(source.text[opened : closed + 1], source.path, line, depth)
            broken = frozenset(
                (one, self.source(one).broken)
                for one in (source.path, *self.included(source.path))
                if self.source(one).broken
            )
            if broken:
                facts = facts.plus(Facts(broken=broken))
            if source.prepared.unsure:
                facts = facts.plus(Facts(unsure=_undecided(source, line, source.line(closed))))
            self._facts[key] = facts
        return facts

    def _alias(self, source: Source, name: str, text: str, depth: int, line: int) -> Facts:
        key = (f"{source.path}#{name}#{text[:200]}", line)
        facts = self._facts.get(key)
        if facts is None:
            self._facts[key] = NOTHING
            facts = self.text_facts(text, source.path, line, depth)
            self._facts[key] = facts
        return facts

    def facts(self, definition: Definition, depth: int = 0) -> Facts:
        """What a function reaches."""
        source = self.source(definition.path)
        facts = self._span(source, definition.open, definition.close, depth)
        if _DEVICE.search(definition.head):
            facts = facts.plus(Facts(kernels=frozenset([definition])))
        return facts

    def unresolved(self, definition: Definition) -> list[str]:
        """Functions that a function calls, itself or through others, and whose source is not in this tree."""
        if definition in self._open:
            return self._open[definition]
        out: dict[str, None] = {}
        seen: set[Definition] = set()
        waiting = [definition]
        while waiting and len(seen) < 60:
            one = waiting.pop()
            if one in seen:
                continue
            seen.add(one)
            body = self.source(one.path).body(one)
            known = self.names(one.path)
            for name in _plain_calls(self.block(one)):
                short = name.rpartition("::")[2]
                if short in known or short in self.declared(one.path):
                    there = self.functions(short, one.path)
                    waiting += there
                    if there or short in known:
                        continue
                if not _harmless(name, body):
                    out[name] = None
        self._open[definition] = list(out)
        return self._open[definition]


def _undecided(source: Source, first: int, last: int) -> frozenset[tuple[str, int, str]]:
    """The undecided conditions that decide about these lines."""
    return frozenset(
        (source.path, one.line, one.text)
        for one in source.prepared.unsure
        if one.line <= last and one.last >= first
    )


def _plain_calls(block: Any) -> list[str]:
    """Names of the functions that are called, methods of objects left out."""
    out: dict[str, None] = {}
    stack = [block]
    while stack:
        node = stack.pop()
        if node.type == "call_expression":
            function = node.child_by_field_name("function")
            if function is not None and function.type != "field_expression":
                name = re.sub(r"<.*>|\s", "", text_of(function), flags=re.DOTALL)
                if re.fullmatch(r"(?:::)?[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*", name):
                    out[name.removeprefix("::")] = None
        stack.extend(reversed(node.named_children))
    return list(out)


_PLAIN = re.compile(
    r"(?:cuda|cu|cublas|cublasLt|nccl|cusolver|curand|mem|str|dl|pthread_)[A-Z_a-z]\w*|__\w+|\w+_cast|u?int\d*(?:_t)?"
    r"|float|double|bool|size_t|[A-Z0-9_]*(?:CHECK|ASSERT|WARN)[A-Z0-9_]*|f?printf|malloc|free|getenv|abs|min|max"
    r"|sizeof|assert|exit|abort|move|forward|make_tuple|make_pair|tie|get|to_string|ceil|floor|ceil_div|round_up|sqrt|log2|pow|swap"
)


def _harmless(name: str, body: str) -> bool:
    """Whether a call launches no kernel of the library for sure: the runtime, PyTorch, C, or a local name."""
    if "::" in name:
        return name.partition("::")[0] in _KNOWN
    if _PLAIN.fullmatch(name):
        return True
    return re.search(rf"\b(?:auto|std::function<[^;]*>)\s*&?\s*{re.escape(name)}\s*[={{]", body) is not None
