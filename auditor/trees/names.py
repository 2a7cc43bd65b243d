"""Names and content ids, spelled the same way for every kind of tree."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping


def decode_path(raw: bytes) -> str:
    """A path as printable text: UTF-8, any other byte as ``\\xNN``.

    Surrogates are never produced, so that a path can always be written to a report.
    """
    return raw.decode("utf-8", "backslashreplace")


def text_path(name: str) -> str:
    """Same as :func:`decode_path` for a name that the file system gave as ``str`` (with surrogates)."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return decode_path(name.encode("utf-8", "surrogateescape"))
    return name


def blob_id(data: bytes) -> str:
    """The id git gives these bytes (sha1 with the blob header)."""
    digest = hashlib.sha1(b"blob %d\0" % len(data), usedforsecurity=False)
    digest.update(data)
    return digest.hexdigest()


def blob_id_of(size: int, chunks: Iterable[bytes]) -> str:
    """The id of ``size`` bytes that come in pieces, for files nobody should hold whole."""
    digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


def listing_id(blobs: Mapping[str, str]) -> str:
    """A content id for a whole tree: a digest over sorted ``(path, blob id)``.

    NUL ends each part, so that no two listings spell the same text.
    """
    text = "".join(f"{path}\0{blobs[path]}\0" for path in sorted(blobs))
    return hashlib.sha256(text.encode()).hexdigest()[:40]


def metadata_headers(data: bytes) -> dict[str, str]:
    """Name, Version and the other one-line headers of a METADATA file (the first of each name)."""
    headers: dict[str, str] = {}
    for line in data.decode("utf-8", "replace").splitlines():
        if not line:
            break
        name, colon, value = line.partition(":")
        if colon and not line.startswith((" ", "\t")):
            headers.setdefault(name, value.strip())
    return headers


def normal_name(name: str) -> str:
    """A distribution name in the spelling that compares equal (PEP 503)."""
    return "-".join(part for part in name.lower().replace("_", "-").replace(".", "-").split("-") if part)
