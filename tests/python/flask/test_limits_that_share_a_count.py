"""Two limits of one scope on one request: one count, charged once, and neither is lost."""

from __future__ import annotations

import itertools

import pytest
from flask import Blueprint, make_response
from flask.views import MethodView

pytestmark = pytest.mark.every_store


def never(response):
    return False


@pytest.fixture
def site(make_site):
    return make_site()


@pytest.mark.parametrize("given_back_first", [True, False])
def test_what_counts_for_one_of_them_counts(site, given_back_first):
    limit = site.limiter.shared_limit
    decorators = [limit("3/minute", "S"), limit("2/minute", "S", deduct_when=never)]
    view = lambda: "ok"  # noqa: E731
    for decorate in decorators if given_back_first else decorators[::-1]:
        view = decorate(view)
    site.app.add_url_rule("/", "index", view)
    assert site.ask("/", 4) == [200, 200, 429, 429]


def test_what_counts_for_neither_is_given_back(site):
    limit = site.limiter.shared_limit
    view = limit("2/minute", "S", deduct_when=never)(limit("2/minute", "S", deduct_when=never)(lambda: "ok"))
    site.app.add_url_rule("/", "index", view)
    assert site.ask("/", 5) == [200] * 5


@pytest.mark.parametrize("costs", [(1, 2), (2, 1), (0, 2), (lambda: 2, 1), (1, lambda: 2)])
def test_the_highest_cost_is_charged_once(site, costs):
    limit = site.limiter.shared_limit
    view = limit("4/minute", "S", cost=costs[0])(limit("4/minute", "S", cost=costs[1])(lambda: "ok"))
    site.app.add_url_rule("/", "index", view)
    assert site.ask("/", 3) == [200, 200, 429]


def test_the_limit_of_a_blueprint_is_charged_though_its_view_gives_its_own_back(site):
    pages = Blueprint("pages", "pages")
    site.limiter.shared_limit("4/minute", "S", cost=2)(pages)
    own = site.limiter.shared_limit("4/minute", "S", cost=2, override_defaults=False, deduct_when=never)
    pages.add_url_rule("/", "index", own(lambda: "ok"))
    site.app.register_blueprint(pages)
    assert site.ask("/", 3) == [200, 200, 429]


def test_the_hooks_of_both_are_told(site):
    told = itertools.count()
    limit = site.limiter.shared_limit
    inner = limit("0/minute", "S", on_breach=lambda decision: make_response(f"inner {next(told)}", 418))
    outer = limit("0/minute", "S", on_breach=lambda decision: make_response(f"outer {next(told)}", 418))
    site.app.add_url_rule("/", "index", outer(inner(lambda: "ok")))
    assert site.open("/").text == "outer 1"


def test_a_class_and_its_method_may_name_their_limits_alike(site):
    class Items(MethodView):
        decorators = [site.limiter.limit("5/minute", name="n")]  # noqa: RUF012

        def get(self):
            return "ok"

        @site.limiter.limit("2/minute", name="n", deduct_when=never)
        def post(self):
            return "ok"

    site.app.add_url_rule("/", view_func=Items.as_view("items"))
    assert [site.open("/", method="POST").status_code for _ in range(6)] == [200] * 5 + [429]
