"""What a size limit is worth, who else reads it, and which flags take the same way at any size."""

from __future__ import annotations

import re

from auditor.queries.engine import Match

FLAG = re.compile(r"\b([A-Z][A-Z0-9_]{5,})\.get\(")


def refine(context, matches: list[Match]) -> list[Match]:
    for match in matches:
        bound = match.captures["BOUND"].rsplit(".", 1)[-1]
        defined = re.compile(
            rf"^{re.escape(bound)}\s*(?::[^=\n]+)?=\s*(0x[0-9a-fA-F]+|[0-9_]+)", re.MULTILINE
        )
        value, readers = "", []
        for path, data in context.files_with(bound):
            text = data.decode("utf-8", "replace")
            found = defined.search(text)
            if found and not value:
                value = f"{int(found[1], 0):,}"
            readers += [
                f"{path.rsplit('/', 1)[-1]}:{line} ({symbol})" for line, symbol in _readers(text, bound)
            ]
        here = f"{match.path.rsplit('/', 1)[-1]}:"
        lines = context.tree.read(match.path).decode("utf-8", "replace").splitlines()
        test = []
        for text in lines[match.line - 1 : match.line + 20]:
            test.append(text)
            if text.rstrip().endswith(":"):
                break
        inside = range(match.line, match.line + len(test))
        others = [
            r for r in readers if not (r.startswith(here) and int(r[len(here) :].split(" ")[0]) in inside)
        ]
        flags = list(dict.fromkeys(FLAG.findall("\n".join(test))))
        kernel = _kernel(lines, match.captures["CALL"].rsplit(".", 1)[-1])
        match.captures |= {
            "KERNEL": f" ({kernel}, no 12.x build)" if kernel else "",
            "VALUE": value or bound,
            "FLAGS": f", or {' or '.join(flags)} at any size" if flags else "",
            **_when_on(context, flags),
            "OTHERS": f"; {bound} also decides in {', '.join(others)}" if others else "",
        }
    return matches


def _when_on(context, flags: list[str]) -> dict[str, str]:
    """What is said instead where one of the flags is on unless it is set: then no size is safe."""
    on = [flag for flag in flags if _is_on(context, flag)]
    if not on:
        return {}
    off = " ".join(f"{flag}=0" for flag in on)
    return {
        "FLAGS": f", and any at all while {' or '.join(on)} is on, as it is by default,",
        "FIX": f"{off} and --chunked-prefill-size 8192: the flag takes batches of any size there, a batch"
        " above the limit goes there without it; patches show sm120 sparse-prefill-guard",
    }


def _is_on(context, flag: str) -> bool:
    """Whether the declaration of a flag says True."""
    declared = re.compile(
        rf"^\s*{flag}\s*(?::[^=\n]+)?=\s*(?:\w+\(\s*(?:default\s*=\s*)?)?True\b", re.MULTILINE
    )
    return any(declared.search(data.decode("utf-8", "replace")) for _, data in context.files_with(flag))


def _kernel(lines: list[str], name: str) -> str:
    """The kernel that a function of the file imports from the project's package of compiled kernels."""
    start = next(
        (i for i, line in enumerate(lines) if re.match(rf"\s*(async\s+)?def\s+{name}\b", line)), None
    )
    if start is None:
        return ""
    for line in lines[start + 1 : start + 200]:
        found = re.match(r"\s+from\s+sgl_kernel\S*\s+import\s+(\w+)", line)
        if found:
            return found[1]
        if re.match(r"\s*(async\s+)?def\s", line):
            break
    return ""


def _readers(text: str, name: str) -> list[tuple[int, str]]:
    """(line, function) of the comparisons with a name."""
    out, symbol = [], "module level"
    compared = re.compile(rf"[<>]=?\s*(?:\w+\.)*{re.escape(name)}\b|\b{re.escape(name)}\s*[<>]")
    for number, line in enumerate(text.splitlines(), 1):
        head = re.match(r"\s*(?:async\s+)?def\s+(\w+)", line)
        if head:
            symbol = head[1]
        if compared.search(line):
            out.append((number, symbol))
    return out
