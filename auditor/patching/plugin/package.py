"""Writes a patchset as a package that replaces functions of the project when it starts.

What goes in is taken from the plan of the patches on each release: a function is the one that the patched
tree has. A patch of which anything cannot be said in this way is left out whole, with the reasons.
"""

from __future__ import annotations

import hashlib
import json
import pkgutil
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from auditor.arch import load_targets
from auditor.errors import EXIT_CONFLICT, UserError
from auditor.patching.planning.model import Plan, Planned
from auditor.patching.planning.plan import plan
from auditor.patching.planning.sources import Sources
from auditor.patching.plugin.express import Change, Loading, change_of
from auditor.patching.sets.patchset import Patchset
from auditor.patching.symbols import module_of
from auditor.profile import Plugins, Profile
from auditor.trees.base import SourceTree
from auditor.trees.overlay import OverlayTree

_CARRIED = ("clean", "moved", "partly", "look")


@dataclass(frozen=True)
class Left:
    """A patch that is not in the package, and why."""

    patch: str
    version: str
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Variant:
    """What the package does with one release. ``nothing`` are patches that have nothing to do there."""

    version: str
    plan: Plan
    changes: Mapping[str, Change]  # path of a module -> what it gets
    new: Mapping[str, str]  # path -> module that is added
    left: tuple[Left, ...]
    nothing: tuple[tuple[str, str], ...]  # patch, status


def variant_of(
    patchset: Patchset, tree: SourceTree, profile: Profile, sources: Sources | None = None
) -> Variant:
    """What of a patchset can be a plugin for one release.

    ``UserError`` P035 with exit code 3 where a patch conflicts, P066 where the tree has no hooks or no
    version.
    """
    _hooks(tree, profile)
    version = tree.info().version
    if not version or not re.fullmatch(r"\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?", version):
        raise UserError(
            "P066",
            f"{tree.info().label} is no release: a package has to say which one it is for",
            hints=["--onto 0.5.14"],
        )
    whole = plan(patchset, tree, profile, sources=sources)
    if whole.failed:
        first = whole.failed[0]
        raise UserError(
            "P035",
            f"{first.name} does not go onto {tree.info().label}",
            place=first.patch.place,
            hints=[f"patches status {patchset.typed} --onto {version}"],
            exit_code=EXIT_CONFLICT,
        )
    nothing = tuple(
        (e.name, e.outcome.status)
        for e in whole.entries
        if e.outcome.status not in _CARRIED and not _has_no_place(e)
    )
    loading = Loading(lambda word: _with(tree, profile, word))
    reasons = _alone(whole, profile, loading)
    _with_needs(whole, reasons)
    wanted = [e.name for e in whole.entries if e.name not in reasons]
    chosen = whole
    while reasons and wanted:
        chosen = plan(patchset, tree, profile, sources=sources, only=wanted, stop=False)
        for entry in chosen.failed:
            reasons[entry.name] = ["without the patches that are left out it does not go"]
        if not chosen.failed:
            break
        wanted = [name for name in wanted if name not in reasons]
    changes: dict[str, Change] = {}
    new: dict[str, str] = {}
    if wanted:
        changes, new, _ = _changes(tree, chosen.result, chosen.files, profile)
    left = tuple(
        Left(name, version, tuple(reasons[name]))
        for name in (e.name for e in whole.entries)
        if name in reasons
    )
    if not wanted:
        chosen = replace(whole, entries=(), files={})
    return Variant(version, chosen, changes, new, left, nothing)


def _hooks(tree: SourceTree, profile: Profile) -> Plugins:
    """The hooks that the profile names, which the tree has to have. ``UserError`` P066."""
    hooks = profile.plugins
    if hooks is None:
        raise UserError("P066", f"the profile {profile.name} names no way to replace functions by a package")
    module, _, symbol = hooks.registry.rpartition(".")
    path = _path_of(tree, profile, module)
    text = tree.read(path).decode("utf-8", "replace") if path else ""
    wanted = [rf"^class {symbol}\b", rf"^ +def {hooks.register}\b", rf"^ +def {hooks.apply}\b"]
    called = re.compile(rb"\b" + f"{symbol}.{hooks.apply}".encode() + rb"\(")
    if not path or not all(re.search(each, text, re.MULTILINE) for each in wanted):
        raise UserError(
            "P066", f"{tree.info().label} has no {hooks.registry}: no package can replace anything"
        )
    if not _with(tree, profile, called):
        raise UserError("P066", f"nothing in {tree.info().label} calls {hooks.registry}.{hooks.apply}")
    return hooks


def _path_of(tree: SourceTree, profile: Profile, module: str) -> str | None:
    root = profile.root_of(tree.blobs())
    stem = (f"{root}/" if root else "") + module.replace(".", "/")
    return next((path for path in (f"{stem}.py", f"{stem}/__init__.py") if path in tree.blobs()), None)


def _with(tree: SourceTree, profile: Profile, word: re.Pattern[bytes]) -> dict[str, bytes]:
    """Modules of the package with a match, tests left out."""
    root = profile.root_of(tree.blobs())
    inside = f"{root}/{profile.package}/" if root else f"{profile.package}/"
    paths = [
        path
        for path in tree.blobs()
        if path.startswith(inside) and path.endswith(".py") and not profile.is_excluded(path)
    ]
    return {path: data for path, data in tree.read_many(paths) if word.search(data)}


def _alone(whole: Plan, profile: Profile, loading: Loading) -> dict[str, list[str]]:
    """Patch -> why it cannot be a plugin, looked at where it is applied."""
    reasons: dict[str, list[str]] = {}
    now: SourceTree = whole.tree
    files: dict[str, bytes | None] = {}
    for entry in whole.entries:
        if _has_no_place(entry):
            reasons[entry.name] = [entry.outcome.note or "an installed copy has none of its files"]
        if entry.outcome.status not in _CARRIED:
            continue
        files |= entry.outcome.files
        for path in [p for p, data in files.items() if data is None and p not in whole.tree.blobs()]:
            del files[path]
        after: SourceTree = OverlayTree(whole.tree, files)
        changes, _, bad = _changes(now, after, entry.outcome.files, profile)
        for path, change in changes.items():
            bad += [f"{path}:{line}: {fact}" if line else f"{path}: {fact}" for line, fact in change.reasons]
            for each in change.replaced:
                chain = loading.chain(each.symbol) if not each.method else []
                if chain:
                    via = " from ".join(chain[1:])
                    bad.append(f"{path}: {chain[0]} is called while modules are loaded: from {via}")
        if bad:
            reasons[entry.name] = bad
        now = after
    return reasons


def _has_no_place(entry: Planned) -> bool:
    """Whether a patch is skipped because an installed copy lacks what it changes."""
    return entry.outcome.status == "skipped" and bool(entry.outcome.hunks)


def _with_needs(whole: Plan, reasons: dict[str, list[str]]) -> None:
    """A patch that needs one that is left out is left out too."""
    for entry in whole.entries:
        for name in entry.patch.header.requires:
            if name in reasons and entry.name not in reasons:
                reasons[entry.name] = [f"it needs {name}"]


def _changes(
    before: SourceTree, after: SourceTree, files: Mapping[str, bytes | None], profile: Profile
) -> tuple[dict[str, Change], dict[str, str], list[str]]:
    """(changed modules, added modules, reasons) of what a patch does to files."""
    old, new = before.blobs(), after.blobs()
    changes: dict[str, Change] = {}
    added: dict[str, str] = {}
    bad: list[str] = []
    for path in sorted(files):
        if old.get(path) == new.get(path):
            continue
        module = module_of(path, profile)
        if path not in new:
            bad.append(f"{path}: a file goes away")
        elif not module or not path.endswith(".py") or not _in_package(path, profile, after):
            bad.append(f"{path}: no module of the package")
        elif path not in old:
            added[path] = module
        else:
            changes[path] = change_of(before.read(path), after.read(path), path)
    for path in list(added):
        folder = path.rpartition("/")[0]
        if not any(each.startswith(f"{folder}/") for each in old):
            bad.append(f"{path}: it would be in a package that is not there")
    return changes, added, bad


def _in_package(path: str, profile: Profile, tree: SourceTree) -> bool:
    root = profile.root_of(tree.blobs())
    return path.startswith(f"{root}/{profile.package}/" if root else f"{profile.package}/")


def package(patchset: Patchset, variants: Sequence[Variant], profile: Profile) -> dict[str, bytes]:
    """The files of the package: name -> content. ``UserError`` P035 where there is nothing to put in."""
    hooks = profile.plugins
    assert hooks is not None
    if not any(each.changes or each.new for each in variants):
        raise UserError("P035", f"nothing of {patchset.name} can be a plugin")
    distribution = f"{profile.name}-{patchset.name}-plugin".replace("_", "-").replace(".", "-").lower()
    module = distribution.replace("-", "_")
    switch = f"{patchset.name}_PLUGIN".upper().replace("-", "_").replace(".", "_")
    files: dict[str, bytes] = {}
    versions = {}
    for variant in sorted(variants, key=lambda each: _order(each.version)):
        versions[variant.version] = _variant(variant, files, profile)
    chosen = {e.name: e for v in variants for e in v.plan.entries if e.outcome.status in _CARRIED}
    everywhere = any(not e.patch.header.targets for e in chosen.values())
    targets = _targets([pattern for e in chosen.values() for pattern in e.patch.header.targets])
    known = load_targets()
    plan_data = {
        "name": distribution,
        "distribution": profile.distributions[0],
        "package": profile.package,
        "switch": switch,
        "capabilities": None if everywhere else [list(known[name].capability) for name in targets],
        "registry": hooks.registry,
        "register": hooks.register,
        "apply": hooks.apply,
        "kind": hooks.kind,
        "versions": versions,
    }
    files["plan.json"] = (json.dumps(plan_data, indent=1) + "\n").encode()
    runtime = pkgutil.get_data("auditor.patching.plugin", "runtime.py")
    assert runtime is not None
    files["runtime.py"] = runtime
    docs = f'"""{_one_line(patchset.file.title)}: see README.md."""\n\n'
    files["__init__.py"] = (
        docs + f"from {module}.runtime import NotInForce, assert_in_force, start\n\n"
        '__all__ = ["NotInForce", "assert_in_force", "start"]\n'
    ).encode()
    out = {f"{module}/{name}": data for name, data in files.items()}
    ordered = list(versions)
    pinned = f"=={ordered[0]}" if len(ordered) == 1 else f">={ordered[0]},<={ordered[-1]}"
    version = f"{ordered[-1]}+{hashlib.sha256(_all_bytes(out)).hexdigest()[:12]}"
    out["pyproject.toml"] = _pyproject(
        distribution, version, module, patchset, profile.distributions[0] + pinned, hooks.group
    )
    out["README.md"] = _readme(
        distribution,
        patchset,
        profile,
        variants,
        ordered,
        switch,
        "any GPU" if everywhere else ", ".join(targets),
    )
    out["SHA256SUMS"] = "".join(
        f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(out.items())
    ).encode()
    return dict(sorted(out.items()))


def _variant(variant: Variant, files: dict[str, bytes], profile: Profile) -> dict[str, object]:
    """What the runtime is told about one release; the texts go into ``files``."""
    folder = "v" + re.sub(r"\W", "_", variant.version)
    base, result = variant.plan.tree, variant.plan.result
    modules = []
    for path, change in sorted(variant.changes.items()):
        name = module_of(path, profile)
        assert name is not None
        stem = f"{folder}/{name.replace('.', '_')}"
        added = []
        for number, each in enumerate(change.added, 1):
            files[f"{stem}.added{number}.py"] = each.text.encode()
            added.append({"owner": each.owner, "file": f"{stem}.added{number}.py"})
        replaced = []
        for one in change.replaced:
            file = f"{stem}.{one.symbol.replace('.', '_')}.py"
            files[file] = one.text.encode()
            replaced.append({"symbol": one.symbol, "method": one.method, "file": file})
        before, after = base.read(path), result.read(path)
        modules.append(
            {
                "name": name,
                "base": hashlib.sha256(before).hexdigest(),
                "patched": hashlib.sha256(after).hexdigest(),
                "future": b"\nfrom __future__ import annotations" in b"\n" + after,
                "added": added,
                "replaced": replaced,
            }
        )
    new = {}
    for path, name in sorted(variant.new.items()):
        file = f"{folder}/new_{name.replace('.', '_')}.py"
        files[file] = result.read(path)
        new[name] = file
    patches = [e.name for e in variant.plan.entries if e.outcome.status in _CARRIED]
    return {"patches": patches, "modules": modules, "new": new}


def _targets(patterns: Sequence[str]) -> list[str]:
    import fnmatch

    return [name for name in load_targets() if any(fnmatch.fnmatchcase(name, each) for each in patterns)]


def _order(version: str) -> tuple[object, ...]:
    from packaging.version import Version

    return (Version(version),)


def _all_bytes(files: Mapping[str, bytes]) -> bytes:
    return b"".join(name.encode() + b"\0" + data + b"\0" for name, data in sorted(files.items()))


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("\\", "").replace('"', "'")


def _pyproject(
    distribution: str, version: str, module: str, patchset: Patchset, needs: str, group: str
) -> bytes:
    return f"""\
# Written by `patches export {patchset.name} --plugin`; do not edit.
[build-system]
requires = ["hatchling>=1.26"]
build-backend = "hatchling.build"

[project]
name = "{distribution}"
version = "{version}"
description = "{_one_line(patchset.file.title)}"
readme = "README.md"
requires-python = ">=3.10"
dependencies = ["{needs}"]

[project.entry-points."{group}"]
{re.sub(r"[^A-Za-z0-9_-]", "-", patchset.name)} = "{module}:start"

[tool.hatch.build.targets.wheel]
packages = ["{module}"]

[tool.hatch.build.targets.sdist]
include = ["/{module}", "/README.md"]
""".encode()


def _readme(
    distribution: str,
    patchset: Patchset,
    profile: Profile,
    variants: Sequence[Variant],
    ordered: Sequence[str],
    switch: str,
    targets: str,
) -> bytes:
    lines = [
        f"# {distribution}",
        "",
        f"{_one_line(patchset.file.title)}.",
        "",
        f"Replaces functions of {profile.title} {', '.join(ordered)} when it loads its plugins,",
        f"on {targets}; on any other GPU it does nothing.",
        "",
        f"`{switch}=off` switches it off. If anything is not as it was when the package was made (another",
        "release, a changed file, a hook that failed, another plugin that replaces the same function), the",
        f"process ends with a message; with `{switch}=warn` it is logged and the server starts unpatched.",
        "",
        f"The functions are those of {profile.title} with the patches below, under its licence.",
        "",
        "| release | patch | |",
        "|---|---|---|",
    ]
    for variant in sorted(variants, key=lambda each: _order(each.version)):
        for entry in variant.plan.entries:
            if entry.outcome.status in _CARRIED:
                lines.append(f"| {variant.version} | {entry.name} | {_one_line(entry.patch.header.title)} |")
        for name, status in variant.nothing:
            lines.append(f"| {variant.version} | {name} | nothing to do: {status} |")
        for left in variant.left:
            lines.append(
                f"| {variant.version} | {left.patch} | not in this package: {_one_line(left.reasons[0])} |"
            )
    return ("\n".join(lines) + "\n").encode()
