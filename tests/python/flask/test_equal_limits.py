"""Which limits count together at one endpoint, and where a function names them.

docs/reference/flask.md, "What counts together".
"""

from __future__ import annotations

import functools

import pytest
from flask import Blueprint, request
from flask.views import MethodView, View
from flask_restful import Api, Resource

from overlimit import FixedWindow, RedisStore
from overlimit.flask import rate_limit
from servers.redis_server import RedisServer

METHODS = ("get", "post", "put")


def answering(name):
    def answer(self):
        return name

    answer.__name__ = name
    answer.__qualname__ = f"Item.{name}"
    return answer


def on_methods(base):
    """Return a way to fasten limits: each on its method of one class."""

    def fasten(site, decorators):
        methods = {name: decorate(answering(name)) for name, decorate in decorators.items()}
        view_class = type("Item", (base,), methods)
        if base is Resource:
            Api(site.app).add_resource(view_class, "/item", endpoint="item")
        else:
            site.app.add_url_rule("/item", view_func=view_class.as_view("item"))

    return fasten


def by_method_decorators(site, decorators):
    kinds = {name: [decorate] for name, decorate in decorators.items()}
    methods = {name: answering(name) for name in decorators}
    resource = type("Item", (Resource,), {**methods, "method_decorators": kinds})
    Api(site.app).add_resource(resource, "/item", endpoint="item")


def on_functions_called(site, decorators):
    functions = {name: decorate(functools.partial(str, name)) for name, decorate in decorators.items()}

    @site.app.route("/item", endpoint="item", methods=METHODS)
    def item():
        return functions[request.method.lower()]()


def on_methods_of_a_dispatcher(site, decorators):
    class Item(View):
        methods = METHODS

        def dispatch_request(self):
            return getattr(self, f"when_{request.method.lower()}")()

    for name, decorate in decorators.items():
        setattr(Item, f"when_{name}", decorate(answering(name)))
    site.app.add_url_rule("/item", view_func=Item.as_view("item"))


def half_on_methods_half_on_functions(site, decorators):
    (first, decorate_first), *others = decorators.items()
    functions = {name: decorate(functools.partial(str, name)) for name, decorate in others}
    methods = {name: lambda self, function=function: function() for name, function in functions.items()}
    view_class = type("Item", (MethodView,), {first: decorate_first(answering(first)), **methods})
    site.app.add_url_rule("/item", view_func=view_class.as_view("item"))


WAYS = {
    "MethodView": on_methods(MethodView),
    "flask_restful": on_methods(Resource),
    "method_decorators": by_method_decorators,
    "functions": on_functions_called,
    "dispatcher": on_methods_of_a_dispatcher,
    "both": half_on_methods_half_on_functions,
}


@pytest.fixture(params=WAYS)
def fasten(request):
    return WAYS[request.param]


def ask(site, *methods, path="/item"):
    return [site.open(path, method=method.upper()).status_code for method in methods]


def equal(limit):
    return {"get": limit("3/minute"), "post": limit("3/minute")}


def free(limit):
    return equal(rate_limit)


def one_for_all(limit):
    return dict.fromkeys(METHODS, limit("3/minute"))


def different_numbers(limit):
    return {"get": limit("4/minute"), "post": limit("2/minute"), "put": limit("4/hour")}


def per_method(limit):
    return {name: limit("2/minute", per_method=True) for name in ("get", "post")}


def different_names(limit):
    names = {"get": "reads", "post": "writes", "put": "writes"}
    return {method: limit("2/minute", name=name) for method, name in names.items()}


def one_function(limit):
    named = lambda: "2/minute"  # noqa: E731
    return {"get": limit(named), "post": limit(named)}


def a_function_that_changes(limit):
    named = lambda: "4/minute" if request.method == "GET" else "2/minute"  # noqa: E731
    return {"get": limit(named), "post": limit(named)}


@pytest.mark.parametrize(
    ("limits", "asked", "statuses"),
    [
        (equal, "get post get post get", [200] * 3 + [429] * 2),
        (free, "get post get post get", [200] * 3 + [429] * 2),
        (one_for_all, "get post put put post get", [200] * 3 + [429] * 3),
        (different_numbers, "get get get get get", [200] * 4 + [429]),
        (different_numbers, "get get get post post post", [200] * 5 + [429]),
        (different_numbers, "get get get get put put put put put", [200] * 8 + [429]),
        (per_method, "get post get post get post", [200] * 4 + [429] * 2),
        (different_names, "get post get put get post", [200] * 4 + [429] * 2),
        (one_function, "get post get post", [200] * 2 + [429] * 2),
        (a_function_that_changes, "get get get post post post", [200] * 5 + [429]),
    ],
)
def test_equal_limits_of_one_endpoint_count_together_and_others_apart(
    make_site, fasten, limits, asked, statuses
):
    site = make_site()
    fasten(site, limits(site.limiter.limit))
    assert ask(site, *asked.split()) == statuses


def test_each_limit_of_a_text_is_for_itself(make_site, fasten, clock):
    site = make_site()
    limit = site.limiter.limit
    fasten(
        site, {"get": limit("2/minute; 5/hour"), "post": limit("3/minute; 5/hour"), "put": limit("5/hour")}
    )
    assert ask(site, "get", "get", "get", "post", "post", "post") == [200, 200, 429, 200, 200, 200]
    clock.advance(60)
    assert ask(site, "get", "post", "put") == [429] * 3
    clock.advance(3600)
    assert ask(site, "put", "put", "put", "put", "put", "get", "post") == [200] * 5 + [429] * 2


@pytest.mark.parametrize("option", ["identifiers", "key_func"])
def test_identities_of_their_own_count_apart(make_site, fasten, option):
    site = make_site()

    def limit(header):
        return site.limiter.limit("1/minute", **{option: lambda: request.headers[header]})

    fasten(site, {"get": limit("X-A"), "post": limit("X-B")})
    headers = {"X-A": "same", "X-B": "same"}
    for method in ("GET", "POST"):
        assert site.ask("/item", 2, method=method, headers=headers) == [200, 429]


def test_it_is_one_store_call_and_costs_and_conditions_stay_apart(make_site, store_calls):
    site = make_site()

    class Item(MethodView):
        @site.limiter.limit("6/hour", cost=3)
        @site.limiter.limit("2/minute", deduct_when=lambda response: response.status_code != 200)
        def get(self):
            return "got"

        @site.limiter.limit("6/hour")
        def post(self):
            return "posted"

    site.app.add_url_rule("/item", view_func=Item.as_view("item"))
    assert ask(site, "get", "post", "post", "post") == [200] * 4
    assert [len(charges) for charges in store_calls] == [2, 1, 1, 1]
    assert ask(site, "get", "post") == [429, 429]


def test_equal_limits_stacked_with_equal_functions_of_their_own(make_site):
    site = make_site()

    def by_user():
        return site.limiter.shared_limit("2/minute", "s", identifiers=lambda: request.headers["X-User"])

    pages = Blueprint("pages", __name__)
    by_user()(pages)
    view = site.limiter.limit("9/hour", override_defaults=False)(lambda: "ok")
    own = site.limiter.shared_limit(
        "2/minute", "s", identifiers=lambda: request.headers["X-User"], override_defaults=False
    )
    pages.add_url_rule("/", "index", own(by_user()(view)))
    site.app.register_blueprint(pages)
    assert site.ask("/", 3, user="ann") == [200, 200, 429]
    assert site.ask("/", 3, user="bob") == [200, 200, 429]


@pytest.mark.parametrize("on_error", [("deny", "allow"), ("allow", "deny")])
def test_of_two_that_count_together_the_stricter_on_error_holds(make_site, on_error):
    nobody = RedisStore("redis://127.0.0.1:1/0")
    site = make_site(store=nobody)
    limit = site.limiter.shared_limit
    view = limit("2/minute", "s", on_error=on_error[0])(
        limit("1/minute", "s", on_error=on_error[1])(lambda: "ok")
    )
    site.app.add_url_rule("/", "index", view)
    assert site.ask("/", 1) == [503]


# Limits made during a request: of functions decorated there, and of blocks.


def decorated_there(make_limit):
    return make_limit()(lambda: "ok")()


def in_a_block(make_limit):
    with make_limit():
        return "ok"


@pytest.fixture(params=[decorated_there, in_a_block])
def limited_by(request):
    return request.param


HOLDING = {
    "captured by key_func": lambda limit, held: limit("2/minute", key_func=lambda: held and "same"),
    "captured by a named key_func": lambda limit, held: limit("2/minute", key_func=named_function(held)),
    "captured by one of several": lambda limit, held: limit(
        "2/minute", identifiers=[lambda: held and "same", lambda: "same"]
    ),
    "default of key_func": lambda limit, held: limit("2/minute", key_func=lambda held=held: "same"),
    "bound by a partial": lambda limit, held: limit(
        "2/minute", key_func=functools.partial(lambda held: "same", held)
    ),
    "captured by limits": lambda limit, held: limit(lambda: "2/minute" if held else ""),
    "bound by limits": lambda limit, held: limit(functools.partial(lambda held: "2/minute", held=held)),
}


def named_function(held):
    def who():
        return "same" if held else ""

    return who


@pytest.mark.parametrize("holding", HOLDING)
@pytest.mark.parametrize("shared", [False, True])
def test_what_a_request_gives_a_function_to_hold_makes_no_count_of_its_own(
    make_site, limited_by, holding, shared
):
    site = make_site()
    limit = functools.partial(site.limiter.shared_limit, scope="s") if shared else site.limiter.limit

    @site.app.get("/<held>")
    def view(held):
        return limited_by(lambda: HOLDING[holding](limit, held))

    assert [site.open(f"/{number}").status_code for number in range(4)] == [200, 200, 429, 429]


def test_whom_such_a_function_names_counts_apart(make_site, limited_by):
    site = make_site()

    @site.app.get("/<who>")
    def view(who):
        return limited_by(lambda: site.limiter.limit("1/minute", key_func=lambda: who))

    assert [site.open(path).status_code for path in ("/a", "/b", "/a", "/b")] == [200, 200, 429, 429]


SPELLINGS = {
    "another text": lambda limit: limit("2 per minute"),
    "one of a text": lambda limit: limit("9/second; 2/minute"),
    "a limit": lambda limit: limit(FixedWindow(2, per=60)),
    "a list": lambda limit: limit(["2/minute"]),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_limits_made_there_count_together_by_what_they_are(make_site, limited_by, spelling):
    site = make_site()

    @site.app.get("/", defaults={"other": False})
    @site.app.get("/other", defaults={"other": True})
    def view(other):
        limit = site.limiter.limit
        if other:
            return limited_by(lambda: SPELLINGS[spelling](limit))
        return limited_by(lambda: limit("2/minute"))

    assert site.ask("/", 1) + site.ask("/other", 2) + site.ask("/", 1) == [200, 200, 429, 429]


def test_blocks_count_apart_by_numbers_names_identities_and_shadow(make_site):
    site = make_site()
    options = (
        {"value": "1/minute"},
        {"value": "2/minute"},
        {"value": "1/minute", "name": "other"},
        {"value": "1/minute", "identifiers": lambda: "all"},
        {"value": "1/minute", "shadow": True},
        {"value": "1/minute", "per_method": True},
    )

    @site.app.get("/<int:which>")
    def view(which):
        return in_a_block(lambda: site.limiter.limit(**options[which]))

    assert [site.open(f"/{which}").status_code for which in range(6)] == [200] * 6
    assert [site.open(f"/{which}").status_code for which in range(6)] == [429, 200, 429, 429, 200, 429]


# Where a function names the limits of the app or of a scope.


def by_endpoint():
    return "2/hour" if request.endpoint == "login" else "12/hour"


def add_routes(site, *decorators):
    for name in ("login", "page", "other"):
        site.route(f"/{name}", *decorators, endpoint=name)


@pytest.fixture(params=["application", "listed", "configured", "shared", "shared by function", "blueprints"])
def make_pages(request, make_site):
    """Return a function that makes a site whose limits a function names for several endpoints at once."""
    kind = request.param
    scope = {"shared": "everything", "shared by function": lambda endpoint: "everything"}.get(kind)

    def make(named):
        site = make_site(
            application_limits={"application": named, "listed": ["100/hour", named]}.get(kind),
            config={"RATELIMIT_APPLICATION": named} if kind == "configured" else {},
        )
        if kind != "blueprints":
            add_routes(site, *([site.limiter.shared_limit(named, scope)] if scope else []))
            return site
        shared = site.limiter.shared_limit(named, "everything", override_defaults=False)
        for name in ("login", "page", "other"):
            pages = shared(Blueprint(f"{name}s", __name__))
            pages.add_url_rule(f"/{name}", name, lambda: "ok")
            site.app.register_blueprint(pages)
        return site

    return make


def endpoint_name():
    return request.endpoint.rpartition(".")[2]


def test_different_answers_count_apart(make_pages):
    site = make_pages(lambda: "2/hour" if endpoint_name() == "login" else "12/hour")
    assert site.ask("/page", 6) + site.ask("/other", 7) == [200] * 12 + [429]
    assert site.ask("/login", 3) == [200, 200, 429]


def test_equal_answers_count_together_each_limit_for_itself(make_pages, clock):
    site = make_pages(lambda: f"{2 if endpoint_name() == 'login' else 3}/minute; 4/hour")
    assert site.ask("/login", 3) == [200, 200, 429]
    assert site.ask("/page", 3) == [200, 200, 429]
    clock.advance(60)
    assert site.ask("/other", 1) + site.ask("/login", 1) == [429, 429]
    clock.advance(3600)
    assert site.ask("/page", 2) + site.ask("/other", 2) == [200] * 3 + [429]


def test_the_policy_stays_the_same(make_pages, store_calls):
    site = make_pages(lambda: "2/hour" if endpoint_name() == "login" else "12/hour")
    for path, quota in (("/login", 2), ("/page", 12)):
        headers = site.open(path).headers
        assert f";q={quota};w=3600" in headers["RateLimit-Policy"]
    assert set(store_calls[0]) == set(store_calls[1])


def test_a_reset_reaches_all_answers(make_pages):
    site = make_pages(lambda: "1/hour" if endpoint_name() == "login" else "2/hour")
    for _ in range(2):
        assert site.ask("/page", 3) + site.ask("/login", 2) == [200, 200, 429, 200, 429]
        site.limiter.reset_all()


def test_what_this_process_decides_by_itself_counts_apart_too(make_site, start_redis):
    server: RedisServer = start_redis()
    site = make_site(
        application_limits=by_endpoint,
        store=RedisStore(f"{server.tcp_url()}?timeout=10"),
        on_error="local",
        local_share=0.5,
    )
    add_routes(site)
    server.kill()
    assert site.ask("/page", 7) == [200] * 6 + [429]
    assert site.ask("/login", 2) == [200, 429]


def test_per_endpoint_a_changed_answer_keeps_its_count(make_site):
    def changing():
        return request.headers.get("X-Limit", "2/hour")

    site = make_site(default_limits=changing)
    site.route("/own", site.limiter.limit(changing))
    site.route("/scoped", site.limiter.limit(changing, scope="s"))
    for path in ("/free", "/own", "/scoped"):
        assert site.ask(path, 3) == [200, 200, 429]
        assert site.ask(path, 2, headers={"X-Limit": "3/hour"}) == [200, 429]


def test_meta_limits_by_endpoint_count_apart(make_site):
    def named():
        return "1/hour" if request.endpoint == "login" else "4/hour"

    site = make_site(default_limits="1/minute", meta_limits=named)
    add_routes(site)
    assert site.ask("/page", 3) == [200, 429, 429]
    assert site.ask("/login", 2) == [200, 429]
    assert "3600" in site.open("/login").headers["Retry-After"]
    assert site.open("/page").headers["Retry-After"] == "60"


def test_a_request_identifier_for_several_endpoints_keeps_their_answers_apart(make_site):
    config = {"RATELIMIT_REQUEST_IDENTIFIER": lambda: "everything"}
    site = make_site(config=config, default_limits=by_endpoint)
    add_routes(site)
    assert site.ask("/page", 13) == [200] * 12 + [429]
    assert site.ask("/login", 3) == [200, 200, 429]


def test_two_answers_of_one_scope_on_one_request_both_hold(make_site):
    site = make_site()

    def limit(number):
        return site.limiter.shared_limit(lambda: f"{number}/hour", "s")

    site.route("/both", limit(2), limit(3))
    site.route("/three", limit(3))
    assert site.ask("/both", 3) == [200, 200, 429]
    assert site.ask("/three", 2) == [200, 429]
