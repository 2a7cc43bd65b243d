"""What running the build files gives: libraries and what they are compiled with, as the files say it."""

from __future__ import annotations

from dataclasses import dataclass, field

from auditor.gates.model import Problem, Tri
from auditor.native.cmake.values import Item, Value

#: Items that one variable holds at most.
MAX_ITEMS = 20_000
#: Characters of one value; longer ones are not known.
MAX_TEXT = 200_000
#: How the top of the tree is called in values: no relative path starts with it.
TOP = "/\x00"


@dataclass
class Target:
    """A library as the build files describe it."""

    name: str
    path: str
    line: int
    folder: str
    when: Tri = "true"
    because: tuple[str, ...] = ()
    sources: list[Item] = field(default_factory=list)
    options: list[Item] = field(default_factory=list)
    definitions: list[Item] = field(default_factory=list)
    properties: dict[str, Value] = field(default_factory=dict)
    destination: str = ""


@dataclass
class Build:
    """What running the build files gave."""

    targets: dict[str, Target] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)  # read, in order
    outside: dict[str, tuple[str, int]] = field(default_factory=dict)  # trees fetched at build time
    packages: list[str] = field(default_factory=list)  # find_package
    flags: Value = ()  # CMAKE_CUDA_FLAGS at the end
    architectures: Value | None = None  # CMAKE_CUDA_ARCHITECTURES at the end
    options: list[Item] = field(default_factory=list)  # add_compile_options and the like
    definitions: list[Item] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


class Return(Exception):
    """``return()``: the rest of the file or function is left out."""


class Fatal(Exception):
    """The configuration stops."""
