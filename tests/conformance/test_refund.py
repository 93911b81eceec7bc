"""Refunds: once, where it was charged; what was given to nobody can be given back later."""

from __future__ import annotations

import copy
import pickle
import signal

import pytest

from overlimit import FixedWindow, Limiter, ManualClock, RedisStore, StoreError, hit_all
from servers.fault_proxy import FaultProxy

from .answers import left
from .outages import PATIENCE, frozen


class FallibleClock(ManualClock):
    """Raises once, when told to."""

    error: BaseException | None = None

    def now(self):
        if error := self.error:
            self.error = None
            raise error
        return super().now()


@pytest.fixture
def clock():
    return FallibleClock(1_700_000_000)


def refund_all(limiter, decision):
    limiter.refund(decision)


def refund_part(limiter, decision):
    limiter._refund_part(decision, [0])


EACH_WAY = pytest.mark.parametrize("refund", [refund_all, refund_part])


def test_a_copy_cannot_be_refunded(build):
    limiter = build(FixedWindow(10, 10))
    charged = limiter.hit("a", cost=4)
    for copied in (pickle.loads(pickle.dumps(charged)), copy.copy(charged), copy.deepcopy(charged)):
        if copied is not charged:
            limiter.refund(copied)
    assert left(limiter) == 6
    limiter.refund(charged)
    assert left(limiter) == 10


@EACH_WAY
@pytest.mark.parametrize("error", [RuntimeError("no time"), KeyboardInterrupt(), ValueError("no time")])
def test_a_clock_that_raises_leaves_a_decision_refundable(build, clock, refund, error):
    limiter = build("5/minute")
    decision = limiter.hit("a", cost=2)
    for _ in range(2):
        clock.error = error
        with pytest.raises(type(error)):
            refund(limiter, decision)
        assert left(limiter) == 3
    refund(limiter, decision)
    assert left(limiter) == 5
    refund(limiter, decision)
    assert left(limiter) == 5


@EACH_WAY
def test_so_does_a_limiter_of_another_policy(build, store, refund):
    limiter, other = build("5/minute", name="one"), build("5/minute", name="other")
    decision = limiter.hit("a", cost=2)
    other.hit("a")
    with pytest.raises(ValueError, match="other policies"):
        refund(other, decision)
    assert (left(limiter), left(other)) == (3, 4)
    refund(limiter, decision)
    assert (left(limiter), left(other)) == (5, 4)


@EACH_WAY
@pytest.mark.parametrize("wrong", [None, "decision", 1, object()])
def test_what_is_no_decision_is_a_type_error(build, refund, wrong):
    with pytest.raises(TypeError, match="expected a Decision"):
        refund(build("5/minute"), wrong)


def test_a_refund_while_another_reads_the_clock_is_no_second_one(store):
    """Whoever comes by the clock of the first refund finds that it has been begun."""

    class Recursive(ManualClock):
        decision = None

        def now(self):
            if decision := self.decision:
                self.decision = None
                limiter.refund(decision)
                assert left(limiter) == 3
            return super().now()

    clock = Recursive(1_700_000_000)
    limiter = Limiter("5/minute", name="p", store=store, clock=clock)
    decision = limiter.hit("a", cost=2)
    clock.decision = decision
    limiter.refund(decision)
    assert left(limiter) == 5
    limiter.refund(decision)
    assert left(limiter) == 5


def test_each_part_of_several_is_given_back_once_by_those_that_made_it(build):
    one, two, other = (build("5/minute", name=name) for name in ("one", "two", "other"))
    decision = hit_all([(one, "a", 2), (two, "a", 3)])
    with pytest.raises(ValueError, match="other policies"):
        other._refund_part(decision, [0, 1])
    for _ in range(2):
        two._refund_part(decision, [0])
        assert (left(one), left(two)) == (5, 2)
    one.refund(decision)
    assert (left(one), left(two)) == (5, 5)
    one._refund_part(decision, [1])
    assert (left(one), left(two)) == (5, 5)


class Interrupted(Exception):
    """What a signal's handler raises."""


@pytest.fixture
def alarm():
    """Return a function that makes Interrupted come out of what is under way after so many seconds."""

    def interrupt(*_):
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@EACH_WAY
def test_an_interruption_before_anything_was_sent_leaves_it_refundable(start_redis, alarm, clock, refund):
    server = start_redis()
    store = RedisStore(server.tcp_url(), timeout=PATIENCE)
    limiter = Limiter("5/minute", name="p", store=store, clock=clock)
    decision = limiter.hit("a", cost=2)
    store.close()
    with frozen(server):
        alarm(0.2)
        with pytest.raises(Interrupted):
            refund(limiter, decision)
    assert left(limiter) == 3
    refund(limiter, decision)
    assert left(limiter) == 5


@EACH_WAY
def test_an_interruption_after_it_was_sent_counts_as_done(start_redis, alarm, clock, refund):
    server = start_redis()
    limiter = Limiter("5/minute", name="p", store=RedisStore(server.tcp_url(), timeout=PATIENCE), clock=clock)
    limiter.refund(limiter.hit("a"))  # the server knows the script
    decision = limiter.hit("a", cost=2)
    with frozen(server):
        alarm(0.2)
        with pytest.raises(Interrupted):
            refund(limiter, decision)
    assert left(limiter) == 5
    limiter.hit("a", cost=1)
    refund(limiter, decision)
    assert left(limiter) == 4


@EACH_WAY
@pytest.mark.parametrize("on_error", ["raise", "allow"])
def test_a_store_that_was_not_reached_leaves_it_refundable(start_redis, clock, refund, on_error):
    server = start_redis()
    proxy = FaultProxy(server.port)
    store = RedisStore(proxy.url, timeout=PATIENCE)
    limiter = Limiter("5/minute", name="p", store=store, clock=clock, on_error=on_error)
    try:
        decision = limiter.hit("a", cost=2)
        proxy.refuse()
        store.close()
        if on_error == "raise":
            with pytest.raises(StoreError) as caught:
                refund(limiter, decision)
            assert not caught.value.maybe_charged
        else:
            refund(limiter, decision)
    finally:
        proxy.stop()
    again = Limiter("5/minute", name="p", store=RedisStore(server.tcp_url(), timeout=PATIENCE), clock=clock)
    assert left(again) == 3
    refund(again, decision)
    assert left(again) == 5


def test_a_log_that_raises_after_a_refund_makes_no_second_one(start_redis, clock, monkeypatch):
    """That the store answers again is logged once the refund is done."""
    server = start_redis()
    store = RedisStore(server.tcp_url(), timeout=0.2)
    limiter = Limiter("5/minute", name="p", store=store, clock=clock, on_error="allow")
    decision = limiter.hit("a", cost=2)
    with frozen(server):
        assert limiter.hit("a").source == "error"

    def fail(*_):
        raise RuntimeError("the log is full")

    monkeypatch.setattr("overlimit._core_hooks.store_answered", fail)
    patient = Limiter("5/minute", name="p", store=RedisStore(server.tcp_url(), timeout=PATIENCE), clock=clock)
    before = left(patient)
    while True:
        try:
            limiter.refund(decision)
        except RuntimeError:
            break
    monkeypatch.undo()
    assert left(patient) == before + 2
    limiter.refund(decision)
    assert left(patient) == before + 2
