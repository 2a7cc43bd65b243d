"""Fat binaries: the device code that ``nvcc`` puts into an object, read from a stream.

The format is not published. Every fact here was established by compiling objects of known architecture with
nvcc 13.0 and reading them back; ``docs/native-binaries.md`` says how. In short: a header of 16 bytes (magic,
version, own size, size of what follows), then images, each with a header that states kind, architecture,
flags and sizes outside whatever compression the image has. So nothing needs to be unpacked to know what an
image was compiled for.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from auditor.native.built.stream import Forward

MAGIC = b"\x50\xed\x55\xba"
_REGION = struct.Struct("<4sHHQ")
HEADER = _REGION.size
_IMAGE = struct.Struct("<HHIQIIHHIIIQQQ")
#: Image kinds. LTO IR is compiled when it is linked, never loaded.
KINDS = {1: "ptx", 2: "cubin", 8: "lto"}
FLAG_LZ4 = 0x2000
FLAG_ZSTD = 0x8000
FLAG_EXACT = 0x100000  # `a`: exactly this capability
FLAG_FAMILY = 0x200000  # `f`: this family
#: PTX needs about 56 bytes to say its version and target; shorter than this there is no kernel in it.
EMPTY_PTX = 72
#: What no honest object holds.
MAX_REGIONS = 200_000
MAX_IMAGES = 1_000_000
MAX_WRONG = 10_000
#: The largest image header that is believed, bytes (options of the compiler may stand in it).
_MAX_HEADER = 1 << 16


@dataclass(frozen=True, order=True)
class Image:
    """One piece of device code. ``arch`` as NVIDIA writes it; ``doubt``: why its suffix is not known.

    ``code`` is false where it certainly holds no kernel (an object without device code still has an image).
    """

    what: str  # cubin | ptx | lto | kind N
    arch: str
    code: bool = True
    doubt: str = ""
    packed: str = ""  # "", lz4, zstd


@dataclass
class Region:
    """One fat binary, of one translation unit or of one device link: where it starts, and its images."""

    offset: int
    images: tuple[Image, ...]


@dataclass
class Regions:
    """All fat binaries of an object, and what was wrong with them (offset, message)."""

    found: list[Region] = field(default_factory=list)
    images: int = 0
    wrong: list[tuple[int, str]] = field(default_factory=list)
    magics: int = 0  # that begin none

    def full(self) -> bool:
        """Whether there is more than any library has, so that no more is read."""
        return (
            len(self.found) >= MAX_REGIONS
            or self.images >= MAX_IMAGES
            or self.magics >= MAX_IMAGES
            or len(self.wrong) >= MAX_WRONG
        )


def is_region(data: bytes, at: int, offset: int, into: Regions) -> bool:
    """Whether the magic in ``data[at:]``, at ``offset`` in the file, begins a fat binary that can be read.

    The four bytes also occur in code that compares with them: a header follows only in the real thing.
    """
    _, version, header, size = _REGION.unpack_from(data, at)
    if not (1 <= version <= 16 and 16 <= header <= 256 and 0 < size < 1 << 40):
        into.magics += 1
        return False
    if version == 1 and header == HEADER:
        return True
    into.magics += 1
    if offset % 8 == 0:
        into.wrong.append((offset, f"a fat binary of version {version}, which is not known"))
    return False


def read_region(ahead: Forward, into: Regions) -> None:
    """Reads and passes the fat binary that begins ahead."""
    start = ahead.offset
    size = _REGION.unpack_from(ahead.buf, ahead.at)[3]
    images: list[Image] = []
    _pass(ahead, HEADER)
    end = start + HEADER + size
    trouble = ""
    while ahead.offset < end and not trouble:
        trouble = _read_image(ahead, end, images)
        into.images += 1
        if into.images >= MAX_IMAGES:
            trouble = f"more than {MAX_IMAGES} images: the rest is not read"
    if trouble:
        into.wrong.append((start, trouble))
    into.found.append(Region(start, tuple(images)))


def _read_image(ahead: Forward, end: int, images: list[Image]) -> str:
    """Passes one image; a word about what is wrong with it, or nothing."""
    if end - ahead.offset < _IMAGE.size:
        for _ in ahead.passed(end - ahead.offset):  # padding
            pass
        return ""
    if not ahead.need(_IMAGE.size):
        return "the file ends inside a fat binary"
    kind, _, header, size, packed, _, _, _, arch, _, _, flags, _, unpacked = _IMAGE.unpack_from(
        ahead.buf, ahead.at
    )
    if not _IMAGE.size <= header <= _MAX_HEADER or ahead.offset + header + size > end:
        return f"image {len(images) + 1} of a fat binary does not fit into it: the rest of it is not read"
    at = ahead.offset
    for _ in ahead.passed(header):
        pass
    compression = "lz4" if flags & FLAG_LZ4 else "zstd" if flags & FLAG_ZSTD else "lz4" if packed else ""
    what = KINDS.get(kind, f"kind {kind}")
    code = True
    if what == "ptx":
        code = (unpacked if compression else size) > EMPTY_PTX
        _pass(ahead, size)
    elif what == "cubin" and not compression:
        code = _has_kernel(ahead, size)
    else:
        _pass(ahead, size)
    if ahead.offset < at + header + size:
        return "the file ends inside a fat binary"
    text, doubt = _arch(arch, flags)
    images.append(Image(what, text, code, doubt, compression))
    return "" if text else f"an image for architecture {arch}, which is none"


def _arch(number: int, flags: int) -> tuple[str, str]:
    """The architecture in NVIDIA's spelling, and why its suffix is not known."""
    if not 10 <= number < 1000:
        return "", ""
    if flags & FLAG_EXACT and flags & FLAG_FAMILY:
        return str(number), "the image is marked both `a` and `f`"
    return f"{number}{'a' if flags & FLAG_EXACT else 'f' if flags & FLAG_FAMILY else ''}", ""


def _has_kernel(ahead: Forward, size: int) -> bool:
    """Passes an uncompressed cubin; whether one of its sections holds code (each kernel has its own)."""
    mark = b"\0.text."
    found = False
    before = b""
    for piece in ahead.passed(size):
        if not found:
            found = mark in piece or mark in before + piece[: len(mark)]
            before = (before + piece[-len(mark) :])[-len(mark) :]
    return found


def _pass(ahead: Forward, count: int) -> None:
    for _ in ahead.passed(count):
        pass
