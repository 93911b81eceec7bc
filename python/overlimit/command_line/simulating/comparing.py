"""``overlimit compare``: what several policies would have done to the same log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from overlimit._messages.texts import printable
from overlimit.command_line.failures import reported
from overlimit.command_line.output import print_json
from overlimit.command_line.simulating.logs import Log, reads_log
from overlimit.command_line.simulating.output import (
    as_text,
    bars,
    chosen_format,
    figure_at,
    print_csv,
    print_table,
    records,
    share,
)
from overlimit.command_line.simulating.policies import Rules, takes_policies, takes_rules

if TYPE_CHECKING:
    import pandas as pd

_FEW = 3

_EXAMPLES = """
\b
Examples:
  overlimit compare access.log --policy today=100/minute --policy "new=10/second; 600/hour"
  overlimit compare access.log --policy a=60/minute --policy b=120/minute --lock 5 --lock 30
  overlimit compare access.log --policy a=60/minute --policy b=90/minute --png policies.png --json
  overlimit compare access.log --policy a=60/minute --policy b=90/minute --label ip:198.51.100.20=office
"""


@click.command(epilog=_EXAMPLES, short_help="Show what several policies would have refused.")
@reads_log
@takes_rules
@takes_policies
@click.option("--json", "as_json", is_flag=True, help="Print JSON: policies, and how far each two agree.")
@click.option("--csv", "as_csv", is_flag=True, help="Print the policies as CSV.")
@click.option("--png", type=click.Path(dir_okay=False, writable=True), help="Draw what each refuses.")
def compare(
    rules: Rules, log: Log, policies: dict[str, str], as_json: bool, as_csv: bool, png: str | None
) -> None:
    """Show what several policies would have refused of LOG, and how far they agree.

    Of several columns, the first that a request has says whose it is.
    """
    form = chosen_format(as_json, as_csv)
    with reported():
        limiters = {name: rules.limiter(limits) for name, limits in policies.items()}
    events = log.events()
    with reported():
        from overlimit.simulation import compare as ask

        with bars() as progress:
            found = ask(events, limiters, progress=progress)
        table, agreement = found.to_pandas(), found.agreement
        if png is not None:
            with figure_at(png) as ax:
                found.plot(ax=ax)
    if form == "json":
        print_json(
            log.counts(events) | {"policies": _plain(table), "agreement": agreement.to_dict("records")}
        )
    elif form == "csv":
        print_csv(table.assign(worst_hit=table["worst_hit"].map(_listed)))
    else:
        click.echo(f"{log.summary(events)}\n")
        _print_text(table, agreement)


def _plain(table: pd.DataFrame) -> list[dict[Any, Any]]:
    return records(table.assign(worst_hit=table["worst_hit"].map(lambda worst: list(map(as_text, worst)))))


def _listed(worst: tuple[str | bytes, ...]) -> str:
    return ", ".join(map(as_text, worst))


def _print_text(table: pd.DataFrame, agreement: pd.DataFrame) -> None:
    shown = {name: share for name in table.columns if name.startswith("refused_")}
    print_table(table, {**shown, "worst_hit": lambda worst: ", ".join(map(printable, worst)) or "-"})
    if 1 < len(table) <= _FEW:
        click.echo()
        print_table(agreement.set_index("a"), {})
