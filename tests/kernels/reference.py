"""What the kernels must give, in float64, from the mathematics; and caches written as their layout says.

Numbers with 8 bits are made of bytes here and never rounded to them: so nothing but a kernel can be
imprecise.
"""

from __future__ import annotations

import numpy as np


def e4m3(bits: np.ndarray) -> np.ndarray:
    """The values of fp8 e4m3 bytes: sign, four bits of exponent (bias 7), three of fraction; no NaN in the
    tests."""
    exponent, fraction = (bits >> 3) & 15, bits & 7
    small = fraction / 8 * 2.0**-6
    value = np.where(exponent == 0, small, (1 + fraction / 8) * 2.0 ** (exponent.astype(np.int64) - 7))
    return np.where(bits & 0x80, -value, value)


def bf16(bits: np.ndarray) -> np.ndarray:
    """The values of bf16 bits: the upper half of a float."""
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def to_bf16(values: np.ndarray) -> np.ndarray:
    """The bits of the nearest bf16 numbers, ties to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def fp8_bytes(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Random bytes that are numbers of a moderate size, zero and subnormal ones among them."""
    return (rng.integers(0, 0x50, shape) | (rng.integers(0, 2, shape) << 7)).astype(np.uint8)


class MlaCache:
    """A paged cache of keys, [pages, N, 1, 584] bytes with the page's padding in the stride, and its
    values."""

    def __init__(self, rng: np.random.Generator, pages: int, page_size: int, spread: int = 3) -> None:
        page_bytes = -(-page_size * 584 // 576) * 576
        tokens = pages * page_size
        nope = fp8_bytes(rng, (pages, page_size, 448))
        rope = to_bf16(rng.standard_normal((pages, page_size, 64)))
        scales = rng.integers(127 - 4 - spread, 127 - 4 + spread + 1, (pages, page_size, 8)).astype(np.uint8)
        raw = np.full((pages, page_bytes), 0xFF, np.uint8)  # what is not written here is a NaN
        data = raw[:, : page_size * 576].reshape(pages, page_size, 576)
        data[..., :448] = nope
        data[..., 448:] = rope.view(np.uint8).reshape(pages, page_size, 128)
        raw[:, page_size * 576 : page_size * 584] = scales.reshape(pages, -1)
        self.bytes = np.lib.stride_tricks.as_strided(
            raw, (pages, page_size, 1, 584), (page_bytes, 584, 584, 1)
        )
        self.raw = raw
        scale = 2.0 ** (scales[..., :7].astype(np.float64) - 127)
        keys = np.concatenate([e4m3(nope) * np.repeat(scale, 64, axis=-1), bf16(rope)], axis=-1)
        self.keys = keys.reshape(tokens, 512)


def sparse_decode(q, softmax_scale, caches, sink):
    """out [B, H, 512] and log-sum-exp [B, H], float64, of q [B, H, 512].

    ``caches`` holds (keys [tokens, 512], indices [B, width], lengths [B] or None) each.
    """
    out = np.zeros(q.shape)
    lse = np.full(q.shape[:2], -np.inf)
    for query in range(q.shape[0]):
        chosen = []
        for keys, indices, lengths in caches:
            listed = indices[query] if lengths is None else indices[query][: max(0, lengths[query])]
            chosen.append(keys[listed[listed >= 0]])
        keys = np.concatenate(chosen)
        scores = softmax_scale * q[query] @ keys.T
        if sink is not None:
            scores = np.concatenate([scores, sink[:, None].astype(np.float64)], axis=1)
        if scores.shape[1]:
            high = scores.max(axis=1, keepdims=True)
            lse[query] = high[:, 0] + np.log(np.exp(scores - high).sum(axis=1))
            out[query] = np.exp(scores[:, : len(keys)] - lse[query][:, None]) @ keys
    return out, lse


class IndexerCache:
    """A paged cache of the indexer's keys, [pages, 64, 1, 132] bytes, and its values with the scales
    apart."""

    def __init__(self, rng: np.random.Generator, pages: int) -> None:
        keys = fp8_bytes(rng, (pages, 64, 128))
        scales = rng.uniform(0.01, 0.1, (pages, 64)).astype(np.float32)
        parts = [keys.reshape(pages, -1), scales.view(np.uint8).reshape(pages, -1)]
        self.bytes = np.concatenate(parts, axis=1).reshape(pages, 64, 1, 132)
        self.keys, self.scales = e4m3(keys), scales.astype(np.float64)


def indexer_logits(q, cache: IndexerCache, weight, lengths, pages, width):
    """Logits [B, width], float64, of q [B, H, 128]; -inf from the query's length on."""
    logits = np.full((q.shape[0], width), -np.inf)
    for query in range(q.shape[0]):
        keys = cache.keys[pages[query]].reshape(-1, 128)
        scales = cache.scales[pages[query]].reshape(-1)
        values = (np.maximum(q[query] @ keys.T, 0) * weight[query][:, None]).sum(axis=0) * scales
        count = min(lengths[query], width)
        logits[query, :count] = values[:count]
    return logits
