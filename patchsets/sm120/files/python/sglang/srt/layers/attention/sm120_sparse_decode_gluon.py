# SPDX-License-Identifier: Apache-2.0
"""Sparse MLA decode for sm_120 in Gluon: what ``sm120_sparse_decode`` computes, with layouts chosen by hand.

The mathematics, the caches and the merge are described there. What is different here: while a tile is
computed, the keys of the next one are on their way into registers, and the indices of the one after that;
keys, queries and probabilities each lie in shared memory once; and warps meet at fewer barriers.

The rotary part goes through fp16 as well. A bf16 number is exact in it between 2 ** -17 and 65504, below
that off by at most 2 ** -25, and above that cut off: no key of a trained model is near.
"""

from typing import Optional, Tuple

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import mma_v2
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

# Every configuration that is launched: BLOCK_H heads and BLOCK_T tokens a tile. Its 50,176 bytes of shared
# memory are what lets two blocks run on a multiprocessor of sm_120.
SPLIT_CONFIGS = ({"BLOCK_H": 16, "BLOCK_T": 32, "num_warps": 4, "num_stages": 1},)


@gluon.jit
def _power(exponent):
    """2 ** (exponent - 127) in fp32, for 0 < exponent < 255; 0 for 0."""
    return (exponent << 23).to(gl.float32, bitcast=True)


@gluon.jit
def _byte(packed, group: gl.constexpr):
    """The exponent of one group's scale, [T] int32, 127 for 1."""
    return ((packed >> (8 * group)) & 0xFF).to(gl.int32)


@gluon.jit
def _unpack(shared, keys, packed, group: gl.constexpr, unit):
    """Puts one group of each token, four fp8 a word [T, 16], as fp16 times its scale in ``unit`` into
    ``shared``."""
    factor = (
        _power(gl.maximum(_byte(packed, group) - unit + 127, 0)).to(gl.float16).to(gl.int16, bitcast=True)
    )
    twice = (factor.to(gl.int32) & 0xFFFF) * 0x10001
    low, high = gl.inline_asm_elementwise(
        """{ .reg .b16 low, high;
        .reg .b32 first, second;
        mov.b32 {low, high}, $2;
        cvt.rn.f16x2.e4m3x2 first, low;
        cvt.rn.f16x2.e4m3x2 second, high;
        mul.rn.f16x2 $0, first, $3;
        mul.rn.f16x2 $1, second, $3; }""",
        "=r,=r,r,r",
        [keys, gl.expand_dims(twice, 1)],
        dtype=(gl.int32, gl.int32),
        is_pure=True,
        pack=1,
    )
    # Words to numbers: which of the two outputs, then which half. It is in order, and costs nothing.
    first, second = gl.join(low, high).to(gl.int16), (gl.join(low, high) >> 16).to(gl.int16)
    numbers = gl.reshape(gl.join(first, second), [keys.shape[0], 64])
    shared.store(numbers.to(gl.float16, bitcast=True))


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
def _gather(base, page_log2, page_bytes, key_token, rope_token, key_dim, rope_dim):
    """What the cache holds for a tile: seven times four fp8 a word [T, 16], bf16 [T, 64], the scales of a
    token in 8 bytes.

    Zeros for a token that is not there.
    """
    token = gl.maximum(rope_token, 0)
    page = base + (token >> page_log2).to(gl.int64) * page_bytes
    rope_rows = page + (token & ((1 << page_log2) - 1)) * 576 + 448
    rope_at = gl.expand_dims(rope_rows.to(gl.pointer_type(gl.bfloat16), bitcast=True), 1) + rope_dim
    rope = gl.load(rope_at, mask=gl.expand_dims(rope_token >= 0, 1), other=0.0)
    token = gl.maximum(key_token, 0)
    page = base + (token >> page_log2).to(gl.int64) * page_bytes
    within = token & ((1 << page_log2) - 1)
    scales_at = (page + ((576 << page_log2) + within * 8)).to(gl.pointer_type(gl.int64), bitcast=True)
    packed = gl.load(scales_at, mask=key_token >= 0, other=0)
    rows = (page + within * 576).to(gl.pointer_type(gl.int32), bitcast=True)
    at = gl.expand_dims(rows, 1) + key_dim
    there = gl.expand_dims(key_token >= 0, 1)
    k0 = gl.load(at, mask=there, other=0)
    k1 = gl.load(at + 16, mask=there, other=0)
    k2 = gl.load(at + 32, mask=there, other=0)
    k3 = gl.load(at + 48, mask=there, other=0)
    k4 = gl.load(at + 64, mask=there, other=0)
    k5 = gl.load(at + 80, mask=there, other=0)
    k6 = gl.load(at + 96, mask=there, other=0)
    return k0, k1, k2, k3, k4, k5, k6, rope, packed


@gluon.jit
def _score(s, q_shared, k_shared, LEFT: gl.constexpr, RIGHT: gl.constexpr):
    """Scores [H, T] with one group's part added: q [H, 64] and keys [T, 64] in shared memory."""
    return mma_v2(q_shared.load(LEFT), k_shared.permute([1, 0]).load(RIGHT), s)


@gluon.jit
def _moved(q, factor):
    """q [H, 64] in fp16, moved by a power of two."""
    return (q.to(gl.float32) * factor).to(gl.float16)


@gluon.jit
def _highest(top, q):
    """The largest magnitude so far of each head, [H] fp32."""
    return gl.maximum(top, gl.max(gl.abs(q.to(gl.float32)), axis=1))


@gluon.jit
def _store(out, acc, factor, rows_ok, DIRECT: gl.constexpr):
    value = acc * gl.expand_dims(factor, 1)
    if DIRECT:
        value = value.to(gl.bfloat16)
    gl.store(out, value, mask=gl.expand_dims(rows_ok, 1))


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
):
    """As in ``sm120_sparse_decode``: one part of the tokens of one query, for BLOCK_H heads.

    INTERPRET is not used: Triton's interpreter does not run Gluon.
    """
    WARPS: gl.constexpr = gl.num_warps()
    HIGH: gl.constexpr = BLOCK_H // 16  # warps one above the other, 16 heads each
    MMA: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [HIGH, WARPS // HIGH], [16, 8])
    LEFT: gl.constexpr = gl.DotOperandLayout(0, MMA, 2)
    RIGHT: gl.constexpr = gl.DotOperandLayout(1, MMA, 2)
    HEADS: gl.constexpr = gl.SliceLayout(1, MMA)
    SCORE_TOKENS: gl.constexpr = gl.SliceLayout(0, MMA)
    # [T, 16] words and [T, 64] bf16: a thread takes 16 bytes.
    KEYS: gl.constexpr = gl.BlockedLayout([1, 4], [8, 4], [WARPS, 1], [1, 0])
    KEY_TOKENS: gl.constexpr = gl.SliceLayout(1, KEYS)
    ROPE: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [WARPS, 1], [1, 0])
    ROPE_TOKENS: gl.constexpr = gl.SliceLayout(1, ROPE)
    SHARED: gl.constexpr = gl.SwizzledSharedLayout(8, 1, 8, [1, 0])
    # [H, T] of probabilities: rows of 64 bytes need half as many steps.
    WEIGHTS: gl.constexpr = gl.SwizzledSharedLayout(8, 128 // (2 * BLOCK_T), BLOCK_T // 8, [1, 0])

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

    # Indices of the first tile; q meanwhile; its keys, and indices of the second.
    listed, count = _list(
        first, last, window_tiles, window_indices, window_count, extra_indices, extra_count, BLOCK_T
    )
    key_token = _tokens(listed, count, BLOCK_T, KEY_TOKENS)
    rope_token = _tokens(listed, count, BLOCK_T, ROPE_TOKENS)
    next_token = _tokens(listed, count, BLOCK_T, SCORE_TOKENS)
    q_head = gl.program_id(1) * BLOCK_H + gl.arange(0, BLOCK_H, layout=ROPE_TOKENS)
    rope_dim = gl.expand_dims(gl.arange(0, 64, layout=gl.SliceLayout(0, ROPE)), 0)
    key_dim = gl.expand_dims(gl.arange(0, 16, layout=gl.SliceLayout(0, KEYS)), 0)
    q_at = gl.expand_dims(q + batch * q_stride_b + q_head * q_stride_h, 1) + rope_dim
    q_ok = gl.expand_dims(q_head < heads, 1)
    q0 = gl.load(q_at + 0, mask=q_ok, other=0.0)
    q1 = gl.load(q_at + 64, mask=q_ok, other=0.0)
    q2 = gl.load(q_at + 128, mask=q_ok, other=0.0)
    q3 = gl.load(q_at + 192, mask=q_ok, other=0.0)
    q4 = gl.load(q_at + 256, mask=q_ok, other=0.0)
    q5 = gl.load(q_at + 320, mask=q_ok, other=0.0)
    q6 = gl.load(q_at + 384, mask=q_ok, other=0.0)
    q7 = gl.load(q_at + 448, mask=q_ok, other=0.0)
    in_window = first < window_tiles
    k0, k1, k2, k3, k4, k5, k6, rope, packed = _gather(
        gl.where(in_window, window, extra),
        gl.where(in_window, window_page_log2, extra_page_log2),
        gl.where(in_window, window_page_bytes, extra_page_bytes),
        key_token,
        rope_token,
        key_dim,
        rope_dim,
    )
    score_token = next_token
    listed, count = _list(
        first + 1, last, window_tiles, window_indices, window_count, extra_indices, extra_count, BLOCK_T
    )
    key_token = _tokens(listed, count, BLOCK_T, KEY_TOKENS)
    rope_token = _tokens(listed, count, BLOCK_T, ROPE_TOKENS)
    next_token = _tokens(listed, count, BLOCK_T, SCORE_TOKENS)

    q_top = _highest(_highest(_highest(gl.full([BLOCK_H], 0.0, gl.float32, layout=ROPE_TOKENS), q0), q1), q2)
    q_top = _highest(_highest(_highest(_highest(_highest(q_top, q3), q4), q5), q6), q7)
    q_unit = gl.minimum(gl.maximum(gl.max(q_top, axis=0).to(gl.int32, bitcast=True) >> 23, 40), 254)
    q_factor = _power(268 - q_unit)
    q_back = _power(q_unit - 14) * scale_log2
    q_shared = gl.allocate_shared_memory(gl.float16, [8, BLOCK_H, 64], SHARED)
    k_shared = gl.allocate_shared_memory(gl.float16, [8, BLOCK_T, 64], SHARED)
    q_shared.index(0).store(_moved(q0, q_factor))
    q_shared.index(1).store(_moved(q1, q_factor))
    q_shared.index(2).store(_moved(q2, q_factor))
    q_shared.index(3).store(_moved(q3, q_factor))
    q_shared.index(4).store(_moved(q4, q_factor))
    q_shared.index(5).store(_moved(q5, q_factor))
    q_shared.index(6).store(_moved(q6, q_factor))
    q_shared.index(7).store(_moved(q7, q_factor))

    unit = gl.to_tensor(32)
    top = gl.full([BLOCK_H], float("-inf"), gl.float32, layout=HEADS)
    # Summed over tokens once, at the end.
    totals = gl.full([BLOCK_H, BLOCK_T], 0.0, gl.float32, layout=MMA)
    zero = gl.full([BLOCK_H, BLOCK_T], 0.0, gl.float32, layout=MMA)
    acc0 = gl.full([BLOCK_H, 64], 0.0, gl.float32, layout=MMA)
    acc1 = gl.full([BLOCK_H, 64], 0.0, gl.float32, layout=MMA)
    acc2 = gl.full([BLOCK_H, 64], 0.0, gl.float32, layout=MMA)
    acc3 = gl.full([BLOCK_H, 64], 0.0, gl.float32, layout=MMA)
    acc4 = gl.full([BLOCK_H, 64], 0.0, gl.float32, layout=MMA)
    acc5 = gl.full([BLOCK_H, 64], 0.0, gl.float32, layout=MMA)
    acc6 = gl.full([BLOCK_H, 64], 0.0, gl.float32, layout=MMA)
    acc7 = gl.full([BLOCK_H, 64], 0.0, gl.float32, layout=MMA)

    for tile in range(first, last):
        # The largest scale so far; what was added up before is moved to it.
        highest = gl.maximum(gl.maximum(_byte(packed, 0), _byte(packed, 1)), _byte(packed, 2))
        highest = gl.maximum(gl.maximum(highest, _byte(packed, 3)), _byte(packed, 4))
        highest = gl.maximum(gl.maximum(highest, _byte(packed, 5)), _byte(packed, 6))
        new_unit = gl.maximum(unit, gl.max(highest, axis=0))
        moved = _power(gl.maximum(unit - new_unit + 127, 0))
        unit = new_unit
        _unpack(k_shared.index(0), k0, packed, 0, unit)
        _unpack(k_shared.index(1), k1, packed, 1, unit)
        _unpack(k_shared.index(2), k2, packed, 2, unit)
        _unpack(k_shared.index(3), k3, packed, 3, unit)
        _unpack(k_shared.index(4), k4, packed, 4, unit)
        _unpack(k_shared.index(5), k5, packed, 5, unit)
        _unpack(k_shared.index(6), k6, packed, 6, unit)
        rope = gl.maximum(gl.minimum(rope.to(gl.float32), 65504.0), -65504.0)
        k_shared.index(7).store(rope.to(gl.float16))
        valid = score_token >= 0

        in_window = tile + 1 < window_tiles
        k0, k1, k2, k3, k4, k5, k6, rope, packed = _gather(
            gl.where(in_window, window, extra),
            gl.where(in_window, window_page_log2, extra_page_log2),
            gl.where(in_window, window_page_bytes, extra_page_bytes),
            key_token,
            rope_token,
            key_dim,
            rope_dim,
        )
        score_token = next_token
        listed, count = _list(
            tile + 2, last, window_tiles, window_indices, window_count, extra_indices, extra_count, BLOCK_T
        )
        key_token = _tokens(listed, count, BLOCK_T, KEY_TOKENS)
        rope_token = _tokens(listed, count, BLOCK_T, ROPE_TOKENS)
        next_token = _tokens(listed, count, BLOCK_T, SCORE_TOKENS)

        s = zero
        s = _score(s, q_shared.index(0), k_shared.index(0), LEFT, RIGHT)
        s = _score(s, q_shared.index(1), k_shared.index(1), LEFT, RIGHT)
        s = _score(s, q_shared.index(2), k_shared.index(2), LEFT, RIGHT)
        s = _score(s, q_shared.index(3), k_shared.index(3), LEFT, RIGHT)
        s = _score(s, q_shared.index(4), k_shared.index(4), LEFT, RIGHT)
        s = _score(s, q_shared.index(5), k_shared.index(5), LEFT, RIGHT)
        s = _score(s, q_shared.index(6), k_shared.index(6), LEFT, RIGHT)
        rotary = _score(zero, q_shared.index(7), k_shared.index(7), LEFT, RIGHT)
        s = (s * _power(unit) + rotary) * q_back
        s = gl.where(gl.expand_dims(valid, 0), s, float("-inf"))

        new_top = gl.maximum(top, gl.max(s, axis=1))
        # Without a valid token so far the maximum is -inf, and -inf - -inf is not a number.
        shift = gl.where(new_top == float("-inf"), 0.0, new_top)
        alpha = gl.exp2(top - shift)
        p = gl.exp2(s - gl.expand_dims(shift - 10, 1))
        totals = totals * gl.expand_dims(alpha, 1) + p
        top = new_top
        # Allocated here, it takes the place of what the steps above needed.
        p_shared = gl.allocate_shared_memory(gl.float16, [BLOCK_H, BLOCK_T], WEIGHTS, p.to(gl.float16))
        half = p_shared.load(LEFT)
        alpha8 = gl.expand_dims(alpha * moved, 1)
        acc0 = mma_v2(half, k_shared.index(0).load(RIGHT), acc0 * alpha8)
        acc1 = mma_v2(half, k_shared.index(1).load(RIGHT), acc1 * alpha8)
        acc2 = mma_v2(half, k_shared.index(2).load(RIGHT), acc2 * alpha8)
        acc3 = mma_v2(half, k_shared.index(3).load(RIGHT), acc3 * alpha8)
        acc4 = mma_v2(half, k_shared.index(4).load(RIGHT), acc4 * alpha8)
        acc5 = mma_v2(half, k_shared.index(5).load(RIGHT), acc5 * alpha8)
        acc6 = mma_v2(half, k_shared.index(6).load(RIGHT), acc6 * alpha8)
        acc7 = mma_v2(half, k_shared.index(7).load(RIGHT), acc7 * gl.expand_dims(alpha, 1))

    total = gl.sum(totals, axis=1)
    head = gl.program_id(1) * BLOCK_H + gl.arange(0, BLOCK_H, layout=HEADS)
    heads_ok = head < heads
    lse2 = top + (gl.log2(total) - 10)  # -inf without a token
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
    factor = 1.0 / norm
    factor8 = factor * _power(unit)
    at = gl.expand_dims(out + row * 512, 1) + gl.expand_dims(
        gl.arange(0, 64, layout=gl.SliceLayout(0, MMA)), 0
    )
    _store(at, acc0, factor8, write, DIRECT)
    _store(at + 64, acc1, factor8, write, DIRECT)
    _store(at + 128, acc2, factor8, write, DIRECT)
    _store(at + 192, acc3, factor8, write, DIRECT)
    _store(at + 256, acc4, factor8, write, DIRECT)
    _store(at + 320, acc5, factor8, write, DIRECT)
    _store(at + 384, acc6, factor8, write, DIRECT)
    _store(at + 448, acc7, factor, write, DIRECT)


def plan(heads: int, queries: int, window: int, extra: int, processors: int) -> Tuple[dict, int]:
    """Which of SPLIT_CONFIGS a call is launched with, and in how many parts its tokens are taken."""
    from sglang.srt.layers.attention.sm120_sparse_decode import shares

    config = SPLIT_CONFIGS[0]
    blocks = queries * triton.cdiv(heads, config["BLOCK_H"])
    tiles = triton.cdiv(window, config["BLOCK_T"]) + triton.cdiv(extra, config["BLOCK_T"])
    return config, shares(tiles, blocks, processors, 1.6)


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
