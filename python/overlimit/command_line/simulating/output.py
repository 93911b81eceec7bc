"""What these commands print: tables, and how far they have come."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from overlimit._messages.texts import percent, printable
from overlimit.command_line.output import print_rows

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Form: TypeAlias = Literal["text", "json", "csv"]


def chosen_format(as_json: bool, as_csv: bool) -> Form:
    """Return how to print; raise a UsageError if two ways were asked for."""
    if as_json and as_csv:
        raise click.UsageError("--json and --csv exclude each other")
    return "json" if as_json else "csv" if as_csv else "text"


def print_table(frame: pd.DataFrame, shown: Mapping[str, Callable[[Any], str]]) -> None:
    """Print a table with the index first; each column as its function shows it, or as it is."""
    texts = [shown.get(name, _plain) for name in frame.columns]
    rows = (
        (index, *(text(cell) for text, cell in zip(texts, cells, strict=True)))
        for index, *cells in frame.itertuples()
    )
    print_rows([str(frame.index.name), *(str(name).replace("_", " ") for name in frame.columns)], rows)


def share(part: float) -> str:
    """Return a share as a percentage; a dash where there is none."""
    return "-" if math.isnan(part) else percent(part)


def print_csv(frame: pd.DataFrame) -> None:
    """Print a table as CSV, times in ISO 8601; on a terminal, without characters that would control it."""
    shown = printable if sys.stdout.isatty() else as_text
    click.echo(_with_texts(frame, shown).to_csv(lineterminator="\n"), nl=False, color=True)


def records(frame: pd.DataFrame) -> list[dict[Hashable, Any]]:
    """Return the rows of a table as dicts."""
    rows: list[dict[Hashable, Any]] = _with_texts(frame, as_text).reset_index().to_dict("records")
    return rows


def _with_texts(frame: pd.DataFrame, shown: Callable[[Any], object]) -> pd.DataFrame:
    """Return the table with an index of texts and numbers alone, and times in ISO 8601."""
    for name in frame.columns[[hasattr(kind, "tz") for kind in frame.dtypes]]:
        written = frame[name].map(lambda at: at.isoformat(), na_action="ignore").astype(object)
        frame = frame.assign(**{str(name): written.where(frame[name].notna(), None)})
    if hasattr(frame.index, "tz"):
        return frame.set_axis(frame.index.map(lambda time: time.isoformat()), axis=0)
    texts = [shown(each) if isinstance(each, (str, bytes)) else each for each in frame.index]
    named = frame.set_axis(texts)
    named.index.name = frame.index.name
    return named


def as_text(name: str | bytes) -> str:
    """Return an identifier or a label as UTF-8 can write it."""
    text = name if isinstance(name, bytes) else name.encode("utf-8", "backslashreplace")
    return text.decode("utf-8", "backslashreplace")


def _plain(cell: object) -> str:
    return f"{cell:,}" if isinstance(cell, int) else printable(cell)


@contextmanager
def figure_at(path: str) -> Iterator[Axes]:
    """Yield axes to draw into, and write them as a PNG."""
    from overlimit.simulation.optional import required

    figure = required("matplotlib.figure", "--png").Figure(figsize=(8, 4), dpi=100, layout="constrained")
    yield figure.subplots()
    figure.savefig(path, format="png")


@contextmanager
def bars() -> Iterator[bool]:
    """Have simulations show their progress in bars of rich; yield whether there is a terminal to show it."""
    from overlimit.simulation.progress import shown_by

    with shown_by(_bar):
        yield sys.stderr.isatty()


@contextmanager
def _bar(total: int, unit: str, description: str) -> Iterator[Callable[[int], object]]:
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(description or unit, total=total)
        yield lambda count: shown.advance(task, count)
