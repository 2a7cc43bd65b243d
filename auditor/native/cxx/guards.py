"""What the functions behind operators do on a target: guards, chains of architecture tests, kernel tags.

The chain is: the function is run for the target's capability (:mod:`auditor.native.cxx.run`); what its ways
through reach is held against the tags' data, and against the kernels as the loaded code has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from auditor.arch import Target, load_targets, parse_arch
from auditor.native.cxx.index import Definition
from auditor.native.cxx.paths import UNKNOWN, End, Path
from auditor.native.cxx.program import NOTHING, CxxProgram, Facts
from auditor.native.cxx.run import Runner
from auditor.native.model import Built, Step
from auditor.native.sources.macros import Macros
from auditor.native.sources.text import prepare

_EFFECT = re.compile(r"[A-Za-z_]\w*")
#: Statements that a kernel may still have although it does nothing for a target.
_NOTHING = re.compile(
    r"printf\s*\([^;]*;|assert\s*\([^;]*;|__trap\s*\(\s*\)\s*;|asm\s*(?:volatile)?\s*\(\s*\"trap;?\"\s*\)\s*;|return\s*;"
    r"|(?:CUTE|CUTLASS)_INVALID_CONTROL_PATH\s*\([^;]*;|extern\s+__shared__[^;]*;|__builtin_unreachable\s*\(\s*\)\s*;"
)


class Found(NamedTuple):
    """What a target meets inside. ``host_only``: no kernel of the library is launched on the way.

    ``only_here``: why nothing else is known, where the source is not in the tree; a library that has no code
    for the target decides all the same.
    """

    outcome: str
    reason: str = ""
    proof: tuple[Step, ...] = ()
    host_only: bool = False
    open: str = ""


@dataclass
class _Verdict:
    outcome: str
    reason: str
    proof: tuple[Step, ...]


class Guards:
    """The guards in the functions of one library."""

    def __init__(self, program: CxxProgram) -> None:
        self.program = program
        self._others: dict[frozenset[tuple[str, int, str]], Guards] = {}
        self._bodies: dict[Definition, str] = {}
        self._emptied: dict[tuple[Definition, str], bool] = {}

    def outcome(self, functions: dict[str, tuple[str, int]], target: Target, loaded: Built | None) -> Found:
        """What a call of an operator does on a target.

        ``functions`` are its C++ functions with the place where each is bound; ``loaded`` is the compiled
        code that the target takes, None where there is none.
        """
        founds = [self._one(name, path, target, loaded) for name, (path, _line) in functions.items()]
        if len({found.outcome for found in founds}) > 1:
            text = "; ".join(f"{name}: {found.outcome}" for name, found in zip(functions, founds))
            return Found("unknown", f"its functions differ ({text})", founds[0].proof)
        return founds[0]

    def _one(self, name: str, path: str, target: Target, loaded: Built | None) -> Found:
        if name == "lambda":
            return Found("unknown", "a function without a name", open="a function without a name")
        definitions = self.program.functions(name.rpartition("::")[2], path)
        if not definitions:
            reason = f"the source of {name} is not in this tree"
            return Found("unknown", reason, open=reason)
        founds = [self._either_way(one, name, path, target, loaded) for one in definitions]
        if len({found.outcome for found in founds}) > 1:
            text = ", ".join(
                f"{one.path}:{one.line} {found.outcome}" for one, found in zip(definitions, founds)
            )
            return Found("unknown", f"{name} has {len(founds)} definitions ({text})", founds[0].proof)
        return founds[0]

    def _either_way(
        self, definition: Definition, name: str, path: str, target: Target, loaded: Built | None
    ) -> Found:
        """One definition; where conditions of the preprocessor are undecided, what both ways agree on."""
        found = self._defined(definition, target, loaded)
        unsure = self.program.facts(definition).unsure
        if not unsure or self.program.choices:
            return found
        if unsure not in self._others:
            self._others[unsure] = Guards(self.program.otherwise(unsure))
        other = self._others[unsure]._one(name, path, target, loaded)
        if other.outcome == found.outcome:
            return found
        shown = "; ".join(f"#if {text} ({where}:{line})" for where, line, text in sorted(unsure)[:3])
        return Found("unknown", f"depends on {shown}", found.proof)

    def _defined(self, definition: Definition, target: Target, loaded: Built | None) -> Found:
        facts = self.program.facts(definition)
        start = (Step(f"{definition.name} is defined", definition.path, definition.line),)
        if facts.broken:
            places = ", ".join(f"{path}:{line}" for path, line in sorted(facts.broken)[:3])
            return Found("unknown", f"the braces do not match in {places}", start)
        if not _works(facts):
            foreign = self.program.unresolved(definition)
            if foreign:
                reason = f"what it calls is not in this tree: {', '.join(foreign[:3])}"
                return Found("unknown", reason, start, open=reason)
            if not facts.asks:
                ends = Runner(self.program, target).run(definition)
                verdict = self._judged(ends, facts, target, loaded)
                host = verdict.outcome == "runs"
                return Found(verdict.outcome, verdict.reason, (*start, *verdict.proof), host_only=host)
        if facts.asks:
            ends = Runner(self.program, target).run(definition)
        else:
            ends = [End("return", UNKNOWN, Path(facts=facts))]
        verdict = self._judged(ends, facts, target, loaded)
        return Found(verdict.outcome, verdict.reason, (*start, *verdict.proof))

    def _judged(self, ends: list[End], facts: Facts, target: Target, loaded: Built | None) -> _Verdict:
        doubts = tuple(dict.fromkeys(text for end in ends for text in end.path.doubt))
        if doubts:
            return _Verdict("unknown", "; ".join(doubts[:3]), ())
        working = [end for end in ends if end.kind == "return" and _works(end.path.facts)]
        returning = [end for end in ends if end.kind == "return"]
        raising = [end for end in ends if end.kind == "raise" and (end.by_arch or not returning)]
        if not working:
            if raising:
                end = max(raising, key=lambda one: one.by_arch)
                assert end.step is not None
                return _Verdict("raises", end.step.text, (*end.path.steps, end.step))
            if not _works(facts):
                return _Verdict("runs", "it launches no kernel of this library", ())
            missed = next((end.path.missed for end in returning if end.path.missed), ())
            if missed:
                return _Verdict("falls-through", f"no branch for it: {missed[-1].text}", missed)
            return _Verdict("unknown", "no way to a kernel was found", ())
        # A request often stands under a test of its own (more than 48 KB?): the launch has it on all ways.
        asked: dict[tuple[str, int], frozenset[tuple[str, int]]] = {}
        for end in working:
            for launch in end.path.facts.launches:
                asked[launch] = asked.get(launch, frozenset()) | end.path.facts.shared
        judged = [self._end(end, target, loaded, asked) for end in working]
        for wanted in ("runs", "unknown", "not-built"):
            for verdict in judged:
                if verdict.outcome == wanted:
                    return verdict
        return judged[0]

    def _end(
        self,
        end: End,
        target: Target,
        loaded: Built | None,
        asked: dict[tuple[str, int], frozenset[tuple[str, int]]],
    ) -> _Verdict:
        """One way to a kernel: whether what it reaches is code for this target."""
        facts = end.path.facts
        proof = end.path.steps
        states: dict[str, list[tuple[str, str, int]]] = {}
        for tag, path, line in sorted(facts.tags):
            states.setdefault(self._tag(tag, target, loaded), []).append((tag, path, line))
        steps = tuple(
            Step(f"kernel tag {tag}: {self._said(tag)}", path, line)
            for tag, path, line in _first_of_each(facts.tags)
        )
        proof = (*proof, *steps)
        names = {state: " ".join(sorted({tag for tag, _p, _l in held})) for state, held in states.items()}
        code = loaded.arch if loaded is not None else target.name
        if set(states) == {"no"}:
            text = (
                f"its kernels carry the tag {names['no']}, whose instructions are left out of code for {code}"
            )
            return _Verdict("not-built", text, proof)
        if "unknown" in states:
            tag = names["unknown"]
            text = f"whether the tag {tag} runs on {target.name} depends on the version of its library"
            unlisted = [one for one in tag.split() if one not in self.program.native.tags]
            if unlisted:
                text = f"what the tag {' '.join(unlisted)} needs is not known here"
            return _Verdict("unknown", text, proof)
        if "no" in states:
            tag = names["no"]
            text = f"one way leads to the tag {tag}, whose instructions are left out of code for {code}"
            return _Verdict("unknown", text, proof)
        empty = [
            kernel for kernel in sorted(facts.kernels) if loaded is not None and self._empty(kernel, loaded)
        ]
        if empty:
            where = Step(
                f"kernel {empty[0].name} compiles to nothing for {loaded.arch if loaded else ''}",
                empty[0].path,
                empty[0].line,
            )
            if len(empty) == len(facts.kernels) and not facts.tags:
                return _Verdict("not-built", where.text, (*proof, where))
            return _Verdict("unknown", where.text, (*proof, where))
        if loaded is None:  # that there is no code is met first
            return _Verdict("runs", "", proof)
        requests = facts.shared.union(*(asked.get(launch, ()) for launch in facts.launches))
        return self._room(requests, target, proof) or _Verdict("runs", "", proof)

    def _room(
        self, requests: frozenset[tuple[str, int]], target: Target, proof: tuple[Step, ...]
    ) -> _Verdict | None:
        """Whether launches ask for more shared memory than the target has, where constants tell."""
        limit = target.smem_per_block
        asked = [(n, *at) for at in sorted(requests) for n in self.program.amounts.asked(*at)]
        over = sorted((n, path, line) for n, path, line in asked if n is not None and n > limit)
        if not over:
            return self._open_room([(path, line) for n, path, line in asked if n is None], target, proof)
        amount, path, line = over[0]
        text = f"asks for {amount:,} bytes of shared memory at launch; {target.name} has at most {limit:,}"
        every = len(over) == len(asked)
        return _Verdict("raises" if every else "unknown", text, (*proof, Step(text, path, line)))

    @staticmethod
    def _open_room(
        open_at: list[tuple[str, int]], target: Target, proof: tuple[Step, ...]
    ) -> _Verdict | None:
        """An amount that is no constant is open on targets that have less than the largest ones."""
        limit = target.smem_per_block
        if not open_at or limit >= max(one.smem_per_block for one in load_targets().values()):
            return None
        path, line = open_at[0]
        most = f"{target.name} has at most {limit:,} bytes"
        text = f"asks for shared memory that is computed when it is launched; {most}"
        return _Verdict("unknown", text, (*proof, Step(text, path, line)))

    def _said(self, tag: str) -> str:
        known = self.program.native.tags.get(tag)
        return "not in the profile" if known is None else known.source

    def _tag(self, tag: str, target: Target, loaded: Built | None) -> str:
        """``runs``, ``no`` or ``unknown``: what a kernel with a tag is in the code that a target loads."""
        known = self.program.native.tags.get(tag)
        if known is None:
            return "unknown"
        code = None if loaded is None else parse_arch(loaded.arch)
        if known.or_newer:
            every = load_targets()
            least = min(every[name].capability for name in known.runs if name in every)
            capability = target.capability if code is None else code.capability
            return "runs" if capability >= least else "no"
        if known.suffix and code is not None and not code.suffix:
            return "no"
        if target.name in known.unknown:
            return "unknown"
        return "runs" if target.name in known.runs else "no"

    def _empty(self, kernel: Definition, loaded: Built) -> bool:
        """Whether the body of a kernel has nothing left in the code that the target loads."""
        key = (kernel, loaded.arch)
        if key not in self._emptied:
            self._emptied[key] = self._compiled_away(kernel, loaded)
        return self._emptied[key]

    def _conditional_body(self, kernel: Definition) -> str:
        """The body of a kernel with its directives; "" for one that no condition on the architecture cuts."""
        if kernel not in self._bodies:
            source = self.program.source(kernel.path)
            first, last = source.line(kernel.open), source.line(kernel.close)
            whole = self.program.files.bare(kernel.path)
            body = ""
            if "__CUDA_ARCH_" in whole or "_ENABLED" in whole:
                body = "\n".join(whole.split("\n")[first - 1 : last])
                if "#" not in body or not ("__CUDA_ARCH_" in body or "_ENABLED" in body):
                    body = ""
            self._bodies[kernel] = body
        return self._bodies[kernel]

    def _compiled_away(self, kernel: Definition, loaded: Built) -> bool:
        body = self._conditional_body(kernel)
        if not body:
            return False
        macros = Macros(
            self.program.files,
            self.program.part,
            self.program.native,
            self.program.macros.cuda,
            parse_arch(loaded.arch),
        )
        prepared = prepare(body, macros.lookup(kernel.path))
        if prepared.unsure:
            return False
        text = prepared.text
        inner = text[text.find("{") + 1 : text.rfind("}")]
        return not _EFFECT.search(_NOTHING.sub("", inner))


def _works(facts: Facts) -> bool:
    return bool(facts.launches or facts.outside or facts.kernels)


def _first_of_each(tags: Iterable[tuple[str, str, int]]) -> list[tuple[str, str, int]]:
    first: dict[str, tuple[str, str, int]] = {}
    for tag in sorted(tags):
        first.setdefault(tag[0], tag)
    return list(first.values())


__all__ = ["NOTHING", "Found", "Guards"]
