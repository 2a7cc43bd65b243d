"""What history knows of a patch: the commit that brought it, and whether a later one took it back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from auditor.errors import UserError
from auditor.patching.model import ChangeSet, Outcome
from auditor.patching.port.places import of_files, of_patch
from auditor.trees.git import GitRepo, checked_revision

Lines = Counter[tuple[str, bytes]]
Effect = Counter[bytes]

#: Different lines that a change must add or remove to be known by these alone.
_TELLING = 3
#: The proof that is told of a hunk that was merged and does not read so any more.
MERGED = "merged, changed since"


@dataclass(frozen=True)
class Landing:
    """The commit that changed exactly the lines that the patch changes, in the same files."""

    commit: str
    subject: str
    reverted_by: str = ""  # a later commit with which it was taken back


def goes_again(outcome: Outcome) -> bool:
    """Whether every hunk can be applied again: then the patch was taken back, whoever did it."""
    return {hunk.status for hunk in outcome.hunks} <= {"clean", "moved"}


def landed(outcome: Outcome, landing: Landing) -> Outcome:
    """Upstream, for a patch that was merged as ``landing`` and changed since."""
    told = f"merged as {landing.commit[:12]} ({landing.subject})"
    hunks = tuple(
        h if h.status == "upstream" else replace(h, status="upstream", proof=MERGED, note="", to_path="")
        for h in outcome.hunks
    )
    return Outcome("upstream", hunks, note=told)


class History:
    """The commits between the base of a patch and the tip of a tree, read from one repository.

    ``base`` and ``tip`` are revisions. One that is not in the repository means that history says nothing;
    ``note`` says so.
    """

    def __init__(self, repo: GitRepo, base: str, tip: str = "HEAD") -> None:
        self.repo = repo
        self.range: tuple[str, str] | None = None
        self.note = ""
        try:
            self.range = repo.commit(checked_revision(base)).oid, repo.commit(checked_revision(tip)).oid
        except UserError as error:
            self.note = f"history was not asked: {error.fact}"

    def landing(self, change_set: ChangeSet, also: Collection[str] = ()) -> Landing | None:
        """The last commit of the range that is this patch, as changed lines; None if there is none.

        ``also`` are more paths to look at: where the files of the patch are now.
        """
        wanted = _changed(change_set)
        if self.range is None or not wanted:
            return None
        undone: Lines = Counter({("-" if m == "+" else "+", text): n for (m, text), n in wanted.items()})
        effect = _effect(wanted)
        paths = {p for c in change_set.changes for p in (c.old_path, c.new_path) if p} | set(also)
        found: Landing | None = None
        since: Effect = Counter()  # what all commits after the landing did together
        for commit, subject, lines in self._commits(sorted(paths)):
            if lines == wanted or (len(effect) >= _TELLING and _effect(lines) == effect):
                if self._elsewhere(change_set, commit, sorted(paths)):
                    continue
                found = Landing(commit, subject)
                since = Counter()
            elif found is not None and not found.reverted_by:
                for text, count in _effect(lines).items():
                    since[text] += count
                if _within(undone, lines) or _taken_back(effect, since):
                    found = Landing(found.commit, found.subject, commit)
        return found

    def _elsewhere(self, change_set: ChangeSet, commit: str, paths: list[str]) -> bool:
        """Whether a commit that changed the same lines changed them in a twin of what the patch is for."""
        mine = of_patch(change_set, lambda blob: self._blob(blob) if blob.strip("0") else None)
        names = [(path, self._blob(f"{commit}^1:{path}"), self._blob(f"{commit}:{path}")) for path in paths]
        its = of_files(names)
        return bool(mine - its and its - mine)  # more places on one side only: the lines were told otherwise

    def _blob(self, name: str) -> bytes | None:
        done = self.repo.run("cat-file", "blob", name)
        return done.stdout if done.returncode == 0 else None

    def _commits(self, paths: list[str]) -> Iterator[tuple[str, str, Lines]]:
        """Oldest first: commit, subject, and the lines it changed in these files."""
        assert self.range is not None
        base, tip = self.range
        done = self.repo.run(
            *("log", "--reverse", "--topo-order", "--no-color", "--no-show-signature"),
            *("--no-ext-diff", "--no-textconv", "--no-renames", "-p", "-U0", "--format=%x00%H%x00%s"),
            *(f"{base}..{tip}", "--"),
            *(f":(literal){path}" for path in paths),
        )
        if done.returncode != 0:
            return
        parts = done.stdout.split(b"\0")
        for at in range(1, len(parts) - 1, 2):
            subject, _, text = parts[at + 1].partition(b"\n")
            yield parts[at].decode(), subject.decode("utf-8", "replace"), _lines(text)


def _lines(diff: bytes) -> Lines:
    """The changed lines of a diff, blank ones left out."""
    out: Lines = Counter()
    inside = False
    for line in diff.split(b"\n"):
        if line.startswith(b"diff --git "):
            inside = False
        elif line.startswith(b"@@ "):
            inside = True
        elif inside and line[:1] in (b"+", b"-") and line[1:].strip():
            out[line[:1].decode(), line[1:].rstrip()] += 1
    return out


def _changed(change_set: ChangeSet) -> Lines:
    out: Lines = Counter()
    for change in change_set.changes:
        for hunk in change.hunks:
            for mark, text in hunk.lines:
                if mark != " " and text.strip():
                    out[mark, text.rstrip()] += 1
    return out


def _within(part: Lines, whole: Lines) -> bool:
    return all(whole[key] >= count for key, count in part.items())


def _effect(lines: Lines) -> Effect:
    """How many more (or, below 0, fewer) of each line there are, whatever its indentation.

    Two comparisons of the same two files may differ in the lines that they call changed, but not in this.
    """
    out: Effect = Counter()
    for (mark, text), count in lines.items():
        out[text.strip()] += count if mark == "+" else -count
    return Counter({text: count for text, count in out.items() if count})


def _taken_back(effect: Effect, since: Effect) -> bool:
    """Whether later commits together undid a change, if not to the letter: others were in the way.

    Most of what it added has gone and most of what it removed has come back; or hardly anything of it is
    left, and then nobody can tell that from a rewrite.
    """
    added = sum(count for count in effect.values() if count > 0)
    removed = -sum(count for count in effect.values() if count < 0)
    gone = sum(min(count, max(0, -since[text])) for text, count in effect.items() if count > 0)
    back = sum(min(-count, max(0, since[text])) for text, count in effect.items() if count < 0)
    if not added + removed:
        return False
    return (2 * gone >= added and 2 * back >= removed) or 10 * (gone + back) >= 9 * (added + removed)
