"""Profiles of projects."""

from __future__ import annotations

from auditor.profile import read_profile
from tests.fuzz import engine

WORDS = (
    b"name: ",
    b"package: ",
    b"roots: {repository: ['']}\n",
    b"markers: ",
    b"areas:\n",
    b"  - name: a\n",
    b"    paths: ['*.py']\n",
    b"**/",
    b"[!",
    b"null",
    b"- ",
)
SEEDS = (
    b"name: e\ntitle: E\npackage: e\nurl: x\ndistributions: [e]\nroots: {repository: ['']}\nmarkers: [e/__init__.py]\n",
    *engine.files_below(engine.ROOT / "queries" / "profiles", "*.yaml", 3, 60000),
)


def one_input(data: bytes) -> None:
    path = engine.place() / "profile.yaml"
    path.write_bytes(data)
    memo: dict[bytes, bytes] = {}
    found = read_profile(path, "profile.yaml", memo=memo)
    assert read_profile(path, "profile.yaml", memo=memo) == found, "kept it is another"
    for name in ("a.py", f"{found.package}/x/y.py"):
        found.area(name)
        found.is_excluded(name)
