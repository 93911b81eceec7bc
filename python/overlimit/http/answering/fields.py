"""The header fields of a response.

Those of the IETF draft "RateLimit header fields for HTTP" are structured fields (RFC 9651):
``RateLimit-Policy: "name";q=120;w=60`` shows the limits, ``RateLimit: "name";r=119;t=60`` what is left.

The ``X-RateLimit-*`` fields, common before the draft, are not defined by any document. Here they show the one
limit that binds: its quota, what is left of it, and the second of the Unix epoch in which that changes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from overlimit import _core
from overlimit._core import Decision

RawFields: TypeAlias = tuple[tuple[bytes, bytes], ...]
"""Header fields as ASGI has them, by their names in lower case."""

POLICY = "RateLimit-Policy"
RATE = "RateLimit"
RETRY_AFTER = "Retry-After"

_STRING = r'"((?:[^"\\]|\\.)*)"'
_NAME = re.compile(rf"(?:=\s*{_STRING})|{_STRING}")  # the second, as the first is of a parameter
_STATE = re.compile(r'("(?:[^"\\]|\\.)*");r=([0-9]+);t=([0-9]+)')
_WHOLE = re.compile(r"[0-9]{1,15}")
_MOST_NAMES = 256
_SECOND_US = 1_000_000
LARGEST_INTEGER = 999_999_999_999_999  # RFC 9651, section 3.3.1: at most 15 digits


class HeaderNames(NamedTuple):
    """The names of the ``X-RateLimit-*`` fields and of ``Retry-After``."""

    limit: str = "X-RateLimit-Limit"
    remaining: str = "X-RateLimit-Remaining"
    reset: str = "X-RateLimit-Reset"
    retry_after: str = "Retry-After"


class Item(NamedTuple):
    """One limit in the header: its name there, its quota and its window in seconds.

    Without a window the quota is how many there may be at once.
    """

    name: str
    quota: int
    window: float | None
    refills: bool = False
    """Whether it is a bucket, which is full again long before what is left in it could have come anew."""

    def paced(self, remaining: int, seconds: int) -> int:
        """Return a reset that promises no more than the rate of a bucket: what is left, spread until then."""
        if not self.refills or not self.window:
            return seconds
        return max(seconds, -(-remaining * math.ceil(self.window) // self.quota))

    @property
    def key(self) -> str:
        """The name as a structured string."""
        escaped = self.name.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'


def policy_field(items: Iterable[Item]) -> str:
    """Format the value of ``RateLimit-Policy``."""
    return ", ".join(f"{item.key};q={min(item.quota, LARGEST_INTEGER)};{_span(item)}" for item in items)


def paced(states: str, buckets: Mapping[str, Item]) -> str:
    """Return the value of ``RateLimit`` with resets as `Item.paced` says; ``buckets`` are by their keys."""

    def later(found: re.Match[str]) -> str:
        key, left, seconds = found.groups()
        item = buckets.get(key)
        return found[0] if item is None else f"{key};r={left};t={item.paced(int(left), int(seconds))}"

    return _STATE.sub(later, states)


def _span(item: Item) -> str:
    return 'qu="concurrent-requests"' if item.window is None else f"w={math.ceil(item.window)}"


def retry_after_seconds(decision: Decision) -> int | None:
    """Return the Retry-After of a refusal in whole seconds, at least 1; None if waiting cannot help."""
    seconds = decision.retry_after
    return None if seconds == math.inf else max(1, math.ceil(seconds))


def given_seconds(retry_after: str | None, now: float) -> float | None:
    """Return the seconds in a Retry-After, also of a date; None if malformed (RFC 9110, section 10.2.3)."""
    if retry_after is None:
        return None
    if retry_after.strip().isdecimal():
        return float(retry_after)
    try:
        return parsedate_to_datetime(retry_after).timestamp() - now
    except ValueError:
        return None


_USUAL_NAMES = HeaderNames()


def legacy_fields(decision: Decision, names: HeaderNames = _USUAL_NAMES) -> list[tuple[str, str]]:
    """Return the ``X-RateLimit-*`` fields, as (name, value); none if no store answered.

    Reset is in seconds since the Unix epoch, rounded up: after a refusal the time when the same request
    passes, else when the limit is as if never used. It is absent if waiting cannot help. ``Retry-After`` is
    not among them, because every refusal has it, whatever fields are sent.
    """
    if decision.limit is None:
        return []
    fields = [(names.limit, str(decision.limit.quota)), (names.remaining, str(decision.remaining))]
    seconds = decision.reset_after if decision.allowed else decision.retry_after
    if decision.remaining and decision.limit._refills:
        seconds = max(seconds, decision.remaining * decision.limit.window / decision.limit.quota)
    if seconds != math.inf:
        fields.append((names.reset, str(_epoch_second(decision.time, seconds))))
    return fields


def distinct(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names in order, with the first free number appended to each repeated one."""
    taken: dict[str, None] = {}
    for name in names:
        candidate, number = name, 1
        while candidate in taken:
            number += 1
            candidate = f"{name}-{number}"
        taken[candidate] = None
    return tuple(taken)


def shows_fields(status: int | str) -> bool:
    """Return whether a response of this status, a number or as WSGI has it, is to carry our fields.

    A redirect is of no use to who acts on the response that it leads to, and a 304 would have caches show
    them beside what they have kept for everybody (RFC 9111, section 4.3.4).
    """
    return status[:1] != "3" if isinstance(status, str) else not 300 <= status < 400


def with_ours(headers: list[tuple[str, str]], ours: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the header fields of a response with ours, made one as `beside` says where both have a name."""
    sent = list(headers)
    if _core._add_fields(sent, ours):
        return sent
    names = {name.lower() for name, _ in ours}
    theirs = [(name, value) for name, value in headers if name.lower() in names]
    return [field for field in headers if field not in theirs] + beside(ours, theirs)


def beside(ours: Iterable[tuple[str, str]], theirs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return fields of ours for a response that has ``theirs`` of the same names.

    The lists of the draft have our items behind theirs, with names that differ from theirs; what is no such
    list is replaced. Of the ``X-RateLimit-*`` fields, which show one limit, those stay that have less left.
    """
    given = _joined(theirs)
    before = {name: given[name] for name in (POLICY.lower(), RATE.lower()) if _is_list(given.get(name, ""))}
    lists = {name: value for name, value in ours if name.lower() in (POLICY.lower(), RATE.lower())}
    taken, own = names_in(before.values()), names_in(lists.values())
    names = dict(zip(own, distinct((*taken, *own))[len(taken) :], strict=True))
    fields = []
    for name, value in lists.items():
        renamed = _NAME.sub(lambda found: found[0] if found[2] is None else f'"{names[found[2]]}"', value)
        fields.append((name, ", ".join(filter(None, (before.get(name.lower()), renamed)))))
    return fields + _stricter([field for field in ours if field[0] not in lists], given)


def _is_list(value: str) -> bool:
    """Return whether it is such a list as ours, to which items can be added."""
    return value.lstrip().startswith('"')


def _joined(fields: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the values of fields by their names in lower case; several of one name make one list."""
    values: dict[str, list[str]] = {}
    for name, value in fields:
        values.setdefault(name.lower(), []).append(value)
    return {name: ", ".join(of_name) for name, of_name in values.items()}


def names_in(lists: Iterable[str]) -> tuple[str, ...]:
    """Return the names of all items in such lists, each once."""
    return tuple(dict.fromkeys(name for text in lists for _, name in _NAME.findall(text) if name))


def _stricter(ours: list[tuple[str, str]], given: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return ``X-RateLimit-*`` fields: those that were given if their limit has no more left than ours."""
    if not ours:
        return []
    (_, (name, remaining), *_) = ours
    left = given.get(name.lower(), "")
    if not _WHOLE.fullmatch(left) or int(left) > int(remaining):
        return ours
    return [(name, given[name.lower()]) for name, _ in ours if name.lower() in given]


@lru_cache(_MOST_NAMES)
def raw_name(name: str) -> bytes:
    """Return the name of a field in bytes and in lower case, as ASGI has it."""
    return name.lower().encode("ascii")


def raw(fields: Iterable[tuple[str, str]]) -> RawFields:
    """Return header fields in bytes, with their names in lower case."""
    return tuple([(raw_name(name), value.encode("latin-1")) for name, value in fields])


def _epoch_second(now: float, seconds: float) -> int:
    # In whole microseconds: a float so far from zero is not exact, and rounding up would add a second.
    return -(-(round(now * _SECOND_US) + round(seconds * _SECOND_US)) // _SECOND_US)
