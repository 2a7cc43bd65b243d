"""Patterns that are compiled when they are first used.

A run of one verb uses a few of the patterns of the modules it loads; compiling all of them takes longer than
many a run.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class _Lazy:
    """Looks like a compiled pattern; what was asked for once is an attribute of its own from then on."""

    def __init__(self, pattern: Any, flags: int) -> None:
        self._asked = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what copying and pickling ask for is not that of a pattern
            raise AttributeError(name)
        found = getattr(re.compile(*self._asked), name)
        setattr(self, name, found)
        return found


def lazy(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """As ``re.compile``, later. A pattern that is wrong fails where it is used: the tests try all of them."""
    return cast("re.Pattern[AnyStr]", _Lazy(pattern, flags))
