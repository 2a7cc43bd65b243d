"""What `audit diff` says about two small trees, change by change."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import msgspec
import pytest

from auditor.errors import UserError
from auditor.gates.audit import AuditOptions, audit
from auditor.gates.model import Finding, Report
from auditor.history.causes import folded
from auditor.history.defaults import default_of
from auditor.history.diff import compare, flag_changes, kernel_changes
from auditor.history.findings import finding_changes
from auditor.history.flags import Flag, with_first_readers
from auditor.history.guard import tripping
from auditor.history.model import Change, Diff
from auditor.history.still import with_what_stands
from auditor.history.words import names_it
from auditor.native.model import Availability, Cell, Row
from auditor.queries.exampletree import PROFILE, MemoryTree
from auditor.reporting.diffjson import diff_schema, dumps

TARGETS = ("sm_120", "sm_121")
HEAD = "import torch\n\n\ndef cap():\n    return torch.cuda.get_device_capability()\n\n\n"


def report(*targets: str, **files: str) -> Report:
    names = {f"example/{name}.py": HEAD + text for name, text in files.items()}
    options = AuditOptions(targets or TARGETS, project="example", profile=PROFILE, queries=())
    return audit(MemoryTree({"example/__init__.py": "", **names}), options)


def changes(old: Report, new: Report) -> list[Change]:
    return list(compare(old, new).changes)


GATE = "def run():\n    if cap() >= (12, 0):\n        return 1\n    return 2\n"


def test_the_same_tree_has_no_changes() -> None:
    found = compare(report(a=GATE), report(a=GATE))
    assert found.changes == () and found.stats["same"] == found.stats["gates"] > 0


def test_lines_that_moved_within_a_file_are_no_change() -> None:
    assert changes(report(a=GATE), report(a="X = 1\n\n\n" + GATE)) == []


def test_an_outcome_that_changed_for_one_target_names_it() -> None:
    (one,) = changes(report(a=GATE), report(a=GATE.replace("(12, 0)", "(12, 1)")))
    assert (one.kind, one.before, one.after) == ("outcome", {"sm_120": "yes"}, {"sm_120": "no"})
    assert one.old_what == "cap() >= (12, 0)" and one.what == "cap() >= (12, 1)"


def test_a_condition_spelled_otherwise_that_means_the_same_on_all_targets() -> None:
    (one,) = changes(report(a=GATE), report(a=GATE.replace(">= (12, 0)", "> (11, 9)")))
    assert (one.kind, one.before) == ("respelled", {})


def test_a_condition_that_differs_on_other_targets_only_is_another_condition() -> None:
    (one,) = changes(report(a=GATE), report(a=GATE.replace("(12, 0)", "(10, 0)")))
    assert (one.kind, one.before) == ("predicate", {})


def test_a_gate_that_went_to_another_file_has_moved() -> None:
    (one,) = changes(report(a=GATE), report(b=GATE))
    assert (one.kind, one.path, one.old_path) == ("moved", "example/b.py", "example/a.py")


def test_gates_that_came_and_went_say_what_they_are() -> None:
    old, new = report(a=GATE), report(a=GATE + "\n\ndef other():\n    assert cap()[0] == 9\n")
    (come,) = changes(old, new)
    (gone,) = changes(new, old)
    assert (come.kind, come.after) == ("added", {"sm_120": "no", "sm_121": "no"})
    assert (gone.kind, gone.before, gone.gate) == ("removed", {"sm_120": "no", "sm_121": "no"}, come.gate)


def test_two_gates_of_one_function_are_not_confused() -> None:
    text = "def run():\n    if cap() >= (9, 0):\n        a = 1\n    if cap() >= (12, 0):\n        a = 2\n"
    found = changes(report(a=text), report(a=text.replace("(9, 0)", "(12, 1)")))
    assert [(one.kind, one.line, one.before) for one in found] == [("outcome", 9, {"sm_120": "yes"})]


def test_what_was_asked_must_be_the_same() -> None:
    with pytest.raises(UserError) as told:
        compare(report(a=GATE), report("sm_120", a=GATE))
    assert told.value.code == "H001" and "targets" in told.value.fact


def kernels(**cells: str) -> Availability:
    rows = tuple(
        Row(f"ns::{name}", "op", "ops.cc", 3, {"sm_120": Cell(outcome, f"because of {outcome}")})
        for name, outcome in cells.items()
    )
    return Availability("1.0", "t", "p", None, ("sm_120",), {}, (), rows, (), (), (), {})


def test_kernels_gained_lost_and_gone() -> None:
    before = kernels(a="runs", b="not-built", c="runs", d="unknown")
    after = kernels(a="not-built", b="runs", d="unknown", e="runs")
    found = kernel_changes(before, after, ("sm_120",))
    ways = [(one.what, one.before["sm_120"], one.after["sm_120"]) for one in found]
    assert ways == [
        ("ns::a", "runs", "not-built"),
        ("ns::b", "not-built", "runs"),
        ("ns::c", "runs", "absent"),
        ("ns::e", "absent", "runs"),
    ]
    assert found[0].why == "because of not-built" and found[2].why == "no longer registered"


def test_a_kernel_whose_file_went_to_another_folder_has_moved() -> None:
    def at(path: str) -> Availability:
        row = Row("triton::scan._scan_kernel", "triton", path, 3, {"sm_120": Cell("unknown")})
        return Availability("1.0", "t", "p", None, ("sm_120",), {}, (), (row,), (), (), (), {})

    assert kernel_changes(at("a/scan.py"), at("a/scan.py"), ("sm_120",)) == []
    (one,) = kernel_changes(at("a/triton_ops/scan.py"), at("b/scan.py"), ("sm_120",))
    assert (one.kind, one.path, one.old_path, one.old_what) == (
        "moved",
        "b/scan.py",
        "a/triton_ops/scan.py",
        "",
    )


STANDS = "def run(x):\n    if x in ('a', 'b'):\n        return 1\n    return 2\n"


def test_a_condition_that_stands_in_both_trees_says_so() -> None:
    def tree(text: str) -> MemoryTree:
        return MemoryTree({"a.py": text})

    gone = Change("removed", "x in ('a', 'b')", "a.py", 2, symbol="run")
    come = Change("added", "x in ('a', 'b')", "a.py", 2, symbol="run")
    (one, other) = with_what_stands((gone, come), tree(STANDS), tree("\n" + STANDS))
    assert one.why == "the condition is still there, line 3, and depends on the GPU no more"
    assert other.why == "the condition was there before, line 2, and did not depend on the GPU"
    changed = STANDS.replace("run", "walk")
    for text in (changed, STANDS.replace("'b'", "'c'"), "def run(:\n", ""):
        assert with_what_stands((gone, come), tree(text), tree(text)) == (gone, come)
    assert with_what_stands((gone, come), None, None) == (gone, come)
    missing = msgspec.structs.replace(gone, path="b.py")
    assert with_what_stands((missing,), tree(STANDS), tree(STANDS)) == (missing,)


def flag(name: str, declared: str = "Bool(False)") -> Flag:
    return Flag(name, declared, "env.py", 1)


def test_flags_declared_dropped_renamed_and_changed() -> None:
    old = {name: flag(name) for name in ("USE_FAST_PATH", "GONE", "KEPT")}
    new = {"USE_FASTER_PATH": flag("USE_FASTER_PATH"), "KEPT": flag("KEPT", "Bool(True)")}
    new["NEW"] = flag("NEW", "Int(3)")
    found = {one.what: (one.why, one.old_what) for one in flag_changes(old, new)}
    assert found == {
        "USE_FASTER_PATH": ("renamed", "USE_FAST_PATH"),
        "GONE": ("dropped", ""),
        "NEW": ("declared", ""),
        "KEPT": ("declared as Bool(True), was Bool(False)", ""),
    }


def test_a_flag_that_was_read_before_it_was_declared_says_where() -> None:
    new = Change("flag", "NEW", "env.py", 1, why="declared")
    read = Change("flag", "READ", "env.py", 2, why="declared")
    gone = Change("flag", "READ_TOO", "env.py", 2, why="dropped")
    old = MemoryTree({"a.py": "import os\nX = os.environ['READ']\nY = 'NEWER'\n", "b.txt": "NEW"})
    found = with_first_readers((new, read, gone), old)
    why = "registered now; was read before, undeclared, at a.py:2"
    assert found == (new, msgspec.structs.replace(read, why=why), gone)
    assert with_first_readers((new, read), None) == (new, read)


@pytest.mark.parametrize(
    "declared, value",
    [
        ("Bool(False)", "False"),
        ("Int(default=3)", "3"),
        ("Text('a', 'why')", "'a'"),
        ("Bool()", None),
        ("Bool(other())", None),
        ("True", "True"),
        ("Bool(", None),
    ],
)
def test_the_default_of_a_declared_flag(declared: str, value: str | None) -> None:
    assert default_of(declared) == value


def flipped(
    verdict: str, *, before: str = "Bool(False)", after: str = "Bool(True)", says: str
) -> list[Change]:
    finding = Finding("q", "g1", "a.py", 9, "run", {"sm_120": verdict, "sm_121": "same"}, "error", says)
    told = msgspec.structs.replace(report(a=GATE), findings=(finding,))
    old, new = {"BIG": flag("BIG", before)}, {"BIG": flag("BIG", after)}
    return list(compare(told, told, flags=(old, new)).changes)


def test_a_flag_that_is_on_by_default_now_trips_where_trouble_of_a_target_hangs_on_it() -> None:
    (one,) = found = flipped("unguarded", says="takes BIG at any size")
    assert (one.kind, one.before, one.after) == ("default", {"sm_120": "False"}, {"sm_120": "True"})
    assert one.path == "env.py" and one.symbol == "BIG" and one.gate == "g1"
    assert one.what == (
        "BIG is True by default, was False; a.py:9 is unguarded, and it hangs on this: takes BIG at any size"
    )
    diff = compare(report(a=GATE), report(a=GATE))
    assert len(tripping(msgspec.structs.replace(diff, changes=tuple(found)))) == 1
    assert names_it(one, "    BIG = Bool(True)") and not names_it(one, "    BIGGER = Bool(True)")


@pytest.mark.parametrize(
    "given",
    [
        {"verdict": "unguarded", "says": "takes BIGGER at any size"},
        {"verdict": "fallback", "says": "takes BIG at any size"},
        {"verdict": "env-forced", "says": "BIG becomes True"},
        {"verdict": "unguarded", "says": "takes BIG", "after": "Bool(False, 'a new word about it')"},
        {"verdict": "unguarded", "says": "takes BIG", "after": "Bool(default_of_it())"},
    ],
)
def test_other_changes_of_flags_are_told_as_before(given: dict[str, str]) -> None:
    (one,) = flipped(**given)
    assert one.kind == "flag"
    diff = compare(report(a=GATE), report(a=GATE))
    assert tripping(msgspec.structs.replace(diff, changes=(one,))) == ()


def test_the_schema_is_the_committed_one_and_fits() -> None:
    committed = Path("reports/schema/diff-1.json").read_bytes()
    assert diff_schema() == committed
    found: Diff = compare(report(a=GATE), report(a=GATE.replace("(12, 0)", "(12, 1)")))
    jsonschema.validate(json.loads(dumps(found)), json.loads(committed))


def tripped(old: Report, new: Report) -> list[str]:
    return [change.kind for change in tripping(compare(old, new))]


def test_the_guard_is_quiet_where_code_only_moved_or_was_respelled_or_came() -> None:
    old = report(a=GATE)
    assert tripped(old, report(b=GATE)) == []
    assert tripped(old, report(a=GATE.replace(">= (12, 0)", "> (11, 9)"))) == []
    assert tripped(old, report(a=GATE + "\n\ndef other():\n    assert cap()[0] == 9\n")) == []


def test_the_guard_trips_where_a_target_goes_another_way() -> None:
    changed = report(a=GATE.replace("(12, 0)", "(12, 1)"))
    assert tripped(report(a=GATE), changed) == ["outcome"]
    assert tripping(compare(report(a=GATE), changed), {"added"}) == ()


OWN = """
def big():
    return cap()[0] == 10


def small():
    return cap()[0] == 12


def run():
    if small():
        careful()
        way = 1
    else:
        start()
        if big():
            way = 2
        elif cap()[0] == 9:
            way = 3
    return way
"""
WITHOUT = (
    OWN[: OWN.index("    if small")]
    + """    start()
    if big():
        way = 2
    elif cap()[0] == 9:
        way = 3
    return way
"""
)


def test_the_guard_trips_where_an_arm_of_its_own_is_gone_and_says_that_once() -> None:
    old, new = report("sm_120", a=OWN), report("sm_120", a=WITHOUT)
    # the two other conditions are asked now and say no: that follows, and is no news of its own
    assert [(c.kind, c.what, c.own) for c in tripping(compare(old, new))] == [
        ("removed", "small()", ("sm_120",))
    ]
    assert [c.what for c in changes(old, new) if c.kind == "outcome"] == ["big()", "cap()[0] == 9"]
    assert tripped(new, old) == []  # an arm that is new is not what was relied on
    assert tripped(report("sm_90", a=OWN), report("sm_90", a=WITHOUT)) == []


RESOLVE = """
def supported(many):
    return cap()[0] == 10 or (cap()[0] == 9 and not many)


def resolve(name, many):
    if name == "fast" and not supported(many):
        return "slow"
    return name
"""


def test_the_guard_trips_where_a_function_that_was_there_refuses_a_target_for_sure() -> None:
    head = "def resolve(name, many):\n"
    refusal = "    if cap()[0] not in (9, 10):\n        raise ValueError(name)\n"
    new = report("sm_120", a=RESOLVE.replace(head, head + refusal))
    (one,) = tripping(compare(report("sm_120", a=RESOLVE), new))
    assert (one.kind, one.what, one.refuses) == ("added", "cap()[0] not in (9, 10)", ("sm_120",))
    # under a condition that is not known it may be for what is new; and a new function was not relied on
    asked = refusal.replace("if cap()", 'if name == "new" and cap()')
    other = "\n\ndef fresh(name):\n" + refusal
    for text in (RESOLVE.replace(head, head + asked), RESOLVE + other):
        assert tripped(report("sm_120", a=RESOLVE), report("sm_120", a=text)) == []
    assert (
        tripped(report("sm_100", a=RESOLVE), report("sm_100", a=RESOLVE.replace(head, head + refusal))) == []
    )


@pytest.mark.parametrize(
    ("name", "trips"),
    [
        ("APP_SM120_BACKEND", True),
        ("APP_SM_120_BACKEND", True),
        ("APP_USE_SM120", True),
        ("APP_SM1200_BACKEND", False),
        ("APP_SM100_BACKEND", False),
        ("APP_CHASM120", False),
    ],
)
def test_a_flag_named_for_the_target_trips_whatever_becomes_of_it(name: str, trips: bool) -> None:
    old = {"APP_OTHER": flag("APP_OTHER")}
    for flags in ((old, {**old, name: flag(name)}), ({**old, name: flag(name)}, old)):
        diff = compare(report("sm_120", a=GATE), report("sm_120", a=GATE), flags=flags)
        assert [change.kind for change in diff.changes] == ["flag"]
        assert bool(tripping(diff)) is trips


READERS = """
class A:
    def __init__(self):
        self.fast = cap() >= (12, 0)

    def one(self):
        if self.fast:
            return 1

    def two(self):
        if self.fast:
            return 2
"""


def test_of_readers_of_what_is_not_known_any_more_the_first_stands_for_all_and_says_why() -> None:
    old = report("sm_120", a=READERS)
    gates = [
        msgspec.structs.replace(
            gate,
            truth=dict.fromkeys(gate.truth, "unknown"),
            unknown_because=("value self.fast", "arg.x", "dep.y", "env.z"),
        )
        if gate.kind == "if"
        else gate
        for gate in old.gates
    ]
    known = [item for item in old.predicates if not item.name.endswith(".fast")]
    assert len(known) == len(old.predicates) - 1
    new = msgspec.structs.replace(old, gates=tuple(gates), predicates=tuple(known))
    one, two = (change for change in tripping(compare(old, new)) if change.kind == "outcome")
    assert (one.symbol, one.follows) == ("A.one", "") and (two.symbol, two.follows) == ("A.two", one.gate)
    assert one.why == "open: arg.x, dep.y, env.z and 1 more"
    assert folded([one, two]) == ([one], {one.gate: 1})


def test_an_arm_of_its_own_that_is_asked_for_elsewhere_in_the_file_is_not_lost() -> None:
    moved = WITHOUT + "\n\ndef start(model, name):\n    if small():\n        careful(model)\n"
    assert tripped(report("sm_120", a=OWN), report("sm_120", a=moved)) == []


def test_a_condition_that_is_asked_now_trips_only_where_no_is_followed_by_something() -> None:
    old = "def run(x):\n    return 1\n    if cap() >= (13, 0):\n        return 2\n"
    new = old.replace("    return 1\n", "")
    assert tripped(report("sm_120", a=old), report("sm_120", a=new)) == []
    more = "    else:\n        slow()\n"
    (one,) = tripping(compare(report("sm_120", a=old + more), report("sm_120", a=new + more)))
    assert (one.before, one.after) == ({"sm_120": "not reached"}, {"sm_120": "no"})
    assert (one.did, one.does) == ({}, {"sm_120": "call slow"})


def test_a_constant_that_is_gone_is_told_by_its_readers() -> None:
    old = "SMALL = cap()[0] == 12\n\n\ndef run():\n    if SMALL:\n        return 1\n    return 2\n"
    assert tripped(report("sm_120", a=old), report("sm_120", a=old.replace("SMALL", "LITTLE"))) == []
    new = "def run():\n    return 2\n"
    assert tripped(report("sm_120", a=old), report("sm_120", a=new)) == ["removed"]


def test_a_change_says_what_the_target_did_and_does() -> None:
    text = GATE.replace("return 1", "return slow()").replace("return 2", "raise ValueError")
    (one,) = changes(report(a=text), report(a=text.replace("(12, 0)", "(12, 1)")))
    assert (one.did, one.does) == ({"sm_120": "return slow()"}, {"sm_120": "raise ValueError"})


def test_the_guard_trips_on_kernels_that_were_lost_not_on_those_that_came() -> None:
    before = kernels(a="runs", b="not-built", c="runs", d="unknown", f="runs", g="unknown")
    after = kernels(a="not-built", b="runs", d="raises", e="not-built", f="unknown")
    same = report(a=GATE)
    found = compare(same, same, kernels=(before, after))
    assert [change.what for change in tripping(found)] == ["ns::a", "ns::c", "ns::g"]
    assert {change.what for change in tripping(found, {"kernel"})} == {f"ns::{name}" for name in "abcdefg"}


CAUSE = """\
FAST = cap()[0] {}


def run():
    if FAST:
        return 1
    return 2


def more():
    assert not FAST
"""


def test_a_change_names_the_one_that_it_follows_from_and_pages_fold_it() -> None:
    found = compare(report(a=CAUSE.format("== 12")), report(a=CAUSE.format("== 9")))
    (cause,) = [one for one in found.changes if one.what == "cap()[0] == 9"]
    followers = [one for one in found.changes if one.follows]
    assert [one.what for one in followers] == ["FAST", "not FAST"]
    assert {one.follows for one in followers} == {cause.gate} and not cause.follows
    shown, counts = folded(found.changes)
    assert shown == [cause] and counts == {cause.gate: 2}
    assert len(tripping(found)) == 3


def test_a_cause_that_would_not_trip_itself_is_told_with_what_does() -> None:
    cause = Change("predicate", "is_new()", "a.py", 1, gate="g1", before={"sm_120": "no"})
    after = {"before": {"sm_120": "no"}, "after": {"sm_120": "unknown"}}
    change = Change("outcome", "FLAG", "b.py", 2, gate="g2", follows="g1", **after)
    same = compare(report(a=GATE), report(a=GATE))
    found = msgspec.structs.replace(same, changes=(cause, change))
    assert tripping(found) == (cause, change)


def test_kernels_of_the_project_that_were_deleted_with_their_callers_do_not_trip() -> None:
    def rows(kind: str) -> Availability:
        row = Row("jit::f", kind, "f.py", 3, {"sm_120": Cell("runs", "")})
        return Availability("1.0", "t", "p", None, ("sm_120",), {}, (), (row,), (), (), (), {})

    empty = msgspec.structs.replace(rows("jit"), rows=())
    same = report(a=GATE)
    assert not tripping(compare(same, same, kernels=(rows("jit"), empty)))
    assert tripping(compare(same, same, kernels=(rows("op"), empty)))


def test_a_kernel_that_is_compiled_at_run_time_now_was_not_lost() -> None:
    def one(name: str, kind: str, outcome: str) -> Availability:
        row = Row(name, kind, "f.py", 3, {"sm_120": Cell(outcome, "")})
        return Availability("1.0", "t", "p", None, ("sm_120",), {}, (), (row,), (), (), (), {})

    (found,) = kernel_changes(one("lib::f", "op", "runs"), one("jit::f", "jit", "runs"), ("sm_120",))
    assert (found.kind, found.what, found.old_what) == ("moved", "jit::f", "lib::f")
    (found,) = kernel_changes(one("lib::f", "op", "runs"), one("jit::f", "jit", "not-built"), ("sm_120",))
    assert (found.kind, found.before, found.after) == (
        "kernel",
        {"sm_120": "runs"},
        {"sm_120": "not-built"},
    )


def finding(message: str, symbol: str = "Args._handle", path: str = "a.py", **more: str) -> Finding:
    verdict = {"sm_120": more.get("verdict", "env-forced")}
    return Finding("arguments/env-forced", "", path, 5, symbol, verdict, "warning", message)


def told(old: Finding, new: Finding) -> list[str]:
    same = report("sm_120", a=GATE)
    before, after = (msgspec.structs.replace(same, findings=(each,)) for each in (old, new))
    return [change.kind for change in finding_changes(before, after)]


def test_a_finding_is_known_again_whatever_places_it_names_and_wherever_it_stands() -> None:
    old = finding("envs.A becomes False in Args._handle, whatever the user set; read at x.py:3, y.py:9")
    moved = finding("envs.A becomes False in handle, whatever the user set; read at z.py:1", "handle", "h.py")
    assert told(old, moved) == []
    assert told(old, finding("envs.B becomes True in Args._handle, whatever; read at x.py:3", "other")) == [
        "forced",
        "forced",
    ]


def test_a_finding_whose_condition_is_spelled_otherwise_is_the_same() -> None:
    old = finding("Model: backend becomes fa3 on 12.x if is_cuda() and sm() >= 80", "_overrides")
    new = finding("Model: backend becomes fa3 on 12.x if info().is_cuda and info().sm >= 80", "_overrides")
    assert told(old, new) == []
    assert told(old, msgspec.structs.replace(new, verdict={"sm_120": "same"})) == ["forced"]


def test_another_setting_that_is_forced_in_the_same_function_is_another_finding() -> None:
    old = finding("envs.FAST becomes False in Args._handle, whatever the user set; read at x.py:3")
    new = finding("envs.WIDE becomes False in Args._handle, whatever the user set; read at x.py:3")
    assert told(old, new) == ["forced", "forced"]
