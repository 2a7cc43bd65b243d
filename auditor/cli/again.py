"""A hint that corrects what was typed keeps the rest of it: the tree, the targets and what is assumed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from auditor.cli.request import QUESTION, SOURCE, SPECS, Spec
from auditor.errors import UserError

_OPTIONS = {name: spec for spec in SPECS if spec.section in (SOURCE, QUESTION) for name in spec.names}
#: Usage (an option that the verb has not, two that contradict) is not mended by saying all of it again.
_NOT_AGAIN = ("U001", "U005")


def with_the_rest(error: UserError, words: Sequence[str]) -> UserError:
    """The error, its hints of the verb that was typed with the options that were typed."""
    words = words[1:] if words[:1] == ["audit"] else words
    if error.code in _NOT_AGAIN or not words:
        return error
    hints = [_completed(hint, words) for hint in error.hints]
    return UserError(error.code, error.fact, place=error.place, hints=hints, exit_code=error.exit_code)


def _completed(hint: str, words: Sequence[str]) -> str:
    command, gap, remark = hint.partition("    #")
    said = command.split()
    if said[:2] != ["audit", words[0]]:
        return hint
    known = {_OPTIONS[word].dest for word in said if word in _OPTIONS}
    tree = any(spec.section == SOURCE and spec.dest in known for spec in SPECS)
    rest = [
        shlex.join(typed)
        for spec, typed in _options(words[1:])
        if spec.dest not in known and not (tree and spec.section == SOURCE)
    ]
    return " ".join([command.rstrip(), *rest]) + gap + remark


def _options(words: Sequence[str]) -> Iterator[tuple[Spec, list[str]]]:
    """The options among the words that say what is asked of which tree, each with its value."""
    at = 0
    while at < len(words):
        name, equals, _ = words[at].partition("=")
        spec = _OPTIONS.get(name)
        at += 1
        if spec is None:
            continue
        follows = not equals and spec.kind != "flag" and at < len(words)
        if follows and spec.kind == "maybe":
            follows = not words[at].startswith("-")
        yield spec, [words[at - 1], words[at]] if follows else [words[at - 1]]
        at += follows
