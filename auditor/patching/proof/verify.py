"""Is a patched tree sound? Levels that need no GPU; each says what it proved, and what it could not.

Nothing of the tree is imported or run: Python is parsed, names are looked up in the text. What a patch
brings in is judged, not what the base had before.
"""

from __future__ import annotations

import gc
import re
from dataclasses import dataclass
from typing import Any, Literal

from auditor.lazyre import lazy
from auditor.patching.diffs.delta import ranges_of
from auditor.patching.planning.model import Judge, Plan, Planned
from auditor.patching.sets.header import Expectation
from auditor.patching.symbols import (
    Import,
    Module,
    imports_at,
    line_of,
    lost_symbols,
    module_of,
    read_module,
    table_of,
    undefined,
    unresolved,
    users_of,
)
from auditor.profile import Profile
from auditor.readback import plain_json
from auditor.trees.base import SourceTree
from auditor.trees.cache import remembered
from auditor.trees.names import blob_id

Level = Literal["bytes", "compiles", "names", "symbols", "audit", "kernels"]
_MARKER = lazy(rb"(?m)^(?:<{7}|>{7})(?: |\r?$)")


@dataclass(frozen=True)
class Check:
    """One level. ``facts`` are single lines; ``failed`` and ``not run`` always say why."""

    level: Level
    status: Literal["ok", "failed", "not run"]
    proved: str
    facts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Checks:
    """All levels, cheapest first."""

    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()  # worth knowing, no fault

    @property
    def ok(self) -> bool:
        """Whether no level failed."""
        return all(check.status != "failed" for check in self.checks)

    def lines(self, verbose: bool = True) -> list[str]:
        """The levels as text, the failed ones with their facts."""
        out = []
        for check in self.checks:
            if check.status == "failed" or verbose:
                out.append(f"{_MARKS[check.status]} {check.level:<9} {check.proved}")
                out += [f"    {fact}" for fact in check.facts[:_SHOWN]]
                left = len(check.facts) - _SHOWN
                out += [f"    … and {left} more: --format json lists them"] if left > 0 else []
        return out + [f"note: {note}" for note in self.notes]

    def as_json(self) -> dict[str, Any]:
        """The levels as data."""
        rows = [
            {"level": c.level, "status": c.status, "proved": c.proved, "facts": list(c.facts)}
            for c in self.checks
        ]
        return {"ok": self.ok, "levels": rows, "notes": list(self.notes)}


#: Facts of one level that a page shows.
_SHOWN = 12
_MARKS = {"ok": "✓", "failed": "✗", "not run": "·"}


def verify_plan(plan: Plan, *, audit: bool = True) -> Checks:
    """Hold a plan's result against its base, level by level. ``audit`` runs both through the audit where a
    patch states what must be true afterwards."""
    static = _kept(plan)
    checks = list(static.checks[:-1])
    stated = any(entry.patch.header.verify or _registers(entry) for entry in plan.entries)
    notes = list(static.notes)
    if not plan.profile.audited:
        name = plan.profile.name
        checks.append(Check("audit", "not run", f"{name} has no profile: nothing of it is audited"))
        unchecked = [entry.name for entry in plan.entries if entry.patch.header.verify]
        if unchecked:
            notes.append(
                f"what {', '.join(unchecked)} states for {name} was NOT checked: {name} has no profile"
            )
    elif audit and checks[-1].status == "ok" and stated:
        from auditor.patching.proof.postconditions import audit_check

        checks.append(audit_check(plan))
    else:
        why = "no patch states what must be true" if not stated else "left out" if not audit else "the above"
        checks.append(Check("audit", "not run", f"postconditions per target: {why}"))
    checks.append(static.checks[-1])
    return Checks(tuple(checks), tuple(notes))


def _registers(entry: Planned) -> bool:
    """Whether a patch brings a kernel, for which something has to be true without being said."""
    edits = entry.patch.file.edits if entry.patch.file is not None else ()
    return any("register-kernel" in edit.kinds() for edit in edits)


def _kept(plan: Plan) -> Checks:
    """The levels that need the text alone, from the cache where this very result was looked at before."""
    import hashlib

    from auditor.tooldigest import tool_digest

    after = [(path, "" if data is None else blob_id(data)) for path, data in sorted(plan.files.items())]
    words = [tool_digest(), plan.tree.info().content_id, repr(after)]
    words += [f"{entry.sha256} {entry.resolved.after if entry.resolved else ''}" for entry in plan.entries]
    key = hashlib.sha256("\n".join(words).encode()).hexdigest()
    return remembered("patch-checks", key, Checks, lambda: _static(plan))


def _static(plan: Plan) -> Checks:
    was = gc.isenabled()
    gc.disable()  # tables of scopes are many small objects without cycles
    try:
        return _static_checks(plan)
    finally:
        if was:
            gc.enable()


def _static_checks(plan: Plan) -> Checks:
    base = plan.tree.blobs()
    files = plan.files
    before = {path: plan.tree.read(path) for path in files if path in base}
    checks = [_compiles(files, before)]
    if checks[0].status == "ok":
        touched = _touched(files, before)
        checks.append(_names(plan, touched))
        checks.append(_symbols(plan, touched))
    checks.append(_kernels(files))
    return Checks(tuple(checks), tuple(_shims(plan, before)))


def _compiles(files: dict[str, bytes | None], before: dict[str, bytes]) -> Check:
    bad: list[str] = []
    counted = 0
    for path, data in files.items():
        if data is None:
            continue
        old = before.get(path)
        if _MARKER.search(data) and (old is None or not _MARKER.search(old)):
            bad.append(f"{path}: holds markers of a merge that is not resolved")
            continue
        fault = _fault(path, data)
        counted += 1
        if fault and (old is None or not _fault(path, old)):
            bad.append(f"{path}: {fault}")
    if bad:
        return Check("compiles", "failed", f"{len(bad)} of {_files(counted)} do not parse", tuple(bad))
    return Check("compiles", "ok", f"{_files(counted)} parse{'s' if counted == 1 else ''}")


def _files(count: int) -> str:
    return f"{count} file{'s' if count != 1 else ''}"


def _fault(path: str, data: bytes) -> str:
    """Why a file of a known kind does not parse; "" if it does, or nobody can tell."""
    try:
        if path.endswith((".py", ".pyi")):
            table_of(data)  # as the compiler reads it, without making code of it: nothing of it can run
        elif path.endswith(".json"):
            plain_json(data)
        elif path.endswith(".toml"):
            import sys

            if sys.version_info >= (3, 11):  # before, nothing that comes with Python reads it
                import tomllib

                tomllib.loads(data.decode())
    except SyntaxError as error:
        return f"{error.msg} (line {error.lineno})"
    except RecursionError:
        return "it is nested too deeply"
    except (ValueError, MemoryError) as error:
        return str(error).split("\n")[0]
    return ""


def _read(data: bytes, path: str, plan: Plan) -> Module | None:
    return read_module(data, module_of(path, plan.profile), package=path.endswith("/__init__.py"))


@dataclass(frozen=True)
class _Touched:
    """A Python file that a plan changes; ``lines`` are those (from 1) that are new in it."""

    path: str
    old: bytes | None
    new: bytes | None
    lines: frozenset[int]
    gone: bytes  # the text that was taken out
    come: bytes  # and what took its place

    def words(self) -> set[str]:
        """Every word of the changed text: no other name can have come to be undefined."""
        return {word.decode() for word in re.findall(rb"[A-Za-z_]\w*", self.gone + b" " + self.come)}


def _touched(files: dict[str, bytes | None], before: dict[str, bytes]) -> list[_Touched]:
    found = []
    for path, new in files.items():
        if path.endswith(".py"):
            a, b, ranges = ranges_of(before.get(path, b""), new or b"")
            lines: set[int] = set()
            gone: list[bytes] = []
            come: list[bytes] = []
            for i1, i2, j1, j2 in ranges:
                lines.update(range(j1 + 1, j2 + 1))
                gone += a[i1:i2]
                come += b[j1:j2]
            found.append(
                _Touched(path, before.get(path), new, frozenset(lines), b"".join(gone), b"".join(come))
            )
    return found


def _names(plan: Plan, files: list[_Touched]) -> Check:
    bad: list[str] = []
    unsure: list[str] = []
    for file in files:
        if file.new is None:
            continue
        if b"import *" in file.new:
            unsure.append(file.path)
        else:
            missing = undefined(table_of(file.new), file.words())
            if missing and file.old is not None and not _fault(file.path, file.old):
                missing -= undefined(table_of(file.old), missing)
            bad += [f"{file.path}:{line_of(file.new, n)}: {n} is not defined" for n in sorted(missing)]
        bad += [f"{file.path}:{item.line}: {why}" for item, why in _dangling(plan, file)]
    if bad:
        return Check("names", "failed", "names that the patches bring in do not resolve", tuple(bad))
    said = (
        f"every name that {_files(len(files))} of Python bring{'s' if len(files) == 1 else ''} in is defined"
    )
    left = f"; star imports in {len(unsure)}: their names not checked" if unsure else ""
    return Check("names", "ok", said + left, tuple(unsure))


def _dangling(plan: Plan, file: _Touched) -> list[tuple[Import, str]]:
    """Imports on new lines that lead nowhere."""
    assert file.new is not None
    package = file.path.endswith("/__init__.py")
    fresh = imports_at(file.new, module_of(file.path, plan.profile), package, file.lines)
    found = list(unresolved(fresh, plan.result, plan.profile))
    if found:  # what looks like an import may stand in a string
        module = _read(file.new, file.path, plan)
        real = {(item.module, item.name) for item in (module.imports if module else ())}
        found = [pair for pair in found if (pair[0].module, pair[0].name) in real]
    return found


_DEFINES = lazy(rb"(?m)^\s*(?:async\s+)?(?:def|class)\s+(\w+)|^ {0,4}(\w+)\s*(?::[^=\n]+)?=[^=]")


def _may_lose(file: _Touched) -> bool:
    """Whether text that was taken out defined a name that no text of the file seems to define any more."""
    assert file.new is not None
    names = {first or second for first, second in _DEFINES.findall(file.gone)}
    return bool(names) and not names <= {one or other for one, other in _DEFINES.findall(file.new)}


def _symbols(plan: Plan, files: list[_Touched]) -> Check:
    removed = _removed_words(plan)
    bad: list[str] = []
    gone: dict[str, set[str]] = {}
    for file in files:
        if file.old is None or (file.new is not None and not _may_lose(file)):
            continue
        old = _read(file.old, file.path, plan)
        new = _read(file.new, file.path, plan) if file.new is not None else None
        if old is None:
            continue
        lost = lost_symbols(old, new)
        for name in sorted(lost):
            if name.rpartition(".")[2] not in removed:
                bad.append(f"{file.path}: {name} is gone, and no patch removes it")
        tops = {name for name in lost if "." not in name}
        if (tops or new is None) and old.name:
            gone[old.name] = tops if new is not None else {"", *tops}
    if gone:
        skip = {file.path for file in files if file.new is None}
        bad += [
            f"{place}: still uses {what}" for place, what in users_of(gone, plan.result, plan.profile, skip)
        ]
    if bad:
        return Check("symbols", "failed", "symbols are lost", tuple(bad))
    count = sum(len(names - {""}) for names in gone.values())
    said = f"no symbol lost ({count} removed by a patch, used nowhere)" if count else "no symbol lost"
    return Check("symbols", "ok", said)


def _removed_words(plan: Plan) -> set[str]:
    """Every word in lines that the patches take out, or in what structural patches say."""
    words: set[str] = set()
    for entry in plan.entries:
        for change in entry.changes.changes if entry.changes is not None else ():
            for hunk in change.hunks:
                for mark, text in hunk.lines:
                    if mark == "-":
                        words.update(re.findall(r"\w+", text.decode("utf-8", "replace")))
        if entry.patch.form == "structural":
            words.update(re.findall(r"\w+", entry.patch.raw.decode("utf-8", "replace")))
    return words


def _kernels(files: dict[str, bytes | None]) -> Check:
    native = [path for path in files if path.endswith((".cu", ".cuh", ".cpp", ".h", "CMakeLists.txt"))]
    triton = [path for path, data in files.items() if path.endswith(".py") and data and b"triton.jit" in data]
    if not native and not triton:
        return Check("kernels", "not run", "no kernel is touched")
    said = [f"{_files(len(triton))} with Triton kernels"] * bool(triton) + [
        f"{len(native)} of native code"
    ] * bool(native)
    how = "`--kernels` compiles those that are declared" if triton else "not compiled"
    return Check("kernels", "not run", f"{' and '.join(said)}: {how}; no numerics")


def _shims(plan: Plan, before: dict[str, bytes]) -> list[str]:
    """Touched files that only pass names on: what is set there has no effect on the real module's users."""
    notes = []
    for path, data in before.items():
        if not path.endswith(".py") or plan.files.get(path) is None:
            continue
        if b"def " in data or b"class " in data:
            continue
        module = _read(data, path, plan)
        if module is not None and module.passes_on:
            notes.append(
                f"{path} only passes on names of {module.passes_on[0]}: what is set in it has no effect there"
            )
    return notes


def judge(profile: Profile) -> Judge:
    """Who is asked whether a patch's ``upstreamed-when`` holds on a tree."""

    def ask(expectation: Expectation, tree: SourceTree) -> bool | None:
        if not profile.audited:
            return None  # nothing can be asked of the audit
        from auditor.patching.proof.postconditions import (
            holds,  # an audit costs seconds, most plans need none
        )

        return holds(expectation, tree, profile)

    return ask
