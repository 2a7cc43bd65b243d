"""Scripts that replace text, read as data."""

from __future__ import annotations

from auditor.patching.incoming.patches import Options
from auditor.patching.incoming.script import take_script
from auditor.queries.exampletree import MemoryTree

WORDS = (
    b"open('pkg/m.py').read()", b".replace('b', 'B')", b".write_text(", b"Path(", b" / ", b"sys.argv[1]", b"for x in (1, 2):\n    ",
    b"if 'a' in t:\n    ", b"assert t.count('b') == 1\n", b"while True:\n    ", b"* 99999999", b"** 99999", b"<< 99999", b"def f(x):\n    return f(x)\n",
    b"f(1)\n", b"'%s' % t", b"f'{t!r:>999999999}'", b".format(t)", b".join(", b"[t] * 10000", b"re.sub('a', 'b', t)", b"lambda: ",
    b"try:\n    ", b"with open(p, 'w') as f:\n    f.write(t)\n", b"'x' * ",
)  # fmt: skip
SEEDS = (
    b'"""Make it so."""\nfrom pathlib import Path\np = Path("pkg/m.py")\nt = p.read_text()\nassert t.count("b") == 1\n'
    b't = t.replace("b\\n", "B\\n", 1)\np.write_text(t)\n',
    b"import sys, os\nroot = sys.argv[1]\ndef change(name, pairs):\n    f = os.path.join(root, name)\n    s = open(f).read()\n"
    b"    for old, new in pairs:\n        if old not in s:\n            raise SystemExit('no ' + old)\n        s = s.replace(old, new)\n"
    b"    with open(f, 'w') as h:\n        h.write(s)\nchange('pkg/m.py', [('a', 'A'), ('c\\n', 'C\\n' + 'D\\n')])\n",
    b"t = 'x' * 10\nwhile len(t) < 100:\n    t += t\nopen('pkg/m.py', 'w').write(t % () + f'{t}')\n",
)
_TREE = MemoryTree({"pkg/m.py": "a\nb\nc\n", "pkg/n.py": "def f():\n    return 1\n"})


def one_input(data: bytes) -> None:
    take_script(data.decode("utf-8", "replace"), "in.py", _TREE, Options())
