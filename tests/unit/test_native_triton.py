"""Triton kernels: which there are, their configurations, what may be compiled, and what they need."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import msgspec
import pytest

from auditor.arch import load_targets
from auditor.errors import UserError
from auditor.gates.reading import for_all_targets
from auditor.native.model import Row
from auditor.native.triton.list import TritonProgram
from auditor.native.triton.rows import Signature, signatures, triton_rows
from auditor.native.triton.safe import refusal
from auditor.profile import load_profile

TARGETS = {n: t for n, t in load_targets().items() if n in ("sm_90", "sm_120")}
TRITON = importlib.util.find_spec("triton") is not None
needs_triton = pytest.mark.skipif(
    not TRITON, reason="no triton: what kernels need is not compiled (pip install triton)"
)

KERNELS = '''
"""
@triton.jit
def in_a_text(): pass
"""
import os
import torch
import triton
import triton.language as tl
from triton import jit as compiled_later

SCALE = tl.constexpr(2.0)
WIDE = [64, 128]
DEPTH = int(os.getenv("APP_DEPTH", "3"))
NEW = torch.cuda.get_device_capability()[0] >= 10


@triton.jit
def helper(x):
    return tl.exp(x) * SCALE


@triton.autotune(
    configs=[
        triton.Config({"BM": 64, "BN": bn, "BK": 64}, num_warps=w, num_stages=DEPTH)
        for bn in WIDE
        for w in [4, 8]
        if bn <= 16 * w
    ],
    key=["M"],
)
@triton.jit
def tuned(a, b, c, M, stride, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.arange(0, BN)
    deep = tl.arange(0, BK)
    acc = tl.zeros([BM, BN], dtype=tl.float32)
    for k in range(0, M, BK):
        x = tl.load(a + rows[:, None] * stride + (k + deep)[None, :])
        y = tl.load(b + (k + deep)[:, None] * stride + cols[None, :])
        acc += tl.dot(x, y)
    tl.store(c + rows[:, None] * stride + cols[None, :], helper(acc).to(tl.bfloat16))


@triton.autotune(configs=[triton.Config({"B": 32 if NEW else 16})], key=[])
@compiled_later(do_not_specialize=["n"])
def by_target(a, n, B: tl.constexpr):
    tl.store(a + tl.arange(0, B), n)


@triton.autotune(configs=made_elsewhere(), key=[])
@triton.jit
def open_configs(a):
    tl.store(a, 0)


class Holder:
    @staticmethod
    @triton.jit
    def inside(a):
        tl.store(a, 0)


@torch.jit.script
def not_triton(a):
    return a
'''

TUNED = Signature(
    kernels=("app.kernels.tuned",),
    why="a test",
    arguments={"a": "*bf16", "b": "*bf16", "c": "*bf16", "M": "i32", "stride": "i32"},
    divisible=("M", "stride"),
)


def profile():
    return msgspec.structs.replace(load_profile("sglang"), package="app")


def project(text: str = KERNELS) -> dict[str, bytes]:
    return {"app/__init__.py": b"", "app/kernels.py": text.encode()}


def rows(text: str = KERNELS, *, compiled: bool = False, declared: dict | None = None) -> dict[str, Row]:
    found = triton_rows(project(text), "", profile(), TARGETS, compiled=compiled, declared=declared or {})
    return {row.name.removeprefix("triton::").removeprefix("kernels."): row for row in found}


def test_kernels_are_found_by_what_their_decorators_are() -> None:
    assert list(rows()) == ["helper", "tuned", "by_target", "open_configs", "Holder.inside"]
    row = rows()["tuned"]
    assert KERNELS.split("\n")[row.line - 1].startswith("def tuned")


def test_configurations_are_read_with_their_loops_and_filters_per_target() -> None:
    program = for_all_targets(TritonProgram, project(), "", profile(), {"defaults": "yes"})
    kernels = {k.qualname: k for k in program.kernels()}
    at = list(load_targets()).index("sm_120")
    assert [c.text for c in kernels["tuned"].configs[at] or ()] == [
        "BM 64, BN 64, BK 64, num_stages 3, num_warps 4",
        "BM 64, BN 64, BK 64, num_stages 3, num_warps 8",
        "BM 64, BN 128, BK 64, num_stages 3, num_warps 8",
    ]
    old = list(load_targets()).index("sm_90")
    assert [c.text for c in kernels["by_target"].configs[at] or ()] == ["B 32"]
    assert [c.text for c in kernels["by_target"].configs[old] or ()] == ["B 16"]


def test_what_is_not_checked_says_why() -> None:
    found = {name: row.cells["sm_120"] for name, row in rows(declared={"app.kernels.tuned": TUNED}).items()}
    assert {cell.outcome for cell in found.values()} == {"unknown"}
    assert found["helper"].reason == "unchecked: no signature is declared; not tuned"
    assert found["tuned"].reason == "unchecked: not asked to compile; 3 configurations"
    assert found["by_target"].reason == "unchecked: no signature is declared; 1 configuration"
    assert found["open_configs"].reason.startswith("unchecked: its configurations are not known; ")


def kernel(body: str, head: str = "def k(a, n):") -> ast.FunctionDef:
    node = ast.parse(head + "\n" + "\n".join(f"    {line}" for line in body.split("\n"))).body[0]
    assert isinstance(node, ast.FunctionDef)
    return node


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("import os", "line 2: Import"),
        ("os.system('x')", "line 2: the attribute system"),
        ("open('x')", "line 2: the name open"),
        ("a.__class__", "line 2: the attribute __class__"),
        ("tl.core.__loader__", "line 2: the attribute __loader__"),
        ("''.join(a)", "line 2: the attribute join"),
        ("getattr(a, 'x')", "line 2: the name getattr"),
        ("a[0](n)", "line 2: a call of something that is computed"),
        ("a(n)", "line 2: a call of a value"),
        ("f = range\nf(3)", "line 3: a call of a value"),
        ("x = lambda: 0", "line 2: Lambda"),
        ("x = [i for i in a]", "line 2: ListComp"),
        ("def g(): pass", "line 2: FunctionDef"),
        ("global n", "line 2: Global"),
        ("tl = a", "gives a name of Triton another meaning"),
        ("range(*a)", "line 2: a call with arguments that are not listed"),
        ("with a: pass", "line 2: With"),
        ("x = f'{a}'", "line 2: JoinedStr"),
        ("x = yield a", "line 2: Yield"),
        ("try:\n    pass\nexcept: pass", "line 2: Try"),
    ],
)
def test_only_what_cannot_run_code_is_handed_on(body: str, said: str) -> None:
    why = refusal(kernel(body), frozenset())
    assert why is not None
    assert why.startswith(said)


def test_defaults_and_open_arguments_are_refused() -> None:
    assert (
        refusal(kernel("pass", "def k(a, n=print()):"), frozenset())
        == "line 1: a default that is not a constant"
    )
    assert refusal(kernel("pass", "def k(*a):"), frozenset()) == "takes arguments that are not listed"
    fine = "x = tl.load(a + tl.arange(0, 16))\nif n > 1:\n    x = helper(x).to(tl.float32)\ntl.store(a, x)"
    assert refusal(kernel(fine), frozenset({"helper"})) is None


@needs_triton
def test_shared_memory_of_every_configuration_against_each_target() -> None:
    row = rows(compiled=True, declared={"app.kernels.tuned": TUNED})["tuned"]
    cell = row.cells["sm_120"]
    assert cell.outcome == "runs"
    assert "of shared memory of 101,376" in cell.reason
    assert [step.text for step in cell.proof[1:]] == [
        "BM 64, BN 64, BK 64, num_stages 3, num_warps 4: 32,768 bytes of shared memory",
        "BM 64, BN 64, BK 64, num_stages 3, num_warps 8: 32,768 bytes of shared memory",
        "BM 64, BN 128, BK 64, num_stages 3, num_warps 8: 49,152 bytes of shared memory",
    ]


@needs_triton
def test_a_configuration_that_does_not_fit_is_no_error_of_the_compiler() -> None:
    wide = KERNELS.replace("WIDE = [64, 128]", "WIDE = [64, 256]").replace("bn <= 16 * w", "bn <= 32 * w")
    wide = wide.replace('"APP_DEPTH", "3"', '"APP_DEPTH", "5"')
    row = rows(wide, compiled=True, declared={"app.kernels.tuned": TUNED})["tuned"]
    assert row.cells["sm_120"].outcome == "runs"
    assert row.cells["sm_120"].reason.startswith("2 of 3 configurations fit: ")
    assert row.cells["sm_120"].reason.endswith("too much for BM 64, BN 256, BK 64, num_stages 5, num_warps 8")
    assert row.cells["sm_90"].reason.startswith("3 configurations: ")
    only = wide.replace("WIDE = [64, 256]", "WIDE = [256]")
    row = rows(only, compiled=True, declared={"app.kernels.tuned": TUNED})["tuned"]
    assert row.cells["sm_120"].outcome == "raises"
    assert row.cells["sm_120"].reason.startswith("none of its configurations fits: ")


@needs_triton
def test_a_kernel_that_could_run_code_is_not_compiled(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    for attack in (
        f"tl.core.os.system('touch {mark}')",
        f"tl.core.builtins.open('{mark}', 'w')",
        f"tl.extra.sys.modules['os'].system('touch {mark}')",
        f"tl.semantic.warnings.sys.modules['os'].system('touch {mark}')",
    ):
        text = KERNELS.replace("    acc = tl.zeros", f"    {attack}\n    acc = tl.zeros")
        cell = rows(text, compiled=True, declared={"app.kernels.tuned": TUNED})["tuned"].cells["sm_120"]
        assert cell.outcome == "unknown"
        assert cell.reason.startswith("unchecked: not handed to the compiler: ")
    assert not mark.exists()


@needs_triton
def test_what_does_not_compile_or_lacks_a_type_is_unchecked() -> None:
    less = msgspec.structs.replace(TUNED, arguments={"a": "*bf16"})
    cell = rows(compiled=True, declared={"app.kernels.tuned": less})["tuned"].cells["sm_120"]
    assert cell.reason == "unchecked: nothing is declared for b, c, M, stride; 3 configurations"
    wrong = msgspec.structs.replace(TUNED, arguments={**TUNED.arguments, "a": "*i32"})
    cell = rows(compiled=True, declared={"app.kernels.tuned": wrong})["tuned"].cells["sm_120"]
    assert cell.outcome == "unknown"
    assert "CompilationError" in cell.reason


def test_asking_to_compile_without_triton_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from auditor.native import availability as native

    monkeypatch.setattr(native, "compiler_version", lambda: None)
    with pytest.raises(UserError) as caught:
        native.availability(None, native.KernelOptions(("sm_120",), compile=True))  # type: ignore[arg-type]
    assert (caught.value.code, caught.value.hints) == ("N030", ("pip install triton",))


def test_the_shipped_signatures_are_read() -> None:
    found = signatures()
    assert len({id(s) for s in found.values()}) >= 5
    assert all(s.why and s.arguments for s in found.values())


def test_a_kernel_declared_twice_is_one_clear_error(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_bytes(msgspec.yaml.encode(msgspec.to_builtins(TUNED)))
    with pytest.raises(UserError) as caught:
        signatures(tmp_path)
    assert caught.value.code == "Q051"
    assert "app.kernels.tuned is declared twice" in caught.value.fact
