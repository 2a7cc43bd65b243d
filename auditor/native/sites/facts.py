"""What is known of released packages of kernels whose source is not in the audited tree.

A release of the project pins a package of compiled kernels, and its wheel holds neither their build files nor
their Python. What both say was read from the commit that the package was built from, and is kept as data:
``queries/native/DISTRIBUTION-VERSION.json`` (see :func:`facts_of` for how it is made).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from auditor.arch import load_targets
from auditor.data import data_root
from auditor.errors import UserError
from auditor.native.model import Cell, Row, Step
from auditor.native.sites.wrappers import Use, Uses, Wrappers
from auditor.program.program import Program
from auditor.readback import Damaged, from_json
from auditor.trees.names import normal_name

FORMAT = 1
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+!-]*")


class Operator(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One operator: where it is registered, what its cells may be, and which one each target gets.

    ``cells`` maps a build ("13.0 x86_64": CUDA and processor) to one letter per target, an index (``a`` is
    the first) into ``outcomes``, pairs of outcome and index of its reason.
    """

    name: str
    path: str
    line: int
    outcomes: tuple[tuple[str, int], ...]
    cells: dict[str, str]
    libraries: tuple[str, ...] = ()


class NativeFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one version of a package of kernels holds.

    ``names`` maps a name that can be imported to the operators behind it, with the targets on which it calls
    them (a letter ``x`` per target, ``-`` where it refuses before) and the wrappers between.
    """

    format: int
    distribution: str
    version: str
    commit: str
    targets: tuple[str, ...]
    reasons: tuple[str, ...]
    operators: tuple[Operator, ...]
    names: dict[str, dict[str, tuple[str, tuple[str, ...]]]]

    @property
    def builds(self) -> tuple[str, ...]:
        """The builds that are known, sorted."""
        return tuple(sorted({build for operator in self.operators for build in operator.cells}))

    def rows(self, cuda: str, machine: str | None) -> tuple[Row, ...]:
        """Rows for a CUDA version; ``machine`` None: the processor that each target comes with."""
        targets = load_targets()
        source = f"taken from facts of {self.distribution} {self.version}, read at {self.commit[:9]}"
        out = []
        for operator in self.operators:
            cells = {}
            for at, target in enumerate(self.targets):
                processor = machine or targets[target].machine
                letters = operator.cells.get(f"{cuda} {processor}")
                if letters is None:
                    cells[target] = Cell("unknown", f"no facts about a build for CUDA {cuda} on {processor}")
                    continue
                outcome, reason = operator.outcomes[ord(letters[at]) - ord("a")]
                cells[target] = Cell(outcome, self.reasons[reason], (Step(source),))
            out.append(
                Row(operator.name, "op", operator.path, operator.line, cells, libraries=operator.libraries)
            )
        return tuple(out)

    def uses(self, full: int) -> dict[str, Uses]:
        """Operators behind each name, for a program with all targets in order."""
        out: dict[str, Uses] = {}
        for name, ops in self.names.items():
            for op, (letters, via) in ops.items():
                may = sum(1 << i for i, letter in enumerate(letters) if letter == "x") & full
                out.setdefault(name, {})[op] = Use(may, 0, frozenset(), tuple(via), op)
        return out


def facts_file(distribution: str, version: str) -> str:
    """The file of a version, without its folder."""
    return f"{normal_name(distribution)}-{version}.json"


def load_facts(distribution: str, version: str) -> NativeFacts | None:
    """The facts of a version, or None where there are none. UserError N020 for a damaged file."""
    if not _VERSION.fullmatch(version):
        return None
    path = data_root() / "queries" / "native" / facts_file(distribution, version)
    try:
        data = path.read_bytes()
    except OSError:
        return None
    try:
        facts = from_json(data, NativeFacts)
    except Damaged as error:
        raise UserError("N020", f"damaged facts: {error}", place=f"queries/native/{path.name}") from None
    if facts.format != FORMAT or facts.targets != tuple(load_targets()):
        raise UserError(
            "N020",
            "these facts were made for another version of this tool",
            place=f"queries/native/{path.name}",
            hints=["make them again with scripts/native_facts.py"],
        )
    return facts


def known_versions(distribution: str) -> list[str]:
    """The versions that there are facts about, by name."""
    prefix = f"{normal_name(distribution)}-"
    folder = data_root() / "queries" / "native"
    names = (p.name for p in folder.glob("*.json")) if folder.is_dir() else ()
    return sorted(n[len(prefix) : -len(".json")] for n in names if n.startswith(prefix))


# -- making them ----------------------------------------------------------------------------------------


def facts_of(
    distribution: str,
    version: str,
    commit: str,
    builds: Mapping[str, Sequence[Row]],
    names: Mapping[str, Uses],
) -> NativeFacts:
    """Facts from the rows of several builds and what the names of the package mean."""
    targets = tuple(load_targets())
    every = {row.name: row for rows in builds.values() for row in rows}
    by_name: dict[str, dict[str, Row]] = {name: {} for name in every}
    for build, rows in sorted(builds.items()):
        here = {row.name: row for row in rows}
        for name, row in every.items():
            absent = Cell("not-built", f"no part of the build for {build.partition(' ')[2]}")
            missing = msgspec.structs.replace(row, cells=dict.fromkeys(targets, absent))
            by_name[name][build] = here.get(name, missing)
    operators = []
    cells_of = (cell for rows_ in by_name.values() for row in rows_.values() for cell in row.cells.values())
    reasons = sorted({_ours(cell.reason) for cell in cells_of})
    number = {reason: at for at, reason in enumerate(reasons)}
    for name, variants in sorted(by_name.items()):
        outcomes: list[tuple[str, int]] = []
        cells: dict[str, str] = {}
        for build, row in variants.items():
            letters = ""
            for target in targets:
                cell = row.cells[target]
                pair = cell.outcome, number[_ours(cell.reason)]
                if pair not in outcomes:
                    outcomes.append(pair)
                letters += chr(ord("a") + outcomes.index(pair))
            cells[build] = letters
        first = next(iter(variants.values()))
        operators.append(Operator(name, first.path, first.line, tuple(outcomes), cells, first.libraries))
    return NativeFacts(
        FORMAT, distribution, version, commit, targets, tuple(reasons), tuple(operators), _meanings(names)
    )


def _ours(reason: str) -> str:
    """A reason without the words of a message that stands in the source."""
    return reason.partition(" fails: ")[0] + " fails" if " fails: " in reason else reason


def _meanings(names: Mapping[str, Uses]) -> dict[str, dict[str, tuple[str, tuple[str, ...]]]]:
    count = len(load_targets())
    return {
        name: {
            op: ("".join("x" if use.may >> i & 1 else "-" for i in range(count)), use.via)
            for op, use in sorted(uses.items())
        }
        for name, uses in sorted(names.items())
    }


def names_of(program: Program, wrappers: Wrappers) -> dict[str, Uses]:
    """Every name of a package through which an operator can be called: ``package.module.function``."""
    out: dict[str, Uses] = {}
    short = wrappers.names
    for name in sorted(program.names):
        module = program.module(name)
        if module is None or program.is_excluded(module.path):
            continue
        program.execute(module)
        for bound in sorted(short):
            uses = wrappers.meaning(f"{name}.{bound}")
            if uses:
                out[f"{name}.{bound}"] = uses
    return out


def dumped(facts: NativeFacts) -> bytes:
    """Facts as text: one operator and one name a line, always the same bytes."""

    def line(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False, sort_keys=False)

    def block(items: Iterable[str], opening: str, closing: str) -> str:
        return opening + "\n" + ",\n".join(f"  {item}" for item in items) + "\n " + closing

    whole = msgspec.to_builtins(facts)
    plain = ("format", "distribution", "version", "commit", "targets")
    parts = [f"{line(key)}: {line(whole[key])}" for key in plain]
    parts.append('"reasons": ' + block((line(reason) for reason in whole["reasons"]), "[", "]"))
    parts.append('"operators": ' + block((line(op) for op in whole["operators"]), "[", "]"))
    parts.append('"names": ' + block((f"{line(k)}: {line(v)}" for k, v in whole["names"].items()), "{", "}"))
    return ("{\n " + ",\n ".join(parts) + "\n}\n").encode()


__all__ = [
    "NativeFacts",
    "Operator",
    "dumped",
    "facts_file",
    "facts_of",
    "known_versions",
    "load_facts",
    "names_of",
]
