"""Limits on whatever a request runs: views of all kinds, functions, and blocks of code."""

from __future__ import annotations

import asyncio
import gc
import inspect
from contextlib import ExitStack
from functools import partial

import pytest
from flask import Blueprint, Response, request
from flask.views import MethodView, View

from overlimit import FixedWindow
from overlimit.flask import RateLimitExceeded, rate_limit


def decorated(function, decorators):
    for decorate in reversed(decorators):
        function = decorate(function)
    return function


async def answer_later(*self, **arguments):
    await asyncio.sleep(0)
    return "ok"


def add(site, path, view):
    site.app.add_url_rule(path, path.strip("/"), view)


def view(site, path, *decorators):
    add(site, path, decorated(lambda: "ok", decorators))


def async_view(site, path, *decorators):
    async def answer():
        return await answer_later()

    add(site, path, decorated(answer, decorators))


def view_in_a_partial(site, path, *decorators):
    add(site, path, partial(decorated(lambda text: text, decorators), "ok"))


def class_view(site, path, *decorators, **more):
    names = {"dispatch_request": lambda self: "ok", "decorators": decorators[::-1], **more}
    add(site, path, type("Page", (View,), names).as_view(path.strip("/")))


def class_view_that_is_kept(site, path, *decorators):
    class_view(site, path, *decorators, init_every_request=False)


def method(site, path, *decorators):
    item = type("Item", (MethodView,), {"get": decorated(lambda self: "ok", decorators)})
    add(site, path, item.as_view(path.strip("/")))


def async_method(site, path, *decorators):
    async def get(self):
        return await answer_later()

    item = type("Item", (MethodView,), {"get": decorated(get, decorators)})
    add(site, path, item.as_view(path.strip("/")))


def function(site, path, *decorators):
    helper = decorated(lambda: "ok", decorators)
    add(site, path, lambda: f"{helper()}")


def async_function(site, path, *decorators):
    async def help_later():
        return await answer_later()

    helper = decorated(help_later, decorators)

    async def answer():
        return f"{await helper()}"

    add(site, path, answer)


def block(site, path, *decorators):
    def answer():
        with ExitStack() as stack:
            for limit in reversed(decorators):
                stack.enter_context(limit)
            return "ok"

    add(site, path, answer)


def block_of_an_async_view(site, path, *decorators):
    async def answer():
        with ExitStack() as stack:
            for limit in reversed(decorators):
                stack.enter_context(limit)
            return await answer_later()

    add(site, path, answer)


def blueprint(site, path, *decorators):
    name = path.strip("/")
    pages = decorated(Blueprint(name, name), decorators)
    pages.add_url_rule(path, "index", lambda: "ok")
    site.app.register_blueprint(pages)


VIEWS = (view, view_in_a_partial, async_view, class_view, class_view_that_is_kept, method, async_method)
FUNCTIONS = (function, async_function)
BLOCKS = (block, block_of_an_async_view)
everywhere = pytest.mark.parametrize("put", [*VIEWS, *FUNCTIONS, *BLOCKS, blueprint])


@pytest.fixture
def site(make_site):
    """Return a site that runs async views by what asgiref does for Flask."""
    site = make_site(application_limits="100/minute")
    site.app.async_to_sync = lambda function: lambda **arguments: asyncio.run(function(**arguments))
    return site


@everywhere
@pytest.mark.parametrize("free", [False, True], ids=["bound", "free"])
def test_each_admits_exactly_its_quotas(site, clock, put, free):
    limit = rate_limit if free else site.limiter.limit
    put(site, "/a", limit("3/hour"), limit("2/minute"))
    assert site.ask("/a", 3) == [200, 200, 429]
    assert site.open("/a").headers["Retry-After"] == "60"
    clock.advance(60)
    assert site.ask("/a", 2) == [200, 429]


@pytest.mark.parametrize("put", [*VIEWS, blueprint])
def test_all_limits_of_a_view_are_one_store_call(site, store_calls, put):
    put(site, "/a", site.limiter.limit("3/hour"), site.limiter.limit("2/minute"))
    assert site.ask("/a", 3) == [200, 200, 429]
    assert [len(charges) for charges in store_calls] == [3] * 3


@everywhere
def test_options_hold_on_each(site, put):
    limit = site.limiter.limit
    put(site, "/costly", limit(lambda: "5/minute", cost=lambda: 2))
    put(site, "/answering", limit("0/minute", on_breach=lambda decision: Response("later", status=429)))
    put(site, "/saying", limit("0/minute", error_message="gone"))
    put(site, "/counted", limit("1/minute", deduct_when=lambda response: False))
    put(site, "/shadow", limit("1/minute", shadow=True))
    put(site, "/nobody", limit("1/minute", identifiers=lambda: None, anonymous="exempt"))
    assert site.ask("/costly", 3) == [200, 200, 429]
    assert site.open("/answering").text == "later"
    assert "gone" in site.open("/saying", headers={"Accept": "application/json"}).text
    for path in ("/counted", "/shadow", "/nobody"):
        assert site.ask(path, 3) == [200] * 3


@everywhere
def test_each_counts_per_endpoint_and_a_shared_scope_together(site, put):
    once = site.limiter.limit("1/minute")
    put(site, "/a", once)
    put(site, "/b", once)
    put(site, "/c", site.limiter.shared_limit("2/minute", "s"))
    put(site, "/d", site.limiter.shared_limit("2/minute", "s"))
    assert site.ask("/a", 2) + site.ask("/b", 2) == [200, 429] * 2
    assert site.ask("/c", 1) + site.ask("/d", 2) == [200, 200, 429]


@everywhere
def test_each_has_meta_limits_of_its_own(site, put, at):
    put(site, "/a", site.limiter.limit("1/second", meta_limits="2/hour"))
    for second in (0, 1):
        at(second)
        assert site.ask("/a", 2) == [200, 429]
    at(2)
    assert site.ask("/a", 1) + site.ask("/free", 1) == [429, 200]
    at(3600)
    assert site.ask("/a", 1) == [200]


@everywhere
@pytest.mark.parametrize("methods", [["GTE"], ["GET", "GTE"]], ids=str)
def test_a_method_that_no_route_takes_is_an_error(site, put, methods):
    put(site, "/a", site.limiter.limit("1/minute", methods=methods))
    assert site.ask("/a", 2) == [500, 500]
    site.app.config["PROPAGATE_EXCEPTIONS"] = True
    message = r"has methods=\['GTE'\], which no route of 'site' takes: did you mean 'GET'\?"
    with pytest.raises(ValueError, match=message):
        site.ask("/a", 1)


@everywhere
def test_a_method_of_http_that_no_route_takes_is_none(site, put):
    put(site, "/a", site.limiter.limit("1/minute", methods=["PATCH"]))
    assert site.ask("/a", 2) == [200, 200]


def test_standard_methods_and_those_that_another_route_takes_may_be_named(make_site):
    site = make_site()
    limit = site.limiter.limit("1/minute", methods=["PATCH", "CONNECT", "PURGE"])
    site.route("/", limit)
    site.route("/cache", limit, methods=["GET", "PURGE"])
    assert site.ask("/", 2) + site.ask("/cache", 2) == [200] * 4
    assert site.ask("/cache", 2, method="PURGE") == [200, 429]


@pytest.mark.parametrize("put", VIEWS)
def test_a_view_may_be_exempt(site, put):
    put(site, "/a", site.limiter.exempt)
    put(site, "/b")
    assert site.ask("/a", 3) == [200] * 3
    assert site.left("/b") == {100: 99}


@pytest.mark.parametrize("decorate", ["limit", "shared_limit", "exempt", "rate_limit"])
def test_decorators_keep_a_coroutine_function_and_refuse_a_bare_class(site, decorate):
    decorator = {
        "limit": site.limiter.limit("1/minute"),
        "shared_limit": site.limiter.shared_limit("1/minute", scope="s"),
        "exempt": site.limiter.exempt,
        "rate_limit": rate_limit("1/minute"),
    }[decorate]
    assert inspect.iscoroutinefunction(decorator(answer_later))
    with pytest.raises(TypeError, match=r"decorators = \[...\]"):
        decorator(type("Item", (MethodView,), {}))


def test_a_decorator_keeps_name_docstring_and_signature():
    @rate_limit("1/minute")
    def add(left: int, right: int = 2) -> int:
        """Add."""
        return left + right

    assert (add.__name__, add.__doc__) == ("add", "Add.")
    assert add(1) == 3
    assert add(1, right=4) == 5


# Class views.


def test_methods_of_a_class_view_have_limits_of_their_own_in_one_store_call(make_site, store_calls):
    site = make_site(default_limits="3/minute", application_limits="100/minute")

    class Item(MethodView):
        @rate_limit("2/minute")
        def get(self):
            return "got"

        @site.limiter.limit("1/minute")
        def post(self):
            return "posted"

        def put(self):
            return "put"

        @site.limiter.exempt
        def delete(self):
            return "deleted"

    site.app.add_url_rule("/item", view_func=Item.as_view("item"))
    assert site.ask("/item", 3) == [200, 200, 429]
    assert site.ask("/item", 2, method="POST") == [200, 429]
    assert site.ask("/item", 4, method="PUT") == [200] * 3 + [429]
    assert site.ask("/item", 4, method="DELETE") == [200] * 4
    assert [len(charges) for charges in store_calls] == [2] * 9


def test_limits_of_the_class_and_of_a_method_are_one_decision(make_site):
    site = make_site(default_limits="1/minute")

    class Item(MethodView):
        decorators = [site.limiter.limit("5/minute")]  # noqa: RUF012

        @site.limiter.limit("2/minute")
        def get(self):
            return "got"

        def post(self):
            return "posted"

    site.app.add_url_rule("/item", view_func=Item.as_view("item"))
    assert site.quotas("/item") == [2, 5]
    assert site.ask("/item", 3) == [200, 429, 429]
    assert site.ask("/item", 4, method="POST") == [200] * 3 + [429]


# Functions that a view calls.


def dispatch_parcel() -> str:
    return "sent"


@pytest.fixture
def limited(site):
    """Return a function under two a minute."""
    return site.limiter.limit("2/minute")(dispatch_parcel)


def test_each_call_of_a_function_is_charged(site, limited):
    site.app.get("/")(lambda: limited() + limited())
    assert site.ask("/", 2) == [200, 429]


def test_a_view_may_go_on_without_a_refused_function(site, limited):
    @site.app.get("/")
    def index():
        try:
            return limited()
        except RateLimitExceeded as refusal:
            return f"later: {refusal.decision.status}"

    assert [site.open("/").text for _ in range(3)] == ["sent", "sent", "later: over"]
    assert "Retry-After" not in site.open("/").headers


def test_stacked_limits_of_a_function_are_one_store_call(site, limited, store_calls):
    function = site.limiter.limit("3/hour")(limited)
    site.app.add_url_rule("/", "index", site.limiter.exempt(lambda: f"it is {function()}"))
    assert site.ask("/", 3) == [200, 200, 429]
    assert [len(charges) for charges in store_calls] == [2, 2, 2]


def test_outside_a_request_nothing_is_limited(site, limited):
    later = rate_limit("1/minute")(answer_later)
    assert [limited() for _ in range(5)] == ["sent"] * 5
    assert [asyncio.run(later()) for _ in range(3)] == ["ok"] * 3
    with site.app.app_context():
        assert [limited() for _ in range(5)] == ["sent"] * 5
        with site.limiter.limit("0/minute"), rate_limit("0/minute"):
            pass


def test_a_limited_view_can_be_called_in_a_test_request(site):
    view = site.app.get("/")(rate_limit("1/minute")(lambda: "ok"))
    with site.app.test_request_context("/"):
        assert view() == "ok"
    with site.app.test_request_context("/"), pytest.raises(RateLimitExceeded):
        view()


def test_methods_that_nobody_knows_neither_pile_up_nor_count_apart(make_site):
    site = make_site()
    function = site.limiter.limit("5/minute", per_method=True)(lambda: None)

    @site.app.before_request
    def check():
        function()
        with site.limiter.limit("9/minute", per_method=True):
            pass

    assert site.ask("/nowhere", 2) + site.ask("/nowhere", 2, method="DELETE") == [404] * 4
    statuses = [site.ask("/nowhere", 1, method=f"X{number}")[0] for number in range(9)]
    assert statuses == [404] * 5 + [429] * 4
    assert [len(known) for known in site.app.extensions["overlimit"].plans._functions.values()] == [3]


def test_functions_decorated_during_a_request_do_not_pile_up(site):
    site.app.get("/")(lambda: f"it is {rate_limit('1000/minute')(dispatch_parcel)()}")
    assert site.ask("/", 20) == [200] * 20
    gc.collect()
    assert len(site.app.extensions["overlimit"].plans._functions) <= 1


# Blocks.


def test_a_refused_block_is_not_entered_and_the_view_may_go_on(site, clock):
    refusals = []

    @site.app.get("/")
    def index():
        with site.limiter.limit("1/second"):
            text = "ok"
        try:
            with site.limiter.limit("1/day"):
                text += " and more"
        except RateLimitExceeded as refusal:
            refusals.append(refusal.decision)
        return text

    assert site.open("/").text == "ok and more"
    assert site.open("/").status_code == 429
    clock.advance(1)
    assert site.open("/").text == "ok"
    assert [(refusal.status, refusal.retry_after) for refusal in refusals] == [("over", 86399.0)]


def test_blocks_of_code_are_entered_while_switched_off(make_site):
    site = make_site()

    @site.app.get("/")
    def index():
        with site.limiter.limit("1/minute"):
            return "ok"

    with site.limiter.disabled():
        assert site.ask("/", 3) == [200] * 3
    assert site.ask("/", 2) == [200, 429]


def test_one_object_may_be_entered_again_and_again(site):
    kept = site.limiter.limit("4/minute")
    block(site, "/a", kept, kept)
    assert site.ask("/a", 3) == [200, 200, 429]


def test_a_block_has_a_scope(site):
    def tenant(name):
        with site.limiter.limit("1/minute", scope=request.view_args["name"]):
            return name

    site.app.add_url_rule("/t/<name>", "tenant", tenant)
    assert site.ask("/t/1", 2) + site.ask("/t/2", 2) == [200, 429] * 2


def test_an_exception_within_a_block_passes_through(site):
    @site.app.get("/")
    def index():
        with site.limiter.limit("2/minute"):
            raise LookupError

    assert site.ask("/", 3) == [500, 500, 429]


def test_a_block_comes_on_top_of_the_limits_of_the_route_and_of_an_exemption(make_site):
    site = make_site(default_limits="2/minute")
    block(site, "/a", site.limiter.limit("9/minute"))
    block(site, "/b", site.limiter.limit("3/minute"))
    site.limiter.exempt(site.app.view_functions["b"])
    assert site.ask("/a", 3) == [200, 200, 429]
    assert site.ask("/b", 4) == [200, 200, 200, 429]


def test_blocks_made_anew_in_each_request_do_not_pile_up(site):
    @site.app.get("/a")
    def index():
        with site.limiter.limit(lambda: "2000/minute", cost=lambda: 1):
            return "ok"

    site.limiter.exempt(index)
    assert site.ask("/a", 300) == [200] * 300
    gc.collect()
    before = len(gc.get_objects())
    assert site.ask("/a", 300) == [200] * 300
    gc.collect()
    assert len(gc.get_objects()) - before < 300
    assert site.decision("/a").remaining == 1399


def test_blocks_whose_name_varies_by_request_do_not_pile_up(make_site):
    """As with ``scope=`` functions: what is kept of a name that isn't used any more is bounded."""
    site = make_site()

    def view(name):
        with site.limiter.limit("5/minute", name=name):
            return "ok"

    site.app.add_url_rule("/<name>", "named", view)

    def kept_after(start):
        for number in range(start, start + 300):
            assert site.open(f"/n{number}").status_code == 200
        gc.collect()
        return sum(type(thing) is FixedWindow for thing in gc.get_objects())

    before = kept_after(0)
    assert kept_after(300) < before + 150


@pytest.mark.parametrize("kind", [staticmethod, classmethod])
def test_a_limit_above_a_method_of_a_class_itself_says_what_to_write(site, kind):
    with pytest.raises(TypeError, match=rf"not on a {kind.__name__}: write @{kind.__name__} above it"):
        site.limiter.limit("1/minute")(kind(lambda *given: "ok"))


def test_a_limit_in_place_of_decorators_says_what_to_write(site):
    class Items(MethodView):
        decorators = site.limiter.limit("1/minute")

    with pytest.raises(TypeError, match=r"write decorators = \[limiter\.limit\(\.\.\.\)\]"):
        Items.as_view("items")
