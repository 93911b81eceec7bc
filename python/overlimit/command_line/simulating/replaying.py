"""``overlimit replay``: what limits would have done to a log."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import click
from click.core import ParameterSource

from overlimit._messages.texts import seconds_text
from overlimit.command_line.failures import reported
from overlimit.command_line.output import print_json
from overlimit.command_line.simulating.logs import Log, reads_log
from overlimit.command_line.simulating.output import (
    Form,
    bars,
    chosen_format,
    figure_at,
    print_csv,
    print_table,
    records,
    share,
)
from overlimit.command_line.simulating.policies import Rules, takes_rules

if TYPE_CHECKING:
    import pandas as pd

    from overlimit.simulation import Events, Replay
    from overlimit.simulation.tables import Every

Tables: TypeAlias = "dict[str, pd.DataFrame]"

_TABLES = ("limits", "labels", "identifiers", "times")
_SHOWN: dict[str, Callable[[Any], str]] = {
    "least_left": share,
    "longest_retry_after": seconds_text,
    "longest_lock_out": seconds_text,
}
_WHEN = ("first_refused", "last_refused")
_FOR_PROGRAMS = ["refused_cost", *_WHEN]


def _every(context: click.Context, option: click.Parameter, text: str) -> Every:
    with reported():
        from overlimit.simulation.tables import checked_every

        every: Any = text
        with contextlib.suppress(ValueError):
            every = float(text)
        checked_every(every)
    return every  # type: ignore[no-any-return]


_EXAMPLES = """
\b
Examples:
  overlimit replay access.log --limits 100/minute
  overlimit replay "access.log*" --limits "10/second; 1000/hour" --by ip --by user --skip-missing
  overlimit replay api.csv --format csv --by key=api_key --cost tokens --limits 50000/hour --json
  overlimit replay access.log --limits 100/minute --table times --every day --timezone Europe/Berlin
  overlimit replay access.log --limits 100/minute --label ip:198.51.100.20=office --table labels
"""


@click.command(epilog=_EXAMPLES, short_help="Show what limits would have refused.")
@reads_log
@takes_rules
@click.option("--limits", multiple=True, required=True, help="Such as 100/minute. May be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: all tables.")
@click.option("--csv", "as_csv", is_flag=True, help="Print a table as CSV: identifiers, or that of --table.")
@click.option(
    "--png", type=click.Path(dir_okay=False, writable=True), help="Draw what passed and was refused when."
)
@click.option("--table", type=click.Choice(_TABLES), help="Print this table alone.")
@click.option("--top", type=click.IntRange(min=0), default=20, show_default=True, help="Identifiers shown.")
@click.option(
    "--every",
    default="hour",
    show_default=True,
    callback=_every,
    help="How long a row of times, or a bar of the figure, is: hour, day, week, month or seconds.",
)
def replay(
    rules: Rules,
    log: Log,
    limits: tuple[str, ...],
    as_json: bool,
    as_csv: bool,
    png: str | None,
    table: str | None,
    top: int,
    every: Every,
) -> None:
    """Show what limits would have answered to each request of LOG, and whom they would have hit.

    LOG is a file, several, or a pattern, or - for the standard input; .gz, .bz2, .xz and .zst are
    decompressed. A request counts in the table of identifiers for each that it has.
    """
    form = chosen_format(as_json, as_csv)
    _check_effects(_wanted(form, table), png)
    with reported():
        limiter = rules.limiter("; ".join(limits))
    events = log.events()
    with reported():
        from overlimit.simulation import replay as ask

        with bars() as progress:
            result = ask(events, limiter, columns=("allowed", "retry_after"), progress=progress)
        wanted = [name for name in _wanted(form, table) if _can_be(name, events) or name == table]
        tables = {name: _table(result, name, top, every, log.timezone) for name in wanted}
        if png is not None:
            with figure_at(png) as ax:
                result.plot(every if _is_given("every") else None, timezone=log.timezone, ax=ax)
    _PRINTERS[form](result, tables, log)


def _check_effects(wanted: tuple[str, ...], png: str | None) -> None:
    """Raise a UsageError for an option that is for a table which is not printed, or for a figure."""
    for option, table in (("every", "times"), ("top", "identifiers")):
        is_drawn = option == "every" and png is not None
        if _is_given(option) and table not in wanted and not is_drawn:
            raise click.UsageError(f"--{option} is for the table of {table}: add --table {table}")


def _is_given(option: str) -> bool:
    source = click.get_current_context().get_parameter_source(option)
    return source is ParameterSource.COMMANDLINE


def _wanted(form: Form, table: str | None) -> tuple[str, ...]:
    if table is not None:
        return (table,)
    return {"text": ("limits", "labels", "identifiers"), "json": _TABLES, "csv": ("identifiers",)}[form]


def _can_be(table: str, events: Events) -> bool:
    """Tell whether there can be a table: that of labels is for events that have some."""
    return table != "labels" or events.labels is not None


def _table(result: Replay, name: str, top: int, every: Every, timezone: str) -> pd.DataFrame:
    if name == "limits":
        return result.summary()
    if name == "times":
        return result.by_time(every, timezone)
    from overlimit.simulation.tables import by_every_identifier

    table = result.by_label() if name == "labels" else by_every_identifier(result, top)
    return table.assign(**{column: table[column].dt.tz_convert(timezone) for column in _WHEN})


def _print_text(result: Replay, tables: Tables, log: Log) -> None:
    refused = f"{result.refused:,} refused ({share(result.refused_share)})"
    click.echo(log.summary(result.events, refused))
    for table in tables.values():
        click.echo()
        print_table(table.drop(columns=_FOR_PROGRAMS, errors="ignore"), _SHOWN)


def _print_json(result: Replay, tables: Tables, log: Log) -> None:
    refused = {"refused": result.refused, "refused_share": result.refused_share}
    found = {name: records(table) for name, table in tables.items()}
    print_json(log.counts(result.events) | refused | found)


def _print_csv(result: Replay, tables: Tables, log: Log) -> None:
    for table in tables.values():
        print_csv(table)


_PRINTERS: dict[Form, Callable[[Replay, Tables, Log], None]] = {
    "text": _print_text,
    "json": _print_json,
    "csv": _print_csv,
}
