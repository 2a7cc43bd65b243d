"""Structural edits on random text: the meaning is as asked, everything outside is the same byte for byte."""

from __future__ import annotations

import ast
import itertools
import json
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.patching.edits import model
from auditor.patching.edits.apply import apply
from auditor.patching.model import Outcome
from auditor.queries.exampletree import PROFILE, MemoryTree

PATH = "example/m.py"


def carried(body: model.Strict, data: bytes, path: str = PATH) -> Outcome:
    """What becomes of one edit on one file, made a second time to see that it finds itself done."""
    words = "".join(f"_{c.lower()}" if c.isupper() else c for c in type(body).__name__).strip("_")
    edit = model.Edit(**{words: body})  # type: ignore[arg-type]
    outcome = apply([edit], MemoryTree({"example/__init__.py": "", path: data}), PROFILE)
    if outcome.files:
        again = outcome.files[path]
        assert again is not None
        assert (
            apply([edit], MemoryTree({"example/__init__.py": "", path: again}), PROFILE).status == "upstream"
        )
    return outcome


#: Statements with formatting that nobody would write, and that has to survive.
NOISE = [
    "# a comment  \n",
    "\n",
    "x   =  1 ;y=2\n",
    "\x0c\n",
    "T = '''a\n  b\n'''\n",
    "if  x :  # why\n\tx = [1,\n2 , ]\n",
    "def other( a,b = 3 )   :\n  return a\n",
    "ü = 'ä€'\n",
    "z = x\\\n  + 1\n",
    "print(  f'{x!r:>{y}}' )\n",
    "@deco\nclass  C (  object ) :\n    pass  # end\n",
]
noise = st.lists(st.sampled_from(NOISE), max_size=5).map("".join)
ends = st.sampled_from(["\n", "\r\n"])


@st.composite
def conditions(draw: st.DrawFn, depth: int = 2) -> str:
    """An expression over a, b and c with odd blanks and brackets."""
    kind = draw(st.sampled_from(["name", "not", "and", "or", "if", "brackets", "lines"])) if depth else "name"
    if kind == "name":
        return draw(st.sampled_from("abc"))

    def inner() -> str:
        return draw(conditions(depth=depth - 1))

    if kind == "not":
        return f"not  ({inner()})"
    if kind == "if":
        return f"({inner()} if {inner()} else ({inner()}))"
    if kind == "brackets":
        return f"( {inner()} )"
    if kind == "lines":
        return f"(\n            {inner()}  # one\n            or {inner()}\n        )"
    return f"({inner()})  {kind} {inner()}" if kind == "and" else f"{inner()} {kind}  ({inner()})"


@given(
    noise,
    conditions(),
    noise,
    ends,
    st.booleans(),
    st.sampled_from(["c", "a or b", "not b", "a and b", "1 if a else b"]),
)
@settings(max_examples=60, deadline=None)
def test_a_condition(before: str, test: str, after: str, newline: str, narrow: bool, extra: str) -> None:
    head = "def f(a, b, c):\n    if "
    tail = ":\n        return 1\n    return 0\n"
    data = f"{before}{head}{test}{tail}{after}".replace("\n", newline).encode()
    kind = model.Narrow if narrow else model.Widen
    edit = kind(in_="example.m.f", at="if $_:\n    return 1", with_=extra)
    outcome = carried(edit, data)
    if outcome.status == "upstream":  # the random condition has it already
        return
    assert outcome.status == "clean", outcome
    new = outcome.files[PATH] or b""
    start = f"{before}{head}".replace("\n", newline).encode()
    end = f"{tail}{after}".replace("\n", newline).encode()
    assert new.startswith(start) and new.endswith(end)
    middle = new[len(start) : len(new) - len(end)].decode().replace("\r\n", "\n")
    for a, b, c in itertools.product((False, True), repeat=3):
        names = {"a": a, "b": b, "c": c}
        was, more = bool(eval(f"({test})", {}, names)), bool(eval(extra, {}, names))
        assert bool(eval(f"({middle})", {}, names)) == ((was and more) if narrow else (was or more))


@st.composite
def literals(draw: st.DrawFn) -> tuple[str, str, list[Any]]:
    """(kind, text, items) of a list, set or tuple, formatted at random."""
    kind = draw(st.sampled_from(["list", "set", "tuple"]))
    items = draw(st.lists(st.integers(0, 99), max_size=4, unique=True))
    if kind == "set" and not items:
        items = [1]
    gap = st.sampled_from(["", " ", "  # note, with a comma (\n    ", "\n    ", "\n"])
    wrapped = st.sampled_from(["{}", "{}", "({})", "( {} )"])
    parts = [draw(gap) + draw(wrapped).format(item) + draw(gap) for item in items]
    trailing = "," if items and (draw(st.booleans()) or (kind == "tuple" and len(items) == 1)) else ""
    text = ",".join(parts) + trailing + (draw(gap) if items else "")
    left, right = {"list": "[]", "set": "{}", "tuple": "()"}[kind]
    return kind, left + text + right, list(items)


@given(
    noise,
    literals(),
    noise,
    ends,
    st.lists(st.integers(100, 199), min_size=1, max_size=3, unique=True),
    st.booleans(),
)
@settings(max_examples=50, deadline=None)
def test_members(
    before: str, literal: tuple[str, str, list[Any]], after: str, newline: str, new: list[int], first: bool
) -> None:
    _, text, items = literal
    data = f"{before}NAMES = {text}\n{after}".replace("\n", newline).encode()
    place = {"before": str(items[0])} if first and items else {}
    edit = model.AddMember(in_="example.m", name="NAMES", members=tuple(map(str, new)), **place)
    outcome = carried(edit, data)
    assert outcome.status == "clean", outcome
    made = outcome.files[PATH] or b""
    start = f"{before}NAMES = ".replace("\n", newline).encode()
    end = f"\n{after}".replace("\n", newline).encode()
    assert made.startswith(start) and made.endswith(end)
    middle = made[len(start) : len(made) - len(end)].decode().replace("\r\n", "\n")
    wanted = new + items if place else items + new
    assert [*ast.literal_eval(middle)] == [*(type(ast.literal_eval(middle)))(wanted)]
    old = text
    for character in middle:  # nothing of the old text is lost or changed
        if old and character == old[0]:
            old = old[1:]
    assert old == ""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.sampled_from(["a", "ü", '"', "x y"]), JSON, min_size=1),
    JSON,
    st.sampled_from([None, 2, "\t"]),
    st.booleans(),
    st.data(),
)
@settings(max_examples=60, deadline=None)
def test_a_key_of_json(
    old: dict[str, Any], value: Any, indent: Any, plain: bool, data: st.DataObject
) -> None:
    key = data.draw(st.sampled_from([*old, "new"]))
    text = json.dumps(old, indent=indent, ensure_ascii=plain) + "\n"
    was = old[key] if key in old else msgspec.UNSET
    outcome = carried(
        model.SetKey(path="example/t.json", key=(key,), to=value, was=was), text.encode(), "example/t.json"
    )
    made = (outcome.files.get("example/t.json") or text.encode()).decode()
    same = key in old and json.dumps(old[key], sort_keys=True) == json.dumps(value, sort_keys=True)
    if was == "absent":
        return  # the word that says that there is none
    assert outcome.status == ("upstream" if same else "clean"), outcome
    assert json.loads(made) == {**old, key: value}


@given(st.lists(st.integers(0, 9), max_size=3, unique=True), st.sampled_from([None, 2]), st.integers(20, 30))
@settings(max_examples=60, deadline=None)
def test_a_list_of_json(items: list[int], indent: int | None, new: int) -> None:
    text = json.dumps({"a": {"list": items}}, indent=indent)
    edit = model.AddToList(path="example/t.json", list_="a.list", member=new)
    outcome = carried(edit, text.encode(), "example/t.json")
    assert json.loads(outcome.files["example/t.json"] or b"") == {"a": {"list": [*items, new]}}


@given(noise, noise, ends, st.sampled_from(["    ", "\t", "  "]), st.booleans(), st.booleans())
@settings(max_examples=50, deadline=None)
def test_statements(before: str, after: str, newline: str, indent: str, first: bool, comment: bool) -> None:
    note = "  # note" if comment else ""
    head = f"{before}def f(a):\n"
    line = f"{indent}a = a+1{note}\n"
    tail = f"{indent}return a\n{after}"
    data = f"{head}{line}{tail}".replace("\n", newline).encode()
    where = {"before": "a = a + 1"} if first else {"after": "a = a + 1"}
    code = 'if a:\n    b = """x\n  y"""\n'
    outcome = carried(model.Insert(in_="example.m.f", code=code, **where), data)
    added = f'{indent}if a:\n{indent}    b = """x\n  y"""\n'
    wanted = head + (added + line if first else line + added) + tail
    assert outcome.files[PATH] == wanted.replace("\n", newline).encode()
