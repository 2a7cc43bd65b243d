"""A commit of a local repository, read from its objects: nothing is checked out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256

from auditor.errors import UserError
from auditor.lazyre import lazy
from auditor.readback import Damaged, plain_json
from auditor.trees.base import TreeInfo
from auditor.trees.cache import cached_bytes, store_bytes
from auditor.trees.git import CommitFacts, GitRepo, MissingObject
from auditor.trees.names import decode_path

_RELEASE_TAG = lazy(r"v?(\d+(?:\.\d+)+(?:\.post\d+|rc\d+|a\d+|b\d+)?)")


class CommitTree:
    """The tree of one commit. Objects that a partial clone left out are fetched only if ``allow_fetch``."""

    kind = "commit"

    def __init__(
        self, repo: GitRepo, rev: str, *, allow_fetch: bool = False, notes: Sequence[str] = ()
    ) -> None:
        self.repo = repo
        self.rev = rev
        self.allow_fetch = allow_fetch
        self.notes = tuple(notes)
        self.commit: CommitFacts = repo.commit(rev)
        self._blobs: dict[str, str] | None = None
        self._info: TreeInfo | None = None
        self._complete = not repo.is_partial

    def info(self) -> TreeInfo:
        if self._info is None:
            version, describe = _place_in_history(self.repo, self.commit)
            self._info = TreeInfo(
                kind=self.kind,
                label=self.commit.oid[:7] if version is None else f"{self.commit.oid[:7]} ({version})",
                content_id=self.commit.tree,
                commit=self.commit.oid,
                version=version,
                date=self.commit.date or None,
                describe=describe,
            )
        return replace(self._info, notes=self.notes)

    def blobs(self) -> Mapping[str, str]:
        if self._blobs is None:
            self._blobs = parse_tree_listing(self._listing())
        return self._blobs

    def read(self, path: str) -> bytes:
        for _, data in self.read_many([path]):
            return data
        raise KeyError(path)

    def read_many(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        blobs = self.blobs()
        wanted = list(paths)
        oids = [blobs[path] for path in wanted]
        if self.allow_fetch and not self._complete:
            self._fetch(oids)
        contents = self.repo.read_objects(oids)
        try:
            yield from zip(wanted, contents, strict=False)
        except MissingObject as missing:
            absent = wanted[oids.index(str(missing))]
            raise self._missing(f"the contents of {absent} are not here") from None
        finally:
            contents.close()  # type: ignore[attr-defined]

    def contents(self, ids: Sequence[str]) -> list[bytes] | None:
        """The bytes of objects of the repository; None where one is not here. Nothing is fetched."""
        try:
            return list(self.repo.read_objects(ids))
        except MissingObject:
            return None

    def prefetch(self, prefixes: Sequence[str]) -> None:
        """Fetch the files under these folders in one request (partial clones, if fetching is allowed)."""
        if self.allow_fetch and not self._complete:
            heads = tuple(p.rstrip("/") + "/" for p in prefixes)
            self._fetch([oid for path, oid in self.blobs().items() if path.startswith(heads)])

    def local_path(self, path: str) -> str | None:
        return None  # the file on disk, if there is one, may be of another commit

    def _listing(self) -> bytes:
        try:
            return self.repo.list_tree(self.commit.tree)
        except MissingObject:
            pass
        try:
            if self.allow_fetch and not self._complete:
                self.repo.require_own()
                return self.repo.list_tree(self.commit.tree, network=True)
        except MissingObject:
            pass
        raise self._missing("the tree of this commit is not here")

    def _fetch(self, oids: Sequence[str]) -> None:
        absent = self.repo.missing_blobs(self.commit.oid)
        needed = sorted(absent.intersection(oids))
        if needed:
            self.repo.fetch_objects(needed)
            # The child that is kept has an old list of packs; a new one is cheaper than its second look.
            self.repo.close()
        if len(needed) == len(absent):
            self._complete = True

    def _missing(self, fact: str) -> UserError:
        if self.repo.is_partial:
            count = len(self.repo.missing_blobs(self.commit.oid))
            why = f"{fact} (a partial clone: {count} objects of {self.commit.oid[:7]} were left out)"
            hints = [
                "--allow-fetch lets the audit fetch them",
                self.repo.command("fetch --refetch --no-filter"),
            ]
        elif self.repo.is_shallow:
            why, hints = f"{fact} (a shallow clone)", [self.repo.command("fetch --unshallow")]
        else:
            why, hints = (
                f"{fact}: the repository is damaged",
                [self.repo.command("fsck"), "--repo URL reads a remote instead"],
            )
        return UserError("T005", why, place=str(self.repo.location), hints=hints)


def parse_tree_listing(raw: bytes) -> dict[str, str]:
    """Regular files of ``ls-tree -r -z`` output, path -> id, sorted; no links, no submodules."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        entries = [decode_path(entry) for entry in raw.split(b"\0")]
        halves = [entry.partition("\t") for entry in entries]
        return dict(sorted((path, meta[12:]) for meta, _, path in halves if meta[:3] == "100"))
    # Git's own order is that of the whole path's bytes, which is also the order of the decoded text.
    return {
        path: meta[12:]
        for meta, _, path in (e.partition("\t") for e in text.split("\0"))
        if meta[:3] == "100"
    }


def _place_in_history(repo: GitRepo, commit: CommitFacts) -> tuple[str | None, str | None]:
    """(version if a release tag names this very commit, "main, after 1.2.0 and before 1.3.0" or None).

    Cheap: one listing of tags and branches, then ancestry checks of the releases nearest in time only.
    """
    done = repo.run(
        "for-each-ref",
        "--format=%(refname)%09%(objectname)%09%(*objectname)%09%(creatordate:unix)%09%(symref)",
        "refs/tags",
        "refs/heads/main",
        "refs/heads/master",
        "refs/remotes/origin/main",
        "refs/remotes/origin/master",
    )
    # Where a commit stands depends on the refs alone; walking history for it is most of a warm run's time.
    key = sha256(commit.oid.encode() + done.stdout).hexdigest()
    try:
        stored = plain_json(cached_bytes("places", key) or b"")
        if isinstance(stored, list) and len(stored) == 2:
            if all(isinstance(part, str | None) for part in stored):
                return stored[0], stored[1]
    except Damaged:
        pass
    place = _find_place(repo, commit, done.stdout)
    store_bytes("places", key, json.dumps(place).encode())
    return place


def _find_place(repo: GitRepo, commit: CommitFacts, refs: bytes) -> tuple[str | None, str | None]:
    releases: list[tuple[int, str, str]] = []  # (time, version, commit)
    branches: list[tuple[str, str]] = []
    for line in refs.decode("utf-8", "replace").splitlines():
        name, oid, peeled, time, _ = (line.split("\t") + [""] * 5)[:5]
        if name.startswith("refs/tags/"):
            match = _RELEASE_TAG.fullmatch(name[len("refs/tags/") :])
            if match and time.isdigit():
                releases.append((int(time), match[1], peeled or oid))
        else:
            branches.append((name.rpartition("/")[2], oid))
    releases.sort()
    exact = [version for _, version, oid in releases if oid == commit.oid]
    words = []
    for name, oid in branches:
        if oid == commit.oid or repo.is_ancestor(commit.oid, oid):
            words.append(name)
            break
    if exact:
        words.append(f"release {exact[-1]}")
        return exact[-1], ", ".join(words)
    before = [r for r in reversed(releases) if r[0] <= commit.time][:3]
    after = [r for r in releases if r[0] > commit.time][:3]
    last = next((version for _, version, oid in before if repo.is_ancestor(oid, commit.oid)), None)
    following = next((version for _, version, oid in after if repo.is_ancestor(commit.oid, oid)), None)
    span = [f"after {last}"] if last else []
    span += [f"before {following}"] if following else []
    if span:
        words.append(" and ".join(span))
    return None, ", ".join(words) or None
