"""What cannot be throttled, and wrong arguments, are errors where a function is decorated."""

from __future__ import annotations

import functools

import pytest

from overlimit import FixedWindow

pytestmark = pytest.mark.only_threads


@pytest.fixture
def limiter(build):
    return build(FixedWindow(1, 10))


def left(limiter, identifier="a"):
    return limiter.peek(identifier, cost=0).remaining


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
