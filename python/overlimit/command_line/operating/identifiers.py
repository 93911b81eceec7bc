"""``overlimit show``, ``reset``, ``lock`` and ``unlock``: one identifier in one policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from overlimit import _core
from overlimit._messages.texts import printable
from overlimit.command_line.finite import FiniteRange
from overlimit.command_line.operating.endings import FINE, REFUSED, asks_store, done, status_of
from overlimit.command_line.operating.keeping import (
    FEW,
    holds_lock,
    is_part_of_cluster,
    keeps,
    policies_besides,
    policies_instead,
)
from overlimit.command_line.operating.listing import limits_of, limits_option, told_reading
from overlimit.command_line.operating.places import Place, url_argument
from overlimit.command_line.operating.shapes import GUESSED, Reading, by_tag, readings_of
from overlimit.command_line.operating.tables import span
from overlimit.command_line.operating.targets import Target
from overlimit.command_line.operating.values import Value
from overlimit.command_line.operating.walking import PART, Walk
from overlimit.command_line.operating.whom import Identifier, PolicyName
from overlimit.command_line.output import print_json, print_rows
from overlimit.errors import StoreError, StoreUnavailable

F = TypeVar("F", bound=Callable[..., Any])

_policy_option = click.option(
    "--policy", metavar="P", required=True, type=PolicyName(), help="The name of the limiter."
)


def _about_one(run: F) -> F:
    """Add the arguments that say whom a command is about."""
    run = _policy_option(run)
    return url_argument(click.argument("identifier", metavar="ID", type=Identifier())(run))


_SHOW_EXAMPLES = """
\b
Examples:
  overlimit show redis://localhost:6379/0 --policy login user:42
  overlimit show shm://myapp --policy login --limits "5/minute; 100/day" user:42 --json
"""


@click.command(epilog=_SHOW_EXAMPLES, short_help="Show all that is kept of an identifier.")
@_about_one
@limits_option
@asks_store
def show(place: Place, identifier: str, policy: str, limits: tuple[str, ...], as_json: bool) -> int:
    """Show every record that the store at URL keeps of an identifier in a policy, by tag and in words.

    A record says which limit it is of only by a hash, the tag. So without --limits, what the limit is is told
    by the shape of the record, and marked with a question mark. Nothing is charged. The exit code is 1 if
    nothing is kept.
    """
    known = by_tag(limits_of(limits))
    place.require()
    kept = Target(place, policy, identifier).kept()
    if kept.value is None:
        if as_json:
            print_json({"status": "unknown", "key": kept.key, "records": [], "lock": None})
        else:
            instead = policies_instead(place, policy)
            click.echo(f"Nothing is kept of {printable(identifier)} in {policy}.{instead}")
        return REFUSED
    read = readings_of(kept.value, known, kept.now)
    if as_json:
        print_json(_told(kept.key, kept.value, read, kept.now))
    else:
        _print(kept.key, kept.value, read, kept.now)
    return FINE


def _print(key: str, value: Value, read: list[Reading], now: int) -> None:
    began = "first charged" if read else "made"
    click.echo(f"{printable(key)}, {began} {span(now - value.created_at)} ago")
    rows = [
        (each.name, each.record.tag_shown, span(each.record.expires_at - now), each.words) for each in read
    ]
    if rows:
        click.echo()
        print_rows(("limit", "tag", "expires in", "state"), rows, texts=4)
    if any(each.limit is None for each in read):
        click.echo(f"\n{GUESSED}")
    lock = value.lock(now)
    if lock is None:
        return
    left = lock.left(now)
    held = f"Locked for another {span(left)}" if left else "Not locked any more"
    click.echo(f"\n{held}; {'set by hand' if lock.is_by_hand else 'set by a penalty'}, level {lock.level}.")


def _told(key: str, value: Value, read: list[Reading], now: int) -> dict[str, Any]:
    lock = value.lock(now)
    states = [
        told_reading(each, now) | {"state": each.record.state, "cells": each.record.cells} for each in read
    ]
    return {
        "status": "locked" if value.locked_for(now) else "ok",
        "key": key,
        "kept_for": (now - value.created_at) / 1e6,
        "records": states,
        "lock": lock and {"left": lock.left(now) / 1e6, "by": lock.by, "level": lock.level},
    }


_ALL = 10_000_000
_MAY_GO_ON = (
    "Processes whose URL has lease or max_stale notice this later; give that URL here to be told when."
)
_MAY_COME_BACK = (
    "Processes with remember may bring counts back: if there are any, reset with ?remember=600 in the URL."
)
_RESET_EXAMPLES = """
\b
Examples:
  overlimit reset redis://localhost:6379/0 --policy login user:42
  overlimit reset redis://localhost:6379/0 --policy login --all
"""


@click.command(epilog=_RESET_EXAMPLES, short_help="Forget an identifier, and lift its lock.")
@url_argument
@click.argument("identifier", metavar="[ID]", type=Identifier(), required=False)
@_policy_option
@click.option("--all", "everybody", is_flag=True, help="Forget everybody in the policy.")
@asks_store
def reset(place: Place, identifier: str | None, policy: str, everybody: bool, as_json: bool) -> int:
    """Forget all that the store at URL keeps of an identifier in a policy: counts, lock and level.

    If nothing was kept it says so: perhaps the policy has another name. Where programs have the option
    remember, the URL must have it too, as in ?remember=600, or they may bring back what is forgotten.
    """
    if everybody == (identifier is not None):
        raise click.UsageError("reset takes an ID, or --all")
    place.require()
    was_kept = keeps(place, policy, identifier)
    if identifier is None:
        _reset_all(place, policy)
    else:
        Target(place, policy, identifier).reset()
    if was_kept is False:
        of_whom = "" if identifier is None else f"of {printable(identifier)} "
        sentence = f"Nothing was kept {of_whom}in {policy}.{policies_instead(place, policy)}"
    else:
        whom = "Everybody" if identifier is None else printable(identifier)
        sentence = f"{whom} begins anew in {policy}."
    if identifier is None and is_part_of_cluster(place):
        sentence = f"Everybody on this node begins anew in {policy}. {PART}"
    _done(place, sentence, as_json, was_kept=was_kept)
    if place.is_redis and not place.redis._shown["remember"] and not as_json:
        click.echo(_MAY_COME_BACK)
    return FINE


def _reset_all(place: Place, policy: str) -> None:
    """Forget everybody; where a node of a cluster is down, all that the others have."""
    try:
        _core._reset(place.store, policy, None)
    except StoreError as error:
        if not place.is_redis or status_of(error) != "unreachable":
            raise
        _reset_one_by_one(place, policy, error)


def _reset_one_by_one(place: Place, policy: str, error: StoreError) -> None:
    """Forget whoever is found after an error; raise StoreUnavailable that says who is not forgotten."""
    walk = Walk(place, policy, _ALL)
    try:
        for found in walk:
            Target(place, policy, found.identifier if found.counted_as is None else found.counted_as).reset()
    except StoreError:
        raise StoreUnavailable(f"not everybody begins anew in {policy}: {error}") from None
    if walk.ever_unreached:
        raise StoreUnavailable(
            f"everybody begins anew in {policy}, except those whose counts are at {walk.unreached_shown}: "
            "reset again once that answers"
        )


class Seconds(FiniteRange):
    """A number of seconds; what is written like a duration is told so."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        try:
            float(value)
        except ValueError:
            self.fail(f"{value!r} is no number of seconds: write 3600 for an hour", param, ctx)
        return super().convert(value, param, ctx)


_LOCK_EXAMPLES = """
\b
Example:
  overlimit lock redis://localhost:6379/0 --policy login user:42 3600
"""


@click.command(epilog=_LOCK_EXAMPLES, short_help="Refuse an identifier for some time.")
@_about_one
@click.argument("seconds", type=Seconds(min=0, min_open=True))
@asks_store
def lock(place: Place, identifier: str, seconds: float, policy: str, as_json: bool) -> int:
    """Refuse all calls of an identifier in a policy for SECONDS, from now on.

    If nobody else is counted in the policy it says so: perhaps the policy has another name.
    """
    target = Target(place, policy, identifier)
    place.require()
    # A lock is urgent: it does not wait until all of a large server has been looked at.
    is_new = keeps(place, policy, identifier) is False and keeps(place, policy, None, FEW) is False
    target.lock(seconds)
    sentence = f"{printable(identifier)} is locked in {policy} for {span(seconds * 1e6)}."
    hint = f" Nothing else is kept in {policy}.{policies_besides(place, policy)}" if is_new else ""
    return _done(place, sentence + hint, as_json, policy_is_new=is_new)


_UNLOCK_EXAMPLES = """
\b
Example:
  overlimit unlock redis://localhost:6379/0 --policy login user:42
"""


@click.command(epilog=_UNLOCK_EXAMPLES, short_help="Lift the lock of an identifier.")
@_about_one
@asks_store
def unlock(place: Place, identifier: str, policy: str, as_json: bool) -> int:
    """Lift the lock of an identifier in a policy. Its counts, and the level of its penalty, stay."""
    target = Target(place, policy, identifier)
    place.require()
    was_locked = holds_lock(target)
    target.unlock()
    if was_locked is False:
        sentence = (
            f"{printable(identifier)} was not locked in {policy} anyway.{policies_instead(place, policy)}"
        )
    else:
        sentence = f"{printable(identifier)} is no longer locked in {policy}."
    return _done(place, sentence, as_json, was_locked=was_locked)


def _done(place: Place, sentence: str, as_json: bool, **told: bool | None) -> int:
    """Print what was done, and until when processes may go on as if it had not been."""
    stale = place.store._longest_stale
    done(sentence, as_json, **told, noticed_within=stale)
    if as_json:
        return FINE
    if stale:
        click.echo(
            f"Running processes may go on as before for up to {span(stale * 1e6)}, by the options of the URL."
        )
    elif place.is_redis and False not in (told.get("was_kept"), told.get("was_locked")):
        click.echo(_MAY_GO_ON)
    return FINE
