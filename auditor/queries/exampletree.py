"""The small project that examples of queries live in.

It is a package ``example`` of our own: helpers that ask ``torch`` which GPU this is, environment flags and
server options. Its names are deliberately nobody's: a query that only works with the audited project's
spelling fails its own examples.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping

from auditor.profile import Profile, Roots, Symbol
from auditor.queries.model import Example
from auditor.trees.base import TreeInfo

PACKAGE = "example"
CASE = f"{PACKAGE}/case.py"

_GPU = '''\
"""Questions about the GPU. All of them end in torch."""
from functools import lru_cache

import torch


def on_cuda():
    return torch.version.cuda is not None


def on_rocm():
    return torch.version.hip is not None


@lru_cache(maxsize=1)
def capability():
    return torch.cuda.get_device_capability()


def major():
    return capability()[0]


def number():
    high, low = torch.cuda.get_device_capability()
    return high * 10 + low


def data_centre():
    return on_cuda() and major() == 10


def workstation():
    return on_cuda() and major() == 12


def recent():
    return on_cuda() and major() >= 10
'''

_SETTINGS = '''\
"""Flags that a user sets through the environment."""
import os


class Flag:
    def __init__(self, default):
        self.default = default

    def __set_name__(self, owner, name):
        self.name = name

    def get(self):
        value = os.getenv(self.name)
        if value is None:
            return self.default
        return value.lower() in ("1", "true")

    def is_set(self):
        return self.name in os.environ

    def set(self, value):
        os.environ[self.name] = str(value)


class Flags:
    FAST_PATH = Flag(True)
    SLOW_PATH = Flag(False)
    SPARE = Flag(False)


flags = Flags()
'''

_OPTIONS = '''\
"""What a user passes when starting the server."""
from dataclasses import dataclass


@dataclass
class Options:
    backend: str = "auto"
    dtype: str = "auto"
    workers: int = 1
'''

#: Files that every example has; an example may replace them.
PRELUDE: Mapping[str, str] = {
    f"{PACKAGE}/__init__.py": "",
    f"{PACKAGE}/gpu.py": _GPU,
    f"{PACKAGE}/options.py": _OPTIONS,
    f"{PACKAGE}/settings.py": _SETTINGS,
}

PROFILE = Profile(
    name="example",
    title="Example",
    package=PACKAGE,
    url="https://example.invalid/",
    distributions=("example",),
    roots=Roots(repository=("",)),
    markers=(f"{PACKAGE}/__init__.py",),
    flags=(Symbol(f"{PACKAGE}.settings", "Flags"),),
    arguments=(Symbol(f"{PACKAGE}.options", "Options"),),
)


class MemoryTree:
    """A :class:`~auditor.trees.base.SourceTree` over texts in memory, with the blob ids git would give."""

    def __init__(self, files: Mapping[str, str | bytes], label: str = "example") -> None:
        self._files = {
            path: text.encode() if isinstance(text, str) else text for path, text in sorted(files.items())
        }
        self._blobs = {path: _blob_id(data) for path, data in self._files.items()}
        self._label = label

    def info(self) -> TreeInfo:
        digest = hashlib.sha1()
        for path, blob in self._blobs.items():
            digest.update(f"{path}\0{blob}\n".encode())
        return TreeInfo(kind="folder", label=self._label, content_id=digest.hexdigest())

    def blobs(self) -> Mapping[str, str]:
        return self._blobs

    def read(self, path: str) -> bytes:
        return self._files[path]

    def read_many(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        for path in paths:
            yield path, self._files[path]

    def local_path(self, path: str) -> str | None:
        return None


def _blob_id(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def example_tree(example: Example) -> MemoryTree:
    """The tree of one example: the prelude, then its own files. A folder of them is a package of its own."""
    own = {f"{PACKAGE}/{path}": text for path, text in example.files.items()}
    if example.code is not None:
        own[CASE] = example.code
    packages = {}
    for path in own:
        parts = path.split("/")[:-1]
        for end in range(1, len(parts) + 1):
            packages["/".join(parts[:end]) + "/__init__.py"] = ""
    return MemoryTree({**packages, **PRELUDE, **own})
