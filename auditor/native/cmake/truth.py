"""Conditions of ``if``: CMake's operators over values that may be unknown (Kleene logic)."""

from __future__ import annotations

import re
from collections.abc import Callable

from auditor.native.cmake.parse import Arg
from auditor.native.cmake.values import (
    FALSE,
    TRUE,
    Truth,
    Value,
    constant,
    merged,
    text_of,
    unknown,
    version_truth,
)

_VERSIONS = (
    "VERSION_LESS",
    "VERSION_GREATER",
    "VERSION_EQUAL",
    "VERSION_LESS_EQUAL",
    "VERSION_GREATER_EQUAL",
)
_STRINGS: dict[str, Callable[[str, str], bool]] = {
    "STREQUAL": lambda a, b: a == b,
    "STRLESS": lambda a, b: a < b,
    "STRGREATER": lambda a, b: a > b,
    "STRLESS_EQUAL": lambda a, b: a <= b,
    "STRGREATER_EQUAL": lambda a, b: a >= b,
    "PATH_EQUAL": lambda a, b: a == b,
}
_NUMBERS: dict[str, Callable[[float, float], bool]] = {
    "EQUAL": lambda a, b: a == b,
    "LESS": lambda a, b: a < b,
    "GREATER": lambda a, b: a > b,
    "LESS_EQUAL": lambda a, b: a <= b,
    "GREATER_EQUAL": lambda a, b: a >= b,
}
_BINARY = {*_VERSIONS, *_STRINGS, *_NUMBERS, "MATCHES", "IN_LIST", "IS_NEWER_THAN"}
_UNARY = (
    "DEFINED",
    "TARGET",
    "COMMAND",
    "POLICY",
    "EXISTS",
    "IS_DIRECTORY",
    "IS_ABSOLUTE",
    "TEST",
    "IS_SYMLINK",
)


def negated(truth: Truth) -> Truth:
    """NOT."""
    if truth.value == "unknown":
        return truth
    return FALSE if truth.value == "true" else TRUE


def both(a: Truth, b: Truth) -> Truth:
    """AND."""
    if "false" in (a.value, b.value):
        return FALSE
    if "unknown" in (a.value, b.value):
        return Truth("unknown", merged(a.why, b.why))
    return TRUE


def either(a: Truth, b: Truth) -> Truth:
    """OR."""
    return negated(both(negated(a), negated(b)))


class Condition:
    """Evaluates the arguments of one ``if``.

    ``lookup`` gives a variable's value or None where nothing sets it; ``expand`` the value of an argument;
    ``has_target`` whether a target is defined.
    """

    def __init__(
        self,
        args: list[Arg],
        lookup: Callable[[str], Value | None],
        expand: Callable[[Arg], tuple[str | None, tuple[str, ...]]],
        has_target: Callable[[str], Truth],
    ) -> None:
        self.args = args
        self.lookup = lookup
        self.expand = expand
        self.has_target = has_target
        self.at = 0
        self.fault = ""

    def value(self) -> Truth:
        """The truth of the whole; an odd condition is unknown."""
        if not self.args:
            return FALSE
        truth = self._or()
        if self.at < len(self.args) or self.fault:
            return unknown(self.fault or "a condition that cannot be read")
        return truth

    def _word(self) -> str:
        if self.at < len(self.args) and self.args[self.at].kind == "plain":
            return self.args[self.at].text
        return ""

    def _or(self) -> Truth:
        truth = self._and()
        while self._word() == "OR":
            self.at += 1
            truth = either(truth, self._and())
        return truth

    def _and(self) -> Truth:
        truth = self._not()
        while self._word() == "AND":
            self.at += 1
            truth = both(truth, self._not())
        return truth

    def _not(self) -> Truth:
        if self._word() == "NOT":
            self.at += 1
            return negated(self._not())
        return self._primary()

    def _primary(self) -> Truth:
        if self.at >= len(self.args):
            self.fault = "a condition without its end"
            return FALSE
        arg = self.args[self.at]
        if arg.kind == "paren":
            if arg.text == ")":
                self.fault = "a ) too many"
                return FALSE
            self.at += 1
            truth = self._or()
            if self.at >= len(self.args) or self.args[self.at].text != ")":
                self.fault = "a ) is missing"
            self.at += 1
            return truth
        after = self.args[self.at + 1] if self.at + 1 < len(self.args) else None
        if arg.kind == "plain" and arg.text in _UNARY and after is not None and after.kind != "paren":
            self.at += 2
            return self._unary(arg.text, after)
        if after is not None and after.kind == "plain" and after.text in _BINARY:
            if self.at + 2 >= len(self.args):
                self.fault = f"{after.text} without its right side"
                return FALSE
            right = self.args[self.at + 2]
            self.at += 3
            return self._binary(arg, after.text, right)
        self.at += 1
        return self._plain(arg)

    def _unary(self, operator: str, arg: Arg) -> Truth:
        name, why = self.expand(arg)
        if name is None:
            return Truth("unknown", why)
        if operator == "DEFINED":
            if name.startswith(("ENV{", "CACHE{")):
                return unknown(name.replace("ENV{", "environment ").rstrip("}"))
            value = self.lookup(name)
            if value is None:
                return unknown(f"${{{name}}} is not set in this tree")
            conditional = [item for item in value if item.when == "unknown"]
            return Truth("unknown", conditional[0].because) if conditional and len(value) == 1 else TRUE
        if operator == "TARGET":
            return self.has_target(name)
        if operator == "POLICY":
            return TRUE
        return unknown(f"{operator} {name}")

    def _operand(self, arg: Arg) -> tuple[str | None, tuple[str, ...]]:
        """The text of one side of a comparison: an unquoted name of a variable stands for its value."""
        text, why = self.expand(arg)
        if text is not None and arg.kind == "plain":
            value = self.lookup(text)
            if value is not None:
                return text_of(value)
        return text, why

    def _binary(self, left: Arg, operator: str, right: Arg) -> Truth:
        a, why_a = self._operand(left)
        b, why_b = (self.expand if operator in ("MATCHES", "IN_LIST") else self._operand)(right)
        if operator == "IN_LIST" and b is not None and a is not None:
            value = self.lookup(b)
            if value is None:
                return unknown(f"${{{b}}} is not set in this tree")
            if any(item.text == a and item.when == "true" for item in value):
                return TRUE
            listed, why = text_of(value)
            return FALSE if listed is not None else Truth("unknown", why)
        if a is None or b is None:
            return Truth("unknown", merged(why_a, why_b))
        result: bool | None
        if operator in _VERSIONS:
            result = version_truth(operator, a, b)
        elif "*" in a and re.fullmatch(r"\d+(\.\d+)*\.\*", a):
            result = None
        elif operator in _STRINGS:
            result = _STRINGS[operator](a, b)
        elif operator in _NUMBERS:
            try:
                result = _NUMBERS[operator](float(a), float(b))
            except ValueError:
                result = False
        elif operator == "MATCHES":
            result = matches(b, a)
        else:
            result = None
        if result is None:
            return unknown(f"{a} {operator} {b}")
        return TRUE if result else FALSE

    def _plain(self, arg: Arg) -> Truth:
        text, why = self.expand(arg)
        if text is None:
            return Truth("unknown", why)
        fixed = constant(text)
        if fixed is not None:
            return TRUE if fixed else FALSE
        if arg.kind != "plain":
            return FALSE  # CMP0054: a quoted text that is no constant is false
        value = self.lookup(text)
        if value is None:
            return unknown(f"${{{text}}} is not set in this tree")
        inner, why = text_of(value)
        if inner is None:
            return Truth("unknown", why)
        fixed = constant(inner)
        return TRUE if fixed or fixed is None else FALSE


def matches(pattern: str, text: str) -> bool | None:
    """Whether CMake's regular expression is found in the text; None for one that Python cannot read.

    A pattern from an audited tree is input: long ones, and repeated groups, are not run.
    """
    if len(pattern) > 500 or len(text) > 10_000 or re.search(r"\)[*+]", pattern):
        return None
    try:
        return re.search(pattern, text) is not None
    except re.error:
        return None
