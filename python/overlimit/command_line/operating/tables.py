"""How commands for operators print tables and times."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from overlimit._messages.texts import printable, seconds_text

_WIDE = 10_000  # what is not a terminal gets lines as long as they come


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[object]], *, texts: int = 1) -> None:
    """Print a table; the first ``texts`` columns are aligned to the left, the others to the right."""
    table = Table(box=None, pad_edge=False)
    for number, name in enumerate(columns):
        table.add_column(name, overflow="fold", justify="left" if number < texts else "right")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console = Console(width=None if sys.stdout.isatty() else _WIDE)
    with console.capture() as printed:
        console.print(table)
    click.echo("\n".join(line.rstrip() for line in printed.get().splitlines()))


def span(microseconds: float) -> str:
    """Return a length of time as people read it: in seconds below a minute, else in at most two units."""
    seconds = microseconds / 1e6
    if seconds < 60 or math.isinf(seconds):
        return seconds_text(round(seconds, 3))
    rest, told = int(seconds), list[str]()
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        whole, rest = divmod(rest, size)
        told += [f"{whole:,} {unit}"] if whole or told else []
    return " ".join(each for each in told[:2] if not each.startswith("0 "))


def counted(number: int, noun: str) -> str:
    """Return how many there are of something, whose plural ends in s."""
    return f"{number:,} {noun if number == 1 else plural_of(noun)}"


def plural_of(noun: str) -> str:
    """Return the plural of a noun."""
    return f"{noun}es" if noun.endswith("s") else f"{noun}s"


def be(number: int, one: str = "was", several: str = "were") -> str:
    """Return the verb that goes with a number."""
    return one if number == 1 else several


def amount(charged: float | None) -> str:
    """Return what was charged, or a dash where that is not known."""
    return "-" if charged is None else f"{round(charged, 3):,.6g}"
