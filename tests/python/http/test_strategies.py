"""The strategies of Flask-Limiter."""

from __future__ import annotations

import logging

import pytest

from overlimit import FixedWindow, InvalidLimit, SlidingLog, SlidingWindow, SlidingWindowCounter, TokenBucket
from overlimit.http.options.configuration import STRATEGIES, algorithm_of, limits_under


@pytest.mark.parametrize(
    ("strategy", "limit"),
    [
        ("fixed-window", FixedWindow(5, per=60)),
        ("moving-window", SlidingLog(5, per=60)),
        ("sliding-window-counter", SlidingWindowCounter(5, per=60)),
    ],
)
def test_each_strategy_stands_for_one_algorithm(strategy, limit, caplog):
    assert algorithm_of(strategy) == limit.algorithm
    assert limits_under(strategy, "5/minute") == (limit,)
    assert limits_under(strategy, [(60, 5)]) == (limit,)
    assert not caplog.records


@pytest.mark.parametrize("strategy", ["fixed_window", "fixed-window-elastic-expiry", "", None, 5, []])
def test_another_strategy_is_an_error_that_lists_them(strategy):
    with pytest.raises(ValueError, match=r"fixed-window.*moving-window.*sliding-window-counter"):
        algorithm_of(strategy)


def test_a_larger_moving_window_is_a_sliding_window_and_says_so(caplog):
    with caplog.at_level(logging.INFO, "overlimit"):
        limits = limits_under("moving-window", "10001/hour; 10000/minute")
        given = [SlidingWindow(3, per=60), TokenBucket(20_000, per=1)]
        assert limits_under("moving-window", given) == tuple(given)
    assert limits == (SlidingWindow(10_001, per=3600), SlidingLog(10_000, per=60))
    assert [record.name for record in caplog.records] == ["overlimit"]
    assert "10001-per-3600s" in caplog.text


@pytest.mark.parametrize(
    "limits", ["5/fortnight", "", [], (60, 5, 1), "5/minute burst 3", "9" * 20 + "/hour"]
)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_is_no_limit_is_an_error_under_each_strategy(strategy, limits, caplog):
    with pytest.raises(InvalidLimit):
        limits_under(strategy, limits)
    assert not caplog.records
