"""Every error a user can see: a code, one fact, a place, and a hint that can be typed.

Library code raises :class:`UserError`; only ``auditor.cli`` prints it and exits. The exit codes are
the contract of both commands: 0 ok, 1 findings (``--fail-on``), 2 usage or input, 3 conflict that
needs a person, 4 internal error, 130 interrupted.
"""

from __future__ import annotations

from auditor.lazyre import lazy

#: Control characters (C0, C1, DEL), line separators, marks that turn or hide text, and lone surrogates.
UNSAFE = lazy(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff]"
)

EXIT_OK = 0
EXIT_FINDINGS = 1
EXIT_INPUT = 2
EXIT_CONFLICT = 3
EXIT_INTERNAL = 4
EXIT_INTERRUPT = 130


class UserError(Exception):
    """An expected failure, shown as ``error[CODE]: fact`` plus a place and hints.

    ``code`` is stable (``T001``: trees, ``Q0nn``: queries, ``E0nn``: assumptions, targets, evaluation,
    ``P0nn``: patches, ``U0nn``: usage). ``place`` is where (a path, ``path:line``, or a ref). ``hints`` are
    commands or edits a person can type as they stand. ``exit_code`` is one of the constants above.
    """

    def __init__(
        self,
        code: str,
        fact: str,
        *,
        place: str | None = None,
        hints: tuple[str, ...] | list[str] = (),
        exit_code: int = EXIT_INPUT,
    ) -> None:
        super().__init__(fact)
        self.code = code
        self.fact = clean(fact) if "\n" in fact or "\r" in fact else fact  # one line, whoever's words it has
        self.place = place
        self.hints = tuple(hints)
        self.exit_code = exit_code

    def render(self) -> str:
        """The message as plain text, without colour, ending without a newline."""
        lines = [f"error[{self.code}]: {clean(self.fact)}"]
        if self.place:
            lines.append(f"  {disarmed(clean(self.place))}")
        lines += [f"help: {clean(hint)}" for hint in self.hints]
        return "\n".join(lines)


def clean(text: str) -> str:
    """Text from elsewhere, safe to print on a line: nothing in it moves the cursor, hides other text or ends
    the line, nor is it a command to the runner of a CI job, which takes ``##[word]`` from anywhere.
    """
    text = UNSAFE.sub(lambda match: " " if match[0] in "\t\n\r" else "?", text)
    return text.replace("##[", "## [")


def disarmed(line: str) -> str:
    """A line that may begin with foreign text: there a CI job's runner takes ``::word::`` for a command."""
    return line.replace(":", ": ", 1) if line.lstrip().startswith("::") else line


def shown(text: str) -> str:
    """Lines of our own with foreign words in them: nothing moves the cursor or commands a CI job's runner."""
    return "\n".join(disarmed(clean(line)) for line in text.split("\n"))


def sentence_of(error: BaseException) -> str:
    """What an error of a library says, as the end of a sentence; ``JSON is …`` keeps its letters."""
    text = str(error)
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]
