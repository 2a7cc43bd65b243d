"""Builds fat binaries, objects and wheels byte by byte, so that their reader is tested where no nvcc is."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

LZ4 = 0x2000
ZSTD = 0x8000
EXACT = 0x100000
FAMILY = 0x200000
KINDS = {"ptx": 1, "cubin": 2, "lto": 8}


def cubin(*kernels: str, padding: int = 0) -> bytes:
    """Enough of a device ELF: a header, and a section name per kernel."""
    names = b"\0.shstrtab\0.strtab\0.nv.info\0" + b"".join(b".text." + k.encode() + b"\0" for k in kernels)
    return b"\x7fELF\x02\x01\x01\x41\x08" + bytes(55) + names + bytes(padding)


def image(
    arch: str,
    what: str = "cubin",
    payload: bytes | None = None,
    *,
    flags: int = 0,
    kind: int | None = None,
    packed: str = "",
    unpacked: int = 5000,
    header: int = 64,
) -> bytes:
    """One image; ``arch`` as NVIDIA writes it."""
    if payload is None:
        payload = cubin("k") if what == "cubin" and not packed else b"p" * 400
    payload += bytes(-len(payload) % 8)
    flags |= 0x11 | {"": 0, "lz4": LZ4, "zstd": ZSTD}[packed]
    flags |= EXACT if arch.endswith("a") else FAMILY if arch.endswith("f") else 0
    head = struct.pack(
        "<HHIQIIHHIIIQQQ",
        KINDS[what] if kind is None else kind,
        0x101,
        header,
        len(payload),
        len(payload) - 2 if packed else 0,
        0x40,
        8,
        1,
        int(arch.rstrip("af")),
        0,
        0,
        flags,
        0,
        unpacked if packed else 0,
    )
    return head + bytes(header - 64) + payload


def region(*images: bytes, version: int = 1, size: int | None = None) -> bytes:
    """One fat binary."""
    body = b"".join(images)
    return struct.pack("<4sHHQ", b"\x50\xed\x55\xba", version, 16, len(body) if size is None else size) + body


def shared_object(
    *fat: bytes,
    strings: Sequence[str] = (),
    for_linking: Sequence[bytes] = (),
    machine: int = 62,
    sections: bool = True,
) -> bytes:
    """An ELF-64 shared object with these fat binaries and strings."""
    parts = [
        (".rodata", b"\0" + b"".join(s.encode() + b"\0" for s in strings)),
        (".nv_fatbin", b"".join(fat)),
        ("__nv_relfatbin", b"".join(for_linking)),
    ]
    names = b"\0" + b"".join(name.encode() + b"\0" for name, _ in parts) + b".shstrtab\0"
    parts.append((".shstrtab", names))
    out = bytearray(64)
    table = bytes(64)
    for name, data in parts:
        out += bytes(-len(out) % 8)
        at = names.find(name.encode() + b"\0")
        table += struct.pack("<IIQQQQIIQQ", at, 1, 2, 0, len(out), len(data), 0, 0, 8, 0)
        out += data
    out += bytes(-len(out) % 8)
    section_at = len(out) if sections else 0
    out[:64] = (
        b"\x7fELF\x02\x01\x01"
        + bytes(9)
        + struct.pack(
            "<HHIQQQIHHHHHH", 3, machine, 1, 0, 0, section_at, 0, 64, 56, 0, 64, 5 if sections else 0, 4
        )
    )
    return bytes(out + table) if sections else bytes(out)


def wheel(
    path: Path, files: Mapping[str, bytes | str], *, name: str = "demo-kernel", version: str = "1.0"
) -> Path:
    """A wheel with these files and its metadata."""
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file, data in files.items():
            archive.writestr(file, data)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{info}/RECORD", "")
    return path
