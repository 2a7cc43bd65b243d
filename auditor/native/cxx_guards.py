"""What the functions behind operators do on a target: the guards inside them."""

from __future__ import annotations

from typing import NamedTuple

from auditor.arch import Target
from auditor.native.model import Built, Step
from auditor.native.source import Files, Part
from auditor.profile import Native


class Found(NamedTuple):
    """What a target meets inside. ``host_only``: no kernel is launched on the way."""

    outcome: str = "unknown"
    reason: str = "the function is not read yet"
    proof: tuple[Step, ...] = ()
    host_only: bool = False
    unknown_if_launched: str = ""


class Guards:
    """The guards in the functions of one library."""

    def __init__(self, files: Files, part: Part, native: Native, cuda: str) -> None:
        self.part = part

    def outcome(self, functions: list[str], target: Target, loaded: Built | None) -> Found:
        """What a call of these functions does on a target."""
        return Found()
