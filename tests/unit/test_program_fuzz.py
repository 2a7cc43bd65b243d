"""Random programs, run for real under a fake PyTorch and evaluated: right or unknown, never wrong.

``FUZZ_PROGRAMS=20000 pytest tests/unit/test_program_fuzz.py`` runs more; ``FUZZ_FROM`` is the first seed.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import program_fuzz  # noqa: E402

PROGRAMS = int(os.environ.get("FUZZ_PROGRAMS", "80"))
FIRST = int(os.environ.get("FUZZ_FROM", "0"))
PART = 20


@pytest.mark.parametrize("start", range(FIRST, FIRST + PROGRAMS, PART))
def test_no_generated_program_contradicts_its_audit(start: int) -> None:
    for seed in range(start, min(start + PART, FIRST + PROGRAMS)):
        files = program_fuzz.program(random.Random(seed))
        told = program_fuzz.faults(files)
        assert told == [], f"seed {seed}:\n" + "\n".join(told) + "\n" + files_text(files)


def files_text(files: dict[str, str]) -> str:
    """The program, for whoever has to find the fault."""
    return "\n".join(f"--- {name}\n{text}" for name, text in sorted(files.items()))
