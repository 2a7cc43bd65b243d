"""A structural patch carried to a tree: every edit in order, in memory, all or nothing."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from auditor.lazyre import lazy
from auditor.patching.edits import conditions, model, statements, texts, values
from auditor.patching.edits.anchors import module_itself, resolve, resolve_name
from auditor.patching.edits.expand import expanded
from auditor.patching.edits.found import elsewhere
from auditor.patching.edits.kernel import Exposed, signature_faults
from auditor.patching.edits.miss import Miss, NotHere
from auditor.patching.edits.operators import registered
from auditor.patching.edits.signs import required, there
from auditor.patching.edits.source import Splice, read_source, splice
from auditor.patching.edits.tree import Place, Tree
from auditor.patching.model import HunkResult, Outcome, Status, status_of
from auditor.patching.port.check import compiles
from auditor.patching.symbols import Import, module_of, read_module, table_of, undefined, unresolved
from auditor.profile import Profile
from auditor.trees.base import SourceTree
from auditor.trees.overlay import OverlayTree

_PYTHON: dict[type[model.Strict], Callable[..., list[Splice]]] = {
    model.AddImport: statements.add_import,
    Exposed: statements.expose,
    model.Narrow: conditions.condition,
    model.Widen: conditions.condition,
    model.InsertArm: conditions.arm,
    model.Insert: statements.insert,
    model.Guard: conditions.guard,
    model.Replace: statements.replace,
    model.SetDefault: values.set_default,
    model.SetConstant: values.set_constant,
    model.SetArgument: values.set_argument,
    model.SetCall: values.set_call,
    model.AddMember: values.add_member,
    model.DeclareFlag: statements.declare_flag,
}


#: Proof of an import that is there. It serves the other edits: the patch is not partly upstream for it.
_IMPORTED = "imported already"
#: Proof of a sign that has to be there, and is. It says nothing about what the patch brings.
REQUIRED = "as required"


@dataclass
class _Work:
    tree: Tree
    files: texts.Files | None
    results: list[HunkResult] = field(default_factory=list)
    added: dict[str, list[tuple[int, str]]] = field(default_factory=dict)  # path -> (result, code put in)
    touched: set[str] = field(default_factory=set)
    hints: bool = True  # whether a miss is worth a look through the package

    def edit(self, index: int, edit: model.Strict) -> None:
        """Make one edit; what becomes of it is added to the results."""
        named = named_by(edit)
        try:
            result = self._made(index, edit, named)
        except NotHere as left:
            result = HunkResult(_path_of(named), index, "skipped", "", note=left.fact)
        except Miss as miss:
            result = HunkResult(_path_of(named), index, "conflict", "", note=miss.note())
        except (RecursionError, MemoryError):
            note = "P073: nested too deeply to be read"
            result = HunkResult(_path_of(named), index, "conflict", "", note=note)
        self.results.append(result)

    def _made(self, index: int, edit: model.Strict, named: str) -> HunkResult:
        if isinstance(edit, model.Require):
            place = required(self.tree, edit)
            path, symbol = (place.path, place.symbol) if place else (_path_of(named), "")
            return HunkResult(path, index, "upstream", REQUIRED, symbol=symbol)
        if isinstance(edit, (model.AddFile, model.ReplaceFile, model.DeleteFile)):
            path, data, changes = texts.whole_file(self.tree, edit, self.files)
            if not changes:
                return HunkResult(path, index, "upstream", "already so")
            self._put(path, data, (data or b"").decode("utf-8", "replace"))
            return HunkResult(path, index, "clean", "whole file")
        if type(edit) in _PYTHON:
            return self._python(index, edit, named)
        return self._other(index, edit)

    def _python(self, index: int, edit: model.Strict, named: str) -> HunkResult:
        handler = _PYTHON[type(edit)]
        if isinstance(edit, (model.SetConstant, model.AddMember)) and edit.name.isidentifier():
            place = resolve_name(self.tree, named, edit.name)
        elif isinstance(edit, Exposed):
            place = module_itself(self.tree, named)
        else:
            place = resolve(self.tree, named)
        try:
            splices = handler(place, edit)
            data = _spliced(place, splices) if splices else b""
            if splices:
                _check_again(handler, place, data, edit)
        except Miss as miss:
            if miss.pattern and self.hints:
                others = elsewhere(self.tree, miss.pattern, place.path)
                miss.nearest += tuple(f"in {other}" for other in others)
            return HunkResult(place.path, index, "conflict", "", symbol=place.symbol, note=miss.note())
        status: Status = "clean" if not place.moved else "moved" if place.sure else "look"
        asked = _path_of(named)
        base = HunkResult(
            asked if place.moved else place.path,
            index,
            status,
            "anchor found",
            to_path=place.path if place.moved else "",
            symbol=place.symbol,
            note=place.moved,
        )
        if not splices:
            done = _IMPORTED if isinstance(edit, model.AddImport) else "already so"
            return replace(base, status="upstream", proof=done)
        line = place.source.data.count(b"\n", 0, min(splices).start) + 1
        self._put(place.path, data, "\n".join(each.text.decode("utf-8", "replace") for each in splices))
        return replace(base, line=line)

    def _other(self, index: int, edit: model.Strict) -> HunkResult:
        from auditor.patching.edits import config

        path = self.tree.path(edit.path)  # type: ignore[attr-defined]
        data = self.tree.read(path)
        splices = config.change(data, path, edit)
        if not splices:
            return HunkResult(path, index, "upstream", "already so")
        new = splice(data, splices)
        if config.change(new, path, edit):
            raise Miss("P072", "made twice, the edit would change the file twice")
        config.check(new, path)
        added = "\n".join(each.text.decode("utf-8", "replace") for each in splices)
        self._put(path, new, added)
        return HunkResult(
            path, index, "clean", "exact text", line=data.count(b"\n", 0, min(splices).start) + 1
        )

    def make(self, index: int, body: model.Strict, only: str | None) -> None:
        """Make an edit, or all that it stands for. ``only``: see :func:`apply`."""
        if isinstance(body, model.OneOf):
            self._one_of(index, body, only)
            return
        try:
            parts = expanded(body, self.tree)
        except Miss as miss:
            self.results.append(HunkResult(_path_of(named_by(body)), index, "conflict", "", note=miss.note()))
            return
        for part in parts:
            if only is None or concerns(part, only):
                self.edit(index, part)

    def _one_of(self, index: int, body: model.OneOf, only: str | None) -> None:
        """The first variant that goes; a conflict with what was wrong with each where none does.

        Each is tried where it says, then each wherever its place may have gone to.
        """
        hints, self.hints = self.hints, False
        try:
            for self.tree.search in (False, True):
                why: list[str] = []
                for number, variant in enumerate(body.variants):
                    note = self._variant(index, variant, only)
                    if note is None:
                        self._elsewhere(index, variant.title, first=number == 0)
                        return
                    why += [f"{variant.title}: {note}"] if note else []
        finally:
            self.hints, self.tree.search = hints, True
        if why:
            note = "P071: no variant goes; " + "; ".join(why)
            self.results.append(HunkResult(_path_of(named_by(body)), index, "conflict", "", note=note))

    def _variant(self, index: int, variant: model.Variant, only: str | None) -> str | None:
        """Why a variant does not go, "" where it is not for this file; None where it was made."""
        for sign in variant.when:
            if (only is None or concerns(sign, only)) and not there(self.tree, sign):
                return f"{sign.in_} is of another form"
        if not variant.edits:
            return None if only is None or any(concerns(sign, only) for sign in variant.when) else ""
        before = (dict(self.tree.files), len(self.results), dict(self.added), set(self.touched))
        for edit in variant.edits:
            self.make(index, edit.body(), only)
        made = self.results[before[1] :]
        missed = next((result.note for result in made if result.status == "conflict"), None)
        if made and missed is None:
            return None
        self.tree.files, self.added, self.touched = before[0], before[2], before[3]
        del self.results[before[1] :]
        return missed or ""

    def _elsewhere(self, index: int, title: str, *, first: bool) -> None:
        """What another variant than the first made is moved: to where, and in which form of the tree."""
        if first:
            return
        for at, result in enumerate(self.results):
            if result.index == index and result.status == "clean":
                self.results[at] = replace(result, status="moved", to_path=result.path, note=title)

    def _put(self, path: str, data: bytes | None, code: str) -> None:
        self.tree.files[path] = data
        self.touched.add(path)
        if data is not None and path.endswith((".py", ".pyi")):
            self.added[path] = [*self.added.get(path, ()), (len(self.results), code)]


def _path_of(named: str) -> str:
    """How a result names the place of an edit: a path, also for a module that is not there."""
    if "/" in named or named.endswith(".py"):
        return named.partition(":")[0]
    return named.replace(".", "/") + ".py"


def _spliced(place: Place, splices: Sequence[Splice]) -> bytes:
    try:
        return splice(place.source.data, splices)
    except ValueError:
        raise Miss("P075", f"two of the places in {place.shown()} lie in each other") from None


def _check_again(handler: Callable[..., list[Splice]], place: Place, data: bytes, edit: model.Strict) -> None:
    """The result parses, and the edit finds itself done there."""
    source = read_source(data, place.path)
    nodes: list[ast.AST] = source.named(place.parts) if place.parts else [source.tree]
    try:
        again = handler(Place(source, place.parts, nodes), edit)
    except Miss as miss:
        raise Miss("P072", f"the edit does not find itself done: {miss.fact}") from None
    if again:
        raise Miss("P072", "made twice, the edit would change the file twice")


def apply(
    edits: Sequence[model.Edit],
    tree: SourceTree,
    profile: Profile,
    *,
    files: texts.Files | None = None,
    only: str | None = None,
) -> Outcome:
    """What becomes of edits on a tree. ``files`` gives the content of a name below ``files/``.

    ``only`` is the one file of a tree that is an example: edits elsewhere are left out, and imports need not
    lead anywhere.
    """
    work = _Work(Tree(tree, profile), files)
    for index, edit in enumerate(edits):
        work.make(index, edit.body(), only)
    _check_names(work, tree, profile, imports=only is None)
    if only is None:
        _check_operators(work, edits)
    if len(edits) > 1 and work.touched and all(r.status != "conflict" for r in work.results):
        _check_done(work, edits, only)
    words = {result.status for result in work.results if result.proof not in (_IMPORTED, REQUIRED)} or {
        "upstream"
    }
    if words == {"skipped"}:
        return Outcome("skipped", tuple(work.results), note="an installed copy has none of its files")
    words.discard("skipped")
    status = status_of(words)
    if status in ("conflict", "upstream"):
        return Outcome(status, tuple(work.results))
    kept = {path: work.tree.files[path] for path in sorted(work.touched) if _differs(work, tree, path)}
    return Outcome(status, tuple(work.results), kept)


def _check_operators(work: _Work, edits: Sequence[model.Edit]) -> None:
    """Every operator that is registered here is registered once in the result."""
    for index, body in ((index, body) for index, edit in enumerate(edits) for body in edit.bodies()):
        own = [at for at, result in enumerate(work.results) if result.index == index]
        if not isinstance(body, model.RegisterKernel) or any(
            work.results[at].status in ("conflict", "skipped") for at in own
        ):
            continue
        found = registered(work.tree, body.operator)
        alone = isinstance(edits[index].body(), model.RegisterKernel)
        faults = signature_faults(work.tree, body) if alone and len(found) == 1 else []
        if (len(found) == 1 and not faults) or not (found or alone):
            continue  # the second: it stands in a variant that was not made
        note = f"P077: {faults[0]}" if faults else f"P079: nothing registers {body.operator}"
        if len(found) > 1:
            note = f"P079: {body.operator} is taken: it is registered {len(found)} times, by "
            note += ", ".join(each.shown() for each in found[:4])
        work.results[own[0]] = replace(work.results[own[0]], status="conflict", proof="", note=note)


def _check_done(work: _Work, edits: Sequence[model.Edit], only: str | None) -> None:
    """All edits find themselves done in the result of all; else the patch could not be told from upstream."""
    again = _Work(work.tree, work.files, hints=False)
    for index, edit in enumerate(edits):
        again.make(index, edit.body(), only)
    for at, result in enumerate(again.results[: len(work.results)]):
        if result.status not in ("upstream", "skipped"):
            note = "P072: after later edits of the patch this one does not find itself done"
            note += f" ({result.note})" if result.note else ""
            work.results[at] = replace(work.results[at], status="conflict", proof="", note=note)


def concerns(edit: model.Strict, path: str) -> bool:
    """Whether an edit names a file, or a symbol that may be in it."""
    named = named_by(edit)
    if "/" in named or named.endswith(".py"):
        return named.partition(":")[0] == path
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return f"{named}.".startswith(f"{module}.")


def named_by(edit: model.Strict) -> str:
    """What an edit says about its place: a path, or the name of a symbol."""
    if isinstance(edit, model.OneOf):
        bodies = [each.body() for variant in edit.variants for each in variant.edits]
        return named_by(bodies[0]) if bodies else ""
    return str(getattr(edit, "path", "") or getattr(edit, "in_", ""))


def _differs(work: _Work, tree: SourceTree, path: str) -> bool:
    before = tree.read(path) if path in tree.blobs() else None
    return work.tree.files[path] != before


_WORD = lazy(r"[A-Za-z_]\w*")


def _check_names(work: _Work, tree: SourceTree, profile: Profile, *, imports: bool) -> None:
    """Names that edits brought in lead somewhere; a conflict at the edit's file where one does not."""
    changes = {path: work.tree.files[path] for path in work.touched if _differs(work, tree, path)}
    now: SourceTree = OverlayTree(tree, changes) if imports and changes else tree
    for path, code in sorted(work.added.items()):
        data = work.tree.files.get(path)
        if data is None:
            continue
        if not compiles(data):
            _refuse(work, path, "", f"P073: {path} would not compile")
            continue
        words = set(_WORD.findall("\n".join(text for _, text in code)))
        before = tree.read(path) if path in tree.blobs() else b""
        try:
            missing = undefined(table_of(data), words)
            missing -= undefined(table_of(before), words)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            _refuse(work, path, "", f"P073: {path} does not parse")
            continue
        for name in sorted(missing):
            if not _from_star(work, path, name):
                _refuse(work, path, name, f"P074: {name} is not defined in {path}; add-import brings it in")
        if imports and "import" in words:
            for item, why in _new_imports(before, data, path, now, profile, words):
                _refuse(
                    work,
                    path,
                    item.name or item.module,
                    f"P074: line {item.line} of {path}: {why}{_went(work.tree, item)}",
                )


def _from_star(work: _Work, path: str, name: str, depth: int = 3) -> bool:
    """Whether a name may come from an ``import *``; of modules outside of the tree nobody can tell."""
    module = work.tree.imports(path)
    for star in module.stars if module else ():
        found = work.tree.module_path(tuple(star.split(".")))
        if found is None:
            return True
        inner = work.tree.imports(found)
        if inner is None or name in inner.symbols or any(item.name == name for item in inner.imports):
            return True
        if depth and found != path and _from_star(work, found, name, depth - 1):
            return True
    return False


def _new_imports(
    before: bytes, after: bytes, path: str, now: SourceTree, profile: Profile, words: set[str]
) -> list[tuple[Import, str]]:
    name, package = module_of(path, profile), path.endswith("__init__.py")
    new = read_module(after, name, package=package)
    old = read_module(before, name, package=package)
    known = {(item.module, item.name) for item in old.imports} if old else set()
    fresh = [
        item
        for item in (new.imports if new else ())
        if (item.module, item.name) not in known and (not item.name or item.name in words or item.name == "*")
    ]
    return list(unresolved(fresh, now, profile))


def _went(tree: Tree, item: Import) -> str:
    """Where a module or a name that is imported in vain is now, if that is plain."""
    named = f"{item.module}.{item.name}" if item.name else item.module
    try:
        place = resolve(tree, named)
    except Miss:
        return ""
    module = module_of(place.path, tree.profile)
    return f"; nearest: {'.'.join((module, *place.parts))}" if module else ""


def _refuse(work: _Work, path: str, name: str, note: str) -> None:
    """A conflict of the edit that brought a name into a file."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    owners = [at for at, code in work.added[path] if word.search(code)] or [work.added[path][0][0]]
    work.results[owners[0]] = replace(work.results[owners[0]], status="conflict", proof="", note=note)
