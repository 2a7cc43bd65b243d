"""Objects: ELF, fat binaries, the images within, strings of schemas."""

from __future__ import annotations

import random

from auditor.arch.targets import load_targets
from auditor.native.built import objectcache
from auditor.native.built.binaries import architectures, library_of, object_cell
from auditor.native.built.objects import ObjectFacts, read_object
from tests.unit.fatbins import image, region, shared_object

_ARCHES = ("75", "90a", "100f", "120", "121a")
WORDS = (
    b"\x7fELF\x02\x01\x01", b"\x50\xed\x55\xba", b"\x50\xed\x55\xba\x01\x00\x10\x00", b".nv_fatbin\0", b"__nv_relfatbin\0", b"\xff" * 8, b"\0" * 8,
    b"ops::go(Tensor x, int n=1) -> Tensor\0", b"go(Tensor[] x) -> ()\0", b".text.k\0", b"MZ", b"!<arch>\n", b"\x28\xb5\x2f\xfd", b"\x01\0\0\0", b"(" * 500,
)  # fmt: skip
SEEDS = (
    shared_object(region(*(image(a) for a in _ARCHES)), strings=("ops::go(Tensor x) -> Tensor", "ops::go")),
    shared_object(
        region(image("90", "ptx", packed="zstd"), image("120f", "cubin", packed="lz4")),
        region(image("80")),
        machine=183,
    ),
    shared_object(region(image("90")), for_linking=[region(image("100", "lto"))], sections=False),
    region(image("120")),
    b"MZ" + bytes(200),
)


def generated(rng: random.Random) -> bytes:
    """A library with random images, some with lengths that lie."""
    images = [
        image(
            rng.choice(_ARCHES),
            rng.choice(("ptx", "cubin")),
            flags=rng.choice((0, 1 << rng.randrange(31))),
            header=rng.choice((64, 64, 72)),
        )
        for _ in range(rng.randrange(4))
    ]
    return shared_object(
        region(*images, size=rng.choice((None, None, 0, 1 << 62, 40)), version=rng.choice((1, 1, 9)))
    )


def one_input(data: bytes) -> None:
    found = [_read(data, piece) for piece in (1 << 16, 61)]
    assert found[0] == found[1], "what is read depends on the size of the pieces"
    library_of(found[0])
    architectures(found[0])
    for target in load_targets().values():
        object_cell(found[0], target)
    assert objectcache.decode(objectcache.encode({"x.so": found[0]})) == {"x.so": found[0]}
    objectcache.decode(data)


def _read(data: bytes, piece: int) -> ObjectFacts:
    chunks = (data[at : at + piece] for at in range(0, len(data), piece))
    return read_object("x.so", chunks, frozenset({"ops::go"}))
