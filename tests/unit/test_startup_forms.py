"""The abstract run of a start, form by form: what Python leaves in the arguments, or open."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any

import msgspec
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import test_startup  # noqa: E402
from test_startup import NOTES, on, start  # noqa: E402

from auditor.profile import Profile, Symbol  # noqa: E402

ELSEWHERE = "import os\nimport elsewhere\n\nask = elsewhere.ask\n"
MORE_NOTES = """

def record_of(view):
    return object.__getattribute__(view, "_options")


def so_far(options, name):
    return getattr(View(options), name)


def recording(options, source, step):
    recorder = Recorder(options, source)
    step(recorder)
"""
OPEN = ("?", "?", "?")


@pytest.fixture(autouse=True)
def profile_with_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = test_startup.profile()

    def profile() -> Profile:
        assert plain.start is not None
        decisions = msgspec.structs.replace(
            plain.start.decisions,
            records=("example.notes.record_of",),
            readers=("example.notes.so_far",),
            recorders=("example.notes.recording",),
        )
        return msgspec.structs.replace(plain, start=msgspec.structs.replace(plain.start, decisions=decisions))

    monkeypatch.setattr(test_startup, "profile", profile)


def left(body: str, helpers: str, name: str, **more: str) -> Any:
    files = {"example/notes.py": NOTES + MORE_NOTES, **more}
    return on(start(body, ELSEWHERE + helpers, more=files), name)


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        # what is set is read back
        (('os.environ["FIRST"] = "1"', 'return os.environ["FIRST"]'), "1"),
        (('os.environ["FIRST"] = "1"', 'return os.environ.get("FIRST", "2")'), "1"),
        (('os.environ["FIRST"] = "1"', 'return os.environ.pop("FIRST")'), "1"),
        (('os.environ["FIRST"] = "1"', 'os.environ.pop("FIRST")', 'return os.getenv("FIRST", "no")'), "no"),
        (('os.environ["FIRST"] = "1"', 'del os.environ["FIRST"]', 'return os.getenv("FIRST", "no")'), "no"),
        (('os.environ["FIRST"] = "1"', 'return str("FIRST" in os.environ)'), "True"),
        (('os.environ["FIRST"] = "1"', 'return str("FIRST" not in os.environ)'), "False"),
        (
            (
                'os.environ.update({"FIRST": "1"}, SECOND="2")',
                'return os.getenv("FIRST") + os.getenv("SECOND")',
            ),
            "12",
        ),
        (('os.environ.update(FIRST="1")', 'return os.getenv("FIRST")'), "1"),
        (('os.environ["FIRST"] = "1"', "os.environ.clear()", 'return os.getenv("FIRST", "no")'), None),
        (('os.environ["FIRST"] = "1"', "os.environ.popitem()", 'return os.getenv("FIRST", "no")'), None),
        (('os.environ["FIRST"] = "1"', "os.environ.update(ask())", 'return os.getenv("FIRST", "no")'), None),
        (('os.environ["FIRST"] = "1"', "os.environ.pop(ask())", 'return os.getenv("FIRST", "no")'), None),
        (('os.environ["FIRST"] = "1"', "del os.environ[ask()]", 'return os.getenv("FIRST", "no")'), None),
        (('os.environ["FIRST"] = ask()', 'return os.getenv("FIRST", "no")'), None),
        # putenv and unsetenv are for other processes: os.environ stays as it is
        (('os.environ["FIRST"] = "1"', 'os.putenv("FIRST", "2")', 'return os.getenv("FIRST")'), "1"),
        (('os.environ["FIRST"] = "1"', 'os.unsetenv("FIRST")', 'return os.getenv("FIRST")'), "1"),
        # what was never set is given by nobody under the fixed assumptions
        (('os.environ.pop("FIRST", None)', 'return os.getenv("FIRST", "no")'), "no"),
    ],
)
def test_the_environment_is_what_python_leaves(lines: tuple[str, ...], wanted: str | None) -> None:
    helpers = "\n\ndef go(options):\n" + "".join(f"    {line}\n" for line in lines)
    assert left("self.note = helpers.go(self)", helpers, "note") == ((wanted,) * 3 if wanted else OPEN)


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        (("items = [1]", "items.append(2)", "return len(items)"), 2),
        (("items = [1]", "items.extend((2, 3))", "return len(items)"), 3),
        (("items = [1]", "items.extend(ask())", "return len(items)"), None),
        (("items = [1]", "items.insert(0, 2)", "return len(items)"), None),
        (("table = {'a': 1}", "table.update({'a': 2}, b=3)", "return table['a'] + table['b']"), 5),
        (("table = {'a': 1}", "table.update()", "return table['a']"), 1),
        (("table = {'a': 1}", "table.update(ask())", "return table['a']"), None),
        (("table = {'a': 1}", "table.setdefault('a', 2)", "return table['a']"), 1),
        (("table = {'a': 1}", "table.setdefault('b', 2)", "return table['b']"), 2),
        (("table = {'a': 1}", "table.setdefault('b')", "return 7 if table['b'] is None else 8"), 7),
        (("table = {'a': 1}", "table.setdefault(ask(), 2)", "return table['a']"), None),
        (("table = {'a': 1}", "return table.setdefault('a', 2)"), None),
        (
            (
                "table = {}",
                "if ask():",
                "    table['a'] = 1",
                "table.setdefault('a', 2)",
                "return table['a']",
            ),
            None,
        ),
        (
            (
                "table, more = {'a': 1, 'b': 1}, {}",
                "if ask():",
                "    more['a'] = 2",
                "    more['c'] = 3",
                "table.update(more)",
                "return table['a']",
            ),
            None,
        ),
        (
            (
                "table, more = {'a': 1, 'b': 1}, {}",
                "if ask():",
                "    more['a'] = 2",
                "table.update(more)",
                "return table['b']",
            ),
            1,
        ),
        (("table = {'a': 1}", "del table['a']", "return table['a']"), None),
        (("table = {'a': 1}", "for key in ask():", "    table[key] = 2", "return table['a']"), None),
        (("items = [1]", "for key in ask():", "    items.append(key)", "return len(items)"), None),
        (("table = {'a': 1}", "table[ask()] = 2", "return table['a']"), None),
        (("box = [[1]]", "box[0].append(2)", "return len(box[0])"), None),
        (("box = {'a': {}}", "box['a']['b'] = 1", "return len(box['a'])"), None),
    ],
)
def test_containers_that_are_changed_are_what_python_leaves(
    lines: tuple[str, ...], wanted: int | None
) -> None:
    helpers = "\n\ndef go(options):\n" + "".join(f"    {line}\n" for line in lines)
    assert left("self.size = helpers.go(self)", helpers, "size") == ((wanted,) * 3 if wanted else OPEN)


@pytest.mark.parametrize(
    ("body", "helpers", "name", "wanted"),
    [
        ("self.quick = self.__class__ is Options", "", "quick", True),
        ("self.note = self.kind()\n\n@staticmethod\ndef kind():\n    return 'x'", "", "note", "x"),
        ("self.note = self.kind()\n\n@classmethod\ndef kind(cls):\n    return 'x'", "", "note", "x"),
        (
            "self.note = self.kind\n\n@property\ndef kind(self):\n    return self.backend + '!'",
            "",
            "note",
            "auto!",
        ),
        ("self.size = self.LIMIT\n\nLIMIT = 7", "", "size", 7),
        ("self.note = View(self).backend", "", "note", "auto"),
        ("self.backend = 'x'\nself.note = View(self).backend", "", "note", "x"),
        ("self.backend = 'x'\nself.note = object.__getattribute__(self, 'backend')", "", "note", "x"),
        ("self.backend = 'x'\nself.note = object.__getattribute__(self, helpers.ask())", "", "note", None),
        ("delattr(self, 'note')", "", "note", None),
        ("del self.note", "", "note", None),
        ("[setattr(self, 'note', x) for x in ('a', 'b')]", "", "note", None),
        ("helpers.ask().backend = 'x'", "", "backend", "auto"),
        ("helpers.ask(self).backend = 'x'", "", "backend", "auto"),
        (
            "self.note = helpers.wrapped(self)",
            "\n\ndef swaps(f):\n    def inner(*a):\n        return 'z'\n    return inner\n"
            "\n\n@swaps\ndef wrapped(o):\n    return 'y'\n",
            "note",
            None,
        ),
        ("helpers.two(self, 1, 2)", "\n\ndef two(o, more):\n    o.backend = 'x'\n", "backend", None),
        ("helpers.reads(self)", "\n\ndef reads(o):\n    yield o.backend\n", "backend", "auto"),
        (
            "helpers.reads(self)",
            "\n\ndef reads(o):\n    yield len(o.backend)\n    ask(1)\n",
            "backend",
            "auto",
        ),
        ("helpers.hands(self)", "\n\ndef hands(o):\n    yield ask(o)\n", "backend", None),
        ("helpers.hands(self)", "\n\ndef hands(o):\n    yield o.settle()\n", "backend", None),
        (
            "helpers.again(self, 9)",
            "\n\ndef again(o, n):\n    if n:\n        again(o, n - 1)\n    o.size = n\n",
            "size",
            9,
        ),
        (
            "helpers.again(self, 9)",
            "\n\ndef again(o, n):\n    if n:\n        return again(o, n - 1)\n    o.size = n\n",
            "size",
            None,
        ),
        ("self.note = helpers.ask() or self.backend", "", "backend", "auto"),
        (
            "box = helpers.Box()\nsetattr(box, helpers.ask(), 3)\nself.size = box.size",
            "\n\nclass Box:\n    def __init__(self):\n        self.size = 5\n",
            "size",
            None,
        ),
        (
            "box = helpers.Box()\nsetattr(box, 'size', 3)\nself.size = box.size",
            "\n\nclass Box:\n    def __init__(self):\n        self.size = 5\n",
            "size",
            None,
        ),
        (
            "helpers.Keeps(self)",
            "\n\nclass Keeps:\n    def __init__(self, o):\n        o.backend = 'kept'\n",
            "backend",
            "kept",
        ),
        ("helpers.Plain(self)", "\n\nclass Plain:\n    pass\n", "backend", "auto"),
        ("for x in {'a', 'b'}:\n    self.note = x", "", "note", None),
    ],
)
def test_attributes_are_what_python_leaves(body: str, helpers: str, name: str, wanted: Any) -> None:
    body, _, rest = body.replace("View(", "helpers.View(").partition("\n\n")
    text = "\n" + textwrap.indent(body, " " * 8) + "\n\n" + textwrap.indent(rest, " " * 4)
    helpers = "from example.notes import View\n" + helpers
    assert left(text, helpers, name) == (OPEN if wanted is None else (wanted,) * 3)


@pytest.mark.parametrize(
    ("body", "helpers", "name", "wanted"),
    [
        (
            "helpers.recording(self, 'x', helpers.step)",
            "\n\ndef step(r):\n    r.backend = 'x'\n    r.odd = 1\n",
            "backend",
            "x",
        ),
        ("helpers.recording(self, 'x')", "", "backend", None),
        ("declare(self, 'x', backend='y')\nself.note = helpers.so_far(self, 'backend')", "", "note", "y"),
        ("self.note = helpers.so_far(self, helpers.ask())", "", "note", None),
        (
            "declare(self, 'x', backend='y')\nself.note = helpers.record_of(live(self)).backend",
            "",
            "note",
            "auto",
        ),
        ("run_pass(self)", "", "backend", None),
        ("declare(helpers.ask(self), 'x', backend='y')", "", "backend", "auto"),
        ("self._notes.append(('x', {'backend': 'y'}))", "", "backend", "y"),
        ("self._notes.append(helpers.ask())", "", "backend", None),
        ("self._notes.append(('x', {helpers.ask(): 'y'}))", "", "backend", None),
        ("self._notes.extend([('x', {'backend': 'y'}), ('z', {'experts': 'w'})])", "", "experts", "w"),
        ("self._notes.extend(self._notes)", "", "backend", "auto"),
        ("self._notes = list(self._notes)\ndeclare(self, 'x', backend='y')", "", "backend", "y"),
        ("declare(self, 'x', backend='y')\nself._notes = []", "", "backend", "auto"),
        ("declare(self, 'x', backend='y')\nself._notes.clear()", "", "backend", None),
        ("declare(self, 'x', backend='y')\nself._notes.index(1)", "", "backend", "y"),
        ("declare(self, 'x', **{'backend': 'y'})", "", "backend", "y"),
        ("declare(self, 'x', **helpers.ask())", "", "backend", None),
        ("self._notes.extend(collect(helpers.ask(), self, None))", "", "backend", None),
        ("self._notes.extend(collect('Frog', self, None))", "", "backend", "auto"),
    ],
)
def test_decisions_are_what_python_leaves(body: str, helpers: str, name: str, wanted: Any) -> None:
    helpers = "from example.notes import record_of, recording, so_far\n" + helpers
    body = "self._notes = []\n" + body
    assert left(body, helpers, name) == (OPEN if wanted is None else (wanted,) * 3)


REGISTRY = """\
from example.notes import register
import elsewhere

wrong = 3


@elsewhere.other("Newt")
@register
@wrong
def outside(options, config):
    return {"size": 9}


@register("Newt")
def odd(options, config):
    return elsewhere.fields()
"""
SECOND = """\
from example.notes import register


@register("Newt")
def second(options, config):
    return {"experts": "two"}
"""


@pytest.mark.parametrize(
    ("more", "name", "wanted"),
    [
        ({"one": REGISTRY}, "experts", None),  # what it declares is not known
        ({"one": SECOND}, "experts", "two"),
        ({"one": SECOND, "two": SECOND.replace('"two"', '"three"')}, "experts", None),  # which comes last?
        ({"one": SECOND + "\n\nsecond = None\n"}, "experts", None),
        ({"one": "def (:\n# register(\n" + SECOND}, "experts", "auto"),
    ],
)
def test_registered_declarations_are_what_python_leaves(more: dict[str, str], name: str, wanted: Any) -> None:
    files = {f"example/{key}.py": text for key, text in more.items()}
    body = "self._notes = []\n" + "self._notes.extend(collect('Newt', self, None))\n" * 2
    assert left(body, "", name, **files) == (OPEN if wanted is None else (wanted,) * 3)


@pytest.mark.parametrize(
    ("body", "helpers", "name", "wanted"),
    [
        (
            "helpers.call(self.fill)\n\ndef fill(self):\n    self.backend = 'x'",
            "\n\ndef call(step):\n    step()\n",
            "backend",
            "x",
        ),
        (
            "helpers.call(helpers.partial(helpers.sets, self))",
            "from functools import partial\n\n\ndef call(step):\n    step()\n"
            "\n\ndef sets(o):\n    o.backend = 'x'\n",
            "backend",
            "x",
        ),
        (
            "declare(self, 'x', backend='y')\nself.backend = 'z'\nself.note = live(self).backend",
            "",
            "note",
            "y",
        ),
        (
            "declare(self, 'x', backend='y')\nself._notes = []\n"
            "self.backend = 'z'\nself.note = live(self).backend",
            "",
            "note",
            "z",
        ),
        (
            "run_pass(self, helpers.step)\nself.backend = 'z'\nself.note = live(self).backend",
            "\n\ndef step(view):\n    out = {}\n    if ask():\n"
            "        out['backend'] = 'y'\n    return out\n",
            "note",
            None,
        ),
        ("declare(self, 'x', backend='y')\nexec(helpers.ask())", "", "backend", None),
        ("[declare(self, 'x', backend=x) for x in ('a', 'b')]", "", "backend", None),
    ],
)
def test_ways_to_get_at_the_arguments(body: str, helpers: str, name: str, wanted: Any) -> None:
    body, _, rest = ("self._notes = []\n" + body).partition("\n\n")
    text = "\n" + textwrap.indent(body, " " * 8) + "\n\n" + textwrap.indent(rest, " " * 4)
    assert left(text, helpers, name) == (OPEN if wanted is None else (wanted,) * 3)


def test_one_of_two_steps_that_stops_leaves_the_others() -> None:
    helpers = """

def stops(o):
    raise ValueError


def goes(o):
    o.backend = 'x'
"""
    body = "step = helpers.stops if workstation() else helpers.goes\nstep(self)"
    found = start(body, ELSEWHERE + helpers)
    assert on(found, "backend")[:2] == ("x", "x")
    at = test_startup.AT
    assert [(s.what, s.may >> at["sm_120"] & 1, s.may >> at["sm_90"] & 1) for s in found.raises] == [
        ("ValueError", 1, 0)
    ]


def test_a_tree_without_the_class_of_arguments_has_no_start(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = test_startup.profile()
    lost = (Symbol("example.nowhere", "Options"), Symbol("example.options", "Missing"))
    monkeypatch.setattr(test_startup, "profile", lambda: msgspec.structs.replace(plain, arguments=lost))
    found = start("self.backend = 'x'")
    assert (found.arguments, found.entered) == ({}, 0)


def test_a_class_that_a_factory_makes_has_the_fields_of_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = test_startup.profile()
    (symbol,) = plain.arguments
    own = msgspec.structs.replace(symbol, folders=("example/parts/",))
    monkeypatch.setattr(test_startup, "profile", lambda: msgspec.structs.replace(plain, arguments=(own,)))
    parts = "class Speed:\n    size: int = 5\n    speed: int = 3\n\n\nclass Other:\n    mode: str = 'slow'\n"
    body = "self.speed = self.speed + self.size\n"
    text = textwrap.indent(body, " " * 8) + (
        "\n\nfrom example.parts.all import Other, Speed\nfrom example.helpers import Aside, build\n\n"
        "PARTS = (Speed, Other, Aside, 3)\nOptions = build(Options, PARTS)\n"
    )
    helpers = "\n\nclass Aside:\n    aside: int = 1\n\n\ndef build(cls, parts):\n    return ask(cls, parts)\n"
    more = {"example/parts/__init__.py": "", "example/parts/all.py": parts}
    found = start("\n" + text, ELSEWHERE + helpers, more=more)
    assert on(found, "speed") == (4, 4, 4)  # the class's own `size` stands before that of the part
    assert on(found, "mode") == ("slow",) * 3
    assert "aside" not in found.arguments


def test_a_hook_that_cannot_be_entered_leaves_nothing_known() -> None:
    found = start("self.backend = 'x'\nyield 1")
    assert on(found, "backend") == OPEN and on(found, "size") == OPEN
