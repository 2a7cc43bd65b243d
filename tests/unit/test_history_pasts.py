"""What sweeps, histories and comparisons know of the past of the gates of an audit."""

from __future__ import annotations

import msgspec
from sample_report import gate

from auditor.gates.model import Gate, TreeFacts
from auditor.history.model import Change, Commit, Diff
from auditor.history.past import Past
from auditor.history.pasts import Event, Pasts, of_diffs, of_history, of_sweep
from auditor.history.sweeping.model import SCHEMA, CommitLine, GateChange, GateFact, Head, Setup

SETUP = Setup("toy", "quick", ("sm_120", "sm_121"), "sm_100", "13.0", "python", "python/toy")
HEAD = Head(SCHEMA, "t", "a" * 40, "b" * 40, 3, SETUP)


def told(name: str = "g1", path: str = "python/toy/a.py") -> Gate:
    return gate(name, path, 3, "f", "sm == 120", "ftf", ("same", "same"))


def line(number: int, kind: str, path: str, before: dict[str, str], after: dict[str, str]) -> CommitLine:
    fact = GateFact("0" * 12, path, "f", "if", "sm == 120")
    change = GateChange(kind, fact, before, after)
    return CommitLine(f"{number}" * 40, f"2026-01-0{number}", f"{number}0", 1, {}, changes=(change,))


def test_a_sweep_is_followed_back_through_moves() -> None:
    no, yes = ({"sm_120": v, "sm_121": v} for v in ("false", "true"))
    lines = [line(1, "added", "python/toy/old.py", {}, no), line(2, "changed", "python/toy/a.py", no, yes)]
    found = of_sweep([told()], HEAD, lines)
    assert found.events == {
        "g1": [
            Event("1" * 40, "2026-01-01", "10", "", "added  sm_120 sm_121: no"),
            Event("2" * 40, "2026-01-02", "20", "", "changed  sm_120 sm_121: no → yes"),
        ]
    }
    ((source, empty),) = found.sources
    assert source == "quick sweep of 2 of 3 commits, aaaaaaaaa..bbbbbbbbb" and "no commit" in empty


def test_of_two_gates_with_the_same_words_each_has_its_own_past() -> None:
    lines = [line(1, "added", "python/toy/b.py", {}, {"sm_120": "true"})]
    found = of_sweep([told(), told("g2", "python/toy/b.py")], HEAD, lines)
    assert list(found.events) == ["g2"]


def test_a_condition_that_was_spelled_otherwise_is_the_same_gate() -> None:
    def facts(predicate: str) -> GateFact:
        return GateFact("0" * 12, "python/toy/a.py", "f", "if", predicate)

    yes, no = {"sm_120": "true"}, {"sm_120": "false"}
    came = CommitLine(
        "1" * 40, "2026-01-01", "1", 1, {}, changes=(GateChange("added", facts("sm >= 90"), {}, yes),)
    )
    other = GateChange("removed", facts("has_tensor_cores_of_some_kind"), no)
    turned = (
        GateChange("added", facts("sm == 120"), {}, no),
        GateChange("removed", facts("sm >= 120"), yes),
        other,
    )
    again = (GateChange("added", facts("sm >= 120"), {}, yes), GateChange("removed", facts("sm >= 90"), yes))
    lines = [
        came,
        *(
            CommitLine(f"{n}" * 40, f"2026-01-0{n}", "", 1, {}, changes=c)
            for n, c in ((2, again), (3, turned))
        ),
    ]
    assert [event.what for event in of_sweep([told()], HEAD, lines).events["g1"]] == [
        "added  sm_120: yes",
        "condition changed  (was sm >= 90)",
        "condition changed  sm_120: yes → no  (was sm >= 120)",
    ]


def test_a_sweep_of_whole_audits_follows_no_gate() -> None:
    full = Head(SCHEMA, "t", "", "b" * 40, 1, msgspec.structs.replace(SETUP, level="full"))
    found = of_sweep([told()], full, [])
    assert not found.events and "whole audits" in found.sources[0][0]


def change(kind: str, new: str, old: str = "", **more: object) -> Change:
    return Change(kind, "sm == 120", "a.py", 3, gate=new, old_gate=old, **more)  # type: ignore[arg-type]


def tree(label: str) -> TreeFacts:
    return TreeFacts("wheel", label, label, None, label, None, None, False)


def diff(old: str, new: str, *changes: Change) -> Diff:
    return Diff("1.1", "t", "toy", tree(old), tree(new), ("sm_120",), "sm_100", {}, changes, {})


def test_comparisons_are_followed_by_the_ids_that_a_gate_had() -> None:
    first = diff("1", "2", change("added", "g0", after={"sm_120": "no"}))
    second = diff("2", "3", change("outcome", "g1", "g0", before={"sm_120": "no"}, after={"sm_120": "yes"}))
    third = diff("3", "4", change("moved", "g2", "g1"), change("removed", "g9", before={"sm_120": "no"}))
    found = of_diffs([told("g2"), told("g9")], [first, second, third])
    assert {name: [event.what for event in events] for name, events in found.events.items()} == {
        "g2": ["1 → 2: added  sm_120: no", "2 → 3: outcome  sm_120: no → yes"]
    }


def test_what_a_gate_was_before_it_came_is_another_gate() -> None:
    older = diff("1", "2", change("outcome", "g1", before={"sm_120": "no"}, after={"sm_120": "yes"}))
    newer = diff("2", "3", change("added", "g1", after={"sm_120": "no"}))
    assert [e.what for e in of_diffs([told()], [older, newer]).events["g1"]] == ["2 → 3: added  sm_120: no"]


def test_a_history_of_one_gate_is_added_once() -> None:
    commit = Commit("1" * 40, "2026-01-01", "Take it (#10)", "10")
    events = (change("outcome", "g1", before={"sm_120": "no"}, after={"sm_120": "yes"}, commits=(commit,)),)
    past = Past(
        "1.0",
        "t",
        "toy",
        "g1",
        "a.py",
        "f",
        "if",
        ("sm_120",),
        "sm_100",
        {},
        "A",
        "B",
        9,
        2,
        3,
        False,
        events,
    )
    found = of_history(past)
    assert found.events["g1"] == [
        Event("1" * 40, "2026-01-01", "10", "Take it (#10)", "outcome  sm_120: no → yes")
    ]
    swept = of_sweep(
        [told()], HEAD, [line(1, "changed", "python/toy/a.py", {"sm_120": "false"}, {"sm_120": "true"})]
    )
    assert [len(both.events["g1"]) for both in (found + swept, swept + found, Pasts({}, ()) + found)] == [
        1,
        1,
        1,
    ]
