"""Several upstreams on a command line: ``--to NAME=PATH``, ``--onto NAME=REV``, ``--upstream NAME``."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from auditor.cli.command import Option
from auditor.cli.patches.target import base_tree, judge_for, profile_of, sources_for, the_target
from auditor.errors import UserError
from auditor.lazyre import lazy

if TYPE_CHECKING:
    from auditor.patching.planning.model import Ground
    from auditor.patching.sets.patchset import Patchset
    from auditor.patching.write.target import Target
    from auditor.profile import Profile
    from auditor.trees.base import SourceTree

_NAMED = lazy(r"([a-z0-9][a-z0-9._-]*)=(.+)", re.DOTALL)

_Command = Callable[..., Any]


def upstream_option(function: _Command) -> _Command:
    """``--upstream``."""
    return click.option(
        "--upstream",
        multiple=True,
        cls=Option,
        metavar="NAME",
        help="Only the patches of this upstream, where the patchset has several.",
    )(function)


def named(value: str, known: Collection[str] | None = None) -> tuple[str, str]:
    """``NAME=REST`` as (NAME, REST), anything else as ("", value). ``UserError`` U005 for an unknown NAME.

    What is there on the disk under the whole text is a path, whatever it looks like.
    """
    match = _NAMED.fullmatch(value)
    if match is None or os.path.exists(value):
        return "", value
    if known is not None and match[1] not in known:
        raise UserError(
            "U005",
            f"the patchset has no upstream {match[1]!r}; it has {', '.join(known)}",
            hints=[f"{name}={match[2]}" for name in list(known)[:1]],
        )
    return match[1], match[2]


def by_upstream(values: Sequence[str], known: Sequence[str], first: str, option: str) -> dict[str, str]:
    """Upstream -> what an option says for it; a value without a name is for ``first``."""
    found: dict[str, str] = {}
    for value in values:
        name, rest = named(value, known)
        name = name or first
        if name in found:
            raise UserError(
                "U005",
                f"{option} says two things for {name}",
                hints=[f"{option} {each}=…" for each in known if each not in found][:1]
                or [f"{option} {rest}"],
            )
        found[name] = rest
    return found


def chosen_upstreams(
    patchset: Patchset, upstream: Sequence[str], patches: Sequence[str] = ()
) -> dict[str, Profile]:
    """Name -> profile of the upstreams that are asked for: those of some patches, or that have any."""
    from auditor.patching.sets.upstreams import upstream_profile, upstreams_of

    for name in upstream:
        upstream_profile(patchset, name, profile_of)
    for name in patches:
        patchset.patch(name)
    names = [name for name in upstreams_of(patchset, tuple(patches)) if not upstream or name in upstream]
    if not names:
        raise UserError(
            "P021", f"{patchset.name} has no patch for {', '.join(upstream)}", place=patchset.place,
            hints=[f"patches show {patchset.typed}"],
        )  # fmt: skip
    return {name: upstream_profile(patchset, name, profile_of) for name in names}


def targets_of(
    patchset: Patchset,
    profiles: Mapping[str, Profile],
    to: Sequence[str],
    installed: str | None,
    *,
    partly: bool = False,
) -> list[Target]:
    """The target of each upstream. A path without a name is looked at for all of them, in their order.

    ``UserError`` P049 where one has no target, unless ``partly``; U005 where one has two; P055 for two
    upstreams in one checkout.
    """
    given = [named(value, list(patchset.file.upstreams)) for value in to]
    bare = [path for name, path in given if not name]
    ways = {name: path for name, path in given if name}
    if len(bare) > 1 or len(ways) + len(bare) != len(given):
        raise UserError(
            "U005", "--to names two targets for one upstream",
            hints=[" ".join(f"--to {name}=PATH" for name in profiles)],
        )  # fmt: skip
    if bare and installed is not None:
        raise UserError("U005", "--to and --installed name two targets", hints=[f"--to {bare[0]}"])
    for name in ways:
        if name not in profiles:
            raise UserError(
                "U005", f"there is nothing to do for {name} here", hints=[f"leave --to {name}=… out"]
            )
    found: list[Target] = []
    missing: list[tuple[str, UserError | None]] = []
    for name, profile in profiles.items():
        try:
            if name in ways:
                found.append(replace(the_target(ways[name], None, profile), named=True))
            elif installed is not None:
                found.append(the_target(None, installed, profile))
            elif bare or not ways:
                found.append(the_target(bare[0] if bare else None, None, profile))
            else:
                missing.append((name, None))
        except UserError as error:
            if name in ways or len(profiles) == 1 or error.code not in _NOT_HERE:
                raise
            missing.append((name, error))
    if not found and missing:
        raise missing[0][1] or UserError("U001", "no target is named", hints=["--to PATH"])
    if missing and not partly:
        raise _no_target(patchset, missing, found)
    _refuse_one_checkout(found)
    return [
        replace(each, named=True) if len(found) > 1 and each.installed is None else each for each in found
    ]


def recorded_targets(to: Sequence[str], installed: str | None, project: str) -> list[Target]:
    """Targets by what is recorded on them: the patchset need not be here.

    Where nothing is recorded, the place is the target of ``project``. ``UserError`` U005 where the options
    name two kinds of place.
    """
    from auditor.patching.write.recorded import nothing_recorded, recorded

    if to and installed is not None:
        raise UserError("U005", "--to and --installed name two targets", hints=[f"--to {to[0]}"])
    found: list[Target] = []
    for value in to or (None,):
        name, path = named(value) if value is not None else ("", None)
        there = recorded(path, installed, profile_of, project)
        if name:
            there = [replace(each, named=True) for each in there if each.profile.name == name]
        found += there or [nothing_recorded(path, installed, name or project, profile_of)]
    seen: dict[tuple[str, str], Target] = {}
    for target in found:
        seen.setdefault((os.path.realpath(target.root), str(target.store)), target)
    return list(seen.values())


#: A place that holds nothing of the project, or no such thing installed.
_NOT_HERE = ("T001", "T004", "T011", "P055")


def _no_target(
    patchset: Patchset, missing: Sequence[tuple[str, UserError | None]], found: Sequence[Target]
) -> UserError:
    name, why = missing[0]
    options = [each.option for each in found if each.installed is not None]
    options += [f"--to {shlex.quote(f'{e.profile.name}={e.shown}')}" for e in found if e.installed is None]
    options += [f"--to {each}=PATH" for each, _ in missing]
    names = " and ".join(each for each, _ in missing)
    said = f": {why.fact}" if why is not None else ""
    only = " ".join(f"--upstream {each.profile.name}" for each in found)
    return UserError(
        "P049",
        f"{patchset.name} has patches for {names} too, and no target is named for {name}{said}",
        place=patchset.place,
        hints=[" ".join(dict.fromkeys(options)), f"{only}        # leaves {names} as it is"],
    )


def _refuse_one_checkout(targets: Sequence[Target]) -> None:
    """``UserError`` P055 for two upstreams in one checkout: its index and its branch are one."""
    seen: dict[str, str] = {}
    for target in targets:
        if target.checkout is None:
            continue
        place = os.path.realpath(target.root)
        if place in seen:
            raise UserError(
                "P055",
                f"{seen[place]} and {target.profile.name} lie in one checkout: one of them can be written",
                place=target.shown,
                hints=[f"--upstream {seen[place]}"],
            )
        seen[place] = target.profile.name


def bases_of(
    patchset: Patchset, profiles: Mapping[str, Profile], onto: Sequence[str], clone: Mapping[str, str]
) -> dict[str, SourceTree]:
    """The tree that ``--onto`` names for each upstream; those for which it names none are left out."""
    ways = by_upstream(onto, list(patchset.file.upstreams), next(iter(profiles)), "--onto")
    for name in ways:
        if name not in profiles:
            raise UserError(
                "U005", f"{patchset.name} has no patch for {name} here", hints=[f"leave --onto {name}=… out"]
            )
    return {
        name: base_tree(ways[name], clone.get(name), profile)
        for name, profile in profiles.items()
        if name in ways
    }


def clones_of(patchset: Patchset, profiles: Mapping[str, Profile], clone: Sequence[str]) -> dict[str, str]:
    """Upstream -> the clone that ``--clone`` names for it."""
    return by_upstream(clone, list(patchset.file.upstreams), next(iter(profiles)), "--clone")


def ground(
    tree: SourceTree,
    profile: Profile,
    clone: str | None,
    made_for: Sequence[str] = (),
    version: str | None = None,
) -> Ground:
    """Where the patches of one upstream are planned."""
    from auditor.patching.planning.model import Ground

    sources = sources_for(tree, clone, profile, made_for)
    return Ground(tree, profile, sources, version, judge_for(profile))


def elsewhere(patchset: Patchset, here: Collection[str]) -> list[str]:
    """Patches of upstreams that nobody looks at now: what needs them is judged as if they were there."""
    return [patch.name for patch in patchset.patches if patchset.project_of(patch) not in here]


def left_out(patchset: Patchset, here: Collection[str], option: str) -> list[str]:
    """A line for each upstream with patches that was not looked at."""
    counted: dict[str, int] = {}
    for patch in patchset.patches:
        name = patchset.project_of(patch)
        if name not in here:
            counted[name] = counted.get(name, 0) + 1
    return [
        f"note: {count} patch{'es' if count != 1 else ''} for {name} not looked at: {option} {name}=…"
        for name, count in counted.items()
    ]
