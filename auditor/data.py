"""Where the tool's own files lie: the data it ships, and its cache.

Shipped data (queries, profiles, patchsets, schemas) is at the top of a checkout and inside the installed
wheel. The cache is the only place the tool writes to unasked.
"""

from __future__ import annotations

import os
from pathlib import Path

CACHE_VARIABLE = "SGLANG_AUDITOR_CACHE_DIR"
#: The standard marker of a folder that backup programs skip and that may be deleted at any time.
CACHE_TAG = "CACHEDIR.TAG"
_TAG_TEXT = "Signature: 8a477f597d28d172789f06886806bc55\n# Cache of sglang-auditor; safe to delete.\n"


def data_root() -> Path:
    """The folder that holds ``queries/`` and ``patchsets/``.

    In the wheel that is ``auditor/_data``; in a checkout (and an editable install) the repository root.
    """
    packaged = Path(__file__).parent / "_data"
    return packaged if packaged.is_dir() else Path(__file__).parent.parent


def cache_root() -> Path:
    """The cache folder: ``$SGLANG_AUDITOR_CACHE_DIR``, else the user's cache folder. Not created here."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named).expanduser().absolute()
    from platformdirs import user_cache_path

    return user_cache_path("sglang-auditor", appauthor=False)


def cache_dir(*parts: str) -> Path:
    """A folder below the cache, created with its marker. OSError if the disk refuses."""
    root = cache_root()
    folder = root.joinpath(*parts)
    folder.mkdir(parents=True, exist_ok=True)
    tag = root / CACHE_TAG
    if not tag.exists():
        tag.write_text(_TAG_TEXT, encoding="ascii")
    return folder
