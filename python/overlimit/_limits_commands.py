"""``limits`` on the command line of a framework: lists an app's limits, and shows or resets somebody's."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable
from functools import partial, wraps
from typing import Any

import click

from overlimit.errors import OverlimitError
from overlimit.http import operating, reports
from overlimit.http.app_state import BaseAppState
from overlimit.http.rules.app_rate_limits import AppRateLimit
from overlimit.http.rules.precedence import RulesOfRoute

Run = Callable[..., None]

_PRINT_JSON = "--json"


def limits_group(current: Callable[[], BaseAppState], within: Callable[[Run], Run]) -> click.Group:
    """Return the commands for apps of a framework, run in the context of an app by ``within``."""
    group = click.Group("limits", help="Show the rate limits of the app, and reset them for an identifier.")
    as_json = click.Option(["--json", "as_json"], is_flag=True, help="Print JSON.")

    def add(name: str, short: str, run: Run, parameters: list[click.Parameter], described: Run) -> None:
        callback = within(wraps(described)(partial(_report, current, run)))
        text = None if described.__doc__ is None else inspect.cleandoc(described.__doc__)
        made = click.Command(name, callback=callback, params=parameters, help=text, short_help=short)
        group.add_command(made)

    add("list", "List the limits of all routes.", list_limits, [as_json], list_limits)
    for name, short, run in (
        ("check", "Show what somebody has left.", check_identifier),
        ("reset", "Give somebody a fresh start.", reset_identifier),
    ):
        add(name, short, partial(_ask, run), _about_somebody(), run)
    return group


def _report(current: Callable[[], BaseAppState], run: Run, **options: Any) -> None:
    """Run for the current app, and say in one line what went wrong."""
    try:
        run(current(), **options)
    except (OverlimitError, RuntimeError) as error:
        raise click.ClickException(" ".join(str(error).split())) from None


def _about_somebody() -> list[click.Parameter]:
    """Return the parameters that say whom a command asks about, and ``--json``."""

    def instead(name: str, metavar: str, text: str) -> click.Option:
        return click.Option([f"--{name}"], metavar=metavar, help=f"Instead of IDENTIFIER: {text}.")

    return [
        click.Argument(["identifier"], required=False),
        instead("address", "ADDRESS", "requests from this address"),
        instead("user", "ID", "requests of this user"),
        instead("header", "NAME=VALUE", "requests with this header, as by_header counts them"),
        instead("cookie", "NAME=VALUE", "requests with this cookie, as by_cookie counts them"),
        click.Option(
            ["--json", "json"],
            multiple=True,
            is_flag=False,
            flag_value=_PRINT_JSON,
            metavar="[NAME=VALUE]",
            help="Print JSON. With NAME=VALUE, instead of IDENTIFIER: requests with this in their JSON.",
        ),
    ]


def _ask(
    run: Run, state: BaseAppState, identifier: str | None, json: tuple[str, ...], **options: str | None
) -> None:
    """Run a command about whoever is named, by one option only."""
    members = [each for each in json if "=" in each]
    # An identifier right after --json is taken for its value.
    texts = [each for each in json if each not in (_PRINT_JSON, *members)]
    options["identifier"] = identifier
    given = [(kind, value) for kind, value in options.items() if value is not None]
    given += [("identifier", each) for each in texts] + [("json", each) for each in members]
    if len(given) != 1:
        raise click.UsageError(
            "name somebody: only one of IDENTIFIER, --address, --user, --header, --cookie and --json"
        )
    try:
        asked = operating.asked(*given[0])
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    run(state, asked, len(json) > len(members))


def list_limits(state: BaseAppState, as_json: bool) -> None:
    """List the limits of every route, and the routes that nothing protects.

    No store is asked, and no function of the app is called: where one decides during a request (on limits,
    costs, conditions or identifiers), its name is listed. Static files, and limits of plain
    functions and of with blocks, are not listed.
    """
    click.echo(reports.limits_list(*_limits_of(state), as_json=as_json))


def check_identifier(state: BaseAppState, asked: reports.Asked, as_json: bool) -> None:
    """Show what somebody has left under every limit that counts such requests; nothing is charged.

    IDENTIFIER is written as it is counted: ip:203.0.113.7, ip:2001:db8:1:2::/64 or user:42, unless the app
    has identifiers of its own. Limits that a function names are shown as it names them now; what cannot be
    known without a request is listed without numbers.
    """
    counted = _policies_that_count(state, asked)
    found = [each for policy, identifier in counted for each in reports.status_of(policy, identifier)]
    if as_json:
        _print_json(found)
    for identifier in () if as_json else dict.fromkeys(identifier for _, identifier in counted):
        _print(reports.status_table(identifier, found))


def reset_identifier(state: BaseAppState, asked: reports.Asked, as_json: bool) -> None:
    """Give somebody a fresh start under all limits that count such requests, locks included, without asking.

    IDENTIFIER is written as it is counted: ip:203.0.113.7, ip:2001:db8:1:2::/64 or user:42, unless the app
    has identifiers of its own. Limits whose counts depend on a request are not reset, but named on the
    standard error; limits of plain functions and of with blocks are not reset either.
    """
    done = operating.reset(_policies_that_count(state, asked))
    if as_json:
        _print_json(done)
    else:
        _print(reports.reset_table(done["identifiers"], done["reset"]))
    if done["not_reset"]:
        left = ", ".join(done["not_reset"])
        click.echo(f"Not reset, because the names of their counts depend on a request: {left}", err=True)


def _policies_that_count(state: BaseAppState, asked: reports.Asked) -> operating.Counted:
    """Return the policies that may count somebody, each with the identifier by which it does."""
    rate_limits, routes = _limits_of(state)
    for hint in operating.hints(rate_limits, asked):
        click.echo(f"Hint: {hint}", err=True)
    operating.check_is_created(rate_limits)
    return operating.policies_that_count(routes, asked)


def _limits_of(state: BaseAppState) -> tuple[tuple[AppRateLimit, ...], tuple[RulesOfRoute, ...]]:
    """Return the RateLimits of an app, the implicit one of `rate_limit` included, and its routes."""
    routes = state.routes()
    rate_limits = tuple(state.rate_limits)
    if not rate_limits:
        raise click.ClickException(
            f"nothing limits {state.app_name!r}: it has no RateLimit, and no route of it has a rate_limit"
        )
    return rate_limits, routes


def _print(lines: Iterable[str]) -> None:
    click.echo("\n".join(lines))


def _print_json(found: object) -> None:
    click.echo(json.dumps(found, indent=2))
