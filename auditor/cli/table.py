"""Which verbs there are, what question each one answers, and where its code lies. Imports nothing heavy."""

from __future__ import annotations

import os
from typing import NamedTuple

from auditor.data import data_root


class Verb(NamedTuple):
    """A row of the top-level help. ``where`` is ``module:attribute``, imported only when the verb runs."""

    question: str
    where: str


class Program(NamedTuple):
    """One command line program: its name, its help's first lines and its verbs."""

    name: str
    question: str
    usage: tuple[str, ...]
    examples: tuple[str, ...]
    verbs: dict[str, Verb]
    projects: bool = False  # whether names of profiles are commands too
    codes: tuple[str, ...] = ()

    def project_names(self) -> tuple[str, ...]:
        """The profiles that can be audited: the file names below ``queries/profiles``."""
        if not self.projects:
            return ()
        try:
            names = os.listdir(os.path.join(data_root(), "queries", "profiles"))
        except OSError:
            return ()
        return tuple(sorted(name[:-5] for name in names if name.endswith(".yaml") and name[0] not in "._"))


PROJECT = Verb("every gate of the project in one tree, worst first", "auditor.cli.audit.project:project")

_CODES = (
    "0  done",
    "1  --fail-on met, or a test, lint or guard failed",
    "2  usage or input: unknown commit, bad option, a file that does not parse",
    "3  a conflict that needs a person",
    "4  internal error; the path of a log to paste is printed",
    "130  interrupted",
)

AUDIT = Program(
    name="audit",
    question="Which code path does each GPU take in this source tree, and why?",
    usage=("audit PROJECT [OPTIONS]", "audit VERB [ARGUMENTS]"),
    examples=(
        "audit sglang --release 0.5.14 --target sm_120,sm_121",
        "audit sglang --commit v0.5.13~3 --format json --output audit.json",
    ),
    projects=True,
    codes=_CODES,
    verbs={
        "gate": Verb(
            "what one gate decides on every target, what hangs on it", "auditor.cli.audit.gate:gate"
        ),
        "path": Verb("what a server start does for one model on one target", "auditor.cli.audit.path:path"),
        "predicates": Verb(
            "what each arch helper of the tree means on every target",
            "auditor.cli.audit.predicates:predicates",
        ),
        "kernels": Verb(
            "which compiled kernels each target has, and why not", "auditor.cli.audit.kernels:kernels"
        ),
        "diff": Verb("what changed in meaning between two trees", "auditor.cli.audit.diff:diff"),
        "guard": Verb("did a newer tree change what these targets rely on", "auditor.cli.audit.guard:guard"),
        "baseline": Verb(
            "what is known of a tree, kept for the guard", "auditor.cli.audit.baseline:baseline"
        ),
        "history": Verb("which commits changed what a gate means", "auditor.cli.audit.history:history"),
        "sweep": Verb("how the gates of every commit of a range stand", "auditor.cli.audit.sweep:sweep"),
        "trend": Verb("gates per verdict over time, from a sweep", "auditor.cli.audit.trend:trend"),
        "targets": Verb("which GPUs are known and what each can do", "auditor.cli.audit.targets:targets"),
        "query": Verb("named patterns: list, show, new, test, lint", "auditor.cli.audit.query:query"),
        "cache": Verb("what is cached and where: info, clear", "auditor.cli.audit.cache:cache"),
        "completion": Verb("the script that completes words in a shell", "auditor.cli.completion:completion"),
    },
)

PATCHES = Program(
    name="patches",
    question="Do my changes to these code paths still apply, and do they still do what they should?",
    usage=("patches VERB [ARGUMENTS]",),
    examples=("patches status sm120 --onto v0.5.18",),
    codes=_CODES,
    verbs={
        "list": Verb("which patchsets there are", "auditor.cli.patches.list:list_"),
        "show": Verb("what a patch changes and why it exists", "auditor.cli.patches.show:show"),
        "status": Verb(
            "does my stack still apply to this tree, patch by patch", "auditor.cli.patches.status:status"
        ),
        "apply": Verb(
            "write a patchset to a checkout, wheel folder or installed copy",
            "auditor.cli.patches.apply:apply",
        ),
        "revert": Verb("take it out again", "auditor.cli.patches.revert:revert"),
        "verify": Verb(
            "is a tree what the lock says, and do the audit's postconditions hold",
            "auditor.cli.patches.verify:verify",
        ),
        "rebase": Verb("move a patchset to a new base", "auditor.cli.patches.rebase:rebase"),
        "port": Verb("carry one patch to another version", "auditor.cli.patches.port:port"),
        "explain": Verb("why a patch conflicts, and what to do", "auditor.cli.patches.explain:explain"),
        "export": Verb("write patches as mail or diff files", "auditor.cli.patches.export:export"),
        "import": Verb("turn diffs, overlays or scripts into patches", "auditor.cli.patches.import_:import_"),
        "new": Verb("start a patch", "auditor.cli.patches.new:new"),
        "lint": Verb("are patchset files well formed", "auditor.cli.patches.lint:lint"),
        "lock": Verb("pin base, hashes and result", "auditor.cli.patches.lock:lock"),
        "diff": Verb("what changed between two versions of a patchset", "auditor.cli.patches.diff:diff"),
        "doctor": Verb(
            "was a run stopped in the middle, and are the files as recorded",
            "auditor.cli.patches.doctor:doctor",
        ),
    },
)

UMBRELLA = Program(
    name="sglang-auditor",
    question="Audit code paths per GPU, and carry patches to them.",
    usage=("sglang-auditor audit …", "sglang-auditor patches …"),
    examples=("sglang-auditor audit sglang --release 0.5.14 --target sm_120",),
    codes=_CODES,
    verbs={
        "audit": Verb(AUDIT.question, "auditor.cli.groups:audit"),
        "patches": Verb(PATCHES.question, "auditor.cli.groups:patches"),
    },
)


def help_text(program: Program, name: str | None = None) -> str:
    """The top-level help, ending in a newline. ``name`` is what the user typed to get there."""
    name = name or program.name

    def typed(line: str) -> str:
        return name + line[len(program.name) :] if line.startswith(program.name + " ") else line

    rows = {project: PROJECT.question for project in program.project_names()}
    width = max(len(word) for word in [*rows, *program.verbs, "-V, --version"]) + 2
    out = [program.question, ""]
    for at, line in enumerate(program.usage):
        out.append(("usage: " if at == 0 else "       ") + typed(line))
    out += ["", "example:" if len(program.examples) == 1 else "examples:"]
    out += [f"  {typed(line)}" for line in program.examples]
    if rows:
        out += ["", "projects:"]
        out += [f"  {word:<{width}}{text}" for word, text in rows.items()]
    out += ["", "verbs:"]
    out += [f"  {word:<{width}}{verb.question}" for word, verb in program.verbs.items()]
    out += ["", "options:", f"  {'-h, --help':<{width}}this page; after a verb, its own"]
    out += [f"  {'-V, --version':<{width}}the version"]
    out += ["", "exit codes:"] + [f"  {line}" for line in program.codes]
    return "\n".join(out) + "\n"
