"""Call sites of operators: who reaches them, on which targets, and what keeps a target out."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from auditor.arch import load_targets
from auditor.gates.audit import AuditOptions, audit
from auditor.gates.cache import Record, Sources
from auditor.gates.reading import build_program, source_files
from auditor.gates.takeover import taken
from auditor.native.absent import native_digest
from auditor.native.model import Cell, Row, Site
from auditor.native.sites.findings import findings, merged, settled
from auditor.native.sites.run import derive, sites, wrappers_of
from auditor.native.sites.sites import Derived
from auditor.profile import Native, NativeBuild, Profile, Symbol
from auditor.program.watch import Watched
from auditor.queries.exampletree import PRELUDE, PROFILE, MemoryTree

TARGETS = ("sm_90", "sm_100", "sm_120", "sm_121")
PROFILE_ = msgspec.structs.replace(
    PROFILE,
    native_packages=("kern",),
    arguments=(Symbol(module="example.options", symbol="Options"),),
)
KERN = {
    "kern/python/kern/__init__.py": "from kern.ops import *\nfrom kern.ops import sparse, plain, either\n",
    "kern/python/kern/ops.py": """\
import torch


def sparse(q):
    return torch.ops.kern.sparse_fwd.default(q)


def plain(q):
    return torch.ops.kern.plain_fwd(q)


def _checked():
    return torch.cuda.get_device_capability()[0] == 9


def narrow(q):
    if not _checked():
        raise NotImplementedError("only 9.x")
    return torch.ops.kern.sparse_fwd(q)


def either(q, wide=False):
    if wide:
        return sparse(q)
    return plain(q)
""",
}
OPTIONS = """\
from dataclasses import dataclass
from example.gpu import workstation


@dataclass
class Options:
    backend: str = None

    def fit(self):
        if self.backend is None:
            self.backend = "usual"
        if not workstation():
            self.backend = "wide"
"""


def row(name: str, have: tuple[str, ...], outcome: str = "not-built") -> Row:
    cells = {t: Cell("runs") if t in have else Cell(outcome, "kern_ops: 90a 100a") for t in load_targets()}
    return Row(f"kern::{name}", "op", "kern/csrc/ops.cc", 1, cells)


ROWS = (row("sparse_fwd", ("sm_90", "sm_100", "sm_103")), row("plain_fwd", tuple(load_targets())))


def tree(**files: str) -> MemoryTree:
    own = {f"example/{name.replace('__', '/')}.py": text for name, text in files.items()}
    return MemoryTree({**PRELUDE, **KERN, "example/options.py": OPTIONS, **own})


def derived(**files: str) -> list[Derived]:
    here = tree(**files)
    root, found, _ = source_files(here, PROFILE_)
    program = build_program(Watched(found), root, PROFILE_, {})
    program.discover()
    return derive(here, program, PROFILE_, ROWS, TARGETS, {})


def unguarded(**files: str) -> dict[tuple[str, int], tuple[str, ...]]:
    return {
        (d.site.path.removeprefix("example/"), d.site.line): tuple(
            t for t in TARGETS if t in d.site.unguarded
        )
        for d in derived(**files)
    }


BLACKWELL = ("sm_120", "sm_121")


@pytest.mark.parametrize(
    "call, imports",
    [
        ("sparse(q)", "from kern import sparse"),
        ("sparse(q)", "from kern.ops import sparse"),
        ("s(q)", "from kern import sparse as s"),
        ("kern.sparse(q)", "import kern"),
        ("kern.ops.sparse(q)", "import kern.ops"),
        ("torch.ops.kern.sparse_fwd(q)", "import torch"),
        ("torch.ops.kern.sparse_fwd.default(q)", "import torch"),
        ('getattr(torch.ops.kern, "sparse_fwd")(q)', "import torch"),
        ("either(q)", "from kern import either"),
    ],
)
def test_an_operator_is_found_under_every_name(call: str, imports: str) -> None:
    text = f"{imports}\n\n\ndef go(q):\n    return {call}\n"
    assert unguarded(case=text) == {("case.py", 5): BLACKWELL}


def test_an_import_inside_the_function() -> None:
    text = "def go(q):\n    from kern.ops import sparse\n\n    return sparse(q)\n"
    assert unguarded(case=text) == {("case.py", 4): BLACKWELL}


def test_a_wrapper_that_refuses_is_not_unguarded() -> None:
    text = "from kern.ops import narrow\n\n\ndef go(q):\n    return narrow(q)\n"
    assert unguarded(case=text) == {("case.py", 5): ()}


@pytest.mark.parametrize(
    "body",
    [
        "    if not workstation():\n        return sparse(q)\n    return q\n",
        "    if workstation():\n        return q\n    return sparse(q)\n",
        "    if workstation():\n        raise ValueError\n    x = sparse(q)\n    return x\n",
        "    assert not workstation()\n    return sparse(q)\n",
        "    return q if workstation() else sparse(q)\n",
        "    if q:\n        assert not workstation()\n    if q and q > 1:\n        sparse(q)\n",
        "    ok = not workstation()\n    if ok and q:\n        return sparse(q)\n    return q\n",
        "    def inner():\n        return sparse(q)\n    return q if workstation() else inner()\n",
    ],
)
def test_a_guard_keeps_the_family_out(body: str) -> None:
    text = f"from example.gpu import workstation\nfrom kern import sparse\n\n\ndef go(q):\n{body}"
    found = unguarded(case=text)
    if "def inner" in body:  # an inner function is taken to be called wherever it is made
        assert found == {("case.py", 7): BLACKWELL}
    else:
        assert list(found.values()) == [()]


def test_a_guard_of_the_import_counts() -> None:
    text = (
        "from example.gpu import workstation\n\nif not workstation():\n    from kern import sparse\n\n\n"
        "def go(q):\n    return sparse(q)\n"
    )
    assert unguarded(case=text) == {("case.py", 8): ()}


def test_all_callers_are_guarded() -> None:
    inner = "from kern import sparse\n\n\ndef _go(q):\n    return sparse(q)\n\n\n"
    caller = (
        "from example.case import _go\nfrom example.gpu import workstation\n\n\n"
        "def run(q):\n    if workstation():\n        return q\n    return _go(q)\n"
    )
    assert unguarded(case=inner, user=caller) == {("case.py", 5): ()}
    other = "from example.case import _go\n\n\ndef run(q):\n    return _go(q)\n"
    assert unguarded(case=inner, user=caller, more=other) == {("case.py", 5): BLACKWELL}
    assert unguarded(case=inner) == {("case.py", 5): BLACKWELL}


CLASS = """\
from kern import sparse


class Wide:
    def forward(self, q):
        if q > 4096:
            return self._large(q)
        return q

    def _large(self, q):
        return sparse(q)
"""


def test_a_class_that_nobody_names_is_not_dropped() -> None:
    (one,) = derived(case=CLASS)
    assert tuple(t for t in TARGETS if t in one.site.unguarded) == BLACKWELL
    assert findings([one], ROWS, TARGETS)[0].severity == "note"
    assert "no caller of Wide in the tree" in findings([one], ROWS, TARGETS)[0].detail


def test_a_class_is_as_reachable_as_those_who_name_it() -> None:
    guarded = (
        "from example.gpu import workstation\nfrom example.case import Wide\n\n\n"
        "def make():\n    assert not workstation()\n    return Wide()\n"
    )
    assert unguarded(case=CLASS, user=guarded) == {("case.py", 11): ()}
    looking = "from example.case import Wide\n\n\ndef ask(x):\n    return isinstance(x, Wide)\n"
    assert unguarded(case=CLASS, user=guarded, more=looking) == {("case.py", 11): ()}
    alias = (
        "from example.gpu import workstation\n\n\ndef make():\n    if workstation():\n        return None\n"
        "    from example.case import Wide as Narrow\n\n    return Narrow()\n"
    )
    assert unguarded(case=CLASS, user=alias) == {("case.py", 11): ()}
    child = "from example.case import Wide\n\n\nclass Wider(Wide):\n    pass\n\n\nALL = [Wider]\n"
    assert unguarded(case=CLASS, user=guarded, more=child) == {("case.py", 11): BLACKWELL}


def test_a_constructor_that_refuses_keeps_its_methods_out() -> None:
    guard = "    def __init__(self):\n        if workstation():\n            raise ValueError\n\n    def "
    case = "from example.gpu import workstation\n" + CLASS.replace("    def ", guard, 1)
    user = "from example.case import Wide\n\n\nclass Wider(Wide):\n    pass\n\n\nALL = [Wide, Wider]\n"
    assert set(unguarded(case=CLASS, user=user).values()) == {BLACKWELL}
    assert set(unguarded(case=case, user=user).values()) == {()}
    calls = user.replace("    pass\n", "    def __init__(self):\n        super().__init__()\n")
    assert set(unguarded(case=case, user=calls).values()) == {()}
    passes_over = user.replace("    pass\n", "    def __init__(self):\n        self.other = 1\n")
    assert set(unguarded(case=case, user=passes_over).values()) == {BLACKWELL}


def test_the_place_is_where_the_guard_is_missing() -> None:
    (one,) = derived(case=CLASS, user="from example.case import Wide\n\nW = Wide()\n")
    assert (one.path, one.line, one.symbol) == ("example/case.py", 6, "Wide.forward")
    assert [c.text for c in one.conditions] == ["q > 4096"]
    assert one.callers == ("example/case.py:7",)
    (finding,) = findings([one], ROWS, ("sm_120", "sm_121"))
    assert (finding.line, finding.severity) == (6, "error")
    assert finding.verdict == {"sm_120": "unguarded", "sm_121": "unguarded"}
    assert finding.detail == ("sparse (case.py:11) ← kern.sparse_fwd ← kern_ops: 90a 100a", "when q > 4096")


def test_the_place_is_the_branch_however_its_test_is_laid_out() -> None:
    for test in ("(\n            q > 4096\n        )", "(q\n            > 4096)"):
        (one,) = derived(case=CLASS.replace("q > 4096", test))
        assert (one.line, [c.text for c in one.conditions]) == (6, ["q > 4096"])


REGISTRY = """\
TABLE = {}


def register(name):
    def take(make):
        TABLE[name] = make
        return make
    return take


@register("%s")
def make():
    from example.case import Wide

    return Wide()
"""


def test_a_backend_that_only_a_person_picks() -> None:
    (one,) = derived(case=CLASS, user=REGISTRY % "exotic")
    assert (one.settings, set(one.chosen) & set(TARGETS)) == (("exotic",), set(BLACKWELL))
    (finding,) = findings([one], ROWS, TARGETS)
    assert finding.severity == "warning" and finding.message.endswith("only where exotic is chosen")


def test_a_backend_that_the_project_picks() -> None:
    (one,) = derived(case=CLASS, user=REGISTRY % "usual")
    assert one.chosen == ()
    assert findings([one], ROWS, TARGETS)[0].severity == "error"


@pytest.mark.parametrize(
    "body, chosen",
    [
        ("        self.backend = usually()\n", ()),
        ("        if self.fast:\n            self.backend = usually()\n", BLACKWELL),
        ("        if self.fast:\n            return\n        self.backend = usually()\n", ()),
        ("        if not self.fast:\n            return\n        self.backend = usually()\n", BLACKWELL),
        ('        raise ValueError(f"try {usually()}")\n', BLACKWELL),
        ("        if self.backend == usually():\n            pass\n", BLACKWELL),
        ("        self.set(12 if workstation() else 9)\n", ()),
        ("        self.set(9 if workstation() else 12)\n", ()),
        ("        m = major()\n        self._set(m)\n", BLACKWELL),
    ],
)
def test_what_the_code_of_the_arguments_picks(body: str, chosen: tuple[str, ...]) -> None:
    options = (
        "from dataclasses import dataclass\nfrom example.gpu import major, workstation\n\n\n"
        'def usually():\n    return "exotic"\n\n\n'
        "@dataclass\nclass Options:\n    backend: str = None\n    fast: bool = False\n\n"
        f"    def fit(self):\n{body}\n"
        '    def set(self, number):\n        if number > 9:\n            self.backend = "exotic"\n'
    )
    private = '    def _set(self, number):\n        if number < 9:\n            self.backend = "exotic"\n'
    if "set(" not in body or "_set" in body:
        options = options.split("    def set(")[0]
    if "_set" in body:
        options = options.replace('return "exotic"', "return None") + private
    (one,) = derived(case=CLASS, user=REGISTRY % "exotic", options=options)
    assert tuple(t for t in TARGETS if t in one.chosen) == chosen


def test_a_backend_that_the_project_picks_on_other_targets() -> None:
    (one,) = derived(case=CLASS, user=REGISTRY % "wide")
    assert set(one.chosen) & set(TARGETS) == set(BLACKWELL)


@pytest.mark.parametrize(("key", "settings"), [("wide", ("wide",)), ("wide_forward", ())])
def test_the_key_of_a_table_is_a_choice_only_where_a_setting_has_that_value(
    key: str, settings: tuple[str, ...]
) -> None:
    for user in ("%s\n\nTABLE = {'%s': Wide}\n", "%s\n\ndef load():\n    return {'%s': Wide}\n"):
        (one,) = derived(case=CLASS, user=user % ("from example.case import Wide\n", key))
        assert one.settings == settings
        assert ("only where wide" in findings([one], ROWS, TARGETS)[0].message) is bool(settings)


def test_sites_of_an_operator_that_is_there() -> None:
    here = tree(case="from kern import plain\n\n\ndef go(q):\n    return plain(q)\n")
    root, found, _ = source_files(here, PROFILE_)
    program = build_program(Watched(found), root, PROFILE_, {})
    program.discover()
    (one,) = sites(here, program, ROWS, profile=PROFILE_)
    assert isinstance(one, Site)
    assert (one.op, one.line, one.symbol, one.call) == ("kern::plain_fwd", 5, "go", "plain")
    assert one.unguarded == () and set(one.reached.values()) == {"true"}
    assert wrappers_of(here, program, ROWS, profile=PROFILE_) == {
        "kern::plain_fwd": ("kern.ops.either", "kern.ops.plain"),
        "kern::sparse_fwd": ("kern.ops.either", "kern.ops.narrow", "kern.ops.sparse"),
    }


def test_a_query_and_what_is_derived_are_one_finding() -> None:
    (one,) = derived(case=CLASS, user="from example.case import Wide\n\nW = Wide()\n")
    (own,) = findings([one], ROWS, TARGETS)
    query = msgspec.structs.replace(
        own, query="a/b", message="words", detail=("d",), fix="f", verdict={**own.verdict, "sm_121": "same"}
    )
    (both,) = merged([query], [own])
    assert (both.query, both.message, both.fix) == ("a/b", "words", "f")
    assert both.detail == ("d", *own.detail)
    assert both.verdict["sm_121"] == "unguarded"
    wrong = msgspec.structs.replace(query, line=1, verdict={"sm_120": "unguarded", "sm_121": "blocked"})
    known = {("example/case.py", "sm_120")}
    assert settled([one], ROWS, TARGETS) == {("example/case.py", t) for t in BLACKWELL}
    assert merged([wrong], [own], known)[0].verdict == {"sm_120": "same", "sm_121": "blocked"}
    assert merged([msgspec.structs.replace(wrong, verdict={"sm_120": "unguarded"})], [], known) == []
    elsewhere = msgspec.structs.replace(query, line=1)
    assert merged([elsewhere], [own]) == [elsewhere, own]


def test_falls_through_is_said_differently() -> None:
    rows = (row("sparse_fwd", ("sm_90",), "falls-through"),)
    (one,) = derived(case=CLASS, user="from example.case import Wide\n\nW = Wide()\n")
    (finding,) = findings([one], rows, ("sm_120",))
    assert "does nothing for sm_120" in finding.message


def _taken(packed: dict[str, Any], tree: MemoryTree, profile: Profile) -> Any:
    return taken(packed, tree, profile, Sources("nothing"))


def test_a_kept_report_is_not_taken_over_when_native_source_changed() -> None:
    native = Native(builds=(NativeBuild(folder="kern", python="kern/python", package="kern"),))
    profile = msgspec.structs.replace(PROFILE_, native=native)
    case = {"example/case.py": CLASS, "kern/csrc/ops.cu": "// one", "docs/a.md": "a"}
    files = {**PRELUDE, **KERN, **case}
    before = MemoryTree(files)
    record = Record(before)
    audit(
        before, AuditOptions(targets=("sm_120",), profile=profile, queries=(), use_cache=False), None, record
    )
    packed = record.packed()
    assert packed["native"] == native_digest(before, profile) != ""
    assert _taken(packed, MemoryTree({**files, "docs/a.md": "b"}), profile) is not None
    assert _taken(packed, MemoryTree({**files, "kern/csrc/ops.cu": "// two"}), profile) is None
    gone = {path: text for path, text in files.items() if path != "kern/csrc/ops.cu"}
    assert _taken(packed, MemoryTree(gone), profile) is None
