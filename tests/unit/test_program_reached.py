"""Whether control comes to a point: never decided against what a run shows. What leads to those who ask."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import program_fuzz  # noqa: E402
import program_oracle  # noqa: E402

HEAD = """\
from contextlib import suppress
from functools import lru_cache, partial, wraps
from example.gpu import *
def flip(function):
    def wrapper(*args, **kwargs):
        return not function(*args, **kwargs)
    return wrapper
"""

CASES = {
    "an operation that fails in a constructor": """\
class C2:
    def __init__(self):
        self.size = [][-1]
def g5():
    try:
        C2()
    except IndexError:
        b30 = major() < 10
""",
    "a gate of a later round only": """\
b2 = cap() >= cap()
def g3():
    global b2
    for i in (9, 10, 12):
        if major() < 10:
            b13 = b2
        if need(9):
            return True
        b2 = blackwell()
""",
    "a later round that is not like the first": """\
def g3(p):
    b2 = major() > 9
    for i in (9, 10):
        b13 = b2
        b2 = p
""",
    "a check behind a decorator": """\
@flip
def g2(p3):
    assert need(10)
    return p3
def g13(p):
    b17 = g2(IS_NEW)
    return p or IS_NEW
""",
    "a function that never returns": """\
def g6(p7):
    try:
        assert (not need(10))
        raise Explicit('x')
    finally:
        l14 = [i for i in (9, 10, 12) if p7]
def g27(p28):
    b32 = g6(p28)
    return IS_NEW
""",
    "a key that is missing in a called function": """\
def g3(p):
    def f5():
        i6 = {103: 1, 9: major()}[props().minor]
        return minor() in {120: 8}
    try:
        b = f5()
    except KeyError:
        b9 = any(major() == i for i in [cap()[1]])
""",
    "a key that is missing in another function": """\
def f5():
    i6 = {103: 1, 9: major()}[props().minor]
    return True
def g3(p):
    try:
        b = f5()
    except KeyError:
        b9 = any(major() == i for i in [cap()[1]])
""",
    "a method that raises on some": """\
class C1:
    def __init__(self, on):
        self.on = on
        if cap is None:
            self.on = cap()[1]
    def ready(self, value):
        if value:
            return need(10)
        return self.on
o2 = C1(IS_NEW)
if getattr(o2, 'on', False):
    d3 = {3: 2, 12: number()}
else:
    o2.size = 1
def g6(p7):
    if o2.ready(p7):
        o11 = 1
    return major() >= major()
""",
    "division by zero": """\
def g1(p):
    try:
        i = major() // 0
    except Exception:
        b = major() > 9
""",
    "an order that there is none of": """\
def g1(p):
    try:
        i = p < 3
    except Exception:
        b = major() > 9
""",
}

#: What is changed through an attribute, a container or a function that gives it.
HELD = {
    "through an attribute": """\
class Box:
    def __init__(self, n): self.items = [n]
    def grow(self, v):
        x = self.items
        x.append(v)
    def has(self): return major() in self.items
o = Box(minor())
def g2():
    o.grow(major())
    return o.has()
""",
    "an attribute handed on": """\
class Box:
    def __init__(self, n): self.table = {n: 1}
    def fill(self): put(self.table, major(), 2)
    def has(self): return major() in self.table
o = Box(minor())
def g2():
    o.fill()
    return o.has()
""",
    "of the class": """\
class Box:
    shared = [9]
    def share(self):
        y = self.shared
        y.append(major())
    def has(self): return major() in self.shared
o = Box()
def g2():
    o.share()
    return o.has()
""",
    "by a method that is called in between": """\
class Box:
    def __init__(self, n): self.items = [n]
    def grow(self, v): self.items.append(v)
    def both(self):
        self.items = [minor()]
        self.grow(major())
        return major() in self.items
def g2():
    return Box(1).both()
""",
    "an attribute bound to a list of the module": """\
L = [minor()]
class Box:
    def __init__(self): self.items = L
    def grow(self, v): self.items.append(v)
def g2():
    Box().grow(major())
    return major() in L
""",
    "in a table": """\
NEST = {9: [minor()]}
def g1():
    z = NEST[9]
    z.append(major())
def g2():
    g1()
    return major() in NEST[9]
""",
    "another name of the module": """\
L = [minor()]
M = L
def g1(): M.append(major())
def g2():
    g1()
    return major() in L
""",
    "a default": """\
N = [minor()]
def d(a=N): a.append(major())
def g2():
    d()
    return major() in N
""",
    "what a function returns": """\
P = [minor()]
def get(): return P
def g1(): get().append(major())
def g2():
    g1()
    return major() in P
""",
    "names of a loop": """\
Q = [minor()]
def g1():
    for q in (Q, []):
        q += [major()]
def g2():
    g1()
    return major() in Q
""",
    "a function inside, called through a table": """\
def g3():
    l = [minor()]
    def f(): l.append(major())
    h = {1: f}
    h[1]()
    return major() in l
""",
    "a default of a function inside": """\
def g3():
    t = [minor()]
    def k(a=t): a.append(major())
    k()
    return major() in t
""",
    "a lambda": """\
def g3():
    t = [minor()]
    (lambda a=t: a.append(major()))()
    f = lambda: t
    f().append(major())
    return major() in t
""",
    "at the top, by a function that is called there": """\
l3 = [minor()]
def f(): l3.append(major())
if IS_NEW or major() > 0:
    f()
    b = major() in l3
""",
    "at the top, by what a function gives": """\
l3 = [minor()]
if major() > 0:
    x5 = lambda: l3
    x5().append(major())
    b = major() in l3
def g7():
    del l3[0]
""",
    "in a list": """\
def g3():
    w = [minor()]
    j = [w]
    j[0].append(major())
    return major() in w
""",
}


HELD_BY_RETURN = """\
class C:
    def __init__(self, p):
        self.on = True
        self.late = False
        if major() < 10:
            return
        self.on = False
        if p:
            self.late = True
            return
class D(C):
    def __init__(self, p):
        self.flag = p and major() > 9
        if self.flag:
            return
        self.x = 1
    def go(self):
        if self.flag:
            b = 1
o = C(IS_NEW)
q = C(flag("FLAG_A"))
def g1():
    b1 = o.on and major() > 0
    b2 = o.late and major() > 0
    b3 = q.late and major() > 0
"""


def test_what_a_constructor_leaves_that_returns_early() -> None:
    gates = told(files(HELD_BY_RETURN))
    assert gates["o.on and major() > 0"] == "TTTTFFFFF"
    assert gates["o.late and major() > 0"] == "FFFFTTTTT"
    assert gates["q.late and major() > 0"] == gates["self.flag"] == "FFFF?????"


def files(text: str) -> dict[str, str]:
    return {
        "example/__init__.py": "",
        "example/gpu.py": program_fuzz.GPU,
        "example/case.py": HEAD + text,
    }


@pytest.mark.parametrize("name", [*CASES, *HELD])
def test_no_run_contradicts_the_audit(name: str) -> None:
    found = files({**CASES, **HELD}[name])
    report = program_oracle.report_of(found)
    probe = program_oracle.run(found, report, [("example.case", program_fuzz.drive)])
    assert program_oracle.contradictions(report, probe) == []
    if name in HELD:  # it does change, and somebody asks
        asked = [g for g in report.gates if g.path.endswith("case.py") and " in " in g.predicate]
        assert asked and any(probe.of(program_oracle.gate_key(g), "sm_90").values == {True} for g in asked)


def told(found: dict[str, str], path: str = "example/case.py") -> dict[str, str]:
    report = program_oracle.report_of(found)
    return {g.predicate: program_oracle.letters(g.truth) for g in report.gates if g.path == path}


def test_containers_that_nobody_changes_are_known() -> None:
    text = """\
NEW = [10, 12]
TABLE = {12: (1, [2])}
class Box:
    kinds = [10, 12]
    def __init__(self):
        self.fixed = [9, 10]
        self.held = NEW
    def read(self):
        for i in self.fixed:
            i += 1
        return len(self.fixed) and sorted(self.held)
    def has(self):
        if major() in self.fixed:
            return major() in self.kinds
        return major() in self.held
def pick():
    x = TABLE.get(major())
    return major() in TABLE
"""
    gates = told(files(text))
    assert gates["major() in self.fixed"] == "FFFTTTFFF"
    assert gates["major() in self.kinds"] == gates["major() in self.held"] == "FFFFTTFTT"
    assert gates["major() in TABLE"] == "FFFFFFFTT"


def test_an_attribute_that_only_one_arm_takes_from_the_gpu_is_followed() -> None:
    text = """\
class Backend:
    def __init__(self, batch):
        self.fast = False
    def decide(self, batch):
        if batch is None:
            self.fast = False
        elif batch.long:
            self.fast = major() == 9 and batch.size < 9
        else:
            self.fast = False
class Layer(Backend):
    def run(self):
        if self.fast:
            return 1
"""
    assert told(files(text))["self.fast"] == "FFF?FFFFF"


def test_names_that_a_package_hands_on_lazily_are_followed() -> None:
    found = files("")
    found["example/ops/__init__.py"] = """\
_EXPORTS = {"can_use": "example.ops.impl"}
def __getattr__(name):
    module = _EXPORTS.get(name)
    if module is None:
        raise AttributeError(name)
    from importlib import import_module
    return getattr(import_module(module), name)
"""
    found["example/ops/impl.py"] = """\
from example.gpu import major
def can_use(x, y):
    return major() >= 10 and x.shape == y
"""
    found["example/model.py"] = """\
from example.ops import can_use
def run(x, y):
    if x is None or not can_use(x, y):
        return None
"""
    assert told(found, "example/model.py") == {"x is None or not can_use(x, y)": "TTTT?????"}


def test_a_list_of_what_every_device_says_leads_on() -> None:
    found = files("")
    found["example/shared.py"] = """\
import torch
def sizes():
    try:
        return [torch.cuda.get_device_properties(i).major for i in range(torch.cuda.device_count())]
    except BaseException:
        return [-1]
def enough(at=0):
    try:
        return sizes()[at] >= 10
    except Exception:
        return False
BLOCK = 64 if enough() else 32
"""
    assert told(found, "example/shared.py")["enough()"] == "?????????"
