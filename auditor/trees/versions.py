"""The versions of a few files along one line of history, read without a checkout."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache

from auditor.lazyre import lazy
from auditor.trees.between import FORMAT, LogEntry, Mark, entry_of
from auditor.trees.cache import remembered
from auditor.trees.git import GitRepo

_TAG = lazy(r"v?(\d+(?:\.\d+)+(?:\.?post\d+)?)")
_LITERAL = lazy(rb"""(?m)^(?:__version__|version)\s*=\s*["'](\d+(?:\.\d+)+(?:\.?post\d+)?)["']""")
_KIND = "path-versions"


@dataclass(frozen=True)
class Step:
    """A commit and what it did to the files asked for: path -> (blob before, blob after), "" for none."""

    entry: LogEntry
    changes: dict[str, tuple[str, str]]


def steps(repo: GitRepo, tip: str, paths: Iterable[str], after: str = "") -> list[Step]:
    """Commits of the first-parent line of ``tip`` that touched one of ``paths``, oldest first.

    A merge counts as one commit, with what it brought to the line. ``tip`` is a full id: what was read is
    kept by it. ``after`` is a commit of the line before which nothing is looked at. ``UserError`` T013 where
    git refuses.
    """
    wanted = sorted(set(paths))
    if not wanted:
        return []
    key = hashlib.sha256("\0".join([tip, after, *wanted]).encode("utf-8", "surrogatepass")).hexdigest()
    return remembered(_KIND, key, list[Step], lambda: _steps(repo, tip, wanted, after))


def _steps(repo: GitRepo, tip: str, wanted: list[str], after: str) -> list[Step]:
    mark = Mark()
    raw = repo.output(
        *("log", "--first-parent", "-m", "--reverse", "--raw", "--no-abbrev", "--no-renames", "-z"),
        *("--no-show-signature", "--no-ext-diff", f"--format={mark.asked}{FORMAT}{mark.asked}", tip),
        *([f"^{after}"] if after else []),
        "--",
        *(f":(literal,top){path}" for path in wanted),
    )
    found = []
    parts = raw.decode("utf-8", "surrogateescape").split(mark.given)
    for head, body in zip(parts[1::2], parts[2::2]):
        changes = _raw(body, wanted)
        if changes:
            found.append(Step(entry_of(head), changes))
    return found


def _raw(body: str, wanted: Collection[str]) -> dict[str, tuple[str, str]]:
    fields = body.strip("\0\n").split("\0")
    changes = {}
    for meta, path in zip(fields[::2], fields[1::2]):
        words = meta.lstrip(":\n").split(" ")
        if path in wanted and len(words) == 5:
            old_mode, new_mode, old, new, _ = words
            changes[path] = (old if old_mode[:3] == "100" else "", new if new_mode[:3] == "100" else "")
    return changes


def files_of(repo: GitRepo, commit: str) -> list[tuple[str, str, str]]:
    """(kind, path before, path after) of what a commit did to files, against its first parent.

    Kinds are git's letters: A added, D deleted, M changed, R renamed; the paths differ for R only.
    """
    parent = repo.run("rev-parse", "--verify", "-q", f"{commit}^1")
    before = parent.stdout.decode().strip() if parent.returncode == 0 else _empty(repo)
    raw = repo.output("diff-tree", "-r", "-M", "-l2000", "--name-status", "-z", before, commit)
    fields = raw.decode("utf-8", "surrogateescape").split("\0")
    out = []
    at = 0
    while at < len(fields) - 1:
        kind = fields[at][:1]
        wide = kind in "RC"
        out.append((kind, fields[at + 1], fields[at + 2] if wide else fields[at + 1]))
        at += 3 if wide else 2
    return out


def _empty(repo: GitRepo) -> str:
    return repo.output("hash-object", "-t", "tree", "--stdin", stdin=b"").decode().strip()


def first_release(repo: GitRepo, commit: str) -> tuple[str, bool]:
    """(the lowest release whose tag has ``commit`` in its history or "", whether there are release tags)."""
    from packaging.version import Version

    def releases(*more: str) -> list[str]:
        done = repo.run("for-each-ref", "--format=%(refname:strip=2)", *more, "refs/tags")
        names = done.stdout.decode("utf-8", "replace").split()
        return [match[1] for match in map(_TAG.fullmatch, names) if match]

    found = []
    for name in releases(f"--contains={commit}"):
        try:
            found.append((Version(name), name))
        except ValueError:  # also a number of thousands of digits
            continue
    if found:
        return min(found)[1], True
    return "", bool(releases())


def release_by_bump(repo: GitRepo, tip: str, commit: str, files: Iterable[str]) -> str:
    """The release whose version one of ``files`` was set to after ``commit``, "" where none says one.

    For projects that write the version into a file and tag the commit that does so; the version that is
    there at ``commit`` is the one before. ``tip`` is a full id.
    """
    bumps = _bumps(repo, tip, sorted(set(files)))

    def after(number: int) -> bool:
        return commit == bumps[number][0] or repo.is_ancestor(commit, bumps[number][0])

    if not bumps or not after(len(bumps) - 1):
        return ""
    low, high = 0, len(bumps) - 1  # the first of them that has the commit in its history
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if after(middle) else (middle + 1, high)
    return bumps[low][1]


def _bumps(repo: GitRepo, tip: str, files: list[str]) -> list[tuple[str, str]]:
    """(commit, version) of the commits that set another version, oldest first."""
    key = hashlib.sha256("\0".join(["bumps", tip, *files]).encode("utf-8", "surrogatepass")).hexdigest()
    return remembered(_KIND, key, list[tuple[str, str]], lambda: _find_bumps(repo, tip, files))


def _find_bumps(repo: GitRepo, tip: str, files: list[str]) -> list[tuple[str, str]]:
    out: list[tuple[str, str]] = []
    for step in steps(repo, tip, files):
        for before, after in step.changes.values():
            was, now = (_version(repo, blob) if blob else "" for blob in (before, after))
            if was and now and was != now and (not out or out[-1][1] != now):
                out.append((step.entry.oid, now))
    return out


def _version(repo: GitRepo, blob: str) -> str:
    for data in repo.read_objects([blob]):
        match = _LITERAL.search(data)
        return match[1].decode() if match else ""
    return ""


def main_line(repo: GitRepo) -> str:
    """The full id of the tip of the main line of a clone: of its remote where that is known, else HEAD."""
    return repo.first_commit(
        ("refs/remotes/origin/HEAD", "refs/remotes/origin/main", "refs/heads/main", "HEAD")
    )


def is_before(repo: GitRepo, older: str, newer: str, top: str) -> bool:
    """Whether ``newer`` has ``older`` in its history, or is it (full ids).

    Answered from the first-parent line of ``top``, read once, where both are on it; git is asked otherwise.
    """
    places = _places(repo, top)
    if older in places and newer in places:
        return places[older] >= places[newer]
    return repo.is_ancestor(older, newer)


@lru_cache(maxsize=4)
def _places(repo: GitRepo, top: str) -> dict[str, int]:
    """Commit -> how many first-parent steps it lies before ``top``: what is known of it never changes."""

    def walk() -> list[bytes]:
        done = repo.run("rev-list", "--first-parent", top)
        return [bytes.fromhex(oid) for oid in done.stdout.decode().split()] if done.returncode == 0 else []

    line = remembered("main-lines", top, list[bytes], walk)
    return {oid.hex(): place for place, oid in enumerate(line)}
