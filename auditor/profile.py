"""What is specific to the audited project, read from ``queries/profiles/NAME.yaml``.

Another project is another profile, not another engine: no other module names a path, a class or a package
of the project.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, MutableMapping
from functools import cached_property, lru_cache
from pathlib import Path

import msgspec

from auditor.data import data_root
from auditor.errors import UserError
from auditor.readback import Damaged, from_json

#: At the top of a repository of a Python package, and never of an installed copy.
BUILD_FILES = ("pyproject.toml", "setup.py")


#: Stars of one pattern: what it costs to match grows with each.
_STARS = 6


class Roots(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Folders that the package lies in, tried in order. ``""`` is the top of the tree."""

    repository: tuple[str, ...]
    wheel: tuple[str, ...] = ("",)


class Area(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of the project under a name people use: "attention", "moe"."""

    name: str
    paths: tuple[str, ...]


class Symbol(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A class, table or function by module; ``folders`` hold parts of it that releases split off."""

    module: str
    symbol: str
    folders: tuple[str, ...] = ()
    what: str = ""  # for registries: what is chosen through it

    @property
    def qualified(self) -> str:
        return f"{self.module}.{self.symbol}"


class Models(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the classes lie that a model's ``architectures`` entry is looked up in."""

    folders: tuple[str, ...]
    registry: str
    entry: str = ""  # module attribute that names the classes, "" if the class name alone decides


class Backend(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An argument that names a backend, and the decorator under which its factory is registered."""

    argument: str
    registry: Symbol
    areas: tuple[str, ...]  # of the files behind the backend whose gates matter
    overrides: tuple[str, ...] = ()  # arguments that replace it for a part of the work


class Experts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the weights of expert layers find their method.

    ``table`` maps a checkpoint's quantization (argument ``quantization``) to a class whose ``method`` gives
    the method of one layer; for expert layers that is an instance of one of ``layers``. ``runner`` is the
    class whose members are the values of ``argument``, ``readers`` the functions that give the current one.
    """

    argument: str
    quantization: str
    table: Symbol
    method: str
    layers: tuple[str, ...]
    runner: Symbol
    readers: tuple[str, ...]
    areas: tuple[str, ...]


class Package(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A dependency worth knowing the version of; ``modules`` are the names under which it is imported."""

    name: str
    modules: tuple[str, ...] = ()


class Transfer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How prefill and decode servers hand over their cache.

    ``argument`` chooses one of ``backends`` (name -> packages that it imports); ``device`` is the argument
    with network devices. ``flags`` are environment flags of the choice.
    """

    argument: str
    device: str
    folders: tuple[str, ...]
    backends: dict[str, tuple[Package, ...]]
    flags: tuple[str, ...] = ()
    advice: str = ""  # the backend that is named as the way without InfiniBand


class Decisions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where decisions about arguments are recorded beside them. Functions and classes by full name."""

    ledger: tuple[str, ...] = ()  # attributes of the arguments that hold the list of decisions
    snapshots: tuple[str, ...] = ()  # those of ``start.views`` that do not see what is decided later
    records: tuple[str, ...] = ()  # functions from a view to the record behind it
    readers: tuple[str, ...] = ()  # functions of the record and a name: the value as decided so far
    passes: tuple[str, ...] = ()  # functions of the record and a step that returns decisions
    recorders: tuple[
        str, ...
    ] = ()  # functions of the record, a source and a step whose assignments are decisions
    publishers: tuple[str, ...] = ()  # functions that write all decisions into the record
    collectors: tuple[
        str, ...
    ] = ()  # functions of a model class, the record and more: what is registered for it
    registrars: tuple[str, ...] = ()  # decorators that register a function for model classes
    predicates: tuple[str, ...] = ()  # decorators that register a function for what a predicate admits
    constants: tuple[str, ...] = ()  # tables from a model class to its decisions
    fallback: str = ""  # keyword in a field's annotation: what stands for None in the end


class Start(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the start of a server decides, for ``audit path``."""

    arguments: tuple[str, ...]  # shown first, in this order
    attention: Backend
    experts: Experts
    transfer: Transfer
    packages: tuple[Package, ...]
    metadata: tuple[str, ...]  # files with the dependencies: below a root, or at the top of a wheel
    checkpoints: dict[str, dict[str, str]] = {}  # model class -> arguments that its public checkpoint implies
    given: dict[str, str] = {}  # arguments that no start is without; any fitting value will do
    entries: tuple[str, ...] = ()  # methods of the arguments that settle them, besides the constructor
    setters: tuple[str, ...] = ()  # functions whose keywords are recorded as decisions about the arguments
    views: tuple[str, ...] = ()  # functions and classes that hand out the arguments as decided so far
    decisions: Decisions = Decisions()
    configs: dict[str, dict[str, str]] = {}  # model class -> what every configuration file of that class says
    other_vendors: tuple[str, ...] = ()  # texts that no name of an NVIDIA device holds


class KernelRegistry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A declarative registry of kernels. Functions and methods by full name, fields and methods of its
    records and of the objects they point to by their own."""

    register: str  # function that is given a record
    lookup: str  # method that is given a key and returns its records
    key: str  # field: the operator
    backend: str  # field: which implementation; a text or a member of an enumeration
    target: str  # field: "module:name.name" of what is called
    requires: str = ""  # field: what the device must have
    available: str = ""  # method of a record: whether it may be used on a platform
    platform: str = ""  # function without arguments that says what the platform is
    select: str = ""  # function that is given a key and returns the record that is used
    dispatch: str = ""  # method of an object with several implementations: the one that is used
    plugins: tuple[
        str, ...
    ] = ()  # functions that answer None where no plug-in for another device is installed


class NativeBuild(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A CMake build of kernels. Paths are from the top of a repository."""

    folder: str  # with CMakeLists.txt
    python: str = ""  # folder above the Python package that loads the libraries
    package: str = ""  # that package's import name


class CudaMacro(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A macro of a header outside the tree that is defined from some CUDA version on."""

    cuda: str
    source: str


class KernelTag(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """On which targets a kernel with an architecture tag has its instructions.

    ``unknown`` lists targets for which that hangs on the version of the library with the tag. ``or_newer``
    says that any newer capability will do as well. ``suffix`` says that the instructions are only in code for
    an architecture with ``a`` or ``f``: a cubin for plain ``90`` loads on sm_90 and has none of them.
    """

    runs: tuple[str, ...]
    source: str
    unknown: tuple[str, ...] = ()
    or_newer: bool = False
    suffix: bool = False


class Native(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is specific to the project's compiled kernels."""

    builds: tuple[NativeBuild, ...] = ()
    macros: dict[str, CudaMacro] = {}
    outside: tuple[str, ...] = ()  # patterns of macros that come from headers outside the tree
    tags: dict[str, KernelTag] = {}
    tag_namespaces: tuple[str, ...] = ()  # what stands before a tag: "cutlass::arch"


class JitLoader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A function that compiles kernels for the device at run time. Functions and constants by full name."""

    load: str  # function that is given the sources
    arch: str  # function without arguments: the architecture it compiles for
    name: str  # attribute of that: the architecture as a compiler flag names it
    state: str  # module-level name that holds it, set by ``override``
    folder: str  # of the native code, below a source root
    sources: str  # folder in it that sources are named from
    override: str = ""  # context manager that sets it for a while
    flags: str = ""  # function without arguments: flags of every build
    compiler: tuple[str, ...] = ()  # functions that ask the compiler for its version: the assumed CUDA
    files: tuple[str, ...] = ()  # keywords with the sources
    exports: tuple[str, ...] = ()  # keywords with (exported name, C++ function)
    cache: str = ""  # decorator of a function that builds once


class OperatorFunction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A function of the project that registers a Python function as an operator of PyTorch."""

    function: str  # by full name
    namespace: str
    name: str  # keyword with the operator's name; where it is not given, that of the Python function
    position: int | None = None  # of the name, where it may be given without its keyword
    decorates: bool = False
    mutates: str = ""  # keyword with the names of parameters that are written to
    fake: str = ""  # keyword with the fake implementation


class Plugins(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How an installed package may replace functions of the project when it starts."""

    group: str  # of entry points: functions without arguments
    registry: str  # class, by full name
    register: str  # its method: full name of what is replaced, function, kind
    apply: str  # its method, without arguments, which the project calls after all plugins
    kind: str  # by full name: the kind that replaces


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """One audited project. All paths are below a source root (``package/folder/...``)."""

    name: str
    title: str
    package: str  # top-level import name
    url: str  # public repository
    distributions: tuple[str, ...]  # names in package indexes, preferred first
    roots: Roots
    markers: tuple[str, ...]  # a tree holds the project when one of these is below a root
    native_distributions: tuple[str, ...] = ()  # wheels with compiled kernels
    native_packages: tuple[str, ...] = ()  # their import names
    native_source: str = ""  # folder of their source in a repository
    exclude: tuple[str, ...] = ()  # files in which no gate is reported
    areas: tuple[Area, ...] = ()
    loggers: tuple[str, ...] = ()  # functions that only log, as they are called
    flags: tuple[Symbol, ...] = ()
    arguments: tuple[Symbol, ...] = ()
    models: Models | None = None
    registries: tuple[Symbol, ...] = ()
    kernel_registries: tuple[KernelRegistry, ...] = ()
    native: Native = Native()
    jit_loaders: tuple[JitLoader, ...] = ()
    operators: tuple[OperatorFunction, ...] = ()
    plugins: Plugins | None = None
    start: Start | None = None
    places: dict[str, str] = {}  # folder of a repository -> where an installed copy has it
    audited: bool = True  # without it, only where the project lies is known

    def is_installed(self, paths: Iterable[str]) -> bool:
        """Whether a tree with these paths is laid out as an installed copy (or a wheel), not a repository."""
        have = paths if hasattr(paths, "__contains__") else set(paths)
        if self.root_of(have) != "":
            return False
        return "" not in self.roots.repository or not any(name in have for name in BUILD_FILES)

    def root_of(self, paths: Iterable[str]) -> str | None:
        """The source root of a tree with these paths (``"python"``, ``""``), or None if it is not here.

        Give a set or a mapping: every root is looked up, nothing is scanned.
        """
        have = paths if hasattr(paths, "__contains__") else set(paths)
        for root in dict.fromkeys((*self.roots.repository, *self.roots.wheel)):
            if any(_join(root, marker) in have for marker in self.markers):
                return root
        return None

    def below_root(self, path: str) -> str:
        """A tree path without its source root: ``python/package/a.py`` and ``package/a.py`` are the same."""
        for root in self.roots.repository:
            if root and path.startswith(root + "/"):
                return path[len(root) + 1 :]
        return path

    def is_excluded(self, path: str) -> bool:
        """Whether gates of this file are left out of reports (the file is still read to resolve names)."""
        return bool(self._excluded.match(self.below_root(path)))

    def area(self, path: str) -> str:
        """The area of a file, ``""`` if no pattern fits."""
        below = self.below_root(path)
        for name, pattern in self._areas:
            if pattern.match(below):
                return name
        return ""

    @cached_property
    def _excluded(self) -> re.Pattern[str]:
        return compile_patterns(self.exclude)

    @cached_property
    def _areas(self) -> list[tuple[str, re.Pattern[str]]]:
        return [(area.name, compile_patterns(area.paths)) for area in self.areas]


def _join(root: str, path: str) -> str:
    return f"{root}/{path}" if root else path


@lru_cache(maxsize=256)
def compile_patterns(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """One regular expression for path patterns: ``a/b/`` (a folder), ``*`` in a name, ``**`` across folders.

    It is used with ``match`` and fits whole paths. No patterns fit nothing.
    """
    return re.compile("|".join(f"(?:{_regex(pattern)})" for pattern in patterns) or r"(?!)")


def _regex(pattern: str) -> str:
    if pattern.endswith("/"):
        pattern += "**"
    out = []
    for part in re.split(r"(\*\*/|\*\*|\*|\?)", pattern):
        out.append({"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(part) or re.escape(part))
    return "".join(out) + r"\Z"


def profile_names() -> list[str]:
    """The profiles that are shipped, sorted."""
    return sorted(path.stem for path in (data_root() / "queries" / "profiles").glob("*.yaml"))


def load_profile(name: str, *, memo: MutableMapping[bytes, bytes] | None = None) -> Profile:
    """The profile of a project. UserError U011 for an unknown name or a mistake in the file.

    ``memo`` keeps the decoded form from one run to the next, keyed by a digest of the file, so that a warm
    run reads no YAML; a caller that has a cache backs it with that.
    """
    path = data_root() / "queries" / "profiles" / f"{name}.yaml"
    if not re.fullmatch(r"[A-Za-z0-9_-]+", name) or not path.is_file():
        known = profile_names()
        raise UserError(
            "U011", f"no profile {name!r}; there are: {', '.join(known)}", hints=[f"audit {known[0]}"]
        )
    return read_profile(path, f"queries/profiles/{name}.yaml", memo=memo)


_read: dict[tuple[bytes, str], Profile] = {}  # what this process has read: YAML is slow


def read_profile(path: Path, shown: str, *, memo: MutableMapping[bytes, bytes] | None = None) -> Profile:
    """A profile from any file; ``shown`` is what errors call it."""
    raw = path.read_bytes()
    if memo is None and (raw, shown) in _read:
        return _read[raw, shown]
    key = b""
    if memo is not None:
        import hashlib

        key = b"profile/4 " + hashlib.sha256(raw).hexdigest().encode()
        kept = memo.get(key)
        if kept is not None:
            try:
                _read[raw, shown] = from_json(kept, Profile)
                return _read[raw, shown]
            except Damaged:
                pass  # a damaged entry is as good as none
    from auditor import yamlio

    document = yamlio.load(raw, shown, code="U011")
    profile = document.convert(Profile)
    _check(profile, document)
    _read[raw, shown] = profile
    if memo is not None:
        memo[key] = msgspec.json.encode(profile)
    return profile


def _check(profile: Profile, document: object) -> None:
    from auditor.yamlio import Document

    assert isinstance(document, Document)
    for field in ("package", "url", "distributions", "markers"):
        if not getattr(profile, field):
            raise document.error(f"`{field}` is empty", field)
    seen: set[str] = set()
    for index, area in enumerate(profile.areas):
        if area.name in seen:
            raise document.error(f"area `{area.name}` is listed twice", "areas", index)
        seen.add(area.name)
    lists = [(("exclude",), profile.exclude), (("markers",), profile.markers)]
    lists += [(("areas", index, "paths"), area.paths) for index, area in enumerate(profile.areas)]  # type: ignore[misc]
    for where, patterns in lists:
        for index, pattern in enumerate(patterns):
            if pattern.count("*") > _STARS:
                raise document.error(f"{pattern[:40]!r} has more than {_STARS} stars", *where, index)
            if not pattern or pattern.startswith("/") or ".." in pattern.split("/") or "\\" in pattern:
                raise document.error(f"{pattern!r} is not a path below a source root", *where, index)
