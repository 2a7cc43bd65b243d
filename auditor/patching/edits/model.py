"""What a structural patch can say: the closed set of edits, as typed YAML. Makes part of ``patch-1.json``.

``in`` names a place by its import path (``package.module.Class.method``) or by file (``dir/file.py`` or
``dir/file.py:Class.method``). ``at``, ``before``, ``after``, ``find``, ``call`` and ``within`` are patterns
as in queries (:mod:`auditor.queries.pattern`). Code is Python text. ``count`` is exact.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

Text = Annotated[str, msgspec.Meta(min_length=1)]
Count = Annotated[int, msgspec.Meta(ge=1, le=1000)]
Path = Annotated[str, msgspec.Meta(min_length=1)]
BlobIds = Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]


class Strict(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, rename="kebab"
):
    """Base of all that is read from a patch: unknown keys are errors."""


class Placed(Strict, frozen=True, kw_only=True):
    """An edit of Python at a place."""

    in_: Text = msgspec.field(name="in")


class Counted(Placed, frozen=True, kw_only=True):
    """An edit at every match of a pattern; there must be exactly ``count``, inside ``within`` if given."""

    within: str = ""
    count: Count = 1


class AddImport(Placed, frozen=True, kw_only=True):
    """One import statement, at the top of a module or of a function."""

    import_: Text = msgspec.field(name="import")


class Narrow(Counted, frozen=True, kw_only=True):
    """``C`` becomes ``C and WITH``. ``at`` is the condition, or an ``if`` or ``while`` that has it."""

    at: Text
    with_: Text = msgspec.field(name="with")


class Widen(Counted, frozen=True, kw_only=True):
    """``C`` becomes ``C or WITH``. ``at`` is the condition, or an ``if`` or ``while`` that has it."""

    at: Text
    with_: Text = msgspec.field(name="with")


class InsertArm(Counted, frozen=True, kw_only=True):
    """One more arm in a chain of ``if`` and ``elif``, before or after the arm with a condition."""

    before: str = ""
    after: str = ""
    if_: Text = msgspec.field(name="if")
    then: Text


class Insert(Counted, frozen=True, kw_only=True):
    """Statements before or after the statement that holds a match, or at the start or end of a body."""

    before: str = ""
    after: str = ""
    at: Literal["", "start", "end"] = ""
    code: Text


class Guard(Counted, frozen=True, kw_only=True):
    """A statement is run only under a condition."""

    at: Text
    if_: Text = msgspec.field(name="if")


class Replace(Counted, frozen=True, kw_only=True):
    """One expression or simple statement for another; ``with`` may use what ``$X`` stood for in ``find``."""

    find: Text
    with_: Text = msgspec.field(name="with")


class SetDefault(Placed, frozen=True, kw_only=True):
    """The default of a parameter of a function, or of a field of a class. ``was``: pattern of the old one."""

    name: Text
    to: Text
    was: Text


class SetConstant(Placed, frozen=True, kw_only=True):
    """The value of an assignment in the body of a module, class or function. ``was``: pattern."""

    name: Text
    to: Text
    was: Text


class SetArgument(Counted, frozen=True, kw_only=True):
    """One argument of calls: by name or by position from 0. ``was``: pattern, or ``absent``."""

    call: Text
    argument: str | int
    to: Text
    was: Text


class SetCall(Counted, frozen=True, kw_only=True):
    """What is called; the arguments stay. ``call`` is a pattern of the whole call."""

    call: Text
    to: Text


class AddMember(Counted, frozen=True, kw_only=True):
    """Members of a list, set, tuple or dict: the value of ``name``, or an argument of a call."""

    name: str = ""
    call: str = ""
    argument: str = ""
    member: str = ""
    members: tuple[Text, ...] = ()
    key: str = ""
    value: str = ""
    before: str = ""  # a member, as pattern; by default the new ones come last
    after: str = ""


class DeclareFlag(Strict, frozen=True, kw_only=True):
    """An environment flag in the class that holds them (the profile names it; ``in`` names another)."""

    name: Text
    as_: Text = msgspec.field(name="as")
    in_: str = msgspec.field(name="in", default="")


class AddFile(Strict, frozen=True, kw_only=True):
    """A whole new file, its content from the patchset's ``files/``."""

    path: Path
    from_: Text = msgspec.field(name="from")


class ReplaceFile(Strict, frozen=True, kw_only=True):
    """A whole file for another; ``was`` are the git blob ids of the versions it may replace."""

    path: Path
    from_: Text = msgspec.field(name="from")
    was: BlobIds


class DeleteFile(Strict, frozen=True, kw_only=True):
    """A file goes; ``was`` are the git blob ids of the versions that may go."""

    path: Path
    was: BlobIds


class EditText(Strict, frozen=True, kw_only=True):
    """Exact text of any text file: ``find`` becomes ``with``, or ``insert`` comes ``before`` or ``after``."""

    path: Path
    find: str = ""
    with_: str | None = msgspec.field(name="with", default=None)
    before: str = ""
    after: str = ""
    insert: str = ""
    count: Count = 1


class SetKey(Strict, frozen=True, kw_only=True):
    """One key of a JSON or TOML file. ``was`` is the old value, or ``absent``."""

    path: Path
    key: Annotated[tuple[str | int, ...], msgspec.Meta(min_length=1)]
    to: Any
    was: Any = msgspec.UNSET


class AddToList(Strict, frozen=True, kw_only=True):
    """Members of a list in a JSON or TOML file (by key) or of a CMake variable or command (by name)."""

    path: Path
    list_: str | tuple[str | int, ...] = msgspec.field(name="list")
    member: Any = None
    members: tuple[Any, ...] = ()


class Dispatch(Counted, frozen=True, kw_only=True):
    """Where a kernel is called: before the statement that ``at`` matches, under ``when`` and not ``off``."""

    at: Text
    when: Text
    off: Text  # opt-out: an expression that is true where the kernel must not be used
    code: Text  # what is done there, usually a return of a call of the operator
    imports: tuple[Text, ...] = ()


class NativeText(Strict, frozen=True, kw_only=True):
    """One line or more of native code, placed by exact text.

    Without ``insert`` a definition or an implementation is written from operator and schema.
    """

    path: Path
    after: str = ""
    before: str = ""
    insert: str = ""
    count: Count = 1


class Native(Strict, frozen=True, kw_only=True):
    """The compiled side of an operator, each part in its file."""

    source: AddFile | None = None
    cmake: AddToList | None = None
    archs: AddToList | None = None
    header: NativeText | None = None
    definition: NativeText
    implementation: NativeText | None = None


class Jit(Strict, frozen=True, kw_only=True):
    """Native code that the project's own loader compiles at run time; the profile names the loader.

    Module ``in`` gets a function ``_jit_NAME_module`` that builds it once; ``implementation`` calls it.
    """

    source: Path  # below the folder of the loader's sources, wherever this tree has that
    from_: Text = msgspec.field(name="from")
    function: Text  # what is exported, in C++: "ours::Scale::run"
    export: str = ""  # under which name; by default the operator's own
    suffix: str = ""  # "a": compiled for the device's own architecture only, with its special instructions
    arguments: str = ""  # further keyword arguments of the loader, as written in a call


class RegisterKernel(Strict, frozen=True, kw_only=True):
    """An operator with schema and fake implementation, its call site, and an opt-out flag.

    Without ``native`` it is a custom operator in Python: ``implementation`` and ``fake`` are functions (text)
    put into module ``in`` with their registration, or names of functions that the module has. With it, ``in``
    gets ``wrapper``.
    """

    in_: Text = msgspec.field(name="in")
    operator: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_]\w*::[A-Za-z_]\w*$")]
    #: ``torch``: registered with PyTorch's own functions; ``project``: with the function of the project that
    #: the profile names, which takes the schema from the annotations.
    through: Literal["torch", "project"] = "torch"
    file: AddFile | None = None  # the kernel's own file; ``in`` may be that
    jit: Jit | None = None
    expose: str = ""  # a module in which the name of ``wrapper`` is imported too
    schema: str = ""  # "(Tensor q, float scale) -> Tensor"
    implementation: str = ""
    fake: str = ""
    device: str = "CUDA"
    wrapper: str = ""
    native: Native | None = None
    dispatch: tuple[Dispatch, ...] = ()
    flag: DeclareFlag | None = None


class Sign(Placed, frozen=True, kw_only=True):
    """Something to be found in a tree, or not: exactly one of ``has``, ``lacks`` (patterns) and ``gone``.

    ``gone: true``: the place itself is nowhere in the package. The first two want the place to be there.
    """

    has: str = ""
    lacks: str = ""
    gone: bool = False
    within: str = ""


class Require(Sign, frozen=True, kw_only=True):
    """A sign without which the patch must not be made; it changes nothing. ``because``: what hangs on it."""

    because: str = ""


class Variant(Strict, frozen=True, kw_only=True):
    """Edits for one form of the tree. Without edits: in that form nothing is to be done."""

    title: Text  # which form: "0.5.19 and later, in model_hook"
    when: tuple[Sign, ...] = ()
    edits: tuple[Edit, ...] = ()


class OneOf(Strict, frozen=True, kw_only=True):
    """The first variant whose signs are there and whose edits all go; the first is what it was made for."""

    variants: Annotated[tuple[Variant, ...], msgspec.Meta(min_length=2)]


class Settled(Strict, frozen=True, kw_only=True):
    """A form of the tree in which the patch has nothing to do: all signs of ``when`` are there."""

    as_: Literal["upstream", "obsolete"] = msgspec.field(name="as")
    since: str = ""  # a release, a commit
    because: Text
    when: Annotated[tuple[Sign, ...], msgspec.Meta(min_length=1)]


class Edit(Strict, frozen=True, kw_only=True):
    """One edit: exactly one of these."""

    add_import: AddImport | None = None
    narrow: Narrow | None = None
    widen: Widen | None = None
    insert_arm: InsertArm | None = None
    insert: Insert | None = None
    guard: Guard | None = None
    replace: Replace | None = None
    set_default: SetDefault | None = None
    set_constant: SetConstant | None = None
    set_argument: SetArgument | None = None
    set_call: SetCall | None = None
    add_member: AddMember | None = None
    declare_flag: DeclareFlag | None = None
    register_kernel: RegisterKernel | None = None
    add_file: AddFile | None = None
    replace_file: ReplaceFile | None = None
    delete_file: DeleteFile | None = None
    edit_text: EditText | None = None
    set_key: SetKey | None = None
    add_to_list: AddToList | None = None
    require: Require | None = None
    one_of: OneOf | None = None

    def kinds(self) -> list[str]:
        """Which of the fields are given, as spelled in YAML."""
        names = self.__struct_fields__
        return [name.replace("_", "-") for name in names if getattr(self, name) is not None]

    def body(self) -> Strict:
        """What the edit is. Checked by :func:`auditor.patching.edits.check.check_edits` to be one."""
        body: Strict = next(
            value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None
        )
        return body

    def bodies(self) -> list[Strict]:
        """What the edit is, and with variants each of their edits."""
        body = self.body()
        if isinstance(body, OneOf):
            return [each.body() for variant in body.variants for each in variant.edits]
        return [body]


KINDS = tuple(name.replace("_", "-") for name in Edit.__struct_fields__)
