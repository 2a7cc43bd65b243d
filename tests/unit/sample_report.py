"""A small report with one of everything, for the tests of renderers. Names are made up."""

from __future__ import annotations

from auditor.gates.model import Arm, Effect, Finding, Gate, Predicate, Problem, Report, TreeFacts

TARGETS = ("sm_100", "sm_120", "sm_121")


def gate(
    name: str,
    path: str,
    line: int,
    symbol: str,
    predicate: str,
    truth: str,
    verdict: tuple[str, str],
    *,
    area: str = "attention",
    scope: str = "arch",
    **more: object,
) -> Gate:
    """``truth`` is one letter a target: t, f or u."""
    words = {"t": "true", "f": "false", "u": "unknown"}
    values = {target: words[letter] for target, letter in zip(TARGETS, truth, strict=True)}
    fields: dict[str, object] = {
        "id": name,
        "path": path,
        "module": path.removeprefix("python/").removesuffix(".py").replace("/", "."),
        "line": line,
        "end_line": line + 3,
        "symbol": symbol,
        "kind": "if",
        "scope": scope,
        "via": ("toy.platform.is_big",),
        "roots": ("torch.cuda.get_device_capability",),
        "predicate": predicate,
        "truth": values,
        "reached": dict.fromkeys(TARGETS, "true"),
        "unknown_because": (),
        "arms": (),
        "verdict": {"sm_100": "same", "sm_120": verdict[0], "sm_121": verdict[1]},
        "area": area,
    }
    return Gate(**{**fields, **more})  # type: ignore[arg-type]


def sample() -> Report:
    gates = (
        gate(
            "a1b2c3",
            "python/toy/layers/attention/sparse_backend.py",
            140,
            "SparseAttentionBackend.forward_extend",
            "query.shape[0] > LARGE_BATCH_THRESHOLD",
            "uuu",
            ("unguarded", "unguarded"),
            unknown_because=("arg.chunked_prefill_size", "call query.shape"),
            arms=(
                Arm(
                    "true",
                    141,
                    143,
                    (Effect("call", "sparse_prefill_kernel", 142), Effect("return", "out", 143)),
                ),
                Arm("false", 144, 144),
            ),
            reached={"sm_100": "true", "sm_120": "true", "sm_121": "unknown"},
        ),
        gate(
            "d4e5f6",
            "python/toy/layers/gemm/config.py",
            22,
            "_enable",
            "sm == 120",
            "ftf",
            ("same", "missed-variant"),
            area="gemm",
        ),
        gate(
            "0a0a0a",
            "python/toy/layers/quant/config.py",
            9,
            "",
            "is_big()",
            "tff",
            ("fallback", "fallback"),
            area="quantization",
        ),
        gate(
            "0b0b0b",
            "python/toy/utils/__init__.py",
            7,
            "pick",
            "is_big() and flag",
            "uff",
            ("undecided", "undecided"),
            area="",
        ),
        gate(
            "0c0c0c",
            "python/toy/utils/__init__.py",
            70,
            "pick_two",
            "has_gpu()",
            "ttt",
            ("same", "same"),
            area="",
        ),
        gate(
            "0d0d0d",
            "python/toy/utils/__init__.py",
            90,
            "",
            "is_hip()",
            "fff",
            ("same", "same"),
            area="",
            scope="platform",
        ),
    )
    findings = (
        Finding(
            query="attention/sparse-prefill-unguarded",
            gate="a1b2c3",
            path="python/toy/layers/attention/sparse_backend.py",
            line=140,
            symbol="SparseAttentionBackend.forward_extend",
            verdict={"sm_100": "same", "sm_120": "unguarded", "sm_121": "unguarded"},
            severity="error",
            message="one prefill batch of more than 9,000 query rows, or FLAG_SPARSE_PREFILL, goes to a "
            "kernel that has no build for this family",
            area="attention",
            detail=("sparse_prefill_kernel ← toy_kernel.sparse_prefill ← flash_ops: 90a 100a 103a",),
            fix="patches show sparse-prefill-guard",
        ),
        Finding(
            "",
            "a1b2c3",
            "python/toy/layers/attention/sparse_backend.py",
            140,
            "SparseAttentionBackend.forward_extend",
            {"sm_120": "fallback", "sm_121": "fallback"},
            "note",
            "the generic rule",
            "attention",
        ),
        Finding(
            "",
            "d4e5f6",
            "python/toy/layers/gemm/config.py",
            22,
            "_enable",
            {"sm_120": "same", "sm_121": "missed-variant"},
            "warning",
            "compares with exactly 120: 121 is left out",
            "gemm",
        ),
        Finding(
            "arguments/forced-flag",
            "",
            "python/toy/args.py",
            2271,
            "ServerArguments.__post_init__",
            {"sm_120": "env-forced", "sm_121": "env-forced"},
            "warning",
            "TOY_TORCH_INDEXER = True, whatever you set",
            "arguments",
        ),
    )
    predicates = (
        Predicate(
            "toy.platform.is_big",
            "python/toy/platform.py",
            12,
            "function",
            {"sm_100": "true", "sm_120": "false", "sm_121": "false"},
            via=("toy.platform.capability",),
            roots=("torch.cuda.get_device_capability",),
            read_by=3,
        ),
        Predicate(
            "toy.platform.sm",
            "python/toy/platform.py",
            30,
            "constant",
            {"sm_100": "true", "sm_120": "true", "sm_121": "true"},
            value={"sm_100": "100", "sm_120": "120", "sm_121": "121"},
            roots=("torch.cuda.get_device_capability",),
            read_by=1,
        ),
        Predicate(
            "toy.gemm.ENABLED",
            "python/toy/gemm/config.py",
            5,
            "constant",
            {"sm_100": "unknown", "sm_120": "false", "sm_121": "unknown"},
            unknown_because=("dep.deep",),
            read_by=0,
        ),
    )
    return Report(
        schema_version="1.0",
        tool="sglang-auditor 0.1.0",
        project="toy",
        tree=TreeFacts(
            "commit",
            "735a256",
            "f" * 40,
            "7" * 40,
            None,
            "2026-06-17",
            "main, after 0.5.13 and before 0.5.14",
            False,
        ),
        targets=TARGETS,
        reference="sm_100",
        assumptions={"cuda": "13.0"},
        predicates=predicates,
        gates=gates,
        findings=findings,
        problems=(Problem("python/toy/broken.py", 3, "invalid syntax"),),
        stats={"files": 7},
    )
