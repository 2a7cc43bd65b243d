"""Query files: what is read, what is refused (with its line), and what only lint minds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from auditor.data import data_root
from auditor.errors import UserError
from auditor.queries.checks import check
from auditor.queries.docs import HEADINGS, render_doc, rows
from auditor.queries.load import lint, lint_folder, load_files, load_queries, pack_digest
from auditor.queries.model import query_schema
from auditor.queries.new import scaffold

GOOD = """\
id: area/name
title: A gate that raises
why: it stops the server
match:
  gate:
    truth: {sm_120: true, reference: false}
verdict: {sm_12*: blocked}
message: "{symbol} raises at {gate.predicate}"
examples:
  - kind: invalid
    code: x = 1
    expect: {sm_120: blocked}
  - kind: valid
    code: x = 2
    expect: none
"""

GATE = "  gate:\n    truth: {sm_120: true, reference: false}\n"

CODE = (
    GOOD.replace(
        GATE,
        '  code:\n    pattern: "$X = $VALUE"\n    where: {VALUE: {is: number}}\n',
    )
    .replace("{symbol} raises at {gate.predicate}", "{X} becomes {VALUE}")
    .replace("why:", "words: [x]\nwhy:")
)


def write(folder: Path, text: str, id_: str = "area/name") -> Path:
    path = folder / "queries" / f"{id_}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return folder / "queries"


def refused(folder: Path, text: str) -> UserError:
    with pytest.raises(UserError) as caught:
        load_queries(write(folder, text))
    return caught.value


def test_a_good_file_is_read(tmp_path: Path) -> None:
    (query,) = load_queries(write(tmp_path, GOOD))
    assert (query.id, query.area, query.severity, query.absent) == ("area/name", "area", "warning", "notable")
    assert query.match is not None and query.match.gate is not None
    assert query.match.gate.truth == {"sm_120": True, "reference": False}
    assert lint(load_files(tmp_path / "queries")) == []


@pytest.mark.parametrize(
    ("old", "new", "code", "line", "fact", "hint"),
    [
        ("why: it", "title: again\nwhy: it", "Q001", 3, "already set in line 2", "remove one of the two"),
        ("message:", "mesage:", "Q002", 8, "field `mesage`", "write `message` instead of `mesage`"),
        ("    truth:", "    thruth:", "Q002", 6, "field `thruth`", "write `truth` instead of `thruth`"),
        ("title: A gate that raises\n", "", "Q002", 1, "`title` is missing", "add `title:`"),
        ("kind: valid", "kind: vaild", "Q002", 13, "invalid enum value", None),
        ("id: area/name", "id: area/nam", "Q003", 1, "the path says 'area/name'", "write `id: area/name`"),
        ("{sm_12*: bl", "{sm_21*: bl", "Q004", 7, "unknown target 'sm_21*'", "write `sm_121:`"),
        ("{sm_120: true,", "{sm_12: true,", "Q004", 6, "unknown target 'sm_12'", "write `sm_121:`"),
        ("expect: {sm_120", "expect: {sm120", "Q004", 12, "unknown target 'sm120'", "write `sm_120:`"),
        ("sm_12*: blocked", "sm_12*: bloked", "Q008", 7, "unknown verdict 'bloked'", "write `blocked`"),
        ('message: "{symbol} raises at {gate.predicate}"', 'message: " "', "Q006", 8, "is empty", None),
        ("{gate.predicate}", "{gate.predicat}", "Q006", 8, "{gate.predicat}", "write `{gate.predicate}`"),
        ("{gate.predicate}", "{gate.predicate", "Q006", 8, "cannot be filled in", None),
        (GATE, "  {}\n", "Q009", 4, "`match` is empty", None),
        ("    code: x = 2\n", "", "Q010", 13, "either `code` or `files`", None),
        ("    expect: none", "    expect: {sm_120: blocked}", "Q010", 15, "expects `none`", None),
        ("    code: x = 2", "    files: {../x.py: a}", "Q010", 14, "no relative path", None),
    ],
)  # fmt: skip
def test_what_is_refused(
    tmp_path: Path, old: str, new: str, code: str, line: int, fact: str, hint: str | None
) -> None:
    assert old in GOOD
    error = refused(tmp_path, GOOD.replace(old, new, 1))
    assert error.code == code
    assert fact in error.fact
    assert error.place is not None and error.place.startswith(f"queries/area/name.yaml:{line}:")
    if hint is not None:
        assert hint in error.hints


@pytest.mark.parametrize(
    ("old", "new", "code", "fact"),
    [
        ('"$X = $VALUE"', '"$X ="', "Q007", "the pattern is not Python"),
        ('"$X = $VALUE"', '"$X"', "Q007", "matches everything"),
        ("{VALUE: {is", "{VALU: {is", "Q007", "no pattern has a metavariable $VALU"),
        ("{is: number}", "{regex: '('}", "Q007", "not a regular expression"),
        ("{X} becomes", "{gate.line} becomes", "Q006", "{gate.line}"),
        ("words: [x]\n", "", "Q005", "`code` needs `words`"),
        ("{sm_12*: blocked}", "{from: gate}", "Q008", "needs a `gate`"),
        ("words: [x]\n", "words: [x]\nplugin: p.py\n", "Q013", "runs a program of its own"),
    ],
)
def test_what_is_refused_of_code(tmp_path: Path, old: str, new: str, code: str, fact: str) -> None:
    assert old in CODE
    error = refused(tmp_path, CODE.replace(old, new, 1))
    assert (error.code, fact in error.fact) == (code, True), error.fact


@pytest.mark.parametrize(
    ("text", "old", "new", "code", "where"),
    [
        (CODE, "words: [x]", "words: [y]", "Q005", "examples.0"),
        (CODE, "words: [x]", "words: [x, y]", "Q005", "words.1"),
        (CODE, "words: [x]", "words: [x, is_sm120]", "Q012", "words.1"),
        (GOOD, "    truth:", "    via: '*.is_sm100_supported'\n    truth:", "Q012", "match.gate.via"),
        (GOOD, "A gate that raises", "A gate that raises.", "Q011", "title"),
        (GOOD, "  - kind: valid\n    code: x = 2\n    expect: none\n", "", "Q010", "examples"),
    ],
)
def test_what_lint_minds(tmp_path: Path, text: str, old: str, new: str, code: str, where: str) -> None:
    assert old in text
    folder = write(tmp_path, text.replace(old, new, 1))
    load_queries(folder)  # it can be run
    found = [(problem.code, problem.where) for problem in lint_folder(folder)]
    assert (code, where) in found


def test_an_unreadable_file_is_one_problem_among_others(tmp_path: Path) -> None:
    write(tmp_path, GOOD.replace("title: A gate that raises", "title: It raises."))
    folder = write(tmp_path, "id: [", "area/broken")
    problems = lint_folder(folder)
    assert [(p.code, p.query) for p in problems] == [("Q001", "area/broken"), ("Q011", "area/name")]
    assert problems[0].place.startswith("queries/area/broken.yaml:")


def test_an_unknown_id_names_the_near_one(tmp_path: Path) -> None:
    folder = write(tmp_path, GOOD)
    with pytest.raises(UserError) as caught:
        load_files(folder, ["area/nane"])
    assert caught.value.code == "Q009"
    assert caught.value.hints == ("audit query show area/name",)


def test_profiles_and_hidden_files_hold_no_queries(tmp_path: Path) -> None:
    for id_ in ("profiles/p", "_draft/q", "area/.q"):
        write(tmp_path, "not: a query", id_)
    folder = write(tmp_path, GOOD)
    assert [query.id for query in load_queries(folder)] == ["area/name"]


def test_the_digest_follows_every_byte(tmp_path: Path) -> None:
    folder = write(tmp_path, GOOD)
    first = pack_digest(folder)
    assert pack_digest(folder) == first
    write(tmp_path, GOOD + "# more\n")
    second = pack_digest(folder)
    (folder / "area" / "plugin.py").write_text("")
    assert len({first, second, pack_digest(folder)}) == 3


def test_our_own_queries_have_no_fault() -> None:
    assert [(p.place, p.message) for p in lint_folder()] == []
    assert len(load_queries()) >= 7


def test_the_committed_schema_is_the_models() -> None:
    path = data_root() / "reports" / "schema" / "query-1.json"
    assert path.read_bytes() == query_schema(), "write it again: python scripts/pages.py"


def test_our_own_queries_hold_to_the_schema() -> None:
    import jsonschema

    from auditor import yamlio

    validator = jsonschema.Draft202012Validator(json.loads(query_schema()))
    for file in load_files():
        errors = [e.message for e in validator.iter_errors(yamlio.load(file.path).data)]
        assert errors == [], file.name


@pytest.mark.parametrize("kind", ["gate", "code"])
def test_a_scaffold_is_clean_and_never_overwrites(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "queries"
    path = scaffold("moe/my-gate", folder=folder, title="It is: odd", kind=kind)  # type: ignore[arg-type]
    assert path == folder / "moe" / "my-gate.yaml"
    (query,) = load_queries(folder)
    assert query.title == "It is: odd"
    assert [problem for problem in check(query)] == []
    before = path.read_bytes()
    with pytest.raises(UserError) as caught:
        scaffold("moe/my-gate", folder=folder)
    assert (caught.value.code, path.read_bytes()) == ("Q014", before)


def test_a_bad_id_is_corrected(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        scaffold("My Gate", folder=tmp_path)
    assert caught.value.hints == ("audit query new moe/my-gate",)
    assert list(tmp_path.iterdir()) == []


def test_a_page_has_all_headings(tmp_path: Path) -> None:
    for query in load_queries():
        page = render_doc(query)
        positions = [page.index(f"\n## {heading}\n") for heading in HEADINGS]
        assert positions == sorted(positions)
        assert page.endswith("\n") and not page.endswith("\n\n")
        for example in query.examples:
            assert example.title in page
    (row,) = rows(load_queries(write(tmp_path, GOOD)))
    assert (row.id, row.verdict, row.examples) == ("area/name", "sm_12* blocked", 2)
