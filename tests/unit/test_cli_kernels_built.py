"""``audit kernels`` on compiled kernels: alone, and over the sources of a tree."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from auditor.cli import groups
from auditor.cli.clickrun import run
from auditor.reporting.kernelsjson import kernels_schema
from tests.unit.fatbins import image, region, shared_object, wheel

SCHEMA = "sparse_fwd(Tensor q) -> Tensor"
CMAKE = """cmake_minimum_required(VERSION 3.26)
project(kernels LANGUAGES CXX CUDA)
find_package(Python COMPONENTS Interpreter Development.Module)
find_package(Torch REQUIRED)
Python_add_library(attn_ops MODULE USE_SABI 3.10 WITH_SOABI csrc/attn.cc csrc/attn.cu)
target_compile_options(attn_ops PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-gencode=arch=compute_90a,code=sm_90a>)
install(TARGETS attn_ops LIBRARY DESTINATION sgl_kernel)
"""
SOURCE = """#include <torch/library.h>
TORCH_LIBRARY_FRAGMENT(sgl_kernel, m) {
  m.def("sparse_fwd(Tensor q) -> Tensor");
  m.impl("sparse_fwd", torch::kCUDA, &sparse_fwd);
  m.def("later(Tensor q) -> Tensor");
  m.impl("later", torch::kCUDA, &later);
}
"""


def kernels(
    path: Path, *archs: str, name: str = "sglang-kernel", strings: tuple[str, ...] = (SCHEMA,)
) -> Path:
    data = shared_object(region(*(image(arch) for arch in archs)), strings=strings)
    python = "import torch\n\ndef f(q):\n    return torch.ops.sgl_kernel.sparse_fwd(q)\n"
    return wheel(
        path,
        {"sgl_kernel/attn_ops.abi3.so": data, "sgl_kernel/__init__.py": python},
        name=name,
        version="0.9",
    )


def tree(folder: Path) -> Path:
    for path, text in {
        "python/sglang/version.py": "",
        "python/sglang/srt/server_args.py": "",
        "sgl-kernel/CMakeLists.txt": CMAKE,
        "sgl-kernel/csrc/attn.cc": SOURCE,
        "sgl-kernel/csrc/attn.cu": "at::Tensor sparse_fwd(at::Tensor q) { k<<<1, 1>>>(); return q; }\n",
        "sgl-kernel/python/sgl_kernel/__init__.py": "",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SGLANG_AUDITOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)


def audit(*words: str) -> int:
    return run(groups.audit, "audit", ["kernels", *words])


def answer(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    assert audit(*words, "--format", "json") == code
    return dict(json.loads(capsys.readouterr().out))


def outcomes(found: dict[str, Any], name: str) -> dict[str, str]:
    row = next(row for row in found["rows"] if row["name"] == name)
    return {target: cell["outcome"] for target, cell in row["cells"].items()}


@pytest.mark.parametrize("option", ["--wheel", "--path", "--kernels-wheel"])
def test_a_wheel_of_kernels_is_known_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    path = kernels(tmp_path / "k.whl", "90a", "120a")
    found = answer(capsys, option, str(path), "--target", "sm_90,sm_120,sm_121")
    assert outcomes(found, "sgl_kernel::sparse_fwd") == {
        "sm_90": "runs",
        "sm_120": "runs",
        "sm_121": "not-built",
    }
    assert found["assumptions"] == {"kernels": "sglang-kernel 0.9", "machine": "x86_64"}
    assert found["tree"]["version"] == "0.9"
    assert str(tmp_path) not in json.dumps(found)


def test_the_committed_schema_is_the_one_of_the_types() -> None:
    committed = Path(__file__).parents[2] / "reports" / "schema" / "kernels-1.json"
    assert committed.read_bytes() == kernels_schema()


def test_the_page_holds_to_the_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "--wheel", str(kernels(tmp_path / "k.whl", "90a", "120a")))
    jsonschema.Draft202012Validator(json.loads(kernels_schema())).validate(found)


def test_the_same_bytes_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(kernels(tmp_path / "k.whl", "90a", "120a"))
    assert answer(capsys, "--wheel", path) == answer(capsys, "--wheel", path)


def test_what_was_built_takes_the_place_of_what_the_build_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = str(tree(tmp_path / "clone"))
    path = str(kernels(tmp_path / "k.whl", "100a", strings=(SCHEMA, "later(Tensor q) -> Tensor")))
    words = ("--path", root, "--target", "sm_90,sm_100,sm_120")
    source = outcomes(answer(capsys, *words), "sgl_kernel::sparse_fwd")
    built = outcomes(answer(capsys, *words, "--kernels-wheel", path), "sgl_kernel::sparse_fwd")
    assert (source["sm_100"], source["sm_120"]) == ("not-built", "not-built")
    assert (built["sm_90"], built["sm_120"]) == ("not-built", "not-built")
    assert source["sm_90"] != "not-built" and built["sm_100"] != "not-built"


def test_a_wheel_that_was_built_from_something_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = str(tree(tmp_path / "clone"))
    path = str(kernels(tmp_path / "k.whl", "90a", strings=(SCHEMA, "older(Tensor q) -> Tensor")))
    found = answer(capsys, "--path", root, "--kernels-wheel", path, "--target", "sm_90", code=2)
    assert outcomes(found, "sgl_kernel::later") == {"sm_90": "not-built"}
    assert outcomes(found, "sgl_kernel::older") == {"sm_90": "runs"}
    assert [p["message"] for p in found["problems"]] == [
        "1 operators of this source are not in it, so it was built from another one: later"
    ]


def test_a_wheel_is_unpacked_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(kernels(tmp_path / "k.whl", "90a", "120a"))
    first = answer(capsys, "--wheel", path)

    def unexpected(*words: object) -> None:
        raise AssertionError("read again")

    with monkeypatch.context() as patch:
        patch.setattr("auditor.native.built.binaries.read_object", unexpected)
        assert answer(capsys, "--wheel", path) == first
    # Damaged or from elsewhere: as good as none.
    kept = [f for f in (tmp_path / "cache").rglob("*") if f.is_file() and "kernel-objects" in str(f)]
    assert len(kept) == 1
    kept[0].write_bytes(b"[[1]]")
    assert answer(capsys, "--wheel", path) == first
    kernels(tmp_path / "k.whl", "120a")
    assert outcomes(answer(capsys, "--wheel", path), "sgl_kernel::sparse_fwd")["sm_90"] == "not-built"


def test_an_installed_copy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = tmp_path / "site-packages"
    with zipfile.ZipFile(kernels(tmp_path / "k.whl", "120f")) as archive:
        archive.extractall(site)
        names = archive.namelist()
    (site / "sglang_kernel-0.9.dist-info" / "RECORD").write_text("".join(f"{name},,\n" for name in names))
    expected = {"sm_120": "runs", "sm_121": "runs", "sm_100": "not-built"}
    targets = ("--target", "sm_120,sm_121,sm_100")
    for option in ("--kernels-installed", "--installed"):
        found = answer(capsys, option, str(site), *targets)
        assert outcomes(found, "sgl_kernel::sparse_fwd") == expected
    # Beside the project: the tree is the project's, its kernels are those.
    for name, text in {"sglang/version.py": "", "sglang/srt/server_args.py": ""}.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    info = site / "sglang-7.7.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: sglang\nVersion: 7.7\n")
    (info / "RECORD").write_text("sglang/version.py,,\nsglang/srt/server_args.py,,\n")
    found = answer(capsys, "--installed", str(site), *targets)
    assert (found["tree"]["version"], found["assumptions"]["kernels"]) == ("7.7", "sglang-kernel 0.9")
    assert outcomes(found, "sgl_kernel::sparse_fwd") == expected


@pytest.mark.parametrize(
    "words, code",
    [
        (("--kernels-wheel", "missing.whl"), "T001"),
        (("--wheel", "."), "T014"),
        (("--cuobjdump", "--path", "."), "U005"),
        (("--kernels-wheel", "k.whl", "--kernels-installed", "."), "U005"),
        (("--kernels-installed", "."), "T011"),
        (("--kernels-wheel", "text.whl"), "T006"),
        (("--kernels-wheel", "python.whl"), "N020"),
        (("--kernels-wheel", "k.whl", "--assume", "machine=aarch64"), "N022"),
    ],
)
def test_one_clear_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: str
) -> None:
    kernels(tmp_path / "k.whl", "90a")
    (tmp_path / "text.whl").write_text("no archive")
    wheel(tmp_path / "python.whl", {"pkg/__init__.py": ""})
    assert audit(*words) == 2
    shown = capsys.readouterr()
    assert f"error[{code}]" in shown.err and "Traceback" not in shown.err and shown.out == ""


def test_the_page_says_what_is_built(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = kernels(tmp_path / "k.whl", "90a", "120a")
    assert audit("--wheel", str(path), "--op", "sparse_fwd", "--target", "sm_120,sm_121") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "sglang-kernel 0.9" in text and "kernels=sglang-kernel 0.9" in text
    assert "120 runs:" in text and "121 not-built:" in text and "attn_ops: 90a 120a" in text
    assert ":0" not in text
