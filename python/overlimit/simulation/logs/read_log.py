"""Events from logs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from overlimit._addresses import Addresses, checked_ipv6_prefix
from overlimit._messages.caller import warn_caller
from overlimit._messages.texts import short_repr
from overlimit.limits.calendars import zone_named
from overlimit.simulation.events.events import Events
from overlimit.simulation.events.identifiers import checked_name
from overlimit.simulation.events.instants import checked_unit, coarser_unit, span_of
from overlimit.simulation.events.saving import SavedColumns
from overlimit.simulation.logs.choosing import FormatLike, check_saved, parsers_of, saved_columns_of
from overlimit.simulation.logs.chunks import ChunkReader, Paths, files_of
from overlimit.simulation.logs.conditions import Labels, UnknownName, Values, Where
from overlimit.simulation.logs.distinct import AS_WRITTEN
from overlimit.simulation.logs.formats import Format, Wanted
from overlimit.simulation.logs.gathering import Gatherer, Options
from overlimit.simulation.logs.log_times import reading_of
from overlimit.simulation.optional import is_installed
from overlimit.simulation.progress import progress_bar

_PRIVATE = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "fc00::/7", "::1")
_ABOUT_A_PIECE = 16 << 20


def read_log(
    path: Paths,
    format: FormatLike | None = None,
    identifiers: str | Iterable[str] | Values | Mapping[str, str | Values] | None = None,
    *,
    time: str | Sequence[str] | None = None,
    cost: int | str | Values | None = None,
    where: Where | None = None,
    labels: Labels | None = None,
    endpoint: str | None = None,
    method: str | None = None,
    unit: Literal["s", "ms", "us", "ns"] | None = None,
    time_format: str | None = None,
    timezone: str = "UTC",
    missing: Literal["bad", "skip", "raise"] = "bad",
    on_bad: Literal["count", "raise"] = "count",
    ipv6_prefix: int = 64,
    trusted_proxies: int | Sequence[str] = _PRIVATE,
    columns: Sequence[str] | None = None,
    delimiter: str = ",",
    progress: bool = False,
) -> Events:
    r"""Read events from logs, piece by piece: only what becomes events is kept in memory.

    Parameters
    ----------
    path
        A file, several, or a pattern such as ``"access.log*"``. What gzip, bzip2, xz and zstd compressed is
        decompressed.
    format
        How they are written: ``"combined"``, ``"common"``, ``"vhost_combined"``, ``"haproxy"``, ``"alb"``,
        ``"nginx_error"``, ``"apache_error"``, ``"w3c"`` (CloudFront, IIS), ``"json"`` (an object a line),
        ``"csv"``, ``"parquet"``, or a compiled regular expression that is searched in each line and whose
        named groups are the columns. By default, names that end in ``.jsonl`` or ``.ndjson``, ``.csv``
        and ``.parquet`` say so, which an ending such as ``.gz`` may follow. A file of `Events.save`, and one
        that begins as those of ``"w3c"`` do, is told by its contents, and others are ``"combined"``.
    identifiers
        The columns that hold whose requests they are; or a dict from the names that identifiers get to the
        columns, as ``{"ip": "request.remote_ip"}``. In place of a column, a function that gets a DataFrame
        like that of ``where``, of each piece of the log, and returns one, such as
        ``lambda frame: frame["path"].str.extract("^/([^/?]*)", expand=False)``. By default ``"ip"``, or all
        that `Events.save` wrote.
    time
        The column of times; ``"time"`` by default. Two, such as ``("date", "time")``, are joined by a space;
        for ``where`` they are the column ``time`` then. Times are numbers or in one of the forms that
        docs/reference/log_formats.md lists, such as ISO 8601; without an offset they are of ``timezone``.
    cost
        What each event costs, or the column that says so, or a function that returns it, as for
        ``identifiers``; by default 1, or what `Events.save` wrote.
    where
        Which rows to read: a function that gets a DataFrame of all columns, the time in UTC, and returns a
        column of bools, or a text for ``DataFrame.eval``, such as ``"status != 404"``.
    labels
        What each event is, for results by label: a column, or a function that gets a DataFrame like that of
        ``where`` of the rows that are read, and returns a column of labels. By default what `Events.save`
        wrote; `Events.with_labels` labels by identifiers.
    endpoint, method
        The columns that hold where each request went and by which HTTP method, as ``"path"`` and ``"method"``
        of access logs, for limits of routes. By default what `Events.save` wrote, or none.
    unit
        What times that are numbers count, as for `Events`: seconds by default. One with which the log would
        be of the last century, though it would be of this one with another, is a warning.
    time_format
        How times are written if in another form, in the words of ``datetime.strptime``, such as
        ``"%m/%d/%Y %I:%M %p"``. No other form is read then, and names of months and days are English.
    timezone
        The zone of times without an offset, such as ``"Europe/Berlin"``. One that its clocks showed twice is
        the earlier, and a line with one that they never showed is bad.
    missing
        What to do with lines that have none of the identifiers: by default they are ``"bad"`` lines;
        ``"skip"`` leaves them out and counts them, ``"raise"`` raises a ValueError.
    on_bad
        What to do with lines that cannot be read: ``"count"`` them, and keep the first ten in
        ``events.bad_lines``, or ``"raise"`` a ValueError that names the file and the line.
    ipv6_prefix
        Identifiers that are addresses, of whatever column, count as they do in a web application: IPv6 ones
        by their network of this many bits. 128: each as it is written.
    trusted_proxies
        Which address counts of an identifier that is a list of them, as ``X-Forwarded-For`` is: the last but
        for those of the proxies, whose addresses and networks these are, by default private ones; or a
        number: the one that is that many from the end, as in a web application.
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
        A column is not there, or an option has no such value or cannot apply to a file of `Events.save`
        (``format``, ``unit``, ``time_format``, ``ipv6_prefix``, ``columns`` and ``delimiter`` cannot); or
        none of the first 10,000 lines that are not blank can be read, or none at all: the message names the
        likeliest cause.
    FileNotFoundError
        There is no such file.
    ModuleNotFoundError
        ``where`` and Parquet need pandas or pyarrow, ``progress`` needs tqdm, and ``.zst`` before Python 3.14
        backports.zstd; they come with ``pip install 'overlimit[notebook]'``.

    Notes
    -----
    The columns of ``combined`` are ``ip``, ``user``, ``time``, ``method``, ``path`` (with its query),
    ``status``, ``bytes``, ``referer`` and ``agent``. The other formats of lines have those of them that they
    write, and ``w3c`` all of its fields, too. ``-`` is none; as a cost, it is 0. What follows the last field
    is ignored. Blank lines are. In JSON and Parquet, ``"request.remote_ip"`` is what is in the object or
    struct ``request``.

    For ``where``, a column of a CSV file that is neither a time, a cost nor an identifier holds numbers if
    the first rows of it do; other texts are NaN there then.
    """
    files = files_of(path)
    saved = saved_columns_of(files)
    prefix = checked_ipv6_prefix(ipv6_prefix)
    if saved is not None:
        check_saved(format, unit, time_format, prefix)
    parsers = parsers_of(files, format, unit, columns, delimiter)
    checked_unit(unit)
    functions: dict[str, tuple[str, Values]] = {}
    options = Options(
        _without_functions(_sources(identifiers, saved), functions),
        _times(time, parsers),
        _cost_column(cost, functions) if cost is not None else 1 if saved is None else "cost",
        where,
        _facts({"label": labels, "endpoint": endpoint, "method": method}, saved),
        reading_of(unit, time_format),
        zone_named(timezone),
        missing,
        on_bad,
        prefix if saved is None else AS_WRITTEN,  # what was saved counts as it is written
        Addresses(trusted_proxies),
        functions,
    )
    _check(options)
    try:
        return _read(files, parsers, options, progress)
    except UnknownName as error:
        hint = "" if saved is None else "; Events.save keeps no others, so read the log itself with where="
        raise ValueError(f"{error}{hint}") from None


def _read(files: Sequence[Path], parsers: Sequence[Format], options: Options, progress: bool) -> Events:
    # glibc keeps what is freed once it has seen a size like this. Else each piece of a file would be in new
    # pages, which take the system as long as all other work on it. No page of this one is touched.
    np.empty(_ABOUT_A_PIECE, np.uint8)
    # pyarrow imports pandas where it can, and loses the Ctrl-C that comes meanwhile.
    is_installed("pandas")
    gatherer, wanted = Gatherer(options), _wanted(options)
    total = sum(file.stat().st_size for file in files) if progress else 0
    with progress_bar(total, shown=progress, unit="B", description="reading") as bar:
        for file, parser in zip(files, parsers, strict=True):
            gatherer.begin(str(file), parser)
            for batch in parser.batches(ChunkReader(file, bar, gatherer.add_bad), wanted):
                gatherer.add(batch)
    events = gatherer.events()
    _warn_of_unit(events, options.reading.unit)
    if gatherer.only_days and (events._times[1:] == events._times[:-1]).any():
        warn_caller(
            f"the column {options.time[0]!r} holds days without times, so all events of a day are at its "
            "midnight: time=('date', 'time') joins two columns"
        )
    return events


def _check(options: Options) -> None:
    where, cost = options.where, options.cost
    if options.missing not in {"bad", "skip", "raise"}:
        raise ValueError(f"missing must be 'bad', 'skip' or 'raise', not {short_repr(options.missing)}")
    if options.on_bad not in {"count", "raise"}:
        raise ValueError(f"on_bad must be 'count' or 'raise', not {short_repr(options.on_bad)}")
    if where is not None and not isinstance(where, str) and not callable(where):
        raise TypeError(
            f"where must be a function or a text, such as 'status != 404', not {short_repr(where)}"
        )
    if isinstance(cost, bool) or not isinstance(cost, (int, str)):
        raise TypeError(
            f"cost must be a whole number, the name of a column or a function, not {short_repr(cost)}"
        )
    if isinstance(cost, int) and cost < 0:
        raise ValueError(f"cost must be a whole number from 0, not {cost}")


def _warn_of_unit(events: Events, unit: str | None) -> None:
    """Warn of times that a coarser unit would put into this century, and this one puts far before it."""
    meant = coarser_unit(events._times, checked_unit(unit))
    if meant is not None:
        first, last = span_of(events._times)
        warn_caller(
            f"with unit={unit!r} this log is from {first:%Y-%m-%d} to {last:%Y-%m-%d}: "
            f"did you mean unit={meant!r}?"
        )


def _times(time: str | Sequence[str] | None, parsers: Sequence[Format]) -> tuple[str, ...]:
    """Return the columns of times; one, if a format joins two of them by itself."""
    if not isinstance(time, Iterable | None):
        raise TypeError(f"time must be the name of a column, or of two to be joined, not {short_repr(time)}")
    names = (time,) if isinstance(time, str) else tuple(time or ("time",))
    joined = names == ("date", "time") and all(parser.joins_date for parser in parsers)
    return ("time",) if joined else names


def _without_functions(sources: Mapping[str | None, Any], functions: dict[str, Any]) -> dict[str | None, str]:
    """Return the columns of identifiers, those that functions return by names of their own."""
    columns: dict[str | None, str] = {}
    for name, source in sources.items():
        columns[name] = f"{name or 'identifiers'}()" if callable(source) else source
        if callable(source):
            functions[columns[name]] = "identifiers", source
    return columns


def _cost_column(cost: Any, functions: dict[str, Any]) -> Any:
    if not callable(cost):
        return cost
    functions["cost()"] = "cost", cost
    return "cost()"


def _sources(identifiers: Any, saved: SavedColumns | None) -> dict[str | None, Any]:
    if callable(identifiers):
        return {None: identifiers}
    if identifiers is None and saved is not None:
        return dict(saved.identifiers)
    if identifiers is None or isinstance(identifiers, str):
        identifiers = (identifiers or "ip",)
    if not isinstance(identifiers, Iterable):
        raise TypeError(
            "identifiers must be names of columns, as ('ip', 'user'), a dict of them or a function, not "
            f"{short_repr(identifiers)}"
        )
    sources = dict(identifiers) if isinstance(identifiers, Mapping) else {each: each for each in identifiers}
    if not sources:
        raise ValueError("identifiers names no column: give at least one, as ('ip',)")
    for name in sources:
        checked_name(name)
    return sources


def _facts(given: Mapping[str, Any], saved: SavedColumns | None) -> dict[str, str | Values]:
    """Return the columns of labels, of where requests went, and by which methods; by default as saved."""
    for name, source in given.items():
        if not isinstance(source, str | None) and not (name == "label" and callable(source)):
            rule = "labels must be a function or" if name == "label" else f"{name} must be"
            raise TypeError(f"{rule} the name of a column, not {short_repr(source)}")
    defaults = {} if saved is None else saved.facts
    sources = {name: defaults.get(name) if source is None else source for name, source in given.items()}
    return {name: source for name, source in sources.items() if source is not None}


def _wanted(options: Options) -> Wanted:
    computed = set(options.functions)
    needed = set(options.time) | ({options.cost} if isinstance(options.cost, str) else set()) - computed
    facts = frozenset(each for each in options.facts.values() if isinstance(each, str))
    identifiers = frozenset(options.sources.values()) - needed - computed
    asks_for_all = bool(computed) or options.where is not None or callable(options.facts.get("label"))
    names = identifiers | facts | needed
    return Wanted(names, identifiers, facts - identifiers, asks_for_all, options.missing != "skip")
