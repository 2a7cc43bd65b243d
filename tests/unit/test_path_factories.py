"""Which classes a factory may return, form by form, and what facts from outside decide of its conditions."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import pathtree  # noqa: E402

from auditor.arch import load_targets  # noqa: E402
from auditor.gates.path.choice import (  # noqa: E402
    Factory,
    argument_facts,
    registered,
    runner_facts,
    table_entry,
)
from auditor.gates.reading import build_program, source_files  # noqa: E402
from auditor.program.values import Function, Unknown, unknown  # noqa: E402
from auditor.queries.exampletree import MemoryTree  # noqa: E402

SM_120 = list(load_targets()).index("sm_120")

MAKERS = """\
from example.backends.registry import register
from example.backends.other import Other
from example.backends.tiles import FlatTiles, Tiles, WideTiles
from example.gpu import on_cuda, workstation
from example.methods import Runner, current


def held():
    return elsewhere.held()


@register("twice")
def twice(runner):
    return Other(runner)


twice = None


def nothing(runner):
    return None


def bare(runner):
    if runner.wide:
        return
    return Tiles(runner)


def outside(runner):
    return runner.library.make(runner)


def not_a_call(runner):
    return runner.ready


def lowered(runner):
    if not workstation():
        return Other(runner)
    return Tiles(runner)


def both(runner):
    if on_cuda() and workstation():
        return Tiles(runner)
    return Other(runner)


def neither(runner):
    if runner.wide or not (runner.flat and on_cuda()):
        return Tiles(runner)
    return Other(runner)


def asks():
    chosen = elsewhere.ask()
    return chosen


def is_flat():
    \"\"\"Asked where it is called.\"\"\"
    return workstation()


def longer(runner):
    if asks():
        return Tiles(runner)
    return Other(runner)


def inlined(runner):
    if is_flat():
        return Tiles(runner)
    return Other(runner)


def refuses(runner):
    if runner.wide:
        raise ValueError("no")
    return Tiles(runner)


def guarded(runner):
    with runner.lock():
        if runner.wide:
            made = WideTiles(runner)
        else:
            raise ValueError("no")
        return made


def tries(runner):
    try:
        made = Tiles(runner)
    except ImportError:
        made = None
    finally:
        runner.close()
    return made


def gives_in_try(runner):
    try:
        return Tiles(runner)
    finally:
        runner.close()


def loops(runner):
    for kind in runner.kinds:
        if kind:
            return WideTiles(runner)
        break
    while runner.more():
        continue
    return Tiles(runner)


def unpacks(runner):
    first, second = runner.pair
    runner.made = Tiles(runner)
    cls: type = FlatTiles
    return cls(runner)


def decided(runner):
    return Tiles(runner) if workstation() else Other(runner)


def decided_not(runner):
    return Tiles(runner) if not workstation() else Other(runner)


def either(runner):
    return (WideTiles if runner.wide else FlatTiles)(runner)


def turns(runner):
    return turns(runner)


def hands_on(runner):
    return only_raises(runner)


def only_raises(runner):
    raise ValueError("no")


def other_way(runner):
    if runner.wide:
        cls = None
    else:
        cls = Tiles
    if cls is None:
        return Other(runner)
    return cls(runner)


def perhaps_no_round(runner):
    cls = None
    for _one in runner.kinds:
        cls = Tiles
    if cls is None:
        return Other(runner)
    return cls(runner)


def found_in_a_loop(runner):
    cls = Other
    for one in runner.kinds:
        if one.wide:
            cls = WideTiles
            break
    return cls(runner)


def not_found(runner):
    for one in runner.kinds:
        if one.wide:
            break
    else:
        return Other(runner)
    return one(runner)


def bound_again(runner):
    cls = Tiles
    cls, size = runner.pair
    return cls(runner)


def written_out(runner):
    first, [second] = Tiles, [WideTiles]
    return second(first)


def added_to(runner):
    count = 0
    count += runner.more
    if count == 0:
        return Tiles(runner)
    return Other(runner)


def held_open(runner):
    made = Tiles(runner)
    with runner.lock() as made:
        return made


def handled(runner):
    try:
        return Tiles(runner)
    except ImportError:
        return Other(runner)
    except:
        return WideTiles(runner)


def handled_late(runner):
    cls = Tiles
    try:
        cls = runner.find()
        runner.check()
    except (KeyError, ValueError) as error:
        cls = error
    else:
        cls = WideTiles
    return cls(runner)


def handled_by_no_one(runner):
    try:
        raise ValueError
    except KeyError:
        raise
    finally:
        runner.close()


def imports_either(runner):
    if runner.wide:
        from example.backends.tiles import WideTiles as Made
    else:
        from example.backends.other import Other as Made
    return Made(runner)


def matched(runner):
    match runner.kind:
        case "wide":
            return WideTiles(runner)
        case {"made": made, **rest}:
            return made(rest)
        case [FlatTiles, *_]:
            cls = FlatTiles
        case _:
            cls = Tiles
    return cls(runner)


def asks_argument(runner):
    if runner == "x" or runner.part.backend == "tiles":
        return Tiles(runner)
    if runner.part.unheard == "x":
        return WideTiles(runner)
    return Other(runner)


def among(runner):
    if held().backend in ("tiles", "rows"):
        return Tiles(runner)
    return Other(runner)


class Keeper:
    def make(self):
        if self.backend == "tiles":
            return Tiles(self)
        return Other(self)
"""


def program(**changes: str) -> Any:
    tree = MemoryTree({**pathtree.FILES, "example/makers.py": MAKERS, **changes})
    root, files, _problems = source_files(tree, pathtree.profile())
    return build_program(files, root, pathtree.profile(), {"cuda": "13.0"}, True)


@pytest.fixture(scope="module")
def here() -> Any:
    return program()


def function(here: Any, name: str) -> Function:
    owner, _, method = name.rpartition(".")
    value = here.global_value(here.module("example.makers"), owner or name).one
    found = value.info.find(method)[1] if owner else value
    assert isinstance(found, Function)
    return found


def told(here: Any, name: str, facts: Any = None) -> list[tuple[str, tuple[str, ...]]]:
    return [(o.name, o.when) for o in Factory(here, SM_120, facts).outcomes(function(here, name))]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("nothing", []),
        ("bare", [("Tiles", ("not runner.wide",))]),
        ("outside", [("runner.library.make", ())]),
        ("not_a_call", [("runner.ready", ())]),
        ("lowered", [("Tiles", ())]),
        ("both", [("Tiles", ())]),
        (
            "neither",
            [
                ("Tiles", ("runner.wide or not runner.flat",)),
                ("Other", ("not (runner.wide or not runner.flat)",)),
            ],
        ),
        ("longer", [("Tiles", ("asks()",)), ("Other", ("not asks()",))]),
        ("inlined", [("Tiles", ())]),
        ("refuses", [("Tiles", ("not runner.wide",))]),
        ("guarded", [("WideTiles", ("runner.wide",))]),
        ("tries", [("Tiles", ())]),
        ("gives_in_try", [("Tiles", ())]),
        ("loops", [("WideTiles", ("in a loop", "kind")), ("Tiles", ())]),
        ("unpacks", [("FlatTiles", ())]),
        ("decided", [("Tiles", ())]),
        ("decided_not", [("Other", ())]),
        ("either", [("WideTiles", ("runner.wide",)), ("FlatTiles", ("not runner.wide",))]),
        ("turns", [("turns", ())]),
        ("hands_on", [("only_raises", ())]),
        ("other_way", [("Other", ("cls is None",)), ("Tiles", ("not (cls is None)", "not runner.wide"))]),
        ("perhaps_no_round", [("Other", ("cls is None",)), ("Tiles", ("not (cls is None)", "in a loop"))]),
        ("found_in_a_loop", [("Other", ()), ("WideTiles", ("in a loop", "one.wide"))]),
        ("not_found", [("Other", ()), ("one", ())]),
        ("bound_again", [("cls", ())]),
        ("written_out", [("WideTiles", ())]),
        ("added_to", [("Tiles", ("count == 0",)), ("Other", ("not (count == 0)",))]),
        ("held_open", [("made", ())]),
        ("handled", [("Tiles", ()), ("Other", ("on ImportError",)), ("WideTiles", ("on an error",))]),
        ("handled_late", [("WideTiles", ()), ("error", ("on (KeyError, ValueError)",))]),
        ("handled_by_no_one", []),
        ("imports_either", [("WideTiles", ()), ("Other", ())]),
        (
            "matched",
            [
                ("WideTiles", ("runner.kind matches 'wide'",)),
                ("made", ("runner.kind matches {'made': made, **rest}",)),
                ("FlatTiles", ("runner.kind matches [FlatTiles, *_]",)),
                ("Tiles", ("runner.kind matches _",)),
            ],
        ),
        (
            "Keeper.make",
            [("Tiles", ("self.backend == 'tiles'",)), ("Other", ("not (self.backend == 'tiles')",))],
        ),
    ],
)
def test_each_way_to_return_is_read(here: Any, name: str, wanted: list[tuple[str, tuple[str, ...]]]) -> None:
    assert told(here, name) == wanted


@pytest.mark.parametrize(
    ("name", "backend", "wanted"),
    [
        ("asks_argument", "tiles", [("Tiles", ())]),
        (
            "asks_argument",
            "rows",
            [
                ("Tiles", ("runner == 'x'",)),
                ("WideTiles", ("not (runner == 'x')", "runner.part.unheard == 'x'")),
                ("Other", ("not (runner == 'x')", "not (runner.part.unheard == 'x')")),
            ],
        ),
        ("among", "rows", [("Tiles", ())]),
        ("among", "auto", [("Other", ())]),
        # an attribute of the object itself is not the argument of that name
        (
            "Keeper.make",
            "tiles",
            [("Tiles", ("self.backend == 'tiles'",)), ("Other", ("not (self.backend == 'tiles')",))],
        ),
    ],
)
def test_what_an_argument_ends_as_decides_its_comparisons(
    here: Any, name: str, backend: str, wanted: list[tuple[str, tuple[str, ...]]]
) -> None:
    facts = argument_facts(here, lambda asked: backend if asked == "backend" else unknown("not an argument"))
    assert told(here, name, facts) == wanted


@pytest.mark.parametrize(
    ("test", "wanted"),
    [
        ("current() == Runner.PEBBLE", True),
        ("current() != Runner.PEBBLE", False),
        ("current() is Runner.ROCK", False),
        ("current() == runner.kind", None),
        ("current().is_pebble()", True),
        ("current().is_auto()", False),
        ("current().is_missing()", None),
        ("current().PEBBLE()", None),
        ("runner.is_pebble()", None),
    ],
)
def test_questions_to_the_runner_of_the_start(here: Any, test: str, wanted: bool | None) -> None:
    facts = runner_facts(here, "example.methods", "Runner", ("current",), "pebble", SM_120)
    frame = here.module_frame(here.module("example.makers"))
    assert facts(ast.parse(test, mode="eval").body, frame) is wanted


@pytest.mark.parametrize(
    ("module", "symbol", "value"),
    [
        ("example.methods", "Runner", "gravel"),
        ("example.methods", "Runner", None),
        ("example.methods", "current", "pebble"),
        ("example.methods", "Missing", "pebble"),
        ("example.nowhere", "Runner", "pebble"),
    ],
)
def test_a_runner_that_the_tree_does_not_have_answers_nothing(
    here: Any, module: str, symbol: str, value: str | None
) -> None:
    facts = runner_facts(here, module, symbol, ("current",), value, SM_120)
    frame = here.module_frame(here.module("example.makers"))
    assert facts(ast.parse("current().is_pebble()", mode="eval").body, frame) is None


def test_a_registered_name_that_is_bound_to_something_else_leads_to_the_function(here: Any) -> None:
    found = registered(here, "example.makers", "register", "twice")
    assert found is not None and found.qualname == "twice"
    assert [o.name for o in Factory(here, SM_120).outcomes(found)] == ["Other"]


def test_rows_that_hold_no_class_are_none() -> None:
    table = pathtree.FILES["example/methods.py"] + 'NAMES = {"small": "by name", "plain": PlainMethod}\n'
    there = program(**{"example/methods.py": table})
    assert table_entry(there, "example.nowhere", "TABLE", "small", SM_120) is None
    found = table_entry(there, "example.methods", "NAMES", "small", SM_120)
    assert found is not None and found[0].name == "SmallConfig"  # the only class that stands for it
    found = table_entry(there, "example.methods", "TABLE", "plain", SM_120)
    assert found is not None and found[0].name == "PlainMethod"
    lone = table.replace('TABLE = {"small": SmallConfig}', 'TABLE = {"small": pick}')
    assert (
        table_entry(program(**{"example/methods.py": lone}), "example.methods", "TABLE", "small", 7) is None
    )


def test_the_facts_of_an_argument_that_is_not_known_leave_it_open(here: Any) -> None:
    facts = argument_facts(here, lambda name: Unknown(frozenset({name})))
    frame = here.module_frame(here.module("example.makers"))
    assert facts(ast.parse("runner.part.backend == 'tiles'", mode="eval").body, frame) is None
    assert facts(ast.parse("1 < runner.backend < 3", mode="eval").body, frame) is None
    assert facts(ast.parse("runner.backend", mode="eval").body, frame) is None
