"""The Python side of a package of compiled kernels: which function calls which operator, on which targets.

The package is read as a program of its own, from the tree that builds it. Its functions are run by the
evaluator, so that a wrapper that asks the GPU first is understood like any other code.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import msgspec

from auditor.native.reach.points import Mention, Points, key_of
from auditor.profile import Profile
from auditor.program.classes import functions_of
from auditor.program.program import Program
from auditor.program.values import Function
from auditor.program.watch import Watched
from auditor.program.words import Words
from auditor.trees.base import SourceTree
from auditor.trees.watched import paths_like

#: Wrappers of wrappers are followed this far.
ROUNDS = 4
_OPS = "torch.ops."


class Use(NamedTuple):
    """An operator behind a name: targets on which it may be called, and surely is, and through what."""

    may: int
    must: int
    because: frozenset[str]
    via: tuple[str, ...]  # wrappers between, outermost first
    op: str = ""


Uses = dict[str, Use]


def operator_of(name: str, namespaces: Collection[str]) -> str:
    """``torch.ops.NS.NAME`` or ``torch.ops.NS.NAME.default`` -> ``NS::NAME``; "" for anything else."""
    if not name.startswith(_OPS):
        return ""
    parts = name[len(_OPS) :].split(".")
    if len(parts) < 2 or parts[0] not in namespaces:
        return ""
    return f"{parts[0]}::{parts[1]}"


def merged(one: Use | None, other: Use) -> Use:
    """Either way to an operator."""
    if one is None:
        return other
    return Use(one.may | other.may, one.must | other.must, one.because | other.because, one.via or other.via)


class Wrappers:
    """What the names of the package stand for: by its source (``program``), or as ``given``."""

    def __init__(
        self,
        program: Program | None,
        wanted: Collection[str],
        full: int,
        given: Mapping[str, Uses] | None = None,
    ) -> None:
        self.program = program
        self.full = full
        self.namespaces = frozenset(op.partition("::")[0] for op in wanted)
        self.wanted = frozenset(wanted)
        self.uses: dict[str, Uses] = {}  # key of a function -> operators
        self.names: dict[str, set[str]] = {}  # short name of a wrapper -> operators
        self._meanings: dict[str, Uses] = {}
        for name, uses in (given or {}).items():
            kept = {op: use for op, use in uses.items() if op in self.wanted}
            if kept:
                self._meanings[name] = kept
                self.names.setdefault(name.rpartition(".")[2], set()).update(kept)
        if program is not None:
            self._learn(program)

    def words(self) -> set[str]:
        """Names that lead to a wanted operator, the operators' own included."""
        return set(self.names) | {op.partition("::")[2] for op in self.wanted}

    def meaning(self, name: str) -> Uses:
        """The wanted operators behind a dotted name outside the audited package."""
        found = self._meanings.get(name)
        if found is None:
            found = self._meanings[name] = self._meaning(name)
        return found

    def _meaning(self, name: str) -> Uses:
        op = operator_of(name, self.namespaces)
        if op:
            return {op: Use(self.full, self.full, frozenset(), ())} if op in self.wanted else {}
        program = self.program
        if program is None:
            return {}
        parts = name.split(".")
        for cut in range(len(parts) - 1, 0, -1):
            module = program.module(".".join(parts[:cut]))
            if module is not None:
                value = program.global_value(module, parts[cut])
                return self.uses.get(key_of(value.one), {}) if value is not None else {}
        return {}

    def _learn(self, program: Program) -> None:
        points = Points(program)
        fresh = {op.partition("::")[2] for op in self.wanted}
        done: set[tuple[str, str]] = set()
        for _ in range(ROUNDS):
            if not fresh:
                return
            pattern, fresh = Words(fresh), set()
            for function in list(_functions(program, pattern)):
                key = key_of(function)
                before = dict(self.uses.get(key, {}))
                found = self._used_by(points.ran(function).mentions, program)
                found.pop("", None)
                if found and set(found) - set(before):
                    self.uses[key] = {**found, **before}
                    done.add((key, ""))
                    fresh.add(function.name)
                    if function.owner is None:
                        self.names.setdefault(function.name, set()).update(found)

    def _used_by(self, mentions: Iterable[Mention], program: Program) -> Uses:
        out: Uses = {}
        for mention in mentions:
            for key, mask in mention.keys:
                may, must = mention.may & mask, mention.must & mask
                if key.startswith("ext:"):
                    op = operator_of(key[4:], self.namespaces)
                    if op in self.wanted:
                        out[op] = merged(out.get(op), Use(may, must, mention.because, ()))
                elif key in self.uses:
                    for op, use in self.uses[key].items():
                        via = (mention.word, *use.via)
                        new = Use(may & use.may, must & use.must, mention.because | use.because, via)
                        out[op] = merged(out.get(op), new)
        return out


def _functions(program: Program, pattern: Words) -> Iterable[Function]:
    for name in sorted(program.names):
        module = program.module(name)
        if module is None or program.is_excluded(module.path):
            continue
        program.execute(module)
        yield from functions_of(module, lambda segment: pattern.search(segment.text))


def wrapper_files(tree: SourceTree, packages: Iterable[str]) -> tuple[str, dict[str, bytes]]:
    """The source root and the Python files of the package of compiled kernels; ("", {}) where it is not in
    the tree."""
    for package in packages:
        paths = paths_like(tree, rf"(?:[^/]+/)*{re.escape(package)}/(?:[^/]+/)*[^/]+\.py")
        tops = [p[: -len("/__init__.py")] for p in paths if p.endswith(f"{package}/__init__.py")]
        if not tops:
            continue
        top = min(tops, key=lambda t: (t.count("/"), t))
        inside = [path for path in paths if path.startswith(f"{top}/")]
        return top.rpartition("/")[0], dict(tree.read_many(inside))
    return "", {}


def wrapper_program(
    tree: SourceTree, profile: Profile, like: Program, assumptions: Mapping[str, str]
) -> Program | None:
    """The package of compiled kernels as a program for the same targets, or None where it is not there."""
    root, files = wrapper_files(tree, profile.native_packages)
    if not files:
        return None
    package = next(p for p in profile.native_packages if f"/{p}/" in f"/{next(iter(files))}")
    own = msgspec.structs.replace(
        profile, package=package, arguments=(), flags=(), registries=(), exclude=profile.exclude
    )
    capabilities = like.world.capabilities
    return Program(
        Watched(files),
        root,
        own,
        capabilities,
        like.world.shared,
        dict(assumptions),
        like.shared_sm,
    )


__all__ = ["Use", "Uses", "Wrappers", "merged", "operator_of", "wrapper_files", "wrapper_program"]
