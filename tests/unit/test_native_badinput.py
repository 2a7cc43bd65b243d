"""Input that is no CMake, flags that something outside the tree sets, objects of other systems."""

from __future__ import annotations

import pytest

from auditor.native.built.objects import read_object
from auditor.native.cmake.parse import MAX_FAULTS, read
from tests.unit.test_native_tags import cells, said


def test_a_file_that_is_no_cmake_has_a_few_faults_and_a_count() -> None:
    text = "\n".join("%%% nothing of this is a command" for _ in range(1000))
    commands, faults = read(text)
    assert commands == []
    assert [fault.line for fault in faults] == [1, 2, 3, 4, 5, 6]
    assert faults[MAX_FAULTS].message == "995 more faults from here on"


def test_few_faults_are_all_told_in_order() -> None:
    commands, faults = read("if(A)\nendforeach()\n% no\nset(B 1)\n")
    assert [(fault.line, fault.message) for fault in faults] == [
        (1, "if without endif"),
        (2, "endforeach without its beginning"),
        (3, "no command starts with '%'"),
    ]
    assert [command.name for command in commands] == ["if"]


def test_a_flag_that_is_set_outside_of_the_tree_may_be_any_architecture() -> None:
    assert said("op89", "90a", flags="${SET_ELSEWHERE}")["sm_120"] == "unknown"
    assert "SET_ELSEWHERE" in cells("op89", "90a", flags="${SET_ELSEWHERE}")["sm_120"].reason
    assert said("op89", "90a", flags="${SET_ELSEWHERE}")["sm_90"] == "runs"


@pytest.mark.parametrize(
    "flags", ["-DWHERE=${SET_ELSEWHERE}", "-I${SET_ELSEWHERE}/include", "${CMAKE_CUDA_FLAGS}"]
)
def test_other_flags_leave_the_architectures_alone(flags: str) -> None:
    assert said("op89", "90a", flags=flags)["sm_120"] == "not-built"


def test_a_windows_object_with_nothing_in_it_is_said() -> None:
    facts = read_object("kern_pkg/main.pyd", [b"MZ" + bytes(1000)])
    assert facts.problems == ["a Windows object without device code and operators"]
