"""What registering a kernel comes to: the plain edits of each route, in the words of this tree.

Which function of the project registers an operator, and which compiles native code at run time, the profile
says; here it is looked up which of them this tree has.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator

from auditor.patching.edits import model
from auditor.patching.edits.anchors import module_itself, resolve
from auditor.patching.edits.conditions import broken
from auditor.patching.edits.found import every, inside
from auditor.patching.edits.miss import Miss
from auditor.patching.edits.schema import mismatches, read_schema
from auditor.patching.edits.source import dedented, expression, read_source, statements
from auditor.patching.edits.tree import Tree
from auditor.profile import JitLoader, OperatorFunction


class KernelFile(model.AddFile, frozen=True, kw_only=True):
    """A kernel's own file with its registration below: what is added is the content and ``tail``."""

    tail: str = ""


class Exposed(model.AddImport, frozen=True, kw_only=True):
    """An import in a module that passes names on, which is exactly the place that is meant."""


def kernel(edit: model.RegisterKernel, tree: Tree) -> Iterator[model.Strict]:
    """The edits that a kernel stands for, without its flag. ``Miss`` P070 where the tree lacks the route."""
    if edit.native is not None:
        yield from _native(edit, edit.native)
    pieces, imports = _pieces(edit, tree)
    if edit.file is not None and _is_module(edit.file.path, edit.in_, tree):
        tail = "".join(f"\n\n{dedented(piece).rstrip()}\n" for piece in pieces)
        head = "".join(f"{line}  # noqa: E402\n" for line in imports if line != "import torch")
        yield KernelFile(
            path=edit.file.path, from_=edit.file.from_, tail=f"\n\n{head}{tail}" if head else tail
        )
    else:
        if edit.file is not None:
            yield edit.file
        for line in imports:
            yield model.AddImport(in_=edit.in_, import_=line)
        for piece in pieces:
            yield model.Insert(in_=edit.in_, at="end", code=piece)
    if edit.jit is not None:
        loader = jit_loader(tree)
        yield model.AddFile(path=f"{loader.folder}/{loader.sources}/{edit.jit.source}", from_=edit.jit.from_)
    if edit.expose:
        names = ", ".join(node.name for node in statements(edit.wrapper) if isinstance(node, ast.FunctionDef))
        yield Exposed(in_=edit.expose, import_=f"from {_module(edit.in_, tree)} import {names}")
    for site in edit.dispatch:
        first, inner = (_missing(lines, site, tree) for lines in _divided(site))
        body = _headed(inner, dedented(site.code))
        test = broken(condition(site), "    if ", "\n")  # most stand in the body of a function
        test = test.replace("\n    ", "\n")
        code = _headed(first, f"if {test}:\n" + textwrap.indent(body, "    "))
        yield model.Insert(in_=site.in_, before=site.at, within=site.within, count=site.count, code=code)


def _divided(site: model.Dispatch) -> tuple[list[str], list[str]]:
    """Imports that the condition itself needs, and those that only the code under it does."""
    tested = {node.id for node in ast.walk(expression(condition(site))) if isinstance(node, ast.Name)}
    first: list[str] = []
    inner: list[str] = []
    for line in site.imports:
        names = {
            (alias.asname or alias.name).partition(".")[0]
            for node in statements(line)
            if isinstance(node, (ast.Import, ast.ImportFrom))
            for alias in node.names
        }
        (first if names & tested else inner).append(line.strip())
    return first, inner


def _headed(imports: list[str], code: str) -> str:
    """Code below its imports, an empty line between them, as formatters leave it."""
    return "".join(f"{line}\n" for line in imports) + ("\n" if imports else "") + code


def _missing(imports: list[str], site: model.Dispatch, tree: Tree) -> list[str]:
    """Imports without those that the module, or the function above the call site, has already."""
    try:
        place = resolve(tree, site.in_)
    except Miss:
        return imports  # the edit itself says what is not there
    own = {name for scope in place.scopes if scope is not place.source.tree for name in _binds(scope)}
    there = {line for node in place.source.tree.body for name, line in _brought(node) if name not in own}
    for found in inside(place, every(place, site.at), site.within):
        block, index = place.source.block_of(place.source.statement_of(found.node))
        there |= {line for node in block[:index] for _, line in _brought(node)}
    return [
        text
        for text in imports
        if not {line for node in statements(text) for _, line in _brought(node)} <= there
    ]


def _binds(scope: ast.AST) -> Iterator[str]:
    """Names that are, or may be, a scope's own, so that the module's are not seen in it."""
    for node in ast.walk(scope):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.stmt):
            yield from (name for name, _ in _brought(node))


def _brought(node: ast.stmt) -> list[tuple[str, str]]:
    """What an import brings: name and statement, one by one; nothing for another statement."""
    if not isinstance(node, (ast.Import, ast.ImportFrom)):
        return []
    head = "import "
    if isinstance(node, ast.ImportFrom):
        head = f"from {'.' * node.level}{node.module or ''} import "
    return [((a.asname or a.name).partition(".")[0], head + ast.unparse(a)) for a in node.names]


def condition(site: model.Dispatch) -> str:
    """What decides at a call site: ``when and not off``; an ``off`` that says ``not X`` is ``and X``."""
    off = expression(site.off)
    if isinstance(off, ast.UnaryOp) and isinstance(off.op, ast.Not):
        operand = ast.unparse(off.operand)
        plain = isinstance(off.operand, ast.BoolOp) and isinstance(off.operand.op, ast.And)
        return f"{_joined(site.when)} and {operand if plain else _joined(operand)}"
    return f"{_joined(site.when)} and not {_joined(site.off)}"


def _pieces(edit: model.RegisterKernel, tree: Tree) -> tuple[list[str], list[str]]:
    """Statements for the module of the operator, and the imports that they need."""
    pieces: list[str] = []
    imports = ["import torch"] if edit.implementation or edit.fake else []
    name = edit.operator.partition("::")[2]
    if edit.jit is not None:
        loader = jit_loader(tree)
        pieces.append(_builder(edit.jit, name, loader, imports))
    if edit.through == "project":
        pieces += _by_project(edit, name, tree, imports)
    else:
        pieces += _by_torch(edit)
    if edit.wrapper:
        pieces.append(edit.wrapper)
    return pieces, imports


def _by_project(edit: model.RegisterKernel, name: str, tree: Tree, imports: list[str]) -> list[str]:
    register = operator_function(tree, edit.operator)
    module, _, function = register.function.rpartition(".")
    imports.append(f"from {module} import {function}")
    written = ", ".join(f'"{each}"' for each in read_schema(edit.schema).written)
    given = {register.name: f'"{name}"', register.mutates: f"[{written}]"}
    given[register.fake] = function_of(edit.fake)
    pieces = [] if edit.fake.isidentifier() else [edit.fake]
    if edit.implementation.isidentifier():
        own = edit.implementation
        each = [own, *(f"{key}={value}" for key, value in given.items())]
        pieces.append(f"{own} = {function}(\n" + "".join(f"    {one},\n" for one in each) + ")\n")
    else:
        words = ", ".join(f"{key}={value}" for key, value in given.items())
        pieces.append(f"@{function}({words})\n" + dedented(edit.implementation))
    return pieces


def _by_torch(edit: model.RegisterKernel) -> list[str]:
    pieces = []
    if edit.implementation:
        pieces.append(f'torch.library.define("{edit.operator}", "{edit.schema}")\n')
        if edit.implementation.isidentifier():
            given = f'"{edit.operator}", "{edit.device}", {edit.implementation}'
            pieces.append(f"torch.library.impl({given})\n")
        else:
            head = f'@torch.library.impl("{edit.operator}", "{edit.device}")\n'
            pieces.append(head + dedented(edit.implementation))
    if edit.fake.isidentifier():
        pieces.append(f'torch.library.register_fake("{edit.operator}", {edit.fake})\n')
    elif edit.fake:
        pieces.append(f'@torch.library.register_fake("{edit.operator}")\n' + dedented(edit.fake))
    return pieces


def function_of(text: str) -> str:
    """The name of the function that a text defines or is; "" where there is none."""
    if text.isidentifier():
        return text
    found = [node.name for node in statements(text) if isinstance(node, ast.FunctionDef)] if text else []
    return found[0] if found else ""


def _builder(jit: model.Jit, name: str, loader: JitLoader, imports: list[str]) -> str:
    """The function that compiles the kernel once."""
    needed = [loader.load, *([loader.cache] if loader.cache else [])]
    if jit.suffix:
        needed.append(loader.override)
    if not loader.cache:
        imports.append("import functools")
    for full in needed:
        module, _, function = full.rpartition(".")
        imports.append(f"from {module} import {function}")
    load = loader.load.rpartition(".")[2]
    lines = [
        f'    "{name}",',
        f'    {loader.files[0]}=["{jit.source}"],',
        f'    {loader.exports[0]}=[("{jit.export or name}", "{jit.function}")],',
    ]
    if jit.arguments.strip():
        lines.append(f"    {' '.join(jit.arguments.split()).rstrip(',')},")
    call = "\n".join([f"return {load}(", *lines, ")"])
    if jit.suffix:
        override = loader.override.rpartition(".")[2]
        device = "*torch.cuda.get_device_capability()"
        call = f'with {override}({device}, "{jit.suffix}"):\n' + textwrap.indent(call, "    ")
        if "import torch" not in imports:
            imports.insert(0, "import torch")
    once = loader.cache.rpartition(".")[2] or "functools.lru_cache(maxsize=None)"
    return f"@{once}\ndef _jit_{name}_module():\n" + textwrap.indent(call, "    ") + "\n"


def jit_loader(tree: Tree) -> JitLoader:
    """The loader that this tree has. ``Miss`` P070 where it has none of the profile's."""
    for loader in tree.profile.jit_loaders:
        if _defines(tree, loader.load) and loader.files and loader.exports and loader.override:
            return loader
    names = [loader.load for loader in tree.profile.jit_loaders]
    raise Miss("P070", "this tree has no function that compiles kernels at run time", names[:3])


def operator_function(tree: Tree, operator: str) -> OperatorFunction:
    """The project's decorator that registers an operator of a namespace. ``Miss`` P070, P075."""
    known = [each for each in tree.profile.operators if each.decorates and each.mutates and each.fake]
    here = [each for each in known if _defines(tree, each.function)]
    if not here:
        fact = f"the profile {tree.profile.name} names no function that registers operators"
        if known:
            fact = "this tree has none of the functions that register operators"
        raise Miss("P070", fact, [each.function for each in known][:3] or ["through: torch"])
    namespace = operator.partition("::")[0]
    for each in here:
        if each.namespace == namespace:
            return each
    spaces = sorted({each.namespace for each in here})
    raise Miss(
        "P075",
        f"{operator} cannot be registered there: the namespace is {' or '.join(spaces)}",
        ["through: torch"],
    )


def _defines(tree: Tree, full: str) -> bool:
    module, _, name = full.rpartition(".")
    path = tree.module_path(tuple(module.split(".")))
    return path is not None and bool(read_source(tree.read(path), path).named((name,)))


def signature_faults(tree: Tree, edit: model.RegisterKernel) -> list[str]:
    """Why functions of the module that an edit only names cannot stand for its schema."""
    if not edit.schema or edit.native is not None:
        return []
    place = module_itself(tree, edit.file.path if edit.file is not None else edit.in_)
    out = []
    for name, text in (("implementation", edit.implementation), ("fake", edit.fake)):
        if text.isidentifier():
            found = [node for node in place.source.named((text,)) if isinstance(node, ast.FunctionDef)]
            if len(found) != 1:
                out.append(f"{place.path} has {len(found)} functions {text}, which is the {name}")
            else:
                typed = edit.through == "project" and name == "implementation"
                out += mismatches(read_schema(edit.schema), found[0], typed=typed)
    return out


def _module(where: str, tree: Tree) -> str:
    """``in`` as an import name, where it is a path."""
    if "/" not in where and not where.endswith(".py"):
        return where
    path = where.partition(":")[0].removesuffix(".py").removesuffix("/__init__")
    for build in tree.profile.native.builds:
        if build.python and path.startswith(f"{build.python}/"):
            return path[len(build.python) + 1 :].replace("/", ".")
    return tree.profile.below_root(path).replace("/", ".")


def _is_module(path: str, where: str, tree: Tree) -> bool:
    """Whether a file is the module that ``in`` names."""
    return path.endswith(".py") and _module(path, tree) == _module(where, tree)


def _joined(text: str) -> str:
    """A condition as an operand; calls and names need no brackets."""
    flat = " ".join(text.split())
    plain = flat.replace(".", "").replace("_", "").replace("()", "").isalnum()
    return flat if plain else f"({flat})"


def _native(edit: model.RegisterKernel, native: model.Native) -> Iterator[model.Strict]:
    for part in (native.source, native.cmake, native.archs):
        if part is not None:
            yield part
    name = edit.operator.partition("::")[2]
    made = (
        (native.header, ""),
        (native.definition, f'  m.def("{name}{edit.schema}");\n'),
        (native.implementation, f'  m.impl("{name}", torch::k{edit.device}, &{name});\n'),
    )
    for text, default in made:
        if text is not None:
            yield model.EditText(
                path=text.path,
                before=text.before,
                after=text.after,
                insert=text.insert or default,
                count=text.count,
            )
