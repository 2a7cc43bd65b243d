"""The pages of `audit diff` and `audit guard`: what is in them, and what a person does with them."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
import msgspec
import pytest
from browser import HOSTILE, facts, policy, toured
from sample_report import sample

from auditor.cli import groups
from auditor.gates.model import TreeFacts
from auditor.history.guard import tripping
from auditor.history.model import Change, Commit, Diff, PatchState
from auditor.reporting import whattodo
from auditor.reporting.html.diff import Judged, page

URL = "https://github.com/o/toy"
OLD = TreeFacts("commit", "735a256", "c1", "7" * 40, None, "2026-06-17", None, False)
NEW = TreeFacts("commit", "c7397de", "c2", "c" * 40, None, "2026-06-19", None, False)
BY = Commit("c7397de57" + "0" * 31, "2026-06-18", "Take it (#28231)", "28231")
OTHER = Commit("d" * 40, "2026-06-19", "Tidy", "")
ARGS = "python/toy/args.py"
CHANGES = (
    Change(
        "outcome",
        "sm == 120",
        "python/toy/layers/gemm/config.py",
        22,
        symbol="_enable",
        gate="d4e5f6",
        old_gate="99d4e5",
        old_path="python/toy/gemm.py",
        old_line=20,
        old_what="sm >= 120",
        before={"sm_120": "no", "sm_121": "no"},
        after={"sm_120": "yes", "sm_121": "unknown"},
        did={"sm_120": "call slow"},
        does={"sm_120": "call quick"},
        commits=(BY,),
        area="gemm",
    ),
    Change(
        "outcome",
        "is_big()",
        "python/toy/layers/quant/config.py",
        9,
        gate="0a0a0a",
        before={"sm_120": "no"},
        after={"sm_120": "yes"},
        follows="d4e5f6",
        area="quantization",
        commits=(BY, OTHER),
    ),
    Change(
        "kernel",
        "ns::gone",
        "csrc/a.cc",
        3,
        before={"sm_120": "runs"},
        after={"sm_120": "not-built"},
        row="op",
    ),
    Change(
        "kernel", "ns::come", "csrc/a.cc", 4, before={"sm_121": "absent"}, after={"sm_121": "runs"}, row="op"
    ),
    Change("added", "is_big() and flag", "python/toy/utils/__init__.py", 7, symbol="pick", gate="0b0b0b"),
    Change("removed", "was_big()", ARGS, 8, symbol="old", gate="ffffff", before={"sm_120": "no"}),
    Change(
        "removed",
        "is_mine()",
        ARGS,
        9,
        symbol="mine",
        gate="eeeeee",
        before={"sm_120": "yes"},
        own=("sm_120",),
    ),
    Change("moved", "has_gpu()", "python/toy/utils/__init__.py", 70, symbol="pick_two", gate="0c0c0c"),
)
PATCHES = (
    PatchState("set", "one", "clean", before="clean"),
    PatchState(
        "set", "two", "conflict", before="clean", note="1 of 2 hunks", detail=("@@ 3", "@@ 9"), trips=True
    ),
    PatchState("set", "names", "failed", kind="check", detail=("x is not defined",), trips=True),
)


def diff(changes: tuple[Change, ...] = CHANGES, patches: tuple[PatchState, ...] = ()) -> Diff:
    return Diff(
        "1.1", "t", "toy", OLD, NEW, ("sm_120", "sm_121"), "sm_100", {}, changes, {"same": 3}, (), patches
    )


def guarded(found: Diff, **more: str) -> bytes:
    return page(
        found, ("toy",), sample(), judged=Judged(tripping(found), "quiet: all holds"), url=URL, **more
    )


def test_every_change_is_a_row_and_the_same_change_the_same_bytes() -> None:
    data = page(diff(), ("toy",), sample(), url=URL)
    found = facts(data)
    assert [(row["y"], row["l"]) for row in found["rows"]] == [(c.kind, c.line) for c in CHANGES]
    assert [kind for kind, _ in found["kinds"]] == ["outcome", "kernel", "added", "removed", "moved"]
    assert found["guard"] is None and not any("x" in row for row in found["rows"])
    assert data == page(diff(), ("toy",), sample(), url=URL)
    assert "unsafe" not in policy(data) and policy(data).startswith("default-src 'none'")


def test_the_guard_marks_what_tripped_and_keeps_the_rest() -> None:
    found = facts(guarded(diff(patches=PATCHES)))
    tripped = [found["texts"][row["b"]] for row in found["rows"] if row.get("x")]
    assert tripped == ["ns::gone", "is_mine()", "sm == 120", "is_big()", "1 of 2 hunks", ""]
    assert len(found["rows"]) == len(CHANGES) + len(PATCHES)
    assert found["guard"]["tripped"] == 4 and found["guard"]["patches"] == 2
    why = [found["texts"][row["w"]] for row in found["rows"] if "w" in row]
    assert why[2].startswith(
        "decided before, and the target goes another way now: sm_120; decided before, and"
    )
    assert why[:2] == [
        "the target ran it before, and cannot now: sm_120",
        "the target had an arm of its own here, and it is gone: sm_120",
    ]
    assert found["guard"]["steps"] and [name for name, _ in found["groups"]] == [
        "lost", "another way", "patches"
    ]  # fmt: skip


def steps(found: list[whattodo.Step]) -> list[str]:
    return [line for step in found for line in step.commands]


def test_what_to_do_now_is_typed_as_it_stands() -> None:
    told = diff(patches=PATCHES)
    at = whattodo.trees(told, " --repo ../toy")
    both = " --target sm_120,sm_121"
    assert steps(whattodo.of_change(CHANGES[0], told, at)) == [
        f"audit gate d4e5f6 --commit c7397de --repo ../toy{both}",
        f"audit gate 99d4e5 --commit 735a256 --repo ../toy{both}",
    ]
    assert steps(whattodo.of_change(CHANGES[1], told, at))[-1] == (
        f"audit history 0a0a0a 735a256..c7397de --repo ../toy{both}"
    )
    assert steps(whattodo.of_change(CHANGES[2], told, at)) == [
        f"audit kernels toy --op ns::gone --commit c7397de --repo ../toy{both}"
    ]
    assert steps(whattodo.of_patch(PATCHES[1], told, at)) == [
        "patches explain set two --onto c7397de --clone ../toy",
        "patches rebase set --onto c7397de --clone ../toy --dry-run",
    ]
    assert steps(whattodo.of_patch(PATCHES[2], told, at)) == [
        "patches verify set --onto c7397de --clone ../toy"
    ]


def test_releases_are_named_as_releases_and_say_how_commits_are_found() -> None:
    a, b = (
        msgspec.structs.replace(t, kind="wheel", label=v, version=v, commit=None)
        for t, v in ((OLD, "0.5.18"), (NEW, "0.5.20"))
    )
    changes = tuple(msgspec.structs.replace(c, commits=()) for c in CHANGES)
    told = msgspec.structs.replace(diff(changes), old=a, new=b)
    lines = steps(whattodo.of_guard(told, whattodo.trees(told, ""), 3, 0))
    assert lines == [
        "audit guard v0.5.18 v0.5.20 --repo ../toy --target sm_120,sm_121",
        "audit baseline write known.json --release 0.5.20 --target sm_120,sm_121",
    ]
    assert "audit history" not in " ".join(
        steps(whattodo.of_change(changes[0], told, whattodo.trees(told, "")))
    )


def test_every_command_is_one_that_the_tool_takes() -> None:
    # a commit that is called like an option, and names that a shell would take for more
    told = msgspec.structs.replace(diff(patches=PATCHES), project="sglang")
    at = whattodo.trees(told, " --repo ../toy")
    lost = msgspec.structs.replace(CHANGES[2], after={"sm_120": "absent"})
    found = [line for change in (*CHANGES, lost) for line in steps(whattodo.of_change(change, told, at))]
    found += [line for state in PATCHES for line in steps(whattodo.of_patch(state, told, at))]
    found += steps(whattodo.of_guard(told, at, 1, 1)) + steps(whattodo.of_guard(told, at, 0, 0))
    assert "audit kernels sglang --op ns::gone --commit 735a256 --repo ../toy --target sm_120,sm_121" in found
    verbs = set()
    for line in found:
        program, *words = shlex.split(line)
        command: click.Command = {"audit": groups.audit, "patches": groups.patches}[program]
        while isinstance(command, click.Group):
            verb = words.pop(0)
            verbs.add(f"{program} {verb}")
            known = command.get_command(click.Context(command), verb)
            assert known is not None, line
            command = known
        command.make_context(program, words)
    assert len(verbs) >= 6, verbs


def test_a_gate_is_never_said_to_be_widened() -> None:
    told = diff(patches=PATCHES)
    at = whattodo.trees(told, "")
    words = [s.words for c in CHANGES for s in whattodo.of_change(c, told, at)]
    words += [s.words for s in whattodo.of_guard(told, at, 3, 2)]
    assert not [w for w in words if "widen" in w or "relax" in w]


TOUR = """
told.verdict = (document.querySelector(".verdict h2") || {}).textContent;
told.pulls = [...document.querySelectorAll(".verdict ul.past li")].map(li => li.innerText);
told.chips = [...document.querySelectorAll(".chip")].map(c => c.textContent);
told.first = rows().map(r => r.querySelector("button.open").textContent);
chip("lost"); told.lost = number();
chip("what tripped"); set("f", "all"); told.followers = number(); set("f", "");
chip("everything"); told.all = number();
chip("kernel"); told.kernels = rows().map(r => r.querySelector(".ways").innerText.trim());
set("t", "sm_121"); told.on121 = number(); set("t", "");
chip("everything"); set("q", "#28231"); told.pull = rows().map(r => r.id); set("q", "");
told.places = [...document.querySelectorAll("#g-d4e5f6 .place code")].map(c => c.textContent);
document.querySelector("#g-d4e5f6 button.open").click();
told.detail = detail().innerText;
told.links = [...detail().querySelectorAll("a")].map(a => a.href);
told.hash = location.hash;
document.querySelector("#g-d4e5f6 button.open").focus(); press("ArrowDown");
told.moved = document.activeElement.closest("tr").id;
press("/", document); told.slash = document.activeElement.name;
location.hash = "#g=99d4e5"; await wait();
told.old = document.activeElement.closest("tr").id;
document.querySelector('th[data-sort="place"] button').click(); set("q", ""); chip("everything");
told.sorted = rows()[0].querySelector(".place code").textContent;
"""


@pytest.mark.parametrize("width", [1200, 500])
def test_a_person_looks_into_a_guard(tmp_path: Path, width: int) -> None:
    told = toured(guarded(diff(patches=PATCHES), repo=" --repo ../toy"), tmp_path, TOUR, width)
    assert told["verdict"] == "tripped: 4 changes, 2 patches or checks"
    assert told["pulls"] == ["c7397de57 #28231 2026-06-18 Take it — 1 change"]
    assert told["chips"][:5] == [
        "✗ what tripped 5", "✗ lost 2", "✗ another way 1", "✗ patches 2", "what changed in meaning 8"
    ]  # fmt: skip
    assert told["first"] == ["ns::gone", "mine", "_enable", "set: two", "set: names"] and told["lost"] == 2
    assert told["followers"] == 6 and told["all"] == 10
    assert told["kernels"] == ["120 runs → not-built", "121 absent → runs"] and told["on121"] == 1
    assert told["pull"] == ["g-d4e5f6"]
    assert told["places"] == ["…/gemm/config.py:22", "…/toy/gemm.py:20"]
    for words in (
        "why it tripped",
        "what to do now",
        "1 gate follows from it",
        "sm >= 120",
        "no → yes",
        "before: call slow",
    ):
        assert words in told["detail"], words
    assert f"{URL}/pull/28231" in told["links"] and f"{URL}/commit/{BY.id}" in told["links"]
    assert f"{URL}/blob/{'c' * 40}/python/toy/layers/gemm/config.py#L22" in told["links"]
    assert f"{URL}/blob/{'7' * 40}/python/toy/gemm.py#L20" in told["links"]
    assert told["hash"] == "#c=*&g=d4e5f6" or told["hash"] == "#c=%2A&g=d4e5f6"
    assert told["moved"] == "g-p-set-two" and told["slash"] == "q"
    assert told["old"] == "g-d4e5f6"  # the id that a gate had before leads to it too
    assert told["sorted"] == "" and told["wide"] is True


def test_a_diff_has_no_verdict_and_shows_what_changed_in_meaning(tmp_path: Path) -> None:
    told = toured(page(diff(), ("toy",), sample(), url=URL), tmp_path, TOUR.split("chip(")[0])
    assert "verdict" not in told or told["verdict"] is None
    assert told["chips"] == [
        "what changed in meaning 6", "outcome 1", "kernel 2", "added 1", "removed 2", "moved 1", "everything"
    ]  # fmt: skip
    assert told["first"] == ["_enable", "ns::gone", "ns::come", "pick", "old", "mine"]


def test_a_gate_that_is_gone_says_what_its_arms_did(tmp_path: Path) -> None:
    gone = Change("removed", "query", "a.py", 140, symbol="f", gate="a1b2c3", before={"sm_120": "yes"})
    data = page(diff((gone,)), (), sample(), old=sample())
    told = toured(
        data, tmp_path, 'rows()[0].querySelector("button.open").click(); told.d = detail().innerText;'
    )
    assert "what its arms did" in told["d"] and "if yes (lines 141–143)" in told["d"]
    assert "per target" in told["d"] and "where the value comes from" not in told["d"]


def test_a_quiet_guard_says_so(tmp_path: Path) -> None:
    tour = "told.verdict = document.querySelector('.verdict').innerText; told.first = number();"
    told = toured(guarded(diff(CHANGES[3:6])), tmp_path, tour)
    assert (
        told["verdict"].startswith("quiet: all holds")
        and "audit baseline write known.json" in told["verdict"]
    )
    assert told["first"] == 3
    nothing = toured(guarded(diff(())), tmp_path, "told.none = document.querySelector('.none').hidden;")
    assert nothing["none"] is False


def test_hostile_text_is_text(tmp_path: Path) -> None:
    commit = Commit(HOSTILE, HOSTILE, HOSTILE, HOSTILE)
    change = Change(
        "outcome", HOSTILE, HOSTILE, 1, HOSTILE, "d4e5f6", HOSTILE, HOSTILE, 2, HOSTILE + "2",
        {HOSTILE: HOSTILE}, {HOSTILE: HOSTILE}, HOSTILE, HOSTILE, (commit,), HOSTILE, HOSTILE,
    )  # fmt: skip
    patch = PatchState(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, (HOSTILE,), HOSTILE, 1, True)
    tree = msgspec.structs.replace(NEW, label=HOSTILE)
    told = msgspec.structs.replace(diff((change,), (patch,)), new=tree, targets=(HOSTILE,))
    data = page(told, (HOSTILE,), sample(), judged=Judged((change,), HOSTILE), url=URL, repo=f" {HOSTILE}")
    text = data.decode()
    assert text.count("</script>") == 2 and "<img" not in text and "\x1b" not in text
    tour = """chip("everything"); for (const r of rows()) r.querySelector("button.open").click();
    told.end = document.title; told.rows = rows().length;
    const inside = a => a.href.startsWith("https://github.com/o/toy/")
      || a.getAttribute("href").startsWith("#");
    told.outside = [...document.links].filter(a => !inside(a)).length;"""
    seen = toured(data, tmp_path, tour)
    assert seen["images"] == 0 and seen["rows"] == 2 and seen["outside"] == 0
    assert seen["end"] == seen["title"] != "bad"
