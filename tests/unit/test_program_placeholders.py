"""An attribute that a class body declares as None is there to be set later, by code of any file."""

from __future__ import annotations

import pytest

from auditor.gates.audit import AuditOptions, audit
from auditor.queries.exampletree import PROFILE, MemoryTree

CONTEXT = """\
import dataclasses


{decorator}class Flags:
    runner: object = None


class Context:
    def __init__(self):
        self.flags = Flags()


_CONTEXT = Context()


def get_flags():
    return _CONTEXT.flags
"""
UTILS = """\
from enum import Enum

from example.context import get_flags


class Runner(Enum):
    AUTO = "auto"
    FAST = "fast"

    def is_fast(self):
        return self == Runner.FAST


def start(arguments):
    flags = get_flags()
    flags.runner = Runner(arguments.runner)


def get_runner():
    flags = get_flags()
    if flags.runner is None:
        flags.runner = Runner.AUTO
    return flags.runner
"""
USE = """\
import torch

from example.utils import get_runner


def run():
    if get_runner().is_fast():
        assert torch.cuda.get_device_capability() >= (9, 0)
"""


def test_what_nothing_can_set_is_known() -> None:
    text = (
        "import dataclasses\nimport torch\n\n\n@dataclasses.dataclass(frozen=True)\nclass Need:\n"
        "    most: object = None\n\n\nNEED = Need()\n\n\n"
        "def run():\n    if NEED.most is None:\n        return torch.cuda.get_device_capability() >= (9, 0)\n"
    )
    tree = MemoryTree({"example/__init__.py": "", "example/use.py": text})
    report = audit(tree, AuditOptions(("sm_120",), project="example", profile=PROFILE, queries=()))
    assert {gate.reached["sm_120"] for gate in report.gates} == {"true"}


@pytest.mark.parametrize("decorator", ["", "@dataclasses.dataclass\n"])
def test_what_another_file_sets_is_not_known_from_its_empty_default(decorator: str) -> None:
    files = {"__init__": "", "context": CONTEXT.format(decorator=decorator), "utils": UTILS, "use": USE}
    tree = MemoryTree({f"example/{name}.py": text for name, text in files.items()})
    report = audit(tree, AuditOptions(("sm_120",), project="example", profile=PROFILE, queries=()))
    (gate,) = [gate for gate in report.gates if gate.path == "example/use.py"]
    assert gate.truth["sm_120"] == "true"
    assert gate.reached["sm_120"] == "unknown"
