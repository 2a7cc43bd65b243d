"""Commits after one that was audited: what is taken over, and what a guard of each on its parent takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from figures.measure import Command, Run, load, ratios, run, spread, table, worst
from figures.setting import PEER, Setting

HEAD = ("command", "of", "CPU s", "CPU, ratio to ast-grep")
#: A report that is taken over costs a twentieth of a cold audit; between them is nothing.
_TAKEN = 1 / 3


def lines(at: Setting) -> Iterator[str]:
    """One commit after the other, each beside ast-grep."""
    later = at.later(int(at.options.commits or (20 if at.full else 2)))
    cold = run(at.audit(at.commit, "audits"))
    run(_guard(at, f"{at.commit}^", at.commit))  # its audit and its map of kernels are there then
    kept: dict[str, list[tuple[Run, Run | None]]] = {}
    over = same = 0
    before = at.commit
    for number, commit in enumerate(later):
        peer = run(at.ast_grep) if at.ast_grep else None
        first = at.work / "first.json"
        audit = run(at.audit(commit, "audits"), first)
        taken = audit.cpu < cold.cpu * _TAKEN
        over += taken
        how = "taken over" if taken else "a cold run"
        kept.setdefault(f"audit of the next commit, {how}", []).append((audit, peer))
        if taken and (at.full or over == 1):
            second = at.work / "second.json"
            run(at.audit(commit), second)
            same += first.read_bytes() == second.read_bytes()
            if first.read_bytes() != second.read_bytes():
                at.wrong.append(f"{commit}: what was taken over is not what a cold run gives")
        guard = _guard(at, before, commit)
        name = f"guard against its parent, whose audit and map of kernels are there; the audit is {how}"
        for words in (name, "the same guard again"):
            done = run(guard)
            kept.setdefault(words, []).append((done, peer))
        before = commit
        at.talk(f"{number + 1} of {len(later)} commits")
    everything = [pair for name in sorted(kept) for pair in kept[name]]
    if worst([done for done, _ in everything]) not in (0, 1):
        at.wrong.append(f"a command ended with exit {worst([done for done, _ in everything])}")
    rows = [_row(name, kept[name], len(later)) for name in sorted(kept)]
    if at.ast_grep:
        rows.insert(0, (PEER, len(later), spread([p.cpu for _, p in kept["the same guard again"] if p]), "1"))
    yield from table(HEAD, rows)
    checked = over if at.full else min(over, 1)
    yield f"Taken over: {over} of {len(later)}; of {checked} compared with a cold run {same} have its bytes."
    yield ""
    yield load()
    audits = [pair for name in kept if name.startswith("audit") for pair in kept[name]]
    guards = [pair for name in kept if name.startswith("guard") for pair in kept[name]]
    for what, pairs, most in (
        ("audit of the next commit", audits, 0.08),
        ("guard on a new commit", guards, 0.1),
    ):
        found = sorted(_ratios(pairs))
        if found:
            met = found[len(found) // 2] <= most
            at.aim(f"{what} <= {most:g} of ast-grep, CPU", spread(found), met)


def _guard(at: Setting, old: str, new: str) -> Command:
    return at.ours("guard", old, new, "--repo", at.repo, "--format", "json", cache="guards")


def _ratios(pairs: Sequence[tuple[Run, Run | None]]) -> list[float]:
    return [ratios([done], [peer])[0] for done, peer in pairs if peer is not None]


def _row(name: str, pairs: Sequence[tuple[Run, Run | None]], of: int) -> tuple[object, ...]:
    return name, f"{len(pairs)} of {of}", spread([done.cpu for done, _ in pairs]), spread(_ratios(pairs))
