"""Runs the body of a C++ function for one target, with everything unknown but the capability.

A path is one way through the function. Conditions that depend on the capability choose; all others split the
path. What ends it, and whether it launched a kernel or reached an architecture tag on the way, is what the
function does on that target. Everything is bounded; what is beyond the bounds is doubt, never an answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from auditor.arch import Target
from auditor.native.cxx.index import Definition
from auditor.native.cxx.nodes import (
    called,
    calls_in,
    declared_name,
    has_call,
    lambdas_in,
    message_of,
    template_arguments,
)
from auditor.native.cxx.parse import named, text
from auditor.native.cxx.paths import (
    ARCH_UNKNOWN,
    UNKNOWN,
    End,
    Lambda,
    Path,
    Val,
    compared,
    fewer,
    fewer_ends,
)
from auditor.native.cxx.program import CxxProgram
from auditor.native.cxx.values import Values
from auditor.native.model import Step

MAX_STEPS = 20_000
MAX_CALLS = 7
_RAISES = re.compile(
    r"(?:\w*::)*(?:AT_ERROR|TORCH_ERROR|C10_THROW_ERROR|abort|exit|_exit|terminate|__trap|unreachable)\Z"
)
_CHECKS = re.compile(r"[A-Z0-9_]*(?:CHECK|ASSERT|ENFORCE|REQUIRE)[A-Z0-9_]*\Z|assert\Z")
_LITERALS = frozenset({"number_literal", "lambda_expression"})
_DECIDES = re.compile(r"\b(?:if|switch|throw|return)\b|\?|CHECK|ASSERT")
_COMPARES = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}
#: Macros that check the status of a call, not a condition.
_STATUS = re.compile(r"CUDA|CUDNN|CUBLAS|NCCL|STATUS|CU_|DRIVER|CURESULT|SUCCESS|CUTLASS|KERNEL_LAUNCH")


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
        except RecursionError:
            path = Path(facts=self.program.facts(definition), doubt=("code nested too deeply to follow",))
            ends = [End("return", UNKNOWN, path)]
        finally:
            self.depth -= 1
        self.memo[key] = ends
        return ends


class _Body(Values):
    """The statements of one function."""

    def __init__(self, runner: Runner, definition: Definition) -> None:
        super().__init__(runner, definition)
        self.block = self.program.block(definition)
        self.ends: list[End] = []
        self.loops: list[list[Path]] = []
        self.inner: list[list[Path]] = []  # lambdas that run: where their returns go

    def ends_of(self, path: Path) -> list[End]:
        rest = self.block_of(self.block, [path])
        self.ends += [End("return", UNKNOWN, one) for one in rest]
        return fewer_ends(self.ends)

    def step(self, node: Any, message: str) -> Step:
        return Step(message, self.definition.path, self.line(node))

    # statements

    def block_of(self, node: Any, paths: list[Path]) -> list[Path]:
        for child in named(node):
            if not paths:
                break
            paths = fewer(self.statement(child, paths))
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
        if kind == "throw_statement":
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
                name = declared_name(child.child_by_field_name("declarator"))
                value = child.child_by_field_name("value")
                if name and value is not None:
                    if value.type in ("initializer_list", "argument_list") and len(named(value)) == 1:
                        value = named(value)[0]
                    idle = value.type not in _LITERALS and self.seen(value)[0] and self.inert(value, path)
                    path.env[name] = UNKNOWN if idle else self.value(value, path)
            elif child.type in ("identifier", "pointer_declarator", "reference_declarator"):
                name = declared_name(child)
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
                            now = fewer(self.statement(child, now)) if now else now
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
            paths = self.effect(right, path) if right is not None and has_call(right) else [path]
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
        calls = calls_in(node)
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
        name = called(function)
        short = name.rpartition("::")[2]
        if self.is_macro(short):
            return self.expanded(node, short, args, path)
        if _RAISES.match(name) and (not args or short != "exit"):
            return self.raised(node, [path], f"{short} is called")
        if _CHECKS.fullmatch(short) and args:
            return self.check(node, short, args, path)
        self.attribute(short, args, path)
        paths = [path]
        for lambda_ in lambdas_in(node):
            paths = [end for one in paths for end in self.inline(lambda_, one)]
        held = path.env.get(name)
        if held is not None and isinstance(held.value, Lambda):
            return [end for one in paths for end in self.inline(held.value.node, one)]
        for arg in args:
            if arg.type == "call_expression" and not lambdas_in(arg):
                paths = [end for one in paths for end in self.call(arg, one)]
        out: list[Path] = []
        for one in paths:
            out += self.into(node, name, short, args, one)
        return out

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

    def into(self, node: Any, name: str, short: str, args: list[Any], path: Path) -> list[Path]:
        """A call of a function of the tree that asks for the capability is run, any other only noted."""
        definitions = self.definitions(short, name)
        asking = [one for one in definitions if self.program.facts(one).asks]
        if not asking:
            self.note(node, path)
            return [path]
        outside = text(node.child_by_field_name("function"))
        path.facts = path.facts.plus(
            self.program.text_facts(template_arguments(outside), self.definition.path, self.line(node))
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
        return fewer(rest + returned)

    def check(self, node: Any, name: str, args: list[Any], path: Path) -> list[Path]:
        """A check of a condition; one whose condition is false for this target raises."""
        if _STATUS.search(name):
            paths = [path]
            for arg in args:
                paths = [end for one in paths for end in self.effect(arg, one)]
            return paths
        operator = _COMPARES.get(name.rpartition("_")[2])
        if operator and len(args) > 1:
            value = compared(operator, self.value(args[0], path), self.value(args[1], path))
            shown = f"{text(args[0])} {operator} {text(args[1])}"
        else:
            value = self.value(args[0], path)
            shown = text(args[0])
        shown = " ".join(shown.split())[:120]
        for call in calls_in(args[0]):
            inner = called(call.child_by_field_name("function")).rpartition("::")[2]
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
        message = next((m for m in (message_of(arg) for arg in args[1:]) if m), "")
        how = f"{name}({shown}) fails" + (f": {message}" if message else "")
        return self.raised(node, [path], how, value.arch)
