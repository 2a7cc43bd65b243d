"""An HTML page in a real headless Chromium: a tour does what a person does, and tells what is to be seen."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
#: Text that would do something if any of it were more than text: to a page, a terminal, a log, a workflow.
HOSTILE = "</script><img src=x onerror=document.title='bad'>\u2028\x1b[31m<b>\n::error::x&amp;\"'`$(x)"
#: What every tour starts with.
_MEANS = """
const rows = () => [...document.querySelectorAll("table.gates > tbody > tr:not(.below)")];
const detail = () => document.querySelector("tr.below .detail");
const number = () => parseInt(document.getElementById("left").textContent);
const set = (name, value) => { const f = document.forms[0].elements[name]; f.value = value;
  f.dispatchEvent(new Event("input", { bubbles: true })); };
const press = (key, where = document.activeElement) =>
  where.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
const chip = words =>
  [...document.querySelectorAll(".chip")].find(one => one.textContent.includes(words)).click();
const wait = () => new Promise(done => setTimeout(done, 50));
const told = { title: document.title };
const failed = [];
addEventListener("error", event => failed.push(event.message));
"""


def facts(data: bytes) -> dict[str, Any]:
    """The facts that a page carries."""
    found = re.search(rb'<script type="application/json" id="facts">(.*?)</script>', data, re.S)
    assert found is not None
    out: dict[str, Any] = json.loads(found[1])
    return out


def policy(data: bytes) -> str:
    """The page's own rule about what may be loaded and run."""
    found = re.search(r'Content-Security-Policy" content="([^"]*)"', data.decode())
    assert found is not None
    return found[1]


def toured(data: bytes, folder: Path, tour: str, width: int = 1200) -> dict[str, Any]:
    """What a tour (statements that fill ``told``) found, without the page's policy: it would refuse it."""
    if BROWSER is None:
        pytest.skip("no Chromium: the page is not looked at in a browser")
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", data.decode())
    end = (
        "told.images = document.images.length; told.failed = failed;"
        "told.wide = document.documentElement.scrollWidth <= innerWidth;"
        'document.body.textContent = "TOLD" + JSON.stringify(told) + "DLOT";'
    )
    safe = f"try {{ {tour} }} catch (error) {{ failed.push(String(error)); }}"
    script = f"<script>(async () => {{ {_MEANS} {safe} {end} }})();</script>"
    at = text.rindex("</body>")
    file = folder / "page.html"
    file.write_text(f"{text[:at]}\n{script}{text[at:]}")
    words = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},900"]
    words += ["--virtual-time-budget=4000", f"--user-data-dir={folder / 'profile'}"]
    done = subprocess.run(
        [*words, "--dump-dom", file.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    found = re.search("TOLD(.*)DLOT", done.stdout, re.S)
    assert found is not None, done.stdout[-2000:] + done.stderr[-2000:]
    out: dict[str, Any] = json.loads(html.unescape(found[1]))
    assert out["failed"] == [], out["failed"]
    return out
