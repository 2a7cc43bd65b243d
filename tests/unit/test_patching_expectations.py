"""What a patch may say of the audit of its result, and what counts as a change elsewhere."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from auditor.patching.proof.postconditions import changed_outcomes, failures
from auditor.patching.sets.header import Expectation


def report(*findings: tuple[str, str, dict[str, str]], gates: tuple[Any, ...] = ()) -> Any:
    rows = [SimpleNamespace(query=q, symbol=s, verdict=v) for q, s, v in findings]
    return SimpleNamespace(
        findings=rows, gates=gates, predicates=(), targets=("sm_90", "sm_100", "sm_120", "sm_121")
    )


FOUND = report(("area/one", "Backend.forward", {"sm_120": "unguarded", "sm_90": "same"}))
GUARDED = report(("area/one", "Backend.forward", {"sm_120": "same", "sm_90": "same", "sm_110": "unguarded"}))
GONE = report()


@pytest.mark.parametrize(
    ("after", "before", "expect", "bad"),
    [
        (GUARDED, FOUND, {"sm_120": "absent", "sm_90": "unchanged"}, 0),
        (GONE, FOUND, {"sm_120": "absent", "sm_90": "unchanged"}, 0),
        (FOUND, FOUND, {"sm_120": "absent"}, 1),
        (GUARDED, FOUND, {"sm_120": "same"}, 0),
        (FOUND, FOUND, {"sm_120": "same"}, 1),
        (GONE, FOUND, {"sm_120": "unchanged"}, 1),
        (FOUND, FOUND, {"sm_120": "unguarded"}, 0),
        (GONE, GONE, {"sm_90": "unchanged"}, 1),  # a query of another name, or one that never finds anything
    ],
)
def test_a_finding_that_is_not_about_a_target_is_not_there(
    after: Any, before: Any, expect: dict[str, Any], bad: int
) -> None:
    assert len(failures(Expectation(query="area/one", expect=expect), after, before)[0]) == bad


def test_a_query_can_be_asked_of_one_function() -> None:
    both = report(
        ("area/one", "Backend.forward", {"sm_120": "unguarded"}), ("area/one", "other", {"sm_120": "blocked"})
    )
    asked = Expectation(query="area/one: Backend.forward", expect={"sm_120": "unguarded"})
    assert failures(asked, both, both) == ([], 1)
    asked = Expectation(query="area/one: Backend.forward", expect={"sm_120": "blocked"})
    assert failures(asked, both, both)[1] == 0
    asked = Expectation(query="area/one: Backend.backward", expect={"sm_120": "absent"})
    assert failures(asked, both, both) == ([], 1)


def gate(identity: str, line: int, predicate: str, truth: str) -> Any:
    return SimpleNamespace(
        id=identity, module="m", symbol="f", kind="if", path="m.py", line=line, predicate=predicate,
        truth={"sm_100": truth}, reached={}, arms=(), verdict={},
    )  # fmt: skip


def test_a_test_that_took_the_place_of_another_is_not_the_other_one() -> None:
    before = report(gates=(gate("a", 1, "is_small()", "false"), gate("b", 3, "is_big()", "true")))
    after = report(gates=(gate("a", 1, "is_big()", "true"),))
    assert changed_outcomes(before, after, ["sm_100"]) == []
    wrong = report(gates=(gate("a", 1, "is_big()", "false"),))
    assert changed_outcomes(before, wrong, ["sm_100"]) == [("sm_100", "m.py:1 f", "true", "false")]


def test_a_condition_that_was_rewritten_is_held_against_what_it_was() -> None:
    before = report(gates=(gate("a", 1, "is_big()", "true"),))
    after = report(gates=(gate("a", 1, "is_big() and other()", "false"),))
    assert changed_outcomes(before, after, ["sm_100"]) == [("sm_100", "m.py:1 f", "true", "false")]
