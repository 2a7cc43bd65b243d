"""Conditions that are put in are laid out as formatters leave them: long ones in brackets, on many lines."""

from __future__ import annotations

import ast

import pytest

from auditor.patching.edits.conditions import broken
from tests.unit.test_patching_edits import result

LONG = "is_workstation() and arguments.moe_runner_backend == 'auto' and arguments.model().experts is not None"


def test_a_long_condition_has_an_operand_a_line() -> None:
    made = broken(LONG, "    elif ", "\n")
    assert made == (
        "(\n        is_workstation()\n        and arguments.moe_runner_backend == 'auto'\n"
        "        and arguments.model().experts is not None\n    )"
    )
    assert ast.dump(ast.parse(made, mode="eval")) == ast.dump(ast.parse(LONG, mode="eval"))


@pytest.mark.parametrize(
    "text",
    [
        "(first_of_them() or second_of_them()) and (lambda: the_third_of_them())() and not (a and bb)",
        "first_of_all_of_them == 'a  b' and second_of_all_of_them == 'c   d' and third_of_all_here == 1",
        "an_only_call_that_is_long(with_one_argument, with_two_arguments, with_three_of_them, and_with_four)",
        "first or second",
        "first_of_them_all_and_long\nand second_of_them_all_and_long\nand (third_of_them_all or the_fourth)",
    ],
)
def test_the_meaning_stays(text: str) -> None:
    made = broken(text, "        if ", "\n")
    whole = f"if 1:\n    if 1:\n        if {made}:\n            pass\n"
    test = ast.parse(whole).body[0].body[0].body[0].test  # type: ignore[attr-defined]
    assert ast.dump(test) == ast.dump(ast.parse(f"(\n{text}\n)", mode="eval").body)


NARROW = "- narrow: {in: example.m.f, at: x.ready(), with: not x.is_workstation_of_the_kind()}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (  # an operand a line: one more line
            "    if (\n        x.long_name\n        and x.ready()\n    ):\n",
            "    if (\n        x.long_name\n"
            "        and x.ready() and not x.is_workstation_of_the_kind()\n    ):\n",
        ),
        (  # in a chain of the other word: brackets of their own
            "    y = (\n        x.ready()\n        or x.other\n    )\n",
            "    y = (\n        (x.ready() and not x.is_workstation_of_the_kind())\n"
            "        or x.other\n    )\n",
        ),
    ],
)
def test_short_ones_stay_on_their_line(before: str, after: str) -> None:
    pre, post = "def f(x):\n", "        pass\n    return 1\n"
    tail = post if before.rstrip().endswith(":") else "    return 1\n"
    assert result(NARROW, pre + before + tail, "example/m.py") == pre + after + tail


def test_each_operand_a_line_gets_another_line() -> None:
    edit = NARROW.replace("x.ready()", "'$A and x.ready()'")
    before = "def f(x):\n    if (\n        x.long_name\n        and x.ready()\n    ):\n        pass\n"
    line = "        and x.ready()\n"
    more = line + "        and not x.is_workstation_of_the_kind()\n"
    assert result(edit, before, "example/m.py") == before.replace(line, more)


def test_a_long_operand_in_brackets_has_lines_of_its_own() -> None:
    call = "x.ready()"
    edit = NARROW.replace("not x.is", "not x.is_one_more_condition_that_is_long(x) and not x.is")
    before = f"def f(x):\n    y = (\n        {call}\n        or x.other\n    )\n"
    inner = (
        f"        (\n            {call}\n            and not x.is_one_more_condition_that_is_long(x)"
        " and not x.is_workstation_of_the_kind()\n        )\n"
    )
    assert result(edit, before, "example/m.py") == before.replace(f"        {call}\n", inner)
