"""What the native side says: libraries, operators, call sites, and per target whether the code is there.

Every statement carries its proof as places in the audited tree (or in a wheel), so that a person can
follow the chain from a Python call to the architecture list that leaves a GPU out.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from auditor.gates.model import Problem, TreeFacts, Tri

#: What a target gets from an operator, best first.
#:   runs           compiled code for it is there and no guard on the way refuses it
#:   falls-through  a chain of architecture tests has no branch for it and returns without doing the work
#:   raises         a guard on the way refuses it with a clear error
#:   not-built      no compiled code for it: "no kernel image is available for execution on the device"
#:   unknown        with a reason
Outcome = Literal["runs", "falls-through", "raises", "not-built", "unknown"]
OUTCOMES: tuple[str, ...] = ("runs", "falls-through", "raises", "not-built", "unknown")


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """One link of a proof: ``text`` is what is said there, in our words ("built for 90a 100a 103a")."""

    text: str
    path: str = ""  # in the tree; for a wheel the path inside it
    line: int = 0


class Built(msgspec.Struct, frozen=True, omit_defaults=True):
    """One piece of code a library is compiled to. ``arch`` as NVIDIA writes it: ``90a``, ``120``."""

    what: str  # cubin | ptx
    arch: str  # "" where a flag does not say which
    when: Tri = "true"  # whether it is compiled under the assumptions
    because: tuple[str, ...] = ()  # for unknown: what it hangs on; else the conditions it came through
    line: int = 0  # of the flag
    path: str = ""  # of the file with the flag
    machines: tuple[str, ...] = ()  # those it is compiled on; () where the machine does not matter


class Library(msgspec.Struct, frozen=True, omit_defaults=True):
    """A shared object: from a build file, or found in a wheel or an installed copy."""

    name: str  # build target ("some_ops") or file stem
    output: str  # the module's path as installed, without suffix: "package/folder/common_ops"
    path: str  # of the build file, or of the object inside the wheel
    line: int = 0
    sources: tuple[str, ...] = ()  # as written; what lies outside the tree keeps its ${...} prefix
    built: tuple[Built, ...] = ()
    when: Tri = "true"  # whether the library is built at all
    because: tuple[str, ...] = ()
    machine: str = ""  # of the host, where an object was read: "x86_64", "aarch64"


class Cell(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one target gets."""

    outcome: str  # Outcome
    reason: str = ""  # one line: "some_ops: 90a 100a 103a"
    proof: tuple[Step, ...] = ()


class Row(msgspec.Struct, frozen=True, omit_defaults=True):
    """One operator (or just-in-time kernel, registered kernel, Triton kernel) and what each target gets."""

    name: str  # "namespace::op", "jit::name", "kernels::op[backend]"
    kind: str  # op | jit | registry | triton
    path: str  # where it is registered or declared
    line: int
    cells: dict[str, Cell]  # target -> cell
    schema: str = ""
    keys: tuple[str, ...] = ()  # dispatch keys: CUDA, CPU, CatchAll, ...
    function: str = ""  # C++ or Python function
    libraries: tuple[str, ...] = ()
    wrappers: tuple[str, ...] = ()  # qualified Python names that call it
    area: str = ""


class Site(msgspec.Struct, frozen=True, omit_defaults=True):
    """A place in the audited Python that reaches an operator, directly or through a wrapper."""

    op: str  # Row.name
    path: str
    line: int
    symbol: str
    call: str  # the name as called: "flash_mla_sparse_fwd"
    reached: dict[str, Tri] = {}  # whether the target gets there, guards of the callers included
    because: tuple[str, ...] = ()
    unguarded: tuple[str, ...] = ()  # targets that can get there although the operator is not there for them
    area: str = ""


class Package(msgspec.Struct, frozen=True, omit_defaults=True):
    """A dependency that decides gates, as the tree pins it, and what dated facts say about that version."""

    name: str
    pinned: str  # "==0.4.3", "" where any version is allowed
    path: str = ""
    line: int = 0
    facts: tuple[str, ...] = ()  # facts that hold at the pinned version, with their source


class Availability(msgspec.Struct, frozen=True):
    """The map: operator x target."""

    schema_version: str
    tool: str
    project: str
    tree: TreeFacts | None
    targets: tuple[str, ...]
    assumptions: dict[str, str]
    libraries: tuple[Library, ...]
    rows: tuple[Row, ...]
    sites: tuple[Site, ...]
    packages: tuple[Package, ...]
    problems: tuple[Problem, ...]
    stats: dict[str, int]
    unread: tuple[Problem, ...] = ()  # what is there and was left out, with the reason
