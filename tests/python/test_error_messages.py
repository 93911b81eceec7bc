"""An error about a wrong argument says what was given, what was expected and what to write instead."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import inspect
import itertools
import math
import pydoc
import re
import time
import typing
from importlib import import_module

import pytest
import redis

import overlimit
import overlimit.aio
import overlimit.fastapi
import overlimit.flask
import overlimit.recipes
from overlimit import (
    FixedWindow,
    InvalidLimit,
    LeakyBucket,
    Limiter,
    ManualClock,
    MemoryStore,
    Penalty,
    RateLimitExceeded,
    RedisStore,
    SlidingLog,
    SlidingWindow,
    SlidingWindowCounter,
    TokenBucket,
    hit_all,
    over_limit,
    over_limit_multi,
)
from overlimit._messages.migration_hints import (
    ELSEWHERE,
    OF_ACQUIRE,
    OF_AIO,
    OF_ASYNC_LIMITER,
    OF_LIMITER,
    OF_PACKAGE,
    OPTIONS_OF_LIMITER,
)
from overlimit.aio import AsyncLimiter
from overlimit.recipes import Counter, wait_time
from overlimit.simulation import Events

HINTS_OF = {Limiter: OF_LIMITER, AsyncLimiter: OF_ASYNC_LIMITER}
LIMITS = [FixedWindow, SlidingWindow, SlidingLog, SlidingWindowCounter, TokenBucket, LeakyBucket]


def refused(error: type[Exception], call: typing.Callable[[], object]) -> str:
    """Return the message of an error of exactly this class."""
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error
    return str(caught.value)


class TestArguments:
    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda: Limiter("5/s", storage="x"), "Limiter() has no argument 'storage': write store="),
            (lambda: Limiter("5/s", nme="login"), "Limiter() has no argument 'nme': write name="),
            (lambda: Limiter(limit="5/s"), "Limiter() has no argument 'limit': write limits="),
            (lambda: RedisStore("redis://", timout=1), "has no argument 'timout': write timeout="),
            (lambda: MemoryStore(max_key=1), "has no argument 'max_key': write max_keys="),
            (lambda: FixedWindow(5, 60, strat="epoch"), "has no argument 'strat': write start="),
            (lambda: TokenBucket(5, qqqq=1), "it takes rate, per, burst, refill, debt, start, name"),
            (lambda: Penalty(5, extended=True), "has no argument 'extended': write extend="),
            (
                lambda: RedisStore(host="localhost", port=6379),
                "RedisStore() has no argument 'host': write url='redis://localhost:6379/0'",
            ),
            (lambda: Counter(5, 60, clok=None), "has no argument 'clok': write clock="),
            (lambda: Limiter("5/s", key="a"), "has no argument 'key': write limiter.hit('user:42')"),
            (lambda: Limiter(60, 10), "takes 1 argument by position (limits) but 2 were given"),
            (lambda: Limiter(60, 10), "10 in 60 seconds as the tuple (60, 10)"),
            (lambda: Penalty(1, True, 2, 3), "takes 3 arguments by position"),
            (lambda: MemoryStore(1, 2, 3), "leave the others out"),
            (lambda: RedisStore("redis://", 1), "write the others by name, as timeout=1"),
            (lambda: FixedWindow(5), "FixedWindow() is missing 'per': write FixedWindow(limit, per)"),
            (lambda: LeakyBucket(10, per=60), "write LeakyBucket(rate, per, capacity=...)"),
            (lambda: LeakyBucket(10, 60, burst=20), "write LeakyBucket(rate, per, capacity=...)"),
            (lambda: TokenBucket(10, 60, capacity=20), "has no argument 'capacity': write burst="),
            (lambda: Limiter("20/minute", burst=60), "write it into the limits, as '20/minute burst 60'"),
            (lambda: AsyncLimiter("20/m", burst=60), "write it into the limits, as '20/minute burst 60'"),
            (lambda: Events([5]), "Events() is missing 'identifiers': write Events(times, identifiers)"),
            (lambda: overlimit.flask.RateLimit(None, "5/m"), "write default_limits='100/minute'"),
            (lambda: overlimit.fastapi.RateLimit(None, "5/m"), "write default_limits='100/minute'"),
            (lambda: overlimit.flask.rate_limit("5/m", key="ip"), "write identifiers=by_address"),
            (lambda: overlimit.fastapi.RateLimit().limit("5/m", key="ip"), "write identifiers=by_address"),
            (lambda: overlimit.flask.RateLimit(name="api"), "no option 'name': write key_prefix="),
            (lambda: overlimit.fastapi.RateLimit(key="ip"), "no option 'key': write identifiers=by_address"),
            (lambda: overlimit.flask.RateLimit(timeout=1), "write store='redis://host:6379/0?timeout=0.5'"),
            (overlimit.flask.rate_limit, "is missing 'value': write rate_limit(value)"),
            (lambda: Limiter("5/s", timeout=1), "write store='redis://host:6379/0?timeout=0.5'"),
            (lambda: Limiter("5/s").lock("a"), "write Limiter.lock(identifier, seconds)"),
            (lambda: Limiter("5/s", name=5), "name='login'"),
            (lambda: Limiter("5/s", penalty=60), "a Penalty such as Penalty(60), or None, not 60"),
            (lambda: Limiter("5/s", on_error=True), "'raise', 'allow', 'deny' or 'local', not True"),
            (lambda: Limiter("5/s", on_decision=5), "a function that takes a Decision, or None, not 5"),
            (lambda: Limiter("5/s", clock=5), "a function such as time.time or an object with now()"),
            (lambda: Limiter("5/s", clock=time), "a function such as time.time or an object with now()"),
            (lambda: Limiter("5/s", store=MemoryStore), "not the class MemoryStore: write MemoryStore()"),
            (
                lambda: Limiter("5/s", store=RedisStore),
                "not the class RedisStore: write RedisStore('redis://localhost:6379/0')",
            ),
            (lambda: Limiter("5/s", store=None), "not None: leave it out"),
            (lambda: Limiter("5/s", store=5), "an object of type int"),
            (
                lambda: Limiter("5/s", store=redis.Redis()),
                "of type Redis: write its server's URL, such as 'redis://localhost:6379/0'",
            ),
            (
                lambda: MemoryStore(max_bytes="1MB"),
                "a whole number, such as 256 << 20 for 256 MiB, not '1MB'",
            ),
            (lambda: MemoryStore(max_keys=1e6), "a whole number, such as 1_000_000, not 1000000.0"),
            (lambda: MemoryStore(max_keys=True), "not True"),
            (lambda: RateLimitExceeded("x"), "limiter.hit('user:42')"),
            (lambda: wait_time("x"), "must be a Decision"),
            (lambda: over_limit("memory://", identifiers=5), "a list of them"),
        ],
        ids=range(50),
    )
    def test_that_are_wrong_are_a_type_error_that_says_what_to_write(self, call, message):
        assert message in refused(TypeError, call)

    @pytest.mark.parametrize("name", OPTIONS_OF_LIMITER)
    def test_that_other_limiters_have(self, name):
        option = OPTIONS_OF_LIMITER[name]
        assert option in inspect.signature(Limiter).parameters
        assert refused(TypeError, lambda: Limiter("5/s", **{name: 1})).endswith(f"write {option}=")

    def test_the_signature_is_that_of_the_constructor(self):
        assert [*inspect.signature(TokenBucket).parameters][:3] == ["rate", "per", "burst"]
        assert "limits" in inspect.signature(Limiter).parameters

    def test_an_unknown_way_of_errors_is_a_value_error(self):
        said = refused(ValueError, lambda: Limiter("5/s", on_error="ignore"))
        assert "'raise', 'allow', 'deny' or 'local', not 'ignore'" in said

    @pytest.mark.parametrize("reading", [None, "noon", math.nan, 1.7e12])
    def test_a_clock_that_returns_no_time(self, reading):
        limiter = Limiter("5/s", clock=lambda: reading)
        for call in (limiter.hit, limiter.acquire):
            with pytest.raises((TypeError, ValueError), match=f"clock return.*{re.escape(repr(reading))}"):
                call("a")

    def test_a_storage_url_without_a_scheme(self):
        from overlimit.http.options.storage_urls import store_url

        assert "write redis://localhost:6379/0" in refused(ValueError, lambda: store_url("localhost:6379"))


class TestCalls:
    @pytest.fixture
    def limiter(self):
        return Limiter("5/s", store=MemoryStore(), clock=ManualClock(5))

    def test_an_identifier_of_another_type(self, limiter):
        assert "not 5; a cost is given by name" in refused(TypeError, lambda: limiter.hit("a", 5))
        assert "give several as hit(*identifiers)" in refused(TypeError, lambda: limiter.hit(["a", "b"]))
        assert "given by name: timeout=5" in refused(TypeError, lambda: limiter.acquire("a", 5))
        assert limiter.peek("a", cost=0).remaining == 5

    def test_an_identifier_that_is_none_is_no_cost(self, limiter):
        assert refused(TypeError, lambda: limiter.hit(None)).endswith("not None")

    def test_limiters_on_one_store_url_with_different_clocks(self):
        limiters = [Limiter("5/s", store="memory://", clock=ManualClock()) for _ in range(2)]
        message = refused(ValueError, lambda: hit_all([(limiter, "a") for limiter in limiters]))
        assert message.endswith("different clocks: give them the same clock=")

    @pytest.mark.parametrize("name", OF_ACQUIRE)
    def test_an_argument_that_acquire_of_other_limiters_has(self, limiter, name):
        assert refused(TypeError, lambda: limiter.acquire("a", **{name: 1})).endswith(
            "use timeout=, in seconds"
        )

    def test_a_refund_of_an_identifier(self, limiter):
        message = refused(TypeError, lambda: limiter.refund("user"))
        assert message == "expected a Decision, as hit() returns it, not str"

    def test_a_refund_with_a_cost_is_a_settlement(self, limiter):
        decision = limiter.hit("a", cost=3)
        for call in (lambda: limiter.refund(decision, 1), lambda: limiter.refund(decision, cost=1)):
            assert "write limiter.settle(decision, cost)" in refused(TypeError, call)
        assert limiter.peek("a", cost=0).remaining == 2

    def test_no_identifier(self, limiter):
        for call in (limiter.hit, limiter.peek, limiter.acquire, limiter.reset):
            assert "at least one identifier, such as 'user:42'" in refused(ValueError, call)

    def test_an_unknown_keyword(self, limiter):
        assert "hit('user:42', cost=2)" in refused(TypeError, lambda: limiter.hit("a", weight=2))

    @pytest.mark.parametrize("cost", [1.5, True, "1", None])
    def test_a_cost_of_another_type(self, limiter, cost):
        assert refused(TypeError, lambda: limiter.hit("a", cost=cost)).endswith(f"whole number, not {cost!r}")

    @pytest.mark.parametrize("name", ["hit_all", "peek_all", "acquire_all"])
    @pytest.mark.parametrize("module", [overlimit, overlimit.aio], ids=["calls", "awaits"])
    def test_of_several_limiters_name_the_function(self, module, name):
        kind, other = (Limiter, AsyncLimiter) if module is overlimit else (AsyncLimiter, Limiter)
        first, second = (kind("5/s", store=MemoryStore()) for _ in range(2))
        its_own_clock = kind("5/s", clock=ManualClock())

        def said(error, *charges):
            call = getattr(module, name)
            return refused(error, lambda: call(charges) if kind is Limiter else asyncio.run(call(charges)))

        assert said(ValueError, (first, "a"), (second, "a")).startswith(f"{name} decides in one store, ")
        assert said(ValueError, (first, "a"), (its_own_clock, "a")).startswith(
            f"{name} decides at one instant, "
        )
        assert f", as in {name}([(limiter, 'user:42'), " in said(TypeError, first, "a")
        assert said(ValueError).endswith(f", as in {name}([(limiter, 'user:42')])")
        instead = f"await overlimit.aio.{name}" if kind is Limiter else f"AsyncLimiter, or overlimit.{name}"
        article = "an" if other is AsyncLimiter else "a"
        assert f"s, not {article} {other.__name__}: write {instead}" in said(TypeError, (other("5/s"), "a"))
        assert f"expected a{'n Async' if kind is AsyncLimiter else ' '}Limiter, not 'a'" in said(
            TypeError, ("a", first)
        )

    def test_charges_that_are_none(self, limiter):
        assert "(limiter, identifier[, cost])" in refused(TypeError, lambda: hit_all([limiter]))
        assert "expected a Limiter, not 'a'" in refused(TypeError, lambda: hit_all([("a", limiter)]))
        for charge in [(), (5,), (5, "a", 1, 1)]:
            assert refused(TypeError, lambda given=charge: hit_all([given])).endswith(f", not {charge}")

    @pytest.mark.parametrize(
        ("kind", "name"), [(kind, name) for kind, hints in HINTS_OF.items() for name in hints]
    )
    def test_a_method_that_other_limiters_have(self, kind, name):
        limiter = kind("5/s")
        message = refused(AttributeError, lambda: getattr(limiter, name))
        assert message == f"'{kind.__name__}' object has no attribute {name!r}: {HINTS_OF[kind][name]}"
        assert not hasattr(limiter, name)
        assert not hasattr(kind, name)
        assert name not in dir(limiter)
        assert name not in dir(kind)

    @pytest.mark.parametrize("kind", HINTS_OF)
    def test_help_lists_no_method_that_is_not_there(self, kind):
        listed = set(
            re.findall(r"^ \|  (?:async )?(\w+)\b", pydoc.plain(pydoc.render_doc(kind)), re.MULTILINE)
        )
        assert {"hit", "peek", "acquire", "stats"} <= listed
        assert not listed & set(HINTS_OF[kind])

    @pytest.mark.parametrize("kind", HINTS_OF)
    def test_a_method_to_use_instead_is_there_and_awaited_where_it_must_be(self, kind):
        limiter = kind("5/s")
        for hint in HINTS_OF[kind].values():
            for awaited, method in re.findall(r"(await )?\blimiter\.(\w+)\(", hint):
                assert bool(awaited) is inspect.iscoroutinefunction(getattr(limiter, method))
            for awaited, module, name in re.findall(r"(await )?\b(overlimit[.\w]*)\.(\w+)\(", hint):
                function = getattr(import_module(module), name)
                assert bool(awaited) is inspect.iscoroutinefunction(function) is (kind is AsyncLimiter)

    def test_a_limiter_that_is_a_block(self):
        async def enter(limiter):
            async with limiter:
                raise AssertionError

        with pytest.raises(AttributeError, match=r"write with limiter\.throttle"), Limiter("5/s"):
            raise AssertionError
        with pytest.raises(AttributeError, match=r"write async with limiter\.throttle"), AsyncLimiter("5/s"):
            raise AssertionError
        with pytest.raises(AttributeError, match=r"write async with limiter\.throttle"):
            asyncio.run(enter(AsyncLimiter("5/s")))
        for kind in (contextlib.AbstractContextManager, contextlib.AbstractAsyncContextManager):
            assert not issubclass(Limiter, kind)
            assert not issubclass(AsyncLimiter, kind)

    def test_mirrored_functions(self):
        for limits in (5, [5], [(1,)]):
            message = refused(InvalidLimit, lambda limits=limits: over_limit_multi("memory://", limits))
            assert "[(1, 10), (60, 120)]" in message


class TestNamesOfThePackage:
    @pytest.mark.parametrize("name", ELSEWHERE)
    def test_that_are_elsewhere(self, name):
        first, *others = ELSEWHERE[name]
        for module in ELSEWHERE[name]:
            assert hasattr(import_module(module), name)
        also = f", or import it from {' or '.join(others)}" if others else ""
        hint = f"from {first} import {name}{also}"
        with pytest.raises(ImportError, match=f"cannot import name '{name}' from 'overlimit': write {hint}"):
            exec(f"from overlimit import {name}", {})
        assert refused(AttributeError, lambda: getattr(overlimit, name)).endswith(f": write {hint}")
        assert not hasattr(overlimit, name)

    def test_are_all_of_the_other_modules_names(self):
        for module in (overlimit.aio, overlimit.flask, overlimit.fastapi, overlimit.recipes):
            assert set(module.__all__) - set(overlimit.__all__) <= set(ELSEWHERE)

    @pytest.mark.parametrize("name", OF_PACKAGE)
    def test_that_other_packages_have(self, name):
        assert refused(AttributeError, lambda: getattr(overlimit, name)).endswith(f": {OF_PACKAGE[name]}")
        with pytest.raises(ImportError, match=f"cannot import name '{name}' from 'overlimit': "):
            exec(f"from overlimit import {name}", {})

    @pytest.mark.parametrize("name", [*OF_AIO, *sorted(set(overlimit.__all__) - set(overlimit.aio.__all__))])
    def test_that_are_no_names_of_aio(self, name):
        hint = OF_AIO.get(name, f"write from overlimit import {name}")
        with pytest.raises(ImportError) as caught:
            exec(f"from overlimit.aio import {name}", {})
        assert str(caught.value) == f"cannot import name {name!r} from 'overlimit.aio': {hint}"
        assert refused(AttributeError, lambda: getattr(overlimit.aio, name)).endswith(f": {hint}")
        assert not hasattr(overlimit.aio, name)

    def test_that_are_nowhere(self):
        assert refused(AttributeError, lambda: overlimit.aio.Limitr).endswith("no attribute 'Limitr'")
        assert refused(AttributeError, lambda: overlimit.Limitr).endswith("no attribute 'Limitr'")
        with pytest.raises(ImportError, match="cannot import name 'Limitr'"):
            exec("from overlimit import Limitr", {})

    def test_a_star_import_gives_the_public_names(self):
        names: dict[str, object] = {}
        exec("from overlimit import *", names)
        assert set(names) - {"__builtins__"} == set(overlimit.__all__)


USES_OF = {
    Penalty: [lambda one: one.levels, repr, hash, copy.copy, lambda one: Limiter("1/s", penalty=one)],
    RedisStore: [lambda one: one.endpoint, repr, copy.copy],
    overlimit.recipes.Counter: [lambda one: one.hit("a"), repr],
    overlimit.recipes.PeriodLimit: [lambda one: one.take("a"), repr],
    overlimit.recipes.TokenLimiter: [lambda one: one.allow(), repr],
} | {kind: [lambda one: one.quota, repr, Limiter] for kind in LIMITS}
WRONG_ARGUMENTS = {RedisStore: ["nowhere"], Penalty: [-1]}


@pytest.mark.parametrize("kind", USES_OF)
def test_an_object_whose_constructor_was_never_called_or_raised(kind):
    bare, half_built = kind.__new__(kind), kind.__new__(kind)
    with pytest.raises((TypeError, ValueError)):
        half_built.__init__(*WRONG_ARGUMENTS.get(kind, [-1, 1]))
    for one, use in itertools.product((bare, half_built), USES_OF[kind]):
        message = refused(AttributeError, lambda one=one, use=use: use(one))
        assert message == (
            f"this {kind.__name__} was not initialised: its __init__ was never called or did not finish"
        )


@pytest.mark.parametrize("kind", [Penalty, RedisStore, overlimit.recipes.Counter])
def test_an_attribute_that_is_not_there(kind):
    built = {Penalty: Penalty(1), RedisStore: RedisStore("redis://h")}.get(kind) or kind(1, 1)
    assert (
        refused(AttributeError, lambda: built.nothing)
        == f"'{kind.__name__}' object has no attribute 'nothing'"
    )
