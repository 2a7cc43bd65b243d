"""Every reader of foreign bytes: any input is read, or is one ``UserError``; what was wrong stays mended.

Seconds here; ``make fuzz`` and the nightly workflow run the same harnesses for minutes.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.fuzz import engine, leaves

NAMES = engine.names()
#: These cost more for each input.
FEW = {
    "gitstore": 5,
    "python": 5,
    "cxx": 6,
    "lists": 12,
    "start": 4,
    "edits": 14,
    "binary": 14,
    "kept": 14,
    "cache": 14,
}
CRASHES = sorted(path for path in engine.CRASHES.glob("*/*") if path.is_file())


@pytest.mark.parametrize("name", NAMES)
def test_any_input_is_read_or_refused(name: str) -> None:
    target = engine.parser(name)

    @settings(
        max_examples=FEW.get(name, 25), deadline=None, database=None, derandomize=True,
        suppress_health_check=list(HealthCheck), phases=[Phase.generate],
    )  # fmt: skip
    @given(st.randoms(use_true_random=False))
    def inputs(rng: random.Random) -> None:
        engine.try_one(target, engine.made(rng, target))

    inputs()


@pytest.mark.parametrize("name", NAMES)
def test_the_seeds_are_read(name: str) -> None:
    target = engine.parser(name)
    assert target.SEEDS and target.WORDS
    for data in target.SEEDS[:12]:
        engine.try_one(target, data)


@pytest.mark.parametrize("name", leaves.READERS)
def test_one_value_of_a_wrong_kind_is_read_or_refused(name: str) -> None:
    target = engine.parser(name)
    for data in leaves.some(target, 12, random.Random(name)):
        engine.try_one(target, data)


@pytest.mark.parametrize("path", CRASHES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_went_wrong_once(path: object) -> None:
    assert hasattr(path, "parent")
    engine.try_one(engine.parser(path.parent.name), path.read_bytes())  # type: ignore[attr-defined]


def test_the_harness_sees_what_it_is_for() -> None:
    class Bad:
        SEEDS = (b"x",)
        WORDS = (b"x",)

        def one_input(self, data: bytes) -> None:
            if data == b"outside":
                (engine.ROOT / "written").write_bytes(b"")
            if data == b"slow":
                while True:
                    pass
            if data == b"start":
                import subprocess

                subprocess.run(["true"])
            if data == b"large":
                bytearray(engine.MEMORY * 2)
            raise KeyError(data)

    for data, kind in (
        (b"x", "KeyError"), (b"outside", "Outside"), (b"slow", "TooSlow"), (b"start", "Outside"),
        (b"large", "MemoryError"),
    ):  # fmt: skip
        with pytest.raises(engine.Fault) as caught:
            engine.try_one(Bad(), data, seconds=0.2)
        assert caught.value.kind.startswith(kind)
    assert not (engine.ROOT / "written").exists()
