"""Compiling a Triton kernel ahead of time for a GPU that is not here, for the shared memory it needs.

Needs the package ``triton`` (extra ``kernels``), no GPU and no driver. The kernel's function is built from
its checked source (see ``triton_safe``) in a namespace that holds Triton's language, checked kernels and
constants only; nothing of the audited tree is imported or run. Compilation stops before a binary is made: the
amount of shared memory is known by then, and nothing is written to disk. Too much shared memory is no error
of the compiler: only the launch fails.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from auditor.native.triton_safe import ATTRIBUTES, chains, refusal

#: Modules below the language that a name may lead through.
_THROUGH = frozenset({"math", "extra", "cuda", "libdevice"})


class Uncompiled(Exception):
    """A kernel that was not compiled, with the reason."""


@dataclass(frozen=True)
class Outside:
    """A function of Triton's language under another name."""

    chain: str  # below triton.language


@dataclass(frozen=True)
class Source:
    """A kernel with what stands around it. ``names`` are the names outside that it uses: a constant, another
    ``Source``, or ``Outside``."""

    function: ast.FunctionDef
    path: str
    names: Mapping[str, Any]
    language: str = "tl"


@dataclass(frozen=True)
class Launch:
    """Types of the arguments (``*bf16``, ``i32``), compile-time values, and what is divisible by 16."""

    signature: Mapping[str, str]
    constants: Mapping[str, Any]
    divisible: frozenset[str]
    options: Mapping[str, Any]  # num_warps, num_stages


def compiler_version() -> str | None:
    """The version of the Triton that is installed, or None."""
    try:
        import triton
    except ImportError:
        return None
    return str(triton.__version__)


def shared_bytes(source: Source, launch: Launch, capability: tuple[int, int]) -> int:
    """Bytes of shared memory that one block needs. ``Uncompiled`` where it was refused or did not compile."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Triton has to say to its users
        return _shared_bytes(source, launch, capability)


def _shared_bytes(source: Source, launch: Launch, capability: tuple[int, int]) -> int:
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import ASTSource, make_backend

    kernel = _function(source, {})
    names = [a.arg for a in source.function.args.args]
    missing = [n for n in names if n not in launch.signature and n not in launch.constants]
    if missing:
        raise Uncompiled(f"nothing is declared for {', '.join(missing)}")
    signature = {n: "constexpr" if n in launch.constants else launch.signature[n] for n in names}
    constants = {n: launch.constants[n] for n in names if n in launch.constants}
    attributes = {
        (i,): [["tt.divisibility", 16]] for i, n in enumerate(names) if n in launch.divisible - set(constants)
    }
    target = GPUTarget("cuda", capability[0] * 10 + capability[1], 32)
    try:
        from triton._C.libtriton import ir

        backend = make_backend(target)
        options = backend.parse_options(dict(launch.options))
        context = ir.context()
        ir.load_dialects(context)
        backend.load_dialects(context)
        parsed = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=attributes)
        stages: dict[str, Any] = {}
        backend.add_stages(stages, options, parsed.language)
        metadata: dict[str, Any] = {"target": target, **options.__dict__}
        given = (options, backend.get_codegen_implementation(options), backend.get_module_map(), context)
        first = (target,) if "target" in inspect.signature(parsed.make_ir).parameters else ()  # since 3.5
        module = parsed.make_ir(*first, *given)
        for name in ("ttir", "ttgir", "llir"):
            module = stages[name](module, metadata)
        return int(metadata["shared"])
    except Exception as error:  # noqa: BLE001 - whatever the compiler says, the kernel is unchecked
        raise Uncompiled(_first_line(error)) from None


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).split("\n") if line.strip()]
    return f"{type(error).__name__}: {lines[-1] if lines else ''}"[:160].rstrip(": ")


def _function(source: Source, done: dict[int, Any]) -> Any:
    """The kernel as Triton wants it, built without its decorators and annotations."""
    import triton
    import triton.language as language

    if id(source.function) in done:
        return done[id(source.function)]
    why = refusal(source.function, frozenset(source.names), source.language)
    if why is not None:
        raise Uncompiled(f"not handed to the compiler: {why}")
    for chain in sorted(chains(source.function, source.language)):
        _member(language, chain)
    namespace: dict[str, Any] = {"__builtins__": {}, "__name__": "audited", source.language: language}
    namespace["_constexpr"] = language.constexpr
    for name, value in source.names.items():
        if isinstance(value, Source):
            namespace[name] = _function(value, done)
        elif isinstance(value, Outside):
            namespace[name] = _member(language, value.chain)
        else:
            namespace[name] = language.constexpr(value)
    text = _text(source)
    place = f"<audited {source.path}:{source.function.lineno}>"
    linecache.cache[place] = (len(text), None, text.splitlines(True), place)
    exec(compile(text, place, "exec"), namespace)  # noqa: S102 - a def without decorators: it is made, not run
    made = triton.jit(namespace[source.function.name])
    done[id(source.function)] = made
    return made


def _text(source: Source) -> str:
    """The function as text: constexpr parameters marked, other annotations and all decorators left out."""
    copied = ast.parse(ast.unparse(source.function)).body[0]
    assert isinstance(copied, ast.FunctionDef)
    copied.decorator_list = []
    copied.returns = None
    for argument in copied.args.args:
        marked = argument.annotation is not None and "constexpr" in ast.unparse(argument.annotation)
        argument.annotation = ast.Name("_constexpr", ast.Load()) if marked else None
    copied.body = [_Plain().visit(statement) for statement in copied.body]
    return ast.unparse(ast.fix_missing_locations(copied)) + "\n"


class _Plain(ast.NodeTransformer):
    """Annotated assignments as plain ones, those of compile-time values excepted."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if node.value is None:
            return ast.Pass()
        if "constexpr" in ast.unparse(node.annotation):
            node.annotation = ast.Name("_constexpr", ast.Load())
            return node
        return ast.Assign([node.target], node.value)


def _member(language: ModuleType, chain: str) -> Any:
    """A function or type of Triton's language by its dotted name; ``Uncompiled`` for anything else."""
    from triton.runtime.jit import JITFunction

    found: Any = language
    for part in chain.split("."):
        if isinstance(found, ModuleType) and found is not language:
            if found.__name__.rpartition(".")[2] not in _THROUGH:
                raise Uncompiled(f"not handed to the compiler: {chain}")
        elif not isinstance(found, ModuleType):
            if part not in ATTRIBUTES:
                raise Uncompiled(f"not handed to the compiler: {chain}")
            continue
        found = getattr(found, part, None)
    core = language.core  # type: ignore[attr-defined]
    plain = (core.dtype, core.constexpr)
    types = {core.constexpr, core.tensor, core.range, core.static_range}
    if isinstance(found, (JITFunction, *plain)) or core.is_builtin(found):
        return found
    if isinstance(found, type) and found in types:
        return found
    raise Uncompiled(f"not handed to the compiler: {chain} is no function of Triton's language")
