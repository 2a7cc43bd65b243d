"""What a guard says at each commit of a range: the alarms of docs/false-alarms.md, not yet judged."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

from figures.measure import PYTHON, SCRIPTS
from figures.setting import Setting


def lines(at: Setting) -> Iterator[str]:
    """The tables of ``scripts/every_guard.py``. Interrupted, it goes on to the alarms among what is there."""
    most = str(at.options.commits or (500 if at.full else 2))
    keep = str(at.options.keep or at.work / "guards")
    span = ("--repo", at.repo, "--range", f"{at.commit}..{at.branch}", "--most", most, "--keep", keep)
    script = [PYTHON, str(SCRIPTS / "every_guard.py")]
    try:
        audits = subprocess.run([*script, "audits", *span], stdout=subprocess.DEVNULL, check=False).returncode
    except KeyboardInterrupt:
        at.talk("stopped; the alarms among what is there:")
        audits = 0
    done = subprocess.run(
        [*script, "alarms", *span, "--table"], stdout=subprocess.PIPE, text=True, check=False
    )
    if audits or done.returncode:
        at.wrong.append(f"every_guard.py: exit {audits or done.returncode}")
    yield done.stdout.rstrip()
