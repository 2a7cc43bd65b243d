"""Write what a fresh server start settles on for each model and target, one JSON file per tree.

    python scripts/oracle/server_args.py OUT LABEL=ROOT [LABEL=ROOT ...]

SGLang's own argument object is built from nothing but a model folder (a config, no weights) and resolved by
its own code. The fields named in :data:`FIELDS` are kept as found, and which ``SGLANG_`` variables the
resolution set.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import sys
import tempfile
from typing import Any

import child
import fake_gpu
import helpers
import models

FIELDS = """
    attention_backend prefill_attention_backend decode_attention_backend mm_attention_backend
    moe_runner_backend moe_a2a_backend fp8_gemm_runner_backend fp4_gemm_runner_backend
    bf16_gemm_runner_backend kv_cache_dtype page_size sampling_backend grammar_backend disable_cuda_graph
    disable_piecewise_cuda_graph enable_flashinfer_allreduce_fusion enable_piecewise_cuda_graph quantization
    dtype disaggregation_transfer_backend disaggregation_ib_device speculative_algorithm
    speculative_attention_mode speculative_moe_runner_backend disable_radix_cache disable_overlap_schedule
    disable_shared_experts_fusion chunked_prefill_size swa_full_tokens_ratio nsa_prefill_backend
    nsa_decode_backend dsa_prefill_backend dsa_decode_backend dsa_topk_backend mamba_backend
    mamba_scheduler_strategy mamba_ssm_dtype linear_attn_backend linear_attn_prefill_backend
    linear_attn_decode_backend enable_dp_attention enable_symm_mem enable_torch_symm_mem
    flashinfer_mxfp4_moe_precision ep_size tp_size cuda_graph_backend disable_custom_all_reduce
    enable_two_batch_overlap enable_single_batch_overlap enable_mixed_chunk triton_attention_num_kv_splits
    num_continuous_decode_steps disable_flashinfer_autotune mla_backend disable_chunked_prefix_cache
    flashinfer_mla_disable_ragged
""".split()


def _field(value: Any) -> Any:
    value = getattr(value, "value", value)
    if isinstance(value, (bool, int, float, str, type(None))):
        return value
    if isinstance(value, (tuple, list)) and all(isinstance(item, (bool, int, float, str)) for item in value):
        return list(value)
    return {"type": type(value).__name__}


#: What a user would write to say the opposite of a value that the resolution set.
#: Only these targets are asked, to save time.
OPPOSITE_TARGETS = ("sm_90", "sm_120")
OPPOSITE = {"0": "1", "1": "0", "False": "1", "True": "0", "false": "1", "true": "0"}


def resolve(path: str, preset: dict[str, str]) -> dict[str, Any]:
    """Build and resolve the arguments of one model in this process, with some variables set by the user."""
    module = importlib.import_module("sglang.srt.server_args")
    os.environ.update(preset)
    before = dict(os.environ)
    answer: dict[str, Any] = {}
    try:
        arguments = module.ServerArgs(model_path=path)
        if hasattr(arguments, "resolve_once"):
            arguments.resolve_once()
        found = arguments.resolved_dict() if hasattr(arguments, "resolved_dict") else vars(arguments)
        answer["args"] = {name: _field(found[name]) for name in FIELDS if name in found}
    except (Exception, SystemExit) as error:
        answer["raises"] = type(error).__name__
        answer["detail"] = str(error)
        frame = error.__traceback__
        while frame is not None:
            code = frame.tb_frame.f_code
            name = frame.tb_frame.f_globals.get("__name__", "")
            if name.startswith("sglang"):
                answer["raised_in"] = f"{name}:{getattr(code, 'co_qualname', code.co_name)}"
            frame = frame.tb_next
    answer["env"] = {
        key: value
        for key, value in sorted(os.environ.items())
        if before.get(key) != value and key.startswith("SGLANG_") and "/" not in value
    }
    return answer


def _forked(path: str, preset: dict[str, str]) -> dict[str, Any]:
    """:func:`resolve` in a process of its own, so that what one start sets is not seen by the next."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            text = json.dumps(resolve(path, preset))
        except BaseException as error:  # noqa: BLE001 - the parent reports it
            text = json.dumps({"failed": f"{type(error).__name__}: {error}"})
        with os.fdopen(write, "w") as out:
            out.write(text)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as source:
        text = source.read()
    os.waitpid(pid, 0)
    return json.loads(text) if text else {"failed": "no answer"}


def _resolve_all(folders: dict[str, str], opposite: bool) -> dict[str, Any]:
    """Every model once; with ``opposite`` again per variable it set: does a user's own value survive?"""
    importlib.import_module("sglang.srt.server_args")
    answers = {}
    for name, path in folders.items():
        answers[name] = found = _forked(path, {})
        if not opposite or "env" not in found:
            continue
        kept: dict[str, Any] = {}
        for flag, value in found["env"].items():
            if value in OPPOSITE:
                again = _forked(path, {flag: OPPOSITE[value]})
                kept[flag] = (
                    {"raises": again["raises"]} if "raises" in again else flag not in again.get("env", {})
                )
        found["user_value_kept"] = kept
    return answers


def observe_tree(label: str, root: str, folders: dict[str, str], keep_detail: bool) -> dict[str, Any]:
    """model -> target -> {"args", "env"} or {"raises", "raised_in", "env"}."""
    cases: dict[str, dict[str, Any]] = {}
    left_out: dict[str, str] = {}
    for target in fake_gpu.TARGETS:
        answer = child.in_child(
            root, target, True, False, functools.partial(_resolve_all, folders, target in OPPOSITE_TARGETS)
        )
        if "error" in answer:
            print(f"{label} {target}: {answer['error']}\n{answer.get('trace', '')}", file=sys.stderr)
            continue
        for name, found in answer["result"].items():
            if "failed" in found:
                left_out[name] = found["failed"]
                continue
            if not keep_detail:
                found.pop("detail", None)
            cases.setdefault(name, {})[target] = found
        raised = {n: f.get("detail", f["raises"])[:150] for n, f in answer["result"].items() if "raises" in f}
        print(f"{label} {target}: {len(answer['result'])} models, raised: {raised}", file=sys.stderr)
    board: set[str] = set()
    for target in ("sm_120",):
        answer = child.in_child(root, target, True, True, functools.partial(_resolve_all, folders, False))
        for name, found in answer.get("result", {}).items():
            first, again = (_flat(x) for x in (cases.get(name, {}).get(target, {}), found))
            board |= {k for k in again if not k.startswith("user_value_kept") and again[k] != first.get(k)}
    return {
        "tree": label,
        "targets": list(fake_gpu.TARGETS),
        "conditions": {
            "assumed": {
                "cuda": fake_gpu.CUDA,
                "build": "NVIDIA",
                "devices": 1,
                "os": "Linux x86_64",
                "env": "empty",
            },
            "packages": "missing ones are stubs, that is: importable, with the version the tree asks for",
            "board": {target: fake_gpu.BOARDS[target][0] for target in fake_gpu.TARGETS},
            "arguments": "model_path only",
            "depends_on_the_board": sorted(board),
        },
        "left_out": left_out,
        "models": {name: fold(rows) for name, rows in sorted(cases.items())},
    }


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    flat = {
        f"{group}.{k}": v
        for group in ("args", "env", "user_value_kept")
        for k, v in row.get(group, {}).items()
    }
    return flat | {k: row[k] for k in ("raises", "raised_in", "detail") if k in row}


def fold(rows: dict[str, Any]) -> dict[str, Any]:
    """Per model: what all targets share under "same", and per target what differs."""
    targets = list(rows)
    flat = {t: _flat(rows[t]) for t in targets}
    keys = sorted(set().union(*flat.values()))
    good = [t for t in targets if "raises" not in flat[t]] or targets
    same = {
        k: flat[good[0]][k]
        for k in keys
        if all(k in flat[t] for t in good) and len({json.dumps(flat[t][k]) for t in good}) == 1
    }
    per_target = {t: {k: v for k, v in flat[t].items() if k not in same or same[k] != v} for t in targets}
    return {"same": same, "by_target": {t: dict(sorted(row.items())) for t, row in per_target.items()}}


def main(arguments: list[str]) -> None:
    """One file per tree, LABEL=ROOT each, in the folder that comes first."""
    keep_detail = "--detail" in arguments
    out, *trees = [item for item in arguments if not item.startswith("--")]
    child.preload()
    folders = models.write(tempfile.mkdtemp(prefix="oracle-models-"))
    for item in trees:
        label, root = item.split("=", 1)
        data = observe_tree(label, root, folders, keep_detail)
        with open(os.path.join(out, f"server-args-{label}.json"), "w", encoding="utf-8") as target:
            target.write(helpers.dumps(data))


if __name__ == "__main__":
    main(sys.argv[1:])
