"""What must not change an audit: other names, other layout, other neighbours. Tried on whole releases.

    python scripts/mutations.py 0.5.14 0.5.20 0.5.23 [--only renamed,unparsed] [--list]

All files that the report is made of (those that name what the audit learned) are mutated at once, the
result is audited, and both reports are compared as a whole: ids, verdicts, truths, values, arms, findings.
Only lines may differ. A release is a wheel in ``.cache/wheels`` (``make wheels``). One audit per kind and
release, 10 to 40 CPU seconds each, and as much for the mutation. Exit code 1 where a report differs.

Where names change, so do the ids of what lies in a renamed function, and a query that was told to look at
functions by name (``symbol``) finds the renamed ones no more; such findings are counted, not compared.

``renamed``      each name that the audit learned (helpers, aliases, attributes, properties) gets another one
                 of the same length, in every text of the package: code, strings, comments
``commented``    a comment and a blank line before each statement, comments of the tree are gone
``unparsed``     written anew from the syntax tree: no comments, other quotes, line breaks, parentheses
``reformatted``  ``ruff format`` with other quotes and 60 characters a line
``bracketed``    each condition in two more pairs of parentheses, over three lines
``imports``      neighbouring imports in reverse order, one name each
``neighbours``   an unrelated function and class before each function and class at module level, an unrelated
                 method before each method of a class
``all``          bracketed, imports, neighbours and commented, one after the other
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from auditor.gates.audit import AuditOptions, audit
from auditor.gates.model import Report
from auditor.gates.reading import no_collector
from auditor.queries.load import load_queries
from auditor.reporting import jsonout
from auditor.trees.base import SourceTree
from auditor.trees.overlay import OverlayTree
from auditor.trees.wheel import WheelTree

ROOT = Path(__file__).resolve().parents[1]
TARGETS = ("sm_90", "sm_100", "sm_120", "sm_121")
WORD = re.compile(r"[A-Za-z_]\w*")
#: The end of a text that was too long: whose first letter is left depends on what it is called.
CLIPPED = re.compile(r"\w*…$")
PLACE = re.compile(r"(?<=\.py):\d+")
#: A comment with the blanks before it, or a string.
NO_CODE = re.compile(
    r"""[ \t]*\#[^\n]*|\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}"""
    r"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""",
    re.DOTALL,
)


def wheel(release: str) -> WheelTree:
    """The tree of a release."""
    folder = Path(os.environ.get("SGLANG_AUDITOR_WHEELS") or ROOT / ".cache" / "wheels")
    found = sorted(folder.glob(f"sglang-{release}-*.whl"))
    if not found:
        raise FileNotFoundError(f"no wheel of {release} in {folder}: make wheels")
    return WheelTree(found[0])


def report_of(tree: SourceTree, targets: tuple[str, ...] = TARGETS) -> Report:
    """The audit of a tree, nothing taken from a cache."""
    return audit(tree, AuditOptions(targets=targets, use_cache=False))


def sources(tree: SourceTree) -> dict[str, str]:
    """path -> text of the Python files."""
    found = {}
    for path, data in tree.read_many([path for path in tree.blobs() if path.endswith(".py")]):
        try:
            found[path] = data.decode("utf-8-sig").replace("\r\n", "\n")
        except ValueError:
            continue
    return found


def concerned(texts: Mapping[str, str], report: Report) -> dict[str, str]:
    """The files that name something which the audit learned, or of which the report speaks."""
    names = {p.name.rpartition(".")[2] for p in report.predicates}
    told = {p.path for p in report.predicates}.union(
        (g.path for g in report.gates), (f.path for f in report.findings)
    )
    left = {problem.path for problem in report.problems}
    return {
        path: text
        for path, text in texts.items()
        if path not in left and (path in told or not names.isdisjoint(WORD.findall(text)))
    }


# -- renaming ----------------------------------------------------------------------------------------------


def outside(texts: Iterable[str], package: str, wanted: Collection[str]) -> set[str]:
    """Those of some names that belong to somebody else, as far as the syntax tells: what is imported from
    other packages, and what is read from such a module."""
    names: set[str] = set()
    for text in texts:
        modules: set[str] = set()
        read: list[ast.Attribute] = []
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute):
                if node.attr in wanted:
                    read.append(node)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name.partition(".")[0] != package:
                        names.update(alias.name.split("."))
                        modules.add((alias.asname or alias.name).partition(".")[0])
            elif isinstance(node, ast.ImportFrom) and not node.level:
                if (node.module or "").partition(".")[0] != package:
                    names.update(alias.name for alias in node.names)
                    modules.update(alias.asname or alias.name for alias in node.names)
        for attribute in read:
            base = attribute.value
            while isinstance(base, (ast.Attribute, ast.Call)):
                base = base.value if isinstance(base, ast.Attribute) else base.func
            if isinstance(base, ast.Name) and base.id in modules:
                names.add(attribute.attr)
    return names


def new_names(report: Report, texts: Mapping[str, str]) -> dict[str, str]:
    """A name that says nothing, of the same length, for each learned name that is the tree's own.

    Names of one short word are left alone: they are methods of frameworks (``forward``) and fields of all
    kinds of records (``mode``), which no renaming would take for the same thing either.
    """
    learned = sorted({p.name.rpartition(".")[2] for p in report.predicates})
    wanted = {
        n for n in learned if not n.startswith("__") and ("_" in n.strip("_") or len(n.strip("_")) >= 9)
    }
    used: set[str] = set()
    holding = []
    for text in concerned(texts, report).values():
        words = set(WORD.findall(text))
        used |= words
        if not wanted.isdisjoint(words):
            holding.append(text)
    taken = outside(holding, report.project, wanted)
    taken.update(part for path in texts for part in re.split(r"[/.]", path))
    found: dict[str, str] = {}
    for name in sorted(wanted - taken):
        lead = name[: len(name) - len(name.lstrip("_"))]
        number, fresh = len(found), ""
        while not fresh or fresh in used:
            fresh = f"{lead}w{number:0{len(name) - len(lead) - 1}d}"
            number += 1000
        found[name] = fresh
        used.add(fresh)
    return found


def renamed(text: str, names: Mapping[str, str]) -> str:
    """The text with other names, wherever they stand."""
    return WORD.sub(lambda m: names.get(m[0], m[0]), text)


# -- layout ------------------------------------------------------------------------------------------------


def starts(text: str) -> Iterator[int]:
    """The lines, from 0, on which a statement begins and nothing else goes on."""
    lines = text.split("\n")
    todo: list[Any] = [ast.parse(text)]
    while todo:
        node = todo.pop()
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            for item in getattr(node, field, None) or ():
                todo.append(item)
                if isinstance(item, ast.stmt):
                    row = _first(item)
                    own = lines[row].encode()[: item.col_offset].strip()
                    if not own and not (row and lines[row - 1].endswith("\\")):
                        yield row


def commented(text: str) -> str:
    """Comments taken away, one of ours and a blank line before each statement."""
    begin = set(starts(text))
    text = NO_CODE.sub(lambda m: "" if m[0].lstrip().startswith("#") else m[0], text)
    lines = []
    for row, line in enumerate(text.split("\n")):
        if row in begin:
            indent = line[: len(line) - len(line.lstrip())]
            lines += [f"{indent}# if is_sm120: torch.cuda.get_device_capability()", ""]
        lines.append(line)
    return "\n".join(lines)


def unparsed(text: str) -> str:
    """Written anew from the syntax tree. ``else: if`` stays what it is: it would come out as ``elif``."""
    tree, lines = ast.parse(text), text.split("\n")
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
            inner = node.orelse[0]
            if not lines[inner.lineno - 1][inner.col_offset :].startswith("elif"):
                node.orelse.append(ast.Pass())
    return ast.unparse(tree) + "\n"


def bracketed(text: str) -> str:
    """Each condition in more parentheses."""
    lines = [line.encode() for line in text.split("\n")]
    places: list[tuple[int, int, bytes]] = []
    tree = ast.parse(text)
    within = {id(n) for f in ast.walk(tree) if isinstance(f, ast.JoinedStr) for n in ast.walk(f)}
    for node in ast.walk(tree):
        if id(node) not in within and isinstance(node, (ast.If, ast.While, ast.Assert, ast.IfExp)):
            test = node.test
            if isinstance(test, ast.NamedExpr):
                continue
            places.append((test.lineno - 1, test.col_offset, b"((\n"))
            places.append((test.end_lineno - 1, test.end_col_offset, b"\n))"))  # type: ignore[operator,arg-type]
    for row, column, what in sorted(places, reverse=True):
        lines[row] = lines[row][:column] + what + lines[row][column:]
    return b"\n".join(lines).decode()


def reordered(text: str) -> str:
    """Neighbouring imports at module level in reverse order, each name in a statement of its own."""
    body = ast.parse(text).body
    lines = text.split("\n")
    runs = []
    for plain, group in groupby(body, key=_movable):
        run = list(group)
        bound = [(a.asname or a.name).partition(".")[0] for node in run if plain for a in node.names]  # type: ignore[attr-defined]
        if plain and len(bound) == len(set(bound)):
            runs.append(run)
    for run in reversed(runs):
        first, last = run[0].lineno - 1, run[-1].end_lineno or 0
        covered = {row for node in run for row in range(node.lineno - 1, node.end_lineno or 0)}
        between = [lines[row] for row in range(first, last) if row not in covered]
        if (
            any(line.strip() and not line.lstrip().startswith("#") for line in between)
            or ";" in lines[last - 1]
        ):
            continue
        single = [_one(node, alias) for node in run for alias in node.names]  # type: ignore[attr-defined]
        lines[first:last] = reversed(single)
    return "\n".join(lines)


def _movable(node: ast.stmt) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module != "__future__" and node.names[0].name != "*"
    return isinstance(node, ast.Import)


def _one(node: Any, alias: ast.alias) -> str:
    if isinstance(node, ast.Import):
        return ast.unparse(ast.Import([alias]))
    return ast.unparse(ast.ImportFrom(node.module, [alias], node.level))


def neighbours(text: str) -> str:
    """Unrelated functions, classes and methods before those of the file."""
    lines = text.split("\n")
    places: list[tuple[int, str]] = []
    for node in ast.parse(text).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            places.append((_first(node), "module"))
        if isinstance(node, ast.ClassDef):
            enum = any("Enum" in ast.unparse(base) for base in node.bases)
            places += [
                (_first(item), "method")
                for item in node.body
                if isinstance(item, ast.FunctionDef) and not enum
            ]
    for count, (row, where) in enumerate(sorted(places, reverse=True)):
        pad = lines[row][: len(lines[row]) - len(lines[row].lstrip())]
        body = [
            f"def unrelated_{count}(width=1):",
            "    if width > 1:",
            "        return 2",
            "    return width",
        ]
        if where == "module":
            body += [f"class Unrelated{count}:", "    size = 3"]
        else:
            body.insert(0, "@staticmethod")
        lines[row:row] = [pad + line for line in body]
    return "\n".join(lines)


def _first(node: Any) -> int:
    return min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))]) - 1


def everything(text: str) -> str:
    """One after the other."""
    for step in (bracketed, reordered, neighbours, commented):
        text = step(text)
    return text


LAYOUT: dict[str, Callable[[str], str]] = {
    "commented": commented,
    "unparsed": unparsed,
    "bracketed": bracketed,
    "imports": reordered,
    "neighbours": neighbours,
    "all": everything,
}


def reformatted(texts: Mapping[str, str]) -> dict[str, str]:
    """All files through ``ruff format``, with other quotes and short lines."""
    with tempfile.TemporaryDirectory() as folder:
        for path, text in texts.items():
            place = Path(folder, path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8", newline="")
        settings = "line-length = 60\n[format]\nquote-style = 'single'\nskip-magic-trailing-comma = true\n"
        Path(folder, "ruff.toml").write_text(settings)
        command = [sys.executable, "-m", "ruff", "format", "--quiet", "--no-cache", "--isolated"]
        command[command.index("--isolated") :] = ["--config", "ruff.toml", "."]
        subprocess.run(command, cwd=folder, check=False)
        return {path: Path(folder, path).read_bytes().decode() for path in texts}


def rewritten(texts: Mapping[str, str], kind: str) -> dict[str, str]:
    """The files after a mutation of layout."""
    if kind == "reformatted":
        return reformatted(texts)
    return {path: LAYOUT[kind](text) for path, text in texts.items()}


# -- comparing ---------------------------------------------------------------------------------------------


def comparable(
    report: Report, names: Mapping[str, str] | None = None, back: Mapping[str, str] | None = None
) -> list[str]:
    """A report as sorted lines of JSON without line numbers.

    With ``names``, under those names; ``back`` is the way back, for a report that has them already. Then what
    an id is made of stands for it: a gate of a renamed function has another one.
    """
    ids = not (names or back)
    data = json.loads(jsonout.dumps(report))
    known = {g["id"]: " ".join((g["path"], g["symbol"], g["kind"], g["predicate"])) for g in data["gates"]}

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {text(key): plain(item) for key, item in value.items() if key not in ("line", "end_line")}
        if isinstance(value, list):
            items = [plain(item) for item in value]
            return sorted(items, key=json.dumps)
        return text(value) if isinstance(value, str) else value

    def text(value: str) -> str:
        if not ids:
            value = known.get(value, value)
        value = CLIPPED.sub("…", PLACE.sub("", value))
        return renamed(value, names) if names else value

    lines = []
    ours = by_name(report, named) if (named := names or back) else set()
    for part in ("predicates", "gates", "findings", "problems", "stats"):
        items = data[part] if isinstance(data[part], list) else [data[part]]
        if part == "findings":
            items = [item for number, item in enumerate(items) if number not in ours]
        lines += [f"{part} {json.dumps(plain(item), sort_keys=True)}" for item in items]
    return sorted(lines)


def by_name(report: Report, names: Mapping[str, str]) -> set[int]:
    """The findings, by number, of queries that were told to look at functions with such a name."""
    named = {
        query.id for query in load_queries() if query.match and query.match.gate and query.match.gate.symbol
    }
    return {
        number
        for number, finding in enumerate(report.findings)
        if finding.query in named and renamed(finding.symbol, names) != finding.symbol
    }


def difference(before: list[str], after: list[str]) -> list[str]:
    """The lines that only one of two reports has."""
    gone, new = set(before) - set(after), set(after) - set(before)
    if not gone and not new and before != after:
        return ["the same lines in other numbers"]
    return sorted([f"- {line}" for line in gone] + [f"+ {line}" for line in new], key=lambda d: d[2:])


def with_files(tree: SourceTree, texts: Mapping[str, str], new: Mapping[str, str]) -> OverlayTree:
    """The tree with those of the files that changed."""
    return OverlayTree(tree, {p: t.encode() for p, t in new.items() if t != texts[p]})


def tried(
    tree: SourceTree,
    texts: Mapping[str, str],
    report: Report,
    kind: str,
    only: Collection[str] | None = None,
    names: Mapping[str, str] | None = None,
) -> tuple[str, list[str]]:
    """What was mutated, in words, and what the audit of that says differently. ``kind`` may be several with a
    ``+`` between, one after the other; ``only``: layout is changed in these files alone; ``names``: the new
    names, where they are known already."""
    new, told, named = concerned(texts, report), [], {}
    with no_collector():
        for step in kind.split("+"):
            if step == "renamed":
                named = new_names(report, texts) if names is None else dict(names)
                new = {path: renamed(text, named) for path, text in new.items()}
                told.append(f"{len(named)} names, {len(by_name(report, named))} findings by name")
            else:
                some = rewritten({p: t for p, t in new.items() if only is None or p in only}, step)
                told.append(f"{sum(some[p] != new[p] for p in some):,} files")
                new |= some
        for path, text in new.items():
            if text != texts[path]:
                ast.parse(text)  # it is still Python, or this trial says nothing
    other = report_of(with_files(tree, texts, new), report.targets)
    back = {fresh: old for old, fresh in named.items()}
    return "; ".join(told), difference(comparable(report, named), comparable(other, back=back))


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("releases", nargs="+")
    kinds = ["renamed", *LAYOUT, "reformatted"]
    parser.add_argument("--only", default=",".join(kinds), help="kinds, comma between (default: all)")
    parser.add_argument("--list", action="store_true", help="print what differs")
    args = parser.parse_args()
    bad = 0
    for release in args.releases:
        tree = wheel(release)
        texts = sources(tree)
        report, names = report_of(tree), None
        size = f"{len(report.gates):,} gates and {len(report.findings)} findings"
        for kind in args.only.split(","):
            if "renamed" in kind and names is None:
                with no_collector():
                    names = new_names(report, texts)
            start = time.process_time()
            what, differs = tried(tree, texts, report, kind, names=names)
            spent = f"{time.process_time() - start:.0f} CPU seconds"
            print(f"{release} {kind}: {what}; {size}, {len(differs)} lines differ, {spent}", flush=True)
            if args.list:
                print("\n".join(differs))
            bad += bool(differs)
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
