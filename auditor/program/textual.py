"""What the evaluator learns from text alone: pure functions of a piece's or a module's source.

:mod:`auditor.program.same` asks them again of a later text, so nothing but the text may have a part in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from auditor.program.aliases import changed_attribute, changed_parameters, changed_under_another_name

_GLOBAL = re.compile(r"\n[ \t]+global[ \t]+([\w, \t]+)")
_ASSIGNS = re.compile(r"[ \t]*(?::[^=\n]+)?(?://|>>|<<|\*\*|[-+*/|&^%@])?=(?!=)")
_RETURNS = re.compile(r"\)\s*->\s*[\"']?([\w.]+)[\"']?\s*:")
_SELF_CALLS = re.compile(r"\bself\.(\w+)\(")


def reassigned(text: str) -> dict[str, int]:
    """Module names that functions assign through ``global``, with the number of such functions."""
    out: dict[str, int] = {}
    for declared in _GLOBAL.findall(text):
        for name in declared.split(","):
            name = name.strip()
            if name:
                out[name] = out.get(name, 0) + 1
    return out


def mutated(text: str, name: str, deep: str = "") -> bool:
    """Whether some function of a module changes the container bound to a module name, under whatever name;
    ``deep``: or one that it holds."""
    pattern = re.compile(
        rf"{re.escape(name)}(?:\[[^\n=]*\][ \t]*(?://|\*\*|>>|<<|[-+*/|&^%@])?=(?!=)"
        r"|\.(?:append|extend|insert|remove|pop|popitem|clear|update|setdefault|add|discard|sort|reverse)\b)"
        rf"|\bdel[ \t]+[^\n]*\b{re.escape(name)}\["
    )
    for match in pattern.finditer(text):
        line = text.rfind("\n", 0, match.start()) + 1
        before = text[line : match.start()]
        if before[:1] in (" ", "\t") and not (before[-1:].isalnum() or before[-1:] in "_."):
            return True
    return changed_under_another_name(text, name, bool(deep))


def changes_attribute(text: str, name: str, deep: str = "") -> bool | tuple[str, ...]:
    """Whether some function of a module changes a container in ``.NAME`` in place, under whatever name;
    ``deep``: or one that it holds. The imported functions that are given it, where they decide that."""
    return name in text and changed_attribute(text, name, bool(deep))


def changes_parameters(text: str, name: str) -> bool | tuple[str, ...]:
    """Whether a function changes a container that it is given, like :func:`changes_attribute`."""
    return changed_parameters(text, name)


def assigns_attribute(text: str, name: str) -> bool:
    """Whether a text assigns or deletes ``x.NAME``, also through ``setattr``, where x is not self or cls."""
    at = text.find(f".{name}")
    while at >= 0:
        end = at + len(name) + 1
        if not (text[end : end + 1].isalnum() or text[end : end + 1] == "_"):
            if _ASSIGNS.match(text, end) and not text.endswith(("self", "cls"), max(0, at - 4), at):
                return True
            if text[text.rfind("\n", 0, at) + 1 : at].lstrip().startswith("del "):
                return True
        at = text.find(f".{name}", end)
    for quoted in (f'"{name}"', f"'{name}'"):
        at = text.find(quoted)
        while at >= 0:
            before = text[max(0, at - 60) : at]
            if "setattr(" in before or "delattr(" in before:
                return True
            at = text.find(quoted, at + 1)
    return False


def bound_as(text: str, name: str) -> list[str]:
    """Names under which a text imports a name."""
    return re.findall(rf"\b{re.escape(name)}\s+as\s+(\w+)", text)


def returned(text: str) -> str:
    """The dotted name that a function is annotated to return, or ""."""
    match = _RETURNS.search(text[:3000])
    return match.group(1) if match is not None else ""


def self_calls(text: str) -> list[str]:
    """Methods that a method calls on its object, in order."""
    return _SELF_CALLS.findall(text)


def writes_attribute(text: bytes, name: bytes) -> bool:
    """Whether some method in a text may assign ``self.NAME``."""
    if name not in text:
        return False
    write = re.compile(rb"\bself\." + re.escape(name) + rb"[ \t]*(?:[:=,]|[-+*/|&]=)(?!=)")
    return write.search(text) is not None


def defines_member(text: bytes, name: bytes) -> bool:
    """Whether some class in a text may define a member of that name."""
    if name not in text:
        return False
    word = re.escape(name)
    defines = re.compile(
        rb"^[ \t]+(?:(?:async[ \t]+)?def[ \t]+" + word + rb"\b|" + word + rb"[ \t]*[:=])", re.M
    )
    return defines.search(text) is not None


def answers_by_name(text: bytes) -> bool:
    """Whether a module has a ``__getattr__`` of its own."""
    return b"\ndef __getattr__(" in text


def quotes(text: bytes, name: bytes) -> bool:
    """Whether a name stands in quotes in a module that answers for names by its ``__getattr__``."""
    return answers_by_name(text) and (b'"' + name + b'"' in text or b"'" + name + b"'" in text)


def holds(text: bytes, part: bytes) -> bool:
    """Whether a part stands somewhere in a text."""
    return part in text


def names_of(data: bytes, markers: Iterable[str], words: Iterable[bytes]) -> set[str]:
    """Those of the words that a file holds, and other names that it gives them; none without a marker."""
    if not any(marker.encode() in data for marker in markers):
        return set()
    here = {word.decode() for word in words if word in data}
    if here:
        text = data.decode("utf-8", "replace")
        for word in sorted(here):
            here.update(bound_as(text, word))
            here.update(re.findall(rf"^\s*(\w+)\s*=\s*[\w.]*\b{re.escape(word)}\s*$", text, re.M))
    return here
