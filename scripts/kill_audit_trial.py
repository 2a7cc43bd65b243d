"""Kill the real ``audit`` at random moments, and see whether its output, its cache or its next answer suffer.

    python scripts/kill_audit_trial.py --rounds 20

A small clone of three commits is audited, compared, guarded, kept as a baseline, swept and asked for its
kernels. Each command is started as a person starts it and killed with SIGKILL, every second time with what it
started. The file of ``--output`` must be absent, the old one or whole (a sweep: the lines it had got to), and
the next run, on the cache that the killed one left, must say the same bytes with the same exit code. Exit
code 1 where it does not.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

COMMAND = "import sys; from auditor.cli.main import audit; sys.exit(audit())"
OLD = b"an older one\n"
GPU = "import torch\n\n\ndef is_new():\n    return torch.cuda.get_device_capability()[0] >= {}\n"
IMPORT = "from sglang.srt.cards import is_new"
CMAKE = (
    "project(sgl-kernel LANGUAGES CXX CUDA)\nfind_package(Torch REQUIRED)\n"
    "Python_add_library(common_ops MODULE csrc/ops.cu)\n"
    "target_compile_options(common_ops PRIVATE\n"
    " $<$<COMPILE_LANGUAGE:CUDA>:-gencode=arch=compute_90a,code=sm_90a>)\n"
    "install(TARGETS common_ops LIBRARY DESTINATION sgl_kernel)\n"
)
FILES = {
    "python/sglang/version.py": '__version__ = "0.5.99"\n',
    "python/sglang/srt/server_args.py": "class ServerArgs:\n    pass\n",
    "sgl-kernel/CMakeLists.txt": CMAKE,
    "sgl-kernel/csrc/ops.cu": 'TORCH_LIBRARY_FRAGMENT(sgl_kernel, m) {\n  m.def("go(Tensor p) -> ()");\n}\n',
    **{
        f"python/sglang/srt/m{n}.py": f"{IMPORT}\n\n\ndef f{n}():\n    if is_new():\n        return 1\n"
        for n in range(25)
    },
}
LINES = (
    "sglang --commit HEAD --format html --output OUT",
    "sglang --commit HEAD --format json --output OUT",
    "kernels --commit HEAD --format html --output OUT",
    "diff HEAD~2 HEAD --format html --output OUT",
    "guard HEAD~1 HEAD --format markdown --output OUT",
    "baseline write OUT --commit HEAD",
    "sweep HEAD~2..HEAD --output OUT",
)


def git(root: Path, *words: str) -> None:
    """A git command of the trial itself."""
    who = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    subprocess.run(["git", "-C", str(root), *words], check=True, env={**os.environ, **who})


def made(root: Path) -> Path:
    """The clone."""
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    for number in (9, 10, 12):
        for name, text in {**FILES, "python/sglang/srt/cards.py": GPU.format(number)}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        git(root, "add", "-A")
        git(root, "commit", "-qm", f"new is {number}")
    return root


class Trial:
    """One command, what it says when nobody kills it, and its rounds."""

    def __init__(self, line: str, clone: Path, work: Path, dice: random.Random) -> None:
        self.out = work / "place" / "out"
        self.out.parent.mkdir(parents=True)
        self.cache = work / "cache"
        words = [word.replace("OUT", str(self.out)) for word in line.split()]
        self.words = [*words, "--repo", str(clone), "--target", "sm_120"]
        self.sweep = line.startswith("sweep")
        self.dice = dice
        began = time.monotonic()
        self.code = self.start().wait()
        self.took = time.monotonic() - began
        self.whole = self.out.read_bytes()

    def start(self) -> subprocess.Popen[bytes]:
        env = {**os.environ, "SGLANG_AUDITOR_CACHE_DIR": str(self.cache)}
        env["PYTHONPATH"] = str(Path(__file__).parent.parent)
        quiet = subprocess.DEVNULL
        return subprocess.Popen(
            [sys.executable, "-c", COMMAND, *self.words],
            env=env,
            start_new_session=True,
            stdout=quiet,
            stderr=quiet,
        )

    def round(self) -> str:
        """Kill one, look, run it again; what came of it in a word."""
        old = self.dice.random() < 0.5 and not self.sweep
        self.out.unlink(missing_ok=True)
        if old:
            self.out.write_bytes(OLD)
        if self.dice.random() < 0.7:
            shutil.rmtree(self.cache, ignore_errors=True)
        child = self.start()
        time.sleep(self.dice.uniform(0, 1.2 * self.took))
        with suppress(ProcessLookupError):
            (os.killpg if self.dice.random() < 0.5 else os.kill)(child.pid, signal.SIGKILL)
        child.wait()
        kept = self.out.read_bytes() if self.out.exists() else None
        if self.sweep:
            right = kept is None or self.whole.startswith(kept)
        else:
            right = kept == self.whole or kept == (OLD if old else None)
        if not right:
            raise SystemExit(f"{self.words}: the output is neither old nor whole")
        began = time.monotonic()
        code = self.start().wait()
        self.took = 0.5 * self.took + 0.5 * (time.monotonic() - began)
        if code != self.code or self.out.read_bytes() != self.whole:
            raise SystemExit(f"{self.words}: after a kill it says something else (exit code {code})")
        return "whole" if kept == self.whole else "old" if old else "absent" if not kept else "begun"


def main() -> int:
    """Run the trial and print one line a command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20, help="for each command")
    parser.add_argument("--seed", type=int, default=4)
    parser.add_argument("--in", dest="where", type=Path, help="a folder to work in, best on a memory disk")
    words = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="kill-audit-", dir=words.where))
    try:
        clone = made(work / "clone")
        for number, line in enumerate(LINES):
            trial = Trial(line, clone, work / str(number), random.Random(f"{line} {words.seed}"))
            ends: dict[str, int] = {}
            for _ in range(words.rounds):
                end = trial.round()
                ends[end] = ends.get(end, 0) + 1
            left = sum(1 for path in trial.out.parent.iterdir() if path != trial.out)
            told = ", ".join(f"{end} {count}" for end, count in sorted(ends.items()))
            print(f"{line}: {words.rounds} kills; {told}; {left} beside it", flush=True)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
