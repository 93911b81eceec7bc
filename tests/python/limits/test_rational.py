"""The largest fraction of small numbers up to another."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from overlimit.limits.rational import largest_fraction_up_to


@given(
    true=st.fractions(min_value=0, max_value=60, max_denominator=60).filter(bool),
    most_numerator=st.integers(1, 12),
    most_denominator=st.integers(1, 12),
)
def test_is_the_best_of_all_that_are_small_enough(true, most_numerator, most_denominator):
    candidates = (Fraction(p, q) for q in range(1, most_denominator + 1) for p in range(most_numerator + 1))
    best = max(candidate for candidate in candidates if candidate <= true)
    assert largest_fraction_up_to(true, most_numerator, most_denominator) == best
