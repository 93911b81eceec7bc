"""``settle`` and ``refund``: what a request of Django cost in the end."""

from __future__ import annotations

from typing import Any

from django.utils.asyncio import async_unsafe

from overlimit.django.ledger import Ledger
from overlimit.django.request import http_request
from overlimit.http.deciding import settling


def settle(request: Any, used: int) -> None:
    """Make a request cost what it used, as ``RateLimit.settle`` does, also after its stream.

    ``request`` is Django's or that of REST framework. In a coroutine, await `asettle`: this would block the
    event loop, and raises SynchronousOnlyOperation.
    """
    _settle(_ledgers(request), used)


async def asettle(request: Any, used: int) -> None:
    """Settle a request as `settle` does, without blocking the event loop."""
    await settling.asettle(_ledgers(request), used)


def refund(request: Any) -> None:
    """Give back what a request was charged, once, unless it is settled; raise as `settle` does."""
    _refund(_ledgers(request))


async def arefund(request: Any) -> None:
    """Refund a request as `refund` does, without blocking the event loop."""
    await settling.arefund(_ledgers(request))


_settle = async_unsafe("This would block the event loop: write await asettle(request, used)")(settling.settle)
_refund = async_unsafe("This would block the event loop: write await arefund(request)")(settling.refund)


def _ledgers(given: Any) -> tuple[Ledger, ...]:
    request = http_request(given)
    if request is None:
        raise TypeError(f"settle and refund take the request that the view is given, not {given!r}")
    ledger = Ledger.known(request)
    return () if ledger is None else (ledger,)
