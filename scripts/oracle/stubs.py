"""Stand-ins for packages that are not installed in the throw-away environment.

``install(present)`` puts a finder at the end of ``sys.meta_path``. A package that the environment has is
used as it is. Of the missing ones, packages of other vendors never exist; plain utility packages are always
replaced by a permissive stub; everything else (GPU libraries) is a stub when ``present`` is true and
missing otherwise.

A stub answers every attribute and call with another stub. Each time such an answer decides something (truth
value, comparison, conversion to a number) the place in SGLang is noted in :data:`decisions`, because what
follows from it is an invention and not a fact.
"""

from __future__ import annotations

import abc
import importlib.abc
import importlib.machinery
import importlib.metadata
import re
import sys
import types
from typing import Any

#: Packages of other vendors (and a documentation tool whose mocks would change what is defined): never there.
NEVER = frozenset(
    """
    aiter amdsmi attn_custom_ops ck4inductor custom_ops deepep_npu flydsl habana_frameworks
    intel_extension_for_pytorch iris lightop lmslim mate memfabric_hybrid mf_adapter mindspore mlx mlx_lm
    mlx_vlm mori musa omni_custom_ops pymtml pyrocm setuptools_scm sgl_diffusion_xpu sgl_kernel_npu
    sgl_kernel_xpu sgl_mindspore sglang_sail sphinx tokenspeed_amd torch_gcu torch_hcu torch_memory_saver_npu
    torch_mlu torch_musa torch_npu torch_sail torch_xla torchada vllm_ascend wave wave_lang zbal
    """.split()
)
#: Stubbed in both runs, so that their users can be imported: plain libraries that say nothing about the
#: GPU, and sgl_kernel, without which a CUDA build cannot be imported at all.
PLAIN = frozenset(
    """
    IPython accelerate addict aiohttp anthropic av blake3 boto3 cache_dit cv2 datasets dateutil decord decord2
    diffusers dill easydict fastapi ftfy gguf gradio grpc grpc_health grpc_reflection httpx imageio
    imageio_ffmpeg interegular jsonschema kernels lark librosa llguidance lxml matplotlib mistral_common
    modelscope moviepy nltk omegaconf openai openai_harmony opentelemetry outlines outlines_core pandas peft
    psutil py_spy pyarrow pybase64 pycountry pymeshlab ray remote_pdb rnc2rng runai_model_streamer sgl_kernel
    sglang_router skimage sklearn smg_grpc_proto smg_grpc_servicer soundfile st_attn tabulate tiktoken timm
    torch_memory_saver torchaudio torchcodec torchvision trimesh uvloop watchfiles websockets xgrammar zmq
    zstandard
    """.split()
)

decisions: set[str] = set()
stubbed: set[str] = set()
refused: set[str] = set()
versions: dict[str, str] = {}


def _note() -> None:
    """Remember the innermost SGLang frame that relies on the answer of a stub."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.startswith("sglang"):
            decisions.add(f"{name}:{frame.f_lineno}")
            return
        frame = frame.f_back  # type: ignore[assignment]


class _Meta(abc.ABCMeta):
    def __getattr__(cls, name: str) -> Any:
        return _answer(f"{cls.__name__}.{name}", name)

    def __getitem__(cls, item: Any) -> Any:
        return cls

    def __or__(cls, other: Any) -> Any:
        return Any

    def __ror__(cls, other: Any) -> Any:
        return Any

    def __iter__(cls) -> Any:
        _note()
        return iter(())

    def __contains__(cls, item: Any) -> bool:
        _note()
        return False


class Stub(metaclass=_Meta):
    """Anything at all: callable, indexable, usable as a base class, a decorator or a context."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __init_subclass__(cls, **kwargs: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return _answer(f"{type(self).__name__}.{name}", name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and isinstance(args[0], (types.FunctionType, type)):
            return args[0]
        return Stub()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.any_schema()

    def __mro_entries__(self, bases: Any) -> Any:
        return (Stub,)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *args: Any) -> None:
        return None

    def __getitem__(self, item: Any) -> Any:
        return Stub()

    def __setitem__(self, item: Any, value: Any) -> None:
        pass

    def __iter__(self) -> Any:
        _note()
        return iter(())

    def __len__(self) -> int:
        _note()
        return 0

    def __contains__(self, item: Any) -> bool:
        _note()
        return False

    def __bool__(self) -> bool:
        _note()
        return True

    def __int__(self) -> int:
        _note()
        return 1

    def __index__(self) -> int:
        _note()
        return 1

    def __float__(self) -> float:
        _note()
        return 1.0

    def __hash__(self) -> int:
        return id(self)


def _operator(self: Any, *args: Any) -> Any:
    return Stub()


def _compare(self: Any, other: Any) -> bool:
    _note()
    return self is other


_OPERATORS = """
    add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow and or ror rand neg
    invert lshift
"""
for _op in _OPERATORS.split():
    setattr(Stub, f"__{_op}__", _operator)
for _op in "eq lt le gt ge".split():
    setattr(Stub, f"__{_op}__", _compare)


def _answer(qualified: str, name: str) -> Any:
    # numpy takes anything with a dtype for an array element
    if name == "dtype" or (name.startswith("__") and name.endswith("__")):
        raise AttributeError(qualified)
    if name.lstrip("_")[:1].isupper() and not name.isupper():
        bases = (Stub, Exception) if name.endswith(("Error", "Exception")) else (Stub,)
        return _Meta(name, bases, {"__module__": "stub"})
    return Stub()


class _Module(types.ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return Stub()(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        # an element type: SGLang insists that it is one
        answer = (
            sys.modules["torch"].int64
            if name.endswith("_idx_t")
            else _answer(f"{self.__name__}.{name}", name)
        )
        setattr(self, name, answer)
        return answer


def _asked_by_sglang() -> bool:
    """Whether SGLang asked for the import (or a stub), not a library that probes for a rare package."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name not in (__name__, "contextlib") and not name.startswith(("importlib", "_frozen_importlib")):
            return name.startswith("sglang")
        frame = frame.f_back
    return False


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, present: bool) -> None:
        self.present = present

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        top = fullname.split(".")[0]
        if (
            top in sys.stdlib_module_names
            or top.startswith("_")
            or top in ("sglang", "torch", "triton", "transformers")
        ):
            return None
        parent = sys.modules.get(fullname.rpartition(".")[0])
        if "." in fullname and not isinstance(parent, _Module):
            return None
        if parent is None and not _asked_by_sglang():
            return None
        if top in NEVER or not (self.present or top in PLAIN):
            refused.add(top)
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: Any) -> types.ModuleType:
        module = _Module(spec.name)
        module.__path__ = []
        module.__all__ = []  # type: ignore[attr-defined]
        top = spec.name.split(".")[0]
        stubbed.add(top)
        module.__version__ = versions.get(_DISTRIBUTIONS.get(top, top).lower(), "99.0.0")  # type: ignore[attr-defined]
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        pass


#: import name -> distribution name, where they differ
_DISTRIBUTIONS = {
    "flashinfer": "flashinfer-python",
    "sgl_kernel": "sglang-kernel",
    "deep_gemm": "sgl-deep-gemm",
    "cutlass": "nvidia-cutlass-dsl",
    "quack": "quack-kernels",
    "flash_attn": "flash-attn-4",
    "cuda": "cuda-python",
}


def install(present: bool, requirements: list[str]) -> None:
    """Put the finder in place.

    ``requirements`` are the tree's own pins, from which stubs take their versions.
    """
    for line in requirements:
        match = re.match(r"([A-Za-z0-9_.-]+)(?:\[[^]]*\])?\s*\(?[=><~]=\s*([0-9][^,;)\s]*)", line)
        if match:
            versions.setdefault(match[1].lower().replace("_", "-"), match[2])
    sys.meta_path.append(_Finder(present))
    if not present:
        return
    original = importlib.metadata.version

    def version(distribution_name: str) -> str:
        try:
            return original(distribution_name)
        except importlib.metadata.PackageNotFoundError:
            if not _asked_by_sglang():
                raise
            key = distribution_name.lower().replace("_", "-")
            if key in versions:
                return versions[key]
            raise

    importlib.metadata.version = version
