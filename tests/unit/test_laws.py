"""Laws of the code base that no type checker knows."""

from __future__ import annotations

import ast
import re
import subprocess
import tokenize
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "auditor").rglob("*.py"))
SOURCES = [path for path in SOURCES if "_data" not in path.parts]

#: The family of names by which the audited project asks for a GPU. The vocabulary is learned, never listed.
PREDICATE = re.compile(r"is_(sm_?\d+|blackwell|hopper|ampere|ada|turing|hip|cuda)(_|\b)", re.IGNORECASE)


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes(), str(path))


def predicate_words(path: Path) -> list[str]:
    """Lines of a module that spell an upstream predicate, in code, text or comment."""
    lines = enumerate(path.read_text(encoding="utf-8").split("\n"), 1)
    return [f"{_name(path)}:{at}: {line.strip()}" for at, line in lines if PREDICATE.search(line)]


def test_no_predicate_of_the_audited_project_is_named() -> None:
    assert [hit for path in SOURCES for hit in predicate_words(path)] == []


@pytest.mark.parametrize(
    ("code", "hits"),
    [
        ("x = is_sm120_supported()", 1),
        ("NAMES = ['is_blackwell']", 1),
        ("x = target.is_sm_90", 1),
        ("def f():\n    '''Such as is_sm100_supported().'''", 1),
        ("x = history  # is_sm100", 1),
        ("x = 'sm_120'", 0),
        ("x = history", 0),
    ],
)
def test_the_law_would_see_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, hits: int) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    (tmp_path / "x.py").write_text(code)
    assert len(predicate_words(tmp_path / "x.py")) == hits


def exits_and_prints(tree: ast.AST) -> list[int]:
    """Lines that print or end the process."""
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in ("print", "exit", "quit", "sys.exit", "os._exit", "os.abort"):
                lines.append(node.lineno)
            if name in ("os.system", "os.popen", "os.execv", "os.execvp", "os.fork", "os.posix_spawn"):
                lines.append(node.lineno)
        elif isinstance(node, ast.Raise) and node.exc is not None:
            if ast.unparse(node.exc).startswith("SystemExit"):
                lines.append(node.lineno)
        elif isinstance(node, ast.Attribute) and ast.unparse(node) in ("sys.stdout", "sys.stderr"):
            lines.append(node.lineno)
    return sorted(lines)


def test_nothing_below_cli_prints_exits_or_starts_programs() -> None:
    below = [path for path in SOURCES if "cli" not in path.parts and path.name != "__main__.py"]
    assert below
    assert {_name(p): exits_and_prints(_parsed(p)) for p in below if exits_and_prints(_parsed(p))} == {}


def test_a_print_would_be_seen() -> None:
    code = "import sys\nprint(1)\nsys.exit(2)\nraise SystemExit(3)\nsys.stderr.write('x')\nfingerprint(1)\n"
    assert exits_and_prints(ast.parse(code)) == [2, 3, 4, 5]


#: A reference to a part of the project, as docstrings write it: ``:func:`auditor.room.module.name```.
REFERENCE = re.compile(r":(?:mod|func|class|meth|data):`~?(auditor(?:\.\w+)+)`")


def nowhere(name: str) -> bool:
    """Whether a dotted name is neither a module nor a name that one binds at its top or in a class."""
    parts = name.split(".")
    for size in range(len(parts), 0, -1):
        stem = ROOT.joinpath(*parts[:size])
        path = stem.with_suffix(".py") if stem.with_suffix(".py").is_file() else stem / "__init__.py"
        if path.is_file():
            body: list[ast.stmt] = _parsed(path).body
            for part in parts[size:]:
                nodes = [n for n in body if part in _bound(n)]
                if not nodes:
                    return True
                body = getattr(nodes[0], "body", [])
            return False
    return True


def _bound(node: ast.stmt) -> set[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {alias.asname or alias.name for alias in node.names}
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def test_what_a_docstring_refers_to_is_there() -> None:
    named = {(_name(path), name) for path in SOURCES for name in REFERENCE.findall(path.read_text("utf-8"))}
    assert len(named) > 20
    assert sorted(pair for pair in named if nowhere(pair[1])) == []


def test_a_reference_to_nothing_would_be_seen() -> None:
    assert not nowhere("auditor.errors") and not nowhere("auditor.errors.UserError")
    assert (
        nowhere("auditor.errors.Gone")
        and nowhere("auditor.gone")
        and nowhere("auditor.errors.UserError.gone")
    )


def _tracked() -> list[Path]:
    try:
        listed = subprocess.run(
            ["git", "-c", "safe.directory=*", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.decode().split("\0") if name]


#: A folder of one machine, or the host of a package index: neither means anything elsewhere.
MACHINE = re.compile(
    rb"(?<![\w./-])/(?:work|root|home/\w+|Users/\w+|tmp/\w+)(?=/)|\bpypi\.(?:org|python)|files\.pythonhosted"
)


def test_tracked_files_name_no_machine() -> None:
    own = Path(__file__)
    hits = []
    for path in _tracked():
        if path == own or not path.is_file() or path.is_symlink():
            continue
        for at, line in enumerate(path.read_bytes().split(b"\n"), 1):
            if MACHINE.search(line):
                hits.append(f"{_name(path)}:{at}: {line[:120].decode(errors='replace')}")
    assert hits == []


@pytest.mark.parametrize(
    ("line", "hit"),
    [
        (b"open('/Users/me/x')", True),
        (b"/home/me/sglang/a.py", True),
        (b"sgl-kernel/work/x", False),
        (b"../shared/work", False),
        (b"/usr/bin/env bash", False),
    ],
)
def test_a_machine_path_would_be_seen(line: bytes, hit: bool) -> None:
    assert bool(MACHINE.search(line)) is hit


def test_sources_are_utf8_with_unix_line_ends() -> None:
    for path in SOURCES:
        with tokenize.open(path) as file:
            assert file.encoding == "utf-8"
        assert b"\r" not in path.read_bytes(), _name(path)
