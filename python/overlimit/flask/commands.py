"""``flask limits``: lists the limits of an app, shows what an identifier has left, and resets it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import wraps
from typing import ParamSpec

import click
from flask import Flask
from flask.cli import with_appcontext

from overlimit.errors import OverlimitError
from overlimit.flask.app_state import AppState
from overlimit.flask.current import this_app
from overlimit.http import operating, reports
from overlimit.http.rules.app_rate_limits import AppRateLimit
from overlimit.http.rules.precedence import RulesOfRoute

P = ParamSpec("P")


@click.group()
def limits() -> None:
    """Show the rate limits of the app, and reset them for an identifier."""


def _command(run: Callable[P, None]) -> Callable[P, None]:
    """Run within the app, and say in one line what went wrong."""

    @with_appcontext
    @wraps(run)
    def reported(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            run(*args, **kwargs)
        except (OverlimitError, RuntimeError) as error:
            raise click.ClickException(" ".join(str(error).split())) from None

    return reported


_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

_PRINT_JSON = "--json"


def _named(name: str, text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(f"--{name}", metavar="NAME=VALUE", help=f"Instead of IDENTIFIER: {text}.")


def _about_somebody(run: Callable[[reports.Asked, bool], None]) -> Callable[..., None]:
    """Add the parameters that say whom a command asks about, and ``--json``."""

    @click.argument("identifier", required=False)
    @click.option("--address", metavar="ADDRESS", help="Instead of IDENTIFIER: requests from this address.")
    @click.option("--user", metavar="ID", help="Instead of IDENTIFIER: requests of this user.")
    @_named("header", "requests with this header, as by_header counts them")
    @_named("cookie", "requests with this cookie, as by_cookie counts them")
    @click.option(
        "--json",
        "json",
        multiple=True,
        is_flag=False,
        flag_value=_PRINT_JSON,
        metavar="[NAME=VALUE]",
        help="Print JSON. With NAME=VALUE, instead of IDENTIFIER: requests with this in their JSON.",
    )
    @_command
    @wraps(run)
    def asking(identifier: str | None, json: tuple[str, ...], **options: str | None) -> None:
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
        run(asked, len(json) > len(members))

    return asking


@limits.command("list", short_help="List the limits of all routes.")
@_as_json
@_command
def list_limits(as_json: bool) -> None:
    """List the limits of every route, and the routes that nothing protects.

    No store is asked, and no function of the app is called: where one decides during a request (on limits,
    costs, conditions or identifiers), its name is listed. Static files, and limits of plain
    functions and of with blocks, are not listed.
    """
    click.echo(reports.limits_list(*_limits_of(this_app()), as_json=as_json))


@limits.command("check", short_help="Show what somebody has left.")
@_about_somebody
def check_identifier(asked: reports.Asked, as_json: bool) -> None:
    """Show what somebody has left under every limit that counts such requests; nothing is charged.

    IDENTIFIER is written as it is counted: ip:203.0.113.7, ip:2001:db8:1:2::/64 or user:42, unless the app
    has identifiers of its own. Limits that a function names are shown as it names them now; what cannot be
    known without a request is listed without numbers.
    """
    counted = _policies_that_count(this_app(), asked)
    found = [each for policy, identifier in counted for each in reports.status_of(policy, identifier)]
    if as_json:
        _print_json(found)
    for identifier in () if as_json else dict.fromkeys(identifier for _, identifier in counted):
        _print(reports.status_table(identifier, found))


@limits.command("reset", short_help="Give somebody a fresh start.")
@_about_somebody
def reset_identifier(asked: reports.Asked, as_json: bool) -> None:
    """Give somebody a fresh start under all limits that count such requests, locks included, without asking.

    IDENTIFIER is written as it is counted: ip:203.0.113.7, ip:2001:db8:1:2::/64 or user:42, unless the app
    has identifiers of its own. Limits whose counts depend on a request are not reset, but named on the
    standard error; limits of plain functions and of with blocks are not reset either.
    """
    done = operating.reset(_policies_that_count(this_app(), asked))
    if as_json:
        _print_json(done)
    else:
        _print(reports.reset_table(done["identifiers"], done["reset"]))
    if done["not_reset"]:
        left = ", ".join(done["not_reset"])
        click.echo(f"Not reset, because the names of their counts depend on a request: {left}", err=True)


def _policies_that_count(app: Flask, asked: reports.Asked) -> operating.Counted:
    """Return the policies that may count somebody, each with the identifier by which it does."""
    rate_limits, routes = _limits_of(app)
    for hint in operating.hints(rate_limits, asked):
        click.echo(f"Hint: {hint}", err=True)
    operating.check_is_created(rate_limits)
    return operating.policies_that_count(routes, asked)


def _limits_of(app: Flask) -> tuple[tuple[AppRateLimit, ...], tuple[RulesOfRoute, ...]]:
    """Return the RateLimits of an app, the implicit one of `rate_limit` included, and its routes."""
    state = AppState.of(app)
    routes = state.routes()
    rate_limits = tuple(state.rate_limits)
    if not rate_limits:
        raise click.ClickException(
            f"nothing limits {app.name!r}: it has no RateLimit, and no route of it has a rate_limit"
        )
    return rate_limits, routes


def _print(lines: Iterable[str]) -> None:
    click.echo("\n".join(lines))


def _print_json(found: object) -> None:
    click.echo(json.dumps(found, indent=2))
