"""Registering a kernel: through the project's functions, just in time, beforehand; and what is refused."""

from __future__ import annotations

import ast
from collections.abc import Mapping

import msgspec
import pytest

from auditor import yamlio
from auditor.errors import UserError
from auditor.patching.edits.apply import apply
from auditor.patching.edits.check import check_edits
from auditor.patching.edits.model import Edit
from auditor.patching.edits.schema import mismatches, read_schema
from auditor.patching.model import Outcome
from auditor.profile import JitLoader, Native, NativeBuild, OperatorFunction, Profile, Roots
from auditor.queries.exampletree import PROFILE, MemoryTree

PROJECT = msgspec.structs.replace(
    PROFILE,
    operators=(
        OperatorFunction(
            function="example.register.operator",
            namespace="shop",
            name="called",
            decorates=True,
            mutates="writes",
            fake="shape",
        ),
        OperatorFunction(function="example.register.direct", namespace="shop", name="called", position=0),
    ),
    jit_loaders=(
        JitLoader(
            load="example.gone.build",
            arch="example.gone.arch",
            name="name",
            state="example.gone.state",
            folder="example/gone",
            sources="src",
            override="example.gone.override",
            files=("cuda",),
            exports=("names",),
        ),
        JitLoader(
            load="example.jit.build",
            arch="example.jit.arch",
            name="name",
            state="example.jit.state",
            folder="example/jit",
            sources="src",
            override="example.jit.override",
            files=("cuda",),
            exports=("names",),
            cache="example.jit.once",
        ),
    ),
)
FILES = {
    "scale.py": b"import torch\n\n\ndef launch(x, s, out):\n    out.copy_(x * s)\n",
    "scale.cuh": b"// ours\n",
}
BASE: dict[str, str] = {
    "example/__init__.py": "",
    "example/register.py": "def operator(fn=None, **words): ...\n\n\ndef direct(called, fn): ...\n",
    "example/jit/__init__.py": "def build(*a, **k): ...\n\n\ndef once(f): ...\n\n\ndef override(*a): ...\n",
    "example/gpu.py": "def twelve(): ...\n",
    "example/flags.py": "off = False\n",
    "example/model.py": (
        "from example import flags\n"
        "from example.gpu import twelve\n\n\n"
        "def forward(x, out):\n    plain(x, out)\n    return out\n\n\ndef plain(x, out): ...\n"
    ),
}
KERNEL = """
- register-kernel:
    in: example.scale
    operator: shop::scale
    through: project
    file: {path: example/scale.py, from: scale.py}
    schema: "(Tensor x, float s, Tensor(a!) out) -> ()"
    implementation: |
      def scale(x: torch.Tensor, s: float, out: torch.Tensor) -> None:
          launch(x, s, out)
    fake: |
      def _scale_fake(x: torch.Tensor, s: float, out: torch.Tensor) -> None:
          return None
    dispatch:
      - in: example.model.forward
        at: plain($...ARGS)
        when: twelve()
        off: flags.off
        imports: [from example.scale import scale]
        code: |
          scale(x, 2.0, out)
          return out
"""


def edits_of(text: str) -> tuple[Edit, ...]:
    document = yamlio.load(("edits:\n" + text).encode(), "patch.yaml", code="P022")
    edits = msgspec.convert(document.data["edits"], tuple[Edit, ...])
    check_edits(edits, document)
    return edits


def made(
    text: str,
    others: Mapping[str, str] | None = None,
    drop: tuple[str, ...] = (),
    profile: Profile = PROJECT,
) -> Outcome:
    files = {path: text for path, text in {**BASE, **(others or {})}.items() if path not in drop}
    outcome = apply(edits_of(text), MemoryTree(files), profile, files=FILES.__getitem__)
    if outcome.files:
        done = {**files, **{path: (data or b"").decode() for path, data in outcome.files.items()}}
        again = apply(edits_of(text), MemoryTree(done), profile, files=FILES.__getitem__)
        assert again.status == "upstream", notes(again)
    return outcome


def notes(outcome: Outcome) -> list[str]:
    return [hunk.note for hunk in outcome.hunks if hunk.status == "conflict"]


def test_through_the_projects_own_function() -> None:
    outcome = made(KERNEL)
    assert outcome.status == "clean", notes(outcome)
    assert (outcome.files["example/scale.py"] or b"").decode() == (
        "import torch\n\n\n"
        "def launch(x, s, out):\n    out.copy_(x * s)\n\n\n"
        "from example.register import operator  # noqa: E402\n\n\n"
        "def _scale_fake(x: torch.Tensor, s: float, out: torch.Tensor) -> None:\n    return None\n\n\n"
        '@operator(called="scale", writes=["out"], shape=_scale_fake)\n'
        "def scale(x: torch.Tensor, s: float, out: torch.Tensor) -> None:\n    launch(x, s, out)\n"
    )
    assert (
        "    if twelve() and not flags.off:\n"
        "        from example.scale import scale\n\n"
        "        scale(x, 2.0, out)\n"
        "        return out\n"
        "    plain(x, out)\n"
    ) in (outcome.files["example/model.py"] or b"").decode()


def test_a_flag_that_is_on_by_itself() -> None:
    outcome = made(KERNEL.replace("off: flags.off", "off: not flags.on"))
    assert b"    if twelve() and flags.on:\n" in (outcome.files["example/model.py"] or b"")


def test_into_a_module_that_is_there() -> None:
    text = KERNEL.replace("    file: {path: example/scale.py, from: scale.py}\n", "")
    outcome = made(text, {"example/scale.py": FILES["scale.py"].decode()})
    assert outcome.status == "clean", notes(outcome)
    data = (outcome.files["example/scale.py"] or b"").decode()
    assert data.index("from example.register import operator") < data.index("def launch")
    assert '@operator(called="scale", writes=["out"], shape=_scale_fake)\n' in data


NAMED = """
- register-kernel:
    in: example.scale
    operator: shop::scale
    through: project
    file: {path: example/scale.py, from: named.py}
    schema: "(Tensor x, Tensor? m) -> Tensor"
    implementation: scale
    fake: scale_fake
"""


def test_functions_that_the_file_has() -> None:
    FILES["named.py"] = (
        b"import torch\n\n\ndef scale(x: torch.Tensor, m: torch.Tensor | None = None) -> torch.Tensor:\n"
        b"    return x\n\n\ndef scale_fake(x, m):\n    return x\n"
    )
    outcome = made(NAMED)
    assert outcome.status == "clean", notes(outcome)
    assert (outcome.files["example/scale.py"] or b"").endswith(
        b"from example.register import operator  # noqa: E402\n\n\n"
        b'scale = operator(\n    scale,\n    called="scale",\n    writes=[],\n    shape=scale_fake,\n)\n'
    )
    text = NAMED.replace("through: project", "through: torch")
    assert (made(text).files["example/scale.py"] or b"").endswith(
        b'torch.library.define("shop::scale", "(Tensor x, Tensor? m) -> Tensor")\n\n\n'
        b'torch.library.impl("shop::scale", "CUDA", scale)\n\n\n'
        b'torch.library.register_fake("shop::scale", scale_fake)\n'
    )
    wrong = made(NAMED.replace("Tensor? m", "float m"))
    assert notes(wrong) == ["P077: m of scale is torch.Tensor | None, the schema says float"]
    wrong = made(NAMED.replace("fake: scale_fake", "fake: other"))
    assert any("other is not defined" in note for note in notes(wrong)), notes(wrong)


TAKEN = {
    "decorator": "from example.register import operator\n\n@operator(writes=[])\ndef scale(x): ...\n",
    "plain decorator": "from example.register import operator\n\n@operator\ndef scale(x): ...\n",
    "its keyword": "from example.register import operator\n\n@operator(called='scale')\ndef other(x): ...\n",
    "a call": "from example.register import direct\n\ndirect('scale', print)\n",
    "a call by name": "from example.register import direct\n\ndirect(fn=print, called='scale')\n",
    "torch": "import torch\n\ntorch.library.define('shop::scale', '(Tensor x) -> Tensor')\n",
    "torch custom op": "@torch.library.custom_op('shop::scale', mutates_args=())\ndef f(x): ...\n",
    "a library": "L = Library('shop', 'DEF')\nL.define('scale(Tensor x) -> Tensor')\n",
    "a library, put together": "L.define('scale' + schema)\n",
}


@pytest.mark.parametrize("how", TAKEN)
def test_a_taken_name(how: str) -> None:
    outcome = made(KERNEL, {"example/other.py": TAKEN[how]})
    assert outcome.status == "conflict", how
    assert len(notes(outcome)) == 1
    assert notes(outcome)[0].startswith(
        "P079: shop::scale is taken: it is registered 2 times, by example/other.py:"
    ), notes(outcome)
    assert "example/scale.py:" in notes(outcome)[0]


@pytest.mark.parametrize(
    "text",
    [
        "from example.register import operator\n\n@operator(called='scale_rows')\ndef scale(x): ...\n",
        "L = Library('other', 'DEF')\nL.define('scale(Tensor x) -> Tensor')\n",
        "torch.library.define('other::scale', '(Tensor x) -> Tensor')\n",
        "torch.library.register_fake('shop::scale')\n",
        "def scale(x): ...\n\nscale(1)\n",
    ],
)
def test_not_taken(text: str) -> None:
    assert made(KERNEL, {"example/other.py": text}).status == "clean"


def test_a_name_that_native_code_has() -> None:
    native = 'TORCH_LIBRARY(shop, m) {\n  // scale\n  m.def("scale(Tensor x) -> Tensor");\n}\n'
    outcome = made(KERNEL, {"csrc/ops.cc": native})
    assert notes(outcome) == [
        "P079: shop::scale is taken: it is registered 2 times, by csrc/ops.cc:3, example/scale.py:16"
    ]
    assert made(KERNEL, {"csrc/ops.cc": native.replace("(shop", "(mall")}).status == "clean"
    assert made(KERNEL, {"csrc/ops.cc": native.replace("m.def", "// m.def")}).status == "clean"


def test_a_call_site_that_is_there_twice() -> None:
    twice = BASE["example/model.py"].replace("    return out\n", "    plain(x, out)\n    return out\n", 1)
    outcome = made(KERNEL, {"example/model.py": twice})
    assert notes(outcome)[0].startswith(
        "P071: `plain($...ARGS)` matches 2 places in example/model.py:forward"
    )


def test_a_tree_without_the_route() -> None:
    outcome = made(KERNEL, drop=("example/register.py",))
    assert notes(outcome) == [
        "P070: this tree has none of the functions that register operators; "
        "nearest: example.register.operator"
    ]
    other = made(KERNEL.replace("shop::scale", "mall::scale"))
    assert notes(other) == [
        "P075: mall::scale cannot be registered there: the namespace is shop; nearest: through: torch"
    ]


JIT = """
- register-kernel:
    in: example.jit.scale
    operator: shop::scale
    through: project
    jit:
      source: ours/scale.cuh
      from: scale.cuh
      function: "ours::Scale::run"
      suffix: a
      arguments: 'dependencies=["cutlass"]'
    schema: "(Tensor x, Tensor(a!) out) -> ()"
    implementation: |
      def scale(x: torch.Tensor, out: torch.Tensor) -> None:
          _jit_scale_module().scale(x, out)
    fake: |
      def _scale_fake(x: torch.Tensor, out: torch.Tensor) -> None:
          return None
"""


def test_compiled_at_run_time() -> None:
    outcome = made(JIT, {"example/jit/scale.py": '"""Ours."""\n'})
    assert outcome.status == "clean", notes(outcome)
    assert outcome.files["example/jit/src/ours/scale.cuh"] == b"// ours\n"
    data = (outcome.files["example/jit/scale.py"] or b"").decode()
    assert "from example.jit import build, once, override\n" in data, data
    assert (
        "@once\n"
        "def _jit_scale_module():\n"
        '    with override(*torch.cuda.get_device_capability(), "a"):\n'
        "        return build(\n"
        '            "scale",\n'
        '            cuda=["ours/scale.cuh"],\n'
        '            names=[("scale", "ours::Scale::run")],\n'
        '            dependencies=["cutlass"],\n'
        "        )\n"
    ) in data
    plain = made(JIT.replace("      suffix: a\n", ""), {"example/jit/scale.py": '"""Ours."""\n'})
    text = (plain.files["example/jit/scale.py"] or b"").decode()
    assert "def _jit_scale_module():\n    return build(\n" in text and "override" not in text
    gone = made(JIT, {"example/scale.py": ""}, drop=("example/jit/__init__.py",))
    assert notes(gone)[0].startswith("P070: this tree has no function that compiles kernels at run time")


NATIVE = """
- register-kernel:
    in: kern/python/kern/scale.py
    operator: kern::scale
    schema: "(Tensor x, Tensor(a!) out) -> ()"
    expose: kern/python/kern/__init__.py
    native:
      source: {path: kern/csrc/scale.cu, from: scale.cuh}
      cmake: {path: kern/CMakeLists.txt, list: SOURCES, member: csrc/scale.cu}
      header: {path: kern/ops.h, after: "void old();\\n", insert: "void scale(x, out);\\n"}
      definition: {path: kern/csrc/ops.cc, after: "m.impl(\\"old\\", &old);\\n"}
      implementation: {path: kern/csrc/ops.cc, before: "}\\n"}
    wrapper: |
      def scale(x, out):
          torch.ops.kern.scale(x, out)
"""
REPOSITORY = msgspec.structs.replace(
    PROJECT,
    roots=Roots(repository=("python",)),
    native=Native(builds=(NativeBuild(folder="kern", python="kern/python", package="kern"),)),
)
KERN = {
    "python/example/__init__.py": "",
    "kern/CMakeLists.txt": "set(SOURCES\n    csrc/old.cu\n    csrc/ops.cc)\n",
    "kern/ops.h": "void old();\n",
    "kern/csrc/ops.cc": 'TORCH_LIBRARY(kern, m) {\n  m.def("old() -> ()");\n  m.impl("old", &old);\n}\n',
    "kern/python/kern/__init__.py": (
        "if apple():\n    from kern.metal import *\nelse:\n    from kern.old import old\n\n    load()\n"
    ),
    "kern/python/kern/old.py": "old = 1\n",
    "kern/python/kern/metal.py": "",
    "kern/python/kern/scale.py": "import torch\n",
}


def test_compiled_beforehand() -> None:
    outcome = made(NATIVE, KERN, profile=REPOSITORY)
    assert outcome.status == "clean", notes(outcome)
    assert (outcome.files["kern/csrc/ops.cc"] or b"").decode() == (
        'TORCH_LIBRARY(kern, m) {\n  m.def("old() -> ()");\n  m.impl("old", &old);\n'
        '  m.def("scale(Tensor x, Tensor(a!) out) -> ()");\n'
        '  m.impl("scale", torch::kCUDA, &scale);\n}\n'
    )
    assert outcome.files["kern/python/kern/scale.py"] == (
        b"import torch\n\n\ndef scale(x, out):\n    torch.ops.kern.scale(x, out)\n"
    )
    assert (outcome.files["kern/python/kern/__init__.py"] or b"").decode() == (
        "if apple():\n    from kern.metal import *\nelse:\n"
        "    from kern.old import old\n    from kern.scale import scale\n\n    load()\n"
    )
    alone = made(NATIVE, {**KERN, "kern/python/kern/__init__.py": ""}, profile=REPOSITORY)
    assert alone.files["kern/python/kern/__init__.py"] == b"from kern.scale import scale\n"
    taken = {**KERN, "kern/csrc/more.cc": 'TORCH_LIBRARY_FRAGMENT(kern, k) { k.def("scale() -> ()"); }\n'}
    assert notes(made(NATIVE, taken, profile=REPOSITORY)) == [
        "P079: kern::scale is taken: it is registered 2 times, by kern/csrc/more.cc:1, kern/csrc/ops.cc:4"
    ]


def test_imports_that_the_condition_needs_stand_before_it() -> None:
    text = KERNEL.replace(
        "imports: [from example.scale import scale]",
        "imports:\n          - from example.scale import scale\n"
        "          - from example import flags\n          - from example.gpu import twelve",
    )
    bare = BASE["example/model.py"].partition("\n\n\n")[2]
    outcome = made(text, {"example/model.py": bare})
    assert outcome.status == "clean", notes(outcome)
    assert (
        "    from example import flags\n"
        "    from example.gpu import twelve\n\n"
        "    if twelve() and not flags.off:\n"
        "        from example.scale import scale\n\n"
        "        scale(x, 2.0, out)\n"
    ) in (outcome.files["example/model.py"] or b"").decode()


@pytest.mark.parametrize(
    "member, after",
    [
        (
            "csrc/a/b.cu",
            'set(S\n    "csrc/a/a.cu"\n    "csrc/a/b.cu"\n    "csrc/a/c.cu"\n    "csrc/z/x.cu"\n)\n',
        ),
        (
            "csrc/a/0.cu",
            'set(S\n    "csrc/a/0.cu"\n    "csrc/a/a.cu"\n    "csrc/a/c.cu"\n    "csrc/z/x.cu"\n)\n',
        ),
        (
            "csrc/z/y.cu",
            'set(S\n    "csrc/a/a.cu"\n    "csrc/a/c.cu"\n    "csrc/z/x.cu"\n    "csrc/z/y.cu"\n)\n',
        ),
        (
            "csrc/m/y.cu",
            'set(S\n    "csrc/a/a.cu"\n    "csrc/a/c.cu"\n    "csrc/z/x.cu"\n    "csrc/m/y.cu"\n)\n',
        ),
    ],
)
def test_a_source_goes_among_those_of_its_folder(member: str, after: str) -> None:
    text = f"- add-to-list: {{path: kern/CMakeLists.txt, list: S, member: {member}}}"
    before = 'set(S\n    "csrc/a/a.cu"\n    "csrc/a/c.cu"\n    "csrc/z/x.cu"\n)\n'
    files = {"python/example/__init__.py": "", "kern/CMakeLists.txt": before}
    assert (made(text, files, profile=REPOSITORY).files["kern/CMakeLists.txt"] or b"").decode() == after


def test_a_comment_stays_with_its_source() -> None:
    text = "- add-to-list: {path: kern/CMakeLists.txt, list: S, member: b/x.cu}"
    files = {"python/example/__init__.py": "", "kern/CMakeLists.txt": "set(S\n    a/y.cu  # old\n)\n"}
    after = made(text, files, profile=REPOSITORY).files["kern/CMakeLists.txt"]
    assert after == b"set(S\n    a/y.cu  # old\n    b/x.cu\n)\n"


@pytest.mark.parametrize(
    "old, new, fact",
    [
        (
            "def _scale_fake(x: torch.Tensor, s: float, out",
            "def _scale_fake(x: torch.Tensor, out",
            "_scale_fake takes (x, out)",
        ),
        (
            "def scale(x: torch.Tensor, s: float",
            "def scale(x: torch.Tensor, s: int",
            "s of scale is int, the schema says float",
        ),
        (
            "out: torch.Tensor) -> None:\n          launch",
            "out) -> None:\n          launch",
            "out of scale has no annotation",
        ),
        (
            "out: torch.Tensor) -> None:\n          launch",
            "out: torch.Tensor) -> torch.Tensor:\n          launch",
            "scale returns torch.Tensor, the schema says ()",
        ),
        ("-> ()", "", "a schema says what comes out"),
        ("          scale(x, 2.0, out)\n", "          fast(x, 2.0, out)\n", "it uses none of scale"),
        (
            "imports: [from example.scale import scale]",
            "imports: [import os]",
            "the operator is there once example.scale is imported",
        ),
    ],
)
def test_what_lint_says(old: str, new: str, fact: str) -> None:
    assert old in KERNEL
    with pytest.raises(UserError) as error:
        edits_of(KERNEL.replace(old, new))
    assert fact in error.value.fact


def test_schemas() -> None:
    schema = read_schema(
        "(Tensor q, Tensor? m=None, int[] sizes=[1, 2], *, Tensor(a!) out, float? s) -> (Tensor, Tensor)"
    )
    assert [(each.name, each.type) for each in schema.arguments] == [
        ("q", "Tensor"),
        ("m", "Tensor?"),
        ("sizes", "int[]"),
        ("out", "Tensor"),
        ("s", "float?"),
    ]
    assert schema.written == ("out",) and schema.returns == "(Tensor, Tensor)"
    text = (
        "def f(q: torch.Tensor, m: Optional[torch.Tensor], sizes: List[int], *, "
        "out: torch.Tensor, s: float | None) -> Tuple[torch.Tensor, torch.Tensor]: ..."
    )
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef)
    assert list(mismatches(schema, function, typed=True)) == []
    for bad in ("Tensor x -> ()", "(Tensor) -> ()", "(Tensor x, int x) -> ()", "(Tensor x)"):
        with pytest.raises(ValueError):
            read_schema(bad)
