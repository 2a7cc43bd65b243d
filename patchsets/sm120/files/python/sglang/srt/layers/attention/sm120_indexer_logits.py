# SPDX-License-Identifier: Apache-2.0
"""Paged fp8 logits of the sparse-attention indexer for sm_120, in Triton.

For each query with H heads of 128 numbers, and each earlier entry t of its context:

    logit[t] = scale[t] * sum_h weight[h] * max(0, <q[h], k[t]>)

and -inf from the query's own length on. Only pages below that length are read, whatever width the page table
was made with: under a CUDA graph it is made for the longest context, while most contexts are short.

A page of the cache holds 64 entries in 64 * 132 bytes:

    [t * 128, + 128)          128 numbers, fp8 e4m3, of entry t
    [8192 + t * 4, + 4)       its scale, fp32
"""

from typing import Any

import torch
import triton
import triton.language as tl

PAGE = 64
HEAD_DIM = 128
PAGE_BYTES = PAGE * (HEAD_DIM + 4)

# BLOCK_T entries a program: more for much work.
LOGITS_CONFIGS = (
    {"BLOCK_T": 64, "num_warps": 8, "num_stages": 1},
    {"BLOCK_T": 128, "num_warps": 8, "num_stages": 1},
)


@triton.jit
def indexer_logits(
    q,
    cache,
    weight,
    lengths,
    pages,
    logits,
    heads,
    width,
    q_stride_b,
    q_stride_h,
    weight_stride,
    lengths_stride,
    pages_stride,
    HEADS: tl.constexpr,
    BLOCK_T: tl.constexpr,
):
    """Logits of BLOCK_T entries of one query. Grid (B, ceil(width / BLOCK_T)).

    q [B, heads, 128] fp8; cache: bytes; weight [B, heads]; lengths [B] int32; pages [B, at least the pages
    below the length] int32; logits [B, width] fp32.
    """
    # Only the first dimension of a grid may be above 65,535; a prefill batch has more rows than that.
    batch = tl.program_id(0).to(tl.int64)
    entry = tl.program_id(1) * BLOCK_T + tl.arange(0, BLOCK_T)
    length = tl.minimum(tl.load(lengths + batch * lengths_stride).to(tl.int32), width)
    result = logits + batch * width + entry
    if tl.program_id(1) * BLOCK_T >= length:
        tl.store(result, tl.full([BLOCK_T], float("-inf"), tl.float32), mask=entry < width)
    else:
        head = tl.arange(0, HEADS)
        dim = tl.arange(0, 128)
        there = entry < length
        page = tl.load(pages + batch * pages_stride + entry // 64, mask=there, other=0).to(tl.int64)
        start = cache + page * 8448
        keys_at = (start + (entry % 64) * 128).to(tl.pointer_type(tl.float8e4nv), bitcast=True)
        keys = tl.load(keys_at[:, None] + dim[None, :], mask=there[:, None], other=0.0)
        scales_at = (start + 8192 + (entry % 64) * 4).to(tl.pointer_type(tl.float32), bitcast=True)
        scale = tl.load(scales_at, mask=there, other=0.0)
        q_at = q + batch * q_stride_b + head[:, None] * q_stride_h + dim[None, :]
        queries = tl.load(q_at, mask=(head < heads)[:, None], other=0.0)
        factor = tl.load(weight + batch * weight_stride + head, mask=head < heads, other=0.0).to(tl.float32)
        product = tl.dot(keys, tl.trans(queries))
        logit = tl.sum(tl.maximum(product, 0.0) * factor[None, :], axis=1) * scale
        tl.store(result, tl.where(there, logit, float("-inf")), mask=entry < width)


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a copy of it, with neighbours in the last dimension beside each other."""
    return tensor if tensor.stride(-1) == 1 or tensor.shape[-1] == 1 else tensor.contiguous()


def _dense(rows: torch.Tensor) -> torch.Tensor:
    """With the last dimension dense; it nearly always is."""
    return rows if rows.stride(rows.dim() - 1) == 1 else rows.contiguous()


def sm120_indexer_logits(
    q_fp8: torch.Tensor,
    kvcache_fp8: torch.Tensor,
    weight: torch.Tensor,
    seq_lens: torch.Tensor,
    page_table: torch.Tensor,
    max_seq_len: int,
) -> torch.Tensor:
    """The operator: logits [B, max_seq_len] fp32.

    q_fp8 [B, 1, H, 128]; kvcache_fp8 [pages, 64, 1, 132] bytes or fp8, its pages without gaps; weight
    [B, H]; seq_lens [B] or [B, 1]; page_table [B, pages of the longest context].
    """
    queries, one, heads, dim = q_fp8.shape
    if one != 1 or dim != HEAD_DIM or tuple(kvcache_fp8.shape[1:]) != (PAGE, 1, HEAD_DIM + 4):
        raise ValueError(
            f"sm120 indexer logits: q {tuple(q_fp8.shape)} and cache {tuple(kvcache_fp8.shape)}, "
            f"not [B, 1, H, {HEAD_DIM}] and [pages, {PAGE}, 1, {HEAD_DIM + 4}]"
        )
    if kvcache_fp8.shape[0] > 1 and kvcache_fp8.stride(0) != PAGE_BYTES:
        raise ValueError(f"sm120 indexer logits: pages {kvcache_fp8.stride(0)} bytes apart, not {PAGE_BYTES}")
    if page_table.shape[1] * PAGE < max_seq_len:
        raise ValueError(
            f"sm120 indexer logits: a table of {page_table.shape[1]} pages for {max_seq_len} entries"
        )
    if kvcache_fp8.stride(0) != PAGE_BYTES:
        raise ValueError(f"sm120 indexer logits: pages of {kvcache_fp8.stride(0)} bytes, not {PAGE_BYTES}")
    q_fp8, weight, page_table = _dense(q_fp8), _dense(weight), _dense(page_table)
    logits = torch.empty((queries, max_seq_len), dtype=torch.float32, device=q_fp8.device)
    if queries == 0 or max_seq_len == 0:
        return logits
    q_fp8, weight, page_table = _dense(q_fp8), _dense(weight), _dense(page_table)
    config = LOGITS_CONFIGS[queries * max_seq_len >= 131072]
    indexer_logits[(queries, triton.cdiv(max_seq_len, config["BLOCK_T"]))](
        q_fp8,
        kvcache_fp8 if kvcache_fp8.dtype == torch.uint8 else kvcache_fp8.view(torch.uint8),
        weight,
        seq_lens,
        page_table,
        logits,
        heads,
        max_seq_len,
        q_fp8.stride(0),
        q_fp8.stride(2),
        weight.stride(0),
        seq_lens.stride(0),
        page_table.stride(0),
        HEADS=max(16, triton.next_power_of_2(heads)),
        **config,
    )
    return logits


def sm120_indexer_logits_fake(
    q_fp8: torch.Tensor,
    kvcache_fp8: torch.Tensor,
    weight: torch.Tensor,
    seq_lens: torch.Tensor,
    page_table: torch.Tensor,
    max_seq_len: int,
) -> torch.Tensor:
    """The shape and type of the operator's result, without running it."""
    return torch.empty((q_fp8.shape[0], max_seq_len), dtype=torch.float32, device=q_fp8.device)


def fp8_paged_mqa_logits(
    q_fp8: torch.Tensor,
    kvcache_fp8: torch.Tensor,
    weight: torch.Tensor,
    seq_lens: torch.Tensor,
    page_table: torch.Tensor,
    deep_gemm_metadata: Any,
    max_seq_len: int,
    clean_logits: bool = True,
) -> torch.Tensor:
    """Takes what the indexer passes. The schedule is another library's; logits are cleaned in any case."""
    return sm120_indexer_logits(q_fp8, kvcache_fp8, weight, seq_lens, page_table, max_seq_len)
