"""Cases for the kernels of ``patchsets/sm120``, run one by name in Triton's interpreter: ``python cases.py
NAME``.

Prints the errors against float64 as JSON. Run by ``test_sm120_numerics.py``, in a process of its own: the
interpreter is chosen before Triton is imported. With torch installed, ``--torch`` uses that in place of the
stand-in.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np  # noqa: E402
import reference  # noqa: E402
import tensors  # noqa: E402

KERNELS = Path(__file__).resolve().parents[2] / "patchsets/sm120/files/python/sglang/srt/layers/attention"


def quicken() -> None:
    """Triton's interpreter prepares its language anew at each call of a function within a kernel, which
    takes half of the time. Once is enough: for our functions the launch has done it, for Triton's own the
    first call does."""
    import triton.language
    from triton.runtime import interpreter

    prepared: set[int] = set()

    def call(function, *arguments, **named):
        names = function.fn.__globals__
        if id(names) not in prepared and not any(value is triton.language for value in names.values()):
            prepared.add(id(names))
            interpreter._patch_lang(function.fn)
        return function.rewrite()(*arguments, **named)

    interpreter.InterpretedFunction.__call__ = call


def module(name: str):
    """One of the patchset's modules, by its file."""
    spec = importlib.util.spec_from_file_location(name, KERNELS / f"{name}.py")
    assert spec and spec.loader
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def tensor(array: np.ndarray, dtype: str):
    """An array as torch or its stand-in has it; bits, for the types that numpy has not."""
    torch = sys.modules["torch"]
    if torch.__name__ == "torch" and hasattr(torch, "from_numpy"):
        signed = array.view(np.int16) if array.dtype == np.uint16 else array
        made = torch.from_numpy(signed)
        return made.view(torch.bfloat16) if dtype == "bfloat16" else made
    return tensors.Tensor(array, getattr(tensors, dtype))


def array(made) -> np.ndarray:
    """What a tensor holds, bf16 as its values."""
    if hasattr(made, "array"):
        return reference.bf16(made.array) if made.dtype is tensors.bfloat16 else made.array
    return made.float().numpy()


def relative(got: np.ndarray, right: np.ndarray) -> float:
    assert np.isfinite(got).all(), "not a number, or infinite"
    norm = float(np.linalg.norm(right))
    return float(np.linalg.norm(got - right)) / (norm or 1.0)


def decode(
    heads: int = 16,
    queries: int = 1,
    window: int = 64,
    window_page: int = 64,
    extra: int = 64,
    extra_page: int = 64,
    lengths: tuple[list[int], list[int]] | None = None,
    holes: float = 0.0,
    sink: float | None = 0.0,
    spread: int = 3,
    q_size: float = 1.0,
    parts: int = 0,
    config: int = 0,
    same: bool = False,
    dead: tuple[int, ...] = (),
) -> dict[str, float]:
    """One call against float64. ``extra`` 0: a layer without a compressed cache; ``dead``: queries of -1
    alone."""
    kernels = module("sm120_sparse_decode")
    rng = np.random.default_rng(sum(map(ord, sys.argv[1])))
    pool = reference.MlaCache(rng, max(2, 256 // window_page), window_page, spread)
    other = reference.MlaCache(rng, max(2, 256 // extra_page), extra_page, spread)
    q = reference.to_bf16(rng.standard_normal((queries, 1, heads, 512)) * q_size)
    lists = []
    for cache, width in ((pool, window), (other, extra)):
        listed = rng.integers(0, len(cache.keys), (queries, 1, width)).astype(np.int32)
        listed[rng.random(listed.shape) < holes] = -1
        listed[list(dead)] = -1
        lists.append(listed)
    counts = [None, None] if lengths is None else [np.array(each, np.int32) for each in lengths]
    sinks = None if sink is None else (rng.standard_normal(heads) + sink).astype(np.float32)
    scale = 0.03 / q_size / 2.0 ** (spread - 3)
    if parts or config:
        chosen = kernels.SPLIT_CONFIGS[config]
        kernels.plan = lambda *sizes: (chosen, parts or 2)

    def call():
        return kernels.flash_mla_with_kvcache(
            q=tensor(q, "bfloat16"),
            k_cache=tensor(pool.bytes, "uint8"),
            indices=tensor(lists[0], "int32"),
            head_dim_v=512,
            softmax_scale=scale,
            topk_length=None if counts[0] is None else tensor(counts[0], "int32"),
            attn_sink=None if sinks is None else tensor(sinks, "float32"),
            extra_k_cache=tensor(other.bytes, "uint8") if extra else None,
            extra_indices_in_kvcache=tensor(lists[1], "int32") if extra else None,
            extra_topk_length=None if counts[1] is None or not extra else tensor(counts[1], "int32"),
        )

    out, lse = (array(each) for each in call())
    caches = [(pool.keys, lists[0][:, 0], counts[0])]
    if extra:
        caches.append((other.keys, lists[1][:, 0], counts[1]))
    right, right_lse = reference.sparse_decode(reference.bf16(q[:, 0]), scale, caches, sinks)
    found = {"error": relative(out[:, 0], right)}
    finite = np.isfinite(right_lse)
    assert (np.isfinite(lse[:, :, 0]) == finite).all(), "log-sum-exp is not finite where it should be"
    off = np.abs(lse[:, :, 0] - right_lse)[finite] / np.maximum(1, np.abs(right_lse[finite]))
    found["lse"] = float(off.max(initial=0.0))
    if same:
        found["differs"] = float(np.abs(array(call()[0]) - out).max())
    for query in dead:
        found["dead"] = float(np.abs(out[query]).max())
    return found


def indexer(
    heads: int = 64,
    lengths: tuple[int, ...] = (100, 64),
    width: int = 192,
    column: bool = False,
    config: int = 0,
    apart: bool = False,
) -> dict[str, float]:
    """Logits against float64. ``column``: lengths as [B, 1]; ``apart``: the table is every other column."""
    kernels = module("sm120_indexer_logits")
    rng = np.random.default_rng(sum(map(ord, sys.argv[1])))
    queries, pages = len(lengths), -(-width // 64)
    cache = reference.IndexerCache(rng, 16)
    q = reference.fp8_bytes(rng, (queries, 1, heads, 128))
    weight = rng.standard_normal((queries, heads)).astype(np.float32)
    table = rng.integers(0, 16, (queries, pages)).astype(np.int32)
    for query, length in enumerate(lengths):
        table[query, -(-length // 64) :] = 1 << 30  # a page that is not there: nobody may look
    counts = np.array(lengths, np.int32)
    kernels.LOGITS_CONFIGS = (kernels.LOGITS_CONFIGS[config],) * 2
    logits = array(
        kernels.fp8_paged_mqa_logits(
            tensor(q, "float8_e4m3fn"),
            tensor(cache.bytes, "uint8"),
            tensor(weight, "float32"),
            tensor(counts[:, None] if column else counts, "int32"),
            tensor(np.repeat(table, 2, 1)[:, ::2] if apart else table, "int32"),
            None,
            width,
            False,
        )
    )
    right = reference.indexer_logits(
        reference.e4m3(q[:, 0]), cache, weight, lengths, np.where(table < 16, table, 0), width
    )
    there = np.isfinite(right)
    assert (np.isneginf(logits) == ~there).all(), "not -inf from the length on, or -inf before it"
    return {"error": relative(logits[there], right[there])}


def refusals() -> dict[str, float]:
    """What is no call that the kernels can take is refused before anything is launched."""
    plain, logits = module("sm120_sparse_decode"), module("sm120_indexer_logits")

    def dense(*shape: int, dtype: str = "uint8"):
        stored = {"uint8": np.uint8, "bfloat16": np.uint16, "int32": np.int32, "float32": np.float32}
        kind = dtype if dtype in stored else "uint8"
        return tensor(np.zeros(shape, stored[kind]), dtype)

    def decode(q=(1, 1, 16, 512), cache=(2, 64, 1, 584), dim=512):
        return plain.flash_mla_with_kvcache(
            q=dense(*q, dtype="bfloat16"),
            k_cache=dense(*cache),
            indices=dense(1, 1, 64, dtype="int32"),
            head_dim_v=dim,
        )

    def indexer(q=(1, 1, 64, 128), cache=(2, 64, 1, 132), pages=2, width=128):
        sizes = dense(1, 64, dtype="float32"), dense(1, dtype="int32"), dense(1, pages, dtype="int32")
        return logits.fp8_paged_mqa_logits(
            dense(*q, dtype="float8_e4m3fn"), dense(*cache), *sizes, None, width, False
        )

    calls = [
        lambda: decode(q=(1, 2, 16, 512)),
        lambda: decode(q=(1, 1, 16, 576)),
        lambda: decode(cache=(2, 64, 1, 656)),
        lambda: decode(cache=(2, 48, 1, 584)),
        lambda: decode(dim=256),
        lambda: indexer(q=(1, 2, 64, 128)),
        lambda: indexer(cache=(2, 32, 1, 132)),
        lambda: indexer(cache=(2, 64, 1, 68)),
        lambda: indexer(pages=1),
    ]
    taken = 0
    for call in calls:
        try:
            call()
            taken += 1
        except ValueError as error:
            assert str(error).startswith("sm120 "), error
    return {"taken": taken, "calls": len(calls)}


#: Name -> (function, arguments).
CASES = {
    "two caches, pages of 256 and 64": (decode, {"window_page": 256}),
    "pages of 2": (decode, {"extra_page": 2}),
    "no compressed cache": (decode, {"extra": 0, "parts": 2}),
    "one part": (decode, {"queries": 2, "parts": 1, "lengths": ([50, 64], [64, 3])}),
    "more parts than tiles": (decode, {"queries": 2, "parts": 5, "lengths": ([64, 10], [0, 33])}),
    "holes": (decode, {"queries": 2, "holes": 0.4, "lengths": ([60, 64], [61, 33])}),
    "a query without tokens": (decode, {"queries": 2, "dead": (1,), "parts": 3}),
    "a query without tokens, one part": (decode, {"dead": (0,), "parts": 1}),
    "no query has tokens": (decode, {"queries": 2, "dead": (0, 1), "sink": None}),
    "lengths of zero": (decode, {"queries": 2, "lengths": ([0, 64], [0, 0]), "sink": None}),
    "no sink": (decode, {"sink": None}),
    "a sink that takes nearly all": (decode, {"sink": 12.0, "parts": 1}),
    "a long list": (decode, {"window": 128, "extra": 1024, "lengths": ([128], [1000]), "parts": 7}),
    "heads that do not fill a block": (decode, {"heads": 5, "parts": 2}),
    "two blocks of heads": (decode, {"heads": 24}),
    "scales far apart": (decode, {"spread": 12}),
    "a large q": (decode, {"q_size": 1e6}),
    "a small q": (decode, {"q_size": 1e-9}),
    "the same twice": (decode, {"same": True, "parts": 3}),
    "indexer": (indexer, {}),
    "indexer, lengths as a column": (indexer, {"column": True}),
    "indexer, edges of pages": (indexer, {"lengths": (0, 1, 63, 65, 192), "width": 192}),
    "indexer, a width that is no multiple of a page": (indexer, {"lengths": (130, 70), "width": 130}),
    "indexer, a table far wider than the context": (indexer, {"lengths": (70,), "width": 4096}),
    "indexer, a table with gaps": (indexer, {"apart": True}),
    "indexer, few heads": (indexer, {"heads": 8}),
    "refusals": (refusals, {}),
    "indexer, tiles of two pages": (indexer, {"config": 1, "lengths": (129, 20)}),
}

if __name__ == "__main__":
    if "--torch" not in sys.argv:
        tensors.install()
    else:
        import torch  # noqa: F401
    quicken()
    function, arguments = CASES[sys.argv[1]]
    print(json.dumps(function(**arguments)))
