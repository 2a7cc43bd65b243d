"""The outside of a shared object: format, machine, sections. Read from its first bytes and its last ones.

Facts: System V ABI, chapter "Object Files" (ELF-64 and ELF-32 headers, section and program headers);
Microsoft PE format (``MZ``); Mach-O and universal headers. Nothing in a header is believed before it has
been held against the size of the file.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

#: What ``e_machine`` means, for those a GPU is put into; ``cuda`` is what a cubin itself says.
MACHINES = {3: "x86", 62: "x86_64", 183: "aarch64", 21: "ppc64le", 243: "riscv64", 190: "cuda"}
#: Section tables with more entries than this are not read.
MAX_SECTIONS = 4096
_MACHO = {
    b"\xcf\xfa\xed\xfe",
    b"\xce\xfa\xed\xfe",
    b"\xfe\xed\xfa\xcf",
    b"\xfe\xed\xfa\xce",
    b"\xca\xfe\xba\xbe",
}


@dataclass(frozen=True)
class ElfHead:
    """What the header of an ELF file says about the rest of it. Offsets and sizes in bytes."""

    machine: str
    order: str  # "<" or ">", as struct writes it
    bits: int  # 32 or 64
    flags: int
    abi_version: int
    section_at: int  # 0: no section table
    section_size: int
    sections: int
    names: int  # index of the section that holds the names
    program_at: int
    program_size: int
    programs: int

    @property
    def section_end(self) -> int:
        return self.section_at + self.section_size * self.sections


@dataclass(frozen=True)
class Section:
    """A named stretch of the file."""

    name: str
    offset: int
    size: int

    def holds(self, offset: int) -> bool:
        return self.offset <= offset < self.offset + self.size


def file_format(head: bytes) -> str:
    """``elf``, ``pe``, ``mach-o`` or ``other``, by the first bytes."""
    if head[:4] == b"\x7fELF":
        return "elf"
    if head[:2] == b"MZ":
        return "pe"
    return "mach-o" if head[:4] in _MACHO else "other"


def elf_head(head: bytes) -> ElfHead | None:
    """The header of an ELF file; None if these bytes are none, or end inside it."""
    if head[:4] != b"\x7fELF" or len(head) < 20 or head[4] not in (1, 2) or head[5] not in (1, 2):
        return None
    order = "<" if head[5] == 1 else ">"
    bits = 64 if head[4] == 2 else 32
    form = struct.Struct(order + ("HHIQQQIHHHHHH" if bits == 64 else "HHIIIIIHHHHHH"))
    if len(head) < 16 + form.size:
        return None
    _, machine, _, _, program_at, section_at, flags, _, psize, programs, ssize, sections, names = (
        form.unpack_from(head, 16)
    )
    named = MACHINES.get(machine, f"machine {machine}")
    return ElfHead(
        named,
        order,
        bits,
        flags,
        head[8],
        section_at,
        ssize,
        sections,
        names,
        program_at,
        psize,
        programs,
    )


def loaded_end(head: ElfHead, data: bytes) -> int:
    """Where the last mapped part ends, by the program headers inside ``data``, the start of the file."""
    form = struct.Struct(head.order + ("8xQ16xQ" if head.bits == 64 else "4xI8xI"))
    end = 0
    for index in range(min(head.programs, 256)):
        at = head.program_at + index * head.program_size
        if head.program_size < form.size or at + form.size > len(data):
            break
        offset, size = form.unpack_from(data, at)
        end = max(end, offset + size)
    return end


def elf_sections(head: ElfHead, tail: bytes, tail_at: int) -> list[Section] | None:
    """Named sections; ``tail`` is the end of the file, from ``tail_at``. None where they are not in it."""
    form = struct.Struct(head.order + ("II8x8xQQ" if head.bits == 64 else "II4x4xII"))
    start = head.section_at - tail_at
    if (
        head.section_at == 0
        or start < 0
        or not 0 < head.sections <= MAX_SECTIONS
        or head.section_size < form.size
        or head.section_end - tail_at > len(tail)
    ):
        return None
    rows = [form.unpack_from(tail, start + i * head.section_size) for i in range(head.sections)]
    if head.names >= len(rows):
        return None
    _, _, names_at, names_size = rows[head.names]
    names_from = names_at - tail_at
    if names_from < 0 or names_from + names_size > len(tail):
        return None
    names = tail[names_from : names_from + names_size]
    found = []
    for name, kind, offset, size in rows:
        if kind in (0, 8):  # none, or without bytes in the file
            continue
        end = names.find(b"\0", name)
        text = names[name : end if end >= 0 else len(names)].decode("ascii", "backslashreplace")
        found.append(Section(text, offset, size))
    return found
