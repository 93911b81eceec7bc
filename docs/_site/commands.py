"""The page on the command line shows the options of commands, as their help has them."""

from __future__ import annotations

import re

from sphinx.application import Sphinx

from overlimit.command_line.program import program

PAGE = "reference/command_line"
BAR = r"\|"
OPTION = re.compile(r"--[a-z][a-z-]*")
PLACE = re.compile(r"<!-- options: (\w+) -->")


def setup(app: Sphinx) -> dict[str, bool]:
    """Have Sphinx call what is here."""
    app.connect("source-read", show_options)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def show_options(_: Sphinx, page: str, text: list[str]) -> None:
    """Put a table of the options of a command in the place that the page has for them."""
    if page == PAGE:
        text[0] = PLACE.sub(lambda place: table_of(place[1]), text[0])


def table_of(name: str) -> str:
    """Return a table of the options of a command, without those of all commands that read a log."""
    of_logs = [] if name == "read" else rows_of("read")
    own = [row for row in rows_of(name) if row not in of_logs]
    return "\n".join(["| option | what it does |", "| --- | --- |", *own])


def rows_of(name: str) -> list[str]:
    """Return a row for each option of a command, as its help has it."""
    command = program.commands[name]
    context = command.make_context(name, [], resilient_parsing=True)
    records = [each.get_help_record(context) for each in command.params]
    return [row_of(*record) for record in records if record and record[0].startswith("-")]


def row_of(option: str, said: str) -> str:
    """Return a row of a table, in which many choices stand beside the option and not behind its name."""
    name, _, choices = option.partition(" [")
    if len(choices) > 30:
        option, said = name, f"{said} One of {choices.strip(']').replace('|', ', ')}."
    said = OPTION.sub(r"`\g<0>`", said)
    return f"| `{option.replace('|', BAR)}` | {said.replace('|', BAR)} |"
