"""Strings and tuples that describe limits.

A string is one or more phrases separated by ``;``, ``,`` or ``|``; spaces and case do not matter::

    phrase   = count ("/" | "per") [count] unit ["burst" count] ["queue" count]
    unit     = ms | s | sec | second | m | min | minute | h | hour | d | day | w | week | month | year
    count    = digits

Words of three letters and more have a plural too. A month has 30 days and a year 365. ``burst`` is the size
of a token bucket; no other algorithm has any, but the leaky bucket. That is what ``queue`` means: how many
wait, and beside them ``burst``, how many go at once. Without ``queue``, the burst of what is to be a leaky
bucket is how many wait.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NoReturn, TypeAlias

from overlimit._messages.texts import nearest, short_repr
from overlimit.errors import InvalidLimit
from overlimit.limits.leaky_bucket import LeakyBucket
from overlimit.limits.limit import Limit, Terms
from overlimit.limits.quantities import UNITS_US, Seconds, seconds
from overlimit.limits.registry import algorithm_named
from overlimit.limits.sliding_window import SlidingWindow
from overlimit.limits.token_bucket import TokenBucket

_Numbers: TypeAlias = tuple[Seconds, int] | tuple[Seconds, int, Seconds | None]

LimitLike: TypeAlias = str | Limit | _Numbers | Sequence[Seconds | None]
"""A string, a limit, or ``(duration in seconds, limit[, precision in seconds])``, a list likewise."""

# Not ``LimitLike | Sequence[LimitLike]``: of two kinds of lists, mypy does not know which a literal is to be.
LimitsLike: TypeAlias = str | Limit | _Numbers | Sequence[LimitLike | Seconds | None]
"""One or several of these; several as a list, or as the tuple of limits that ``as_limits`` returns."""

_MOST_LIMITS = 16
_MOST_DIGITS = 16  # of 2**53
_SEPARATORS = (";", ",", "|")
_DIGITS = frozenset("0123456789")
_TOKEN = re.compile(r"[0-9]+|[A-Za-z]+|\S", re.ASCII)
_DECIMAL = re.compile(
    r"([0-9]{1,9}\.[0-9]{1,6})\s*(?:/|per\b)\s*([0-9]{0,4})\s*([a-z]+)", re.ASCII | re.IGNORECASE
)
_EXCERPT = 72

_ALL_UNITS_US = {**UNITS_US, "month": 30 * UNITS_US["day"], "year": 365 * UNITS_US["day"]}
_SHORT = {"s": "second", "sec": "second", "m": "minute", "min": "minute"}
_SHORT |= {"h": "hour", "d": "day", "w": "week"}
_UNIT_US = {
    word: us
    for name, us in (_ALL_UNITS_US | {short: UNITS_US[unit] for short, unit in _SHORT.items()}).items()
    for word in ((name, f"{name}s") if len(name) > 2 else (name,))
}
_UNITS = ", ".join(_ALL_UNITS_US)
_UNITS_ELSEWHERE = {
    **dict.fromkeys(("millisecond", "milliseconds", "msec", "msecs"), "ms"),
    **dict.fromkeys(("fortnight", "fortnights"), "2 weeks"),
    **{"hr": "hour", "hrs": "hours", "wk": "week", "wks": "weeks", "mth": "month", "mths": "months"},
    **{"yr": "year", "yrs": "years"},
}
_NO_LIMIT = frozenset({"unlimited", "infinite", "infinity", "inf", "none", "off", "disabled"})
_SLIP = 0.75
"""How like a unit a word is that was meant to be it."""
_EXAMPLE = "as in '10/second; 120/minute'"
_ASK_NOBODY = "do not ask a Limiter where nothing is limited"


def parse(text: str, algorithm: str | None = None) -> list[Limit]:
    """Return the limits that ``text`` describes, in its order, e.g. ``"10/second; 100 per 5 min burst 20"``.

    ``algorithm`` is what every phrase becomes; None: a sliding window, a leaky bucket where it says
    ``queue``, or else a token bucket where it says ``burst``. Raises InvalidLimit for any other text; the
    message shows the text and the place.
    """
    if algorithm is not None:
        algorithm_named(algorithm)
    if not isinstance(text, str):
        raise InvalidLimit(f"limits must be a string such as '10/second', not {short_repr(text)}")
    return list(_Phrases(text, algorithm))


def as_limits(value: LimitsLike, algorithm: str | None = None) -> tuple[Limit, ...]:
    """Return the limits that ``value`` describes, in order.

    Parameters
    ----------
    value
        A string (see ``parse``), a limit, a tuple ``(duration, limit[, precision])`` with durations in
        seconds (or a list of these numbers, as JSON has them), or a list of any of these.
    algorithm
        What strings and tuples become; None: a sliding window, or as `parse` says where a string says
        ``burst`` or ``queue``.

    Raises
    ------
    InvalidLimit
        Nothing, more than 16 limits, or anything that is not a limit.
    """
    if algorithm is not None:
        algorithm_named(algorithm)
    parts: Iterable[object] = value if _is_several(value) else (value,)  # type: ignore[assignment]
    limits = tuple(limit for part in parts for limit in _limits_of(part, algorithm))
    if not 1 <= len(limits) <= _MOST_LIMITS:
        several = f"limits must be 1 to {_MOST_LIMITS} limits, not {len(limits)}"
        raise InvalidLimit(several if limits else f"{several}: write at least one, {_EXAMPLE}")
    return limits


def _is_several(value: object) -> bool:
    """Tell a list or a tuple of limits from ``(duration, limit)``, which begins with a number."""
    if not isinstance(value, (list, tuple)):
        return False
    return not value or (isinstance(value[0], (Limit, str, list, tuple)) and not _is_number(value[0]))


def _is_number(part: object) -> bool:
    """Whether it is the text of a number, which is meant as one."""
    try:
        return isinstance(part, str) and float(part) is not None
    except ValueError:
        return False


def _limits_of(part: object, algorithm: str | None) -> list[Limit]:
    if isinstance(part, Limit):
        return [part]
    if isinstance(part, str):
        return parse(part, algorithm)
    if isinstance(part, (list, tuple)) and len(part) in (2, 3):
        return [_limit_of_numbers(part, algorithm)]
    if isinstance(part, type) and issubclass(part, Limit):
        name = part.__name__
        raise InvalidLimit(f"pass {name}(...), not the class {name}")
    wanted = (
        "a string such as '10/second', a limit, a tuple (duration, limit[, precision]) or a list of these"
    )
    raise InvalidLimit(f"limits must be {wanted}, not {short_repr(part)}")


def _limit_of_numbers(part: Sequence[object], algorithm: str | None) -> Limit:
    kind = SlidingWindow if algorithm is None else algorithm_named(algorithm)
    per, limit, precision = part if len(part) == 3 else (*part, None)
    if precision is not None and "precision" not in kind.optional_terms:
        raise InvalidLimit(
            f"a {kind.algorithm} takes no precision: leave the third number out of {short_repr(part)}"
        )
    return kind.from_terms(Terms(limit, per, precision))  # type: ignore[arg-type]  # checked by the constructor


@dataclass(frozen=True)
class _Token:
    text: str
    at: int

    @property
    def word(self) -> str:
        return self.text.lower()


class _Phrases:
    """The limits of one text, read from left to right."""

    def __init__(self, text: str, algorithm: str | None) -> None:
        self._text = text
        self._algorithm = algorithm
        self._tokens = iter(self._tokenize())
        self._next = next(self._tokens)

    def __iter__(self) -> Iterator[Limit]:
        yield self._phrase()
        while self._next.text:
            if self._next.text not in _SEPARATORS:
                self._fail(self._after_a_limit())
            self._take()
            yield self._phrase()

    def _phrase(self) -> Limit:
        start = self._next.at
        limit = self._count()
        self._slash()
        per = seconds(self._period_us())
        terms = {"burst": (self._next.at, self._term("burst")), "queue": (self._next.at, self._term("queue"))}
        given = {name: term for name, (_, term) in terms.items() if term is not None}
        kind = self._kind(given)
        for name in given:
            if name not in kind.optional_terms:
                self._fail(f"a {kind.algorithm} takes no {name}: leave it out", terms[name][0])
        try:
            return kind.from_terms(Terms(limit, per, **given))
        except InvalidLimit as error:
            self._fail(str(error), start)

    def _kind(self, given: Collection[str]) -> type[Limit]:
        if self._algorithm is not None:
            return algorithm_named(self._algorithm)
        if "queue" in given:
            return LeakyBucket
        return TokenBucket if "burst" in given else SlidingWindow

    def _slash(self) -> None:
        if self._next.word not in ("/", "per"):
            self._fail(self._after_a_number())
        self._take()

    def _period_us(self) -> int:
        at = self._next.at
        times = self._count() if self._next.text[:1] in _DIGITS else 1
        if times == 0:
            self._fail("a period must be longer than 0", at)
        if self._next.word not in _UNIT_US:
            self._fail(self._no_unit())
        return times * _UNIT_US[self._take().word]

    def _term(self, name: str) -> int | None:
        if self._next.word != name:
            return None
        self._take()
        if self._next.text[:1] not in _DIGITS:
            self._fail(f"expected a whole number after {name!r}, as in '100/minute {name} 20'")
        return self._count()

    def _count(self) -> int:
        digits = self._next.text.lstrip("0")
        if self._next.text[:1] not in _DIGITS:
            self._fail(self._no_number())
        if len(digits) > _MOST_DIGITS:
            self._fail("the number is too large: the largest is 2**53 - 1")
        self._take()
        return int(digits or "0")

    def _after_a_limit(self) -> str:
        if self._next.word in ("and", "&", "+"):
            return f"expected ';' between two limits, {_EXAMPLE}"
        if self._next.word == "burst":
            return "'burst' comes before 'queue', as in '10/second burst 5 queue 20'"
        return f"expected 'burst' and a number, ';' and another limit, or the end, {_EXAMPLE}"

    def _after_a_number(self) -> str:
        if self._next.text == ".":
            return (
                f"a limit must be a whole number: write {self._in_whole_numbers()}, or give a TokenBucket, "
                "which takes a fractional rate"
            )
        if self._next.text in (",", "_", "'"):
            return "expected a number without separators, such as 1000"
        return "expected '/' or 'per' and a unit, as in '10/second' or '10 per 5 minutes'"

    def _in_whole_numbers(self) -> str:
        """Return how to write the decimal that was found, or another one where there is no such limit."""
        whole = self._text[: self._next.at].rstrip("0123456789")
        found = _DECIMAL.match(self._text, len(whole))
        try:
            number, times, unit = found.groups()  # type: ignore[union-attr]  # AttributeError: another text
            count, periods = Fraction(number).as_integer_ratio()
            per = seconds(periods * int(times or 1) * _UNIT_US[unit.lower()])
            return f"'{SlidingWindow(count, per)}'"
        except (AttributeError, KeyError, InvalidLimit):
            return "'3 per 2 seconds' for 1.5 a second"

    def _no_unit(self) -> str:
        word = self._next.word
        long_units = (unit for unit in _UNIT_US if len(unit) > 2)
        known = _UNITS_ELSEWHERE.get(word) or nearest(word, long_units, _SLIP)
        if known is not None:
            return f"{word!r} is not a unit: write {known!r}"
        return f"expected a unit ({_UNITS}), as in '10/second' or '10 per 5 minutes'"

    def _no_number(self) -> str:
        if not self._text.strip():
            return f"limits must not be an empty string: write at least one, {_EXAMPLE}, or {_ASK_NOBODY}"
        if self._next.word in _NO_LIMIT:
            return f"{self._next.word!r} is not a limit: {_ASK_NOBODY}, or give it a large number"
        if self._next.word in ("burst", "queue"):
            word = self._next.word
            return f"{word!r} belongs to the limit before it: leave out the ';', as in '20/minute {word} 60'"
        if self._next.text == "-":
            return "expected a whole number, 0 or more"
        return f"expected a whole number, {_EXAMPLE}"

    def _take(self) -> _Token:
        taken, self._next = self._next, next(self._tokens)
        return taken

    def _tokenize(self) -> Iterator[_Token]:
        for found in _TOKEN.finditer(self._text):
            yield _Token(found[0], found.start())
        yield _Token("", len(self._text))

    def _fail(self, message: str, at: int | None = None) -> NoReturn:
        if not self._text.strip():
            raise InvalidLimit(message)
        raise InvalidLimit(f"{message}\n{_excerpt(self._text, self._next.at if at is None else at)}")


def _excerpt(text: str, at: int) -> str:
    """Return the text, or the part around ``at``, on one line with a caret below the place."""
    first = max(0, at - _EXCERPT // 2)
    line = "".join(c if c.isprintable() else "?" for c in text[first : first + _EXCERPT])
    return f"    {line}\n    {' ' * (at - first)}^"
