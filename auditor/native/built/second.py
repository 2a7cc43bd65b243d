"""What ``cuobjdump`` lists, held against what we read: an answer of ours that it contradicts is a problem.

It names family-specific cubins (``sm_100f``) by their plain architecture, PTX by the full one; this holds for
version 13.3. It counts images without a kernel, and leaves out what waits for the device linker.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from auditor.gates.model import Problem
from auditor.native.built.binaries import Binaries
from auditor.native.built.objects import ObjectFacts
from auditor.trees.base import BigFiles
from auditor.trees.tools import LIMIT_S, ask_cuobjdump, find_cuobjdump

_LISTED = re.compile(r"^(?:ELF|PTX) file\s+\d+: .*\.sm_(\d+[af]?)\.(cubin|ptx)$", re.MULTILINE)
_NONE = "does not contain device code"


def second_opinion(tree: BigFiles, binaries: Binaries, *, limit_s: float = LIMIT_S) -> tuple[Problem, ...]:
    """A problem for every object of which ``cuobjdump`` says something else. ``UserError`` N021: no tool."""
    tool = find_cuobjdump()
    found = []
    for path, facts in binaries.objects.items():
        answer = ask_cuobjdump(tool, tree, path, limit_s=limit_s)
        if answer.late:
            found.append(Problem(path, 0, "cuobjdump did not finish in time: no second opinion"))
            continue
        fatal = [line for line in answer.said.splitlines() if " fatal " in line]
        if fatal or (answer.code and _NONE not in answer.said + answer.text):
            # Its message names the file by a path of this machine.
            word = re.sub(r"'[^']*'", "it", fatal[0].partition(":")[2].strip()) if fatal else ""
            word = word or f"it ended with {answer.code}"
            found.append(Problem(path, 0, f"cuobjdump cannot read it, so there is no second opinion: {word}"))
            continue
        difference = compare(facts, answer.text)
        if difference:
            found.append(Problem(path, 0, difference))
    return tuple(found)


def compare(facts: ObjectFacts, listing: str) -> str:
    """A sentence about how the listing differs from what was read, or nothing."""
    theirs = Counter((what, arch) for arch, what in _LISTED.findall(listing))
    ours: Counter[tuple[str, str]] = Counter()
    for (what, arch), count in facts.listed.items():
        ours[what, arch.rstrip("f") if what == "cubin" else arch] += count
    if ours == theirs:
        return ""
    return f"cuobjdump disagrees: it lists {_words(theirs)}, and we read {_words(ours)}"


def _words(images: Counter[tuple[str, str]]) -> str:
    ordered: Iterable[tuple[tuple[str, str], int]] = sorted(images.items())
    return ", ".join(f"{count} {what} {arch}" for (what, arch), count in ordered) or "nothing"
