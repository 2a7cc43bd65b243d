"""Comments, layout and the way a call is written are not part of what a program means."""

from __future__ import annotations

import ast
import importlib.util

import pytest

from auditor.data import data_root
from auditor.gates.audit import AuditOptions, audit
from auditor.gates.model import Report
from auditor.program.classes import written_names
from auditor.program.source import bare, segments, whole
from auditor.queries.exampletree import PRELUDE, PROFILE, MemoryTree


def report(**files: str) -> Report:
    """The audit of a small tree."""
    tree = MemoryTree({**PRELUDE, **{f"example/{name}.py": text for name, text in files.items()}})
    return audit(tree, AuditOptions(targets=("sm_120",), profile=PROFILE, queries=(), use_cache=False))


STRINGS = '''
a = "# no"  # yes
b = '\\'# no'  # "yes
c = """
# no "" # no
"""  # yes
d = f"{a!r:#>8}"  # it's
e = "\\\\"  # yes
'''


def test_comments_are_taken_away_and_nothing_else() -> None:
    left = bare(STRINGS)
    assert left.count("no") == STRINGS.count("no") and "yes" not in left and "it's" not in left
    with_places = [ast.dump(ast.parse(text), include_attributes=True) for text in (left, STRINGS)]
    assert with_places[0] == with_places[1]


FILE = """
import torch
@torch.no_grad()
def first(x):
    return x


class Small:
    @property
    def size(self):
        return 1

    @size.setter
    def size(self, value):
        self._size = value

class Short: x = 1; y = 2
def last(): return 3; z = 4
"""


def test_the_pieces_of_a_parsed_file_have_their_text() -> None:
    pieces = whole(FILE)
    assert [(p.kind, p.name, p.start) for p in pieces] == [
        ("other", "", 2),
        ("def", "first", 3),
        ("class", "Small", 8),
        ("class", "Short", 17),
        ("def", "last", 18),
    ]
    assert [p.text.count("\n") for p in pieces] == [1, 3, 8, 1, 1]
    for piece in (*pieces, *pieces[2].members(), *pieces[3].members()):
        before = [ast.dump(node, include_attributes=True) for node in piece.nodes()]
        piece.forget()
        assert [ast.dump(node, include_attributes=True) for node in piece.nodes()] == before
        assert piece.text and piece.longer(1)
    assert [m.text.strip().split("\n")[0] for m in pieces[2].members()] == ["@property", "@size.setter"]


@pytest.mark.parametrize(
    "body, names",
    [
        ("self.a = 1", {"a"}),
        ("self.a, self.b = 1, 2", {"a", "b"}),
        ("(self.a, self.b) = 1, 2", {"a", "b"}),
        ("[self.a, self.b] = 1, 2", {"a", "b"}),
        ("(\n        self.a,\n        self.b,\n    ) = 1, 2", {"a", "b"}),
        ("go(1, self.a, out=2)", set()),
        ("go(\n        1, self.a, out=2\n    )", set()),
        ("go(\n        1,\n        self.a, out=2,\n    )\n    self.b = 3", {"b"}),
        ("for self.a in x:\n        pass", {"a"}),
        ("with x as self.a:\n        pass", {"a"}),
        ("self.a: int = 3", {"a"}),
        ("return self.a == 2", set()),
    ],
)
def test_what_a_method_writes(body: str, names: set[str]) -> None:
    assert written_names(segments(f"def f(self, x):\n    {body}\n")[0]) == names


GATES = """
from example.gpu import major


class Layer:
    def __init__(self):
        self.wide = major() >= 10

    def go(self, x):
        if (self.wide):
            return major() == 12
        return x
"""


def gates(found: Report) -> list[tuple[str, str, str]]:
    return [(g.id, g.kind, g.predicate) for g in found.gates if g.path.endswith("case.py")]


def test_a_file_that_cannot_be_cut_is_looked_at_as_well() -> None:
    plain = gates(report(case=GATES))
    assert [kind for _, kind, _ in plain] == ["assign", "if", "return"]
    assert gates(report(case=GATES.replace("(self.wide)", "(\nself.wide\n)"))) == plain
    assert gates(report(case=GATES.replace("return x", "return x; y = 1") + "a = 1; b = '''\n'''\n")) == plain


def test_a_comment_does_not_decide_what_is_visited() -> None:
    helper = "def work(x):\n    # major() and torch.cuda.get_device_capability\n    return x.shape\n"
    more = "def more(x):\n    ok = work(x) and major() == 9\n    if ok:\n        return 1\n"
    use = f"{GATES}\n\n{helper}\n\n{more}"
    without = use.replace("    # major() and torch.cuda.get_device_capability\n", "")
    assert gates(report(case=use)) == gates(report(case=without))
    long = use.replace(
        "    ok =", "".join(f"    # line {n} of a long remark\n" for n in range(400)) + "    ok ="
    )
    assert gates(report(case=long)) == gates(report(case=use))


def test_a_helper_does_not_mean_what_it_answers_to_one_caller() -> None:
    helper = "from example.gpu import major\n\n\ndef check(majors):\n    return major() in majors\n\n\n"
    for call in ("check(majors=[12])", "check([12])"):
        found = report(case=f"{helper}ON = {call}\n\n\ndef go():\n    return 1 if ON else 2\n")
        truth = {p.name.rpartition(".")[2]: p.truth["sm_120"] for p in found.predicates}
        assert (truth["check"], truth["ON"]) == ("unknown", "true"), call


def test_a_size_is_counted_in_words() -> None:
    text = "def f(a):\n    return go(a, 'b c')\n"
    other = 'def f(\n    a,\n):\n    return (\n        go(a, "b c")\n    )\n'
    for piece in (segments(text)[0], segments(other)[0]):
        assert piece.longer(7) and not piece.longer(8)


def test_defaults_are_found_where_lines_in_brackets_go_further_out() -> None:
    place = data_root() / "queries" / "arguments" / "defaults.py"
    spec = importlib.util.spec_from_file_location("defaults_plugin", place)
    assert spec and spec.loader
    plugin = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plugin)
    body = "        if (\nx\n):\n            pass\n" * 5
    lines = (
        f"class A:\n    def go(self, x):\n{body}        self.word = 1\n\n    def other(self):\n        pass\n"
    )
    found = plugin.function_at(lines.encode().splitlines(), 5, "go", frozenset({"word"}))
    assert found is not None and (found.lineno, len(found.body)) == (2, 6)
    remark = "@models(\n    'A',\n)\n# why\n\ndef go(x):\n    x.word = 1\n"
    before = "class B:\n    @property\n    def a(self):\n        return 1\n\n"
    bare_one = before + "def go(x):\n    x.word = 1\n"
    for text, line, decorators in ((remark, 7, 1), (before + remark, 12, 1), (bare_one, 7, 0)):
        found = plugin.function_at(text.encode().splitlines(), line, "go", frozenset({"word"}))
        assert found is not None and len(found.decorator_list) == decorators
