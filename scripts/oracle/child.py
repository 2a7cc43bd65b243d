"""Fork one clean process per question, after the slow third-party imports are done once."""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from typing import Any

import fake_gpu
import stubs

#: Imported before forking. None of them asks for the device while being imported.
PRELOAD = """
    numpy torch torch._dynamo torch._dynamo.repro.after_aot torch._inductor.compile_fx networkx
    torch._functorch.partitioners torch.distributed.checkpoint torch.distributed torch.utils.cpp_extension
    torchvision torchvision.io triton triton.language triton.testing pynvml transformers
    transformers.audio_utils transformers.processing_utils transformers.models.auto.modeling_auto
    transformers.models.auto.processing_auto transformers.models.auto.tokenization_auto
    transformers.models.auto.image_processing_auto transformers.models.auto.video_processing_auto zmq uvloop
    requests psutil aiohttp fastapi uvicorn pydantic PIL.Image scipy.linalg scipy.stats scipy.signal openai
    openai.types.responses compressed_tensors IPython einops huggingface_hub gguf msgspec
"""


_libraries: list[Any] = []


def preload() -> None:
    """Import the slow packages, then freeze the heap so that children share its pages."""
    import importlib

    import torch

    # Bytecode must not be written beside the sources that are looked at.
    sys.pycache_prefix = os.path.join(tempfile.gettempdir(), "oracle-pyc")
    sys.dont_write_bytecode = False
    # A torchvision built for CUDA cannot load its operators beside a CPU torch; those it insists on
    # are declared.
    _libraries.append(torch.library.Library("torchvision", "DEF"))
    for name in ("nms", "qnms"):
        _libraries[0].define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    for name in PRELOAD.split():
        try:
            importlib.import_module(name)
        except ImportError as error:
            print(f"not preloaded: {name}: {error}", file=sys.stderr)
    gc.collect()
    gc.freeze()


def in_child(
    root: str, target: str, present: bool, plain: bool, work: Callable[[], Any], *, timeout: int = 900
) -> dict[str, Any]:
    """Run ``work`` in a forked process that believes in the given GPU.

    Returns a mapping with ``result``, ``stubbed``, ``refused`` and ``decisions``, or with ``error`` and
    ``trace``.

    ``root`` is the folder that holds ``sglang``. The child's output goes nowhere; its environment holds no
    variable that SGLang or CUDA reads.
    """
    handle, path = tempfile.mkstemp(prefix="oracle-", suffix=".json")
    os.close(handle)
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            import signal

            signal.signal(signal.SIGXCPU, signal.SIG_DFL)
            import resource

            resource.setrlimit(resource.RLIMIT_CPU, (timeout, timeout))
            if not os.environ.get("ORACLE_DEBUG"):
                null = os.open(os.devnull, os.O_RDWR)
                for number in (0, 1, 2):
                    os.dup2(null, number)
            keep = {
                key: os.environ[key]
                for key in ("PATH", "LANG", "LC_ALL", "ORACLE_DEBUG")
                if key in os.environ
            }
            keep["HOME"] = tempfile.mkdtemp(prefix="oracle-home-")
            keep["HF_HUB_OFFLINE"] = "1"
            os.environ.clear()
            os.environ.update(keep)
            os.chdir(keep["HOME"])
            fake_gpu.install(target, plain=plain)
            stubs.install(present, requirements(root))
            sys.path.insert(0, root)
            answer = {
                "result": work(),
                "stubbed": sorted(stubs.stubbed),
                "refused": sorted(stubs.refused),
                "decisions": sorted(stubs.decisions),
            }
        except BaseException as error:  # noqa: BLE001 - the parent reports it
            answer = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()[-3000:]}
        try:
            with open(path, "w", encoding="utf-8") as out:
                json.dump(answer, out)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    try:
        with open(path, encoding="utf-8") as source:
            text = source.read()
        return json.loads(text) if text else {"error": "the child ended without an answer"}
    finally:
        os.unlink(path)


def requirements(root: str) -> list[str]:
    """The tree's own requirement lines, from ``pyproject.toml`` or a wheel's metadata."""
    lines: list[str] = []
    project = os.path.join(root, "pyproject.toml")
    if os.path.exists(project):
        with open(project, encoding="utf-8") as source:
            lines += [line.strip().strip('",') for line in source if line.startswith("  ")]
    for folder in sorted(os.listdir(root)):
        if folder.startswith("sglang-") and folder.endswith(".dist-info"):
            with open(os.path.join(root, folder, "METADATA"), encoding="utf-8") as source:
                lines += [
                    line.split(":", 1)[1].strip() for line in source if line.startswith("Requires-Dist:")
                ]
    return lines
