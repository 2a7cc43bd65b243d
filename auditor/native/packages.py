"""Dependencies that decide gates: how the tree pins them, and what dated facts say of the pinned version.

The facts are data (``queries/dependencies/*.yaml``), each with its source and date. A guard is called stale
only where the version that the tree pins is one for which a fact says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import msgspec
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from auditor import yamlio
from auditor.arch import load_targets
from auditor.data import data_root
from auditor.gates.model import Finding, Predicate
from auditor.gates.path.packages import Requirement, normal_name, requirements
from auditor.native.model import Package
from auditor.profile import Profile
from auditor.trees.base import SourceTree

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}\Z")


class Fact(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is true of some versions of a package.

    ``guards``: predicates, by full name, that leave ``targets`` out, or ought to, for want of what it ships.
    """

    versions: str  # ">=0.1.5"
    ships: bool  # whether the targets get what it is about
    targets: tuple[str, ...]
    fact: str
    date: str  # when that became so
    source: tuple[str, ...]
    guards: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The fact in one line, with its date and its sources."""
        names = ", ".join(self.targets)
        verb = "has for" if self.ships else "lacks for"
        return f"{self.versions} {verb} {names}: {self.fact} ({self.date}; {'; '.join(self.source)})"


class Dependency(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The facts about one package, by its name in package indexes."""

    package: str
    facts: tuple[Fact, ...]


def dependency_facts(folder: Path | None = None) -> tuple[Dependency, ...]:
    """The facts of a folder, sorted by package. UserError Q050 for a mistake in a file."""
    base = folder if folder is not None else data_root() / "queries" / "dependencies"
    out = []
    for path in sorted(base.glob("*.yaml")):
        shown = f"queries/dependencies/{path.name}"
        document = yamlio.load(path.read_bytes(), shown, code="Q050")
        dependency = document.convert(Dependency)
        _check(dependency, document)
        out.append(dependency)
    return tuple(sorted(out, key=lambda d: d.package))


def _check(dependency: Dependency, document: yamlio.Document) -> None:
    known = load_targets()
    for index, fact in enumerate(dependency.facts):
        where = ("facts", index)
        try:
            SpecifierSet(fact.versions)
        except ValueError:  # also a number of thousands of digits
            raise document.error(f"{fact.versions!r} is no version specifier", *where, "versions") from None
        if not fact.source or not all(fact.source):
            raise document.error("a fact without a source is none", *where)
        if not _DATE.match(fact.date):
            raise document.error(f"{fact.date!r} is no date like 2026-07-24", *where, "date")
        for target in fact.targets:
            if target not in known:
                raise document.error(f"no target {target!r}", *where, "targets")


def holds(fact: Fact, requirement: str) -> bool:
    """Whether a fact holds for every version that a requirement (``name[extra]==1.2; marker``) allows.

    Decided for one exact version, and for a lower bound under a fact about all newer versions.
    """
    try:
        allowed = list(SpecifierSet(_specifiers(requirement)))
        about = SpecifierSet(fact.versions)
        if len(allowed) != 1 or "*" in allowed[0].version:
            return False
        version = Version(allowed[0].version)
        if allowed[0].operator in ("==", "==="):
            return about.contains(version, prereleases=True)
        if allowed[0].operator in (">=", "~="):
            return all(s.operator == ">=" for s in about) and about.contains(version, prereleases=True)
    except ValueError:
        return False
    return False


def _specifiers(requirement: str) -> str:
    """``==1.2`` of ``name[extra]==1.2; marker``."""
    return re.sub(r"^\s*[\w.-]+\s*(\[[^\]]*\])?", "", requirement.partition(";")[0]).strip().strip("()")


def package_records(
    tree: SourceTree,
    profile: Profile,
    targets: Iterable[str] | None = None,
    facts: Iterable[Dependency] | None = None,
) -> tuple[Package, ...]:
    """The packages of the profile that the tree's metadata asks for, with the facts that hold for the pin.

    ``targets``: only facts about these (None: about any); ``facts``: None means those that are shipped.
    """
    known = by_package(facts)
    wanted = None if targets is None else set(targets)
    return tuple(_record(item, known, wanted) for item in _stated(tree, profile))


def by_package(facts: Iterable[Dependency] | None) -> dict[str, tuple[Fact, ...]]:
    """The facts by normal name; None means those that are shipped."""
    chosen = dependency_facts() if facts is None else facts
    return {normal_name(d.package): d.facts for d in chosen}


def _stated(tree: SourceTree, profile: Profile) -> list[Requirement]:
    """Requirements of the packages worth knowing, in the profile's order, those without an extra first."""
    root = profile.root_of(tree.blobs())
    if root is None or profile.start is None:
        return []
    by_name: dict[str, list[Requirement]] = {}
    for item in requirements(tree, profile, root):
        by_name.setdefault(item.name, []).append(item)
    out = []
    for package in profile.start.packages:
        found = by_name.get(normal_name(package.name), [])
        plain = [r for r in found if not r.extra] or found
        out += plain[:1]
    return out


def _record(item: Requirement, facts: dict[str, tuple[Fact, ...]], targets: set[str] | None) -> Package:
    about = [f for f in facts.get(item.name, ()) if targets is None or targets & set(f.targets)]
    told = tuple(f.text for f in about if holds(f, item.text))
    return Package(item.name, _specifiers(item.text), item.place.path, item.place.line, told)


def dependency_findings(
    tree: SourceTree,
    profile: Profile,
    predicates: Iterable[Predicate],
    targets: tuple[str, ...],
    facts: Iterable[Dependency] | None = None,
) -> list[Finding]:
    """What the pinned version of a package says about the predicates that guard its code.

    A note where a predicate leaves out targets for which that version ships the code: it never says that the
    guard can be widened, only that its reason may have gone. A warning where a predicate leaves out none of
    the targets for which that version has no code. Where it leaves out some of them only, the test that
    tells them apart is a finding already.
    """
    listed = {p.name: p for p in predicates}
    known = by_package(facts)
    out = []
    for item in _stated(tree, profile):
        for fact in known.get(item.name, ()):
            for name in fact.guards if holds(fact, item.text) else ():
                predicate = listed.get(name)
                if predicate is None:
                    continue
                about = tuple(t for t in targets if t in fact.targets)
                if fact.ships:
                    left = tuple(t for t in about if predicate.truth.get(t) == "false")
                    if left:
                        out.append(_stale(predicate, left, targets, item, fact, profile))
                elif about and "false" not in {predicate.truth.get(t) for t in fact.targets}:
                    out.append(_missing(predicate, about, targets, item, fact, profile))
    return out


def _stale(
    predicate: Predicate,
    left: tuple[str, ...],
    targets: tuple[str, ...],
    item: Requirement,
    fact: Fact,
    profile: Profile,
) -> Finding:
    pinned = item.text.partition(";")[0].strip()
    return _finding(
        predicate,
        {t: "fallback" if t in left else "same" for t in targets},
        "note",
        f"may be stale: leaves out {', '.join(left)}, but {pinned} has {fact.fact}",
        item,
        fact,
        profile,
    )


def _missing(
    predicate: Predicate,
    about: tuple[str, ...],
    targets: tuple[str, ...],
    item: Requirement,
    fact: Fact,
    profile: Profile,
) -> Finding:
    pinned = item.text.partition(";")[0].strip()
    holds_there = all(predicate.truth.get(t) == "true" for t in about)
    return _finding(
        predicate,
        {t: "unguarded" if t in about else "same" for t in targets},
        "warning",
        f"{'holds' if holds_there else 'may hold'} on {', '.join(about)}, but of {pinned}: {fact.fact}",
        item,
        fact,
        profile,
    )


def _finding(
    predicate: Predicate,
    verdict: dict[str, str],
    severity: str,
    message: str,
    item: Requirement,
    fact: Fact,
    profile: Profile,
) -> Finding:
    return Finding(
        query="",
        gate="",
        path=predicate.path,
        line=predicate.line,
        symbol=predicate.name.rpartition(".")[2],
        verdict=verdict,
        severity=severity,
        message=message,
        area=profile.area(predicate.path),
        detail=(f"pinned {item.place.path}:{item.place.line}", *(f"source: {s}" for s in fact.source)),
    )
