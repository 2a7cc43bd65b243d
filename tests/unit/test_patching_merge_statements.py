"""Statements that a patch adds, takes away or replaces, in a file in which they changed.

Each case is the base, ours and theirs, what becomes of it, and the file then, or why there is none.
"""

from __future__ import annotations

import pytest

from tests.unit.test_patching_merge_tokens import carried

CASES = {
    "import in a list with comments, sorted": (
        "from p import (\n    a,  # one\n    c,\n)\n",
        "from p import (\n    a,  # one\n    b,\n    c,\n)\n",
        "from p import (\n    a,  # one\n    bb,\n    c,\n)\n",
        "clean",
        "from p import (\n    a,  # one\n    b,\n    bb,\n    c,\n)\n",
    ),
    "import in a list with comments, in no order": (
        "from p import (\n    z,  # one\n    c,\n)\n",
        "from p import (\n    z,  # one\n    b,\n    c,\n)\n",
        "from p import (\n    z,  # one\n    y,\n    c,\n)\n",
        "clean",
        "from p import (\n    z,  # one\n    b,\n    c,\n    y,\n)\n",
    ),
    "one line of imports": (
        "from package.of.things import alpha, bravo, charlie, delta, echo, foxtrot\n",
        "from package.of.things import alpha, bravo, charlie, delta, echo, golf\n",
        "from package.of.things import alpha, bravo, charlie, delta, echo, foxtrot, hotel\n",
        "clean",
        "from package.of.things import alpha, bravo, charlie, delta, echo, golf, hotel\n",
    ),
    "one line of imports with a comment": (
        "from package.of.things import alpha, bravo, charlie, delta, echo, foxtrot  # why\n",
        "from package.of.things import alpha, bravo, charlie, delta, echo, golf  # why\n",
        "from package.of.things import alpha, bravo, charlie, delta, echo, foxtrot, hotel  # why\n",
        "clean",
        "from package.of.things import alpha, bravo, charlie, delta, echo, golf, hotel  # why\n",
    ),
    "modules on one line": (
        "import a, b\n",
        "import a, b, d\n",
        "import a, c, b\n",
        "clean",
        "import a, c, b, d\n",
    ),
    "a module fewer and one more": (
        "import a, b\nX = 1\n",
        "import a, b, d\nX = 1\n",
        "import a\nX = 1\n",
        "clean",
        "import a, d\nX = 1\n",
    ),
    "an import without names goes": (
        "from p import a\nX = a\n",
        "from p import a\nY = 2\nX = a\n",
        "X = 2\n",
        "clean",
        "Y = 2\nX = 2\n",
    ),
    "sorted whatever the case": (
        "from p import A, b\n",
        "from p import A, b, c\n",
        "from p import A, B2, b\n",
        "clean",
        "from p import A, B2, b, c\n",
    ),
    "one name from two modules": (
        "from p import a\nX = 1\n",
        "from p import a\nfrom q import z\nX = 1\n",
        "from p import a\nfrom r import z\nX = 1\n",
        "conflict",
        "`z` is imported from elsewhere on the other side",
    ),
    "a name that more of ours uses now stays": (
        "from p import a, b\nX = a\nY = b\n",
        "from p import a, b, d\nX = a\nY = b\nZ = a\n",
        "from p import b\nX = 1\nY = b\n",
        "clean",
        "from p import a, b, d\nX = 1\nY = b\nZ = a\n",
    ),
    "names under other names": (
        "from p import a as b, c\n",
        "from p import a as b, c, d\n",
        "from p import a as b, c, e as f\n",
        "clean",
        "from p import a as b, c, d, e as f\n",
    ),
    "imports with CRLF": (
        "from p import a, c\r\n",
        "from p import a, b, c\r\n",
        "from p import a, c, d\r\n",
        "clean",
        "from p import a, b, c, d\r\n",
    ),
    "the block of an import is gone": (
        "if X:\n    from p import a\n    from p import b\n",
        "Y = 1\n",
        "if X:\n    from p import a\n    from p import b\n    from p import c\n",
        "conflict",
        "what stood around `from p import c` is gone: `from p import b`",
    ),
    "imports where the one before is another": (
        "import os\nX = 1\n",
        "import re\nX = 1\n",
        "import os\nfrom q import z, sys\nimport json\nX = 1\n",
        "clean",
        "import re\nfrom q import z, sys\nimport json\nX = 1\n",
    ),
    "a name that ours has from another module": (
        "from p import a\nfrom q import b\nX = 1\n",
        "from p import a, c\nfrom q import b\nX = 1\n",
        "from p import a, d\nfrom q import b, c\nfrom r import k, l\nX = 1\n",
        "conflict",
        "`c` is imported from elsewhere on the other side",
    ),
    "a name from another module now": (
        "from p import a\nX = 1\n",
        "from p import a, b\nX = 1\n",
        "from q import a\nX = 1\n",
        "clean",
        "from p import b\nfrom q import a\nX = 1\n",
    ),
    "moved by both, each its own way": (
        "def f(a, b):\n    first(a, b)\n    second(a, b)\n    third(a, b)\n    return 1\n",
        "def f(a, b):\n    second(a, b)\n    third(a, b)\n    first(a, b)\n    return 1\n",
        "def f(a, b):\n    second(a, b)\n    first(a, b)\n    third(a, b)\n    return 1\n",
        "conflict",
        "it moves statements from one block to another, and ours changed them",
    ),
    "taken away here, changed there": (
        "def f(a, b):\n    first(a, b)\n    second(a, b)\n    third(a, b)\n",
        "def f(a, b):\n    first(a, b)\n    second(a, c)\n    third(a, b)\n",
        "def f(a, b):\n    first(a, b)\n    third(a, b)\n",
        "conflict",
        "`second(a, b)` was changed on both sides",
    ),
    "taken away here, replaced there": (
        "def f(a, b):\n    first(a, b)\n    second(a, b)\n    third(a, b)\n",
        "def f(a, b):\n    first(a, b)\n    q(1)\n    third(a, b)\n",
        "def f(a, b):\n    first(a, b)\n    third(a, b)\n",
        "conflict",
        "`second(a, b)` is gone, and `q(1)` stands in its place",
    ),
    "replaced here, taken away there": (
        "def f(a, b):\n    first(a, b)\n    second(a, b)\n    third(a, b)\n",
        "def f(a, b):\n    first(a, b)\n    third(a, b)\n",
        "def f(a, b):\n    first(a, b)\n    if z:\n        y = 3\n    third(a, b)\n",
        "conflict",
        "`second(a, b)` is gone, which the patch replaces",
    ),
    "put into a block that is gone": (
        "def f(a, b):\n    if a:\n        first(a, b)\n        second(a, b)\n    return 1\n",
        "def f(a, b):\n    return 1\n",
        (
            "def f(a, b):\n    if a:\n        first(a, b)\n        second(a, b)\n"
            "        third(a, b)\n    return 1\n"
        ),
        "conflict",
        "what stood around `third(a, b)` is gone: `second(a, b)`",
    ),
    "taken out of a block that is gone": (
        "def f(a, b):\n    if a:\n        first(a, b)\n        second(a, b)\n    return 1\n",
        "def f(a, b):\n    return 1\n",
        "def f(a, b):\n    if a:\n        first(a, b)\n    return 1\n",
        "conflict",
        "the block of `second(a, b)` is gone",
    ),
    "put between two that left their block": (
        "def f(a, b):\n    if a:\n        first(a, b)\n        second(a, b)\n    return 1\n",
        "def f(a, b):\n    first(a, b)\n    second(a, b)\n    return 1\n",
        (
            "def f(a, b):\n    if a:\n        first(a, b)\n        third(a, b)\n"
            "        second(a, b)\n    return 1\n"
        ),
        "clean",
        "def f(a, b):\n    first(a, b)\n    third(a, b)\n    second(a, b)\n    return 1\n",
    ),
    "one neighbour left its block": (
        "def f(a, b):\n    if a:\n        first(a, b)\n        second(a, b)\n    return 1\n",
        "def f(a, b):\n    second(a, b)\n    return 1\n",
        (
            "def f(a, b):\n    if a:\n        first(a, b)\n        third(a, b)\n"
            "        second(a, b)\n    return 1\n"
        ),
        "look",
        "def f(a, b):\n    third(a, b)\n    second(a, b)\n    return 1\n",
    ),
    "what is replaced does not stand together now": (
        "def f(a, b):\n    first(a, b)\n    second(a, b)\n    third(a, b)\n",
        "def f(a, b):\n    first(a, b)\n    zero(a)\n    second(a, b)\n    third(a, b)\n",
        "def f(a, b):\n    one_thing(q)\n    third(a, b)\n",
        "look",
        "def f(a, b):\n    one_thing(q)\n    zero(a)\n    third(a, b)\n",
    ),
    "one method added twice": (
        "class A:\n    x = 1\n",
        "class A:\n    x = 1\n\n    def g(self):\n        return 1\n",
        "class A:\n    x = 1\n\n    def g(self):\n        return 2\n",
        "conflict",
        "`g` was added on both sides, each its own way",
    ),
    "one name of a class of constants added twice": (
        "A = 1\nB = 2\n",
        "A = 1\nC = 3\nB = 2\n",
        "A = 1\nC = 4\nB = 2\n",
        "conflict",
        "`C = 4` was added on both sides, each its own way",
    ),
    "a setter of a property": (
        "class A:\n    x = 1\n\n    @property\n    def g(self):\n        return 1\n",
        (
            "class A:\n    x = 1\n\n    @property\n    def g(self):\n        return 1\n\n"
            "    def k(self):\n        return 3\n"
        ),
        (
            "class A:\n    x = 1\n\n    @property\n    def g(self):\n        return 1\n\n"
            "    @g.setter\n    def g(self, v):\n        pass\n"
        ),
        "clean",
        (
            "class A:\n    x = 1\n\n    @property\n    def g(self):\n        return 1\n\n"
            "    def k(self):\n        return 3\n\n    @g.setter\n    def g(self, v):\n        pass\n"
        ),
    ),
    "put behind a block that grew": (
        "def f(a, b):\n    if a:\n        one(a)\n    three(a)\n",
        "def f(a, b):\n    if a:\n        one(a)\n    two(a)\n    three(a)\n",
        "def f(a, b):\n    if a:\n        one(a)\n        uno(a)\n    three(a)\n",
        "look",
        "def f(a, b):\n    if a:\n        one(a)\n        uno(a)\n    two(a)\n    three(a)\n",
    ),
    "its neighbour went into a block": (
        "def f(a, b):\n    one(a, b, c)\n    two(a, b, c)\n",
        "def f(a, b):\n    if a:\n        one(a, b, c)\n        new(a)\n    two(a, b, c)\n",
        "def f(a, b):\n    one(a, b, c)\n    other(b)\n    two(a, b, c)\n",
        "clean",
        ("def f(a, b):\n    if a:\n        one(a, b, c)\n        new(a)\n    other(b)\n    two(a, b, c)\n"),
    ),
    "the one before it is gone": (
        "def f(a, b):\n    one(a, b, c)\n    two(a, b, c)\n    return 1\n",
        "def f(a, b):\n    zero(z)\n    two(a, b, c)\n    return 1\n",
        "def f(a, b):\n    one(a, b, c)\n    other(b)\n    two(a, b, c)\n    return 1\n",
        "look",
        "def f(a, b):\n    zero(z)\n    other(b)\n    two(a, b, c)\n    return 1\n",
    ),
    "the one behind it is gone": (
        "def f(a, b):\n    one(a, b, c)\n    two(a, b, c)\n    return 1\n",
        "def f(a, b):\n    one(a, b, c)\n    zero(z)\n",
        "def f(a, b):\n    one(a, b, c)\n    other(b)\n    two(a, b, c)\n    return 1\n",
        "look",
        "def f(a, b):\n    one(a, b, c)\n    other(b)\n    zero(z)\n",
    ),
    "its neighbours changed places": (
        "def f(a, b):\n    one(a, b, c)\n    two(a, b, c)\n    return 1\n",
        "def f(a, b):\n    two(a, b, c)\n    one(a, b, c)\n    return 1\n",
        "def f(a, b):\n    one(a, b, c)\n    other(b)\n    two(a, b, c)\n    return 1\n",
        "look",
        "def f(a, b):\n    two(a, b, c)\n    one(a, b, c)\n    other(b)\n    return 1\n",
    ),
    "nothing of its block is left in a module": (
        "A = 1\nB = 2\n",
        "def q(): ...\n",
        "A = 1\nN = 3\nB = 2\n",
        "clean",
        "def q(): ...\nN = 3\n",
    ),
    "half of it is there": (
        "def f(a, b):\n    one(a, b, c)\n    two(a, b, c)\n",
        "def f(a, b):\n    one(a, b, c)\n    x = 1\n    two(a, b, c)\n",
        "def f(a, b):\n    one(a, b, c)\n    x = 1\n    y = 2\n    two(a, b, c)\n",
        "look",
        "def f(a, b):\n    one(a, b, c)\n    x = 1\n    y = 2\n    two(a, b, c)\n",
    ),
    "nothing around it is left": (
        "def f(a, b):\n    if a:\n        one(a, b, c)\n        two(a, b, c)\n    return 1\n",
        "def f(a, b):\n    if a:\n        zero(z)\n    return 1\n",
        (
            "def f(a, b):\n    if a:\n        one(a, b, c)\n        other(b)\n        two(a, b, c)\n"
            "    return 1\n"
        ),
        "conflict",
        "what stood around `other(b)` is gone: `one(a, b, c)`",
    ),
    "two things went, one is there": (
        "def f(a, b):\n    one(a, b, c)\n    two(a, b, c)\n    three(a, b, c)\n    return 1\n",
        "def f(a, b):\n    one(a, b, c)\n    three(a, b, c)\n    return 2\n",
        "def f(a, b):\n    return 1\n",
        "clean",
        "def f(a, b):\n    return 2\n",
    ),
    "ours and theirs append without a line end": (
        "def f():\n    one(a)\n",
        "def f():\n    one(a)\n    zero(z)",
        "def f():\n    one(a)\n    two(a)\n",
        "look",
        "def f():\n    one(a)\n    zero(z)\n    two(a)",
    ),
    "new imports between": (
        "import a\nimport d\nX = 1\n",
        "import a\nimport b\nimport d\nX = 1\n",
        "import a\nimport c\nimport d\nX = 1\n",
        "clean",
        "import a\nimport b\nimport c\nimport d\nX = 1\n",
    ),
    "an import that breaks its line": (
        "from package.of.things import alpha, bravo, charlie, delta, echo, foxtrot\nX = 1\n",
        "from package.of.things import alpha, bravo, charlie, delta, echo, foxtrot, golf\nX = 1\n",
        ("from package.of.things import alpha, bravo, charlie, delta, echo, foxtrot, hotel, india\nX = 1\n"),
        "clean",
        (
            "from package.of.things import (\n    alpha,\n    bravo,\n    charlie,\n    delta,\n"
            "    echo,\n    foxtrot,\n    golf,\n    hotel,\n    india,\n)\nX = 1\n"
        ),
    ),
    "a name goes from a list with comments": (
        "from p import (\n    a,  # one\n    c,\n    e,\n)\n",
        "from p import (\n    a,  # one\n    c,\n    d,\n    e,\n)\n",
        "from p import (\n    a,  # one\n    e,\n)\n",
        "clean",
        "from p import (\n    a,  # one\n    d,\n    e,\n)\n",
    ),
    "a header that both changed, apart": (
        (
            "def f(a, b):\n    if a == 1:\n        one(a)\n    elif a == 2:\n        two(b)\n"
            "    else:\n        three(a, b)\n    return 1\n"
        ),
        (
            "def f(a, b):\n    if a == 1 and b:\n        one(a)\n    elif a == 2:\n        two(b)\n"
            "    else:\n        three(a, b)\n    return 1\n"
        ),
        (
            "def f(a, b):\n    if c == 1:\n        one(a)\n    elif a == 2:\n        two(b)\n"
            "    else:\n        three(a, b)\n    return 1\n"
        ),
        "clean",
        (
            "def f(a, b):\n    if c == 1 and b:\n        one(a)\n    elif a == 2:\n        two(b)\n"
            "    else:\n        three(a, b)\n    return 1\n"
        ),
    ),
    "the header of what is gone": (
        (
            "def f(a, b):\n    zero(a)\n    if a == 1:\n        one(a)\n    elif a == 2:\n"
            "        two(b)\n    else:\n        three(a, b)\n    return 1\n"
        ),
        "def f(a, b):\n    zero(a)\n    return 1\n",
        (
            "def f(a, b):\n    zero(a)\n    if c == 1:\n        one(a)\n    elif a == 2:\n"
            "        two(b)\n    else:\n        three(a, b)\n    return 1\n"
        ),
        "conflict",
        "`if a == 1:` is gone, which the patch changes",
    ),
    "an arm goes": (
        (
            "def f(a, b):\n    if a == 1:\n        one(a)\n    elif a == 2:\n        two(b)\n"
            "    else:\n        three(a, b)\n    return 1\n"
        ),
        (
            "def f(a, b):\n    if a == 1:\n        uno(a, 7)\n    elif a == 2:\n        two(b)\n"
            "    else:\n        three(a, b)\n    return 1\n"
        ),
        "def f(a, b):\n    if a == 1:\n        one(a)\n    else:\n        three(a, b)\n    return 1\n",
        "clean",
        ("def f(a, b):\n    if a == 1:\n        uno(a, 7)\n    else:\n        three(a, b)\n    return 1\n"),
    ),
    "an arm goes that ours changed": (
        (
            "def f(a, b):\n    if a == 1:\n        one(a)\n    elif a == 2:\n        two(b)\n"
            "    else:\n        three(a, b)\n    return 1\n"
        ),
        (
            "def f(a, b):\n    if a == 1:\n        one(a)\n    elif a == 2:\n        dos(b, 8)\n"
            "    else:\n        three(a, b)\n    return 1\n"
        ),
        "def f(a, b):\n    if a == 1:\n        one(a)\n    else:\n        three(a, b)\n    return 1\n",
        "conflict",
        "`if a == 1:`: an arm it removes was changed",
    ),
    "an arm goes that is gone": (
        (
            "def f(a, b):\n    if a == 1:\n        one(a)\n    elif a == 2:\n        two(b)\n"
            "    else:\n        three(a, b)\n    return 1\n"
        ),
        "def f(a, b):\n    if a == 1:\n        uno(a)\n    else:\n        three(a, b)\n    return 1\n",
        "def f(a, b):\n    if a == 1:\n        one(a)\n    else:\n        three(a, b)\n    return 1\n",
        "upstream",
        "",
    ),
    "an arm goes, its statement changed beside": (
        (
            "def f(a, b):\n    if a == 1:\n        one(a)\n    elif a == 2:\n        two(b)\n"
            "    else:\n        three(a, b)\n    return 1\n"
        ),
        (
            "def f(a, b):\n    if a == 1:\n        one(a)\n    elif a == 2 :\n        two(b)\n"
            "    elif a == 5:\n        five(b)\n    else:\n        three(a, b)\n    return 1\n"
        ),
        "def f(a, b):\n    if a == 1:\n        one(a)\n    else:\n        three(a, b)\n    return 1\n",
        "clean",
        (
            "def f(a, b):\n    if a == 1:\n        one(a)\n    elif a == 5:\n        five(b)\n"
            "    else:\n        three(a, b)\n    return 1\n"
        ),
    ),
    "the same arm twice, each its own": (
        (
            "def f(a, b):\n    if a == 1:\n        one(a)\n    elif a == 2:\n        two(b)\n"
            "    else:\n        three(a, b)\n    return 1\n"
        ),
        (
            "def f(a, b):\n    if a == 1:\n        one(a)\n    elif a == 2:\n        two(b)\n"
            "    elif a == 3:\n        tres(b)\n    else:\n        three(a, b)\n    return 1\n"
        ),
        (
            "def f(a, b):\n    if a == 1:\n        one(a)\n    elif a == 2:\n        two(b)\n"
            "    elif a == 3:\n        drei(a)\n    else:\n        three(a, b)\n    return 1\n"
        ),
        "conflict",
        "`if a == 1:`: the same arm was added on both sides",
    ),
    "the same arm, the same": (
        (
            "def f(a, b):\n    if a == 1:\n        one(a)\n    elif a == 2:\n        two(b)\n"
            "    else:\n        three(a, b)\n    return 1\n"
        ),
        (
            "def f(a, b):\n    if a == 1:\n        one(a)\n    elif a == 2:\n        two(b)\n"
            "    elif a == 3:\n        tres(b)\n    else:\n        three(a, b)\n    return 2\n"
        ),
        (
            "def f(a, b):\n    if a == 1:\n        one(a)\n    elif a == 2:\n        two(b)\n"
            "    elif a == 3:\n        tres(b)\n    else:\n        three(a, b)\n    return 1\n"
        ),
        "upstream",
        "",
    ),
    "an arm whose neighbours are gone": (
        (
            "def f(a, b):\n    if a == 1:\n        one(a)\n    elif a == 2:\n        two(b)\n"
            "    else:\n        three(a, b)\n    return 1\n"
        ),
        "def f(a, b):\n    if a == 1:\n        one(a)\n    return 1\n",
        (
            "def f(a, b):\n    if a == 1:\n        one(a)\n    elif a == 2:\n        two(b)\n"
            "    elif a == 3:\n        tres(b)\n    else:\n        three(a, b)\n    return 1\n"
        ),
        "conflict",
        "`if a == 1:`: the arms around the new one are gone",
    ),
    "comment of what is gone": (
        "def f(a, b):\n    one(a, b, c)\n    # about two\n    two(a, b, c)\n    return 1\n",
        "def f(a, b):\n    one(a, b, c)\n    return 1\n",
        "def f(a, b):\n    one(a, b, c)\n    # more about two\n    two(a, b, c)\n    return 1\n",
        "conflict",
        "comments of a statement that is gone were left out",
    ),
    "comments on both sides": (
        "def f(a, b):\n    one(a, b, c)\n    # about two\n    two(a, b, c)\n    return 1\n",
        "def f(a, b):\n    one(a, b, c)\n    # ours about two\n    two(a, b, c)\n    return 1\n",
        "def f(a, b):\n    one(a, b, c)\n    # theirs about two\n    two(a, b, c)\n    return 1\n",
        "conflict",
        "a comment changed on both sides; ours was kept",
    ),
    "behind the line on one side": (
        "def f(a, b):\n    two(a, b, c)  # old\n    return 1\n",
        "def f(a, b):\n    two(a, b, d)  # old\n    return 1\n",
        "def f(a, b):\n    two(a, b, c)  # new\n    return 1\n",
        "conflict",
        "a comment changed on both sides; ours was kept",
    ),
    "there already beside it": (
        "def f(a, b):\n    first(a, b, c)\n    second(a)\n",
        "def f(a, b):\n    first(a, b, c)\n    first(a, b, d)\n    second(b)\n",
        "def f(a, b):\n    first(a, b, d)\n    second(a)\n",
        "conflict",
        "`first(a, b, d)` is there already, and what it replaces is too",
    ),
    "became a block": (
        "def f(a, b):\n    first(a, b, c)\n    second(a)\n",
        "def f(a, b):\n    if a:\n        first(a, b, c)\n    second(a)\n",
        "def f(a, b):\n    first(a, b, d)\n    second(a)\n",
        "clean",
        "def f(a, b):\n    if a:\n        first(a, b, d)\n    second(a)\n",
    ),
    "a statement against a block": (
        "def f(a, b):\n    x = first(a, b, c)\n    second(a)\n",
        "def f(a, b):\n    x = first(a, b, z)\n    second(a)\n",
        "def f(a, b):\n    with x as first(a, b, c)[0]:\n        y = 1\n    second(a)\n",
        "conflict",
        "`x = first(a, b, c)` was changed on both sides",
    ),
    "several on one line": (
        "def f(a, b):\n    x = 1; y = 2\n    z = 3\n",
        "def f(a, b):\n    x = 1; y = 2\n    z = 4\n",
        "def f(a, b):\n    x = 1; y = 5\n    z = 3\n",
        "clean",
        "def f(a, b):\n    x = 1; y = 5\n    z = 4\n",
    ),
    "a one-line block": (
        "def f(a, b):\n    if a: b = 1\n    z = 3\n",
        "def f(a, b):\n    if a: b = 1\n    z = 4\n",
        "def f(a, b):\n    if a: b = 2\n    z = 3\n",
        "clean",
        "def f(a, b):\n    if a: b = 2\n    z = 4\n",
    ),
    "quotes": (
        "def f(a, b):\n    x = 'a'\n    z = 3\n",
        'def f(a, b):\n    x = "a"\n    z = 4\n',
        "def f(a, b):\n    x = 'b'\n    z = 3\n",
        "clean",
        "def f(a, b):\n    x = 'b'\n    z = 4\n",
    ),
    "byte order mark": (
        "\ufeffx = 1\ny = 2\n",
        "\ufeffx = 1\ny = 3\n",
        "\ufeffx = 5\ny = 2\n",
        "conflict",
        "lines it changes were changed too, at line 1",
    ),
    "form feed": (
        "x = 1\n\x0c\ny = 2\n",
        "x = 3\n\x0c\ny = 2\n",
        "x = 4\n\x0c\ny = 2\n",
        "conflict",
        "lines it changes were changed too, at line 1",
    ),
    "a tuple of one": (
        "def f(a, b):\n    x = (a,)\n    z = 3\n",
        "def f(a, b):\n    x = (b,)\n    z = 4\n",
        "def f(a, b):\n    x = (a)\n    z = 3\n",
        "conflict",
        "`x = (a,)` was changed on both sides",
    ),
    "a call with a comma more": (
        "def f(a, b):\n    x = g((a,), k)\n    z = 3\n",
        "def f(a, b):\n    x = g((a,), k,)\n    z = 3\n",
        "def f(a, b):\n    x = g((a,), m)\n    z = 3\n",
        "clean",
        "def f(a, b):\n    x = g((a,), m)\n    z = 3\n",
    ),
    "augmented": (
        "def f(a, b):\n    x += first\n    y = 3\n",
        "def f(a, b):\n    x += second\n    y = 4\n",
        "def f(a, b):\n    x += third\n    y = 3\n",
        "conflict",
        "`x += first` was changed on both sides",
    ),
    "emptied module": ("x = 1\n", "", "x = 2\n", "conflict", "`x = 1` is gone, which the patch changes"),
    "twice the same name in a class": (
        "class A:\n    a = 1\n    a = 2\n    b = 3\n",
        "class A:\n    a = 1\n    a = 2\n    b = 4\n",
        "class A:\n    a = 1\n    a = 5\n    b = 3\n",
        "clean",
        "class A:\n    a = 1\n    a = 5\n    b = 4\n",
    ),
    "a tuple that loses one": (
        "def f(a, b):\n    x = (a, b)\n    z = 3\n",
        "def f(a, b):\n    x = (a + 1, b)\n    z = 4\n",
        "def f(a, b):\n    x = (a,)\n    z = 3\n",
        "conflict",
        "`x = (a, b)` was changed on both sides",
    ),
    "a tuple of one that changes": (
        "def f(a, b):\n    x = g((a,), 1)\n    z = 3\n",
        "def f(a, b):\n    x = g((a,), 2)\n    z = 4\n",
        "def f(a, b):\n    x = g((b,), 1)\n    z = 3\n",
        "clean",
        "def f(a, b):\n    x = g((b,), 2)\n    z = 4\n",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_statements_that_two_sides_changed(name: str) -> None:
    base, ours, theirs, status, wanted = CASES[name]
    outcome = carried(base, ours, theirs)
    assert outcome.status == status, outcome.hunks
    if status == "upstream":
        assert not outcome.files
    elif status == "conflict":
        assert not outcome.files and outcome.hunks[0].note == wanted
    else:
        assert (outcome.files["m.py"] or b"").decode() == wanted
