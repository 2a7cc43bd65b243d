"""Device code in built libraries: which architectures an object holds, and what that gives each target."""

from __future__ import annotations

import io
import shutil
import subprocess
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.arch.targets import load_targets
from auditor.errors import UserError
from auditor.native.built.binaries import (
    Binaries,
    architectures,
    library_of,
    object_cell,
    read_binaries,
    rows,
)
from auditor.native.built.compiled import kernels_file
from auditor.native.built.objects import ObjectFacts, read_object
from auditor.native.built.second import compare, second_opinion
from auditor.native.built.strings import schema_name, tidy
from auditor.queries.exampletree import PROFILE
from auditor.trees.base import BigFiles
from auditor.trees.folder import FolderTree
from auditor.trees.installed import installed_tree
from auditor.trees.tools import find_cuobjdump
from auditor.trees.wheel import WheelTree
from tests.unit.fatbins import cubin, image, region, shared_object, wheel

TARGETS = load_targets()


def read(data: bytes, *wanted: str, piece: int = 1 << 16) -> ObjectFacts:
    chunks = (data[at : at + piece] for at in range(0, len(data), piece))
    return read_object("pkg/ops.abi3.so", chunks, frozenset(wanted))


def outcomes(facts: ObjectFacts, *names: str) -> dict[str, str]:
    return {name: object_cell(facts, TARGETS[name]).outcome for name in names}


def test_architectures_and_suffixes() -> None:
    data = shared_object(
        region(
            *(image(arch) for arch in ("80", "90a", "100f", "103a", "120a", "121")),
            image("90", "ptx", packed="zstd"),
            image("120f", "ptx"),
        )
    )
    facts = read(data)
    assert architectures(facts) == "80 90a 100f 103a 120a 121, PTX 90 120f"
    assert (facts.format, facts.machine, facts.size, facts.problems) == ("elf", "x86_64", len(data), [])


@pytest.mark.parametrize("packed", ["", "lz4", "zstd"])
@pytest.mark.parametrize("arch", ["75", "90", "90a", "100a", "100f", "120", "120f", "121a"])
def test_the_header_states_the_suffix_whatever_the_packing(arch: str, packed: str) -> None:
    facts = read(shared_object(region(image(arch, packed=packed, header=112))))
    assert [(i.arch, i.packed, i.doubt) for i in facts.images()] == [(arch, packed, "")]


@pytest.mark.parametrize("piece", [1, 7, 64, 4096])
def test_pieces_may_break_anywhere(piece: int) -> None:
    schema = "f(Tensor a, int b) -> Tensor"
    data = shared_object(
        region(image("90a", payload=cubin("k", padding=300))),
        region(image("120a")),
        strings=[schema, "other_op"],
    )
    facts = read(data, "other_op", piece=piece)
    assert architectures(facts) == "90a 120a"
    assert (facts.schemas, facts.names, facts.problems) == ({schema: "f"}, {"other_op"}, [])


@pytest.mark.parametrize(
    "arch, runs, not_built",
    [
        ("80", ["sm_80", "sm_86", "sm_89"], ["sm_90", "sm_120"]),
        ("90a", ["sm_90"], ["sm_80", "sm_100"]),
        ("100a", ["sm_100"], ["sm_103", "sm_120"]),
        ("100f", ["sm_100", "sm_103"], ["sm_120", "sm_90"]),
        ("120", ["sm_120", "sm_121"], ["sm_100"]),
        ("120a", ["sm_120"], ["sm_121"]),
        ("121a", ["sm_121"], ["sm_120"]),
        ("120f", ["sm_120", "sm_121"], ["sm_103"]),
    ],
)
def test_what_a_cubin_gives(arch: str, runs: list[str], not_built: list[str]) -> None:
    facts = read(shared_object(region(image(arch))))
    assert outcomes(facts, *runs) == dict.fromkeys(runs, "runs")
    assert outcomes(facts, *not_built) == dict.fromkeys(not_built, "not-built")


def test_ptx_only_is_compiled_forward_unless_it_is_exact() -> None:
    plain = read(shared_object(region(image("90", "ptx"))))
    exact = read(shared_object(region(image("90a", "ptx"))))
    assert outcomes(plain, "sm_89", "sm_90", "sm_121") == {
        "sm_89": "not-built",
        "sm_90": "runs",
        "sm_121": "runs",
    }
    assert outcomes(exact, "sm_90", "sm_121") == {"sm_90": "runs", "sm_121": "not-built"}


def test_images_without_a_kernel_do_not_count() -> None:
    """What nvcc leaves for a file without device code, and in the part of the device link."""
    empty = region(image("90", payload=cubin()), image("120", "ptx", packed="zstd", unpacked=56))
    facts = read(shared_object(empty, region(image("80"))))
    assert architectures(facts) == "80"
    assert outcomes(facts, "sm_90", "sm_120") == {"sm_90": "not-built", "sm_120": "not-built"}
    nothing = read(shared_object(empty))
    assert (architectures(nothing), nothing.problems) == ("no device code", [])
    assert outcomes(nothing, "sm_90") == {"sm_90": "unknown"}


def test_code_that_waits_for_the_device_linker_does_not_count() -> None:
    waiting = region(image("90a"), image("120", "ptx"))
    facts = read(shared_object(region(image("90a")), for_linking=[waiting, waiting]))
    assert (architectures(facts), facts.for_linking, facts.problems) == ("90a", 2, [])
    assert outcomes(facts, "sm_120") == {"sm_120": "not-built"}
    only = read(shared_object(for_linking=[waiting]))
    assert architectures(only) == "no device code"
    assert only.problems == ["its device code was never linked: nothing in it can be loaded"]


def test_lto_is_not_loaded() -> None:
    facts = read(shared_object(region(image("90", "lto"))))
    assert architectures(facts) == "no device code"


def test_parts_built_for_different_targets_are_not_averaged() -> None:
    facts = read(shared_object(region(image("90a"), image("120a")), region(image("90a"))))
    assert outcomes(facts, "sm_90", "sm_120", "sm_80") == {
        "sm_90": "runs",
        "sm_120": "unknown",
        "sm_80": "not-built",
    }
    assert object_cell(facts, TARGETS["sm_120"]).reason == "ops: code for it in 1 of 2 parts"
    built = {b.arch: (b.when, b.because) for b in library_of(facts).built}
    assert built == {"90a": ("true", ()), "120a": ("unknown", ("which of its 2 parts is asked: 1 have it",))}
    # Each part serves sm_86, one by a cubin and the other by PTX.
    mixed = read(shared_object(region(image("80")), region(image("80", "ptx"))))
    assert outcomes(mixed, "sm_86") == {"sm_86": "runs"}


def test_a_suffix_that_is_not_known_decides_only_what_it_does_not_change() -> None:
    facts = read(shared_object(region(image("100a", flags=0x200000))))
    assert outcomes(facts, "sm_100", "sm_103", "sm_120") == {
        "sm_100": "runs",
        "sm_103": "unknown",
        "sm_120": "not-built",
    }
    assert library_of(facts).built[0].because == ("the image is marked both `a` and `f`",)


def test_an_unknown_kind_of_image_is_said() -> None:
    facts = read(shared_object(region(image("90", kind=77), image("80"))))
    assert architectures(facts) == "80, kind 77 90"
    assert outcomes(facts, "sm_80", "sm_120") == {"sm_80": "runs", "sm_120": "unknown"}


def test_the_magic_in_code_is_no_fat_binary() -> None:
    facts = read(
        shared_object(region(image("80")), strings=["\x50"]).replace(
            b"\0\x50\0", b"\0\x50\xed\x55\xba\x0f\x85\x11\0", 1
        )
    )
    assert architectures(facts) == "80"


def test_a_fat_binary_of_a_later_version_is_not_passed_over() -> None:
    data = shared_object(region(image("120a"), version=2), region(image("90a")))
    facts = read(data)
    assert facts.problems == [
        f"a fat binary of version 2, which is not known (at byte {data.find(region()[:4])})"
    ]
    assert architectures(facts) == "90a"
    assert outcomes(facts, "sm_90", "sm_120") == {"sm_90": "unknown", "sm_120": "unknown"}
    assert [b.arch for b in library_of(facts).built if b.when == "unknown"] == [""]


@pytest.mark.parametrize("machine, name", [(62, "x86_64"), (183, "aarch64"), (9999, "machine 9999")])
def test_the_machine_is_stated(machine: int, name: str) -> None:
    facts = read(shared_object(region(image("121a")), machine=machine))
    assert library_of(facts).machine == name
    assert architectures(facts) == "121a"


def test_objects_without_a_section_table() -> None:
    facts = read(shared_object(region(image("90a")), sections=False))
    assert architectures(facts) == "90a"
    assert [p.split(":")[0] for p in facts.problems] == ["no section table"]


@pytest.mark.parametrize(
    "data, word",
    [
        (b"", "empty"),
        (b"hello, this is text", "not a shared object"),
        (b"\x7fELF\x02\x01\x01", "cut off"),
        (b"\xcf\xfa\xed\xfe" + bytes(60), "macOS"),
        (b"\x7fELF\x09\x09" + bytes(58), "not valid"),
    ],
)
def test_what_is_no_shared_object_has_one_clear_word(data: bytes, word: str) -> None:
    facts = read(data)
    assert len(facts.problems) == 1 and word in facts.problems[0]
    assert outcomes(facts, "sm_90") == {"sm_90": "unknown"}


def test_a_truncated_object_is_said_at_every_length() -> None:
    data = shared_object(
        region(image("90a"), image("120a")), region(image("80")), strings=["f(Tensor a) -> ()"]
    )
    whole = read(data)
    for length in range(64, len(data)):
        facts = read(data[:length])
        assert any("truncated" in p for p in facts.problems), length
        assert object_cell(facts, TARGETS["sm_100"]).outcome == "unknown"
        assert set(facts.images()) <= set(whole.images())


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_bytes_end_in_an_error(data: st.DataObject) -> None:
    good = bytearray(
        shared_object(
            region(image("90a"), image("120f", "ptx", packed="lz4")),
            region(image("100", header=112)),
            for_linking=[region(image("80"))],
            strings=["ns::f(Tensor a, int[2] b=[1, 2]) -> (Tensor, Tensor)"],
        )
    )
    for _ in range(data.draw(st.integers(1, 12))):
        at = data.draw(st.integers(0, len(good) - 1))
        good[at] = data.draw(st.sampled_from([0, 1, 2, 0x50, 0x7F, 0xFF]))
    cut = bytes(good[: data.draw(st.integers(0, len(good)))])
    facts = read(cut, piece=data.draw(st.sampled_from([3, 100, 4096])))
    library_of(facts)
    for target in TARGETS.values():
        assert object_cell(facts, target).outcome in ("runs", "not-built", "unknown")


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=400), st.lists(st.binary(max_size=200), max_size=3))
def test_noise_around_magics(front: bytes, parts: list[bytes]) -> None:
    facts = read(front + b"".join(b"\x50\xed\x55\xba\x01\x00\x10\x00" + part for part in parts))
    library_of(facts)


@pytest.mark.parametrize(
    "unit",
    [
        region(image("90", payload=b"")),
        b"\x50\xed\x55\xba",
        region(version=2, size=8),
        b"f(" + b"Tensor a, " * 300 + b"int b) -> ()\0",
        b"f" + b"(" * 4000 + b") -> ()\0",
    ],
)
def test_hostile_repetition_ends(unit: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that costs more than passing over it is counted, and stops being looked at."""
    monkeypatch.setattr("auditor.native.built.fatbin.MAX_IMAGES", 300)
    monkeypatch.setattr("auditor.native.built.fatbin.MAX_WRONG", 300)
    monkeypatch.setattr("auditor.native.built.strings.MOST_BYTES", 30_000)
    facts = read(unit * (2_000_000 // len(unit)))
    assert any("the rest is not read" in problem for problem in facts.problems)
    assert len(facts.problems) < 30
    assert outcomes(facts, "sm_90") == {"sm_90": "unknown"}


def test_a_large_object_is_never_held() -> None:
    """400 MB in one image and 100 MB around it."""
    zeros = bytes(1 << 20)
    payload = cubin("k")
    start = shared_object(region(image("120a", payload=payload), size=64 + (400 << 20)), sections=False)
    head = bytearray(start[: start.find(payload)])
    head[-64 + 8 : -64 + 16] = (400 << 20).to_bytes(8, "little")

    def chunks() -> Iterator[bytes]:
        yield bytes(head)
        yield payload + bytes((1 << 20) - len(payload))
        for _ in range(399 + 100):
            yield zeros

    tracemalloc.start()
    facts = read_object("ops.so", chunks())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert architectures(facts) == "120a" and facts.size > 500 << 20
    assert peak < 16 << 20


@pytest.mark.parametrize(
    "text, name",
    [
        ("f() -> ()", "f"),
        ("f(*, Tensor? x=None) -> (Tensor, Tensor)", "f"),
        ("ns::op.out(Tensor(a!)[] x, int[2] y=[1, 2], str s='a, b') -> Tensor(a!)[]", "ns::op"),
        ("f(Tensor   q,    Tensor ?  k,\n Tensor(a!)?  out) -> (Tensor(a!), Tensor)", "f"),
        ("f(Tensor!? out)->() ", "f"),
        ("f(Tensor[] a)\n-> Tensor[]", "f"),
        ("operator()(int) -> bool", None),
        ("auto f(int) -> x", None),
        ("f(Tensor a", None),
        ("expected f(x) -> y", None),
    ],
)
def test_schemas(text: str, name: str | None) -> None:
    assert schema_name(tidy(text)) == name


def kernels_wheel(path: Path, machine: int = 62) -> Path:
    base = region(image("90a"), image("100a"), image("120a"))
    attention = shared_object(
        region(image("90a"), image("100a"), image("103a")),
        strings=["sparse_fwd(Tensor q, Tensor kv) -> Tensor"],
        machine=machine,
    )
    common = ["norm(Tensor! out, Tensor x) -> ()", "moe(Tensor x) -> Tensor", "workspace_size", "unrelated"]
    return wheel(
        path,
        {
            "pkg/attn_ops.abi3.so": attention,
            "pkg/fast/common_ops.abi3.so": shared_object(base, strings=common, machine=machine),
            "pkg/slow/common_ops.abi3.so": shared_object(
                region(image("80"), image("120a")), strings=common, machine=machine
            ),
            "pkg/host_only.so": shared_object(strings=["cpu_op(Tensor x) -> Tensor"], machine=machine),
            "pkg/wrap.py": "import torch\n\ndef f(q):\n    return torch.ops.pkg_ns.sparse_fwd.default(q, q)\n"
            "n = torch.ops.pkg_ns.norm\nw = torch.ops.pkg_ns.workspace_size()\nu = torch.ops.aten.add\n",
        },
    )


def test_operators_of_a_wheel(tmp_path: Path) -> None:
    found = read_binaries(WheelTree(kernels_wheel(tmp_path / "k.whl")))
    assert {lib.output: architectures(found.objects[lib.path]) for lib in found.libraries} == {
        "pkg/attn_ops": "90a 100a 103a",
        "pkg/fast/common_ops": "90a 100a 120a",
        "pkg/host_only": "no device code",
        "pkg/slow/common_ops": "80 120a",
    }
    cells = {
        r.name: {t: c.outcome for t, c in r.cells.items()}
        for r in rows(found, [TARGETS[n] for n in ("sm_90", "sm_103", "sm_120", "sm_121")])
    }
    assert cells["pkg_ns::sparse_fwd"] == {
        "sm_90": "runs",
        "sm_103": "runs",
        "sm_120": "not-built",
        "sm_121": "not-built",
    }
    # Two libraries register it, and no binary says which one is loaded.
    two = {"sm_90": "unknown", "sm_103": "not-built", "sm_120": "runs", "sm_121": "not-built"}
    assert cells["pkg_ns::norm"] == cells["pkg_ns::moe"] == cells["pkg_ns::workspace_size"] == two
    assert set(cells) == {
        "pkg_ns::sparse_fwd",
        "pkg_ns::norm",
        "pkg_ns::moe",
        "pkg_ns::workspace_size",
        "cpu_op",
    }
    assert set(cells["cpu_op"].values()) == {"unknown"}
    assert found.problems == ()


def test_a_folder_and_an_installed_copy_say_the_same(tmp_path: Path) -> None:
    source = kernels_wheel(tmp_path / "k.whl")
    site = tmp_path / "site-packages"
    with zipfile.ZipFile(source) as archive:
        archive.extractall(site)
        names = archive.namelist()
    (site / "demo_kernel-1.0.dist-info" / "RECORD").write_text("".join(f"{name},,\n" for name in names))
    tree = installed_tree("demo-kernel", str(site))
    assert isinstance(tree, BigFiles)
    expected = read_binaries(WheelTree(source))
    for other in (read_binaries(FolderTree(site)), read_binaries(tree)):
        assert other.libraries == expected.libraries
        assert other.operators == expected.operators


def test_an_unpacked_wheel_of_kernels_is_known_by_its_package(tmp_path: Path) -> None:
    profile = msgspec.structs.replace(PROFILE, native_packages=("demo_pkg",))
    (tmp_path / "demo_pkg").mkdir()
    assert isinstance(kernels_file(str(tmp_path), profile, any_name=False), FolderTree)
    marker = tmp_path / (profile.roots.wheel or profile.roots.repository)[0] / profile.markers[0]
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.touch()  # a site-packages that holds the project as well
    assert kernels_file(str(tmp_path), profile, any_name=False) is None


def test_ids_of_large_files_do_not_depend_on_how_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.so").write_bytes(bytes(range(256)) * 100)
    whole = dict(FolderTree(tmp_path).blobs())
    monkeypatch.setattr("auditor.trees.folder.WHOLE", 1000)
    monkeypatch.setattr("auditor.trees.folder.CHUNK", 77)
    (tmp_path / "a.so").touch()
    tree = FolderTree(tmp_path)
    assert dict(tree.blobs()) == whole
    assert b"".join(tree.chunks("a.so")) == tree.read("a.so")


def test_a_wheel_for_another_platform_is_read_all_the_same(tmp_path: Path) -> None:
    found = read_binaries(WheelTree(kernels_wheel(tmp_path / "k-aarch64.whl", machine=183)))
    assert {lib.machine for lib in found.libraries} == {"aarch64"}


def test_a_wheel_without_objects(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        read_binaries(WheelTree(wheel(tmp_path / "k.whl", {"pkg/__init__.py": ""})))
    assert caught.value.code == "N020"


def test_a_damaged_member_is_one_error(tmp_path: Path) -> None:
    path = kernels_wheel(tmp_path / "k.whl")
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        entry = archive.getinfo("pkg/attn_ops.abi3.so")
    data[entry.header_offset + 80] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(UserError) as caught:
        read_binaries(WheelTree(path))
    assert caught.value.code == "T006"


def test_a_bomb_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "k.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("pkg/ops.so", bytes(70 << 20))
    with pytest.raises(UserError) as caught:
        read_binaries(WheelTree(path))
    assert caught.value.code == "T008"


def test_a_bomb_that_lies_about_its_size_gives_no_more_than_it_says(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("pkg/ops.so", bytes(40 << 20))
    data = bytearray(buffer.getvalue())
    at = data.rfind(b"PK\x01\x02")
    data[at + 24 : at + 28] = (1000).to_bytes(4, "little")  # the size after unpacking
    path = tmp_path / "k.whl"
    path.write_bytes(data)
    with pytest.raises(UserError) as caught:
        list(WheelTree(path).chunks("pkg/ops.so"))
    assert caught.value.code == "T006"


# --- a second opinion -----------------------------------------------------------------------------------

LISTING = """ELF file    1: ops.1.sm_90a.cubin
ELF file    2: ops.2.sm_100.cubin
PTX file    1: ops.1.sm_120f.ptx
"""


def test_a_listing_that_agrees() -> None:
    """cuobjdump names a family-specific cubin by its plain architecture, and counts images without code."""
    facts = read(
        shared_object(
            region(image("90a", payload=cubin()), image("100f"), image("120f", "ptx")),
            for_linking=[region(image("80"))],
        )
    )
    assert compare(facts, LISTING) == ""


def test_a_listing_that_disagrees() -> None:
    facts = read(shared_object(region(image("90a"), image("100f"), image("120f"))))
    assert compare(facts, LISTING) == (
        "cuobjdump disagrees: it lists 1 cubin 100, 1 cubin 90a, 1 ptx 120f, "
        "and we read 1 cubin 100, 1 cubin 120, 1 cubin 90a"
    )
    assert "it lists nothing" in compare(facts, "")


def fake_tool(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    tool = folder / "cuobjdump"
    tool.write_text("#!/bin/sh\n" + script)
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


@pytest.mark.parametrize(
    "script, word",
    [
        ("printf 'ELF file    1: object.1.sm_90a.cubin\\n'", ""),
        ("printf 'ELF file    1: object.1.sm_80.cubin\\n'", "disagrees: it lists 1 cubin 80"),
        (
            "echo \"cuobjdump fatal   : Invalid ELF in '$3'\" >&2; exit 255",
            "cannot read it, so there is no second opinion: Invalid ELF in it",
        ),
        ("exit 7", "it ended with 7"),
        ("exec sleep 60", "did not finish in time"),
    ],
)
def test_the_tool_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, word: str) -> None:
    fake_tool(tmp_path / "bin", script, monkeypatch)
    data = shared_object(region(image("90a")))
    tree = WheelTree(wheel(tmp_path / "k.whl", {"pkg/object.so": data}))
    problems = second_opinion(tree, read_binaries(tree), limit_s=0.3 if "sleep" in script else 30)
    assert len(problems) == (1 if word else 0)
    assert all(p.path == "pkg/object.so" and word in p.message for p in problems)
    assert not any(str(tmp_path) in p.message for p in problems)


def test_no_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    with pytest.raises(UserError) as caught:
        find_cuobjdump()
    assert caught.value.code == "N021"


def cuobjdump_is_there() -> bool:
    try:
        find_cuobjdump()
    except UserError:
        return False
    return True


# --- held against the compiler ---------------------------------------------------------------------------

needs_nvcc = pytest.mark.skipif(
    shutil.which("nvcc") is None, reason="no nvcc on PATH: the reader is not held against the compiler"
)
KERNEL = "__global__ void scale(float *a) { a[threadIdx.x] *= 2.f; }\n"


def build(folder: Path, source: str, *options: str) -> ObjectFacts:
    (folder / "k.cu").write_text(source)
    command = ["nvcc", "-shared", "-Xcompiler", "-fPIC", "-o", "k.so", "k.cu", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return read((folder / "k.so").read_bytes())


def code(arch: str, *kinds: str) -> str:
    return f"-gencode=arch=compute_{arch},code=[{','.join(f'{kind}_{arch}' for kind in kinds)}]"


@needs_nvcc
@pytest.mark.slow
def test_compiled_for_several_architectures(tmp_path: Path) -> None:
    exact = [code(arch, "sm") for arch in ("80", "90a", "100a", "103a", "120a")]
    facts = build(tmp_path, KERNEL, *exact, code("121a", "sm", "compute"))
    assert (architectures(facts), facts.problems) == ("80 90a 100a 103a 120a 121a, PTX 121a", [])
    if not cuobjdump_is_there():
        pytest.skip("no cuobjdump: what was read is not held against it")
    (tmp_path / "k.cu").unlink()
    tree = FolderTree(tmp_path)
    assert second_opinion(tree, read_binaries(tree)) == ()


@needs_nvcc
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["none", "speed", "size"])
def test_compiled_with_every_compression(tmp_path: Path, mode: str) -> None:
    options = [code("90", "sm"), code("100f", "sm", "compute"), code("120f", "sm")]
    facts = build(tmp_path, KERNEL, *options, f"--compress-mode={mode}", "-Xfatbin=--compress-all")
    assert (architectures(facts), facts.problems) == ("90 100f 120f, PTX 100f", [])


@needs_nvcc
@pytest.mark.slow
def test_compiled_to_ptx_only(tmp_path: Path) -> None:
    assert architectures(build(tmp_path, KERNEL, code("90a", "compute"))) == "PTX 90a"


@needs_nvcc
@pytest.mark.slow
def test_compiled_from_a_file_without_device_code(tmp_path: Path) -> None:
    facts = build(tmp_path, 'extern "C" int one() { return 1; }\n', "-arch=sm_90")
    assert (architectures(facts), facts.problems) == ("no device code", [])


@needs_nvcc
@pytest.mark.slow
def test_compiled_for_linking(tmp_path: Path) -> None:
    """The PTX is there for the device linker only: the program cannot be compiled forward from it."""
    facts = build(tmp_path, KERNEL, "-rdc=true", code("90a", "sm"), code("120", "sm", "compute"))
    assert (architectures(facts), facts.for_linking, facts.problems) == ("90a 120", 1, [])


def test_nothing_read_is_nothing_claimed() -> None:
    assert rows(Binaries(), list(TARGETS.values())) == ()
