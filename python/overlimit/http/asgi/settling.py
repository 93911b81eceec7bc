"""``settle`` and ``refund`` of an ASGI request: coroutines await them, and functions in threads wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from overlimit.http.deciding import settling
from overlimit.http.deciding.settling import check_thread


def settle(scope: Mapping[str, Any], used: int) -> None:
    """Settle a request as `asettle` does, in a function that runs in a thread."""
    check_thread("asettle(scope, used)")
    settling.settle(settling.ledgers_in(scope), used)


async def asettle(scope: Mapping[str, Any], used: int) -> None:
    """Make a request cost what it used, as ``RateLimit.settle`` does, by its scope.

    Also once its stream has ended. Raises RuntimeError, too, if no middleware has seen the request.
    """
    await settling.asettle(settling.ledgers_in(scope), used)


def refund(scope: Mapping[str, Any]) -> None:
    """Refund a request as `arefund` does, in a function that runs in a thread."""
    check_thread("arefund(scope)")
    settling.refund(settling.ledgers_in(scope))


async def arefund(scope: Mapping[str, Any]) -> None:
    """Give back what a request was charged, once, unless it is settled; raise as `asettle` does."""
    await settling.arefund(settling.ledgers_in(scope))
