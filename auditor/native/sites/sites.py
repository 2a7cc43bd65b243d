"""Places in the audited Python that reach an operator, and who can get there.

A place is a call of an operator or of a wrapper of one, or a reference to it that is handed on. Per target it
is reached where the conditions around and before it let control through and the function it stands in can
be entered (see :mod:`auditor.native.reach.reach`); ``true`` says that everybody who enters the function gets
there. A target that can get there although the operator is not there for it is unguarded.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from auditor.gates.model import Tri
from auditor.native.model import Cell, Row, Site
from auditor.native.reach.points import Mention, Points, Ran
from auditor.native.reach.reach import Caller, Reach
from auditor.native.reach.ways import Way, both, either, free, narrowed
from auditor.native.sites.choice import Choices
from auditor.native.sites.wrappers import Use, Wrappers
from auditor.profile import Profile
from auditor.program import textual
from auditor.program.program import Program
from auditor.program.source import Irregular, Segment
from auditor.program.values import EMPTY, ClassRef, Function
from auditor.program.words import Words

#: Outcomes that a call does not survive with the right result and without a clear word.
GONE = ("not-built", "falls-through")


class Condition(NamedTuple):
    """A test on the way to a place that is open on some target: what has to hold, and where."""

    text: str
    path: str
    line: int
    symbol: str


class Derived(NamedTuple):
    """A site with what a finding says about it."""

    site: Site
    via: tuple[str, ...]  # wrappers between the call and the operator
    conditions: tuple[Condition, ...]  # innermost last
    path: str  # the place where a guard is missing
    line: int
    symbol: str
    callers: tuple[str, ...]  # "path:line" of the calls between that place and the site, outermost first
    tried: bool  # inside a ``try``
    chosen: tuple[str, ...]  # unguarded targets that get there only by a setting
    settings: tuple[str, ...]  # the settings


class Sites:
    """Finds the sites of a program."""

    def __init__(
        self,
        program: Program,
        profile: Profile,
        names: Sequence[str],
        rows: Iterable[Row],
        wrappers: Wrappers,
    ) -> None:
        self.program = program
        self.profile = profile
        self.names = tuple(names)
        self.rows = {row.name: row for row in rows}
        self.gone = {
            name: self._mask(t for t, cell in row.cells.items() if cell.outcome in GONE)
            for name, row in self.rows.items()
        }
        self.wrappers = wrappers
        self.points = Points(program)
        self.reach = Reach(program, self.points)
        self.choices = Choices(program, profile, self.reach)
        self.reach.is_setting = self.choices.knows
        self._runs: dict[Any, Ran] = {}

    def find(self, targets: Collection[str]) -> list[Derived]:
        """All sites, by path and line. ``targets`` are those that a reader asks about: functions are followed
        to their callers only where one of these may be unguarded."""
        self.choices.asked = self._mask(targets)
        out = []
        for path, function, mention, op, use in self._mentions():
            derived = self._site(path, function, mention, op, use, targets)
            if derived is not None:
                out.append(derived)
        return _one_each(out)

    # -- where the names stand -----------------------------------------------------------------------

    def _files(self) -> Iterator[tuple[str, Words]]:
        program = self.program
        markers = [*self.profile.native_packages]
        markers += [f"torch.ops.{n}" for n in sorted(self.wrappers.namespaces)]
        words = sorted(self.wrappers.words())
        program.watch.vocabularies.append((markers, words))
        plain = [w.encode() for w in words]
        for path in sorted(program.paths):
            here = textual.names_of(program.peek(path), markers, plain)
            if here and not program.is_excluded(path):
                yield path, Words(here)

    def _mentions(self) -> Iterator[tuple[str, Function | None, Mention, str, Use]]:
        program = self.program
        for path, words in self._files():
            module = program.module(program.paths[path])
            if module is None:
                continue
            program.execute(module)
            module.seek(words)
            for segment in module.segments:
                if segment.kind == "other" or not words.search(segment.peek()):
                    continue
                for function in _functions(module, segment, words):
                    for mention in self._of(function, words):
                        for op, use in self._meant(mention).items():
                            yield path, function, mention, op, use

    def _of(self, function: Function, words: Words) -> tuple[Mention, ...]:
        """What a function mentions. It is run only where weighing its conditions leaves a target that is
        asked about without the operator."""
        found = self.points.weighed(function, words.words).mentions
        if self.program.is_hot(function) and any(
            use.may & self.gone[op] & self.choices.asked
            for mention in found
            for op, use in self._meant(mention).items()
        ):
            return self.points.ran(function).mentions
        return found

    def _meant(self, mention: Mention) -> dict[str, Use]:
        """The operators that a mention stands for, with masks of both together."""
        out: dict[str, Use] = {}
        for key, mask in mention.keys:
            if not key.startswith(("ext:", "imp:")):
                continue
            name = key[4:].replace(":", ".").rstrip(".")
            for op, use in self.wrappers.meaning(name).items():
                may, must = mention.may & mask & use.may, mention.must & mask & use.must
                old = out.get(op)
                out[op] = Use(
                    may | (old.may if old else 0), must | (old.must if old else 0), use.because, use.via, op
                )
        return out

    # -- what they mean per target -------------------------------------------------------------------

    def _site(
        self,
        path: str,
        function: Function | None,
        mention: Mention,
        op: str,
        use: Use,
        targets: Collection[str],
    ) -> Derived | None:
        gone = self.gone[op]
        asked = self._mask(targets)
        way = free(self.program.full)
        if function is not None and use.may & gone & asked:
            left = self.points.implied(function, mention.node)
            use = use._replace(may=use.may & left, must=use.must & left)
        if function is not None and use.may & gone & asked:
            way = self.reach.of(function)
            if use.may & way.may & gone & asked:
                use, way = self._told_apart(function, mention, use, way)
                for names in self.reach.wants(function, mention):
                    way = narrowed(way, self.program.full, names)
        may, must = use.may & way.may, use.must & way.may
        because = tuple(sorted(way.because | ((mention.because | use.because) if may & ~must else EMPTY)))
        bad = may & gone
        site = Site(
            op=op,
            path=path,
            line=mention.node.lineno,
            symbol=mention.symbol or (function.qualname if function else ""),
            call=ast.unparse(mention.node) if not isinstance(mention.node, ast.Call) else mention.word,
            reached=self._tri(may, must),
            because=because[:12],
            unguarded=self._targets(bad),
            area=self.profile.area(path),
        )
        place, conditions, callers = self._place(path, function, mention, bad & asked)
        chosen, settings = self._chosen(way, bad & asked)
        return Derived(
            site, use.via, conditions, *place, callers, mention.tried, self._targets(chosen), settings
        )

    def _told_apart(self, function: Function, mention: Mention, use: Use, way: Way) -> tuple[Use, Way]:
        """Use and way once ways into the function that pass different constants are looked at one by one."""
        if not self.points.depends(function):
            return use, way
        contexts = self.reach.contexts(function)
        if not contexts or not any(c.given for c in contexts):
            return use, way
        ways: list[Way] = []
        for context in contexts:
            key = function.segment.serial, tuple((n, repr(v.scalars())) for n, v in context.given.items())
            if key not in self._runs:
                self._runs[key] = self.points.ran_with(function, context.given)
            here = 0
            for other in self._runs[key].mentions:
                if other.node is mention.node:
                    for op, meant in self._meant(other).items():
                        here |= meant.may if op == use.op else 0
            ways.append(narrowed(context.way, here))
        return use, both(way, either(ways))

    def _chosen(self, way: Way, bad: int) -> tuple[int, tuple[str, ...]]:
        """Targets that get there only where somebody sets a name that the project does not set on them by
        itself, and the names."""
        by_itself = 0
        settings: list[str] = []
        for names, mask in way.paths:
            picked = mask & bad
            for name in names:
                if picked:
                    picked &= self.choices.picked(name)
            by_itself |= picked
        only = bad & ~by_itself
        for names, mask in way.paths if only else ():
            settings += [name for name in names if mask & only & ~self.choices.picked(name)]
        return only, tuple(dict.fromkeys(settings))

    def _place(
        self, path: str, function: Function | None, mention: Mention, bad: int
    ) -> tuple[tuple[str, int, str], tuple[Condition, ...], tuple[str, ...]]:
        """Where a guard is missing: the last open test before the site, in the function that leads to it."""
        conditions: list[Condition] = []
        callers: list[str] = []
        node, symbol, here = mention.node, mention.symbol, path
        place = path, node.lineno, symbol
        for _ in range(4):
            if function is None or not bad:
                break
            own = self._open_tests(here, function, node, symbol, bad)
            conditions = own + conditions
            if own:
                place = here, own[-1].line, own[-1].symbol
                break
            found = self._only_caller(function)
            if found is None or found.function is None:
                break
            function, node, here, symbol = (
                found.function,
                found.node,
                found.path,
                found.function.qualname,
            )
            callers.insert(0, f"{here}:{node.lineno}")
        return place, tuple(conditions), tuple(callers)

    def _only_caller(self, function: Function) -> Caller | None:
        if not function.name.startswith("_") or function.name.startswith("__"):
            return None
        reach = self.reach
        found = reach.method_callers(function) if function.owner else reach.callers(function)
        first = next(found, None)
        return first if first is not None and next(found, None) is None else None

    def _open_tests(
        self, path: str, function: Function, node: ast.expr, symbol: str, bad: int
    ) -> list[Condition]:
        """Tests around a node that may go either way on a target that gets there, outermost first."""
        ran = self.points.seen(function)
        if ran.node is None:
            return []
        out = []
        sketch = self.points.sketch(function, ran.node)
        for test, holds in sketch.tests_around(node):
            t, f = ran.tests.get(id(test), (self.program.full, self.program.full))
            if (f if holds else t) & bad:
                text = ast.unparse(test)
                line = sketch.parents[id(test)].lineno  # of the branch: its test may begin on a later line
                out.append(Condition(text if holds else f"not ({text})", path, line, symbol))
        return out

    # -- masks ---------------------------------------------------------------------------------------

    def _mask(self, targets: Iterable[str]) -> int:
        mask = 0
        for target in targets:
            if target in self.names:
                mask |= 1 << self.names.index(target)
        return mask

    def _targets(self, mask: int) -> tuple[str, ...]:
        return tuple(name for i, name in enumerate(self.names) if mask >> i & 1)

    def _tri(self, may: int, must: int) -> dict[str, Tri]:
        return {
            name: "false" if not may >> i & 1 else ("true" if must >> i & 1 else "unknown")
            for i, name in enumerate(self.names)
        }


def _functions(module: Any, segment: Segment, words: Words) -> Iterator[Function]:
    value = module.globals.get(segment.name)
    scalar = value.one if value is not None else None
    if segment.kind == "def":
        if isinstance(scalar, Function) and scalar.segment is segment:
            yield scalar
        else:
            yield Function(module, segment.name, segment.name, segment, None, None)
    elif isinstance(scalar, ClassRef) and scalar.info.segment is segment:
        todo = [scalar.info]
        while todo:
            info = todo.pop()
            try:
                info.load()
            except Irregular:
                continue
            todo += info.inner.values()
            for function in info.functions.values():
                if not function.segment.has_text or words.search(function.segment.peek()):
                    yield function


def _one_each(found: list[Derived]) -> list[Derived]:
    """One entry per operator and place, sorted."""
    out: dict[tuple[str, int, str, str], Derived] = {}
    for derived in found:
        site = derived.site
        out.setdefault((site.path, site.line, site.op, site.call), derived)
    return [out[key] for key in sorted(out)]


def cells_of(row: Row, targets: Iterable[str]) -> Mapping[str, Cell]:
    """The cells of some targets."""
    return {target: row.cells[target] for target in targets if target in row.cells}


__all__ = ["GONE", "Condition", "Derived", "Sites", "cells_of"]
