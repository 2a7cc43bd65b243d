"""What is known of an object's attributes: after its methods were called, and where others set them."""

from __future__ import annotations

import pytest

from auditor.gates.audit import AuditOptions, audit
from auditor.queries.exampletree import PROFILE, MemoryTree

CLASS = """import torch


class Backend:
    def __init__(self, runner):
        self.fast = torch.cuda.get_device_capability()[0] in (9, 12)
        if runner.native and self.fast:
            raise ValueError("not there")
        self.pool = {call}

    def run(self):
        if self.fast:
            return 1
        return 2

    @staticmethod
    def pool_of(runner):
        {body}
        return runner.pool
"""


@pytest.mark.parametrize(
    ("call", "body", "known"),
    [
        ("self.pool_of(runner)", "pass", True),  # it is not given the object
        ("Backend.pool_of(runner)", "pass", True),
        ("self.pool_of(self)", "runner.fast = runner.odd", False),  # here it is
        ("runner.hook(runner)", "pass", True),
        ("self.missing(runner)", "pass", False),
    ],
)
def test_a_static_method_leaves_the_object_alone(call: str, body: str, known: bool) -> None:
    text = CLASS.replace("{call}", call).replace("{body}", body)
    tree = MemoryTree({"example/__init__.py": "", "example/use.py": text})
    report = audit(tree, AuditOptions(("sm_120",), project="example", profile=PROFILE, queries=()))
    (gate,) = (gate for gate in report.gates if gate.symbol == "Backend.run")
    assert (gate.truth["sm_120"], gate.truth["sm_100"]) == (
        ("true", "false") if known else ("unknown", "unknown")
    )


SLOTS = """import torch


class Slot:
    def __init__(self):
        self.held = None


class Context:
    def __init__(self):
        self.slot = Slot()


HERE = Context()


def publish(bag):
    {write}


def configured(name):
    held = HERE.slot.held
    if held is None:
        raise ValueError("not published")
    return getattr(held, name)


def run():
    if configured("ways") > 1:
        return 0
    if torch.cuda.get_device_capability()[0] == 12:
        return 1
    return 2
"""


@pytest.mark.parametrize(("write", "reached"), [("HERE.slot.held = bag", "unknown"), ("pass", "false")])
def test_what_is_only_ever_none_is_open_where_others_set_it(write: str, reached: str) -> None:
    text = SLOTS.replace("{write}", write)
    tree = MemoryTree({"example/__init__.py": "", "example/use.py": text})
    report = audit(tree, AuditOptions(("sm_120",), project="example", profile=PROFILE, queries=()))
    (gate,) = (gate for gate in report.gates if gate.symbol == "run" and "capability" in gate.predicate)
    assert gate.reached["sm_120"] == reached
