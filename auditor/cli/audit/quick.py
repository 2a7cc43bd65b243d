"""Reads the words of ``audit PROJECT …`` without click, where they are plain.

Importing click costs as much as a whole audit from a warm cache. This parser takes what click would take,
in the same way, and gives up (None) on everything else: joined short options, mistakes, help. Click then
reads the words again and says what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from auditor.cli.request import SPECS, Request, Spec, assumption_value, build, targets_value, verdicts_value
from auditor.errors import UserError

_BY_NAME = {name: spec for spec in SPECS for name in spec.names}


def request_of(project: str, words: Sequence[str]) -> Request | None:
    """The request that click would make of ``words`` (those after the project's name), or None."""
    values: dict[str, Any] = {spec.dest: _unset(spec) for spec in SPECS}
    values["project"] = project
    at = 0
    try:
        while at < len(words):
            name, equals, given = words[at].partition("=")
            spec = _BY_NAME.get(name)
            at += 1
            if spec is None or (equals and not name.startswith("--")):
                return None
            if spec.kind in ("flag", "count"):
                if equals:
                    return None
                values[spec.dest] = True if spec.kind == "flag" else values[spec.dest] + 1
                continue
            if not equals:
                follows = words[at] if at < len(words) else None
                if follows is None or follows.startswith("-"):
                    if spec.kind != "maybe" or follows == "-":
                        return None
                    given = ""
                else:
                    given = follows
                    at += 1
            elif spec.kind == "maybe":
                return None
            value = _value(spec, given)
            values[spec.dest] = (*values[spec.dest], value) if spec.many else value
        for spec in SPECS:
            if spec.default is not None and values[spec.dest] is None:
                values[spec.dest] = _value(spec, spec.default)
        return build(values)
    except (UserError, _Mistake):
        return None


class _Mistake(Exception):
    pass


def _unset(spec: Spec) -> Any:
    if spec.many:
        return ()
    return {"flag": False, "count": 0}.get(spec.kind)


def _value(spec: Spec, text: str) -> Any:
    if spec.kind == "targets":
        return targets_value(text)
    if spec.kind == "target":
        return targets_value(text, spec.names[-1])
    if spec.kind == "assumption":
        return assumption_value(text)
    if spec.kind == "verdicts":
        return verdicts_value(text)
    if spec.kind == "choice" and text not in spec.choices:
        raise _Mistake
    return text
