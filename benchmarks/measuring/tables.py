"""Tables of what was measured: for a terminal, and for a page in Markdown."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from measuring.figures import file_names
from measuring.report import Report
from measuring.turns import Record


@dataclass(frozen=True)
class Table:
    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


def number(value: float) -> str:
    """Write a number with three digits, or all before the point."""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 0.1 else 3
    return f"{value:,.{digits}f}"


def tables_of(records: Iterable[Record]) -> Iterator[Table]:
    """Yield a table for each contest."""
    for title, group in itertools.groupby(records, lambda record: record.title):
        rows = list(group)
        yield curve(title, rows) if rows[0].axis else ranking(title, rows)


def ranking(title: str, records: Sequence[Record]) -> Table:
    """Return a row for each contestant."""
    percentiles = any(record.p50 is not None for record in records)
    unit = records[0].unit
    header = ["", unit, "quartiles", "times the first", *(["p50 us", "p99 us"] if percentiles else [])]
    return Table(title, header, [row_of(record, percentiles) for record in records])


def row_of(record: Record, percentiles: bool) -> list[str]:
    lower, upper = record.quartiles
    cells = [record.name, number(record.median), f"{number(lower)} to {number(upper)}", number(record.ratio)]
    if percentiles:
        cells += ["" if each is None else number(each) for each in (record.p50, record.p99)]
    return cells


def curve(title: str, records: Sequence[Record]) -> Table:
    """Return a row for each x and a column for each contestant, with its ratio to the first one there."""
    names = list(dict.fromkeys(record.name for record in records))
    places = sorted({record.x for record in records if record.x is not None})
    found = {(record.x, record.name): record for record in records}
    rows = [[f"{x:,}", *(point(found.get((x, name))) for name in names)] for x in places]
    return Table(title, [records[0].axis, *(f"{name}, {records[0].unit}" for name in names)], rows)


def point(record: Record | None) -> str:
    if record is None:
        return ""
    return number(record.median) + (f" (x{number(record.ratio)})" if record.ratio != 1 else "")


def show(tables: Iterable[Table]) -> None:
    """Print tables to a terminal."""
    console = Console()
    for table in tables:
        shown = RichTable(title=escape(table.title), title_justify="left")
        for place, name in enumerate(table.header):
            shown.add_column(escape(name), justify="right" if place else "left")
        for row in table.rows:
            shown.add_row(*map(escape, row))
        console.print(shown)


def markdown(table: Table) -> str:
    lines = [table.header, ["---"] + ["---:"] * (len(table.header) - 1), *table.rows]
    rows = [f"| {' | '.join(line)} |".replace("  ", " ") for line in lines]
    return "\n".join([f"**{table.title}**", "", *rows])


def markdown_of_part(report: Report, part: str, figures: str = "") -> str:
    """Return the figures, below that folder, the tables and the remarks of a part."""
    records = report.of(part)
    images = [f"![{title}]({figures}/{name})" for name, title in file_names(part, records).items() if figures]
    tables = [markdown(table) for table in tables_of(records)]
    return "\n\n".join([*images, *tables, *(f"{remark}." for remark in report.remarks.get(part, ()))])
