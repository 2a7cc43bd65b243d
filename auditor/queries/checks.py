"""What makes a query file wrong: each check yields problems with a code, a path inside the file and a hint.

Two degrees. ``fatal`` checks guard the engine: a query with such a fault is refused when it is loaded. The
others guard the reader (and upstream's next rename); ``audit query lint`` reports them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from string import Formatter

import msgspec

from auditor.arch.targets import load_targets
from auditor.gates.model import VERDICTS
from auditor.queries.model import DEFAULT, FROM, REFERENCE, WHEN, Example, GateMatch, Query, listed
from auditor.queries.shape import PatternError, shape


class Problem(msgspec.Struct, frozen=True):
    """A fault in a query file."""

    code: str  # "Q004"
    query: str  # id
    where: str  # dotted path inside the file: "match.gate.truth"
    message: str
    hints: tuple[str, ...] = ()
    fatal: bool = False
    place: str = ""  # "queries/moe/x.yaml:12", filled in by the loader


#: Fields of a gate that a message may show.
GATE_FIELDS = ("symbol", "module", "path", "line", "predicate", "kind", "id")
_PLAIN_FIELDS = ("path", "line", "symbol", "module")


def check(query: Query) -> Iterator[Problem]:
    """Every fault of one query, fatal ones included, in a fixed order."""
    yield from _targets(query)
    yield from _verdicts(query)
    yield from _patterns(query)
    yield from _message(query)
    yield from _examples(query)
    yield from _words(query)
    yield from _prose(query)
    yield from _names(query)


def is_target(glob: str) -> bool:
    """Whether a target name, or a glob of target names, means at least one known target."""
    return any(fnmatchcase(name, glob) for name in load_targets())


def _gates(query: Query) -> Iterator[tuple[str, GateMatch]]:
    if query.match and query.match.gate:
        yield "match.gate", query.match.gate
    if query.match and query.match.code and query.match.code.not_under:
        yield "match.code.not-under", query.match.code.not_under


def _targets(query: Query) -> Iterator[Problem]:
    places: list[tuple[str, Mapping[str, object], tuple[str, ...]]] = [
        ("verdict", query.verdict, (DEFAULT, FROM, *WHEN))
    ]
    for where, gate in _gates(query):
        places += [
            (f"{where}.truth", gate.truth, (REFERENCE,)),
            (f"{where}.reached", gate.reached, (REFERENCE,)),
            (f"{where}.verdict", gate.verdict, ()),
        ]
    if query.match and query.match.code:
        places.append(("match.code.reached", query.match.code.reached, (REFERENCE,)))
    for index, example in enumerate(query.examples):
        if not isinstance(example.expect, str):
            places.append((f"examples.{index}.expect", example.expect, (DEFAULT,)))
    for where, mapping, extra in places:
        for key in mapping:
            if key in extra or is_target(key):
                continue
            near = get_close_matches(key, [*load_targets(), *extra], n=1, cutoff=0.4)
            yield Problem(
                "Q004",
                query.id,
                f"{where}.{key}",
                f"unknown target {key!r}",
                (f"write `{near[0]}:`" if near else "list them: audit targets",),
                fatal=True,
            )


def _verdicts(query: Query) -> Iterator[Problem]:
    places: list[tuple[str, Mapping[str, str]]] = [("verdict", query.verdict)]
    for index, example in enumerate(query.examples):
        if not isinstance(example.expect, str):
            places.append((f"examples.{index}.expect", example.expect))
    for where, mapping in places:
        for key, verdict in mapping.items():
            if key == FROM:
                if verdict != "gate":
                    yield Problem("Q008", query.id, f"{where}.{key}", "`from` can only be `gate`", fatal=True)
                elif not (query.match and query.match.gate) and not query.plugin:
                    yield Problem(
                        "Q008",
                        query.id,
                        f"{where}.{key}",
                        "`from: gate` needs a `gate` to match",
                        ("name the verdict of each target instead",),
                        fatal=True,
                    )
            elif verdict not in VERDICTS:
                near = get_close_matches(verdict, VERDICTS, n=1, cutoff=0.4)
                yield Problem(
                    "Q008",
                    query.id,
                    f"{where}.{key}",
                    f"unknown verdict {verdict!r}",
                    (f"write `{near[0]}`" if near else f"one of: {', '.join(VERDICTS)}",),
                    fatal=True,
                )
    if query.match and query.match.gate is None and query.match.code is None:
        yield Problem("Q009", query.id, "match", "`match` is empty", ("add `gate:` or `code:`",), fatal=True)
    if not query.match and not query.plugin:
        yield Problem("Q009", query.id, "", "nothing to match", ("add `match:`",), fatal=True)


def _patterns(query: Query) -> Iterator[Problem]:
    if not query.match:
        return
    code = query.match.code
    texts = [("match.code.pattern", t) for t in listed(code.pattern)] if code else []
    texts += [("match.code.contains", t) for t in listed(code.contains)] if code else []
    texts += [("match.code.not-inside", t) for t in listed(code.not_inside)] if code else []
    regexes = []
    for where, gate in _gates(query):
        if gate.predicate and gate.predicate.pattern:
            texts.append((f"{where}.predicate.pattern", gate.predicate.pattern))
        if gate.predicate and gate.predicate.regex:
            regexes.append((f"{where}.predicate.regex", gate.predicate.regex))
    if code:
        regexes += [
            (f"match.code.where.{k}.regex", v.regex) for k, v in code.where.items() if v.regex is not None
        ]
    for where, text in texts:
        try:
            shape(text)
        except PatternError as error:
            yield Problem("Q007", query.id, where, str(error), fatal=True)
    for where, text in regexes:
        try:
            re.compile(text)
        except re.error as error:
            yield Problem("Q007", query.id, where, f"not a regular expression: {error}", fatal=True)
    if code:
        holes = _captures(query)
        for name in code.where:
            if holes and name not in holes:
                near = get_close_matches(name, sorted(holes), n=1, cutoff=0.3)
                yield Problem(
                    "Q007",
                    query.id,
                    f"match.code.where.{name}",
                    f"no pattern has a metavariable ${name}",
                    (f"write `{near[0]}:`",) if near else (),
                    fatal=True,
                )


def _captures(query: Query) -> frozenset[str]:
    """Metavariables that every spelling of the pattern has."""
    if not (query.match and query.match.code):
        return frozenset()
    found: list[frozenset[str]] = []
    for text in listed(query.match.code.pattern):
        try:
            found.append(shape(text).holes)
        except PatternError:
            return frozenset()
    for text in listed(query.match.code.contains):
        try:
            found = [holes | shape(text).holes for holes in found]
        except PatternError:
            return frozenset()
    return frozenset.intersection(*found) if found else frozenset()


def message_fields(template: str) -> list[str]:
    """The ``{names}`` of a message, in order. ValueError where braces do not pair."""
    return [name for _, name, _, _ in Formatter().parse(template) if name is not None]


def _message(query: Query) -> Iterator[Problem]:
    for where, text in (("message", query.message), ("title", query.title), ("why", query.why)):
        if not text.strip():
            yield Problem("Q006", query.id, where, f"`{where}` is empty", fatal=True)
    allowed = {*_PLAIN_FIELDS, *_captures(query)}
    has_gate = bool(query.match and query.match.gate) or bool(query.plugin)
    if has_gate:
        allowed |= {f"gate.{name}" for name in GATE_FIELDS}
    try:
        names = message_fields(query.message)
    except ValueError as error:
        yield Problem("Q006", query.id, "message", f"the message cannot be filled in: {error}", fatal=True)
        return
    if query.plugin:
        return  # its captures are its own
    for name in names:
        if name not in allowed:
            near = get_close_matches(name, sorted(allowed), n=1, cutoff=0.4)
            hint = (f"write `{{{near[0]}}}`",) if near else (f"one of: {', '.join(sorted(allowed))}",)
            yield Problem(
                "Q006",
                query.id,
                "message",
                f"the message names {{{name}}}, which is nothing",
                hint,
                fatal=True,
            )


def _examples(query: Query) -> Iterator[Problem]:
    kinds = [example.kind for example in query.examples]
    for kind in ("valid", "invalid"):
        if kind not in kinds:
            yield Problem(
                "Q010", query.id, "examples", f"no {kind} example", (f"audit query new shows a {kind} one",)
            )
    for index, example in enumerate(query.examples):
        where = f"examples.{index}"
        if bool(example.code) == bool(example.files):
            yield Problem("Q010", query.id, where, "an example has either `code` or `files`", fatal=True)
        for path in example.files:
            if path.startswith("/") or ".." in path.split("/") or not path.endswith(".py"):
                yield Problem(
                    "Q010",
                    query.id,
                    f"{where}.files",
                    f"{path!r} is no relative path to a .py file",
                    fatal=True,
                )
        if example.kind == "valid" and example.expect != "none":
            yield Problem("Q010", query.id, f"{where}.expect", "a valid example expects `none`", fatal=True)
        if example.kind == "invalid" and example.expect == "none":
            yield Problem(
                "Q010",
                query.id,
                f"{where}.expect",
                "an invalid example expects a verdict",
                ("name it per target, or make the example `kind: valid`",),
                fatal=True,
            )


def sources(example: Example) -> str:
    """All source text of an example."""
    return example.code or "\n".join(example.files[path] for path in sorted(example.files))


def _words(query: Query) -> Iterator[Problem]:
    needs = bool(query.match and query.match.code) or bool(query.plugin)
    if needs and not query.words:
        yield Problem(
            "Q005",
            query.id,
            "words",
            "`code` needs `words`",
            ("add literals that every match has",),
            fatal=True,
        )
    if not query.words:
        return
    for index, example in enumerate(query.examples):
        if example.expect == "none":
            continue
        text = sources(example)
        if not any(word in text for word in query.words):
            yield Problem(
                "Q005",
                query.id,
                f"examples.{index}",
                "the example matches but holds none of the words, so the prefilter would hide it",
                (f"add a word to `words:` (now: {', '.join(query.words)})",),
            )
    for index, word in enumerate(query.words):
        if not any(word in sources(example) for example in query.examples if example.expect != "none"):
            yield Problem(
                "Q005",
                query.id,
                f"words.{index}",
                f"the word {word!r} is in no example that matches",
                ("remove it, or add an example",),
            )


def _prose(query: Query) -> Iterator[Problem]:
    if query.title.endswith("."):
        yield Problem("Q011", query.id, "title", "a title has no full stop")
    if "\n" in query.title.strip():
        yield Problem("Q011", query.id, "title", "a title is one line")
    if not re.fullmatch(r"[a-z0-9-]+(/[a-z0-9-]+)+", query.id):
        yield Problem("Q011", query.id, "id", "an id is area/name in lower-case kebab", ("e.g. moe/my-gate",))


# Spellings of a GPU in the names of predicates differ from release to release.
_SPELLING = re.compile(r"sm_?\d{2,3}|blackwell|hopper", re.IGNORECASE)


def _names(query: Query) -> Iterator[Problem]:
    """A query must not hang on how this month's source spells a question about the GPU."""
    fields: list[tuple[str, str]] = [(f"words.{i}", w) for i, w in enumerate(query.words)]
    for where, gate in _gates(query):
        fields += [(f"{where}.via", name) for name in listed(gate.via)]
        if gate.predicate:
            fields += [(f"{where}.predicate", gate.predicate.regex or gate.predicate.pattern or "")]
    for where, text in fields:
        if _SPELLING.search(text):
            yield Problem(
                "Q012",
                query.id,
                where,
                f"{text!r} is a spelling of a predicate and stops matching when upstream renames it",
                ("say what it means: `truth: {sm_120: 'true', sm_100: 'false'}`",),
            )
