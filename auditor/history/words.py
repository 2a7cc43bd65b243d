"""What to look for in the lines of a commit to tell that it made a change."""

from __future__ import annotations

import re

from auditor.history.model import KINDS, Change

_DECIDED = ("runs", "raises", "not-built", "falls-through", "yes", "no", "not reached")
_ORDER = list(KINDS)


def short_name(kernel: str) -> str:
    """The name in the source: ``f`` for ``jit::f``, ``triton::file.f`` and ``area.f[backend]``."""
    return re.split(r"::|\.", kernel.partition("[")[0])[-1]


def names_it(change: Change, text: str) -> bool:
    """Whether these lines name what changed: a kernel or a flag as a whole word, a condition as it stands."""
    flag = change.symbol if change.row == "flag" else ""
    for what in (flag or change.what, change.old_what):
        if not what:
            continue
        if flag or change.kind in ("kernel", "flag"):
            word = short_name(what) if change.kind == "kernel" else what
            if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text):
                return True
        elif what in text:
            return True
    return False


def sought(change: Change) -> tuple[bool, int]:
    """The order in which commits are looked for: decided answers first, then as reports have it."""
    answers = {*change.before.values(), *change.after.values()}
    return answers.isdisjoint(_DECIDED), _ORDER.index(change.kind)


__all__ = ["names_it", "short_name", "sought"]
