"""What is given as a LocalProxy: options, views and blueprints."""

from __future__ import annotations

import pytest
from flask import Blueprint, Flask
from werkzeug.local import LocalProxy

from overlimit import ManualClock, MemoryStore
from overlimit.flask import RateLimit


def behind(value):
    return LocalProxy(lambda: value)


@pytest.mark.parametrize("make", [lambda view: view, behind], ids=["itself", "proxy"])
def test_a_proxy_stands_for_the_view_that_is_behind_it(make_site, make):
    site = make_site(default_limits="9/minute")

    def view():
        return "ok"

    def free():
        return "ok"

    site.app.add_url_rule("/limited", "limited", site.limiter.limit("1/minute")(make(view)))
    site.app.add_url_rule("/exempt", "exempt", free)
    site.limiter.exempt(make(free))
    assert site.ask("/limited", 2) + site.ask("/exempt", 10) == [200, 429, *[200] * 10]


def test_a_proxy_stands_for_the_blueprint_that_is_behind_it(make_site):
    site = make_site(default_limits="2/minute")
    limited, exempt = Blueprint("limited", __name__), Blueprint("exempt", __name__)
    site.limiter.limit("1/minute")(behind(limited))
    site.limiter.exempt(behind(exempt))
    for blueprint in (limited, exempt):
        blueprint.add_url_rule(f"/{blueprint.name}", "index", lambda: "ok")
        site.app.register_blueprint(blueprint)
    assert site.ask("/limited", 2) + site.ask("/exempt", 3) == [200, 429, 200, 200, 200]


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
def test_any_option_of_a_rate_limit_may_be_a_proxy(name):
    app = Flask("proxied")
    options = {"default_limits": "1/minute", "clock": ManualClock(), name: behind(OF_A_RATE_LIMIT[name])}
    RateLimit(app, **options)
    app.add_url_rule("/", "index", lambda: "ok")
    client = app.test_client()
    assert [client.get("/").status_code for _ in range(2)] == [200, 429]
