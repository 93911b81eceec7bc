"""A bucket of tokens that refills at a steady rate."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import ClassVar

from overlimit.errors import InvalidLimit
from overlimit.limits.limit import Limit, Terms
from overlimit.limits.quantities import (
    MOST,
    Rate,
    Seconds,
    count,
    duration_label,
    micros,
    neat,
    rate_per_period,
    seconds,
    shown,
)
from overlimit.limits.rational import largest_fraction_up_to

__all__ = ["TokenBucket"]

_WORST_RELATIVE_ERROR = Fraction(1, 10**9)


class TokenBucket(Limit):
    """At most ``burst`` at once, and ``rate`` per ``per`` seconds in the long run.

    The bucket holds ``burst`` tokens, is full at first and refills continuously; a call takes as many tokens
    as it costs. In any interval of t seconds it admits at most ``burst + rate * t / per``.

    Source: the token bucket of RFC 2215 (TOKEN_BUCKET_TSPEC), in whole numbers: one token is U units and the
    bucket gains R units per microsecond. R/U is exactly the rate, or the closest possible below it.
    """

    __slots__ = ("_rate",)

    algorithm: ClassVar[str] = "token_bucket"
    optional_terms: ClassVar[frozenset[str]] = frozenset({"burst"})

    _rate: Fraction

    def __init__(
        self, rate: Rate, per: Seconds = 1, burst: int | None = None, *, name: str | None = None
    ) -> None:
        """Build the limit from its numbers.

        Parameters
        ----------
        rate:
            Tokens per period (int, float, Fraction or Decimal); a float is its shortest decimal form. 0
            refuses everything and needs a burst of 0.
        per:
            The period in seconds (int, float, Fraction, Decimal or timedelta), rounded to the nearest
            microsecond.
        burst:
            The size of the bucket, in cost units. Default: ``rate``; for a fractional rate, ``rate`` rounded
            down but at least 1.
        name:
            Names the limit's state and its label; 1 to 64 characters of ``A-Z a-z 0-9 _ . -``.

        Raises
        ------
        InvalidLimit
            An argument is of the wrong type or out of range, or the rate cannot be kept to within a billionth
            in numbers below 2**53; the message names the argument.
        """
        tokens, period_us = rate_per_period(rate, "rate"), micros(per, "per")
        size = _default_burst(tokens) if burst is None else count(burst, "burst")
        units_per_token, refill_per_us = _units(tokens, period_us, size)
        object.__setattr__(self, "_rate", tokens)
        self._seal((size, period_us, units_per_token, refill_per_us), name)

    @classmethod
    def from_terms(cls, terms: Terms) -> TokenBucket:
        """Build the bucket that a text or a tuple describes; the limit is the rate."""
        return cls(terms.limit, terms.per, terms.burst)

    @property
    def rate(self) -> int | float | Fraction:
        """Tokens per period, as asked for."""
        return neat(self._rate)

    @property
    def per(self) -> float:
        """The period in seconds."""
        return seconds(self._numbers[1])

    @property
    def burst(self) -> int:
        """The size of the bucket."""
        return self._numbers[0]

    @property
    def quota(self) -> int:
        """The burst."""
        return self.burst

    @property
    def window(self) -> float:
        """Seconds in which an empty bucket becomes full."""
        size, _, units_per_token, refill_per_us = self._numbers
        return -(-size * units_per_token // refill_per_us) / 1e6 if size else 0.0

    def _description(self) -> str:
        rate = neat(self._rate)
        plain = isinstance(rate, int) and rate <= MOST
        tokens = str(rate) if plain else f"{float(rate):.6g}".replace("+", "")
        return f"{tokens}-per-{duration_label(self._numbers[1])}-burst-{self.burst}"

    def _arguments(self) -> tuple[tuple[object, ...], Mapping[str, object]]:
        default = self.burst == _default_burst(self._rate)
        return (self.rate,), {"per": self.per} | ({} if default else {"burst": self.burst})


def _default_burst(rate: Fraction) -> int:
    whole = rate.numerator // rate.denominator
    return count(whole if rate.denominator == 1 else max(1, whole), "burst (by default the rate)")


def _units(rate: Fraction, period_us: int, burst: int) -> tuple[int, int]:
    """Return (units per token, refill in units per microsecond): both, and a full bucket, are below 2**53."""
    if rate == 0:
        if burst:
            raise InvalidLimit(f"rate must be above 0 for a burst of {burst}: an empty bucket never refills")
        return 1, 0
    true = rate / period_us
    kept = largest_fraction_up_to(true, MOST, MOST // max(burst, 1))
    if true - kept >= _WORST_RELATIVE_ERROR * true:
        raise InvalidLimit(
            f"rate must be such that rate / per fits in whole numbers below 2**53 (with a burst of {burst}, "
            f"to within a billionth), not {shown(neat(rate))}"
        )
    return kept.denominator, kept.numerator
