"""What several tests of real trees share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this run of pytest, the same one for all its workers."""
    base = tmp_path_factory.getbasetemp()
    # a worker's own folder lies in that of the run
    folder = (base.parent if base.name.startswith("popen-") else base) / "real-trees"
    folder.mkdir(exist_ok=True)
    return folder
