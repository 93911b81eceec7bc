"""The rows of a decision: a sequence that does what a tuple of them does, and makes a row when it is read."""

from __future__ import annotations

import copy
import gc
import itertools
import pickle
import sys
import threading
from collections.abc import Collection, Hashable, Reversible, Sequence

import pytest

from overlimit import (
    Decision,
    Detail,
    FixedWindow,
    Limiter,
    ManualClock,
    MemoryStore,
    RedisStore,
    SlidingLog,
    TokenBucket,
    hit_all,
)

from .decisions import KINDS

LIMITS = [TokenBucket(9, per=60), FixedWindow(2, per=3600, name="slow"), SlidingLog(5, per=10)]
EACH = pytest.mark.parametrize("decision", KINDS.values(), ids=KINDS.keys())
NUMBERS = [None, -9, -7, -6, -2, -1, 0, 1, 5, 6, 7, 2**70, -(2**70)]


def decide(identifiers=("user:42", b"ip"), start=1_700_000_000) -> Decision:
    limiter = Limiter(LIMITS, name="p", store=MemoryStore(), clock=ManualClock(start))
    return limiter.hit(*identifiers)


def undecided() -> Decision:
    store = RedisStore("unix:///nowhere/redis.sock")
    return Limiter("3/minute", name="p", store=store, on_error="allow").hit("a")


@pytest.fixture
def details():
    return decide().details


@pytest.fixture
def rows(details):
    return tuple(details)


class Counted:
    """Counts how often it is compared, and is like nothing."""

    def __init__(self):
        self.times = 0

    def __eq__(self, other):
        self.times += 1
        return False

    __hash__ = None


class TestRows:
    def test_have_identifiers_outside_and_limits_inside_in_the_order_given(self, details):
        expected = [(who, limit) for who in ("user:42", b"ip") for limit in LIMITS]
        assert [(row.identifier, row.limit) for row in details] == expected
        assert [row.remaining for row in details] == [8, 1, 4] * 2

    def test_have_the_limits_of_several_policies_each_in_its_order(self):
        store = MemoryStore()
        limiters = [
            Limiter(limits, name=f"p{i}", store=store)
            for i, limits in enumerate(itertools.permutations(LIMITS))
        ]
        decision = hit_all([(limiter, who) for limiter in limiters for who in ("a", "b")])
        expected = [
            (limiter.name, who, limit)
            for limiter in limiters for who in ("a", "b") for limit in limiter.limits
        ]  # fmt: skip
        assert [(row.policy, row.identifier, row.limit) for row in decision.details] == expected
        assert [decision.details[i][:3] for i in range(36)] == [
            (who, limit, policy) for policy, who, limit in expected
        ]

    def test_are_details_as_python_makes_them(self, rows):
        for row in rows:
            made = Detail(*row)
            assert type(row) is Detail
            assert (row, hash(row), repr(row)) == (made, hash(made), repr(made))
            assert hash(row) == hash(tuple(row))
            assert pickle.loads(pickle.dumps(row)) == row
            assert row._replace(remaining=0)._asdict() == made._asdict() | {"remaining": 0}
            assert gc.is_tracked(row)

    def test_have_fields_of_their_types(self, rows):
        kinds = [(str, bytes), (FixedWindow, SlidingLog, TokenBucket), str, bool, int, float, float]
        for row in rows:
            assert len(row) == len(kinds) == len(Detail._fields)
            assert all(map(isinstance, row, kinds))

    def test_say_which_refuse(self):
        limiter = Limiter(
            [FixedWindow(1, 3600), FixedWindow(9, 60)], store=MemoryStore(), clock=ManualClock(1_700_000_000)
        )
        limiter.hit("a")
        refused = limiter.hit("a").details
        assert [(row.allowed, row.remaining, row.retry_after) for row in refused] == [
            (False, 0, 3600.0),
            (True, 8, 0.0),
        ]

    def test_are_made_when_they_are_read_and_no_earlier(self, details):
        assert details[0] is details[0]
        first = next(iter(details))
        alive = [one for one in gc.get_objects() if type(one) is Detail and one.limit is first.limit]
        assert len(alive) == 1

    def test_are_kept_as_long_as_their_decision(self):
        decision = decide()
        first = decision.details[0]
        assert decision.details[0] is first
        assert decision.details[-6] is first
        del decision
        assert first.remaining == 8

    def test_that_threads_read_at_once_are_one(self):
        for _ in range(200):
            decision = decide()
            start = threading.Barrier(3)
            rows = []

            def read(decision=decision, start=start, rows=rows):
                start.wait()
                rows.append([decision.details[i] for i in range(6)])

            threads = [threading.Thread(target=read) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert all(row is kept for read in rows for row, kept in zip(read, decision.details, strict=True))

    def test_that_are_searched_are_made_until_one_is_found(self, rows, details):
        nothing = Counted()
        assert nothing not in details
        assert nothing.times == 6
        assert rows[2] in details


@EACH
def test_it_is_like_the_tuple_of_its_rows(decision):
    details = decision.details
    rows = tuple(details[i] for i in range(len(details)))
    assert tuple(details) == rows
    assert list(reversed(details)) == list(reversed(rows))
    assert repr(details) == repr(rows)
    assert hash(details) == hash(rows)
    assert bool(details) == bool(rows)
    assert details == rows == details
    assert details == decision.details
    assert (details != rows, rows != details) == (False, False)
    assert all(row in details for row in rows)
    assert [details.index(row) for row in rows] == [rows.index(row) for row in rows]
    assert [details.count(row) for row in rows] == [rows.count(row) for row in rows]
    assert sorted([details, ()], key=len) == sorted([rows, ()], key=len)


class TestIndexing:
    def test_by_a_number(self, details, rows):
        for number in range(-6, 6):
            assert details[number] == details.__getitem__(number) == rows[number]
        assert details[True] == rows[1]

    @pytest.mark.parametrize("number", [6, 7, -7, -8, sys.maxsize, -sys.maxsize - 1, 2**70, -(2**70)])
    def test_beyond_its_ends(self, details, number):
        with pytest.raises(IndexError):
            details[number]

    @pytest.mark.parametrize("number", ["0", 0.0, None, (0,), [], object()])
    def test_by_no_number(self, details, number):
        with pytest.raises(TypeError, match="by a number or a slice"):
            details[number]

    def test_by_a_slice(self, details, rows):
        steps = [step for step in NUMBERS if step != 0]
        for start, stop, step in itertools.product(NUMBERS, NUMBERS, steps):
            taken = details[start:stop:step]
            assert type(taken) is tuple
            assert taken == rows[start:stop:step]

    @pytest.mark.parametrize("piece", [slice(None, None, 0), slice("a"), slice(1.5, None)])
    def test_by_no_slice(self, details, rows, piece):
        with pytest.raises((ValueError, TypeError)) as expected:
            rows[piece]
        with pytest.raises(expected.type, match=str(expected.value)):
            details[piece]

    def test_does_not_write(self, details):
        with pytest.raises(TypeError, match="does not support item assignment"):
            details[0] = details[1]
        with pytest.raises(TypeError, match="doesn't support item deletion"):
            del details[0]
        with pytest.raises(AttributeError):
            details.more = 1


class TestSearching:
    def test_finds_the_first_place(self, details, rows):
        assert details.index(rows[1]) == 1
        assert (
            details.index(rows[1], 1, 2) == details.index(rows[1], -9) == details.index(rows[1], -5, -4) == 1
        )

    @pytest.mark.parametrize("span", [(2,), (0, 1), (-4,), (1, 1)])
    def test_of_a_part_that_has_it_not(self, details, rows, span):
        with pytest.raises(ValueError, match="not in"):
            details.index(rows[1], *span)

    def test_of_something_else(self, details):
        for other in (None, 1, (), "user:42"):
            assert other not in details
            assert details.count(other) == 0
            with pytest.raises(ValueError, match="not in"):
                details.index(other)

    def test_hands_on_what_a_comparison_raises(self, details):
        class Raises:
            def __eq__(self, other):
                raise LookupError

            __hash__ = None

        for search in (details.index, details.count, details.__contains__):
            with pytest.raises(LookupError):
                search(Raises())


class TestComparing:
    def test_with_equal_values(self, details, rows):
        again = decide().details
        assert details == again
        assert hash(details) == hash(again)
        assert {details: 1}[rows] == {rows: 1}[details] == 1

    def test_with_other_values(self, details, rows):
        later = decide(("user:42", b"other")).details
        for other in (later, rows[:-1], (*rows, rows[0]), (), rows[::-1]):
            assert details != other
            assert other != details
            assert (details == other, other == details) == (False, False)

    @pytest.mark.parametrize("other", [None, 0, "", object()])
    def test_with_something_else(self, details, other):
        assert details != other
        assert other != details
        with pytest.raises(TypeError, match="not supported"):
            details < other  # noqa: B015

    def test_with_a_list_is_never_equal_as_of_a_tuple(self, details, rows):
        assert details != list(rows)

    def test_with_what_says_itself_whether_it_is_equal(self, details):
        class Anything:
            __hash__ = None

            def __eq__(self, other):
                return True

        assert details == Anything()

    def test_an_identifier_without_a_hash_has_it_without_one(self):
        class Unhashable(str):
            __hash__ = None

        details = decide((Unhashable("a"),)).details
        with pytest.raises(TypeError, match="unhashable"):
            hash(details)


class TestAdding:
    def test_makes_tuples(self, details, rows):
        for added in (details + rows, rows + details, details + details):
            assert type(added) is tuple
            assert added == rows + rows
        nothing = ()
        assert details + nothing == nothing + details == rows
        assert (1, *details) == (1,) + details  # noqa: RUF005

    def test_in_place(self, details, rows):
        taken = rows
        taken += details
        assert taken == rows + rows
        extended = [1]
        extended += details
        assert extended == [1, *rows]

    @pytest.mark.parametrize("other", [[], 1, None, "a"])
    def test_something_else(self, details, other):
        with pytest.raises(TypeError):
            details + other
        with pytest.raises(TypeError):
            other + details


class TestUnpacking:
    def test_into_names(self, details, rows):
        first, *middle, last = details
        assert (first, *middle, last) == (*details,) == rows
        with pytest.raises(ValueError, match="too many values"):
            [_] = details
        with pytest.raises(ValueError, match="not enough values"):
            _, _, _, _, _, _, _ = details

    def test_by_patterns(self, details):
        match details:
            case [Detail(identifier=who, remaining=8), *others, Detail(limit=SlidingLog())]:
                assert (who, len(others)) == ("user:42", 4)
            case _:
                raise AssertionError

    def test_of_nothing_by_patterns(self):
        match undecided().details:
            case [_, *_]:
                raise AssertionError
            case []:
                pass
            case _:
                raise AssertionError


class TestType:
    def test_is_a_sequence(self, details):
        for kind in (Sequence, Reversible, Collection, Hashable):
            assert isinstance(details, kind)
        assert not isinstance(details, tuple)

    def test_is_shown_with_its_module(self, details):
        assert (type(details).__module__, type(details).__qualname__) == ("overlimit._core", "Details")

    def test_is_empty_when_nobody_has_decided(self):
        details = undecided().details
        assert (len(details), tuple(details), details, repr(details)) == (0, (), (), "()")
        assert not details
        assert hash(details) == hash(())
        assert details[:] == details + details == ()
        with pytest.raises(IndexError):
            details[0]


class TestCopies:
    @pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
    def test_are_pickled_as_a_tuple(self, details, rows, protocol):
        copied = pickle.loads(pickle.dumps(details, protocol))
        assert (type(copied), copied) == (tuple, rows)
        assert all(type(row) is Detail for row in copied)

    @pytest.mark.parametrize("make", [copy.copy, copy.deepcopy])
    def test_are_tuples(self, details, rows, make):
        copied = make(details)
        assert (type(copied), copied) == (tuple, rows)


class TestLifetime:
    def test_keeps_its_decision(self, rows):
        details = decide().details
        gc.collect()
        assert details == rows

    def test_lets_its_decision_go(self):
        decision = decide()
        before = sys.getrefcount(decision)
        details, walk = decision.details, iter(decision.details)
        assert sys.getrefcount(decision) == before + 2
        next(walk)
        del details, walk
        assert sys.getrefcount(decision) == before

    def test_rows_outlive_it(self):
        row = decide(("".join(["us", "er"]),)).details[1]
        gc.collect()
        assert (row.identifier, row.limit) == ("user", LIMITS[1])

    def test_cycles_of_a_row_are_collected(self):
        class Identifier(str):
            pass

        limiter = Limiter(LIMITS, store=MemoryStore())
        who = Identifier("a")
        who.rows = limiter.hit(who).details[:]
        died = []
        who.told = type("Told", (), {"__del__": lambda self: died.append(1)})()
        del who
        gc.collect()
        assert died == [1]

    def test_threads_share_it(self, details, rows):
        seen = []

        def read():
            seen.extend(tuple(details) == rows and details[-1] == rows[-1] for _ in range(200))

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen == [True] * 800


def test_they_repeat_like_a_tuple(details, rows):
    assert details * 2 == 2 * details == rows * 2
    assert details * 0 == ()
