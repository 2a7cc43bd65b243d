"""The dossier of starts that decide little, refuse, or name what the tree does not have."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import pathtree  # noqa: E402

from auditor.errors import UserError  # noqa: E402
from auditor.gates.audit import AuditOptions  # noqa: E402
from auditor.gates.path import bringup  # noqa: E402
from auditor.gates.path.model import Dossier  # noqa: E402
from auditor.profile import Profile, Start  # noqa: E402
from auditor.program.values import Unknown  # noqa: E402

OPTIONS = '''\
"""What a user passes when starting the server."""
from dataclasses import dataclass

from example.gpu import major, workstation
from example.methods import Runner
from example.settings import flags


@dataclass
class Options:
    backend: str = "auto"
    prefill: str = None
    decode: str = None
    experts: str = Runner.AUTO
    quant: str = None
    kinds: tuple = (1, 2)
    transfer: str = "cargo"
    wires: str = None

    def __post_init__(self):
        {settle}
        if workstation():
            raise ValueError("not here")
        if major() == 10:
            raise KeyError("nor there")
        if self.size > 3:
            raise TypeError("anywhere")
'''
LATER = "class Later:\n    speed: int = 3\n    mode: str = make()\n"


def profile(**start: Any) -> Profile:
    own = pathtree.profile()
    assert own.start is not None
    (symbol,) = own.arguments
    changed: Start = msgspec.structs.replace(own.start, **start)
    return msgspec.structs.replace(
        own,
        start=changed,
        arguments=(msgspec.structs.replace(symbol, folders=("example/later/",)),),
    )


def started(settle: str, given: dict[str, str] | None = None, **changes: Any) -> Dossier:
    """The dossier of the small project with options of its own; ``changes`` are those of the start."""
    own = pathtree.START
    changes.setdefault("attention", msgspec.structs.replace(own.attention, overrides=("prefill", "decode")))
    text = OPTIONS.replace("{settle}", settle)
    tree = pathtree.tree(example__options=text, example__later__parts=LATER)
    options = AuditOptions(
        targets=("sm_120",),
        profile=profile(**changes),
        project="example",
        queries=(),
        use_cache=False,
        assumptions=given or {},
    )
    return bringup.dossier(tree, "BirdForCausalLM", options)


@pytest.fixture(scope="module")
def open_start() -> Dossier:
    return started(
        'self.backend = elsewhere.ask()\n        self.decode = "tiles"',
        arguments=("kinds", "experts", "speed", "mode", "size"),
        checkpoints={},
    )


def test_values_that_are_no_plain_texts_are_told_as_python_writes_them(open_start: Dossier) -> None:
    (start,) = open_start.starts
    told = {a.name: (a.value, a.default) for a in start.arguments}
    assert told == {
        "kinds": (None, "(1, 2)"),
        "experts": ("Runner.AUTO", "Runner.AUTO"),
        "speed": ("3", "3"),  # declared beside the options: what is written there
        "mode": (None, "make()"),
        "backend": (None, "'auto'"),
        "decode": ("'tiles'", "None"),
    }
    mode = next(a for a in start.arguments if a.name == "mode")
    assert mode.unknown_because == ("default make()",)


def test_refusals_are_those_of_this_target_or_sure_ones(open_start: Dossier) -> None:
    (start,) = open_start.starts
    assert [(r.what, r.surely, r.place.line) for r in start.refusals] == [("ValueError", True, 24)]


def test_a_backend_for_a_part_of_the_work_is_its_own_choice(open_start: Dossier) -> None:
    (start,) = open_start.starts
    assert [(c.argument, c.value, [o.name for o in c.outcomes]) for c in start.attention] == [
        ("decode", "'tiles'", ["HugeTiles", "WideTiles", "FlatTiles", "Tiles"])
    ]
    assert start.experts is not None
    assert (start.experts.quantization, start.experts.config, start.experts.outcomes) == ("None", None, ())


def test_names_that_the_tree_does_not_have_lead_nowhere() -> None:
    report = started(
        'self.backend = "ghost"\n        self.prefill = "ghost"',
        checkpoints={"BirdForCausalLM": {"quant": "x"}},
    )
    (start,) = report.starts
    assert [(c.argument, c.value, c.entry, c.outcomes) for c in start.attention] == [
        ("backend", "'ghost'", None, ())
    ]
    assert start.experts is not None
    assert (start.experts.quantization, start.experts.config, start.experts.entry) == ("'x'", None, None)


@pytest.mark.parametrize(("layers", "told"), [(("Fish",), True), (("Nowhere",), False)])
def test_experts_are_told_where_the_model_may_build_them(layers: tuple[str, ...], told: bool) -> None:
    spec = msgspec.structs.replace(pathtree.START.experts, layers=layers, areas=("none",), method="absent")
    report = started('self.backend = "tiles"', experts=spec)
    (start,) = report.starts
    assert (start.experts is not None) == told
    if start.experts is not None:
        assert start.experts.config is not None and start.experts.config.name == "SmallConfig"
        assert start.experts.outcomes == ()


def test_a_target_that_does_not_exist_is_refused() -> None:
    options = AuditOptions(targets=("sm_999",), profile=profile(), project="example", queries=())
    with pytest.raises(UserError) as caught:
        bringup.dossier(pathtree.tree(), "BirdForCausalLM", options)
    assert "sm_999" in caught.value.fact and caught.value.exit_code == 2
    options = msgspec.structs.replace(
        options, targets=("sm_120",), profile=msgspec.structs.replace(profile(), start=None)
    )
    with pytest.raises(UserError) as caught:
        bringup.dossier(pathtree.tree(), "BirdForCausalLM", options)
    assert caught.value.code == "U015" and caught.value.hints == ("audit example",)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("'auto'", "auto"),
        ("-1", -1),
        ("None", None),
        (None, {"no default"}),
        ("Runner.AUTO", {"default Runner.AUTO"}),
        ("make(\n    1)", {"default make( 1)"}),
        ("[1]", {"default"}),
    ],
)
def test_defaults_as_they_are_written(text: str | None, wanted: Any) -> None:
    value = bringup._constant(text)
    assert (set(value.reasons) if isinstance(value, Unknown) else value) == wanted
