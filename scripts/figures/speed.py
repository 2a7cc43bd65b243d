"""How long an audit takes, beside ast-grep on a checkout of the same files."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from figures.measure import PYTHON, Command, beside, in_turns, load, median, ratios, run, spread, table, worst
from figures.setting import AUDIT, PEER, Setting

HEAD = ("command", "CPU s", "CPU, ratio to ast-grep", "wall s", "wall ratio", "MiB")
#: The part of ``audit kernels`` that is about operators of the compiled libraries: CMake and C++.
_OPERATORS = """
import sys
from auditor.native.availability import KernelOptions, availability
from auditor.trees.open import TreeSpec, open_tree
repo, commit, project = sys.argv[1:]
tree = open_tree(TreeSpec(path=repo, commit=commit), distribution=None, default_url=None)
availability(tree, KernelOptions(("sm_120",), project=project, declared=False))
"""
_EMPTY, _HELP = "`python -c pass`", "`audit --help`"
_COLD, _AGAIN = "audit, cold, from the commit without checkout", "audit, the same commit again"
_OPERATORS_OF = "operators of the compiled libraries, sm_120, cold"


def lines(at: Setting) -> Iterator[str]:
    """The table, and its aims."""
    kernels = ("kernels", at.project, "--format", "json", "--commit", at.commit, "--repo", at.repo)
    commands = {
        _EMPTY: Command((PYTHON, "-c", "pass")),
        _HELP: Command((PYTHON, "-c", AUDIT, "--help")),
        **at.with_peer({}),
        _COLD: at.audit(at.commit),
        _AGAIN: at.audit(at.commit, "warm"),
    }
    later = at.later(5) if at.branch else []
    apart = [count for count in (1, 5) if len(later) >= count]
    for count in apart:
        name = f"audit, {count} commit{'s' if count > 1 else ''} on"
        commands[name] = at.audit(later[count - 1], f"next-{count}")
    commands[_OPERATORS_OF] = Command((PYTHON, "-c", _OPERATORS, at.repo, at.commit, at.project))
    commands["audit kernels, all nine targets, with everything the Python side declares, cold"] = at.ours(
        *kernels
    )

    def afresh(_: int) -> None:
        for count in apart:
            shutil.rmtree(at.work / f"next-{count}", ignore_errors=True)
            shutil.copytree(at.work / "warm", at.work / f"next-{count}")

    run(at.audit(at.commit, "warm"))
    taken = in_turns(commands, at.rounds(1, 3), afresh)
    base = taken.get(PEER)
    rows = []
    for name, runs in taken.items():
        if worst(runs) not in (0, 1):
            at.wrong.append(f"{name}: exit {worst(runs)}")
            continue
        cells = [f"{median(runs):.3f}", beside(runs, base, "cpu", 3)]
        cells += [f"{median(runs, 'wall'):.3f}", beside(runs, base, "wall", 3)]
        rows.append((name, *cells, f"{max(r.memory for r in runs):.0f}"))
    yield from table(HEAD, rows)
    yield load()
    if base is not None:
        for name, most, what in (
            (_COLD, 0.35, "cold audit"),
            (_AGAIN, 0.02, "the same commit again"),
            (_OPERATORS_OF, 0.2, "operators of the compiled libraries"),
        ):
            found = ratios(taken[name], base)
            at.aim(
                f"{what} <= {most:g} of ast-grep, CPU",
                spread(found, 3),
                median(taken[name]) <= most * median(base),
            )
        found = ratios(taken[_COLD], base, "wall")
        at.aim("cold audit <= 0.6 of ast-grep, wall", spread(found, 2), sorted(found)[len(found) // 2] <= 0.6)
    memory = max(r.memory for r in taken[_COLD])
    at.aim("memory of a cold audit <= 150 MiB", f"{memory:.0f}", memory <= 150)
    found = ratios(taken[_HELP], taken[_EMPTY])
    at.aim("`audit --help` <= 6 x `python -c pass`", spread(found, 1), sorted(found)[len(found) // 2] <= 6)
