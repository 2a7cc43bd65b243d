"""Measures the kernels of ``patchsets/sm120`` on the GPU of this machine, beside those that they replace.

    python benchmarks/kernels.py --sglang TREE [--json FILE] [--only decode|indexer] [--quick]

TREE is a checkout of SGLang or a folder with an unpacked wheel, at a version that has the kernels to compare with
(735a256 to 0.5.18). Needs torch and Triton 3.6. Two files are loaded from TREE and their functions called; nothing
else of it is imported. Without ``--sglang`` only our own kernels are measured.

What is timed is the whole path, host functions included, captured into a CUDA graph: as many calls in a graph as
it takes for what they read to exceed the second-level cache several times. Every figure is the median of several
replays, a call. Accuracy is against float64, from the bytes of the cache.

Whatever the GPU is, each configuration that was launched is also compiled for sm_120 and held against what an
sm_120 block may use. A figure is of the GPU that it was taken on, and of no other.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import types
from pathlib import Path

import torch
import torch.nn.functional as F
import triton

FILES = Path(__file__).resolve().parent.parent / "patchsets" / "sm120" / "files" / "python"
PACKAGE = "sglang.srt.layers.attention"
WINDOW_PAGE, EXTRA_PAGE = 256, 64
#: Bytes of a token that the memory moves: 576 + 8, in sectors of 32 bytes.
TOKEN_SECTORS = 608
SHARED_LIMIT = 101_376


def load(path: Path, name: str) -> types.ModuleType:
    """A module from a file, under ``name``."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def ours(name: str, files: Path = FILES) -> types.ModuleType:
    """One of the patchset's modules, under the name that it has in a patched tree."""
    for depth in range(1, 5):
        package = ".".join(PACKAGE.split(".")[:depth])
        sys.modules.setdefault(package, types.ModuleType(package)).__path__ = []
    return load(files / "/".join(PACKAGE.split(".")) / f"{name}.py", f"{PACKAGE}.{name}")


def theirs_decode(tree: Path):
    """The function of TREE that the decode kernel replaces, or None."""
    found = sorted(tree.rglob("flash_mla_sm120_triton.py"))
    return load(found[0], "theirs_decode").flash_mla_sparse_decode_triton if found else None


def theirs_indexer(tree: Path):
    """The function of TREE that the indexer kernel replaces, or None: it needs nothing else of its module."""
    name = "fp8_paged_mqa_logits_torch_sm120"
    for path in sorted(tree.rglob("dsv4/indexer.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                for argument in node.args.args:
                    argument.annotation = None
                node.returns = None
                space = {"torch": torch, "F": F, "FP8_DTYPE": torch.float8_e4m3fn}
                exec(compile(ast.Module([node], []), str(path), "exec"), space)
                return space[name]
    return None


# Inputs, and what is right


def mla_cache(pages: int, page_size: int, gen: torch.Generator) -> torch.Tensor:
    """A cache of keys with a standard deviation of about 1, [pages, page_size, 1, 584] bytes."""
    page_bytes = -(-page_size * 584 // 576) * 576
    raw = torch.zeros((pages, page_bytes), dtype=torch.uint8, device="cuda")
    step = max(1, (1 << 22) // page_size)
    for first in range(0, pages, step):
        count = min(step, pages - first)
        shape = (count, page_size, 7, 64)
        keys = torch.randn(shape, device="cuda", generator=gen)
        exponent = torch.ceil(torch.log2(keys.abs().amax(-1, keepdim=True) / 448))
        nope = (keys / exponent.exp2()).to(torch.float8_e4m3fn).view(torch.uint8).reshape(count, page_size, 448)
        rope = torch.randn((count, page_size, 64), device="cuda", generator=gen).to(torch.bfloat16)
        data = raw[first : first + count, : page_size * 576].view(count, page_size, 576)
        data[..., :448] = nope
        data[..., 448:] = rope.view(torch.uint8)
        scales = torch.zeros((count, page_size, 8), dtype=torch.uint8, device="cuda")
        scales[..., :7] = (exponent.squeeze(-1) + 127).to(torch.uint8)
        raw[first : first + count, page_size * 576 : page_size * 584] = scales.reshape(count, -1)
    return raw.as_strided((pages, page_size, 1, 584), (page_bytes, 584, 584, 1))


def keys_of(cache: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """The keys of some tokens, [n, 512] float64."""
    pages, size = cache.shape[:2]
    raw = cache.as_strided((pages, cache.stride(0)), (cache.stride(0), 1))
    page, within = tokens.long() // size, tokens.long() % size
    data = raw[page[:, None], within[:, None] * 576 + torch.arange(576, device="cuda")]
    scale = raw[page[:, None], size * 576 + within[:, None] * 8 + torch.arange(7, device="cuda")]
    nope = data[:, :448].contiguous().view(torch.float8_e4m3fn).double().view(-1, 7, 64)
    nope = nope * (scale.double() - 127).exp2()[..., None]
    rope = data[:, 448:].contiguous().view(torch.bfloat16).double()
    return torch.cat([nope.view(-1, 448), rope], dim=1)


def decode_reference(call: dict) -> torch.Tensor:
    """[B, H, 512] float64."""
    q = call["q"][:, 0].double()
    out = torch.zeros_like(q)
    for query in range(q.shape[0]):
        keys = []
        for cache, indices, length in (
            ("k_cache", "indices", "topk_length"),
            ("extra_k_cache", "extra_indices_in_kvcache", "extra_topk_length"),
        ):
            if call[cache] is not None:
                listed = call[indices][query, 0][: int(call[length][query])]
                keys.append(keys_of(call[cache], listed[listed >= 0]))
        k = torch.cat(keys)
        scores = torch.cat([call["softmax_scale"] * q[query] @ k.T, call["attn_sink"].double()[:, None]], dim=1)
        out[query] = torch.softmax(scores, dim=1)[:, :-1] @ k
    return out


def decode_call(caches, heads: int, batch: int, extra: int, gen, holes: bool = False) -> dict:
    """Arguments of one call: 128 tokens of the window and ``extra`` compressed ones."""
    window, compressed = caches

    def indices(cache: torch.Tensor, width: int) -> torch.Tensor:
        every = cache.shape[0] * cache.shape[1]
        listed = torch.randint(0, every, (batch, 1, width), device="cuda", generator=gen, dtype=torch.int32)
        if holes:
            listed[torch.rand((batch, 1, width), device="cuda", generator=gen) < 0.1] = -1
        return listed

    def lengths(width: int) -> torch.Tensor:
        if holes:
            return torch.randint(0, width + 1, (batch,), device="cuda", generator=gen, dtype=torch.int32)
        return torch.full((batch,), width, device="cuda", dtype=torch.int32)

    return {
        "q": torch.randn((batch, 1, heads, 512), device="cuda", generator=gen).to(torch.bfloat16),
        "k_cache": window,
        "indices": indices(window, 128),
        "topk_length": lengths(128),
        "attn_sink": torch.randn(heads, device="cuda", generator=gen),
        "head_dim_v": 512,
        "softmax_scale": 512**-0.5,
        "extra_k_cache": compressed if extra else None,
        "extra_indices_in_kvcache": indices(compressed, extra) if extra else None,
        "extra_topk_length": lengths(extra) if extra else None,
    }


def relative(got: torch.Tensor, right: torch.Tensor) -> float:
    """Relative L2 error."""
    return float((got.double().reshape(right.shape) - right).norm() / right.norm())


# Time


def captured(calls: list) -> torch.cuda.CUDAGraph:
    """A CUDA graph of calls without arguments, each run before."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for call in calls[:2]:
            call()
            call()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    return graph


def microseconds(calls: list, replays: int) -> tuple[float, float, float]:
    """Median, least and greatest time of a call, over replays of a graph that holds all of them."""
    graph = captured(calls)
    graph.replay()
    torch.cuda.synchronize()
    times = []
    for _ in range(replays):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1000 / len(calls))
    del graph
    return statistics.median(times), min(times), max(times)


def bandwidth() -> float:
    """Bytes a second that this GPU's memory moves at best, over a few simple kernels."""
    x = torch.ones(1 << 29, dtype=torch.float32, device="cuda")
    y = torch.empty_like(x)
    copy = microseconds([lambda: y.copy_(x)], 10)[1]
    read = microseconds([lambda: x.sum()], 10)[1]
    return max(2 * x.nbytes / copy, x.nbytes / read) * 1e6


def sets_for(bytes_a_call: int, most: int) -> int:
    """How many calls it takes to read three times what the second-level cache holds."""
    return max(2, min(most, -(-3 * torch.cuda.get_device_properties(0).L2_cache_size // bytes_a_call)))
