"""What is in the wheel and the source archive, and what the pieces around them promise."""

from __future__ import annotations

import configparser
import email
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytest.importorskip("hatchling")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    words = ["-m", "hatchling", "build", "-d", str(folder)]
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    (path,) = built.glob("*.whl")
    assert path.name.endswith("-py3-none-any.whl"), "no compiler, any platform"
    return zipfile.ZipFile(path)


def _metadata(wheel: zipfile.ZipFile, name: str) -> str:
    (path,) = [item for item in wheel.namelist() if item.endswith(f".dist-info/{name}")]
    return wheel.read(path).decode()


def test_wheel_carries_every_data_file(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    expected = set()
    for top in ("queries", "patchsets", "reports/schema"):
        for path in (ROOT / top).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc":
                expected.add(f"auditor/_data/{path.relative_to(ROOT).as_posix()}")
    assert "auditor/_data/queries/profiles/sglang.yaml" in expected
    assert {name for name in names if name.startswith("auditor/_data/")} == expected


def test_wheel_carries_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"auditor"}
    modules = {name for name in wheel.namelist() if name.endswith(".py") and "/_data/" not in name}
    assert modules == {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "auditor").rglob("*.py")
        if "_data" not in path.parts
    }
    assert "auditor/arch/targets.json" in wheel.namelist()
    assert not [name for name in wheel.namelist() if name.endswith((".so", ".pyc"))]


def test_wheel_metadata(wheel: zipfile.ZipFile) -> None:
    data = email.message_from_string(_metadata(wheel, "METADATA"))
    assert data["Name"] == "sglang-auditor"
    assert data["Requires-Python"] == ">=3.10"
    assert data["License-Expression"] == "Apache-2.0"
    assert set(data.get_all("Provides-Extra") or []) == {
        "sglang",
        "cuobjdump",
        "kernels",
        "cluster",
        "plot",
        "dev",
        "docs",
    }
    core = [line for line in data.get_all("Requires-Dist") or [] if "extra ==" not in line]
    assert sorted(re.split(r"[<>=!~ ;]", line)[0].lower() for line in core) == [
        "click", "filelock", "gitpython", "libcst", "msgspec", "packaging", "platformdirs", "pyyaml", "rich",
        "tree-sitter", "tree-sitter-cuda",
    ]  # fmt: skip
    scripts = configparser.ConfigParser()
    scripts.read_string(_metadata(wheel, "entry_points.txt"))
    assert set(scripts["console_scripts"]) == {"audit", "patches", "sglang-auditor"}


def test_installed_data_is_found_without_the_checkout(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path / "site")
    code = (
        "from auditor.data import data_root; from auditor.cli.table import AUDIT\n"
        "print(data_root()); print(*AUDIT.project_names())\n"
        "from auditor.queries import load_files; print(len(load_files()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    root, projects, queries = done.stdout.splitlines()
    assert Path(root) == tmp_path / "site" / "auditor" / "_data"
    assert projects == "sglang" and int(queries) > 0


def test_source_archive_can_build_the_wheel(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "LICENSE", "README.md", "Makefile", "queries/profiles/sglang.yaml"} <= names
    assert {"patchsets/README.md", "reports/schema/README.md", "auditor/cli/main.py"} <= names
    assert not [name for name in names if name.startswith((".venv", "build/"))]


def test_ci_runs_what_make_check_runs() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    assert script.startswith("#!/usr/bin/env bash\n") and "set -euo pipefail" in script
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    makefile = (ROOT / "Makefile").read_text()
    (check,) = re.findall(r"^check: (.+)$", makefile, re.MULTILINE)
    assert re.findall(r"^make ([\w-]+)$", script, re.MULTILINE) == check.split()


def test_every_room_is_under_the_import_contract() -> None:
    tomllib = pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")
    with open(ROOT / "pyproject.toml", "rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    (layers,) = [c["layers"] for c in contracts if c["type"] == "layers" and "containers" not in c]
    listed = {name.strip() for layer in layers for name in re.split("[:|]", layer)}
    rooms = {
        f"auditor.{path.stem}"
        for path in (ROOT / "auditor").iterdir()
        if (path.is_dir() and (path / "__init__.py").is_file()) or path.suffix == ".py"
    }
    assert rooms - {"auditor.__init__", "auditor.__main__"} == listed
