"""Registries of kernels: what the records require, and which implementation is picked."""

from __future__ import annotations

import re

import msgspec
import pytest

from auditor.arch import load_targets
from auditor.native.model import Cell, Row
from auditor.native.registry.rows import registry_rows
from auditor.profile import KernelRegistry, load_profile

TARGETS = ("sm_90", "sm_100", "sm_120", "sm_121")

RECORDS = """
from dataclasses import dataclass
from enum import Enum
import torch

class Maker(str, Enum):
    PLAIN = "plain"
    TILE = "tile"
    BUILT = "built"

@dataclass(frozen=True)
class Box:
    brand: str = "none"
    cap: tuple = None

    @classmethod
    def look(cls):
        try:
            gone = getattr(torch, "npu", None)
            if gone is not None and gone.is_available():
                return cls(brand="npu")
            if torch.cuda.is_available():
                return cls(brand="green", cap=torch.cuda.get_device_capability())
        except Exception:
            pass
        return cls()

@dataclass(frozen=True)
class Need:
    brand: str
    least: tuple = None
    most: tuple = None

    @classmethod
    def green(cls, least=None, most=None):
        return cls(brand="green", least=least, most=most)

    def met(self, box):
        if self.brand != box.brand:
            return False
        if box.cap is not None:
            if self.least is not None and box.cap < self.least:
                return False
            if self.most is not None and box.cap > self.most:
                return False
        return True

Need.ANY = Need(brand="green")

def all_met(needs, box):
    if isinstance(needs, Need):
        needs = (needs,)
    return (not needs) or any(n.met(box) for n in needs)

@dataclass(frozen=True)
class Entry:
    job: str
    maker: Maker
    code: str
    needs: frozenset = frozenset()

    def usable(self, box):
        return all_met(self.needs, box)
"""

SHELF = """
from app.records import Entry

class Shelf:
    def __init__(self):
        self._held = {}

    def put(self, entry):
        self._held.setdefault(entry.job, []).append(entry)

    def take(self, job):
        return list(self._held.get(job, ()))

shelf = Shelf()

def enrol(entry):
    return shelf.put(entry)
"""

CHOICE = """
from functools import lru_cache
from app.records import Box
from app.shelf import shelf

@lru_cache(maxsize=1)
def here():
    return Box.look()

def choose(job, maker=None):
    entries = shelf.take(job)
    if not entries:
        raise KeyError(job)
    if maker is not None:
        for e in entries:
            if e.maker == maker:
                return e
        raise KeyError(maker)
    if len(entries) == 1:
        return entries[0]
    box = here()
    fit = [e for e in entries if e.usable(box)]
    if len(fit) == 1:
        return fit[0]
    raise ValueError(job)
"""

WORKS = """
import torch.nn as nn
from app.records import Entry, Maker, Box, all_met
from app.shelf import enrol

PARTS = {Maker.PLAIN: "do_plain", Maker.TILE: "do_tile", Maker.BUILT: "do_built"}

class Work(nn.Module):
    job = ""
    order = (Maker.BUILT, Maker.TILE, Maker.PLAIN)
    needs = {}

    def __init__(self):
        super().__init__()
        self.kept = None

    def own(self, name):
        for klass in type(self).__mro__:
            if klass is Work:
                return None
            if name in klass.__dict__:
                return getattr(self, name)
        return None

    def do_plain(self): raise NotImplementedError
    def do_tile(self): raise NotImplementedError
    def do_built(self): raise NotImplementedError

    def makers(self):
        return [m for m in Maker if self.own(PARTS[m]) is not None]

    def candidates(self):
        out = []
        for m in self.order:
            if m is Maker.PLAIN:
                continue
            if m in self.needs and self.own(PARTS[m]) is not None:
                out.append(m)
        return tuple(out)

    def resolve(self):
        box = Box.look()
        for m in self.candidates():
            if all_met(self.needs.get(m, frozenset()), box):
                return getattr(self, PARTS[m])
        return self.do_plain

def enrol_work(work, module, attr):
    for m in work.makers():
        enrol(Entry(job=work.job, maker=m, code=f"{module}:{attr}.{PARTS[m]}",
                    needs=frozenset(work.needs.get(m, ()))))
    return work
"""

OPS = """
from app.records import Entry, Maker, Need
from app.shelf import enrol
from app.works import Work, enrol_work

_NEW = frozenset({Need.green(least=(10, 0), most=(10, 9))})
_DESK = frozenset({Need.green(least=(12, 0), most=(12, 0))})

enrol(Entry(job="a.one", maker=Maker.TILE, code="app.ops:one", needs=_NEW))
enrol(Entry(job="a.two", maker=Maker.BUILT, code="native:two", needs=_NEW | _DESK))
enrol(Entry(job="a.two", maker=Maker.TILE, code="app.ops:two", needs=frozenset({Need.green(most=(9, 9))})))
enrol(Entry(job="a.both", maker=Maker.BUILT, code="native:both", needs=frozenset({Need.ANY})))
enrol(Entry(job="a.both", maker=Maker.TILE, code="app.ops:both"))
for _name in ("x", "y"):
    enrol(Entry(job=f"t.{_name}", maker=Maker.TILE, code=f"app.tiles:{_name}"))

class Sum(Work):
    job = "w.sum"
    needs = {Maker.BUILT: _NEW, Maker.TILE: {Need.ANY}}

    def do_plain(self): return 0
    def do_tile(self): return 1
    def do_built(self): return 2

_SUM = enrol_work(Sum(), __name__, "_SUM")
"""


def project(**change: str):
    files = {
        "app/__init__.py": "",
        "app/records.py": RECORDS,
        "app/shelf.py": SHELF,
        "app/choice.py": CHOICE,
        "app/works.py": WORKS,
        "app/ops.py": OPS,
        **change,
    }
    registry = KernelRegistry(
        register="app.shelf.enrol",
        lookup="app.shelf.Shelf.take",
        key="job",
        backend="maker",
        target="code",
        requires="needs",
        available="usable",
        platform="app.records.Box.look",
        select="app.choice.choose",
        dispatch="resolve",
    )
    profile = msgspec.structs.replace(load_profile("sglang"), package="app", kernel_registries=(registry,))
    return {k: v.encode() for k, v in files.items()}, profile


def rows(known=(), **change: str):
    files, profile = project(**change)
    found, problems = registry_rows(files, "", profile, TARGETS, {}, known)
    return {row.name: row for row in found}, problems


def outcomes(row: Row) -> list[str]:
    return [row.cells[t].outcome for t in TARGETS]


def test_every_registration_has_a_row_and_nothing_is_left_over() -> None:
    found, problems = rows()
    assert sorted(found) == [
        "a.both[built]",
        "a.both[tile]",
        "a.one[tile]",
        "a.two[built]",
        "a.two[tile]",
        "t.x[tile]",
        "t.y[tile]",
        "w.sum[built]",
        "w.sum[plain]",
        "w.sum[tile]",
    ]
    assert problems == ()
    assert found["t.y[tile]"].function == "app.tiles:y"
    assert (found["a.one[tile]"].path, found["a.one[tile]"].line) == ("app/ops.py", 9)


def test_the_only_implementation_is_picked_although_it_is_declared_for_others() -> None:
    found, _ = rows()
    row = found["a.one[tile]"]
    assert outcomes(row) == ["unknown", "runs", "unknown", "unknown"]
    assert row.cells["sm_120"].reason == (
        "not declared for it, yet picked unchecked, as the only one: "
        "requires brand green, least 10.0, most 10.9"
    )


def test_the_selector_filters_per_target_and_raises_where_none_fits() -> None:
    found, _ = rows()
    built, tile = found["a.two[built]"], found["a.two[tile]"]
    assert outcomes(built) == ["raises", "runs", "runs", "raises"]
    assert outcomes(tile) == ["runs", "raises", "raises", "raises"]
    assert built.cells["sm_120"].reason.endswith("; picked")
    assert built.cells["sm_90"].reason.endswith("; tile is picked")
    assert tile.cells["sm_121"].reason.endswith("picking one without naming it raises ValueError")
    assert tile.cells["sm_121"].proof[-1].path == "app/choice.py"
    assert tile.cells["sm_121"].proof[-1].line == 25


def test_several_that_fit_need_a_name() -> None:
    found, _ = rows()
    row = found["a.both[tile]"]
    assert outcomes(row) == ["unknown"] * 4
    assert row.cells["sm_90"].reason.startswith(
        "requires no device in particular, which says nothing of the architecture; "
    )
    assert "picking one without naming it raises ValueError" in row.cells["sm_90"].reason


def test_several_that_fit_on_one_target_only() -> None:
    more = """
enrol(Entry(job="a.half", maker=Maker.BUILT, code="native:half", needs=_NEW))
enrol(Entry(job="a.half", maker=Maker.TILE, code="app.ops:half", needs=frozenset({Need.ANY})))
enrol(Entry(job="a.half", maker=Maker.PLAIN, code="app.ops:slow", needs=frozenset({Need(brand="red")})))
"""
    found, _ = rows(**{"app/ops.py": OPS + more})
    words = {t: found["a.half[tile]"].cells[t].reason.rpartition("; ")[2] for t in TARGETS}
    refused = "picking one without naming it raises ValueError"
    assert words == {"sm_90": "picked", "sm_100": refused, "sm_120": "picked", "sm_121": "picked"}
    assert found["a.half[built]"].cells["sm_90"].reason.endswith("; tile is picked")
    assert outcomes(found["a.half[plain]"]) == ["raises"] * 4


def test_an_object_that_dispatches_itself_is_asked() -> None:
    found, _ = rows()
    assert outcomes(found["w.sum[built]"]) == ["raises", "runs", "raises", "raises"]
    assert found["w.sum[built]"].cells["sm_100"].reason.endswith("; picked")
    assert found["w.sum[tile]"].cells["sm_120"].reason.endswith("; picked")
    assert found["w.sum[plain]"].cells["sm_120"].reason.endswith("; tile is picked")


def test_an_operator_that_is_not_there_is_not_there_through_the_registry() -> None:
    cells = {t: Cell("runs") for t in TARGETS} | {"sm_120": Cell("not-built", "lib: 90a 100a")}
    known = Row(name="native::two", kind="op", path="x.cc", line=1, cells=cells, wrappers=("native.two",))
    found, _ = rows(known=(known,))
    cell = found["a.two[built]"].cells["sm_120"]
    assert cell.outcome == "not-built"
    assert "native::two: lib: 90a 100a" in cell.reason
    assert found["a.two[built]"].cells["sm_100"].outcome == "runs"
    assert "native::two runs" in found["a.two[built]"].cells["sm_100"].reason


def test_the_operator_may_be_another_one_on_another_target() -> None:
    cells = {t: Cell("not-built", "lib: 90a") for t in TARGETS}
    known = Row(name="native::fast", kind="op", path="x.cc", line=1, cells=cells)
    files, profile = project()
    targets = list(load_targets())

    def behind(function: str, i: int) -> str | None:
        return "native::fast" if function == "native.two" and targets[i] == "sm_120" else None

    found = {r.name: r for r in registry_rows(files, "", profile, TARGETS, {}, (known,), behind)[0]}
    assert outcomes(found["a.two[built]"]) == ["raises", "runs", "not-built", "raises"]
    assert "native::fast: lib: 90a" in found["a.two[built]"].cells["sm_120"].reason


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ('job="a.one"', "job=torch.made_up()", "job"),
        ('maker=Maker.TILE, code="app.ops:one"', 'maker=torch.made_up(), code="app.ops:one"', "maker"),
    ],
)
def test_what_is_not_understood_is_a_problem(old: str, new: str, field: str) -> None:
    assert old in OPS
    found, problems = rows(**{"app/ops.py": "import torch\n" + OPS.replace(old, new)})
    assert "a.one[tile]" not in found
    assert [(p.path, p.line, p.message) for p in problems] == [
        ("app/ops.py", 10, f"a kernel is registered here whose {field} is not known")
    ]
    assert found["a.two[tile]"].cells["sm_90"].outcome == "runs"


def test_a_requirement_that_is_open_is_unknown_with_its_reason() -> None:
    change = OPS.replace("needs=_NEW))", "needs=frozenset({Need.green(least=torch.made_up())})))", 1)
    assert change != OPS
    found, _ = rows(**{"app/ops.py": "import torch\n" + change})
    cell = found["a.one[tile]"].cells["sm_120"]
    assert cell.outcome == "unknown"
    assert "torch.made_up" in cell.reason


def test_a_tree_without_the_registry_has_no_rows() -> None:
    files, profile = project()
    del files["app/shelf.py"]
    assert registry_rows(files, "", profile, TARGETS) == ((), ())


def test_renamed_predicates_change_nothing() -> None:
    swaps = [("usable", "fits"), ("met", "passes"), ("look", "seek"), ("least", "lower")]
    files, profile = project()
    before = {r.name: outcomes(r) for r in registry_rows(files, "", profile, TARGETS)[0]}
    text = {k: v.decode() for k, v in files.items()}
    for old, new in swaps:
        text = {k: re.sub(rf"\b{old}\b", new, v) for k, v in text.items()}
    registry = msgspec.structs.replace(
        profile.kernel_registries[0], available="fits", platform="app.records.Box.seek"
    )
    profile = msgspec.structs.replace(profile, kernel_registries=(registry,))
    after = registry_rows({k: v.encode() for k, v in text.items()}, "", profile, TARGETS)[0]
    assert {r.name: outcomes(r) for r in after} == before
