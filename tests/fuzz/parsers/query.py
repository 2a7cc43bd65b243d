"""Query files: fields, patterns, placeholders, and what the linter says of them."""

from __future__ import annotations

import re

from auditor.queries.checks import check
from auditor.queries.load import lint, load_file, load_queries
from tests.fuzz import engine

WORDS = (
    b"pattern: ", b"$A", b"$_", b"$...B", b"query: ", b"match: ", b"symbols: ", b"verdict: ", b"targets: [sm_120]\n", b"not: ", b"any: ", b"plugin: x\n",
    b"examples:\n", b"  - ", b"code: |\n", b"regex: '(a+)+$'\n", b"\n", b"null", b"lambda ", b"(" * 300,
)  # fmt: skip
SEEDS = tuple(
    data
    for data in engine.files_below(engine.ROOT / "queries", "*.yaml", 40)
    if data.startswith((b"# ", b"id: ", b"schema"))
)


def one_input(data: bytes) -> None:
    root = engine.place() / "queries"
    root.mkdir(exist_ok=True)
    found = re.search(rb"(?m)^id: ([\w/-]{1,80})$", data)
    name = found[1].decode("utf-8", "replace") if found else "one"
    path = root / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    try:
        file = load_file(path, name, root)
        check(file.query)
        lint([file])
        load_queries(root, [name], allow_plugins=False)
    finally:
        path.unlink()
