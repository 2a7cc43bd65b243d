"""The bring-up dossier on a small project: each of its parts by itself, and the whole."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import pathtree  # noqa: E402

from auditor.errors import UserError  # noqa: E402
from auditor.gates.audit import AuditOptions
from auditor.gates.path import bringup as path_module  # noqa: E402
from auditor.gates.path.choice import (  # noqa: E402
    Factory,
    argument_facts,
    layer_facts,
    registered,
    runner_facts,
    table_entry,
)
from auditor.gates.path.model import Dossier, GateNote, Place, Refusal  # noqa: E402
from auditor.gates.path.models import _called, entries, find_model  # noqa: E402
from auditor.gates.path.packages import (  # noqa: E402
    header_requirements,
    pins,
    requirements,
    toml_requirements,
)
from auditor.gates.path.places import Arguments, flag_defaults, readers, symbol_at  # noqa: E402
from auditor.gates.path.transfer import disaggregation  # noqa: E402
from auditor.gates.path.walk import opposite  # noqa: E402
from auditor.gates.reading import build_program, source_files
from auditor.program.values import Unknown  # noqa: E402
from auditor.reporting import pathjson, pathpage  # noqa: E402

SCHEMA = Path(__file__).parents[2] / "reports" / "schema" / "path-1.json"
SM_120 = 7


def program(tree: Any = None) -> Any:
    root, files, _problems = source_files(tree or pathtree.tree(), pathtree.profile())
    return build_program(files, root, pathtree.profile(), {}, True)


# --- 1 models


def test_entries_are_read_from_the_text_of_every_module() -> None:
    known = entries(program(), pathtree.profile())
    assert known == {
        "BirdForCausalLM": "example/models/bird.py",
        "BirdForCausalLMDraft": "example/models/bird_draft.py",
        "FishModel": "example/models/others.py",
        "WhaleModel": "example/models/others.py",
    }


def test_a_model_with_its_draft_its_parts_and_the_places_that_name_it() -> None:
    model = find_model(program(), pathtree.profile(), "BirdForCausalLM")
    assert (model.main.place.path, model.main.place.line, model.main.lines) == (
        "example/models/bird.py",
        27,
        32,
    )
    assert [(v.name, v.bases) for v in model.variants] == [("BirdForCausalLMDraft", ("BirdForCausalLM",))]
    assert [(p.path, p.line) for p in model.main.named_at] == [("example/config.py", 1)]
    assert [(layer.name, layer.built_by, layer.built_at.symbol) for layer in model.layers] == [
        ("ManyExperts", "Wing", "Wing.__init__"),
        ("Experts", "Wing", "Wing.__init__"),
        ("Rows", "Block", "Block.__init__"),
        ("Mix", "Block", "Block.build"),
        ("Attend", "Block", "Block.build"),
    ]
    assert [layer.name for layer in model.classes] == ["Wing", "Block"]


def test_an_unknown_model_gets_near_names() -> None:
    with pytest.raises(UserError) as caught:
        find_model(program(), pathtree.profile(), "BirdForCasualLM")
    assert caught.value.code == "U014" and caught.value.exit_code == 2
    assert caught.value.hints[0] == "audit path --model BirdForCausalLM"
    with pytest.raises(UserError) as caught:
        find_model(program(), pathtree.profile(), "zzzz")
    assert caught.value.hints == ("audit path --model BirdForCausalLM",)


def test_the_name_of_a_checkpoint_leads_to_its_class() -> None:
    known = ["Llama4ForCausalLM", "LlamaForCausalLM", "LlamaForCausalLMDraft", "QwenForCausalLM"]
    assert _called("org/Llama-3-8B", known) == [
        "LlamaForCausalLM",
        "Llama4ForCausalLM",
        "LlamaForCausalLMDraft",
    ]
    assert _called("LLAMA-4-Scout", known) == ["Llama4ForCausalLM"]
    assert _called("Gemma", known) == []


# --- 3 and 4 choices


def test_a_registered_factory_leads_to_the_classes_it_may_return() -> None:
    here = program()
    function = registered(here, "example.backends.registry", "register", "tiles")
    assert function is not None and function.name == "tiles"
    everything = Factory(here, SM_120).outcomes(function)
    assert [(o.name, o.when) for o in everything] == [
        ("HugeTiles", ("is_huge()",)),
        ("WideTiles", ("not is_huge()", "runner.wide")),
        ("FlatTiles", ("not is_huge()", "not runner.wide", "runner.flat")),
        ("Tiles", ("not is_huge()", "not runner.wide", "not runner.flat")),
    ]
    facts = argument_facts(here, {"backend": "tiles"}.__getitem__)
    found = Factory(here, SM_120, facts).outcomes(function)
    assert [(o.name, o.when, o.chosen_at.symbol) for o in found] == [
        ("WideTiles", ("runner.wide",), "make"),
        ("FlatTiles", ("not runner.wide", "runner.flat"), "make"),
        ("Tiles", ("not runner.wide", "not runner.flat"), "make"),
    ]
    assert found[2].place is not None and found[2].place.line == 7
    assert registered(here, "example.backends.registry", "register", "none") is None
    assert registered(here, "example.nowhere", "register", "tiles") is None


@pytest.mark.parametrize(
    ("runner", "wanted"),
    [
        ("pebble", [("PlainMethod", 1), ("SmallMethod", 2), ("WholeMethod", 2)]),
        ("rock", [("PlainMethod", 1), ("SmallMethod", 2), ("WholeMethod", 2)]),
        ("auto", [("PlainMethod", 1), ("WholeMethod", 1)]),
        (None, [("PlainMethod", 1), ("SmallMethod", 2), ("WholeMethod", 2)]),
    ],
)
def test_the_method_of_an_expert_layer_depends_on_the_runner(
    runner: str | None, wanted: list[tuple[str, int]]
) -> None:
    here = program()
    row = table_entry(here, "example.methods", "TABLE", "small", SM_120)
    assert row is not None and row[0].name == "SmallConfig"
    facts = runner_facts(here, "example.methods", "Runner", ("current",), runner, SM_120)
    method = row[0].find("method")[1]
    found = Factory(here, SM_120, layer_facts(("Experts",), facts)).outcomes(method)
    assert [(o.name, len(o.when)) for o in found] == wanted
    shown = pathpage.usual(found)
    assert [o.name for o, _when in shown] == [name for name, _count in wanted[1:]]
    if runner == "pebble":
        assert [when for _o, when in shown] == [("self.small",), ("not self.small",)]


def test_a_row_that_another_target_adds_is_not_taken() -> None:
    here = program()
    assert table_entry(here, "example.methods", "TABLE", "card", SM_120) is not None
    assert table_entry(here, "example.methods", "TABLE", "card", 0) is None
    assert table_entry(here, "example.methods", "TABLE", "unheard", SM_120) is None


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a", "not a"),
        ("not a", "a"),
        ("a.b()", "not a.b()"),
        ("a and b", "not (a and b)"),
        ("x == 1", "not (x == 1)"),
    ],
)
def test_the_opposite_of_a_condition(text: str, wanted: str) -> None:
    assert opposite(text) == wanted


# --- 2 flags and arguments


def test_readers_are_reads_not_messages_comments_or_settings() -> None:
    here = program()
    found = readers(here, ["FAST_PATH", "SPARE"])
    assert [(p.path, p.line, p.symbol) for p in found["FAST_PATH"]] == [("example/uses.py", 3, "")]
    assert [(p.path, p.line, p.symbol) for p in found["SPARE"]] == [("example/uses.py", 10, "f")]
    defaults = flag_defaults(here, pathtree.profile(), ["FAST_PATH", "nothing"])
    assert {name: (d.value, d.place.line if d.place else 0) for name, d in defaults.items()} == {
        "FAST_PATH": ("True", 26)
    }


def test_arguments_know_their_defaults_where_they_are_declared() -> None:
    here = program()
    arguments = Arguments(here, pathtree.profile())
    assert arguments.get("experts").value == "'auto'"
    assert arguments.get("nothing").place is None
    place = arguments.get("transfer").place
    assert place is not None and (place.path, place.line, place.symbol) == (
        "example/options.py",
        13,
        "Options",
    )
    assert symbol_at(here, "example/options.py", 27) == "Options.fit"
    assert symbol_at(here, "example/options.py", 4) == ""


# --- 5 packages


def test_dependencies_of_a_project_file_with_lines_and_extras() -> None:
    found = toml_requirements(pathtree.FILES["pyproject.toml"], "pyproject.toml")
    assert [(r.name, r.version, r.extra, r.place.line) for r in found] == [
        ("numpy", None, "", 7),
        ("torch", "2.9.1", "", 7),
        ("flash-infer", "0.6.1", "", 8),
        ("tiles-dsl", None, "", 9),
        ("cargo-engine", "3", "far", 13),
    ]


def test_dependencies_of_an_installed_copy_end_where_its_description_starts() -> None:
    text = (
        "Metadata-Version: 2.4\nName: example\nRequires-Dist: torch==2.9.1\n"
        'Requires-Dist: Flash_Infer[cu13]==0.6.1; extra == "all"\n\nRequires-Dist: not-this==1\n'
    )
    found = header_requirements(text, "x")
    assert [(r.name, r.version, r.extra, r.place.line) for r in found] == [
        ("torch", "2.9.1", "", 3),
        ("flash-infer", "0.6.1", "all", 4),
    ]


def test_pins_are_those_of_the_profile_that_somebody_asks_for() -> None:
    tree = pathtree.tree()
    stated = requirements(tree, pathtree.profile(), "")
    assert [(p.name, p.version, p.extra) for p in pins(stated, pathtree.profile(), ())] == [
        ("torch", "2.9.1", ""),
        ("flash-infer", "0.6.1", ""),
        ("tiles-dsl", None, ""),
        ("cargo-engine", "3", "far"),
    ]


# --- 6 transfer


def test_what_the_transfer_needs_by_hand_and_what_is_checked() -> None:
    here = program()
    profile = pathtree.profile()
    stated = requirements(pathtree.tree(), profile, "")
    part = disaggregation(here, profile, Arguments(here, profile), stated, None)
    assert part.transfer.value == "'cargo'"
    assert [(c.backends, c.place.line, c.place.symbol) for c in part.checks] == [
        (("cargo",), 31, "Options.check")
    ]
    assert [(f.name, f.value) for f in part.flags] == [("SLOW_PATH", "False")]
    assert [(h.backend, h.install, [(p.line, p.symbol) for p in h.imported_at]) for h in part.by_hand] == [
        ("zip", "pip install zip-wire", [(3, "connect")])
    ]
    assert part.advice == "pip install zip-wire · --transfer zip"


# --- the whole


@pytest.fixture(scope="module")
def started() -> Dossier:
    return make_dossier()


def make_dossier(tree: Any = None, **options: Any) -> Dossier:
    given = AuditOptions(
        targets=("sm_120",),
        profile=pathtree.profile(),
        project="example",
        queries=(),
        use_cache=False,
        **options,
    )
    return path_module.dossier(tree or pathtree.tree(), "BirdForCausalLM", given)


def test_what_the_start_leaves(started: Dossier) -> None:
    (start,) = started.starts
    told = {a.name: (a.value, a.default, a.reference, a.source) for a in start.arguments}
    assert told == {
        "backend": ("'tiles'", "'auto'", "'tiles'", "start"),
        "experts": ("'pebble'", "'auto'", "'auto'", "start"),
        "quant": ("'small'", "None", "'small'", "checkpoint"),
        "wires": ("None", "None", "None", "start"),
    }
    assert [(f.name, f.value, f.overrides, f.only_here, f.default) for f in start.flags] == [
        ("FAST_PATH", "False", True, True, "True"),
        ("SPARE", "True", False, True, "False"),
    ]
    assert [(p.path, p.line) for p in start.flags[0].readers] == [("example/uses.py", 3)]


def test_gates_behind_the_choices(started: Dossier) -> None:
    (start,) = started.starts
    (attention,) = start.attention
    assert attention.value == "'tiles'" and attention.entry is not None and attention.entry.line == 22
    assert [(n.verdict, n.place.path, n.place.line) for n in attention.gates] == [
        ("workaround", "example/backends/tiles.py", 9),
        ("blocked", "example/kernels.py", 9),
    ]
    assert start.experts is not None and start.experts.quantization == "'small'"
    assert start.experts.config is not None
    assert [o.name for o in start.experts.outcomes] == ["PlainMethod", "SmallMethod", "WholeMethod"]
    assert [n.place.symbol for n in start.experts.gates] == ["SmallMethod.load", ""]


def test_the_json_fits_the_published_schema_and_repeats(started: Dossier) -> None:
    assert SCHEMA.read_bytes() == pathjson.path_schema()
    schema = json.loads(SCHEMA.read_bytes())
    jsonschema.Draft202012Validator.check_schema(schema)
    data = pathjson.dumps(started)
    jsonschema.Draft202012Validator(schema).validate(json.loads(data))
    assert data == pathjson.dumps(make_dossier())
    wrong = json.loads(data)
    wrong["starts"][0]["attention"][0]["gates"][0]["verdict"] = "perhaps"
    assert not jsonschema.Draft202012Validator(schema).is_valid(wrong)


def test_one_screen(started: Dossier) -> None:
    page = drawn(started)
    lines = page.splitlines()
    assert max(len(line) for line in lines) <= 80 and len(lines) <= 45
    for text in (
        "backend auto → tiles",
        "experts auto → pebble options.py:25 (sm_100: auto)",
        "quant small (what the public checkpoint says)",
        "forced off, whatever you set: FAST_PATH options.py:26",
        "set on, unless you set it: SPARE options.py:28",
        "torch 2.9.1",
        "without InfiniBand: pip install zip-wire · --transfer zip",
    ):
        assert text in " ".join(page.split()), text
    deep = drawn(started, verbose=1)
    assert len(deep.splitlines()) > len(lines)
    assert "example/uses.py:3" in deep or "uses.py:3" in deep


def drawn(report: Dossier, verbose: int = 0) -> str:
    import io

    from rich.console import Console

    out = io.StringIO()
    pathpage.render(report, Console(file=out, width=80, no_color=True), verbose=verbose)
    return out.getvalue()


def test_the_answer_stands_first() -> None:
    report = make_dossier()
    (start,) = report.starts
    page = drawn(report)
    assert page.index("in short") < page.index("1 model")
    assert f"nothing in the start surely refuses on {start.target}" in page
    assert "memory, speed and numbers are not looked at" in page
    refusing = msgspec.structs.replace(start, refusals=(Refusal("raises X", True, Place("a.py", 3)),))
    page = drawn(msgspec.structs.replace(report, starts=(refusing,)))
    assert f"the start refuses on {start.target}: raises X a.py:3" in page
    lost = msgspec.structs.replace(report, followed=False, starts=(refusing,))
    assert "the start refuses" in drawn(lost), "what is sure is told, followed or not"
    maybe = msgspec.structs.replace(start, refusals=(Refusal("raises X", False, Place("a.py", 3)),))
    assert "1 place may" in drawn(msgspec.structs.replace(report, starts=(maybe,)))


def test_what_can_stop_behind_the_choices_is_counted_once() -> None:
    report = make_dossier()
    (start,) = report.starts
    stop = GateNote("id", "blocked", Place("a.py", 3), "test", "true")
    choice = msgspec.structs.replace(start.attention[0], value=None, gates=(stop,))
    start = msgspec.structs.replace(start, attention=(choice, choice), experts=None)
    page = drawn(msgspec.structs.replace(report, starts=(start,)))
    words = " ".join(page.split())
    assert "1 gate behind attention and experts can stop a server" in words
    assert f"settle it: --assume arg.{choice.argument}=VALUE" in words


def test_a_given_argument_wins() -> None:
    report = make_dossier(assumptions={"arg.experts": "rock"})
    (start,) = report.starts
    experts = next(a for a in start.arguments if a.name == "experts")
    assert (experts.value, experts.source) == ("'rock'", "user")


def test_a_given_argument_that_is_lost() -> None:
    report = make_dossier(
        assumptions={"arg.backend": "bricks"}, tree=pathtree.tree(example__options=STUBBORN)
    )
    backend = next(a for a in report.starts[0].arguments if a.name == "backend")
    assert (backend.value, backend.source, backend.given) == ("'tiles'", "start", "bricks")
    assert "backend bricks (given) is overwritten: tiles options.py:22" in " ".join(drawn(report).split())


#: The same options, but one does not ask what the user chose.
STUBBORN = pathtree.FILES["example/options.py"].replace(
    'if self.backend == "auto":', "if self.workers_wanted():", 1
)
STUBBORN = STUBBORN.replace(
    "    def check(self):", "    def workers_wanted(self):\n        return True\n\n    def check(self):"
)


def test_a_profile_without_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    import msgspec

    bare = msgspec.structs.replace(pathtree.profile(), start=None)
    with pytest.raises(UserError) as caught:
        path_module.dossier(
            pathtree.tree(), "BirdForCausalLM", AuditOptions(targets=("sm_120",), profile=bare)
        )
    assert caught.value.code == "U015"


def test_an_open_value_shows_its_options(started: Dossier) -> None:
    assert path_module.shown(Unknown(frozenset({"x"}), ("a", "b"))) is None
    assert path_module.shown("a") == "'a'"


# --- the command


@pytest.fixture
def audit(monkeypatch: pytest.MonkeyPatch) -> Any:
    from contextlib import contextmanager

    from auditor.cli import groups
    from auditor.cli.audit import path as audit_path
    from auditor.cli.clickrun import run

    @contextmanager
    def opened(_request: Any) -> Any:
        yield pathtree.tree()

    monkeypatch.setattr(audit_path, "opened", opened)
    monkeypatch.setattr(path_module, "load_profile", lambda _name: pathtree.profile())
    monkeypatch.setattr(path_module, "query_findings", lambda *_a: [])
    return lambda *words: run(groups.audit, "audit", ["path", *words])


def test_the_command_prints_json_and_says_by_its_code_what_it_found(
    audit: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert audit("--model", "BirdForCausalLM", "--format", "json", "-q") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["$schema"] == pathjson.SCHEMA_ID and data["starts"][0]["target"] == "sm_120"
    assert audit("--model", "BirdForCausalLM", "-q", "--fail-on", "env-forced") == 1
    assert "forced off" in capsys.readouterr().out
    target = tmp_path / "page.txt"
    words = ("--target", "sm_90,sm_121", "--output", str(target), "-q", "--fail-on", "env-forced")
    assert audit("--model", "BirdForCausalLM", *words) == 1
    page = target.read_text()
    assert "2 arguments 90" in page and "3 attention 121" in page
    assert audit("--model", "BrdForCausalLM") == 2
    assert "help: audit path --model BirdForCausalLM" in capsys.readouterr().err


def test_nothing_is_claimed_where_the_start_could_not_be_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    from auditor.program.startup import Startup

    monkeypatch.setattr(path_module, "run_startup", lambda _p, _m: Startup())
    report = make_dossier(assumptions={"arg.experts": "rock"})
    assert not report.followed
    told = {a.name: (a.value, a.source) for a in report.starts[0].arguments}
    assert told["backend"] == (None, "start")
    assert told["experts"] == ("'rock'", "user")
    assert told["quant"] == ("'small'", "checkpoint")
    assert "could not be followed" in drawn(report)
