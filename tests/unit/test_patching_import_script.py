"""A script that replaces text, held to the base: what is made of it, and why it is not taken."""

from __future__ import annotations

import pytest

from auditor.errors import UserError
from auditor.patching.incoming.patches import Options
from auditor.patching.incoming.script import take_script
from auditor.queries.exampletree import MemoryTree

BASE = MemoryTree({"p/a.py": "x = 1\nx = 1\ny = 2\n", "q/a.py": "z = 1\n", "p/b.py": b"\xff\n"})


def script(old: str, new: str, more: str = "", path: str = "p/a.py", head: str = "", count: str = "") -> str:
    replaced = f"t.replace({old!r}, {new!r}{count})"
    return f"{head}p = Path({path!r})\nt = p.read_text()\n{more}p.write_text({replaced})\n"


ALL = "line 3: all 2 places in p/a.py, as the script does"
TAKEN = [
    (
        script("x = 1", "x = 3"),
        "x = 3\nx = 3\ny = 2\n",
        [ALL],
    ),
    (
        script("x = 1", "x = 3", count=", 1"),
        "x = 3\nx = 1\ny = 2\n",
        ["line 3: 2 places in p/a.py, the first 1 as the script does"],
    ),
    (script("x = 1", "x = 3", "assert t.count('x = 1') == 2\n"), "x = 3\nx = 3\ny = 2\n", []),
    (script("y = 2", "y = 3", path="/srv/site/p/a.py"), "x = 1\nx = 1\ny = 3\n", []),
]


@pytest.mark.parametrize("text, wanted, notes", TAKEN)
def test_taken(text: str, wanted: str, notes: list[str]) -> None:
    made = take_script(text, "fix.py", BASE, Options())
    assert made.tree is not None and made.tree.read("p/a.py").decode() == wanted
    (row,) = made.rows
    assert row.paths == ("p/a.py",) and row.notes[0].endswith("of a script, made on the base")
    assert [note for note in row.notes[1:]] == notes


NOT_TAKEN = [
    (script("gone", "y"), "P038", "the text that it replaces is not in p/a.py"),
    (script("gone", "y = 2"), "P038", "not in p/a.py, but what it puts there is: already done?"),
    (
        script("x = 1", "x = 3", "assert t.count('x = 1') == 1\n"),
        "P038",
        "the script says 1 times, p/a.py has the text 2 times",
    ),
    (script("x", "y", path="p/c.py"), "P031", "the base has no file p/c.py"),
    (script("x", "y", path="a.py"), "P031", "2 files of the base end in a.py"),
    (script("x", "y", path="p/b.py"), "P037", "p/b.py is not UTF-8"),
    ("import re\nre.sub('a', 'b', t)\n", "P037", "no plain replacement in this script (line 2: re.sub("),
    ("x = 1\n", "P037", "no plain replacement in this script"),
]


@pytest.mark.parametrize("text, code, fact", NOT_TAKEN)
def test_not_taken(text: str, code: str, fact: str) -> None:
    with pytest.raises(UserError) as error:
        take_script(text, "fix.py", BASE, Options())
    assert error.value.code == code and fact in error.value.fact


def test_nothing_is_left_of_it() -> None:
    for text, options in (
        (script("y = 2", "y = 2"), Options()),
        (script("y = 2", "y = 3"), Options(exclude=("p/*",))),
    ):
        made = take_script(text, "fix.py", BASE, options)
        assert not made.patches and made.rows[0].notes == ("it changes nothing",)
        assert made.rows[0].excluded == (("p/a.py",) if options.exclude else ())
