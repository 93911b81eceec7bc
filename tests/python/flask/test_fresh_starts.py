"""``RateLimit.reset()``: everybody begins anew, as between two tests."""

from __future__ import annotations

import pytest
from flask import Flask, request

from overlimit import Limiter, RedisStore, StoreError
from overlimit.flask import RateLimit, rate_limit
from servers.patience import eventually

ADDRESSES = {"ann": "192.0.2.7", "bob": "192.0.2.8"}


def has_reset(limiter: RateLimit) -> bool:
    try:
        limiter.reset()
    except StoreError:
        return False
    return True


def test_every_kind_of_limit_begins_anew(make_site):
    site = make_site(default_limits="2/minute", application_limits="9/minute", meta_limits="3/hour")
    site.route("/own", site.limiter.limit("1/minute"))
    site.route("/any", rate_limit("1/minute", per_method=True))
    site.route("/shared", site.limiter.shared_limit("1/minute", scope="pool"))

    paths = ("/free", "/free", "/own", "/any", "/shared")

    def spent() -> list[int]:
        return [status for path in paths for status in site.ask(path, 1)]

    for _ in range(2):
        assert spent() == [200] * 5
        assert site.ask("/own", 3) == [429] * 3
        assert site.quotas("/free") == [2, 3, 9]
        site.limiter.reset()
    assert spent() == [200] * 5


def test_everybody_begins_anew(make_site):
    site = make_site(default_limits="1/minute")
    for user in ("ann", "bob"):
        assert site.ask("/free", 2, user=user, ip=ADDRESSES[user]) == [200, 429]
    site.limiter.reset()
    for user in ("ann", "bob"):
        assert site.ask("/free", 2, user=user, ip=ADDRESSES[user]) == [200, 429]


def test_counts_that_only_a_request_names_begin_anew_where_this_process_made_them(make_site):
    site = make_site()
    site.route("/shops/<shop>", site.limiter.limit("1/minute", scope=lambda _: request.view_args["shop"]))
    site.route("/asked", site.limiter.shared_limit(lambda: request.args["limit"], "asked"))
    helper = site.limiter.limit("1/minute")(lambda: "helped")

    @site.app.get("/blocks")
    def blocks():
        with site.limiter.limit("1/minute"):
            return helper()

    paths = ("/shops/1", "/shops/2", "/asked?limit=1/minute", "/blocks")
    for _ in range(2):
        assert [site.ask(path, 2) for path in paths] == [[200, 429]] * 4
        site.limiter.reset()


def test_only_this_rate_limit_begins_anew(make_site, store, clock):
    site = make_site(default_limits="1/minute")
    RateLimit(site.app, default_limits="2/minute", store=store, clock=clock, algorithm="fixed_window")
    assert site.ask("/free", 2) == [200, 429]
    site.limiter.reset()
    assert site.ask("/free", 2) == [200, 429]
    site.limiter.reset()
    assert site.ask("/free", 1) == [429]


def test_what_else_is_in_the_store_stays(make_site, store, clock):
    site = make_site(default_limits="1/minute", key_prefix="mine")
    others = Limiter("1/minute", name="others", store=store, clock=clock)
    others.hit("ip:192.0.2.1")
    assert site.ask("/free", 2) == [200, 429]
    site.limiter.reset()
    assert site.ask("/free", 1) == [200]
    assert others.peek("ip:192.0.2.1", cost=0).remaining == 0


def test_the_current_app_begins_anew_or_else_all(make_app):
    limiter = RateLimit(default_limits="1/minute")
    first, second = make_app()[0], make_app()[0]

    def ask() -> list[int]:
        return [app.test_client().get("/").status_code for app in (first, second)]

    for app in (first, second):
        limiter.init_app(app)
    assert ask() == [200, 200]
    with first.app_context():
        limiter.reset()
    assert ask() == [200, 429]
    limiter.reset()
    assert ask() == [200, 200]


def test_a_current_app_without_this_rate_limit_is_an_error():
    limiter = RateLimit(Flask("mine"))
    with Flask("other").app_context(), pytest.raises(RuntimeError, match=r"'other'.*init_app"):
        limiter.reset()


def test_counts_of_another_process_begin_anew_where_the_app_names_them(make_app, redis_server, prefix, clock):
    config = {"RATELIMIT_KEY_PREFIX": prefix}
    stores = [RedisStore(f"{redis_server.tcp_url()}?timeout=10") for _ in range(2)]
    apps = [make_app(**config)[0] for _ in stores]
    limiters = [
        RateLimit(app, default_limits="1/minute", store=store, clock=clock)
        for app, store in zip(apps, stores, strict=True)
    ]
    assert [apps[0].test_client().get("/").status_code for _ in range(2)] == [200, 429]
    limiters[1].reset()
    assert [apps[0].test_client().get("/").status_code for _ in range(2)] == [200, 429]


def test_a_fallback_in_memory_begins_anew_though_the_store_fails(make_app, clock):
    app, _ = make_app()
    nobody = "redis://127.0.0.1:1/0"
    limiter = RateLimit(
        app, default_limits="9/minute", in_memory_fallback="1/minute", store=nobody, clock=clock
    )
    client = app.test_client()
    for _ in range(2):
        assert [client.get("/").status_code for _ in range(2)] == [200, 429]
        with pytest.raises(StoreError):
            limiter.reset()


def test_what_this_process_decides_by_itself_begins_anew_with_the_store(make_app, start_redis, clock):
    server = start_redis()
    app, _ = make_app()
    store = RedisStore(f"{server.tcp_url()}?timeout=10")
    limiter = RateLimit(app, default_limits="1/minute", store=store, clock=clock, on_error="local")
    client = app.test_client()
    server.kill()
    assert [client.get("/").status_code for _ in range(2)] == [200, 429]
    server.restart()
    eventually(lambda: has_reset(limiter))
    server.kill()
    assert [client.get("/").status_code for _ in range(2)] == [200, 429]
