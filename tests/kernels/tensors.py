"""Just enough of torch, on numpy, for kernels that run in Triton's interpreter: torch itself is a heavy
thing to ask of everybody who runs the tests. ``install`` puts it in torch's place, in a process that has no
torch.

bf16 and fp8 have no type in numpy: they lie in uint16 and uint8, and the label says what they are.
"""

from __future__ import annotations

import sys
import types

import numpy as np


class Dtype:
    """A type of torch's, by its name."""

    def __init__(self, name: str, stored: type) -> None:
        self.name, self.stored = name, np.dtype(stored)

    def __str__(self) -> str:
        return f"torch.{self.name}"

    __repr__ = __str__


uint8, int32, int64 = Dtype("uint8", np.uint8), Dtype("int32", np.int32), Dtype("int64", np.int64)
float32, bfloat16 = Dtype("float32", np.float32), Dtype("bfloat16", np.uint16)
float8_e4m3fn = Dtype("float8_e4m3fn", np.uint8)


class Storage:
    """The memory below a tensor. The interpreter copies it to the CPU and back; it is there already."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def data_ptr(self) -> int:
        return self.array.ctypes.data

    def cpu(self) -> Storage:
        return self

    def copy_(self, other: Storage) -> None:
        assert other.array is self.array


class Tensor:
    """A numpy array (dense or not) with the type that it stands for."""

    def __init__(self, array: np.ndarray, dtype: Dtype) -> None:
        assert array.dtype == dtype.stored, (array.dtype, dtype)
        self.array, self.dtype = array, dtype
        self.device = types.SimpleNamespace(type="cpu", index=None)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def size(self) -> tuple[int, ...]:
        return self.array.shape

    def dim(self) -> int:
        return self.array.ndim

    def element_size(self) -> int:
        return self.array.itemsize

    def stride(self, dim: int | None = None):
        strides = tuple(step // self.array.itemsize for step in self.array.strides)
        return strides if dim is None else strides[dim]

    def storage_offset(self) -> int:
        return 0

    def data_ptr(self) -> int:
        return self.array.ctypes.data

    def untyped_storage(self) -> Storage:
        return Storage(self.array)

    def new_empty(self, size: int, device: str) -> Tensor:
        return Tensor(np.empty(size, self.array.dtype), self.dtype)

    def set_(self, storage: Storage, offset: int, size, stride) -> None:
        self.array = storage.array

    def view(self, dtype: Dtype) -> Tensor:
        return Tensor(self.array.view(dtype.stored), dtype)

    def reshape(self, *shape: int) -> Tensor:
        return Tensor(self.array.reshape(shape), self.dtype)

    def contiguous(self) -> Tensor:
        return Tensor(np.ascontiguousarray(self.array), self.dtype)


def empty(shape, dtype: Dtype, device: object = None) -> Tensor:
    """Memory that nobody has written: filled with what would show (a NaN, if it is a float)."""
    array = np.empty(shape, dtype.stored)
    array.view(np.uint8)[...] = 0xFF
    return Tensor(array, dtype)


def full(shape, value: float, dtype: Dtype, device: object = None) -> Tensor:
    return Tensor(np.full(shape, value, dtype.stored), dtype)


def install() -> types.ModuleType:
    """Puts the stand-in into ``sys.modules`` as torch."""
    module = types.ModuleType("torch")
    module.dtype, module.device = Dtype, object
    for name in (
        "Tensor",
        "empty",
        "full",
        "uint8",
        "int32",
        "int64",
        "float32",
        "bfloat16",
        "float8_e4m3fn",
    ):
        setattr(module, name, globals()[name])
    sys.modules["torch"] = module
    return module
