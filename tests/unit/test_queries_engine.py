"""The engine on gates built by hand: constraints, places, verdicts, order; and example trees."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from auditor.errors import UserError
from auditor.gates.model import Arm, Effect, Finding, Gate, Tri
from auditor.queries.engine import Match, fill, run_queries, silent, verdict_of
from auditor.queries.examples import judge, run_examples
from auditor.queries.exampletree import PROFILE, MemoryTree, example_tree
from auditor.queries.gatematch import gate_matches, reach
from auditor.queries.load import load_queries
from auditor.queries.model import Example, GateMatch, Query
from auditor.queries.scan import CodeHit
from auditor.trees.base import SourceTree

TARGETS = ("sm_90", "sm_100", "sm_120", "sm_121")
PATH = "example/case.py"


def truth(*names: str, unknown: Sequence[str] = ()) -> dict[str, Tri]:
    return {t: "unknown" if t in unknown else "true" if t in names else "false" for t in TARGETS}


def gate(line: int = 3, **changes: object) -> Gate:
    base = Gate(
        id=f"g{line}",
        path=PATH,
        module="example.case",
        line=line,
        end_line=line + 3,
        symbol="f",
        kind="if",
        scope="arch",
        via=("example.gpu.workstation",),
        roots=("torch.cuda.get_device_capability",),
        predicate="workstation()",
        truth=truth("sm_120", "sm_121"),
        reached=dict.fromkeys(TARGETS, "true"),
        unknown_because=(),
        arms=(
            Arm("true", line + 1, line + 1, (Effect("call", "pkg.fast", line), Effect("raise", "E", line))),
            Arm("false", line + 3, line + 3),
        ),
        verdict={"sm_90": "same", "sm_100": "same", "sm_120": "blocked", "sm_121": "blocked"},
    )  # fmt: skip
    return msgspec.structs.replace(base, **changes)


def query(match: Mapping[str, object] | None, **changes: object) -> Query:
    data: dict[str, object] = {
        "id": "area/name",
        "title": "t",
        "why": "w",
        "verdict": {"sm_12*": "fallback"},
        "message": "m",
        "examples": [],
        "words": ["x"],
        "match": match,
    }
    return msgspec.convert({**data, **changes}, Query)


def run(
    q: Query, gates: Sequence[Gate], code: str = "", targets: Sequence[str] = TARGETS
) -> tuple[Finding, ...]:
    tree = MemoryTree({"example/__init__.py": "", PATH: code})
    return run_queries([q], gates=gates, tree=tree, targets=targets, reference="sm_100", profile=PROFILE)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, True),
        ({"truth": {"sm_120": True, "reference": False}}, True),
        ({"truth": {"sm_12*": "true", "sm_90": "not-true"}}, True),
        ({"truth": {"sm_12*": "true", "sm_90": "true"}}, False),
        ({"truth": {"sm_120": "decided"}}, True),
        ({"truth": {"sm_103": False}}, False),
        ({"reached": {"sm_120": "not-false"}}, True),
        ({"reached": {"sm_120": "unknown"}}, False),
        ({"symbol": "example.*:f"}, True),
        ({"symbol": ["no", "*:g"]}, False),
        ({"module": "*.case"}, True),
        ({"kind": ["elif", "if"]}, True),
        ({"kind": "elif"}, False),
        ({"scope": "platform"}, False),
        ({"via": "*.workstation"}, True),
        ({"via": "*.other"}, False),
        ({"unknown_because": "arg.*"}, False),
        ({"verdict": {"sm_120": "blocked"}}, True),
        ({"verdict": {"sm_12*": "fallback"}}, False),
        ({"arms": {"then": {"call": "*.fast", "raises": "*"}}}, True),
        ({"arms": {"then": {"call": "*.slow"}}}, False),
        ({"arms": {"else": {"nothing": True}}}, True),
        ({"arms": {"any": {"raises": "E"}}}, True),
        ({"predicate": {"pattern": "$F()"}}, True),
        ({"predicate": {"pattern": "$X == $Y"}}, False),
        ({"predicate": {"regex": r"\w+\(\)"}}, True),
    ],
)
def test_constraints(wanted: dict[str, object], expected: bool) -> None:
    data = {key.replace("_", "-"): value for key, value in wanted.items()}
    assert gate_matches(msgspec.convert(data, GateMatch), gate(), "sm_100") is expected


def test_a_gate_query_says_where_and_what() -> None:
    q = query(
        {"gate": {"truth": {"sm_120": True}}},
        message="{symbol}: {gate.predicate}\n in {path}:{line}",
        fix="do it\n",
        severity="error",
    )
    (finding,) = run(q, [gate(unknown_because=("arg.x",))])
    assert finding == Finding(
        query="area/name",
        gate="g3",
        path=PATH,
        line=3,
        symbol="f",
        verdict={"sm_90": "same", "sm_100": "same", "sm_120": "fallback", "sm_121": "fallback"},
        severity="error",
        message=f"f: workstation() in {PATH}:3",
        area="area",
        detail=("gate: workstation()", "depends on: arg.x"),
        fix="do it",
    )


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        ({"sm_120": "blocked", "sm_12*": "fallback"}, ["same", "same", "blocked", "fallback"]),
        ({"sm_120": "blocked", "default": "undecided"}, ["undecided", "undecided", "blocked", "undecided"]),
        ({"from": "gate"}, ["same", "same", "blocked", "blocked"]),
        ({"from": "gate", "sm_121": "missed-variant"}, ["same", "same", "blocked", "missed-variant"]),
        ({"when-true": "workaround"}, ["same", "same", "workaround", "workaround"]),
        ({"when-false": "fallback"}, ["fallback", "fallback", "same", "same"]),
    ],
)
def test_verdicts(verdict: dict[str, str], expected: list[str]) -> None:
    match = Match(PATH, 3, "f", gate=gate())
    assert list(verdict_of(query(None, verdict=verdict), match, TARGETS).values()) == expected


def test_what_is_the_same_on_all_targets_asked_about_is_no_finding() -> None:
    q = query({"gate": {"truth": {"sm_120": True}}})
    assert run(q, [gate()], targets=("sm_90",)) == ()
    assert len(run(q, [gate()], targets=("sm_90", "sm_121"))) == 1


CODE = """\
def f(x):
    x.before = 1
    if workstation():
        x.then = 1
    else:
        x.other = 1
    x.after = 1


def g(x):
    x.elsewhere = 1
"""


@pytest.mark.parametrize(
    ("place", "names"),
    [
        ("then", ["then"]),
        ("else", ["other"]),
        ("inside", ["then", "other"]),
        ("before", ["before"]),
        ("after", ["after"]),
        ("same-symbol", ["before", "then", "other", "after"]),
    ],
)
def test_places(place: str, names: list[str]) -> None:
    q = query(
        {"gate": {"truth": {"sm_120": True}}, "code": {"pattern": "x.$NAME = 1", "place": place}},
        message="{NAME}",
    )
    findings = run(q, [gate()], CODE)
    assert [finding.message for finding in findings] == names
    assert {finding.gate for finding in findings} == {"g3"}
    assert run(q, [gate(truth=truth("sm_90"))], CODE) == ()


def test_a_finding_may_point_at_the_gate() -> None:
    code = {"pattern": "x.$NAME = 1", "place": "inside", "report": "gate"}
    (finding,) = run(query({"gate": {"truth": {"sm_120": True}}, "code": code}), [gate()], CODE)
    assert (finding.line, finding.symbol) == (3, "f")


def test_code_without_a_gate_is_found_anywhere() -> None:
    q = query({"code": {"pattern": "x.$NAME = $V"}}, verdict={"default": "wrong-default"}, message="{NAME}")
    found = [(finding.line, finding.symbol, finding.message) for finding in run(q, [], CODE)]
    assert found == [
        (2, "f", "before"),
        (4, "f", "then"),
        (6, "f", "other"),
        (7, "f", "after"),
        (11, "g", "elsewhere"),
    ]


def test_within_and_where() -> None:
    code = {"pattern": "x.$NAME = $V", "within": "example.case:g"}
    assert [f.line for f in run(query({"code": code}), [], CODE)] == [11]
    code = {"pattern": "x.$NAME = $V", "where": {"NAME": {"regex": "[at].*"}}}
    assert [f.line for f in run(query({"code": code}), [], CODE)] == [4, 7]


def test_where_name_follows_imports() -> None:
    text = "from .lib.flags import x as y\nimport other as z\n\ny.A = 1\nz.A = 1\n"
    code = {"pattern": "$N = 1", "where": {"N": {"name": "example.lib.flags.*"}}}
    assert [f.line for f in run(query({"code": code}, words=["A"]), [], text)] == [4]


def test_a_match_holds_a_word_itself() -> None:
    code = {"pattern": "$A = $B"}
    assert [f.line for f in run(query({"code": code}, words=["other"]), [], CODE)] == [6]
    assert run(query({"code": code}, words=["absent"]), [], CODE) == ()


def test_not_inside_binds_the_same_names() -> None:
    text = "def f(a, b):\n    if not a.is_set():\n        a.set(1)\n        b.set(1)\n"
    code = {"pattern": "$F.set($V)", "not-inside": "if not $F.is_set():\n    $...BODY"}
    assert [f.line for f in run(query({"code": code}, words=["set"]), [], text)] == [4]


def test_contains_binds_names() -> None:
    text = "if a and (b > LIMIT or c):\n    x()\nif a and b < LIMIT:\n    x()\n"
    code = {"pattern": "if $T:\n    x()", "contains": "$N > $L", "where": {"L": {"regex": "[A-Z]+"}}}
    found = run(query({"code": code}, message="{N} {L}"), [], text)
    assert [(f.line, f.message) for f in found] == [(1, "b LIMIT")]


def test_reached_follows_the_gates_around() -> None:
    hit = CodeHit("q", 4, 4, "f", {})
    other = CodeHit("q", 6, 6, "f", {})
    outer = gate(1, arms=(Arm("true", 2, 9),), truth=truth("sm_120", unknown=["sm_121"]))
    assert reach(hit, [gate(), outer], TARGETS) == truth("sm_120", unknown=["sm_121"])
    assert reach(other, [gate()], TARGETS) == truth("sm_90", "sm_100")
    assert reach(other, [], TARGETS) == dict.fromkeys(TARGETS, "true")
    dead = gate(reached=dict.fromkeys(TARGETS, "false"))
    assert reach(hit, [dead], TARGETS) == dict.fromkeys(TARGETS, "false")


def test_reached_as_a_constraint_and_a_verdict() -> None:
    q = query(
        {"code": {"pattern": "x.$N = 1", "reached": {"sm_90": "not-false", "sm_120": False}}},
        verdict={"when-reached": "fallback"},
        message="{N}",
    )
    (finding,) = run(q, [gate()], CODE)
    assert finding.message == "other"
    assert finding.verdict == {"sm_90": "fallback", "sm_100": "fallback", "sm_120": "same", "sm_121": "same"}


def test_not_under() -> None:
    code = {"pattern": "x.$N = 1", "not-under": {"truth": {"sm_120": True}}}
    assert [f.line for f in run(query({"code": code}), [gate()], CODE)] == [2, 6, 7, 11]


def test_order_and_repetition() -> None:
    q1 = query({"gate": {"truth": {"sm_120": True}}}, id="b/b")
    q2 = query({"code": {"pattern": ["x.$N = 1", "x.then = $V"]}}, id="a/a")
    tree = MemoryTree({PATH: CODE})
    gates = [gate(30), gate(), gate()]
    found = run_queries([q1, q2], gates=gates, tree=tree, targets=TARGETS, reference="sm_100")
    again = run_queries([q2, q1], gates=gates[::-1], tree=tree, targets=TARGETS, reference="sm_100")
    assert found == again
    assert [(f.query, f.line) for f in found] == [
        ("a/a", 2), ("a/a", 4), ("a/a", 6), ("a/a", 7), ("a/a", 11), ("b/b", 3), ("b/b", 30),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        b"\xef\xbb\xbfx = 1\r\nif a:\r\n\tx = 2\r\n",
        "# -*- coding: latin-1 -*-\n\xe9 = 0; x = 1\nif a: x = 2\n".encode("latin-1"),
        b'def f():\n    """a\nb"""\n    x = 1\n    return [\n  x\n]\n@d(x)\ndef g():\n  x = 2',
        b"class C:\n  x = 1\n  class D:\n    def f(self):\n      if a:\n        pass\n      elif b: x = 2\n",
    ],
)
def test_odd_files(text: bytes) -> None:
    q = query({"code": {"pattern": "x = $V"}}, verdict={"default": "fallback"}, message="{V}")
    tree = MemoryTree({PATH: text})
    found = run_queries([q], gates=[], tree=tree, targets=TARGETS, reference="sm_100")
    assert [finding.message for finding in found] == ["1", "2"]


@pytest.mark.parametrize("text", [b"x = (", b"x = 1\0", b"x = '\xff'", b"", b"((" * 4000 + b"x"])
def test_a_file_that_does_not_parse_has_no_hits(text: bytes) -> None:
    q = query({"code": {"pattern": "x = $V"}})
    tree = MemoryTree({PATH: text})
    assert run_queries([q], gates=[], tree=tree, targets=TARGETS, reference="sm_100") == ()


def test_files_outside_the_project_are_not_looked_at() -> None:
    q = query({"code": {"pattern": "x = $V"}}, verdict={"default": "fallback"})
    tree = MemoryTree({"example/__init__.py": "", "tools/a.py": "x = 1", "example/b.txt": "x = 1"})
    assert run_queries([q], gates=[], tree=tree, targets=TARGETS, reference="sm_100", profile=PROFILE) == ()


def test_libcst_is_not_imported_without_a_candidate() -> None:
    program = (
        "import sys\n"
        "from auditor.queries import load_queries\n"
        "from auditor.queries.engine import run_queries\n"
        "from auditor.queries.exampletree import MemoryTree\n"
        "tree = MemoryTree({'a.py': 'x = 1  # .set( THRESHOLD _backend disaggregation_transfer_backend:'})\n"
        "args = dict(gates=[], tree=tree, targets=('sm_120',), reference='sm_100')\n"
        "assert run_queries(load_queries(), **args) == ()\n"
        "assert 'libcst' not in sys.modules\n"
    )
    import subprocess

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_silent_queries_are_those_that_should_speak() -> None:
    q = [query(None, id="a/a"), query(None, id="b/b", absent="ok"), query(None, id="c/c")]
    finding = Finding("c/c", "", PATH, 1, "", {}, "note", "m")
    assert silent(q, [finding]) == ("a/a",)


def test_a_message_shows_what_is_missing() -> None:
    assert fill("{a}  {path}{{}}", Match(PATH, 1, "")) == f"? {PATH}{{}}"


PLUGIN = """\
from auditor.queries.engine import Match


def run(context):
    for path, data in context.files_with("needle"):
        yield Match(path, data[: data.index(b"needle")].count(b"\\n") + 1, "", captures={"N": "1"})
"""


def test_plugins(tmp_path: Path) -> None:
    folder = tmp_path / "queries"
    (folder / "area").mkdir(parents=True)
    (folder / "area" / "find.py").write_text(PLUGIN)
    q = query(None, plugin="find.py", message="found {N}")
    tree = MemoryTree({PATH: "a\nneedle", "example/x.py": ""})
    found = run_queries([q], gates=[], tree=tree, targets=TARGETS, reference="sm_100", plugin_folder=folder)
    assert [(f.path, f.line, f.message) for f in found] == [(PATH, 2, "found 1")]
    for name in ("../find.py", "other.py"):
        with pytest.raises(UserError) as caught:
            bad = query(None, plugin=name)
            run_queries([bad], gates=[], tree=tree, targets=TARGETS, reference="sm_100", plugin_folder=folder)
        assert caught.value.code == "Q013"


HERE = "x  # audit: here"


def finding(line: int, **verdict: str) -> Finding:
    return Finding("q", "", PATH, line, "", verdict, "note", "m")


@pytest.mark.parametrize(
    ("example", "found", "outcome"),
    [
        (Example("valid", "none", code="x"), [], "validated"),
        (Example("valid", "none", code="x"), [finding(1, sm_120="fallback")], "noisy"),
        (Example("unknown", "none", code="x"), [], "validated"),
        (Example("invalid", {"sm_120": "fallback"}, code="x"), [], "missing"),
        (Example("invalid", {"sm_120": "fallback"}, code="x"), [finding(1, sm_120="fallback")], "reported"),
        (Example("invalid", {"sm_12*": "fallback"}, code="x"), [finding(1, sm_121="same")], "wrong"),
        (Example("invalid", {"default": "same"}, code="x"), [finding(1, sm_90="fallback")], "wrong"),
        (Example("invalid", {}, code="x"), [finding(1), finding(2)], "wrong"),
        (Example("invalid", {}, code="x", count=2), [finding(1), finding(2)], "reported"),
        (Example("invalid", {}, code="x\ny  # audit: here"), [finding(1)], "wrong"),
        (Example("invalid", {}, code="x\ny  # audit: here"), [finding(2)], "reported"),
        (Example("invalid", {}, code=f"{HERE}\n{HERE}"), [finding(1), finding(2)], "reported"),
    ],
)  # fmt: skip
def test_outcomes(example: Example, found: list[Finding], outcome: str) -> None:
    assert judge(example, example_tree(example), found)[0] == outcome


def test_an_example_tree_is_a_tree_with_git_ids() -> None:
    tree = example_tree(Example("valid", "none", files={"a/b.py": "x = 1\n"}))
    assert isinstance(tree, SourceTree)
    assert list(tree.blobs()) == [
        "example/__init__.py",
        "example/a/__init__.py",
        "example/a/b.py",
        "example/gpu.py",
        "example/options.py",
        "example/settings.py",
    ]
    assert tree.blobs()["example/__init__.py"] == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    assert (
        tree.info().content_id
        == example_tree(Example("valid", "none", files={"a/b.py": "x = 1\n"})).info().content_id
    )


def test_examples_run_on_given_gates() -> None:
    q = query(
        {"gate": {"truth": {"sm_120": True}}},
        examples=[
            {"kind": "invalid", "code": "\n\nif a:  # audit: here\n  b", "expect": {"sm_120": "fallback"}},
            {"kind": "valid", "code": "pass", "expect": "none"},
        ],
    )
    results = run_examples(q, discover=lambda tree, assume: [gate()])
    assert [(r.index, r.outcome, r.failed) for r in results] == [(0, "reported", False), (1, "noisy", True)]


def test_code_examples_of_our_own_queries_match_without_gates() -> None:
    """What does not depend on a gate can be checked without discovering any."""
    (q,) = load_queries(only=["disaggregation/transfer-default"])
    results = run_examples(q, discover=lambda tree, assume: [])
    assert [r.outcome for r in results] == ["reported", "validated", "validated"]
