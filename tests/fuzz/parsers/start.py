"""What ``audit path`` reads: models, arguments, methods, requirements in TOML and in the heads of Dockerfiles."""

from __future__ import annotations

import functools
import sys

from auditor.errors import UserError
from auditor.gates.audit import AuditOptions
from auditor.gates.path import bringup
from auditor.gates.path.packages import header_requirements, toml_requirements
from auditor.queries.exampletree import MemoryTree
from auditor.reporting import pathjson
from tests.fuzz import engine
from tests.fuzz.parsers import python

sys.path.insert(0, str(engine.ROOT / "tests" / "unit"))
import pathtree  # noqa: E402

_FILES = sorted(pathtree.FILES)
WORDS = (
    *python.WORDS, b"self.backend = ", b'"auto"', b"flags.FAST_PATH.set(False)\n", b"EntryClass = [", b"EntryClass = EntryClass\n", b"@register('x')\n",
    b"dependencies = [\n", b'  "torch==2.9.1",\n', b"[project]\n", b"[project.optional-dependencies]\n", b"Requires-Dist: torch (>=2)\n", b'"x>=1; python_version < \'3\'"',
)  # fmt: skip
#: The first byte says which file the rest is.
SEEDS = tuple(bytes([at]) + str(pathtree.FILES[name]).encode() for at, name in enumerate(_FILES))


@functools.cache
def _options() -> AuditOptions:
    return AuditOptions(
        targets=("sm_120",), profile=pathtree.profile(), project="example", queries=(), use_cache=False
    )


def one_input(data: bytes) -> None:
    name = _FILES[(data[0] if data else 0) % len(_FILES)]
    text = data[1:].decode("utf-8", "replace")
    toml_requirements(text, "pyproject.toml")
    header_requirements(text, "METADATA")
    tree = MemoryTree({**pathtree.FILES, name: data[1:]})
    for model in ("BirdForCausalLM", "FishModel"):
        try:
            pathjson.dumps(bringup.dossier(tree, model, _options()))
        except UserError as error:
            assert error.render()
