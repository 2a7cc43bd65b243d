"""Patchsets for ``scripts/bench.py``, made from a clone's history; nothing of it is stored in this project.

    python scripts/bench_patches.py --repo CLONE --out FOLDER [--commit REV] [--branch NAME]

writes ``FOLDER/near`` and ``FOLDER/far`` (patchsets), ``FOLDER/bases`` (one commit a line) and, per set,
``FOLDER/SET.mbox`` for ``git am``:

``near``  ten merged commits after the commit, small ones: what people carry until the next release.
``far``   five merged commits before it taken back, and five of commits to come, from 29 to 2117 lines in up
          to 20 files: most of them meet other changes on most bases.

Every patch applies on the commit with the ones before it. The bases are twenty commits of the main line after
it, evenly spaced. The same clone gives the same bytes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

SIZE, BASES = 10, 20


class Miner:
    """A clone, and the index that patches are tried on."""

    def __init__(self, repo: str, commit: str, branch: str, work: Path) -> None:
        self.repo = repo
        self.commit = commit
        self.branch = branch
        self.index = work / "index"
        self.objects = work / "objects"

    def git(self, *words: str, stdin: bytes | None = None) -> bytes | None:
        """Output of git, None where it fails. What it writes goes to a store of our own."""
        git_dir = self._plain("rev-parse", "--absolute-git-dir").decode().strip()
        environment = os.environ | {
            "GIT_INDEX_FILE": str(self.index),
            "GIT_OBJECT_DIRECTORY": str(self.objects),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": f"{git_dir}/objects",
        }
        done = subprocess.run(
            ["git", "-c", "safe.directory=*", "-C", self.repo, *words],
            input=stdin,
            capture_output=True,
            check=False,
            env=environment,
        )
        return done.stdout if done.returncode == 0 else None

    def _plain(self, *words: str) -> bytes:
        return subprocess.run(
            ["git", "-c", "safe.directory=*", "-C", self.repo, *words], capture_output=True, check=True
        ).stdout

    def line(self, span: str) -> list[str]:
        """Commits of the first-parent line, oldest first."""
        return (self.git("rev-list", "--first-parent", "--reverse", span) or b"").decode().split()

    def size(self, commit: str) -> tuple[int, int, int]:
        """Lines that a commit adds and removes, its files, and how many of them are Python."""
        shown = self.git("diff", "--numstat", "--no-renames", f"{commit}^", commit) or b""
        rows = [row.split("\t") for row in shown.decode("utf-8", "replace").splitlines()]
        lines = sum(int(a) + int(b) for a, b, _ in rows if a.isdigit() and b.isdigit())
        return lines, len(rows), sum(path.endswith(".py") for _, _, path in rows)

    def mail(self, commit: str, *, back: bool = False) -> bytes:
        """A commit, or the way back from it, as a mail for ``git am``."""
        ends = (commit, f"{commit}^") if back else (f"{commit}^", commit)
        diff = self.git("diff", "--full-index", "--binary", "--no-ext-diff", *ends) or b""
        head = self.git("show", "-s", "--format=From: %an <%ae>%nDate: %aD", commit) or b""
        title = (self.git("show", "-s", "--format=%f", commit) or b"").decode().strip()[:60]
        subject = f"Subject: [PATCH] {'Back: ' if back else ''}{title}\n\n".encode()
        start = b"From " + b"0" * 40 + b" Mon Sep 17 00:00:00 2001\n"
        return start + head + subject + b"---\n" + diff + b"-- \n2\n\n"

    def pick(
        self, commits: list[str], count: int, sizes: range, files: range, *, back: bool = False
    ) -> Iterator[bytes]:
        """Mails of the first commits of that size that apply on what was picked before."""
        for commit in commits:
            lines, touched, python = self.size(commit)
            if lines not in sizes or touched not in files or not python:
                continue
            mail = self.mail(commit, back=back)
            if self.git("apply", "--cached", "-", stdin=mail) is not None:
                yield mail
                count -= 1
                if not count:
                    return

    def near(self) -> list[bytes]:
        """Ten small commits to come, one after the other."""
        self._reset()
        return list(self.pick(self.line(f"{self.commit}..{self.branch}"), SIZE, range(4, 250), range(1, 5)))

    def far(self) -> list[bytes]:
        """Five taken back, five to come; not neighbours of each other."""
        self._reset()
        before = self.line(f"{self.commit}~1500..{self.commit}")[::-7]
        after = self.line(f"{self.commit}..{self.branch}")[::3]
        wanted = ((1, range(1000, 2118)), (2, range(200, 1000)), (2, range(29, 200)))
        found: list[bytes] = []
        for commits, back in ((before, True), (after, False)):
            for count, sizes in wanted:
                found += self.pick(commits, count, sizes, range(2, 21), back=back)
        return found

    def _reset(self) -> None:
        self.index.unlink(missing_ok=True)
        self.git("read-tree", self.commit)

    def bases(self) -> list[str]:
        """Twenty commits of the line, evenly spaced, the last one at its end."""
        line = self.line(f"{self.commit}..{self.branch}")
        return [line[(at + 1) * len(line) // BASES - 1] for at in range(BASES)]


def write_set(folder: Path, mails: list[bytes], project: str) -> None:
    """A patchset of mails."""
    (folder / "patches").mkdir(parents=True)
    names = [f"p{number:02d}" for number in range(1, len(mails) + 1)]
    for name, mail in zip(names, mails):
        (folder / "patches" / f"{name}.patch").write_bytes(mail)
    text = f"title: Ten commits\nupstreams:\n  {project}: {{}}\norder: [{', '.join(names)}]\n"
    (folder / "patchset.yaml").write_text(text)
    folder.with_suffix(".mbox").write_bytes(b"".join(mails))


def make(repo: str, out: Path, *, commit: str, branch: str, project: str) -> None:
    """Both sets and the bases, in ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "objects").mkdir(exist_ok=True)
    miner = Miner(repo, commit, branch, out)
    write_set(out / "near", miner.near(), project)
    write_set(out / "far", miner.far(), project)
    (out / "bases").write_text("".join(f"{base}\n" for base in miner.bases()))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--repo", required=True)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--commit", default="735a256")
    parser.add_argument("--branch", default="main")
    parser.add_argument("--project", default="sglang")
    options = parser.parse_args()
    make(options.repo, options.out, commit=options.commit, branch=options.branch, project=options.project)


if __name__ == "__main__":
    main()
