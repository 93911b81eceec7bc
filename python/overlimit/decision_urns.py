"""A refusal in mostly less than 60 bytes, for a person to pass on: ``urn:overlimit:1:...``, naming nobody.

Numbers are to the base 36, so that a URN that somebody types from a screenshot may be in capitals. The mark
between the quota and the window says in what the window and the wait are: seconds, or if the window is none
of whole ones, milliseconds or microseconds. No number is cut, so that the URN of a limit of more digits than
usual is longer.
"""

from __future__ import annotations

import hashlib
import math
import re
from datetime import UTC, datetime
from typing import NamedTuple

from overlimit._core import Decision
from overlimit._messages.texts import short_repr
from overlimit.waiting.sleeping import micros_of

_LONGEST = 59
_NEVER = "-"
_STATUSES = ("over", "locked", "never")
_SOURCES = ("store", "local", "error", "lease", "refusal")
_FORM = re.compile(
    r"urn:overlimit:1:([0-9a-z]{5}):([0-9a-z]{1,11})([-_.])([0-9a-z]{1,11}):([0-9a-z]{1,7})"
    r":([0-9a-z]{1,11}):(-|[0-9a-z]{1,11})([0-2])([0-4])(?::([a-z0-9_.:-]+))?"
)
_UNITS = {"-": 1_000_000, "_": 1_000, ".": 1}
"""Microseconds in what a window is told in, by the mark before it."""


class Refusal(NamedTuple):
    """What a URN says of a refused call."""

    policy: str
    """The number of the policy: `number_of` its name."""
    quota: int
    window: float
    """In seconds; 0: the quota is of what there may be at once."""
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
        again = "never passes" if self.retry_after == math.inf else f"passes after {self.retry_after:,} s"
        return (
            f"At {at} {called} of {self.quota:,} {span} refused a request (status {self.status!r}, source "
            f"{self.source!r}): {self.remaining:,} were left, and the same request {again}. The number of "
            f"the policy is {self.policy}."
        )


def number_of(policy: str | None) -> str:
    """Return by which five characters a URN knows a policy."""
    digest = hashlib.sha256((policy or "").encode()).digest()
    return _base36(int.from_bytes(digest[:8]) % 36**5).rjust(5, "0")


def urn_of(decision: Decision, name: str) -> str | None:
    """Return the URN of a refusal, whose limit is called so in header fields; None if no limit refused."""
    limit = decision.limit
    if limit is None or decision:  # an app may raise a refusal with any decision
        return None
    policy = next((row.policy for row in decision.details if row.limit == limit and not row.allowed), None)
    window = 0 if limit._are_slots else micros_of(limit.window)
    wait = micros_of(decision.retry_after)
    mark, unit = next((mark, unit) for mark, unit in _UNITS.items() if window % unit == 0)
    numbers = (limit.quota, window // unit, max(0, int(decision.time)), decision.remaining)
    quota, width, at, left = map(_base36, numbers)
    retry = _NEVER if decision.retry_after == math.inf else _base36(max(1, -(-wait // unit)))
    code = f"{_STATUSES.index(decision.status)}{_SOURCES.index(decision.source)}"
    urn = f"urn:overlimit:1:{number_of(policy)}:{quota}{mark}{width}:{at}:{left}:{retry}{code}"
    readable = re.sub(r"[^a-z0-9_.:-]+", "-", name.lower())[: max(0, _LONGEST - len(urn) - 1)]
    return f"{urn}:{readable}" if readable else urn


def read_urn(text: str) -> Refusal:
    """Return what a URN says; raise ValueError for what is none of ours."""
    found = _FORM.fullmatch(text.strip().lower())
    if found is None:
        raise ValueError(
            "this is no URN of a refusal, which looks like urn:overlimit:1:k3f9a:5-1q:thfk3w:0:1p00:login, "
            f"without anything left out: {short_repr(text)}"
        )
    policy, quota, mark, window, at, left, retry, status, source, name = found.groups()
    span, wait = (_seconds(each, _UNITS[mark]) for each in (window, retry))
    of = _STATUSES[int(status)], _SOURCES[int(source)]
    return Refusal(policy, int(quota, 36), span, int(at, 36), int(left, 36), wait, *of, name or "")


def _seconds(text: str, unit: int) -> float:
    if text == _NEVER:
        return math.inf
    micros = int(text, 36) * unit
    return micros / 1e6 if micros % 1_000_000 else micros // 1_000_000


def _base36(number: int) -> str:
    """Return a number to the base 36."""
    rest, text = number, ""
    while rest or not text:
        rest, digit = divmod(rest, 36)
        text = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + text
    return text
