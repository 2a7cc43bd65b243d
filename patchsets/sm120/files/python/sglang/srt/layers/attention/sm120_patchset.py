# SPDX-License-Identifier: Apache-2.0
"""A check at start, on sm_120 and sm_121, that the kernels for these GPUs are in force.

An operator whose name is taken is kept without a word, a call site can lose its dispatch in a merge, and
another installed copy can be the one that runs. In each of these cases the server would start, and be slow.
So each kernel that this copy has, and that its flag does not switch off, is asked for: is it registered, with
the arguments of its own fake implementation, for CUDA and for tracing, and does its call site lead to it.

SGLANG_SM120_PATCHSET_CHECK=0 leaves the check out.
"""

import importlib
import importlib.util
import inspect
import logging
import types
from collections.abc import Iterator
from typing import Any

import torch
from sglang.srt.environ import envs
from sglang.srt.utils import is_sm120_supported

logger = logging.getLogger(__name__)

_ATTENTION = "sglang.srt.layers.attention"
# (flag, operator = name of its module and function, functions that lead to it: the first that is there)
KERNELS = (
    (
        "SGLANG_SM120_INDEXER_LOGITS",
        "sm120_indexer_logits",
        (f"{_ATTENTION}.dsv4.indexer:fp8_paged_mqa_logits_torch_sm120",),
    ),
    (
        "SGLANG_SM120_SPARSE_DECODE",
        "sm120_sparse_decode",
        (
            "sglang.kernels.ops.attention.flash_mla_sm120:flash_mla_with_kvcache_sm120",
            f"{_ATTENTION}.flash_mla_sm120:flash_mla_with_kvcache_sm120",
        ),
    ),
    (
        "SGLANG_SM120_SPARSE_DECODE_GLUON",
        "sm120_sparse_decode_gluon",
        (f"{_ATTENTION}.flash_mla_sm120:flash_mla_with_kvcache_sm120",),
    ),
)


def assert_in_force() -> list[str]:
    """The operators that are in force; on another GPU none. RuntimeError says what is not as it should be."""
    if not is_sm120_supported() or not envs.SGLANG_SM120_PATCHSET_CHECK.get():
        return []
    here: list[str] = []
    wrong: list[str] = []
    for flag, operator, sites in KERNELS:
        module = f"{_ATTENTION}.{operator}"
        if importlib.util.find_spec(module) is None:
            continue  # the patch that brings it is not in this copy
        if not getattr(envs, flag).get():
            logger.info("%s is off: %s", operator, flag)
            continue
        try:
            called = list(_called(operator, sites))
        except ImportError as error:
            # No model of this server can get there; one that does ends with the same error by itself.
            logger.warning("%s cannot be asked for: %s", operator, error)
            continue
        faults = [*_registered(operator, module), *called]
        wrong += faults
        here += [] if faults else [operator]
    if wrong:
        raise RuntimeError(
            "the kernels for sm_120 are not in force: "
            + "; ".join(wrong)
            + ". SGLANG_SM120_PATCHSET_CHECK=0 starts without them."
        )
    if here:
        logger.info("kernels for sm_120 in force: %s", ", ".join(here))
    return here


def _registered(operator: str, module: str) -> Iterator[str]:
    """What is wrong with the registration of an operator."""
    fake = getattr(importlib.import_module(module), f"{operator}_fake")
    packet = getattr(torch.ops.sglang, operator, None)
    if packet is None:
        yield f"{operator} is not registered"
        return
    found = [argument.name for argument in packet.default._schema.arguments]
    if found != list(inspect.signature(fake).parameters):
        yield f"{operator} is registered by somebody else, with the arguments {', '.join(found)}"
    for key in ("CUDA", "Meta"):
        if not torch._C._dispatch_has_kernel_for_dispatch_key(f"sglang::{operator}", key):
            yield f"{operator} has no implementation for {key}"


def _called(operator: str, sites: tuple[str, ...]) -> Iterator[str]:
    """What is wrong with the place that should call an operator."""
    for site in sites:
        module, _, name = site.partition(":")
        try:
            found = importlib.util.find_spec(module) is not None
        except ModuleNotFoundError:
            found = False
        function = getattr(importlib.import_module(module), name, None) if found else None
        if function is not None:
            if not _mentions(function, operator):
                yield f"{site} does not lead to {operator}"
            return
    yield f"none of {', '.join(sites)} is there"


def _mentions(function: Any, word: str) -> bool:
    """Whether the code of a function, or of one that it wraps, names a module or function of that name."""
    todo, seen = [function], set()
    while todo:
        each = todo.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, types.CodeType):
            if any(word in name.split(".") for name in each.co_names):
                return True
            todo += [const for const in each.co_consts if isinstance(const, types.CodeType)]
        elif isinstance(each, types.FunctionType):
            todo.append(each.__code__)
            todo += [cell.cell_contents for cell in each.__closure__ or ()]
    return False
