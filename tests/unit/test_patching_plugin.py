"""A patchset as a package: what can be said as functions, and what the package does when a server starts.

The server is a small stand-in with hooks of the same form: what goes wrong in a plugin is only logged.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import zipfile
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from auditor.errors import UserError
from auditor.patching.plugin.express import Loading, change_of
from auditor.patching.plugin.package import Variant, package, variant_of
from auditor.patching.sets.patchset import Patchset, load_patchset
from auditor.profile import Plugins
from auditor.queries.exampletree import PROFILE, MemoryTree
from auditor.trees.base import TreeInfo

PROJECT = msgspec.structs.replace(
    PROFILE,
    plugins=Plugins(
        group="example.plugins",
        registry="example.hooks.Registry",
        register="register",
        apply="apply",
        kind="example.hooks.Kind.REPLACE",
    ),
)

HOOKS = """\
import enum, functools, logging, pkgutil, sys, types


class Kind(enum.Enum):
    REPLACE = "replace"


class Registry:
    known = {}

    @classmethod
    def register(cls, target, hook, kind):
        cls.known.setdefault(target, []).append(hook)

    @classmethod
    def apply(cls):
        for target, hooks in cls.known.items():
            try:
                for hook in hooks:
                    cls.one(target, hook)
            except Exception:
                logging.exception("hook failed")

    @staticmethod
    def one(target, hook):
        where, _, name = target.rpartition(".")
        owner = pkgutil.resolve_name(where)
        was = getattr(owner, name)
        raw = vars(owner)[name] if isinstance(owner, type) else was

        @functools.wraps(was)
        def wrapper(*args, **kwargs):
            return hook(*args, **kwargs)

        now = staticmethod(wrapper) if isinstance(raw, staticmethod) else wrapper
        setattr(owner, name, now)
        for module in list(sys.modules.values()):
            if isinstance(module, types.ModuleType):
                for key, value in list(vars(module).items()):
                    if value is was:
                        setattr(module, key, wrapper)
"""
SERVER = """\
import logging
from importlib.metadata import entry_points

from example.hooks import Registry


def load():
    for point in entry_points(group="example.plugins"):
        try:
            point.load()()
        except Exception:
            logging.exception("plugin failed")
    Registry.apply()
"""
TREE = {
    "example/__init__.py": "",
    "example/server.py": SERVER,
    "example/hooks.py": HOOKS,
    "example/gpu.py": (
        "def twelve():\n    return True\n\n\ndef at_load():\n    return 1\n\n\nCONSTANT = at_load()\n"
    ),
    "example/flags.py": (
        "class Flag:\n    def __init__(self, value):\n        self.value = value\n\n"
        "    def __set_name__(self, owner, name):\n        self.name = name\n\n\n"
        "class Flags:\n    VERBOSE = Flag(False)\n"
    ),
    "example/model.py": (
        "from __future__ import annotations\n\n"
        "from example.gpu import twelve\n\n\n"
        "class Base:\n    def forward(self, x):\n        return x + 1\n\n\n"
        "class Model(Base):\n"
        "    def forward(self, x: Tensor):\n        return super().forward(x)\n\n"
        "    @staticmethod\n    def pick(x):\n        return 'plain'\n\n\n"
        "def scale(x):\n    return x * 2\n"
    ),
    "example/user.py": "from example.model import scale\n\n\ndef use(x):\n    return scale(x)\n",
}
SET = {
    "patchset.yaml": (
        "title: Faster\nupstreams:\n  example: {url: 'https://example.invalid/'}\n"
        "order: [functions, constant]\nfiles:\n"
        "  fast.py: {licence: Apache-2.0, provenance: written for this}\n"
    ),
    "files/fast.py": "FACTOR = 10\n\n\ndef times(x):\n    return x * FACTOR\n",
    "patches/functions.yaml": """\
title: Other functions
why: {kind: local-only, reason: a test}
removal: never
status: Pending
targets: [sm_120, sm_121]
edits:
  - add-file: {path: example/fast.py, from: fast.py}
  - declare-flag: {in: example.flags.Flags, name: FAST, as: Flag(True)}
  - add-import: {in: example.model, import: from example.flags import Flags}
  - insert:
      in: example.model.Model.forward
      before: return $_
      code: |
        if twelve() and Flags.FAST.value:
            from example.fast import times
            return times(super().forward(x))
  - replace: {in: example.model.Model.pick, find: "'plain'", with: "Flags.FAST.name"}
  - replace: {in: example.model.scale, find: x * 2, with: x * 3}
""",
    "patches/constant.yaml": """\
title: Another constant
why: {kind: local-only, reason: a test}
removal: never
status: Pending
targets: [sm_120]
edits:
  - replace: {in: example.gpu.at_load, find: "1", with: "2"}
""",
}


class Release(MemoryTree):
    """The stand-in as a release."""

    def info(self) -> TreeInfo:
        return replace(super().info(), version="1.2.0", label="1.2.0")


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def patchset_in(folder: Path) -> Patchset:
    return load_patchset(written(folder / "mine", SET))


def made(folder: Path) -> tuple[Patchset, Variant]:
    found = patchset_in(folder)
    return found, variant_of(found, Release(TREE), PROJECT)


def test_what_is_in_it_and_what_is_not(tmp_path: Path) -> None:
    found, variant = made(tmp_path)
    assert [(left.patch, left.reasons) for left in variant.left] == [
        ("constant", ("example/gpu.py: at_load is called while modules are loaded: from example/gpu.py:9",))
    ]
    assert {one.symbol for one in variant.changes["example/model.py"].replaced} == {
        "scale",
        "Model.forward",
        "Model.pick",
    }
    files = package(found, [variant], PROJECT)
    assert files == package(found, [variant], PROJECT)
    plan = json.loads(files["example_mine_plugin/plan.json"])
    assert plan["capabilities"] == [[12, 0], [12, 1]]
    assert plan["versions"]["1.2.0"]["new"] == {"example.fast": "v1_2_0/new_example_fast.py"}
    text = files["pyproject.toml"].decode()
    assert 'dependencies = ["example==1.2.0"]' in text
    assert '[project.entry-points."example.plugins"]\nmine = "example_mine_plugin:start"\n' in text
    assert b"import example" not in files["example_mine_plugin/runtime.py"]
    assert "constant | not in this package" in files["README.md"].decode()


def test_a_tree_without_hooks_or_version(tmp_path: Path) -> None:
    found = patchset_in(tmp_path)
    without = {path: text for path, text in TREE.items() if path != "example/hooks.py"}
    for tree, profile in (
        (Release(without), PROJECT),
        (Release({**TREE, "example/server.py": ""}), PROJECT),
        (MemoryTree(TREE), PROJECT),
        (Release(TREE), PROFILE),
    ):
        with pytest.raises(UserError) as error:
            variant_of(found, tree, profile)
        assert error.value.code == "P066"


@pytest.mark.parametrize(
    "before, after, fact",
    [
        ("A = 1\n", "A = 2\n", "line 1 of the base is another one: `A = 1`"),
        ("def f(): return 1\n", "", "f goes away"),
        ("@wrap\ndef f(): return 1\n", "@wrap\ndef f(): return 2\n", "f is decorated with wrap"),
        ("def f(): return 1\n", "@wrap\ndef f(): return 1\n", "decorators of f change"),
        ("async def f(): return 1\n", "async def f(): return 2\n", "f is async"),
        ("def f():\n    yield 1\n", "def f():\n    yield 2\n", "f is a generator"),
        ("class A(B): x = 1\n", "class A(C): x = 1\n", "bases or decorators of A change"),
        ("class A: x = 1\n", "class A: x = 2\n", "line 1 of the base is another one"),
        ("class A(B): x = 1\n", "class A(B):\n    x = 1\n    y = 2\n", "the body of A runs it: `y = 2`"),
        ("class A: x = 1\n", "class A:\n    x = 1\n    y = x + 1\n", "y of A is made of other attributes"),
        ("def f(): pass\ndef f(): return 1\n", "def f(): pass\ndef f(): return 2\n", "f is defined 2 times"),
        ("x = 1\n", "x = 1\nif x: y = 2\n", "the module runs it while it is loaded: `if x: y = 2`"),
        ("x = 1\n", "x = 1\nfrom a import x\n", "x is something else in the module already"),
        (
            "class A:\n    def f(self): return 1\n",
            "class A:\n    def f(self): return self.__x\n",
            "private name",
        ),
    ],
)
def test_what_comes_too_late(before: str, after: str, fact: str) -> None:
    reasons = change_of(before.encode(), after.encode(), "m.py").reasons
    assert any(fact in text for _, text in reasons), reasons


def test_what_does_not() -> None:
    before = b"import a\n\n\ndef f():\n    return 1\n\n\nclass A:\n    def g(self):\n        return 1\n"
    after = (
        b"import a\nfrom b import c\n\nNEW = c()\n\n\ndef f():\n    return 2\n\n\ndef h(): ...\n\n\n"
        b"class A:\n    y = 1\n\n    def g(self):\n        return 2\n\n    def k(self):\n        return 3\n"
    )
    change = change_of(before, after, "m.py")
    assert change.reasons == []
    assert {one.symbol for one in change.replaced} == {"f", "A.g", "A.k"}
    assert {(one.owner, one.names) for one in change.added} == {
        ("", ("c",)),
        ("", ("NEW",)),
        ("", ("h",)),
        ("A", ("y",)),
    }


def test_calls_while_modules_are_loaded() -> None:
    files = {
        "a.py": b"def inner(): ...\n\n\ndef outer():\n    return inner()\n",
        "b.py": (
            b"from a import outer\n\n\n@once\ndef later():\n    return inner2()\n\n\n"
            b"X = [outer() for _ in range(2)]\n"
        ),
        "c.py": b"class C:\n    def m(self):\n        return quiet()\n\n    z = lambda self: quiet()\n",
        "d.py": b"def f(x=default()): ...\n",
    }
    loading = Loading(lambda word: {path: data for path, data in files.items() if word.search(data)})
    assert loading.chain("inner") == ["inner", "outer", "b.py:9"]
    assert loading.chain("inner2") == []
    assert loading.chain("quiet") == []
    assert loading.chain("default") == ["default", "d.py:1"]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in, a ``torch`` that says which GPU this is, and the package as ``build`` makes it."""
    folder = tmp_path_factory.mktemp("host")
    found, variant = made(folder)
    source = folder / "source"
    written(source, {name: data.decode() for name, data in package(found, [variant], PROJECT).items()})
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder / "dist")]
    built = subprocess.run([*command, str(source)], capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = (folder / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    written(folder / "site", TREE)
    written(
        folder / "site",
        {
            "example-1.2.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: example\nVersion: 1.2.0\n",
            "torch/__init__.py": textwrap.dedent(
                """
                import os, types
                version = types.SimpleNamespace(hip=None)
                said = tuple(int(x) for x in os.environ["CAPABILITY"].split("."))
                cuda = types.SimpleNamespace(
                    is_available=lambda: True, device_count=lambda: 1, get_device_capability=lambda i: said
                )
                """
            ),
        },
    )
    return folder / "site"


RUN = """
import logging
logging.basicConfig(level=logging.INFO, format="%(message)s")
import example.user
from example.server import load
{before}
load()
from example.model import Model
from example.flags import Flags
print(example.user.use(1), Model().forward(1), Model.pick(1), hasattr(Flags, "FAST"))
"""


def served(host: Path, capability: str = "12.0", before: str = "", **env: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-S", "-c", RUN.format(before=before)],
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(host), "CAPABILITY": capability, **env},
    )
    return done.returncode, done.stdout.strip(), done.stderr


PATCHED, PLAIN = "3 20 FAST True", "2 2 plain False"


def test_in_force(host: Path) -> None:
    code, out, err = served(host)
    assert (code, out) == (0, PATCHED), err
    assert "example-mine-plugin: in force, 3 functions replaced" in err
    assert served(host, "12.1")[1] == PATCHED


def test_nothing_on_another_gpu_or_switched_off(host: Path) -> None:
    assert served(host, "9.0")[:2] == (0, PLAIN)
    assert served(host, "10.0")[:2] == (0, PLAIN)
    code, out, err = served(host, MINE_PLUGIN="off")
    assert (code, out) == (0, PLAIN) and "off, because MINE_PLUGIN=off" in err


WRONG = {
    "another plugin": (
        "import example.hooks as h\n"
        "old = h.Registry.apply.__func__\n"
        "def late(cls):\n"
        "    cls.register('example.model.scale', lambda x: x, h.Kind.REPLACE)\n    old(cls)\n"
        "h.Registry.apply = classmethod(late)",
        "example.model.scale is not replaced, or by something else",
    ),
    "a hook that fails": (
        "import example.hooks as h\n"
        "one = h.Registry.one\n"
        "def broken(target, hook):\n"
        "    if target.endswith('scale'): raise OSError('no')\n"
        "    one(target, hook)\n"
        "h.Registry.one = staticmethod(broken)",
        "example.model.scale is not replaced, or by something else",
    ),
    "a table that holds the old one": (
        "import example.user as u\nu.TABLE = {'by two': u.scale}",
        "example.user.TABLE: by two is still the old scale",
    ),
    "a class that holds the old one": (
        "import example.user as u\nclass Held:\n    run = staticmethod(u.scale)\nu.Held = Held",
        "example.user.Held: run is still the old scale",
    ),
    "another release": (
        "import importlib.metadata as m\nm.version = lambda name: '1.3.0'",
        "example is 1.3.0; they were made for 1.2.0",
    ),
    "no such function": (
        "import example.hooks as h\ndel h.Registry.register",
        "AttributeError: type object 'Registry' has no attribute 'register'",
    ),
}


@pytest.mark.parametrize("how", WRONG)
def test_what_is_wrong_ends_the_process(host: Path, how: str) -> None:
    before, fact = WRONG[how]
    code, out, err = served(host, before=before)
    assert (code, out) == (1, ""), err
    assert f"example-mine-plugin: the patches are not in force: {fact}\n" in err
    assert "Set MINE_PLUGIN=off to start without them." in err
    code, out, err = served(host, before=before, MINE_PLUGIN="warn")
    assert code == 0 and fact in err


def test_a_file_that_was_changed(host: Path) -> None:
    path = host / "example" / "model.py"
    text = path.read_text()
    path.write_text(text + "\n# ours\n")
    code, _, err = served(host)
    path.write_text(text)
    assert code == 1 and "example.model is not the file that they were made for" in err


def test_the_command(tmp_path: Path) -> None:
    release = {path.replace("example/", "sglang/"): text for path, text in TREE.items()}
    release["sglang/srt/server_args.py"] = release["sglang/version.py"] = ""
    release["sglang/srt/plugins/__init__.py"] = "HookRegistry.apply_hooks()\n"
    release["sglang/srt/plugins/hook_registry.py"] = (
        "class HookRegistry:\n    def register(self): ...\n\n    def apply_hooks(self): ...\n"
    )
    release["sglang-0.5.14.dist-info/METADATA"] = "Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.14\n"
    written(tmp_path / "release", {k: v.replace("example", "sglang") for k, v in release.items()})
    written(tmp_path / "mine", {k: v.replace("example", "sglang") for k, v in SET.items()})

    def export(*more: str) -> subprocess.CompletedProcess[str]:
        code = "import sys; from auditor.cli.main import patches; sys.exit(patches())"
        words = ["export", "./mine", "--plugin", "--onto", "release", *more]
        env = {**os.environ, "SGLANG_AUDITOR_CACHE_DIR": str(tmp_path / "cache")}
        env["PYTHONPATH"] = str(Path(__file__).parents[2])
        return subprocess.run(
            [sys.executable, "-c", code, *words], cwd=tmp_path, env=env, capture_output=True, text=True
        )

    done = export("--output", "out")
    assert done.returncode == 1 and not (tmp_path / "out").exists()
    assert "0.5.14  constant: not expressible as replaced functions\n" in done.stderr
    assert "nothing written: constant would be missing\n" in done.stderr
    done = export("--output", "out", "--partial")
    assert done.returncode == 0, done.stderr
    assert "out/sglang_mine_plugin/plan.json\n" in done.stdout
    assert 'dependencies = ["sglang==0.5.14"]' in (tmp_path / "out" / "pyproject.toml").read_text()
    (tmp_path / "out" / "dist").mkdir()  # what a build leaves there is no part of it
    (tmp_path / "out" / "README.md").write_text("ours\n")
    done = export("--output", "out", "--partial", "--check")
    assert (done.returncode, done.stdout) == (1, "stale  README.md\n")
    (tmp_path / "out" / "mine.py").write_text("")
    done = export("--output", "out", "--partial", "--overwrite")
    assert done.returncode == 2 and "the folder holds what no export wrote: mine.py" in done.stderr
