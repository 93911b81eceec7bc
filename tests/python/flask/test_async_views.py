"""Limits on async views."""

from __future__ import annotations

import asyncio
import inspect

import pytest
from flask import Response
from flask.views import MethodView

from overlimit.flask import RateLimitExceeded, rate_limit


@pytest.fixture
def site(make_site):
    """Return a site that runs async views by what asgiref does for Flask."""
    site = make_site(application_limits="100/minute")
    site.app.async_to_sync = lambda function: lambda **arguments: asyncio.run(function(**arguments))
    return site


def add(site, path, *decorators):
    async def view(**arguments):
        await asyncio.sleep(0)
        return "ok"

    for decorator in reversed(decorators):
        view = decorator(view)
    site.app.add_url_rule(path, path.strip("/"), view)
    return view


@pytest.mark.parametrize("free", [False, True], ids=["bound", "free"])
def test_an_async_view_admits_exactly_its_quota(site, clock, free):
    limit = rate_limit if free else site.limiter.limit
    add(site, "/a", limit("3/hour"), limit("2/minute"))
    assert site.quotas("/a") == [2, 3, 100]
    assert site.ask("/a", 2) == [200, 429]
    clock.advance(60)
    assert site.ask("/a", 2) == [200, 429]


def test_decorators_keep_a_coroutine_function(site):
    for decorator in (
        site.limiter.limit("1/minute"),
        site.limiter.shared_limit("1/minute", scope="s"),
        site.limiter.exempt,
        rate_limit("1/minute"),
    ):
        assert inspect.iscoroutinefunction(add(site, f"/{id(decorator)}", decorator))


def test_an_async_view_may_be_exempt(site):
    site.route("/other")
    add(site, "/a", site.limiter.exempt)
    assert site.ask("/a", 3) == [200] * 3
    assert site.decision("/other").remaining == 99


def test_an_async_view_without_limits_has_those_of_the_app(site):
    add(site, "/a")
    assert site.quotas("/a") == [100]


def test_options_hold_on_an_async_view(site):
    add(
        site,
        "/a",
        site.limiter.limit(
            lambda: "5/minute", cost=lambda: 2, on_breach=lambda decision: Response("later", status=429)
        ),
    )
    assert site.ask("/a", 2) == [200, 200]
    assert site.open("/a").text == "later"


def test_deductions_hold_on_an_async_view(site):
    add(site, "/a", site.limiter.limit("1/minute", deduct_when=lambda response: False))
    assert site.ask("/a", 3) == [200] * 3


def test_a_block_in_an_async_view_is_limited(site):
    @site.app.get("/a")
    async def view():
        await asyncio.sleep(0)
        with site.limiter.limit("2/minute"):
            return "ok"

    assert site.ask("/a", 3) == [200, 200, 429]


def test_an_async_view_reads_the_decision(site):
    @site.app.get("/a")
    @site.limiter.limit("2/minute")
    async def view():
        await asyncio.sleep(0)
        return str(site.limiter.current_decision.remaining)

    assert [site.open("/a").text for _ in range(2)] == ["1", "0"]


def test_async_methods_of_a_class_view_are_limited(site):
    class Item(MethodView):
        @site.limiter.limit("1/minute")
        async def get(self):
            await asyncio.sleep(0)
            return "got"

    site.app.add_url_rule("/item", view_func=Item.as_view("item"))
    assert site.ask("/item", 2) == [200, 429]


def test_an_async_function_that_a_view_calls_is_limited(site):
    @site.limiter.limit("3/minute")
    async def step():
        return "s"

    @site.app.get("/a")
    async def view():
        return await step() + await step()

    assert site.ask("/a", 2) == [200, 429]


def test_an_error_handler_reads_the_refusal_of_an_async_view(site):
    add(site, "/a", site.limiter.limit("1/minute"))

    @site.app.errorhandler(429)
    def handler(error: RateLimitExceeded):
        return str(error.decision.limit.quota), 429

    assert site.ask("/a", 1) == [200]
    assert site.open("/a").text == "1"
