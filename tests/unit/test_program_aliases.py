"""Values that change through another name, or by a call that is not always made: neither before nor after."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import program_fuzz  # noqa: E402
import program_oracle  # noqa: E402

CASES = {
    "one of two lists of different length, emptied by a function": """\
l6 = [number(), cap()[1]]
if cap() == 12:
    pass
else:
    l6 += [props().minor]
def g6():
    b = not l6
    l6.clear()
""",
    "a list that a loop goes over, appended to in the loop": """\
l2 = [major()]
for x11 in (l2, l2):
    x11.append(number())
if number() in l2:
    b = 1
""",
    "one of a tuple of lists, appended to in a loop of a function": """\
def g2():
    l2 = [major()]
    for name, x11 in (("a", l2), ("b", [minor()])):
        x11.append(number())
    return number() in l2
""",
    "a condition of a comprehension that only the first round of a loop leaves open": """\
for i6 in (9, 10, 12):
    l7 = [i for i in (9, 10, 12) if minor() in [props().major, i6]]
""",
    "appended through another name": """\
l2 = [minor()]
def g4():
    l5 = l2
    l5.append(major())
    return major() in l2
""",
    "handed to a function of another module": """\
l2 = [minor()]
def g4():
    l5 = l2
    push(l5, major())
    return major() in l2
""",
    "an item set through another name": """\
l2 = [minor()]
def g4():
    l5 = l2
    l5[0] = major()
    return major() in l2
""",
    "an item set": """\
l2 = [minor()]
def g4():
    l2[0] = major()
    return major() in l2
""",
    "set by another function": """\
l2 = [minor()]
def g3():
    l5 = l2
    l5[0] = major()
def g4():
    return major() in l2
""",
    "appended by another function": """\
l2 = [minor()]
def g3():
    l5 = l2
    l5.append(major())
def g4():
    return major() in l2
""",
    "of a function": """\
def g4():
    l2 = [minor()]
    l5 = l2
    l5[0] = major()
    return major() in l2
""",
    "of a function, through two names": """\
def g4():
    l2 = [minor(), 1]
    l5 = l2
    l6 = l5
    l6[0] = major()
    return major() in l2
""",
    "a table": """\
d2 = {1: minor()}
def g4():
    d5 = d2
    d5[major()] = 1
    return major() in d2
""",
    "a table, by another function": """\
d2 = {1: minor()}
def g3():
    d5 = d2
    d5[major()] = 1
def g4():
    return major() in d2
""",
    "handed to a function of the module": """\
l2 = [minor()]
def f(a):
    a[0] = major()
def g3():
    f(l2)
def g4():
    return major() in l2
""",
    "through the name of a loop": """\
l2 = [minor()]
def g4():
    for l in (l2, l2):
        l[0] = major()
    return major() in l2
""",
    "added to through another name": """\
l2 = [minor()]
def g4():
    l5 = l2
    l5 += [major()]
    return major() in l2
""",
    "a table, mentioned once": """\
d2 = {103: minor()}
def g3():
    d5 = d2
    d5 |= {9: major()}
def g4():
    i5 = d2[minor()]
""",
    "an item removed": """\
l2 = [major()]
def g4():
    l5 = l2
    del l5[0]
    return major() in l2
""",
    "perhaps another name": """\
l2 = [major()]
def g4(p):
    l5 = l2 if p else []
    l5[0] = 3
    return major() in l2
""",
    "a global set by a call that is not always made": """\
b7 = (12, 1) >= cap()
def g8():
    global b7
    b7 = major() < 2
def g13():
    if major() == 10:
        g8()
    if number() >= 1:
        b25 = b7
""",
    "the same where the caller declares it": """\
b7 = (12, 1) >= cap()
def g8():
    global b7
    b7 = major() < 2
def g13():
    global b7
    if major() == 10:
        g8()
    if number() >= 1:
        b25 = b7
""",
    "the same with constants": """\
b7 = True
def g8():
    global b7
    b7 = False
def g13():
    global b7
    if major() == 10:
        g8()
    if number() >= 1 and b7:
        b25 = b7
""",
    "a global that a function inside reads first": """\
b7 = major() < 20
def g13():
    global b7
    def f():
        b25 = b7 and major() < 30
    f()
    b7 = major() < 2
""",
    "a name of the function around": """\
def g13():
    b7 = major() < 20
    def h():
        nonlocal b7
        b7 = major() < 2
    if major() == 10:
        h()
    b25 = b7 and major() < 30
""",
    "an attribute that a function inside reads first": """\
class C1:
    def __init__(self): self.size = 2
    def go(self):
        def f():
            b = self.size > minor()
        f()
        self.size = number()
o = C1()
def g3():
    o.go()
""",
}


def files(text: str) -> dict[str, str]:
    return {
        "example/__init__.py": "",
        "example/gpu.py": program_fuzz.GPU,
        "example/case.py": f"from example.gpu import *\n{text}",
    }


@pytest.mark.parametrize("name", CASES)
def test_no_run_contradicts_the_audit(name: str) -> None:
    assert program_fuzz.faults(files(CASES[name])) == []


def test_what_nobody_changes_is_known() -> None:
    text = """\
LIST = [9, 10]
TABLE = {12: True}
_kept = None
def first():
    return len(LIST)
def fill():
    global _kept
    _kept = major() >= 10
def kept():
    if _kept is None:
        fill()
    return _kept
def pick():
    if major() in LIST and first():
        return 1
    if number() // 10 in TABLE:
        return 2
    if kept():
        return 3
"""
    report = program_oracle.report_of(files(text))
    told = {
        gate.predicate: program_oracle.letters(gate.truth) for gate in report.gates if gate.symbol == "pick"
    }
    assert "?" not in told["number() // 10 in TABLE"]
    assert "?" not in told["major() in LIST and first()"]
    assert "?" not in told["kept()"]


def test_what_is_put_into_something_else_that_changes_is_known() -> None:
    """Tables are collected, copied and handed on in lists; that the list grows does not change the tables."""
    text = """\
TABLE = {12: {"a": True}}
def collect(key):
    out = []
    const = TABLE.get(key)
    if const:
        out.append(("TABLE", dict(const)))
    out += [(key, const)]
    box = {"one": const}
    box["two"] = 2
    out.extend([const])
    return out
def use():
    every = collect(12)
    every.append(1)
    every[0] = 2
def pick():
    if "a" in TABLE[12] and major() >= 10:
        return 1
"""
    found = program_oracle.report_of(files(text)).gates
    (gate,) = [g for g in found if g.symbol == "pick"]
    assert program_oracle.letters(gate.truth) == "FFFFTTTTT"


@pytest.mark.parametrize(
    "change",
    [
        "every[0][1]['b'] = 1",
        "every[0][1].clear()",
        "for _name, table in every:\n        table.clear()",
        "name, table = every[0]\n    table.clear()",
        "first = next(iter(every))\n    first[1].update(b=1)",
        "every.pop()[1].clear()",
    ],
)
def test_what_is_read_out_of_what_it_was_put_into_and_changed_is_open(change: str) -> None:
    text = f"""\
TABLE = {{12: {{"a": True}}}}
def collect(key):
    out = []
    const = TABLE.get(key)
    out.append(("TABLE", const))
    return out
def use():
    every = collect(12)
    {change}
def pick():
    if "a" in TABLE[12] and major() >= 10:
        return 1
"""
    found = program_oracle.report_of(files(text)).gates
    (gate,) = [g for g in found if g.symbol == "pick"]
    assert program_oracle.letters(gate.truth) == "FFFF?????"


@pytest.mark.parametrize(
    "call, truth",
    [
        ("put(C.table, 9, major())", "?????????"),
        ("push(C.table[12], major())", "?????????"),
        ("in_majors(C.table[12])", "FFFTFFFFF"),
        ("need(len(C.table))", "FFFTFFFFF"),
    ],
)
def test_what_an_attribute_holds_is_followed_into_imported_functions(call: str, truth: str) -> None:
    text = f"""\
from example.gpu import in_majors, need, push, put
class C:
    table = {{12: [9]}}
def g1():
    {call}
def pick():
    if major() in C.table[12]:
        return 1
"""
    (gate,) = [g for g in program_oracle.report_of(files(text)).gates if g.symbol == "pick"]
    assert program_oracle.letters(gate.truth) == truth


@pytest.mark.parametrize("body", ["self.size = 2", "\n        self.size = 2"])
def test_a_gate_in_a_function_inside_a_method_has_its_line(body: str) -> None:
    text = f"""\
class C:
    def __init__(self): {body}
    def go(self):
        def f():
            b = self.size > minor()
        f()
        self.size = number()
o = C()
"""
    found = files(text)
    (gate,) = [g for g in program_oracle.report_of(found).gates if g.path == "example/case.py"]
    assert "b = self.size" in found["example/case.py"].split("\n")[gate.line - 1]
