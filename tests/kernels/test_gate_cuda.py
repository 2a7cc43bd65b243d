"""CUDA kernels of a patchset: compiled by nvcc where it is there, and said where it is not."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from auditor.errors import UserError
from auditor.patching.kernels import gate as gates
from auditor.patching.kernels.declared import declared_kernels, undeclared
from auditor.patching.sets.patchset import load_patchset
from tests.kernels.gateset import gate, patchset, rows
from tests.kernels.test_gate_compiled import pytestmark as needs_triton

pytestmark = needs_triton
TEXT = """
#include <cuda_fp16.h>
#include <mma.h>
template <int N> __device__ float sum(const float* x) {
  float s = 0;
  for (int i = 0; i < N; ++i) s += x[i];
  return s;
}
extern "C" __global__ void add(float* x) {
  extern __shared__ float held[];
  held[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = sum<WIDTH>(held);
}
__global__ void product(const half* a, const half* b, float* c) {
  using namespace nvcuda::wmma;
  fragment<matrix_a, 16, 16, 16, half, row_major> x;
  fragment<matrix_b, 16, 16, 16, half, col_major> y;
  fragment<accumulator, 16, 16, 16, float> z;
  fill_fragment(z, 0.0f);
  load_matrix_sync(x, a, 16);
  load_matrix_sync(y, b, 16);
  mma_sync(z, x, y, z);
  store_matrix_sync(c, z, 16, mem_row_major);
}
"""
ADD: dict[str, Any] = {
    "file": "ops.cu",
    "function": "add",
    "language": "cuda",
    "configs": [{"WIDTH": 8, "BYTES": 101376}, {"WIDTH": 8, "BYTES": 102400}],
    "threads": 128,
    "shared": "BYTES",
    "tensor-cores": "none",
    "launch": {"grid": ["B"], "tiles": "B", "shapes": [{"B": 4}]},
}
PRODUCT = {**ADD, "function": "product", "configs": [{"WIDTH": 8}], "threads": 32, "shared": 0}
PRODUCT["tensor-cores"] = "required"
NONE = "def nothing(): pass\n"


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc: CUDA kernels are not compiled here")
def test_a_cuda_kernel_is_compiled_by_nvcc(tmp_path: Path) -> None:
    report = gate(tmp_path, ADD, PRODUCT, text=NONE, more={"ops.cu": TEXT})
    fits, over = rows(report, "add")
    assert fits.ok and fits.arch == "sm_120a" and (fits.shared, fits.threads) == (101376, 128)
    assert over.reasons == ("102,400 bytes of shared memory: 1,024 more than the 101,376 of a block",)
    (product,) = rows(report, "product")
    assert product.ok and product.tensor == {"HMMA": 2} and product.threads == 32
    assert report.failures == ()
    broken = gate(tmp_path / "b", ADD, text=NONE, more={"ops.cu": TEXT.replace("sum<WIDTH>", "total<WIDTH>")})
    assert "not compiled: " in broken.rows[0].reasons[0] and "total" in broken.rows[0].reasons[0]
    assert broken.failures[-1] == "files/ops.cu:15: the kernel product is not declared by any patch"


def test_without_nvcc_a_cuda_kernel_is_no_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gates, "find_nvcc", lambda: None)
    report = gate(tmp_path, PRODUCT, ADD, text=NONE, more={"ops.cu": TEXT})
    assert not report.ok
    assert [row.reasons for row in report.rows] == [("not compiled: no nvcc here",)] * 3
    assert report.notes == (
        "ops.cu product: not compiled, no nvcc here",
        "ops.cu add: not compiled, no nvcc here",
    )


def test_what_a_cuda_declaration_lacks(tmp_path: Path) -> None:
    for change, fact in (
        ({"threads": 0}, "`threads` is missing"),
        ({"function": "sum"}, "no __global__ function sum in it"),
        ({"configs": "TABLE"}, "configurations of a CUDA kernel are listed here"),
    ):
        with pytest.raises(UserError, match=fact) as caught:
            place = patchset(tmp_path, {**ADD, **change}, text=NONE, more={"ops.cu": TEXT})
            declared_kernels(load_patchset(place))
        assert caught.value.code == "P090"
    known = declared_kernels(
        load_patchset(patchset(tmp_path, ADD, PRODUCT, text=NONE, more={"ops.cu": TEXT}))
    )
    assert undeclared(load_patchset(tmp_path / "mine"), known) == ()
