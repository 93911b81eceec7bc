"""What ``rate_limit`` on a route counts, and what it leaves alone."""

from __future__ import annotations

import pytest
from flask.views import MethodView

from overlimit import InvalidLimit
from overlimit.flask import rate_limit


def test_the_limit_admits_exactly_its_quota_and_again_after_the_window(make_site, clock):
    site = make_site()
    site.app.get("/")(rate_limit("3/minute")(lambda: "ok"))
    assert site.ask("/", 5) == [200] * 3 + [429] * 2
    clock.advance(59.999999)
    assert site.ask("/", 1) == [429]
    clock.advance(0.000001)
    assert site.ask("/", 4) == [200] * 3 + [429]


def test_every_limit_of_a_text_holds(make_site, clock):
    site = make_site()
    site.app.get("/")(rate_limit("2/second; 3/minute")(lambda: "ok"))
    assert site.ask("/", 3) == [200, 200, 429]
    clock.advance(1)
    assert site.ask("/", 2) == [200, 429]
    clock.advance(58.999999)
    assert site.ask("/", 1) == [429]
    clock.advance(0.000001)
    assert site.ask("/", 3) == [200, 200, 429]


def test_users_behind_one_address_share_its_limit(make_site):
    site = make_site()
    site.app.get("/")(rate_limit("3/minute")(lambda: "ok"))
    assert site.ask("/", 2, user="ann") == [200, 200]
    assert site.ask("/", 2, user="ben") == [200, 429]
    assert site.ask("/", 3, user="ben", ip="192.0.2.2") == [200, 200, 429]


def test_a_refused_user_costs_the_address_nothing(make_site):
    site = make_site()
    site.app.get("/")(rate_limit("3/minute")(lambda: "ok"))
    assert site.ask("/", 4, user="ann", ip="192.0.2.1") == [200] * 3 + [429]
    assert site.ask("/", 5, user="ann", ip="192.0.2.2") == [429] * 5
    assert site.ask("/", 4, user="ben", ip="192.0.2.2") == [200] * 3 + [429]


def test_stacked_decorators_are_all_checked_in_one_store_call(make_site, store_calls):
    site = make_site()
    site.app.get("/")(rate_limit("3/hour")(rate_limit("2/minute")(lambda: "ok")))
    assert site.ask("/", 3) == [200, 200, 429]
    assert [len(charges) for charges in store_calls] == [2, 2, 2]


def test_stacked_decorators_charge_nothing_when_one_refuses(make_site, clock):
    site = make_site()
    site.app.get("/")(rate_limit("3/hour")(rate_limit("2/minute")(lambda: "ok")))
    assert site.ask("/", 9) == [200] * 2 + [429] * 7
    clock.advance(60)
    assert site.ask("/", 2) == [200, 429]


def test_routes_are_counted_apart(make_site):
    site = make_site()
    site.app.get("/a", endpoint="a")(rate_limit("1/minute")(lambda: "a"))
    site.app.get("/b", endpoint="b")(rate_limit("1/minute")(lambda: "b"))
    assert site.ask("/a", 2) == [200, 429]
    assert site.ask("/b", 2) == [200, 429]


def test_one_view_under_two_endpoints_is_counted_per_endpoint(make_site):
    site = make_site()
    view = rate_limit("1/minute", name="shared-view")(lambda: "ok")
    site.app.add_url_rule("/a", "a", view)
    site.app.add_url_rule("/b", "b", view)
    assert site.ask("/a", 2) == [200, 429]
    assert site.ask("/b", 2) == [200, 429]


def test_two_rules_of_one_endpoint_are_counted_together(make_site):
    site = make_site()
    view = rate_limit("2/minute")(lambda: "ok")
    site.app.add_url_rule("/a", "view", view)
    site.app.add_url_rule("/b", "view", view)
    assert site.ask("/a", 1) + site.ask("/b", 2) == [200, 200, 429]


def test_endpoints_that_read_alike_are_counted_apart(make_site):
    site = make_site()
    endpoints = ["x--1", "x-1", "x 1", "x/1", "x" * 80]
    for number, endpoint in enumerate(endpoints):
        site.app.add_url_rule(f"/{number}", endpoint, rate_limit("1/minute")(lambda: "ok"))
    for number in range(len(endpoints)):
        assert site.ask(f"/{number}", 2) == [200, 429]


def test_a_class_view_takes_limits_in_its_decorators(make_site, store_calls):
    class Item(MethodView):
        decorators = [rate_limit("2/minute")]  # noqa: RUF012

        def get(self):
            return "got"

        def post(self):
            return "posted"

    site = make_site(default_limits="1/minute")
    site.app.add_url_rule("/item", view_func=Item.as_view("item"))
    assert site.ask("/item", 1) + site.ask("/item", 2, method="POST") == [200, 200, 429]
    assert len(store_calls) == 3


def test_methods_of_a_class_view_have_limits_of_their_own_in_one_store_call(make_site, store_calls):
    class Item(MethodView):
        @rate_limit("2/minute")
        def get(self):
            return "got"

        @rate_limit("1/minute")
        def post(self):
            return "posted"

        def put(self):
            return "put"

    site = make_site(default_limits="3/minute", application_limits="100/minute")
    site.app.add_url_rule("/item", view_func=Item.as_view("item"))
    assert site.ask("/item", 3) == [200, 200, 429]
    assert site.ask("/item", 2, method="POST") == [200, 429]
    assert site.ask("/item", 4, method="PUT") == [200] * 3 + [429]
    assert [len(charges) for charges in store_calls] == [2] * 9


def test_a_bare_class_cannot_be_decorated():
    with pytest.raises(TypeError, match=r"decorators = \[...\]"):

        @rate_limit("1/minute")
        class Item(MethodView):
            pass


@pytest.mark.parametrize("value", ["5/sekunde", "", "5", "5/minute;;x", 5, None])
def test_a_malformed_limit_is_an_error_where_it_is_written(make_site, value):
    with pytest.raises((InvalidLimit, TypeError)):
        rate_limit(value)
    with pytest.raises((InvalidLimit, TypeError)):
        make_site().limiter.limit(value)


def test_a_decorator_keeps_name_docstring_and_signature():
    @rate_limit("1/minute")
    def add(left: int, right: int = 2) -> int:
        """Add."""
        return left + right

    assert (add.__name__, add.__doc__) == ("add", "Add.")
    assert add(1) == 3
    assert add(1, right=4) == 5


def test_a_decorator_of_its_own_algorithm_does_not_follow_the_rate_limit(make_site, clock):
    site = make_site(algorithm="fixed_window")
    site.app.get("/")(rate_limit("2/minute", algorithm="token_bucket")(lambda: "ok"))
    assert site.ask("/", 3) == [200, 200, 429]
    clock.advance(30)
    assert site.ask("/", 2) == [200, 429]


def test_a_limit_of_zero_refuses_everything(make_site):
    site = make_site()
    site.app.get("/")(rate_limit("0/minute")(lambda: "ok"))
    assert site.ask("/", 3) == [429] * 3


def test_one_decorator_kept_for_two_views_counts_them_apart(make_site):
    site = make_site()
    once = rate_limit("1/minute")
    site.app.get("/a", endpoint="a")(once(lambda: "a"))
    site.app.get("/b", endpoint="b")(once(lambda: "b"))
    assert site.ask("/a", 2) == [200, 429]
    assert site.ask("/b", 2) == [200, 429]
