"""``overlimit suggest``: the smallest limit that a log would have borne."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from overlimit.command_line.failures import NothingFound, reported
from overlimit.command_line.finite import FiniteRange
from overlimit.command_line.output import print_json
from overlimit.command_line.simulating.logs import Log, reads_log, takes_names
from overlimit.command_line.simulating.output import (
    as_text,
    bars,
    chosen_format,
    print_csv,
    print_table,
    records,
)
from overlimit.command_line.simulating.policies import Rules, takes_rules
from overlimit.command_line.simulating.writing import write_policy
from overlimit.limits_file import read_limits_file

if TYPE_CHECKING:
    import pandas as pd

    from overlimit.simulation import Suggestion

_PLACE = "{}"


def _ascending(context: click.Context, option: click.Parameter, between: tuple[int, int]) -> tuple[int, int]:
    low, high = between
    if low > high:
        raise click.BadParameter(f"LOW must not be above HIGH, as in 1 1000, and {low} is above {high}")
    return between


_EXAMPLES = """
\b
Examples:
  overlimit suggest access.log --limits "{}/minute" --between 10 1000
  overlimit suggest access.log --limits "{}/minute burst 50" --between 1 500 --of events
  overlimit suggest access.log --limits "{}/hour; 10/second" --between 10 5000 --refuse-at-most 0.01
  overlimit suggest access.log --limits "{}/minute" --between 10 1000 --spare ip:198.51.100.20
  overlimit suggest access.log --limits "{}/minute" --between 10 1000 --labels user --spare ann
  overlimit suggest access.log --limits "{}/minute" --between 10 1000 --stop ip:198.51.100.77 --resample 200
  overlimit suggest access.log --limits "{}/minute" --between 10 1000 --write limits.toml --policy api
"""


@click.command(epilog=_EXAMPLES, short_help="Find the smallest limit that refuses few enough.")
@reads_log
@takes_rules
@click.option(
    "--limits", multiple=True, required=True, help='With {} for the number, as "{}/minute". May be repeated.'
)
@click.option(
    "--between",
    nargs=2,
    type=int,
    required=True,
    metavar="LOW HIGH",
    callback=_ascending,
    help="Numbers to try.",
)
@click.option(
    "--refuse-at-most",
    type=FiniteRange(0, 1),
    default=0.001,
    show_default=True,
    help="The share that may be refused.",
)
@click.option("--of", type=click.Choice(["identifiers", "events"]), default="identifiers", show_default=True)
@takes_names("--among", "An identifier or a label whose share it is; by default all but those of --stop.")
@takes_names("--stop", "An identifier or a label of which the answer says how much is refused.")
@takes_names("--spare", "An identifier or a label of which nothing may be refused.")
@click.option(
    "--resample",
    type=click.IntRange(min=1),
    metavar="N",
    help="Ask N times of identifiers drawn from those of the log, and print between what the answers are.",
)
@click.option("--write", metavar="FILE", help="Write what was found into a limits.toml, as --policy.")
@click.option("--policy", metavar="NAME", help="The policy of the file of --write.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--csv", "as_csv", is_flag=True, help="Print what was tried as CSV.")
def suggest(
    rules: Rules,
    log: Log,
    limits: tuple[str, ...],
    between: tuple[int, int],
    refuse_at_most: float,
    of: Any,
    among: tuple[str, ...],
    stop: tuple[str, ...],
    spare: tuple[str, ...],
    resample: int | None,
    write: str | None,
    policy: str | None,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Find the smallest number whose limit would have refused at most a given share of LOG.

    The number replaces each {} in the limits. It is found by halving, so larger numbers must refuse less. Of
    several columns, the first that a request has says whose it is.
    """
    form = chosen_format(as_json, as_csv)
    _check_writing(write, policy, rules)
    made = _checked("; ".join(limits), between, rules)
    events = log.events()
    with reported():
        from overlimit.simulation import suggest as ask

        with bars() as progress:
            found = ask(
                events,
                lambda number: rules.limiter(_with(made, number)),
                between,
                refuse_at_most,
                of,
                among=among,
                stop=stop,
                spare=spare,
                resample=resample,
                progress=progress,
            )
        tried = found.to_pandas()
    if form == "json":
        print_json(_described(found, made, tried))
    elif form == "csv":
        print_csv(tried)
    elif found.value is not None:
        click.echo(f"{_with(made, found.value)}\n{found.message}\n")
        columns = found._columns()
        heads = [column.head for column in columns]
        print_table(tried.set_axis(heads, axis=1), {column.head: column.text for column in columns})
    if found.value is None:
        raise NothingFound(_naming_options(found.message))
    if write is not None and policy is not None:
        with reported():
            write_policy(write, policy, _with(made, found.value), rules.lock)
        click.echo(f"wrote policies.{policy} of {write}", err=True)
        click.echo(_what_it_limits(write, policy), nl=False, err=True)


def _check_writing(write: str | None, policy: str | None, rules: Rules) -> None:
    if (write is None) != (policy is None):
        raise click.UsageError("--write and --policy go together, as --write limits.toml --policy login")
    if write is not None and rules.algorithm is not None:
        raise click.UsageError("--write excludes --algorithm: a limits.toml has limits in text, without one")


def _what_it_limits(path: str, policy: str) -> str:
    """Say of a policy that no route uses that it limits nothing yet."""
    if read_limits_file(path).is_used(policy):
        return ""
    instead = f"; the file's own {policy} is another key" if policy in ("default", "application") else ""
    return (
        f"no route uses it, so it limits nothing in an app{instead}: "
        f'under [routes], write "POST /path" = {{policy = "{policy}"}}\n'
    )


def _naming_options(message: str) -> str:
    return message.replace("between=", "--between").replace("refuse_at_most=", "--refuse-at-most")


def _checked(made: str, between: tuple[int, int], rules: Rules) -> str:
    """Return the limits as they are written; say what is wrong with them before the log is read."""
    if _PLACE not in made:
        raise click.BadParameter('write {} where the number goes, as "{}/minute"', param_hint="--limits")
    with reported():
        for number in between:
            rules.limiter(_with(made, number))
    return made


def _with(made: str, number: int | None) -> str:
    return made.replace(_PLACE, str(number))


def _described(found: Suggestion, made: str, tried: pd.DataFrame) -> dict[str, Any]:
    return {
        "value": found.value,
        "limits": None if found.value is None else _with(made, found.value),
        "low": found.low,
        "high": found.high,
        "share": found.share,
        "stopped": {as_text(name): share for name, share in found.stopped.items()},
        "next_smaller": found.next_smaller,
        "message": found.message,
        "tried": records(tried),
    }
