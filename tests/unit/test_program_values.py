"""Expressions of Python's own types: on every target what Python gives, or unknown; never something else."""

from __future__ import annotations

import enum
from types import SimpleNamespace
from typing import Any

import pytest

from auditor.arch import load_targets
from auditor.gates.reading import build_program, source_files
from auditor.program.values import ClassRef, EnumMember, Map, Seq, Unknown
from auditor.queries.exampletree import PRELUDE, PROFILE, MemoryTree

CAPABILITIES = [target.capability for target in load_targets().values()]
#: What both read: the evaluator, and Python under a stand-in for torch.
OURS = """\
class Kind(Enum):
    A = "a"
    B = "b"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Plain:
    size = 3


M = torch.cuda.get_device_capability()[0]
D = {"a": 1} if ask() else {"a": 2, "b": 3}
ONE = {"a": 1} if ask() else {}
LONG = "x" * 999 * 11
"""
HEAD = (
    "from enum import Enum, IntEnum\n\nimport torch\nfrom elsewhere import ask\nfrom example import gpu\n\n"
)

#: Decided: the values that Python gives.
KNOWN = """\
len({"a": 1, "b": M}.copy())
[1, M].copy()
{"a": 1}.items()
{1, 2}.union({3})
{1, 2}.union([M])
{1, 2}.intersection({2, M})
{1, 2}.difference((2,))
{1, 2} | {M}
{1, 2} & {2}
{1, 2} - {2}
D.get("b", 3)
D.get("c", 4)
ONE.get("c")
"a" in D
"c" in D
{**D, "b": 1}["b"]
{"b": 3, **D}["b"]
hasattr(gpu, "major")
hasattr(gpu, "missing")
hasattr(None, "x")
getattr(gpu, "missing", M)
isinstance({}, dict)
isinstance({}, list)
isinstance({}, object)
isinstance((1,), tuple)
isinstance([1], tuple)
isinstance({1}, list)
isinstance(M, (str, int))
isinstance("x", (int, float))
bool()
list("ab")
tuple("ab")
len(set("aab"))
len(frozenset("aab"))
len({1, 1})
len({M, 12})
len({1, True, 1.0})
len(set((1, True)))
len(frozenset((M, 12, 12.0)))
set({"a": 1})
set({M, 12})
{*(M, 12), M}
{x > 9 for x in (1, 10, 11)}
len({M, (M, 1), (M, True)})
list({12})
any(x == M for x in {9, 12})
sorted((3, M))
list(reversed((1, M)))
next(iter((M, 2)))
list(zip((1, 2), (M, 3)))
list(map(str, (M, 2)))
max(M, 9)
(1, 2) == [1, 2]
{1, M} == {M, 1}
{1, 2} == {1}
{1, 2} == (1, 2)
(1,) == (1, 2)
(1, M) < (1, 11)
(2, ask()) == (1, 2)
(1, 2) < (1, 2, 3)
None is None
None == (1,)
(ask() or True) is None
torch.cuda.get_device_properties(0) is None
Level.LOW == 1
Level.LOW in (1, 2)
Kind.A == "a"
Kind.A == Kind.A
Kind.A is Kind.B
Plain is Plain
"abc"[1]
"abc"[-1]
(1, 2, M)[::-1]
(1, 2, M)[1:]
[a + b for a, b in {(1, 2): 3}]
{(1, 2): M}[(1, 2)]
{(1, 2): M}.get((1, 2))
{(1, 2): M}.keys()
"a,b".split(",")
"a-b".partition("-")
"b" in "abc"
-M
~M
+1.5
not D
2 ** 10
1 << 3
"ab" * 2
7 // 2
"""

#: Open, though Python gives something or fails: what stands behind it is not followed, or would be too large.
OPEN = """\
(ask() and False) is None
[x for x in (1, M, 12) if x > 9]
D.keys()
D.values()
D.items()
D.get("b")
D.get(ask())
D.get((1, ask()))
"b" in D
{"b": 7, **D}["b"]
{ask(): 1}
len(D)
bool(ONE)
list(D)
[k for k in D]
len({1, ask()})
len({ask(), M})
len(set((1, ask())))
len(frozenset((ask(), ask())))
{1, ask()} == {1}
{1, 2} == frozenset({1, 2})
isinstance(1, bytes)
isinstance(Kind.A, str)
isinstance(ask(), int)
isinstance((1, 2), ask())
Level.LOW + 1
Level.HIGH > Level.LOW
Kind.A < 1
"%s" % M
(1 << 64) * (1 << 64) * 2
1 << 65
2.5 ** 2
"ab" * 1001
"ab" + 1
1 // 0
~1.5
-"a"
None < 1
len(1)
next(iter(()))
"abc"[9]
"abc"["a"]
(1, 2, 3)[::0]
(1, 2)[5]
"a".split(ask())
"a".join(("b", ask()))
"a".join((1, 2))
LONG.upper()
sorted((1, "a"))
int("x")
"a".split(sep=",")
dict(ask())
{1: 2}.get([ask()])
max(M, ask())
list({12, 9})
tuple({M, "a"})
next(iter({12, 9}))
"".join({"b", "a"})
list(zip({12, 9}, (1, 2)))
list(map(str, {12, 9}))
[x for x in {12, 9}]
[*{12, 9}]
dict({12: 9}).get(ask())
{"a": 1}.pop("a")
"""


def _rows(text: str) -> list[str]:
    return text.splitlines()


@pytest.fixture(scope="module")
def evaluated() -> dict[str, list[Any]]:
    """Each expression on each target."""
    rows = _rows(KNOWN) + _rows(OPEN)
    text = HEAD + OURS + "".join(f"V_{i} = {row}\n" for i, row in enumerate(rows))
    root, files, _problems = source_files(MemoryTree({**PRELUDE, "example/case.py": text}), PROFILE)
    program = build_program(files, root, PROFILE, {})
    module = program.module("example.case")
    values = [program.global_value(module, f"V_{i}") for i in range(len(rows))]
    assert all(value is not None for value in values)
    return {
        row: [value.at(i) for i in range(len(CAPABILITIES))]  # type: ignore[union-attr]
        for row, value in zip(rows, values, strict=True)
    }


def _worlds(capability: tuple[int, int]) -> list[dict[str, Any]]:
    """Names of the module as Python has them, for either answer of what nobody can know."""
    out = []
    for answer in (True, False, 0, 5):
        cuda = SimpleNamespace(
            get_device_capability=lambda: capability, get_device_properties=lambda _i: object()
        )
        names: dict[str, Any] = {
            "torch": SimpleNamespace(cuda=cuda),
            "ask": lambda answer=answer: answer,
            "Enum": enum.Enum,
            "IntEnum": enum.IntEnum,
            "gpu": SimpleNamespace(major=len),
            "__name__": "case",
        }
        exec(OURS, names)  # our own text above
        out.append(names)
    return out


def _python(scalar: Any) -> Any:
    """A scalar of the evaluator as Python has it."""
    if isinstance(scalar, Seq):
        kinds: dict[str, Any] = {"tuple": tuple, "list": list, "set": set, "frozenset": frozenset}
        return kinds[scalar.kind](map(_python, scalar.items))
    if isinstance(scalar, Map):
        assert not scalar.maybe
        return {key: _python(value) for key, value in scalar.items.items()}
    assert not isinstance(scalar, (Unknown, ClassRef, EnumMember)), scalar
    return scalar


@pytest.mark.parametrize("row", _rows(KNOWN))
def test_what_is_decided_is_what_python_gives(evaluated: dict[str, list[Any]], row: str) -> None:
    for scalar, capability in zip(evaluated[row], CAPABILITIES, strict=True):
        for names in _worlds(capability):
            want = eval(row, dict(names))
            if type(want).__name__ in ("dict_keys", "dict_values", "dict_items"):
                want = tuple(want)
            have = _python(scalar)
            assert have == want and (type(have) is type(want)), capability


@pytest.mark.parametrize("row", _rows(OPEN))
def test_what_is_open_says_why(evaluated: dict[str, list[Any]], row: str) -> None:
    for scalar in evaluated[row]:
        assert isinstance(scalar, Unknown), scalar
        assert scalar.reasons
