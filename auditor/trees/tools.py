"""NVIDIA's ``cuobjdump``, where there is one: a second reader of device code, asked only on demand.

It runs with a fixed argument list on one file, without input, for a limited time, and what it may say is
limited too. It maps the whole file (1 GB of memory for a library of 1 GB), and a member of a wheel has to be
unpacked into a temporary file for it; that is why it is not asked by default.
"""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from auditor.errors import UserError
from auditor.trees.base import BigFiles
from auditor.trees.folder import unreadable

#: Seconds for one object. A library of 1 GB takes about 5.
LIMIT_S = 120
#: Bytes of its answer that are looked at; 1 GB of kernels takes 40 kB.
MAX_ANSWER = 16 << 20


@dataclass(frozen=True)
class Answer:
    """What the tool wrote on its output, and on its error stream."""

    code: int
    text: str
    said: str
    late: bool = False  # it was ended because its time was over


def find_cuobjdump() -> str:
    """The tool on PATH, of the CUDA toolkit, or of a Python package. ``UserError`` N021 if there is none."""
    found = shutil.which("cuobjdump") or first_program([*of_toolkit("cuobjdump"), *of_packages("cuobjdump")])
    if found:
        return found
    raise UserError(
        "N021",
        "no cuobjdump on PATH, in CUDA_HOME or in this Python",
        hints=[
            "python -m pip install 'sglang-auditor[cuobjdump]'",
            "leave --cuobjdump out: nothing needs it",
        ],
    )


def of_toolkit(name: str) -> list[str]:
    """Where a program of the CUDA toolkit may lie, besides PATH."""
    homes = [os.environ.get(variable, "") for variable in ("CUDA_HOME", "CUDA_PATH")]
    return [os.path.join(home, "bin", name) for home in homes if home]


def of_packages(name: str) -> list[str]:
    """Where packages of NVIDIA put a program, below each entry of this Python's path."""
    places = []
    for entry in sys.path:
        places += sorted(glob.glob(os.path.join(glob.escape(entry), "nvidia", "*", "bin", name)))
    return places


def of_triton(name: str) -> list[str]:
    """Where Triton puts a program. Its readers are older than its assembler: they misread newer objects."""
    return [os.path.join(entry, "triton", "backends", "nvidia", "bin", name) for entry in sys.path]


def first_program(places: list[str]) -> str | None:
    """The first of these that is a program."""
    return next((p for p in places if os.path.isfile(p) and os.access(p, os.X_OK)), None)


def ask_cuobjdump(tool: str, tree: BigFiles, path: str, *, limit_s: float = LIMIT_S) -> Answer:
    """Has the tool list the device code in one file of a tree. ``UserError`` T014: the disk refused."""
    try:
        with tempfile.TemporaryDirectory(prefix="auditor-") as folder:
            place = tree.on_disk(path)
            if place is None:
                place = os.path.join(folder, "object.so")
                with open(place, "wb") as file:
                    for chunk in tree.chunks(path):
                        file.write(chunk)
            return run_tool([tool, "--list-elf", "--list-ptx", place], Path(folder), limit_s)
    except OSError as error:
        raise unreadable(path, error) from None


def run_tool(command: list[str], folder: Path, limit_s: float) -> Answer:
    """Runs a program of NVIDIA's in ``folder`` with its arguments alone: no input, nothing of the caller's
    environment but PATH."""
    out, err = folder / "out", folder / "err"
    late = False
    with open(out, "wb") as output, open(err, "wb") as errors:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            cwd=folder,
            env={"LC_ALL": "C", "PATH": os.environ.get("PATH", os.defpath), "TMPDIR": str(folder)},
        )
        try:
            code = child.wait(limit_s)
        except subprocess.TimeoutExpired:
            late, code = True, -1
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
    return Answer(code, _start(out), _start(err), late)


def _start(file: Path) -> str:
    with open(file, "rb") as opened:
        return opened.read(MAX_ANSWER).decode("utf-8", "replace")
