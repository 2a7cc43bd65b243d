"""The bring-up dossier: what the start of a server decides for one model on each target asked for.

Two passes over the tree. The first runs the start itself (:mod:`auditor.program.startup`) and tells what
arguments and flags come out. The second audits the tree with these as assumptions, one target at a time,
so that the gates behind the chosen backends say what this start will meet.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from auditor import __version__
from auditor.arch import load_targets, parse_targets
from auditor.errors import UserError
from auditor.gates.audit import AuditOptions, generic_findings, query_findings
from auditor.gates.discover import Collector, finish
from auditor.gates.model import Gate, Problem, tree_facts
from auditor.gates.path.behind import Behind, function_place
from auditor.gates.path.choice import (
    Decide,
    Factory,
    argument_facts,
    layer_facts,
    registered,
    runner_facts,
    table_entry,
)
from auditor.gates.path.model import (
    Argument,
    Choice,
    Dossier,
    Flag,
    Model,
    Outcome,
    Place,
    Refusal,
    StartOn,
    Write,
)
from auditor.gates.path.models import class_place, find_model
from auditor.gates.path.packages import pins, requirements
from auditor.gates.path.places import Arguments, asked_for, flag_defaults, readers
from auditor.gates.path.transfer import disaggregation
from auditor.gates.reading import build_program, source_files
from auditor.profile import Profile, Start, load_profile
from auditor.program.startup import Startup, run_startup
from auditor.program.values import EnumMember, Function, Unknown, is_const
from auditor.trees.base import SourceTree

SCHEMA_VERSION = "1.0"
#: Verdicts that say that nothing is to be seen.
_QUIET = ("same", "undecided")


def dossier(
    tree: SourceTree, model: str, options: AuditOptions, progress: Callable[..., None] | None = None
) -> Dossier:
    """The dossier of a model class. UserError U014 for an unknown model, and as :func:`audit` otherwise."""
    targets = load_targets()
    for name in (*options.targets, options.reference):
        if name not in targets:
            parse_targets(name)
    profile = options.profile or load_profile(options.project)
    if profile.start is None:
        raise UserError(
            "U015",
            f"the profile of {profile.title} does not say how a server starts",
            hints=[f"audit {profile.name}"],
        )
    root, files, problems = source_files(tree, profile)
    assumptions = {**options.assumptions, "model": model}
    given = {f"arg.{name}": value for name, value in profile.start.given.items()}
    program = build_program(files, root, profile, {**given, **assumptions}, True)
    found = find_model(program, profile, model)
    startup = run_startup(program, model)
    arguments = Arguments(program, profile)
    stated = requirements(tree, profile, root)
    run = _Run(tree, options, profile, profile.start, root, files, assumptions, arguments, startup, found)
    starts = []
    gates: list[Gate] = []
    for name in options.targets:
        start, judged = run.on(name)
        starts.append(start)
        gates = gates or judged
    info = tree.info()
    chosen = run.value(profile.start.transfer.argument, options.targets[0])
    problems += [Problem(path, line, message) for path, (line, message) in program.problems.items()]
    told = {"cuda": program.world.cuda, **options.assumptions, "defaults": "yes"}
    return Dossier(
        schema_version=SCHEMA_VERSION,
        tool=f"sglang-auditor {__version__}",
        project=profile.name,
        tree=tree_facts(info),
        targets=tuple(options.targets),
        reference=options.reference,
        assumptions=dict(sorted(told.items())),
        model=found,
        followed=run.followed,
        starts=tuple(starts),
        packages=pins(stated, profile, gates),
        disaggregation=disaggregation(program, profile, arguments, stated, chosen),
        problems=tuple(sorted(problems, key=lambda p: (p.path, p.line, p.message))),
    )


def shown(scalar: Any) -> str | None:
    """A value as Python writes it, None where it is not known."""
    if isinstance(scalar, Unknown):
        return None
    if isinstance(scalar, EnumMember):
        return repr(scalar)
    if is_const(scalar):
        return repr(scalar)
    return None


class _Run:
    """One dossier: what is common to its targets."""

    def __init__(
        self,
        tree: SourceTree,
        options: AuditOptions,
        profile: Profile,
        start: Start,
        root: str,
        files: dict[str, bytes],
        assumptions: dict[str, str],
        arguments: Arguments,
        startup: Startup,
        model: Model,
    ) -> None:
        self.tree = tree
        self.options = options
        self.profile = profile
        self.start = start
        self.root = root
        self.files = files
        self.assumptions = assumptions
        self.arguments = arguments
        self.startup = startup
        #: Without this nothing may be said about arguments that nobody gave.
        self.followed = startup.entered > 0 and startup.complete
        self.names = tuple(load_targets())
        self.model = model
        self.checkpoint = dict(start.checkpoints.get(model.main.name, {}))

    # -- arguments ---------------------------------------------------------------------------------

    def scalar(self, name: str, target: str) -> Any:
        """The final value of an argument on a target; Unknown without reasons where it is not tracked."""
        given = self.assumptions.get(f"arg.{name}")
        found = self.startup.arguments.get(name)
        scalar: Any = Unknown(frozenset({"the start could not be followed"}))
        if found is not None:
            scalar = found.at(self.names.index(target))
        elif given is not None:
            scalar = given
        elif self.followed:
            scalar = _constant(self.arguments.get(name).value)
        if given is None and name in self.checkpoint and (scalar is None or isinstance(scalar, Unknown)):
            return self.checkpoint[name]
        return scalar

    def value(self, name: str, target: str) -> str | None:
        """The same as :meth:`scalar`, as Python writes it."""
        return shown(self.scalar(name, target))

    def argument(self, name: str, target: str) -> Argument:
        """Everything the start says about one argument on one target."""
        at = self.names.index(target)
        scalar = self.scalar(name, target)
        writes = []
        for write in self.startup.writes:
            if write.name == name and write.may >> at & 1:
                text = shown(write.value.at(at))
                writes.append(
                    Write(
                        text if text is not None else "?",
                        bool(write.must >> at & 1),
                        Place(write.path, write.line, write.symbol),
                    )
                )
        default = self.arguments.get(name)
        reasons: tuple[str, ...] = ()
        options: tuple[str, ...] = ()
        if isinstance(scalar, Unknown):
            reasons = tuple(sorted(scalar.reasons))
            options = tuple(text for text in (shown(o) for o in scalar.options or ()) if text is not None)
        source = "start"
        given = self.assumptions.get(f"arg.{name}")
        if given is not None and (isinstance(scalar, Unknown) or str(scalar).lower() == given.lower()):
            source = "user"
        elif name in self.checkpoint and scalar == self.checkpoint[name]:
            source = "checkpoint"
        return Argument(
            name=name,
            value=shown(scalar),
            default=default.value,
            reference=self.value(name, self.options.reference),
            unknown_because=reasons,
            options=options,
            default_at=default.place,
            writes=tuple(writes),
            source=source,  # type: ignore[arg-type]
            given=given,
            listed=name in self.start.arguments,
        )

    def all_arguments(self, target: str) -> tuple[Argument, ...]:
        """Those of the profile that the tree has, then every other one that the start changes here."""
        at = self.names.index(target)
        listed = [n for n in self.start.arguments if self.arguments.get(n).place is not None]
        written = sorted({w.name for w in self.startup.writes if w.may >> at & 1})
        names = [*listed, *(n for n in written if n not in listed)]
        return tuple(self.argument(name, target) for name in names)

    # -- flags -------------------------------------------------------------------------------------

    def flags(self, program: Any, target: str) -> tuple[Flag, ...]:
        """Environment flags that the start sets on this target, in the order in which it does."""
        at, reference = self.names.index(target), self.names.index(self.options.reference)
        declared = {symbol.module for symbol in self.profile.flags}
        here = [
            e
            for e in self.startup.env
            # Code that declares the flags may set one while it is read; that is no decision of the start.
            if e.may >> at & 1 and program.paths.get(e.path) not in declared
        ]
        names = {e.name for e in here}
        defaults = flag_defaults(program, self.profile, names)
        read = readers(program, names)
        set_at = {(e.path, e.line) for e in self.startup.env}
        out = []
        for entry in here:
            scalar = entry.value.at(at)
            text = shown(scalar)
            default = defaults.get(entry.name)
            guarded = entry.guarded or asked_for(program, entry.path, entry.line, entry.name)
            out.append(
                Flag(
                    name=entry.name,
                    # The environment holds texts: what stands there, without quotes.
                    value=scalar if isinstance(scalar, str) else text if text is not None else "?",
                    surely=bool(entry.must >> at & 1),
                    overrides=not guarded,
                    place=Place(entry.path, entry.line, entry.symbol),
                    default=default.value if default else None,
                    default_at=default.place if default else None,
                    readers=tuple(p for p in read.get(entry.name, ()) if (p.path, p.line) not in set_at),
                    only_here=not entry.may >> reference & 1,
                )
            )
        return tuple(dict.fromkeys(out))

    def refusals(self, target: str) -> tuple[Refusal, ...]:
        """Where the start may end on this target and not on the reference, or surely ends."""
        at, reference = self.names.index(target), self.names.index(self.options.reference)
        out = []
        for stop in self.startup.raises:
            surely = bool(stop.must >> at & 1)
            if stop.may >> at & 1 and (surely or not stop.may >> reference & 1):
                out.append(Refusal(stop.what, surely, Place(stop.path, stop.line, stop.symbol)))
        return tuple(dict.fromkeys(out))

    # -- the audit of this start -------------------------------------------------------------------

    def on(self, target: str) -> tuple[StartOn, list[Gate]]:
        """Sections 2 to 4 for one target, and the gates they rest on."""
        assumptions = {**self._decided(target), **self.assumptions}
        program = build_program(self.files, self.root, self.profile, assumptions, True)
        majors = {name: t.capability[0] for name, t in load_targets().items()}
        collector = Collector(program, self.names, majors, self.options.reference)
        program.discover()
        judged = tuple(dict.fromkeys((target, self.options.reference)))
        gates = finish(collector, judged, self.profile.area)
        options = msgspec.structs.replace(self.options, targets=(target,))
        findings = [
            f
            for f in query_findings(self.tree, options, self.profile, program, gates)
            if f.verdict.get(target, "same") not in _QUIET
        ]
        findings += [f for f in generic_findings(gates, (target,)) if f.verdict[target] not in _QUIET]
        behind = Behind(program, self.profile, target, gates, findings)
        own = (self.model.main.place, *(layer.place for layer in self.model.classes))
        parts = {(place.path, place.symbol.partition(".")[0]) for place in own}
        start = StartOn(
            target=target,
            arguments=self.all_arguments(target),
            flags=self.flags(program, target),
            refusals=self.refusals(target),
            attention=self.attention(program, behind, target, parts),
            experts=self.experts(program, behind, target),
        )
        return start, list(gates)

    def _decided(self, target: str) -> dict[str, str]:
        """What the start has settled on this target, as assumptions for its gates."""
        out: dict[str, str] = {}
        at = self.names.index(target)
        named = (self.start.attention.argument, *self.start.attention.overrides, self.start.experts.argument)
        for name in named:
            scalar = self.scalar(name, target)
            if isinstance(scalar, str) and scalar:
                out[f"arg.{name}"] = scalar
        for entry in self.startup.env:
            scalar = entry.value.at(at)
            if entry.must >> at & 1 and isinstance(scalar, (bool, int, str)):
                out[f"env.{entry.name}"] = str(int(scalar)) if isinstance(scalar, bool) else str(scalar)
        return out

    def attention(
        self, program: Any, behind: Behind, target: str, parts: set[tuple[str, str]]
    ) -> tuple[Choice, ...]:
        """Section 3: one choice for all work, or one each for what has its own backend.

        Gates of the model's own ``parts`` are counted in.
        """
        spec = self.start.attention
        at = self.names.index(target)
        whole = self.scalar(spec.argument, target)
        chosen: list[tuple[str, Any]] = []
        for name in spec.overrides:
            scalar = self.scalar(name, target)
            if isinstance(scalar, str) and scalar != whole:
                chosen.append((name, scalar))
        if isinstance(whole, str) or not chosen:
            chosen.insert(0, (spec.argument, whole))
        out = []
        for name, scalar in chosen:
            entry: Place | None = None
            outcomes: tuple[Outcome, ...] = ()
            if isinstance(scalar, str):
                function = registered(program, spec.registry.module, spec.registry.symbol, scalar)
                if function is not None:
                    entry = function_place(function)
                    outcomes = Factory(program, at, self._facts(program, target)).outcomes(function)
            files, notes = behind.notes(outcomes, spec.areas, parts)
            reference = self.value(name, self.options.reference)
            out.append(Choice(name, shown(scalar), reference, entry, outcomes, files, notes))
        return tuple(out)

    def _facts(self, program: Any, target: str, inner: Decide | None = None) -> Decide:
        def value(name: str) -> Any:
            if self.arguments.get(name).place is None:
                return Unknown(frozenset({f"no argument {name}"}))
            return self.scalar(name, target)

        return argument_facts(program, value, inner)

    def _builds(self, names: tuple[str, ...], area: str) -> bool:
        """Whether the model may build such layers: it does, or the text of one of its files names them."""
        if any(layer.name in names or layer.area == area for layer in self.model.layers):
            return True
        own = {self.model.main.place.path, *(layer.place.path for layer in self.model.classes)}
        pattern = re.compile(rb"\b(?:" + b"|".join(re.escape(n.encode()) for n in names) + rb")\b")
        return any(pattern.search(self.files[path]) for path in own)

    def experts(self, program: Any, behind: Behind, target: str) -> Choice | None:
        """Section 4."""
        spec = self.start.experts
        if not self._builds(spec.layers, spec.areas[0]):
            return None
        at = self.names.index(target)
        runner = self.scalar(spec.argument, target)
        quantization = self.scalar(spec.quantization, target)
        entry: Place | None = None
        config: Outcome | None = None
        outcomes: tuple[Outcome, ...] = ()
        if isinstance(quantization, str):
            row = table_entry(program, spec.table.module, spec.table.symbol, quantization, at)
            if row is not None:
                info, entry = row
                config = Outcome(info.name, class_place(info), (), entry)
                method = info.find(spec.method)
                if method is not None and isinstance(method[1], Function):
                    facts = runner_facts(
                        program,
                        spec.runner.module,
                        spec.runner.symbol,
                        spec.readers,
                        runner if isinstance(runner, str) else None,
                        at,
                    )
                    outcomes = Factory(
                        program, at, layer_facts(spec.layers, self._facts(program, target, facts))
                    ).outcomes(method[1])
        files, notes = behind.notes(outcomes, spec.areas)
        return Choice(
            argument=spec.argument,
            value=shown(runner),
            reference=self.value(spec.argument, self.options.reference),
            entry=entry,
            outcomes=outcomes,
            files=files,
            gates=notes,
            quantization=shown(quantization),
            config=config,
        )


def _constant(text: str | None) -> Any:
    """The value that a default written as a constant has; Unknown for anything else."""
    import ast

    if text is None:
        return Unknown(frozenset({"no default"}))
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return Unknown(frozenset({"default " + re.sub(r"\s+", " ", text)[:40]}))
    return value if is_const(value) else Unknown(frozenset({"default"}))
