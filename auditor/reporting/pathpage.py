"""The dossier of ``audit path`` on a terminal: one screen, and with ``-v`` every place behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from auditor.gates.path.model import (
    Argument,
    Choice,
    Dossier,
    Flag,
    GateNote,
    ModelClass,
    Outcome,
    Place,
    Refusal,
    StartOn,
)
from auditor.gates.path.walk import opposite
from auditor.reporting.items import STYLES
from auditor.reporting.terminal import WIDEST
from auditor.reporting.text import Page, Places, clean

if TYPE_CHECKING:
    from rich.console import Console

    from auditor.trees.base import SourceTree

_INDENT = 14
#: Lines of gates behind a choice on the first screen.
_NOTES = 4
_LAYERS = 8
_PACKAGES = 8
#: Gates that depend on a package, listed with -v; twice lists all.
_GATES = 8
#: Verdicts that end a server where it gets to the gate.
STOPS = ("unguarded", "blocked")
_SWITCH = {"true": "forced on", "1": "forced on", "false": "forced off", "0": "forced off"}


def render(
    report: Dossier,
    console: Console,
    *,
    verbose: int = 0,
    quiet: bool = False,
    tree: SourceTree | None = None,
    command: str = "",
) -> None:
    """Prints a dossier. ``command`` are the words that choose the tree again, for what can be typed next."""
    page = Page(min(console.width, WIDEST))
    writer = _Writer(report, page, verbose, Places(_paths(report), tree, console.is_terminal))
    if not quiet:
        writer.header(tree)
    for start in report.starts:
        writer.short(start, f" {command}" if command else "")
    page.blank()
    writer.model()
    for start in report.starts:
        writer.arguments(start)
        writer.attention(start)
        writer.experts(start)
    writer.packages()
    writer.disaggregation()
    for problem in report.problems:
        page.paragraph(f"{problem.path}:{problem.line}: {problem.message}", indent=_INDENT, head="not read")
    if not quiet:
        writer.footer(command)
    page.write(console)


def _paths(report: Dossier) -> set[str]:
    """Every path of a report, to be shown as short as they stay apart."""
    out: set[str] = set()

    def take(item: object) -> None:
        if isinstance(item, Place):
            out.add(item.path)
        elif isinstance(item, tuple):
            for one in item:
                take(one)
        elif hasattr(item, "__struct_fields__"):
            for name in item.__struct_fields__:
                take(getattr(item, name))

    take(report)
    return out


class _Writer:
    def __init__(self, report: Dossier, page: Page, verbose: int, places: Places) -> None:
        self.report = report
        self.page = page
        self.verbose = verbose
        self.places = places
        self.one = len(report.targets) == 1

    def at(self, place: Place | None) -> str:
        return self.places.text(place.path, place.line) if place is not None else ""

    def full(self, place: Place | None) -> str:
        """Path, line and symbol, for ``-v``."""
        if place is None:
            return ""
        symbol = f"  {place.symbol}" if place.symbol else ""
        return f"{place.path}:{place.line}{symbol}"

    def row(self, label: str, text: str, style: str = "") -> None:
        self.page.paragraph(text, indent=_INDENT, head=clean(label), style=style)

    def more(self, text: str, style: str = "") -> None:
        self.page.paragraph(text, indent=_INDENT + 2, head=" " * _INDENT, style=style)

    def deep(self, text: str) -> None:
        """A line of detail, with ``-v`` only."""
        if self.verbose:
            self.page.paragraph(text, indent=_INDENT + 4, head=" " * (_INDENT + 2), style="dim")

    def header(self, tree: SourceTree | None) -> None:
        report = self.report
        facts = report.tree
        parts = [f"{report.project} {facts.label}", facts.date or "", facts.describe or ""]
        told = "uncommitted" in facts.label
        parts += ["with uncommitted changes"] if facts.dirty and not told else []
        parts += tree.info().notes if tree is not None else ()
        self.page.paragraph(" · ".join(part for part in parts if part), style="bold")
        rest = [f"{k}={v}" for k, v in sorted(report.assumptions.items()) if k not in ("cuda", "defaults")]
        given = ", ".join([f"NVIDIA CUDA {report.assumptions.get('cuda', '')}".strip(), *rest])
        self.page.paragraph(
            f"a fresh start of {report.model.main.name} on {', '.join(report.targets)}, nothing else set; "
            f"{given}; compared with {report.reference}"
        )
        self.page.blank()

    def typed(self, command: str) -> None:
        """A command on a line of its own, which is not broken: it is there to be copied."""
        self.page.add(" " * (_INDENT + 4) + clean(command))

    def short(self, start: StartOn, where: str) -> None:
        """The answer first: does the start refuse, what is still open, and what could stop behind it.

        ``where`` chooses the tree in a command.
        """
        label = self._label("in short", start)
        target = start.target
        sure = [refusal for refusal in start.refusals if refusal.surely]
        perhaps = len(start.refusals) - len(sure)
        if sure:
            whats = "; ".join(f"{refusal.what} {self.at(refusal.place)}" for refusal in sure[:2])
            self.row(label, f"the start refuses on {target}: {whats}", "bold red")
        elif not self.report.followed:
            self.row(label, "no short answer: the start of this tree could not be followed")
        else:
            may = f"; {counted(perhaps, 'place')} may, by what is not known (below)" if perhaps else ""
            self.row(label, f"nothing in the start surely refuses on {target}{may}", "bold")
        chosen = [*start.attention, *([start.experts] if start.experts is not None else [])]
        for argument in dict.fromkeys(choice.argument for choice in chosen if choice.value is None):
            told = next((a for a in start.arguments if a.name == argument), None)
            ways = self._options(told) if told is not None else ""
            self.more(f"open: {argument}{ways}; settle it: --assume arg.{argument}=VALUE")
        stops = [note for note in self._all(c.gates for c in chosen) if note.verdict in STOPS]
        if stops:
            kinds = Counter(note.verdict for note in stops)
            words = ", ".join(f"{kinds[verdict]} {verdict}" for verdict in STOPS if kinds[verdict])
            self.more(
                f"{counted(len(stops), 'gate')} behind attention and experts can stop a server that gets to "
                f"them ({words}); why, and on what it depends:"
            )
            self.typed(f"audit gate {self.at(stops[0].place)} --target {target}{where}")
        elif self.report.followed:
            self.more(f"no gate behind attention and experts stops on {target}")
        self.more("memory, speed and numbers are not looked at", "dim")

    # -- 1 -----------------------------------------------------------------------------------------

    def model(self) -> None:
        model = self.report.model
        self.row("1 model", self._class(model.main))
        self._class_details(model.main)
        for variant in model.variants:
            self.more(f"draft: {self._class(variant)}")
            self._class_details(variant)
        names = [layer.name for layer in model.layers]
        if names:
            rest = (
                f" and {len(names) - _LAYERS} more (-v)" if len(names) > _LAYERS and not self.verbose else ""
            )
            self.more(f"builds {', '.join(names if self.verbose else names[:_LAYERS])}{rest}")
        for layer in (*model.classes, *model.layers):
            self.deep(f"{layer.name}  {self.full(layer.place)} ← {layer.built_by} {self.at(layer.built_at)}")

    def _class(self, item: ModelClass) -> str:
        return f"{item.name}  {self.at(item.place)} ({item.lines:,} lines)"

    def _class_details(self, item: ModelClass) -> None:
        self.deep(self.full(item.place))
        if item.bases:
            self.deep(f"derives from {', '.join(item.bases)}")
        if item.named_at:
            self.deep(f"treated by name at {', '.join(self.at(place) for place in item.named_at)}")

    # -- 2 -----------------------------------------------------------------------------------------

    def _label(self, label: str, start: StartOn) -> str:
        return label if self.one else f"{label} {start.target.removeprefix('sm_')}"

    def arguments(self, start: StartOn) -> None:
        moved = [a for a in start.arguments if a.value is None or a.value != a.default]
        known = [a for a in moved if a.value is not None and (self.verbose or self._worth(a))]
        label = self._label("2 arguments", start)
        for argument in known:
            self.row(label, self._argument(argument))
            label = ""
            self._argument_details(argument)
        open_ = [a for a in moved if a.value is None and a.writes and (self.verbose or a.listed)]
        if open_:
            names = ", ".join(f"{a.name}{self._options(a)}" for a in open_)
            self.row(label, f"not settled: {names}")
            label = ""
            for argument in open_:
                self._argument_details(argument)
        if not self.report.followed:
            self.row(
                label,
                "the start of this tree could not be followed: what is not listed is not known; "
                "name what you know with --assume arg.NAME=VALUE",
            )
        elif label:
            self.row(label, "nothing is rewritten")
        rest = len([a for a in moved if a.writes]) - len([a for a in (*known, *open_) if a.writes])
        if rest > 0:
            self.more(f"and {rest} other arguments are, or may be, rewritten (-v)", "dim")
        self._flags(start.flags)
        for refusal in start.refusals:
            self.more(self._refusal(refusal), "bold red" if refusal.surely else "")

    def _worth(self, argument: Argument) -> bool:
        """Whether an argument is on the first screen: one of the profile's, or another than elsewhere."""
        return argument.listed or argument.reference != argument.value

    def _argument(self, argument: Argument) -> str:
        before = _plain(argument.default) if argument.default is not None else "unset"
        text = f"{argument.name} {before} → {_plain(argument.value)}"
        if argument.source == "checkpoint":
            text = f"{argument.name} {_plain(argument.value)} (what the public checkpoint says)"
        elif argument.source == "user":
            text = f"{argument.name} {_plain(argument.value)} (given)"
        elif argument.given is not None:
            text = f"{argument.name} {argument.given} (given) is overwritten: {_plain(argument.value)}"
        last = [w for w in argument.writes if w.value == argument.value] or list(argument.writes)
        if last and argument.source == "start":
            text += f"  {self.at(last[-1].place)}"
        if argument.reference != argument.value:
            other = _plain(argument.reference) if argument.reference is not None else "not settled"
            text += f"  ({self.report.reference}: {other})"
        return text

    def _options(self, argument: Argument) -> str:
        if argument.options and set(argument.options) != {"True", "False"}:
            return f" ({' or '.join(_plain(o) for o in argument.options)})"
        return ""

    def _argument_details(self, argument: Argument) -> None:
        if argument.default_at is not None:
            self.deep(f"default {argument.default}  {self.full(argument.default_at)}")
        for write in argument.writes:
            sure = "" if write.surely else "perhaps "
            self.deep(f"{sure}= {write.value}  {self.full(write.place)}")
        if argument.unknown_because:
            self.deep(f"depends on {', '.join(argument.unknown_because)}")

    def _flags(self, flags: tuple[Flag, ...]) -> None:
        groups: dict[tuple[str, bool, bool], list[Flag]] = {}
        shown = [flag for flag in flags if flag.only_here or self.verbose]
        for flag in shown:
            groups.setdefault((flag.value, flag.surely, flag.overrides), []).append(flag)
        for (value, surely, overrides), members in groups.items():
            head = _SWITCH.get(value.lower(), f"forced to {value}")
            if not overrides:
                head = head.replace("forced", "set")
            if not surely:
                head = f"perhaps {head}"
            tail = "whatever you set" if overrides else "unless you set it"
            names = ", ".join(f"{flag.name} {self.at(flag.place)}" for flag in members)
            self.more(f"{head}, {tail}: {names}", "bold yellow" if overrides and surely else "")
            for flag in members:
                self.deep(
                    f"{flag.name} = {flag.value}  {self.full(flag.place)}"
                    + (f"; default {flag.default} {self.at(flag.default_at)}" if flag.default_at else "")
                )
                self.deep(f"  read at {', '.join(self.at(p) for p in flag.readers) or 'no place'}")

        if len(shown) < len(flags):
            common = len(flags) - len(shown)
            self.more(f"and {common} flags that {self.report.reference} gets too (-v)", "dim")

    def _refusal(self, refusal: Refusal) -> str:
        verb = "refuses" if refusal.surely else "may refuse"
        return f"{verb}: {refusal.what}  {self.at(refusal.place)}"

    # -- 3 and 4 -----------------------------------------------------------------------------------

    def attention(self, start: StartOn) -> None:
        label = self._label("3 attention", start)
        for choice in start.attention:
            self.row(label, self._choice(choice))
            label = ""
            self._choice_details(choice)
        for note in self._merged(choice.gates for choice in start.attention):
            self._note(note)
        self._rest(self._all(choice.gates for choice in start.attention))

    def experts(self, start: StartOn) -> None:
        choice = start.experts
        label = self._label("4 experts", start)
        if choice is None:
            self.row(label, "the model builds no expert layers")
            return
        quantization = _plain(choice.quantization) if choice.quantization else "not settled"
        config = f" → {choice.config.name}" if choice.config is not None else ""
        self.row(label, f"quantization {quantization}{config} · {self._choice(choice)}")
        self._choice_details(choice)
        for note in self._merged([choice.gates]):
            self._note(note)
        self._rest(self._all([choice.gates]))

    def _choice(self, choice: Choice) -> str:
        value = _plain(choice.value) if choice.value is not None else "not settled"
        name = choice.argument
        out = f"{name} {value}"
        ways = usual(choice.outcomes)
        if ways:
            out += " → " + ", ".join(self._outcome(o, when) for o, when in ways)
        elif choice.value is not None and choice.config is None:
            out += " (registered in no place that was found)" if choice.value != "None" else ""
        if choice.reference != choice.value:
            other = _plain(choice.reference) if choice.reference is not None else "not settled"
            out += f"  ({self.report.reference}: {other})"
        return out

    def _outcome(self, outcome: Outcome, when: tuple[str, ...]) -> str:
        words = " and ".join(when)
        if len(words) > 60:
            words = f"{words[:59]}…"
        return f"{outcome.name} {self.at(outcome.place)}".rstrip() + (f" if {words}" if words else "")

    def _choice_details(self, choice: Choice) -> None:
        if choice.entry is not None:
            self.deep(f"entry  {self.full(choice.entry)}")
        if choice.config is not None:
            self.deep(f"{choice.config.name}  {self.full(choice.config.place)}")
        for outcome in choice.outcomes:
            when = f" when {' and '.join(outcome.when)}" if outcome.when else ""
            self.deep(
                f"{outcome.name}{when}  {self.full(outcome.place)}; chosen at {self.at(outcome.chosen_at)}"
            )

    def _all(self, groups: Iterable[tuple[GateNote, ...]]) -> list[GateNote]:
        return list(dict.fromkeys(note for group in groups for note in group))

    def _merged(self, groups: Iterable[tuple[GateNote, ...]]) -> list[GateNote]:
        notes = self._all(groups)
        if self.verbose:
            return notes
        # One of each file first: five gates of one function say less than one each of five parts.
        first: dict[str, GateNote] = {}
        for note in notes:
            first.setdefault(note.place.path, note)
        ahead = list(first.values())
        chosen = [*ahead, *(note for note in notes if note not in ahead)][:_NOTES]
        return [note for note in notes if note in chosen]

    def _rest(self, notes: list[GateNote]) -> None:
        if len(notes) > _NOTES and not self.verbose:
            self.more(f"and {len(notes) - _NOTES} more gates behind it go another way (-v)", "dim")
        elif not notes:
            self.more(f"no gate behind it goes another way than on {self.report.reference}", "dim")

    def _note(self, note: GateNote) -> None:
        if note.message:
            what = note.message
        else:
            does = ", ".join(note.does) if note.does else ("taken" if note.truth == "true" else "not taken")
            what = f"{note.test}: {does}"
        self.page.paragraph(
            f"{note.verdict}  {self.at(note.place)}  {what}",
            indent=_INDENT + 4,
            head=" " * (_INDENT + 2),
            style=STYLES.get(note.verdict, "") if not self.verbose else "",
            most=None if self.verbose else 2,
        )
        if self.verbose:
            head = " " * (_INDENT + 4)
            lines = [self.full(note.place)]
            lines += [f"test {note.test} is {note.truth}"] if note.test else []
            lines += [*note.does] if note.message else []
            lines += [*note.detail] + ([f"query {note.query}"] if note.query else [])
            lines += [f"fix: {note.fix}"] if note.fix else []
            for line in lines:
                self.page.paragraph(line, indent=_INDENT + 6, head=head, style="dim")

    # -- 5 and 6 -----------------------------------------------------------------------------------

    def packages(self) -> None:
        pins = self.report.packages
        shown = [p for p in pins if p.requirement is not None]
        texts = []
        for pin in shown:
            version = pin.version or _bounds(pin.requirement or "", pin.name)
            texts.append(f"{pin.name} {version}".rstrip())
        short = texts if self.verbose else texts[:_PACKAGES]
        rest = f" · and {len(texts) - len(short)} more (-v)" if len(short) < len(texts) else ""
        self.row("5 packages", (" · ".join(short) or "the tree states no dependencies") + rest)
        free = [p for p in pins if p.requirement is None]
        if free:
            self.more("in no dependency list, though gates ask for it: " + ", ".join(p.name for p in free))
        for pin in pins:
            extra = f" (extra {pin.extra})" if pin.extra else ""
            self.deep(f"{pin.requirement or pin.name}{extra}  {self.full(pin.place)}")
            if pin.gates:
                shown_gates = pin.gates if self.verbose > 1 else pin.gates[:_GATES]
                rest = (
                    f", … {len(pin.gates) - len(shown_gates)} more"
                    if len(shown_gates) < len(pin.gates)
                    else ""
                )
                listed = ", ".join(self.at(place) for place in shown_gates)
                asks = "gates ask" if len(pin.gates) > 1 else "gate asks"
                self.deep(f"  {len(pin.gates)} {asks} for it: {listed}{rest}")

    def disaggregation(self) -> None:
        part = self.report.disaggregation
        text = f"{part.transfer.name} {_plain(part.transfer.value)} {self.at(part.transfer.place)}"
        checked = sorted({name for check in part.checks for name in check.backends})
        if checked:
            where = ", ".join(self.at(check.place) for check in part.checks)
            text += f" · network devices are validated for {', '.join(checked)} only ({where})"
        self.row("6 PD", text)
        for flag in part.flags:
            self.more(f"{flag.name} {_plain(flag.value)} {self.at(flag.place)}")
        if part.by_hand:
            names = ", ".join(f"{h.backend} ({h.install})" for h in part.by_hand)
            self.more(f"in no dependency list, to be installed by hand: {names}")
            for hand in part.by_hand:
                for place in hand.imported_at:
                    self.deep(f"{hand.package} imported at {self.full(place)}")
        if part.advice:
            self.more(f"without InfiniBand: {part.advice}")

    def footer(self, command: str) -> None:
        report = self.report
        where = f" {command}" if command else ""
        self.page.blank()
        target = ",".join(report.targets)
        steps = []
        if not self.verbose:
            steps.append(f"audit path --model {report.model.main.name} --target {target}{where} -v")
        steps.append(f"audit {report.project} --target {target}{where}")
        for number, step in enumerate(steps):
            self.page.add("next: " if number == 0 else "      ", clean(step))


def usual(outcomes: tuple[Outcome, ...]) -> list[tuple[Outcome, tuple[str, ...]]]:
    """The outcomes for a usual layer, each with the conditions that tell them apart.

    An outcome that one call decides and that every other one excludes is an exception (a layer that is left
    out of the quantization): it is not shown, and the others need not say that they are not it.
    """
    odd = []
    for outcome in outcomes:
        last = outcome.when[-1] if outcome.when else ""
        others = [o for o in outcomes if o is not outcome]
        if "(" in last and not last.startswith("not ") and others:
            if all(opposite(last) in other.when for other in others):
                odd.append(outcome)
    dropped = {opposite(outcome.when[-1]) for outcome in odd}
    return [(o, tuple(word for word in o.when if word not in dropped)) for o in outcomes if o not in odd]


def _plain(value: str | None) -> str:
    """A value without the quotes of a text; "unset" for None."""
    if value is None:
        return "?"
    if value == "None":
        return "unset"
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    return value


def _bounds(requirement: str, name: str) -> str:
    """What a requirement allows: ``>=1.2`` of ``name>=1.2``."""
    text = requirement.partition(";")[0].strip()
    for at, char in enumerate(text):
        if char in "<>=!~":
            return text[at:].strip()
    return ""


def counted(number: int, word: str) -> str:
    """``1 gate``, ``2 gates``."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"
