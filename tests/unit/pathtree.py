"""A small project of our own that starts a server: models, backends, methods, flags and dependencies."""

from __future__ import annotations

import msgspec

from auditor.profile import (
    Backend,
    Experts,
    Models,
    Package,
    Profile,
    Start,
    Symbol,
    Transfer,
)
from auditor.queries.exampletree import PRELUDE, PROFILE, MemoryTree

_OPTIONS = '''\
"""What a user passes when starting the server."""
from dataclasses import dataclass

from example.gpu import workstation
from example.settings import flags


@dataclass
class Options:
    backend: str = "auto"
    experts: str = "auto"
    quant: str = None
    transfer: str = "cargo"
    wires: str = None

    def __post_init__(self):
        self.fit()
        self.check()

    def fit(self):
        if self.backend == "auto":
            self.backend = "tiles"
        if workstation():
            if self.experts == "auto":
                self.experts = "pebble"
            flags.FAST_PATH.set(False)
            if not flags.SPARE.is_set():
                flags.SPARE.set(True)

    def check(self):
        if self.transfer == "cargo":
            self.wires = look_at_wires(self.wires)


def look_at_wires(wires):
    return wires
'''

_MODEL = '''\
"""A model."""
from example.layers.parts import Mix, Rows
from example.layers.parts import Attend as _Attend
from example.layers.parts import pick
from example.models.others import FishModel as Fish


class Block:
    def __init__(self, config):
        self.mix = self.build()
        self.rows = Rows(config)
        self.experts = pick(config)(config)

    def build(self):
        return Mix(_Attend())


class Wing:
    def __init__(self, config: Fish):
        kind = pick(config)
        self.experts = kind(config)


KINDS = {"block": Block}


class BirdForCausalLM:
    def __init__(self, config, side=Wing):
        self.layers = [KINDS[config.kind](config) for _ in range(2)]


EntryClass = [BirdForCausalLM]
'''

_DRAFT = """\
from example.models.bird import BirdForCausalLM


class BirdForCausalLMDraft(BirdForCausalLM):
    pass


EntryClass = BirdForCausalLMDraft
"""

_OTHER = """\
class FishModel:
    pass


class WhaleModel:
    pass


EntryClass = [
    FishModel,  # NotThis
    WhaleModel,
]
"""

_PARTS = """\
class Layer:
    def forward(self, x):
        return x


class Rows(Layer):
    pass


class Attend(Layer):
    pass


class Mix(Layer):
    pass


class Experts(Layer):
    pass


class ManyExperts(Experts):
    pass


class Config:
    pass


def pick(config):
    if config.many:
        return ManyExperts
    return Experts
"""

_REGISTRY = """\
from example.gpu import on_rocm

KNOWN = {}


def register(name):
    def keep(function):
        KNOWN[name] = function
        return function

    return keep


@register("other")
def other(runner):
    from example.backends.other import Other

    return Other(runner)


@register("tiles")
def tiles(runner):
    if on_rocm():
        from example.backends.other import Other

        return Other(runner)
    from example.backends.tiles import make

    made = make(runner)
    return made
"""

_TILES = """\
from example.gpu import workstation
from example.kernels import slow_rows, tensor_rows

_is_workstation = workstation()


class Tiles:
    def forward(self, q):
        if _is_workstation:
            return slow_rows(q)
        return tensor_rows(q)


class WideTiles(Tiles):
    pass


class FlatTiles(Tiles):
    pass


class HugeTiles(Tiles):
    pass


def is_huge():
    return held().part.backend == "huge"


def make(runner):
    if is_huge():
        return HugeTiles(runner)
    if runner.wide:
        cls = WideTiles
    else:
        cls = FlatTiles if runner.flat else Tiles
    return cls(runner)
"""

_KERNELS = """\
from example.gpu import workstation


def slow_rows(q):
    return q


def tensor_rows(q):
    if workstation():
        raise RuntimeError("not for this card")
    return q
"""

_METHODS = """\
from enum import Enum

from example.backends.tiles import Tiles
from example.gpu import data_centre, workstation


class Runner(Enum):
    AUTO = "auto"
    PEBBLE = "pebble"
    ROCK = "rock"

    def is_auto(self):
        return self == Runner.AUTO

    def is_pebble(self):
        return self in (Runner.PEBBLE, Runner.ROCK)


CURRENT = None


def current():
    return CURRENT


class PlainMethod:
    pass


class SmallMethod:
    def load(self):
        if workstation():
            return "other"
        return "own"


class WholeMethod:
    pass


class SmallConfig:
    def method(self, layer, prefix):
        if isinstance(layer, Rows):
            return PlainMethod()
        elif isinstance(layer, (Experts, Mix)):
            if left_out(prefix, self.skipped):
                return PlainMethod()
            whole = WholeMethod()
            if self.small and current().is_pebble():
                return SmallMethod(whole)
            return whole
        return None


TABLE = {"small": SmallConfig}
if workstation():
    TABLE.update({"card": SmallConfig})
"""

_TRANSFER = """\
def connect():
    try:
        from zipwire.engine import Engine
    except ImportError as error:
        raise ImportError("install it") from error
    return Engine()
"""

_USES = """\
from example.settings import flags

FAST = flags.FAST_PATH.get()


def f():
    if not flags.SPARE.is_set():
        return "flags.SPARE is not read here: SPARE"
    # flags.SPARE
    return flags.SPARE.get()
"""

_PYPROJECT = """\
[build-system]
requires = ["torch==0"]

[project]
name = "example"
dependencies = [
  "numpy", "torch==2.9.1", # "nothing==1"
  "Flash.Infer[cu13]==0.6.1 ; sys_platform == 'linux'",
  "tiles-dsl>=1.2,<2",
]

[project.optional-dependencies]
far = ["cargo-engine==3"]
"""

FILES: dict[str, str] = {
    **PRELUDE,
    "example/options.py": _OPTIONS,
    "example/models/__init__.py": "",
    "example/models/bird.py": _MODEL,
    "example/models/bird_draft.py": _DRAFT,
    "example/models/others.py": _OTHER,
    "example/layers/__init__.py": "",
    "example/layers/parts.py": _PARTS,
    "example/backends/__init__.py": "",
    "example/backends/registry.py": _REGISTRY,
    "example/backends/tiles.py": _TILES,
    "example/backends/other.py": "class Other:\n    pass\n",
    "example/kernels.py": _KERNELS,
    "example/methods.py": _METHODS,
    "example/transfer/__init__.py": "",
    "example/transfer/zip.py": _TRANSFER,
    "example/uses.py": _USES,
    "example/config.py": 'DRAFTS = {"BirdForCausalLM": 1}\n',
    "pyproject.toml": _PYPROJECT,
}

START = Start(
    arguments=("backend", "experts", "quant", "absent"),
    attention=Backend(
        argument="backend", registry=Symbol("example.backends.registry", "register"), areas=("kernels",)
    ),
    experts=Experts(
        argument="experts",
        quantization="quant",
        table=Symbol("example.methods", "TABLE"),
        method="method",
        layers=("Experts",),
        runner=Symbol("example.methods", "Runner"),
        readers=("current",),
        areas=("methods",),
    ),
    transfer=Transfer(
        argument="transfer",
        device="wires",
        folders=("example/transfer/",),
        backends={
            "cargo": (Package("cargo-engine", ("cargo",)),),
            "zip": (Package("zip-wire", ("zipwire",)),),
        },
        flags=("SLOW_PATH",),
        advice="zip",
    ),
    packages=(
        Package("torch", ("torch",)),
        Package("flash-infer", ("flashinfer",)),
        Package("tiles-dsl"),
        Package("cargo-engine"),
        Package("nobody-asks"),
    ),
    metadata=("pyproject.toml", "*.dist-info/METADATA"),
    checkpoints={"BirdForCausalLM": {"quant": "small"}},
)


def profile() -> Profile:
    """The profile of the project."""
    from auditor.profile import Area

    return msgspec.structs.replace(
        PROFILE,
        models=Models(folders=("example/models/",), registry="", entry="EntryClass"),
        start=START,
        areas=(
            Area("kernels", ("example/backends/", "example/kernels.py")),
            Area("methods", ("example/methods.py",)),
        ),
    )


def tree(**changes: str | None) -> MemoryTree:
    """The project; ``changes`` replace files by name (``__`` stands for ``/``), None leaves one out."""
    files = dict(FILES)
    for name, text in changes.items():
        path = name.replace("__", "/") + ".py"
        if text is None:
            del files[path]
        else:
            files[path] = text
    return MemoryTree(files)
