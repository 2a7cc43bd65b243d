"""What is known about code outside the audited tree.

The GPU is asked through a handful of *roots* in PyTorch, Triton and NVML; their values per target follow
from the target alone. Next to them stand the facts of the fixed assumptions (an NVIDIA CUDA build of
PyTorch, a visible device, Linux). Everything else outside the tree is unknown.
"""

from __future__ import annotations

import re
import sys
from typing import Any

from auditor.program.values import EMPTY, External, Facts, Map, Seq, Unknown, V, make, unknown

CAPABILITY = "torch.cuda.get_device_capability"
PROPERTIES = "torch.cuda.get_device_properties"
DEVICE_NAME = "torch.cuda.get_device_name"
CUDA_VERSION = "torch.version.cuda"
HIP_VERSION = "torch.version.hip"
CUDA_BUILD = "torch.version.cuda is None"  # whether this is a CUDA build at all: a vendor question
AVAILABLE = "torch.cuda.is_available"
NVML = "pynvml.nvmlDeviceGetCudaComputeCapability"
SMI = "nvidia-smi --query-gpu=compute_cap"
TRITON_TARGET = "triton.runtime.driver.active.get_current_target"

#: Roots that make a gate a question about the GPU's architecture, not only about its vendor.
ARCH_ROOTS = frozenset({CAPABILITY, PROPERTIES, CUDA_VERSION, NVML, TRITON_TARGET, SMI})

#: Literal texts of which at least one stands in every file that reads an arch root.
ROOT_WORDS = (
    b"get_device_capability",
    b"get_device_properties",
    b"version.cuda",
    b"import version",
    b"ComputeCapability",
    b"compute_cap",
    b"get_current_target",
)

#: Attributes that a CUDA build of PyTorch on Linux does not have.
ABSENT = frozenset(
    {"torch.npu", "torch.musa", "torch.hpu", "torch.mlu", "torch.version.musa", "torch.version.npu"}
)
#: Calls with a fixed answer on such a build.
FIXED_CALLS: dict[str, Any] = {
    "torch.xpu.is_available": False,
    "torch.npu.is_available": False,
    "torch.hpu.is_available": False,
    "torch.mps.is_available": False,
    "torch.backends.mps.is_available": False,
    "torch.backends.cuda.is_built": True,
    "torch.backends.mps.is_built": False,
    "torch.cpu.is_available": True,
    "torch.distributed.is_available": True,
    "platform.system": "Linux",
    "torch.cuda.is_bf16_supported": True,
}
FIXED_ATTRS: dict[str, Any] = {
    "sys.platform": "linux",
    "os.name": "posix",
    "torch.version.xpu": None,
    "torch.version.musa": None,
    "typing.TYPE_CHECKING": False,
    "typing_extensions.TYPE_CHECKING": False,
}
#: Decorators and wrappers that return a function with the same results.
TRANSPARENT = frozenset(
    {
        "functools.lru_cache",
        "functools.cache",
        "functools.cached_property",
        "functools.wraps",
        "torch.no_grad",
        "torch.inference_mode",
        "torch.compile",
        "torch.compiler.disable",
        "torch.jit.script",
        "torch._dynamo.disable",
        "torch.library.custom_op",
        "typing.final",
        "typing.override",
        "typing_extensions.override",
        "abc.abstractmethod",
        "contextlib.contextmanager",
    }
)
#: Calls that never fail under the fixed assumptions, whatever they return.
SAFE_CALLS = ("torch.cuda.", "torch.device", "torch.version.", "logging.", "warnings.", "time.", "os.getpid")
_STDLIB: frozenset[str] = getattr(sys, "stdlib_module_names", frozenset())
#: Packages whose import never fails under the fixed assumptions.
ALWAYS = frozenset({"torch", "triton", "numpy", "typing_extensions"})


def always_there(module: str) -> bool:
    """Whether importing a module outside the tree is sure to work."""
    top = module.split(".", 1)[0]
    return top in ALWAYS or top in _STDLIB


def _asks_capability(command: Any) -> bool:
    """Whether a command line asks ``nvidia-smi`` for the compute capability."""
    words = command.items if isinstance(command, Seq) else ()
    return (
        bool(words)
        and words[0] == "nvidia-smi"
        and any("compute_cap" in w for w in words if isinstance(w, str))
    )


#: A group that is repeated; in a pattern with comments anything may stand before what repeats it.
_REPEATED_GROUP = re.compile(r"\)[*+{]|\(\?[a-zA-Z]*x")


def _matched(name: str, pattern: Any, text: Any) -> Any:
    """A regular expression on constant text: None, or something true. Patterns that could run long are left
    open: more than two repetitions, a group that is repeated (its ways to match multiply), or long texts."""
    if not (isinstance(pattern, str) and isinstance(text, str)):
        return unknown(f"call {name}()")
    many = sum(pattern.count(c) for c in "*+{") > 2
    if many or len(pattern) > 120 or len(text) > 200 or _REPEATED_GROUP.search(pattern):
        return unknown(f"call {name}()")
    try:
        found = getattr(re, name.rpartition(".")[2])(pattern, text)
    except (re.error, RecursionError, OverflowError):
        return unknown(f"call {name}()")
    return None if found is None else Unknown(frozenset({f"call {name}()"}), None, True)


class World:
    """The roots' values for a list of targets under the user's assumptions.

    ``capabilities`` holds ``(major, minor)`` per target, ``shared`` the opt-in shared memory per block
    in bytes per target, in the same order.
    """

    def __init__(
        self,
        capabilities: tuple[tuple[int, int], ...],
        shared: tuple[int, ...],
        assume: dict[str, str],
        shared_sm: tuple[int, ...] = (),
    ) -> None:
        self.capabilities = capabilities
        self.shared = shared
        self.count = len(capabilities)
        self.full = (1 << self.count) - 1
        self.assume = assume
        self.cuda = assume.get("cuda", "13.0")
        cap = tuple(Seq("tuple", c) for c in capabilities)
        self._capability = cap
        self._sm = tuple(c[0] * 10 + c[1] for c in capabilities)
        self._properties = tuple(
            Facts(
                "device properties",
                {
                    "major": c[0],
                    "minor": c[1],
                    "warp_size": 32,
                    "shared_memory_per_block_optin": s,
                    "shared_memory_per_block": 49152,
                },
                PROPERTIES,
            )
            for c, s in zip(capabilities, shared)
        )
        for facts, amount in zip(self._properties, shared_sm):
            facts.known["shared_memory_per_multiprocessor"] = amount
        self._triton = tuple(Map({"max_shared_mem": s, "warpSize": 32}) for s in shared)

    def dependency(self, module: str) -> bool | None:
        """Whether an optional package can be imported: True, False or None (unknown)."""
        if always_there(module):
            return True
        top = module.split(".", 1)[0]
        value = self.assume.get(f"dep.{top}")
        if value is None:
            return None
        return value not in ("absent", "no", "false", "0")

    def environment(self, name: Any, default: V | None) -> V:
        """``os.environ`` lookups."""
        if not isinstance(name, str):
            return V(unknown("env"))
        value = self.assume.get(f"env.{name}")
        if value is None:
            if self.assume.get("defaults") == "yes":
                return default if default is not None else V(None)
            return V(unknown(f"env.{name}"))
        if value == "unset":
            return default if default is not None else V(None)
        return V(value)

    def attribute(self, name: str) -> V | None:
        """Value of an attribute outside the tree, or None where it is just another external name."""
        if name == CUDA_VERSION:
            return V(self.cuda, frozenset({CUDA_VERSION}))
        if name == HIP_VERSION:
            return V(None, frozenset({HIP_VERSION}))
        if name in FIXED_ATTRS:
            return V(FIXED_ATTRS[name])
        if name == "torch.__version__" or name == "torch.version.__version__":
            version = self.assume.get("dep.torch")
            return V(version) if version and version[0].isdigit() else V(unknown("dep.torch version"))
        if name == "os.environ":
            return None
        return None

    def call(self, name: str, args: list[V], kwargs: dict[str, V]) -> V | None:
        """Result of calling something outside the tree, or None where nothing is known."""
        if name == CAPABILITY:
            return make(self._capability, frozenset({CAPABILITY}))
        if name == PROPERTIES:
            return V(None, frozenset({PROPERTIES}), EMPTY, self._properties)
        if name == AVAILABLE:
            return V(True, frozenset({AVAILABLE}))
        if name == DEVICE_NAME:
            return V(Unknown(frozenset({"device name"})), frozenset({DEVICE_NAME}))
        if name.endswith("nvmlDeviceGetCudaComputeCapability"):
            return make(self._capability, frozenset({NVML}))
        if name.endswith("driver.active.get_current_target"):
            return V(
                None,
                frozenset({TRITON_TARGET}),
                EMPTY,
                tuple(
                    Facts("triton target", {"arch": sm, "backend": "cuda", "warp_size": 32}, TRITON_TARGET)
                    for sm in self._sm
                ),
            )
        if name.endswith("driver.active.utils.get_device_properties"):
            return V(None, frozenset({PROPERTIES}), EMPTY, self._triton)
        if name in ("subprocess.run", "subprocess.check_output") and args and _asks_capability(args[0].one):
            text = tuple(f"{c.items[0]}.{c.items[1]}\n" for c in self._capability)
            if name == "subprocess.check_output":
                return V(None, frozenset({SMI}), EMPTY, text)
            done = tuple(Facts("nvidia-smi", {"stdout": t, "returncode": 0}, SMI) for t in text)
            return V(None, frozenset({SMI}), EMPTY, done)
        if name in FIXED_CALLS:
            return V(FIXED_CALLS[name])
        if name == "importlib.metadata.entry_points" and self.assume.get("defaults") == "yes":
            return V(Seq("tuple", ()))  # a fresh installation has no plugins
        if name == "platform.machine":
            machine = self.assume.get("machine")
            return V(machine) if machine else V(unknown("machine"))
        if name in ("os.getenv", "os.environ.get"):
            key = args[0].one if args and args[0].each is None else None
            default = args[1] if len(args) > 1 else kwargs.get("default")
            return self.environment(key, default)
        if name == "importlib.util.find_spec":
            target = args[0].one if args else None
            if isinstance(target, str):
                there = self.dependency(target)
                if there is None:
                    return V(unknown(f"dep.{target.split('.', 1)[0]}"))
                return V(External(f"spec:{target}") if there else None)
        if name in ("re.match", "re.search", "re.fullmatch") and len(args) == 2:
            return V(_matched(name, args[0].one, args[1].one))
        if name == "sys.exit":
            return V(unknown("exit"))
        return None
