"""Many calls at once: each is decided as a hit by itself, and nothing is charged for a wrong argument."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from overlimit import Decisions, FixedWindow, Limiter, ManualClock, MemoryStore, SlidingLog

COLUMNS = ("allowed", "status", "remaining", "retry_after", "reset_after", "delay", "limit", "identifier")


def rows_of(decisions):
    return list(zip(*(getattr(decisions, name).tolist() for name in COLUMNS), strict=True))


class TestEachRow:
    def test_says_in_columns_what_its_decision_says(self, build):
        limiter = build(["3/minute", FixedWindow(5, 10)])
        rows = ["a", ("b", "a"), ["x" * 300, "\ud800"], "a", b"a", ("b", "a", "b")]
        decided = limiter.hit_many(rows, [1, 1, 9, 0, 1, 2])
        said = [
            (
                each.allowed,
                Decisions.STATUSES.index(each.status),
                each.remaining,
                each.retry_after,
                each.reset_after,
                each.delay,
                limiter.limits.index(each.limit),
                ([row] if isinstance(row, (str, bytes)) else list(row)).index(each.identifier),
            )
            for row, each in zip(rows, decided, strict=True)
        ]
        assert rows_of(decided) == said
        assert {status for _, status, *_ in said} == {0, 1, 3}
        assert decided.refused == sum(not each for each in decided) == 2

    def test_may_come_in_any_kind_of_column(self, build):
        limiter = build("100/minute")
        columns = [
            ["a", "b"],
            ("a", "b"),
            np.array(["a", "b"]),
            np.array([b"a", b"b"]),
            pd.Series(["a", "b"]),
            pd.Categorical(["a", "b"]),
            pa.array(["a", "b"]),
            (name for name in "ab"),
            np.array([["a", "b"], ["b", "a"]]),
        ]
        for count, column in enumerate(columns, 1):
            decided = limiter.hit_many(column, np.array([1, 1]))
            assert decided.remaining.tolist()[0] == 100 - count
        assert limiter.hit_many(["c"], np.int64(3)).remaining.tolist() == [97]


class TestPickled:
    def test_decisions_are_what_they_were_but_have_nothing_to_give_back(self, build):
        limiter = build("3/minute")
        for rows in (["a", "a", ("a", "b"), b"\xff"], []):
            decided = limiter.hit_many(rows, 2)
            unpickled = pickle.loads(pickle.dumps(decided))
            for copied in (unpickled, copy.copy(unpickled)):
                assert rows_of(copied) == rows_of(decided)
                assert [*copied] == [*decided]
                assert (copied.refused, repr(copied)) == (decided.refused, repr(decided))
        limiter.refund(pickle.loads(pickle.dumps(limiter.hit_many(["c"])))[0])
        assert limiter.peek("c", cost=0).remaining == 2


class TestADecision:
    def test_is_the_same_object_each_time_and_refundable_once(self, build):
        limiter = build("10/minute")
        decided = limiter.hit_many(["a", ("a", "b"), "a"], [1, 2, 3])
        assert decided[1] is decided[-2]
        for _ in range(2):
            limiter.refund(decided[1])
        assert limiter.peek("a", cost=0).remaining == 6
        assert limiter.peek("b", cost=0).remaining == 10
        assert [each.cost for each in decided] == [1, 2, 3]

    def test_is_told_to_on_decision_in_order_and_not_of_peeks(self, build):
        told = []
        limiter = build("2/minute", on_decision=told.append)
        decided = limiter.hit_many(["a", "b", "a", "a"])
        limiter.peek_many(["a"])
        assert told == list(decided)
        assert [each.allowed for each in told] == [True, True, True, False]

    def test_is_counted_in_stats_and_in_the_text(self, build):
        limiter = build("2/minute")
        decided = limiter.hit_many(["a"] * 5)
        assert limiter.stats()["calls"] == 5
        assert repr(decided) == "<5 Decisions under 2 per 1 minute: 2 ok, 3 over>"
        assert repr(limiter.hit_many([])) == "<0 Decisions under 2 per 1 minute: none>"
        assert limiter.hit_many([]).allowed.tolist() == []


class TestAWrongArgument:
    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            (("a",), TypeError, "must be a list or an array"),
            ((b"ab",), TypeError, "must be a list or an array"),
            (({"a": 1},), TypeError, "must be a list or an array"),
            ((7,), TypeError, "must be a list or an array"),
            ((["a", ""],), ValueError, "identifiers: row 1: .*must not be empty"),
            ((["a", 7],), TypeError, "identifiers: row 1: .*str or bytes"),
            ((["a", None],), TypeError, "identifiers: row 1: "),
            ((["a", ()],), ValueError, "identifiers: row 1: .*at least one"),
            ((["a", [f"{k}" for k in range(17)]],), ValueError, "identifiers: row 1: .*at most 16"),
            ((["a", "b"], [1]), ValueError, "cost has 1 rows, and identifiers has 2"),
            ((["a", "b"], [1, -1]), ValueError, "cost: row 1: .*from 0"),
            ((["a", "b"], [1, 0.5]), TypeError, "cost: row 1: "),
            ((["a", "b"], [1, True]), TypeError, "cost: row 1: "),
            ((["a"], 1.5), TypeError, "whole number"),
            ((["a"], -1), ValueError, "from 0"),
            ((["a"], "1"), TypeError, "cost must be a list"),
        ],
        ids=range(16),
    )
    def test_is_named_with_its_row_and_nothing_is_charged(self, build, arguments, error, message):
        limiter = build("5/minute")
        with pytest.raises(error, match=message):
            limiter.hit_many(*arguments)
        assert limiter.peek("a", cost=0).remaining == 5

    def test_is_a_row_of_more_work_than_a_call_may_be(self, build):
        limiter = build(SlidingLog(10_000, 60))
        limiter.hit_many([tuple("abcdef")])
        with pytest.raises(ValueError, match=r"row 1: .*65,536 blocks"):
            limiter.hit_many(["a", tuple("abcdefg")])
        assert limiter.peek("a", cost=0).remaining == 9999


def test_what_shared_counts_decided_is_counted_row_by_row():
    rows = [f"user:{k % 60}" for k in range(300)]
    many, loop = (Limiter("3/minute", store=MemoryStore(max_keys=40), clock=ManualClock()) for _ in "ab")
    assert many.hit_many(rows).allowed.tolist() == [bool(loop.hit(row)) for row in rows]
    assert many.stats()["crowded"] == loop.stats()["crowded"] > 0
    assert many.store.stats() == loop.store.stats()


def test_threads_that_decide_many_at_once_admit_no_more_than_the_limit():
    limiter = Limiter("5000/hour")
    rows = [("a", "b"), "a", "c"] * 2000
    with ThreadPoolExecutor(4) as pool:
        decided = list(pool.map(limiter.hit_many, [rows] * 4))
    by_row = sum(each.allowed.reshape(-1, 3).sum(axis=0) for each in decided)
    assert by_row[0] + by_row[1] == 5000
    assert by_row[2] == 5000


def test_rows_are_decided_128_identifiers_at_an_instant_in_memory():
    times = [each.time for each in Limiter("1000000/minute").hit_many(["a"] * 1000)]
    assert times == sorted(times)
    assert 1 < len(set(times)) <= 8
