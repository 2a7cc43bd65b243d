"""What a visit leaves: names that were learned and gates that were met."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from auditor.program.values import (
    V,
)


class Learned:
    """A name of the tree whose value depends on a root."""

    __slots__ = ("name", "module", "line", "kind", "value", "short")

    def __init__(self, name: str, module: Any, short: str, line: int, kind: str, value: V) -> None:
        self.name = name
        self.module = module
        self.short = short
        self.line = line
        self.kind = kind
        self.value = value


@dataclass
class RawGate:
    """A gate as it is met: nodes and masks, to be turned into a report entry at once.

    ``body``, ``orelse`` and ``rest`` (what follows in the block) are the statements of its arms; ``canon`` is
    the condition with every name that depends on a root replaced by one mark.
    """

    module: Any
    symbol: str
    kind: str
    node: Any
    test: Any
    value: V
    may: int
    must: int
    body: Any
    orelse: Any
    rest: Any
    canon: str
