"""Penalties as values: what they accept, refuse, show and compare."""

from __future__ import annotations

import copy
import math
import pickle
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlimit.errors import InvalidLimit
from overlimit.limits import FixedWindow
from overlimit.limits.penalty import Penalty

EXAMPLES = [
    Penalty(60),
    Penalty([2, 4, 8]),
    Penalty([0.5, Fraction(1, 4)], extend=True),
    Penalty(timedelta(minutes=5), forget_after=3),
    Penalty([60, 3600], True, timedelta(days=1)),
]
EACH = pytest.mark.parametrize("penalty", EXAMPLES, ids=repr)
WRONG_DURATIONS = [
    -1,
    -0.5,
    timedelta(seconds=-1),
    Fraction(2**49 + 1, 10**6),
    10**5000,
    1e300,
    math.nan,
    math.inf,
    Decimal("NaN"),
    True,
    False,
    "60",
    b"60",
    1j,
]
ALL_WRONG = pytest.mark.parametrize("wrong", WRONG_DURATIONS, ids=lambda value: type(value).__name__)


class TestValue:
    @EACH
    def test_repr_is_python_that_builds_an_equal_penalty(self, penalty):
        assert eval(repr(penalty), {"Penalty": Penalty}) == penalty

    def test_repr_is_short(self):
        assert repr(Penalty([60])) == "Penalty(60)"
        assert repr(Penalty((2.0, 4, timedelta(seconds=8)))) == "Penalty([2, 4, 8])"
        assert repr(Penalty(0.5, True, 3)) == "Penalty(0.5, extend=True, forget_after=3)"

    @EACH
    def test_pickles_and_copies_to_an_equal_penalty(self, penalty):
        for twin in (pickle.loads(pickle.dumps(penalty)), copy.copy(penalty), copy.deepcopy(penalty)):
            assert twin == penalty
            assert hash(twin) == hash(penalty)
            assert repr(twin) == repr(penalty)

    @EACH
    def test_cannot_be_changed(self, penalty):
        for attribute in ("levels", "extend", "forget_after", "_numbers", "anything"):
            with pytest.raises(AttributeError):
                setattr(penalty, attribute, 1)
        with pytest.raises(AttributeError):
            del penalty._numbers

    def test_is_equal_when_its_numbers_are(self):
        minute = [60, 60.0, [60], (Decimal(60),), timedelta(minutes=1), [60.0000000001]]
        assert len({Penalty(levels) for levels in minute}) == 1
        assert len(set(EXAMPLES)) == len(EXAMPLES)

    @pytest.mark.parametrize(
        "other",
        [
            Penalty([2, 4, 9]),
            Penalty([2, 8, 4]),
            Penalty([2, 4]),
            Penalty([2, 4, 8], extend=True),
            Penalty([2, 4, 8], forget_after=8),
            FixedWindow(2, 4),
            (2, 4, 8),
            None,
        ],
    )
    def test_differs_when_anything_does(self, other):
        assert Penalty([2, 4, 8]) != other


class TestLevels:
    def test_are_seconds(self):
        penalty = Penalty([2, 0.5, timedelta(minutes=1)], extend=True, forget_after=90)
        assert (penalty.levels, penalty.extend, penalty.forget_after) == ((2, 0.5, 60), True, 90)
        assert penalty._numbers == ((2_000_000, 500_000, 60_000_000), True, 90_000_000)

    def test_are_one_if_a_plain_number_is_given(self):
        penalty = Penalty(30)
        assert (penalty.levels, penalty.extend, penalty.forget_after) == ((30,), False, None)
        assert penalty._numbers == ((30_000_000,), False, None)

    @settings(deadline=None)
    @given(st.lists(st.integers(1, 2**49), min_size=1, max_size=64))
    def test_are_rounded_to_the_nearest_microsecond(self, levels_us):
        levels = [Fraction(us, 10**6) for us in levels_us]
        assert Penalty(levels)._numbers[0] == tuple(levels_us)
        assert Penalty(Penalty(levels).levels)._numbers[0] == tuple(levels_us)
        assert Penalty([0.000_001_4, 0.000_001_6])._numbers[0] == (1, 2)

    def test_are_1_to_64(self):
        assert len(Penalty([1] * 64).levels) == 64
        assert Penalty(range(1, 4)).levels == (1, 2, 3)
        for count in (0, 65, 100_000):
            with pytest.raises(InvalidLimit, match=rf"^levels .* not {count}$"):
                Penalty([1] * count)

    @ALL_WRONG
    def test_of_another_length_are_refused(self, wrong):
        for levels in (wrong, [wrong], [1, 2, wrong]):
            with pytest.raises(InvalidLimit, match=r"^levels "):
                Penalty(levels)

    @pytest.mark.parametrize("wrong", [0, 0.0, 4e-7, timedelta(0), None, {1, 2}, {1: 2}, [[1]], iter([1])])
    def test_of_no_length_at_all_are_refused(self, wrong):
        for levels in (wrong, [wrong]):
            with pytest.raises(InvalidLimit, match=r"^levels "):
                Penalty(levels)


class TestOtherArguments:
    @ALL_WRONG
    def test_another_time_to_forget_is_refused(self, wrong):
        with pytest.raises(InvalidLimit, match=r"^forget_after "):
            Penalty(1, forget_after=wrong)

    @pytest.mark.parametrize("wrong", [0, 0.0, 4e-7, timedelta(0)])
    def test_levels_are_not_forgotten_at_once(self, wrong):
        with pytest.raises(InvalidLimit, match=r"^forget_after "):
            Penalty(1, forget_after=wrong)

    @pytest.mark.parametrize(
        ("forget_after", "us"), [(1e-6, 1), (0.5, 500_000), (timedelta(1), 86_400 * 10**6)]
    )
    def test_levels_may_be_forgotten_soon_or_later(self, forget_after, us):
        assert Penalty(1, forget_after=forget_after)._numbers[2] == us

    @pytest.mark.parametrize("wrong", [0, 1, None, "yes", [True]])
    def test_extend_is_true_or_false(self, wrong):
        with pytest.raises(InvalidLimit, match=r"^extend "):
            Penalty(1, extend=wrong)
