"""What commands print: tables for people, and JSON for programs."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Sequence

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from overlimit._messages.texts import printable

_WIDE = 10_000  # what is not a terminal gets lines as long as they come


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[object]], *, texts: int = 1) -> None:
    """Print a table; the first ``texts`` columns are aligned to the left, the others to the right."""
    table = Table(box=None, pad_edge=False)
    for number, name in enumerate(columns):
        table.add_column(Text(name), overflow="fold", justify="left" if number < texts else "right")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console = Console(width=None if sys.stdout.isatty() else _WIDE)
    with console.capture() as printed:  # as rich would exit with 1 at a closed pipe
        console.print(table)
    click.echo("\n".join(line.rstrip() for line in printed.get().splitlines()))


def print_json(found: object) -> None:
    """Print JSON; what is infinite, as in never, and what there is none of, is null."""
    click.echo(json.dumps(_without_infinity(found), indent=2))


def print_json_line(found: object) -> None:
    """Print JSON in one line, at once, for who reads while it goes on."""
    click.echo(json.dumps(_without_infinity(found)))
    sys.stdout.flush()


def _without_infinity(found: object) -> object:
    if isinstance(found, dict):
        return {name: _without_infinity(each) for name, each in found.items()}
    if isinstance(found, (list, tuple)):
        return [_without_infinity(each) for each in found]
    return None if isinstance(found, float) and not math.isfinite(found) else found
