# SPDX-License-Identifier: Apache-2.0
"""Sparse MLA decode for sm_120 in Gluon: what ``sm120_sparse_decode`` computes, with shared memory laid out
by hand.

The mathematics, the caches and the merge are described there. Here the eight groups of 64 dimensions (seven
of fp8, the rotary one last) are shared out over the warps, for the scores as well as for the values:

  - a warp reads from shared memory only the keys and queries of its own groups, both times;
  - q stays in registers: a warp holds 1 / 8 of it (with eight warps) and not all of it;
  - the scores are summed over the warps once a tile, and then every warp has all of them, so that the
    probabilities are already where the second product needs them.

The next tile is read from memory into registers while this one is computed, and its indices one tile before
that.

Keys go through fp16. The rotary part, bf16 in the cache, is exact in it between 2 ** -17 and 65504 and is
cut off there: no key of a trained model is near.
"""

from typing import Optional, Tuple

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import mma_v2
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

# Every configuration that is launched. BLOCK_H heads and BLOCK_T tokens a tile.
SPLIT_CONFIGS = (
    {"BLOCK_H": 16, "BLOCK_T": 32, "HOLD_Q": True, "num_warps": 8, "num_stages": 1},
    {"BLOCK_H": 32, "BLOCK_T": 32, "HOLD_Q": True, "num_warps": 8, "num_stages": 1},
)


@gluon.jit
def _power(exponent):
    """2 ** (exponent - 127) in fp32, for 0 < exponent < 255; 0 for 0."""
    return (exponent << 23).to(gl.float32, bitcast=True)


@gluon.jit
def _groups(x):
    """[8] to [8, 1, 1]."""
    return gl.expand_dims(gl.expand_dims(x, 1), 2)


@gluon.jit
def _middle(x):
    """[rows] to [1, rows, 1]."""
    return gl.expand_dims(gl.expand_dims(x, 0), 2)


@gluon.jit
def _dims(x):
    """[64] to [1, 1, 64]."""
    return gl.expand_dims(gl.expand_dims(x, 0), 1)


@gluon.jit
def _scores_rows(x):
    """[heads], of a score's layout, to [1, heads, 1]."""
    return gl.expand_dims(gl.expand_dims(x, 1), 0)


@gluon.jit
def _unit_rows(x):
    """[8], of a scale's layout, to [8, 1, 1]."""
    return gl.expand_dims(gl.expand_dims(x, 1), 1)


@gluon.jit
def _list(
    tile, last, window_tiles, window_indices, window_count, extra_indices, extra_count, BLOCK_T: gl.constexpr
):
    """Where the indices of a tile begin, and how many of them count (none, from ``last`` on)."""
    in_window = tile < window_tiles
    start = gl.where(in_window, tile, tile - window_tiles) * BLOCK_T
    listed = gl.where(in_window, window_indices, extra_indices) + start
    count = gl.where(in_window, window_count, extra_count) - start
    return listed, gl.where(tile < last, count, 0)


@gluon.jit
def _tokens(listed, count, BLOCK_T: gl.constexpr, layout: gl.constexpr):
    """A tile's indices, [T] int32, -1 for none."""
    entry = gl.arange(0, BLOCK_T, layout=layout)
    return gl.load(listed + entry, mask=entry < count, other=-1).to(gl.int32)


@gluon.jit
def _pages(base, token, page_log2, page_bytes):
    """Where the page of each token begins, and the token's place in it."""
    token = gl.maximum(token, 0)
    return base + (token >> page_log2).to(gl.int64) * page_bytes, token & ((1 << page_log2) - 1)


@gluon.jit
def _gather(
    base, page_log2, page_bytes, key_token, rope_token, scale_token, column, column_ok, rope_dim, scale_group
):
    """What the cache holds for a tile: fp8 [8, T, 64] (the last group is none), bf16 [T, 64], exponents [8,
    T].

    Of a token that is not there: zeros, and -1 for an exponent. The last group's exponent stands for 1.
    """
    page, within = _pages(base, rope_token, page_log2, page_bytes)
    rope_rows = (page + within * 576 + 448).to(gl.pointer_type(gl.bfloat16), bitcast=True)
    rope_at = gl.expand_dims(rope_rows, 1) + rope_dim
    rope = gl.load(rope_at, mask=gl.expand_dims(rope_token >= 0, 1), other=0.0)
    page, within = _pages(base, scale_token, page_log2, page_bytes)
    scales_at = gl.expand_dims(page + ((576 << page_log2) + within * 8), 0) + scale_group
    there = gl.expand_dims(scale_token >= 0, 0)
    exponent = gl.load(scales_at, mask=there & (scale_group < 7), other=127).to(gl.int32)
    page, within = _pages(base, key_token, page_log2, page_bytes)
    rows = (page + within * 576).to(gl.pointer_type(gl.float8e4nv), bitcast=True)
    keys = gl.load(_middle(rows) + column, mask=_middle(key_token >= 0) & column_ok, other=0.0)
    return keys, rope, gl.where(there, exponent, -1)


@gluon.jit
def sparse_decode_split(
    q,
    window,
    window_indices,
    window_length,
    extra,
    extra_indices,
    extra_length,
    sink,
    out,
    lse,
    scale_log2,
    heads,
    q_stride_b,
    q_stride_h,
    window_width,
    window_stride,
    window_page_log2,
    window_page_bytes,
    extra_width,
    extra_stride,
    extra_page_log2,
    extra_page_bytes,
    DIRECT: gl.constexpr,
    PDL: gl.constexpr,
    INTERPRET: gl.constexpr,
    BLOCK_H: gl.constexpr,
    BLOCK_T: gl.constexpr,
    HOLD_Q: gl.constexpr,
):
    """As in ``sm120_sparse_decode``: one part of the tokens of one query, for BLOCK_H heads.

    INTERPRET is not used: Triton's interpreter does not run Gluon. HOLD_Q keeps q in registers through the
    loop.
    """
    WARPS: gl.constexpr = gl.num_warps()
    MMA: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [WARPS, 1, 1], [1, 16, 8])
    LEFT: gl.constexpr = gl.DotOperandLayout(0, MMA, 2)
    RIGHT: gl.constexpr = gl.DotOperandLayout(1, MMA, 2)
    # [group, row, dim]: 16 bytes of fp8, and 16 bytes of bf16, a thread; a warp has its own groups.
    KEYS: gl.constexpr = gl.BlockedLayout([1, 1, 16], [1, 8, 4], [WARPS, 1, 1], [2, 1, 0])
    QUERIES: gl.constexpr = gl.BlockedLayout([1, 1, 8], [1, 4, 8], [WARPS, 1, 1], [2, 1, 0])
    ROPE: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [WARPS, 1], [1, 0])
    SHARED: gl.constexpr = gl.SwizzledSharedLayout(8, 1, 8, [2, 1, 0])
    SCORES: gl.constexpr = gl.SliceLayout(0, MMA)  # [head, token], the same in every warp
    HEADS: gl.constexpr = gl.SliceLayout(1, SCORES)
    SCALES: gl.constexpr = gl.SliceLayout(1, MMA)  # [group, token]
    EXPONENTS: gl.constexpr = gl.BlockedLayout(
        [1, 1], [1, 32], [WARPS, 1], [1, 0]
    )  # the same, a token a lane
    KEY_TOKENS: gl.constexpr = gl.SliceLayout(0, gl.SliceLayout(2, KEYS))
    ROPE_TOKENS: gl.constexpr = gl.SliceLayout(1, ROPE)
    SCALE_TOKENS: gl.constexpr = gl.SliceLayout(0, EXPONENTS)

    if PDL:
        gdc_wait()
        gdc_launch_dependents()
    batch = gl.program_id(0).to(gl.int64)
    part = gl.program_id(2)
    parts = gl.num_programs(2)

    window_count = gl.maximum(gl.minimum(gl.load(window_length + batch).to(gl.int32), window_width), 0)
    extra_count = gl.maximum(gl.minimum(gl.load(extra_length + batch).to(gl.int32), extra_width), 0)
    window_tiles = (window_count + BLOCK_T - 1) // BLOCK_T
    tiles = window_tiles + (extra_count + BLOCK_T - 1) // BLOCK_T
    first = tiles * part // parts
    last = tiles * (part + 1) // parts
    window_indices += batch * window_stride
    extra_indices += batch * extra_stride

    q_head = gl.program_id(1) * BLOCK_H + gl.arange(
        0, BLOCK_H, layout=gl.SliceLayout(0, gl.SliceLayout(2, QUERIES))
    )
    q_group = gl.arange(0, 8, layout=gl.SliceLayout(1, gl.SliceLayout(2, QUERIES)))
    q_dim = gl.arange(0, 64, layout=gl.SliceLayout(0, gl.SliceLayout(1, QUERIES)))
    q_rows = q + batch * q_stride_b + q_head * q_stride_h
    q_at = _middle(q_rows) + _dims(q_dim)
    q_at += _groups(q_group * 64)
    q_ok = _middle(q_head < heads)
    q_raw = gl.load(q_at, mask=q_ok, other=0.0).to(gl.float32)

    # Indices of the first tile.
    listed, count = _list(
        first, last, window_tiles, window_indices, window_count, extra_indices, extra_count, BLOCK_T
    )
    key_token = _tokens(listed, count, BLOCK_T, KEY_TOKENS)
    rope_token = _tokens(listed, count, BLOCK_T, ROPE_TOKENS)
    scale_token = _tokens(listed, count, BLOCK_T, SCALE_TOKENS)

    group = gl.arange(0, 8, layout=gl.SliceLayout(1, gl.SliceLayout(2, KEYS)))
    column = _groups(group * 64) + _dims(gl.arange(0, 64, layout=gl.SliceLayout(0, gl.SliceLayout(1, KEYS))))
    column_ok = _groups(group < 7)
    rope_dim = gl.expand_dims(gl.arange(0, 64, layout=gl.SliceLayout(0, ROPE)), 0)
    scale_group = gl.expand_dims(gl.arange(0, 8, layout=gl.SliceLayout(1, EXPONENTS)), 1)

    # Its keys, and the indices of the second.
    in_window = first < window_tiles
    keys, rope, exponent = _gather(
        gl.where(in_window, window, extra),
        gl.where(in_window, window_page_log2, extra_page_log2),
        gl.where(in_window, window_page_bytes, extra_page_bytes),
        key_token,
        rope_token,
        scale_token,
        column,
        column_ok,
        rope_dim,
        scale_group,
    )
    listed, count = _list(
        first + 1, last, window_tiles, window_indices, window_count, extra_indices, extra_count, BLOCK_T
    )
    key_token = _tokens(listed, count, BLOCK_T, KEY_TOKENS)
    rope_token = _tokens(listed, count, BLOCK_T, ROPE_TOKENS)
    scale_token = _tokens(listed, count, BLOCK_T, SCALE_TOKENS)

    q_top = gl.max(gl.max(gl.max(gl.abs(q_raw), axis=2), axis=1), axis=0)
    q_unit = gl.minimum(gl.maximum(q_top.to(gl.int32, bitcast=True) >> 23, 40), 254)
    q_back = _power(q_unit - 14) * scale_log2
    q_shared = gl.allocate_shared_memory(gl.float16, [8, BLOCK_H, 64], SHARED)
    q_shared.store((q_raw * _power(268 - q_unit)).to(gl.float16))
    k_shared = gl.allocate_shared_memory(gl.float16, [8, BLOCK_T, 64], SHARED)
    left = q_shared.load(LEFT)

    top = gl.full([BLOCK_H], float("-inf"), gl.float32, layout=HEADS)
    total = gl.full([BLOCK_H], 0.0, gl.float32, layout=HEADS)
    acc = gl.full([8, BLOCK_H, 64], 0.0, gl.float32, layout=MMA)
    unit = gl.full([8], 32, gl.int32, layout=gl.SliceLayout(1, SCALES))
    zero = gl.full([8, BLOCK_H, BLOCK_T], 0.0, gl.float32, layout=MMA)

    for tile in range(first, last):
        k_shared.store(keys.to(gl.float16))
        rope = gl.maximum(gl.minimum(rope.to(gl.float32), 65504.0), -65504.0)
        k_shared.reshape([8 * BLOCK_T, 64]).slice(7 * BLOCK_T, BLOCK_T).store(rope.to(gl.float16))
        scale = gl.convert_layout(exponent, SCALES)
        absent = gl.where(scale < 0, float("-inf"), 0.0)
        scale = gl.maximum(scale, 0)

        in_window = tile + 1 < window_tiles
        keys, rope, exponent = _gather(
            gl.where(in_window, window, extra),
            gl.where(in_window, window_page_log2, extra_page_log2),
            gl.where(in_window, window_page_bytes, extra_page_bytes),
            key_token,
            rope_token,
            scale_token,
            column,
            column_ok,
            rope_dim,
            scale_group,
        )
        listed, count = _list(
            tile + 2, last, window_tiles, window_indices, window_count, extra_indices, extra_count, BLOCK_T
        )
        key_token = _tokens(listed, count, BLOCK_T, KEY_TOKENS)
        rope_token = _tokens(listed, count, BLOCK_T, ROPE_TOKENS)
        scale_token = _tokens(listed, count, BLOCK_T, SCALE_TOKENS)

        if not HOLD_Q:
            left = q_shared.load(LEFT)
        part3 = mma_v2(left, k_shared.permute([0, 2, 1]).load(RIGHT), zero)
        part3 = part3 * gl.expand_dims(_power(scale), 1) + gl.expand_dims(absent, 1)
        s = gl.sum(part3, axis=0) * q_back
        new_top = gl.maximum(top, gl.max(s, axis=1))
        shift = gl.where(new_top == float("-inf"), 0.0, new_top)
        alpha = gl.exp2(top - shift)
        p = gl.exp2(s - gl.expand_dims(shift, 1))
        total = total * alpha + gl.sum(p, axis=1)
        top = new_top

        new_unit = gl.maximum(unit, gl.max(scale, axis=1))
        alpha3 = _scores_rows(alpha) * _unit_rows(_power(gl.maximum(unit - new_unit + 127, 0)))
        unit = new_unit
        moved = _power(gl.maximum(scale - gl.expand_dims(unit, 1) + 142, 0))
        p3 = (gl.expand_dims(p, 0) * gl.expand_dims(moved, 1)).to(gl.float16)
        acc = mma_v2(gl.convert_layout(p3, LEFT), k_shared.load(RIGHT), acc * alpha3)

    head = gl.program_id(1) * BLOCK_H + gl.arange(0, BLOCK_H, layout=HEADS)
    heads_ok = head < heads
    lse2 = top + gl.log2(total)
    norm = gl.where(total > 0, total, 1.0)
    if DIRECT:
        row = batch * heads + head
        sink2 = gl.load(sink + head, mask=heads_ok, other=float("-inf")).to(gl.float32) * 1.4426950408889634
        high = gl.maximum(lse2, sink2)
        high = gl.where(high == float("-inf"), 0.0, high)
        own = gl.exp2(lse2 - high)
        both = own + gl.exp2(sink2 - high)
        norm = gl.where(own > 0, norm * both / own, 1.0)
        lse2 = high + gl.log2(both)
        gl.store(lse + row, lse2 * 0.6931471805599453, mask=heads_ok)
        write = heads_ok
    else:
        row = (batch * heads + head) * parts + part
        gl.store(lse + row, lse2, mask=heads_ok)
        write = heads_ok & (first < last)
    factor = _scores_rows(1.0 / norm) * _unit_rows(_power(unit - 15))
    out_group = gl.arange(0, 8, layout=gl.SliceLayout(1, gl.SliceLayout(2, MMA)))
    out_dim = gl.arange(0, 64, layout=gl.SliceLayout(0, gl.SliceLayout(1, MMA)))
    column = _groups(out_group * 64) + _dims(out_dim)
    value = acc * factor
    if DIRECT:
        value = value.to(gl.bfloat16)
    out_at = _scores_rows(out + row * 512) + column
    gl.store(out_at, value, mask=_scores_rows(write))


def plan(heads: int, queries: int, window: int, extra: int, processors: int) -> Tuple[dict, int]:
    """Which of SPLIT_CONFIGS a call is launched with, and in how many parts its tokens are taken."""
    config = SPLIT_CONFIGS[0]
    blocks = queries * triton.cdiv(heads, config["BLOCK_H"])
    tiles = triton.cdiv(window, config["BLOCK_T"]) + triton.cdiv(extra, config["BLOCK_T"])
    return config, max(1, min(tiles, processors // blocks, 32))


def sm120_sparse_decode_gluon(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    indices: torch.Tensor,
    softmax_scale: float,
    topk_length: Optional[torch.Tensor] = None,
    attn_sink: Optional[torch.Tensor] = None,
    extra_k_cache: Optional[torch.Tensor] = None,
    extra_indices: Optional[torch.Tensor] = None,
    extra_topk_length: Optional[torch.Tensor] = None,
) -> Tuple[torch.Tensor, torch.Tensor]:
    """The operator: as ``sm120_sparse_decode``, which also merges the parts."""
    from sglang.srt.layers.attention.sm120_sparse_decode import decode

    return decode(
        sparse_decode_split,
        plan,
        q,
        k_cache,
        indices,
        softmax_scale,
        topk_length,
        attn_sink,
        extra_k_cache,
        extra_indices,
        extra_topk_length,
    )


def flash_mla_with_kvcache(
    *,
    q: torch.Tensor,
    k_cache: torch.Tensor,
    indices: torch.Tensor,
    head_dim_v: int,
    softmax_scale: Optional[float] = None,
    topk_length: Optional[torch.Tensor] = None,
    attn_sink: Optional[torch.Tensor] = None,
    extra_k_cache: Optional[torch.Tensor] = None,
    extra_indices_in_kvcache: Optional[torch.Tensor] = None,
    extra_topk_length: Optional[torch.Tensor] = None,
) -> Tuple[torch.Tensor, torch.Tensor]:
    """Takes what the attention backend passes by name, and gives (out, log-sum-exp)."""
    if head_dim_v != 512:
        raise ValueError(f"sm120 sparse decode: values of {head_dim_v} numbers, not 512")
    return sm120_sparse_decode_gluon(
        q,
        k_cache,
        indices,
        q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale,
        topk_length,
        attn_sink,
        extra_k_cache,
        extra_indices_in_kvcache,
        extra_topk_length,
    )
