"""A GPU that is not there: torch's CPU build, NVML and nvidia-smi made to answer as one NVIDIA device would.

Only questions are answered; nothing can be computed on the device. Figures are those of a common board of
each capability; ``plain=True`` gives every capability the same name, memory and size instead, so that what
depends on the board rather than on the capability can be told apart.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import stat
import sys
import tempfile
import types
from typing import Any

#: target -> (name, GiB of memory, multiprocessors, opt-in shared memory per block, per multiprocessor)
BOARDS = {
    "sm_80": ("NVIDIA A100-SXM4-80GB", 80, 108, 166912, 167936),
    "sm_86": ("NVIDIA RTX A6000", 48, 84, 101376, 102400),
    "sm_89": ("NVIDIA L40S", 48, 142, 101376, 102400),
    "sm_90": ("NVIDIA H100 80GB HBM3", 80, 132, 232448, 233472),
    "sm_100": ("NVIDIA B200", 180, 148, 232448, 233472),
    "sm_103": ("NVIDIA B300 SXM6 AC", 270, 148, 232448, 233472),
    "sm_110": ("NVIDIA Thor", 122, 20, 232448, 233472),
    "sm_120": ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 96, 188, 101376, 102400),
    "sm_121": ("NVIDIA GB10", 120, 48, 101376, 102400),
}
TARGETS = tuple(BOARDS)
CUDA = "13.0"


def capability(target: str) -> tuple[int, int]:
    """``sm_120`` -> ``(12, 0)``."""
    digits = target.removeprefix("sm_")
    return int(digits[:-1]), int(digits[-1])


def install(target: str, *, plain: bool = False) -> None:
    """Patch torch, pynvml, triton and PATH in this process. Call before SGLang is imported."""
    import torch

    major, minor = capability(target)
    name, gib, sms, smem_block, smem_sm = BOARDS[target]
    if plain:
        name, gib, sms = "NVIDIA Graphics Device", 24, 100
    memory = gib << 30
    props = types.SimpleNamespace(
        name=name,
        major=major,
        minor=minor,
        total_memory=memory,
        multi_processor_count=sms,
        warp_size=32,
        is_integrated=0,
        is_multi_gpu_board=0,
        max_threads_per_multi_processor=1536 if smem_sm == 102400 else 2048,
        max_threads_per_block=1024,
        regs_per_multiprocessor=65536,
        shared_memory_per_block=49152,
        shared_memory_per_block_optin=smem_block,
        shared_memory_per_multiprocessor=smem_sm,
        L2_cache_size=64 << 20,
        uuid="GPU-00000000-0000-0000-0000-000000000000",
        gcnArchName="",
        pci_bus_id=1,
        pci_device_id=0,
        pci_domain_id=0,
    )
    del props.gcnArchName  # only ROCm builds have it

    class Stream:
        cuda_stream = 0
        stream_id = 0
        device_index = 0

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self.device = torch.device("cpu")

        def __enter__(self) -> Stream:
            return self

        def __exit__(self, *args: Any) -> None:
            return None

        def __getattr__(self, attr: str) -> Any:
            return lambda *args, **kwargs: None

    def constant(value: Any) -> Any:
        return lambda *args, **kwargs: value

    torch.version.cuda = CUDA
    torch.version.hip = None
    answers: dict[str, Any] = {
        "is_available": True,
        "_is_compiled": True,
        "is_initialized": False,
        "device_count": 1,
        "_device_count_nvml": 1,
        "current_device": 0,
        "get_device_name": name,
        "get_device_capability": (major, minor),
        "get_device_properties": props,
        "get_arch_list": ["sm_80", "sm_86", "sm_90", "sm_100", "sm_120"],
        "is_bf16_supported": True,
        "mem_get_info": (memory * 97 // 100, memory),
        "memory_allocated": 0,
        "memory_reserved": 0,
        "current_stream": Stream(),
        "default_stream": Stream(),
        "is_current_stream_capturing": False,
        "set_device": None,
        "synchronize": None,
        "empty_cache": None,
        "init": None,
        "_lazy_init": None,
        "_get_nvml_device_index": 0,
        "can_device_access_peer": False,
        "get_rng_state": torch.zeros(16, dtype=torch.uint8),
    }
    for key, value in answers.items():
        setattr(torch.cuda, key, constant(value))
    for key in ("Stream", "Event", "ExternalStream"):
        setattr(torch.cuda, key, Stream)
    # What a CUDA build's C library would say to code that asks it directly.
    torch._C._cuda_getDeviceCount = constant(1)
    torch._C._cuda_getDevice = constant(0)
    torch._C._cuda_getCurrentRawStream = constant(0)
    torch._C._get_accelerator = constant(torch.device("cuda"))
    torch._C._cuda_getCompiledVersion = constant(13000)
    torch.backends.cuda.is_built = constant(True)
    torch.backends.mps.is_available = constant(False)
    torch.accelerator.is_available = constant(True)
    torch.accelerator.current_accelerator = constant(torch.device("cuda"))
    torch.accelerator.device_count = constant(1)

    _on_cpu(torch)
    _nvml(name, memory, (major, minor), constant)
    _triton(target, constant)
    _nvidia_smi(memory >> 20, f"{major}.{minor}", name)


def _on_cpu(torch: Any) -> None:
    """Let modules make "GPU" tensors on the CPU while being imported, and describe absent native ops."""

    def moved(make: Any) -> Any:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if str(kwargs.get("device", "")).startswith("cuda"):
                kwargs["device"] = "cpu"
            return make(*args, **kwargs)

        return wrapper

    for key in ("tensor", "zeros", "ones", "empty", "full", "arange"):
        setattr(torch, key, moved(getattr(torch, key)))

    def tolerant(register: Any) -> Any:
        def wrapper(op: Any, func: Any = None, /, **kwargs: Any) -> Any:
            def decorate(function: Any) -> Any:
                try:
                    register(op, function, **kwargs)
                except RuntimeError as error:
                    if "does not exist" not in str(error):
                        raise
                return function

            return decorate if func is None else decorate(func)

        return wrapper

    torch.library.register_fake = tolerant(torch.library.register_fake)


def _nvml(name: str, memory: int, cap: tuple[int, int], constant: Any) -> None:
    """Patch the installed pynvml, and a copy of it that a tree may carry when that is imported."""
    import pynvml

    answers: dict[str, Any] = {
        "nvmlInit": None,
        "nvmlShutdown": None,
        "nvmlDeviceGetCount": 1,
        "nvmlDeviceGetHandleByIndex": 0,
        "nvmlDeviceGetHandleByUUID": 0,
        "nvmlDeviceGetIndex": 0,
        "nvmlDeviceGetName": name,
        "nvmlDeviceGetUUID": "GPU-00000000-0000-0000-0000-000000000000",
        "nvmlDeviceGetMemoryInfo": types.SimpleNamespace(total=memory, free=memory, used=0),
        "nvmlDeviceGetCudaComputeCapability": cap,
        "nvmlDeviceGetComputeRunningProcesses": [],
        "nvmlSystemGetDriverVersion": "580.95.05",
        "nvmlSystemGetCudaDriverVersion": 13000,
    }

    def patch(module: Any) -> None:
        for key, value in answers.items():
            setattr(module, key, constant(value))

    class Finder(importlib.abc.MetaPathFinder):
        def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
            if not fullname.endswith(".pynvml"):
                return None
            spec = importlib.machinery.PathFinder.find_spec(fullname, path)
            if spec is None or spec.loader is None:
                return None
            execute = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                execute(module)
                patch(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
            return spec

    patch(pynvml)
    sys.meta_path.insert(0, Finder())


def _triton(target: str, constant: Any) -> None:
    """Triton asks its driver for the current target; let it hear of the same device."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver

    major, minor = capability(target)
    active = types.SimpleNamespace(
        get_current_target=constant(GPUTarget("cuda", major * 10 + minor, 32)),
        get_current_device=constant(0),
        get_current_stream=constant(0),
        get_active_torch_device=constant("cuda"),
        is_active=constant(True),
        utils=types.SimpleNamespace(
            get_device_properties=constant(
                {
                    "max_shared_mem": BOARDS[target][3],
                    "multiprocessor_count": BOARDS[target][2],
                    "warpSize": 32,
                }
            )
        ),
    )
    driver.set_active(active)


def _nvidia_smi(mib: int, cap: str, name: str) -> None:
    """A command of that name on PATH which answers the queries SGLang makes."""
    folder = tempfile.mkdtemp(prefix="oracle-bin-")
    path = os.path.join(folder, "nvidia-smi")
    with open(path, "w", encoding="utf-8") as out:
        out.write(
            '#!/bin/sh\ncase "$*" in\n'
            f'*compute_cap*) echo "{cap}";;\n*memory.total*) echo "{mib}";;\n*name*) echo "{name}";;\n'
            "*) exit 1;;\nesac\n"
        )
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
    os.environ["PATH"] = folder + os.pathsep + os.environ.get("PATH", "")
