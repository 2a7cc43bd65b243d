"""Which modules a file imports, by looking at its import lines only."""

from __future__ import annotations

import re

_FROM = re.compile(rb"[ \t]*from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]+([^\n#]*)")
_IMPORT = re.compile(rb"[ \t]*import[ \t]+([^\n#;]*)")


def imported_modules(data: bytes, name: str, is_package: bool, package: bytes) -> set[str]:
    """Modules of the package that a file may import: ``from a import b`` gives both ``a`` and ``a.b``.

    Import-like lines inside strings are taken too: the answer is used as a filter, so too much is
    harmless and too little is not.
    """
    out: set[str] = set()
    here = name if is_package else name.rpartition(".")[0]
    find, position = data.find, 0
    while True:
        hit = find(b"import ", position)
        if hit < 0:
            return out
        start = data.rfind(b"\n", 0, hit) + 1
        position = hit + 7
        line = _FROM.match(data, start)
        if line is not None:
            dots, module, names = line.groups()
            if dots:
                parts = here.split(".")
                up = len(dots) - 1
                base = ".".join(parts[: len(parts) - up] if up else parts)
                target = f"{base}.{module.decode()}" if module else base
            else:
                if not module.startswith(package):
                    continue
                target = module.decode()
            out.add(target)
            if names.startswith(b"("):
                end = find(b")", line.end(2))
                names = data[line.start(3) + 1 : end if 0 <= end else line.end()]
            for item in names.split(b","):
                word = item.split()
                if word and word[0].isalnum() or word and word[0].replace(b"_", b"a").isalnum():
                    out.add(f"{target}.{word[0].decode('ascii', 'replace')}")
            continue
        line = _IMPORT.match(data, start)
        if line is not None:
            for item in line.group(1).split(b","):
                word = item.split()
                if word and word[0].startswith(package):
                    out.add(word[0].decode("ascii", "replace"))
