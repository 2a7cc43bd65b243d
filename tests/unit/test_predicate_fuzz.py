"""Random predicates over classes, enums, dataclasses and decorators, against Python: right or unknown.

``FUZZ_PREDICATES=100000 pytest tests/unit/test_predicate_fuzz.py`` runs more, from seed ``FUZZ_FROM`` on.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import predicate_fuzz  # noqa: E402

PREDICATES = int(os.environ.get("FUZZ_PREDICATES", "120"))
FIRST = int(os.environ.get("FUZZ_FROM", "0"))
TOGETHER = 30


@pytest.mark.parametrize("seed", range(FIRST, FIRST + max(1, PREDICATES // TOGETHER)))
def test_no_predicate_contradicts_its_audit(seed: int) -> None:
    # Every other module is of one-line predicates: a fifth of the time each.
    files = predicate_fuzz.program(random.Random(seed), TOGETHER, short=bool(seed % 2))
    told = predicate_fuzz.faults(files)
    assert told == [], f"seed {seed}:\n" + "\n".join(told) + "\n" + files["example/case.py"]
