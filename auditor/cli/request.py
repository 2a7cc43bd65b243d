"""The options of the verbs that audit a tree, as data, and the request that they come to.

Two parsers share this table: click, which knows everything about help, completion and mistakes, and the quick
one of :mod:`auditor.cli.audit.quick`, which saves importing click where the words are plain.
"""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple

from auditor.errors import UserError
from auditor.lazyre import lazy

#: Values of ``--format`` for other tools; see :mod:`auditor.cli.audit.papers`.
FORMATS = ("sarif", "github", "markdown", "junit")
#: What is audited where nothing else is named.
DEFAULT_PROJECT = "sglang"

SOURCE = "which tree (without any: the clone you are in, else the public repository)"
QUESTION = "what is asked"
OUTPUT = "output"

_URL = lazy(r"[a-z][a-z0-9+.-]*://|[\w.-]+@[\w.-]+:")


class Spec(NamedTuple):
    """One option. ``kind`` says what follows it:

    ``text`` and ``file`` (one word), ``maybe`` (a word or nothing), ``flag``, ``count``, ``choice``, and the
    typed ones: ``targets``, ``target``, ``assumption`` and ``verdicts``.
    """

    names: tuple[str, ...]
    kind: str
    section: str
    help: str
    metavar: str | None = None
    default: Any = None
    many: bool = False
    choices: tuple[str, ...] = ()
    hidden: bool = False

    @property
    def dest(self) -> str:
        """The name under which the value is passed on: that of the last long spelling."""
        return self.names[-1].lstrip("-").replace("-", "_")


SPECS = (
    Spec(("--commit",), "text", SOURCE, "A commit, tag, branch or A~3; nothing is checked out.", "REV"),
    Spec(("--path",), "file", SOURCE, "A clone (or bare one), unpacked folder or wheel file.", "PATH"),
    Spec(("--worktree",), "maybe", SOURCE, "Files as they lie in a clone, changes included.", "[DIR]"),
    Spec(("--release",), "text", SOURCE, "A release, fetched once through pip into the cache.", "VERSION"),
    Spec(("--wheel",), "file", SOURCE, "A wheel file.", "FILE"),
    Spec(("--installed",), "maybe", SOURCE, "The installed copy, there or in DIR; not imported.", "[DIR]"),
    Spec(("--repo",), "text", SOURCE, "Where the commits are: a clone, or a URL, kept cached.", "URL"),
    Spec(("--allow-fetch",), "flag", SOURCE, "Let a partial clone fetch the objects it lacks."),
    Spec(("--target",), "targets", QUESTION, "GPU targets, or all.", "LIST", "sm_120"),
    Spec(("--against",), "target", QUESTION, "The target to compare with.", "TARGET", "sm_100"),
    Spec(
        ("--assume",),
        "assumption",
        QUESTION,
        "A fact: cuda=12.8, dep.NAME=absent, env.X=1 …",
        "KEY=VALUE",
        many=True,
    ),
    Spec(("--defaults",), "flag", QUESTION, "Unset arguments and environment as on a fresh start."),
    Spec(("--format",), "choice", OUTPUT, "How to print it.", None, "terminal", choices=("terminal", "json")),
    Spec(("--output",), "file", OUTPUT, "Write there; whole or not at all.", "FILE"),
    Spec(("--color",), "choice", OUTPUT, "Coloured?", None, "auto", choices=("auto", "always", "never")),
    Spec(("-v", "--verbose"), "count", OUTPUT, "More: chains and arms; twice for everything."),
    Spec(("-q", "--quiet"), "flag", OUTPUT, "Findings only, no chatter."),
    Spec(("--fail-on",), "verdicts", OUTPUT, "Exit 1 if a target gets one of these.", "LIST", many=True),
    Spec(("--exceptions",), "file", OUTPUT, "Deliberate verdicts: not shown, not counted.", "FILE"),
    Spec(
        ("--history",),
        "text",
        OUTPUT,
        "Past of gates in the page: a file of audit sweep, history or diff, or a range A..B to sweep.",
        "FILE|A..B",
        many=True,
    ),
    Spec(("--no-cache",), "flag", OUTPUT, "Neither read nor write cached facts."),
    Spec(("--project",), "text", SOURCE, "The profile.", "NAME", DEFAULT_PROJECT, hidden=True),
)


#: Options that name one tree, by :attr:`Spec.dest`.
WHICH_TREE = ("commit", "worktree", "release", "wheel", "installed")


class Request(NamedTuple):
    """What the options said. ``None`` means: not given."""

    project: str
    path: str | None  # a clone, bare repository, folder or wheel on this disk
    commit: str | None
    release: str | None
    wheel: str | None
    installed: bool | str | None  # True where no folder was named
    repo: str | None  # a URL
    worktree: bool
    allow_fetch: bool
    targets: tuple[str, ...]
    reference: str
    assumptions: dict[str, str]
    defaults: bool
    format: str
    verbose: int
    quiet: bool
    color: str
    fail_on: tuple[str, ...]
    output: str | None
    use_cache: bool
    exceptions: str | None = None
    history: tuple[str, ...] = ()


def in_actions() -> bool:
    """Whether this is a job of GitHub Actions, which shows annotations."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def targets_value(text: str, option: str | None = None) -> tuple[str, ...]:
    """A comma list of targets, or ``all``. With ``option``: exactly one. UserError E001, U001."""
    from auditor.arch import parse_targets

    try:
        names = parse_targets(text)
    except UserError as error:
        if option is None:
            raise
        # The list and the single target are told apart only here.
        hints = [hint.replace("--target", option, 1) for hint in error.hints]
        place = error.place and error.place.replace("--target", option, 1)
        raise UserError(error.code, error.fact, place=place, hints=hints) from None
    if option is not None and len(names) != 1:
        raise UserError("U001", f"{option} takes one target", place=text, hints=[f"{option} {names[0]}"])
    return names


def verdicts_value(text: str) -> tuple[str, ...]:
    """A comma list of verdicts. UserError U006 for an unknown one."""
    from auditor.gates.model import VERDICTS

    names = tuple(word.strip() for word in text.split(",") if word.strip())
    for word in names:
        if word not in VERDICTS:
            import difflib

            near = difflib.get_close_matches(word, VERDICTS, n=1, cutoff=0.4)
            fact = f"unknown verdict {word!r}; known are {', '.join(VERDICTS)}"
            hints = [f"--fail-on {name}" for name in near]
            raise UserError("U006", fact, place=f"--fail-on {text}", hints=hints)
    return names


#: What can be assumed: how the key is spelled, which values it takes, and one that is right.
_ASSUMABLE = (
    (lazy(r"cuda"), lazy(r"\d+\.\d+"), "cuda=12.8"),
    (lazy(r"machine"), lazy(r"\w+"), "machine=aarch64"),
    (lazy(r"model"), lazy(r"\w+"), "model=CLASS"),
    (lazy(r"cmake\.[A-Za-z_]\w*"), lazy(r".*", re.DOTALL), "cmake.NAME=ON"),
    (lazy(r"env\.[A-Za-z_]\w*"), lazy(r".*", re.DOTALL), "env.NAME=1"),
    (lazy(r"arg\.[A-Za-z_]\w*"), lazy(r".*", re.DOTALL), "arg.NAME=auto"),
    (
        lazy(r"dep\.[A-Za-z_]\w*"),
        lazy(r"absent|present|no|yes|false|true|0|1|\d+\.\w[\w.+]*"),
        "dep.NAME=absent",
    ),
)


def assumption_value(text: str) -> tuple[str, str]:
    """``KEY=VALUE`` without blanks around either. UserError U007 where the evaluator asks for no such key, or
    cannot take the value: an assumption that is quietly ignored would be believed."""
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not key:
        hints = [f"--assume {key or 'dep.NAME'}=VALUE", "--assume cuda=12.8"]
        raise UserError("U007", "an assumption is KEY=VALUE", place=f"--assume {text}", hints=hints)
    for keys, values, example in _ASSUMABLE:
        if keys.fullmatch(key):
            if values.fullmatch(value):
                return key, value
            right = example.replace("NAME", key.partition(".")[2])
            fact = f"{key} cannot be {value!r}" if value else f"{key} needs a value"
            raise UserError("U007", fact, place=f"--assume {text}", hints=[f"--assume {right}"])
    names = "cuda, machine, model, arg.…, cmake.…, dep.… and env.…"
    fact = f"nothing is assumed under the name {key!r}; known are {names}"
    raise UserError("U007", fact, place=f"--assume {text}", hints=_meant(key, value))


def _meant(key: str, value: str) -> list[str]:
    """What was probably meant by an unknown key, as it can be typed."""
    import shlex
    from difflib import get_close_matches

    family, dot, name = key.partition(".")
    name = name.lstrip("-").replace("-", "_")
    near = get_close_matches(
        family, ("env", "arg", "dep", "cmake") if dot else ("cuda", "machine", "model"), 1
    )
    if near and (name or not dot):
        return [shlex.join(["--assume", f"{near[0]}{dot}{name}={value}"])]
    if re.fullmatch(r"[A-Z][A-Z0-9_]+", key):
        return [shlex.join(["--assume", f"env.{key}={value}"])]
    if not dot and (name := key.lstrip("-").replace("-", "_")).isidentifier():
        return [shlex.join(["--assume", f"arg.{name}={value}"])]
    return [f"--assume {example}" for _, _, example in _ASSUMABLE[4:]]


def build(words: dict[str, Any]) -> Request:
    """The request of parsed words, by :attr:`Spec.dest`.

    UserError U005, U007 where they contradict, U004 where ``--output`` is in no folder: the report would have
    been made for nothing.
    """
    output = words["output"]
    if output not in (None, "-") and not os.path.isdir(os.path.dirname(output) or "."):
        import shlex

        hints = [f"mkdir -p {shlex.quote(os.path.dirname(output))}"]
        raise UserError("U004", "there is no such folder to write the report in", place=output, hints=hints)
    repo = words["repo"]
    local = [words["path"]] if words["path"] is not None else []
    local += [words["worktree"]] if words["worktree"] else []
    if repo is not None and not _URL.match(repo):
        local.append(repo)
        repo = None
    if len(set(local)) > 1:
        fact = f"{local[0]!r} and {local[1]!r} name two different sources"
        raise UserError("U005", fact, hints=[f"--path {local[0]}"])
    verdicts = [verdict for group in words.get("fail_on") or () for verdict in group]
    return Request(
        project=words["project"],
        path=local[0] if local else None,
        commit=words["commit"],
        release=words["release"],
        wheel=words["wheel"],
        installed=True if words["installed"] == "" else words["installed"],
        repo=repo,
        worktree=words["worktree"] is not None,
        allow_fetch=words["allow_fetch"],
        targets=words["target"],
        reference=words["against"][0],
        assumptions=_assumptions(words["assume"]),
        defaults=words["defaults"],
        format=words["format"],
        verbose=words["verbose"],
        quiet=words["quiet"],
        color=words["color"],
        fail_on=tuple(dict.fromkeys(verdicts)),
        output=output,
        use_cache=not words["no_cache"],
        exceptions=words.get("exceptions"),
        history=tuple(words.get("history") or ()),
    )


def _assumptions(pairs: tuple[tuple[str, str], ...]) -> dict[str, str]:
    out: dict[str, str] = {}
    for key, value in pairs:
        if out.get(key, value) != value:
            fact = f"two values for the assumption {key!r}: {out[key]!r} and {value!r}"
            raise UserError("U007", fact, hints=[f"--assume {key}={value}"])
        out[key] = value
    return dict(sorted(out.items()))
