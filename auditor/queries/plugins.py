"""Queries that need code: a Python file beside the YAML, ours only.

A plugin is trusted code and therefore never comes from the audited tree. One from a folder that a user names
is refused when it is loaded, unless the user said ``--allow-plugins``.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from auditor.arch.targets import load_targets
from auditor.errors import UserError
from auditor.gates.model import Gate, Tri
from auditor.profile import Profile
from auditor.program.watch import Watched
from auditor.queries.load import default_folder
from auditor.queries.model import Query
from auditor.trees.base import SourceTree
from auditor.trees.watched import paths_like

if TYPE_CHECKING:
    from auditor.queries.engine import Match

_BUILTINS = frozenset(dir(builtins))


@dataclass(frozen=True)
class PluginContext:
    """What a plugin may look at. It must not write, start programs or use the network."""

    gates: tuple[Gate, ...]
    tree: SourceTree
    program: object
    targets: tuple[str, ...]
    reference: str
    profile: Profile | None
    query: Query | None = None
    memo: dict[Any, Any] = field(default_factory=dict)  # shared by all plugins of one run

    def truth(self, module: str, expression: ast.expr) -> dict[str, Tri]:
        """What an expression is worth per target at the end of a module; arguments and locals are unknown.

        For conditions that are no gates, such as a question about the vendor. Without a program to ask
        everything is unknown.
        """
        key = ("truth", module, ast.unparse(expression))
        if key not in self.memo:
            self.memo[key] = self._worth(module, expression)
        return dict(self.memo[key])

    def _worth(self, module: str, expression: ast.expr) -> dict[str, Tri]:
        from auditor.program.frames import Frame
        from auditor.program.modules import STEPS
        from auditor.program.program import Program
        from auditor.program.values import V, truth_of, unknown

        out: dict[str, Tri] = dict.fromkeys(load_targets(), "unknown")
        program = self.program
        found = program.module(module) if isinstance(program, Program) else None
        if not isinstance(program, Program) or found is None:
            return out
        around = program.module_frame(found)
        names = {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)}
        names -= around.env.keys() | _BUILTINS
        local = {name: V(unknown(f"local {name}")) for name in sorted(names)}
        frame = Frame(found, local, full=program.full, kind="function", parent=around)
        program.steps = STEPS
        value = program.ev(expression, frame)
        for index, name in enumerate(out):
            worth = truth_of(value.at(index))
            if worth is not None:
                out[name] = "true" if worth else "false"
        return out

    def lines(self, path: str) -> list[bytes]:
        """The lines of a file, for a plugin that says with :meth:`looked` which functions it looks at."""
        files = getattr(self.program, "files", None)
        if isinstance(files, Watched) and path in files:
            return files.peek(path).splitlines()
        return self.tree.read(path).splitlines()

    def looked(self, path: str, line: int) -> None:
        """Note that the function or statement at a line was looked at."""
        files = getattr(self.program, "files", None)
        if isinstance(files, Watched):
            files.look(path, lambda piece: piece.start <= line <= piece.last)

    def files_with(self, *words: str, within: str = "", pieces: bool = False) -> Iterator[tuple[str, bytes]]:
        """(path, bytes) of the project's modules that hold one of the words, by path.

        ``within`` is a regular expression that is found in their paths. The narrower it is, the fewer
        changes of the tree make a kept report worthless. ``pieces``: only statements, functions and methods
        that hold one of the words are looked at, and functions of which :meth:`looked` is told.
        """
        from auditor.queries.engine import source_paths

        wanted = [word.encode() for word in words]
        files = getattr(self.program, "files", None)
        if files is None:
            root = self.profile.root_of(self.tree.blobs()) if self.profile else ""
            pairs: Iterable[tuple[str, bytes]] = self.tree.read_many(
                source_paths(self.tree, self.profile, root)
            )
        elif isinstance(files, Watched):
            files.words.update((word, within) for word in words)
            pairs = ((path, files.peek(path)) for path in sorted(files))
        else:
            pairs = sorted(files.items())
        fits = re.compile(within).search
        for path, data in pairs:
            if not fits(path):
                continue
            excluded = self.profile is not None and self.profile.is_excluded(path)
            if any(word in data for word in wanted) and not excluded:
                if isinstance(files, Watched):
                    if pieces:
                        files.look_for(path, words)
                    else:
                        files.read.add(path)
                yield path, data

    def matching_paths(self, pattern: str) -> list[str]:
        """Paths of the tree that a regular expression fits whole, sorted. Cheaper than going through
        ``tree.blobs()``, after which a report holds for trees with exactly the same paths only."""
        return paths_like(self.tree, pattern)


def run_plugin(
    query: Query, context: PluginContext, folder: Path | None, found: Sequence[Match] = ()
) -> list[Match]:
    """The matches of a query with a plugin. UserError Q013 where there is none at its place.

    A plugin has ``refine(context, matches)``, which is given what the YAML itself matches and may drop
    matches or add captures, or ``run(context)``, whose matches are added to those.
    """
    assert query.plugin
    root = folder or default_folder()
    path = (root / query.id).parent / query.plugin
    if not re.fullmatch(r"[a-z][a-z0-9_]*\.py", query.plugin) or not path.is_file():
        raise UserError(
            "Q013",
            f"no plugin {query.plugin!r} beside the query",
            place=f"{root.name}/{query.id}.yaml",
            hints=["name a .py file in the same folder"],
        )
    module = _import(path, query.id)
    refine = getattr(module, "refine", None)
    if callable(refine):
        return list(refine(context, list(found)))
    run = getattr(module, "run", None)
    if not callable(run):
        raise UserError(
            "Q013",
            "the plugin has no function `run(context)` and no `refine(context, matches)`",
            place=f"{root.name}/{query.id}.yaml",
        )
    return [*found, *run(context)]


def _import(path: Path, id_: str) -> ModuleType:
    spec = spec_from_file_location("auditor_query_" + re.sub(r"\W", "_", id_), path)
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
