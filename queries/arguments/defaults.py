"""Server arguments that get another value on a target than on the reference, and for which models.

The query's ``words`` are the names of the arguments. A name counts wherever it is written: as an attribute,
as a key (``overrides["attention_backend"] = …``), in a dictionary that is returned, or as the result of a
function that is called after it. Conditions are worth what the gates say; others are asked of the evaluator.
One finding for each decision: what the target gets, and what the reference gets instead.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from auditor.queries.engine import Match

#: An architecture, or the part of its name that a test looks for: a capital first, and not only capitals.
MODEL = re.compile(r"[A-Z][A-Za-z0-9_]*[a-z][A-Za-z0-9_]*")
#: What other vendors' back ends are called: never taken by a CUDA build, whatever the conditions say.
OTHER_VENDORS = frozenset({"aiter", "ascend", "intel_amx", "intel_xpu", "wave", "mps", "xpu"})
UNSET = "left as it was"
#: Values that name kernels without any build for 12.x: FlashAttention 3 (8.x, 9.x), FlashAttention 4 and
#: TensorRT-LLM's generated expert kernels (10.x), FlashMLA (9.0a, 10.0a, 10.3a). What has kernels in some
#: releases is left to the refusals of the tree itself.
NOT_FOR_12 = {
    "attention_backend": {"fa3", "fa4", "flashmla", "cutlass_mla"},
    "attn_backend": {"fa3", "fa4", "flashmla", "cutlass_mla"},
    "prefill_attention_backend": {"fa3", "fa4", "flashmla", "cutlass_mla"},
    "decode_attention_backend": {"fa3", "fa4", "flashmla", "cutlass_mla"},
    "mm_attention_backend": {"fa3", "fa4"},
    "moe_runner_backend": {"flashinfer_trtllm", "flashinfer_trtllm_routed"},
    "fp8_gemm_runner_backend": {"flashinfer_trtllm"},
}
#: All arguments of the queries beside this file, so that a function is walked once for all of them.
KNOWN = frozenset(
    """
    attention_backend attn_backend prefill_attention_backend decode_attention_backend moe_runner_backend
    speculative_moe_runner_backend fp8_gemm_runner_backend fp4_gemm_runner_backend bf16_gemm_backend
    kv_cache_dtype page_size mamba_ssm_dtype flashinfer_allreduce_fusion_backend
    enable_flashinfer_allreduce_fusion linear_attn_backend linear_attn_decode_backend
    linear_attn_prefill_backend mamba_backend
    """.split()
)
DEF = re.compile(rb"^([ \t]*)(?:async[ \t]+)?def[ \t]+(\w+)")


def run(context) -> list[Match]:
    words = frozenset(context.query.words)
    by_function: dict[tuple[str, str, str], int] = {}
    for gate in context.gates:
        if gate.kind in ("if", "elif", "ifexp", "assign") and gate.symbol and _differs(gate, context):
            key = (gate.path, gate.module, gate.symbol)
            by_function[key] = min(gate.line, by_function.get(key, gate.line))
    out: list[Match] = []
    for (path, module, symbol), line in sorted(by_function.items()):
        walk = walked(context, path, module, symbol, line, words)
        if walk is not None:
            found = walk.without_kernels if context.query.id.endswith("without-kernels") else walk.matches
            out.extend(found(words))
    return out


def _differs(gate, context) -> bool:
    mine = gate.truth.get(context.reference)
    return any(gate.truth.get(target) != mine for target in gate.truth if target.startswith("sm_12"))


def walked(context, path: str, module: str, symbol: str, line: int, words: frozenset[str]) -> Walk | None:
    """The walk through a function, kept for the other queries of a run; None where it names no argument."""
    names = KNOWN | words
    key = ("walk", path, symbol, names)
    if key not in context.memo:
        source = ("lines", path)
        if source not in context.memo:
            context.memo[source] = context.lines(path)
        walk = None
        context.looked(path, line)
        found = function_at(context.memo[source], line, symbol.rsplit(".", 1)[-1], names)
        if found is not None:
            context.looked(path, found.lineno)
            walk = Walk(context, path, module, symbol, tuple(sorted(names)))
            walk.function(found)
        context.memo[key] = walk
    return context.memo[key]


def function_at(
    lines: list[bytes], line: int, name: str, words: frozenset[str]
) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The nearest definition of that name above a line, if it holds a word, with the lines of the file."""
    for start in range(min(line, len(lines)) - 1, -1, -1):
        head = DEF.match(lines[start])
        if head and head[2].decode() == name:
            break
    else:
        return None
    width = len(head[1])
    first = above = start
    while above:  # decorators, also ones that spread over lines or have remarks below them
        above -= 1
        begins = lines[above].strip()[:1]
        if begins in (b"", b"#") or len(lines[above]) - len(lines[above].lstrip()) > width:
            continue
        if begins == b"@":
            first = above
        elif begins != b")":
            break
    # The first line no deeper than the `def` may still belong to its signature or to a string.
    torn = False
    for end in _ends(lines, start + 1, width):
        text = b"\n".join(lines[first:end])
        torn = torn or text.count(b"(") != text.count(b")")
        if not any(word.encode() in text for word in words):
            continue
        # Empty lines above it keep the numbers of the file.
        inside = b"\n" * (first - 1) + b"if 1:\n" + text if width else b"\n" * first + text
        try:
            body: list[ast.stmt] = ast.parse(inside).body
        except (SyntaxError, ValueError):
            continue
        if width and isinstance(body[0], ast.If):
            body = body[0].body
        if isinstance(body[0], (ast.FunctionDef, ast.AsyncFunctionDef)) and end > line - 1:
            return body[0]
    return _in_file(lines, start + 1) if torn else None


def _in_file(lines: list[bytes], line: int) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The definition on a line of a file whose lines inside brackets go further out than the definition."""
    try:
        tree = ast.parse(b"\n".join(lines))
    except (SyntaxError, ValueError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.lineno == line:
            return node
    return None


def _ends(lines: list[bytes], start: int, width: int) -> Iterator[int]:
    """Lines before which a definition may end: the first few that are no deeper, then the end of the file."""
    left = 4
    for index in range(start, len(lines)):
        if lines[index].strip() and len(lines[index]) - len(lines[index].lstrip()) <= width:
            yield index
            left -= 1
            if not left:
                return
    yield len(lines)


class Place(NamedTuple):
    """Which decision a statement belongs to: its models, and the branches above the first GPU test."""

    models: tuple[str, ...] = ()
    branches: tuple[int, ...] = ()
    closed: bool = False  # a question about the GPU was met: what is below belongs to it
    when: str = ""  # the innermost condition around it
    facts: tuple[tuple[str, frozenset[object]], ...] = ()  # name compared above it, with which constants
    refused: frozenset[str] = frozenset()  # targets that an exception has sent away: other queries say so


class Write:
    """One value that one argument may get, and on which targets."""

    __slots__ = ("argument", "value", "line", "reach", "place")

    def __init__(self, argument: str, value: str, line: int, reach: dict[str, str], place: Place):
        self.argument = argument
        self.value = value
        self.line = line
        self.reach = reach
        self.place = place


class Walk:
    """Goes through a function once, carrying which targets come to each statement."""

    def __init__(self, context, path: str, module: str, symbol: str, words: tuple[str, ...]) -> None:
        self.context = context
        self.path = path
        self.module = module
        self.symbol = symbol
        self.words = words
        self.gates = {}
        for gate in context.gates:
            if gate.path == path and gate.symbol == symbol:
                self.gates.setdefault((gate.line, gate.kind == "ifexp"), gate)
        self.targets = sorted({t for gate in context.gates[:1] for t in gate.truth})
        self.locals: dict[str, list[tuple[str, dict[str, str]]]] = {}
        self.aliases: dict[str, str] = {}  # local that was read from an argument, and is written in its stead
        self.writes: list[Write] = []
        self.calls: dict[str, tuple[str, ...]] = {}  # function that is called for some models only
        name = symbol.rsplit(".", 1)[-1]
        self.returns = next((word for word in words if name.endswith(f"default_{word}")), None)

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        named = []
        for decorator in node.decorator_list:
            spread = [n.value.id for n in ast.walk(decorator) if _is_spread_name(n)]
            named += models_in(decorator) or spread  # register(*MODELS): the list's name stands for them
        self.block(node.body, dict.fromkeys(self.targets, "true"), Place(tuple(named)))

    def block(self, body, reach, place: Place) -> tuple[dict[str, str], Place]:
        """Who comes out of a block of statements, and to which decision the rest belongs."""
        for node in body:
            if isinstance(node, ast.If):
                reach, place = self.branch(node, reach, place)
                continue
            if isinstance(node, (ast.For, ast.While, ast.With, ast.Try)):
                reach, _ = self.block(node.body, reach, place)
                continue
            self.statement(node, reach, place)
            if isinstance(node, (ast.Return, ast.Raise)):
                return dict.fromkeys(self.targets, "false"), place
        return reach, place

    def branch(self, node: ast.If, reach, place: Place) -> tuple[dict[str, str], Place]:
        truth = self.truth(node.test, node.lineno)
        named = models_in(node.test)
        inverse = any(
            isinstance(part, ast.Compare)
            and isinstance(part.ops[0], (ast.NotEq, ast.NotIn))
            and models_in(part)
            for part in ast.walk(node.test)
        )
        inside = other = place
        if not place.closed:
            if len(set(truth.values())) > 1:
                inside = other = place._replace(closed=True)
            else:
                inside = place._replace(branches=(*place.branches, node.lineno))
                other = place._replace(branches=(*place.branches, -node.lineno))
        inside = inside._replace(
            when=_cut(ast.unparse(node.test)), facts=(*place.facts, *facts_in(node.test))
        )
        if named and not inverse:
            inside = inside._replace(models=named)
        then, _ = self.block(node.body, both(reach, truth), inside)
        rest, _ = self.block(node.orelse, both(reach, {t: NOT[v] for t, v in truth.items()}), other)
        out = {t: either(then[t], rest[t]) for t in self.targets}
        gone = all(v == "false" for v in then.values())
        if isinstance(node.body[-1], ast.Raise):
            refused = {t for t, v in truth.items() if v == "true"}
            place = place._replace(refused=place.refused | refused)
        return out, place._replace(models=named) if inverse and gone else place

    def truth(self, test: ast.expr, line: int, ifexp: bool = False) -> dict[str, str]:
        gate = self.gates.get((line, ifexp)) if not isinstance(test, ast.BoolOp) or not ifexp else None
        if gate is not None and (gate.kind in ("if", "elif")) != ifexp:
            return dict(gate.truth)
        if not any(isinstance(n, (ast.Call, ast.Attribute, ast.Name)) for n in ast.walk(test)):
            return dict.fromkeys(self.targets, "unknown")
        return dict(self.context.truth(self.module, test))

    def statement(self, node, reach, place: Place) -> None:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                pairs = [(target, node.value)]
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs = list(zip(target.elts, node.value.elts, strict=False))
                for left, right in pairs:
                    self.assign(left, right, node.lineno, reach, place)
        if isinstance(node, ast.Return) and node.value is not None and self.returns:
            self.write(self.returns, node.value, node.lineno, reach, place)
        if not isinstance(node, (ast.Return, ast.Expr, ast.Assign)) or node.value is None:
            return
        for inner in ast.walk(node.value):
            if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and place.models:
                self.calls.setdefault(inner.func.id, place.models)
            if isinstance(inner, ast.Dict):
                for key, value in zip(inner.keys, inner.values, strict=True):
                    if isinstance(key, ast.Constant) and key.value in self.words:
                        self.write(str(key.value), value, node.lineno, reach, place)

    def assign(self, left, right, line, reach, place: Place) -> None:
        name = None
        if isinstance(left, ast.Attribute):
            name = left.attr
        elif isinstance(left, ast.Subscript) and isinstance(left.slice, ast.Constant):
            name = left.slice.value
        elif isinstance(left, ast.Name):
            kept = self.locals.setdefault(left.id, [])
            kept[:] = [(v, r) for v, r in kept if any(reach[t] != "true" and r[t] != "false" for t in r)]
            kept.extend(self.values(right, reach))
            if isinstance(right, ast.Attribute) and right.attr in self.words:
                self.aliases[left.id] = right.attr
            name = self.aliases.get(left.id)
        if name in self.words:
            self.write(str(name), right, line, reach, place)

    def write(self, argument, value, line, reach, place: Place) -> None:
        for text, comes in self.values(value, reach):
            if text not in OTHER_VENDORS:
                self.writes.append(Write(argument, text, line, comes, place))

    def values(self, node, reach) -> Iterator[tuple[str, dict[str, str]]]:
        """What an expression may be, with the targets on which it is."""
        if isinstance(node, ast.IfExp):
            truth = self.truth(node.test, node.test.lineno, ifexp=True)
            yield from self.values(node.body, both(reach, truth))
            yield from self.values(node.orelse, both(reach, {t: NOT[v] for t, v in truth.items()}))
        elif isinstance(node, ast.Constant):
            if node.value is not None:
                yield str(node.value), reach
        elif isinstance(node, ast.Name) and node.id in self.locals:
            for text, comes in list(self.locals[node.id]):
                yield text, both(reach, comes)

    def matches(self, words: frozenset[str]) -> Iterator[Match]:
        groups: dict[tuple[str, tuple[str, ...], tuple[int, ...]], list[Write]] = {}
        for write in self.writes:
            if write.argument not in words:
                continue
            key = (write.argument, write.place.models, write.place.branches)
            groups.setdefault(key, []).append(write)
        reference = self.context.reference
        for (argument, models, _), writes in groups.items():
            got = {t: outcome(writes, t) for t in self.targets}
            mine = [t for t in self.targets if t != reference and got[t] != got[reference]]
            mine = [t for t in mine if t not in writes[0].place.refused]
            if not any(t.startswith("sm_12") for t in mine):
                continue
            line = next(
                w.line
                for w in writes
                if any((w.reach[t] == "false") != (w.reach[reference] == "false") for t in mine)
            )
            seen: dict[str, list[str]] = {}
            for target in (t for t in mine if t.startswith("sm_12")):
                seen.setdefault(" or ".join(got[target]) or UNSET, []).append(target)
            yield Match(
                self.path,
                line,
                self.symbol,
                module=self.module,
                captures={
                    "ARGUMENT": argument,
                    "MODELS": _short(models) if models else self.symbol,
                    "HERE": "; ".join(f"{value} on {', '.join(where)}" for value, where in seen.items()),
                    "THERE": " or ".join(got[reference]) or UNSET,
                    "REFERENCE": reference,
                },
                verdict={t: "fallback" for t in mine},
            )

    def without_kernels(self, words: frozenset[str]) -> Iterator[Match]:
        """Writes that 12.x comes to, of a value that names kernels it does not have."""
        seen: set[tuple[object, ...]] = set()
        for write in self.writes:
            comes = {t for t in self.targets if t.startswith("sm_12") and write.reach[t] != "false"}
            comes -= write.place.refused
            key = (write.argument, write.value, write.place.models)
            if key in seen or write.argument not in words:
                continue
            if comes and write.value in NOT_FOR_12.get(write.argument, ()):
                seen.add(key)
                models = write.place.models
                yield Match(
                    self.path,
                    write.line,
                    self.symbol,
                    module=self.module,
                    captures={
                        "ARGUMENT": write.argument,
                        "VALUE": write.value,
                        "MODELS": _short(models) if models else self.symbol,
                        "WHEN": f" if {write.place.when}" if write.place.when else "",
                    },
                    verdict=dict.fromkeys(sorted(comes), "wrong-default"),
                )


def outcome(writes: list[Write], target: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(w.value for w in writes if w.reach[target] != "false"))


def _is_spread_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Starred) and isinstance(node.value, ast.Name)


def facts_in(test: ast.expr) -> tuple[tuple[str, frozenset[object]], ...]:
    """What holds for names inside a branch: ``a.x == "auto"``, ``x in ("a", "b")`` and ``x is None``."""
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    out: list[tuple[str, frozenset[object]]] = []
    for part in parts:
        if isinstance(part, ast.BoolOp) and isinstance(part.op, ast.And):
            out += facts_in(part)
        if not isinstance(part, ast.Compare) or len(part.ops) != 1:
            continue
        left, right = part.left, part.comparators[0]
        name = left.attr if isinstance(left, ast.Attribute) else left.id if isinstance(left, ast.Name) else ""
        if isinstance(part.ops[0], (ast.Eq, ast.Is)) and isinstance(right, ast.Constant):
            out.append((name, frozenset({right.value})))
        elif isinstance(part.ops[0], ast.In) and isinstance(right, (ast.List, ast.Tuple, ast.Set)):
            out.append((name, frozenset(n.value for n in right.elts if isinstance(n, ast.Constant))))
    return tuple(fact for fact in out if fact[0])


def _cut(text: str) -> str:
    return text if len(text) <= 80 else text[:79] + "…"


def models_in(node: ast.AST) -> tuple[str, ...]:
    """The names of architectures among the strings of an expression."""
    strings = (n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str))
    named = tuple(dict.fromkeys(text for text in strings if MODEL.fullmatch(text)))
    if named:
        return named
    # "architecture in SOME_LIST": the list has no strings here, so its own name stands for them
    lists = [
        part.comparators[0].id
        for part in ast.walk(node)
        if isinstance(part, ast.Compare)
        and isinstance(part.comparators[0], ast.Name)
        and isinstance(part.ops[0], (ast.In, ast.NotIn))
        and "arch" in ast.unparse(part.left).lower()
    ]
    return tuple(dict.fromkeys(lists))


def _short(models: tuple[str, ...]) -> str:
    return ", ".join(models[:3]) + (f" and {len(models) - 3} more" if len(models) > 3 else "")


NOT = {"true": "false", "false": "true", "unknown": "unknown"}


def both(left: dict[str, str], right: dict[str, str]) -> dict[str, str]:
    """Kleene's "and" for each target."""
    out = {}
    for target, value in left.items():
        pair = (value, right[target])
        out[target] = "false" if "false" in pair else "unknown" if "unknown" in pair else "true"
    return out


def either(left: str, right: str) -> str:
    return "true" if "true" in (left, right) else "false" if left == right == "false" else "unknown"
