"""What a package of patches does in the process that loads it: the stand-in is that of its other tests."""

from __future__ import annotations

import importlib
import importlib.metadata
import logging
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from auditor.patching.plugin import package as packaging
from auditor.patching.plugin.package import package
from tests.unit.test_patching_plugin import PROJECT, TREE, made, written

SOURCE = Path(packaging.__file__).with_name("runtime.py")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The stand-in and the package for it."""
    found, variant = made(tmp_path_factory.mktemp("set"))
    return {**TREE, **{name: data.decode() for name, data in package(found, [variant], PROJECT).items()}}


@pytest.fixture
def site(files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The stand-in and the package in a folder of the test's own, importable until the test ends."""
    place = written(tmp_path / "site", files)
    monkeypatch.syspath_prepend(str(place))
    monkeypatch.setattr("importlib.metadata.version", lambda name: {"example": "1.2.0"}[name])
    monkeypatch.delenv("MINE_PLUGIN", raising=False)
    meta, known = list(sys.meta_path), set(sys.modules)
    yield place
    sys.meta_path[:] = meta
    for name in set(sys.modules) - known:
        if name.partition(".")[0] in ("example", "torch"):
            del sys.modules[name]


def runtime(site: Path, **plan: object) -> Any:
    """The module that the package holds, as it is in the project, beside the plan in ``site``."""
    module: Any = types.ModuleType("example_mine_plugin")
    module.__file__ = str(site / "example_mine_plugin" / "__init__.py")
    exec(compile(SOURCE.read_bytes(), str(SOURCE), "exec", dont_inherit=True), vars(module))
    module._PLAN.update({"capabilities": None, **plan})
    return module


def results() -> tuple[object, ...]:
    """What the functions that the patches are about give."""
    model, user = importlib.import_module("example.model"), importlib.import_module("example.user")
    flags = importlib.import_module("example.flags")
    fast = hasattr(flags.Flags, "FAST")
    return user.use(1), model.Model().forward(1), model.Model.pick(1), fast


def applied() -> None:
    """The server applies its hooks."""
    importlib.import_module("example.hooks").Registry.apply()


def torch(hip: str | None = None, there: bool = True, *capabilities: tuple[int, int]) -> types.ModuleType:
    """A ``torch`` that says which GPUs there are."""
    module: Any = types.ModuleType("torch")
    module.version = types.SimpleNamespace(hip=hip)
    module.cuda = types.SimpleNamespace(
        is_available=lambda: there,
        device_count=lambda: len(capabilities),
        get_device_capability=capabilities.__getitem__,
    )
    return module  # type: ignore[no-any-return]


def test_functions_are_replaced_once_hooks_are_applied(site: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert results() == (2, 2, "plain", False)
    runtime(site).start()
    applied()
    assert results() == (3, 20, "FAST", True)
    assert "example-mine-plugin: in force, 3 functions replaced" in caplog.text
    assert importlib.import_module("example.model").scale.__qualname__ == "scale"


@pytest.mark.parametrize("word", ["off", " OFF ", "0", "false", "no"])
def test_switched_off(
    site: Path, word: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MINE_PLUGIN", word)
    runtime(site).start()
    applied()
    assert results() == (2, 2, "plain", False)
    assert f"off, because MINE_PLUGIN={word.strip().lower()}" in caplog.text


@pytest.mark.parametrize(
    "device, wanted",
    [
        (torch(None, True, (12, 0)), True),
        (torch(None, True, (9, 0), (12, 1)), True),  # one of the devices is enough
        (torch(None, True, (9, 0), (10, 0)), False),
        (torch(None, True), False),
        (torch(None, False, (12, 0)), False),
        (torch("6.4", True, (12, 0)), False),
    ],
)
def test_which_gpus_it_is_for(
    site: Path, device: types.ModuleType, wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", device)
    module = runtime(site, capabilities=[[12, 0], [12, 1]])
    module.start()
    applied()
    assert results() == ((3, 20, "FAST", True) if wanted else (2, 2, "plain", False))


def test_a_copy_that_is_patched_already_is_left(site: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    module = runtime(site)
    (variant,) = module._PLAN["versions"].values()
    for each in variant["modules"]:
        each["patched"] = each["base"]
    (site / "example" / "fast.py").write_text("def times(x):\n    return 0\n")
    module.start()
    assert "example-mine-plugin: the installed copy is patched already" in caplog.text
    assert sys.meta_path[0] not in module._finders
    applied()
    assert results() == (2, 2, "plain", False)


def test_a_module_that_is_there_is_not_put_in_place_of(site: Path) -> None:
    (site / "example" / "fast.py").write_text("def times(x):\n    return -x\n")
    runtime(site).start()
    applied()
    assert results() == (3, -2, "FAST", True)


def _gone(site: Path) -> None:
    (site / "example" / "model.py").unlink()
    (site / "example" / "model").mkdir()  # a namespace has no source file


def _changed(site: Path) -> None:
    with (site / "example" / "model.py").open("a") as stream:
        stream.write("# ours\n")


def _no_registry(site: Path) -> None:
    (site / "example" / "hooks.py").write_text("")


def _hooks_that_need_what_is_not_there(site: Path) -> None:
    (site / "example" / "hooks.py").write_text("import example_of_another\n")


def _another_release(site: Path) -> None:
    importlib.metadata.version = lambda distribution_name: "1.3.0"  # undone by the fixture


@pytest.mark.parametrize(
    "change, fact",
    [
        (_gone, "example.model has no source file"),
        (_changed, "example.model is not the file that they were made for"),
        (_no_registry, "AttributeError: module 'example.hooks' has no attribute 'Registry'"),
        (
            _hooks_that_need_what_is_not_there,
            "ModuleNotFoundError: No module named 'example_of_another'",
        ),
        (_another_release, "example is 1.3.0; they were made for 1.2.0"),
    ],
)
def test_what_is_not_as_it_was_ends_the_start(
    site: Path, change: Any, fact: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    change(site)
    module = runtime(site)
    with pytest.raises(SystemExit) as ended:
        module.start()
    said = f"example-mine-plugin: the patches are not in force: {fact}"
    assert str(ended.value) == f"{said}\nSet MINE_PLUGIN=off to start without them."
    monkeypatch.setenv("MINE_PLUGIN", "warn")
    module.start()
    assert [record.getMessage() for record in caplog.records] == [said]


def test_there_has_to_be_what_the_plan_names(site: Path) -> None:
    module = runtime(site, registry="nothing_of_this_name.Registry")
    with pytest.raises(SystemExit, match=r"not in force: there is no nothing_of_this_name\.Registry"):
        module.start()


HELD = [
    ("OLD = scale\n", "example.user.OLD"),
    ("TABLE = {'by two': scale}\n", "example.user.TABLE: by two"),
    ("ROW = [1, scale]\n", "example.user.ROW: 1"),
    ("PAIR = (scale, 2)\n", "example.user.PAIR: 0"),
    ("class Held:\n    run = staticmethod(scale)\n", "example.user.Held: run"),
]


@pytest.mark.parametrize("text, holder", HELD)
def test_whoever_holds_the_old_function_is_named(site: Path, text: str, holder: str) -> None:
    with (site / "example" / "user.py").open("a") as stream:
        stream.write(text)
    user = importlib.import_module("example.user")
    module = runtime(site)
    module.start()
    if holder == "example.user.OLD":  # the stand-in puts the new one under every name: this one comes later
        was = user.scale
        applied_first = importlib.import_module("example.hooks").Registry.one

        def one(target: str, hook: object) -> None:
            applied_first(target, hook)
            user.OLD = was  # type: ignore[attr-defined]

        importlib.import_module("example.hooks").Registry.one = staticmethod(one)
    with pytest.raises(SystemExit, match=f"not in force: {holder} is still the old scale"):
        applied()


def test_a_function_in_a_wrapper_counts_and_one_that_it_only_names_does_not(site: Path) -> None:
    leads = runtime(site)._leads_to

    def ours() -> object: ...

    def wrapper() -> object:
        return ours()

    def named() -> None: ...

    named.__wrapped__ = ours  # type: ignore[attr-defined]

    def again() -> object:
        return again() or ours  # closes over itself

    def unbound() -> object:
        return later

    assert leads(ours, ours) and leads(wrapper, ours) and leads(again, ours)
    assert not leads(named, ours) and not leads(None, ours) and not leads(unbound, ours)
    later = ours  # until here the cell was empty
    assert leads(unbound, ours)
