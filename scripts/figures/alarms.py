"""What a guard says at each commit of a range: the alarms of docs/false-alarms.md, not yet judged."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

from figures.measure import PYTHON, SCRIPTS
from figures.setting import Setting


def lines(at: Setting) -> Iterator[str]:
    """The counts, and the table of ``scripts/every_guard.py``."""
    most = str(at.options.commits or (500 if at.full else 2))
    keep = str(at.options.keep or at.work / "guards")
    span = ("--repo", at.repo, "--range", f"{at.commit}..{at.branch}", "--most", most, "--keep", keep)
    for work, *more in (("audits",), ("alarms", "--table")):
        words = [PYTHON, str(SCRIPTS / "every_guard.py"), work, *span, *more]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            at.wrong.append(f"every_guard.py {work}: exit {done.returncode}")
            return
    yield done.stdout.rstrip()
