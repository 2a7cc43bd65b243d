"""Draws docs/pictures/*.svg: what the terminal shows, through rich's own export. The same each time.

    python scripts/pictures.py           # write them
    python scripts/pictures.py --check   # exit 1 where one is not what it would be

Only pages that need no tree are drawn, so that every checkout draws the same.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "pictures"
WIDTH = 100
#: Lines that are drawn of each page; the rest is left out with a mark.
LINES = 44
PICTURES = {
    "audit-help": "audit --help",
    "audit-targets": "audit targets sm_90,sm_100,sm_120,sm_121",
    "patches-show": "patches show sm120",
}


def page(command: str) -> str:
    """What a command prints on a terminal, with its colours."""
    env = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(WIDTH), "PYTHONPATH": str(ROOT)}
    env.pop("NO_COLOR", None)
    done = subprocess.run(
        [sys.executable, "-m", "auditor", *command.split()],
        cwd=ROOT, env=env, capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    return "\n".join([*lines[:LINES], *(["…"] if len(lines) > LINES else [])])


def picture(name: str, command: str) -> str:
    """The SVG of a command and its page. Ids come from the name, not from what it holds."""
    console = Console(
        record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(Text(f"$ {command}", style="bold"))
    console.print(Text.from_ansi(page(command)), soft_wrap=False)
    text = console.export_svg(title="", unique_id=name)
    # Nothing is fetched by whoever looks at it: the reader's own fixed-width font will do.
    text = re.sub(r"\s*@font-face \{[^}]*\}|\s*<!--.*?-->", "", text, flags=re.DOTALL)
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip()) + "\n"


def main(arguments: list[str]) -> int:
    """Write or check; 1 where one is missing or stale."""
    FOLDER.mkdir(exist_ok=True)
    stale = []
    for name, command in PICTURES.items():
        path = FOLDER / f"{name}.svg"
        text = picture(name, command)
        if not path.is_file() or path.read_text("utf-8") != text:
            stale.append(path)
            if "--check" not in arguments:
                path.write_text(text, "utf-8")
            print(path.relative_to(ROOT).as_posix())
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
