"""How commands for operators print tables and times."""

from __future__ import annotations

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
    """Return a length of time as people read it."""
    return seconds_text(round(microseconds / 1e6, 3))


def amount(charged: float | None) -> str:
    """Return what was charged, or a dash where that is not known."""
    return "-" if charged is None else f"{charged:,.6g}"
