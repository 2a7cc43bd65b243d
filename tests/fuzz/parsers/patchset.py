"""``patchset.yaml``."""

from __future__ import annotations

from auditor.patching.sets.patchset import load_patchset
from tests.fuzz import engine

WORDS = (
    b"title: ", b"why: ", b"upstreams:\n", b"  sglang: {url: x}\n", b"order:\n", b"  - one\n", b"policy: {allow: [modes]}\n", b"files:\n",
    b"versions: '>=1'\n", b"../x", b"licence: ", b"null", b"[]", b"{}",
)  # fmt: skip
SEEDS = (
    b"title: T\nwhy: W\nupstreams:\n  sglang: {url: 'https://example.invalid/x', versions: '>=0.5,<0.6'}\norder:\n  - one\n",
    b"title: T\nwhy: W\nupstreams:\n  sglang: {url: x}\norder: [one]\npolicy: {allow: [modes, symlinks, markers]}\n",
    *engine.files_below(engine.ROOT / "patchsets", "patchset.yaml", 4, 20000),
)
_PATCH = b"Description: a\n\ndiff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n"


def one_input(data: bytes) -> None:
    folder = engine.place() / "set"
    (folder / "patches").mkdir(parents=True, exist_ok=True)
    (folder / "patches" / "one.patch").write_bytes(_PATCH)
    (folder / "patchset.yaml").write_bytes(data)
    load_patchset(folder)
