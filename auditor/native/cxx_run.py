"""Runs the body of a C++ function for one target, with everything unknown but the capability.

A path is one way through the function. Conditions that depend on the capability choose; all others split the
path. What ends it, and whether it launched a kernel or reached an architecture tag on the way, is what the
function does on that target. Everything is bounded; what is beyond the bounds is doubt, never an answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from auditor.arch import Target
from auditor.native.cxx_index import Definition
from auditor.native.cxx_parse import named, substituted, text
from auditor.native.cxx_program import ASKING, NOTHING, CxxProgram, Facts
from auditor.native.model import Step

MAX_PATHS = 24
MAX_STEPS = 20_000
MAX_CALLS = 7
_RAISES = re.compile(
    r"(?:\w*::)*(?:AT_ERROR|TORCH_ERROR|C10_THROW_ERROR|abort|exit|_exit|terminate|__trap|unreachable)\Z"
)
_CHECKS = re.compile(r"[A-Z0-9_]*(?:CHECK|ASSERT|ENFORCE|REQUIRE)[A-Z0-9_]*\Z|assert\Z")
_WORD = re.compile(r"[A-Za-z_]\w*")
#: Words of code whose value is known, or that may end a path.
_TELLING = frozenset(
    "true false return throw abort exit terminate __trap AT_ERROR TORCH_ERROR C10_THROW_ERROR major"
    " minor".split()
)
_LITERALS = frozenset({"number_literal", "lambda_expression"})
_DECIDES = re.compile(r"\b(?:if|switch|throw|return)\b|\?|CHECK|ASSERT")
_COMPARES = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}
#: Macros that check the status of a call, not a condition.
_STATUS = re.compile(r"CUDA|CUDNN|CUBLAS|NCCL|STATUS|CU_|DRIVER|CURESULT|SUCCESS|CUTLASS|KERNEL_LAUNCH")


class Val(NamedTuple):
    """A value: known or not. ``arch``: the capability decides it, whether known or not."""

    known: bool = False
    value: Any = None
    arch: bool = False


UNKNOWN = Val()
ARCH_UNKNOWN = Val(False, None, True)


class Props:
    """The properties of the device."""


class Pointer(NamedTuple):
    """``&name``."""

    name: str


class Lambda(NamedTuple):
    """A function without a name, with its body."""

    node: Any


@dataclass
class Path:
    """One way through: variables, and what happened on it."""

    env: dict[str, Val] = field(default_factory=dict)
    facts: Facts = NOTHING
    told: tuple[tuple[bool, Step], ...] = ()  # tests of the capability in order; whether each let it in
    doubt: tuple[str, ...] = ()
    aside: bool = False  # within a branch that something else than the capability chooses

    @property
    def steps(self) -> tuple[Step, ...]:
        """The tests of the capability on the way."""
        return tuple(step for _let_in, step in self.told)

    @property
    def missed(self) -> tuple[Step, ...]:
        """Those that left this target out."""
        return tuple(step for let_in, step in self.told if not let_in)

    def copy(self) -> Path:
        """The same with variables of its own."""
        return replace(self, env=dict(self.env))


class End(NamedTuple):
    """How a path ends: ``return`` (or the end of the function) or ``raise``."""

    kind: str
    value: Val
    path: Path
    step: Step | None = None  # what raises
    by_arch: bool = False  # the capability decided that it raises


class Runner:
    """One function on one target, calls into the tree included."""

    def __init__(self, program: CxxProgram, target: Target) -> None:
        self.program = program
        self.target = target
        self.steps = 0
        self.depth = 0
        self.memo: dict[tuple[str, int, tuple[tuple[str, Any], ...]], list[End]] = {}

    def run(self, definition: Definition, args: dict[str, Val] | None = None) -> list[End]:
        """All ends of a function whose parameters have these values."""
        known = tuple(
            sorted((k, v.value) for k, v in (args or {}).items() if v.known and isinstance(v.value, int))
        )
        key = (definition.path, definition.open, known)
        if key in self.memo:
            return self.memo[key]
        if self.depth > MAX_CALLS:
            path = Path(doubt=(f"calls deeper than {MAX_CALLS}",))
            return [End("return", UNKNOWN, path)]
        self.memo[key] = [End("return", ARCH_UNKNOWN, Path())]  # a round of recursion adds nothing new
        self.depth += 1
        try:
            body = _Body(self, definition)
            ends = body.ends_of(Path(env=dict(args or {})))
        finally:
            self.depth -= 1
        self.memo[key] = ends
        return ends


class _Body:
    """The statements of one function."""

    def __init__(self, runner: Runner, definition: Definition) -> None:
        self.runner = runner
        self.program = runner.program
        self.target = runner.target
        self.definition = definition
        source = self.program.source(definition.path)
        self.source = source
        self.first = source.line(definition.open)
        self.block = self.program.block(definition)
        self.fixed = 0  # the line of a macro's call while its body runs
        self.scope = ""  # that body, which has positions of its own
        self.expanding = 0
        self.ends: list[End] = []
        self.loops: list[list[Path]] = []
        self.inner: list[list[Path]] = []  # lambdas that run: where their returns go

    def ends_of(self, path: Path) -> list[End]:
        rest = self.block_of(self.block, [path])
        self.ends += [End("return", UNKNOWN, one) for one in rest]
        return _fewer_ends(self.ends)

    def line(self, node: Any) -> int:
        return self.fixed or int(self.first + node.start_point[0])

    def step(self, node: Any, message: str) -> Step:
        return Step(message, self.definition.path, self.line(node))

    # statements

    def block_of(self, node: Any, paths: list[Path]) -> list[Path]:
        for child in named(node):
            if not paths:
                break
            paths = _fewer(self.statement(child, paths))
        return paths

    def statement(self, node: Any, paths: list[Path]) -> list[Path]:
        self.runner.steps += 1
        if self.runner.steps > MAX_STEPS:
            return [replace(path, doubt=(f"more than {MAX_STEPS:,} steps",)) for path in paths[:1]]
        kind = node.type
        if kind in (
            "compound_statement",
            "else_clause",
            "case_statement",
            "labeled_statement",
            "attributed_statement",
        ):
            return self.block_of(node, paths)
        if kind == "if_statement":
            return self.if_statement(node, paths)
        if kind == "switch_statement":
            return self.switch(node, paths)
        if kind in ("for_statement", "while_statement", "do_statement", "for_range_loop"):
            return self.loop(node, paths)
        if kind == "return_statement":
            return self.return_statement(node, paths)
        if kind in ("throw_statement",):
            return self.raised(node, paths, "throws")
        if kind in ("break_statement", "continue_statement"):
            if self.loops:
                self.loops[-1] += paths
                return []
            return paths
        if kind == "try_statement":
            body = node.child_by_field_name("body")
            return self.block_of(body, paths) if body is not None else paths
        if kind == "ERROR":
            return self.unreadable(node, paths)
        if node.has_error and kind not in ("expression_statement", "declaration"):
            return self.unreadable(node, paths)
        return self.simple(node, paths)

    def unreadable(self, node: Any, paths: list[Path]) -> list[Path]:
        """What the grammar cannot read: harmless unless it may decide by the capability."""
        shown = text(node)
        facts = self.program.text_facts(shown, self.definition.path, self.line(node))
        words = set(re.findall(r"[A-Za-z_]\w*", shown))
        decides = _DECIDES.search(shown) is not None
        for path in paths:
            path.facts = path.facts.plus(facts)
            held = any(path.env[word].arch for word in words if word in path.env)
            if held or (facts.asks and (decides or not self.harmless(words, 0))):
                why = f"code that cannot be read ({self.definition.path}:{self.line(node)})"
                path.doubt = tuple(dict.fromkeys((*path.doubt, why)))
        return paths

    def harmless(self, words: Iterable[str], depth: int) -> bool:
        """Whether no function among these names, through macros too, raises or is in doubt on this target."""
        path = self.definition.path
        known = self.program.names(path) | self.program.declared(path)
        for word in sorted(set(words) & known):
            if not self.program.name_facts(word, path).asks:
                continue
            definitions = self.program.functions(word, path)
            for definition in definitions:
                if any(end.kind == "raise" or end.path.doubt for end in self.runner.run(definition)):
                    return False
            if not definitions:
                bodies = [
                    body
                    for one in (path, *self.program.included(path))
                    for body, _line in self.program.source(one).prepared.defines.get(word, ())
                ]
                inner = {name for body in bodies for name in re.findall(r"[A-Za-z_]\w*", body)} - {word}
                if depth > 4 or not bodies or not self.harmless(inner, depth + 1):
                    return False
        return True

    def simple(self, node: Any, paths: list[Path]) -> list[Path]:
        """An expression or a declaration."""
        out: list[Path] = []
        if node.type == "expression_statement":
            inside = named(node)
            if not inside:
                return paths
            plain = inside[0].type == "call_expression"
            for path in paths:
                if plain and self.inert(node, path):
                    self.note(node, path)
                    out.append(path)
                else:
                    out += self.effect(inside[0], path)
            return out
        for path in paths:
            self.note(node, path)
            if node.type == "declaration":
                self.declare(node, path)
            out.append(path)
        return out

    def declare(self, node: Any, path: Path) -> None:
        for child in node.named_children:
            if child.type == "init_declarator":
                name = _declared(child.child_by_field_name("declarator"))
                value = child.child_by_field_name("value")
                if name and value is not None:
                    if value.type in ("initializer_list", "argument_list") and len(named(value)) == 1:
                        value = named(value)[0]
                    idle = value.type not in _LITERALS and self.seen(value)[0] and self.inert(value, path)
                    path.env[name] = UNKNOWN if idle else self.value(value, path)
            elif child.type in ("identifier", "pointer_declarator", "reference_declarator"):
                name = _declared(child)
                if name:
                    path.env[name] = UNKNOWN

    def if_statement(self, node: Any, paths: list[Path]) -> list[Path]:
        condition = node.child_by_field_name("condition")
        consequence = node.child_by_field_name("consequence")
        alternative = node.child_by_field_name("alternative")
        out: list[Path] = []
        shown = " ".join(text(condition).split()).strip("() ") if condition is not None else ""
        for path in paths:
            value = UNKNOWN
            if condition is not None:
                value = UNKNOWN if self.inert(condition, path) else self.value(condition, path)
                self.note(condition, path)
            if value.known:
                step = self.step(node, f"{shown} is {'true' if value.value else 'false'} here")
                if value.arch:
                    path.told = (*path.told, (bool(value.value), step))
                branch = consequence if value.value else alternative
                out += self.statement(branch, [path]) if branch is not None else [path]
                continue
            if value.arch:
                why = f"{shown} ({self.definition.path}:{self.line(node)}) depends on the capability and more"
                path.doubt = tuple(dict.fromkeys((*path.doubt, why)))
            before = path.aside
            other = path.copy()
            path.aside = other.aside = True
            rest = self.statement(consequence, [path]) if consequence is not None else [path]
            rest += self.statement(alternative, [other]) if alternative is not None else [other]
            for one in rest:
                one.aside = before
            out += rest
        return out

    def switch(self, node: Any, paths: list[Path]) -> list[Path]:
        condition = node.child_by_field_name("condition")
        body = node.child_by_field_name("body")
        cases = [child for child in named(body) if child.type == "case_statement"] if body is not None else []
        out: list[Path] = []
        for path in paths:
            value = self.value(condition, path) if condition is not None else UNKNOWN
            self.loops.append([])
            starts: list[int] = []
            default: int | None = None
            for index, case in enumerate(cases):
                label = case.child_by_field_name("value")
                if label is None:
                    default = index
                    continue
                wanted = self.value(label, path)
                if not (value.known and wanted.known) or value.value == wanted.value:
                    starts.append(index)
            if value.known and value.arch:
                shown = " ".join(text(condition).split())
                step = self.step(node, f"switch {shown}: {value.value} here")
                path.told = (*path.told, (bool(starts), step))
            if default is not None and not (value.known and starts):
                starts.append(default)
            ends: list[Path] = []
            before = path.aside
            for start in starts:
                now = [path.copy()]
                now[0].aside = before or not value.known
                for case in cases[start:]:
                    label = case.child_by_field_name("value")
                    for child in named(case):
                        if label is None or child != label:
                            now = _fewer(self.statement(child, now)) if now else now
                ends += now
            ends += self.loops.pop()
            for one in ends:
                one.aside = before
            if not starts or (default is None and not value.known):
                ends.append(path)
            out += ends
        return out

    def loop(self, node: Any, paths: list[Path]) -> list[Path]:
        body = node.child_by_field_name("body")
        out: list[Path] = []
        for path in paths:
            for child in named(node):
                if body is None or child != body:
                    self.note(child, path)
            for name in re.findall(r"([A-Za-z_]\w*)\s*(?:[-+*/|&^]?=(?!=)|\+\+|--)", text(node)):
                if name in path.env:
                    path.env[name] = UNKNOWN
            self.loops.append([])
            rest = self.statement(body, [path]) if body is not None else [path]
            out += rest + self.loops.pop()
        return out

    def return_statement(self, node: Any, paths: list[Path]) -> list[Path]:
        inside = named(node)
        for path in paths:
            after = self.effect(inside[0], path) if inside else [path]
            for one in after:
                value = self.value(inside[0], one) if inside else UNKNOWN
                if self.inner:
                    self.inner[-1].append(one)
                else:
                    self.ends.append(End("return", value, one))
        return []

    def raised(self, node: Any, paths: list[Path], how: str, by_arch: bool = False) -> list[Path]:
        for path in paths:
            decided = not path.aside and bool(by_arch or path.told)
            self.ends.append(End("raise", UNKNOWN, path, self.step(node, how), decided))
        return []

    # expressions

    def note(self, node: Any, path: Path) -> None:
        """Take what a piece of code names into account."""
        if node is not None:
            path.facts = path.facts.plus(self.seen(node)[1])

    def seen(self, node: Any) -> tuple[frozenset[str], Facts, bool]:
        """The words of a piece of code, what it reaches, whether it asks the device; kept for all."""
        key = (self.definition.path, self.definition.open, node.start_byte, node.end_byte, self.scope)
        kept = self.program.seen.get(key)
        if kept is None:
            shown = text(node)
            facts = self.program.text_facts(shown, self.definition.path, self.line(node))
            asks = ASKING.search(shown) is not None
            kept = self.program.seen[key] = frozenset(_WORD.findall(shown)), facts, asks
        return kept

    def inert(self, node: Any, path: Path) -> bool:
        """Whether nothing in a piece of code is known or asks for the capability."""
        words, facts, asks = self.seen(node)
        if facts.asks or not words.isdisjoint(_TELLING) or asks:
            return False
        env = path.env
        return not any(env[word].known or env[word].arch for word in words if word in env)

    def effect(self, node: Any, path: Path) -> list[Path]:
        """Run an expression for what it does."""
        paths = [path]
        if node.type in (
            "call_expression",
            "parenthesized_expression",
            "comma_expression",
            "co_await_expression",
        ):
            if node.type == "call_expression":
                return self.call(node, path)
            for child in named(node):
                paths = [end for one in paths for end in self.effect(child, one)]
            return paths
        if node.type == "assignment_expression":
            left = node.child_by_field_name("left")
            right = node.child_by_field_name("right")
            paths = self.effect(right, path) if right is not None and _has_call(right) else [path]
            for one in paths:
                self.note(node, one)
                name = text(left) if left is not None else ""
                operator = node.child_by_field_name("operator")
                plain = operator is None or text(operator) == "="
                one.env[name] = self.value(right, one) if plain and right is not None else UNKNOWN
            return paths
        if node.type == "update_expression":
            name = re.sub(r"[-+\s]", "", text(node))
            path.env[name] = UNKNOWN
            return [path]
        calls = _calls(node)
        if not calls:
            self.note(node, path)
        for call in calls:
            paths = [end for one in paths for end in self.call(call, one)]
        return paths

    def call(self, node: Any, path: Path) -> list[Path]:
        """A call: a check, a function of the tree, a function without a name, or anything else."""
        function = node.child_by_field_name("function")
        arguments = node.child_by_field_name("arguments")
        args = named(arguments) if arguments is not None else []
        name = _called(function)
        short = name.rpartition("::")[2]
        if self.is_macro(short):
            return self.expanded(node, short, args, path)
        if _RAISES.match(name) and (not args or short != "exit"):
            return self.raised(node, [path], f"{short} is called")
        if _CHECKS.fullmatch(short) and args:
            return self.check(node, short, args, path)
        self.attribute(short, args, path)
        paths = [path]
        for lambda_ in _lambdas(node):
            paths = [end for one in paths for end in self.inline(lambda_, one)]
        held = path.env.get(name)
        if held is not None and isinstance(held.value, Lambda):
            return [end for one in paths for end in self.inline(held.value.node, one)]
        for arg in args:
            if arg.type == "call_expression" and not _lambdas(arg):
                paths = [end for one in paths for end in self.call(arg, one)]
        out: list[Path] = []
        for one in paths:
            out += self.into(node, name, short, args, one)
        return out

    def is_macro(self, name: str) -> bool:
        """Whether a name is a macro of the tree behind which the capability is asked for."""
        return self.program.asking_macro(name, self.definition.path)

    def expansion(self, name: str, args: list[Any]) -> str | None:
        """The body of a macro with its arguments in place; None where that is not known."""
        found = self.program.macro(name, self.definition.path)
        if found is None or self.expanding > 5:
            return None
        body, params = found
        return substituted(body, params, [text(arg) for arg in args])

    def expanded(self, node: Any, name: str, args: list[Any], path: Path) -> list[Path]:
        """A macro as a statement: its body runs at the place of the call."""
        body = self.expansion(name, args)
        if body is None:
            why = f"the macro {name} ({self.definition.path}:{self.line(node)})"
            path.doubt = tuple(dict.fromkeys((*path.doubt, why)))
            self.note(node, path)
            return [path]
        code = f"{{{body};}}"
        saved = self.fixed, self.scope
        self.fixed, self.scope = self.line(node), code
        self.expanding += 1
        try:
            return self.block_of(self.program.parsed(code), [path])
        finally:
            self.expanding -= 1
            self.fixed, self.scope = saved

    def elsewhere(self, node: Any, code: str, path: Path) -> Val:
        """The value of an expression that stands elsewhere: behind a macro or an outer variable."""
        if self.expanding > 5 or len(code) > 400:
            return UNKNOWN
        code = f"{{({code});}}"
        block = self.program.parsed(code)
        inside = named(block)
        inner = named(inside[0]) if len(inside) == 1 and inside[0].type == "expression_statement" else []
        if len(inner) != 1 or block.has_error:
            return UNKNOWN
        saved = self.fixed, self.scope
        self.fixed, self.scope = self.line(node), code
        self.expanding += 1
        try:
            return self.value(inner[0], path)
        finally:
            self.expanding -= 1
            self.fixed, self.scope = saved

    def outer(self, node: Any, path: Path) -> Val:
        """The value of a name that the function does not define."""
        code, asks = self.program.outer(text(node), self.definition.path)
        value = self.elsewhere(node, code, Path()) if code else UNKNOWN
        if not value.known:
            return ARCH_UNKNOWN if asks else UNKNOWN
        return value._replace(arch=value.arch or asks)

    def into(self, node: Any, name: str, short: str, args: list[Any], path: Path) -> list[Path]:
        """A call of a function of the tree that asks for the capability is run, any other only noted."""
        definitions = self.definitions(short, name)
        asking = [one for one in definitions if self.program.facts(one).asks]
        if not asking:
            self.note(node, path)
            return [path]
        outside = text(node.child_by_field_name("function"))
        path.facts = path.facts.plus(
            self.program.text_facts(_arguments_only(outside), self.definition.path, self.line(node))
        )
        out: list[Path] = []
        for definition in asking:
            values = self.bound(definition, args, path)
            for end in self.runner.run(definition, values):
                merged = path.copy()
                merged.facts = merged.facts.plus(end.path.facts)
                merged.doubt = tuple(dict.fromkeys((*merged.doubt, *end.path.doubt)))
                if end.kind == "raise":
                    step = self.step(node, f"{short} is called")
                    merged.told = (*merged.told, (True, step), *end.path.told)
                    self.ends.append(End("raise", UNKNOWN, merged, end.step, end.by_arch and not path.aside))
                    continue
                merged.told = (*merged.told, *end.path.told)
                out.append(merged)
        return out

    def definitions(self, short: str, name: str) -> tuple[Definition, ...]:
        if not short or name.startswith(("std::", "torch::", "at::", "c10::", "cute::")):
            return ()
        path = self.definition.path
        if short in self.program.names(path) or short in self.program.declared(path):
            return self.program.functions(short, path)
        return ()

    def bound(self, definition: Definition, args: list[Any], path: Path) -> dict[str, Val]:
        """Parameters by name, as far as the arguments are known."""
        source = self.program.source(definition.path)
        names = _parameter_names(source.text[definition.params + 1 : definition.open])
        out: dict[str, Val] = {}
        for name, arg in zip(names, args):
            value = self.value(arg, path)
            if name and (value.known or value.arch):
                out[name] = value
        return out

    def inline(self, node: Any, path: Path) -> list[Path]:
        """The body of a lambda, run where it stands."""
        body = node.child_by_field_name("body")
        if body is None or len(self.inner) > 6:
            self.note(node, path)
            return [path]
        loops, self.loops = self.loops, []
        self.inner.append([])
        try:
            rest = self.block_of(body, [path])
        finally:
            returned = self.inner.pop()
            self.loops = loops
        return _fewer(rest + returned)

    def check(self, node: Any, name: str, args: list[Any], path: Path) -> list[Path]:
        """A check of a condition; one whose condition is false for this target raises."""
        if _STATUS.search(name):
            paths = [path]
            for arg in args:
                paths = [end for one in paths for end in self.effect(arg, one)]
            return paths
        operator = _COMPARES.get(name.rpartition("_")[2])
        if operator and len(args) > 1:
            value = _compared(operator, self.value(args[0], path), self.value(args[1], path))
            shown = f"{text(args[0])} {operator} {text(args[1])}"
        else:
            value = self.value(args[0], path)
            shown = text(args[0])
        shown = " ".join(shown.split())[:120]
        for call in _calls(args[0]):
            inner = _called(call.child_by_field_name("function")).rpartition("::")[2]
            self.attribute(inner, named(call.child_by_field_name("arguments")), path)
        if not value.known:
            if value.arch:
                where = f"{self.definition.path}:{self.line(node)}"
                why = f"{name}({shown}) ({where}) depends on the capability and more"
                path.doubt = tuple(dict.fromkeys((*path.doubt, why)))
            return [path]
        if value.value:
            if value.arch:
                path.told = (*path.told, (True, self.step(node, f"{name}({shown}) holds here")))
            return [path]
        message = next((m for m in (_message(arg) for arg in args[1:]) if m), "")
        how = f"{name}({shown}) fails" + (f": {message}" if message else "")
        return self.raised(node, [path], how, value.arch)

    def attribute(self, name: str, args: list[Any], path: Path) -> None:
        """Calls of CUDA that write what they find where a pointer points to."""
        if name.endswith("DeviceGetAttribute") and len(args) >= 2:
            into = re.sub(r"[&\s()]", "", text(args[0]))
            path.env[into] = self.device_attribute(text(args[1]))
        elif name.endswith("GetDeviceProperties") and args:
            path.env[re.sub(r"[&\s()]", "", text(args[0]))] = Val(True, Props(), True)
        elif name.endswith("DeviceComputeCapability") and len(args) >= 2:
            for arg, value in zip(args, self.target.capability):
                path.env[re.sub(r"[&\s()]", "", text(arg))] = Val(True, value, True)

    def device_attribute(self, attribute: str) -> Val:
        word = attribute.upper().replace("_", "")
        major, minor = self.target.capability
        if word.endswith("COMPUTECAPABILITYMAJOR"):
            return Val(True, major, True)
        if word.endswith("COMPUTECAPABILITYMINOR"):
            return Val(True, minor, True)
        if word.endswith("SHAREDMEMORYPERBLOCKOPTIN"):
            return Val(True, self.target.smem_per_block, True)
        if word.endswith("SHAREDMEMORYPERMULTIPROCESSOR"):
            return Val(True, self.target.smem_per_sm, True)
        return UNKNOWN

    def value(self, node: Any, path: Path) -> Val:
        """The value of an expression; only functions of the tree that ask for the capability are run."""
        kind = node.type
        if kind == "number_literal":
            return _number(text(node))
        if kind in ("true", "false"):
            return Val(True, kind == "true")
        if kind in ("nullptr", "null"):
            return Val(True, 0)
        if kind == "identifier":
            held = path.env.get(text(node))
            return self.outer(node, path) if held is None else held
        if kind == "qualified_identifier":
            return path.env.get(text(node), UNKNOWN)
        if kind in ("parenthesized_expression", "condition_clause"):
            inside = named(node)
            if kind == "condition_clause":
                inner = node.child_by_field_name("value")
                inside = [inner] if inner is not None else inside
            return self.value(inside[-1], path) if inside else UNKNOWN
        if kind == "cast_expression":
            inner = node.child_by_field_name("value")
            return self.value(inner, path) if inner is not None else UNKNOWN
        if kind == "unary_expression":
            return self.unary(node, path)
        if kind == "pointer_expression":
            argument = node.child_by_field_name("argument")
            return self.value(argument, path) if argument is not None and text(node)[:1] == "*" else UNKNOWN
        if kind == "binary_expression":
            return self.binary(node, path)
        if kind == "conditional_expression":
            parts = [node.child_by_field_name(name) for name in ("condition", "consequence", "alternative")]
            if any(part is None for part in parts):
                return UNKNOWN
            test = self.value(parts[0], path)
            if test.known:
                chosen = self.value(parts[1] if test.value else parts[2], path)
                return chosen._replace(arch=chosen.arch or test.arch)
            yes, no = self.value(parts[1], path), self.value(parts[2], path)
            same = yes.known and no.known and yes.value == no.value
            return yes if same else Val(False, None, test.arch or yes.arch or no.arch)
        if kind == "field_expression":
            return self.member(node, path)
        if kind == "call_expression":
            return self.called_value(node, path)
        if kind == "lambda_expression":
            return Val(True, Lambda(node))
        if kind == "assignment_expression":
            right = node.child_by_field_name("right")
            return self.value(right, path) if right is not None else UNKNOWN
        return UNKNOWN

    def unary(self, node: Any, path: Path) -> Val:
        argument = node.child_by_field_name("argument")
        operator = node.child_by_field_name("operator")
        if argument is None or operator is None:
            return UNKNOWN
        value = self.value(argument, path)
        if not value.known or not isinstance(value.value, int):
            return Val(False, None, value.arch)
        done = {"!": not value.value, "-": -value.value, "+": +value.value, "~": ~value.value}.get(
            text(operator)
        )
        return UNKNOWN if done is None else Val(True, done, value.arch)

    def binary(self, node: Any, path: Path) -> Val:
        left = node.child_by_field_name("left")
        right = node.child_by_field_name("right")
        operator = node.child_by_field_name("operator")
        if left is None or right is None or operator is None:
            return UNKNOWN
        return _compared(text(operator), self.value(left, path), self.value(right, path))

    def member(self, node: Any, path: Path) -> Val:
        argument = node.child_by_field_name("argument")
        member = node.child_by_field_name("field")
        if argument is None or member is None:
            return UNKNOWN
        whole = path.env.get(text(node))
        if whole is not None:
            return whole
        if isinstance(self.value(argument, path).value, Props):
            name = text(member)
            major, minor = self.target.capability
            numbers = {
                "major": major,
                "minor": minor,
                "sharedMemPerBlockOptin": self.target.smem_per_block,
                "sharedMemPerMultiprocessor": self.target.smem_per_sm,
                "warpSize": 32,
            }
            return Val(True, numbers[name], True) if name in numbers else UNKNOWN
        return UNKNOWN

    def called_value(self, node: Any, path: Path) -> Val:
        name = _called(node.child_by_field_name("function"))
        short = name.rpartition("::")[2]
        arguments = node.child_by_field_name("arguments")
        args = named(arguments) if arguments is not None else []
        if self.is_macro(short):
            body = self.expansion(short, args)
            value = self.elsewhere(node, body, path) if body is not None else UNKNOWN
            return value._replace(arch=True)
        if short in ("getCurrentDeviceProperties", "getDeviceProperties"):
            return Val(True, Props(), True)
        if (
            short.startswith(("static_cast", "int", "int64_t", "uint32_t", "int32_t", "bool", "size_t"))
            and len(args) == 1
        ):
            return self.value(args[0], path)
        definitions = [one for one in self.definitions(short, name) if self.program.facts(one).asks]
        if not definitions:
            return UNKNOWN
        values: list[Val] = []
        for definition in definitions:
            for end in self.runner.run(definition, self.bound(definition, args, path)):
                if end.kind == "return":
                    values.append(end.value._replace(arch=True) if not end.path.doubt else ARCH_UNKNOWN)
        if values and all(value.known and value.value == values[0].value for value in values):
            return values[0]
        return ARCH_UNKNOWN


def _compared(operator: str, a: Val, b: Val) -> Val:
    arch = a.arch or b.arch
    if operator in ("&&", "and"):
        for one in (a, b):
            if one.known and not one.value:
                return Val(True, False, one.arch)
        return Val(True, True, arch) if a.known and b.known else Val(False, None, arch)
    if operator in ("||", "or"):
        for one in (a, b):
            if one.known and one.value:
                return Val(True, True, one.arch)
        return Val(True, False, arch) if a.known and b.known else Val(False, None, arch)
    if not (a.known and b.known and isinstance(a.value, (int, float)) and isinstance(b.value, (int, float))):
        return Val(False, None, arch)
    x, y = a.value, b.value
    if operator in ("/", "%"):
        if not y or not isinstance(x, int) or not isinstance(y, int):
            return Val(False, None, arch)
        return Val(True, x // y if operator == "/" else x % y, arch)
    if operator in ("<<", ">>", "&", "|", "^"):
        if not isinstance(x, int) or not isinstance(y, int) or (operator[0] in "<>" and not 0 <= y < 64):
            return Val(False, None, arch)
        done: Any = {"<<": x << y if operator == "<<" else 0, ">>": x >> y if operator == ">>" else 0}.get(
            operator
        )
        done = {"&": x & y, "|": x | y, "^": x ^ y}.get(operator, done)
        return Val(True, done, arch)
    table: dict[str, Any] = {"==": x == y, "!=": x != y, "<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y}
    table |= {"+": x + y, "-": x - y, "*": x * y}
    return Val(True, table[operator], arch) if operator in table else Val(False, None, arch)


def _number(shown: str) -> Val:
    digits = (
        shown.replace("'", "").rstrip("uUlLfF")
        if not shown.lower().startswith("0x")
        else shown.rstrip("uUlL")
    )
    try:
        return Val(True, int(digits, 0))
    except ValueError:
        try:
            return Val(True, float(digits))
        except ValueError:
            return UNKNOWN


def _declared(node: Any) -> str:
    while node is not None and node.type not in ("identifier", "field_identifier"):
        inner = node.child_by_field_name("declarator")
        if inner is None:
            inner = next(
                (
                    child
                    for child in node.named_children
                    if child.type in ("identifier", "pointer_declarator")
                ),
                None,
            )
        node = inner
    return text(node) if node is not None else ""


def _called(function: Any) -> str:
    """The name of what is called, template arguments left out; "" for anything that has none."""
    if function is None:
        return ""
    if function.type == "field_expression":
        member = function.child_by_field_name("field")
        return _called(member)
    if function.type in ("template_function", "template_method", "dependent_name"):
        inner = function.child_by_field_name("name")
        return _called(inner) if inner is not None else ""
    if function.type == "qualified_identifier":
        return re.sub(r"<[^()]*>|\s", "", text(function))
    if function.type in ("identifier", "field_identifier"):
        return text(function)
    if function.type == "primitive_type":
        return text(function)
    return ""


def _arguments_only(shown: str) -> str:
    """The template arguments of a called name: ``f<A, B>`` gives ``A, B``."""
    _, _, rest = shown.partition("<")
    return rest


def _calls(node: Any) -> list[Any]:
    """The outermost calls inside an expression, in order."""
    if node.type == "call_expression":
        return [node]
    if node.type == "lambda_expression":
        return []
    return [call for child in node.named_children for call in _calls(child)]


def _has_call(node: Any) -> bool:
    return bool(_calls(node))


def _lambdas(node: Any) -> list[Any]:
    """Functions without a name among the arguments of a call, brackets around them ignored."""
    arguments = node.child_by_field_name("arguments")
    out = []
    for arg in named(arguments) if arguments is not None else []:
        while arg.type == "parenthesized_expression" and len(named(arg)) == 1:
            arg = named(arg)[0]
        if arg.type == "lambda_expression":
            out.append(arg)
    return out


def _message(node: Any) -> str:
    from auditor.native.cxx_parse import unquoted

    value = unquoted(node)
    return " ".join(value.split())[:160].rstrip(" :,;") if value else ""


def _parameter_names(shown: str) -> list[str]:
    out: list[str] = []
    depth = 0
    start = 0
    for at, char in enumerate(shown):
        if char in "(<{[":
            depth += 1
        elif char in ")>}]":
            if char == ")" and depth == 0:
                out.append(shown[start:at])
                break
            depth -= 1
        elif char == "," and depth == 0:
            out.append(shown[start:at])
            start = at + 1
    names = []
    for piece in out:
        match = re.search(r"([A-Za-z_]\w*)\s*(?:\[[^\]]*\])?\s*\Z", piece.partition("=")[0])
        names.append(match[1] if match else "")
    return names


def _fewer(paths: list[Path]) -> list[Path]:
    """Paths that tell the same story become one; too many become one in doubt."""
    if len(paths) < 2:
        return paths
    groups: dict[Any, Path] = {}
    for path in paths:
        key = (path.facts, path.told, path.doubt, path.aside)
        old = groups.get(key)
        if old is None:
            groups[key] = path
        elif old.env != path.env:
            names = old.env.keys() | path.env.keys()
            old.env = {name: _same(old.env.get(name, UNKNOWN), path.env.get(name, UNKNOWN)) for name in names}
    out = list(groups.values())
    if len(out) > MAX_PATHS:
        first = out[0]
        for path in out[1:]:
            first.facts = first.facts.plus(path.facts)
        first.doubt = tuple(dict.fromkeys((*first.doubt, f"more than {MAX_PATHS} ways through")))
        return [first]
    return out


def _same(a: Val, b: Val) -> Val:
    if a.known and b.known and a.value == b.value:
        return Val(True, a.value, a.arch or b.arch)
    return Val(False, None, a.arch or b.arch)


def _fewer_ends(ends: Iterable[End]) -> list[End]:
    seen: dict[Any, End] = {}
    for end in ends:
        shown = end.value.value if isinstance(end.value.value, (int, float)) else None
        key = (
            end.kind,
            end.value.known,
            shown,
            end.step,
            end.path.facts,
            end.path.told,
            end.path.doubt,
        )
        seen.setdefault(key, end)
    return list(seen.values())
