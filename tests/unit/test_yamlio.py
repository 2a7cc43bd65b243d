"""The YAML reader keeps what people wrote and points at what is wrong."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from auditor import yamlio
from auditor.errors import UserError


def _fails(text: str | bytes, **kw: object) -> UserError:
    raw = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(UserError) as caught:
        yamlio.load(raw, "f.yaml", code="Q001", **kw)  # type: ignore[arg-type]
    assert caught.value.code == "Q001"
    return caught.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"), ("yes", "yes"), ("No", "No"), ("True", "True"), ("TRUE", "TRUE"), ("~", "~"),
        ("true", True), ("false", False), ("null", None), ("", None),
        ("12.0", "12.0"), ("1.20", "1.20"), ("1e3", "1e3"), (".inf", ".inf"), ("12:30:45", "12:30:45"),
        ("2026-06-17", "2026-06-17"), ("0x10", "0x10"), ("007", "007"), ("1_000", "1_000"), ("+1", "+1"),
        ("0", 0), ("120", 120), ("-3", -3), ("-0", "-0"), ("'120'", "120"), ('"true"', "true"),
        ("735a256", "735a256"), ("1234567890123456789012", "1234567890123456789012"),
    ],
)  # fmt: skip
def test_scalars(text: str, value: object) -> None:
    data = yamlio.load(f"k: {text}\n".encode(), "f.yaml").data
    assert data == {"k": value}
    assert type(data["k"]) is type(value)


def test_keys_are_text() -> None:
    text = b"on: 1\n12.0: 2\n120: 3\ntrue: 4\n"
    assert yamlio.load(text, "f").data == {"on": 1, "12.0": 2, "120": 3, "true": 4}


def test_structure_and_marks() -> None:
    doc = yamlio.load(b"a:\n  - x\n  - b: 1\n    c: {d: 2}\n", "f.yaml")
    assert doc.data == {"a": ["x", {"b": 1, "c": {"d": 2}}]}
    assert doc.mark("a", 1, "c", "d") == (4, 12)
    assert doc.place("a", 0) == "f.yaml:2:5"
    assert doc.place("a", 1, key="c") == "f.yaml:4:5"
    assert doc.mark("a", 7, "z") == doc.mark("a")


def test_block_scalars_and_crlf_and_bom() -> None:
    assert yamlio.load(b"\xef\xbb\xbfa: |\r\n  x\r\n  12\r\nb: 1\r\n", "f").data == {"a": "x\n12\n", "b": 1}


def test_an_empty_file_is_null() -> None:
    assert yamlio.load(b"# nothing\n", "f").data is None


@pytest.mark.parametrize(
    ("text", "place", "part"),
    [
        ("a: 1\nb: 2\na: 3\n", "f.yaml:3:1", "`a` is already set in line 1"),
        ("x:\n  1: a\n  '1': b\n", "f.yaml:3:3", "already set in line 2"),
        ("a: !!python/object/apply:os.system ['x']\n", "f.yaml:1:4", "tag"),
        ("a: !!str 5\n", "f.yaml:1:4", "tag"),
        ("a: &x {b: 1}\nc:\n  <<: *x\n", "f.yaml:3:3", "merge key"),
        ("a: 1\n---\nb: 2\n", "f.yaml:2:1", "second document"),
        ("? [a, b]\n: 1\n", "f.yaml:1:3", "key"),
        ("a: *nowhere\n", "f.yaml:1:4", "nowhere"),
        ("a: &x [*x]\n", "f.yaml:1:8", "no anchor above"),
        ("a: [1, 2\nb: 3\n", "f.yaml:2:", "not valid YAML"),
        ("a: b: c\n", "f.yaml:1:", "not valid YAML"),
        ("a:\n\t- 1\n", "f.yaml:2:", "not valid YAML"),
        ("a: 'open\n", "f.yaml:", "not valid YAML"),
        ("ab: x\x00y\n", "f.yaml:1:6", "U+0000"),
        ("a: 1\nb: \x1b[31m\n", "f.yaml:2:4", "U+001B"),
    ],
)
def test_errors_name_the_place(text: str, place: str, part: str) -> None:
    error = _fails(text)
    assert (error.place or "").startswith(place)
    assert part in error.fact


def test_not_utf8() -> None:
    error = _fails(b"a: 1\nb: \xff\n")
    assert (error.fact, error.place) == ("not UTF-8", "f.yaml:2:4")


def test_limits() -> None:
    assert "deeper than" in _fails("[" * 60 + "]" * 60).fact
    assert "larger than" in _fails(b"#" * ((1 << 20) + 1)).fact
    assert "values" in _fails("[1,1,1,1]", limits=yamlio.Limits(nodes=4)).fact
    assert "aliases" in _fails("a: &x 1\nb: [*x,*x,*x]\n", limits=yamlio.Limits(aliases=2)).fact


def test_a_billion_laughs_stops_early() -> None:
    lines = ["a0: &a0 [1,1,1,1,1,1,1,1,1,1]"]
    lines += [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)]
    assert "values" in _fails("\n".join(lines)).fact


def test_aliases_repeat_values() -> None:
    assert yamlio.load(b"a: &x [1, 2]\nb: *x\n", "f").data == {"a": [1, 2], "b": [1, 2]}


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "q.yaml"
    path.write_bytes(b"a: 12.0\n")
    assert yamlio.load(path, "q.yaml").data == {"a": "12.0"}
    with pytest.raises(UserError) as caught:
        yamlio.load(tmp_path / "none.yaml", "none.yaml")
    assert caught.value.place == "none.yaml"
    with pytest.raises(UserError):
        yamlio.load(tmp_path, "folder")


class Item(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    count: int = 1


class Thing(msgspec.Struct, forbid_unknown_fields=True):
    title: str
    items: list[Item] = []
    by_name: dict[str, Item] = {}


def _convert(text: str) -> UserError:
    with pytest.raises(UserError) as caught:
        yamlio.load(text.encode(), "f.yaml", code="Q002").convert(Thing)
    assert caught.value.code == "Q002"
    return caught.value


def test_convert() -> None:
    thing = yamlio.load_as(Thing, b"title: t\nitems:\n- name: '12.0'\n  count: 3\n", "f")
    assert thing == Thing("t", [Item("12.0", 3)])


def test_convert_errors_point_at_the_value() -> None:
    wrong = _convert("title: t\nitems:\n- name: a\n- name: b\n  count: many\n")
    assert wrong.place == "f.yaml:5:10"
    assert wrong.fact == "items.1.count: expected number, got text"
    missing = _convert("title: t\nitems:\n- count: 2\n")
    assert (missing.place, missing.fact) == ("f.yaml:3:3", "`name` is missing")
    unknown = _convert("title: t\nitems:\n- name: a\n  cuont: 2\n")
    assert (unknown.place, unknown.fact) == ("f.yaml:4:3", "unknown field `cuont`")
    assert unknown.hints == ("write `count` instead of `cuont`",)
    assert _convert("[]\n").fact == "expected mapping, got list"
    assert _convert("").fact == "expected mapping, got `null`"
    assert _convert("title: t\nby_name:\n  x: {name: 1}\n").place == "f.yaml:3:3"


# JSON writes what lies beyond U+FFFF as two escapes, YAML as one.
_TEXT = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]))
# A key of YAML without a question mark before it is at most 1,024 characters, six for each escape.
_KEY = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), max_size=150)
_PLAIN = st.one_of(st.none(), st.booleans(), st.integers(-(10**17), 10**17), _TEXT)
_DATA = st.recursive(
    _PLAIN,
    lambda kids: st.lists(kids, max_size=4) | st.dictionaries(_KEY, kids, max_size=4),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)  # a machine at work
@given(_DATA)
def test_json_is_read_as_it_is(data: object) -> None:
    """YAML is nearly a superset of JSON: quoted text, decimal ints and the three words come back equal."""
    import json

    assert yamlio.load(json.dumps(data).encode(), "f").data == data


@given(st.binary(max_size=60))
def test_any_bytes_give_data_or_a_user_error(raw: bytes) -> None:
    try:
        yamlio.load(raw, "f")
    except UserError as error:
        assert (error.place or "").startswith("f")
