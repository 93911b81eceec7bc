"""The log that a command reads, and the options that say how."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import click

from overlimit._messages.texts import printable
from overlimit.command_line.failures import NothingFound, as_written, reported
from overlimit.command_line.simulating.output import bars
from overlimit.limits.calendars import zone_named

if TYPE_CHECKING:
    from overlimit.simulation import BadLines, Events

P = ParamSpec("P")
R = TypeVar("R")

_FORMATS = (
    *("combined", "common", "vhost_combined", "haproxy", "alb", "nginx_error", "apache_error"),
    *("w3c", "json", "csv", "parquet"),
)
_OF_NOBODY = "it has no "
"""How the reason begins of lines that can be read and have none of the columns of --by."""
_LONGEST_LINE = 200
_STANDARD_INPUT = "/dev/stdin"


def _pattern(context: click.Context, option: click.Parameter, text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        raise click.BadParameter(f"this is no regular expression: {error}") from None


def _cost(context: click.Context, option: click.Parameter, text: str | None) -> int | str | None:
    if text is None or text.isdecimal():
        return None if text is None else int(text)
    if re.fullmatch(r"[+-]?[0-9.]+", text):
        raise click.BadParameter(f"a cost is a whole number from 0, or a column, not {text}")
    return text


def _identifiers(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    columns: dict[str, str] = {}
    for name, column in map(_named, texts):
        if columns.setdefault(name, column) != column:
            raise click.BadParameter(
                f"{name} stands for two columns, {columns[name]} and {column}: rename one of them, as in "
                f"other={column}"
            )
    return columns


def _labels(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for text in texts:
        identifier, _, label = text.rpartition("=")
        if not (identifier and label):
            raise click.BadParameter(
                f"a label is written as NAME=LABEL, as ip:198.51.100.20=office, not {text}"
            )
        if labels.setdefault(identifier, label) != label:
            raise click.BadParameter(f"{identifier} has two labels: {labels[identifier]} and {label}")
    return labels


def _proxies(context: click.Context, option: click.Parameter, text: str | None) -> int | list[str] | None:
    if text is None or text.isdecimal():
        return None if text is None else int(text)
    return text.split(",")


def _time(context: click.Context, option: click.Parameter, text: str | None) -> datetime | None:
    try:
        return None if text is None else datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise click.BadParameter(f"a time is written as 2026-03-02T12:00, not {text}") from None


_ARGUMENT = click.argument("log", nargs=-1, required=True)
_OPTION = click.option("--log", multiple=True, required=True, help="The log. May be repeated.")
_OPTIONS = (
    click.option(
        "--by",
        multiple=True,
        metavar="COLUMN",
        callback=_identifiers,
        help="Whose requests they are: a column, or NAME=COLUMN. May be repeated. Default: ip.",
    ),
    click.option(
        "--format",
        type=click.Choice(_FORMATS),
        help="How it is written. Default: as its name or its beginning says, or combined.",
    ),
    click.option(
        "--pattern", metavar="REGEX", callback=_pattern, help="Named groups of a line, instead of --format."
    ),
    click.option("--columns", metavar="A,B,...", help="Columns of a CSV file without a first row of names."),
    click.option("--delimiter", default=",", help="What separates the fields of a CSV file."),
    click.option(
        "--time",
        multiple=True,
        metavar="COLUMN",
        help="The column of times; twice: of days and of times of day. Default: time.",
    ),
    click.option(
        "--time-format", metavar="WORDS", help='How times are written, as "%m/%d/%Y %I:%M %p" of strptime.'
    ),
    click.option("--unit", type=click.Choice(["s", "ms", "us", "ns"]), help="What times in numbers count."),
    click.option(
        "--cost",
        metavar="COLUMN",
        callback=_cost,
        help="What a request costs: a column or a number. Default: 1.",
    ),
    click.option(
        "--labels", metavar="COLUMN", help="The column that says who is who, as answers tell apart."
    ),
    click.option(
        "--label",
        multiple=True,
        metavar="NAME=LABEL",
        callback=_labels,
        help="Who an identifier is, as ip:198.51.100.20=office; goes before --labels. May be repeated.",
    ),
    click.option("--where", metavar="TEXT", help='Which requests to read, such as "status != 404".'),
    click.option(
        "--since",
        metavar="TIME",
        callback=_time,
        help="Only requests from this time on, as 2026-03-02T12:00.",
    ),
    click.option("--until", metavar="TIME", callback=_time, help="Only requests before this time."),
    click.option(
        "--timezone",
        default="UTC",
        show_default=True,
        help="The zone of times without an offset, of --since and --until, and of what is shown.",
    ),
    click.option("--skip-missing", is_flag=True, help="Leave out requests that have none of the columns."),
    click.option("--strict", is_flag=True, help="Stop at the first line that cannot be read."),
    click.option("--ipv6-prefix", type=int, default=64, show_default=True, help="Bits of a network."),
    click.option(
        "--trusted-proxies",
        metavar="N|A,B,...",
        callback=_proxies,
        help="Of lists of addresses, how many at their ends, or which, are proxies. Default: private ones.",
    ),
)


class Log:
    """A log that is read when it is asked for, as the options of the command say."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self.timezone: str = options["timezone"]
        with reported():
            self.zone = zone_named(self.timezone)

    def requests(self, endpoint: str | None, method: str | None) -> tuple[str | None, str | None]:
        """Return the columns of paths and of methods, by default those of access logs, or as saved."""
        with reported():
            from overlimit.simulation.events.saving import saved_columns

            is_saved = any(saved_columns(Path(path)) for path in self._options["log"])
        return (endpoint, method) if is_saved else (endpoint or "path", method or "method")

    def events(self, endpoint: str | None = None, method: str | None = None) -> Events:
        """Read the log, and report what of it cannot be read."""
        given = self._options
        if "" in {*given["log"], given["columns"]}:
            raise click.UsageError("a log and --columns must not be empty")
        if given["pattern"] and given["format"]:
            raise click.UsageError("--pattern and --format exclude each other")
        with reported(), bars() as progress, warnings.catch_warnings(record=True) as noticed:
            from overlimit.simulation import read_log

            warnings.simplefilter("always", UserWarning)
            paths, options = self._arguments()
            events = read_log(paths, progress=progress, endpoint=endpoint, method=method, **options)
            events = events.between(given["since"], given["until"], timezone=self.timezone)
            events = _labelled(events, given["label"])
        for warning in noticed:
            click.echo(f"Warning: {as_written(warning.message)}", err=True)
        _report_bad_lines(events.bad_lines)
        if not len(events):
            raise NothingFound("there is no request to replay: " + _why_none(events))
        return events

    def _arguments(self) -> tuple[list[str], dict[str, Any]]:
        """Return what is read, and how if otherwise than by default."""
        given = self._options
        options = {name: given[name] for name in _AS_THEY_ARE} | {
            "format": given["pattern"] or given["format"],
            "identifiers": given["by"] or None,
            "missing": "skip" if given["skip_missing"] else "bad",
            "on_bad": "raise" if given["strict"] else "count",
            "columns": given["columns"].split(",") if given["columns"] else None,
        }
        paths = [_STANDARD_INPUT if path == "-" else path for path in given["log"]]
        trusted = {name: given[name] for name in ["trusted_proxies"] if given[name] is not None}
        return paths, {
            name: value for name, value in options.items() if value != _DEFAULTS.get(name)
        } | trusted

    def code(self) -> str:
        """Return Python that reads the same events."""
        paths, options = self._arguments()
        given = [repr(paths), *(f"{name}={value!r}" for name, value in options.items())]
        since, until = (
            each and each.isoformat() for each in (self._options["since"], self._options["until"])
        )
        lines = [f"events = read_log({', '.join(given)})"]
        if since or until:
            lines.append(f"events = events.between({since!r}, {until!r}, timezone={self.timezone!r})")
        if labels := self._options["label"]:
            lines.append(f"events = events.with_labels({labels!r})")
        return "\n".join(lines)

    def summary(self, events: Events, found: str = "") -> str:
        """Return how many requests there are, what was found, and from when they are to when."""
        count = f"{len(events):,} request{'s' * (len(events) != 1)}"
        first, last = self._span(events)
        span = f"{first:%Y-%m-%d %H:%M:%S} to {last:%Y-%m-%d %H:%M:%S} {self.timezone}"
        return "\n".join([": ".join(filter(None, [count, found])), span])

    def counts(self, events: Events) -> dict[str, Any]:
        """Return the same as data, and what of the log was not read."""
        first, last = (time.isoformat() for time in self._span(events))
        left_out = {"bad_lines": events.bad_lines.count, "skipped": events.skipped}
        return {"first": first, "last": last, "events": len(events), **left_out}

    def _span(self, events: Events) -> tuple[datetime, datetime]:
        from overlimit.simulation.events.instants import span_of

        return span_of(events.times, self.zone)


def takes_names(option: str, what: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Give a command an option of identifiers and labels."""
    return click.option(option, multiple=True, metavar="NAME", help=f"{what} May be repeated.")


def reads_log(run: Callable[Concatenate[Log, P], R]) -> Callable[P, R]:
    """Give a command LOG and its options, and call it with the log."""
    return _reading(run, _ARGUMENT)


def reads_log_option(run: Callable[Concatenate[Log, P], R]) -> Callable[P, R]:
    """Give a command --log and its options, and call it with the log."""
    return _reading(run, _OPTION)


def _reading(run: Callable[Concatenate[Log, P], R], source: Any) -> Callable[P, R]:
    @wraps(run)
    def with_log(*args: P.args, **options: P.kwargs) -> R:
        return run(Log({name: options.pop(name) for name in _NAMES}), *args, **options)

    command: Callable[P, R] = with_log
    for option in reversed((source, *_OPTIONS)):
        command = option(command)
    return command


_NAMES = (
    *("log", "by", "format", "pattern", "columns", "delimiter", "time", "unit", "cost", "where"),
    *("labels", "label", "since", "until", "timezone", "skip_missing", "strict", "ipv6_prefix"),
    *("time_format", "trusted_proxies"),
)
_AS_THEY_ARE = (
    *("time", "cost", "where", "labels", "unit", "time_format", "timezone", "ipv6_prefix", "delimiter"),
)

_DEFAULTS = {
    **{"missing": "bad", "on_bad": "count", "timezone": "UTC", "ipv6_prefix": 64, "delimiter": ","},
    "time": (),
}


def _named(by: str) -> tuple[str, str]:
    name, _, column = by.partition("=")
    return name, column or name


def _labelled(events: Events, labels: dict[str, str]) -> Events:
    """Return events of which some identifiers have other labels."""
    if not labels or not len(events):
        return events
    named, before = events.with_labels(labels, other=None), events.labels
    if before is None or named.labels is None:
        return named
    pairs = zip(named.labels.tolist(), before.tolist(), strict=True)
    return events.with_labels([old if new is None else new for new, old in pairs])


def _report_bad_lines(bad: BadLines) -> None:
    if not bad:
        return
    lines = [
        f"  {file}:{line}: {printable(reason)}: {_shortened(printable(text))}"
        for file, line, text, reason in bad
    ]
    more = [f"  and {bad.count - len(lines):,} more"] if bad.count > len(lines) else []
    click.echo("\n".join([_what_is_bad(bad), *lines, *more]), err=True)


def _what_is_bad(bad: BadLines) -> str:
    """Say what is wrong with the lines, which are fine where they are only nobody's."""
    number = f"{bad.count:,} {'line' if bad.count == 1 else 'lines'}"
    of_nobody = [reason for reason in bad.reasons if reason.startswith(_OF_NOBODY)]
    if not of_nobody:
        return f"{number} could not be read:"
    if len(bad.reasons) > 1:
        return f"{number} could not be read (--skip-missing leaves out those without an identifier):"
    verb, what = "has" if bad.count == 1 else "have", of_nobody[0].removeprefix(_OF_NOBODY)
    return f"{number} {verb} no {what} (--skip-missing leaves {'it' if bad.count == 1 else 'them'} out):"


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_LINE else text[: _LONGEST_LINE - 3] + "..."


def _why_none(events: Events) -> str:
    if events.skipped:
        return "no line has any of the columns of --by"
    return "the log is empty, or --where, --since and --until leave nothing of it"
