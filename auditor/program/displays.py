"""Displays, subscripts and comprehensions."""

from __future__ import annotations

import ast
import operator
from typing import Any

from auditor.program.frames import Frame
from auditor.program.operators import Operators
from auditor.program.syntax import short
from auditor.program.values import (
    EMPTY,
    ClassRef,
    External,
    Map,
    Seq,
    Unknown,
    V,
    all_reasons,
    is_const,
    is_ordered,
    join_scalars,
    make,
    reasons_of,
    set_of,
    unknown,
)

#: How the reason of a comprehension begins whose length is not known, but what stands in it is.
ITEMS = "items of"


class Displays(Operators):
    """Sequences, dictionaries, formatted text, and what is taken out of them."""

    def _joined(self, node: ast.JoinedStr, fr: Frame) -> V:
        out = V("")
        for part in node.values:
            value = self.ev(part, fr)
            out = self._zip(out, value, lambda x, y: self.arith(operator.add, x, y))
        return out

    def _formatted(self, node: ast.FormattedValue, fr: Frame) -> V:
        value = self.ev(node.value, fr)
        plain = node.conversion == -1 and node.format_spec is None

        def fold(scalar: Any) -> Any:
            if plain and isinstance(scalar, (str, int, bool, float, type(None))):
                return str(scalar)
            return Unknown(reasons_of(scalar) or frozenset({"text"}))

        return self._map(value, fold)

    def _sequence(self, node: Any, fr: Frame) -> V:
        kind = {ast.Tuple: "tuple", ast.List: "list", ast.Set: "set"}[type(node)]
        if isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)):
            return V(unknown("target"))
        roots = via = EMPTY
        parts: list[tuple[bool, V]] = []
        split = False
        for item in node.elts:
            value = self.ev(item, fr)
            roots, via = roots | value.roots, via | value.via
            split = split or value.each is not None
            parts.append((isinstance(item, ast.Starred), value))
        if len(parts) > 2000:
            return V(unknown("size"), roots, via)

        def build(i: int) -> Any:
            items: list[Any] = []
            for starred, value in parts:
                scalar = value.at(i)
                if starred:
                    if not isinstance(scalar, Seq) or not (kind == "set" or is_ordered(scalar)):
                        return Unknown(reasons_of(scalar) or frozenset({"unpacking"}))
                    items.extend(scalar.items)
                else:
                    items.append(scalar)
            return set_of(kind, tuple(items)) if kind == "set" else Seq(kind, tuple(items))

        if not split:
            return V(build(0), roots, via)
        return make(tuple(build(i) for i in range(self.count)), roots, via)

    def _dict(self, node: ast.Dict, fr: Frame) -> V:
        roots = via = EMPTY
        pairs: list[tuple[V | None, V]] = []
        split = False
        for key_node, value_node in zip(node.keys, node.values):
            key = self.ev(key_node, fr) if key_node is not None else None
            value = self.ev(value_node, fr)
            for v in (key, value):
                if v is not None:
                    roots, via, split = roots | v.roots, via | v.via, split or v.each is not None
            pairs.append((key, value))

        def build(i: int) -> Any:
            out: dict[Any, Any] = {}
            maybe: dict[Any, frozenset[str]] = {}
            for key, value in pairs:
                scalar = value.at(i)
                if key is None:
                    if not isinstance(scalar, Map):
                        return Unknown(reasons_of(scalar) or frozenset({"unpacking"}))
                    for k, inner in scalar.items.items():
                        if k not in scalar.maybe:
                            maybe.pop(k, None)
                        elif k in out:
                            inner = join_scalars(out[k], inner, scalar.maybe[k])
                        else:
                            maybe[k] = scalar.maybe[k]
                        out[k] = inner
                    continue
                k = key.at(i)
                if isinstance(k, Seq):
                    k = k.plain() if k.kind == "tuple" else None
                    if k is None:
                        return unknown("dictionary key")
                elif not is_const(k) and not isinstance(k, ClassRef):
                    return Unknown(reasons_of(k) or frozenset({"dictionary key"}))
                out[k] = scalar
                maybe.pop(k, None)
            return Map(out, maybe)

        if not split:
            return V(build(0), roots, via)
        return make(tuple(build(i) for i in range(self.count)), roots, via)

    def _subscript(self, node: ast.Subscript, fr: Frame) -> V:
        base = self.ev(node.value, fr)
        if isinstance(node.slice, ast.Slice):
            return self._sliced(node, base, node.slice, fr)
        index = self.ev(node.slice, fr)
        if (index.roots or fr.late) and isinstance(node.ctx, ast.Load):
            self.record_table(node, base, index, fr)
        out = self._zip(base, index, lambda b, k: self.item(b, k, node))
        if any(isinstance(s, Unknown) for s in out.scalars()):
            fr.fail()
        return out

    def item(self, base: Any, key: Any, node: ast.AST | None = None) -> Any:
        """``base[key]`` on one target."""
        if isinstance(base, Seq) and base.kind in ("tuple", "list"):
            if isinstance(key, int):
                try:
                    return base.items[key]
                except IndexError:
                    return unknown("index error")
        elif isinstance(base, Map):
            if isinstance(key, Seq):
                plain = key.plain()
                if plain is None:
                    return Unknown(
                        frozenset().union(*(reasons_of(k) for k in key.items)) or frozenset({"key"})
                    )
                key = plain
            if is_const(key) or isinstance(key, (tuple, ClassRef)):
                return base.items[key] if key in base.items else unknown("missing key")
        elif isinstance(base, str) and isinstance(key, int) and -len(base) <= key < len(base):
            return base[key]
        elif isinstance(base, External) and base.name == "os.environ":
            return self.environ_item(key)
        why = reasons_of(base) | reasons_of(key)
        return Unknown(why or frozenset({f"item {short(node)}" if node is not None else "item"}))

    def environ_item(self, key: Any) -> Any:
        """``os.environ[key]``; the part that knows the environment overrides this."""
        return unknown("env")

    def _sliced(self, node: ast.Subscript, base: V, cut: ast.Slice, fr: Frame) -> V:
        bounds: list[int | None] = []
        for part in (cut.lower, cut.upper, cut.step):
            if part is None:
                bounds.append(None)
                continue
            value = self.ev(part, fr)
            if value.each is not None or not isinstance(value.one, int):
                return V(
                    Unknown(all_reasons(base) | all_reasons(value) or frozenset({"slice"})),
                    base.roots,
                    base.via,
                )
            bounds.append(value.one)

        def fold(scalar: Any) -> Any:
            if isinstance(scalar, str):
                return scalar[slice(*bounds)]
            if isinstance(scalar, Seq) and scalar.kind in ("tuple", "list"):
                return Seq(scalar.kind, scalar.items[slice(*bounds)])
            return Unknown(reasons_of(scalar) or frozenset({"slice"}))

        if bounds[2] == 0:
            return V(unknown("slice"))
        return self._map(base, fold)

    def _comprehension(self, node: Any, fr: Frame) -> V:
        inner = Frame(
            fr.module,
            {},
            full=self.full,
            kind="function",
            owner=fr.owner,
            parent=fr,
            symbol=fr.symbol,
            recorder=fr.recorder,
            depth=fr.depth,
        )
        inner.this, inner.may, inner.must = fr.this, fr.may, 0
        inner.statement, inner.late = fr.statement, fr.late
        value = self._unrolled(node, fr, inner)
        if value is None:
            value = self._rounds(node, inner)
        if inner.raises:
            # no round may come to the call that raises, and a generator may never be asked
            fr.raises += 1
            fr.failed += bool(inner.failed)
            fr.thrown |= inner.thrown
            fr.must, fr.stay = fr.must & ~inner.thrown, fr.stay & ~inner.thrown
        return value

    def _rounds(self, node: Any, inner: Frame) -> V:
        """A comprehension over anything: one round stands for all."""
        roots = via = EMPTY
        what = "comprehension"
        for generator in node.generators:
            self.ev(generator.iter, inner)
            self.assign(generator.target, V(unknown(f"loop {short(generator.target)}")), inner)
            for condition in generator.ifs:
                value = self.ev(condition, inner)
                self.record("comprehension", condition, condition, value, inner)
                roots, via = roots | value.roots, via | value.via
        for part in ("elt", "key", "value"):
            child = getattr(node, part, None)
            if child is not None:
                value = self.ev(child, inner)
                roots, via = roots | value.roots, via | value.via
                if value.roots and any(is_const(s) and s is not None for s in value.scalars()):
                    what = ITEMS
        return V(unknown(f"{what} {short(node, 40)}"), roots, via)

    def _unrolled(self, node: Any, fr: Frame, inner: Frame) -> V | None:
        """A comprehension over a known short sequence, or None."""
        if len(node.generators) != 1 or isinstance(node, ast.DictComp):
            return None
        generator = node.generators[0]
        iterable = self.ev(generator.iter, fr)
        if iterable.each is not None or not isinstance(iterable.one, (Seq, Map)):
            return None
        items = list(iterable.one.items)
        if isinstance(iterable.one, Map) and iterable.one.maybe:
            return None
        if len(items) > 32:
            return None
        kind = {ast.ListComp: "list", ast.SetComp: "set", ast.GeneratorExp: "list"}[type(node)]
        out: list[V] = []
        roots, via = iterable.roots, iterable.via
        for item in items:
            if isinstance(item, tuple):
                item = Seq("tuple", item)
            self.assign(generator.target, V(item), inner)
            keep = self.full
            for condition in generator.ifs:
                value = self.ev(condition, inner)
                if self.met_before("comprehension", condition, inner):
                    self.record("comprehension", condition, condition, value, inner)
                t, f = self.truth(value)
                if t & f or (t and f):
                    return None
                keep &= t
            if keep:
                out.append(self.ev(node.elt, inner))
                inner.late |= inner.may
        split = any(v.each is not None for v in out)
        for v in out:
            roots, via = roots | v.roots, via | v.via
        if isinstance(node, ast.ListComp) and len(out) > 1 and not is_ordered(iterable.one):
            return V(unknown("order of a set"), roots, via)
        build = set_of if kind == "set" else Seq
        if not split:
            return V(build(kind, tuple(v.one for v in out)), roots, via)
        return make(tuple(build(kind, tuple(v.at(i) for v in out)) for i in range(self.count)), roots, via)

    @staticmethod
    def _unpacked(scalar: Any, i: int) -> Any:
        if isinstance(scalar, Seq) and i < len(scalar.items) and is_ordered(scalar):
            return scalar.items[i]
        return Unknown(reasons_of(scalar) or frozenset({"unpacking"}))
