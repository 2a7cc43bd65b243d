"""What patches are written to: a git checkout, or a folder without git such as an unpacked wheel."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from auditor.errors import UserError
from auditor.patching.paths import STATE_FOLDER
from auditor.patching.write.checkout import Checkout
from auditor.patching.write.disk import Root, trouble
from auditor.patching.write.journal import STATE
from auditor.patching.write.state import Base, State, decode, expected_files
from auditor.profile import BUILD_FILES, Profile
from auditor.trees.base import SourceTree
from auditor.trees.commit import CommitTree
from auditor.trees.folder import FilesOnDisk, FolderTree
from auditor.trees.git import GitRepo
from auditor.trees.installed import InstalledTree, dist_info, version_of
from auditor.trees.names import blob_id, normal_name
from auditor.trees.open import TreeSpec, open_tree
from auditor.trees.overlay import OverlayTree


@dataclass(frozen=True)
class Target:
    """A place on this disk. ``shown`` is how a person named it."""

    root: Path
    store: Path  # where the record and the journal lie, made or not
    shown: str
    profile: Profile
    checkout: Checkout | None = None
    installed: str | None = None  # the environment it was looked for in, "" for that of this interpreter
    named: bool = False  # it was named together with its upstream

    @property
    def option(self) -> str:
        """The option that names this target again, as it can be typed."""
        if self.named:
            return f"--to {shlex.quote(f'{self.profile.name}={self.shown}')}"
        if self.installed is not None:
            return f"--installed {shlex.quote(self.installed)}" if self.installed else "--installed"
        return f"--to {shlex.quote(self.shown)}"

    @cached_property
    def tree(self) -> SourceTree:
        """What a plan is made on: HEAD of a checkout, the package's files in a folder, as they are now."""
        if self.checkout is not None:
            return self._with_staged(CommitTree(self.checkout.repo, "HEAD"))
        tops = [*_packages(self.profile, self.root), *_source_tops(self.profile, self.root)]
        return FolderTree(self.root, only=tops, label=self.version or self.root.name, version=self.version)

    def _with_staged(self, head: CommitTree) -> SourceTree:
        """HEAD, and what of the recorded patches is staged and on the disk."""
        if self.state is None or self.state.way != "staged":
            return head
        changes: dict[str, bytes | None] = {}
        blobs = head.blobs()
        with Root(self.root) as root:
            for path, (_, after) in expected_files(self.state).items():
                found = root.read(path)
                there = blob_id(found[0]) if found is not None else ""
                if there == after and blobs.get(path, "") != after:
                    changes[path] = found[0] if found is not None else None
        return OverlayTree(head, changes, label=head.info().label) if changes else head

    def dirty(self) -> list[str]:
        """Files with changes that nobody committed, installed or applied through a record; sorted."""
        if self.checkout is None:
            return self.changed_since_installed()
        changed = self.checkout.dirty()
        if not changed or self.state is None or self.state.way != "staged":
            return changed
        ours = self.tree.changed_paths() if isinstance(self.tree, OverlayTree) else ()
        return [path for path in changed if path not in ours]

    @cached_property
    def version(self) -> str | None:
        """The release that the metadata beside the package names."""
        for name in self.profile.distributions:
            info = dist_info(self.root, normal_name(name))
            if info is not None and (version := version_of(info)):
                return version
        return None

    @cached_property
    def state(self) -> State | None:
        """The record of what is applied. ``UserError`` P047 if it is damaged."""
        try:
            state = decode((self.store / STATE).read_bytes(), str(self.store / STATE))
            return None if self._elsewhere(state) else state
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise trouble(error, str(self.store / STATE)) from None

    def _elsewhere(self, state: State) -> bool:
        """Whether the commits of a record are not in the history of what is checked out now."""
        commits = [patch.commit for patch in state.patches if patch.commit]
        if self.checkout is None or state.way != "commits" or not commits:
            return False
        return not self.checkout.repo.is_ancestor(commits[0], "HEAD")

    def base(self) -> Base:
        """How a record names the tree that is there now."""
        if self.checkout is not None:
            head, _ = self.checkout.head()
            return Base(head.oid[:7], head.tree, head.oid)
        info = self.tree.info()
        return Base(info.label, info.content_id, "", self.version or "")

    def changed_since_installed(self) -> list[str]:
        """Files of a folder that are not what its RECORD says, and that no patch of ours explains."""
        info = next(
            (i for d in self.profile.distributions if (i := dist_info(self.root, normal_name(d)))), None
        )
        if info is None:
            return []
        try:
            record = (info / "RECORD").read_bytes()
        except OSError:
            return []
        tops = tuple(f"{top}/" for top in _packages(self.profile, self.root))
        tree = InstalledTree(self.root, record, self.version)
        ours = {change.path for patch in (self.state.patches if self.state else ()) for change in patch.files}
        return [path for path in tree.changed_paths() if path.startswith(tops) and path not in ours]

    def never_checked(self, paths: Iterable[str]) -> list[str]:
        """Compiled files that Python takes without a look at the source (PEP 552): they hide a patch."""
        found = []
        for path in paths:
            if not path.endswith(".py"):
                continue
            place = self.root / path
            for compiled in sorted(place.parent.glob(f"__pycache__/{place.stem}.*.pyc")):
                try:
                    with open(compiled, "rb") as file:
                        head = file.read(8)
                except OSError:
                    continue
                if len(head) == 8 and int.from_bytes(head[4:8], "little") & 3 == 1:
                    found.append(compiled.relative_to(self.root).as_posix())
        return found

    def links_above(self, paths: Iterable[str]) -> list[str]:
        """Links of the target that paths lead through, or are: nothing behind them belongs to its tree."""
        found: dict[str, None] = {}
        for path in paths:
            parts = path.split("/")
            above = ("/".join(parts[:at]) for at in range(1, len(parts) + 1))
            link = next((each for each in above if (self.root / each).is_symlink()), "")
            if link:
                found[link] = None
        return list(found)

    def unknown(self) -> str:
        """Why nobody can say which tree this is; "" if one can."""
        if self.checkout is None and self.version is None:
            return "no metadata beside the package says which release this is"
        return ""


def store_of(folder: Path, profile: Profile) -> Path:
    """Where the record of an upstream lies in a folder: several upstreams may lie in one site-packages."""
    return folder / (STATE_FOLDER if profile.audited else f"{STATE_FOLDER}.{profile.name}")


def _packages(profile: Profile, root: Path) -> list[str]:
    names = (profile.package, *profile.native_packages)
    return [name for name in names if (root / name).is_dir() and not (root / name).is_symlink()]


def _source_tops(profile: Profile, root: Path) -> list[str]:
    """What else belongs to the tree where a folder is the sources of a release, and no installed copy."""
    build = [name for name in BUILD_FILES if (root / name).is_file()]
    installed = any(dist_info(root, normal_name(name)) is not None for name in profile.distributions)
    if "" not in profile.roots.repository or not build or installed:
        return []
    folders = dict.fromkeys(place.partition("/")[0] for place in profile.places)
    return build + [name for name in folders if (root / name).is_dir() and not (root / name).is_symlink()]


def open_target(where: str | None, installed: bool | str | None, profile: Profile) -> Target:
    """The target at a path (a clone, an unpacked wheel, site-packages, the package folder itself), or the
    installed copy. ``UserError`` T0nn where there is none, P054 where two copies would be half patched.
    """
    if installed is not None and installed is not False:
        return _installed(None if installed is True else installed, profile)
    if where is None:
        where = "."
    path = Path(os.path.abspath(where))
    if path.is_file():
        raise UserError(
            "P055",
            "a file cannot be patched in place",
            place=where,
            hints=[f"python -m wheel unpack {where}        # then --to its folder"],
        )
    if not path.is_dir():
        raise UserError("T001", "no such folder", place=where, hints=["check the path after --to"])
    repo = GitRepo.find(path)
    if repo is not None and repo.work_tree is not None and _holds(repo.work_tree, profile, True):
        checkout = Checkout(repo)
        return Target(checkout.root, checkout.store, where, profile, checkout)
    if repo is not None and repo.work_tree is None and GitRepo.at(path) is not None:
        raise UserError(
            "P055",
            "a bare repository has no files to patch",
            place=where,
            hints=[f"git -C {where} worktree add ../patched HEAD        # then --to it"],
        )
    for folder in (path, path.parent if path.name == profile.package else path, *site_folders(path)):
        if _holds(folder, profile, False):
            _refuse_two_copies([folder], profile)
            return Target(folder, store_of(folder, profile), where, profile)
    raise UserError(
        "P055",
        f"nothing of {profile.name} is here: there is no {' and no '.join(markers_of(profile)[:2])}",
        place=where,
        hints=["--to CLONE_OR_SITE_PACKAGES", "--installed"],
    )


def _installed(where: str | None, profile: Profile) -> Target:
    import sys

    sites = [Path(p) for p in sys.path if p and os.path.isdir(p)] if where is None else _sites(where)
    sites = list(dict.fromkeys(sites))
    _refuse_two_copies(sites, profile)
    tree = _installed_tree(where, profile)
    root = getattr(tree, "root", None)
    assert isinstance(tree, FilesOnDisk) and isinstance(root, Path)
    repo = GitRepo.at(root)
    shown = "the installed copy"
    if repo is not None and repo.work_tree is not None:
        checkout = Checkout(repo)
        return Target(checkout.root, checkout.store, shown, profile, checkout, where or "")
    return Target(root, store_of(root, profile), shown, profile, installed=where or "")


def _installed_tree(where: str | None, profile: Profile) -> SourceTree:
    """The installed copy under the first of its distributions that is there. ``UserError`` T011: none is."""
    first: UserError | None = None
    for name in profile.distributions:
        try:
            return open_tree(
                TreeSpec(installed=True if where is None else where),
                distribution=name,
                default_url=None,
                marker=markers_of(profile),
            )
        except UserError as error:
            if error.code != "T011":
                raise
            first = first or error
    assert first is not None
    raise first


def _sites(where: str) -> list[Path]:
    path = Path(os.path.abspath(where))
    if path.is_file():
        path = path.parent.parent
    return site_folders(path) or [path]


def site_folders(path: Path) -> list[Path]:
    """Folders with packages inside a virtual environment or prefix."""
    found = sorted(path.glob("lib/python3*/site-packages")) + sorted(path.glob("lib/python3*/dist-packages"))
    return found + sorted(path.glob("Lib/site-packages"))


def markers_of(profile: Profile) -> list[str]:
    """Paths of which a tree of the project has at least one, in a repository or in a wheel."""
    roots = (*profile.roots.repository, *profile.roots.wheel)
    return [f"{root}/{marker}" if root else marker for root in roots for marker in profile.markers]


def _holds(folder: Path, profile: Profile, repository: bool) -> bool:
    roots: Iterable[str] = profile.roots.repository if repository else profile.roots.wheel
    return any((folder / root / marker).is_file() for root in roots for marker in profile.markers)


def _refuse_two_copies(sites: list[Path], profile: Profile) -> None:
    """``UserError`` P054 where Python could import another copy than the one that would be patched."""
    copies: list[str] = []
    for site in sites:
        real = (site / profile.package / "__init__.py").is_file() or _holds(site, profile, False)
        links = _editable_marks(site, profile)
        if real:
            copies.append(str(site / profile.package))
        copies += [f"{link} (an editable install)" for link in links]
    if len(copies) > 1:
        raise UserError(
            "P054",
            f"there are {len(copies)} copies of {profile.package}, and only one would be patched",
            place="; ".join(copies),
            hints=[
                f"python -m pip uninstall {profile.distributions[0]}        # then install the one you mean"
            ],
        )


def _leads_to(path: Path, profile: Profile) -> bool:
    """Whether a file of paths, as other tools than setuptools write it, names a folder with the package."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    folders = [path.parent / line.strip() for line in lines if line.strip() and line[:1] != "#"]
    return any(
        folder.is_dir() and folder.resolve() != path.parent.resolve() and _holds(folder, profile, False)
        for folder in folders
        if "\0" not in str(folder) and not folder.name.startswith("import ")
    )


def _editable_marks(site: Path, profile: Profile) -> list[str]:
    """Files that make Python import the package from somewhere else."""
    found = []
    wanted = {normal_name(name) for name in profile.distributions}
    try:
        names = sorted(os.listdir(site))
    except OSError:
        return []
    for name in names:
        if name.startswith("__editable__") and name.endswith((".pth", "_finder.py")):
            project = name[len("__editable__") :].lstrip("._").partition("-")[0].partition("_finder")[0]
            if (
                normal_name(project.rstrip("0123456789_.") or project) in wanted
                or normal_name(project) in wanted
            ):
                found.append(str(site / name))
        elif name.endswith(".egg-link") and normal_name(name[: -len(".egg-link")]) in wanted:
            found.append(str(site / name))
        elif name.endswith(".pth") and _leads_to(site / name, profile):
            found.append(str(site / name))
    # setuptools leaves a finder and a .pth for one install
    return found[:1]
