"""No pattern of the tool can run for ever: what is repeated without end is no repetition itself."""

from __future__ import annotations

import ast
import re
import sys
import warnings
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import re._constants as names
    import re._parser as reader
else:
    import sre_constants as names
    import sre_parse as reader

ROOT = Path(__file__).parents[2]
_REPEATS = (names.MAX_REPEAT, names.MIN_REPEAT)


def _alone(part: Any) -> bool:
    """Whether a part may be one endless repetition and nothing else: then it can be cut in many ways."""
    items = list(part)
    for at, (what, inner) in enumerate(items):
        others = items[:at] + items[at + 1 :]
        if not all(o in _REPEATS and i[0] == 0 or o in (names.AT, names.ASSERT_NOT) for o, i in others):
            continue
        if what in _REPEATS and inner[1] is names.MAXREPEAT:
            return True
        if what is names.SUBPATTERN and _alone(inner[3]):
            return True
        if what is names.BRANCH and any(map(_alone, inner[1])):
            return True
    return False


def endless(part: Any) -> bool:
    """Whether a pattern has a repetition of a part that can be cut in many ways."""
    for what, inner in part:
        if what in _REPEATS:
            if (inner[1] is names.MAXREPEAT and _alone(inner[2])) or endless(inner[2]):
                return True
        elif what is names.SUBPATTERN and endless(inner[3]):
            return True
        elif what is names.BRANCH and any(map(endless, inner[1])):
            return True
    return False


def test_what_is_found() -> None:
    for pattern in (r'"(?:[^"\\]+|\\.)*"', r"(a+)+$", r"(?:x*y*)*z"):
        assert endless(reader.parse(pattern)), pattern
    for pattern in (r'"[^"\\]*(?:\\.[^"\\]*)*"', r"(?:\d+\.)*\d+", r"(?:[^\"\\]|\\.)*"):
        assert not endless(reader.parse(pattern)), pattern


def test_no_pattern_of_the_tool_is_endless() -> None:
    tried, bad = 0, []
    for path in sorted((ROOT / "auditor").rglob("*.py")):
        text = path.read_text("utf-8")
        if not re.search(r"\bre\.\w+\(|\blazy\(", text):
            continue
        for node in ast.walk(ast.parse(text)):
            if not (isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant)):
                continue
            name, pattern = ast.unparse(node.func), node.args[0].value
            if isinstance(pattern, (str, bytes)) and (name.startswith("re.") or name == "lazy"):
                tried += 1
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    if endless(reader.parse(pattern)):
                        bad.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert tried > 300 and bad == []
