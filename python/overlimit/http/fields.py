"""Response fields of the IETF draft "RateLimit header fields for HTTP", as structured fields (RFC 9651).

``RateLimit-Policy: "name";q=120;w=60`` says what holds, ``RateLimit: "name";r=119;t=60`` what is left of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from email.utils import parsedate_to_datetime
from typing import NamedTuple, Protocol

__all__ = [
    "POLICY",
    "RATE",
    "RETRY_AFTER",
    "Item",
    "given_seconds",
    "policy_field",
    "retry_after_seconds",
]

POLICY = "RateLimit-Policy"
RATE = "RateLimit"
RETRY_AFTER = "Retry-After"

_LARGEST_INTEGER = 999_999_999_999_999  # RFC 9651, section 3.3.1: at most 15 digits


class Item(NamedTuple):
    """One limit as it is shown: its name within the header, its quota and its window in seconds."""

    name: str
    quota: int
    window: float

    @property
    def key(self) -> str:
        """The name as a structured string."""
        escaped = self.name.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'


class Refusal(Protocol):
    """The one thing Retry-After needs of a decision."""

    @property
    def retry_after(self) -> float:
        """Seconds until the same request can pass; infinite for never."""


def policy_field(items: Iterable[Item]) -> str:
    """Format the value of ``RateLimit-Policy``."""
    return ", ".join(
        f"{item.key};q={min(item.quota, _LARGEST_INTEGER)};w={math.ceil(item.window)}" for item in items
    )


def retry_after_seconds(decision: Refusal) -> int | None:
    """Return a refusal's Retry-After: seconds rounded up, at least 1; None when waiting cannot help."""
    seconds = decision.retry_after
    return None if seconds == math.inf else max(1, math.ceil(seconds))


def given_seconds(retry_after: str | None, now: float) -> float | None:
    """Return what a Retry-After of the application says: seconds, or a date, seen from ``now``.

    None when there is none or it says nothing (RFC 9110, section 10.2.3); ``now`` is in seconds since the
    epoch.
    """
    if retry_after is None:
        return None
    if retry_after.strip().isdecimal():
        return float(retry_after)
    try:
        return parsedate_to_datetime(retry_after).timestamp() - now
    except ValueError:
        return None
