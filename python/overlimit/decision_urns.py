"""A refusal in less than 60 bytes, for a person to pass on: ``urn:overlimit:1:...``, which names nobody.

Numbers are to the base 36, so that a URN that somebody types from a screenshot may be in capitals.
"""

from __future__ import annotations

import hashlib
import math
import re
from datetime import UTC, datetime
from typing import NamedTuple

from overlimit._core import Decision
from overlimit._messages.texts import short_repr

_LONGEST = 59
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_NEVER = "-"
_STATUSES = {"o": "over", "l": "locked", "n": "never"}
_SOURCES = {"s": "store", "l": "local", "e": "error", "p": "lease", "r": "refusal"}
_FORM = re.compile(
    r"urn:overlimit:1:(?P<policy>[0-9a-z]{5}):(?P<quota>[0-9a-z]{1,7})-(?P<window>[0-9a-z]{1,6})"
    r":(?P<at>[0-9a-z]{1,6}):(?P<left>[0-9a-z]{1,7}):(?P<retry>-|[0-9a-z]{1,5})(?P<status>[oln])"
    r"(?P<source>[slepr])(?::(?P<name>[a-z0-9_.:-]+))?"
)


class Refusal(NamedTuple):
    """What a URN says of a refused call."""

    policy: str
    """The hash of the policy's name, see `hash_of`."""
    quota: int
    window: int
    """In whole seconds; 0: the quota is of what there may be at once."""
    time: int
    """In seconds since the Unix epoch."""
    remaining: int
    retry_after: float
    status: str
    source: str
    name: str
    """How the limit is called, in lower case and as much of it as there was room for."""

    @property
    def sentence(self) -> str:
        """What it says, for people."""
        at = datetime.fromtimestamp(self.time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        called = f"the limit {self.name!r}" if self.name else "a limit"
        span = f"in {self.window:,} s" if self.window else "at once"
        again = "never passes" if self.retry_after == math.inf else f"passes after {self.retry_after:,.0f} s"
        why = " by a lock" if self.status == "locked" else ""
        return (
            f"At {at} {called} of {self.quota:,} {span} refused a request{why}: {self.remaining:,} were "
            f"left, and the same request {again}. It was decided by {_BY[self.source]}. The number of the "
            f"policy is {self.policy}."
        )


_BY = {
    "store": "the store",
    "local": "the process alone, while the store failed",
    "error": "on_error, as the store failed",
    "lease": "the process, of what it had leased from the store",
    "refusal": "the process, as the store had refused before",
}


def hash_of(policy: str | None) -> str:
    """Return by which five characters a URN knows a policy."""
    digest = hashlib.sha256((policy or "").encode()).digest()
    return _base36(int.from_bytes(digest[:8]) % 36**5, 5).rjust(5, "0")


def urn_of(decision: Decision, name: str) -> str | None:
    """Return the URN of a refusal, whose limit is called so in header fields; None if no limit refused."""
    limit = decision.limit
    if limit is None:
        return None
    policy = next((row.policy for row in decision.details if row.limit == limit and not row.allowed), None)
    window = 0 if limit._are_slots else math.ceil(limit.window)
    retry = (
        _NEVER if decision.retry_after == math.inf else _base36(max(1, math.ceil(decision.retry_after)), 5)
    )
    numbers = f"{_base36(limit.quota, 7)}-{_base36(window, 6)}:{_base36(max(0, int(decision.time)), 6)}"
    code = f"{_key(_STATUSES, decision.status)}{_key(_SOURCES, decision.source)}"
    urn = f"urn:overlimit:1:{hash_of(policy)}:{numbers}:{_base36(decision.remaining, 7)}:{retry}{code}"
    readable = re.sub(r"[^a-z0-9_.:-]+", "-", name.lower())[: max(0, _LONGEST - len(urn) - 1)]
    return f"{urn}:{readable}" if readable else urn


def read_urn(text: str) -> Refusal:
    """Return what a URN says; raise ValueError for what is none of ours."""
    found = _FORM.fullmatch(text.strip().lower())
    if found is None:
        raise ValueError(
            "this is no URN of a refusal, which looks like urn:overlimit:1:k3f9a:5-1q:thfk3w:0:1pos:login, "
            f"without anything left out: {short_repr(text)}"
        )
    retry = math.inf if found["retry"] == _NEVER else int(found["retry"], 36)
    quota, window, at, left = (int(found[part], 36) for part in ("quota", "window", "at", "left"))
    status, source = _STATUSES[found["status"]], _SOURCES[found["source"]]
    return Refusal(found["policy"], quota, window, at, left, retry, status, source, found["name"] or "")


def _key(known: dict[str, str], value: str) -> str:
    return next(key for key, each in known.items() if each == value)


def _base36(number: int, digits: int) -> str:
    """Return a number to the base 36, the largest that has so many digits if it is too large."""
    rest, text = min(number, 36**digits - 1), ""
    while rest or not text:
        rest, digit = divmod(rest, 36)
        text = _DIGITS[digit] + text
    return text
