"""Which tree is meant: explicit options win; else a clone nearby, an installed copy, the public one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from auditor.errors import UserError
from auditor.trees.base import SourceTree
from auditor.trees.commit import CommitTree
from auditor.trees.folder import FolderTree
from auditor.trees.git import GitRepo
from auditor.trees.names import normal_name
from auditor.trees.worktree import WorktreeTree

_OTHERS = "pick another with --path, --commit, --release, --wheel, --installed or --repo"


@dataclass(frozen=True)
class TreeSpec:
    """What the user said about the tree; nothing said means: look for one.

    ``path`` a clone, bare repository, folder or wheel file; ``commit`` a revision in it (or in ``repo``, or
    in the clone that is found); ``worktree`` the working tree, where a clone is found; ``release`` a version;
    ``wheel`` a file; ``installed`` True, or the virtual environment, interpreter or site-packages to look in;
    ``repo`` a URL; ``allow_fetch`` whether a partial clone of the user's may fetch what it lacks.
    """

    path: str | None = None
    commit: str | None = None
    release: str | None = None
    wheel: str | None = None
    installed: bool | str | None = None
    repo: str | None = None
    worktree: bool = False
    allow_fetch: bool = False


def open_tree(
    spec: TreeSpec,
    *,
    distribution: str | None,
    default_url: str | None,
    source_roots: Sequence[str] = (),
    marker: str | Sequence[str] = (),
) -> SourceTree:
    """Open the tree that ``spec`` means and check that it is one of the audited project.

    ``distribution`` is the package's name on the index and in metadata (None: any), ``default_url`` the
    public repository, ``source_roots`` the folders whose files a remote fetches at once, ``marker`` one path
    or several of which a tree of the project holds at least one (for a repository and for a wheel).
    ``info().notes`` says which source was picked and how to pick another. ``UserError`` T001 to T015.
    """
    _check_exclusive(spec)
    markers = (marker,) if isinstance(marker, str) else tuple(marker)
    tree = _open(spec, distribution, default_url, tuple(source_roots), markers)
    _require_marker(tree, markers, spec)
    return tree


def _open(
    spec: TreeSpec,
    distribution: str | None,
    default_url: str | None,
    roots: tuple[str, ...],
    markers: tuple[str, ...],
) -> SourceTree:
    if spec.wheel is not None:
        return _open_wheel(_plain_path(spec.wheel, "--wheel"), distribution)
    if spec.release is not None:
        from auditor.trees.release import release_tree

        return release_tree(_named(distribution), spec.release)
    if spec.installed:
        from auditor.trees.installed import installed_tree

        return installed_tree(_named(distribution), None if spec.installed is True else spec.installed)
    if spec.repo is not None:
        from auditor.trees.remote import remote_tree

        return remote_tree(spec.repo, spec.commit, prefixes=roots)
    if spec.path is not None:
        return _open_path(spec, distribution, markers)
    return _search(spec, distribution, default_url, roots, markers)


def _open_wheel(path: str, distribution: str | None) -> SourceTree:
    from auditor.trees.wheel import WheelTree  # zipfile is not free, and most runs need none

    return WheelTree(path, distribution=distribution)


def _open_path(spec: TreeSpec, distribution: str | None, markers: tuple[str, ...]) -> SourceTree:
    given = _plain_path(spec.path or "", "--path")
    path = Path(given)
    if path.is_file():
        if spec.commit is not None or spec.worktree:
            raise UserError(
                "T001", "not a repository but a file", place=given, hints=["--path CLONE --commit REV"]
            )
        return _open_wheel(given, distribution)
    if not path.is_dir():
        raise UserError("T001", "no such folder", place=given, hints=["check the path"])
    repo = GitRepo.find(path)
    if repo is not None and GitRepo.at(Path(os.path.abspath(path))) is None:
        # Inside somebody's repository; but the folder may be an unpacked wheel that happens to lie there.
        if _folder_with(path, markers, distribution) is not None and not _tracks(repo, markers):
            repo = None
    if repo is None:
        if spec.commit is not None or spec.worktree:
            raise UserError(
                "T001",
                "not a git repository" + (", so it has no commits" if spec.commit else ""),
                place=given,
                hints=["--path CLONE, or leave --commit out to audit the folder as it is"],
            )
        return _folder_with(path, markers, distribution) or FolderTree(path)
    if spec.worktree or (spec.commit is None and repo.work_tree is not None):
        return WorktreeTree(repo)
    return CommitTree(repo, _revision(spec), allow_fetch=spec.allow_fetch)


def _revision(spec: TreeSpec) -> str:
    return "HEAD" if spec.commit is None else spec.commit


def _folder_with(path: Path, markers: tuple[str, ...], distribution: str | None) -> FolderTree | None:
    """A plain folder that holds a marker: itself, or as the package folder of which a marker speaks."""
    if any((path / marker).is_file() for marker in markers):
        version = _version_in(path, distribution)  # the name of the folder says less
        return FolderTree(path, label=version, version=version)
    absolute = Path(os.path.abspath(path))
    for marker in markers:
        top, _, rest = marker.partition("/")
        if rest and absolute.name == top and (absolute / rest).is_file():
            version = _version_in(absolute.parent, distribution)
            return FolderTree(absolute.parent, only=[top], label=version or top, version=version)
    return None


def _version_in(folder: Path, distribution: str | None) -> str | None:
    """The version that the metadata beside an unpacked package gives."""
    if distribution is None:
        return None
    from auditor.trees.installed import dist_info, version_of

    info = dist_info(folder, normal_name(distribution))
    return None if info is None else version_of(info)


def _tracks(repo: GitRepo, markers: tuple[str, ...]) -> bool:
    return repo.work_tree is not None and any((repo.work_tree / marker).is_file() for marker in markers)


def _search(
    spec: TreeSpec,
    distribution: str | None,
    default_url: str | None,
    roots: tuple[str, ...],
    markers: tuple[str, ...],
) -> SourceTree:
    unknown: UserError | None = None
    for place, repo in nearby_clones(distribution, markers):
        if spec.commit is None and repo.work_tree is not None:
            return WorktreeTree(repo, notes=[f"source: the working tree of {place}; {_OTHERS}"])
        try:
            return CommitTree(
                repo,
                _revision(spec),
                allow_fetch=spec.allow_fetch,
                notes=[f"source: {place}, without checking it out; {_OTHERS}"],
            )
        except UserError as error:
            if error.code != "T002":
                raise
            unknown = error
    if spec.worktree:
        raise UserError(
            "T001", "no clone here, in a folder above or beside it", hints=["--path CLONE --worktree"]
        )
    if spec.commit is None and distribution is not None:
        from auditor.trees.installed import installed_tree

        try:
            return installed_tree(distribution, notes=[f"source: the installed copy; {_OTHERS}"])
        except UserError as error:
            if error.code != "T011":
                raise
    if default_url is None:
        raise unknown or UserError("T001", "no source found", hints=["--path CLONE", "--wheel FILE"])
    from auditor.trees.remote import remote_tree

    note = f"source: {default_url} (no clone {'with this commit ' if unknown else ''}nearby); {_OTHERS}"
    try:
        return remote_tree(default_url, spec.commit, prefixes=roots, notes=[note])
    except UserError as error:
        if unknown is not None and error.code == "T010":
            raise unknown from None  # the clone that is here is what the user most likely meant
        raise


def nearby_clones(distribution: str | None, markers: tuple[str, ...]) -> list[tuple[str, GitRepo]]:
    """(how a person would write it, repository) of clones of the project around the current folder."""
    here = Path.cwd()
    places = [(".", here)]
    places += [("../" * (depth + 1), parent) for depth, parent in enumerate(here.parents)]
    if distribution is not None:
        places += [
            (f"./{distribution}", here / distribution),
            (f"../{distribution}", here.parent / distribution),
        ]
    found: list[tuple[str, GitRepo]] = []
    for shown, place in places:
        repo = GitRepo.at(place)
        if repo is None or any(repo.git_dir == other.git_dir for _, other in found):
            continue
        if _tracks(repo, markers) or (repo.work_tree is None and _commit_holds(repo, markers)):
            found.append((shown.rstrip("/") or ".", repo))
    return found


def _commit_holds(repo: GitRepo, markers: tuple[str, ...]) -> bool:
    """Whether HEAD of a bare repository is a tree of the project."""
    return any(
        repo.run("rev-parse", "--quiet", "--verify", f"HEAD:{marker}").returncode == 0 for marker in markers
    )


def _check_exclusive(spec: TreeSpec) -> None:
    given = [
        ("--path", spec.path is not None),
        ("--release", spec.release is not None),
        ("--wheel", spec.wheel is not None),
        ("--installed", bool(spec.installed)),
        ("--repo", spec.repo is not None),
    ]
    sources = [name for name, there in given if there]
    clash: tuple[str, str] | None = None
    if len(sources) > 1:
        clash = (sources[0], sources[1])
    elif spec.commit is not None and sources and sources[0] in ("--release", "--wheel", "--installed"):
        clash = ("--commit", sources[0])
    elif spec.worktree and sources and sources[0] != "--path":
        clash = ("--worktree", sources[0])
    elif spec.worktree and spec.commit is not None:
        clash = ("--worktree", "--commit")
    if clash:
        raise UserError(
            "T012", f"{clash[0]} and {clash[1]} name two different sources", hints=[f"leave out {clash[1]}"]
        )


def _require_marker(tree: SourceTree, markers: tuple[str, ...], spec: TreeSpec) -> None:
    if not markers:
        return
    blobs = tree.blobs()
    if any(marker in blobs for marker in markers):
        return
    place = spec.path or spec.wheel or spec.repo or (spec.commit and f"commit {spec.commit}")
    raise UserError(
        "T004",
        f"not a tree of the audited project: {' or '.join(markers)} is not in it",
        place=place,
        hints=["--path CLONE", "--release X.Y.Z", "--repo URL"],
    )


def _named(distribution: str | None) -> str:
    if distribution is None:
        raise UserError(
            "T012", "this project has no package of that kind", hints=["--path CLONE --commit REV"]
        )
    return distribution


def _plain_path(path: str, option: str) -> str:
    if not path or "\0" in path:
        raise UserError("T015", f"{path!r} is not a path", hints=[f"{option} PATH"])
    return path
