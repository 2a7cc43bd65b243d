"""How the help of a verb looks: the question it answers, how to call it, one example, options by section."""

from __future__ import annotations

import inspect
from typing import Any

import click

_WIDTH = 110


class Option(click.Option):
    """A click option that knows under which heading of the help it belongs."""

    def __init__(self, *args: Any, section: str = "options", **attrs: Any) -> None:
        super().__init__(*args, **attrs)
        self.section = section


def prose(text: str, formatter: click.HelpFormatter) -> None:
    """The paragraphs of a help text, as wide as the terminal is, and a blank line."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        formatter.write_text(" ".join(paragraph.split()))
        formatter.write("\n")


def _narrow(param: click.Parameter, record: tuple[str, str]) -> tuple[str, str]:
    """The line of an option. The words that it takes stand in its text: beside its name they would push the
    texts of all options of the section to the right.
    """
    names, text = record
    if not isinstance(param.type, click.Choice) or param.metavar is not None:
        return names, text
    said, gap, rest = text.partition("  [")
    words = ", ".join(str(choice) for choice in param.type.choices)
    said = f"{said.rstrip('.?')}: {words}" if said and words not in said else said or words
    return names.replace(f"[{words.replace(', ', '|')}]", "WORD"), f"{said}{gap}{rest}"


class VerbCommand(click.Command):
    """A verb. The docstring is the question, ``example`` one line (or more) a person can type."""

    def __init__(self, *args: Any, example: str | tuple[str, ...] = (), **attrs: Any) -> None:
        attrs.setdefault(
            "context_settings", {"help_option_names": ["-h", "--help"], "max_content_width": _WIDTH}
        )
        super().__init__(*args, **attrs)
        self.examples = (example,) if isinstance(example, str) else tuple(example)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Question, usage, example, options."""
        prose(self.help or "", formatter)
        words = [piece for piece in self.collect_usage_pieces(ctx) if piece != self.options_metavar]
        words += ["[OPTIONS]"] if any(isinstance(param, click.Option) for param in self.params) else []
        formatter.write(f"usage: {' '.join([ctx.command_path, *words])}\n")
        if self.examples:
            formatter.write("\nexample:\n" if len(self.examples) == 1 else "\nexamples:\n")
            for line in self.examples:
                formatter.write(f"  {line}\n")
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record and not isinstance(param, click.Argument):
                heading = getattr(param, "section", "options")
                sections.setdefault(heading, []).append(_narrow(param, record))
        if "output" in sections and len(sections.get("options", ())) == 1:
            sections["output"] += sections.pop("options")  # --help alone is worth no heading
        for heading, rows in sorted(sections.items(), key=lambda item: item[0] == "options"):
            formatter.write(f"\n{heading}:\n")
            formatter.indent()
            formatter.write_dl(rows, col_max=30)
            formatter.dedent()


class SubGroup(click.Group):
    """A verb with verbs of its own (``audit query …``); unknown words get the nearest known one."""

    def __init__(self, *args: Any, example: str | tuple[str, ...] = (), **attrs: Any) -> None:
        attrs.setdefault(
            "context_settings", {"help_option_names": ["-h", "--help"], "max_content_width": _WIDTH}
        )
        attrs.setdefault("no_args_is_help", True)
        super().__init__(*args, **attrs)
        self.examples = (example,) if isinstance(example, str) else tuple(example)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Question, usage, example, verbs."""
        formatter.write(f"{(self.help or '').strip()}\n\nusage: {ctx.command_path} VERB [ARGUMENTS]\n")
        if self.examples:
            formatter.write("\nexample:\n" if len(self.examples) == 1 else "\nexamples:\n")
            for line in self.examples:
                formatter.write(f"  {line}\n")
        rows = [(name, command.get_short_help_str(80)) for name, command in self.commands.items()]
        formatter.write("\nverbs:\n")
        formatter.indent()
        formatter.write_dl(rows, col_max=30)
        formatter.dedent()

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, but an unknown word is answered with the nearest known one."""
        from auditor.cli.groups import unknown_verb

        known = ctx.resilient_parsing or args[0].startswith("-") or args[0] in self.commands
        if not known:
            raise unknown_verb(ctx, args[0], list(self.commands))
        return super().resolve_command(ctx, args)
