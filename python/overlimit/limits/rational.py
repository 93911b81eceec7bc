"""The best fraction from below whose parts are small enough."""

from __future__ import annotations

from fractions import Fraction


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
