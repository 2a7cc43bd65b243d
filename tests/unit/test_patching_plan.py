"""Plans: patches in order on an overlay, what stops what, paths of wheels, verification of the text."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from auditor.errors import UserError
from auditor.patching.diffs.lines import file_change
from auditor.patching.diffs.write import write_diff
from auditor.patching.model import FileChange
from auditor.patching.planning.model import Plan
from auditor.patching.planning.plan import plan
from auditor.patching.proof.postconditions import changed_outcomes, failures, report_of
from auditor.patching.proof.verify import verify_plan
from auditor.patching.sets.header import Expectation
from auditor.patching.sets.patchset import Patchset, load_patchset
from auditor.profile import Profile, load_profile
from auditor.trees.folder import FolderTree

UTILS = """\
import torch


def capability():
    return torch.cuda.get_device_capability()


def is_big():
    return capability()[0] == 10


def is_small():
    return capability()[0] == 12


def helper():
    return 1
"""
PICK = """\
from sglang.srt.utils import is_big, is_small


def pick():
    if is_big():
        return "fast"
    return "slow"


def other():
    if is_small():
        return "small"
    return "none"
"""
FILES = {
    "python/sglang/version.py": b'__version__ = "1.2.3"\n',
    "python/sglang/srt/utils.py": UTILS.encode(),
    "python/sglang/srt/pick.py": PICK.encode(),
    "test/test_pick.py": b"def test():\n    pass\n",
}


@pytest.fixture(scope="module")
def profile() -> Profile:
    return load_profile("sglang")


def tree_at(folder: Path, files: Mapping[str, bytes] = FILES) -> FolderTree:
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return FolderTree(folder)


def diff(*changes: tuple[str, str, str], files: Mapping[str, bytes] = FILES) -> bytes:
    """A git diff that replaces a text in a file (or adds a file, where the old text is empty)."""
    found: list[FileChange] = []
    for path, old, new in changes:
        before = files.get(path)
        after = new.encode() if before is None else before.replace(old.encode(), new.encode())
        change = file_change(path, before, after, mode="100644")
        assert change is not None
        found.append(change)
    return write_diff(found)


def patchset(folder: Path, patches: Mapping[str, bytes], extra: str = "") -> Patchset:
    root = folder / "patchsets" / "set"
    (root / "patches").mkdir(parents=True, exist_ok=True)
    order = "".join(f"  - {name}\n" for name in patches)
    (root / "patchset.yaml").write_text(f"title: Set\nupstreams:\n  sglang: {{}}\norder:\n{order}{extra}")
    for name, raw in patches.items():
        ending = ".patch" if b"diff --git" in raw else ".yaml"
        (root / "patches" / f"{name}{ending}").write_bytes(raw)
    return load_patchset(root)


def planned(tmp_path: Path, profile: Profile, patches: Mapping[str, bytes], **options: object) -> Plan:
    tree = options.pop("tree", None) or tree_at(tmp_path / "tree")
    return plan(patchset(tmp_path, patches), tree, profile, **options)  # type: ignore[arg-type]


def statuses(found: Plan) -> dict[str, str]:
    return {entry.name: entry.outcome.status for entry in found.entries}


ONE = diff(("python/sglang/srt/pick.py", '"fast"', '"faster"'))


def test_a_later_patch_fits_only_after_the_first(tmp_path: Path, profile: Profile) -> None:
    after = {**FILES, "python/sglang/srt/pick.py": PICK.replace("fast", "faster").encode()}
    two = diff(("python/sglang/srt/pick.py", '"faster"', '"fastest"'), files=after)
    found = planned(tmp_path, profile, {"one": ONE, "two": two})
    assert statuses(found) == {"one": "clean", "two": "clean"}
    assert b'"fastest"' in (found.files["python/sglang/srt/pick.py"] or b"")
    alone = planned(tmp_path, profile, {"one": ONE, "two": two}, only=["two"])
    assert statuses(alone) == {"two": "conflict"} and not alone.files
    again = plan(patchset(tmp_path, {"one": ONE, "two": two}), found.result, profile)
    assert statuses(again)["one"] in ("conflict", "upstream")  # the second rewrote its line
    merged = tree_at(tmp_path / "merged", after)
    assert statuses(planned(tmp_path, profile, {"one": ONE, "two": two}, tree=merged)) == {
        "one": "upstream",
        "two": "clean",
    }


def test_the_second_of_three_fails(tmp_path: Path, profile: Profile) -> None:
    bad = diff(("python/sglang/srt/pick.py", '"none"', '"any"')).replace(b"small", b"tiny")
    three = diff(("python/sglang/srt/utils.py", "return 1", "return 2"))
    patches = {"one": ONE, "two": bad, "three": three}
    found = planned(tmp_path, profile, patches)
    assert statuses(found) == {"one": "clean", "two": "conflict", "three": "not-tried"}
    assert [entry.name for entry in found.failed] == ["two", "three"]
    all_facts = planned(tmp_path, profile, patches, stop=False)
    assert statuses(all_facts) == {"one": "clean", "two": "conflict", "three": "clean"}


def test_requirements_and_versions(tmp_path: Path, profile: Profile) -> None:
    head = b"Subject: two\nX-Requires: one\n---\n"
    mail = head + diff(("python/sglang/srt/utils.py", "return 1", "return 2"))
    found = planned(tmp_path, profile, {"one": ONE, "two": mail}, only=["two"])
    assert statuses(found) == {"two": "not-tried"} and "one" in found.entries[0].outcome.note
    found = planned(tmp_path, profile, {"one": ONE, "two": mail}, only=["two"], there=["one"])
    assert statuses(found) == {"two": "clean"}
    old = b"Subject: one\nX-Applies: sglang <1.0\n---\n" + ONE
    found = planned(tmp_path, profile, {"one": old}, version="1.2.3")
    assert statuses(found) == {"one": "skipped"}
    assert statuses(planned(tmp_path, profile, {"one": old}, version="0.9")) == {"one": "clean"}


def test_a_wheel_has_other_paths_and_no_tests(tmp_path: Path, profile: Profile) -> None:
    wheel = {path[len("python/") :]: data for path, data in FILES.items() if path.startswith("python/")}
    tree = tree_at(tmp_path / "wheel", wheel)
    both = diff(
        ("python/sglang/srt/pick.py", '"fast"', '"faster"'), ("test/test_pick.py", "pass", "assert True")
    )
    found = planned(tmp_path, profile, {"both": both}, tree=tree)
    assert statuses(found) == {"both": "clean"}
    assert list(found.files) == ["sglang/srt/pick.py"]
    left = [hunk for hunk in found.entries[0].outcome.hunks if hunk.status == "skipped"]
    assert [hunk.path for hunk in left] == ["test/test_pick.py"]
    only = diff(("test/test_pick.py", "pass", "assert True"))
    assert statuses(planned(tmp_path, profile, {"only": only}, tree=tree)) == {"only": "skipped"}
    # And the other way round: made on site-packages, carried to a repository.
    made = diff(("sglang/srt/pick.py", '"fast"', '"faster"'), files=wheel)
    found = planned(tmp_path, profile, {"made": made})
    assert list(found.files) == ["python/sglang/srt/pick.py"]


@pytest.mark.parametrize(
    "path",
    ["python/sglang/__pycache__/x.py", ".gitattributes", "python/sglang/.hg/x", "python/sglang/SRT/pick.py"],
)
def test_paths_no_patch_may_write(tmp_path: Path, profile: Profile, path: str) -> None:
    with pytest.raises(UserError) as caught:
        planned(tmp_path, profile, {"bad": diff((path, "", "x = 1\n"))})
    assert caught.value.code in ("P004", "P040")


def test_nothing_outside_the_package_is_written_to_site_packages(tmp_path: Path, profile: Profile) -> None:
    tree = tree_at(tmp_path / "site", {"sglang/version.py": b"x = 1\n", "sglang/a.py": b"a = 1\n"})
    found = planned(tmp_path, profile, {"evil": diff(("evil.pth", "", "import os\n"))}, tree=tree)
    assert statuses(found) == {"evil": "skipped"} and not found.files


def levels(found: Plan) -> dict[str, str]:
    return {check.level: check.status for check in verify_plan(found).checks}


def test_what_does_not_compile_is_found(tmp_path: Path, profile: Profile) -> None:
    found = planned(tmp_path, profile, {"bad": diff(("python/sglang/srt/pick.py", "is_big():", "is_big(:"))})
    checks = verify_plan(found)
    assert not checks.ok and checks.checks[0].status == "failed"
    assert checks.checks[0].facts[0].startswith("python/sglang/srt/pick.py: invalid syntax")


@pytest.mark.parametrize(
    ("old", "new", "fact"),
    [
        ("if is_big():", "if is_huge():", "is_huge is not defined"),
        ("import is_big, is_small", "import is_small", "is_big is not defined"),
        ("import is_big, is_small", "import is_big, is_small, gone", "sglang.srt.utils has no gone"),
        ("from sglang.srt.utils", "from sglang.srt.nowhere", "there is no module sglang.srt.nowhere"),
        ("if is_big():", "if is_big() and undefined_thing:", "undefined_thing is not defined"),
    ],
)
def test_names_that_do_not_resolve(tmp_path: Path, profile: Profile, old: str, new: str, fact: str) -> None:
    found = planned(tmp_path, profile, {"bad": diff(("python/sglang/srt/pick.py", old, new))})
    checks = verify_plan(found)
    names = next(check for check in checks.checks if check.level == "names")
    assert names.status == "failed" and any(fact in line for line in names.facts)


def test_names_that_resolve(tmp_path: Path, profile: Profile) -> None:
    new = '''if is_big() and (lambda q: q)(1):
        from sglang.srt import utils
        value = [len(x) for x in (1, 2) if x]
        """from sglang.srt.nowhere import thing"""
        global LATER
        LATER = value, utils.helper(), __file__'''
    found = planned(tmp_path, profile, {"good": diff(("python/sglang/srt/pick.py", "if is_big():", new))})
    assert levels(found) == {
        "compiles": "ok", "names": "ok", "symbols": "ok", "audit": "not run", "kernels": "not run",
    }  # fmt: skip


def test_a_removed_symbol_that_is_used_elsewhere(tmp_path: Path, profile: Profile) -> None:
    gone = diff(("python/sglang/srt/utils.py", "def is_small():\n    return capability()[0] == 12\n", ""))
    found = planned(tmp_path, profile, {"bad": gone})
    symbols = next(c for c in verify_plan(found).checks if c.level == "symbols")
    assert symbols.status == "failed"
    assert symbols.facts == ("python/sglang/srt/pick.py:1: still uses sglang.srt.utils.is_small",)
    fine = diff(("python/sglang/srt/utils.py", "def helper():\n    return 1\n", ""))
    assert levels(planned(tmp_path, profile, {"fine": fine}))["symbols"] == "ok"


def test_a_shim_as_target_is_told(tmp_path: Path, profile: Profile) -> None:
    files = {**FILES, "python/sglang/srt/old_pick.py": b'"""Moved."""\nfrom sglang.srt.pick import *\n'}
    tree = tree_at(tmp_path / "tree", files)
    raw = diff(("python/sglang/srt/old_pick.py", "import *\n", "import *\nLIMIT = 1\n"), files=files)
    checks = verify_plan(planned(tmp_path, profile, {"shim": raw}, tree=tree))
    assert len(checks.notes) == 1 and "sglang.srt.pick" in checks.notes[0]


def test_the_audit_decides(tmp_path: Path, profile: Profile) -> None:
    mail = (
        b"Subject: widen\nX-Targets: sm_120, sm_121\n"
        b"X-Verify: predicate is_big sm_120=true, sm_100=true, sm_90=unchanged\n---\n"
    )
    good = mail + diff(("python/sglang/srt/utils.py", "[0] == 10", "[0] in (10, 12)"))
    found = planned(tmp_path, profile, {"widen": good})
    check = next(c for c in verify_plan(found).checks if c.level == "audit")
    assert check.status == "ok" and check.proved.startswith("3 expectations hold; nothing changed on sm_80")
    too_far = mail + diff(("python/sglang/srt/utils.py", "[0] == 10", "[0] in (9, 10, 12)"))
    found = planned(tmp_path, profile, {"widen": too_far})
    check = next(c for c in verify_plan(found).checks if c.level == "audit")
    assert check.status == "failed"
    assert any("is_big on sm_90 is true, was false" in fact for fact in check.facts)
    assert any("pick changes on sm_90: false → true" in fact for fact in check.facts)


def test_a_condition_narrowed_for_one_target_is_unchanged_for_others(
    tmp_path: Path, profile: Profile
) -> None:
    files = dict(FILES)
    files["python/sglang/srt/pick.py"] = (
        PICK + '\n\ndef rows(n):\n    if n > 4:\n        return "many"\n    return "few"\n'
    ).encode()

    def audit(name: str, test: str) -> object:
        text = files["python/sglang/srt/pick.py"].decode().replace("if n > 4:", f"if {test}:")
        for path, data in (files | {"python/sglang/srt/pick.py": text.encode()}).items():
            (tmp_path / name / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / path).write_bytes(data)
        return report_of(FolderTree(tmp_path / name), profile)

    before = audit("before", "n > 4")
    others = {"sm_90": "unchanged", "sm_100": "unchanged"}
    wanted = Expectation(gate="pick.rows", expect={"sm_120": "false", **others})
    assert failures(wanted, audit("good", "n > 4 and not is_small()"), before) == ([], 3)
    bad, held = failures(wanted, audit("wrong", "n > 4 and not is_big()"), before)
    assert held == 1 and [line.split(" is ")[0] for line in bad] == [
        "gate pick.rows on sm_100",
        "gate pick.rows on sm_120",
    ]
    lie = Expectation(gate="pick.rows", expect={"sm_120": "unchanged"})
    assert len(failures(lie, audit("good", "n > 4 and not is_small()"), before)[0]) == 1


def test_expectations_that_lead_nowhere_fail(tmp_path: Path, profile: Profile) -> None:
    report = report_of(tree_at(tmp_path / "tree"), profile)
    nothing = failures(Expectation(predicate="is_none", expect={"sm_120": "true"}), report, report)
    assert nothing[0] == ["nothing is called is_none in this tree (predicate)"]
    assert failures(Expectation(predicate="is_none", expect={"sm_120": "absent"}), report, report) == ([], 1)
    held = failures(Expectation(gate="pick.pick", expect={"sm_10?": True, "default": False}), report, report)
    assert held[0] == [] and held[1] > 5
    assert changed_outcomes(report, report, ["sm_90"]) == []


def test_upstreamed_when_is_asked_before_a_conflict_is_declared(tmp_path: Path, profile: Profile) -> None:
    head = b"Subject: one\nX-Upstreamed-When: predicate is_big sm_100=true\n---\n"
    bad = head + ONE.replace(b"is_big", b"is_large")
    asked = []

    def judge(expectation: Expectation, tree: object) -> bool:
        asked.append(expectation.predicate)
        return True

    found = planned(tmp_path, profile, {"one": bad}, judge=judge)
    assert statuses(found) == {"one": "upstream"} and asked == ["is_big"]
    asked.clear()
    assert statuses(planned(tmp_path, profile, {"one": head + ONE}, judge=judge)) == {"one": "clean"}
    assert asked == []


def test_the_command_says_which_patch_failed(
    tmp_path: Path, profile: Profile, capsys: pytest.CaptureFixture[str]
) -> None:
    from auditor.cli.clickrun import run
    from auditor.cli.groups import patches

    tree = tmp_path / "tree"
    tree_at(tree)
    subprocess.run(["git", "init", "-q", str(tree)], check=True)
    subprocess.run(["git", "-C", str(tree), "add", "-A"], check=True)
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "-C", str(tree), *who, "commit", "-qm", "start"], check=True)
    bad = diff(("python/sglang/srt/pick.py", '"none"', '"any"')).replace(b"small", b"tiny")
    patchset(tmp_path, {"one": ONE, "two": bad, "three": diff(("python/sglang/srt/utils.py", "1", "2"))})
    where = [str(tmp_path / "patchsets" / "set"), "--to", str(tree)]
    assert run(patches, "patches", ["apply", *where]) == 3
    said = capsys.readouterr().out
    assert "! two" in said and "- three" in said and "nothing was written" in said
    assert (
        subprocess.run(["git", "-C", str(tree), "status", "--porcelain"], capture_output=True).stdout == b""
    )
    assert run(patches, "patches", ["status", *where]) == 3
    patchset(tmp_path, {"one": ONE})
    assert run(patches, "patches", ["apply", *where]) == 0
    assert run(patches, "patches", ["status", *where]) == 0
    assert run(patches, "patches", ["apply", *where]) == 0
    assert "already" in capsys.readouterr().out
    assert run(patches, "patches", ["doctor", "--to", str(tree)]) == 0
    (tree / "python/sglang/srt/pick.py").write_bytes(b"x = 1\n")
    assert run(patches, "patches", ["status", *where]) == 1
    assert run(patches, "patches", ["doctor", "--to", str(tree)]) == 1
    assert run(patches, "patches", ["revert", "set", "--to", str(tree)]) == 3


def test_a_record_of_files_that_were_replaced_is_not_believed(tmp_path: Path) -> None:
    from auditor.cli.clickrun import run
    from auditor.cli.groups import patches

    site = tmp_path / "site"
    wheel = {path[len("python/") :]: data for path, data in FILES.items() if path.startswith("python/")}
    tree_at(site, {**wheel, "sglang-1.0.dist-info/METADATA": b"Name: sglang\nVersion: 1.0\n"})
    two = diff(("python/sglang/srt/utils.py", "return 1", "return 2"))
    patchset(tmp_path, {"one": ONE, "two": two})
    where = [str(tmp_path / "patchsets" / "set"), "--to", str(site)]
    assert run(patches, "patches", ["apply", *where]) == 0
    (site / "sglang/srt/pick.py").write_bytes(wheel["sglang/srt/pick.py"])  # as an upgrade would
    assert run(patches, "patches", ["apply", *where]) == 1
    assert run(patches, "patches", ["status", *where]) == 1
    (site / "sglang/srt/utils.py").write_bytes(wheel["sglang/srt/utils.py"])
    assert run(patches, "patches", ["apply", *where]) == 0
    assert b"faster" in (site / "sglang/srt/pick.py").read_bytes()
    assert run(patches, "patches", ["revert", "set", "--to", str(site)]) == 0
    assert not (site / ".patches-state").exists()
