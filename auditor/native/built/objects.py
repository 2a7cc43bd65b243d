"""One shared object, read once from its first byte to its last: what it is and which device code it holds.

Never more of it is in memory than a window of a few MiB, whatever its size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from auditor.native.built.elf import ElfHead, Section, elf_head, elf_sections, file_format, loaded_end
from auditor.native.built.fatbin import HEADER, MAGIC, Image, Region, Regions, is_region, read_region
from auditor.native.built.stream import Forward
from auditor.native.built.strings import Strings

#: Device code in this section is only read by the device linker, which has put its result elsewhere.
_FOR_LINKING = "__nv_relfatbin"


@dataclass
class ObjectFacts:
    """What an object holds. ``units`` counts its fat binaries by the images in them that hold code."""

    path: str
    format: str = "other"  # elf | pe | mach-o | other
    machine: str = ""  # x86_64, aarch64
    size: int = 0
    units: Counter[frozenset[Image]] = field(default_factory=Counter)
    listed: Counter[tuple[str, str]] = field(default_factory=Counter)  # cubin and PTX, with and without code
    for_linking: int = 0  # fat binaries that only the device linker reads
    schemas: dict[str, str] = field(default_factory=dict)  # schema -> operator's name
    names: set[str] = field(default_factory=set)  # those of the wanted names that are among its strings
    problems: list[str] = field(default_factory=list)
    partial: bool = False  # device code may be in it that could not be read

    def images(self) -> Counter[Image]:
        """How many fat binaries hold each image."""
        found: Counter[Image] = Counter()
        for unit, count in self.units.items():
            for image in unit:
                found[image] += count
        return found


def read_object(path: str, chunks: Iterable[bytes], wanted: frozenset[str] = frozenset()) -> ObjectFacts:
    """The facts of one object. ``wanted``: names to look for among its strings. No bytes raise."""
    ahead = Forward(chunks)
    ahead.need(1 << 12)
    facts = ObjectFacts(path, format=file_format(ahead.buf))
    start = ahead.buf[: 1 << 12]
    head = elf_head(start)
    if facts.format == "elf":
        if head is None:
            facts.problems.append("its ELF header is cut off or not valid")
        else:
            facts.machine = head.machine
    strings = Strings(wanted)
    regions = _walk(ahead, strings)
    facts.size = ahead.size
    facts.schemas, facts.names = strings.schemas, strings.names
    if strings.full:
        facts.problems.append(
            "more strings look like operator schemas than any library has: the rest is not read"
        )
    facts.problems += [f"{message} (at byte {at})" for at, message in regions.wrong[:20]]
    facts.partial = bool(regions.wrong)
    if len(regions.wrong) > 20:
        facts.problems.append(f"{len(regions.wrong) - 20} more fat binaries could not be read")
    if facts.format == "other":
        facts.problems.append(
            "empty" if not ahead.size else "not a shared object: neither ELF, PE nor Mach-O"
        )
    if facts.format == "mach-o":
        facts.problems.append("a macOS object: there is no CUDA for macOS")
    if facts.format == "pe" and not regions.found and not facts.schemas:
        facts.problems.append("a Windows object without device code and operators")
    sections = _sections(head, start, ahead, facts)
    _count(regions.found, sections, facts)
    return facts


def _walk(ahead: Forward, strings: Strings) -> Regions:
    regions = Regions()
    look = ahead.at  # from here on a magic is looked for; what lies before has not been fed yet
    while True:
        at = -1 if regions.full() else ahead.buf.find(MAGIC, look)
        if at >= 0 and len(ahead.buf) - at >= HEADER:
            if is_region(ahead.buf, at, ahead.base + at, regions):
                strings.feed(ahead.buf[ahead.at : at])
                strings.gap()
                ahead.at = at
                read_region(ahead, regions)
                look = ahead.at
            else:
                look = at + len(MAGIC)
            continue
        # What may be the start of a header stays, so that it is seen whole with the next piece.
        until = max(ahead.at, at if at >= 0 else len(ahead.buf) - len(MAGIC) + 1)
        strings.feed(ahead.buf[ahead.at : until])
        ahead.at = until
        if not ahead.more():
            break
        look = ahead.at
    strings.feed(ahead.buf[ahead.at :])
    strings.gap()
    if regions.full():
        regions.wrong.insert(0, (ahead.size, "more fat binaries than any library has: the rest is not read"))
    return regions


def _sections(head: ElfHead | None, start: bytes, ahead: Forward, facts: ObjectFacts) -> list[Section] | None:
    if head is None:
        return None
    end = max(head.section_end if head.section_at else 0, loaded_end(head, start))
    if end > ahead.size:
        facts.partial = True
        facts.problems.append(
            f"truncated: its header speaks of {end} bytes, and there are {ahead.size}; "
            "what was built into the rest is not known"
        )
        return None
    return elf_sections(head, *ahead.tail())


def _count(found: list[Region], sections: list[Section] | None, facts: ObjectFacts) -> None:
    for region in found:
        name = next((s.name for s in sections or () if s.holds(region.offset)), "")
        if name == _FOR_LINKING:
            facts.for_linking += 1
            continue
        facts.listed.update(
            (image.what, image.arch) for image in region.images if image.what in ("cubin", "ptx")
        )
        images = frozenset(image for image in region.images if image.code and image.what != "lto")
        if images:
            facts.units[images] += 1
    if facts.for_linking and not facts.units:
        facts.problems.append("its device code was never linked: nothing in it can be loaded")
    elif found and sections is None and facts.format == "elf" and not facts.problems:
        facts.problems.append(
            "no section table: code that only waits for the device linker cannot be told from what is loaded"
        )
