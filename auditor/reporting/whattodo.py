"""What a person does about what tripped the guard: in order, with commands that can be typed.

Nothing here proposes to widen a condition: whether a gate is right is for the person who reads it.
"""

from __future__ import annotations

import shlex
from typing import NamedTuple

from auditor.gates.model import TreeFacts
from auditor.history.model import Change, Diff, PatchState
from auditor.reporting.notes import GROUPS, group_of

#: Why a change of a kind trips the guard, where nothing else is asked of it.
TRIPS = {
    "outcome": "decided before, and the target goes another way now",
    "kernel": "the target ran it before, and cannot now",
    "forced": "a setting of yours is overwritten now",
    "default": "the default does not suit the target now, or flipped where its trouble hangs on it",
    "flag": "a flag that is named for the target is declared otherwise now",
    "removed": "the target had an arm of its own here, and it is gone",
}
#: The same of a gate that is new.
REFUSED = "it went on here before, and is refused now"
#: The same where it cannot be told any more what the target gets.
OPEN = "decided before, and open now: what it depends on is not known from the source alone"


class Step(NamedTuple):
    """One thing to do: in words, then commands."""

    words: str
    commands: tuple[str, ...] = ()


class Trees(NamedTuple):
    """The two trees as options of a command, "" where a report does not know them, and the clone's."""

    old: str
    new: str
    repo: str  # " --repo PATH", "" where none was named

    def range(self, diff: Diff) -> str:
        """``A..B`` where both are commits, else ""."""
        both = diff.old.commit, diff.new.commit
        return shlex.quote(f"{diff.old.label}..{diff.new.label}") if all(both) else ""


def trees(diff: Diff, repo: str) -> Trees:
    """How the two trees are named on a command line."""
    return Trees(tree_option(diff.old), tree_option(diff.new), repo)


def tree_option(tree: TreeFacts) -> str:
    """``--commit 735a256`` or ``--release 0.5.18``: the options that choose this tree again."""
    if tree.kind == "commit":
        return f"--commit {shlex.quote(tree.label)}"
    if tree.kind in ("release", "wheel") and tree.version:
        return f"--release {shlex.quote(tree.version)}"
    return ""


def of_change(change: Change, diff: Diff, at: Trees) -> list[Step]:
    """What to do about one change that tripped."""
    targets = f" --target {','.join(diff.targets)}"
    out = []
    commands = []
    if change.gate and change.kind != "removed" and at.new:
        commands.append(f"audit gate {change.gate} {at.new}{_repo(at.new, at)}{targets}")
    old = change.old_gate or (change.gate if change.kind != "added" else "")
    if old and at.old:
        commands.append(f"audit gate {old} {at.old}{_repo(at.old, at)}{targets}")
    if change.kind == "kernel":
        # what is gone can only be asked of the tree that had it
        tree = at.old if set(change.after.values()) == {"absent"} else at.new
        if tree:
            asked = f"audit kernels {diff.project} --op {shlex.quote(change.what)}"
            commands.append(f"{asked} {tree}{_repo(tree, at)}{targets}")
    out.append(Step(GROUPS[group_of(change)], tuple(commands)))
    span = at.range(diff)
    if change.gate and span and len(change.commits) != 1:
        words = "Which commit was it?"
        out.append(Step(words, (f"audit history {change.gate} {span}{at.repo}{targets}",)))
    return out


def _repo(option: str, at: Trees) -> str:
    return at.repo if option.startswith("--commit ") else ""


def of_patch(state: PatchState, diff: Diff, at: Trees) -> list[Step]:
    """What to do about one patch that does not go, or a check that fails."""
    onto = at.new.partition(" ")[2] or "TREE"
    clone = at.repo.replace("--repo", "--clone", 1)
    set_ = shlex.quote(state.patchset)
    if state.kind == "check":
        return [Step("See what does not hold.", (f"patches verify {set_} --onto {onto}{clone}",))]
    explain = f"patches explain {set_} {shlex.quote(state.name)} --onto {onto}{clone}"
    if state.status == "upstream":
        return [Step("Upstream has it: the patch can go with this base.", (explain,))]
    if state.status == "not-tried":
        return [Step("It stands on a patch that does not go: mend that one first.", (explain,))]
    return [
        Step("Why, and because of which commit?", (explain,)),
        Step(
            "Carry the stack to the new base.",
            (f"patches rebase {set_} --onto {onto}{clone} --dry-run",),
        ),
    ]


def of_guard(diff: Diff, at: Trees, tripped: int, patches: int) -> list[Step]:
    """What to do about all of it; ``tripped`` changes and ``patches`` that do not go or hold."""
    targets = f" --target {','.join(diff.targets)}"
    keep = (f"audit baseline write known.json {at.new}{_repo(at.new, at)}{targets}",) if at.new else ()
    if not tripped and not patches:
        return [Step("Nothing. The newer tree can be what is known from here on.", keep)]
    out = []
    if tripped:
        if any(change.commits for change in diff.changes):
            words = "Read the pull requests below: each row says what one changed, and for whom."
            out.append(Step(words))
        else:
            words = (
                "Open each row, what is lost first: it shows the places, what the target gets and why. No"
                " commit is named, since the two trees are not commits of one clone; with a clone they are"
            )
            old, new = (
                shlex.quote(f"v{t.version}" if t.version and not t.commit else t.label)
                for t in (diff.old, diff.new)
            )
            words += ", where it has these tags." if diff.old.version else "."
            out.append(Step(words, (f"audit guard {old} {new} --repo ../{diff.project}{targets}",)))
        out.append(
            Step(
                f"Stay on {diff.old.label} for {', '.join(diff.targets)} until each is understood: what"
                " tripped is what a target had there and has no more, or gets otherwise."
            )
        )
    if patches:
        out.append(Step("Mend the patches that do not go: their rows say why, and what is next."))
    out.append(
        Step(
            "Where a verdict is meant to be, write that down once with its evidence, in an exceptions file"
            " (--exceptions FILE). Where all of it is right, make the newer tree what is known:",
            keep,
        )
    )
    return out
