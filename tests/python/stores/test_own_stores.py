"""What a store of one's own is promised: its keys, its step, the time, errors, and what it may leave out."""

from __future__ import annotations

import contextlib
import copy
import os
import pickle
import threading
import time
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import repeat
from typing import Any

import pytest

from overlimit import (
    FixedWindow,
    Limiter,
    ManualClock,
    Penalty,
    StoreConfigError,
    StoreError,
    StoreTimeout,
    StoreUnavailable,
    TokenBucket,
    hit_all,
)
from overlimit.stores import Step, ValueStore, Write
from own_stores import DictStore, TableStore

Transact = Callable[[Any, Sequence[str], Step], object]


class Store(DictStore):
    """A store with another transact(), given as a function, that notes what it is asked."""

    def __init__(self, transact: Transact | None = None) -> None:
        super().__init__()
        self.other = transact
        self.asked: list[list[str]] = []
        self.reads_only: list[bool] = []

    def transact(self, keys: Sequence[str], step: Step) -> object:
        self.asked.append([*keys])
        self.reads_only.append(step.reads_only)
        return super().transact(keys, step) if self.other is None else self.other(self, keys, step)


def limiter_on(store: ValueStore, limits: Any = "3/minute", **options: Any) -> Limiter:
    return Limiter(limits, **{"name": "p", "store": store, **options})


class TestKeys:
    def test_are_sorted_and_each_of_them_comes_once(self):
        store = Store()
        limiters = [limiter_on(store, name=name) for name in ("b", "a.b", "a")]
        hit_all([(each, who) for each in limiters for who in ("z", "Y")])
        assert store.asked == [["a.b:Y", "a.b:z", "a:Y", "a:z", "b:Y", "b:z"]]
        store.asked.clear()
        limiters[0].hit_many(["x", "x", "c"])
        assert store.asked == [["b:c", "b:x"]]

    def test_hold_nothing_that_a_database_might_take_for_something_else(self):
        store = Store()
        given = [" ", "a b", "é", "a\0", "a\n", "x" * 249, b"\xff", "x" * 248, "100%_"]
        for each in given:
            limiter_on(store).hit(each)
        assert len(store.values) == len(given)
        assert all(len(key) <= 250 and key.isascii() and key.isprintable() for key in store.values)
        assert all(" " not in key for key in store.values)
        assert {"p:" + "x" * 248, "p:100%_"} <= store.values.keys()

    def test_of_a_call_that_are_too_many_are_refused_before_anything_is_asked(self):
        store = Store()
        store.max_keys = 2
        for on_error in ("raise", "allow", "local"):
            limiter = limiter_on(store, on_error=on_error)
            with pytest.raises(StoreConfigError, match=r"3 keys, and Store takes 2 .*max_keys"):
                limiter.hit("a", "b", "c")
        assert not store.asked
        assert limiter_on(store).hit("a", "b").allowed

    def test_hit_many_is_split_by_them_and_by_64_rows(self):
        store = Store()
        store.max_keys = 100
        decisions = limiter_on(store, "1/minute").hit_many([f"id{i % 150}" for i in range(200)])
        assert [len(keys) for keys in store.asked] == [64, 64, 64, 8]
        assert sum(decisions.allowed) == 150
        store.asked.clear()
        store.max_keys = 1
        assert sum(limiter_on(store, "1/minute").hit_many(["n1", "n1", "n2", "n2"]).allowed) == 2
        assert store.asked == [["p:n1"], ["p:n2"]]

    def test_of_limiters_without_a_name_differ(self):
        store = DictStore()
        store.is_shared = False
        one, other = (Limiter("1/minute", store=store) for _ in range(2))
        assert [one.hit("a").allowed, other.hit("a").allowed, one.hit("a").allowed] == [True, True, False]
        with pytest.raises(ValueError, match="name"):
            Limiter("1/minute", store=DictStore())


def at(now: object) -> Store:
    def transact(store: Store, keys: Sequence[str], step: Step) -> None:
        for key, write in zip(keys, step([store.values.get(key) for key in keys], now) or (), strict=False):
            if write:
                store.values[key] = write.value

    return Store(transact)


class TestTime:
    @pytest.mark.parametrize(
        "now",
        [
            1_700_000_000,
            1_700_000_000.25,
            Fraction(6_800_000_001, 4),
            Decimal("1700000000.25"),
        ],
        ids=lambda now: type(now).__name__,
    )
    def test_is_that_of_the_store_in_any_number(self, now: Any):
        assert limiter_on(at(now)).hit("a").time == float(now)

    def test_of_an_injected_clock_wins(self):
        assert limiter_on(at(1_700_000_000), clock=ManualClock(1_600_000_000)).hit("a").time == 1_600_000_000

    def test_is_otherwise_that_of_this_process_once_values_are_held(self):
        held: list[float] = []

        def transact(store: Store, keys: Sequence[str], step: Step) -> None:
            time.sleep(0.05)
            held.append(time.time())
            step([None])

        decision = limiter_on(Store(transact)).hit("a")
        assert held[0] - 1e-6 <= decision.time <= time.time()

    @pytest.mark.parametrize("now", ["noon", float("nan"), Decimal("Infinity"), 1e300, -1, True and "1"])
    def test_that_is_none_is_an_error_of_the_store(self, now: Any):
        store = at(now)
        with pytest.raises((TypeError, ValueError)):
            limiter_on(store).hit("a")
        assert not store.values


class TestDeadline:
    def test_ends_a_conflict_without_end_and_charges_nothing(self):
        def transact(store: Store, keys: Sequence[str], step: Step) -> None:
            while step([None]):
                time.sleep(0.001)

        store = Store(transact)
        store.timeout = 0.2
        began = time.monotonic()
        with pytest.raises(StoreTimeout) as raised:
            limiter_on(store).hit("a")
        assert 0.2 <= time.monotonic() - began < 5
        assert not raised.value.maybe_charged

    def test_is_told_by_time_left(self):
        left: list[float] = []

        def transact(store: Store, keys: Sequence[str], step: Step) -> None:
            left.extend((step.time_left(), time.sleep(0.02) or step.time_left()))
            step([None])

        store = Store(transact)
        store.timeout = 3
        limiter_on(store).hit("a")
        assert 3 >= left[0] > left[1] + 0.02 > 0.02
        assert limiter_on(store).hit_many(["a"], timeout=0.5) is not None
        assert left[2] <= 0.5

    @pytest.mark.parametrize("timeout", [0, -1, "1", float("nan"), None])
    def test_that_is_none_is_said(self, timeout: Any):
        store = Store()
        store.timeout = timeout
        with pytest.raises((TypeError, ValueError), match="timeout"):
            limiter_on(store).hit("a")
        assert not store.asked


class TestWrites:
    def test_are_only_what_has_changed(self):
        store = Store()
        limiter = limiter_on(store)
        limiter.peek("a")
        assert not limiter.hit("a", cost=4)
        assert limiter.hit("a", cost=0)
        limiter.reset("a")
        limiter.unlock("a")
        assert store.reads_only == [True, True, True, False, False]
        assert not store.values
        limiter.hit("a", cost=3)
        before = dict(store.values)
        assert not limiter.hit("a")
        assert store.values == before

    def test_say_for_how_long(self):
        written: list[Any] = []

        def transact(store: Store, keys: Sequence[str], step: Step) -> None:
            written.append(step([None, None], 1_700_000_000))

        limiter_on(Store(transact), [FixedWindow(3, per=10), FixedWindow(9, per=60)]).hit("a", "b")
        (writes,) = written
        for write in writes:
            assert isinstance(write, Write)
            assert isinstance(write.value, bytes)
            assert 60 <= write.expires_in <= 62

    def test_of_what_has_expired_do_no_harm(self):
        store, clock = DictStore(), ManualClock(1_700_000_000)
        limiter = limiter_on(store, FixedWindow(1, per=60), clock=clock)
        assert [limiter.hit("a").allowed, limiter.hit("a").allowed] == [True, False]
        clock.advance(60)
        assert limiter.hit("a").allowed

    def test_may_be_decided_again_as_only_the_last_counts(self):
        told: list[Any] = []

        def transact(store: Store, keys: Sequence[str], step: Step) -> None:
            for _ in range(3):
                writes = step([store.values.get(key) for key in keys])
            store.values |= {
                key: write.value for key, write in zip(keys, writes or (), strict=False) if write
            }

        store = Store(transact)
        limiter = limiter_on(store, on_decision=told.append, penalty=Penalty([600]))
        answers = [limiter.hit("a").remaining for _ in range(3)]
        assert answers == [2, 1, 0]
        assert limiter.hit("a").retry_after == 600
        assert len(told) == 4
        assert limiter.stats()["calls"] == 4


def failing(error: BaseException | type[BaseException], *, calls: int = 1, of: bytes | None = None) -> Store:
    def transact(store: Store, keys: Sequence[str], step: Step) -> None:
        for _ in range(calls):
            step([of] * len(keys))
        raise error

    return Store(transact)


class TestErrors:
    @pytest.mark.parametrize(
        ("raised", "kind"),
        [
            (TimeoutError("late"), StoreTimeout),
            (ConnectionError("gone"), StoreUnavailable),
            (ZeroDivisionError(), StoreUnavailable),
        ],
        ids=["timeout", "connection", "bug"],
    )
    def test_say_whether_something_may_be_charged(self, raised: Exception, kind: type[StoreError]):
        for calls, maybe_charged in ((0, False), (1, True), (3, True)):
            with pytest.raises(kind) as error:
                limiter_on(failing(raised, calls=calls)).hit("a")
            assert error.value.__cause__ is raised
            assert error.value.maybe_charged is maybe_charged
        with pytest.raises(kind) as error:
            limiter_on(failing(raised)).peek("a")
        assert not error.value.maybe_charged

    def test_that_say_so_have_charged_nothing(self):
        unwritten = ValueStore.NotWritten("refused")
        with pytest.raises(StoreUnavailable) as error:
            limiter_on(failing(unwritten)).hit("a")
        assert (error.value.maybe_charged, error.value.__cause__) == (False, unwritten)
        late = ValueStore.NotWritten("late")
        late.__cause__ = TimeoutError("5 s")
        with pytest.raises(StoreTimeout, match="5 s") as error:
            limiter_on(failing(late)).hit("a")
        assert (error.value.maybe_charged, error.value.__cause__) == (False, late.__cause__)

    @pytest.mark.parametrize(
        "raised",
        [StoreUnavailable("mine"), StoreConfigError("mine"), KeyboardInterrupt(), SystemExit(3)],
        ids=repr,
    )
    def test_of_one_s_own_pass_as_they_are(self, raised: BaseException):
        with pytest.raises(type(raised)) as error:
            limiter_on(failing(raised)).hit("a")
        assert error.value is raised

    @pytest.mark.parametrize(
        ("values", "kind"),
        [
            ([], ValueError),
            ([None, None], ValueError),
            (repeat(None), ValueError),
            (["text"], TypeError),
            (7, TypeError),
        ],
    )
    def test_of_step_come_out_even_if_they_are_swallowed(self, values: Any, kind: type[Exception]):
        def transact(store: Store, keys: Sequence[str], step: Any) -> None:
            for given in (values, [None]):
                with contextlib.suppress(kind):
                    step(given)
            raise LookupError

        with pytest.raises(kind, match=r"values|object"):
            limiter_on(Store(transact)).hit("a")

    def test_come_of_a_store_that_decides_nothing(self):
        with pytest.raises(StoreUnavailable, match="returned without having called step") as error:
            limiter_on(Store(lambda *_: None)).hit("a")
        assert not error.value.maybe_charged

    def test_are_what_on_error_is_about(self):
        down = failing(ConnectionError("gone"))
        assert limiter_on(down, on_error="allow").hit("a").source == "error"
        refused = limiter_on(down, on_error="deny").hit("a")
        assert not refused
        assert refused.retry_after == 5.0
        local = limiter_on(down, "1/minute", on_error="local")
        assert [(each.allowed, each.source) for each in (local.hit("a"), local.hit("a"))] == [
            (True, "local"),
            (False, "local"),
        ]
        stats = local.stats()
        assert (stats["calls"], stats["errors"]["unavailable"], stats["local"]) == (2, 2, 2)

    def test_leave_a_decision_to_be_refunded_again_unless_it_may_have_been(self):
        store = Store()
        limiter = limiter_on(store)
        decision = limiter.hit("a", cost=2)
        store.other = failing(ValueStore.NotWritten()).other
        with pytest.raises(StoreUnavailable):
            limiter.refund(decision)
        store.other = None
        limiter.refund(decision)
        assert limiter.peek("a", cost=0).remaining == 3

    def test_name_what_a_store_cannot_do(self):
        class Plain(ValueStore):
            def transact(self, keys: Sequence[str], step: Step) -> None:
                step([None] * len(keys))

        with pytest.raises(StoreConfigError, match=r"Plain cannot list its keys.*scan\(self, prefix\)"):
            limiter_on(Plain()).reset_all()
        with pytest.raises(TypeError, match=r"Nothing needs a method transact\(self, keys, step\)"):
            type("Nothing", (ValueStore,), {})()
        with pytest.raises(TypeError, match="__init__"):
            type("Forgetful", (DictStore,), {"__init__": lambda self: None})()


class TestStores:
    def test_count_as_one_if_they_say_so(self):
        values = DictStore()

        class View(DictStore):
            def transact(self, keys: Sequence[str], step: Step) -> None:
                values.transact(keys, step)

            def is_same_as(self, other: ValueStore) -> bool:
                return isinstance(other, View)

        decision = hit_all([(limiter_on(View(), name=name), "a") for name in "xy"])
        assert decision.allowed
        with pytest.raises(ValueError, match="store"):
            hit_all(
                [(limiter_on(each, name=name), "a") for name, each in (("x", View()), ("y", DictStore()))]
            )

    def test_are_pickled_by_their_arguments_and_copied_as_they_are(self):
        store = TableStore("eu", size=3)
        again = pickle.loads(pickle.dumps(limiter_on(store))).store
        assert isinstance(again, TableStore)
        assert (again.region, again.size) == ("eu", 3)
        assert copy.copy(store) is copy.deepcopy(store) is store
        assert repr(store) == "TableStore(...)"
        assert repr(DictStore()) == "DictStore()"
        with pytest.raises(TypeError, match="pickle"):
            pickle.dumps(TableStore(threading.Lock()))

    def test_are_told_of_a_fork(self):
        class Forked(DictStore):
            told = 0

            def after_fork(self) -> None:
                self.told += 1
                self.lock = threading.Lock()

        store = Forked()
        limiter = limiter_on(store)
        with store.lock:
            if (child := os.fork()) == 0:
                os._exit(0 if limiter.hit("a").allowed and store.told == 1 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert store.told == 0

    def test_answer_a_ping_and_close(self):
        store = Store()
        limiter = limiter_on(store)
        assert 0 <= store.ping() < 5
        assert store.asked == [["overlimit:ping"]]
        assert store.reads_only == [True]
        assert not store.values
        with pytest.raises(StoreUnavailable):
            failing(ConnectionError("gone")).ping(timeout=1)
        closed: list[Any] = []
        store.close = lambda: closed.append(1)
        limiter.store.close()
        assert closed == [1]

    def test_forget_by_their_keys(self):
        store = DictStore()
        for name in ("a_b", "axb"):
            limiter_on(store, name=name, limits="1/minute").hit("u", "x" * 300)
        limiter_on(store, name="a_b").reset_all()
        assert [limiter_on(store, "1/minute", name=name).hit("u").allowed for name in ("a_b", "axb")] == [
            True,
            False,
        ]

    def test_refund_nothing_to_what_was_made_again_in_the_same_instant(self):
        clock = ManualClock(1_700_000_000)
        limiter = limiter_on(DictStore(), clock=clock)
        decision = limiter.hit("a")
        limiter.reset("a")
        limiter.hit("a")
        limiter.refund(decision)
        assert limiter.peek("a", cost=0).remaining == 2

    @pytest.mark.parametrize("make", [DictStore, lambda: TableStore("eu")], ids=["locks", "compare and swap"])
    def test_admit_what_the_limit_says_to_threads_at_once(self, make: Callable[[], ValueStore]):
        store = make()
        store.timeout = 60
        limiter = limiter_on(
            store, [TokenBucket(40, burst=40), FixedWindow(100, per=3600)], clock=ManualClock(9)
        )
        admitted: list[bool] = []
        threads = [
            threading.Thread(target=lambda: admitted.extend(limiter.hit("a", "b").allowed for _ in range(20)))
            for _ in range(4)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert len(admitted) == 80
        assert sum(admitted) == 40


def test_what_scan_raises_is_an_error_of_the_store():
    class Forgetful(DictStore):
        def scan(self, prefix):
            raise TimeoutError("nobody answers")

    with pytest.raises(StoreTimeout, match=r"Forgetful\.scan failed: TimeoutError: nobody answers") as caught:
        Limiter("1/minute", name="a", store=Forgetful()).reset_all()
    assert isinstance(caught.value.__cause__, TimeoutError)
    assert not caught.value.maybe_charged
