# SPDX-License-Identifier: Apache-2.0
"""Sparse MLA decode for sm_120 in plain Triton: split over tokens, on tensor cores, in one pass over two
caches.

For each query token and each of H heads, with d = 512 and the value equal to the key (MLA):

    score[t] = softmax_scale * <q, k[t]>          over the tokens t that an index list names
    out      = sum_t exp(score[t]) k[t] / (sum_t exp(score[t]) + exp(sink))

The tokens come from two paged caches, the sliding window and (where a layer has one) the compressed context.
One launch walks the tiles of both lists, shared out evenly by the true lengths, which are read on the
device: nothing here waits for the GPU, so that a CUDA graph can hold it. A second kernel merges the parts of
a query by their log-sum-exp, in a fixed order: the same input gives the same bits.

A page of either cache holds N tokens and is laid out as follows (bytes; a page is padded to a multiple of
576):

    [t * 576, + 448)          7 groups of 64 numbers, fp8 e4m3, of token t
    [t * 576 + 448, + 128)    64 numbers, bf16: the part with rotary positions
    [N * 576 + t * 8, + 8)    7 scales of the groups, ue8m0 (2 ** (byte - 127)), and a byte that is not used

Keys go to the tensor cores as fp16, multiplied by their scale as they are unpacked. In fp16 a probability is
eight times nearer than in bf16, and a key with its scale is exact as long as it is in range. What might not
be is moved by a power of two, which costs no accuracy:

  - a key's scale by the largest scale met so far (``unit``): a token is exact down to 2 ** -15 of it, and
    below that off by at most 2 ** -25 of the unit;
  - q by its largest number, to below 2 ** 15;
  - probabilities by 2 ** 10.

The rotary part is bf16 on both sides; its probabilities are two bf16 numbers, one for the rest of the other.

What limits this kernel is not memory but the length of one tile's chain of steps, so two blocks should fit
on a multiprocessor: on sm_120 that is 50,176 bytes of shared memory and 255 registers each with 4 warps.
"""

import functools
from typing import Optional, Tuple

import torch
import triton
import triton.language as tl

NOPE_DIM = 448
ROPE_DIM = 64
HEAD_DIM = 512
TOKEN_BYTES = 576
SCALE_BYTES = 8

LOG2E = 1.4426950408889634
# True only under TRITON_INTERPRET=1, where kernels run on the CPU, one program after the other.
INTERPRET = triton.knobs.runtime.interpret

# Every configuration that is launched: BLOCK_H heads and BLOCK_T tokens a tile. All of them fit sm_120
# (101,376 bytes of shared memory a block) without spilling, the first one twice a multiprocessor.
SPLIT_CONFIGS = (
    {"BLOCK_H": 16, "BLOCK_T": 32, "num_warps": 4, "num_stages": 1},
    {"BLOCK_H": 32, "BLOCK_T": 64, "num_warps": 8, "num_stages": 1},
)
# BLOCK_S parts at most are merged by a program, BLOCK_D numbers of a head each.
MERGE_CONFIGS = (
    {"BLOCK_S": 4, "BLOCK_D": 512, "num_warps": 4, "num_stages": 1},
    {"BLOCK_S": 16, "BLOCK_D": 256, "num_warps": 4, "num_stages": 1},
    {"BLOCK_S": 32, "BLOCK_D": 128, "num_warps": 4, "num_stages": 1},
)
#: The most parts that the merge takes.
MOST_PARTS = 32


@triton.jit
def _fp8(rows, group: tl.constexpr, valid):
    """One group of each token, [T, 64] bytes; zero where a token is not valid."""
    at = rows[:, None] + (group * 64 + tl.arange(0, 64))[None, :]
    return tl.load(at, mask=valid[:, None], other=0)


@triton.jit
def _half(keys, packed, group: tl.constexpr, unit, INTERPRET: tl.constexpr):
    """One group of each token in fp16, [T, 64], times its scale in ``unit``.

    In assembler that the compiler may not move: it would unpack after sharing the bytes out over the
    threads, twice, and a byte at a time.
    """
    factor = _power(tl.maximum(_byte(packed, group) - unit + 127, 0)).to(tl.float16)[:, None]
    if INTERPRET:
        return keys.to(tl.float8e4nv, bitcast=True).to(tl.float16) * factor
    else:
        return tl.inline_asm_elementwise(
            """{ .reg .b16 low, high;
            .reg .b32 first, second;
            mov.b32 {low, high}, $2;
            cvt.rn.f16x2.e4m3x2 first, low;
            cvt.rn.f16x2.e4m3x2 second, high;
            mul.rn.f16x2 $0, first, $3;
            mul.rn.f16x2 $1, second, $4; }""",
            "=r,=r,r,r,r",
            [keys, factor],
            dtype=tl.float16,
            is_pure=False,
            pack=4,
        )


@triton.jit
def _power(exponent):
    """2 ** (exponent - 127) in fp32, for 0 < exponent < 255; 0 for 0."""
    return (exponent << 23).to(tl.float32, bitcast=True)


@triton.jit
def _byte(packed, group: tl.constexpr):
    """The exponent of one group's scale, [T] int32, 127 for 1."""
    return ((packed >> (8 * group)) & 0xFF).to(tl.int32)


@triton.jit
def _dot(a, b, acc, INTERPRET: tl.constexpr):
    """a @ b + acc in fp32. The interpreter multiplies the bits of bf16 as if they were whole numbers: not
    there."""
    if INTERPRET:
        return tl.dot(a.to(tl.float32), b.to(tl.float32), acc, input_precision="ieee")
    else:
        return tl.dot(a, b, acc)


@triton.jit
def _bf16(x, INTERPRET: tl.constexpr):
    """The nearest bf16. The interpreter's own rounding loses the carry into an odd exponent."""
    if INTERPRET:
        bits = x.to(tl.uint32, bitcast=True)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).to(tl.uint16).to(tl.bfloat16, bitcast=True)
    else:
        return x.to(tl.bfloat16)


@triton.jit
def _highest(top, q):
    """The largest magnitude of each head so far, [H] fp32."""
    return tl.maximum(top, tl.max(tl.abs(q.to(tl.float32)), axis=1))


@triton.jit
def _moved(q, factor):
    """q [H, 64] in fp16, moved by a power of two."""
    return (q.to(tl.float32) * factor).to(tl.float16)


@triton.jit
def _store(out, acc, group: tl.constexpr, factor, rows_ok, DIRECT: tl.constexpr, INTERPRET: tl.constexpr):
    at = out[:, None] + (group * 64 + tl.arange(0, 64))[None, :]
    value = acc * factor[:, None]
    if DIRECT:
        value = _bf16(value, INTERPRET)
    tl.store(at, value, mask=rows_ok[:, None])


@triton.jit
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
    DIRECT: tl.constexpr,
    PDL: tl.constexpr,
    INTERPRET: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_T: tl.constexpr,
):
    """One part of the tokens of one query, for BLOCK_H heads. Grid (B, ceil(heads / BLOCK_H), parts).

    q [B, heads, 512] bf16; window, extra: bytes of the caches; indices [B, width] int32, -1 for none;
    lengths [B] int32: entries from there on do not count; sink [heads] fp32, in natural units.

    DIRECT (one part): out [B, heads, 512] bf16 and lse [B, heads] fp32 are the result. Otherwise out
    [B, heads, parts, 512] fp32 is normalised within the part, and lse [B, heads, parts] is in base 2; a part
    without tokens has lse -inf and leaves its out unwritten.
    """
    if PDL:
        tl.extra.cuda.gdc_wait()
        tl.extra.cuda.gdc_launch_dependents()
    batch = tl.program_id(0).to(tl.int64)
    part = tl.program_id(2)
    parts = tl.num_programs(2)
    head = tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H)
    heads_ok = head < heads

    window_count = tl.maximum(tl.minimum(tl.load(window_length + batch).to(tl.int32), window_width), 0)
    extra_count = tl.maximum(tl.minimum(tl.load(extra_length + batch).to(tl.int32), extra_width), 0)
    window_tiles = (window_count + BLOCK_T - 1) // BLOCK_T
    tiles = window_tiles + (extra_count + BLOCK_T - 1) // BLOCK_T
    first = tiles * part // parts
    last = tiles * (part + 1) // parts

    q_rows = q + batch * q_stride_b + head * q_stride_h
    q_at = q_rows[:, None] + tl.arange(0, 64)[None, :]
    q_ok = heads_ok[:, None]
    q0 = tl.load(q_at, mask=q_ok, other=0.0)
    q1 = tl.load(q_at + 64, mask=q_ok, other=0.0)
    q2 = tl.load(q_at + 128, mask=q_ok, other=0.0)
    q3 = tl.load(q_at + 192, mask=q_ok, other=0.0)
    q4 = tl.load(q_at + 256, mask=q_ok, other=0.0)
    q5 = tl.load(q_at + 320, mask=q_ok, other=0.0)
    q6 = tl.load(q_at + 384, mask=q_ok, other=0.0)
    q7 = tl.load(q_at + 448, mask=q_ok, other=0.0)
    q_top = _highest(_highest(_highest(tl.zeros([BLOCK_H], tl.float32), q0), q1), q2)
    q_top = _highest(_highest(_highest(_highest(q_top, q3), q4), q5), q6)
    # Numbers in [1, 2) have the exponent 127; the largest of all comes to [2 ** 14, 2 ** 15).
    q_unit = tl.minimum(tl.maximum(tl.max(q_top, axis=0).to(tl.int32, bitcast=True) >> 23, 40), 254)
    q_factor = _power(268 - q_unit)
    q_back = _power(q_unit - 14) * scale_log2
    q0 = _moved(q0, q_factor)
    q1 = _moved(q1, q_factor)
    q2 = _moved(q2, q_factor)
    q3 = _moved(q3, q_factor)
    q4 = _moved(q4, q_factor)
    q5 = _moved(q5, q_factor)
    q6 = _moved(q6, q_factor)

    unit = 32
    top = tl.full([BLOCK_H], float("-inf"), tl.float32)
    # Summed over tokens once, at the end.
    totals = tl.zeros([BLOCK_H, BLOCK_T], tl.float32)
    acc0 = tl.zeros([BLOCK_H, 64], tl.float32)
    acc1 = tl.zeros([BLOCK_H, 64], tl.float32)
    acc2 = tl.zeros([BLOCK_H, 64], tl.float32)
    acc3 = tl.zeros([BLOCK_H, 64], tl.float32)
    acc4 = tl.zeros([BLOCK_H, 64], tl.float32)
    acc5 = tl.zeros([BLOCK_H, 64], tl.float32)
    acc6 = tl.zeros([BLOCK_H, 64], tl.float32)
    acc7 = tl.zeros([BLOCK_H, 64], tl.float32)

    slot = tl.arange(0, BLOCK_T)
    for tile in range(first, last):
        in_window = tile < window_tiles
        listed = tl.where(
            in_window, window_indices + batch * window_stride, extra_indices + batch * extra_stride
        )
        count = tl.where(in_window, window_count, extra_count)
        base = tl.where(in_window, window, extra)
        page_log2 = tl.where(in_window, window_page_log2, extra_page_log2)
        page_bytes = tl.where(in_window, window_page_bytes, extra_page_bytes)
        entry = tl.where(in_window, tile, tile - window_tiles) * BLOCK_T + slot
        token = tl.load(listed + entry, mask=entry < count, other=-1).to(tl.int32)
        valid = token >= 0
        token = tl.where(valid, token, 0)
        page = base + (token >> page_log2).to(tl.int64) * page_bytes
        within = token & ((1 << page_log2) - 1)
        rows = page + within * 576
        rope_at = (rows + 448).to(tl.pointer_type(tl.bfloat16), bitcast=True)[:, None] + tl.arange(0, 64)[
            None, :
        ]
        scales_at = (page + ((576 << page_log2) + within * 8)).to(tl.pointer_type(tl.int64), bitcast=True)
        k7 = tl.load(rope_at, mask=valid[:, None], other=0.0)
        packed = tl.load(scales_at, mask=valid, other=0)
        k0 = _fp8(rows, 0, valid)
        k1 = _fp8(rows, 1, valid)
        k2 = _fp8(rows, 2, valid)
        k3 = _fp8(rows, 3, valid)
        k4 = _fp8(rows, 4, valid)
        k5 = _fp8(rows, 5, valid)
        k6 = _fp8(rows, 6, valid)

        # The largest scale so far; what was added up before is moved to it.
        highest = tl.maximum(tl.maximum(_byte(packed, 0), _byte(packed, 1)), _byte(packed, 2))
        highest = tl.maximum(tl.maximum(highest, _byte(packed, 3)), _byte(packed, 4))
        highest = tl.maximum(tl.maximum(highest, _byte(packed, 5)), _byte(packed, 6))
        new_unit = tl.maximum(unit, tl.max(highest, axis=0))
        moved = _power(tl.maximum(unit - new_unit + 127, 0))
        unit = new_unit
        k0 = _half(k0, packed, 0, unit, INTERPRET)
        k1 = _half(k1, packed, 1, unit, INTERPRET)
        k2 = _half(k2, packed, 2, unit, INTERPRET)
        k3 = _half(k3, packed, 3, unit, INTERPRET)
        k4 = _half(k4, packed, 4, unit, INTERPRET)
        k5 = _half(k5, packed, 5, unit, INTERPRET)
        k6 = _half(k6, packed, 6, unit, INTERPRET)
        zero = tl.zeros([BLOCK_H, BLOCK_T], tl.float32)
        s = _dot(q0, tl.trans(k0), zero, INTERPRET)
        s = _dot(q1, tl.trans(k1), s, INTERPRET)
        s = _dot(q2, tl.trans(k2), s, INTERPRET)
        s = _dot(q3, tl.trans(k3), s, INTERPRET)
        s = _dot(q4, tl.trans(k4), s, INTERPRET)
        s = _dot(q5, tl.trans(k5), s, INTERPRET)
        s = _dot(q6, tl.trans(k6), s, INTERPRET)
        rope = _dot(q7, tl.trans(k7), zero, INTERPRET)
        s = tl.where(valid[None, :], s * (q_back * _power(unit)) + rope * scale_log2, float("-inf"))

        new_top = tl.maximum(top, tl.max(s, axis=1))
        # Without a valid token so far the maximum is -inf, and -inf - -inf is not a number.
        shift = tl.where(new_top == float("-inf"), 0.0, new_top)
        alpha = tl.exp2(top - shift)
        p = tl.exp2(s - (shift - 10)[:, None])
        totals = totals * alpha[:, None] + p
        top = new_top

        half = p.to(tl.float16)
        alpha8 = (alpha * moved)[:, None]
        acc0 = _dot(half, k0, acc0 * alpha8, INTERPRET)
        acc1 = _dot(half, k1, acc1 * alpha8, INTERPRET)
        acc2 = _dot(half, k2, acc2 * alpha8, INTERPRET)
        acc3 = _dot(half, k3, acc3 * alpha8, INTERPRET)
        acc4 = _dot(half, k4, acc4 * alpha8, INTERPRET)
        acc5 = _dot(half, k5, acc5 * alpha8, INTERPRET)
        acc6 = _dot(half, k6, acc6 * alpha8, INTERPRET)
        p_high = _bf16(p, INTERPRET)
        p_rest = _bf16(p - p_high.to(tl.float32), INTERPRET)
        acc7 = _dot(p_high, k7, acc7 * alpha[:, None], INTERPRET)
        acc7 = _dot(p_rest, k7, acc7, INTERPRET)

    total = tl.sum(totals, axis=1)
    lse2 = top + (tl.log2(total) - 10)  # -inf without a token
    norm = tl.where(total > 0, total, 1.0)
    if DIRECT:
        row = batch * heads + head
        sink2 = tl.load(sink + head, mask=heads_ok, other=float("-inf")).to(tl.float32) * 1.4426950408889634
        high = tl.maximum(lse2, sink2)
        high = tl.where(high == float("-inf"), 0.0, high)
        own = tl.exp2(lse2 - high)
        both = own + tl.exp2(sink2 - high)
        # One factor: over the part's own total, and down to the share that the sink leaves.
        norm = tl.where(own > 0, norm * both / own, 1.0)
        lse2 = high + tl.log2(both)
        tl.store(lse + row, lse2 * 0.6931471805599453, mask=heads_ok)
        write = heads_ok
    else:
        row = (batch * heads + head) * parts + part
        tl.store(lse + row, lse2, mask=heads_ok)
        write = heads_ok & (first < last)
    out_rows = out + row * 512
    factor = 1.0 / norm
    factor8 = factor * _power(unit)
    _store(out_rows, acc0, 0, factor8, write, DIRECT, INTERPRET)
    _store(out_rows, acc1, 1, factor8, write, DIRECT, INTERPRET)
    _store(out_rows, acc2, 2, factor8, write, DIRECT, INTERPRET)
    _store(out_rows, acc3, 3, factor8, write, DIRECT, INTERPRET)
    _store(out_rows, acc4, 4, factor8, write, DIRECT, INTERPRET)
    _store(out_rows, acc5, 5, factor8, write, DIRECT, INTERPRET)
    _store(out_rows, acc6, 6, factor8, write, DIRECT, INTERPRET)
    _store(out_rows, acc7, 7, factor, write, DIRECT, INTERPRET)


@triton.jit
def sparse_decode_merge(
    parts_out,
    parts_lse,
    sink,
    out,
    lse,
    heads,
    parts,
    PDL: tl.constexpr,
    INTERPRET: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """Merges the parts of a query and head by their log-sum-exp. Grid (B * heads, 512 / BLOCK_D).

    parts_out [B * heads, parts, 512] fp32 and parts_lse [B * heads, parts] fp32 (base 2) as
    ``sparse_decode_split`` leaves them; out [B * heads, 512] bf16, lse [B * heads] fp32, natural.
    """
    row = tl.program_id(0).to(tl.int64)
    dim = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    part = tl.arange(0, BLOCK_S)
    sink2 = tl.load(sink + row % heads).to(tl.float32) * 1.4426950408889634
    if PDL:
        tl.extra.cuda.gdc_wait()
    lse2 = tl.load(parts_lse + row * parts + part, mask=part < parts, other=float("-inf"))
    there = lse2 > float("-inf")
    at = parts_out + (row * parts + part[:, None]) * 512 + dim[None, :]
    acc = tl.load(at, mask=there[:, None], other=0.0)
    high = tl.maximum(tl.max(lse2, axis=0), sink2)
    high = tl.where(high == float("-inf"), 0.0, high)
    weight = tl.exp2(lse2 - high)
    total = tl.sum(weight, axis=0) + tl.exp2(sink2 - high)
    merged = tl.sum(acc * weight[:, None], axis=0) / tl.where(total > 0, total, 1.0)
    tl.store(out + row * 512 + dim, _bf16(merged, INTERPRET))
    if tl.program_id(1) == 0:
        tl.store(lse + row, (high + tl.log2(total)) * 0.6931471805599453)


@functools.cache
def _processors(device: int) -> int:
    """How many multiprocessors a GPU has."""
    return torch.cuda.get_device_properties(device).multi_processor_count


def shares(tiles: int, blocks: int, processors: int, shared: float) -> int:
    """In how many parts ``tiles`` tiles are taken, each part by ``blocks`` blocks.

    Either a block for each multiprocessor or two; two together take ``shared`` times as long a tile. Of
    those that leave the longest part no longer, the fewest: more of them only cost more in the merge.
    """
    choices = []
    for each in (1, 2):
        most = max(1, min(tiles, each * processors // blocks, MOST_PARTS))
        longest = max(1, triton.cdiv(tiles, most))
        parts = max(1, triton.cdiv(tiles, longest))
        choices.append((longest * (shared if parts * blocks > processors else 1), parts))
    return min(choices)[1]


def plan(heads: int, queries: int, window: int, extra: int, processors: int) -> Tuple[dict, int]:
    """Which of SPLIT_CONFIGS a call is launched with, and in how many parts its tokens are taken.

    ``window`` and ``extra`` are the widths of the index lists. Where a part a query fills the GPU, larger
    blocks: they read a token half as often.
    """
    large = heads > 16 and 2 * queries * triton.cdiv(heads, 32) >= processors
    config = SPLIT_CONFIGS[1 if large else 0]
    blocks = queries * triton.cdiv(heads, config["BLOCK_H"])
    tiles = triton.cdiv(window, config["BLOCK_T"]) + triton.cdiv(extra, config["BLOCK_T"])
    return config, shares(tiles, blocks, processors, 2.0 if large else 1.4)


def _bytes(cache: torch.Tensor) -> torch.Tensor:
    """The cache as plain bytes, [pages, N, 1, 584]; the page's padding is only in the stride."""
    if cache.shape[-1] != TOKEN_BYTES + SCALE_BYTES or cache.shape[-2] != 1 or cache.element_size() != 1:
        raise ValueError(
            f"sm120 sparse decode: unknown layout of a cache, {tuple(cache.shape)} {cache.dtype}"
        )
    if cache.shape[1] & (cache.shape[1] - 1):
        raise ValueError(f"sm120 sparse decode: {cache.shape[1]} tokens in a page, not a power of two")
    return cache if cache.dtype == torch.uint8 else cache.view(torch.uint8)


def _rows(indices: torch.Tensor, queries: int) -> torch.Tensor:
    """An index list as [B, width], the last dimension dense."""
    rows = indices.reshape(queries, -1)
    return rows if rows.stride(1) == 1 else rows.contiguous()


def _filled(count: int, value: float, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """What stands for an argument that was left out."""
    return torch.full((count,), value, dtype=dtype, device=device)


def decode(
    split,
    planner,
    q: torch.Tensor,
    k_cache: torch.Tensor,
    indices: torch.Tensor,
    softmax_scale: float,
    topk_length: Optional[torch.Tensor],
    attn_sink: Optional[torch.Tensor],
    extra_k_cache: Optional[torch.Tensor],
    extra_indices: Optional[torch.Tensor],
    extra_topk_length: Optional[torch.Tensor],
) -> Tuple[torch.Tensor, torch.Tensor]:
    """Runs ``split`` (planned by ``planner``) and, for more than one part, the merge.

    q [B, 1, H, 512] bf16; the caches [pages, N, 1, 584] of bytes or fp8; indices [B, 1, width] int32, -1 for
    none; lengths [B] int32; sink [H] fp32. Gives out [B, 1, H, 512] bf16 and its log-sum-exp [B, H, 1] fp32,
    sink included. A query without any token gets zeros.
    """
    queries, one, heads, dim = q.shape
    if one != 1 or dim != HEAD_DIM:
        raise ValueError(f"sm120 sparse decode: q has the shape {tuple(q.shape)}, not [B, 1, H, {HEAD_DIM}]")
    if q.stride(3) != 1:
        q = q.contiguous()
    window = _bytes(k_cache)
    window_indices = _rows(indices, queries)
    if topk_length is None:
        topk_length = _filled(queries, window_indices.shape[1], torch.int32, q.device)
    if attn_sink is None:
        attn_sink = _filled(heads, float("-inf"), torch.float32, q.device)
    if extra_k_cache is None or extra_indices is None:
        # A list without entries: the same kernel, which then never looks there.
        extra, extra_rows, extra_width, extra_topk_length = window, window_indices, 0, topk_length
    else:
        extra, extra_rows = _bytes(extra_k_cache), _rows(extra_indices, queries)
        extra_width = extra_rows.shape[1]
        if extra_topk_length is None:
            extra_topk_length = _filled(queries, extra_width, torch.int32, q.device)
    processors = 4 if INTERPRET else _processors(q.device.index)
    config, parts = planner(heads, queries, window_indices.shape[1], extra_width, processors)
    direct = parts == 1

    out = torch.empty((queries, 1, heads, HEAD_DIM), dtype=torch.bfloat16, device=q.device)
    lse = torch.empty((queries, heads, 1), dtype=torch.float32, device=q.device)
    if direct:
        parts_out, parts_lse = out, lse
    else:
        parts_out = torch.empty((queries, heads, parts, HEAD_DIM), dtype=torch.float32, device=q.device)
        parts_lse = torch.empty((queries, heads, parts), dtype=torch.float32, device=q.device)
    # The merge may start while the split still runs, and waits for it on the device.
    launch = {} if INTERPRET else {"launch_pdl": True}
    if queries == 0:
        return out, lse
    split[(queries, triton.cdiv(heads, config["BLOCK_H"]), parts)](
        q,
        window,
        window_indices,
        topk_length,
        extra,
        extra_rows,
        extra_topk_length,
        attn_sink,
        parts_out,
        parts_lse,
        softmax_scale * LOG2E,
        heads,
        q.stride(0),
        q.stride(2),
        window_indices.shape[1],
        window_indices.stride(0),
        window.shape[1].bit_length() - 1,
        window.stride(0),
        extra_width,
        extra_rows.stride(0),
        extra.shape[1].bit_length() - 1,
        extra.stride(0),
        DIRECT=direct,
        PDL=not INTERPRET,
        INTERPRET=INTERPRET,
        **config,
        **launch,
    )
    if not direct:
        merge = next(config for config in MERGE_CONFIGS if parts <= config["BLOCK_S"])
        sparse_decode_merge[(queries * heads, HEAD_DIM // merge["BLOCK_D"])](
            parts_out,
            parts_lse,
            attn_sink,
            out,
            lse,
            heads,
            parts,
            PDL=not INTERPRET,
            INTERPRET=INTERPRET,
            **merge,
            **launch,
        )
    return out, lse


def sm120_sparse_decode(
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
    """The operator: see ``decode`` for shapes and results."""
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


def sm120_sparse_decode_fake(
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
    """The shapes and types of the operator's results, without running it."""
    queries, _, heads, dim = q.shape
    out = torch.empty((queries, 1, heads, dim), dtype=torch.bfloat16, device=q.device)
    return out, torch.empty((queries, heads, 1), dtype=torch.float32, device=q.device)


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
    if head_dim_v != HEAD_DIM:
        raise ValueError(f"sm120 sparse decode: values of {head_dim_v} numbers, not {HEAD_DIM}")
    return sm120_sparse_decode(
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
