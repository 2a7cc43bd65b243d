"""Fuzz one reader for a number of CPU seconds: ``python -m tests.fuzz.drive NAME [--seconds 600]``.

With atheris where it is installed, which looks for inputs that take new ways through the code; with random
changes of the seeds otherwise. Every kind of fault is kept once, its shortest input, in
``tests/fuzz/crashes/NAME``; the exit code is 1 where there was one. Without a name all readers are taken, one
after the other.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.dont_write_bytecode = True
from tests.fuzz import engine  # noqa: E402


class Found:
    """The faults of one run."""

    def __init__(self, name: str) -> None:
        self.folder = engine.CRASHES / name
        self.shortest: dict[str, tuple[bytes, Path]] = {}

    def keep(self, fault: engine.Fault, data: bytes) -> None:
        """Write the input down where it is the first or the shortest of its kind."""
        before = self.shortest.get(fault.kind)
        if before is not None and len(before[0]) <= len(data):
            return
        if before is None:
            print(f"FAULT {fault.kind}\n{fault.text}", flush=True)
        else:
            before[1].unlink(missing_ok=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / hashlib.sha256(data).hexdigest()[:12]
        path.write_bytes(data)
        self.shortest[fault.kind] = data, path


def main() -> int:
    """Run what the command line names."""
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("name", nargs="?", choices=engine.names())
    ask.add_argument("--seconds", type=float, default=60.0, help="CPU seconds for each reader")
    ask.add_argument("--seed", type=int, default=int(time.time()))
    ask.add_argument("--engine", choices=("atheris", "random"), default=None)
    ask.add_argument("--corpus", type=Path, default=None, help="folder of inputs that atheris keeps")
    given = ask.parse_args()
    if given.name is None:
        words = [f"--seconds={given.seconds}", f"--seed={given.seed}"]
        words += [f"--engine={given.engine}"] if given.engine else []
        codes = [
            subprocess.call([sys.executable, "-m", "tests.fuzz.drive", n, *words]) for n in engine.names()
        ]
        return int(any(codes))
    return fuzz(given.name, given.seconds, given.seed, given.engine, given.corpus)


def fuzz(name: str, seconds: float, seed: int, how: str | None, corpus: Path | None) -> int:
    """Fuzz one reader; the number of inputs and of kinds of faults is printed."""
    if how is None:
        try:
            import atheris  # type: ignore[import-not-found]  # noqa: F401

            how = "atheris"
        except ImportError:
            how = "random"
    found = Found(name)
    count = 0
    started = time.process_time()

    def one(data: bytes) -> None:
        nonlocal count
        count += 1
        try:
            engine.try_one(target, data)
        except engine.Fault as fault:
            found.keep(fault, data)
        spent = time.process_time() - started
        if spent > seconds:
            what = f"{count} inputs in {spent:.0f} CPU seconds ({how}), {len(found.shortest)} kinds of faults"
            print(f"{name}: {what}", flush=True)
            os._exit(int(bool(found.shortest)))  # libFuzzer has no way to end a run without a fault

    if how == "random":
        target = engine.parser(name)
        rng = random.Random(seed)
        while True:
            one(engine.made(rng, target))
    import atheris

    with atheris.instrument_imports(include=["auditor"]):
        target = engine.parser(name)
    place = corpus or engine.place() / "corpus"
    place.mkdir(parents=True, exist_ok=True)
    for data in target.SEEDS:
        (place / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)

    def change(data: bytes, size: int, number: int) -> bytes:
        if number % 2:
            return bytes(atheris.Mutate(data, size))
        rng = random.Random(number)
        base = engine.made(rng, target) if number % 16 == 0 else engine.mutated(rng, data, target)
        return base[:size]

    options = [
        f"-seed={seed % (1 << 31)}",
        f"-max_len={engine.LONGEST}",
        "-timeout=300",
        "-rss_limit_mb=8192",
        "-verbosity=0",
    ]
    atheris.Setup([sys.argv[0], *options, str(place)], one, custom_mutator=change)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
