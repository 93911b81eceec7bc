"""``flask limits``: lists the limits of an app, shows what an identifier has left, and resets it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import ParamSpec

import click
from flask import Flask
from flask.cli import with_appcontext

from overlimit.errors import OverlimitError
from overlimit.flask.app_state import AppState
from overlimit.flask.current import this_app
from overlimit.http.identifying.addresses import grouped
from overlimit.http.identifying.identifiers import ANONYMOUS
from overlimit.http.reports import (
    LimitedRoute,
    described,
    limits_table,
    policies_of,
    reset_table,
    status_of,
    status_table,
)
from overlimit.http.rules.app_rate_limits import AppRateLimit
from overlimit.stores import MemoryStore, SharedMemoryStore

__all__ = ["limits"]

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
_identifier = click.argument("identifier")


@limits.command("list", short_help="List the limits of all routes.")
@_as_json
@_command
def list_limits(as_json: bool) -> None:
    """List the limits of every route, and the routes that nothing protects.

    No store is asked, and no function of the app is called: where one decides during a request (on limits,
    costs, conditions or identifiers), its name is listed. Static files, and limits of plain
    functions and of with blocks, are not listed.
    """
    rate_limits, routes = _limits_of(this_app())
    entries = described(routes)
    if as_json:
        _print_json(entries)
    else:
        _print(limits_table(rate_limits, entries))


@limits.command("check", short_help="Show what an identifier has left.")
@_identifier
@_as_json
@_command
def check_identifier(identifier: str, as_json: bool) -> None:
    """Show what IDENTIFIER has left under every limit of the app; nothing is charged.

    IDENTIFIER is written as it is counted: ip:203.0.113.7, ip:2001:db8:1:2::/64 or user:42, unless the app
    has identifiers of its own. Limits that a function names are shown as it names them now; what cannot be
    known without a request is listed without numbers.
    """
    routes = _routes_to_ask(this_app(), identifier)
    found = [each for policy in policies_of(routes) for each in status_of(policy, identifier)]
    if as_json:
        _print_json(found)
    else:
        _print(status_table(identifier, found))


@limits.command("reset", short_help="Give an identifier a fresh start.")
@_identifier
@_as_json
@_command
def reset_identifier(identifier: str, as_json: bool) -> None:
    """Give IDENTIFIER a fresh start under all limits of the app, locks included, without asking.

    IDENTIFIER is written as it is counted: ip:203.0.113.7, ip:2001:db8:1:2::/64 or user:42, unless the app
    has identifiers of its own. Limits whose counts depend on a request are not reset, but named on the
    standard error; limits of plain functions and of with blocks are not reset either.
    """
    routes = _routes_to_ask(this_app(), identifier)
    policies = policies_of(routes)
    for policy in policies:
        if policy.name is not None:
            policy.rule.reset(identifier)
    done = [policy.shown for policy in policies if policy.name is not None]
    left = [policy.shown for policy in policies if policy.name is None]
    if as_json:
        _print_json({"identifier": identifier, "reset": done, "not_reset": left})
    else:
        _print(reset_table(identifier, done, left))
    if left:
        click.echo(
            f"Not reset, because the names of their counts depend on a request: {', '.join(left)}", err=True
        )


def _limits_of(app: Flask) -> tuple[tuple[AppRateLimit, ...], tuple[LimitedRoute, ...]]:
    """Return the RateLimits of an app, the implicit one of `rate_limit` included, and its routes."""
    state = AppState.of(app)
    routes = state.routes()
    rate_limits = tuple(state.rate_limits)
    if not rate_limits:
        raise click.ClickException(
            f"nothing limits {app.name!r}: it has no RateLimit, and no route of it has a rate_limit"
        )
    return rate_limits, routes


def _routes_to_ask(app: Flask, identifier: str) -> tuple[LimitedRoute, ...]:
    """Return the routes for a command that asks the stores; it creates no shared memory that is missing."""
    rate_limits, routes = _limits_of(app)
    _warn(rate_limits, identifier)
    for rate_limit in rate_limits:
        store = rate_limit.store
        if isinstance(store, SharedMemoryStore) and not store.is_created:
            raise click.ClickException(
                f"nothing is counted yet: there is no shared memory {store.path}; the first request makes it"
            )
    return routes


def _warn(rate_limits: Iterable[AppRateLimit], identifier: str) -> None:
    """Print hints on why the command may not do what its caller expects."""
    if not identifier:
        raise click.BadParameter(
            f"an identifier must not be empty: requests without one are counted as {ANONYMOUS}"
        )
    for hint in dict.fromkeys(hint for each in rate_limits for hint in _hints(each, identifier)):
        click.echo(f"Hint: {hint}", err=True)


def _hints(rate_limit: AppRateLimit, identifier: str) -> Iterator[str]:
    if isinstance(rate_limit.store, MemoryStore):
        yield (
            "memory:// belongs to one process: this command neither sees nor resets the counts of a "
            "running server"
        )
    if isinstance(rate_limit.store, SharedMemoryStore):
        yield from (
            f"this user has no shared memory {rate_limit.store.path} yet: run this command as the user of "
            f"{path}"
            for path in rate_limit.store.paths_of_others()
        )
    if rate_limit.settings.options.get("identifiers") is not None or identifier == ANONYMOUS:
        return
    kind, _, address = identifier.partition(":")
    if kind not in ("ip", "user") or not address:
        yield "this app counts addresses as ip:ADDRESS and users as user:ID"
    elif kind == "ip" and (counted := grouped(address, rate_limit.addresses.ipv6_prefix)) != address:
        yield f"this address is counted as ip:{counted}"


def _print(lines: Iterable[str]) -> None:
    click.echo("\n".join(lines))


def _print_json(found: object) -> None:
    click.echo(json.dumps(found, indent=2))
