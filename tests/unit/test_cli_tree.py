"""The verbs that audit a tree, against a stand-in for the library: words in, calls and pages out."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import msgspec
import pytest

from auditor.cli import groups
from auditor.cli.audit.gate import select
from auditor.cli.audit.report import exit_code
from auditor.cli.clickrun import run
from auditor.errors import UserError
from auditor.gates.model import Arm, Effect, Finding, Gate, Predicate, Problem, Report, TreeFacts
from auditor.trees.base import TreeInfo


def gate(name: str, line: int, end: int, symbol: str, **more: Any) -> Gate:
    fields: dict[str, Any] = {
        "id": name,
        "path": "pkg/a.py",
        "module": "pkg.a",
        "line": line,
        "end_line": end,
        "symbol": symbol,
        "kind": "if",
        "scope": "arch",
        "via": ("pkg.util.wide",),
        "roots": ("torch.cuda.get_device_capability",),
        "predicate": "wide()",
        "truth": {"sm_100": "true", "sm_120": "false"},
        "reached": {"sm_100": "true", "sm_120": "unknown"},
        "unknown_because": ("arg.mode",),
        "arms": (Arm("true", line + 1, line + 1, (Effect("call", "fast()", line + 1),)),),
        "verdict": {"sm_100": "same", "sm_120": "fallback"},
    }
    return Gate(**{**fields, **more})


REPORT = Report(
    schema_version="1.0",
    tool="sglang-auditor 0",
    project="sglang",
    tree=TreeFacts("wheel", "9.9.9", "c" * 40, None, "9.9.9", "2026-01-02", None, False),
    targets=("sm_100", "sm_120"),
    reference="sm_100",
    assumptions={"cuda": "13.0"},
    predicates=(
        Predicate(
            "pkg.util.wide", "pkg/util.py", 3, "function", {"sm_100": "true", "sm_120": "false"}, read_by=7
        ),
        Predicate("pkg.util.Info.major", "pkg/util.py", 9, "property", {}, {"sm_100": "10", "sm_120": "12"}),
    ),
    gates=(
        gate("aaaa1111", 10, 30, "Runner.pick"),
        gate("aaaa2222", 12, 14, "Runner.pick"),
        gate("bbbb1111", 40, 44, "other", verdict={"sm_100": "same", "sm_120": "blocked"}, via=()),
    ),
    findings=(
        Finding("moe/x", "bbbb1111", "pkg/a.py", 40, "other", {"sm_120": "workaround"}, "warning", "says so"),
    ),
    problems=(),
    stats={},
)


class FakeTree:
    closed = 0

    def info(self) -> TreeInfo:
        return TreeInfo("wheel", "9.9.9", "c" * 40)

    def blobs(self) -> dict[str, str]:
        return {}

    def local_path(self, path: str) -> None:
        return None

    def close(self) -> None:
        type(self).closed += 1


class Calls(NamedTuple):
    specs: list[Any]
    options: list[Any]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Calls:
    monkeypatch.setenv("SGLANG_AUDITOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("COLUMNS", raising=False)
    seen = Calls([], [])

    def open_tree(spec: Any, **known: Any) -> FakeTree:
        seen.specs.append((spec, known))
        return FakeTree()

    class AuditOptions:
        def __init__(self, **fields: Any) -> None:
            self.__dict__.update(fields)

    def audit(tree: Any, options: Any, progress: Any = None, record: Any = None) -> Report:
        seen.options.append(options)
        return REPORT

    fake = ModuleType("auditor.gates.audit")
    fake.AuditOptions = AuditOptions  # type: ignore[attr-defined]
    fake.audit = audit  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "auditor.gates.audit", fake)
    monkeypatch.setattr("auditor.trees.open.open_tree", open_tree)
    return seen


def audit(*words: str) -> int:
    return run(groups.audit, "audit", list(words))


# --- which tree


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], {}),
        (["--commit", "735a256"], {"commit": "735a256"}),
        (["--commit", "A~3", "--path", "c"], {"commit": "A~3", "path": "c"}),
        (["--repo", "../clone", "--commit", "x"], {"path": "../clone", "commit": "x"}),
        (["--repo", "https://h.example/a/b"], {"repo": "https://h.example/a/b"}),
        (["--repo", "git@h.example:a/b.git"], {"repo": "git@h.example:a/b.git"}),
        (["--worktree"], {"worktree": True}),
        (["--worktree", "c"], {"worktree": True, "path": "c"}),
        (["--worktree", "--path", "c"], {"worktree": True, "path": "c"}),
        (["--installed"], {"installed": True}),
        (["--installed", "venv"], {"installed": "venv"}),
        (["--release", "0.5.14"], {"release": "0.5.14"}),
        (["--wheel", "a.whl"], {"wheel": "a.whl"}),
        (["--allow-fetch"], {"allow_fetch": True}),
    ],
)
def test_source_options(words: list[str], expected: dict[str, Any], calls: Calls) -> None:
    from auditor.trees.open import TreeSpec

    assert audit("sglang", *words, "-q") == 0
    ((spec, known),) = calls.specs
    assert spec == TreeSpec(**expected)
    assert known["distribution"] == "sglang"
    assert all(marker.startswith(("python/sglang/", "sglang/")) for marker in known["marker"])
    assert known["source_roots"] == ("python",)


def test_two_local_sources_are_an_error(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit("sglang", "--path", "a", "--worktree", "b") == 2
    assert capsys.readouterr().err.startswith("error[U005]: 'a' and 'b' name two different sources\n")
    assert calls.specs == []


def test_the_tree_is_closed(calls: Calls) -> None:
    before = FakeTree.closed
    audit("sglang", "-q")
    assert FakeTree.closed == before + 1


# --- what is asked


def test_defaults_of_a_project(calls: Calls) -> None:
    audit("sglang", "-q")
    (options,) = calls.options
    assert vars(options) == {
        "targets": ("sm_120",),
        "reference": "sm_100",
        "assumptions": {},
        "defaults": False,
        "use_cache": True,
        "project": "sglang",
    }


def test_question_options(calls: Calls) -> None:
    words = ["--target", "121,sm_120", "--against", "90", "--defaults", "--no-cache"]
    audit("sglang", *words, "--assume", "dep.x=absent", "--assume", "cuda = 12.8", "--assume", "env.Y=")
    (options,) = calls.options
    assert options.targets == ("sm_121", "sm_120") and options.reference == "sm_90"
    assert options.assumptions == {"cuda": "12.8", "dep.x": "absent", "env.Y": ""}
    assert list(options.assumptions) == sorted(options.assumptions)
    assert options.defaults and not options.use_cache


@pytest.mark.parametrize("verb", [["predicates"], ["gate", "Runner.pick"]])
def test_other_verbs_ask_for_all_targets(verb: list[str], calls: Calls) -> None:
    from auditor.arch import load_targets

    assert audit(*verb) == 0
    assert calls.options[0].targets == tuple(load_targets())


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--assume", "x"], "U007"),
        (["--assume", "=x"], "U007"),
        (["--assume", "arg.a=1", "--assume", "arg.a=2"], "U007"),
        (["--assume", "foo=1"], "U007"),
        (["--assume", "cuda=new"], "U007"),
        (["--assume", "cuda="], "U007"),
        (["--assume", "env.=1"], "U007"),
        (["--assume", "flag.X=1"], "U007"),
        (["--assume", "dep.deep_gemm=maybe"], "U007"),
        (["--target", "sm_12"], "E001"),
        (["--against", "all"], "U001"),
        (["--fail-on", "blokced"], "U006"),
        (["--format", "xml"], "U001"),
        (["stray"], "U001"),
        (["--project", "nope"], "U011"),
    ],
)
def test_bad_words(words: list[str], code: str, calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit("sglang", *words) == 2
    streams = capsys.readouterr()
    assert streams.out == "" and streams.err.startswith(f"error[{code}]: ")
    assert "help: " in streams.err


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("SGLANG_X=1", "--assume env.SGLANG_X=1"),
        ("moe_runner_backend=auto", "--assume arg.moe_runner_backend=auto"),
        ("arg.moe-runner-backend=auto", "--assume arg.moe_runner_backend=auto"),
        ("args.page_size=1", "--assume arg.page_size=1"),
        ("machin=aarch64", "--assume machine=aarch64"),
        ("dep.deep-gemm=absent", "--assume dep.deep_gemm=absent"),
        ("dep.deep_gemm=maybe", "--assume dep.deep_gemm=absent"),
        ("cuda=13", "--assume cuda=12.8"),
    ],
)
def test_an_assumption_nobody_asks_for_is_an_error_with_what_was_meant(
    text: str, hint: str, calls: Calls, capsys: pytest.CaptureFixture[str]
) -> None:
    assert audit("sglang", "--assume", text) == 2
    assert calls.options == []
    assert capsys.readouterr().err.splitlines()[2] == f"help: {hint}"


@pytest.mark.parametrize(
    "text",
    ["env.X=", "env.X=a=b", "arg.x=None", "dep.torch=2.11.0", "dep.x=present", "model=LlamaForCausalLM"],
)
def test_assumptions_that_are_known(text: str, calls: Calls) -> None:
    assert audit("sglang", "--assume", text) == 0
    key, _, value = text.partition("=")
    assert calls.options[0].assumptions == {key: value}


def test_the_single_target_is_named_by_its_own_option(
    calls: Calls, capsys: pytest.CaptureFixture[str]
) -> None:
    assert audit("sglang", "--against", "sm_200") == 2
    assert capsys.readouterr().err.splitlines()[1:3] == ["  --against sm_200", "help: --against sm_120"]


def test_unknown_verdict_suggests_the_near_one(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    audit("sglang", "--fail-on", "same,blokced")
    assert "help: --fail-on blocked\n" in capsys.readouterr().err


# --- what comes out


def test_json_goes_to_stdout_alone_and_to_files(
    calls: Calls, capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    assert audit("sglang", "--format", "json") == 0
    streams = capsysbinary.readouterr()
    assert streams.err == b""
    data = json.loads(streams.out)
    assert [item["id"] for item in data["gates"]] == ["aaaa1111", "aaaa2222", "bbbb1111"]
    assert audit("sglang", "--format", "json", "--output", str(tmp_path / "o.json")) == 0
    assert (tmp_path / "o.json").read_bytes() == streams.out
    assert capsysbinary.readouterr().out == b""


def test_terminal_page(calls: Calls, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert audit("sglang", "--release", "9.9.9", "--target", "all") == 0
    page = capsys.readouterr().out
    assert page.startswith("sglang 9.9.9 · 2026-01-02")
    assert "\x1b" not in page
    assert audit("sglang", "--release", "9.9.9", "--target", "all", "--output", str(tmp_path / "page")) == 0
    assert (tmp_path / "page").read_text() == page


@pytest.mark.parametrize(
    ("fail_on", "code"),
    [
        ((), 0),
        (("fallback",), 1),
        (("unguarded", "workaround"), 1),
        (("blocked",), 0),  # the query about that gate calls it a workaround
        (("dead-arm",), 0),
    ],
)
def test_fail_on(fail_on: tuple[str, ...], code: int) -> None:
    assert exit_code(REPORT, fail_on) == code


def test_fail_on_looks_at_the_targets_that_were_asked_for() -> None:
    assert exit_code(msgspec.structs.replace(REPORT, targets=("sm_100",)), ("fallback",)) == 0


def test_a_file_that_does_not_parse_outranks_findings() -> None:
    broken = msgspec.structs.replace(REPORT, problems=(Problem("pkg/b.py", 1, "does not parse"),))
    assert exit_code(broken, ()) == 2
    assert exit_code(broken, ("fallback",)) == 2


def test_fail_on_from_the_command_line(calls: Calls) -> None:
    assert audit("sglang", "-q", "--fail-on", "dead-arm,fallback") == 1
    assert audit("sglang", "-q", "--fail-on", "dead-arm", "--fail-on", "unguarded") == 0


def test_a_plain_page_does_not_pay_for_rich(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "rich"]:
        monkeypatch.delitem(sys.modules, name)
    assert audit("sglang", "--release", "9.9.9") == 0
    assert "rich" not in sys.modules
    assert audit("sglang", "--release", "9.9.9", "--color", "always") == 0
    assert "rich" in sys.modules


def test_plain_and_rich_pages_say_the_same(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit("sglang", "--target", "all") == 0
    plain = capsys.readouterr().out
    assert audit("sglang", "--target", "all", "--color", "always") == 0
    colored = capsys.readouterr().out
    assert colored != plain
    assert re.sub(r"\x1b\[[0-9;]*m|\x1b\]8;[^\x1b]*\x1b\\\\", "", colored) == plain


# --- one gate


@pytest.mark.parametrize(
    ("word", "gates", "predicates"),
    [
        ("aaaa", ["aaaa1111", "aaaa2222"], []),
        ("aaaa2222", ["aaaa2222"], []),
        ("a.py:13", ["aaaa2222"], []),
        ("pkg/a.py:29", ["aaaa1111"], []),
        ("Runner.pick", ["aaaa1111", "aaaa2222"], []),
        ("pick", ["aaaa1111", "aaaa2222"], []),
        ("moe/x", ["bbbb1111"], []),
        ("wide", [], ["pkg.util.wide"]),
        ("Info.major", [], ["pkg.util.Info.major"]),
    ],
)
def test_select(word: str, gates: list[str], predicates: list[str]) -> None:
    found, names = select(REPORT, word)
    assert [item.id for item in found] == gates
    assert [item.name for item in names] == predicates


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("wides", "audit gate wide"),
        ("a.py:35", "audit gate pkg/a.py:40"),
        ("zzz.py:1", "audit predicates"),
        ("ide", "audit gate wide"),
    ],
)
def test_select_nothing(word: str, hint: str) -> None:
    with pytest.raises(UserError) as caught:
        select(REPORT, word)
    assert caught.value.code == "U012" and hint in caught.value.hints


def test_gate_page(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit("gate", "bbbb1111") == 0
    page = capsys.readouterr().out
    assert page.startswith("pkg.a.other\n")
    assert all(part in page for part in ("pkg/a.py:40-44", "arg.mode", "call fast()", "says so", "bbbb1111"))
    assert audit("gate", "aaaa") == 0
    page = capsys.readouterr().out
    assert page.count("pkg.a.Runner.pick\n") == 2


def test_every_place_that_a_page_prints_leads_somewhere(
    calls: Calls, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Findings stand at other lines than their gates, or have none."""
    size = Finding(
        "moe/size", "bbbb1111", "pkg/a.py", 90, "other", {"sm_120": "unguarded"}, "error", "too many"
    )
    alone = Finding("pd/default", "", "pkg/env.py", 7, "Flags", {"sm_120": "wrong-default"}, "note", "is UCX")
    report = msgspec.structs.replace(REPORT, findings=(*REPORT.findings, size, alone))
    monkeypatch.setattr("auditor.cli.audit.gate.audited", lambda tree, request: report)
    assert audit("gate", "a.py:90") == 0
    page = capsys.readouterr().out
    assert page.startswith("pkg.a.other\n") and "too many  (moe/size)" in page
    for word in ("env.py:7", "pd/default"):
        assert audit("gate", word) == 0
        page = capsys.readouterr().out
        assert page.startswith("Flags\n") and "pkg/env.py:7" in page and "is UCX  (pd/default)" in page
        assert audit("gate", word, "--format", "json") == 0
        data = json.loads(capsys.readouterr().out)
        assert data["gates"] == [] and [item["query"] for item in data["findings"]] == ["pd/default"]
    for item in report.findings:
        select(report, f"{item.path}:{item.line}")


def test_many_gates_are_listed_by_line(
    calls: Calls, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auditor.cli.audit.gate._IN_FULL", 1)
    assert audit("gate", "pick") == 0
    assert capsys.readouterr().out.splitlines() == [
        "aaaa1111  pkg/a.py:10  Runner.pick  wide()",
        "aaaa2222  pkg/a.py:12  Runner.pick  wide()",
        "one of them in full: audit gate ID",
    ]
    assert audit("gate", "pick", "-v") == 0
    assert capsys.readouterr().out.count("pkg.a.Runner.pick\n") == 2


def test_gate_that_is_a_predicate(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit("gate", "wide") == 0
    page = capsys.readouterr().out
    assert "pkg.util.wide" in page and "Info.major" not in page


def test_gate_json(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit("gate", "moe/x", "--format", "json") == 0
    data = json.loads(capsys.readouterr().out)
    assert [item["id"] for item in data["gates"]] == ["bbbb1111"]
    assert data["findings"][0]["query"] == "moe/x"
    assert data["tree"]["version"] == "9.9.9" and data["assumptions"] == {"cuda": "13.0"}


# --- predicates


def test_predicates_page(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit("predicates") == 0
    page = capsys.readouterr().out
    assert page.startswith("sglang 9.9.9 · 2026-01-02\n2 predicates")
    assert "pkg/util.py\n" in page and "wide" in page and "Info.major" in page
    assert audit("predicates", "wide", "-q") == 0
    page = capsys.readouterr().out
    assert "wide" in page and "Info.major" not in page and "2026" not in page


def test_predicates_by_word(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit("predicates", "major", "--format", "json") == 0
    assert [item["name"] for item in json.loads(capsys.readouterr().out)["predicates"]] == [
        "pkg.util.Info.major"
    ]
    assert audit("predicates", "wdie") == 2
    assert "help: audit predicates wide" in capsys.readouterr().err


def test_path_needs_a_model(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit("path") == 2
    assert "--model" in capsys.readouterr().err


# --- queries


def test_query_verbs(tmp_path: Path, calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    folder = ["--folder", str(tmp_path / "queries")]
    assert audit("query", "new", "moe/mine", "--title", "A gate of mine", *folder) == 0
    assert (tmp_path / "queries" / "moe" / "mine.yaml").is_file()
    assert audit("query", "new", "moe/mine", *folder) == 2, "an existing file is never touched"
    capsys.readouterr()
    assert audit("query", "list", *folder) == 0
    assert capsys.readouterr().out.split(maxsplit=1)[0] == "moe/mine"
    assert audit("query", "list", "nothing", *folder) == 0
    assert capsys.readouterr().out == ""
    assert audit("query", "list", "--format", "json", *folder) == 0
    assert json.loads(capsys.readouterr().out)["queries"][0]["id"] == "moe/mine"
    assert audit("query", "show", "moe/mine", *folder) == 0
    assert capsys.readouterr().out.startswith("moe/mine: A gate of mine")
    assert audit("query", "show", "moe/mime", *folder) == 2
    assert "help: audit query show moe/mine" in capsys.readouterr().err


def test_query_lint(tmp_path: Path, calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    folder = ["--folder", str(tmp_path / "queries")]
    audit("query", "new", "moe/mine", *folder)
    path = tmp_path / "queries" / "moe" / "mine.yaml"
    path.write_text(path.read_text() + "nonsense: 1\n")
    capsys.readouterr()
    assert audit("query", "lint", *folder) == 1
    streams = capsys.readouterr()
    assert "queries/moe/mine.yaml:" in streams.out and "nonsense" in streams.out
    assert streams.err == "1 problems\n"


def test_query_test_counts(
    tmp_path: Path, calls: Calls, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from auditor.queries import examples

    def run_examples(query: Any, folder: Any = None) -> list[examples.Result]:
        return [
            examples.Result(query.id, 0, "one", "invalid", "reported"),
            examples.Result(query.id, 1, "two", "valid", "noisy", "expected nothing"),
        ]

    monkeypatch.setattr(examples, "run_examples", run_examples)
    folder = ["--folder", str(tmp_path / "queries")]
    audit("query", "new", "moe/mine", *folder)
    capsys.readouterr()
    assert audit("query", "test", *folder) == 1
    assert capsys.readouterr().out == "noisy     moe/mine · two: expected nothing\n1 passed, 1 failed\n"
