"""CMake files read and run three-valued: grammar, values, conditions, libraries, broken files."""

from __future__ import annotations

import random

import pytest

from auditor.native.cmake.build import TOP, Build
from auditor.native.cmake.eval import Evaluator
from auditor.native.cmake.flags import built_by_flags, built_by_property, expressions
from auditor.native.cmake.parse import read
from auditor.native.cmake.values import Item, text_of, version_truth
from auditor.native.sources.libraries import cuda_variables


def ran(text: str, *, cuda: str = "13.0", machine: str = "x86_64", **files: str) -> Build:
    tree = {"CMakeLists.txt": text, **{name.replace("__", "/"): body for name, body in files.items()}}
    run = Evaluator(tree.get, tree, cuda_variables(cuda, machine), "")
    return run.run("CMakeLists.txt")


def evaluated(text: str, name: str, **options: str) -> str | None:
    """The text of a variable at the end, None where it is not known."""
    tree = {"CMakeLists.txt": text}
    run = Evaluator(tree.get, tree, cuda_variables(options.get("cuda", "13.0"), "x86_64"), "")
    run.run("CMakeLists.txt")
    value = run.value(name)
    return None if value is None else text_of(value)[0]


def archs(build: Build, name: str = "ops") -> list[tuple[str, str, str]]:
    return [(one.what, one.arch, one.when) for one in built_by_flags(tuple(build.targets[name].options))]


# the grammar of cmake-language(7)


def test_arguments_of_every_kind() -> None:
    commands, faults = read(
        'a([[x (y) "z"]] [=[one ]] two]=] "q \\" ; # no comment" plain;list # comment\n'
        "  #[[ a bracket\n comment ]] last (in brackets))\nb()"
    )
    assert faults == []
    assert [(arg.text, arg.kind) for arg in commands[0].args] == [
        ('x (y) "z"', "bracket"),
        ("one ]] two", "bracket"),
        ('q \\" ; # no comment', "quoted"),
        ("plain;list", "plain"),
        ("last", "plain"),
        ("(", "paren"),
        ("in", "plain"),
        ("brackets", "plain"),
        (")", "paren"),
    ]
    assert (commands[0].line, commands[1].line, commands[0].args[4].line) == (1, 4, 3)


def test_blocks_nest() -> None:
    commands, faults = read(
        "IF(A)\nset(x 1)\nelseif(B)\nforeach(i 1 2)\nset(y)\nendforeach()\nelse()\nset(z)\nendif()"
    )
    assert faults == []
    (top,) = commands
    assert [branch.name for branch in top.branches] == ["elseif", "else"]
    assert top.body[0].name == "set" and top.branches[0].body[0].body[0].name == "set"


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("set(a 1)\n) oops\nset(b 2)", 2, "no command starts with ')'"),
        ("set(a 1)\nset b\nset(c 2)", 2, "no ( after set"),
        ("set(a 1)\nset(b", 2, "have no end"),
        ("if(A)\nset(a 1)", 1, "if without endif"),
        ("set(a 1)\nendif()\nset(b 1)", 2, "endif without its beginning"),
    ],
)
def test_what_cannot_be_read_is_a_fault_with_its_line(text: str, line: int, part: str) -> None:
    commands, faults = read(text)
    assert any(fault.line == line and part in fault.message for fault in faults)
    assert commands and commands[0].name in ("set", "if")


def test_nesting_is_bounded() -> None:
    _commands, faults = read("if(A)\n" * 5000)
    assert any("nested deeper" in fault.message for fault in faults)


# values and conditions


def test_values() -> None:
    assert evaluated("set(A x;y)\nset(B ${A} z)\nlist(APPEND B w)\nset(C pre-${A}-post)", "B") == "x;y;z;w"
    assert evaluated("set(A x;y)\nset(C pre-${A}-post)", "C") == "pre-x;y-post"
    assert evaluated("set(A B)\nset(B 7)\nset(C ${${A}})", "C") == "7"
    assert evaluated("set(C ${NOWHERE}/x)", "C") is None
    assert evaluated("option(A doc)\noption(B doc ON)\nset(A_AND_B ${A}${B})", "A_AND_B") == "OFFON"


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ('"${CUDA_VERSION}" VERSION_GREATER_EQUAL "12.8"', "yes"),
        ("CUDA_VERSION VERSION_GREATER 13.0", "no"),
        ("CUDAToolkit_VERSION VERSION_GREATER_EQUAL 13.0", "yes"),
        ("CUDAToolkit_VERSION VERSION_LESS 13.0", "no"),
        ("CUDAToolkit_VERSION VERSION_GREATER 13.0", None),  # 13.0.what?
        ('CMAKE_SYSTEM_PROCESSOR MATCHES "x86|amd"', "yes"),
        ("NOT WIN32 AND UNIX", "yes"),
        ("NOWHERE", None),
        ("NOWHERE AND WIN32", "no"),
        ("NOWHERE OR UNIX", "yes"),
        ("NOT (NOWHERE AND UNIX)", None),
        ("DEFINED ENV{CUDA_HOME}", None),
        ("DEFINED CUDA_VERSION", "yes"),
        ("OWN", "no"),  # set by this project only, on a branch not taken
        ("b IN_LIST LETTERS", "yes"),
        ('3 LESS 10 AND "abc" STREQUAL abc', "yes"),
        ("A B C", None),
    ],
)
def test_conditions(condition: str, wanted: str | None) -> None:
    text = (
        f"set(LETTERS a b)\nif(WIN32)\nset(OWN 1)\nendif()\nset(R no)\nif({condition})\nset(R yes)\nendif()"
    )
    assert evaluated(text, "R") == wanted


def test_versions() -> None:
    assert version_truth("VERSION_GREATER", "12.8", "12.8.93") is False
    assert version_truth("VERSION_GREATER_EQUAL", "12.10", "12.9") is True
    assert version_truth("VERSION_EQUAL", "13.0.*", "13.0") is None


# libraries


FLAGS = """
project(kernels LANGUAGES CXX CUDA)
find_package(Torch REQUIRED)
set(FLAGS "-O3" "-gencode=arch=compute_90,code=sm_90")
if(CUDA_VERSION VERSION_GREATER_EQUAL "12.8" OR WANT_NEW)
  list(APPEND FLAGS "-gencode=arch=compute_120a,code=sm_120a")
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
    list(APPEND FLAGS "-gencode=arch=compute_121a,code=sm_121a")
  endif()
endif()
if(EXTRA)
  list(APPEND FLAGS "-gencode=arch=compute_80,code=[sm_80,compute_80]")
endif()
Python_add_library(ops MODULE USE_SABI ${SKBUILD_SABI_VERSION} WITH_SOABI a.cu b.cc ${far_SOURCE_DIR}/c.cu)
target_compile_options(ops PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wall> $<$<COMPILE_LANGUAGE:CUDA>:${FLAGS}>)
set_target_properties(ops PROPERTIES OUTPUT_NAME "real_ops")
install(TARGETS ops LIBRARY DESTINATION pkg/fast)
"""


def test_a_library_with_its_architectures() -> None:
    build = ran(FLAGS)
    target = build.targets["ops"]
    assert archs(build) == [
        ("cubin", "90", "true"),
        ("cubin", "120a", "true"),
        ("cubin", "80", "unknown"),
        ("ptx", "80", "unknown"),
    ]
    assert [item.text for item in target.sources] == ["a.cu", "b.cc", "${far_SOURCE_DIR}/c.cu"]
    assert target.properties["OUTPUT_NAME"][0].text == "real_ops" and target.destination == "pkg/fast"
    built = built_by_flags(tuple(target.options))
    assert built[1].because == ("CUDA_VERSION VERSION_GREATER_EQUAL 12.8 OR WANT_NEW",) and built[1].line == 6
    assert any("EXTRA" in reason for reason in built[2].because)


def test_version_and_machine_decide() -> None:
    assert archs(ran(FLAGS, machine="aarch64"))[2] == ("cubin", "121a", "true")
    assert archs(ran(FLAGS, cuda="12.4"))[1] == ("cubin", "120a", "unknown")  # WANT_NEW may be set


def test_flags_are_written_in_many_ways() -> None:
    flags = [
        "-gencode arch=compute_75,code=sm_75",
        "--generate-code=arch=compute_86,code=[compute_86,sm_86]",
        "SHELL:-gencode arch=compute_89,code=compute_89",
        "-arch=sm_100a",
        "-arch=native",
    ]
    items = tuple(Item(text, "f", i) for i, text in enumerate(flags, 1))
    assert [(b.what, b.arch, b.when, b.line) for b in built_by_flags(items)] == [
        ("cubin", "75", "true", 1),
        ("ptx", "86", "true", 2),
        ("cubin", "86", "true", 2),
        ("ptx", "89", "true", 3),
        ("cubin", "100a", "true", 4),
        ("ptx", "100a", "true", 4),
        ("cubin", "", "unknown", 5),
    ]
    property_ = tuple(Item(text, "f", 1) for text in ("90", "100a-real", "120-virtual", "all"))
    assert [(b.what, b.arch, b.when) for b in built_by_property(property_)] == [
        ("cubin", "90", "true"),
        ("ptx", "90", "true"),
        ("cubin", "100a", "true"),
        ("ptx", "120", "true"),
        ("cubin", "", "unknown"),
    ]


def test_generator_expressions() -> None:
    def shown(text: str) -> list[tuple[str, str]]:
        value = tuple(Item(part, "f", 1) for part in text.split(";"))
        return [(item.text, item.when) for item in expressions(value, "CUDA")]

    assert shown("$<$<COMPILE_LANGUAGE:CUDA>:-a;-b;-c>") == [("-a", "true"), ("-b", "true"), ("-c", "true")]
    assert shown("$<$<COMPILE_LANGUAGE:CXX>:-a;-b>;-c") == [("-c", "true")]
    assert shown("$<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:0>>:-a>") == []
    assert shown("$<$<CONFIG:Debug>:-a>") == [("-a", "unknown")]
    assert shown("$<BUILD_INTERFACE:-a>") == [("-a", "true")]
    assert shown("$<$<COMPILE_LANGUAGE:CUDA>:-a") == [("$<$<COMPILE_LANGUAGE:CUDA>:-a", "unknown")]


def test_a_library_below_an_unknown_condition() -> None:
    build = ran("if(MAYBE)\nadd_library(ops SHARED a.cu)\nendif()\nadd_library(sure SHARED b.cu)")
    assert build.targets["ops"].when == "unknown"
    assert any("MAYBE" in reason for reason in build.targets["ops"].because)
    assert build.targets["sure"].when == "true"


def test_files_functions_loops() -> None:
    build = ran(
        "include(cmake/more.cmake)\nadd_subdirectory(sub)\nadd_ops(made a.cu)\nforeach(n one two)\n"
        "add_library(${n} SHARED ${n}.cu)\nendforeach()\nfile(GLOB G *.cu)\nadd_library(glob SHARED ${G})\n"
        "file(GLOB H ${out_SOURCE_DIR}/*.cu)\nadd_library(far SHARED ${H})",
        cmake__more__cmake="",
        **{
            "cmake__more.cmake": "function(add_ops name)\nadd_library(${name} SHARED ${ARGN})\nendfunction()",
            "sub__CMakeLists.txt": "add_library(below SHARED x.cu)",
            "x.cu": "",
            "y.cu": "",
        },
    )
    assert list(build.targets) == ["below", "made", "one", "two", "glob", "far"]
    assert [item.text for item in build.targets["made"].sources] == ["a.cu"]
    assert [item.text.removeprefix(TOP) for item in build.targets["glob"].sources] == ["x.cu", "y.cu"]
    (far,) = build.targets["far"].sources
    assert far.text == "${out_SOURCE_DIR}/*.cu" and far.open
    assert build.targets["below"].folder == "sub"


def test_a_fatal_error_ends_a_branch() -> None:
    text = 'set(A 1)\nif(MAYBE)\nmessage(FATAL_ERROR "no")\nendif()\nadd_library(ops SHARED a.cu)'
    assert ran(text).targets["ops"].when == "true"
    build = ran('if(UNIX)\nmessage(FATAL_ERROR "no")\nendif()\nadd_library(ops SHARED a.cu)')
    assert build.targets == {} and "stops here" in build.problems[0].message


def test_a_file_that_is_not_there() -> None:
    build = ran("include(${CMAKE_CURRENT_LIST_DIR}/gone.cmake)\nadd_library(ops SHARED a.cu)")
    assert [(p.line, p.message) for p in build.problems] == [
        (1, "includes a file that is not in this tree: gone.cmake")
    ]
    assert "ops" in build.targets


@pytest.mark.parametrize(
    "text",
    [
        "include(CMakeLists.txt)",
        "macro(m)\nm()\nendmacro()\nm()",
        "set(A a)\n" + "set(A ${A}${A})\n" * 40 + "add_library(ops SHARED a.cu)",
        "set(A a a)\n" + "foreach(i ${A})\nlist(APPEND A ${A})\n" * 20 + "endforeach()\n" * 20,
        "set(A ${A_${B_${C}}})\nif(${A} AND)\nendif()",
        'string(REGEX MATCH "(a+)+b" X aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa)\nif(X MATCHES "(a+)+$")\nendif()',
    ],
)
def test_hostile_files_end(text: str) -> None:
    ran(text)


def test_any_bytes_end_without_an_exception() -> None:
    rng = random.Random(7)
    pieces = [
        "if(",
        ")",
        "(",
        '"',
        "[[",
        "]]",
        "${",
        "}",
        "\\",
        "\n",
        "set",
        "#",
        "$<",
        ">",
        ";",
        "endif()",
        "a",
    ]
    for _ in range(300):
        text = "".join(rng.choice(pieces) for _ in range(rng.randint(1, 60)))
        ran(text)
