"""A remote repository, through a blob-less bare clone that the cache manages.

The clone holds commits and trees; file contents come when they are needed, in one request.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from auditor.errors import UserError
from auditor.lazyre import lazy
from auditor.trees.base import SourceTree
from auditor.trees.commit import CommitTree
from auditor.trees.git import GitRepo, checked_revision
from auditor.trees.gitchild import network_error, run_git
from auditor.trees.locks import cache_trouble, locked_folder

_URL = lazy(r"(?:https?|ssh|git|file)://\S+|[A-Za-z0-9._-]+@[A-Za-z0-9.-]+:\S+")


class RemoteTree(CommitTree):
    """A commit in a managed clone."""

    kind = "remote"


def remote_tree(
    url: str, rev: str | None, *, prefixes: Sequence[str] = (), notes: Sequence[str] = ()
) -> SourceTree:
    """The tree of ``rev`` (default: the remote's default branch as it is now) of a remote repository.

    Files under ``prefixes`` are fetched at once. ``UserError`` T010 no network or no such remote, T002
    unknown commit, T014 no space.
    """
    url = checked_url(url)
    if rev is not None:
        checked_revision(rev)
    said = list(notes)
    with locked_folder("clones") as folder:
        place = folder / f"{hashlib.sha256(url.encode()).hexdigest()[:20]}.git"
        repo, fresh = _ready_clone(place, url)
        if rev is None and not fresh:
            try:
                _update(repo, url)
            except UserError as error:
                said.append(f"the newest commit known here is audited: {error.fact}")
        tree = _resolve(repo, rev or "HEAD", url, fresh or rev is None, said)
        tree.prefetch(prefixes)
    return tree


def checked_url(url: str) -> str:
    """``url`` if git may be given it; ``UserError`` T015 for options, other schemes, control characters."""
    if not _URL.fullmatch(url) or any(ord(c) < 33 for c in url):
        path = Path(url)
        if url and not url.startswith("-") and "\0" not in url and path.is_dir():
            return checked_url(path.resolve().as_uri())
        raise UserError(
            "T015",
            f"{url!r} is not an address git can fetch from",
            hints=["--repo https://HOST/OWNER/NAME", "--path FOLDER for a clone on this disk"],
        )
    _refuse_shallow(url)
    return url


def _refuse_shallow(url: str) -> None:
    """``UserError`` T015 for a shallow clone on this disk: git (seen with 2.39) clones one with a filter by
    starting fetches that start fetches, without end."""
    if url.startswith("file://"):
        import shlex
        from urllib.parse import unquote

        folder = unquote(url[len("file://") :])
        repo = GitRepo.at(Path(folder))
        if repo is not None and repo.is_shallow:
            raise UserError(
                "T015",
                "a shallow clone cannot be a remote",
                place=folder,
                hints=[f"--path {shlex.quote(folder)}"],
            )


def _ready_clone(place: Path, url: str) -> tuple[GitRepo, bool]:
    repo = GitRepo.at(place)
    if repo is not None:
        return repo, False
    temporary = place.with_suffix(".tmp")
    shutil.rmtree(temporary, ignore_errors=True)  # left by a run that was killed; we hold the lock
    try:
        done = run_git(
            ["clone", "--quiet", "--bare", "--filter=blob:none", "--", url, str(temporary)], network=True
        )
        if done.returncode != 0:
            raise network_error(done.stderr, url)
        shutil.rmtree(place, ignore_errors=True)
        temporary.rename(place)
    except OSError as error:
        raise cache_trouble(error) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    repo = GitRepo.at(place)
    if repo is None:
        raise UserError(
            "T013", "git made a clone that is none", place=str(place), hints=["audit cache clear"]
        )
    return repo, True


def _update(repo: GitRepo, url: str, *extra: str) -> None:
    """Bring branches and tags up to date, and with ``extra`` a commit that no branch holds."""
    specs = extra or ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
    done = (
        repo.run(
            "fetch",
            "--quiet",
            "--filter=blob:none",
            "--no-write-fetch-head",
            "--prune",
            "--",
            url,
            *specs,
            network=True,
        )
        if not extra
        else repo.run(
            "fetch",
            "--quiet",
            "--filter=blob:none",
            "--no-tags",
            "--no-write-fetch-head",
            "--",
            url,
            *specs,
            network=True,
        )
    )
    if done.returncode != 0:
        raise network_error(done.stderr, url)


def _resolve(repo: GitRepo, rev: str, url: str, fresh: bool, notes: Sequence[str]) -> RemoteTree:
    try:
        return RemoteTree(repo, rev, allow_fetch=True, notes=notes)
    except UserError as error:
        if error.code != "T002":
            raise
    if not fresh:
        _update(repo, url)
        repo.close()
        try:
            return RemoteTree(repo, rev, allow_fetch=True, notes=notes)
        except UserError as error:
            if error.code != "T002":
                raise
    if re.fullmatch(r"[0-9a-f]{40}", rev):
        try:
            _update(repo, url, rev)  # a commit of a pull request, say
            repo.close()
            return RemoteTree(repo, rev, allow_fetch=True, notes=notes)
        except UserError as error:
            if error.code not in ("T002", "T010"):
                raise
    near = [hint for hint in _hints(repo, rev) if "git " not in hint and "--repo" not in hint]
    raise UserError(
        "T002",
        f"no commit named {rev} in {url}",
        hints=[*near, "give the full 40 digits of a commit that no branch or tag of the remote holds"],
    )


def _hints(repo: GitRepo, rev: str) -> tuple[str, ...]:
    try:
        repo.commit(rev)
    except UserError as error:
        return error.hints
    return ()
