"""What would limit nothing says so, and what is wrong is an error where it is written."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
from quart import Blueprint, Quart
from quart.testing.connections import WebsocketResponseError

import overlimit.quart
from overlimit import InvalidLimit
from overlimit.quart import RateLimit
from overlimit.quart.extension import Keywords


@pytest.mark.parametrize("where", ["below", "above", "blueprint", "websocket"])
def test_limits_of_a_ratelimit_without_an_app_fail_instead_of_being_nothing(make_site, where):
    site = make_site(is_limited=False)
    limit, app = site.limiter.limit("1/minute"), site.app
    site.add("/free")
    if where == "below":
        app.get("/")(limit(lambda: "ok"))
    elif where == "above":
        limit(app.get("/")(lambda: "ok"))
    elif where == "blueprint":
        blueprint = Blueprint("of", "of")
        limit(blueprint).add_url_rule("/", "view", lambda: "ok")
        app.register_blueprint(blueprint)
    else:
        limit(app.websocket("/")(lambda: "ok"))

    async def ask():
        if where != "websocket":
            return await site.asking()
        async with app.test_client().websocket("/") as opened:
            return await opened.receive()

    app.config["PROPAGATE_EXCEPTIONS"] = where != "websocket"  # whose test client would wait for ever
    error, told = (
        (WebsocketResponseError, "500")
        if where == "websocket"
        else (RuntimeError, r"does not have: call init_app\(app\) on it")
    )
    for _ in range(2):
        with pytest.raises(error, match=told):
            site.run(ask())
        assert site.ask("/free").status == 200
    site.limiter.init_app(app)
    if where != "websocket":
        assert site.statuses("/", "/") == [200, 429]


@pytest.mark.parametrize(
    ("wrong", "error", "told"),
    [
        (lambda limiter: limiter.limit("5/sec of"), InvalidLimit, "5/sec of"),
        (lambda limiter: limiter.limit(None), InvalidLimit, "limits must be given"),
        (lambda limiter: limiter.limit("5/minute", cots=3), TypeError, "did you mean 'cost'"),
        (lambda limiter: limiter.limit("5/minute", cost=-1), ValueError, "cost must be 0 or more"),
        (lambda limiter: limiter.limit(lambda a, b: "5/minute"), TypeError, "limiter.limit takes limits"),
        (lambda limiter: limiter.limit("5/minute")(Quart("other")), TypeError, "not on an app"),
        (lambda limiter: limiter.limit("5/minute")(dict), TypeError, "dict is a class"),
        (lambda limiter: limiter.limit("5/minute")(3), TypeError, "a function or a blueprint, not on 3"),
        (lambda limiter: limiter.exempt(Quart("other")), TypeError, "only a function or a blueprint"),
        (lambda limiter: limiter.init_app(3), TypeError, "init_app takes the Quart app"),
        (lambda limiter: RateLimit(lambda: "ip"), TypeError, "must be the Quart app, not <lambda>"),
        (lambda limiter: RateLimit(limits="5/minute"), TypeError, "write default_limits="),
        (lambda limiter: RateLimit(default_limits="many"), InvalidLimit, "default_limits: "),
    ],
)
def test_what_is_wrong_is_an_error_where_it_is_written(site, wrong, error, told):
    with pytest.raises(error, match=re.escape(told)):
        wrong(site.limiter)


def test_a_decorator_without_limits_is_no_view(site):
    with pytest.raises(AttributeError, match="a limit is not a view"):
        site.app.get("/")(site.limiter.limit(lambda: "ok"))


def test_the_reference_has_every_name():
    reference = (Path(__file__).parents[3] / "docs" / "reference" / "quart.md").read_text(encoding="utf-8")
    assert [name for name in overlimit.quart.__all__ if f"`{name}" not in reference] == []
    assert {"app", "default_limits", "store"} <= Keywords.__annotations__.keys()


def test_a_limit_above_the_registration_of_a_hook_is_warned_of(site, caplog):
    @site.limiter.limit("1/minute")
    @site.app.before_request
    async def registered():
        return None

    site.add("/")
    assert site.statuses("/", "/") == [200, 200]
    told = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert len(told) == 1
    assert "registered() holds for no request" in told[0]


def test_a_limit_on_what_runs_after_the_response_is_an_error(site):
    @site.app.teardown_request
    @site.limiter.limit("1/minute")
    async def closed(error):
        return None

    site.add("/")
    with pytest.raises(RuntimeError, match=r"closed\(\) is limited, but it is called after the response"):
        site.ask("/")


def test_keys_of_the_configuration_are_warned_of():
    app = Quart("shop")
    app.config |= {"RATELIMIT_KEY_PREFIX": "shop", "RATELIMIT_DEFAULTS": "1/minute", "DEBUG": False}
    with pytest.warns(UserWarning, match="RATELIMIT_") as told:
        RateLimit(app)
    assert [str(each.message).partition(":")[0] for each in told] == [
        "RATELIMIT_KEY_PREFIX has no effect",
        "RATELIMIT_DEFAULTS has no effect",
    ]
    assert "RateLimit(app, key_prefix=...)" in str(told[0].message)
    assert {each.filename for each in told} == {__file__}


def test_a_limit_that_a_request_makes_and_does_not_use_is_warned_of(site):
    @site.app.get("/")
    async def index():
        site.limiter.limit("1/minute")
        async with site.limiter.limit("5/minute"):
            return "ok"

    with pytest.warns(UserWarning, match=r"write async with limiter\.limit\(\.\.\.\):") as told:
        assert site.statuses("/", "/") == [200, 200]
    assert len(told) == 2
