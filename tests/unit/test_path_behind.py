"""What stands behind a class, where things are declared, and what is said of the gates there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import pathtree  # noqa: E402

from auditor.gates.model import Arm, Effect, Finding, Gate  # noqa: E402
from auditor.gates.path.behind import Behind  # noqa: E402
from auditor.gates.path.model import Outcome, Place  # noqa: E402
from auditor.gates.path.models import entries, find_model  # noqa: E402
from auditor.gates.path.packages import pins, requirements, toml_requirements  # noqa: E402
from auditor.gates.path.places import (  # noqa: E402
    Arguments,
    asked_for,
    flag_defaults,
    readers,
    symbol_at,
)
from auditor.gates.path.reach import Reach  # noqa: E402
from auditor.gates.path.transfer import disaggregation  # noqa: E402
from auditor.gates.reading import build_program, source_files  # noqa: E402
from auditor.profile import Area, Package, Profile, Symbol  # noqa: E402
from auditor.queries.exampletree import MemoryTree  # noqa: E402

MORE = {
    # a package that hands names on, from near and from far
    "example/backends/__init__.py": (
        "from .tiles import Tiles\nfrom .one import Far\nfrom .loop import Round\n"
    ),
    "example/backends/one.py": "from example.backends.two import Far\n",
    "example/backends/two.py": "from example.backends.three import Far\n",
    "example/backends/three.py": "from example.backends.four import Far\n",
    "example/backends/four.py": "class Far:\n    pass\n",
    "example/backends/loop.py": "from .loop import Round\n",
    "example/backends/user.py": '''\
import json
import example.kernels as kernels, json as text
import os, sys as system
from example import backends
from example.backends import Far, Round, Tiles, missing
from example.nowhere import Lost
from example.backends.broken import Gone
TEXT = """
from here import what is needed
import nothing of that
"""


def near():
    """Far is only said here."""
    return Tiles, kernels.slow_rows, missing, Lost, Gone  # Round


def far():
    return Far


def turning():
    return Round


def of_package():
    return backends.tiles.FlatTiles


def of_parts():
    return backends, WideTiles


def same():
    return near() + same()


near.told = True
''',
    "example/backends/broken.py": "def (:\n",
    "example/later/__init__.py": "",
    "example/later/parts.py": '''\
"""Declares nothing by itself."""
COUNT: int = 3


class Empty:
    level: int


class Later:
    """Options that a release split off."""

    level: int = field(default=3, metadata={})
    kinds: list = field(default_factory=list)
    odd: str = make(of="x")

    def check(self):
        level: int = 4
        return level
''',
}


def profile(**changes: Any) -> Profile:
    own = pathtree.profile()
    (symbol,) = own.arguments
    later = msgspec.structs.replace(symbol, folders=("example/later/",))
    lost = Symbol("example.nowhere", "Options")
    areas = (Area("kernels", ("example/backends/", "example/kernels.py")),)
    return msgspec.structs.replace(own, arguments=(later, lost), areas=areas, **changes)


def program(tree: MemoryTree | None = None) -> Any:
    tree = tree or MemoryTree({**pathtree.FILES, **MORE})
    root, files, _problems = source_files(tree, profile())
    return build_program(files, root, profile(), {"cuda": "13.0"}, True)


@pytest.fixture(scope="module")
def here() -> Any:
    return program()


USER = "example/backends/user.py"


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("near", [("example/backends/tiles.py", "Tiles"), ("example/kernels.py", "slow_rows")]),
        ("far", []),  # handed on by more packages than are looked through
        ("turning", []),
        ("of_package", []),  # `tiles` and `FlatTiles` are not names of the package itself
        ("of_parts", []),
        ("same", [(USER, "near")]),
        ("absent", []),
    ],
)
def test_a_name_is_followed_to_its_definition(here: Any, name: str, wanted: list[tuple[str, str]]) -> None:
    assert list(Reach(here, profile()).mentioned(USER, name)) == wanted


def test_names_of_a_module_are_those_that_the_text_names_with_it(here: Any) -> None:
    text = "from example import kernels\n\n\ndef rows():\n    return kernels.tensor_rows\n"
    there = program(MemoryTree({**pathtree.FILES, "example/backends/user.py": text}))
    assert list(Reach(there, profile()).mentioned(USER, "rows")) == [("example/kernels.py", "tensor_rows")]
    reach = Reach(here, profile())
    assert reach.segments("example/backends/broken.py") == {} == reach.imports("example/backends/broken.py")
    assert reach.words(USER, "near") is reach.words(USER, "near")
    assert "Round" not in reach.words(USER, "near") and "Far" not in reach.words(USER, "near")


def test_only_the_areas_are_followed(here: Any) -> None:
    reach = Reach(here, profile())
    start = (USER, "same")
    assert reach.behind([start], ("kernels",)) == {
        start: 0,
        (USER, "near"): 1,
        ("example/backends/tiles.py", "Tiles"): 2,
        ("example/kernels.py", "slow_rows"): 2,
    } | {("example/kernels.py", "tensor_rows"): 3}
    assert reach.behind([start], ("methods",)) == {start: 0}


# --- places


def test_arguments_that_a_folder_declares_have_their_defaults(here: Any) -> None:
    arguments = Arguments(here, profile())
    told = {name: arguments.get(name) for name in ("level", "kinds", "odd", "absent")}
    assert {name: setting.value for name, setting in told.items()} == {
        "level": None,  # the first class that declares it gives none
        "kinds": "list",
        "odd": "make(of='x')",
        "absent": None,
    }
    assert [(s.place.line, s.place.symbol) if s.place else None for s in told.values()] == [
        (6, "Empty"),
        (13, "Later"),
        (14, "Later"),
        None,
    ]
    assert arguments.get("level") is arguments.get("level")


@pytest.mark.parametrize(
    ("path", "line", "symbol"),
    [
        ("example/later/parts.py", 17, "Later.check"),
        ("example/later/parts.py", 13, "Later"),
        ("example/later/parts.py", 1, ""),
        (USER, 38, ""),  # behind the last function
        ("example/backends/broken.py", 1, ""),
        ("example/absent.py", 1, ""),
    ],
)
def test_the_symbol_around_a_line(here: Any, path: str, line: int, symbol: str) -> None:
    assert symbol_at(here, path, line) == symbol


SETS = """\
from example.settings import flags

flags.FAST_PATH.set(True)
if flags.SPARE.get() and flags.SPARE.get():
    flags.SPARE.set(False)


class Start:
    if flags.FAST_PATH.get():
        kind = 1

    def go(self):
        names = ["SPARE", 'FAST_PATH', "SPARE of old"]
        if not flags.SPARE.is_set():
            flags.SPARE.set(True)
        else:
            flags.FAST_PATH.set(True)
"""


def test_flags_are_read_by_name_and_asked_for_around_a_line() -> None:
    there = program(MemoryTree({**pathtree.FILES, "example/uses.py": SETS}))
    found = readers(there, ["SPARE", "FAST_PATH"])
    assert {n: [(p.line, p.symbol) for p in places] for n, places in found.items()} == {
        "SPARE": [(4, ""), (13, "Start.go")],  # a line counts once
        "FAST_PATH": [(9, "Start"), (13, "Start.go")],
    }
    assert readers(there, []) == {}
    asked = {(line, name): asked_for(there, "example/uses.py", line, name) for line, name in ASKED}
    assert asked == ASKED
    assert not asked_for(there, "example/absent.py", 1, "SPARE")
    assert not asked_for(there, "example/uses.py", 0, "SPARE")


#: By line and flag: whether the statement there stands under a condition that asks for the flag.
ASKED = {
    (3, "FAST_PATH"): False,
    (5, "SPARE"): True,
    (5, "FAST_PATH"): False,
    (15, "SPARE"): True,
    (17, "FAST_PATH"): False,
}


def test_defaults_of_flags_are_their_first_argument_or_what_is_assigned() -> None:
    settings = """\
class Base:
    OLD = Flag(default=2)
    FAST_PATH = Flag("base")


class Flags(Base):
    FAST_PATH = Flag("own")
    PLAIN = 3
    TYPED: int = 4
    OPEN: int
    NONE = Flag()
    KNOWN = Flag(help="x")
    a.b = 1
"""
    there = program(MemoryTree({**pathtree.FILES, "example/settings.py": settings}))
    names = ["OLD", "FAST_PATH", "PLAIN", "TYPED", "OPEN", "NONE", "KNOWN"]
    flags = (Symbol("example.nowhere", "Flags"), Symbol("example.settings", "Flags"))
    found = flag_defaults(there, profile(flags=flags), names)
    assert {name: (s.value, s.place.line if s.place else 0) for name, s in found.items()} == {
        "FAST_PATH": ("'own'", 7),
        "PLAIN": ("3", 8),
        "TYPED": ("4", 9),
        "NONE": (None, 11),
        "KNOWN": (None, 12),
        "OLD": ("2", 2),
    }


# --- packages and transfer


def test_project_files_that_are_written_otherwise() -> None:
    text = '[project]\ndependencies = [\n  "torch==1", name,\n  "numpy==2"\n'
    assert [(r.name, r.place.line) for r in toml_requirements(text, "p")] == [("torch", 3), ("numpy", 4)]
    own = pathtree.profile()
    stated = toml_requirements('[project]\ndependencies = ["1=="]\n', "p")
    assert pins(stated, msgspec.structs.replace(own, start=None), ()) == ()
    assert requirements(pathtree.tree(), msgspec.structs.replace(own, start=None), "") == []


def test_a_package_that_gates_depend_on_is_told_without_a_version() -> None:
    own = pathtree.profile()
    assert own.start is not None
    packages = (Package("alpha", ("alpha",)), Package("alpha-two", ("alpha",)), Package("torch", ("torch",)))
    own = msgspec.structs.replace(own, start=msgspec.structs.replace(own.start, packages=packages))
    hanging = (
        gate(unknown_because=("dep.alpha.fast is there", "arg.x"), line=9),
        gate(unknown_because=("dep.alpha",), line=4),
        gate(unknown_because=("dep.torch.version",), line=2),
    )
    stated = toml_requirements('[project]\ndependencies = ["torch==1"]\n', "p")
    assert [(p.name, p.version, [q.line for q in p.gates]) for p in pins(stated, own, hanging)] == [
        ("alpha", None, [4, 9]),
        ("torch", "1", [2]),
    ]


def test_a_transfer_without_advice_or_files(here: Any) -> None:
    own = profile()
    assert own.start is not None
    transfer = msgspec.structs.replace(own.start.transfer, advice="", folders=("example/nowhere/",))
    own = msgspec.structs.replace(own, start=msgspec.structs.replace(own.start, transfer=transfer))
    told = disaggregation(here, own, Arguments(here, own), [], "'zip'")
    assert (told.by_hand, told.advice, told.transfer.value) == ((), "", "'zip'")
    broken = pathtree.FILES["example/options.py"] + "\n\ndef (:\n"
    there = program(MemoryTree({**pathtree.FILES, "example/options.py": broken}))
    assert disaggregation(there, own, Arguments(there, own), [], None).checks == ()


# --- models


def test_a_model_whose_file_cannot_be_read_is_told_by_its_text() -> None:
    broken = "class BirdForCausalLM:\n    pass\n\n\nEntryClass = [BirdForCausalLM,\n"
    there = program(MemoryTree({**pathtree.FILES, "example/models/bird.py": broken}))
    model = find_model(there, profile(), "BirdForCausalLM")
    assert (model.main.place, model.main.lines, model.layers, model.classes) == (
        Place("example/models/bird.py", 1),
        5,
        (),
        (),
    )
    assert entries(there, profile(models=None)) == {}


def test_parts_that_build_each_other_end() -> None:
    names = [f"Part{i}" for i in range(9)]
    parts = "".join(
        f"class {name}:\n    def __init__(self, config):\n        self.inner = {after}(config)\n\n\n"
        for name, after in zip(names, [*names[1:], "Part0"], strict=True)
    )
    text = f"{parts}EntryClass = Part0\n"
    there = program(MemoryTree({**pathtree.FILES, "example/models/bird.py": text}))
    model = find_model(there, profile(), "Part0")
    assert [layer.name for layer in model.classes] == names[1:8], "deeper ones are not followed"
    two = text.replace("Part3(config)", "Part0(config)")
    there = program(MemoryTree({**pathtree.FILES, "example/models/bird.py": two}))
    assert [layer.name for layer in find_model(there, profile(), "Part0").classes] == [*names[1:3], "Part0"]


# --- notes


def gate(id: str = "g", line: int = 8, kind: str = "if", reached: str = "true", **more: Any) -> Gate:
    facts: dict[str, Any] = {
        "id": id,
        "path": "example/backends/tiles.py",
        "module": "example.backends.tiles",
        "line": line,
        "end_line": line,
        "symbol": "Tiles.forward",
        "kind": kind,
        "scope": "arch",
        "via": (),
        "roots": (),
        "predicate": "workstation()",
        "truth": {"sm_120": "true"},
        "reached": {"sm_120": reached},
        "unknown_because": (),
        "arms": (
            Arm("false", 9, 9, (Effect("call", "other", 9),)),
            Arm(
                "true", 8, 8, (Effect("call", "rows", 8), Effect("assert", "x", 8), Effect("return", "1", 8))
            ),
        ),
        "verdict": {"sm_120": "fallback"},
    }
    return Gate(**{**facts, **more})


def finding(gate: str = "", query: str = "", verdict: str = "fallback", **more: Any) -> Finding:
    facts: dict[str, Any] = {
        "path": "example/backends/tiles.py",
        "line": 8,
        "symbol": "Tiles.forward",
        "severity": "note",
        "message": "said",
    }
    return Finding(query=query, gate=gate, verdict={"sm_120": verdict}, **{**facts, **more})


def test_gates_behind_an_outcome_are_told_once_and_in_order(here: Any) -> None:
    gates = [
        gate("asked"),
        gate("assigned", kind="assign"),
        gate("unreached", reached="false"),
        gate("plain", line=12),
    ]
    findings = [
        finding("plain", line=12, verdict="blocked"),
        finding("asked"),  # a query says more about it
        finding("asked", query="q/one", detail=("why",)),
        finding("assigned"),
        finding("unreached", query="q/two"),
        finding("", query="q/three", symbol="", line=3, verdict="of its own"),
        finding("", symbol="Tiles.forward"),  # neither a gate nor a query's
        finding("plain", path="example/methods.py"),
    ]
    behind = Behind(here, profile(), "sm_120", gates, findings)
    outcome = Outcome("Tiles", Place("example/backends/tiles.py", 7, "Tiles"), (), Place("a.py", 1))
    outside = Outcome("library.make", None, (), Place("a.py", 2))
    files, notes = behind.notes((outcome, outside), ("kernels",))
    assert files == 2
    assert [(n.query, n.verdict, n.message, n.detail, n.truth, n.does) for n in notes] == [
        ("q/three", "of its own", "said", (), None, ()),
        ("q/one", "fallback", "said", ("why",), "true", ("call rows", "return 1")),
        ("", "blocked", "", (), "true", ("call rows", "return 1")),
    ]


def test_an_outcome_stands_for_its_class_and_the_bases(here: Any) -> None:
    behind = Behind(here, profile(), "sm_120", (), [])
    path = "example/backends/tiles.py"

    def bases(symbol: str, path: str = path) -> list[tuple[str, str]]:
        return behind.bases(Outcome("x", Place(path, 1, symbol), (), Place("a.py", 1)))

    assert bases("WideTiles") == [(path, "WideTiles"), (path, "WideTiles"), (path, "Tiles")]
    assert bases("make") == [(path, "make")]
    assert bases("gone.inner") == [(path, "gone")]
    assert bases("X", "example/absent.py") == [("example/absent.py", "X")]
