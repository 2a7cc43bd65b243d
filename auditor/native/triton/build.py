"""Compiling a Triton or Gluon kernel ahead of time for a GPU that is not here.

Needs the package ``triton`` (extra ``kernels``), no GPU and no driver. The kernel's function is built from
its checked source (see ``triton_safe``) in a namespace that holds Triton's language, checked kernels and
constants only; nothing of the audited tree is imported or run. Compilation stops before a binary is made: the
amount of shared memory is known by then, and nothing is written to disk. Too much shared memory is no error
of the compiler: only the launch fails. Making a binary of the assembly text is for
:mod:`auditor.trees.assembler`.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from auditor.native.triton.safe import ATTRIBUTES, chains, refusal

#: The modules whose functions a kernel may use, and those below them that a name may lead through.
LANGUAGES = ("triton.language", "triton.experimental.gluon.language")
_THROUGH = frozenset(
    "math extra cuda libdevice standard random nvidia ampere hopper blackwell async_copy mbarrier tma".split()
)


class Uncompiled(Exception):
    """A kernel that was not compiled, with the reason."""


@dataclass(frozen=True)
class Outside:
    """A module, type or function of Triton's language by its full name."""

    name: str  # triton.language.dot


@dataclass(frozen=True)
class Source:
    """A kernel with what stands around it. ``names`` are the names outside that it uses: a constant, another
    ``Source``, or ``Outside``."""

    function: ast.FunctionDef
    path: str
    names: Mapping[str, Any]
    gluon: bool = False


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


@dataclass(frozen=True)
class Assembly:
    """A kernel as PTX; ``shared`` are bytes of shared memory that the launch has to ask for."""

    ptx: str
    arch: str  # "sm_120a": what the assembler is told
    shared: int
    scratch: int  # bytes of global memory that the runtime has to bring


def shared_bytes(source: Source, launch: Launch, capability: tuple[int, int]) -> int:
    """Bytes of shared memory that one block needs. ``Uncompiled`` where it was refused or did not compile."""
    _module, metadata = _lowered(source, launch, capability, "llir")
    return int(metadata["shared"])


def assembly(source: Source, launch: Launch, capability: tuple[int, int]) -> Assembly:
    """The kernel as PTX. ``Uncompiled`` where it was refused or did not compile."""
    from triton.backends.nvidia.compiler import sm_arch_from_capability

    text, metadata = _lowered(source, launch, capability, "ptx")
    arch = str(sm_arch_from_capability(capability[0] * 10 + capability[1]))
    return Assembly(text, arch, int(metadata["shared"]), int(metadata.get("global_scratch_size") or 0))


def _lowered(
    source: Source, launch: Launch, capability: tuple[int, int], last: str
) -> tuple[Any, dict[str, Any]]:
    """What the stage ``last`` of the compiler makes, and what is known about it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Triton has to say to its users
        return _stages(source, launch, capability, last)


def _stages(
    source: Source, launch: Launch, capability: tuple[int, int], last: str
) -> tuple[Any, dict[str, Any]]:
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import ASTSource, make_backend

    kind: Any = ASTSource
    if source.gluon:
        from triton.experimental.gluon._runtime import GluonASTSource

        kind = GluonASTSource
    kernel = _function(source, {})
    names = [a.arg for a in source.function.args.args]
    missing = [n for n in names if n not in launch.signature and n not in launch.constants]
    if missing:
        raise Uncompiled(f"nothing is declared for {', '.join(missing)}")
    signature = {n: "constexpr" if n in launch.constants else launch.signature[n] for n in names}
    constants = {n: _constant(launch.constants[n]) for n in names if n in launch.constants}
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
        parsed = kind(fn=kernel, signature=signature, constexprs=constants, attrs=attributes)
        stages: dict[str, Any] = {}
        backend.add_stages(stages, options, parsed.language)
        metadata: dict[str, Any] = {"target": target, **options.__dict__}
        given = (options, backend.get_codegen_implementation(options), backend.get_module_map(), context)
        first = (target,) if "target" in inspect.signature(parsed.make_ir).parameters else ()  # since 3.5
        module = parsed.make_ir(*first, *given)
        for name, stage in stages.items():
            module = stage(module, metadata)
            if name == last:
                break
        return module, metadata
    except Exception as error:  # noqa: BLE001 - whatever the compiler says, the kernel is unchecked
        raise Uncompiled(_first_line(error)) from None


def _constant(value: Any) -> Any:
    """A compile-time value; what names a type of Triton is that type."""
    return _outside(value.name) if isinstance(value, Outside) else value


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).split("\n") if line.strip()]
    return f"{type(error).__name__}: {lines[-1] if lines else ''}"[:160].rstrip(": ")


def _function(source: Source, done: dict[int, Any]) -> Any:
    """The kernel as Triton wants it, built without its decorators and annotations."""
    from triton import jit
    from triton.language import constexpr

    if id(source.function) in done:
        return done[id(source.function)]
    if source.gluon:
        from triton.experimental.gluon import jit
    namespace: dict[str, Any] = {"__builtins__": {}, "__name__": "audited", "_constexpr": constexpr}
    for name, value in source.names.items():
        if isinstance(value, Source):
            namespace[name] = value  # built below, when this one is known to be allowed
        else:
            namespace[name] = _outside(value.name) if isinstance(value, Outside) else constexpr(value)
    modules = {name: value for name, value in namespace.items() if isinstance(value, ModuleType)}
    why = refusal(source.function, frozenset(source.names), frozenset(modules))
    if why is not None:
        raise Uncompiled(f"not handed to the compiler: {why}")
    for name, chain in sorted(chains(source.function, frozenset(modules))):
        _member(modules[name], chain)
    for name, value in source.names.items():
        if isinstance(value, Source):
            namespace[name] = _function(value, done)
    text = _text(source)
    place = f"<audited {source.path}:{source.function.lineno}>"
    linecache.cache[place] = (len(text), None, text.splitlines(True), place)
    exec(compile(text, place, "exec"), namespace)  # noqa: S102 - a def without decorators: it is made, not run
    made = jit(namespace[source.function.name])
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


def _outside(name: str) -> Any:
    """What a full name stands for; ``Uncompiled`` for anything but Triton's language and what is below it."""
    base = next((each for each in LANGUAGES if name == each or name.startswith(f"{each}.")), None)
    if base is None:
        raise Uncompiled(f"not handed to the compiler: the name {name}")
    found = import_module(base)
    return found if name == base else _member(found, name.removeprefix(f"{base}."), modules=True)


def _member(language: ModuleType, chain: str, *, modules: bool = False) -> Any:
    """A function or type of Triton's language by its dotted name (or a module of it); ``Uncompiled`` for
    anything else."""
    from triton.language import core
    from triton.runtime.jit import JITFunction

    found: Any = language
    for part in chain.split("."):
        if isinstance(found, ModuleType):
            found = _below(found, part)
            if isinstance(found, ModuleType) and part not in _THROUGH:
                raise Uncompiled(f"not handed to the compiler: {chain}")
        elif part not in ATTRIBUTES:
            raise Uncompiled(f"not handed to the compiler: {chain}")
    if modules and isinstance(found, ModuleType):
        return found
    if isinstance(found, (JITFunction, core.dtype, core.constexpr)) or core.is_builtin(found):
        return found
    if isinstance(found, type) and (found in _types(core) or _is_layout(found)):
        return found
    if type(found).__name__ == "ConstexprFunction" and str(found.__module__).startswith("triton."):
        return found  # of Triton's own: arithmetic on compile-time values
    raise Uncompiled(f"not handed to the compiler: {chain} is no function of Triton's language")


def _below(module: ModuleType, part: str) -> Any:
    found = getattr(module, part, None)
    if found is None and part in _THROUGH:  # a module that nobody has imported yet
        try:
            found = import_module(f"{module.__name__}.{part}")
        except ImportError:
            return None
    if isinstance(found, ModuleType) and not found.__name__.startswith(LANGUAGES):
        return None  # a module of Python that one of Triton's imports
    return found


def _types(core: ModuleType) -> set[type]:
    names = ("constexpr", "tensor", "range", "static_range", "pointer_type", "block_type")
    return {getattr(core, name) for name in names}


def _is_layout(found: type) -> bool:
    """Whether it is one of Gluon's layouts: they only hold numbers."""
    try:
        from triton.experimental.gluon.language import _layouts
    except ImportError:
        return False
    kinds = (_layouts.DistributedLayout, _layouts.SharedLayout)
    return issubclass(found, kinds) and found.__module__ == _layouts.__name__
