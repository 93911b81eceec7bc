"""What a limiter answers when its store fails: what on_error says, for failures and for nothing else."""

from __future__ import annotations

import itertools
import math
import pickle
import signal
import threading
import time

import pytest

from overlimit import (
    FixedWindow,
    InvalidLimit,
    Limiter,
    ManualClock,
    MemoryStore,
    RedisStore,
    StoreError,
    StoreUnavailable,
    TokenBucket,
    hit_all,
)

from .outages import NOWHERE, PATIENCE, SHORT, eventually, frozen, refused

FROM_LENIENT_TO_STRICT = ("allow", "local", "deny", "raise")
SOURCES = {"allow": "error", "local": "local", "deny": "error"}
EACH = pytest.mark.parametrize("on_error", FROM_LENIENT_TO_STRICT)
OF_NOBODY = pytest.mark.parametrize("on_error", ["allow", "deny"])
SIXTEEN_LIMITS = [FixedWindow(9, 60, name=f"n{i}") for i in range(16)]
EACH_BUT_RAISE = pytest.mark.parametrize("on_error", FROM_LENIENT_TO_STRICT[:3])


@pytest.fixture(params=["refused port", "no socket", "stopped", "frozen", "frozen before", "wrong password"])
def failing_store(request, start_redis):
    """Return a store that fails, in each way in turn."""
    if request.param == "no socket":
        yield RedisStore(NOWHERE, timeout=5.0)
    elif request.param == "refused port":
        with refused() as url:
            yield RedisStore(url, timeout=5.0)
    elif request.param == "wrong password":
        server = start_redis(password="right")
        yield RedisStore(server.tcp_url().replace("right", "wrong"), timeout=5.0)
    else:
        server = start_redis()
        store = RedisStore(server.tcp_url(), timeout=SHORT if "frozen" in request.param else 5.0)
        if request.param != "frozen before":
            use(store)
        if request.param == "stopped":
            server.stop()
            yield store
        else:
            with frozen(server):
                yield store


def use(store):
    """Have a store decide once, so that it's connected."""
    limiter = Limiter("9/day", name="first", on_error="allow", store=store)
    eventually(lambda: limiter.hit("a").source, lambda source: source == "store")


def nowhere(limits="3/minute", **options):
    return Limiter(
        limits,
        **{"name": "default", "store": RedisStore(NOWHERE), "clock": ManualClock(1_700_000_000), **options},
    )


class TestEveryFailure:
    def test_raises_unless_told_otherwise(self, failing_store):
        limiter = Limiter("3/minute", name="default", store=failing_store)
        with pytest.raises(StoreError) as caught:
            limiter.hit("a")
        assert isinstance(caught.value.maybe_charged, bool)
        assert 0.0 <= caught.value.retry_after < math.inf

    def test_is_allowed_whatever_was_asked(self, failing_store):
        limiter = Limiter("3/minute", name="default", store=failing_store, on_error="allow")
        for decision in (limiter.hit("a"), limiter.hit("a", "b", cost=9), limiter.peek("a", cost=2**60)):
            assert decision
            assert (decision.status, decision.source) == ("ok", "error")
            assert (decision.retry_after, decision.delay, decision.reset_after) == (0.0, 0.0, 0.0)

    def test_is_refused_for_a_finite_time_whatever_was_asked(self, failing_store):
        limiter = Limiter("3/minute", name="default", store=failing_store, on_error="deny")
        for decision in (limiter.hit("a"), limiter.hit("a", "b", cost=9), limiter.peek("a", cost=0)):
            assert not decision
            assert (decision.status, decision.source) == ("over", "error")
            assert 0.001 <= decision.retry_after <= 10
            assert (decision.delay, decision.reset_after) == (0.0, 0.0)

    def test_is_decided_here_up_to_the_limit_and_no_further(self, failing_store):
        limiter = Limiter(FixedWindow(3, 3600), name="default", store=failing_store, on_error="local")
        decisions = [limiter.hit("a") for _ in range(5)]
        assert [(each.status, each.remaining) for each in decisions] == [
            ("ok", 2),
            ("ok", 1),
            ("ok", 0),
            ("over", 0),
            ("over", 0),
        ]
        assert {each.source for each in decisions} == {"local"}
        assert 3590 <= decisions[-1].retry_after <= 3600


class TestDecisionsOfNobody:
    @pytest.mark.parametrize("on_error", ["allow", "deny"])
    def test_name_nobody_and_hold_nothing(self, on_error):
        decision = nowhere(on_error=on_error).hit("a", cost=2)
        assert (decision.limit, decision.identifier, decision.details) == (None, None, ())
        assert (decision.remaining, decision.cost, decision.time) == (0, 2, 1_700_000_000)
        assert "source='error'" in repr(decision)
        assert "error" in decision._repr_html_()

    @EACH_BUT_RAISE
    def test_pickle_and_compare(self, on_error):
        limiter = nowhere(on_error=on_error)
        decision = limiter.hit("a")
        copied = pickle.loads(pickle.dumps(decision))
        assert copied == decision
        assert hash(copied) == hash(decision)
        assert (copied.source, copied.details) == (decision.source, decision.details)
        assert decision != Limiter("3/minute", store=MemoryStore(), clock=limiter.clock).hit("a")

    @EACH_BUT_RAISE
    def test_are_told_to_on_decision(self, on_error):
        told = []
        limiter = nowhere(on_error=on_error, on_decision=told.append)
        decisions = [limiter.hit("a"), limiter.acquire("a", timeout=0)]
        limiter.peek("a")
        assert told == decisions

    @OF_NOBODY
    @pytest.mark.parametrize("identifiers", [("a",), tuple(f"user:{i}" for i in range(16))])
    def test_give_nothing_back(self, on_error, identifiers):
        limiter = nowhere(SIXTEEN_LIMITS, on_error=on_error)
        assert_gives_nothing_back(limiter.hit(*identifiers, cost=2), limiter)
        assert_gives_nothing_back(limiter.acquire(*identifiers, timeout=0), limiter)


def assert_gives_nothing_back(decision, limiter):
    before = limiter.stats()["calls"]
    for places in ([], [0], range(64)):
        limiter._refund_part(decision, places)
    limiter.refund(decision)
    limiter.refund(pickle.loads(pickle.dumps(decision)))
    assert limiter.stats()["calls"] == before


class TestWhatIsNoFailure:
    @EACH
    @pytest.mark.parametrize(
        ("call", "error"),
        [
            (lambda limiter: limiter.hit(), ValueError),
            (lambda limiter: limiter.hit(""), ValueError),
            (lambda limiter: limiter.hit(3), TypeError),
            (lambda limiter: limiter.hit("a", cost=-1), ValueError),
            (lambda limiter: limiter.hit("a", cost=True), TypeError),
            (lambda limiter: limiter.peek("a", cost=1.5), TypeError),
            (lambda limiter: limiter.acquire("a", timeout=-1), ValueError),
            (lambda limiter: limiter.update("nonsense"), InvalidLimit),
            (lambda limiter: limiter.refund("a"), TypeError),
            (lambda limiter: hit_all([(limiter, "a"), (limiter, "a")]), ValueError),
            (lambda limiter: nowhere(clock=lambda: math.nan, on_error=limiter.on_error).hit("a"), ValueError),
        ],
    )
    def test_a_wrong_argument_is_an_error_in_any_case(self, on_error, call, error):
        limiter = nowhere(on_error=on_error)
        with pytest.raises(error) as caught:
            call(limiter)
        assert not isinstance(caught.value, StoreError)
        assert limiter.stats()["calls"] == 0

    @EACH
    def test_an_interruption_is_none_and_comes_through_at_once(self, start_redis, on_error):
        server = start_redis()
        store = RedisStore(server.tcp_url(), timeout=60.0)
        use(store)
        limiter = Limiter("3/minute", name="default", store=store, on_error=on_error)
        before = signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            with frozen(server):
                signal.setitimer(signal.ITIMER_REAL, 0.2)
                with pytest.raises(KeyboardInterrupt):
                    limiter.hit("a")
        finally:
            signal.signal(signal.SIGALRM, before)
        assert limiter.stats()["errors"] == {"timeout": 0, "unavailable": 0, "config": 0, "script": 0}

    @EACH
    def test_what_an_administrator_does_fails_loudly(self, on_error):
        limiter = nowhere(on_error=on_error)
        for act in (lambda: limiter.lock("a", 60), lambda: limiter.reset("a"), limiter.reset_all):
            with pytest.raises(StoreUnavailable):
                act()

    def test_another_way_to_answer_cannot_be_asked_for(self):
        for wrong in ("ignore", "", "RAISE", "allow "):
            with pytest.raises(
                ValueError, match="on_error must be 'raise', 'allow', 'deny' or 'local', not "
            ):
                Limiter("3/minute", on_error=wrong)
        for wrong in (None, True, b"raise", 3):
            with pytest.raises(TypeError, match="on_error"):
                Limiter("3/minute", on_error=wrong)


class TestHitAll:
    @pytest.mark.parametrize("both", [*itertools.product(FROM_LENIENT_TO_STRICT, repeat=2)], ids="-".join)
    def test_follows_the_strictest_of_its_limiters(self, both, clock):
        store = RedisStore(NOWHERE)
        first, second = (
            Limiter(FixedWindow(2, 60), name=f"p{place}", store=store, clock=clock, on_error=on_error)
            for place, on_error in enumerate(both)
        )
        strictest = max(both, key=FROM_LENIENT_TO_STRICT.index)
        call = [(first, "a", 1), (second, "b", 2)]
        if strictest == "raise":
            with pytest.raises(StoreUnavailable):
                hit_all(call)
            return
        decision = hit_all(call)
        assert decision.source == SOURCES[strictest]
        assert bool(decision) == (strictest != "deny")
        assert decision.cost == 3
        assert [(each.policy, each.remaining) for each in decision.details] == (
            [("p0", 1), ("p1", 0)] if strictest == "local" else []
        )

    def test_takes_the_share_of_a_limiter_that_would_have_allowed(self, clock):
        store = RedisStore(NOWHERE)
        local = Limiter("9/day", name="local", store=store, clock=clock, on_error="local")
        lenient = Limiter(
            FixedWindow(4, 60), name="lenient", store=store, clock=clock, on_error="allow", local_share=0.5
        )
        assert [bool(hit_all([(local, "a"), (lenient, "a")])) for _ in range(4)] == [True, True, False, False]
        assert lenient.hit("a").source == "error"

    def test_refuses_two_shares_of_one_policy(self, clock):
        store = RedisStore(NOWHERE)
        one, other = (
            Limiter("9/day", name="default", store=store, clock=clock, on_error="local", local_share=share)
            for share in (0.5, 0.25)
        )
        with pytest.raises(ValueError, match="share"):
            hit_all([(one, "a"), (other, "b")])


class TestAcquire:
    def test_is_refused_once_its_time_is_up_or_waiting_is_in_vain(self):
        limiter = Limiter("3/minute", name="default", store=RedisStore(NOWHERE), on_error="deny")
        start = time.monotonic()
        refused = limiter.acquire("a", timeout=0.5)
        assert (refused.status, refused.source) == ("over", "error")
        assert time.monotonic() - start <= PATIENCE
        assert 1 <= limiter.stats()["calls"] <= 600

    def test_waits_for_what_this_process_grants(self):
        limiter = Limiter(
            TokenBucket(10, per=1, burst=1), name="default", store=RedisStore(NOWHERE), on_error="local"
        )
        first, second = limiter.acquire("a", timeout=PATIENCE), limiter.acquire("a", timeout=PATIENCE)
        assert (first.source, second.source) == ("local", "local")
        assert 0.1 <= second.time - first.time + 1e-6 <= PATIENCE

    def test_goes_on_with_a_store_that_comes_back(self, start_redis):
        server = start_redis()
        port = server.port
        limiter = Limiter(
            "3/minute", name="default", store=RedisStore(server.tcp_url(), timeout=5.0), on_error="deny"
        )
        assert limiter.hit("a").source == "store"
        server.stop()
        answers = []
        waiter = threading.Thread(target=lambda: answers.append(limiter.acquire("a", timeout=PATIENCE)))
        waiter.start()
        eventually(lambda: limiter.stats()["errors"]["unavailable"], bool)
        assert not answers
        start_redis(port=port)
        waiter.join(PATIENCE)
        assert [(bool(answer), answer.source) for answer in answers] == [(True, "store")]


class TestRefund:
    @EACH_BUT_RAISE
    def test_that_fails_is_logged_and_no_error(self, start_redis, clock, on_error, caplog):
        server = start_redis()
        limiter = Limiter(
            "3/minute",
            name="default",
            store=RedisStore(server.tcp_url(), timeout=5.0),
            clock=clock,
            on_error=on_error,
        )
        decision = limiter.hit("a", cost=2)
        assert decision.source == "store"
        server.stop()
        limiter.refund(decision)
        assert [record.name for record in caplog.records] == ["overlimit"]
        assert limiter.stats()["errors"]["unavailable"] + limiter.stats()["timeouts"] == 1


class TestLimiters:
    @EACH
    def test_say_how_they_answer(self, on_error):
        limiter = nowhere(on_error=on_error, local_share=0.25)
        assert (limiter.on_error, limiter.local_share) == (on_error, 0.25)
        assert ("on_error" in repr(limiter)) == (on_error != "raise")
        assert "local_share=0.25" in repr(limiter)
        assert "local_share" not in repr(nowhere(on_error=on_error))
        assert (Limiter("1/s").on_error, Limiter("1/s").local_share) == ("raise", 1)

    @EACH_BUT_RAISE
    def test_pickle_with_it(self, on_error):
        limiter = Limiter(
            FixedWindow(4, 60), name="default", store=RedisStore(NOWHERE), on_error=on_error, local_share=0.5
        )
        copied = pickle.loads(pickle.dumps(limiter))
        assert (copied.on_error, copied.local_share) == (on_error, 0.5)
        decisions = [copied.hit("a") for _ in range(3)]
        assert {each.source for each in decisions} == {SOURCES[on_error]}
        assert [bool(each) for each in decisions] == {
            "allow": [True] * 3,
            "deny": [False] * 3,
            "local": [True, True, False],
        }[on_error]
