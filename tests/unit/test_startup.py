"""The abstract run of a start: each way control can take, each way a value can be set."""

from __future__ import annotations

import textwrap
from typing import Any

import msgspec
import pytest

from auditor.arch import load_targets
from auditor.profile import Backend, Decisions, Experts, Profile, Start, Symbol, Transfer
from auditor.program.program import Program
from auditor.program.startup import Startup, run_startup
from auditor.program.values import Unknown
from auditor.queries.exampletree import PROFILE

TARGETS = list(load_targets())
AT = {name: TARGETS.index(name) for name in ("sm_90", "sm_100", "sm_120")}

GPU = """\
import torch


def major():
    return torch.cuda.get_device_capability()[0]


def workstation():
    return major() == 12
"""

SETTINGS = """\
import os


class Flag:
    def __init__(self, default):
        self.default = default

    def __set_name__(self, owner, name):
        self.name = name

    def is_set(self):
        return self.name in os.environ

    def get(self):
        held = os.getenv(self.name)
        return self.default if held is None else held == "1"

    def set(self, value):
        os.environ[self.name] = "1" if value else "0"


class Flags:
    FAST = Flag(True)
    SPARE = Flag(False)


flags = Flags()
"""

NOTES = """\
TABLE = {"Newt": {"backend": "constant"}}
_BY_NAME = {}
_BY_RULE = []


def register(*names):
    def keep(function):
        for name in names:
            _BY_NAME.setdefault(name, []).append(function)
        return function

    return keep


def register_rule(rule):
    def keep(function):
        _BY_RULE.append((rule, function))
        return function

    return keep


class View:
    def __init__(self, options, decided=None):
        object.__setattr__(self, "_options", options)
        object.__setattr__(self, "_decided", decided or {})

    def __getattr__(self, name):
        decided = object.__getattribute__(self, "_decided")
        return decided[name] if name in decided else getattr(object.__getattribute__(self, "_options"), name)


def live(options):
    return View(options)


def frozen(options):
    return View(options)


def declare(options, source, **fields):
    options._notes.append((source, dict(fields)))


def run_pass(options, step):
    options._notes.append((step.__qualname__, step(frozen(options))))


def settle(options):
    for _source, fields in options._notes:
        for name, value in fields.items():
            setattr(options, name, value)


def collect(kind, options, config):
    out = []
    for function in _BY_NAME.get(kind, ()):
        out.append((function.__qualname__, function(options, config)))
    return out
"""

HEAD = """\
from dataclasses import dataclass, field

from example import helpers
from example.gpu import major, workstation
from example.notes import collect, declare, frozen, live, run_pass, settle
from example.settings import flags


@dataclass
class Options:
    name: str
    backend: str = "auto"
    experts: str = "auto"
    size: int = 1
    quick: bool = False
    note: str = None

"""

_NOTES = "example.notes."


def profile() -> Profile:
    start = Start(
        arguments=(),
        attention=Backend("backend", Symbol("example.none", "NONE"), ()),
        experts=Experts(
            "experts", "note", Symbol("example.none", "NONE"), "m", (), Symbol("example.none", "N"), (), ()
        ),
        transfer=Transfer("note", "note", (), {}),
        packages=(),
        metadata=(),
        entries=("resolve",),
        setters=(_NOTES + "declare",),
        views=(_NOTES + "live", _NOTES + "frozen", _NOTES + "View"),
        decisions=Decisions(
            ledger=("_notes",),
            snapshots=(_NOTES + "frozen",),
            passes=(_NOTES + "run_pass",),
            publishers=(_NOTES + "settle",),
            collectors=(_NOTES + "collect",),
            registrars=(_NOTES + "register",),
            predicates=(_NOTES + "register_rule",),
            constants=(_NOTES + "TABLE",),
        ),
    )
    return msgspec.structs.replace(PROFILE, start=start)


def start(body: str, helpers: str = "", model: str = "Newt", more: dict[str, str] | None = None) -> Startup:
    """Run the start of a small project whose constructor hook is ``body``, indented as in a class."""
    if not body.startswith("\n"):
        body = textwrap.indent(body, " " * 8)
    hook = "    def __post_init__(self):\n" + body
    files = {
        "example/__init__.py": "",
        "example/gpu.py": GPU,
        "example/settings.py": SETTINGS,
        "example/notes.py": NOTES,
        "example/helpers.py": textwrap.dedent(helpers),
        "example/options.py": HEAD + hook,
        **(more or {}),
    }
    targets = load_targets().values()
    program = Program(
        {path: text.encode() for path, text in files.items()},
        "",
        profile(),
        tuple(t.capability for t in targets),
        tuple(t.smem_per_block for t in targets),
        {"defaults": "yes", "model": model},
    )
    return run_startup(program, model)


def on(found: Startup, name: str) -> tuple[Any, Any, Any]:
    """What an argument is on sm_90, sm_100 and sm_120; ``?`` where it is open."""
    value = found.arguments[name]
    return tuple("?" if isinstance(value.at(i), Unknown) else value.at(i) for i in AT.values())  # type: ignore[return-value]


def choice(found: Startup, name: str) -> set[Any] | None:
    scalar = found.arguments[name].at(AT["sm_120"])
    assert isinstance(scalar, Unknown) and scalar.reasons
    return None if scalar.options is None else set(scalar.options)


# -- control -----------------------------------------------------------------------------------------


def test_an_early_return_keeps_what_was_set_before_it() -> None:
    found = start(
        """
        self.first()
        self.size = self.size + 10

    def first(self):
        self.backend = "tiles"
        if workstation():
            self.experts = "pebble"
            return
        self.experts = "rock"
        """
    )
    assert on(found, "backend") == ("tiles", "tiles", "tiles")
    assert on(found, "experts") == ("rock", "rock", "pebble")
    assert on(found, "size") == (11, 11, 11)
    assert [(w.name, w.line) for w in found.writes][0] == ("backend", 24)


def test_a_raise_ends_the_start_on_its_targets_only() -> None:
    found = start(
        """
        if major() == 9:
            raise ValueError("no")
        assert major() != 10, "never"
        self.backend = "tiles"
        """
    )
    stops = {
        (s.what, s.may >> AT["sm_90"] & 1, s.may >> AT["sm_100"] & 1, s.may >> AT["sm_120"] & 1)
        for s in found.raises
    }
    assert stops == {("ValueError", 1, 0, 0), ("AssertionError", 0, 1, 0)}
    assert found.arguments["backend"].at(AT["sm_120"]) == "tiles"
    (write,) = found.writes
    assert (
        write.may >> AT["sm_120"] & 1
        and not write.may >> AT["sm_90"] & 1
        and not write.may >> AT["sm_100"] & 1
    )


def test_a_raise_that_is_caught_keeps_every_state_in_between() -> None:
    found = start(
        """
        try:
            self.backend = "one"
            helpers.unknown_thing()
            self.backend = "two"
            self.settle()
            self.backend = "three"
        except ValueError:
            self.experts = "rock"

    def settle(self):
        if helpers.ask():
            raise ValueError
        """,
        "import elsewhere\nask = elsewhere.ask\nunknown_thing = elsewhere.thing\n",
    )
    assert choice(found, "backend") == {"auto", "one", "two", "three"}
    assert choice(found, "experts") == {"auto", "rock"}


def test_what_is_sure_is_sure_for_the_starts_that_go_on() -> None:
    body = """
        try:
            if helpers.ask():
                raise ValueError
            self.check()
            self.backend = "tiles"
        except {handler}

    def check(self):
        for name in ("a", "b"):
            if helpers.ask():
                raise ValueError
    """
    outside = "import elsewhere\nask = elsewhere.ask\n"
    (write,) = start(body.format(handler="BaseException:\n            raise"), outside).writes
    assert write.must == write.may == (1 << len(TARGETS)) - 1
    (write,) = start(body.format(handler="ValueError:\n            pass"), outside).writes
    assert not write.must


@pytest.mark.parametrize("loop", ["for item in helpers.items():", "while helpers.items():"])
def test_a_loop_leaves_nothing_decided_that_a_later_round_may_change(loop: str) -> None:
    found = start(
        f"""
        {loop}
            self.size = self.size * 2
            self.later()
            if helpers.items():
                self.quick = True
                break

    def later(self):
        self.backend = "tiles" if self.experts == "auto" else "other"
        self.experts = "rock"
        """,
        "import elsewhere\nitems = elsewhere.items\n",
    )
    for name in ("size", "backend", "experts", "quick"):
        assert on(found, name) == ("?", "?", "?"), name
    assert all(not w.must for w in found.writes)


def test_a_loop_over_known_items_is_run_item_by_item() -> None:
    found = start(
        """
        for name, value in (("backend", "tiles"), ("experts", "rock")):
            setattr(self, name, value)
        """
    )
    assert on(found, "backend") == ("tiles",) * 3 and on(found, "experts") == ("rock",) * 3


def test_an_operand_that_may_be_skipped_sets_nothing_surely() -> None:
    found = start(
        """
        helpers.ask() and self.fill()
        self.note = "x" if helpers.ask() else self.other()

    def fill(self):
        self.backend = "tiles"
        return True

    def other(self):
        self.experts = "rock"
        """,
        "import elsewhere\nask = elsewhere.ask\n",
    )
    assert choice(found, "backend") == {"auto", "tiles"}
    assert choice(found, "experts") == {"auto", "rock"}


def test_what_differs_by_target_is_called_on_its_targets_only() -> None:
    found = start(
        """
        step = helpers.small if workstation() else helpers.large
        step(self)
        """,
        """
        def small(options):
            options.backend = "tiles"

        def large(options):
            options.experts = "rock"
        """,
    )
    assert on(found, "backend") == ("auto", "auto", "tiles")
    assert on(found, "experts") == ("rock", "rock", "auto")


# -- what cannot be followed ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "setattr(self, helpers.ask(), 1)",
        "self.__dict__.update(helpers.ask())",
        "vars(self)[helpers.ask()] = 1",
        "object.__setattr__(self, helpers.ask(), 1)",
        "helpers.pick()(self)",
        "helpers.streaming(self)",
        "helpers.TABLE[helpers.ask()](self)",
        "declare(self, 'here', **helpers.ask())",
        "run_pass(self, helpers.ask())",
        "self._notes = helpers.ask()",
        "helpers.late(*helpers.ask(), options=self)",
        "exec(helpers.ask())",
    ],
)
def test_code_that_may_set_anything_leaves_nothing_known(statement: str) -> None:
    found = start(
        f"""
        self._notes = []
        self.backend = "tiles"
        {statement}
        """,
        """
        import elsewhere

        ask = elsewhere.ask
        pick = elsewhere.pick
        TABLE = {"a": elsewhere.a}

        def streaming(options):
            options.backend = "other"
            yield 1

        def late(first, options):
            options.backend = "late"
        """,
    )
    if statement.startswith(("helpers.pick", "helpers.TABLE")):
        return  # code outside the tree does not know the arguments
    assert on(found, "backend") == ("?", "?", "?")
    assert on(found, "size") == ("?", "?", "?")


def test_an_unknown_name_among_few_sets_only_those() -> None:
    found = start(
        """
        setattr(self, "backend" if helpers.ask() else "experts", "tiles")
        """,
        "import elsewhere\nask = elsewhere.ask\n",
    )
    assert choice(found, "backend") == {"auto", "tiles"} and choice(found, "experts") == {"auto", "tiles"}
    assert on(found, "size") == (1, 1, 1)


def test_writes_through_objects_and_inner_functions_are_seen() -> None:
    found = start(
        """
        def inner():
            self.backend = "tiles"

        helpers.run(inner)
        helpers.Holder(self).fill()
        """,
        """
        def run(step):
            step()

        class Holder:
            def __init__(self, options):
                self.options = options

            def fill(self):
                self.options.experts = "rock"
        """,
    )
    assert on(found, "backend") == ("tiles",) * 3
    assert on(found, "experts") in (("rock",) * 3, ("?",) * 3)


def test_a_start_that_does_not_end_claims_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("auditor.program.startup.STEPS", 20)
    found = start("self.backend = 'tiles'\n" + "\n".join("self.size = self.size + 1" for _ in range(30)))
    assert not found.complete
    assert on(found, "backend") == ("?", "?", "?")


# -- the environment -----------------------------------------------------------------------------------


def test_a_flag_is_guarded_where_the_user_may_keep_it() -> None:
    found = start(
        """
        if workstation():
            flags.FAST.set(False)
        if not flags.SPARE.is_set():
            flags.SPARE.set(True)
        helpers.other()
        """,
        """
        import os

        def other():
            os.environ.setdefault("THIRD", "1")
            if os.environ.get("FOURTH") is None:
                os.environ["FOURTH"] = "1"
            os.environ["FIFTH"] = "1"
        """,
    )
    told = {e.name: (e.value.one, e.guarded) for e in found.env}
    assert told == {
        "FAST": ("0", False),
        "SPARE": ("1", True),
        "THIRD": ("1", True),
        "FOURTH": ("1", True),
        "FIFTH": ("1", False),
    }
    fast = next(e for e in found.env if e.name == "FAST")
    assert (fast.path, fast.symbol) == ("example/options.py", "Options.__post_init__")
    assert fast.may >> AT["sm_120"] & 1 and not fast.may >> AT["sm_90"] & 1


def test_a_setting_that_is_lost_on_some_targets_is_told_apart() -> None:
    found = start(
        """
        if flags.FAST.get() and (workstation() or not flags.FAST.is_set()):
            flags.FAST.set(False)
        """
    )
    kept = {e.guarded: e.may for e in found.env}
    assert kept[False] >> AT["sm_120"] & 1 and not kept[False] >> AT["sm_90"] & 1
    assert kept[True] >> AT["sm_90"] & 1 and not kept[True] >> AT["sm_120"] & 1


def test_a_flag_that_was_set_is_read_back() -> None:
    found = start(
        """
        if workstation():
            flags.SPARE.set(True)
        self.backend = "spare" if flags.SPARE.get() else "plain"
        self.quick = flags.SPARE.is_set()
        """
    )
    assert on(found, "backend") == ("plain", "plain", "spare")
    assert on(found, "quick") == (False, False, True)


def test_a_flag_under_a_computed_name_leaves_all_flags_open() -> None:
    found = start(
        """
        helpers.spread()
        self.quick = flags.FAST.get()
        """,
        "import os\nimport elsewhere\n\ndef spread():\n    os.environ[elsewhere.name()] = '1'\n",
    )
    assert on(found, "quick") == ("?", "?", "?")


# -- decisions beside the record -----------------------------------------------------------------------


def test_decisions_are_seen_through_views_and_not_in_the_record() -> None:
    found = start(
        """
        self._notes = []
        before = frozen(self)
        declare(self, "here", backend="tiles")
        self.note = self.backend + "/" + live(self).backend + "/" + before.backend
        """
    )
    assert on(found, "backend") == ("tiles",) * 3
    assert on(found, "note") == ("auto/tiles/auto",) * 3


def test_a_pass_decides_key_by_key() -> None:
    found = start(
        """
        self._notes = []
        run_pass(self, helpers.step)
        run_pass(self, helpers.again)
        """,
        """
        from example.gpu import workstation
        import elsewhere

        def step(view):
            out = {"quick": True}
            if workstation():
                out["backend"] = "tiles"
            if elsewhere.ask():
                out.update(experts="rock")
            return out

        def again(view):
            if view.backend == "tiles":
                return {"size": view.size + 1}
            return {}
        """,
    )
    assert on(found, "quick") == (True,) * 3
    assert on(found, "backend") == ("auto", "auto", "tiles")
    assert on(found, "size") == (1, 1, 2)
    assert choice(found, "experts") == {"auto", "rock"}
    assert {w.symbol for w in found.writes if w.name == "backend"} == {"step"}


def test_settled_decisions_win_over_the_record_and_later_assignments_over_them() -> None:
    found = start(
        """
        self._notes = []
        declare(self, "here", backend="tiles", experts="rock")
        self.backend = "plain"
        settle(self)
        self.experts = "pebble" if self.backend == "tiles" else "sand"
        """
    )
    assert on(found, "backend") == ("tiles",) * 3


REGISTRY = """\
from example.gpu import workstation
from example.notes import register, register_rule

NAMES = ("Newt", "Frog")


@register(*NAMES)
def amphibians(options, config):
    return {"experts": "rock" if workstation() else "sand"}


@register("Toad")
def toads(options, config):
    return {"size": 99}


@register_rule(lambda name: name.startswith("N"))
def by_letter(options, config):
    return {"note": "n"}


@register_rule(lambda name: name.startswith(config_prefix()))
def by_config(options, config):
    return {"quick": True}
"""


def test_registered_providers_of_a_model_are_applied() -> None:
    body = """
        self._notes = []
        self._notes.extend(collect("Newt", self, None))
    """
    found = start(body, more={"example/registry.py": REGISTRY})
    assert on(found, "backend") == ("constant",) * 3
    assert on(found, "experts") == ("sand", "sand", "rock")
    assert on(found, "note") == ("n",) * 3
    assert on(found, "size") == (1, 1, 1)
    assert choice(found, "quick") == {False, True}
    assert {w.path for w in found.writes if w.name == "experts"} == {"example/registry.py"}


def test_a_registration_that_is_no_decorator_leaves_decisions_open() -> None:
    body = """
        self._notes = collect("Newt", self, None)
    """
    more = {"example/registry.py": REGISTRY + "\n\nregister('Newt')(toads)\n"}
    assert on(start(body, more=more), "experts") == ("?", "?", "?")


def test_registered_for_nothing_but_plugins_is_empty() -> None:
    helpers = """
        STEPS = {}

        def plug(name, step):
            STEPS[name] = step

        def go(options):
            for step in STEPS.get(options.name, ()):
                step(options)
            options.backend = "tiles"
    """
    found = start("helpers.go(self)", helpers)
    assert on(found, "backend") == ("tiles",) * 3 and on(found, "size") == (1, 1, 1)
    found = start(
        "helpers.go(self)",
        helpers,
        more={"example/uses.py": "from example.helpers import plug\nplug('a', print)\n"},
    )
    assert on(found, "size") == ("?", "?", "?")


def test_objects_and_dictionaries_that_are_changed_are_not_remembered_as_they_were() -> None:
    found = start(
        """
        box = helpers.Box()
        other = box
        helpers.grow(box)
        self.size = other.size
        table = {"a": 1}
        same = table
        table["a"] = 2
        self.note = str(same["a"])
        helpers.put(table)
        self.quick = table["a"] == 2
        """,
        """
        class Box:
            def __init__(self):
                self.size = 5

        def grow(box):
            box.size = 6

        def put(table):
            table["a"] = 3
        """,
    )
    assert on(found, "size") in (("?",) * 3, (6,) * 3)
    assert on(found, "note") in (("?",) * 3, ("2",) * 3)
    assert on(found, "quick") in (("?",) * 3, (False,) * 3)
