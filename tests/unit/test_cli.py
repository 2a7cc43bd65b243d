"""The front door of both commands: help, errors, exit codes, colour, files, completion."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from auditor import __version__
from auditor.arch import load_targets
from auditor.cli import groups, table
from auditor.cli.again import with_the_rest
from auditor.cli.clickrun import run
from auditor.cli.color import PLAIN_WIDTH, console, use_color
from auditor.cli.main import audit, patches, umbrella
from auditor.cli.output import render, write_bytes
from auditor.cli.progress import Progress, line
from auditor.cli.words import query_ids
from auditor.errors import UserError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGLANG_AUDITOR_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


def call(entry: Any, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", [entry.__name__, *words])
    return entry()


def program(code: str, *, stdin: Any = subprocess.DEVNULL, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        stdin=stdin,
    )


# --- the page that must be cheap


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from auditor.cli.main import audit; sys.argv = ['audit', '--help']; code = audit()\n"
        "heavy = {'libcst', 'rich', 'yaml', 'click', 'msgspec', 'subprocess', 'inspect'}\n"
        "print('loaded', sorted(heavy & set(sys.modules)), code)"
    )
    done = program(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "loaded [] 0"
    assert "usage: audit PROJECT [OPTIONS]" in done.stdout


def test_help_of_a_verb_imports_no_parser() -> None:
    code = (
        "import sys; from auditor.cli.main import audit\n"
        "sys.argv = ['audit', 'gate', '--help']; code = audit()\n"
        "heavy = {'libcst', 'rich', 'yaml', 'auditor.program', 'auditor.trees.git'}\n"
        "print('loaded', sorted(heavy & set(sys.modules)), code)"
    )
    done = program(code)
    assert done.stdout.splitlines()[-1] == "loaded [] 0", done.stderr


def test_fast_and_slow_help_are_the_same_page(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call(audit, monkeypatch, "--help") == 0
    fast = capsys.readouterr().out
    assert run(groups.audit, "audit", ["--help"]) == 0
    assert capsys.readouterr().out == fast


def test_no_words_is_a_usage_error_with_the_help(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call(audit, monkeypatch) == 2
    streams = capsys.readouterr()
    assert streams.out == "" and streams.err.startswith("Which code path")


@pytest.mark.parametrize("entry", [audit, patches, umbrella])
def test_version(entry: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert call(entry, monkeypatch, "--version") == 0
    assert capsys.readouterr().out == f"sglang-auditor {__version__}\n"


def test_help_names_every_exit_code() -> None:
    codes = [line.split()[0] for line in table.AUDIT.codes]
    assert codes == ["0", "1", "2", "3", "4", "130"]
    assert all(f"  {line}" in table.help_text(table.AUDIT) for line in table.AUDIT.codes)


def _commands() -> list[tuple[str, click.Command, click.Context]]:
    out = []
    for group in (groups.audit, groups.patches):
        top = click.Context(group, info_name=group.name)
        for name in group.list_commands(top):
            command = group.get_command(top, name)
            assert command is not None
            ctx = click.Context(command, info_name=name, parent=top)
            out.append((f"{group.name} {name}", command, ctx))
            if isinstance(command, click.Group):
                for inner, sub in command.commands.items():
                    out.append(
                        (f"{group.name} {name} {inner}", sub, click.Context(sub, info_name=inner, parent=ctx))
                    )
    return out


@pytest.mark.parametrize(("name", "command", "ctx"), _commands(), ids=[item[0] for item in _commands()])
def test_help_of_every_verb(name: str, command: click.Command, ctx: click.Context) -> None:
    lines = command.get_help(ctx).splitlines()
    assert len(lines) <= 46, "more than one screen"
    assert max(map(len, lines)) <= 110
    assert lines[0] and f"usage: {name}" in "\n".join(lines)
    assert "[OPTIONS] [OPTIONS]" not in "\n".join(lines)
    assert "?" in "".join(lines[:2]), "starts with the question it answers"
    assert max(len(line) for line in lines if not line.startswith("  audit ")) <= 85, "of 80 columns"
    examples = getattr(command, "examples", ())
    assert examples and all(f"  {text}" in lines for text in examples)
    assert any(text.startswith(name) or f"$({name}" in text for text in examples)


def test_every_project_of_the_data_is_a_command() -> None:
    assert "sglang" in table.AUDIT.project_names()
    ctx = click.Context(groups.audit, info_name="audit")
    command = groups.audit.get_command(ctx, "sglang")
    assert command is not None and command.name == "sglang"


# --- what can go wrong


def test_unknown_verb_suggests_the_near_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(groups.audit, "audit", ["tagets"]) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert (
        streams.err
        == "error[U002]: no such project or verb: 'tagets'\nhelp: audit targets\nhelp: audit --help\n"
    )


def test_unknown_verb_of_a_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(groups.umbrella, "sglang-auditor", ["audit", "cache", "inof"]) == 2
    assert "help: sglang-auditor audit cache info\n" in capsys.readouterr().err


def test_unknown_option_suggests_the_near_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(groups.audit, "audit", ["targets", "--fromat", "json"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error[U001]: no such option: --fromat\nhelp: audit targets --format\n")
    assert run(groups.audit, "audit", ["guard", "A", "B", "--html", "x.html"]) == 2
    assert "\nhelp: audit guard --format html --output FILE\n" in capsys.readouterr().err
    assert run(groups.audit, "audit", ["targets", "--zzz"]) == 2
    assert capsys.readouterr().err == "error[U001]: no such option: --zzz\nhelp: audit targets --help\n"


@pytest.mark.parametrize(
    ("words", "hints"),
    [
        ("sglang --model X", ["audit path --model", "audit sglang --help"]),
        ("path --model X --tp 2", ["audit path --assume arg.tp=VALUE        # an argument of the server"]),
        ("--release 0.5.20", ["audit sglang --release", "audit gate --release", "audit --help"]),
        ("path --release 0.5.20", ["audit path --model CLASS", "audit path --help"]),
        ("targets --hepl", ["audit targets --help"]),
        ("version", ["audit --version"]),
        ("sglang --version", ["audit --version", "audit sglang --help"]),
        ("query help", ["audit query --help"]),
    ],
)
def test_what_was_meant_by_an_option(
    words: str, hints: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(groups.audit, "audit", words.split()) == 2
    told = [line[6:] for line in capsys.readouterr().err.splitlines() if line.startswith("help: ")]
    assert told[: len(hints)] == hints
    assert len(set(told)) == len(told)


def test_what_was_meant_is_the_same_through_the_umbrella(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["audit", "sglang", "--model", "X"]
    assert run(groups.umbrella, "sglang-auditor", words) == 2
    assert "help: sglang-auditor audit path --model\n" in capsys.readouterr().err


def test_unknown_target_suggests_the_near_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(groups.audit, "audit", ["targets", "sm_12"]) == 2
    assert "error[E001]" in capsys.readouterr().err


@click.command()
@click.argument("what")
def failing(what: str) -> int:
    """Fails as told."""
    if what == "user":
        raise UserError("P014", "anchor matches 2 places", place="a.yaml:14", hints=["count: 2"], exit_code=3)
    if what == "bug":
        raise RuntimeError(f"secret of {os.path.expanduser('~')}/x\nsecond line")
    if what == "interrupt":
        raise KeyboardInterrupt
    if what == "abort":
        raise click.Abort
    if what == "pipe":
        raise BrokenPipeError
    if what == "full":
        raise OSError(28, "No space left on device", "x.json")
    return int(what)


@pytest.mark.parametrize(
    ("what", "code"), [("0", 0), ("1", 1), ("user", 3), ("interrupt", 130), ("abort", 130), ("full", 2)]
)
def test_exit_codes(what: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(failing, "failing", [what]) == code


def test_user_error_on_stderr_as_documented(capsys: pytest.CaptureFixture[str]) -> None:
    run(failing, "failing", ["user"])
    streams = capsys.readouterr()
    assert streams.out == ""
    assert streams.err == "error[P014]: anchor matches 2 places\n  a.yaml:14\nhelp: count: 2\n"


def test_error_is_coloured_only_when_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(groups.audit, "audit", ["targets", "sm_7", "--color=always"])
    assert "\x1b[1;31merror[E001]\x1b[0m" in capsys.readouterr().err
    monkeypatch.setenv("FORCE_COLOR", "1")
    run(groups.audit, "audit", ["targets", "sm_7", "--color", "never"])
    assert "\x1b" not in capsys.readouterr().err


def test_unexpected_exception_leaves_a_log_to_paste(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(failing, "failing", ["bug"]) == 4
    error = capsys.readouterr().err
    assert error.startswith("error[I001]: internal error: RuntimeError: secret of")
    assert "Traceback" not in error and len(error.splitlines()) == 3
    (log,) = (tmp_path / "cache" / "logs").iterdir()
    assert str(log) in error
    text = log.read_text()
    assert "RuntimeError" in text and f"sglang-auditor {__version__}" in text and "failing" not in sys.argv[0]
    home = os.path.expanduser("~")
    assert home not in text if len(home) > 1 else True


def test_internal_error_without_a_cache_shows_the_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SGLANG_AUDITOR_CACHE_DIR", str(tmp_path / "file" / "cache"))
    assert run(failing, "failing", ["bug"]) == 4
    assert "Traceback" in capsys.readouterr().err


def test_old_logs_are_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(failing, "failing", ["bug"])
    folder = tmp_path / "cache" / "logs"
    for at in range(30):
        (folder / f"error-2000-{at:02}.log").write_text("old")
    run(failing, "failing", ["bug"])
    assert len(list(folder.iterdir())) == 20


def test_a_closed_pipe_is_quiet() -> None:
    code = "import sys\nfrom auditor.cli.main import audit\n"
    code += "sys.argv = ['audit', 'targets', '-v']\nsys.exit(audit())"
    child = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout is not None and child.stderr is not None
    child.stdout.close()
    assert child.stderr.read() == b""
    child.stderr.close()
    assert child.wait() == 0


# --- colour and width


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("choice", "env", "terminal", "expected"),
    [
        ("auto", {}, True, True),
        ("auto", {}, False, False),
        ("auto", {"NO_COLOR": "1"}, True, False),
        ("auto", {"NO_COLOR": ""}, True, True),
        ("auto", {"FORCE_COLOR": "1"}, False, True),
        ("auto", {"FORCE_COLOR": "0"}, False, False),
        ("auto", {"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
        ("auto", {"TERM": "dumb"}, True, False),
        ("always", {"NO_COLOR": "1", "TERM": "dumb"}, False, True),
        ("never", {"FORCE_COLOR": "1"}, True, False),
    ],
)
def test_use_color(
    choice: str, env: dict[str, str], terminal: bool, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    stream = Terminal() if terminal else io.StringIO()
    assert use_color(choice, stream) is expected
    out = console(stream, choice)
    out.print("[x]", style="red")
    assert ("\x1b[" in stream.getvalue()) is expected
    assert "[x]" in stream.getvalue(), "text is never taken for markup"


def test_width_without_a_terminal_is_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert console(io.StringIO()).width == PLAIN_WIDTH
    monkeypatch.setenv("COLUMNS", "72")
    assert console(io.StringIO()).width == 72


# --- files


def test_output_replaces_the_file_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_bytes(b"old")
    path.chmod(0o640)
    write_bytes(b"new", str(path))
    assert path.read_bytes() == b"new" and path.stat().st_mode & 0o777 == 0o640
    assert [item.name for item in tmp_path.iterdir() if item.name != "cache"] == ["out.json"]


def test_output_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.json"
    path.write_bytes(b"old")

    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError) as caught:
        write_bytes(b"new", str(path))
    assert caught.value.code == "U004" and "no space left" in caught.value.fact
    assert path.read_bytes() == b"old"
    assert [item.name for item in tmp_path.iterdir() if item.name != "cache"] == ["out.json"]


def test_output_into_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        write_bytes(b"x", str(tmp_path / "no" / "out.json"))
    assert caught.value.code == "U004" and caught.value.place == str(tmp_path / "no" / "out.json")


def test_output_follows_a_link_to_a_file(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write_bytes(b"new", str(tmp_path / "link"))
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_bytes() == b"new"


def test_a_page_in_a_file_has_no_colour_and_a_fixed_width(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    render(lambda out: out.print("x" * 200, style="red"), str(tmp_path / "page"), "auto", rich=True)
    lines = (tmp_path / "page").read_text().splitlines()
    assert [len(text) for text in lines] == [PLAIN_WIDTH, 200 - PLAIN_WIDTH]


# --- verbs that need no tree


def test_targets_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(groups.audit, "audit", ["targets", "100,120"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["sm_100", "sm_120"]
    row = {text.split()[0]: text.split()[1:] for text in lines if text.strip()}
    assert row["capability"] == ["10.0", "12.0"]
    assert row["smem_per_block"] == ["227", "KiB", "99", "KiB"]
    assert row["tcgen05"][-1] == "-"


@pytest.mark.parametrize("width", ["60", "80", "110"])
def test_targets_page_keeps_words_whole_at_any_width(
    width: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    assert run(groups.audit, "audit", ["targets", "-v"]) == 0
    lines = capsys.readouterr().out.splitlines()
    heads = [line.split() for line in lines if line.lstrip().startswith("sm_") and "  sm_" in line]
    assert [name for names in heads for name in names] == list(load_targets())
    assert len(heads) == {"60": 3, "80": 2, "110": 1}[width]
    assert sum(line.split().count("Blackwell") for line in lines if line.startswith("generation")) == 5
    assert "    guide: maximum number of 32-bit registers per thread" in lines


def test_targets_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(groups.audit, "audit", ["targets", "sm_121", "--format", "json"]) == 0
    text = capsys.readouterr().out
    data = json.loads(text)
    (row,) = data["targets"]
    assert (row["name"], row["capability"]) == ("sm_121", "12.1")
    assert row["limits"]["smem_per_block"]["value"] == 101376
    assert all(fact["source"] for fact in row["features"].values())
    out = tmp_path / "t.json"
    assert run(groups.audit, "audit", ["targets", "sm_121", "--format", "json", "--output", str(out)]) == 0
    assert out.read_text() == text


def test_cache_info_and_clear(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    assert run(groups.audit, "audit", ["cache", "info"]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == ["empty"]
    from auditor.trees.cache import store_bytes

    assert store_bytes("facts", "k", b"x" * 3000)
    assert run(groups.audit, "audit", ["cache", "info"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "at most 2.0 GiB of facts" in lines[1]
    assert lines[2].split()[:3] == ["facts", "1", "files"]
    assert run(groups.audit, "audit", ["cache", "clear"]) == 0
    assert "cleared 2.9 KiB" in capsys.readouterr().out
    assert not (tmp_path / "cache" / "facts").exists()


def test_cache_clear_refuses_a_folder_that_is_no_cache(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home" / "precious"
    home.mkdir(parents=True)
    (home / "thesis").write_text("x")
    monkeypatch.setenv("SGLANG_AUDITOR_CACHE_DIR", str(tmp_path / "home"))
    assert run(groups.audit, "audit", ["cache", "clear", "--yes"]) == 2
    assert "error[U008]" in capsys.readouterr().err
    assert (home / "thesis").read_text() == "x"


# --- completion


def complete(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    monkeypatch.setenv("_AUDIT_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", " ".join(("audit", *words)))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    assert run(groups.audit, "audit", []) == 0
    return [text.partition(",")[2] for text in capsys.readouterr().out.splitlines() if text]


def test_completion_of_words(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert complete(monkeypatch, capsys, "p") == ["path", "predicates"]
    assert complete(monkeypatch, capsys, "sgl") == ["sglang"]
    assert complete(monkeypatch, capsys, "sglang", "--target", "sm_12") == ["sm_120", "sm_121"]
    assert complete(monkeypatch, capsys, "sglang", "--target", "sm_120,sm_12") == ["sm_120,sm_121"]
    assert complete(monkeypatch, capsys, "sglang", "--against", "sm_10") == ["sm_100", "sm_103"]
    assert complete(monkeypatch, capsys, "sglang", "--fail-on", "dead") == ["dead-arm"]
    assert complete(monkeypatch, capsys, "sglang", "--assume", "de") == ["dep."]
    assert complete(monkeypatch, capsys, "query", "sh") == ["show"]
    assert complete(monkeypatch, capsys, "sglang", "--allow") == ["--allow-fetch"]
    assert complete(monkeypatch, capsys, "query", "show", "") == list(query_ids())


def test_completion_of_patchsets_and_patches(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from auditor.cli.groups import patches

    def words(*line: str) -> list[str]:
        monkeypatch.setenv("_PATCHES_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", " ".join(("patches", *line)))
        monkeypatch.setenv("COMP_CWORD", str(len(line)))
        assert run(patches, "patches", []) == 0
        monkeypatch.delenv("_PATCHES_COMPLETE")
        return [row.partition(",")[2] for row in capsys.readouterr().out.splitlines() if row]

    monkeypatch.chdir(tmp_path)
    mine = tmp_path / "patchsets" / "mine"
    mine.mkdir(parents=True)
    order = "title: t\nupstreams: {sglang: {}}\norder: [alpha, beta, alpine]\n"
    (mine / "patchset.yaml").write_text(order)
    for verb in (
        "status",
        "show",
        "apply",
        "revert",
        "rebase",
        "verify",
        "lock",
        "explain",
        "export",
        "lint",
    ):
        assert words(verb, "min") == ["mine"], verb
    for verb in ("show", "apply", "revert", "explain"):
        assert words(verb, "mine", "al") == ["alpha", "alpine"], verb
    assert words("apply", "mine", "alpha", "al") == ["alpine"]
    assert words("show", "none", "al") == []
    assert complete(monkeypatch, capsys, "guard", "a", "b", "--patchset", "min") == ["mine"]
    assert complete(monkeypatch, capsys, "gate", "moe/mxfp4-l") == ["moe/mxfp4-layout"]


def test_completion_never_breaks_a_prompt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "sglang" in complete(monkeypatch, capsys, "nonsense", "--target", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(groups.audit, "audit", ["completion", shell]) == 0
    text = capsys.readouterr().out
    assert all(f"_{name}_COMPLETE=" in text for name in ("AUDIT", "PATCHES", "SGLANG_AUDITOR"))


def test_completion_needs_a_shell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    assert run(groups.audit, "audit", ["completion"]) == 2
    assert "help: audit completion bash" in capsys.readouterr().err


# --- progress


def test_progress_is_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    now = [0.0]
    monkeypatch.setattr("auditor.cli.progress.time.monotonic", lambda: now[0])
    with Progress() as progress:
        progress("reading", 1, 4)
        assert screen.getvalue() == "", "nothing before half a second"
        now[0] = 0.6
        progress("reading", 2, 4)
        progress("reading", 3, 4)
    assert screen.getvalue() == "\r\x1b[Kreading [############............]  50%\r\x1b[K"


@pytest.mark.parametrize("env", [{"CI": "1"}, {"TERM": "dumb"}])
def test_no_progress_in_ci(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert Progress().enabled
    assert not Progress(quiet=True).enabled
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert not Progress().enabled


def test_progress_line() -> None:
    assert line("downloading", 0, 0) == "downloading …"
    assert line("reading", 1200, 0) == "reading 1,200"
    assert line("x", 9, 3).endswith("100%")


def test_click_runner_sees_the_same_program() -> None:
    done = CliRunner().invoke(groups.audit, ["targets", "sm_120", "--format", "json"])
    assert done.exit_code == 0 and json.loads(done.stdout)["targets"][0]["name"] == "sm_120"


# --- the ends of a stream


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize("words", ["--help", "--version", "targets", "query list"])
def test_a_full_disk_behind_stdout_is_one_error(words: str) -> None:
    code = f"import sys; sys.argv = ['audit', *{words.split()!r}]"
    code += "\nfrom auditor.cli.main import audit\nexit(audit())"
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 2
    assert done.stderr.startswith("error[U003]: ") and "Traceback" not in done.stderr


@pytest.mark.parametrize("words", ["--help", "targets", "nope"])
def test_a_closed_stdout_is_no_internal_error(words: str) -> None:
    code = f"import sys; sys.stdout = None; sys.argv = ['audit', {words!r}]"
    code += "\nfrom auditor.cli.main import audit\nexit(audit())"
    done = program(code)
    assert done.returncode == (2 if words == "nope" else 0)
    assert "I001" not in done.stderr and "Traceback" not in done.stderr


def test_an_interrupt_while_modules_are_imported_leaves_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from auditor.cli import main

    def interrupted(*_words: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "_run", interrupted)
    assert call(audit, monkeypatch, "targets") == 130
    assert capsys.readouterr().err == "interrupted\n"


#: A project with one gate, what is changed in it, and the lines below that say something on both streams.
STREAMS = {
    "targets": ["targets"],
    "a note": ["query", "lint"],
    "an error": ["targetz"],
}


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("end", ["2>/dev/full", "2>&-", "1>&- 2>&-", "0<&- 1>&- 2>&-"])
def test_what_standard_error_is_changes_no_exit_code(name: str, end: str, tmp_path: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    code = "import sys; from auditor.cli.main import audit; sys.argv[0] = 'audit'; exit(audit())"
    words = [sys.executable, "-c", code, *STREAMS[name]]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["sh", "-c", f'"$@" {end}', "sh", *words], env=env, cwd=tmp_path, capture_output=True
    )
    assert done.returncode == (2 if name == "an error" else 0)
    assert done.stderr == b""
    assert bool(done.stdout) == ("1>&-" not in end and name == "targets")
    assert all(path.name == "cache" for path in tmp_path.iterdir()), "nothing of it went into a file"


def test_a_file_that_is_opened_does_not_become_standard_error(tmp_path: Path) -> None:
    """With number 2 free, the next file opened would get it, and children would write into that file."""
    lines = [
        "import os; from auditor.cli.streams import ready_streams",
        f"with ready_streams(): os._exit(open({str(tmp_path / 'x')!r}, 'w').fileno())",
    ]
    code = "\n".join(lines)
    done = subprocess.run(["sh", "-c", '"$@" 0<&- 1>&- 2>&-', "sh", sys.executable, "-c", code], cwd=ROOT)
    assert done.returncode >= 3


def test_a_full_standard_output_is_named(tmp_path: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    code = "import sys; from auditor.cli.main import audit; sys.argv = ['audit', 'targets']; exit(audit())"
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert done.stderr == b"error[U003]: cannot write to standard output: no space left on device\n"


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_request_to_end_is_an_interrupt(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    import signal

    from auditor.cli.run import guarded

    number = getattr(signal, name)
    cleaned = []

    def work() -> int:
        try:
            os.kill(os.getpid(), number)
            return 0
        finally:
            cleaned.append(True)

    assert guarded(work, []) == 130 and cleaned
    assert capsys.readouterr().err == "interrupted\n"
    assert signal.getsignal(number) == signal.SIG_DFL


def test_nested_too_deeply_is_one_error(capsys: pytest.CaptureFixture[str]) -> None:
    from auditor.cli.run import guarded

    def deep() -> int:
        return deep()

    assert guarded(deep, []) == 2
    assert capsys.readouterr().err == (
        "error[I003]: something in the input is nested too deeply to be followed\n"
    )


@pytest.mark.parametrize(
    ("code", "hint", "typed", "said"),
    [
        (
            "U014",
            "audit path --model A",
            "path --model B --target sm_121 --release=0.5.20 --assume env.X=a -v --output f",
            "audit path --model A --target sm_121 --release=0.5.20 --assume env.X=a",
        ),
        ("U012", "audit gate f", "gate g --installed --target all", "audit gate f --installed --target all"),
        ("U012", "audit gate f", "gate g --installed '/a b'", "audit gate f --installed '/a b'"),
        (
            "H022",
            "audit history a1    # x.py:3",
            "history x --repo c",
            "audit history a1 --repo c    # x.py:3",
        ),
        (
            "H001",
            "audit diff A --commit b",
            "diff A --path p --defaults",
            "audit diff A --commit b --defaults",
        ),
        ("U012", "audit predicates", "gate g --release 0.5.20", "audit predicates"),
        ("U001", "audit gate f", "gate g --release 0.5.20", "audit gate f"),
    ],
)
def test_a_hint_keeps_the_rest_of_what_was_typed(code: str, hint: str, typed: str, said: str) -> None:
    error = UserError(code, "fact", hints=[hint], exit_code=3)
    for words in (shlex.split(typed), ["audit", *shlex.split(typed)]):
        found = with_the_rest(error, words)
        assert (found.hints, found.code, found.exit_code) == ((said,), code, 3)
