"""Reads query files from a folder, strictly, and refuses what the engine could not run.

An id is the path below the folder without ``.yaml``. Folders and files whose name begins with ``_`` or ``.``,
``profiles/`` (what is specific to the audited project), ``dependencies/`` and ``triton/`` hold no queries.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import msgspec

from auditor import yamlio
from auditor.data import data_root
from auditor.errors import UserError
from auditor.queries.checks import Problem, check
from auditor.queries.model import Query

_NOT_QUERIES = frozenset({"profiles", "dependencies", "triton"})


@dataclass(frozen=True)
class QueryFile:
    """A query with where it was written."""

    query: Query
    path: Path
    name: str  # what errors call the file: "queries/moe/x.yaml"
    document: yamlio.Document

    def place(self, where: str) -> str:
        """``file:line:column`` of a dotted path inside the file, or of the nearest thing above it."""
        steps: list[str | int] = [int(s) if s.isdecimal() else s for s in where.split(".") if s]
        if steps and isinstance(steps[-1], str):
            return self.document.place(*steps[:-1], key=steps[-1])
        return self.document.place(*steps)


def default_folder() -> Path:
    """The queries that ship with this tool."""
    return data_root() / "queries"


def query_paths(folder: Path) -> list[tuple[str, Path]]:
    """(id, file) of every query file below a folder, sorted by id. UserError Q001 if there is no folder."""
    if not folder.is_dir():
        raise UserError(
            "Q001", "no such folder of queries", place=folder.name, hints=["audit query new AREA/NAME"]
        )
    found = []
    for path in folder.rglob("*.yaml"):
        parts = path.relative_to(folder).parts
        if parts[0] in _NOT_QUERIES or any(part[0] in "._" for part in parts) or not path.is_file():
            continue
        found.append(("/".join(parts)[: -len(".yaml")], path))
    return sorted(found)


def load_files(folder: Path | None = None, only: Sequence[str] = ()) -> tuple[QueryFile, ...]:
    """The query files of a folder (default: ours), or only those with the given ids.

    UserError Q001 for what is not strict YAML, Q002 for an unknown or ill-typed field, Q003 where the id is
    not the path, Q009 for an id that does not exist; other faults are left to :func:`lint` or
    :func:`load_queries`.
    """
    root = folder or default_folder()
    paths = query_paths(root)
    known = [id_ for id_, _ in paths]
    for wanted in only:
        if wanted not in known:
            near = get_close_matches(wanted, known, n=1, cutoff=0.3)
            raise UserError(
                "Q009",
                f"no query {wanted!r}",
                place=root.name,
                hints=[f"audit query show {near[0]}" if near else "audit query list"],
            )
    return tuple(load_file(path, id_, root) for id_, path in paths if not only or id_ in only)


def load_file(path: Path, id_: str, root: Path) -> QueryFile:
    """One query file; see :func:`load_files` for the errors."""
    name = f"{root.name}/{id_}.yaml"
    document = yamlio.load(path, name, code="Q001")
    document.code = "Q002"
    query = document.convert(Query)
    if query.id != id_:
        raise document.error(
            f"the id is {query.id!r} but the path says {id_!r}",
            key="id",
            code="Q003",
            hints=(f"write `id: {id_}`",),
        )
    return QueryFile(query, path, name, document)


def load_queries(
    folder: Path | None = None, only: Sequence[str] = (), *, allow_plugins: bool = False
) -> tuple[Query, ...]:
    """Queries that can be run, by id. Raises the first fault as a UserError with its file and line.

    Plugins are code: those of a folder other than ours are refused (Q013) unless ``allow_plugins``.
    """
    files = load_files(folder, only)
    ours = folder is None or folder.resolve() == default_folder().resolve()
    for file in files:
        if file.query.plugin and not ours and not allow_plugins:
            raise UserError(
                "Q013",
                "this query runs a program of its own",
                place=file.place("plugin"),
                hints=["read it, then add --allow-plugins"],
            )
        for problem in check(file.query):
            if problem.fatal:
                raise UserError(
                    problem.code, problem.message, place=file.place(problem.where), hints=problem.hints
                )
    return tuple(file.query for file in files)


def lint(files: Sequence[QueryFile]) -> list[Problem]:
    """Every fault of the given files, each with its place; empty means nothing to say."""
    return [
        msgspec.structs.replace(problem, place=file.place(problem.where))
        for file in files
        for problem in check(file.query)
    ]


def lint_folder(folder: Path | None = None, only: Sequence[str] = ()) -> list[Problem]:
    """:func:`lint`, where a file that cannot even be read is one problem among the others, not an error."""
    root = folder or default_folder()
    problems: list[Problem] = []
    for id_, path in query_paths(root):
        if only and id_ not in only:
            continue
        try:
            problems += lint([load_file(path, id_, root)])
        except UserError as error:
            problems.append(Problem(error.code, id_, "", error.fact, error.hints, True, error.place or ""))
    return problems


def pack_digest(folder: Path | None = None) -> str:
    """A content id of all query files and plugins of a folder: what a cached report depends on."""
    root = folder or default_folder()
    digest = hashlib.sha256()
    for id_, path in _pack_files(root):
        data = path.read_bytes()
        digest.update(f"{id_}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()


def _pack_files(root: Path) -> Iterator[tuple[str, Path]]:
    for id_, path in query_paths(root):
        yield id_, path
        for plugin in sorted(path.parent.glob("*.py")):
            yield f"{id_}:{plugin.name}", plugin
