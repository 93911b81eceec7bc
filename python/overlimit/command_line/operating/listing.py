"""``overlimit top`` and ``overlimit locked``: the busiest identifiers, and those that are locked."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import click

from overlimit.command_line.operating.endings import asks_store
from overlimit.command_line.operating.keeping import policies_besides
from overlimit.command_line.operating.places import Place, url_argument
from overlimit.command_line.operating.shapes import GUESSED, Reading, by_tag, readings_of
from overlimit.command_line.operating.tables import amount, span
from overlimit.command_line.operating.values import Lock
from overlimit.command_line.operating.walking import KEYS, Found, Walk
from overlimit.command_line.operating.whom import PolicyName
from overlimit.command_line.output import print_json, print_rows
from overlimit.limits import Limit, as_limits

F = TypeVar("F", bound=Callable[..., Any])

policy_option = click.option(
    "--policy", metavar="P", type=PolicyName(), help="Only this policy: a limiter's name."
)


def keys_option(default: int) -> Callable[[F], F]:
    """Return the option that bounds a walk."""
    return click.option(
        "--keys",
        type=click.IntRange(min=1),
        default=default,
        show_default=True,
        help="Look at about this many keys at most.",
    )


limits_option = click.option(
    "--limits",
    multiple=True,
    metavar="TEXT",
    help="Name the limits that are known by hashes. May be repeated.",
)

_TOP_EXAMPLES = """
\b
Examples:
  overlimit top redis://localhost:6379/0
  overlimit top env:REDIS_URL --policy login --limits "5/minute; 100/day" -n 50
  overlimit top shm://myapp --policy login --json
"""


@click.command(epilog=_TOP_EXAMPLES, short_help="List the identifiers that were charged most.")
@url_argument
@policy_option
@click.option(
    "-n", "--rows", type=click.IntRange(min=1), default=20, show_default=True, help="How many to list."
)
@limits_option
@keys_option(KEYS)
@asks_store
def top(
    place: Place, policy: str | None, rows: int, limits: tuple[str, ...], keys: int, as_json: bool
) -> int:
    """List the identifiers of the store at URL that were charged most, and the state of each.

    The store is walked in small steps with pauses, and each key is read as it is: nothing is charged. A key
    says how its limits are named only by hashes. So without --limits, what a limit is is told by the shape of
    its record, and marked with a question mark. With --limits, identifiers come first of which the largest
    share of a limit is used up.
    """
    known = by_tag(limits_of(limits))
    place.require()
    walk = Walk(place, policy, keys)
    hottest = heapq.nlargest(rows, _seen(walk, known), key=lambda each: (each[0], each[1].name))
    if as_json:
        print_json({**walk.told(), "top": [_told(found, read) for _, found, read in hottest]})
        return walk.ended()
    columns = ("policy", "identifier", "charged", "limit", "expires in", "locked for")
    print_rows(columns, (_row(found, read) for _, found, read in hottest), texts=2)
    used = [_most_used(read) for _, _, read in hottest]
    _print_summary(place, walk, policy, any(each is not None and each.limit is None for each in used))
    return walk.ended()


def _print_summary(place: Place, walk: Walk, policy: str | None, has_guessed: bool = False) -> None:
    if has_guessed:
        click.echo(f"\n{GUESSED}", nl=False)
    is_unknown = policy is not None and walk.saw_all and walk.looked_at == 0
    click.echo(f"\n{walk.summary}{policies_besides(place, policy) if policy and is_unknown else ''}")


def limits_of(texts: tuple[str, ...]) -> tuple[Limit, ...]:
    """Return the limits of ``--limits``."""
    return tuple(limit for text in texts for limit in as_limits(text))


def _seen(
    walk: Walk, known: Mapping[int, Limit]
) -> Iterator[tuple[tuple[float, float], Found, list[Reading]]]:
    """Yield keys with what is read in them, and how much is used up: the share, then the number."""
    for found in walk:
        read = readings_of(found.value, known, found.now)
        if read or found.value.locked_for(found.now):
            shares = max((each.share for each in read), default=0.0)
            yield (shares, max((each.charged or 0.0 for each in read), default=0.0)), found, read


def _most_used(read: list[Reading]) -> Reading | None:
    return max(read, key=lambda each: (each.share, each.charged or 0.0), default=None)


def _row(found: Found, read: list[Reading]) -> tuple[str, ...]:
    used, locked = _most_used(read), found.value.locked_for(found.now)
    more = f" and {len(read) - 1} more" if len(read) > 1 else ""
    return (
        found.policy,
        found.identifier,
        amount(used.charged) if used else "-",
        f"{used.name}{more}" if used else "-",
        span(max(each.record.expires_at for each in read) - found.now) if read else "-",
        span(locked) if locked else "-",
    )


def _told(found: Found, read: list[Reading]) -> dict[str, Any]:
    used = _most_used(read)
    return {
        "policy": found.policy,
        "identifier": found.identifier,
        "charged": used.charged if used else None,
        "locked_for": found.value.locked_for(found.now) / 1e6,
        "limits": [told_reading(each, found.now) for each in read],
    }


def told_reading(read: Reading, now: int) -> dict[str, Any]:
    """Return a record for JSON."""
    return {
        "tag": read.record.tag_shown,
        "limit": None if read.limit is None else str(read.limit),
        "algorithm": read.algorithm,
        "known_by": "shape" if read.limit is None else "tag",
        "charged": read.charged,
        "expires_in": (read.record.expires_at - now) / 1e6,
        "words": read.words,
    }


_LOCKED_EXAMPLES = """
\b
Examples:
  overlimit locked redis://localhost:6379/0
  overlimit locked shm://myapp --policy login
"""


@click.command(epilog=_LOCKED_EXAMPLES, short_help="List who is locked, and for how long.")
@url_argument
@policy_option
@keys_option(KEYS)
@asks_store
def locked(place: Place, policy: str | None, keys: int, as_json: bool) -> int:
    """List the identifiers of the store at URL that are locked, those that are locked longest first.

    They were locked by a penalty or by hand. The store is walked in small steps with pauses, and nothing is
    changed.
    """
    place.require()
    walk = Walk(place, policy, keys)
    found = sorted(_locked(walk), key=lambda each: -each[0])
    if as_json:
        rows = [_told_lock(left, key, lock) for left, key, lock in found]
        print_json({**walk.told(), "locked": rows})
        return walk.ended()
    columns = ("policy", "identifier", "locked for", "by", "level")
    print_rows(
        columns,
        ((key.policy, key.identifier, span(left), lock.by, lock.level) for left, key, lock in found),
        texts=2,
    )
    _print_summary(place, walk, policy)
    return walk.ended()


def _locked(walk: Walk) -> Iterator[tuple[int, Found, Lock]]:
    for found in walk:
        lock = found.value.lock(found.now)
        if lock is not None and lock.left(found.now) > 0:
            yield lock.left(found.now), found, lock


def _told_lock(left: int, found: Found, lock: Lock) -> dict[str, Any]:
    return {
        "policy": found.policy,
        "identifier": found.identifier,
        "locked_for": left / 1e6,
        "by": lock.by,
        "level": lock.level,
    }
