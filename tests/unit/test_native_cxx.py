"""C++ text: comments, conditions of the preprocessor, definitions, registrations with PyTorch."""

from __future__ import annotations

import random

import pytest

from auditor.native.cxx.index import source_of
from auditor.native.cxx.ops import registrations
from auditor.native.cxx.parse import closed_checks
from auditor.native.sources.text import Expression, Number, hollowed, prepare, without_comments

MACROS: dict[str, str | Number | None] = {
    "VERSION": "12080",
    "ON": "1",
    "OPEN": Number(None, ("OPEN is not known",)),
}


def test_comments_go_and_lines_stay() -> None:
    text = 'a /* x\n y */ b // c\nconst char* u = "http://x"; // d\nchar q = \'"\'; /* e */ f\\\n'
    bare = without_comments(text)
    assert bare.count("\n") == text.count("\n")
    assert "http://x" in bare and "x\n y" not in bare and "// d" not in bare and "e */" not in bare
    assert bare.splitlines()[1].split() == ["b"]
    assert len(hollowed("f(\"{(\", '{', x) /* } */")) == len("f(\"{(\", '{', x) /* } */")
    assert "{" not in hollowed("f(\"{(\", '{', x) /* } */")


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("VERSION >= 12080 && defined(ON)", 1),
        ("defined NOT_ME || VERSION < 12000", 0),
        ("!defined(NOT_ME)", 1),
        ("OPEN", None),
        ("OPEN && defined(NOT_ME)", 0),
        ("OPEN || ON", 1),
        ("(VERSION / 1000) % 100 == 12", 1),
        ("ON ? 3 : OPEN", 3),
        ("NOT_ME", 0),
        ("0x10 == 16 && 1'000 == 1000", 1),
        ("__has_include(<x.h>)", None),
        ("1 +", None),
        ("@", None),
        ("1 / 0", None),
    ],
)
def test_expressions(expression: str, value: int | None) -> None:
    assert Expression(expression, MACROS.get).value().value == value


def test_conditions_are_decided() -> None:
    text = (
        "#define LOCAL 3\n#if LOCAL == 3\nkeep1\n#elif ON\ndrop1\n#else\ndrop2\n#endif\n"
        "#ifndef ON\ndrop3\n#endif\n#ifdef OPEN\nmaybe\n#else\nother\n#endif\nend"
    )
    prepared = prepare(text, MACROS.get)
    words = prepared.text.split()
    assert words == ["keep1", "maybe", "end"]
    assert prepared.text.count("\n") == text.count("\n")
    (unsure,) = prepared.unsure
    assert (unsure.line, unsure.last, unsure.why) == (12, 16, ("OPEN is not known",))
    assert prepare(text, MACROS.get, {12: False}).text.split() == ["keep1", "other", "end"]


def test_definitions_are_found_by_their_braces() -> None:
    text = """
namespace a { namespace b {
struct Box : Base<int> { Box(int n) : n_(n), m_{0} { go(); } int get() const { return n_; }
  int operator()(int x) { return x; } };
template <typename T, int N = 3>
__global__ void __launch_bounds__(128) kernel(T* p, int n) { if (n) { p[0] = '{'; } }
static inline auto late(int x) -> std::vector<int> { return {x}; }
using Other = Box<1>;
int declared(int);
}}
int a::b::outer(int x) { using Inner = int; auto f = [&](int y) { return y; }; char* s = "}"; return f(x);}
int table[] = {1, 2};
enum class E { A, B };
extern "C" { void plain() {} }
"""
    source = source_of("f.cu", text, lambda name: None)
    found = {name: [(d.line, d.owner, d.template) for d in there] for name, there in source.functions.items()}
    assert found["kernel"] == [(6, "", True)] and "__global__" in source.functions["kernel"][0].head
    assert found["outer"] == [(11, "b", False)] and found["plain"] == [(14, "", False)]
    assert found["get"] == [(3, "Box", False)] and found["operator()"] == [(4, "Box", False)]
    assert [d[0] for d in found["late"]] == [7] and "Box" in source.types
    assert set(source.aliases) == {"Other"} and "declared" in source.declared
    assert "if" not in found and "E" not in source.types


def test_registrations() -> None:
    text = """
TORCH_LIBRARY_FRAGMENT(lib, m) {
  m.def("one(Tensor a, "
        "int b=3) -> Tensor");
  m.impl("one", torch::kCUDA, &ns::one_cuda);
  m.impl("one", c10::DispatchKey::CPU, TORCH_FN(one_cpu));
  m.def("two", &two);
  m.def("three(Tensor! a) -> ()", {at::Tag::needs_fixed_stride_order});
  m.impl("three", torch::kCUDA, make_shim(&three<int>));
  if (true) { m.def("four() -> ()", torch::dispatch(torch::kCUDA, &four)); }
  m.def(NAME, &five);
}
TORCH_LIBRARY_IMPL(other, CUDA, reg) { reg.impl("six.out", [](int a) { return a; }); }
TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) { ops.def(torch::schema("seven(int x) -> int")); }
#define TORCH_LIBRARY(a, b) nothing(a, b) {
"""
    found = registrations(prepare(text, lambda name: None).text, "my_ops")
    got = [(op.namespace, op.name, op.key, op.function, op.line) for op in found.ops]
    assert got == [
        ("lib", "one", "", "", 3),
        ("lib", "one", "CUDA", "ns::one_cuda", 5),
        ("lib", "one", "CPU", "one_cpu", 6),
        ("lib", "two", "CatchAll", "two", 7),
        ("lib", "three", "", "", 8),
        ("lib", "three", "CUDA", "three", 9),
        ("lib", "four", "CUDA", "four", 10),
        ("other", "six.out", "CUDA", "lambda", 13),
        ("my_ops", "seven", "", "", 14),
    ]
    assert found.ops[0].schema == "one(Tensor a, int b=3) -> Tensor"
    assert [fault[0] for fault in found.faults] == [11]


def test_a_block_without_an_end_is_a_fault() -> None:
    found = registrations('TORCH_LIBRARY(lib, m) {\n  m.def("one() -> ()");\n', "")
    assert [op.name for op in found.ops] == ["one"]
    assert found.faults[0][0] == 1 and "no end" in found.faults[0][1]


def test_checks_without_their_semicolon() -> None:
    body = '{\n  MY_CHECK(a == b, "x (")\n  auto c = 1;\n  MY_CHECK(c);\n}'
    closed = closed_checks(body)
    assert closed == '{\n  MY_CHECK(a == b, "x (");\n  auto c = 1;\n  MY_CHECK(c);\n}'


def test_any_text_ends_without_an_exception() -> None:
    rng = random.Random(11)
    pieces = [
        "{",
        "}",
        "(",
        ")",
        "#if X\n",
        "#endif\n",
        "#else\n",
        "struct A",
        "f",
        ";",
        '"',
        "'",
        "/*",
        "*/",
        "//",
        "\n",
    ]
    pieces += ["TORCH_LIBRARY(a, m)", 'm.def("x")', "<", ">", "::", "template", "operator", "~", ":", ","]
    for _ in range(400):
        text = "".join(rng.choice(pieces) for _ in range(rng.randint(1, 60)))
        source_of("f.cu", text, MACROS.get)
        registrations(prepare(without_comments(text), MACROS.get).text)
