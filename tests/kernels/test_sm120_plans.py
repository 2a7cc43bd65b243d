"""What the kernels of ``patchsets/sm120`` are launched with, against what their declarations ask of a launch.

A declaration says a grid as a formula, the code computes it: where the two part, the gate holds something
else than what runs. Nothing is compiled here, and neither Triton nor torch is needed.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Optional

import pytest

from auditor.data import data_root
from auditor.patching.kernels.declared import Declared, declared_kernels
from auditor.patching.kernels.launches import launches_of
from auditor.patching.sets.patchset import load_patchset

FILES = data_root() / "patchsets" / "sm120" / "files/python/sglang/srt/layers/attention"
SPLITS = ("sm120_sparse_decode", "sm120_sparse_decode_gluon")
Plan = Callable[..., tuple[dict[str, Any], int]]


def planner(stem: str) -> Plan:
    """``plan`` of a file, with the functions and the plain constants that it may use, and nothing else."""
    names: dict[str, Any] = {
        "functools": functools,
        "triton": SimpleNamespace(cdiv=lambda a, b: -(-a // b)),
        "Optional": Optional,
        "Tuple": tuple,
    }
    for each in dict.fromkeys((SPLITS[0], stem)):  # the second file takes from the first
        body = ast.parse((FILES / f"{each}.py").read_text()).body
        kept = [node for node in body if _plain(node)]
        for node in kept:
            if isinstance(node, ast.FunctionDef):
                node.body = [line for line in node.body if not isinstance(line, ast.ImportFrom)]
        exec(compile(ast.Module(kept, []), each, "exec"), names)  # our own file
    return names["plan"]


def _plain(node: ast.stmt) -> bool:
    if isinstance(node, ast.FunctionDef):
        arguments = {each.arg for each in node.args.args}
        return not node.name.startswith("_") and "processors" in arguments
    try:
        return isinstance(node, ast.Assign) and ast.literal_eval(node.value) is not None
    except ValueError:
        return False


def declared(stem: str, direct: bool) -> Declared:
    """The declaration of a file's split, for one part or for several."""
    (found,) = (
        each
        for each in declared_kernels(load_patchset(data_root() / "patchsets" / "sm120"))
        if Path(each.kernel.file).stem == stem
        and each.kernel.function == "sparse_decode_split"
        and each.kernel.constexprs["DIRECT"] is direct
    )
    return found


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("stem", SPLITS)
def test_what_is_declared_is_what_is_launched(stem: str, direct: bool) -> None:
    plan, made = planner(stem), declared(stem, direct)
    met: list[dict[str, int]] = []
    for shape in made.kernel.launch.shapes:
        for target in made.targets:
            config, parts = plan(shape["H"], shape["B"], shape["window"], shape["context"], target.sms)
            if (parts == 1) is not direct:
                continue  # on the smaller card one part may do
            assert shape.get("BLOCK_H", config["BLOCK_H"]) == config["BLOCK_H"], (shape, target.name)
            (own,) = (each for each in made.configs if each.values["BLOCK_H"] == config["BLOCK_H"])
            (asked,) = (each for each in launches_of(made, own, target) if each.shape == shape)
            blocks = shape["B"] * -(-shape["H"] // config["BLOCK_H"]) * parts
            assert blocks >= asked.wanted > 0, (shape, target.name)
            met.append(shape)
    assert [shape for shape in made.kernel.launch.shapes if shape not in met] == []


@pytest.mark.parametrize("stem", SPLITS)
def test_sixty_four_requests_of_sixty_four_heads_are_declared(stem: str) -> None:
    shapes = [shape for direct in (False, True) for shape in declared(stem, direct).kernel.launch.shapes]
    assert {(shape["B"], shape["H"]) for shape in shapes} >= {(1, 64), (4, 64), (64, 16), (64, 64)}


@pytest.mark.parametrize("stem", SPLITS)
def test_the_merge_takes_every_number_of_parts(stem: str) -> None:
    """A list of a million tokens compressed by 128 has 8,192 entries: more tiles than anybody splits."""
    merge = next(
        each
        for each in declared_kernels(load_patchset(data_root() / "patchsets" / "sm120"))
        if each.kernel.function == "sparse_decode_merge"
    )
    most = max(int(str(config.values["BLOCK_S"])) for config in merge.configs)
    plan = planner(stem)
    for processors in (4, 48, 132, 188):
        for heads in (8, 16, 64, 128):
            for queries in (1, 2, 3, 7, 16, 47, 64, 300, 20000):
                for extra in (0, 64, 512, 8192):
                    parts = plan(heads, queries, 128, extra, processors)[1]
                    assert 1 <= parts <= most, (processors, heads, queries, extra)
    assert plan(64, 1, 0, 0, 188)[1] == 1
