"""Functions of the app: those that are awaited, those that fail, and those that would limit nobody."""

from __future__ import annotations

import inspect

import pytest
from django.core.exceptions import ImproperlyConfigured

from adapters import each
from adapters.site import Limited, Reply

OPTIONS = ["limits", "identifiers", "cost", "exempt", "deduct_when", "on_breach"]
SOUND = {"limits": "1/minute", "cost": 1, "exempt": False, "identifiers": "b"}


@each("await")
def test_functions_of_each_kind_may_be_coroutine_functions(serve):
    site = serve(
        lambda asked: Reply(status=int(asked.header("X-Status") or 200)),
        awaits=True,
        limits=lambda asked: "" if asked.header("X-Free") else "6/minute",
        identifiers=lambda asked: "everybody",
        cost=lambda asked: int(asked.header("X-Cost") or 1),
        deduct_when=lambda response, asked: response.status_code != 404,
        exempt=lambda asked: asked.header("X-Vip") is not None,
        on_breach=lambda decision, asked: Reply(decision.identifier, 418),
    )
    assert site.statuses("/", 9, ("X-Free", "1")) + site.statuses("/", 9, ("X-Vip", "1")) == [200] * 18
    assert site.statuses("/", 9, ("X-Status", "404")) == [404] * 9
    assert site.statuses("/", 3, ("X-Cost", "2")) == [200] * 3
    refusal = site.ask(peer="192.0.2.99")
    assert (refusal.status, refusal.text, len(refusal.ours)) == (418, "everybody", 2)


@each("await")
@pytest.mark.every_store
def test_a_coroutine_function_is_awaited_once_a_request(serve):
    called = []

    def key(asked):
        called.append(asked.path)
        return ["a", "b"]

    limits = ["5/minute", lambda asked: "9/hour"]
    site = serve(awaits=True, limits=limits, global_limits="9/minute", identifiers=key)
    assert site.statuses(times=3) == [200] * 3
    assert called == ["/"] * 3


@each()
@pytest.mark.parametrize("option", OPTIONS)
def test_a_function_that_fails_fails_its_request_and_no_other(serve, adapter, option):
    called = []

    def fails(*given):
        called.append(given)
        if len(called) == 1:
            raise LookupError("it failed")
        return SOUND.get(option)

    limits = "0/minute" if option == "on_breach" else "1/minute"
    site = serve(awaits="await" not in adapter.cannot, **{"limits": limits, option: fails})
    assert site.statuses() == [500]
    assert site.statuses() == [429 if option in ("on_breach", "deduct_when") else 200]


async def later():
    return False


@each()
@pytest.mark.parametrize("option", OPTIONS)
def test_a_plain_function_that_returns_a_coroutine_leaves_nobody_unlimited(serve, option):
    site = serve(**{"limits": "1/minute", option: lambda *given: later()})
    assert 200 not in site.statuses(times=3)[1:]


@each()
@pytest.mark.parametrize("option", ["exempt", "deduct_when"])
def test_a_generator_which_is_always_true_exempts_nobody(serve, option):
    site = serve(limits="1/minute", **{option: lambda *given: (each for each in ())})
    first, *more = site.statuses(times=3)
    assert (first, 200 in more) == (500, False)


class Plain:
    """Objects of it have no text of their own, and each is true."""


@each("decorators")
@pytest.mark.parametrize(
    ("option", "returned", "first"),
    [
        *((option, later, {200, 500}) for option in ("exempt_when", "deduct_when", "scope", "error_message")),
        ("exempt_when", lambda: (each for each in ()), {500}),
        ("deduct_when", lambda: (each for each in ()), {500}),
        ("scope", Plain, {500}),
        ("scope", lambda: ("blue", [Plain()]), {500}),
    ],
)
def test_what_is_true_or_new_in_each_request_leaves_no_decorated_view_unlimited(
    serve, option, returned, first
):
    site = serve(routes={"/": Limited("1/minute", **{option: lambda *given: returned()})})
    asked = site.statuses(times=3)
    assert (asked[0] in first, 200 in asked[1:]) == (True, False)


async def takes_any(*given):
    return 1


@each(only={"core", "flask", "wsgi"})
@pytest.mark.parametrize("option", [*OPTIONS, "key_func", "global_limits"])
def test_where_nobody_awaits_them_coroutine_functions_are_refused_where_they_are_given(
    serve, adapter, option
):
    adapter_as_is = type(adapter)()
    adapter_as_is.function = lambda function, own, awaits: function
    given = {"limits": "1/minute", option: takes_any}
    with (
        pytest.raises(TypeError, match=r"takes_any\(\) would never be awaited"),
        adapter_as_is.serve(**given, views=str),
    ):
        pass


@each(only={"quart", "asgi", "wsgi", "django", "django async", "fastapi"})
@pytest.mark.parametrize(
    ("option", "function"),
    [
        ("exempt", lambda off=False: off),
        ("deduct_when", lambda response, status=404: response.status_code == status),
    ],
)
def test_a_value_that_a_function_keeps_is_not_taken_for_the_request(serve, adapter, option, function):
    adapter_as_is = type(adapter)()
    adapter_as_is.function = lambda function, own, awaits: function
    named = list(inspect.signature(function).parameters)[-1]
    with (
        pytest.raises((TypeError, ImproperlyConfigured), match=rf"<lambda>.*{named}.*default"),
        adapter_as_is.serve(**{"limits": "1/minute", option: function}, views=str),
    ):
        pass
