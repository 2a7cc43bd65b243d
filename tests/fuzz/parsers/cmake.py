"""CMake files, read and run three-valued."""

from __future__ import annotations

from auditor.native.cmake.eval import Evaluator
from auditor.native.cmake.flags import built_by_flags, built_by_property
from auditor.native.cmake.parse import read
from auditor.native.sources.libraries import cuda_variables

WORDS = (
    b"if(", b")\n", b"elseif(", b"else()\n", b"endif()\n", b"foreach(i RANGE 1 99999999)\n", b"foreach(i IN LISTS A)\n", b"endforeach()\n", b"while(1)\n",
    b"endwhile()\n", b"function(f)\n", b"endfunction()\n", b"macro(f)\n", b"endmacro()\n", b"f(f)\n", b"${", b"}", b"${A}", b"$ENV{A}", b"[==[", b"]==]", b"#[[",
    b"$<", b"$<IF:1,a,b>", b"STREQUAL", b"VERSION_GREATER_EQUAL", b"MATCHES", b'"(a+)+$"', b"include(x.cmake)\n", b"include(CMakeLists.txt)\n",
    b"add_subdirectory(.)\n", b"list(APPEND A ", b"list(TRANSFORM ", b"string(REGEX REPLACE ", b"string(REPEAT x 999999999 A)\n", b"math(EXPR A \"1 << 99999999\")\n",
    b"math(EXPR A \"9**9**9\")\n", b"set(A ${A}${A})\n", b"file(GLOB A \"*\")\n", b"NOT ", b" AND ", b" OR ", b"(" * 400, b"add_library(ops SHARED a.cu)\n",
    b"target_compile_options(ops PRIVATE -gencode arch=compute_120a,code=sm_120a)\n", b"set_property(TARGET ops PROPERTY CUDA_ARCHITECTURES 90a)\n",
    b"cmake_parse_arguments(A \"\" \"\" \"\" ${ARGN})\n", b"return()\n", b"break()\n", b"unset(A)\n",
)  # fmt: skip
SEEDS = (
    b"cmake_minimum_required(VERSION 3.26)\nset(A 1;2;3)\nif(CUDA_VERSION VERSION_GREATER_EQUAL 12.8 AND NOT B)\n  list(APPEND F -gencode=arch=compute_120a,code=sm_120a)\n"
    b'elseif(A MATCHES "1.*")\n  foreach(i IN LISTS A)\n    set(F ${F} ${i})\n  endforeach()\nendif()\nadd_library(ops SHARED a.cu csrc/b.cu)\n'
    b"target_compile_options(ops PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:${F}>)\n",
    b'function(add_one NAME)\n  cmake_parse_arguments(ARG "X" "Y" "Z" ${ARGN})\n  math(EXPR N "1 + ${ARG_Y}")\n  string(REGEX REPLACE "a(.)" "\\\\1" OUT "abc")\n'
    b"  set(R ${OUT}${N} PARENT_SCOPE)\nendfunction()\nadd_one(n Y 3 Z a b)\ninclude(x.cmake)\nadd_subdirectory(sub)\n",
    b'set(X [==[a ]] b]==]) # c\n#[[ d\n ]]\nwhile(I LESS 3)\n math(EXPR I "${I} + 1")\nendwhile()\noption(O "o" ON)\nset_property(TARGET t PROPERTY CUDA_ARCHITECTURES 90a)\n',
)


def one_input(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    read(text)
    tree = {
        "CMakeLists.txt": text,
        "x.cmake": "set(FROM_X 1)\n",
        "sub/CMakeLists.txt": "add_library(s b.cu)\n",
        "a.cu": "",
        "csrc/b.cu": "",
    }
    build = Evaluator(tree.get, tree, cuda_variables("13.0", "x86_64"), "").run("CMakeLists.txt")
    for target in build.targets.values():
        built_by_flags(tuple(target.options))
        built_by_property(target.properties.get("CUDA_ARCHITECTURES", ()))
