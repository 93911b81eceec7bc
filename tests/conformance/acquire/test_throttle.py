"""A throttled function or block begins when it is its turn, and not before; what cannot be throttled."""

from __future__ import annotations

import functools
import inspect
import pickle

import pytest

from conformance.answers import left
from overlimit import FixedWindow, RateLimitExceeded

from .waiters import PATIENCE, queued, still_waits, until

pytestmark = pytest.mark.only_threads

START = 1_700_000_000


@pytest.fixture
def limiter(build):
    return build(FixedWindow(1, 10))


@pytest.mark.every_store
def test_each_call_waits_for_its_turn_to_the_microsecond_and_spends_it(limiter, clock, at, call):
    began = []

    @limiter.throttle("a")
    def fetch(page, *, size=10):
        began.append(clock.now())
        return page, size

    assert fetch(1) == (1, 10)
    assert left(limiter) == 0
    second = call(fetch, 2, size=20)
    until(lambda: queued(limiter) == 1)
    at(9.999999)
    assert still_waits(second)
    at(10)
    assert second.result(PATIENCE) == (2, 20)
    assert began == [START, START + 10]


def test_a_block_waits_and_knows_the_decision(limiter, at, call):
    turn = limiter.throttle("a")
    with turn as decision:
        assert decision.allowed
        assert left(limiter) == 0

    def enter():
        with turn as decision:
            return decision.time

    second = call(enter)
    until(lambda: queued(limiter) == 1)
    at(9.999999)
    assert still_waits(second)
    at(10)
    assert second.result(PATIENCE) == START + 10


def test_without_a_timeout_it_takes_as_long_as_it_takes_and_with_one_it_raises_at_once(limiter, at, call):
    limiter.hit("a")
    patient = call(limiter.throttle("a")(lambda: "done"))
    until(lambda: queued(limiter) == 1)
    began = []
    for timeout in (0, 5.0, 9.999999):
        with pytest.raises(RateLimitExceeded) as raised:
            limiter.throttle("a", timeout=timeout)(began.append)(timeout)
        assert raised.value.decision.status == "over"
        with pytest.raises(RateLimitExceeded), limiter.throttle("a", timeout=timeout):
            began.append(timeout)
    assert began == []
    assert still_waits(patient)
    at(10)
    assert patient.result(PATIENCE) == "done"
    assert left(limiter) == 0


def test_the_error_names_nobody_and_can_be_pickled(limiter):
    limiter.hit("user:secret")
    with pytest.raises(RateLimitExceeded) as raised:
        limiter.throttle("user:secret", timeout=0)(print)()
    assert "secret" not in str(raised.value) + repr(raised.value)
    assert "10 seconds" in str(raised.value)
    again = pickle.loads(pickle.dumps(raised.value))
    assert (type(again), str(again)) == (RateLimitExceeded, str(raised.value))
    assert again.decision == raised.value.decision


@pytest.mark.every_store
def test_what_the_function_raises_passes_unchanged_and_the_charge_stays(build):
    limiter = build("3/hour")
    error = LookupError("no such page")

    @limiter.throttle("a")
    def fail():
        raise error

    with pytest.raises(LookupError) as raised:
        fail()
    assert raised.value is error
    assert left(limiter) == 2
    with pytest.raises(LookupError), limiter.throttle("a"):
        raise error
    assert left(limiter) == 1


def test_identifiers_and_cost_may_be_functions_of_the_calls_arguments(build):
    limiter = build("10/hour")

    @limiter.throttle(
        lambda account, rows, **_: f"account:{account}",
        "all",
        cost=lambda account, rows, **_: len(rows),
    )
    def store(account, rows, dry=False):
        return account, rows, dry

    assert store("ada", [1, 2, 3]) == ("ada", [1, 2, 3], False)
    assert store("bob", rows=[1], dry=True) == ("bob", [1], True)
    assert [left(limiter, name) for name in ("account:ada", "account:bob", "all", "account:eve")] == [
        7,
        9,
        6,
        10,
    ]


def test_methods_are_throttled_each_call_and_may_name_their_object(build):
    limiter = build("5/hour")

    class Client:
        def __init__(self, host):
            self.host = host

        @limiter.throttle(lambda self, *_: self.host)
        def get(self, path):
            return self.host + path

        @staticmethod
        @limiter.throttle("static")
        def plain(path):
            return path

        @classmethod
        @limiter.throttle("class")
        def of_class(cls, path):
            return cls.__name__ + path

    assert Client("a").get("/1") + Client("b").get("/2") + Client("a").get("/3") == "a/1b/2a/3"
    assert Client.plain("/4") + Client("a").plain("/5") + Client.of_class("/6") == "/4/5Client/6"
    assert [left(limiter, name) for name in ("a", "b", "static", "class")] == [3, 4, 3, 4]


def test_a_decorated_function_keeps_its_name_documentation_and_signature(limiter):
    def fetch(page: int, *, size: int = 10) -> str:
        """Fetch a page."""

    throttled = limiter.throttle("a")(fetch)
    assert (throttled.__name__, throttled.__doc__) == ("fetch", "Fetch a page.")
    assert inspect.signature(throttled) == inspect.signature(fetch)
    assert throttled.__wrapped__ is fetch


def test_partials_callables_and_classes_are_throttled_like_functions(build):
    limiter = build("9/hour")

    class Adder:
        def __call__(self, number):
            return number + 1

    throttle = limiter.throttle("a")
    assert throttle(functools.partial(max, 5))(7) == 7
    assert throttle(Adder())(1) == 2
    assert throttle(functools.partial(Adder(), 4))() == 5
    assert throttle(dict)(a=1) == {"a": 1}
    assert throttle(throttle(len))("abc") == 3
    assert left(limiter) == 3


class Awaited:
    async def __call__(self):
        return 1


class Iterated:
    def __call__(self):
        yield 1

    async def rows(self):
        yield 1


async def coroutine():
    return 1


def generator():
    yield 1


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (coroutine, "AsyncLimiter.throttle"),
        (functools.partial(functools.partial(coroutine)), "AsyncLimiter.throttle"),
        (Awaited(), "AsyncLimiter.throttle"),
        (functools.partial(Awaited()), "AsyncLimiter.throttle"),
        (Awaited().__call__, "AsyncLimiter.throttle"),
        (generator, r"with limiter.throttle\(...\)"),
        (Iterated(), r"with limiter.throttle\(...\)"),
        (Iterated().rows, "async with AsyncLimiter.throttle"),
        (staticmethod(len), "@staticmethod above @limiter.throttle"),
        (classmethod(len), "@classmethod above @limiter.throttle"),
        (property(len), "decorates a function"),
        ("fetch", "decorates a function"),
    ],
    ids=range(12),
)
def test_what_cannot_be_throttled_is_a_type_error_where_it_is_decorated(limiter, function, said):
    throttle = limiter.throttle("a")
    with pytest.raises(TypeError, match=said):
        throttle(function)
    assert left(limiter) == 1


@pytest.mark.parametrize(
    ("arguments", "options", "error", "said"),
    [
        ((), {}, ValueError, "at least one identifier"),
        (("",), {}, ValueError, "empty"),
        ((b"",), {}, ValueError, "empty"),
        ((5,), {}, TypeError, "str or bytes"),
        ((["a", "b"],), {}, TypeError, "str or bytes"),
        ((coroutine,), {}, TypeError, "plain function"),
        (("a",), {"cost": coroutine}, TypeError, "plain function"),
        (("a",), {"cost": -1}, ValueError, "cost"),
        (("a",), {"cost": 1.5}, TypeError, "cost"),
        (("a",), {"cost": True}, TypeError, "cost"),
        (("a",), {"weight": 5}, TypeError, "write cost="),
    ],
    ids=range(11),
)
def test_a_wrong_argument_is_an_error_before_anything_is_decorated(limiter, arguments, options, error, said):
    with pytest.raises(error, match=said):
        limiter.throttle(*arguments, **options)


def test_what_functions_of_a_call_return_is_checked_at_the_call_which_does_not_begin(limiter):
    began = []
    for identifier, cost, error in (
        (lambda _: None, 1, TypeError),
        (lambda _: "", 1, ValueError),
        ("a", lambda _: "1", TypeError),
        ("a", lambda _: -1, ValueError),
    ):
        with pytest.raises(error):
            limiter.throttle(identifier, cost=cost)(began.append)(1)
    assert began == []
    assert left(limiter) == 1


@pytest.mark.parametrize(("identifier", "cost"), [("a", len), (len, 1)])
def test_a_block_has_no_arguments_to_give_to_a_function(limiter, identifier, cost):
    turn = limiter.throttle(identifier, cost=cost)
    with pytest.raises(TypeError, match=r"with limiter\.throttle"), turn:
        pass
    assert left(limiter) == 1
