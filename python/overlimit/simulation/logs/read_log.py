"""Events from logs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from overlimit._messages.caller import warn_caller
from overlimit._messages.texts import short_repr
from overlimit.http.identifying.addresses import checked_ipv6_prefix
from overlimit.simulation.events.events import Events, Missing
from overlimit.simulation.events.identifiers import checked_missing, checked_name
from overlimit.simulation.events.instants import checked_unit, coarser_unit, span_of
from overlimit.simulation.logs.access_log import AccessLog
from overlimit.simulation.logs.chunks import ChunkReader, Paths, files_of
from overlimit.simulation.logs.formats import CsvTables, Format, JsonLines, Parquet, PatternFormat, Wanted
from overlimit.simulation.logs.gathering import Gatherer, Options, Where
from overlimit.simulation.progress import progress_bar

FormatLike: TypeAlias = Literal["combined", "common", "json", "csv", "parquet"] | re.Pattern[str]
_FORMATS = "'combined', 'common', 'json', 'csv', 'parquet' or a compiled regular expression"


def read_log(
    path: Paths,
    format: FormatLike = "combined",
    identifiers: str | Iterable[str] | Mapping[str, str] = ("ip",),
    *,
    time: str | None = None,
    cost: int | str = 1,
    where: Where | None = None,
    unit: Literal["s", "ms", "us", "ns"] | None = None,
    missing: Missing = "raise",
    on_bad: Literal["count", "raise"] = "count",
    ipv6_prefix: int = 64,
    columns: Sequence[str] | None = None,
    delimiter: str = ",",
    progress: bool = False,
) -> Events:
    r"""Read events from logs, piece by piece: only what becomes events is kept in memory.

    Parameters
    ----------
    path
        A file, several, or a pattern such as ``"access.log*"``. Files whose names end in ``.gz``, ``.bz2``,
        ``.xz`` and ``.zst`` are decompressed.
    format
        How they are written: ``"combined"`` and ``"common"`` as nginx and Apache do, ``"json"`` (an object a
        line), ``"csv"``, ``"parquet"``, or a compiled regular expression that is searched in each line and
        whose named groups are the columns.
    identifiers
        The columns that hold whose requests they are; or a dict from the names that identifiers get to the
        columns, as ``{"ip": "remote_addr"}``.
    time
        The column of times; ``"time"`` by default. Times are numbers, ISO 8601 or as access logs have them,
        ``10/Oct/2025:13:55:36 +0200``; without a zone they are UTC.
    cost
        What each event costs, or the column that says so.
    where
        Which rows to read: a function that gets a DataFrame of all columns, the time in UTC, and returns a
        column of bools, or a text for ``DataFrame.eval``, such as ``"status != 404"``.
    unit
        What times that are numbers count, as for `Events`: seconds by default. One with which the log would
        be of the last century, though it would be of this one with another, is a warning.
    missing
        What to do with rows that have none of the identifiers: ``"raise"`` a ValueError, or ``"skip"`` them.
    on_bad
        What to do with lines that cannot be read: ``"count"`` them, and keep the first ten in
        ``events.bad_lines``, or ``"raise"`` a ValueError that names the file and the line.
    ipv6_prefix
        Identifiers that are addresses count as they do in a web application: IPv6 ones by their network of
        this many bits. 128: each as it is written.
    columns
        The names of the columns of a CSV file whose first row does not have them.
    delimiter
        What separates the fields of a CSV file.
    progress
        Whether to show a progress bar.

    Returns
    -------
    Events
        In the order of their times; ``order`` counts the rows that were kept. A compressed file that ends
        early gives what could be read of it, and one bad line.

    Raises
    ------
    ValueError
        A column is not there, a row has no identifier, or an option has no such value; or none of the first
        10,000 lines can be read, or none at all: the message names the likeliest cause.
    FileNotFoundError
        There is no such file.
    ModuleNotFoundError
        ``where`` and Parquet need pandas or pyarrow, ``.zst`` zstandard, ``progress`` tqdm; they come with
        ``pip install 'overlimit[notebook]'``.

    Notes
    -----
    The columns of ``combined`` are ``ip``, ``user``, ``time``, ``method``, ``path`` (with its query),
    ``status``, ``bytes``, ``referer`` and ``agent``; ``common`` lacks the last two. ``-`` is none; as a cost,
    it is 0. What follows the last field is ignored. Blank lines are.

    For ``where``, a column of a CSV file that is neither a time, a cost nor an identifier holds numbers if
    the first rows of it do; other texts are NaN there then.
    """
    parser = _parser(format, columns, delimiter)
    prefix = checked_ipv6_prefix(ipv6_prefix)
    sources, free = _sources(identifiers), parser.free_without_cost
    options = Options(sources, time or "time", cost, where, unit, missing, on_bad, prefix, free)
    _check(options)
    if unit is not None and not parser.has_numeric_times:
        raise ValueError(f"unit= is for times that are numbers: leave it out for format={format!r}")
    gatherer = Gatherer(options)
    files = files_of(path)
    total = sum(file.stat().st_size for file in files) if progress else 0
    with progress_bar(total, shown=progress, unit="B", description="reading") as bar:
        for file in files:
            gatherer.file = str(file)
            chunks = iter(ChunkReader(file, bar, gatherer.add_bad))
            for batch in parser.batches(file, chunks, _wanted(options), bar):
                gatherer.add(batch)
    events = gatherer.events()
    _warn_of_unit(events, unit)
    return events


def _check(options: Options) -> None:
    where, cost = options.where, options.cost
    checked_missing(options.missing)
    checked_unit(options.unit)
    if options.on_bad not in {"count", "raise"}:
        raise ValueError(f"on_bad must be 'count' or 'raise', not {short_repr(options.on_bad)}")
    if where is not None and not isinstance(where, str) and not callable(where):
        raise TypeError(
            f"where must be a function or a text, such as 'status != 404', not {short_repr(where)}"
        )
    if isinstance(cost, bool) or not isinstance(cost, (int, str)):
        raise TypeError(f"cost must be a whole number or the name of a column, not {short_repr(cost)}")
    if isinstance(cost, int) and cost < 0:
        raise ValueError(f"cost must be a whole number from 0, not {cost}")


def _warn_of_unit(events: Events, unit: str | None) -> None:
    """Warn of times that a coarser unit would put into this century, and this one puts far before it."""
    meant = coarser_unit(events.times, checked_unit(unit))
    if meant is not None:
        first, last = span_of(events.times)
        warn_caller(
            f"with unit={unit!r} this log is from {first:%Y-%m-%d} to {last:%Y-%m-%d}: "
            f"did you mean unit={meant!r}?"
        )


def _sources(identifiers: Any) -> dict[str, str]:
    if isinstance(identifiers, str):
        identifiers = (identifiers,)
    sources = dict(identifiers) if isinstance(identifiers, Mapping) else {each: each for each in identifiers}
    if not sources:
        raise ValueError("identifiers names no column: give at least one, as ('ip',)")
    for name in sources:
        checked_name(name)
    return sources


def _parser(format: FormatLike, columns: Sequence[str] | None, delimiter: str) -> Format:
    for name, is_given in (("columns", columns is not None), ("delimiter", delimiter != ",")):
        if is_given and format != "csv":
            raise ValueError(f"{name}= is for CSV files: leave it out for other formats")
    if isinstance(format, re.Pattern):
        return PatternFormat(format)
    makers: dict[str, Callable[[], Format]] = {
        "combined": lambda: AccessLog(combined=True),
        "common": lambda: AccessLog(combined=False),
        "json": JsonLines,
        "csv": lambda: CsvTables(columns, delimiter),
        "parquet": Parquet,
    }
    if not isinstance(format, str) or format not in makers:
        raise ValueError(f"format must be {_FORMATS}, not {short_repr(format)}")
    return makers[format]()


def _wanted(options: Options) -> Wanted:
    needed = {options.time} | ({options.cost} if isinstance(options.cost, str) else set())
    optional = frozenset(options.sources.values()) - needed
    return Wanted(
        frozenset(needed) | optional, optional, options.where is not None, options.missing == "raise"
    )
