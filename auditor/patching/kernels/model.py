"""How a structural patch declares the kernels that it brings. Makes part of ``patch-1.json``.

A declaration says how the tree will launch a kernel: argument types, compile-time values, configurations, and
the grid as a formula. The gate compiles exactly that. Values are data: nothing of it is run.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from auditor.patching.edits.model import Strict, Text

Value = bool | int | str | None
#: A number, or arithmetic on named numbers: ``cdiv(H, BLOCK_H) * min(B, 4)``.
Formula = Annotated[str, msgspec.Meta(min_length=1, max_length=400)] | Annotated[int, msgspec.Meta(ge=0)]
Identifier = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=120)]


class LaunchShape(Strict, frozen=True, kw_only=True):
    """With how many blocks a kernel is launched, for a few sizes that matter.

    In a formula stand the sizes of a shape, compile-time values, values of the configuration, and the names
    in ``let``. A size that has the name of a configuration's value limits the shape to the configurations
    that have this value.
    """

    grid: Annotated[tuple[Formula, ...], msgspec.Meta(min_length=1, max_length=3)]
    tiles: Formula  # pieces of work that blocks could take independently
    step: Formula = 1  # blocks come in multiples of this: one more part of every query
    shapes: Annotated[tuple[dict[Identifier, int], ...], msgspec.Meta(min_length=1, max_length=64)]
    let: dict[Identifier, Formula] = {}  # in order; each may use those above it


class Kernel(Strict, frozen=True, kw_only=True):
    """One kernel of a file below ``files/``.

    ``constexprs`` hold for every configuration; each of ``variants`` overrides some of them, and every
    configuration is compiled with every variant. A value ``tl.NAME`` or ``gl.NAME`` is that type of Triton.
    ``configs`` is a list, or the name of a constant of the file, which is read and never run.
    """

    file: Text
    function: Identifier
    language: Literal["triton", "gluon", "cuda"] = "triton"
    signature: dict[Identifier, Text] = {}  # argument -> type as Triton writes it: *bf16, *fp8e4nv, i32, fp32
    constexprs: dict[Identifier, Value] = {}
    variants: Annotated[tuple[dict[Identifier, Value], ...], msgspec.Meta(max_length=32)] = ()
    divisible: tuple[Identifier, ...] = ()  # arguments that 16 divides, besides all pointers
    unaligned: tuple[Identifier, ...] = ()  # pointers that it does not
    configs: Identifier | Annotated[tuple[dict[Identifier, Value], ...], msgspec.Meta(max_length=256)] = ()
    tensor_cores: Literal["required", "none"]
    blocks_per_sm: Annotated[int, msgspec.Meta(ge=1, le=32)] = 1  # at least so many
    launch: LaunchShape
    threads: Formula = 0  # CUDA only: threads of a block
    shared: Formula = 0  # CUDA only: bytes of dynamic shared memory of a block
    numerics: str = ""  # the test that compares it with a reference, as given to pytest
