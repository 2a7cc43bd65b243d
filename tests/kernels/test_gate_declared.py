"""Declarations that their files do not hold, and a compiler that is not the right one: one clear error."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from auditor.arch import blocks_per_sm, load_targets
from auditor.errors import UserError
from auditor.native.triton.machine_code import Unreadable, instructions, resources, threads
from auditor.patching.kernels import pin
from auditor.patching.kernels.declared import declared_kernels, undeclared
from auditor.patching.kernels.formula import Wrong, names_of, value_of
from auditor.patching.kernels.launches import launches_of, wrong_declarations
from auditor.patching.sets.lint import lint_patchset
from auditor.patching.sets.patchset import load_patchset
from auditor.trees.workers import Lost, run_all
from tests.kernels.gateset import KERNELS, PRODUCT, SHARED, SPILLING, patchset


def refused(folder: Path, kernel: dict[str, Any], **more: Any) -> UserError:
    with pytest.raises(UserError) as caught:
        declared_kernels(load_patchset(patchset(folder, kernel, **more)))
    return caught.value


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        ({"function": "produce"}, "files/ops.py: no function produce in it (kernels in it: "),
        ({"language": "gluon"}, "product is a kernel of triton"),
        ({"configs": "TABLE"}, "files/ops.py: no constant TABLE in it"),
        ({"configs": "SCALE"}, "SCALE is no list of configurations, each a dict"),
        ({"signature": {**PRODUCT["signature"], "d": "i32"}}, "product has no parameter d"),
        (
            {"signature": {"a": "*bf16"}, "divisible": []},
            "nothing is declared for b, c, depth, stride of product",
        ),
        ({"signature": {**PRODUCT["signature"], "a": "bfloat"}}, "'bfloat' is no type of an argument"),
        ({"divisible": ["strides"]}, "strides stands in no signature"),
        ({"configs": [{"BM": 64, "BN": 64, "BK": 64, "num_warps": 0}]}, "num_warps is a number from 1"),
        ({"configs": [{"BM": 64, "BN": 64, "BK": 64, "CHUNK": 1}]}, "CHUNK in the configuration"),
        ({"launch": {**PRODUCT["launch"], "grid": ["M.x"]}}, "'M.x' is not arithmetic"),
        ({"launch": {**PRODUCT["launch"], "grid": ["M +"]}}, "'M +' is no formula"),
    ],
)
def test_a_declaration_that_its_file_does_not_hold(tmp_path: Path, change: dict[str, Any], fact: str) -> None:
    error = refused(tmp_path, {**PRODUCT, **change})
    assert error.code == "P090"
    assert fact in error.fact
    assert "mine/patches/ops.yaml:" in (error.place or "")
    found = [problem for problem in lint_patchset(tmp_path / "mine") if problem.code == "P090"]
    assert [problem.message for problem in found] == [error.fact]  # without a compiler


def test_a_missing_file_and_missing_targets(tmp_path: Path) -> None:
    assert refused(tmp_path, {**PRODUCT, "file": "other.py"}).code == "P024"
    error = refused(tmp_path / "b", PRODUCT, targets="[]")
    assert (error.code, error.hints) == ("P090", ("add `targets: [sm_120, sm_121]`",))
    with pytest.raises(UserError, match="declares a kernel"):
        declared_kernels(load_patchset(patchset(tmp_path / "c")))


def test_names_that_are_neither_constants_nor_kernels(tmp_path: Path) -> None:
    text = KERNELS.replace("SCALE = tl.constexpr(0.5)", "SCALE = open('x')")
    error = refused(tmp_path, PRODUCT, text=text)
    assert "open('x') is no constant that can be read" in error.fact
    text = KERNELS.replace("SCALE = tl.constexpr(0.5)", "SCALE = 1\nif triton:\n    SCALE = 2")
    assert "a constant that leads to itself" in refused(tmp_path / "b", PRODUCT, text=text).fact


def test_an_autotuner_that_tries_others_than_declared(tmp_path: Path) -> None:
    tuned = "@triton.autotune(configs=[triton.Config({'BM': 16})], key=[])\n@triton.jit\ndef product"
    error = refused(tmp_path, PRODUCT, text=KERNELS.replace("@triton.jit\ndef product", tuned))
    assert error.fact == "its autotuner tries others than those in CONFIGS"
    tuned = "@triton.autotune(configs=[made(c) for c in CONFIGS], key=[])\n@triton.jit\ndef product"
    text = KERNELS.replace("@triton.jit\ndef product", tuned)
    (found,) = declared_kernels(load_patchset(patchset(tmp_path / "b", PRODUCT, text=text)))
    assert [config.text for config in found.configs] == [
        "BM 64, BN 64, BK 64, num_warps 4, num_stages 3",
        "BM 128, BN 64, BK 64, num_warps 8, num_stages 3",
    ]


def test_helpers_of_another_file_and_every_variant(tmp_path: Path) -> None:
    shared = "import triton\nimport triton.language as tl\n\n@triton.jit\ndef half(x):\n    return x * 0.5\n"
    text = KERNELS.replace("SCALE = tl.constexpr(0.5)", "from example.shared import half")
    text = text.replace("x * SCALE", "half(x)")
    kernel = {**PRODUCT, "constexprs": {"BK": 64}, "variants": [{"BN": 64}, {"BN": 32}],
              "configs": [{"BM": 16, "splits": 2}, {"BM": 32, "splits": 4}],
              "launch": {**PRODUCT["launch"], "grid": ["cdiv(M, BM) * splits"]}}  # fmt: skip
    place = patchset(tmp_path, kernel, text=text, more={"example/shared.py": shared})
    known = declared_kernels(load_patchset(place))
    texts = [config.text for config in known[0].configs]
    assert texts == [
        "BN 64, BM 16, splits 2", "BN 32, BM 16, splits 2", "BN 64, BM 32, splits 4", "BN 32, BM 32, splits 4"
    ]  # fmt: skip
    left = undeclared(load_patchset(place), known)
    assert [line.rpartition("kernel ")[2].partition(" ")[0] for line in left] == [
        "in_shared",
        "gluon_product",
    ]


def test_a_compiler_that_is_not_there_or_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pin, "compiler_version", lambda: None)
    with pytest.raises(UserError) as caught:
        pin.the_version()
    assert caught.value.code == "P091"
    assert caught.value.hints == ("python -m pip install 'sglang-auditor[kernels]'",)
    monkeypatch.setattr(pin, "compiler_version", lambda: "3.9.0")
    with pytest.raises(UserError) as caught:
        pin.the_version()
    assert caught.value.code == "P092"
    assert caught.value.hints == (f"python -m pip install triton=={pin.TRITON}",)
    assert "3.9.0 is installed" in caught.value.fact
    monkeypatch.setattr(pin, "compiler_version", lambda: f"{pin.TRITON}+git1")
    assert pin.the_version() == f"{pin.TRITON}+git1"


def test_the_pin_is_what_the_extra_installs() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert re.findall(r'"triton==([\d.]+)', text) == [pin.TRITON]


def test_a_missing_assembler_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from auditor.trees import assembler

    for name in ("of_packages", "of_toolkit", "of_triton"):
        monkeypatch.setattr(assembler, name, lambda name: [])
    monkeypatch.setattr(assembler.shutil, "which", lambda name: None)
    for ask in (lambda: assembler.assembler_of((12, 0)), assembler.find_disassembler):
        with pytest.raises(UserError) as caught:
            ask()
        assert caught.value.code == "P093"
    assert assembler.find_nvcc() is None


def test_formulas() -> None:
    names = {"B": 4, "H": 60, "BH": 16, "flag": True, "text": "x"}
    assert value_of("cdiv(H, BH) * min(B, 8, 2) + H % 7 - -1", names) == 4 * 2 + 4 + 1
    assert value_of(7, {}) == 7 and value_of("flag * 3", names) == 3
    assert names_of("cdiv(H, BH) * min(B, 2)") == {"H", "BH", "B"}
    for formula, fact in {
        "X": "the name X stands for nothing", "text + 1": "text is 'x'", "B // 0": "division by zero",
        "cdiv(B, B - 4)": "division by zero", "B ** 9": "only + - *", "B << 3": "only + - *",
        "9" * 30: "more than 63 bits", "__import__('os')": "not arithmetic", "1.5": "not arithmetic",
        "cdiv(1, 2, 3)": "takes two numbers", "(lambda: 1)()": "not arithmetic",
    }.items():  # fmt: skip
        with pytest.raises(Wrong, match=re.escape(fact)):
            value_of(formula, names)


def test_blocks_per_sm_by_each_limit() -> None:
    target = load_targets()["sm_120"]

    def blocks(threads: int, registers: int, shared: int) -> tuple[int, str]:
        found = blocks_per_sm(target, threads=threads, registers=registers, shared=shared)
        return found.blocks, found.limit

    assert blocks(128, 255, 0) == (2, "registers")
    assert blocks(256, 128, 0) == (2, "registers") and blocks(256, 129, 0) == (1, "registers")
    assert blocks(128, 32, 50176) == (2, "shared memory") and blocks(128, 32, 50177) == (1, "shared memory")
    assert blocks(128, 32, 101376) == (1, "shared memory") and blocks(128, 32, 101377)[0] == 0
    assert blocks(32, 16, 0) == (24, "blocks") and blocks(1024, 32, 0) == (1, "warps")
    assert (target.sms, load_targets()["sm_121"].sms) == (188, 48)


REPORT = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k1' for 'sm_120a'
ptxas info    : Function properties for k1
    8 bytes stack frame, 104 bytes spill stores, 96 bytes spill loads
ptxas info    : Used 80 registers, used 1 barriers, 2048 bytes smem
ptxas info    : Compiling entry function 'k2' for 'sm_120a'
ptxas info    : Function properties for k2
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers
"""
CODE = """//--------------------- .text.k1 --------------------------
        /*0000*/                   LDC R1, c[0x0][0x37c] ;
        /*0010*/              @!P0 LDL.64 R2, [R1] ;
        /*0020*/                   STL [R1+0x8], R4 ;
        /*0030*/             @UP1  QMMA.16832.F32.E4M3.E4M3 R4, R8, R2, R4 ;
        /*0040*/                   HGMMA.64x64x16.F32 R24, gdesc[UR4], R24 ;
//--------------------- .text.k2 --------------------------
        /*0000*/                   UTCHMMA gdesc[UR4], gdesc[UR6], tmem[UR8] ;
        /*0010*/                   UTMALDG.2D [UR4], [UR6] ;
"""


def test_reports_and_listings_are_read() -> None:
    used = resources(REPORT, "k1")
    assert (used.registers, used.stack, used.spill_stores, used.spill_loads, used.shared) == (
        80,
        8,
        104,
        96,
        2048,
    )
    assert resources(REPORT, "k2").registers == 40
    for text, kernel in ((REPORT, ""), (REPORT, "k3"), ("ptxas info : nothing", "")):
        with pytest.raises(Unreadable):
            resources(text, kernel)
    first, second = instructions(CODE, kernel="k1"), instructions(CODE, kernel="k2")
    assert (first.local_loads, first.local_stores, first.tensor) == (1, 1, {"HGMMA": 1, "QMMA": 1})
    assert first.foreign == ("HGMMA",) and second.foreign == ("UTCHMMA",)
    assert first.total == 5
    ptx = ".target sm_90a\n// wgmma.x in a comment\n.reqntid 32, 2\n  tcgen05.mma.cta_group::1 [d], a, b;"
    assert instructions(CODE, ptx, "k1").foreign == ("HGMMA", "tcgen05")
    assert instructions(CODE, "wgmma.mma_async.sync", "k1").foreign == ("HGMMA", "wgmma")
    assert threads(ptx) == 64
    with pytest.raises(Unreadable):
        instructions("nothing")
    with pytest.raises(Unreadable):
        threads("nothing")


def _odd(job: int) -> int:
    import os
    import signal
    import time

    print("never shown")
    if job == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    if job == 4:
        raise OSError("the disk is full")
    if job == 2:
        time.sleep(60)
    return job * int(os.environ["GATE_TEST"])


def test_work_that_dies_or_never_ends_costs_itself_alone(capfd: pytest.CaptureFixture[str]) -> None:
    told: list[int] = []
    answers = run_all(
        _odd,
        [0, 1, 2, 3, 4],
        environment={"GATE_TEST": "7", "HOME": None},
        count=2,
        limit_s=2,
        done=told.append,
    )
    assert answers[0] == 0 and answers[3] == 21
    assert answers[1] == Lost("the compiler's process ended by signal 11")
    assert answers[2] == Lost("not done after 2 seconds")
    assert answers[4] == Lost("OSError: the disk is full")
    assert told == [1, 2, 3, 4, 5] and capfd.readouterr().out == ""


def test_all_of_it_has_declarations_that_are_good(tmp_path: Path) -> None:
    found = declared_kernels(
        load_patchset(patchset(tmp_path, PRODUCT, SPILLING, SHARED, targets="['sm_12?']"))
    )
    assert [target.name for target in found[0].targets] == ["sm_120", "sm_121"]
    launch = found[0].launch(found[0].configs[0])
    assert launch.divisible == {"a", "b", "c", "stride"}
    assert launch.options == {"num_warps": 4, "num_stages": 3}


def test_show_names_the_kernels_of_a_patch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from auditor.cli.main import patches

    place = str(patchset(tmp_path, PRODUCT, SHARED))
    monkeypatch.setattr("sys.argv", ["patches", "show", place, "ops"])
    assert patches() == 0
    shown = capsys.readouterr().out
    assert "kernel   product in files/ops.py (triton)\n" in shown
    assert "kernel   in_shared in files/ops.py (gluon)\n" in shown


def test_grids_against_what_could_work(tmp_path: Path) -> None:
    launch = {
        "let": {"unit": "B * cdiv(H, BM)", "parts": "max(1, min(n, SMS // unit))"},
        "grid": ["unit", "parts"],
        "tiles": "unit * n",
        "shapes": [
            {"B": 1, "H": 64, "n": 20},
            {"B": 4, "H": 64, "n": 20},
            {"B": 64, "H": 64, "n": 20, "BM": 16},
        ],
    }

    def asked(**more: Any) -> list[list[tuple[int, int]]]:
        kernel = {**PRODUCT, "launch": {**launch, **more}, "configs": [{"BM": 16, "BN": 64, "BK": 64}]}
        place = patchset(tmp_path, kernel, targets="[sm_120, sm_121]")
        (found,) = declared_kernels(load_patchset(place))
        return [
            [(each.blocks, each.wanted) for each in launches_of(found, found.configs[0], target)]
            for target in found.targets
        ]

    assert asked() == [[(80, 80), (176, 188), (256, 188)], [(48, 48), (48, 48), (256, 48)]]
    assert asked(step="unit") == [[(80, 80), (176, 176), (256, 188)], [(48, 48), (48, 48), (256, 48)]]
    # One block for each group of heads, however much there is to do: too few, with steps too.
    assert asked(step="unit", grid=["unit"])[0] == [(4, 80), (16, 176), (256, 188)]
    # A shape with another value of the configuration is not launched with it.
    shapes = [{"B": 1, "H": 64, "n": 20, "BM": 32}]
    assert asked(shapes=shapes) == [[], []]


@pytest.mark.parametrize(
    ("launch", "says"),
    [
        ({"step": "400"}, "80 blocks on sm_120 are no multiple of the step, 400"),
        ({"step": "3"}, "80 blocks on sm_120 are no multiple of the step, 3"),
        ({"step": "B - 1"}, "`step` comes to 0 on sm_120, so that the shape asks for nothing"),
        ({"step": "0 - 4"}, "`step` comes to -4 on sm_120, so that the shape asks for nothing"),
        ({"tiles": "B // 2"}, "`tiles` comes to 0 on sm_120, so that the shape asks for nothing"),
        ({"grid": ["B // 2", "80"]}, "`grid` comes to 0 on sm_120, so that the shape asks for nothing"),
    ],
)
def test_a_shape_always_asks_for_something(tmp_path: Path, launch: dict[str, Any], says: str) -> None:
    whole = {"grid": ["B", "80"], "tiles": "B * 80", "shapes": [{"B": 1}], **launch}
    kernel = {**PRODUCT, "launch": whole, "configs": [{"BM": 16, "BN": 64, "BK": 64}]}
    found = load_patchset(patchset(tmp_path, kernel, targets="[sm_120, sm_121]"))
    (error,) = wrong_declarations(found)
    assert (error.code, says in error.fact) == ("P090", True), error.fact
    shapes = [{"B": 1}]  # one block for each SM of sm_120, none for those of sm_121
    kernel["launch"] = {"grid": ["SMS // 100"], "tiles": "B", "shapes": shapes}
    (error,) = wrong_declarations(
        load_patchset(patchset(tmp_path / "121", kernel, targets="[sm_120, sm_121]"))
    )
    assert "`grid` comes to 0 on sm_121" in error.fact
