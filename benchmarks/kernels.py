"""Measures the kernels of ``patchsets/sm120`` on the GPU of this machine, beside those that they replace.

    python benchmarks/kernels.py --sglang TREE [--json FILE] [--only decode|indexer] [--quick] [--check]

TREE is a checkout of SGLang or a folder with an unpacked wheel, at a version that has the kernels to compare
with (735a256 to 0.5.18). Needs torch and Triton 3.6. Two files are loaded from TREE and their functions
called; nothing else of it is imported. Without ``--sglang`` only our own kernels are measured.

What is timed is the whole path, host functions included, captured into a CUDA graph: as many calls in a
graph as it takes for what they read to exceed the second-level cache several times. Every figure is the
median of several replays, a call. Accuracy is against float64, from the bytes of the cache.

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
        nope = (
            (keys / exponent.exp2()).to(torch.float8_e4m3fn).view(torch.uint8).reshape(count, page_size, 448)
        )
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
        scores = torch.cat(
            [call["softmax_scale"] * q[query] @ k.T, call["attn_sink"].double()[:, None]], dim=1
        )
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


# What an sm_120 block may use


class Gate:
    """Compiles what was launched for sm_120, from what Triton knows of the launch."""

    def __init__(self) -> None:
        self.bin = Path(triton.__file__).parent / "backends/nvidia/bin"
        self.seen: dict[tuple, dict] = {}

    def check(self, label: str, kernel, tensor_cores: bool = True) -> list[dict]:
        """One row for each configuration of a kernel that was compiled on this GPU."""
        rows = []
        for cache in kernel.device_caches.values():
            for compiled in cache[0].values():
                rows.append(self._row(label, compiled, tensor_cores))
        return sorted(rows, key=lambda row: row["kernel"])

    def _row(self, label: str, compiled, tensor_cores: bool) -> dict:
        from triton.backends.compiler import GPUTarget

        source, old = compiled.src, compiled.metadata
        values = {source.fn.arg_names[at[0]]: value for at, value in source.constants.items() if len(at) == 1}
        options = {"num_warps": old.num_warps, "num_stages": old.num_stages}
        made = triton.compile(source, target=GPUTarget("cuda", 120, 32), options=options)
        with tempfile.TemporaryDirectory() as folder:
            ptx, cubin = Path(folder, "k.ptx"), Path(folder, "k.cubin")
            ptx.write_text(made.asm["ptx"])
            cubin.write_bytes(made.asm["cubin"])
            ptxas = [self.bin / "ptxas-blackwell", "-v", "--gpu-name=sm_120a", ptx, "-o", os.devnull]
            said = subprocess.run(ptxas, capture_output=True, text=True).stderr
            code = subprocess.run([self.bin / "nvdisasm", "-c", cubin], capture_output=True, text=True).stdout
        registers = int(re.search(r"Used (\d+) registers", said)[1])
        spilled = int(re.search(r"(\d+) bytes spill stores", said)[1]) + len(
            re.findall(r"\b(?:LDL|STL)", code)
        )
        mma = len(re.findall(r"\b[HQO]MMA", code))
        foreign = "wgmma" in made.asm["ptx"] or "tcgen05" in made.asm["ptx"]
        shared, threads = made.metadata.shared, 32 * old.num_warps
        fits = shared <= SHARED_LIMIT and spilled == 0 and not foreign and (mma > 0 or not tensor_cores)
        blocks = ("BLOCK_H", "BLOCK_T", "BLOCK_S", "BLOCK_D", "DIRECT", "HEADS")
        shape = ", ".join(f"{name} {values[name]}" for name in blocks if name in values)
        return {
            "kernel": f"{label} ({shape}, {old.num_warps} warps)",
            "shared": shared,
            "registers": registers,
            "spilled": spilled,
            "mma": mma,
            "blocks": min(65536 // (threads * -(-registers // 8) * 8), 102_400 // (shared + 1024)),
            "passes": fits,
        }


# What is measured


class Decode:
    """Sparse decode, whole path: ours in plain Triton and in Gluon, and theirs."""

    LAYERS = {"128 window + 512": 512, "128 window": 0, "128 window + 64": 64, "128 window + 1024": 1024}

    def __init__(self, tree: Path | None, small: bool) -> None:
        plain, gluon = ours("sm120_sparse_decode"), ours("sm120_sparse_decode_gluon")
        self.plain, self.gluon = plain, gluon
        self.gen = torch.Generator(device="cuda")
        self.gen.manual_seed(0)
        pages = (8, 32) if small else (1024, 8192)  # 460 MB
        self.caches = mla_cache(pages[0], WINDOW_PAGE, self.gen), mla_cache(pages[1], EXTRA_PAGE, self.gen)
        self.paths = {
            "plain": lambda c: plain.flash_mla_with_kvcache(**c)[0],
            "gluon": lambda c: gluon.flash_mla_with_kvcache(**c)[0],
        }
        theirs = theirs_decode(tree) if tree else None
        if theirs:
            self.paths["theirs"] = lambda c: theirs(
                c["q"],
                c["k_cache"],
                c["indices"],
                c["topk_length"],
                c["attn_sink"],
                c["head_dim_v"],
                c["softmax_scale"],
                c["extra_k_cache"],
                c["extra_indices_in_kvcache"],
                c["extra_topk_length"],
            )[0]

    def accuracy(self) -> list[dict]:
        """Errors against float64 with holes, short lists and dead queries; then a graph replayed with new
        inputs."""
        rows = []
        for heads, batch, extra in ((64, 4, 512), (16, 70, 512), (64, 64, 512), (64, 3, 0), (8, 16, 64)):
            first, second = (
                decode_call(self.caches, heads, batch, extra, self.gen, holes=True) for _ in range(2)
            )
            for call in (first, second):
                call["topk_length"][0] = 0
                if extra:
                    call["extra_indices_in_kvcache"][0] = -1
            right = [decode_reference(call) for call in (first, second)]
            for name, path in self.paths.items():
                row = {"heads": heads, "batch": batch, "extra": extra, "path": name}
                row["error"] = relative(path(first), right[0])
                if name != "theirs":
                    row |= self._replayed(path, first, second, right[1])
                    assert row["error"] <= 2e-3 and row["replayed"] <= 2e-3 and row["repeats"], row
                rows.append(row)
        return rows

    def _replayed(self, path, first: dict, second: dict, right: torch.Tensor) -> dict:
        inputs = [name for name in first if name not in ("k_cache", "extra_k_cache")]
        inputs = [name for name in inputs if isinstance(first[name], torch.Tensor)]
        static = first | {name: first[name].clone() for name in inputs}
        path(static)
        torch.cuda.synchronize()
        graph, held = torch.cuda.CUDAGraph(), []
        with torch.cuda.graph(graph):
            held.append(path(static))
        for name in inputs:
            static[name].copy_(second[name])
        results = []
        for _ in range(3):
            held[0].fill_(float("nan"))
            graph.replay()
            torch.cuda.synchronize()
            results.append(held[0].clone())
        return {
            "replayed": relative(results[0], right),
            "repeats": all(torch.equal(results[0], other) for other in results[1:]),
        }

    def speed(self, speed_of_memory: float, quick: bool) -> list[dict]:
        rows = []
        for layer, extra in self.LAYERS.items():
            for heads in (64, 16) if extra == 512 else (64,):
                for batch in (1, 64) if quick or extra == 1024 else (1, 4, 16, 64):
                    tokens = batch * (128 + extra)
                    moved = tokens * TOKEN_SECTORS + 2 * batch * heads * 512 * 2
                    count = sets_for(tokens * TOKEN_SECTORS, 2560)
                    calls = [decode_call(self.caches, heads, batch, extra, self.gen) for _ in range(count)]
                    row = {"layer": layer, "heads": heads, "batch": batch}
                    for name, path in self.paths.items():
                        runs = [lambda call=call, path=path: path(call) for call in calls]
                        row[name], row[f"{name}_least"], row[f"{name}_most"] = microseconds(
                            runs, 5 if name == "theirs" else 15
                        )
                    row["floor"] = moved / speed_of_memory * 1e6
                    rows.append(row)
                    show_speed(row)
        return rows


class Indexer:
    """Logits of the indexer: ours, and theirs. Contexts in tokens; the indexer sees a fourth as many
    entries."""

    HEADS = 64

    def __init__(self, tree: Path | None, small: bool) -> None:
        self.module = ours("sm120_indexer_logits")
        self.paths = {"plain": self.module.fp8_paged_mqa_logits}
        theirs = theirs_indexer(tree) if tree else None
        if theirs:
            self.paths["theirs"] = theirs
        self.gen = torch.Generator(device="cuda")
        self.gen.manual_seed(0)
        pages = 512 if small else 49_152  # 415 MB
        raw = torch.empty((pages, 64 * 132), dtype=torch.uint8, device="cuda")
        keys = torch.randn((pages, 64 * 128), device="cuda", generator=self.gen)
        raw[:, : 64 * 128] = keys.to(torch.float8_e4m3fn).view(torch.uint8)
        scales = torch.rand((pages, 64), device="cuda", generator=self.gen) * 0.1 + 0.01
        raw[:, 64 * 128 :] = scales.view(torch.uint8)
        self.cache = raw.view(pages, 64, 1, 132)

    def call(self, batch: int, entries: int, width: int) -> tuple:
        """Arguments of one call: ``entries`` of a context, in a table made for ``width``."""
        shape = (batch, 1, self.HEADS, 128)
        table = torch.randint(
            0,
            self.cache.shape[0],
            (batch, -(-width // 64)),
            device="cuda",
            generator=self.gen,
            dtype=torch.int32,
        )
        return (
            torch.randn(shape, device="cuda", generator=self.gen).to(torch.float8_e4m3fn),
            self.cache,
            torch.randn((batch, self.HEADS), device="cuda", generator=self.gen),
            torch.full((batch, 1), entries, device="cuda", dtype=torch.int32),
            table,
            None,
            width,
            False,
        )

    def reference(self, call: tuple) -> torch.Tensor:
        q, cache, weight, lengths, table, _, width, _ = call
        out = torch.full((q.shape[0], width), float("-inf"), dtype=torch.float64, device="cuda")
        for query in range(q.shape[0]):
            pages = cache.view(cache.shape[0], -1)[table[query].long()]
            keys = pages[:, : 64 * 128].contiguous().view(torch.float8_e4m3fn).double().view(-1, 128)
            scales = pages[:, 64 * 128 :].contiguous().view(torch.float32).double().view(-1)
            values = torch.relu(keys @ q[query, 0].double().T) @ weight[query].double() * scales
            count = min(int(lengths[query]), width)
            out[query, :count] = values[:count]
        return out

    def accuracy(self) -> list[dict]:
        rows = []
        for batch, entries, width in ((4, 5000, 8192), (2, 8192, 8192), (3, 700, 32768)):
            call = self.call(batch, entries, width)
            call[3][0] = 600
            right = self.reference(call)
            there = torch.isfinite(right)
            best = right.topk(512, dim=1).indices
            for name, path in self.paths.items():
                logits = path(*call)
                assert torch.equal(torch.isneginf(logits), ~there)
                chosen = logits.topk(512, dim=1).indices
                missed = max(512 - len(set(a.tolist()) & set(b.tolist())) for a, b in zip(best, chosen))
                error = relative(logits[there], right[there])
                rows.append(
                    {"batch": batch, "entries": entries, "width": width, "path": name, "error": error}
                    | {"missed_of_512": missed, "repeats": torch.equal(path(*call), logits)}
                )
                assert name == "theirs" or missed <= 1 and rows[-1]["repeats"], rows[-1]
        return rows

    def speed(self, speed_of_memory: float, quick: bool) -> list[dict]:
        rows = []
        for context, table in ((8, 8), (32, 32), (128, 128), (8, 128)):
            for batch in (1, 16) if quick else (1, 4, 16):
                entries, width = context * 256, table * 256
                moved = batch * entries * 132 + batch * width * 4
                count = sets_for(batch * entries * 132, 768)
                calls = [self.call(batch, entries, width) for _ in range(count)]
                row = {"layer": f"indexer, {context}K in a table for {table}K", "heads": self.HEADS}
                row["batch"] = batch
                for name, path in self.paths.items():
                    runs = [lambda call=call, path=path: path(*call) for call in calls]
                    row[name], row[f"{name}_least"], row[f"{name}_most"] = microseconds(
                        runs, 5 if name == "theirs" else 15
                    )
                row["floor"] = moved / speed_of_memory * 1e6
                rows.append(row)
                show_speed(row)
        return rows


# Showing it


def show_speed(row: dict) -> None:
    """Print one row of times."""
    cells = [f"{row['layer']:>36} | {row['heads']:>3} | {row['batch']:>3}"]
    for name in ("theirs", "plain", "gluon"):
        if name in row:
            cells.append(f"{name} {row[name]:8.2f} [{row[f'{name}_least']:.2f}-{row[f'{name}_most']:.2f}]")
    for name in ("plain", "gluon"):
        if name in row and "theirs" in row:
            cells.append(f"{name} x{row['theirs'] / row[name]:.1f}")
    best = min(row[name] for name in ("plain", "gluon") if name in row)
    cells.append(f"{100 * row['floor'] / best:.0f} % of the floor ({row['floor']:.2f})")
    print(" | ".join(cells), flush=True)


def main() -> int:
    """Check and time the kernels on the GPU that is here."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sglang", type=Path, help="a tree of SGLang with the kernels to compare with")
    parser.add_argument("--json", type=Path, help="where to write everything as JSON")
    parser.add_argument("--only", choices=("decode", "indexer"))
    parser.add_argument("--quick", action="store_true", help="fewer sizes")
    parser.add_argument("--check", action="store_true", help="accuracy and graphs alone, on small caches")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("no GPU")
    speed_of_memory = 0.0 if options.check else bandwidth()
    device = torch.cuda.get_device_properties(0)
    result = {
        "device": device.name,
        "capability": f"{device.major}.{device.minor}",
        "multiprocessors": device.multi_processor_count,
        "memory GB/s": round(speed_of_memory / 1e9),
        "torch": torch.__version__,
        "triton": triton.__version__,
    }
    print(" | ".join(f"{name} {value}" for name, value in result.items()))
    print(
        "microseconds a call: median [least-most]; the floor is what memory allows for the bytes", flush=True
    )
    gate = Gate()
    for name, kind in (("decode", Decode), ("indexer", Indexer)):
        if options.only in (None, name):
            measured = kind(options.sglang, options.check)
            accuracy = measured.accuracy()
            for row in accuracy:
                print(
                    " | ".join(
                        f"{key} {value:.2e}" if isinstance(value, float) else f"{key} {value}"
                        for key, value in row.items()
                    ),
                    flush=True,
                )
            speed = [] if options.check else measured.speed(speed_of_memory, options.quick)
            result[name] = {"accuracy": accuracy, "speed": speed}
            if name == "decode":
                rows = gate.check("plain split", measured.plain.sparse_decode_split)
                rows += gate.check("gluon split", measured.gluon.sparse_decode_split)
                rows += gate.check("merge", measured.plain.sparse_decode_merge, tensor_cores=False)
            else:
                rows = gate.check("indexer logits", measured.module.indexer_logits)
            result[name]["sm_120"] = rows
            for row in rows:
                verdict = "passes" if row["passes"] else "FAILS"
                numbers = ", ".join(
                    f"{key} {row[key]}" for key in ("shared", "registers", "spilled", "mma", "blocks")
                )
                print(f"sm_120 gate: {verdict}: {row['kernel']}: {numbers}", flush=True)
            assert all(row["passes"] for row in rows)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
