"""Which limits hold for a request to a Quart app, when it is decided, and what its response shows."""

from __future__ import annotations

import asyncio
import json

import pytest
from quart import Blueprint, abort, request
from quart.views import MethodView

from overlimit.quart import ExemptionScope, by_path_parameter, get_address, get_identifiers


def test_blueprints_hand_their_limits_down_and_may_be_exempt(site):
    outer, inner, free = Blueprint("outer", "outer"), Blueprint("inner", "inner"), Blueprint("free", "free")
    site.limiter.limit("2/minute")(outer)
    site.limiter.limit("1/minute")(inner)
    site.limiter.exempt(free, flags=ExemptionScope.DEFAULT)
    for blueprint in (outer, inner, free):
        blueprint.add_url_rule(f"/{blueprint.name}", "view", lambda: "ok")
    free.add_url_rule("/limited", "limited", site.limiter.limit("1/minute")(lambda: "ok"))
    outer.register_blueprint(inner)
    site.app.register_blueprint(outer)
    site.app.register_blueprint(free)
    assert site.statuses(*["/outer"] * 3) == [200, 200, 429]
    assert site.statuses(*["/inner"] * 2) == [200, 429]
    assert site.statuses(*["/free"] * 2, *["/limited"] * 2) == [200, 200, 200, 429]


def test_a_decorator_above_the_route_and_those_of_a_class_hold(site):
    @site.limiter.limit("1/minute")
    @site.app.get("/above")
    async def above():
        return "ok"

    class Both(MethodView):
        decorators = [site.limiter.limit("2/minute")]  # noqa: RUF012 - as Quart has it

        async def get(self):
            return "got"

        @site.limiter.limit("1/minute")
        async def post(self):
            return "posted"

    site.app.add_url_rule("/both", view_func=Both.as_view("both"))
    assert site.statuses("/above", "/above") == [200, 429]
    assert [site.ask("/both", method).status for method in ("POST", "POST", "GET", "GET")] == [
        200,
        429,
        200,
        429,
    ]


def test_functions_and_blocks_that_a_request_calls_are_limited_by_themselves(site):
    limit = site.limiter.limit("2/minute", name="mails")

    @limit
    async def send():
        return "sent"

    @site.limiter.limit("1/minute")
    def count():
        return "counted"

    @site.app.get("/send")
    async def sending():
        return await send()

    @site.app.get("/block")
    async def block():
        async with limit:
            return "within"

    @site.app.get("/count")
    def counting():
        return count()

    @site.app.get("/blocked")
    async def blocking():
        return count()

    assert site.statuses(*["/send"] * 3) == [200, 200, 429]
    assert site.statuses(*["/block"] * 3) == [200, 200, 429]
    assert site.statuses(*["/count"] * 2) == [200, 429]
    with pytest.raises(RuntimeError, match="would block the event loop"):
        site.ask("/blocked")
    assert site.run(send()) == "sent"
    assert count() == "counted"


def test_it_is_decided_behind_hooks_and_decorators_above_and_only_for_views(make_site):
    site = make_site(default_limits="1/minute")

    @site.app.before_request
    async def turn_away():
        if "away" in request.args:
            abort(403)

    site.add("/")
    away = ["/?away=1"] * 2
    assert site.statuses(*away, "/nowhere", "/nowhere") == [403, 403, 404, 404]
    assert [site.ask("/", method).status for method in ("OPTIONS", "OPTIONS", "POST", "HEAD", "GET")] == [
        200, 200, 405, 200, 429,
    ]  # fmt: skip
    assert "RateLimit" not in site.ask("/nowhere").headers


def test_a_coroutine_awaits_what_settles_it(site):
    @site.app.get("/")
    @site.limiter.limit("100/minute", cost=50)
    async def view():
        site.limiter.settle(7)

    with pytest.raises(RuntimeError, match=r"await limiter.asettle\(used\)"):
        site.ask()


def test_a_path_parameter_counts_as_the_view_is_given_it(site):
    limit = site.limiter.limit("1/minute", identifiers=by_path_parameter("tenant"))
    site.add("/of/<int:tenant>", limit(lambda tenant: "ok"))
    assert site.statuses("/of/1", "/of/01", "/of/2") == [200, 429, 200]


def test_functions_of_the_app_may_ask_for_identifiers_and_the_address(make_site):
    site = make_site(trusted_proxies=1)

    @site.app.get("/")
    async def view():
        return [*get_identifiers(), get_address()]

    sent = {"X-Forwarded-For": "2001:db8::1", "X-User": "ann"}
    assert json.loads(site.ask(headers=sent).text) == ["ip:2001:db8::/64", "user:ann", "2001:db8::/64"]
    assert (get_identifiers(), get_address()) == (["ip:unknown"], "unknown")


def test_functions_may_be_awaited_and_take_the_request_or_not(make_site):
    asked = []

    async def limits(given):
        asked.append(given.path)
        await asyncio.sleep(0)
        return "2/minute" if given.headers.get("X-User") == "ann" else ""

    async def exempt():
        return "free" in request.args

    site = make_site(
        default_limits=limits, default_limits_exempt_when=exempt, identifiers=lambda: request.args["who"]
    )
    site.add("/")
    ann = {"headers": {"X-User": "ann"}}
    assert site.statuses(*["/?who=a"] * 3, "/?who=b", **ann) == [200, 200, 429, 200]
    assert site.statuses(*["/?who=a"] * 3) == [200] * 3
    assert site.statuses("/?who=a&free=1", **ann) == [200]
    assert asked == ["/"] * 7


def test_the_command_line_lists_checks_and_resets_limits(make_site):
    site = make_site(application_limits="9/minute")
    site.add("/limited", site.limiter.limit("1/minute")(lambda: "ok"))
    assert site.statuses("/limited", "/limited") == [200, 429]

    def run(*words):
        done = site.app.test_cli_runner().invoke(args=["limits", *words, "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    limited = next(each for each in run("list") if each["endpoint"] == "limited")
    assert [each["name"] for each in limited["limits"]] == ["limited", "application"]
    assert [each["remaining"] for each in run("check", "ip:192.0.2.1")][-1] == 8
    assert run("reset", "ip:192.0.2.1")["identifiers"] == ["ip:192.0.2.1"]
