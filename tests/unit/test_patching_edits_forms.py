"""One edit on one small module each: what the module is then, or why the edit does not go."""

from __future__ import annotations

import pytest

from tests.unit.test_patching_edits import made

#: Names that edits use and the module has.
NAMES = "\n\n\nb = c = h = y = z = 0\n"

#: The edit, the module, and the module then; or what is said.
CASES = [
    ("set-constant: {in: example.m, name: X, was: '1', to: '1, 2'}", "X = 1\n", "X = (1, 2)\n"),
    ("set-constant: {in: example.m, name: X, was: '$_', to: '2'}", "X = f(1)\n", "X = 2\n"),
    (
        "set-constant: {in: example.m, name: X, was: '1', to: '2'}",
        "X = 1\nif a:\n    X = 1\n",
        ("P071: X is assigned 2 times in example/m.py, expected 1; nearest: line 1 `X = 1`, line 3 `X = 1`"),
    ),
    (
        "set-constant: {in: example.m, name: XX, was: '1', to: '2'}",
        "XY = 1\n",
        "P070: XX is not assigned in example/m.py; nearest: XY",
    ),
    (
        "set-default: {in: example.m.C, name: x, was: '1', to: '2'}",
        "class C:\n    x: int = 1\n",
        "class C:\n    x: int = 2\n",
    ),
    (
        "set-default: {in: example.m.f, name: x, was: '1', to: '2'}",
        "def f(x=1): ...\ndef f(x=1): ...\n",
        "P071: example/m.py:f is defined 2 times",
    ),
    (
        "set-default: {in: example.m.X, name: x, was: '1', to: '2'}",
        "X = 1\n",
        "P075: example/m.py:X is no function and no class",
    ),
    (
        "set-default: {in: example.m.f, name: x, was: '1', to: '2'}",
        "def f(a, x): ...\n",
        "P077: x of example/m.py:f has no default; nearest: was: absent",
    ),
    (
        "set-default: {in: example.m.f, name: x, was: absent, to: '2'}",
        "def f(a, x): ...\n",
        "def f(a, x=2): ...\n",
    ),
    (
        "set-default: {in: example.m.f, name: x, was: absent, to: '2'}",
        "def f(a, x: int): ...\n",
        "def f(a, x: int = 2): ...\n",
    ),
    (
        "set-default: {in: example.m.f, name: y, was: absent, to: '2'}",
        "def f(a, /, x, *, k): ...\n",
        "P070: example/m.py:f has no parameter y; nearest: a, x, k",
    ),
    (
        "set-default: {in: example.m.f, name: k, was: '1', to: '2'}",
        "def f(a, *, k=1): ...\n",
        "def f(a, *, k=2): ...\n",
    ),
    (
        "set-argument: {in: example.m, call: g($...A), argument: k, was: '1', to: '2'}",
        "g(a)\n",
        "P077: argument k at example/m.py:1 is not given; nearest: g(a)",
    ),
    (
        "set-argument: {in: example.m, call: g($...A), argument: 1, was: absent, to: '2'}",
        "g(a)\n",
        "P077: argument 1 at example/m.py:1 is not given; nearest: g(a)",
    ),
    (
        "set-argument: {in: example.m, call: g($...A), argument: k, was: absent, to: '2'}",
        "g(x for x in y)\n",
        "P075: the call at example/m.py:1 has a generator as its only argument",
    ),
    (
        "set-argument: {in: example.m, call: g($...A), argument: k, was: absent, to: '2'}",
        "g(a, **w)\n",
        "g(a, k=2, **w)\n",
    ),
    (
        "set-argument: {in: example.m, call: g($...A), argument: 1, was: b, to: '2'}",
        "g(*a, b)\n",
        "P077: argument 1 at example/m.py:1 is not given; nearest: g(*a, b)",
    ),
    ("set-call: {in: example.m, call: g($...A), to: h.k}", "g(a)\nx = g" + NAMES, "h.k(a)\nx = g" + NAMES),
    (
        "set-call: {in: example.m, call: g($...A), to: h.k, count: 2}",
        "g(a)\n",
        "P071: `g($...A)` matches 1 place in example/m.py, expected 2; nearest: line 1 `g(a)`",
    ),
    (
        "add-member: {in: example.m, call: g($...A), argument: '1', member: b}",
        "g(a)\n",
        "P070: argument 1 at example/m.py:1 is not given; nearest: g(a)",
    ),
    (
        "add-member: {in: example.m, call: g($...A), argument: '0', member: b}",
        "g([a])" + NAMES,
        "g([a, b])" + NAMES,
    ),
    (
        "add-member: {in: example.m, call: g($...A), argument: k, member: b, count: 2}",
        "g(k=[a])\n",
        "P071: `g($...A)` matches 1 place in example/m.py, expected 2; nearest: line 1 `g(k=[a])`",
    ),
    (
        "add-member: {in: example.m, name: X, member: b}",
        "X = f([a])\n",
        "P075: X in example/m.py is no literal with members: `f([a])`",
    ),
    (
        "add-member: {in: example.m, name: X, member: b}",
        "X = f(a, b)\n",
        "P075: X in example/m.py is no literal with members: `f(a, b)`",
    ),
    (
        "add-member: {in: example.m, name: X, member: b}",
        "X = collections.OrderedDict([a])" + NAMES,
        "X = collections.OrderedDict([a, b])" + NAMES,
    ),
    (
        "add-member: {in: example.m, name: X, member: b}",
        "X = t.frozenset({a})" + NAMES,
        "X = t.frozenset({a, b})" + NAMES,
    ),
    (
        "add-member: {in: example.m, name: X, member: b, before: c}",
        "X = [a, c]" + NAMES,
        "X = [a, b, c]" + NAMES,
    ),
    (
        "add-member: {in: example.m, name: X, member: b, after: z}",
        "X = [a, c]\n",
        "P071: no member `z`; nearest: `a`, `c`",
    ),
    ("add-member: {in: example.m, name: X, key: b, value: c}", "X = [a, c]\n", "P075: `[a, c]` has no keys"),
    ("add-member: {in: example.m, name: X, member: b}", "X = ()" + NAMES, "X = (b,)" + NAMES),
    ("add-member: {in: example.m, name: X, members: [b, c]}", "X = ()" + NAMES, "X = (b, c)" + NAMES),
    ("add-member: {in: example.m, name: X, member: b}", "X = a, c" + NAMES, "X = a, c, b" + NAMES),
    (
        "add-member: {in: example.m, name: X, member: b}",
        "X = {a: 1}\n",
        "P075: `{a: 1}` has keys; the edit gives none",
    ),
    (
        "add-member: {in: example.m, name: X, key: b, value: c}",
        "X = {**a, 'd': 1}" + NAMES,
        "X = {**a, 'd': 1, b: c}" + NAMES,
    ),
    (
        "add-member: {in: example.m, name: X, key: b, value: c}",
        "X = {b: d}\n",
        "P077: the key b is `d` already; nearest: example/m.py:1",
    ),
    ("add-member: {in: example.m, name: X, key: b, value: c}", "X = {b: c}\n", "upstream"),
    (
        "insert: {in: example.m.f, before: g($...A), code: 'h()'}",
        "def f():\n    if a: pass\n    elif g(1): pass\n",
        "P075: line 3 of example/m.py is an elif: use insert-arm",
    ),
    (
        "insert: {in: example.m.f, before: g($...A), code: 'h()'}",
        "def f():\n    x = 1; g(1)\n",
        "P075: the statement at line 2 of example/m.py shares its line",
    ),
    (
        "insert: {in: example.m.f, before: g($...A), code: 'h()'}",
        "def f():\n    # about g\n    # more\n    g(1)  # here" + NAMES,
        "def f():\n    h()\n    # about g\n    # more\n    g(1)  # here" + NAMES,
    ),
    (
        "insert: {in: example.m, before: g($...A), code: 'h()'}",
        "# about g\ng(1)" + NAMES,
        "h()\n# about g\ng(1)" + NAMES,
    ),
    (
        "insert: {in: example.m.f, after: g($...A), code: 'h()'}",
        "def f(h):\n    g(1)",
        "def f(h):\n    g(1)\n    h()",
    ),
    (
        "insert: {in: example.m.f, after: g($...A), code: 'g(2)'}",
        "def f():\n    g(1)\n",
        "def f():\n    g(1)\n    g(2)\n",
    ),
    (
        "insert: {in: example.m, after: g($...A), code: 'def h(): return 1'}",
        "def h(): ...\ng(1)\n",
        "P077: example/m.py defines another h at line 1",
    ),
    (
        "insert: {in: example.m.f, after: g($...A) + g($...B), code: 'h()', count: 2}",
        "def f():\n    g(1) + g(2)\n",
        (
            "P071: `g($...A) + g($...B)` matches 1 place in example/m.py:f, expected 2; "
            "nearest: line 2 `g(1) + g(2)`"
        ),
    ),
    (
        "insert: {in: example.m.f, at: end, code: 'h()'}",
        "def f(): ...\ndef f(): ...\n",
        "P071: example/m.py:f is defined 2 times, expected 1",
    ),
    ("insert: {in: example.m.X, at: end, code: 'h()'}", "X = 1\n", "P075: example/m.py:X has no body"),
    (
        "insert: {in: example.m, at: end, code: 'h()'}",
        "# nothing" + NAMES,
        "# nothing\n\n\nb = c = h = y = z = 0\nh()\n",
    ),
    (
        "insert: {in: example.m.f, at: start, code: 'h()'}",
        "def f(): return 1\n",
        "P075: the body at line 1 of example/m.py shares its line",
    ),
    (
        "insert: {in: example.m, at: start, code: 'h()'}",
        "# the file\nx = 1" + NAMES,
        "# the file\nh()\nx = 1" + NAMES,
    ),
    ("insert: {in: example.m, at: end, code: 'def h(): ...'}", "x = 1\n", "x = 1\n\n\ndef h(): ...\n"),
    (
        "replace: {in: example.m, find: 'x = $X', with: 'x = -$X'}",
        "if a:\n    x = 1; z = 2\n",
        "if a:\n    x = -1; z = 2\n",
    ),
    (
        "replace: {in: example.m, find: a.b, with: a or b}",
        "X = [a.b]\nZ = 1" + NAMES,
        "X = [a or b]\nZ = 1" + NAMES,
    ),
    (
        "replace: {in: example.m, find: a.b, with: a or b}",
        "X = c and a.b" + NAMES,
        "X = c and (a or b)" + NAMES,
    ),
    (
        "replace: {in: example.m, find: a.b, with: (a or b)}",
        "X = c and a.b" + NAMES,
        "X = c and (a or b)" + NAMES,
    ),
    ("replace: {in: example.m, find: a.b, with: a or b}", "X = g(a.b)" + NAMES, "X = g(a or b)" + NAMES),
    (
        "add-import: {in: example.m.f, import: import os}",
        "def f(): ...\ndef f(): ...\n",
        "P071: example/m.py:f is defined 2 times",
    ),
    (
        "add-import: {in: example.m, import: from a import b}",
        "b = 1\n",
        "P077: b is something else in example/m.py; nearest: line 1 `b = 1`",
    ),
    (
        "add-import: {in: example.m, import: from a import b}",
        "from c import b\nZ = 1\n",
        "P077: b is something else in example/m.py; nearest: line 1 `from c import b`",
    ),
    (
        "add-import: {in: example.m, import: from a import b}",
        "import b\n",
        "P077: b is something else in example/m.py; nearest: line 1 `import b`",
    ),
    ("add-import: {in: example.m, import: import a.c}", "import a.b\n", "import a.b\nimport a.c\n"),
    (
        "add-import: {in: example.m, import: 'from a import b, c'}",
        "from a import d\nZ = 1\n",
        "from a import d\nfrom a import b, c\nZ = 1\n",
    ),
    (
        "add-import: {in: example.m, import: from a import b}",
        "from a import *\nZ = 1\n",
        "from a import *\nfrom a import b\nZ = 1\n",
    ),
    (
        "add-import: {in: example.m, import: from a import b}",
        "from a import d, \\\n    e\nZ = 1\n",
        "from a import d, \\\n    e\nfrom a import b\nZ = 1\n",
    ),
    (
        "add-import: {in: example.m, import: from a import b}",
        "from a import z, c\nZ = 1\n",
        "from a import z, c, b\nZ = 1\n",
    ),
    (
        "add-import: {in: example.m, import: from a import B}",
        "from a import A, C, b\nZ = 1\n",
        "from a import A, B, C, b\nZ = 1\n",
    ),
    (
        "add-import: {in: example.m, import: from a import c}",
        "from a import B, d, X\nZ = 1\n",
        "from a import B, c, d, X\nZ = 1\n",
    ),
    (
        "add-import: {in: example.m, import: from __future__ import annotations}",
        '"""Doc."""\nimport os\n',
        '"""Doc."""\nfrom __future__ import annotations\nimport os\n',
    ),
    (
        "add-import: {in: example.m, import: from __future__ import annotations}",
        "from __future__ import division\nimport os\n",
        "from __future__ import annotations, division\nimport os\n",
    ),
    (
        "add-import: {in: example.m.f, import: import b}",
        "def f():\n    import a\n    x = 1\n    import c\n",
        "def f():\n    import a\n    import b\n    x = 1\n    import c\n",
    ),
    (
        "add-import: {in: example.m, import: import b}",
        "def f(): ...\nimport c\n",
        "import b\ndef f(): ...\nimport c\n",
    ),
    ("add-import: {in: example.m, import: import b}", "# nothing\n", "# nothing\nimport b\n"),
    (
        "add-import: {in: example.m, import: from b import c}",
        "import os\nX = 1\n",
        "import os\n\nfrom b import c\nX = 1\n",
    ),
    ("declare-flag: {in: example.m.C, name: N, as: Flag(1)}", "C = 1\n", "P075: example/m.py:C is no class"),
    (
        "declare-flag: {in: example.m.C, name: N, as: Flag(1)}",
        "class C:\n    def f(self): ...\n    x: int\n    A = Flag(2)\n    B = 3\n",
        "class C:\n    def f(self): ...\n    x: int\n    A = Flag(2)\n    N = Flag(1)\n    B = 3\n",
    ),
    (
        "declare-flag: {in: example.m.C, name: N, as: Flag(1)}",
        "class C:\n    N = Flag(2)\n",
        "P077: N is declared as `Flag(2)`; nearest: example/m.py:2",
    ),
    (
        "declare-flag: {in: example.m.C, name: N, as: Flag(1)}",
        "class C:\n    A = 1\n",
        "P075: example/m.py:C holds no flags",
    ),
    (
        "insert: {in: example.m.f, before: g($...A), code: 'g(g)'}",
        "def f():\n    g(1)\n",
        "def f():\n    g(g)\n    g(1)\n",
    ),
    (
        "add-import: {in: example.m, import: from a import b}",
        "from a import (d, # why\n    e)\nZ = 1\n",
        "from a import (b, d, # why\n    e)\nZ = 1\n",
    ),
    (
        "add-import: {in: example.m, import: from a import b}",
        "from .a import b\nZ = 1\n",
        "P077: b is something else in example/m.py; nearest: line 1 `from .a import b`",
    ),
    (
        "insert-arm: {in: example.m.f, after: x, if: y, then: 'z()'}",
        "def f(y, z):\n    if x:\n        a()",
        "def f(y, z):\n    if x:\n        a()\n    elif y:\n        z()\n",
    ),
    (
        "widen: {in: example.m.f, at: q, with: y}",
        "def f():\n    return [a for a in d if q]" + NAMES,
        "def f():\n    return [a for a in d if q or y]" + NAMES,
    ),
    (
        "narrow: {in: example.m.f, at: q, with: y}",
        "def f():\n    return 1 if q else 2" + NAMES,
        "def f():\n    return 1 if (q and y) else 2" + NAMES,
    ),
    (
        "narrow: {in: example.m.f, at: q, with: y}",
        "def f():\n    while not q:\n        pass" + NAMES,
        "def f():\n    while not (q and y):\n        pass" + NAMES,
    ),
    (
        "narrow: {in: example.m.f, at: q, with: y or z}",
        "def f():\n    assert q, 1" + NAMES,
        "def f():\n    assert q and (y or z), 1" + NAMES,
    ),
    (
        "widen: {in: example.m.f, at: q, with: y and z}",
        "def f():\n    if q and y:\n        pass" + NAMES,
        "def f():\n    if (q or (y and z)) and y:\n        pass" + NAMES,
    ),
    (
        "widen: {in: example.m.f, at: 'def f(): $...B', with: y}",
        "def f():\n    pass\n",
        "P075: line 1 of example/m.py is no condition",
    ),
    ("guard: {in: example.m.f, at: g(), if: y}", "def f():\n    if y:\n        g()\n", "upstream"),
    ("guard: {in: example.m.f, at: g(), if: y}", "def f():\n    if y: g()\n", "upstream"),
    (
        "guard: {in: example.m.f, at: g(), if: y, count: 2}",
        "def f():\n    g()\n",
        "P071: `g()` matches 1 place in example/m.py:f, expected 2; nearest: line 2 `g()`",
    ),
    (
        "guard: {in: example.m.f, at: g(), if: y}",
        "def f():\n    return g()" + NAMES,
        "def f():\n    if y:\n        return g()" + NAMES,
    ),
    (
        "guard: {in: example.m.f, at: 'def k(): $...B', if: y}",
        "def f():\n    def k(): pass\n",
        "P075: line 2 of example/m.py binds a name that would be missing",
    ),
    (
        "narrow: {in: example.m.f, at: x, with: y}",
        "def f():\n    return x" + NAMES,
        "def f():\n    return x and y" + NAMES,
    ),
    (
        "narrow: {in: example.m.f, at: x == 1, with: y}",
        "def f():\n    z = [a for a in b if x == 1]\n    w = 1 if q else 2" + NAMES,
        "def f():\n    z = [a for a in b if x == 1 and y]\n    w = 1 if q else 2" + NAMES,
    ),
    (
        "widen: {in: example.m.f, at: x == 1, with: y}",
        "def f():\n    while x == 1: pass\n    assert x" + NAMES,
        "def f():\n    while x == 1 or y: pass\n    assert x" + NAMES,
    ),
    (
        "narrow: {in: example.m.f, at: x == 1, with: y, count: 2}",
        "def f():\n    if x == 1: pass\n",
        "P071: `x == 1` matches 1 place in example/m.py:f, expected 2; nearest: line 2 `x == 1`",
    ),
    (
        "insert-arm: {in: example.m.f, after: x, if: y, then: 'z()'}",
        "def f():\n    if x: a()\n    else: b()\n",
        "P075: the arm at line 2 of example/m.py is written on one line",
    ),
    (
        "insert-arm: {in: example.m.f, before: x, if: y, then: 'z()'}",
        "def f():\n    if x:\n        a()\n    else:\n        b()" + NAMES,
        "def f():\n    if y:\n        z()\n    elif x:\n        a()\n    else:\n        b()" + NAMES,
    ),
    (
        "insert-arm: {in: example.m.f, after: x, if: y, then: 'z()'}",
        "def f():\n    if x:\n        a()" + NAMES,
        "def f():\n    if x:\n        a()\n    elif y:\n        z()" + NAMES,
    ),
    (
        "insert-arm: {in: example.m.f, after: x, if: y, then: 'z()'}",
        "def f():\n    if x:\n        a()\n    else:\n        if q:\n            b()" + NAMES,
        (
            "def f():\n    if x:\n        a()\n    elif y:\n        z()\n    else:\n        if q:\n"
            "            b()"
        )
        + NAMES,
    ),
    (
        "insert-arm: {in: example.m.f, after: x, if: y, then: 'z()'}",
        "def f():\n    if x:\n        a()\n    elif y:\n        c()\n",
        "P077: line 4 of example/m.py has an arm with this condition and other code",
    ),
    (
        "insert-arm: {in: example.m.f, after: x, if: y, then: 'z()'}",
        "def f():\n    while x:\n        a()\n",
        "P071: `x` matches 0 places in example/m.py:f, expected 1; nearest: line 2 `while x:`",
    ),
    (
        "insert-arm: {in: example.m.f, after: x, if: y, then: 'z()'}",
        "def f():\n    return x\n",
        "P071: `x` matches 0 places in example/m.py:f, expected 1; nearest: line 2 `return x`",
    ),
    (
        "guard: {in: example.m.f, at: g(), if: y}",
        "def f():\n    g(); h()\n",
        "P075: the statement at line 2 of example/m.py shares its line",
    ),
    (
        "guard: {in: example.m.f, at: import a, if: y}",
        "def f():\n    import a\n",
        "P075: line 2 of example/m.py binds a name that would be missing",
    ),
    (
        "guard: {in: example.m.f, at: g(), if: y}",
        "def f():\n    g()  # why" + NAMES,
        "def f():\n    if y:\n        g()  # why" + NAMES,
    ),
]


@pytest.mark.parametrize("edit, source, wanted", CASES)
def test_an_edit(edit: str, source: str, wanted: str) -> None:
    outcome = made(f"- {edit}", source)
    if outcome.files:
        assert (outcome.files["example/m.py"] or b"").decode() == wanted
    else:
        assert (" ".join(hunk.note for hunk in outcome.hunks) or outcome.status) == wanted
