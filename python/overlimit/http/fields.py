"""What a server says of its limits, in the header fields of its responses: `parse`."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import zip_longest
from typing import Any, NamedTuple, TypeAlias

__all__ = ["HeadersLike", "ServerLimit", "ServerLimits", "parse", "seconds_to_wait"]

HeadersLike: TypeAlias = "Mapping[Any, Any] | Iterable[tuple[Any, Any]]"
"""A mapping or pairs, of str or bytes."""

ASKS_TO_WAIT = (429, 503)
_NUMBER = re.compile(r"[0-9]{1,30}(?:\.[0-9]{1,30})?")
_PIECE = {mark: re.compile(rf'(?:"(?:[^"\\]|\\.)*"?|[^"{mark}])+', re.DOTALL) for mark in ",;"}
"""What is between marks, those in quotes aside."""
_MOST_FIELDS = 16
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_LONGEST_RESET = 366 * 86400.0
"""Seconds: a larger reset is an instant, in seconds since the Unix epoch."""
_LATEST_EPOCH = 10**11
"""The year 5138: what is later is in milliseconds or microseconds."""
_GO_DURATION = re.compile(r"(?:[0-9]{1,15}(?:\.[0-9]{1,15})?(?:h|ms|m|s|us|µs|ns))+")
_GO_PART = re.compile(r"([0-9.]+)([a-zµ]+)")
_GO_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_NAMED = re.compile(
    r"x-ratelimit-(?P<what>limit|remaining|reset)-(?P<name>[a-z-]{1,64})"
    r"|anthropic-ratelimit-(?P<its_name>[a-z-]{1,64})-(?P<its_what>limit|remaining|reset)"
)
_PERIODS = {
    "second": 1.0,
    "minute": 60.0,
    "hour": 3600.0,
    "day": 86400.0,
    "week": 7 * 86400.0,
    "month": 31 * 86400.0,
    "year": 366 * 86400.0,
}
_WHATS = ("limit", "remaining", "reset")
_UNITS = frozenset({"requests", "tokens"})
_LONGEST_DATE = 100
_LONGEST_FIELD = 4096
"""Characters: a longer one is no honest server's, and takes long to read."""


class ServerLimit(NamedTuple):
    """One limit of a server; None for what the server does not say."""

    name: str | None
    quota: int | None
    """How much it grants in a window."""
    window: float | None
    """Its length in seconds."""
    remaining: int | None
    """How much is left."""
    reset_after: float | None
    """After how many seconds there is more."""
    cost: int | None = None
    """How much this request has taken."""
    unit: str | None = None
    """What is counted, by its parameter ``qu`` or its name, such as ``requests`` or ``tokens``."""

    @property
    def has_no_end(self) -> bool:
        """Whether nothing is left, and nobody knows until when."""
        return self.remaining == 0 and self.reset_after is None and self.window is None

    def _seconds_to_wait(self, unsaid: float, *, is_refusal: bool) -> float | None:
        """Return for how long it lets nobody pass; None: it lets them."""
        if self.remaining == 0:
            told = (self.reset_after, self.window, unsaid)
            return next(seconds for seconds in told if seconds is not None)
        return self.reset_after if is_refusal and self.remaining is None else None


class ServerLimits(NamedTuple):
    """What a server says of its limits."""

    retry_after: float | None
    """The seconds of ``Retry-After``, also of a date, which is in 0.0 seconds when it is past."""
    limits: tuple[ServerLimit, ...]
    """The limits that its other fields show."""

    def wait(self) -> float:
        """Return for how many seconds a client should send nothing: ``retry_after`` if it is told.

        Else it is the longest time after which a limit that has nothing left has more: its ``reset_after``,
        or its whole window where no reset is told, or a second where neither is. 0.0 if nothing asks to wait.
        """
        used_up = ServerLimits(self.retry_after, tuple(each for each in self.limits if each.remaining == 0))
        return waiting_time(used_up, is_refusal=True) or 0.0


def parse(headers: HeadersLike, *, now: float | None = None) -> ServerLimits:
    """Read what a server says of its limits; nothing that it says raises, or makes a number negative or NaN.

    The limits are those of the first kind of fields that there is: ``RateLimit`` and ``RateLimit-Policy`` of
    the IETF draft "RateLimit header fields for HTTP", or in the forms of its earlier versions, ``RateLimit:
    limit=9, remaining=4, reset=30`` and ``RateLimit-Limit``, ``-Remaining`` and ``-Reset``; else
    ``X-RateLimit-*`` or ``X-Rate-Limit-*``. Besides, there are those with names, whatever else there is:
    ``x-ratelimit-remaining-tokens`` as OpenAI has them, ``X-RateLimit-Remaining-Minute`` of Kong, and
    ``anthropic-ratelimit-tokens-remaining``. Of several fields of one name each value counts. Less than
    nothing left is 0. What is malformed is as if it were not there. A response with an ``Age`` comes from a
    cache and says nothing of now: it shows no limits, and what its ``Retry-After`` says is less its age.

    Parameters
    ----------
    headers
        The header fields of a response, names in any case: a mapping, as ``response.headers`` of httpx and
        requests, or a list of (name, value), each of them str or bytes.
    now
        The time in seconds since the Unix epoch when the response was made, from which dates count, and a
        ``Reset`` of more than a year, which is an instant in seconds, milliseconds or microseconds since the
        epoch. By default the ``Date`` of the response, or else the clock.
    """
    values = _values_of(headers)
    ages = (_number(part) or 0.0 for text in values.get("age", ()) for part in text.split(","))
    age = max(ages, default=0.0)
    if now is None:
        dates = [at for text in values.get("date", ()) if (at := _epoch_of_date(text)) is not None]
        now = dates[0] if dates else time.time() - age
    retry_after = _retry_after(values, now)
    if age > 0:
        return ServerLimits(None if retry_after is None else max(0.0, retry_after - age), ())
    return ServerLimits(retry_after, tuple(_limits(values, now)))


def seconds_to_wait(said: ServerLimits, status: int) -> float | None:
    """Return for how many seconds no request should be sent, as the transports do; None: nothing asks for it.

    Parameters
    ----------
    said
        What `parse` has read in a response.
    status
        The status code of that response. After a 429 or a 503, ``Retry-After`` counts, or else the latest
        ``reset_after`` of the limits that have nothing left or do not say what is left. After any other,
        that of the limits whose last unit it has used. Of a limit that has nothing left and tells no reset
        it is the whole window, or else a second.
    """
    return waiting_time(said, is_refusal=status in ASKS_TO_WAIT)


def waiting_time(said: ServerLimits, *, is_refusal: bool, unsaid: float = 1.0) -> float | None:
    """Return what `seconds_to_wait` does; ``unsaid`` is how long to wait where nobody says for how long."""
    if is_refusal and said.retry_after is not None:
        return said.retry_after
    waits = (each._seconds_to_wait(unsaid, is_refusal=is_refusal) for each in said.limits)
    return max((wait for wait in waits if wait is not None), default=None)


class _Item(NamedTuple):
    """A member of a list: ``"name";q=5`` or ``name=value;q=5``."""

    text: str
    is_quoted: bool
    parameters: dict[str, str]

    def said(self, *keys: str) -> str:
        """Return the text of the first of these parameters that there is."""
        return next((self.parameters[key] for key in keys if key in self.parameters), "")

    def number(self, *keys: str) -> float | None:
        """Return the number of the first of these parameters that there is."""
        return _number(self.said(*keys))


def _values_of(headers: Any) -> dict[str, list[str]]:
    """Return the values of each field, by its name in lower case."""
    values: dict[str, list[str]] = {}
    pairs = headers.items() if hasattr(headers, "items") else headers
    for pair in pairs if hasattr(pairs, "__iter__") else ():
        if isinstance(pair, list | tuple) and len(pair) == 2:
            name, value = map(_text, pair)
            of_name = values.setdefault(name.lower(), [])
            if len(value) <= _LONGEST_FIELD and len(of_name) < _MOST_FIELDS:
                of_name.append(value)
    return values


def _text(given: object) -> str:
    if isinstance(given, bytes):
        return given.decode("latin-1")
    return str(given) if isinstance(given, str | int | float) else ""


def _retry_after(values: dict[str, list[str]], now: float) -> float | None:
    millis = [ms / 1e3 for text in values.get("retry-after-ms", ()) if (ms := _number(text)) is not None]
    if millis:
        return max(millis)
    return max((s for text in values.get("retry-after", ()) for s in _seconds_of(text, now)), default=None)


def _seconds_of(text: str, now: float) -> list[float]:
    """Return the seconds in a Retry-After: of a date, or of numbers that were joined by commas."""
    numbers = [seconds for part in text.split(",") if (seconds := _number(part)) is not None]
    date = None if numbers else _epoch_of_date(text)
    return numbers if date is None else [max(0.0, date - now)]


def _epoch_of_date(text: str) -> float | None:
    try:
        date = parsedate_to_datetime(text[:_LONGEST_DATE])
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _limits(values: dict[str, list[str]], now: float) -> list[ServerLimit]:
    policies = _items(values, "ratelimit-policy")
    limits = (
        _draft_limits(_items(values, "ratelimit"), policies, now)
        or _separate_limits(values, "ratelimit-", policies, now)
        or _separate_limits(values, "x-ratelimit-", policies, now)
        or _separate_limits(values, "x-rate-limit-", policies, now)
        or [_named_limit(policy.text, None, policy) for policy in policies if "q" in policy.parameters]
    )
    found = _with_periods(limits, _named_limits(values, now))
    return [limit for limit in found if any(value is not None for value in limit[1:6])]


def _with_periods(limits: list[ServerLimit], named: list[ServerLimit]) -> Iterator[ServerLimit]:
    """Yield all limits; one without a name shows once more, and with its reset, one that a period names.

    That is how Kong has them: ``X-RateLimit-Remaining-Minute`` says no reset, and ``RateLimit-Reset`` no
    period.
    """
    resets = {each.remaining: each.reset_after for each in limits if each.name is None}
    windows = {each.quota: each.window for each in named if each.name in _PERIODS}
    for each in limits:
        is_one = each.name is None and each.window is None and each.quota is not None
        yield each._replace(window=windows.get(each.quota)) if is_one else each
    for each in named:
        is_one = each.name in _PERIODS and each.reset_after is None and each.remaining is not None
        yield each._replace(reset_after=resets.get(each.remaining)) if is_one else each


def _named_limits(values: dict[str, list[str]], now: float) -> list[ServerLimit]:
    """Read fields whose names name a limit, as ``x-ratelimit-remaining-tokens`` does."""
    found: dict[str, dict[str, str]] = {}
    for field, texts in values.items():
        match = _NAMED.fullmatch(field)
        if match is not None and texts:
            name, what = match["name"] or match["its_name"], match["what"] or match["its_what"]
            found.setdefault(name, {})[what] = texts[-1]
    return [_plain_limit(said, now, name) for name, said in found.items()]


def _plain_limit(said: Mapping[str, str | None], now: float, name: str | None = None) -> ServerLimit:
    """Read a limit whose ``limit``, ``remaining`` and ``reset`` are said each by itself."""
    words, quota = (name or "").split("-"), said.get("limit")
    return ServerLimit(
        name,
        _whole(_number(quota)),
        next((_PERIODS[word] for word in reversed(words) if word in _PERIODS), None),
        _left(said.get("remaining"), quota),
        _reset_after(said.get("reset"), now),
        unit=_unit_of(name),
    )


def _draft_limits(items: list[_Item], policies: list[_Item], now: float) -> list[ServerLimit]:
    """Read ``RateLimit``: a list of named limits, or the dictionary that it once was."""
    pairs = dict(_pair(item.text) for item in items if not item.is_quoted and "=" in item.text)
    if pairs:
        only = _plain_limit(pairs, now)
        return [only._replace(window=_windows(policies).get(only.quota))]
    by_name = {policy.text: policy for policy in reversed(policies)}
    shown = [item for item in items if {"r", "t", "a", "w"} & item.parameters.keys()]
    limits = [_named_limit(item.text, item, by_name.get(item.text)) for item in shown]
    others = by_name.keys() - {item.text for item in shown} if shown else ()
    return limits + [_named_limit(name, None, by_name[name]) for name in sorted(others)]


def _named_limit(name: str, item: _Item | None, policy: _Item | None) -> ServerLimit:
    """Read an item: what is left and for how long are ``r`` and ``t``, in later drafts ``a`` and ``w``."""
    policy, item = policy or _Item(name, True, {}), item or _Item(name, True, {})
    return ServerLimit(
        name,
        _whole(policy.number("q")),
        policy.number("w"),
        _left(item.said("r", "a")),
        item.number("t", "w"),
        _whole(item.number("c")),
        policy.said("qu").strip('"').lower() or _unit_of(name),
    )


def _separate_limits(
    values: dict[str, list[str]], prefix: str, policies: list[_Item], now: float
) -> list[ServerLimit]:
    """Read fields for the quota, what remains and the reset.

    Of several values those in the same place belong together. A quota with a window, as the second of ``100,
    100;w=60``, says which window that of the same number has.
    """
    given = _items(values, f"{prefix}limit")
    quotas = [item for item in given if "w" not in item.parameters] or given
    remaining, resets = _items(values, f"{prefix}remaining"), _items(values, f"{prefix}reset")
    windows = _windows([*given, *policies])
    limits = []
    for row in zip_longest(quotas, remaining, resets):
        said = {what: item and item.text for what, item in zip(_WHATS, row, strict=True)}
        shown = _plain_limit(said, now)
        limits.append(shown._replace(window=windows.get(shown.quota)))
    return limits


def _windows(policies: list[_Item]) -> dict[int | None, float | None]:
    """Return the windows of policies without names, as of ``100;w=60``, by their quotas."""
    return {
        _whole(_number(each.text)): each.number("w") for each in reversed(policies) if "w" in each.parameters
    }


def _items(values: dict[str, list[str]], name: str) -> list[_Item]:
    """Return the members of all fields of one name, read as lists of structured fields (RFC 9651)."""
    members = _PIECE[","].findall(",".join(values.get(name, ())))
    return [_item(*_PIECE[";"].findall(member)) for member in members if member.strip(" \t;")]


def _item(text: str, *parameters: str) -> _Item:
    text = text.strip()
    is_quoted = text.startswith('"')
    if is_quoted:
        text = _ESCAPE.sub(r"\1", text[1:-1] if len(text) > 1 and text.endswith('"') else text[1:])
    return _Item(text, is_quoted, dict(map(_pair, parameters)))


def _pair(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    return key.strip().lower(), value.strip()


def _reset_after(text: str | None, now: float) -> float | None:
    """Return the seconds until a reset, which is in seconds, a duration such as ``1m30s``, or an instant."""
    seconds = _number(text)
    if seconds is None:
        return _seconds_in(text or "", now)
    if seconds <= _LONGEST_RESET:
        return seconds
    while seconds > _LATEST_EPOCH:
        seconds /= 1000
    return max(0.0, seconds - now)


def _seconds_in(text: str, now: float) -> float | None:
    """Read a duration as Go writes it, or an instant of RFC 3339."""
    text = text.strip()
    if _GO_DURATION.fullmatch(text):
        return sum(float(number) * _GO_UNITS[unit] for number, unit in _GO_PART.findall(text))
    try:
        instant = text.upper()  # as T and Z may be small letters
        at = datetime.fromisoformat(instant) if "T" in instant[:_LONGEST_DATE] else None
        return None if at is None or at.tzinfo is None else max(0.0, at.timestamp() - now)
    except (ValueError, OverflowError):
        return None


def _number(text: str | None) -> float | None:
    """Return a number that is not negative; None for all else."""
    match = _NUMBER.fullmatch((text or "").strip())
    return None if match is None else float(match[0])


def _left(text: str | None, quota: str | None = None) -> int | None:
    """Return how much is left: 0 where it is less, but of a negative quota, which says that there is none."""
    text = (text or "").strip()
    if text.startswith("-") and not (quota or "").strip().startswith("-"):
        return None if _number(text[1:]) is None else 0
    return _whole(_number(text))


def _unit_of(name: str | None) -> str | None:
    """Return what a limit counts, if its name says it."""
    return next((word for word in re.split("[^a-z]+", (name or "").lower()) if word in _UNITS), None)


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)
