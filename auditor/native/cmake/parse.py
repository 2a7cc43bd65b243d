"""Reads CMake files: commands with their arguments and places, nested as ``if`` and ``foreach`` nest them.

The lexical grammar is that of cmake-language(7): quoted, unquoted and bracket arguments, both kinds of
comments. Nothing is evaluated here. What cannot be read is a :class:`Fault` with its line; reading goes on at
the next line that can be read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

#: More commands than this in one file are not read: a generated table, not a build description.
MAX_COMMANDS = 50_000
#: Faults are told one by one up to here: a file that is not CMake at all has thousands.
MAX_FAULTS = 5
#: Deeper nesting than any person writes; it ends reading instead of the interpreter's stack.
MAX_DEPTH = 60

_GAP = re.compile(r"[ \t\r]+|\n|#\[(=*)\[.*?\]\1\]|#[^\n]*", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BRACKET = re.compile(r"\[(=*)\[\n?(.*?)\]\1\]", re.DOTALL)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
# Unquoted: no blanks, parentheses, comment or quote, except inside $(MAKEVAR) and legacy -Da="b c".
_UNQUOTED = re.compile(r'(?:\\.|\$\([^()\s]*\)|[^\s()#"\\]|(?<=[^\s("])"[^"\n]*")+')


class Arg(NamedTuple):
    """One argument as written. ``kind``: ``quoted``, ``bracket``, ``plain``, or ``paren`` for ( and )."""

    text: str
    kind: str
    line: int


@dataclass
class Command:
    """A command; for the opening ones of a block, ``body`` holds what is inside.

    ``branches`` are the further parts of an ``if``: the ``elseif`` and ``else`` commands with their bodies.
    """

    name: str  # lower case, as CMake compares them
    args: list[Arg]
    line: int
    body: list[Command] = field(default_factory=list)
    branches: list[Command] = field(default_factory=list)


class Fault(NamedTuple):
    """Something that could not be read."""

    line: int
    message: str


_ENDS = {
    "if": "endif",
    "foreach": "endforeach",
    "while": "endwhile",
    "function": "endfunction",
    "macro": "endmacro",
    "block": "endblock",
}


def read(text: str) -> tuple[list[Command], list[Fault]]:
    """The commands of one file, nested, and what could not be read."""
    faults: list[Fault] = []
    nested = _nest(_commands(text, faults), faults)
    faults.sort(key=lambda fault: fault.line)
    if len(faults) > MAX_FAULTS:
        more = len(faults) - MAX_FAULTS
        faults[MAX_FAULTS:] = [Fault(faults[MAX_FAULTS].line, f"{more:,} more faults from here on")]
    return nested, faults


class _Cursor:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.line = 1

    def move(self, to: int) -> None:
        self.line += self.text.count("\n", self.at, to)
        self.at = to

    def gap(self) -> None:
        while match := _GAP.match(self.text, self.at):
            self.move(match.end())


def _commands(text: str, faults: list[Fault]) -> list[Command]:
    cur = _Cursor(text.removeprefix("\ufeff"))
    out: list[Command] = []
    while True:
        cur.gap()
        if cur.at >= len(cur.text):
            return out
        if len(out) >= MAX_COMMANDS:
            faults.append(Fault(cur.line, f"more than {MAX_COMMANDS:,} commands: the rest is not read"))
            return out
        line = cur.line
        name = _NAME.match(cur.text, cur.at)
        if name is None:
            _skip_line(cur, faults, f"no command starts with {cur.text[cur.at]!r}")
            continue
        cur.move(name.end())
        while cur.at < len(cur.text) and cur.text[cur.at] in " \t":
            cur.at += 1
        if cur.text[cur.at : cur.at + 1] != "(":
            _skip_line(cur, faults, f"no ( after {name.group()}")
            continue
        cur.move(cur.at + 1)
        args = _arguments(cur)
        if args is None:
            faults.append(Fault(line, f"the arguments of {name.group()} have no end: the rest is not read"))
            return out
        out.append(Command(name.group().lower(), args, line))


def _skip_line(cur: _Cursor, faults: list[Fault], message: str) -> None:
    faults.append(Fault(cur.line, message))
    end = cur.text.find("\n", cur.at)
    cur.move(len(cur.text) if end < 0 else end)


def _arguments(cur: _Cursor) -> list[Arg] | None:
    """Arguments up to the closing parenthesis; None if there is none."""
    out: list[Arg] = []
    depth = 0
    while True:
        cur.gap()
        if cur.at >= len(cur.text):
            return None
        char = cur.text[cur.at]
        if char in "()":
            cur.at += 1
            if char == ")":
                if depth == 0:
                    return out
                depth -= 1
            else:
                depth += 1
            out.append(Arg(char, "paren", cur.line))
            continue
        match = _BRACKET.match(cur.text, cur.at)
        if match:
            out.append(Arg(match[2], "bracket", cur.line))
        elif match := _QUOTED.match(cur.text, cur.at):
            out.append(Arg(match[1].replace("\\\n", ""), "quoted", cur.line))
        elif match := _UNQUOTED.match(cur.text, cur.at):
            out.append(Arg(match[0], "plain", cur.line))
        else:
            return None
        cur.move(match.end())


def _nest(flat: list[Command], faults: list[Fault]) -> list[Command]:
    top: list[Command] = []
    # Where commands go now, the block they belong to, and the command that opened it.
    stack: list[tuple[list[Command], str, Command | None]] = [(top, "", None)]
    for command in flat:
        into, end, opener = stack[-1]
        if command.name in _ENDS:
            into.append(command)
            if len(stack) >= MAX_DEPTH:
                faults.append(Fault(command.line, f"nested deeper than {MAX_DEPTH}: not read"))
                return top
            stack.append((command.body, _ENDS[command.name], command))
        elif command.name == end:
            stack.pop()
        elif command.name in ("elseif", "else") and end == "endif":
            assert opener is not None
            opener.branches.append(command)
            stack[-1] = (command.body, end, opener)
        elif command.name in ("elseif", "else") or command.name in _ENDS.values():
            faults.append(Fault(command.line, f"{command.name} without its beginning"))
        else:
            into.append(command)
    for _into, end, opener in stack[1:]:
        assert opener is not None
        faults.append(Fault(opener.line, f"{opener.name} without {end}"))
    return top
