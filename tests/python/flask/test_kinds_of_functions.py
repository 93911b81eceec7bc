"""Whatever can be called is a function of the request: docs/reference/flask.md, "Decorators"."""

from __future__ import annotations

import dataclasses
from functools import partial

import pytest
from flask import Blueprint, Flask, current_app, request
from werkzeug.local import LocalProxy

from overlimit import ManualClock, MemoryStore
from overlimit.flask import RateLimit, rate_limit


def plan(default="1"):
    return f"{request.headers.get('X-Plan', default)}/minute"


class Plans:
    def of(self):
        return plan()

    def __call__(self):
        return plan()

    @staticmethod
    def static():
        return plan()


@dataclasses.dataclass
class Unhashable:
    number: int = 1

    def __call__(self):
        return plan()


def with_stars(*args, **kwargs):
    assert (args, kwargs) == ((), {})
    return plan()


KINDS = {
    "function": plan,
    "default": lambda default="1": plan(default),
    "keyword": lambda *, default="1": plan(default),
    "stars": with_stars,
    "partial": partial(plan, "1"),
    "keyword partial": partial(plan, default="1"),
    "method": Plans().of,
    "object": Plans(),
    "unhashable": Unhashable(),
    "static": Plans.static,
    "proxy of a function": LocalProxy(lambda: plan),
    "proxy of a text": LocalProxy(plan),
}
SOME = [pytest.param(kind, id=name) for name, kind in KINDS.items()]


@pytest.mark.parametrize("kind", SOME)
@pytest.mark.parametrize("place", ["limit", "list", "default", "application", "shared", "key", "block"])
def test_limits_are_asked_for_during_a_request(make_site, kind, place):
    options = {f"{place}_limits": kind} if place in ("default", "application") else {}
    site = make_site(config={"RATELIMIT_DEFAULT": kind} if place == "key" else {}, **options)
    limiter, views = site.limiter, site.app.view_functions

    def block():
        with limiter.limit(kind):
            return "ok"

    views["free"] = {
        "limit": limiter.limit(kind),
        "list": limiter.limit([kind]),
        "shared": limiter.shared_limit(kind, "s"),
        "block": lambda view: block,
    }.get(place, lambda view: view)(views["free"])
    assert site.ask("/free", 2) == [200, 429]
    assert site.ask("/free", 4, headers={"X-Plan": "3"}, ip="192.0.2.9") == [200, 200, 200, 429]


@pytest.mark.parametrize("option", ["identifiers", "key_func"])
@pytest.mark.parametrize("kind", SOME)
def test_identities_are_asked_for_during_a_request(make_site, kind, option):
    site = make_site(default_limits="1/minute", **{option: kind})
    assert site.ask("/free", 2, headers={"X-Plan": "a"}) == [200, 429]
    assert site.ask("/free", 2, headers={"X-Plan": "b"}) == [200, 429]


@pytest.mark.parametrize("kind", SOME)
def test_other_options_are_asked_for_during_a_request(make_site, kind):
    site = make_site()
    site.route("/exempt", site.limiter.limit("1/minute", exempt_when=kind))
    site.route("/message", site.limiter.limit("0/minute", error_message=kind))
    assert site.ask("/exempt", 3) == [200] * 3
    assert "1/minute" in site.open("/message").text


COUNTS = {
    "default": lambda units=2: units,
    "stars": lambda *args, **kwargs: 2,
    "partial": partial(lambda units: units, 2),
    "proxy of a function": LocalProxy(lambda: lambda: 2),
    "proxy of a number": LocalProxy(lambda: current_app and 2),
}


@pytest.mark.parametrize("cost", [pytest.param(kind, id=name) for name, kind in COUNTS.items()])
def test_a_cost_is_asked_for_during_a_request(make_site, cost):
    site = make_site(default_limits="4/minute", default_limits_cost=cost)
    assert site.ask("/free", 3) == [200, 200, 429]


SCOPES = {
    "default": lambda endpoint, more="": endpoint + more,
    "stars": lambda *args, **kwargs: args[0],
    "partial": partial(lambda start, endpoint: start + endpoint, "x"),
    "proxy of a function": LocalProxy(lambda: lambda endpoint: endpoint),
    "proxy of a text": LocalProxy(lambda: request.path),
}


@pytest.mark.parametrize("scope", [pytest.param(kind, id=name) for name, kind in SCOPES.items()])
def test_a_scope_is_asked_for_during_a_request(make_site, scope):
    site = make_site()
    site.route("/a", site.limiter.shared_limit("1/minute", scope))
    site.route("/b", site.limiter.limit("1/minute", scope=scope))
    assert site.ask("/a", 2) + site.ask("/b", 2) == [200, 429, 200, 429]


HOOKS = {
    "default": lambda given, more=None: True,
    "stars": lambda *args: len(args) == 1,
    "partial": partial(lambda start, given: True, "x"),
    "proxy": LocalProxy(lambda: lambda given: True),
}


@pytest.mark.parametrize("hook", [pytest.param(kind, id=name) for name, kind in HOOKS.items()])
def test_hooks_are_called_with_one_argument(make_site, hook):
    site = make_site(on_breach=hook, on_meta_breach=hook, meta_limits="1/hour")
    site.route("/", site.limiter.limit("1/minute", deduct_when=hook, on_breach=hook))
    assert site.ask("/", 3) == [200, 429, 429]


def test_the_current_app_may_be_limited():
    app = Flask("current")
    with app.app_context():
        limiter = RateLimit(current_app, default_limits="1/minute")
        RateLimit(app=current_app)
    app.get("/")(lambda: "ok")
    assert [app.test_client().get("/").status_code for _ in range(2)] == [200, 429]
    with app.test_request_context("/"):
        assert limiter.current_decision is None


def needs_more(name):
    return name


async def asynchronous():
    return "1/minute"


def yields():
    yield False


async def yields_later():
    yield False


class Asynchronous:
    async def __call__(self):
        return "1/minute"

    async def of(self):
        return "1/minute"


PLACES = {
    "rate_limit": rate_limit,
    "limit": lambda value: RateLimit().limit(value),
    "shared_limit": lambda value: RateLimit().shared_limit(value, "s"),
    "list": lambda value: rate_limit(["1/minute", value]),
    "meta": lambda value: rate_limit("1/minute", meta_limits=value),
    "default_limits": lambda value: RateLimit(default_limits=value),
    "application_limits": lambda value: RateLimit(application_limits=["1/minute", value]),
    "meta_limits": lambda value: RateLimit(meta_limits=value),
    "in_memory_fallback": lambda value: RateLimit(in_memory_fallback=value),
    "identifiers": lambda value: RateLimit(identifiers=value),
    "key_func": lambda value: rate_limit("1/minute", key_func=value),
    "exempt_when": lambda value: rate_limit("1/minute", exempt_when=value),
    "default_limits_exempt_when": lambda value: RateLimit(default_limits_exempt_when=value),
    "cost": lambda value: rate_limit("1/minute", cost=value),
    "error_message": lambda value: rate_limit("1/minute", error_message=value),
    "request_filter": lambda value: RateLimit().request_filter(value),
}


WRONG = [
    (needs_more, "without"),
    (partial(lambda one, two: one, 1), "without"),
    (asynchronous, r"coroutine function: .*\(\) would never be awaited"),
    (partial(asynchronous), r"\(\) would never be awaited"),
    (Asynchronous(), r"\(\) would never be awaited"),
    (Asynchronous().of, r"\(\) would never be awaited"),
    (yields_later, r"must return its value, not yield it|write @rate"),
    (Plans, r"the class .*Plans$|write @rate"),
]
"""Functions that no option takes; tests/python/http/test_callables.py has what is said of each kind."""


@pytest.mark.parametrize("place", PLACES)
def test_what_cannot_be_called_is_an_error_where_it_is_written(place):
    several = place == "identifiers"  # which may be yielded
    for function, says in [*WRONG, *([] if several else [(yields, WRONG[-2][1])])]:
        with pytest.raises(TypeError, match=says):
            PLACES[place](function)
    assert not several or PLACES[place](partial(yields))


@pytest.mark.parametrize("value", [needs_more, Plans, Flask])
def test_a_decorator_that_was_not_called_is_told_of(value):
    with pytest.raises(TypeError, match=r"write @rate_limit\('10/second'\)"):
        rate_limit(value)


def behind(value):
    return LocalProxy(lambda: value)


@pytest.mark.parametrize("make", [lambda view: view, behind], ids=["itself", "proxy"])
def test_a_proxy_stands_for_the_view_or_blueprint_that_is_behind_it(make_site, make):
    site = make_site(default_limits="9/minute")
    views = {name: lambda name=name: name for name in ("limited", "exempt")}
    site.app.add_url_rule("/limited", "limited", site.limiter.limit("1/minute")(make(views["limited"])))
    site.app.add_url_rule("/exempt", "exempt", views["exempt"])
    site.limiter.exempt(make(views["exempt"]))
    pages = {name: Blueprint(name, __name__, url_prefix=f"/{name}") for name in ("few", "many")}
    site.limiter.limit("1/minute")(make(pages["few"]))
    site.limiter.exempt(make(pages["many"]))
    for blueprint in pages.values():
        blueprint.add_url_rule("/", "index", lambda: "ok")
        site.app.register_blueprint(blueprint)
    assert site.ask("/limited", 2) + site.ask("/exempt", 10) == [200, 429, *[200] * 10]
    assert site.ask("/few/", 2) + site.ask("/many/", 10) == [200, 429, *[200] * 10]


OF_A_LIMIT = {
    "methods": ["GET"],
    "name": "named",
    "algorithm": "fixed_window",
    "per_method": True,
    "override_defaults": False,
    "shadow": False,
    "on_error": "deny",
    "anonymous": "share",
    "cost": 1,
    "scope": "part",
    "error_message": "slowly",
    "meta_limits": "9/minute",
}


@pytest.mark.parametrize("name", OF_A_LIMIT)
def test_any_option_of_a_limit_may_be_a_proxy(make_site, name):
    site = make_site()
    limit = site.limiter.limit("1/minute", **{name: behind(OF_A_LIMIT[name])})
    site.app.add_url_rule("/", "index", limit(lambda: "ok"))
    assert site.ask("/", 2) == [200, 429]


OF_A_RATE_LIMIT = {
    "store": MemoryStore(),
    "clock": ManualClock(),
    "key_prefix": "mine",
    "enabled": True,
    "headers": "both",
    "trusted_proxies": ["10.0.0.0/8"],
    "ipv6_prefix": 64,
    "default_limits_per_method": True,
    "algorithm": "fixed_window",
    "on_error": "deny",
    "shadow": False,
    "local_share": 0.5,
    "default_limits_cost": 1,
}


@pytest.mark.parametrize("name", OF_A_RATE_LIMIT)
def test_any_option_of_a_rate_limit_may_be_a_proxy(make_site, name):
    site = make_site(**{"default_limits": "1/minute", name: behind(OF_A_RATE_LIMIT[name])})
    assert site.ask("/free", 2) == [200, 429]


def test_request_filters_may_be_of_any_kind(make_site):
    for kind in KINDS.values():
        site = make_site(default_limits="1/minute")
        site.limiter.request_filter(kind)
        assert site.ask("/free", 2) == [200, 200]


def test_a_proxy_of_a_key_function_is_asked_once_per_request(make_site):
    asked = []
    key = LocalProxy(lambda: lambda: asked.append(1) or "me")
    site = make_site()
    site.route("/", *[site.limiter.limit("5/minute", key_func=key) for _ in range(3)])
    assert site.ask("/", 2) == [200, 200]
    assert len(asked) == 2
