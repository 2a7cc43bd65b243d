"""The documentation says what the tool does: commands parse, links lead somewhere, pages are current."""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import click
import pytest

from auditor.cli import groups
from auditor.errors import UserError
from auditor.gates.model import VERDICTS

ROOT = Path(__file__).resolve().parents[2]
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS]
GENERATED = {"verbs", "formats"}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_pages_are_current() -> None:
    # in a process of its own: what other tests made of the commands must not be on the pages
    words = [sys.executable, str(ROOT / "scripts" / "pages.py"), "--check"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


# -- links ---------------------------------------------------------------------------------------------


def outside_code(text: str) -> str:
    """The text of a page without its blocks and words of code, line by line."""
    out, fenced = [], False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            out.append(re.sub(r"`[^`]*`", "", line) if not line.startswith("#") else line)
    return "\n".join(out)


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and Python-Markdown both make them for plain words."""
    found: set[str] = set()
    for line in outside_code(path.read_text("utf-8")).splitlines():
        if re.match(r"#{1,6} ", line):
            words = re.sub(r"[^\w\s-]", "", line.lstrip("# ").lower()).strip()
            slug = re.sub(r"\s", "-", words)
            found.add(slug if slug not in found else f"{slug}-1")
            found.add(re.sub(r"-{2,}", "-", slug))
    return found


def dead_links(path: Path) -> list[str]:
    dead = []
    for target in re.findall(r"\]\(([^)\s]+)\)", outside_code(path.read_text("utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        place = (path.parent / file).resolve() if file else path
        if not place.exists() or (anchor and place.suffix == ".md" and anchor not in anchors(place)):
            dead.append(target)
    return dead


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_links_and_anchors(path: Path) -> None:
    assert dead_links(path) == []


def test_a_dead_link_would_be_seen(tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    page.write_text(
        "# One, two\n[x](b.md) [y](#one-two) [z](#three) `[q](gone.md)`\n```\n[q](gone.md)\n```\n"
    )
    assert dead_links(page) == ["b.md", "#three"]


def test_every_page_is_in_the_site() -> None:
    text = (ROOT / "mkdocs.yml").read_text("utf-8")
    named = set(re.findall(r"[\w/-]+\.md", text.partition("\nnav:")[2]))
    there = {path.relative_to(ROOT / "docs").as_posix() for path in DOCS}
    assert named <= there
    left = {name for name in there - named if not name.startswith(("verbs/", "trials/"))}
    assert left == set(), "pages that the site does not lead to"


# -- commands ------------------------------------------------------------------------------------------


#: A command at a prompt, unless what follows it shows that it is refused.
_TYPED = r"^(?:    |```\n)?\$ ((?:audit|patches) .*)$(?!\nerror\[)"


def commands(path: Path) -> list[str]:
    """Every whole command of ours in a page: in indented or fenced code after ``$``, and in the README's
    tables and code whole words. Lines with ``…`` are shortened ones: what is left of them has to parse."""
    text = re.sub(r"\\\n\s*", "", path.read_text("utf-8"))
    found = [match[1] for match in re.finditer(_TYPED, text, re.M)]
    if path.name == "README.md":
        found += re.findall(r"^    ((?:audit|patches) .*)$", text, re.M)
        found += re.findall(r"`((?:audit|patches) [^`]*)`", text)
    return [re.sub(r"\s+#.*$| {4,}.*$", "", line).replace("…", "").strip() for line in found]


def parse(line: str) -> None:
    """Raises where a line is no command of ours. Nothing is run."""
    words = shlex.split(line)
    group: click.Command = {"audit": groups.audit, "patches": groups.patches}[words[0]]
    ctx: click.Context | None = None
    rest, name = words[1:], words[0]
    while isinstance(group, click.Group):
        ctx = click.Context(group, info_name=name, parent=ctx)
        name, rest = rest[0], rest[1:]
        inner = group.get_command(ctx, name)
        if inner is None:
            raise UserError("U002", f"no such verb: {name}")
        group = inner
    if rest and "--help" not in rest:  # a verb alone is its name
        group.make_context(name, rest, parent=ctx)


@pytest.mark.parametrize(
    "path", [p for p in PAGES if p.parent.name not in GENERATED and commands(p)], ids=name_of
)
def test_commands_of_a_page_parse(path: Path) -> None:
    wrong = []
    for line in commands(path):
        try:
            parse(line)
        except (click.UsageError, UserError, ValueError) as error:
            wrong.append(f"{line}: {error}")
    assert wrong == []


def test_a_wrong_command_would_be_seen() -> None:
    parse("audit path --model X --release 0.5.14")
    with pytest.raises(click.UsageError):
        parse("audit path --release 0.5.14")
    with pytest.raises(UserError):
        parse("audit pth --model X")
    assert "audit targets -v" in commands(ROOT / "README.md")


def options() -> set[str]:
    """Every option of every verb."""
    return {
        option
        for _, command, ctx in script("pages").commands()
        for param in command.get_params(ctx)
        for option in (*param.opts, *param.secondary_opts)
    } | {"--version"}


#: Options of other programs that a hint may name, by how such a hint begins.
FOREIGN = ("git ", "pip ", "python ", "fetch ")


def test_hints_name_options_that_there_are() -> None:
    known = options()
    wrong = []
    for path in sorted((ROOT / "auditor").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if not (isinstance(node, ast.keyword) and node.arg == "hints"):
                continue
            for text in ast.walk(node.value):
                if not isinstance(text, ast.Constant) or not isinstance(text.value, str):
                    continue
                if any(word in text.value for word in FOREIGN):
                    continue
                for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", text.value):
                    if option not in known:
                        wrong.append(f"{name_of(path)}:{node.value.lineno} {option}")
    assert wrong == []


# -- facts ---------------------------------------------------------------------------------------------


def test_every_verdict_is_explained_in_order() -> None:
    text = (ROOT / "docs" / "words.md").read_text("utf-8").partition("## Verdicts")[2]
    assert tuple(re.findall(r"^\| `([a-z-]+)` \|", text, re.M)) == VERDICTS


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "pictures").glob("*.svg")), ids=name_of)
def test_a_picture_is_small_and_fetches_nothing(path: Path) -> None:
    text = path.read_text("utf-8")
    assert ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
    assert len(text) < 64_000
    assert not re.search(r"url\((?!#)|href|<script|@import|@font-face", text)


def test_the_tests_that_security_names_are_there() -> None:
    text = (ROOT / "docs" / "security.md").read_text("utf-8")
    defined = {
        match
        for path in (ROOT / "tests").rglob("test_*.py")
        for match in re.findall(r"^def (test_\w+)", path.read_text("utf-8"), re.M)
    } | {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    named = set(re.findall(r"\btest_\w+(?:\.py)?", text))
    assert named and named - defined == set()


# -- the rooms -----------------------------------------------------------------------------------------


def paths_of(text: str) -> set[str]:
    """What a page names in code as a file or a folder."""
    return set(re.findall(r"`([\w/.-]+(?:/|\.(?:py|json|yaml|js)))`", text))


def test_the_rooms_are_as_the_page_of_architecture_says() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    named = paths_of(text)
    above = (ROOT, ROOT / "auditor")
    short = {path.name for path in (ROOT / "auditor").rglob("*.py")}  # `base.py` within the row of its room
    gone = [n for n in named if not any((top / n).exists() for top in above) and n not in short]
    assert gone == []
    rooms = {
        p.parent.relative_to(ROOT / "auditor").as_posix() for p in (ROOT / "auditor").rglob("__init__.py")
    }
    assert {room for room in rooms - {"."} if f"{room}/" not in named} == set()


def test_a_room_that_went_would_be_seen() -> None:
    assert paths_of("look in `auditor/gone.py`, `gone/`, `word` and `a.b()`") == {"auditor/gone.py", "gone/"}
