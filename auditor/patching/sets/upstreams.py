"""The upstreams of a patchset: an audited one has a profile, any other says in the patchset where it lies.

A row without a profile gives a profile of nothing but names: package, distributions and folders. That is
enough to plan, write and take back; what the audit would prove of it is said to be not known.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from auditor.errors import UserError
from auditor.lazyre import lazy
from auditor.patching.sets.patchset import Patchset, Upstream
from auditor.profile import Profile, Roots, profile_names

_PACKAGE = lazy(r"[A-Za-z_]\w*")


class Facts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where an upstream that has no profile lies, so that its record can be read without the patchset."""

    package: str
    distributions: tuple[str, ...]
    url: str = ""
    root: str = ""
    places: dict[str, str] = {}


def facts_of(profile: Profile) -> Facts | None:
    """What a record keeps of an upstream without a profile; None for one that has one."""
    if profile.audited:
        return None
    root = profile.roots.repository[0]
    return Facts(profile.package, profile.distributions, profile.url, root, dict(profile.places))


def profile_from(name: str, facts: Facts) -> Profile:
    """A profile of names alone."""
    return Profile(
        name=name,
        title=name,
        package=facts.package,
        url=facts.url,
        distributions=facts.distributions,
        roots=Roots((facts.root,)),
        markers=(f"{facts.package}/__init__.py",),
        places=facts.places,
        audited=False,
    )


def row_facts(name: str, row: Upstream) -> Facts:
    """Where an upstream lies by its row; what is not said follows from its name."""
    package = row.package or re.sub(r"[^0-9A-Za-z_]", "_", name)
    return Facts(package, row.distributions or (name,), row.url, row.root, dict(row.places))


def check_row(name: str, row: Upstream) -> str:
    """What is wrong with where a row says that its upstream lies; "" if nothing is."""
    facts = row_facts(name, row)
    if not _PACKAGE.fullmatch(facts.package):
        return f"{facts.package!r} is no name of a package"
    for path in (facts.root, *facts.places, *facts.places.values()):
        if path and (path.strip("/") != path or {"", ".", ".."} & set(path.split("/")) or "\\" in path):
            return f"{path!r} is no folder below the top of the tree"
    for path in facts.places.values():
        if path != facts.package and not path.startswith(f"{facts.package}/"):
            return f"{path!r} does not lie in the package {facts.package}"
    return ""


def upstream_profile(patchset: Patchset, name: str, load: Callable[[str], Profile]) -> Profile:
    """The profile of an upstream of a patchset. ``load`` reads one that is shipped.

    ``UserError`` P021 for an upstream that the patchset does not name, or that lies nowhere.
    """
    if name not in patchset.file.upstreams:
        raise UserError(
            "P021",
            f"{patchset.name} has no upstream {name!r}; it has {', '.join(patchset.file.upstreams)}",
            place=f"{patchset.place}/patchset.yaml",
            hints=[f"patches show {patchset.typed}"],
        )
    if name in profile_names():
        return load(name)
    row = patchset.file.upstreams[name]
    wrong = check_row(name, row)
    if wrong:
        raise patchset.document.error(wrong, "upstreams", name, code="P021")
    return profile_from(name, row_facts(name, row))


def upstreams_of(patchset: Patchset, names: tuple[str, ...] = ()) -> list[str]:
    """Upstreams that have patches (or some of ``names``), in the patchset's order; the first if none has."""
    wanted = {patchset.project_of(p) for p in patchset.patches if not names or p.name in names}
    found = [name for name in patchset.file.upstreams if name in wanted]
    return found or list(patchset.file.upstreams)[:1]
