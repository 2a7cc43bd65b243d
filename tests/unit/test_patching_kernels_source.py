"""What is read of a file with kernels: values of its constants, tables of configurations, names."""

from __future__ import annotations

import pytest

from auditor.native.triton.build import Outside
from auditor.patching.kernels.source import KernelFile, Wrong, configs_of, literal, read_file, source_of

HEAD = (
    "import triton\nimport triton.language as tl\nfrom triton.language import constexpr\nimport os.path\n"
    "from triton import Config as C\n"
)


def read(text: str, path: str = "a/k.py") -> KernelFile:
    return read_file(path, (HEAD + text).encode())


VALUES = [
    ("X = -(2 + 3) * 4\n", -20),
    ("X: int = 7 // 2 % 2\nY: int\n", 1),
    ("X = 3 / 2 - 1\n", 0.5),
    ("Y = 4\nX = [Y, (1, 'a')]\n", (4, (1, "a"))),
    ("X = {'a': 1, (1, 2): None}\n", {"a": 1, (1, 2): None}),
    ("X = tl.constexpr(5)\n", 5),
    ("X = constexpr(6)\n", 6),
    ("X = triton.Config({'M': 16}, num_warps=4)\n", {"M": 16, "num_warps": 4}),
    ("X = C({'M': 16})\n", {"M": 16}),
    ("X = tl.float32\n", Outside("triton.language.float32")),
    ("if a:\n    X = 1\nelse:\n    Y = 2\n", 1),
    ("try:\n    import y\nexcept ImportError:\n    pass\nfinally:\n    X = 2\n", 2),
    ("X = 1\ny = [X for X in range(3)]\ndef f(X):\n    X = 2\n", 1),
]


@pytest.mark.parametrize("text, value", VALUES)
def test_a_value(text: str, value: object) -> None:
    file = read(text)
    assert literal(file.constants["X"], file) == value


NONE = [
    ("X = f()\n", "f() is no constant that can be read"),
    ("X = -'a'\n", "-'a' is no constant that can be read"),
    ("X = 'a' + 'b'\n", "'a' + 'b' is no constant that can be read"),
    ("X = 1 ** 2\n", "1 ** 2 is no constant that can be read"),
    ("X = 1 / 0\n", "1 / 0 is no constant that can be read"),
    ("X = {1.5: 2}\n", "{1.5: 2} is no constant that can be read"),
    ("X = {**a}\n", "{**a} is no constant that can be read"),
    ("X = b'a'\n", "b'a' is no constant that can be read"),
    ("X = triton.Config(3)\n", "triton.Config(3) is no constant that can be read"),
    ("X = triton.cdiv(3, 2)\n", "triton.cdiv(3, 2) is no constant that can be read"),
    *(
        (text, "a constant that leads to itself")
        for text in (
            "X = Y\nY = X\n",
            "X = 1\nX = 2\n",
            "X = 1\nX += 1\n",
            "X = 1\nX, Y = 2, 3\n",
            "for i in (1, 2):\n    pass\nX = 1\nfor X in (1, 2):\n    pass\n",
            "X = 1\nwith open('a') as X:\n    pass\n",
            "X = 1\nwhile a:\n    X = 2\n",
            "X = 1\ndef f():\n    global X\n    X = 2\n",
            "X = 1\nif (X := 2):\n    pass\n",
            "X = 1\ndel X\n",
        )
    ),
]


@pytest.mark.parametrize("text, fact", NONE)
def test_what_has_no_value(text: str, fact: str) -> None:
    file = read(text)
    with pytest.raises(Wrong) as error:
        literal(file.constants["X"], file)
    assert str(error.value) == fact and error.value.line > 5


TABLES = [
    ("T = [{'M': 1}] * 2\n", "[{'M': 1}] * 2 is no constant that can be read"),
    ("T = [" + "{'M': 1}, " * 257 + "]\n", "T holds more than 256 configurations"),
    ("T = [{1: 2}]\n", "T holds a configuration with a key that is no name"),
    ("T = []\n", "T is no list of configurations, each a dict"),
    ("T = 3\n", "T is no list of configurations, each a dict"),
    ("U = 3\n", "no constant T in it"),
]


@pytest.mark.parametrize("text, fact", TABLES)
def test_no_table_of_configurations(text: str, fact: str) -> None:
    with pytest.raises(Wrong) as error:
        configs_of(read(text), "T")
    assert str(error.value) == fact


def test_a_table_by_names() -> None:
    assert configs_of(read("T = {'small': {'M': 1}, 'large': C({'M': 2})}\n"), "T") == ({"M": 1}, {"M": 2})


KERNEL = "@triton.jit\ndef k(x):\n    return {}\n"
SOURCES = [
    ("def k(x): ...\n", "k is no kernel: neither triton.jit nor gluon.jit is on it"),
    ("@triton.jit\ndef q(x): ...\n", "no function k in it (kernels in it: q)"),
    (KERNEL.format("k(x)"), "k calls itself, or kernels more than 8 deep"),
    (KERNEL.format("y"), "the name y is neither a constant, nor a kernel, nor of Triton's language"),
    (
        "from a.k import z\n" + KERNEL.format("z"),
        "the name z is neither a constant, nor a kernel, nor of Triton's language",
    ),
]


@pytest.mark.parametrize("text, fact", SOURCES)
def test_what_is_no_kernel_with_all_its_names(text: str, fact: str) -> None:
    file = read(text)
    with pytest.raises(Wrong) as error:
        source_of(file, "k", {"a.k": file}.get)
    assert str(error.value) == fact


def test_names_of_other_files() -> None:
    other = read("Z = 3\n", "a/other.py")
    file = read("from .other import Z\nY = 2\n" + KERNEL.format("x + Y + Z + tl.arange(0, 4)"))
    found = source_of(file, "k", {"a.other": other}.get)
    assert found.names == {"Y": 2, "Z": 3, "tl": Outside("triton.language")}
    assert not found.gluon
