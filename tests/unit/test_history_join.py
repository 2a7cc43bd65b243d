"""Which gate of one audit is which of another: moved, respelled, renamed, and never two that are not one."""

from __future__ import annotations

from typing import Any

from auditor.gates.model import Gate
from auditor.history.join import join

NO = {"sm_100": "true", "sm_120": "false"}


def gate(ident: str, predicate: str, symbol: str = "pick", **more: Any) -> Gate:
    fields: dict[str, Any] = {
        "id": ident,
        "path": "a.py",
        "module": "a",
        "line": 10,
        "end_line": 12,
        "symbol": symbol,
        "kind": "if",
        "scope": "arch",
        "via": (),
        "roots": (),
        "predicate": predicate,
        "truth": NO,
        "reached": {"sm_100": "true", "sm_120": "true"},
        "unknown_because": (),
        "arms": (),
        "verdict": {},
    }
    return Gate(**{**fields, **more})


def joined(old: list[Gate], new: list[Gate]) -> dict[str, str]:
    """Old id -> new id, "" for what is gone."""
    pairs, gone, come = join(old, new)
    assert len(pairs) + len(gone) == len(old) and len(pairs) + len(come) == len(new)
    return {**{a.id: b.id for a, b in pairs}, **{a.id: "" for a in gone}}


def test_a_method_that_became_a_function_elsewhere_with_other_receivers() -> None:
    old = gate("o", "self.kv_dtype == 'fp4' and (not is_big_supported())", "Args._handle_kv")
    new = gate("n", "cfg.kv_dtype == 'fp4' and (not machine().is_big)", "handle_kv", path="hooks.py")
    assert joined([old], [new]) == {"o": "n"}


def test_what_says_the_same_on_every_target_comes_before_what_is_spelled_more_alike() -> None:
    other = {"sm_100": "false", "sm_120": "false"}
    old = [gate("o", "is_large_supported()")]
    new = [
        gate("n1", "is_small_supported()", truth=other, line=12),
        gate("n2", "machine().is_large", line=34),
    ]
    assert joined(old, new) == {"o": "n2"}
    assert joined(old, new[:1]) == {"o": "n1"}


def test_a_condition_that_got_one_more_part_is_the_same_gate() -> None:
    assert joined([gate("o", "major >= 10")], [gate("n", "major >= 10 and (not sinks)")]) == {"o": "n"}


def test_methods_of_two_classes_with_one_name_are_not_joined_for_it() -> None:
    old = gate("o", "self.hooks and self.mla", "A.__init__", kind="assign")
    new = gate("n", "backend().mega and use_swizzle()", "B.__init__", kind="assign", path="b.py")
    assert joined([old], [new]) == {"o": ""}
    short = gate("n", "self.mla", "B.forward", path="b.py")
    assert joined([gate("o", "self.mla", "A.forward")], [short]) == {"o": ""}


def test_a_long_condition_is_known_again_in_another_function_of_another_file() -> None:
    old = gate("o", "enable_pdl(x_quant.shape[0])", "Method.apply", kind="argument")
    new = gate("n", "enable_pdl(x_quant.shape[0])", "run_fused", kind="argument", path="b.py")
    assert joined([old], [new]) == {"o": "n"}
    assert joined([gate("o", "is_big()", "apply")], [gate("n", "is_big()", "run", path="b.py")]) == {"o": ""}


def test_a_renamed_function_keeps_its_short_conditions_within_its_file() -> None:
    old, new = gate("o", "major == 9", "get_config"), gate("n", "major == 9", "_get_configs", line=90)
    assert joined([old], [new]) == {"o": "n"}
    assert joined([old], [gate("n", "major == 9", "warm_up", line=90)]) == {"o": ""}


def test_top_of_a_file_moves_with_the_name_of_the_file_only() -> None:
    old = gate("o", "is_big()", "", kind="assign", path="x/a.py")
    assert joined([old], [gate("n", "is_big()", "", kind="assign", path="y/a.py")]) == {"o": "n"}
    assert joined([old], [gate("n", "is_big()", "", kind="assign", path="y/b.py")]) == {"o": ""}


def test_an_id_that_was_counted_on_does_not_join_what_reads_otherwise() -> None:
    # ids count conditions of one meaning within a function: one more before it, and the numbers shift
    old = [gate("id1", "self.fast")]
    new = [gate("id1", "self.complete", line=8), gate("id2", "self.fast", line=20)]
    pairs, gone, come = join(old, new)
    assert [(a.id, b.id) for a, b in pairs] == [("id1", "id2")] and not gone
    assert [g.predicate for g in come] == ["self.complete"]


def test_an_id_joins_what_is_spelled_otherwise() -> None:
    assert joined([gate("id", "is_big_supported()")], [gate("id", "machine().is_huge")]) == {"id": "id"}


def test_of_several_alike_the_one_that_is_reached_alike_is_the_same() -> None:
    never = {"sm_100": "true", "sm_120": "false"}
    old = [gate("a", "fast"), gate("b", "fast", line=20, end_line=22, reached=never)]
    new = [
        gate("x", "fast"),
        gate("y", "fast", line=20, end_line=29),
        gate("z", "fast", line=30, end_line=32, reached=never),
    ]
    assert joined(old, new) == {"a": "x", "b": "z"}


def test_a_branch_that_became_the_first_is_the_same_gate_and_the_one_before_it_is_gone() -> None:
    # ids hold no name of what asks for the GPU: both ``if`` have one id
    small = {"sm_100": "false", "sm_120": "true"}
    old = [gate("id1", "is_small()", truth=small), gate("id2", "is_big()", line=12, kind="elif")]
    new = [gate("id1", "is_big()"), gate("id3", "limit() > cap() >= (8, 0)", line=12, kind="elif")]
    pairs, gone, come = join(old, new)
    assert [(a.id, b.id) for a, b in pairs] == [("id2", "id1")]
    assert [g.predicate for g in gone] == ["is_small()"]
    assert [g.predicate for g in come] == ["limit() > cap() >= (8, 0)"]


def test_an_id_joins_what_changed_its_value_if_nothing_else_does() -> None:
    small = {"sm_100": "false", "sm_120": "true"}
    assert joined([gate("id", "fits()")], [gate("id", "machine().is_huge", truth=small)]) == {"id": "id"}
