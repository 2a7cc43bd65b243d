"""Structural edits: each kind on a small file, what it does a second time, and what it says on a miss."""

from __future__ import annotations

import json
from collections.abc import Mapping

import msgspec
import pytest

from auditor import yamlio
from auditor.errors import UserError
from auditor.patching.edits.apply import apply
from auditor.patching.edits.check import check_edits
from auditor.patching.edits.model import Edit
from auditor.patching.model import Outcome
from auditor.profile import Roots
from auditor.queries.exampletree import PROFILE, MemoryTree
from auditor.trees.names import blob_id

SOURCE = '''\
"""Doc."""
import os
from a.b import (
    c,
    e,
)

# names
NAMES = [
    "a",  # first
    "b"
]
T = ("x",)
D = {"k": 1}
S = frozenset({1, 2})

def f(x, y=3):
    if x == 120:  # why
        return 1
    elif (x or y):
        g(x, y, z=[1])
    os.environ["K"] = "v"
    return None
'''


def edits_of(text: str) -> tuple[Edit, ...]:
    """Edits as a patch writes them, checked."""
    document = yamlio.load(("edits:\n" + text).encode(), "patch.yaml", code="P022")
    edits = msgspec.convert(document.data["edits"], tuple[Edit, ...])
    check_edits(edits, document)
    return edits


def made(text: str, source: str | bytes = SOURCE, others: Mapping[str, str | bytes] | None = None) -> Outcome:
    """What becomes of edits on a package with one module ``example.m`` and others."""
    files: dict[str, str | bytes] = {"example/__init__.py": "", "example/m.py": source, **(others or {})}
    outcome = apply(edits_of(text), MemoryTree(files), PROFILE)
    if outcome.files:
        after = {**files, **{p: d for p, d in outcome.files.items() if d is not None}}
        for path in [p for p, d in outcome.files.items() if d is None]:
            del after[path]
        assert apply(edits_of(text), MemoryTree(after), PROFILE).status == "upstream"
    return outcome


def result(text: str, source: str | bytes = SOURCE, path: str = "example/m.py") -> str:
    """The file after edits that go."""
    outcome = made(text, source)
    assert outcome.status in ("clean", "moved", "partly"), outcome
    return (outcome.files[path] or b"").decode()


ALL = """
- narrow: {in: example.m.f, at: "x == 120", with: "not y"}
- widen: {in: example.m.f, at: "x or y", with: "T"}
- add-import: {in: example.m, import: "from a.b import d"}
- add-import: {in: example.m, import: "import sys"}
- add-member: {in: example.m, name: NAMES, members: ['"c"', '"d"']}
- add-member: {in: example.m, name: T, member: '"c"'}
- add-member: {in: example.m, name: D, key: '"j"', value: "2"}
- add-member: {in: example.m, name: S, member: "3", before: "1"}
- guard: {in: example.m.f, at: 'os.environ["K"] = $V', if: '"K" not in os.environ'}
- set-default: {in: example.m.f, name: y, was: "3", to: "4"}
- set-argument: {in: example.m.f, call: "$_($...A, z=$_)", argument: w, was: absent, to: "5"}
- set-argument: {in: example.m.f, call: "$_($...A, z=$_)", argument: 1, was: "y", to: "y + 1"}
- set-call: {in: example.m.f, call: "$_($...A, z=$_)", to: "os.h"}
- insert-arm: {in: example.m.f, before: "x == 120 and $_", if: "x is None", then: "return 9"}
- insert-arm: {in: example.m.f, after: "($_ or $_) or T", if: "x < 3", then: "return 8"}
- insert: {in: example.m.f, after: "os.environ[$_] = $_", code: "if x:\\n    y = 1\\n"}
- insert: {in: example.m, at: end, code: "def g2():\\n    pass"}
- insert: {in: example.m.f, at: start, code: "y = y"}
"""

AFTER = '''\
"""Doc."""
import os
import sys
from a.b import (
    c,
    d,
    e,
)

# names
NAMES = [
    "a",  # first
    "b",
    "c",
    "d"
]
T = ("x", "c")
D = {"k": 1, "j": 2}
S = frozenset({3, 1, 2})

def f(x, y=4):
    y = y
    if x is None:
        return 9
    elif x == 120 and not y:  # why
        return 1
    elif (x or y or T):
        os.h(x, y + 1, z=[1], w=5)
    elif x < 3:
        return 8
    if "K" not in os.environ:
        os.environ["K"] = "v"
        if x:
            y = 1
    return None


def g2():
    pass
'''


def test_many_edits_of_one_file() -> None:
    assert result(ALL) == AFTER


def test_line_ends_and_byte_order_mark_stay() -> None:
    raw = b"\xef\xbb\xbf" + SOURCE.replace("\n", "\r\n").encode()
    outcome = made(ALL, raw)
    assert outcome.files["example/m.py"] == b"\xef\xbb\xbf" + AFTER.replace("\n", "\r\n").encode()


@pytest.mark.parametrize(
    ("edit", "note"),
    [
        (
            'narrow: {in: example.m.f, at: "x == 121", with: "not y"}',
            "P071: `x == 121` matches 0 places in example/m.py:f, expected 1; nearest: line 18 `x == 120`",
        ),
        (
            'narrow: {in: example.m.f, at: "x == 120", with: "not zz"}',
            "P074: zz is not defined in example/m.py; add-import brings it in",
        ),
        (
            'set-constant: {in: example.m, name: NAME, was: "3", to: "4"}',
            "P070: NAME is not assigned in example/m.py; nearest: NAMES",
        ),
        (
            'narrow: {in: example.m.ff, at: "x == 120", with: "y"}',
            "P070: symbol ff is not in example/m.py; nearest: example/m.py:f",
        ),
        (
            'set-default: {in: example.m.f, name: y, was: "5", to: "4"}',
            "P077: the default of y in example/m.py:f is `3`, expected `5`; nearest: example/m.py:17",
        ),
        (
            'replace: {in: example.m.f, find: "return $X", with: "return f($X)"}',
            "P071: `return $X` matches 2 places in example/m.py:f, expected 1; "
            "nearest: line 19 `return 1`, line 23 `return None`",
        ),
        (
            'add-import: {in: example.m, import: "from example.nowhere import thing"}',
            "P074: line 7 of example/m.py: there is no module example.nowhere",
        ),
    ],
)
def test_misses(edit: str, note: str) -> None:
    outcome = made(f"- {edit}")
    assert outcome.status == "conflict"
    assert [hunk.note for hunk in outcome.hunks] == [note]
    assert outcome.files == {}


@pytest.mark.parametrize(
    ("edit", "place", "fact"),
    [
        ("narow: {in: a.b, at: x, with: y}", "patch.yaml:2:3", "unknown field `narow`"),
        ("narrow: {in: a.b, at: x == 1, with: x ==}", "patch.yaml:2:39", "not a Python expression"),
        ("insert: {in: a.b, code: pass}", "patch.yaml:2:11", "one of before, after, at says where"),
        ("replace: {in: a.b, find: f($X), with: g($Y)}", "patch.yaml:2:41", "$Y is not in `find`"),
        ("replace: {in: a.b, find: f($X), with: $X}", "patch.yaml:2:41", "a lone metavariable"),
        ("add-file: {path: ../x.py, from: x.py}", "patch.yaml:2:20", ".."),
    ],
)
def test_a_wrong_edit_is_told_at_its_place(edit: str, place: str, fact: str) -> None:
    document = yamlio.load(f"edits:\n- {edit}\n".encode(), "patch.yaml", code="P022")

    class File(msgspec.Struct):
        edits: tuple[Edit, ...]

    with pytest.raises(UserError) as caught:
        check_edits(document.convert(File).edits, document)
    assert caught.value.code == "P022"
    assert fact in caught.value.fact
    assert caught.value.place == place


STAR = "from example.new.home import *\n"
HOME = "STAGES = 4\n\n\ndef plan(n):\n    return n + STAGES\n"


def test_a_star_shim_is_followed_to_the_definition() -> None:
    outcome = made(
        '- replace: {in: example.old.plan, find: "$N + STAGES", with: "$N + 2"}\n'
        '- set-constant: {in: example.old, name: STAGES, was: "4", to: "3"}\n',
        others={"example/old.py": STAR, "example/new/home.py": HOME},
    )
    assert outcome.status == "moved"
    assert [(h.path, h.to_path, h.symbol, h.note) for h in outcome.hunks] == [
        ("example/old/plan.py", "example/new/home.py", "plan", "through example/old.py"),
        ("example/old.py", "example/new/home.py", "", "through example/old.py"),
    ]
    assert outcome.files == {"example/new/home.py": b"STAGES = 3\n\n\ndef plan(n):\n    return n + 2\n"}


def test_nothing_is_set_in_a_file_that_passes_names_of_several_on() -> None:
    outcome = made(
        "- insert: {in: example.old, at: end, code: STAGES = 1}",
        others={
            "example/old.py": STAR + "from example.two import b\n",
            "example/new/home.py": HOME,
            "example/two.py": "b = 1\n",
        },
    )
    assert outcome.hunks[0].note == (
        "P076: example/old.py only passes names on: a change there has no effect; "
        "nearest: example.new.home, example.two"
    )


def test_a_module_that_is_gone() -> None:
    edit = '- replace: {in: example.layers.home.plan, find: "$N + STAGES", with: "$N + 2"}'
    outcome = made(edit, others={"example/new/home.py": HOME})
    assert (outcome.status, outcome.hunks[0].to_path) == ("moved", "example/new/home.py")
    outcome = made(edit, others={"example/new/tuning.py": HOME})
    assert (outcome.status, outcome.hunks[0].to_path) == ("moved", "example/new/tuning.py")
    outcome = made(edit, others={"example/new/a.py": HOME, "example/new/b.py": HOME})
    assert outcome.hunks[0].note == (
        "P070: symbol plan is not in example/layers/home.py, and defined in 2 other files; "
        "nearest: example/new/a.py, example/new/b.py"
    )


def test_a_method_that_only_one_other_class_has_is_for_a_person_to_look_at() -> None:
    source = "class A:\n    pass\n\n\nclass B:\n    def settle(self):\n        return 1\n"
    outcome = made('- replace: {in: example.m.A.settle, find: "return 1", with: "return 2"}', source)
    assert (outcome.status, outcome.hunks[0].symbol) == ("look", "B.settle")
    assert outcome.hunks[0].note == "example/m.py has no A.settle: the only settle of the package"


def test_where_code_that_left_a_symbol_is_now() -> None:
    outcome = made(
        """- guard: {in: example.m.f, at: 'os.environ["ALGO"] = $_', if: x}""",
        others={"example/hooks.py": 'import os\n\n\ndef settle():\n    os.environ["ALGO"] = "tree"\n'},
    )
    assert outcome.hunks[0].note.endswith(
        'ALGO does not occur there; nearest: line 22 `os.environ["K"] = "v"`, in example/hooks.py:5'
    )


def test_an_import_of_what_moved_says_where_to() -> None:
    outcome = made(
        '- add-import: {in: example.m, import: "from example.layers import home"}',
        others={"example/new/home.py": HOME},
    )
    assert outcome.hunks[0].note == (
        "P074: line 7 of example/m.py: there is no module example.layers; nearest: example.new.home"
    )


def test_what_two_edits_do_to_each_other() -> None:
    outcome = made(
        '- set-argument: {in: example.m.f, call: "g($...A)", argument: 0, was: x, to: y}\n'
        '- set-call: {in: example.m.f, call: "g($...A)", to: os.h}\n'
    )
    assert outcome.status == "conflict"
    assert outcome.hunks[0].note.startswith("P072: after later edits of the patch this one does not find")


WHOLE = {"new.py": b"import os\n", "table.json": b"{}\n"}


REPOSITORY = msgspec.structs.replace(PROFILE, roots=Roots(repository=("python",), wheel=("",)))


def whole(text: str, files: Mapping[str, str | bytes]) -> Outcome:
    """What becomes of edits on a repository, whose package is below ``python/``."""
    tree = MemoryTree({"python/example/__init__.py": "", **files})
    return apply(edits_of(text), tree, REPOSITORY, files=WHOLE.__getitem__)


def test_whole_files() -> None:
    add = "- add-file: {path: example/new.py, from: new.py}"
    assert whole(add, {}).files == {"python/example/new.py": b"import os\n"}
    assert whole(add, {"python/example/new.py": "import os\n"}).status == "upstream"
    there = whole(add, {"python/example/new.py": "import re\n"})
    assert there.hunks[0].note.startswith("P077: python/example/new.py is there already, and is another file")

    known = blob_id(b"[1]\n")
    swap = f"- replace-file: {{path: example/t.json, from: table.json, was: ['{known}']}}"
    assert whole(swap, {"python/example/t.json": "[1]\n"}).files == {"python/example/t.json": b"{}\n"}
    assert whole(swap, {"python/example/t.json": "{}\n"}).status == "upstream"
    assert (
        whole(swap, {"python/example/t.json": "[2]\n"})
        .hunks[0]
        .note.startswith("P077: python/example/t.json is another")
    )
    assert whole(swap, {}).hunks[0].note.startswith("P070: there is no file python/example/t.json")

    drop = f"- delete-file: {{path: example/t.json, was: ['{known[:12]}']}}"
    assert whole(drop, {"python/example/t.json": "[1]\n"}).files == {"python/example/t.json": None}
    assert whole(drop, {}).status == "upstream"
    assert whole(drop, {"python/example/t.json": "[2]\n"}).status == "conflict"


NATIVE = """
- register-kernel:
    in: kern/python/kern/ops.py
    operator: kern::scale
    native:
      source: {path: kern/csrc/scale.cu, from: new.py}
      cmake: {path: kern/CMakeLists.txt, list: SOURCES, member: csrc/scale.cu}
      archs: {path: kern/CMakeLists.txt, list: CMAKE_CUDA_ARCHITECTURES, member: 120a}
      header: {path: kern/include/ops.h, before: "#endif", insert: "void scale();\\n"}
      definition:
        path: kern/csrc/ops.cc
        after: "m.def(\\"old() -> ()\\");\\n"
        insert: "  m.def(\\"scale() -> ()\\");\\n"
      implementation:
        path: kern/csrc/ops.cc
        after: "m.impl(\\"old\\", &old);\\n"
        insert: "  m.impl(\\"scale\\", &scale);\\n"
    wrapper: |
      def scale():
          return torch.ops.kern.scale()
    fake: |
      def _scale_fake():
          return None
"""
KERN = {
    "kern/CMakeLists.txt": "set(CMAKE_CUDA_ARCHITECTURES 90a 100a)\nset(SOURCES\n    csrc/old.cu)\n",
    "kern/include/ops.h": "#ifndef A\n#define A\nvoid old();\n#endif\n",
    "kern/csrc/ops.cc": ('TORCH_LIBRARY(kern, m) {\n  m.def("old() -> ()");\n  m.impl("old", &old);\n}\n'),
    "kern/python/kern/ops.py": "import torch\n\n\ndef old():\n    return torch.ops.kern.old()\n",
}


def test_a_native_operator() -> None:
    outcome = whole(NATIVE, KERN)
    assert outcome.status == "clean", outcome
    assert {path: (data or b"").decode() for path, data in outcome.files.items()} == {
        "kern/CMakeLists.txt": (
            "set(CMAKE_CUDA_ARCHITECTURES 90a 100a 120a)\nset(SOURCES\n    csrc/old.cu\n    csrc/scale.cu)\n"
        ),
        "kern/include/ops.h": "#ifndef A\n#define A\nvoid old();\nvoid scale();\n#endif\n",
        "kern/csrc/scale.cu": "import os\n",
        "kern/csrc/ops.cc": (
            'TORCH_LIBRARY(kern, m) {\n  m.def("old() -> ()");\n  m.def("scale() -> ()");\n'
            '  m.impl("old", &old);\n  m.impl("scale", &scale);\n}\n'
        ),
        "kern/python/kern/ops.py": (
            "import torch\n\n\ndef old():\n    return torch.ops.kern.old()\n\n\n"
            '@torch.library.register_fake("kern::scale")\ndef _scale_fake():\n    return None\n\n\n'
            "def scale():\n    return torch.ops.kern.scale()\n"
        ),
    }
    after = {**KERN, **{p: d for p, d in outcome.files.items() if d is not None}}
    assert whole(NATIVE, after).status == "upstream"


TOML = """\
[project]
name = "kern"
dependencies = [
    "torch",  # any
    "numpy<3"
]

[tool.thing]
jobs = 4  # per machine
arches = ["90a", '100a']
"""


def test_toml() -> None:
    edits = """
- add-to-list: {path: p.toml, list: project.dependencies, member: einops}
- add-to-list: {path: p.toml, list: tool.thing.arches, member: 120a}
- set-key: {path: p.toml, key: [tool, thing, jobs], was: 4, to: 8}
- set-key: {path: p.toml, key: [project, version], to: "1.0"}
"""
    outcome = whole(edits, {"p.toml": TOML})
    assert outcome.status == "clean", outcome
    assert (outcome.files["p.toml"] or b"").decode() == (
        TOML.replace('"numpy<3"\n', '"numpy<3",\n    "einops"\n')
        .replace("'100a']", "'100a', \"120a\"]")
        .replace("jobs = 4", "jobs = 8")
        .replace('    "einops"\n]\n', '    "einops"\n]\nversion = "1.0"\n')
    )
    assert whole(edits, {"p.toml": outcome.files["p.toml"] or b""}).status == "upstream"


@pytest.mark.parametrize(
    ("edit", "text", "note"),
    [
        (
            "set-key: {path: p.json, key: [a], was: 1, to: 2}",
            '{"a": 3}',
            "P077: a in p.json is 3, expected 1",
        ),
        ("set-key: {path: p.json, key: [b, c], to: 2}", '{"a": 3}', "P070: p.json has no b; nearest: a"),
        ("set-key: {path: p.json, key: [a], to: 2}", "{", "P073: p.json is not JSON"),
        ("add-to-list: {path: p.json, list: a, member: 2}", '{"a": 3}', "P075: a in p.json is no list"),
        (
            "edit-text: {path: p.json, find: 'a  b', with: c}",
            "x\na b\n",
            "P071: `a b` is in p.json 0 times, expected 1; with other blanks it is there; nearest: line 2",
        ),
        (
            "edit-text: {path: p.json, after: a, insert: c}",
            "a\na\n",
            "P071: `a` is in p.json 2 times, expected 1; nearest: line 1, line 2",
        ),
    ],
)
def test_misses_of_other_files(edit: str, text: str, note: str) -> None:
    outcome = whole(f"- {edit}", {"p.json": text})
    assert [hunk.note for hunk in outcome.hunks] == [note]


def test_a_file_that_an_installed_copy_does_not_have_is_left_out() -> None:
    edits = edits_of(
        "- edit-text: {path: kern/csrc/ops.cc, find: a, with: b}\n"
        '- set-constant: {in: example.m, name: T, was: "(\\"x\\",)", to: "()"}\n'
    )
    files = {"example/__init__.py": "", "example/m.py": SOURCE}
    outcome = apply(edits, MemoryTree(files), PROFILE)
    assert (outcome.status, [hunk.status for hunk in outcome.hunks]) == ("clean", ["skipped", "clean"])
    assert apply(edits[:1], MemoryTree(files), PROFILE).status == "skipped"


@pytest.mark.parametrize(
    ("at", "test"),
    [
        ("if x == 1:\n    $...B", "x == 1"),
        ("if x == 1 and $_:\n    $...B", "x == 1 and y"),
        ("x and y", "x and y"),
        ("x and y", "(x and y)"),
        ("if x or y:\n    $...B", "x or y"),
        ("x or y", "(x or y)"),
    ],
)
def test_a_pattern_with_the_whole_test_finds_itself_done(at: str, test: str) -> None:
    edit = f"- narrow: {{in: example.m.f, at: {json.dumps(at)}, with: not z and w}}"
    source = f"def f(x, y, z, w):\n    if {test}:\n        return 1\n"
    assert "not z and w" in result(edit, source)
    joined = f"({test})" if " or " in test and "(" not in test else test
    for done in (f"w and {joined} and not z", f"not z and ({joined}) and w"):
        assert made(edit, source.replace(f"if {test}", f"if {done}")).status == "upstream", done


def test_nesting_without_end_is_no_crash() -> None:
    source = "def f():\n    return " + "-" * 5000 + "1\n"
    outcome = made('- replace: {in: example.m.f, find: "return $X", with: "return 2"}', source)
    assert outcome.status == "conflict"
    assert outcome.hunks[0].note.startswith("P073: ")


def test_quotes_of_formatted_strings_are_formatting() -> None:
    source = "def f(x):\n    log(f'at {x!r:>4}')\n\n\ndef log(x): ...\n"
    edit = """- set-call: {in: example.m.f, call: 'log(f"at {x!r:>4}")', to: print}"""
    assert result(edit, source) == source.replace("    log(", "    print(")
    other = made(edit.replace("at ", "in "), source)
    assert other.hunks[0].note.startswith("P071: ")
