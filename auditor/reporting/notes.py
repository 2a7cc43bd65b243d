"""What the formats of other tools show: one list of notes, made from an audit or from a comparison.

SARIF, GitHub's annotations, Markdown and JUnit all come from a :class:`Paper`, so that they say the same.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from auditor.gates.model import VERDICTS, Finding, Gate, Predicate, Report, TreeFacts
from auditor.history.causes import folded, following
from auditor.history.model import KINDS, Change, Diff, PatchState
from auditor.reporting.items import MEANING, Item, items, shown_targets
from auditor.reporting.text import clean

#: Worst first.
LEVELS = ("error", "warning", "note")
#: What a verdict weighs where no query has said so.
_LEVEL_OF = {
    **dict.fromkeys(("unguarded", "blocked", "misgrouped"), "error"),
    **dict.fromkeys(("missed-variant", "env-forced", "wrong-default", "dead-arm"), "warning"),
}
#: Kinds of change that a person wants to see even where they do not trip the guard.
_LOUD_KINDS = frozenset({"outcome", "kernel", "forced", "default"})
#: What trips the guard, the most certain loss first, with what to do about it.
GROUPS = {
    "lost": "An arm of its own or a kernel is gone, or what went on is refused. Does the target do without?",
    "another way": "A decision comes out otherwise for the target. Is the arm that it takes built for it?",
    "settings": "What is set for the target, whatever the user wrote, or what it gets where nothing is set.",
    "open now": "What decided it is not followed, or asks for more than the GPU. The source has to be read.",
    "patches": "A patch that you carry, or what its result should hold.",
}
#: Verdicts that are no fault in themselves: they are counted, and listed where everything is asked for.
QUIET_VERDICTS = frozenset({"undecided", "same"})
#: A chain of predicates longer than this is cut; real ones have up to nine steps.
_LONGEST_CHAIN = 40
_NUMBERS = re.compile(r":\d+\b")


@dataclass(frozen=True)
class Rule:
    """One kind of note. ``id`` is the id of a query, or a verdict or kind of change with its family."""

    id: str  # "attention/sparse-prefill", "verdict/fallback", "change/outcome"
    title: str
    text: str
    level: str


@dataclass(frozen=True)
class Step:
    """A place on the way from a note back to the question which GPU this is. ``path`` is "" for a root."""

    text: str
    path: str = ""
    line: int = 0


@dataclass(frozen=True)
class Note:
    """One thing to tell, at one place.

    ``key`` names it whatever its line is: the same fault in a later commit has the same key. ``verdicts``
    says per target what it means there, in the words of the source (verdicts, or outcomes before and after).
    """

    rule: str
    level: str  # error | warning | note
    path: str
    line: int
    end_line: int
    symbol: str
    message: str
    verdicts: Mapping[str, str]
    key: str
    area: str = ""
    detail: tuple[str, ...] = ()
    chain: tuple[Step, ...] = ()
    fix: str = ""
    group: str = ""  # one of GROUPS for what trips the guard
    weight: int = 0  # how many others follow from it
    rank: int = 0  # among those of its level: a verdict's or kind's place in the order of reports

    @property
    def order(self) -> tuple[object, ...]:
        """Worst first, of these what most hangs on, then by what it is and by place."""
        group = list(GROUPS).index(self.group) if self.group else -1
        place = self.path, self.line, self.rule, self.message, self.key
        return LEVELS.index(self.level), group, -self.weight, self.rank, *place


@dataclass(frozen=True)
class Paper:
    """Everything that a format of another tool is made of."""

    title: str
    lines: tuple[str, ...]  # what was audited, under which assumptions, with how many gates
    tree: TreeFacts  # the tree that the places are in
    targets: tuple[str, ...]
    notes: tuple[Note, ...]
    rules: Mapping[str, Rule]
    problems: tuple[str, ...] = ()  # "path:line message": files that were not audited
    left_out: Mapping[str, int] = field(default_factory=dict)  # what is only counted
    nothing: str = "nothing to report"


def of_report(
    report: Report, lines: Iterable[str], queries: Mapping[str, Rule], *, everything: bool = False
) -> Paper:
    """The notes of an audit: its findings, and the gates at which a target goes its own way.

    ``queries`` describes the queries by id. Gates without a decided verdict are only counted, unless
    ``everything`` is asked for.
    """
    chains = _Chains(report)
    shown = shown_targets(report)
    notes, left_out = [], Counter[str]()
    for item in items(report):
        if item.finding is None and item.verdict in QUIET_VERDICTS and not everything:
            left_out[item.verdict] += 1
            continue
        notes.append(_of_item(item, chains, shown))
    rules = {note.rule: _rule(note.rule, queries, report.reference) for note in notes}
    return Paper(
        title=f"{report.project} {report.tree.label}",
        lines=tuple(lines),
        tree=report.tree,
        targets=shown,
        notes=_distinct(notes),
        rules=rules,
        problems=tuple(f"{p.path}:{p.line} {p.message}" for p in report.problems),
        left_out=dict(left_out),
        nothing=f"nothing differs from {report.reference} on {', '.join(shown)}",
    )


def _of_item(item: Item, chains: _Chains, targets: tuple[str, ...]) -> Note:
    finding, gate = item.finding, item.gate
    rule = finding.query if finding is not None and finding.query else f"verdict/{item.verdict}"
    verdicts = {target: item.verdicts.get(target, "same") for target in targets}
    said = item.message or (f"{gate.kind} {gate.predicate}" if gate is not None else "")
    return Note(
        rule=rule,
        level=item.severity if finding is not None else _LEVEL_OF.get(item.verdict, "note"),
        path=item.path,
        line=item.line,
        end_line=gate.end_line if gate is not None and gate.line == item.line else item.line,
        symbol=item.symbol,
        message=said,
        verdicts=verdicts,
        key=_key(rule, gate.id if gate is not None else _place_key(finding)),
        area=item.area,
        detail=finding.detail if finding is not None else (),
        chain=chains.of(gate) if gate is not None else (),
        fix=(finding.fix or "") if finding is not None else "",
        rank=VERDICTS.index(item.verdict),
    )


def _place_key(finding: Finding | None) -> str:
    if finding is None:
        return ""
    return "\0".join((finding.path, finding.symbol, _NUMBERS.sub(":", finding.message)))


def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _distinct(notes: Iterable[Note]) -> tuple[Note, ...]:
    """In order, and where several have one key (the same words twice in one symbol), each with its own."""
    seen: Counter[str] = Counter()
    out = []
    for note in sorted(notes, key=lambda note: note.order):
        seen[note.key] += 1
        number = seen[note.key]
        out.append(note if number == 1 else replace(note, key=_key(note.key, str(number))))
    return tuple(out)


def _rule(name: str, queries: Mapping[str, Rule], reference: str) -> Rule:
    if name in queries:
        return queries[name]
    verdict = name.partition("/")[2]
    text = MEANING.get(verdict, verdict).format(reference=reference)
    return Rule(name, verdict, text[:1].upper() + text[1:] + ".", _LEVEL_OF.get(verdict, "note"))


class _Chains:
    """The way from a gate through the names it reads to the questions they ask."""

    def __init__(self, report: Report) -> None:
        self.known: dict[str, Predicate] = {item.name: item for item in report.predicates}
        self.targets = tuple(dict.fromkeys((report.reference, *report.targets)))

    def of(self, gate: Gate) -> tuple[Step, ...]:
        out = [Step(f"{gate.kind} {gate.predicate}", gate.path, gate.line)]
        todo, seen = list(gate.via), set(gate.via)
        while todo and len(out) < _LONGEST_CHAIN:
            name = todo.pop(0)
            item = self.known.get(name)
            if item is None:
                out.append(Step(name))
                continue
            values = self._values(item)
            out.append(Step(f"{name}{': ' + values if values else ''}", item.path, item.line))
            todo += [via for via in item.via if via not in seen]
            seen.update(item.via)
        return (*out, *(Step(root) for root in gate.roots if root not in seen))

    def _values(self, item: Predicate) -> str:
        groups: dict[str, list[str]] = {}
        for target in self.targets:
            value = item.value.get(target) or item.truth.get(target)
            if value is not None:
                groups.setdefault(value, []).append(target)
        return " · ".join(f"{value} on {' '.join(names)}" for value, names in groups.items())


def of_diff(diff: Diff, lines: Iterable[str], tripped: Collection[Change], nothing: str) -> Paper:
    """The notes of a comparison. Changes that ``tripped`` the guard are errors."""
    worst = set(map(id, tripped))
    shown, counts = folded(diff.changes)
    notes = [_of_change(change, id(change) in worst, counts.get(change.gate, 0)) for change in shown]
    notes += [_of_patch(state) for state in diff.patches if state.trips or state.status in PATCH_NEWS]
    quiet = Counter(
        "patches that go" if state.kind == "patch" else "checks of patched trees"
        for state in diff.patches
        if not state.trips and state.status not in PATCH_NEWS
    )
    if counts:
        quiet["gates that follow from these"] = sum(counts.values())
    rules = {
        f"change/{kind}": Rule(f"change/{kind}", kind, text[:1].upper() + text[1:] + ".", "note")
        for kind, text in KINDS.items()
        if any(change.kind == kind for change in diff.changes)
    }
    rules |= {note.rule: PATCH_RULES[note.rule] for note in notes if note.rule in PATCH_RULES}
    return Paper(
        title=f"{diff.project} {diff.old.label} → {diff.new.label}",
        lines=tuple(lines),
        tree=diff.new,
        targets=diff.targets,
        notes=_distinct(notes),
        rules=rules,
        left_out=dict(quiet),
        nothing=nothing,
    )


#: Of a patch with one of these a person wants to hear, though nothing needs to be done at once.
PATCH_NEWS = ("upstream", "obsolete", "look")
PATCH_RULES = {
    "patchset/patch": Rule("patchset/patch", "patch", "What became of a patch on the newer tree.", "error"),
    "patchset/result": Rule(
        "patchset/result", "patched tree", "What the newer tree should hold with its patches.", "error"
    ),
}


def _of_patch(state: PatchState) -> Note:
    rule = "patchset/patch" if state.kind == "patch" else "patchset/result"
    way = f"{state.before} → {state.status}" if state.before not in ("", state.status) else state.status
    return Note(
        rule=rule,
        level="error" if state.trips else "note",
        path=state.path or f"{state.patchset}/{state.name}",
        line=state.line or 1,
        end_line=state.line or 1,
        symbol="",
        message=f"{state.patchset}: {state.name}: {way}" + (f": {state.note}" if state.note else ""),
        verdicts={},
        key=_key(rule, state.patchset, state.name),
        area="patches",
        detail=state.detail[:PATCH_LINES],
        group="patches" if state.trips else "",
    )


#: Hunks or facts of a patch that are shown; the JSON has them all.
PATCH_LINES = 12


def _of_change(change: Change, trips: bool, follow: int = 0) -> Note:
    ways = {
        target: " → ".join(w for w in (change.before.get(target, ""), _after(change, target)) if w)
        for target in dict.fromkeys((*change.before, *change.after))
    }
    detail = []
    if follow:
        detail.append(following(follow))
    if change.old_path:
        detail.append(f"was at {change.old_path}:{change.old_line}")
    if change.kind == "removed":
        detail.append("the place is in the older tree")
    if change.own:
        detail.append(f"{' '.join(change.own)} had an arm of its own here")
    if change.refuses:
        detail.append(f"{' '.join(change.refuses)} went on here, and is refused")
    detail += arm_lines(change)
    if change.why and change.kind not in ("forced", "default"):
        detail.append(change.why)
    if change.commits:
        detail.append(commit_words(change))
    if trips and change.gate and change.kind != "removed":
        detail.append(f"gate {change.gate}")
    what = change.what
    if change.old_what and change.old_what != change.what:
        what = f"{change.old_what} → {change.what}"
    rule = f"change/{change.kind}"
    return Note(
        rule=rule,
        level="error" if trips else _level_of_change(change),
        path=change.path,
        line=change.line,
        end_line=change.line,
        symbol=change.symbol,
        message=what,
        verdicts=ways,
        key=_key(rule, change.gate or "\0".join((change.path, change.symbol, change.what))),
        area=change.area,
        detail=tuple(detail),
        group=group_of(change) if trips else "",
        weight=follow,
        rank=list(KINDS).index(change.kind),
    )


def _after(change: Change, target: str) -> str:
    return "gone" if change.kind == "removed" else change.after.get(target, "")


def group_of(change: Change) -> str:
    """Which of GROUPS a change that trips the guard belongs to."""
    if change.kind in ("forced", "default", "flag"):
        return "settings"
    if change.kind in ("removed", "kernel") or change.refuses:
        return "lost"
    return "open now" if set(change.after.values()) == {"unknown"} else "another way"


def _level_of_change(change: Change) -> str:
    """What came is good to know; what a target had and has no more deserves a look."""
    if change.kind == "kernel":
        return "warning" if "runs" in change.before.values() else "note"
    if change.kind in ("forced", "default") and change.row != "flag":
        return "warning" if set(change.after.values()) & set(_LEVEL_OF) else "note"
    return "warning" if change.kind in _LOUD_KINDS else "note"


def arm_lines(change: Change) -> list[str]:
    """What the arm did that a target took, and what the one does that it takes now."""
    out = []
    for word, told in (("before", change.did), ("now", change.does)):
        by_text: dict[str, list[str]] = {}
        for target, text in told.items():
            by_text.setdefault(text, []).append(target)
        for text, names in by_text.items():
            whose = f" on {' '.join(names)}" if len(by_text) > 1 else ""
            out.append(f"{word}{whose}: {text}")
    return out


def commit_words(change: Change) -> str:
    """``c7397de57 #28231 2026-06-19 Subject``, or the ids of several that it may have been."""
    first = change.commits[0]
    if len(change.commits) == 1:
        number = f" #{first.pr}" if first.pr else ""
        subject = first.subject.removesuffix(f"(#{first.pr})").rstrip()
        return f"{first.id[:9]}{number} {first.date} {subject}"
    ids = " ".join(commit.id[:9] for commit in change.commits[:4])
    return f"one of {len(change.commits)} commits: {ids}{' …' if len(change.commits) > 4 else ''}"


def targets_by_word(verdicts: Mapping[str, str]) -> str:
    """``fallback on sm_120 sm_121 · same on sm_110``: targets grouped by what they get."""
    groups: dict[str, list[str]] = {}
    for target, word in verdicts.items():
        groups.setdefault(word, []).append(target)
    return " · ".join(f"{word} on {' '.join(names)}" for word, names in groups.items())


def sentence(note: Note) -> str:
    """What a note says in one line, without its place."""
    words = targets_by_word(note.verdicts)
    return clean(f"{note.message} ({words})" if words else note.message)


#: How the levels of a comparison are counted: none of them is a fault of the tree.
_CHANGES = {"error": "must be looked at", "warning": "worth a look", "note": "to know"}


def counted(paper: Paper) -> str:
    """``3 errors, 2 warnings, 4 notes; 210 undecided not listed``; of two trees ``3 must be looked at``."""
    numbers = Counter(note.level for note in paper.notes)
    if any(note.rule.startswith(("change/", "patchset/")) for note in paper.notes):
        parts = [f"{numbers[level]:,} {_CHANGES[level]}" for level in LEVELS if numbers[level]]
    else:
        parts = [f"{numbers[lv]:,} {lv}{'' if numbers[lv] == 1 else 's'}" for lv in LEVELS if numbers[lv]]
    text = ", ".join(parts) or paper.nothing
    rest = [f"{number:,} {what}" for what, number in sorted(paper.left_out.items()) if number]
    return f"{text}; not listed: {', '.join(rest)}" if rest else text
