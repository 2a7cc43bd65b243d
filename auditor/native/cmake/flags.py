"""Generator expressions, and what ``-gencode`` flags and CUDA_ARCHITECTURES make the compiler build."""

from __future__ import annotations

import re

from auditor.gates.model import Tri
from auditor.native.cmake.values import Item, Truth, Value, constant, merged, unknown
from auditor.native.model import Built

_GENCODE = re.compile(r"arch=compute_(\w+),code=\[?([\w,]+)\]?")
_ARCH = re.compile(r"(?:^|\s)(?:-arch|--gpu-architecture)[= ]([\w-]+)")
_NAMED = re.compile(r"(\d+[af]?)(-real|-virtual)?")
#: A flag that is nothing but a variable which something outside the tree may set. What CMake itself and a
#: builder's environment would add (CMAKE_CUDA_FLAGS) is assumed to be nothing, as documented.
_ELSEWHERE = re.compile(r"(?:^|\s)\$\{(?!CMAKE_|ENV)\w+\}(?:\s|$)")
_SEP = "\x1e"


def expressions(value: Value, language: str) -> Value:
    """The items with generator expressions evaluated for one language; what is unknown stays, marked."""
    if not any("$<" in item.text for item in value):
        return value
    starts: list[int] = []
    length = 0
    for item in value:
        starts.append(length)
        length += len(item.text) + 1
    out: list[tuple[int, str, Truth]] = []
    _walk(_SEP.join(item.text for item in value), 0, language, Truth("true"), out, 0)
    result: list[Item] = []
    last = -1
    for at, text, truth in out:
        index = 0
        while index + 1 < len(starts) and starts[index + 1] <= at:
            index += 1
        for offset, piece in enumerate(text.split(_SEP)):
            source = value[index + offset]
            if offset == 0 and index == last and result and truth == Truth("true"):
                result[-1] = result[-1]._replace(text=result[-1].text + piece)
                continue
            if not piece:
                last = index + offset
                continue
            if truth.value == "unknown":
                because = merged(source.because if source.when == "unknown" else (), truth.why)
                source = source._replace(when="unknown", because=because)
            result.append(source._replace(text=piece))
            last = index + offset
    return tuple(result)


def _find(text: str, at: int, char: str) -> int:
    """The position from ``at`` of a character that stands outside the expressions that begin there; -1
    without one."""
    depth = 0
    while at < len(text):
        if text.startswith("$<", at):
            depth += 1
            at += 2
            continue
        if depth == 0 and text[at] == char:
            return at
        if text[at] == ">":
            depth -= 1
        at += 1
    return -1


def _walk(
    text: str, base: int, language: str, truth: Truth, out: list[tuple[int, str, Truth]], depth: int
) -> None:
    at = 0
    while at < len(text):
        start = text.find("$<", at)
        if start < 0 or depth > 20:
            out.append((base + at, text[at:], truth))
            return
        if start > at:
            out.append((base + at, text[at:start], truth))
        end = _find(text, start + 2, ">")
        if end < 0:
            out.append((base + start, text[start:], unknown("a generator expression without its end")))
            return
        inner = text[start + 2 : end]
        head, colon, body = _split(inner)
        if colon and (head.startswith("$<") or head in ("0", "1")):
            condition = _condition(head, language)
            if condition.value == "true":
                _walk(body, base + start + 2 + len(head) + 1, language, truth, out, depth + 1)
            elif condition.value == "unknown":
                _walk(body, base + start + 2 + len(head) + 1, language, condition, out, depth + 1)
        elif head == "BUILD_INTERFACE":
            _walk(body, base + start + 2 + len(head) + 1, language, truth, out, depth + 1)
        elif head != "INSTALL_INTERFACE":
            out.append((base + start, text[start : end + 1], unknown(f"$<{head[:60]}>")))
        at = end + 1


def _split(inner: str) -> tuple[str, str, str]:
    at = _find(inner, 0, ":")
    return (inner[:at], ":", inner[at + 1 :]) if at >= 0 else (inner, "", "")


def _condition(head: str, language: str) -> Truth:
    if head in ("0", "1"):
        return Truth("true" if head == "1" else "false")
    if not head.startswith("$<") or not head.endswith(">"):
        return unknown(head[:80])
    name, _, rest = _split(head[2:-1])
    if name in ("COMPILE_LANGUAGE", "COMPILE_LANG_AND_ID"):
        words = [word.strip() for word in rest.split(",")]
        return Truth("true" if language in words else "false")
    if name == "BOOL" and not rest.startswith("$<"):
        return Truth("true" if constant(rest) is not False else "false")
    if name in ("AND", "OR", "NOT"):
        parts = [_condition(part, language) for part in _comma(rest)]
        wanted = "false" if name == "AND" else "true"
        if name == "NOT":
            value: Tri = {"true": "false", "false": "true", "unknown": "unknown"}[parts[0].value]  # type: ignore[assignment]
            return Truth(value, parts[0].why)
        if any(part.value == wanted for part in parts):
            return Truth(wanted)  # type: ignore[arg-type]
        why = merged(*(part.why for part in parts))
        return Truth("unknown", why) if why else Truth("true" if name == "AND" else "false")
    return unknown(head[:80])


def _comma(text: str) -> list[str]:
    out, start = [], 0
    while (at := _find(text, start, ",")) >= 0:
        out.append(text[start:at])
        start = at + 1
    return [*out, text[start:]]


def built_by_flags(value: Value) -> list[Built]:
    """What the flags of the CUDA compiler build, in order, each piece once."""
    out: list[Built] = []
    for item in expressions(value, "CUDA"):
        if item.when == "false":
            continue
        for match in _GENCODE.finditer(item.text):
            for code in match[2].split(","):
                what, _, arch = code.partition("_")
                if what in ("sm", "lto", "compute") and arch:
                    out.append(_built("ptx" if what == "compute" else "cubin", arch, item))
        for match in _ARCH.finditer(item.text):
            word = match[1]
            if re.fullmatch(r"sm_\d+[af]?", word):
                out += [_built("cubin", word[3:], item), _built("ptx", word[3:], item)]
            elif re.fullmatch(r"compute_\d+[af]?", word):
                out.append(_built("ptx", word[8:], item))
            else:
                out.append(_open(item, f"-arch={word}"))
        if item.open and (re.search(r"gencode|arch", item.text) or _ELSEWHERE.search(item.text)):
            out.append(_open(item, item.text))
    return unique(out)


def built_by_property(value: Value) -> list[Built]:
    """What CUDA_ARCHITECTURES builds: ``90`` is cubin and PTX, ``90-real`` and ``90-virtual`` one of them."""
    out: list[Built] = []
    for item in value:
        match = _NAMED.fullmatch(item.text.strip())
        if item.when == "false" or constant(item.text) is False:
            continue
        if item.open or match is None:
            out.append(_open(item, f"CUDA_ARCHITECTURES {item.text}"))
            continue
        if match[2] != "-virtual":
            out.append(_built("cubin", match[1], item))
        if match[2] != "-real":
            out.append(_built("ptx", match[1], item))
    return unique(out)


def unique(built: list[Built]) -> list[Built]:
    """Each piece once; the surest statement about it wins."""
    out: dict[tuple[str, str], Built] = {}
    for one in built:
        key = (one.what, one.arch)
        if key not in out or (out[key].when != "true" and one.when == "true"):
            out[key] = one
    return list(out.values())


def _built(what: str, arch: str, item: Item) -> Built:
    return Built(what, arch, item.when, item.because, item.line, item.path)


def _open(item: Item, text: str) -> Built:
    """A flag whose architecture is not known."""
    return Built("cubin", "", "unknown", merged((text,), item.open, item.because), item.line, item.path)
