"""``RateLimit.reset(...)`` and ``reset_all()``: docs/reference/web.md, "Resetting counts"."""

from __future__ import annotations

import pytest
from flask import Blueprint, Flask, request
from flask.views import MethodView

from overlimit import Limiter, RedisStore, StoreError
from overlimit.flask import RateLimit, get_identifiers, rate_limit
from servers.patience import eventually

pytestmark = pytest.mark.every_store

ADDRESSES = {"ann": "192.0.2.7", "bob": "192.0.2.8"}


def has_reset(limiter: RateLimit) -> bool:
    try:
        limiter.reset_all()
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
        site.limiter.reset_all()
    assert spent() == [200] * 5


def test_only_this_rate_limit_begins_anew(make_site, store, clock):
    site = make_site(default_limits="1/minute")
    RateLimit(site.app, default_limits="2/minute", store=store, clock=clock, algorithm="fixed_window")
    assert site.ask("/free", 2) == [200, 429]
    site.limiter.reset_all()
    assert site.ask("/free", 2) == [200, 429]
    site.limiter.reset_all()
    assert site.ask("/free", 1) == [429]


def test_what_else_is_in_the_store_stays(make_site, store, clock):
    site = make_site(default_limits="1/minute", key_prefix="mine")
    others = Limiter("1/minute", name="others", store=store, clock=clock)
    others.hit("ip:192.0.2.1")
    assert site.ask("/free", 2) == [200, 429]
    site.limiter.reset_all()
    assert site.ask("/free", 1) == [200]
    assert others.peek("ip:192.0.2.1", cost=0).remaining == 0


def test_the_current_app_begins_anew_or_else_all():
    limiter = RateLimit(default_limits="1/minute")
    first, second = Flask("first"), Flask("second")

    def ask() -> list[int]:
        return [app.test_client().get("/").status_code for app in (first, second)]

    for app in (first, second):
        app.get("/")(lambda: "ok")
        limiter.init_app(app)
    assert ask() == [200, 200]
    with first.app_context():
        limiter.reset_all()
    assert ask() == [200, 429]
    limiter.reset_all()
    assert ask() == [200, 200]


def test_a_current_app_without_this_rate_limit_is_an_error():
    limiter = RateLimit(Flask("mine"))
    with Flask("other").app_context(), pytest.raises(RuntimeError, match=r"'other'.*init_app"):
        limiter.reset_all()


@pytest.fixture
def processes(redis_server, prefix):
    """Return a function that makes two apps alike, each with a store of its own, as in two processes."""

    def make(**options):
        sites = []
        for _ in range(2):
            app = Flask("served")
            store = RedisStore(f"{redis_server.tcp_url()}?timeout=10&prefix={prefix}")
            limiter = RateLimit(app, store=store, algorithm="fixed_window", **options)
            views = {
                "free": lambda: "ok",
                "own": limiter.limit(plan, override_defaults=False)(lambda: "ok"),
                "shared": limiter.shared_limit(plan, "both")(lambda: "ok"),
            }
            for name, view in views.items():
                app.add_url_rule(f"/{name}", name, view)
            sites.append((app.test_client(), limiter))
        return sites

    return make


def plan():
    return request.headers["X-Plan"]


def ask_all(client, paths=("/free", "/own", "/shared")):
    return [client.get(path, headers={"X-Plan": "2/day"}).status_code for path in paths for _ in range(3)]


@pytest.mark.parametrize("options", [{"default_limits": "2/day"}, {"default_limits": plan}])
def test_counts_of_another_process_begin_anew_whatever_the_plan(processes, options):
    (client, _), (_, limiter) = processes(**options)
    for reset in (limiter.reset_all, lambda: limiter.reset("ip:127.0.0.1")):
        assert ask_all(client) == [200, 200, 429] * 3
        reset()
    assert ask_all(client) == [200, 200, 429] * 3


def test_counts_of_another_process_that_only_a_request_names_are_an_error(processes):
    sites = processes()
    for client, limiter in sites:
        divided = limiter.limit("2/day", scope=lambda _: request.headers["X-Plan"], name="divided")
        client.application.add_url_rule("/divided", "divided", divided(lambda: "ok"))
    (client, limiter), (other, outside) = sites
    assert ask_all(client, ("/own", "/divided")) == [200, 200, 429] * 2
    with pytest.raises(RuntimeError, match=r"not reset.* depend on a request: divided"):
        outside.reset("ip:127.0.0.1")
    outside.reset("ip:127.0.0.1", endpoint="own")
    outside.reset_all()
    assert ask_all(client, ("/own", "/divided")) == [200, 200, 429, 429, 429, 429]
    limiter.reset("ip:127.0.0.1")
    assert ask_all(client, ("/own", "/divided")) == [200, 200, 429] * 2
    with other.application.test_request_context("/"):
        outside.reset("ip:127.0.0.1")  # as after a login, which may be the first request of a process


@pytest.mark.parametrize("everybody", [True, False])
def test_a_fallback_in_memory_begins_anew_though_the_store_fails(make_site, everybody):
    site = make_site(default_limits="9/minute", in_memory_fallback="1/minute", store="redis://127.0.0.1:1/0")
    for _ in range(2):
        assert site.ask("/free", 2) == [200, 429]
        with pytest.raises(StoreError):
            site.limiter.reset_all() if everybody else site.limiter.reset("ip:192.0.2.1", endpoint="free")


def test_what_this_process_decides_by_itself_begins_anew_with_the_store(make_site, start_redis):
    server = start_redis()
    store = RedisStore(f"{server.tcp_url()}?timeout=10")
    site = make_site(default_limits="1/minute", store=store, on_error="local")
    server.kill()
    assert site.ask("/free", 2) == [200, 429]
    server.restart()
    eventually(lambda: has_reset(site.limiter))
    server.kill()
    assert site.ask("/free", 2) == [200, 429]


def make_all_kinds(make_site, **options):
    site = make_site(**{"default_limits": "2/minute", "application_limits": "90/minute", **options})
    site.route("/own", site.limiter.limit("2/minute"))
    site.route("/shared", site.limiter.shared_limit("2/minute", scope="pool"))
    site.route("/again", site.limiter.shared_limit("2/minute", scope="pool"))
    site.route("/scoped", site.limiter.limit("2/minute", scope=lambda _: request.headers.get("X-Shop", "1")))
    site.route("/asked", site.limiter.limit(lambda: request.headers.get("X-Limit", "2/minute")))
    helper = site.limiter.limit("2/minute")(lambda: "helped")
    site.app.add_url_rule("/helped", "helped", lambda: f"it is {helper()}")

    @site.app.get("/block")
    def block():
        with site.limiter.limit("2/minute"):
            return "passed"

    class Item(MethodView):
        @site.limiter.limit("2/minute; 9/hour")
        def get(self):
            return "got"

    site.app.add_url_rule("/item", view_func=Item.as_view("item"))
    return site


ALONE = ("/free", "/own", "/scoped", "/asked", "/helped", "/block", "/item")
"""What counts per endpoint."""


def ask_each(site, paths, times, **options):
    return {path: site.ask(path, times, **options) for path in paths}


def test_whom_one_names_begins_anew_and_nobody_else(make_site):
    site = make_all_kinds(make_site, default_limits=["2/minute"])
    paths = (*ALONE, "/shared")
    fresh = {path: [200, 200, 429] for path in paths}
    for address in ADDRESSES.values():
        assert ask_each(site, paths, 3, ip=address) == fresh
    site.limiter.reset(f"ip:{ADDRESSES['ann']}")
    assert ask_each(site, paths, 3, ip=ADDRESSES["ann"]) == fresh
    assert ask_each(site, paths, 1, ip=ADDRESSES["bob"]) == {path: [429] for path in paths}


@pytest.mark.parametrize("path", ALONE)
@pytest.mark.parametrize("everybody", [True, False])
def test_of_one_endpoint_only_its_own_counts(make_site, path, everybody):
    site = make_all_kinds(make_site, application_limits="24/minute", meta_limits="30/hour")
    paths = (*ALONE, "/shared")
    assert ask_each(site, paths, 3) == {each: [200, 200, 429] for each in paths}
    endpoint = path.strip("/")
    if everybody:
        site.limiter.reset_all(endpoint=endpoint)
    else:
        site.limiter.reset("ip:192.0.2.1", endpoint=endpoint)
    assert ask_each(site, paths, 1) == {each: [200 if each == path else 429] for each in paths}
    rows = {row.policy: row.remaining for row in site.decision("/again").details}
    assert rows["application"] == 24 - 2 * len(paths) - 1
    assert rows["meta"] == 30 - 2 * len(paths)


def test_a_blueprint_and_methods_of_one_endpoint(make_site):
    site = make_site()
    pages = Blueprint("pages", __name__)
    site.limiter.limit("1/minute", per_method=True)(pages)
    for name in ("one", "two"):
        pages.add_url_rule(f"/{name}", name, lambda: "ok", methods=["GET", "POST"])
    site.app.register_blueprint(pages)

    def ask() -> list[int]:
        return [
            site.ask(path, 1, method=method)[0] for path in ("/one", "/two") for method in ("GET", "POST")
        ]

    assert ask() + ask() == [200] * 4 + [429] * 4
    site.limiter.reset("ip:192.0.2.1", endpoint="pages.one")
    assert ask() == [200, 200, 429, 429]


@pytest.mark.parametrize("nobody", [(), ("",), (None,), (b"",), ("ip:1", "")], ids=repr)
def test_somebody_has_to_be_named(make_site, nobody):
    limiter = make_site(default_limits="1/minute").limiter
    with pytest.raises(ValueError, match="anonymous" if nobody else r"reset_all\(\)"):
        limiter.reset(*nobody)


def test_an_endpoint_that_is_not_there_is_an_error(make_site):
    limiter = make_site(default_limits="1/minute").limiter
    with pytest.raises(ValueError, match="'fre'"):
        limiter.reset("ip:192.0.2.1", endpoint="fre")
    with pytest.raises(ValueError, match="'fre'"):
        limiter.reset_all(endpoint="fre")


def test_whole_numbers_name_whom_they_count(make_site):
    site = make_site(default_limits="1/minute", identifiers=lambda: int(request.headers["X-User"]))
    for user in ("0", "7"):
        assert site.ask("/free", 2, user=user) == [200, 429]
    site.limiter.reset(7)
    assert site.ask("/free", 1, user="0") + site.ask("/free", 1, user="7") == [429, 200]


def test_within_a_request_its_own_counts_may_be_forgotten(make_site):
    site = make_site()

    @site.app.post("/login")
    @site.limiter.limit("2/minute", name="logins")
    def login():
        if "X-Right" in request.headers:
            site.limiter.reset(*get_identifiers(), endpoint=request.endpoint)
        return "ok"

    assert site.ask("/login", 3, method="POST") == [200, 200, 429]
    site.limiter.reset_all()
    for _ in range(5):
        assert site.ask("/login", 1, method="POST") == [200]
        assert site.ask("/login", 1, method="POST", headers={"X-Right": "1"}) == [200]


def test_several_may_be_named_and_everybody(make_site):
    site = make_site(default_limits="1/minute")
    users = [f"u{number}" for number in range(20)]
    for number, user in enumerate(users):
        assert site.ask("/free", 2, user=user, ip=f"192.0.2.{number}") == [200, 429]
    site.limiter.reset(*(f"user:{user}" for user in users[:18]), *(f"ip:192.0.2.{n}" for n in range(17)))
    statuses = [site.ask("/free", 1, user=user, ip=f"192.0.2.{n}")[0] for n, user in enumerate(users)]
    assert statuses == [200] * 17 + [429] * 3
    site.limiter.reset_all()
    assert [site.ask("/free", 1, user=user, ip="192.0.2.99")[0] for user in users[:2]] == [200, 429]
    assert site.ask("/free", 1, user=users[19], ip="192.0.2.19") == [200]
