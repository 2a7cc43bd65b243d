"""Where the shipped data (queries, profiles, patchsets, schemas) lies: a checkout or the installed wheel."""

from __future__ import annotations

from pathlib import Path


def data_root() -> Path:
    """The folder that holds ``queries/`` and ``patchsets/``.

    In the wheel that is ``auditor/_data``; in a checkout (and an editable install) the repository root.
    """
    packaged = Path(__file__).parent / "_data"
    return packaged if packaged.is_dir() else Path(__file__).parent.parent
