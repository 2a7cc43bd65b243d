"""What is read out of a script that replaces text, form by form; the script is never run."""

from __future__ import annotations

import pytest

from auditor.errors import UserError
from auditor.patching.incoming.scriptread import read_script

#: Script, and what it does: `path: old -> new`, `×N` for a limit, `line N` for what is left to a person.
CASES: dict[str, tuple[str, list[str]]] = {
    "a path and a method": (
        "from pathlib import Path\np = Path('a/b.py')\np.write_text(p.read_text().replace('x', 'y', 1))\n",
        ["a/b.py: x -> y ×1"],
    ),
    "a limit with its name": (
        "p = Path('a/b.py')\np.write_text(p.read_text().replace('x', 'y', count=2))\n",
        ["a/b.py: x -> y ×2"],
    ),
    "open in a with": (
        "with open('a/b.py') as f:\n    t = f.read()\nt = t.replace('x', 'y')\n"
        "with open('a/b.py', mode='w') as f:\n    f.write(t)\n",
        ["a/b.py: x -> y"],
    ),
    "a with without a name": (
        "with lock():\n    p = Path('a/b.py')\n    p.write_text(p.read_text().replace('x', 'y'))\n",
        ["a/b.py: x -> y"],
    ),
    "bytes": (
        "p = Path('a/b.py')\np.write_bytes(p.read_bytes().replace(b'x', b'y'))\n",
        ["a/b.py: x -> y"],
    ),
    "bytes that are no text": (
        "p = Path('a/b.py')\np.write_bytes(p.read_bytes().replace(b'\\xff', b'y'))\n",
        ["line 2: p.read_bytes().replace(b'\\xff', b'y')"],
    ),
    "decoded and encoded": (
        "p = Path('a/b.py')\nt = p.read_bytes().decode().replace('x'.encode().decode(), 'y')\n"
        "p.write_bytes(t.encode())\n",
        ["a/b.py: x -> y"],
    ),
    "a table of pairs": (
        "PAIRS = [('x', 'y'), ('z', 'w')]\np = Path('a/b.py')\nt = p.read_text()\n"
        "for old, new in PAIRS:\n    t = t.replace(old, new)\np.write_text(t)\n",
        ["a/b.py: x -> y", "a/b.py: z -> w"],
    ),
    "a dictionary of pairs": (
        "p = Path('a/b.py')\nt = p.read_text()\nfor old, new in {'x': 'y'}.items():\n"
        "    t = t.replace(old, new)\np.write_text(t)\n",
        ["a/b.py: x -> y"],
    ),
    "the keys of a dictionary": (
        "D = {'x': 'y', **more}\np = Path('a/b.py')\nt = p.read_text()\nfor old in D:\n"
        "    t = t.replace(old, D[old]).replace(D.get('q', 'r'), D.get('n'))\np.write_text(t)\n",
        ["line 5: t.replace(old, D[old]).replace(D.get('q', 'r'), D.get('n'))", "line 6: p.write_text(t)"],
    ),
    "a loop over what is not known": (
        "for p in ROOT.glob('*.py'):\n    p = Path('a/b.py')\n"
        "    p.write_text(p.read_text().replace('x', 'y'))\n",
        ["a/b.py: x -> y"],
    ),
    "a while": (
        "while True:\n    p = Path('a/b.py')\n    p.write_text(p.read_text().replace('x', 'y'))\n    break\n",
        ["a/b.py: x -> y"],
    ),
    "try and else": (
        "p = Path('a/b.py')\ntry:\n    t = p.read_text()\nexcept OSError:\n    raise\n"
        "else:\n    p.write_text(t.replace('x', 'y'))\n",
        ["a/b.py: x -> y"],
    ),
    "a function with defaults": (
        "def sub(path, old, /, new='y', *, times=1, free):\n    t = path.read_text()\n"
        "    path.write_text(t.replace(old, new, times))\n    return\nsub(Path('a/b.py'), 'x', free=2)\n",
        ["a/b.py: x -> y ×1"],
    ),
    "an argument that is missing": (
        "def sub(path, old):\n    path.write_text(path.read_text().replace(old, 'y'))\nsub(Path('a/b.py'))\n",
        ["line 2: path.read_text().replace(old, 'y')"],
    ),
    "a function that calls itself": (
        "def sub(path):\n    sub(path)\n    path.write_text(path.read_text().replace('x', 'y'))\n"
        "sub(Path('a/b.py'))\n",
        ["a/b.py: x -> y"] * 12,
    ),
    "records": (
        "class Edit:\n    old: str\n    new: str = ''\n    def f(self): ...\n"
        "e: Edit = Edit('x', new='y')\nn: int\np = Path('a/b.py')\n"
        "p.write_text(p.read_text().replace(e.old, e.new))\n",
        ["a/b.py: x -> y"],
    ),
    "joined paths": (
        "import os\np = os.path.join(HERE, 'a', 'b.py')\nq = pathlib.Path(p).parent.joinpath('q')\n"
        "t = open(p).read()\nopen(p, 'w').write(t.replace('x', 'y'))\n",
        ["a/b.py: x -> y"],
    ),
    "divided paths": (
        "ROOT = Path(__file__).resolve()\np = ROOT.parent / 'a' / Path('b.py')\n"
        "p.write_text(p.read_text().replace('x', 'y'))\n",
        ["a/b.py: x -> y"],
    ),
    "an f-string with a known end": (
        "p = Path(f'{ROOT}/a/{NAME}')\nq = Path(f'{ROOT}/a/b.py')\n"
        "p.write_text(p.read_text().replace('x', 'y'))\n"
        "q.write_text(q.read_text().replace('x', f\"{'y'}z\"))\n",
        ["a/b.py: x -> yz"],
    ),
    "texts put together": (
        "import textwrap\np = Path('a/b.py')\nOLD = 'x' + 'x' * 2\nNEW = textwrap.dedent('  y\\n').strip()\n"
        "ALL = (OLD,) + (NEW,)\nt = p.read_text()\np.write_text(t.replace(ALL[0], ALL[1]))\nALL[7]\n",
        ["a/b.py: xxx -> y"],
    ),
    "an operation that is not known": (
        "p = Path('a/b.py')\np.write_text(p.read_text().replace('x' % 1, 'y'))\n",
        ["line 2: p.read_text().replace('x' % 1, 'y')"],
    ),
    "texts that grow too long": (
        "p = Path('a/b.py')\nA = 'x' * 900000\nB = A + A\nC = 'x' * 2000000\n"
        "p.write_text(p.read_text().replace(B, C))\n",
        ["line 5: p.read_text().replace(B, C)"],
    ),
    "how often an anchor is there": (
        "p = Path('a/b.py')\nt = p.read_text()\nassert t.count('x') == 2, 'moved'\n"
        "assert 0 < t.count('x') < 3\nassert t.count('x') > 1\nassert t.count('z') == True\n"
        "assert len(t) == 3\nif t.count('q') != 1:\n    raise SystemExit\n"
        "p.write_text(t.replace('x', 'y'))\n",
        ["a/b.py: x -> y", "a/b.py: 1 of q", "a/b.py: 2 of x"],
    ),
    "a text that is asked": (
        "p = Path('a/b.py')\nt = p.read_text()\nif 'x' in t:\n    t = t.replace('x', 'y')\n"
        "else:\n    print('gone')\np.write_text(t)\n",
        ["a/b.py: x -> y"],
    ),
    "the other arm": (
        "p = Path('a/b.py')\nt = p.read_text()\nif 'y' in t:\n    pass\nelse:\n    t = t.replace('x', 'y')\n"
        "p.write_text(t)\n",
        ["a/b.py: x -> y"],
    ),
    "both arms": (
        "p = Path('a/b.py')\nt = p.read_text()\nif 'y' in t:\n    t = t.replace('y', 'z')\n"
        "else:\n    t = t.replace('x', 'y')\np.write_text(t)\n",
        ["line 3: if 'y' in t: t = t.replace('y', 'z') else: t = t.replace('x', 'y')"],
    ),
    "a condition of the run": (
        "p = Path('a/b.py')\nt = p.read_text()\nif CUDA:\n    t = t.replace('x', 'y')\np.write_text(t)\n",
        ["line 3: if CUDA: t = t.replace('x', 'y')"],
    ),
    "written under a condition": (
        "p = Path('a/b.py')\nif CUDA:\n    p.write_text(p.read_text().replace('x', 'y'))\n",
        ["a/b.py: x -> y", "note 2: it writes under a condition, taken as true"],
    ),
    "the main program": (
        "def main():\n    p = Path('a/b.py')\n    p.write_text(p.read_text().replace('x', 'y'))\n"
        "if __name__ == '__main__':\n    main()\n",
        ["a/b.py: x -> y"],
    ),
    "what it returns": (
        "def old(kind):\n    if kind:\n        return 'x'\n    return 'x'\np = Path('a/b.py')\n"
        "p.write_text(p.read_text().replace(old(1), 'y'))\n",
        ["a/b.py: x -> y"],
    ),
    "added to": (
        "p = Path('a/b.py')\nt = p.read_text()\nn = 0\nn += 1\nt += 'more'\np.write_text(t)\n",
        ["line 5: t += 'more'", "line 6: p.write_text(t)"],
    ),
    "written to another file": (
        "p = Path('a/b.py')\nPath('c.py').write_text(p.read_text().replace('x', 'y'))\n",
        ["line 2: Path('c.py').write_text(p.read_text().replace('x', 'y'))"],
    ),
    "nothing replaced": ("p = Path('a/b.py')\np.write_text(p.read_text())\nprint.write('x')\n", []),
    "other means": (
        "import re, os\nt = re.sub('x', 'y', t)\nos.remove('a')\nsubprocess.run(['sed'])\n",
        ["line 2: re.sub('x', 'y', t)", "line 3: os.remove('a')", "line 4: subprocess.run(['sed'])"],
    ),
    "one argument": (
        "p = Path('a/b.py')\np.write_text(p.read_text().replace('x'))\nopen(unknown).read()\nopen()\n",
        ["line 2: p.read_text().replace('x')"],
    ),
}


def told(text: str) -> list[str]:
    """What a script does, a line each."""
    script = read_script(text, "script.py")
    out = [
        f"{'/'.join(one.path.parts)}: {each.old} -> {each.new}"
        + (f" ×{each.count}" if each.count > 0 else "")
        for one in script.writes
        for each in one.edits
    ]
    out += sorted(f"{'/'.join(path.parts)}: {n} of {what}" for (path, what), n in script.counts.items())
    out += [f"line {line}: {what}" for line, what in sorted(script.dark.items())]
    return out + [f"note {line}: {what}" for line, what in sorted(script.notes.items())]


@pytest.mark.parametrize("name", CASES)
def test_a_form(name: str) -> None:
    text, wanted = CASES[name]
    assert told(text) == wanted


@pytest.mark.parametrize(
    "text, fact",
    [
        ("x = (", "not Python that can be parsed"),
        ("x = 1\n" * 10_001, "too long to be read as data"),
        ("for i in (1, 2, 3, 4, 5, 6, 7, 8, 9):\n" + "    f(1)\n" * 1500, "too long to be read as data"),
    ],
)
def test_what_is_no_data(text: str, fact: str) -> None:
    with pytest.raises(UserError) as error:
        read_script(text, "script.py")
    assert (error.value.code, error.value.fact, error.value.place) == ("P037", fact, "script.py")
