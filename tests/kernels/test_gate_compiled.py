"""The gate on kernels that are compiled: what fits passes, one KiB more does not, and so on."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import jsonschema
import pytest

from auditor.data import data_root
from auditor.native.triton.build import compiler_version
from auditor.patching.kernels.pin import TRITON
from auditor.patching.kernels.report import GateReport, gate_schema, report_json
from tests.kernels.gateset import GLUON, KERNELS, PRODUCT, SHARED, SPILLING, gate, patchset, rows

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("triton") is None,
        reason="no triton: python -m pip install 'sglang-auditor[kernels]'",
    ),
    pytest.mark.skipif(
        importlib.util.find_spec("triton") is not None and compiler_version() != TRITON,
        reason=f"another Triton than {TRITON}",
    ),
]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> GateReport:
    """One run over everything, so that each kernel is compiled once."""
    small = [{"BM": 64, "BN": 64, "BK": 64, "num_warps": 4, "num_stages": 3}]
    product = {**PRODUCT, "configs": small}
    both = {**SHARED, "configs": [{"ROWS": 99, "num_warps": 4}, {"ROWS": 100, "num_warps": 4}]}
    return gate(tmp_path_factory.mktemp("gate"), product, SPILLING, both, GLUON)


def test_a_good_kernel_passes_with_its_figures(report: GateReport) -> None:
    row = rows(report, "product")[0]
    assert row.ok and row.reasons == () and row.arch == "sm_120a"
    assert (row.shared, row.threads, row.spill_stores, row.local_loads) == (32768, 128, 0, 0)
    assert row.tensor == {"HMMA": 32}
    assert 64 < row.registers <= 168 and row.blocks_per_sm == 3  # 3 * (32768 + 1024) of 102400 bytes
    assert row.limited_by == "shared memory" or row.registers > 160
    assert [(each.blocks, each.wanted) for each in row.launches] == [(64, 64)]


def test_one_kib_too_much_shared_memory_fails(report: GateReport) -> None:
    fits, over = rows(report, "in_shared")
    assert fits.shared == 101376 and fits.ok and fits.blocks_per_sm == 1
    assert over.shared == 102400 and not over.ok and over.blocks_per_sm == 0
    assert over.reasons == ("102,400 bytes of shared memory: 1,024 more than the 101,376 of a block",)
    assert not report.ok


def test_a_kernel_that_spills_fails(report: GateReport) -> None:
    row = rows(report, "product")[1]
    assert row.registers <= 40 and row.spill_stores > 0 and row.spill_loads > 0
    assert row.local_loads > 0 and row.local_stores > 0  # in the machine code too
    assert row.reasons == (
        f"spills registers: {row.spill_stores:,} bytes stored, {row.spill_loads:,} loaded",
    )


def test_gluon_passes(report: GateReport) -> None:
    (row,) = rows(report, "gluon_product")
    assert row.ok and row.language == "gluon" and row.tensor == {"HMMA": 32}


def test_the_report_is_the_same_again_and_follows_its_schema(report: GateReport, tmp_path: Path) -> None:
    again = gate(tmp_path, GLUON)  # from the cache where that is on
    assert rows(again, "gluon_product") == rows(report, "gluon_product")
    schema = json.loads((data_root() / "reports" / "schema" / "gate-1.json").read_bytes())
    jsonschema.validate(json.loads(report_json(report)), schema)
    assert json.loads(gate_schema()) == schema


def test_without_tensor_cores_it_fails_where_they_are_required(tmp_path: Path) -> None:
    wanting = {**SHARED, "configs": [{"ROWS": 4, "num_warps": 4}], "tensor-cores": "required"}
    found = gate(tmp_path, wanting, targets="[sm_121]")
    (row,) = found.rows
    assert row.arch == "sm_121a" and not row.ok
    assert row.reasons[0].startswith("no instruction of the tensor cores among ")
    assert found.failures[0] == "files/ops.py in_shared: none of its 1 configuration is good on sm_121"
    assert "files/ops.py:21: the kernel product is not declared by any patch" in found.failures
    assert not any("scaled" in failure for failure in found.failures)  # a part of another kernel


def test_what_does_not_compile_is_a_failure_with_the_compilers_words(tmp_path: Path) -> None:
    odd = {**SHARED, "configs": [{"ROWS": 0, "num_warps": 3}]}
    (row,) = gate(tmp_path, odd).rows
    assert not row.ok and row.arch == ""
    assert row.reasons[0].startswith("not compiled: ")


@pytest.mark.parametrize(
    "attack",
    [
        "gl.nvidia.hopper.tma.triton.os.system('true')",
        "gl.extra.libdevice.core.builtins.open('x')",
        "mma_v2.__globals__",
        "ampere.async_copy.ir.builder(c)",
        "gl.BlockedLayout.__init__.__globals__",
        "'{}'.format(c)",
    ],
)
def test_a_gluon_kernel_that_could_run_code_is_not_compiled(tmp_path: Path, attack: str) -> None:
    text = KERNELS.replace(
        "import mma_v2", "import mma_v2\nfrom triton.experimental.gluon.language.nvidia import ampere"
    )
    text = text.replace("    acc = mma_v2(", f"    {attack}\n    acc = mma_v2(")
    (row,) = gate(tmp_path, GLUON, text=text).rows
    assert row.reasons[0].startswith("not compiled: not handed to the compiler: ")


def test_nothing_of_the_file_is_run(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    text = (
        "import pathlib\nimport triton\nimport triton.language as tl\n"
        f"pathlib.Path({str(mark)!r}).touch()\n"
        f"SIZE = pathlib.Path({str(mark)!r}).touch() or 16\n"
        "@triton.jit\ndef copy(a, N: tl.constexpr):\n    tl.store(a + tl.arange(0, N), N)\n"
    )
    kernel = {**SHARED, "function": "copy", "language": "triton", "signature": {"a": "*i32"}}
    found = gate(tmp_path, {**kernel, "constexprs": {"N": 32}, "configs": []}, text=text)
    assert found.ok and not mark.exists()


def test_the_command_says_it_and_its_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from auditor.cli.main import patches

    def run(*words: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["patches", "verify", *words])
        code = patches()
        return code, capsys.readouterr().out

    text = KERNELS[: KERNELS.index("@gluon.jit\ndef gluon_product")]
    good = {**SHARED, "configs": [{"ROWS": 99, "num_warps": 4}], "numerics": "tests/kernels/test_x.py"}
    small = {**PRODUCT, "configs": [{"BM": 64, "BN": 64, "BK": 64, "num_warps": 4, "num_stages": 3}]}
    place = str(patchset(tmp_path, good, small, text=text))
    code, shown = run(place, "--kernels")
    assert code == 0, shown
    assert "ops.py in_shared (gluon, ops) on sm_120; BYTES 1024\n" in shown
    assert "ROWS 99, num_warps 4                            101,376    40" in shown
    assert "✓ 2 kernels, 2 of 2 compilations hold on sm_120 (triton 3.6.0)" in shown
    assert shown.endswith("note: numerics: not run here; python -m pytest tests/kernels/test_x.py\n")
    over = {**good, "configs": [{"ROWS": 100, "num_warps": 4}]}
    place = str(patchset(tmp_path, over, small, text=text))
    code, shown = run(place, "--kernels", "--quiet")
    assert code == 1
    assert "BM 64" not in shown and "1,024 more than the 101,376 of a block" in shown
    code, shown = run(place, "--kernels", "--format", "json")
    assert code == 1
    found = json.loads(shown)
    assert [row["ok"] for row in found["rows"]] == [False, True]
    assert found["failures"] == ["files/ops.py in_shared: none of its 1 configuration is good on sm_120"]
