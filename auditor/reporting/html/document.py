"""What the HTML pages have in common: one file that fetches nothing, whose facts are only ever shown as text.

The facts travel as JSON within the page, each text once, and its script (the files of ``page/``) shows them
as text: nothing of the audited tree is ever markup. The page names its own style and script by hash and
forbids everything else, so that even a fault here could run nothing foreign.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping
from html import escape
from importlib import resources
from typing import Any

import msgspec

from auditor.reporting.text import clean

#: A public repository whose commits, pull requests and files have addresses of this form.
_REPOSITORY = re.compile(r"https://github\.com/[\w.-]+/[\w.-]+?(?:\.git)?/?")


class Texts:
    """Every text once; facts hold its number."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._numbers: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self.all)
            self.all.append(clean(text))
        return number

    def many(self, texts: Iterable[str]) -> list[int]:
        return [self(text) for text in texts]


def document(
    title: str,
    lines: Iterable[str],
    *,
    facts: Mapping[str, Any] | None = None,
    scripts: Iterable[str] = (),
    problems: Iterable[str] = (),
    above: str = "",
) -> bytes:
    """The page as UTF-8. The same words and facts give the same bytes.

    ``lines`` are its head, ``problems`` what could not be read; ``above`` is markup of ours that stands
    before what the ``scripts`` show of the ``facts``. Without scripts none may run.
    """
    style = _file("page.css")
    # each file is a part of one script, its names its own
    script = "".join(_file(name) for name in scripts)
    policy = f"default-src 'none'; style-src '{_hash(style)}'"
    if script:
        policy += f"; script-src '{_hash(script)}'"
    out = [
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>{text(title)}</title>\n<style>{style}</style></head><body>",
        f"<header><h1>{text(title)}</h1>",
        *(f"<p>{text(line.removeprefix(f'{title} · '))}</p>" for line in lines if line != title),
        *(f'<p class="problem">not audited: {text(problem)}</p>' for problem in problems),
        "</header>",
        above,
    ]
    if script:
        data = msgspec.json.encode(facts or {}, order="deterministic").decode()
        out += [
            "<noscript><p>This page needs its own script to show rows; it fetches nothing.</p></noscript>",
            '<main id="main"></main>',
            f'<script type="application/json" id="facts">{_inert(data)}</script>',
            f"<script>{script}</script>",
        ]
    out.append("</body></html>\n")
    return "\n".join(out).encode("utf-8", "backslashreplace")


def text(words: str) -> str:
    """Foreign text as text of a page."""
    return escape(clean(words))


def repository(url: str) -> str:
    """The address below which commits, pull requests and files lie, "" where a URL is not of that form."""
    return url.rstrip("/").removesuffix(".git") if _REPOSITORY.fullmatch(url) else ""


def _file(name: str) -> str:
    return (resources.files("auditor.reporting.html") / "page" / name).read_text(encoding="utf-8")


def _hash(words: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(words.encode()).digest()).decode()


def _inert(data: str) -> str:
    """JSON that cannot end its element."""
    return data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
