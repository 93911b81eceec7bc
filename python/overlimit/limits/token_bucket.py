"""A bucket of tokens that refills at a steady rate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import ClassVar, Literal

from overlimit._messages.arguments import checks_arguments
from overlimit._messages.texts import short_repr
from overlimit.errors import InvalidLimit
from overlimit.limits.limit import Limit, Terms, set_arguments
from overlimit.limits.quantities import (
    MOST,
    Rate,
    Seconds,
    count,
    duration_label,
    duration_words,
    micros,
    neat,
    portion,
    rate_per_period,
)

_REFILLS = ("continuous", "interval")
_STARTS = ("first", "epoch")
_LONG_PART = 10_000
_WORST_RELATIVE_ERROR = Fraction(1, 10**9)


class TokenBucket(Limit):
    """At most ``burst`` at once, and ``rate`` per ``per`` seconds in the long run.

    The bucket holds ``burst`` tokens and is full at first; a call takes as many tokens as it costs. Refilled
    continuously, it admits at most ``burst + rate * t / per`` in any interval of t seconds; refilled by the
    interval, ``rate`` at the end of each. With ``debt`` a call may take more than is there, and those after
    it wait until the debt is paid.

    Sources: the token bucket of RFC 2215 (TOKEN_BUCKET_TSPEC), in whole numbers: one token is U units and the
    bucket gains R units per microsecond. R/U is exactly the rate, or the closest possible below it. Debt is
    the pre-consumption of Guava's RateLimiter.

    Parameters
    ----------
    rate
        Tokens per period (int, float, Fraction or Decimal); a float is its shortest decimal form. 0
        refuses everything and needs a burst of 0. A whole number when refilled by the interval.
    per
        The period in seconds (int, float, Fraction, Decimal or timedelta), rounded to the nearest
        microsecond.
    burst
        The size of the bucket, in cost units. Default: ``rate``; for a fractional rate, ``rate`` rounded
        down but at least 1.
    refill
        ``"continuous"``: tokens come back one by one, as time passes. ``"interval"``: ``rate`` tokens
        come back at once at the end of each period.
    debt
        How many tokens a call may take beyond those that are there, a whole number; the next call is
        admitted when none is owed. ``math.inf``: as many as whole numbers below 2**53 can count.
    start
        Where intervals start. ``"first"``: with the call that takes from a full bucket. ``"epoch"``: at
        whole multiples of ``per`` since 1970-01-01 UTC; only with ``refill="interval"``.
    name
        Names the limit's state and its label; 1 to 64 characters of ``A-Z a-z 0-9 _ . -``.

    Raises
    ------
    InvalidLimit
        An argument is of the wrong type or out of range, means nothing with this ``refill``, or the rate,
        with the burst and the debt, cannot be kept to within a billionth in numbers below 2**53; the
        message names the argument.
    """

    __slots__ = ("_debt", "_rate", "_refill")

    algorithm: ClassVar[str] = "token_bucket"
    _refills: ClassVar[bool] = True
    optional_terms: ClassVar[frozenset[str]] = frozenset({"burst"})

    _debt: float
    _rate: Fraction
    _refill: str

    @checks_arguments(synonyms={"capacity": "burst"})
    def __init__(
        self,
        rate: Rate,
        per: Seconds = 1,
        *,
        burst: int | None = None,
        refill: Literal["continuous", "interval"] = "continuous",
        debt: float = 0,
        start: Literal["first", "epoch"] = "first",
        name: str | None = None,
    ) -> None:
        tokens, period_us = rate_per_period(rate, "rate"), micros(per, "per")
        size = _default_burst(tokens) if burst is None else count(burst, "burst")
        owed = None if _is_unbounded(debt) else count(debt, "debt")
        _check_refill(refill, start)
        if tokens == 0:
            _check_nothing_to_refill(size, debt)
        if refill == "interval":
            units, gain, every_us = 1, _whole(tokens), period_us
        else:
            units, gain, every_us = *_units(tokens, period_us, size, owed or 0), 1
        most_owed = MOST // units - size if owed is None else owed
        if (size + most_owed) * units > MOST:
            raise InvalidLimit(f"debt must be below 2**53 together with the burst, not {short_repr(debt)}")
        object.__setattr__(self, "_rate", tokens)
        object.__setattr__(self, "_refill", refill)
        object.__setattr__(self, "_debt", math.inf if owed is None else owed)
        self._seal((size, period_us, units, gain, every_us, _STARTS.index(start), most_owed), name)

    @classmethod
    def from_terms(cls, terms: Terms) -> TokenBucket:
        """Build the bucket that a string or a tuple describes; the limit is the rate."""
        return cls(terms.limit, terms.per, burst=terms.burst)

    @property
    def rate(self) -> int | float | Fraction:
        """Tokens per period, as asked for."""
        return neat(self._rate)

    @property
    def burst(self) -> int:
        """The size of the bucket."""
        return self._numbers[0]

    @property
    def refill(self) -> str:
        """How tokens come back: ``"continuous"`` or ``"interval"``."""
        return self._refill

    @property
    def debt(self) -> float:
        """How many tokens a call may take beyond those that are there, as asked for."""
        return self._debt

    @property
    def start(self) -> str:
        """Where intervals start: ``"first"`` or ``"epoch"``."""
        return _STARTS[self._numbers[5]]

    @property
    def quota(self) -> int:
        """The burst; a debt is no part of it."""
        return self.burst

    @property
    def window(self) -> float:
        """Seconds in which an empty bucket becomes full, at most 2**53 microseconds; debts take longer."""
        size, _, units, gain, every_us, *_ = self._numbers
        return min(-(-size * units // gain) * every_us, MOST) / 1e6 if size else 0.0

    def _description(self) -> str:
        rate = neat(self._rate)
        plain = isinstance(rate, int) and rate <= MOST
        tokens = str(rate) if plain else f"{float(rate):.6g}".replace("+", "")
        return f"{tokens}-per-{duration_label(self._period_us)}-burst-{self.burst}"

    def _phrase(self) -> str:
        return f"{_written_rate(self._rate)} per {duration_words(self._period_us)} burst {self.burst}"

    def _scaled_arguments(self, share: Fraction) -> Mapping[str, object]:
        return {
            "rate": self._rate * share if self._refill == "continuous" else portion(int(self._rate), share),
            "burst": portion(self.burst, share),
            "debt": self._debt if _is_unbounded(self._debt) else portion(int(self._debt), share),
        }

    def _arguments(self) -> tuple[tuple[object, ...], Mapping[str, object]]:
        burst = _default_burst(self._rate) if self._rate <= MOST else None
        defaults = {"burst": burst, "refill": "continuous", "debt": 0, "start": "first"}
        return (self.rate,), {"per": self.per, **set_arguments(self, defaults)}

    def _identity(self) -> tuple[object, ...]:
        return *super()._identity(), self._refill, self._rate, self._debt


def _written_rate(rate: Fraction) -> str:
    """Return a rate for people, a long fraction to six digits."""
    number = neat(rate)
    if not isinstance(number, Fraction) or max(number.numerator, number.denominator) < _LONG_PART:
        return str(number)
    return f"about {float(number):.6g}"


def _default_burst(rate: Fraction) -> int:
    whole = rate.numerator // rate.denominator
    return count(whole if rate.denominator == 1 else max(1, whole), "burst (by default the rate)")


def _is_unbounded(debt: object) -> bool:
    return isinstance(debt, float) and debt == math.inf


def _check_refill(refill: object, start: object) -> None:
    if not isinstance(refill, str) or refill not in _REFILLS:
        raise InvalidLimit(f"refill must be 'continuous' or 'interval', not {short_repr(refill)}")
    if not isinstance(start, str) or start not in _STARTS:
        raise InvalidLimit(f"start must be 'first' or 'epoch', not {short_repr(start)}")
    if start == "epoch" and refill == "continuous":
        raise InvalidLimit("start='epoch' is for refill='interval': a continuous refill has no intervals")


def _check_nothing_to_refill(burst: int, debt: object) -> None:
    if burst:
        raise InvalidLimit(f"rate must be above 0 for a burst of {burst}: an empty bucket never refills")
    if debt:
        raise InvalidLimit(f"debt must be 0 at a rate of 0, which never pays it, not {short_repr(debt)}")


def _whole(rate: Fraction) -> int:
    if rate.denominator != 1 or rate > MOST:
        raise InvalidLimit(
            "rate must be a whole number from 0 to 2**53 - 1 with refill='interval', "
            f"not {short_repr(neat(rate))}"
        )
    return rate.numerator


def _units(rate: Fraction, period_us: int, burst: int, debt: int) -> tuple[int, int]:
    """Return (units per token, refill in units per microsecond): these, burst and debt stay below 2**53."""
    if rate == 0:
        return 1, 0
    kept = _closest(rate / period_us, burst + debt)
    if kept is not None:
        return kept.denominator, kept.numerator
    wrong = f"rate={short_repr(neat(rate))} cannot be kept to a billionth with burst={burst}"
    if _closest(rate / period_us, burst) is None:
        raise InvalidLimit(f"{wrong}: lower burst")
    raise InvalidLimit(f"{wrong} and debt={debt}: lower debt")


def _closest(true: Fraction, tokens: int) -> Fraction | None:
    """Return the largest R/U up to ``true`` for which ``tokens * U`` fits; None when it is too far off."""
    if tokens > MOST:
        return None
    kept = largest_fraction_up_to(true, MOST, MOST // max(tokens, 1))
    return None if true - kept >= _WORST_RELATIVE_ERROR * true else kept


def largest_fraction_up_to(true: Fraction, most_numerator: int, most_denominator: int) -> Fraction:
    """Return the largest p/q <= ``true`` with p <= ``most_numerator`` and 1 <= q <= ``most_denominator``.

    A walk down the Stern-Brocot tree that takes each run of equal turns, one term of the continued fraction,
    in a single step. ``true`` lies in [low, high) throughout, and every fraction strictly between the two has
    at least the numerator and the denominator of their mediant: once the mediant is too large, low is the
    answer. Source: Graham, Knuth, Patashnik, Concrete Mathematics, section 4.5.
    """
    x, y = true.numerator, true.denominator
    low_p, low_q, high_p, high_q = 0, 1, 1, 0
    while True:
        high_gap = high_p * y - high_q * x  # both gaps are distances to `true`, scaled alike
        low_gap = low_q * x - low_p * y
        turns = min(
            low_gap // high_gap,
            (most_numerator - low_p) // high_p,
            (most_denominator - low_q) // high_q if high_q else low_gap,
        )
        low_p, low_q = low_p + turns * high_p, low_q + turns * high_q
        low_gap -= turns * high_gap
        if low_gap == 0 or low_p + high_p > most_numerator or low_q + high_q > most_denominator:
            return Fraction(low_p, low_q)
        turns = (high_gap - 1) // low_gap
        high_p, high_q = high_p + turns * low_p, high_q + turns * low_q
