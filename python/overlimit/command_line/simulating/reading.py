"""``overlimit read``: what is in a log, what of it cannot be read, and a file that is read in no time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from overlimit._messages.texts import printable
from overlimit.command_line.failures import reported
from overlimit.command_line.output import print_json
from overlimit.command_line.simulating.logs import Log, reads_log
from overlimit.command_line.simulating.output import print_table

if TYPE_CHECKING:
    import pandas as pd

    from overlimit.simulation import Events

_EXAMPLES = """
\b
Examples:
  overlimit read access.log
  overlimit read "access.log*" --by ip --by user --save july.parquet
  overlimit read access.log --label ip:198.51.100.20=office --save july.parquet
  overlimit read api.jsonl --by ip=request.remote_ip --time ts --unit ms --timezone Europe/Berlin
"""


@click.command(epilog=_EXAMPLES, short_help="Show what is in a log, and what of it cannot be read.")
@reads_log
@click.option("--save", type=click.Path(dir_okay=False), help="A file for what was read, which is a LOG too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def read(log: Log, save: str | None, as_json: bool) -> None:
    """Show how many requests of whom are in LOG, and the lines that cannot be read with their reasons.

    A file of --save is a LOG of every command, which needs none of the options of the log again.
    """
    events = log.events()
    with reported():
        if save is not None:
            events.save(save)
        columns = _columns(events)
    reasons = dict(events.bad_lines.reasons)
    if as_json:
        rows = [{"column": name} | row for name, row in columns.to_dict("index").items()]
        print_json(log.counts(events) | {"columns": rows, "bad_line_reasons": reasons})
        return
    click.echo(log.summary(events) + "\n")
    print_table(columns, {"busiest": printable})
    if reasons:
        click.echo()
        print_table(_reasons(reasons), {})


def _columns(events: Events) -> pd.DataFrame:
    """Return for each column of identifiers how many there are, and which has most requests."""
    from overlimit.simulation.optional import required

    pandas = required("pandas", "overlimit read")
    rows: dict[str, Any] = {}
    for name, identifiers in _by_name(events).items():
        counts = identifiers.value_counts()
        rows[name] = {
            "distinct": int((counts > 0).sum()),
            "busiest": str(counts.index[0]) if len(counts) else "",
            "requests": int(counts.iloc[0]) if len(counts) else 0,
        }
    frame: pd.DataFrame = pandas.DataFrame.from_dict(rows, orient="index")
    frame.index.name = "column"
    return frame


def _by_name(events: Events) -> dict[str, Any]:
    frame = events.to_pandas()
    return {str(name): frame[name] for name in frame.columns if name not in {"time", "cost"}}


def _reasons(reasons: dict[str, int]) -> pd.DataFrame:
    from overlimit.simulation.optional import required

    pandas = required("pandas", "overlimit read")
    shown = {printable(reason): count for reason, count in reasons.items()}
    frame: pd.DataFrame = pandas.DataFrame({"lines": shown})
    frame.index.name = "could not be read because"
    return frame
