"""A sweep: its plan, its tasks and the file it appends to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from auditor import __version__
from auditor.arch import load_targets
from auditor.errors import UserError
from auditor.gates.reading import no_collector
from auditor.history.sweeping.learn import Learned, Learner, Vocabulary
from auditor.history.sweeping.model import BLIND, SCHEMA, CommitLine, Head, Setup, with_moves
from auditor.history.sweeping.quick import Quick, module_of, world_of
from auditor.profile import Profile, load_profile
from auditor.readback import Damaged, from_json, plain_json
from auditor.trees.commit import parse_tree_listing
from auditor.trees.git import GitRepo, MissingObject
from auditor.trees.lines import LineFile
from auditor.trees.steps import Line, Step, steps_of

#: Trees that names are learned from lie at most this many commits apart.
_STRETCH = 2000
#: Commits of one task of level ``quick`` where several run at once.
_TASK = 250


class Plan(NamedTuple):
    """What is to be done: the repository, the commits of the range, and the head of the file."""

    git_dir: str
    line: Line
    steps: list[Step]
    head: Head
    learned: Learned | None  # what was read for that


class Task(NamedTuple):
    """Some commits in a row, as any machine that sees the repository can work on them."""

    git_dir: str
    setup: Setup
    line: Line


def source_of(repo: GitRepo, line: Line, profile: Profile) -> tuple[str, str]:
    """The source root and the package below it, in the newest tree. UserError T020 where it has none."""
    blobs = parse_tree_listing(_listing(repo, line.last))
    root = profile.root_of(blobs)
    if root is None:
        fact = f"this is not a {profile.title} tree: none of {', '.join(profile.markers)} is in it"
        raise UserError("T020", fact, place=line.last[:9], hints=["audit sweep A..B --repo PATH"])
    return root, f"{root}/{profile.package}" if root else profile.package


def plan(repo: GitRepo, line: Line, setup: Setup, kept: Head | None, say: Callable[..., None]) -> Plan:
    """The plan of a range. Names are learned, or taken from the head of a file that is continued
    (``kept``).
    """
    steps = steps_of(repo, line, [setup.folder])
    if not steps:
        raise UserError("H020", "no commits in this range", hints=["audit sweep --all"])
    learned = None
    if setup.level == "quick":
        if kept is not None:
            setup = msgspec.structs.replace(setup, vocabulary=kept.setup.vocabulary, vendor=kept.setup.vendor)
        else:
            found, learned = vocabulary_between(repo, steps, setup, say)
            vendor = {k: list(v) if isinstance(v, tuple) else v for k, v in sorted(found.vendor.items())}
            setup = msgspec.structs.replace(setup, vocabulary=tuple(sorted(found.names)), vendor=vendor)
    blind = BLIND if setup.level == "quick" else ()
    tool = f"sglang-auditor {__version__}"
    head = Head(SCHEMA, tool, line.first, line.last, len(steps), setup, blind)
    return Plan(str(repo.git_dir.resolve()), line, steps, head, learned)


def vocabulary_between(
    repo: GitRepo, steps: Sequence[Step], setup: Setup, say: Callable[..., None]
) -> tuple[Vocabulary, Learned]:
    """What is learned from the trees at both ends of a range, and between them where it is long; and what was
    read for that, last of the oldest tree.
    """
    parts = max(1, -(-len(steps) // _STRETCH))
    at = sorted({len(steps) * part // parts - 1 for part in range(1, parts + 1)})
    commits = [steps[number].entry.oid for number in at]
    if steps[0].parent:
        commits.insert(0, steps[0].parent)
    learner = Learner(world_of(load_targets(), setup.cuda))
    for number, commit in enumerate(reversed(commits)):
        say(f"learning the names of {commit[:9]}", number, len(commits))
        listed = parse_tree_listing(_listing(repo, commit))
        prefix = setup.folder + "/"
        blobs = {
            module_of(path, setup.root): blob
            for path, blob in listed.items()
            if path.startswith(prefix) and path.endswith(".py")
        }
        with no_collector():
            learner.learn(blobs, lambda ids: _read(repo, ids))
    return learner.vocabulary(), learner.learned()


def quick_lines(
    task: Task, learned: Learned | None = None, steps: list[Step] | None = None
) -> Iterator[CommitLine]:
    """The lines of some commits in a row, from the tree before the first.

    What is known already may be given: what was read for the names, and the commits of the task.
    """
    repo = repo_of(task)
    if steps is None:
        steps = steps_of(repo, task.line, [task.setup.folder])
    state = Quick(
        task.setup, load_profile(task.setup.project), lambda ids: _read(repo, list(ids)), learned=learned
    )
    if steps and steps[0].parent and task.line.first:
        with no_collector():
            state.load(parse_tree_listing(_listing(repo, steps[0].parent)))
    for step in steps:
        with no_collector():
            changes = with_moves(state.step(step.changes))
        counts = state.counts()
        yield CommitLine(
            commit=step.entry.oid,
            date=step.entry.date,
            pr=step.entry.pr,
            gates=counts.gates,
            targets={
                name: {"differs": pair[0], "undecided": pair[1]} for name, pair in counts.targets.items()
            },
            unreadable=len(state.unreadable),
            changes=tuple(c for c in changes if c.kind != "moved"),
            moved=sum(c.kind == "moved" for c in changes),
        )


def repo_of(task: Task) -> GitRepo:
    """The repository of a task. UserError T001 on a machine that does not see it."""
    repo = GitRepo.at(Path(task.git_dir))
    if repo is None:
        hints = ["give every machine the clone at the same place"]
        raise UserError("T001", "this machine does not see the repository", place=task.git_dir, hints=hints)
    return repo


def tasks_of(plan: Plan, done: int, several: bool) -> list[Task]:
    """What is left after ``done`` commits, as tasks: one commit each for full audits, else few."""
    left = plan.steps[done:]
    size = 1 if plan.head.setup.level == "full" else _TASK if several else max(1, len(left))
    out = []
    for start in range(0, len(left), size):
        part = left[start : start + size]
        first = part[0].parent if done or start or plan.line.first else ""
        out.append(Task(plan.git_dir, plan.head.setup, Line(first, part[-1].entry.oid)))
    return out


def head_of(file: LineFile) -> Head | None:
    """The head of a file that is there; None of an empty one. UserError H030 for what is no sweep, or another
    schema's."""
    if not file.lines:
        return None
    return read_head(file.lines[0], str(file.path))


def read_head(line: bytes, name: str) -> Head:
    """The head of a file. UserError H030."""
    hints = ["audit sweep A..B --output ANOTHER"]
    try:
        raw = plain_json(line)
        schema = raw["sweep"]
        if str(schema).partition(".")[0] != SCHEMA.partition(".")[0]:
            fact = f"a sweep of schema {schema}; this version reads {SCHEMA.partition('.')[0]}.x"
            raise UserError("H030", fact, place=name, hints=hints)
        return msgspec.convert(raw, Head)
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError):
        raise UserError("H030", "not a file of audit sweep", place=name, hints=hints) from None


def check_same(kept: Head, line: Line, setup: Setup, name: str) -> None:
    """UserError H031 where a file was made for a range that begins elsewhere or with other questions."""
    before = kept.setup
    asked: list[tuple[str, Any, Any]] = [
        ("range", f"{kept.first[:9]}..{kept.last[:9]}", f"{line.first[:9]}..{line.last[:9]}"),
        ("version", kept.tool, f"sglang-auditor {__version__}"),
    ]
    for field in ("project", "level", "targets", "reference", "cuda", "assumptions", "defaults"):
        asked.append((field, getattr(before, field), getattr(setup, field)))
    if kept.first == line.first:  # whether its end lies on the way to this one is seen in the commits
        asked = asked[1:]
    for what, there, here in asked:
        if there != here:
            fact = f"this file is of another {what}: {_shown(there)}, not {_shown(here)}"
            raise UserError("H031", fact, place=name, hints=["--output ANOTHER", f"audit trend {name}"])


def longer(file: LineFile, kept: Head, told: Plan) -> tuple[int, bool]:
    """Make the file of a range one of a longer range, which ``told`` plans.

    How many of its lines stay, and whether all that were whole do: they do not where other names are learned
    for the longer range, since those count in every commit. UserError H031 where the file's end is not on the
    way to the new one, H032.
    """
    name = str(file.path)
    if kept.commits >= len(told.steps) or told.steps[kept.commits - 1].entry.oid != kept.last:
        fact = f"this file is of a range to {kept.last[:9]}, which is not on the way to {told.head.last[:9]}"
        raise UserError("H031", fact, place=name, hints=["--output ANOTHER", f"audit trend {name}"])
    done, _ = done_lines(file, told.steps)
    same = kept.setup == told.head.setup
    done = done if same else 0
    file.replace([encoded(told.head), *file.lines[1 : done + 1]])
    return done, same


def _shown(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value) or "none"


def done_lines(file: LineFile, steps: Sequence[Step]) -> tuple[int, bool]:
    """How many commits are in the file, and whether its last line was dropped as damaged.

    UserError H032 where another line is damaged, or of another commit.
    """
    dropped = file.cut
    lines = file.lines[1:]
    for number, line in enumerate(lines):
        try:
            found = from_json(line, CommitLine)
        except Damaged:
            if number == len(lines) - 1:
                file.drop_last()
                return number, True
            fact = f"line {number + 2} is damaged"
            raise UserError("H032", fact, place=str(file.path), hints=["--output ANOTHER"]) from None
        if number >= len(steps) or found.commit != steps[number].entry.oid:
            fact = f"line {number + 2} is of {found.commit[:9]}, which does not come there"
            raise UserError("H032", fact, place=str(file.path), hints=["--output ANOTHER"])
    return len(lines), dropped


def encoded(line: CommitLine | Head) -> bytes:
    """A line of the file."""
    return msgspec.json.encode(line)


def _listing(repo: GitRepo, commit: str) -> bytes:
    try:
        return repo.list_tree(repo.commit(commit).tree)
    except MissingObject:
        raise _absent(repo, f"the tree of {commit[:9]} is not here") from None


def _read(repo: GitRepo, ids: list[str]) -> Iterator[bytes]:
    try:
        yield from repo.read_objects(ids)
    except MissingObject as missing:
        raise _absent(repo, f"the contents of {missing} are not here") from None


def _absent(repo: GitRepo, fact: str) -> UserError:
    if repo.is_partial:
        return UserError(
            "T005", f"{fact} (a partial clone)", hints=[repo.command("fetch --refetch --no-filter")]
        )
    if repo.is_shallow:
        return UserError("T005", f"{fact} (a shallow clone)", hints=[repo.command("fetch --unshallow")])
    return UserError("T005", f"{fact}: the repository is damaged", hints=[repo.command("fsck")])
