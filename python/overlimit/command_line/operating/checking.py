"""``overlimit check``: what a call would be answered now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from overlimit._core import Decision
from overlimit._messages.texts import printable
from overlimit.command_line.operating.endings import FINE, REFUSED, asks_store
from overlimit.command_line.operating.keeping import keeps, policies_instead
from overlimit.command_line.operating.key_names import from_terminal
from overlimit.command_line.operating.listing import limits_of
from overlimit.command_line.operating.places import Place, url_argument
from overlimit.command_line.operating.tables import span
from overlimit.command_line.operating.whom import Identifier, PolicyName
from overlimit.command_line.output import print_json, print_rows
from overlimit.decisions import Detail
from overlimit.leasing import bounds
from overlimit.limiter import Limiter

_EXAMPLES = """
\b
Examples:
  overlimit check redis://localhost:6379/0 --policy login --limits "5/minute; 100/day" user:42
  overlimit check shm://myapp --policy api --limits 100/minute --cost 0 ip:203.0.113.7 user:42
  overlimit check env:REDIS_URL --policy jobs --limits 1/hour --hit nightly && run-the-job
"""


@click.command(epilog=_EXAMPLES, short_help="Say whether a call would pass now.")
@url_argument
@click.argument("identifiers", metavar="ID...", type=Identifier(), nargs=-1, required=True)
@click.option(
    "--policy",
    "--name",
    "policy",
    metavar="P",
    required=True,
    type=PolicyName(),
    help="The name of the limiter.",
)
@click.option("--limits", multiple=True, required=True, metavar="TEXT", help="Its limits. May be repeated.")
@click.option(
    "--cost", type=click.IntRange(min=0), default=1, show_default=True, help="What the call spends."
)
@click.option("--hit", is_flag=True, help="Make the call: charge it if it passes.")
@asks_store
def check(
    place: Place,
    identifiers: tuple[str, ...],
    policy: str,
    limits: tuple[str, ...],
    cost: int,
    hit: bool,
    as_json: bool,
) -> int:
    """Say whether a call of these identifiers would pass now, and what each limit has left.

    Nothing is charged, unless --hit is given. The name and the limits must be those of the limiter, or others
    are asked. The exit code is 0 if the call passes and 1 if it is refused.

    Without --hit nothing is written, so whether the store takes writes is not found out, as when its memory
    is full: --hit tells, and `overlimit doctor`.
    """
    limiter = Limiter(limits_of(limits), name=policy, store=place.store)
    place.require()
    unknown = [] if hit else [each for each in identifiers if keeps(place, policy, each) is False]
    ask = limiter.hit if hit else limiter.peek
    decision = ask(*map(from_terminal, identifiers), cost=cost)
    if as_json:
        print_json({**_told(decision, hit), "unknown": unknown, "bounds": _bounds_told(limiter)})
    else:
        _print(decision, hit)
        for sentence in _of_bounds(limiter):
            click.echo(f"\n{sentence}")
        if unknown:
            instead = policies_instead(place, policy)
            click.echo(f"\nNothing is kept of {', '.join(map(printable, unknown))} in {policy}.{instead}")
    return FINE if decision else REFUSED


def _print(decision: Decision, hit: bool) -> None:
    click.echo(_sentence(decision, hit) + "\n")
    left = "left afterwards" if decision and decision.cost else "left"
    columns = ("identifier", "limit", "allowed", left, "retry after", "unused again after")
    print_rows(columns, map(_row, decision.details), texts=2)


def _sentence(decision: Decision, hit: bool) -> str:
    if decision:
        return "The call passed and was charged." if hit and decision.cost else "The call would pass."
    if decision.status == "never":
        return "Refused for ever: the call costs more than a limit can grant."
    reason = "the identifier is locked" if decision.status == "locked" else f"over {decision.limit}"
    return f"Refused, {reason}: it would pass in {span(decision.retry_after * 1e6)}."


def _of_bounds(limiter: Limiter) -> Iterator[str]:
    """Say what processes with the options of the URL decide without asking, and what they bring back."""
    found, remember = bounds(limiter), limiter.store._shown.get("remember", 0)
    if limiter.store._longest_lease > 0:
        leased = f"Nothing is leased: {found.reason}" if found.reason else _OF_LEASES.format(found.lease)
        yield f"{leased}."
    if found.stale > 0:
        yield f"With these options, a process notices what others do within {found.stale:g} s."
    if remember > 0:
        yield f"What the server loses, a process brings back as it was told of it within {remember:g} s."


_OF_LEASES = (
    "A process leases for {:g} s at the longest; units leased by running processes count as used here"
)


def _bounds_told(limiter: Limiter) -> dict[str, Any]:
    """Return the bounds, without what only a running process knows."""
    return {name: value for name, value in bounds(limiter)._asdict().items() if name != "held"}


def _row(detail: Detail) -> tuple[object, ...]:
    return (
        detail.identifier,
        detail.limit,
        "yes" if detail.allowed else "no",
        f"{detail.remaining:,}",
        span(detail.retry_after * 1e6),
        span(detail.reset_after * 1e6),
    )


def _told(decision: Decision, hit: bool) -> dict[str, Any]:
    return {
        "status": decision.status,
        "charged": bool(hit and decision and decision.cost),
        **_told_of(decision),
        "details": [_told_of(each) for each in decision.details],
    }


def _told_of(answer: Decision | Detail) -> dict[str, Any]:
    return {
        "identifier": _text(answer.identifier),
        "limit": str(answer.limit),
        **{name: getattr(answer, name) for name in ("allowed", "remaining", "retry_after", "reset_after")},
    }


def _text(identifier: str | bytes | None) -> str | None:
    return identifier.decode("utf-8", "backslashreplace") if isinstance(identifier, bytes) else identifier
