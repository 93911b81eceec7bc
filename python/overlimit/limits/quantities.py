"""What a caller may write for a count, a duration or a rate, turned into exact whole numbers.

No step is floating point: a float stands for its shortest decimal form, so 0.1 seconds are 100,000
microseconds and a rate of 0.29 is 29/100.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

from overlimit._messages.texts import short_repr
from overlimit._options import whole_number
from overlimit.errors import InvalidLimit

Rate: TypeAlias = int | float | Fraction | Decimal
Seconds: TypeAlias = Rate | timedelta

MOST = 2**53 - 1
"""The largest count: beyond it a double, and so Lua, would round."""

LONGEST_US = 2**49
"""The longest period in microseconds, about 17.8 years: now plus a few periods stays exact in a double."""

UNITS_US = {
    "ms": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
"""How long each unit is that is always as long, in microseconds."""

_MICROSECOND = timedelta(microseconds=1)
_DECIMAL_DIGITS = 400  # an exponent beyond any float; expanding a larger one could take all memory


def count(value: object, argument: str, most: int = MOST) -> int:
    """Return ``value`` as a whole number from 0 to ``most``; else raise InvalidLimit naming ``argument``."""
    number = whole_number(value)
    if number is None or not 0 <= number <= most:
        bound = "2**53 - 1" if most == MOST else most
        raise InvalidLimit(f"{argument} must be a whole number from 0 to {bound}, {_not(value)}")
    return number


def micros(value: object, argument: str) -> int:
    """Return ``value`` seconds in microseconds, 1 to ``LONGEST_US``, rounded; else raise InvalidLimit."""
    if isinstance(value, str):
        raise InvalidLimit(_no_text(value, argument))
    if isinstance(value, timedelta):
        us = value // _MICROSECOND
    else:
        us = round(_exact(value, argument, "a number of seconds or a timedelta") * 1_000_000)
    if us < 1:
        raise InvalidLimit(f"{argument} must be at least one microsecond, not {short_repr(value)}")
    if us > LONGEST_US:
        raise InvalidLimit(
            f"{argument} must be at most 2**49 microseconds (562949953.421312 s), not {short_repr(value)}"
        )
    return us


def _no_text(value: str, argument: str) -> str:
    wrong = f"{argument} must be a number of seconds or a timedelta, such as 60 or timedelta(minutes=1)"
    units = ("second", "minute", "hour", "day", "week", "month")
    calendar = f'; for a calendar\'s {value}s write FixedWindow(limit, "{value}", start="calendar")'
    return f"{wrong}, {_not(value)}{calendar if value in units and argument == 'per' else ''}"


def _not(value: object) -> str:
    """Say what was given in the place of a number, and what to write for the text of one."""
    if isinstance(value, str) and value.strip().isdecimal():
        return f"not the text {short_repr(value)}: write {short_repr(int(value))}"
    return f"not {short_repr(value)}"


def rate_per_period(value: object, argument: str) -> Fraction:
    """Return ``value``, tokens per period, as an exact fraction >= 0; else raise InvalidLimit."""
    rate = _exact(value, argument, "a number")
    if rate < 0:
        raise InvalidLimit(f"{argument} must be a number from 0, not {short_repr(value)}")
    return rate


def share_of_all(value: object, argument: str) -> Fraction:
    """Return ``value``, a share above 0 and up to 1, as an exact fraction; else raise InvalidLimit."""
    share = _exact(value, argument, "a number above 0 and at most 1")
    if not 0 < share <= 1:
        raise InvalidLimit(f"{argument} must be a number above 0 and at most 1, not {short_repr(value)}")
    return share


def portion(number: int, share: Fraction) -> int:
    """Return a share of a whole number, rounded down; of one that is not 0 at least 1."""
    return max(number * share.numerator // share.denominator, min(number, 1))


def seconds(us: int) -> float:
    """Return microseconds as seconds: an int when they are whole, else a float that rounds back to ``us``."""
    whole, rest = divmod(us, 1_000_000)
    return us / 1e6 if rest else whole


def duration_label(us: int) -> str:
    """Return microseconds as a plain decimal of seconds, e.g. ``60s`` or ``0.5s``."""
    return f"{us / 1e6:.6f}".rstrip("0").rstrip(".") + "s"


def duration_words(us: int) -> str:
    """Return microseconds for people, e.g. ``1 minute``, ``90 seconds``, ``250 ms`` or ``0.0005 seconds``."""
    for word, length in reversed(UNITS_US.items()):
        if us % length == 0:
            times = us // length
            return f"{times} {word}" if times == 1 or word == "ms" else f"{times} {word}s"
    return f"{us // 1_000_000}.{us % 1_000_000:06}".rstrip("0") + " seconds"


def neat(number: Fraction) -> int | float | Fraction:
    """Return the plainest number that reads back as exactly ``number``."""
    if number.denominator == 1:
        return number.numerator
    try:
        short = float(number)
    except OverflowError:
        return number
    return short if Fraction(repr(short)) == number else number


def _exact(value: object, argument: str, wanted: str) -> Fraction:
    if isinstance(value, (float, Decimal)):
        return _exact_finite(value, argument, wanted)
    if isinstance(value, Fraction):
        return value
    whole = whole_number(value)
    if whole is None:
        raise InvalidLimit(f"{argument} must be {wanted}, not {short_repr(value)}")
    return Fraction(whole)


def _exact_finite(value: float | Decimal, argument: str, wanted: str) -> Fraction:
    number = value if isinstance(value, Decimal) else Decimal(float.__repr__(value))
    if not number.is_finite():
        raise InvalidLimit(f"{argument} must be {wanted}, not {short_repr(value)}")
    if number and abs(number.adjusted()) > _DECIMAL_DIGITS:
        raise InvalidLimit(f"{argument} is out of range: {short_repr(value)}")
    return Fraction(number)
