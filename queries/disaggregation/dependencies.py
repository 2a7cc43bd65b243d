"""Whether the tree's own list of dependencies, extras included, names NIXL."""

from __future__ import annotations

import re

from auditor.queries.engine import Match

LISTED = re.compile(rb"""^\s*(?:Requires-Dist:\s*|["'])nixl\b""", re.IGNORECASE | re.MULTILINE)


def refine(context, matches: list[Match]) -> list[Match]:
    if not matches:
        return matches
    lists = context.matching_paths(r"(python/)?pyproject[\w.-]*\.toml|[^/]+\.dist-info/METADATA")
    if not lists:
        said = "whether NIXL is a dependency is not in this tree"
    elif any(LISTED.search(context.tree.read(path)) for path in lists):
        said = "NIXL is a dependency"
    else:
        said = "NIXL is in no dependency list"
    for match in matches:
        match.captures["NIXL"] = said
    return matches
