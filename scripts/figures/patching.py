"""How long it takes to see whether a patchset goes, and to write it, beside ``git am``."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from figures import mined
from figures.measure import Command, Run, beside, in_turns, load, median, ratios, run, spread, table, worst
from figures.setting import GIT, PATCHES, Setting

HEAD = ("set", "command", "CPU s", "wall s", "CPU beside `git am`", "wall beside `git am`")
_AM, _APPLY = "`git am` of the ten mails", "`patches apply --branch NAME`, again on the same base"


def lines(at: Setting) -> Iterator[str]:
    """Each question the first time and again, then both ways of writing in turns."""
    sets = at.work / "sets"
    mined.make(at.repo, sets, commit=at.commit, branch=at.branch, project=at.project)
    yield from table(HEAD, _rows(at, sets))
    yield load()


def _ours(at: Setting, *words: str) -> Command:
    where = {"SGLANG_AUDITOR_CACHE_DIR": str(at.work / "patches-cache")}
    return Command(at.ours(*words, "--format", "json", cache="patches-cache", entry=PATCHES).words, where)


def _rows(at: Setting, sets: Path) -> Iterator[tuple[object, ...]]:
    every = (sets / "bases").read_text().split()
    bases = every if at.full else every[:: len(every) // 4][:4]
    asked = {"--onto": (at.commit,), "--matrix": (",".join(bases),)}
    again: list[Run] = []
    for name in ("near", "far"):
        for option, words in asked.items():
            what = f"of {len(bases)} bases" if option == "--matrix" else at.commit
            command = _ours(at, "status", str(sets / name), option, *words, "--clone", at.repo)
            for which in ("the first time", "again"):
                done = run(command)
                yield (
                    name,
                    f"`status {option}` {what}, {which}",
                    f"{done.cpu:.2f}",
                    f"{done.wall:.2f}",
                    "",
                    "",
                )
                if option == "--onto" and which == "again":
                    again.append(done)
                if option == "--matrix" and which != "again" and at.full:
                    met = done.wall <= 20
                    at.aim(
                        f"`status --matrix` of 10 x {len(bases)} ({name}) <= 20 s", f"{done.wall:.1f} s", met
                    )
    found = [r.cpu for r in again]
    at.aim(
        "`status --onto`, again, <= 1 s of CPU (near, far)",
        ", ".join(f"{s:.2f}" for s in found),
        max(found) <= 1,
    )
    yield from _written(at, sets / "near")


def _written(at: Setting, patchset: Path) -> Iterator[tuple[object, ...]]:
    """``git am`` and ``patches apply`` of the same patches on the same commit, in turns."""
    checkout = at.work / "patched"
    at.git("clone", "-q", "--shared", "--no-checkout", ".", str(checkout))
    inside = (*GIT, "-C", str(checkout))
    mails = str(patchset.with_suffix(".mbox"))
    am = Command((*inside, "-c", "user.name=N", "-c", "user.email=n@localhost", "am", "-q", mails))
    apply = _ours(at, "apply", str(patchset), "--to", str(checkout), "--branch", "patched")

    def afresh() -> None:
        for words in (("checkout", "-q", "-f", "--detach", at.commit), ("branch", "-qD", "patched")):
            subprocess.run((*inside, *words), capture_output=True, check=False)
        shutil.rmtree(checkout / ".git" / "patches-state", ignore_errors=True)

    taken: dict[str, list[Run]] = {_AM: [], _APPLY: []}
    afresh()
    run(apply)  # plans, which the others find done
    for _ in range(at.rounds(3, 5)):
        for name, command in ((_AM, am), (_APPLY, apply)):
            afresh()
            taken[name] += in_turns({name: command}, 1)[name]
    for name, runs in taken.items():
        if worst(runs):
            at.wrong.append(f"{name}: exit {worst(runs)}")
        cells = [beside(runs, taken[_AM], field) for field in ("cpu", "wall")]
        yield patchset.name, name, f"{median(runs):.2f}", f"{median(runs, 'wall'):.2f}", *cells
    found = ratios(taken[_APPLY], taken[_AM])
    met = sorted(found)[len(found) // 2] <= 2
    at.aim("`patches apply` <= 2 x `git am`, CPU", spread(found), met)
