"""``overlimit bench``: how fast a store decides, from this machine."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain

import click

from overlimit._core import Store
from overlimit.command_line.finite import FiniteRange
from overlimit.command_line.operating.endings import FINE, asks_store
from overlimit.command_line.operating.places import Place, url_argument
from overlimit.command_line.operating.tables import counted
from overlimit.command_line.operating.value_stores import forget
from overlimit.command_line.output import print_json, print_rows
from overlimit.errors import StoreError
from overlimit.leasing import bounds
from overlimit.limiter import Limiter

_SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
_AT_ONCE = 16
_GIVES_UP = 20
_COUNTED = ("asked", "leased", "refusals", "held", "returned", "lapsed")
_OF_LEASES = (
    "{asked:,} commands. {unasked:,} decisions took none: {leased:,} from leases, {refusals:,} cached "
    "refusals. Units of leases: {held:,} held, {returned:,} released, {lapsed:,} lost."
)
_EXAMPLES = """
\b
Examples:
  overlimit bench redis://localhost:6379/0
  overlimit bench env:REDIS_URL --seconds 10 --threads 8 --limits "10/second; 100/minute" --json
"""


@click.command(epilog=_EXAMPLES, short_help="Measure how fast a store decides.")
@url_argument
@click.option(
    "--seconds",
    type=FiniteRange(min=0, min_open=True),
    default=2.0,
    show_default=True,
    help="How long to measure.",
)
@click.option(
    "--threads",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="How many threads call at once.",
)
@click.option(
    "--identifiers",
    type=click.IntRange(1, 100_000),
    default=1000,
    show_default=True,
    help="How many identifiers take turns.",
)
@click.option(
    "--limits", default="100/minute", show_default=True, metavar="TEXT", help="The limits they are under."
)
@asks_store
def bench(place: Place, seconds: float, threads: int, identifiers: int, limits: str, as_json: bool) -> int:
    """Measure how long hits on the store at URL take from this machine, and how many there are in a second.

    This loads the server. The hits count in a policy of their own, whose name begins with overlimit-bench,
    and are forgotten afterwards; if the command is killed, they expire with the limits.
    """
    limiter = Limiter(limits, name=f"overlimit-bench-{secrets.token_hex(6)}", store=place.store)
    place.require()
    with _forgetting(place, limiter, [f"id:{number}" for number in range(identifiers)]) as names:
        limiter.hit(names[0])
        began = time.perf_counter()
        took = sorted(_taken(limiter, names, seconds, threads))
        rate = len(took) / (time.perf_counter() - began)
        stats = limiter.stats()
    percentiles = {name: took[min(len(took) - 1, int(share * len(took)))] for name, share in _SHARES.items()}
    percentiles["max"] = took[-1]
    if as_json:
        told = {"decisions": len(took), "per_second": rate, "seconds": percentiles}
        of_leases = {name: number for name, number in stats.items() if name in _COUNTED}
        print_json({"status": "ok", **told, **of_leases})
        return FINE
    click.echo(f"{len(took):,} decisions, {rate:,.0f} a second, by {counted(threads, 'thread')}")
    if limiter.store._longest_stale > 0:
        click.echo(_OF_LEASES.format(**stats, unasked=stats["leased"] + stats["refusals"]))
        if limiter.store._longest_lease > 0 and (reason := bounds(limiter).reason):
            click.echo(f"Nothing is leased: {reason}.")
    click.echo()
    print_rows(
        ("latency", "microseconds"), ((name, f"{value * 1e6:,.1f}") for name, value in percentiles.items())
    )
    return FINE


@contextmanager
def _forgetting(place: Place, limiter: Limiter, names: list[str]) -> Iterator[list[str]]:
    try:
        yield names
    finally:
        _forget(place.without_remember, str(limiter.name), names)


def _forget(store: Store, policy: str, names: list[str]) -> None:
    """Forget all of them, also where a node of a cluster does not answer; raise for its own in the end.

    Where nobody answers any more, it ends soon.
    """
    failed: StoreError | None = None
    in_turn = 0
    for first in range(0, len(names), _AT_ONCE):
        some = names[first : first + _AT_ONCE]
        try:
            forget(store, policy, some)
        except StoreError:
            for each in some:
                try:
                    forget(store, policy, [each])
                    in_turn = 0
                except StoreError as error:
                    failed, in_turn = error, in_turn + 1
                    if in_turn == _GIVES_UP:
                        raise
    if failed is not None:
        raise failed


def _taken(limiter: Limiter, names: list[str], seconds: float, count: int) -> list[float]:
    """Return how long each hit took, of so many threads; raise the first error.

    Whatever ends this, such as Ctrl-C, no thread hits any more afterwards.
    """
    is_over = False

    def call(first: int) -> list[float]:
        own: list[float] = []
        until, number = time.perf_counter() + seconds, first
        while not is_over and ((began := time.perf_counter()) < until or not own):
            limiter.hit(names[number % len(names)])
            own.append(time.perf_counter() - began)
            number += count
        return own

    with ThreadPoolExecutor(count) as threads:
        try:
            return list(chain.from_iterable(threads.map(call, range(count))))
        finally:
            is_over = True
