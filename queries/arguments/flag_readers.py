"""Who reads a flag that is written: the modules in which its value decides something."""

from __future__ import annotations

import re

from auditor.queries.engine import Match


def refine(context, matches: list[Match]) -> list[Match]:
    names = {match.captures["FLAG"].rsplit(".", 1)[-1] for match in matches}
    if not names:
        return matches
    read = re.compile(rf"\b({'|'.join(sorted(map(re.escape, names)))})\.(?:get|is_set)\(")
    readers: dict[str, list[str]] = {}
    for path, data in context.files_with(*sorted(names), pieces=True):
        for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
            for name in dict.fromkeys(read.findall(line)):
                readers.setdefault(name, []).append(f"{path.rsplit('/', 1)[-1]}:{number}")
    for match in matches:
        found = readers.get(match.captures["FLAG"].rsplit(".", 1)[-1], [])
        more = f" and {len(found) - 4} more" if len(found) > 4 else ""
        match.captures["READERS"] = ", ".join(found[:4]) + more if found else "nothing"
    return matches
