"""The value of C++ expressions on one way through a function, as far as the capability decides it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from auditor.arch import Target
from auditor.native.cxx.index import Definition
from auditor.native.cxx.nodes import called, parameter_names
from auditor.native.cxx.parse import named, substituted, text
from auditor.native.cxx.paths import ARCH_UNKNOWN, UNKNOWN, Lambda, Path, Props, Val, compared, number
from auditor.native.cxx.program import ASKING, CxxProgram, Facts

if TYPE_CHECKING:
    from auditor.native.cxx.run import Runner

_WORD = re.compile(r"[A-Za-z_]\w*")
#: Words of code whose value is known, or that may end a path.
_TELLING = frozenset(
    "true false return throw abort exit terminate __trap AT_ERROR TORCH_ERROR C10_THROW_ERROR major"
    " minor".split()
)


class Values:
    """Expressions of one function. Nothing is run but functions of the tree that ask for the capability."""

    def __init__(self, runner: Runner, definition: Definition) -> None:
        self.runner = runner
        self.program: CxxProgram = runner.program
        self.target: Target = runner.target
        self.definition = definition
        self.first = self.program.source(definition.path).line(definition.open)
        self.fixed = 0  # the line of a macro's call while its body runs
        self.scope = ""  # that body, which has positions of its own
        self.expanding = 0

    def line(self, node: Any) -> int:
        """The line of a node in its file."""
        return self.fixed or int(self.first + node.start_point[0])

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
        names = parameter_names(source.text[definition.params + 1 : definition.open])
        out: dict[str, Val] = {}
        for name, arg in zip(names, args):
            value = self.value(arg, path)
            if name and (value.known or value.arch):
                out[name] = value
        return out

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
            return number(text(node))
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
        return compared(text(operator), self.value(left, path), self.value(right, path))

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
        name = called(node.child_by_field_name("function"))
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
