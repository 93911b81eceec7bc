"""What a request cost in the end: settled or given back in the request, or after its stream has ended."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from functools import partial
from typing import Any

from overlimit._messages.texts import short_repr
from overlimit._options import whole_number
from overlimit.http.deciding.ledger import RequestLedger
from overlimit.http.deciding.steps import Steps, all_of, run, run_async

Ledgers = Iterable[RequestLedger]
"""What was decided in a request, mostly one."""

DECISION = "overlimit.decision"
"""The key of a scope or an environ under which an app finds the Decision."""

ENTRY = "overlimit.request"
"""The key under which it finds the `Entry` of the request; WSGI wants a dot where the value is no text."""


def settle(ledgers: Ledgers, used: int) -> None:
    """Make a request cost what it used under the limits that have a ``cost``: once, and never minting.

    Those without count requests, and stay as they are. Where ``deduct_when`` waits for the response, so does
    this. Raises TypeError or ValueError for what is no whole number from 0, RuntimeError if the request has
    limits of its own route and none of its limits has a ``cost``, and StoreError as ``on_error`` says.
    """
    run(_settling(ledgers, used))


async def asettle(ledgers: Ledgers, used: int) -> None:
    """Settle as `settle` does, without blocking the event loop."""
    await _to_the_end(_settling(ledgers, used))


def refund(ledgers: Ledgers) -> None:
    """Give back what all limits have charged a request, once; raise StoreError as ``on_error`` says."""
    run(_refunding(ledgers))


async def arefund(ledgers: Ledgers) -> None:
    """Refund as `refund` does, without blocking the event loop."""
    await _to_the_end(_refunding(ledgers))


async def _to_the_end(steps: Steps[None]) -> None:
    """Make the calls even if this task is cancelled, as that of a stream whose client leaves it."""
    from overlimit.aio import loops  # which loads asyncio

    await loops.to_the_end(partial(run_async, steps))


class Entry:
    """What an app finds of its request: ``settle``, ``refund``, and for coroutines ``asettle``, ``arefund``.

    They do what those of a RateLimit do, also once the stream of the request has ended.
    """

    __slots__ = ("ledger",)

    def __init__(self, ledger: RequestLedger | None) -> None:
        self.ledger = ledger

    def settle(self, used: int) -> None:
        """Make the request cost what it used."""
        check_thread("asettle(used)")
        settle(_and_before(self.ledger), used)

    async def asettle(self, used: int) -> None:
        """Settle the request without blocking the event loop."""
        await asettle(_and_before(self.ledger), used)

    def refund(self) -> None:
        """Give back what the request was charged."""
        check_thread("arefund()")
        refund(_and_before(self.ledger))

    async def arefund(self) -> None:
        """Refund the request without blocking the event loop."""
        await arefund(_and_before(self.ledger))


NOTHING = Entry(None)
"""That of a request that is not limited."""


def check_thread(awaited: str) -> None:
    """Raise RuntimeError where an event loop would be blocked; ``awaited`` is what to write there."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None and asyncio._get_running_loop() is not None:
        raise RuntimeError(f"this would block the event loop: write await {awaited}")


def keep(ledger: RequestLedger, within: MutableMapping[str, Any]) -> None:
    """Keep what was decided, for `ledgers_in`."""
    before = within.get(ENTRY)
    if before is not None and before.ledger is not None and before.ledger is not ledger:
        ledger.before = before.ledger
    within[ENTRY] = Entry(ledger)


def keep_admitted(ledger: RequestLedger, within: MutableMapping[str, Any]) -> None:
    """Keep what was decided, but the request, which leads back there, only if it is needed."""
    keep(ledger, within)
    if not ledger.may_refund:
        del ledger.identifiers.request


def ledgers_in(kept: Mapping[str, Any]) -> Iterator[RequestLedger]:
    """Return what each middleware decided of a request; raise RuntimeError if none has seen it."""
    if DECISION not in kept:
        raise RuntimeError("no RateLimitMiddleware has seen this request: it must be around the app")
    entry = kept.get(ENTRY)
    return iter(()) if entry is None else _and_before(entry.ledger)


def _and_before(ledger: RequestLedger | None) -> Iterator[RequestLedger]:
    while ledger is not None:
        yield ledger
        ledger = getattr(ledger, "before", None)


def _settling(ledgers: Ledgers, used: int) -> Steps[None]:
    units = _units(used)
    decided = [*ledgers]
    if any(each.has_own_limits for each in decided) and not any(each.has_costs for each in decided):
        raise RuntimeError(
            "nothing can be settled, as no limit of this request has a cost=: give one to the limits that "
            "count what is settled, as in limit('20000/minute', cost=500) with an estimate"
        )
    yield from all_of(each.settling(units) for each in decided)


def _refunding(ledgers: Ledgers) -> Steps[None]:
    yield from all_of(each.refunding() for each in ledgers)


def _units(used: object) -> int:
    units = whole_number(used)
    if units is None or units < 0:
        kind = TypeError if units is None else ValueError
        raise kind(f"used must be a whole number from 0, not {short_repr(used)}")
    return units
