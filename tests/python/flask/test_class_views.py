"""Limits on class-based views."""

from __future__ import annotations

import pytest
from flask.views import MethodView, View

from overlimit.flask import rate_limit


def add(site, path, view_class, **options):
    site.app.add_url_rule(path, view_func=view_class.as_view(path.strip("/")), **options)


@pytest.mark.parametrize("every_request", [True, False])
def test_a_plain_class_view_takes_limits_in_its_decorators(make_site, every_request):
    site = make_site(default_limits="1/minute")

    class Page(View):
        decorators = [site.limiter.limit("3/hour"), site.limiter.limit("2/minute")]  # noqa: RUF012
        init_every_request = every_request

        def dispatch_request(self):
            return "ok"

    add(site, "/page", Page)
    assert site.quotas("/page") == [2, 3]
    assert site.ask("/page", 2) == [200, 429]


def test_a_class_view_without_limits_has_the_default_ones(make_site):
    site = make_site(default_limits="1/minute")

    class Page(View):
        def dispatch_request(self):
            return "ok"

    add(site, "/page", Page)
    assert site.ask("/page", 2) == [200, 429]


def test_methods_of_a_class_view_take_bound_limits(make_site):
    site = make_site(default_limits="3/minute")

    class Item(MethodView):
        @site.limiter.limit("1/minute")
        def get(self):
            return "got"

        @site.limiter.limit("2/minute")
        def post(self):
            return "posted"

        def put(self):
            return "put"

    add(site, "/item", Item)
    assert site.ask("/item", 2) == [200, 429]
    assert site.ask("/item", 3, method="POST") == [200, 200, 429]
    assert site.ask("/item", 4, method="PUT") == [200] * 3 + [429]


def test_limits_of_the_class_and_of_a_method_are_one_decision(make_site):
    site = make_site()

    class Item(MethodView):
        decorators = [site.limiter.limit("5/minute")]  # noqa: RUF012

        @site.limiter.limit("2/minute")
        def get(self):
            return "got"

        def post(self):
            return "posted"

    add(site, "/item", Item)
    assert site.quotas("/item") == [2, 5]
    assert site.ask("/item", 3) == [200, 429, 429]
    assert site.ask("/item", 4, method="POST") == [200] * 3 + [429]


def test_decorators_of_a_class_take_methods_and_per_method(make_site):
    site = make_site(default_limits="3/minute")

    class Some(MethodView):
        decorators = [site.limiter.limit("1/minute", methods=["post"])]  # noqa: RUF012

        def get(self):
            return "got"

        def post(self):
            return "posted"

    class Each(Some):
        decorators = [site.limiter.limit("1/minute", per_method=True)]  # noqa: RUF012

    add(site, "/some", Some)
    add(site, "/each", Each)
    assert site.ask("/some", 2, method="POST") + site.ask("/some", 4) == [200, 429] + [200] * 3 + [429]
    assert site.ask("/each", 2, method="POST") + site.ask("/each", 2) == [200, 429] * 2


def test_a_class_view_may_be_exempt(make_site):
    site = make_site(default_limits="1/minute", application_limits="2/minute")

    class Item(MethodView):
        decorators = [site.limiter.exempt]  # noqa: RUF012

        def get(self):
            return "got"

    add(site, "/item", Item)
    assert site.ask("/item", 4) == [200] * 4
    assert site.ask("/free", 2) == [200, 429]


def test_one_method_of_a_class_view_may_be_exempt(make_site):
    site = make_site(default_limits="1/minute")

    class Item(MethodView):
        @site.limiter.exempt
        def get(self):
            return "got"

        def post(self):
            return "posted"

    add(site, "/item", Item)
    assert site.ask("/item", 3) + site.ask("/item", 2, method="POST") == [200] * 3 + [200, 429]


def test_a_method_inherited_by_two_classes_counts_per_endpoint(make_site):
    site = make_site()

    class Base(MethodView):
        @rate_limit("1/minute")
        def get(self):
            return "got"

    class One(Base):
        pass

    class Two(Base):
        pass

    add(site, "/one", One)
    add(site, "/two", Two)
    assert site.ask("/one", 2) + site.ask("/two", 2) == [200, 429] * 2


@pytest.mark.parametrize("decorate", ["limit", "shared_limit", "exempt"])
def test_a_bare_class_cannot_be_decorated(make_site, decorate):
    limiter = make_site().limiter
    decorators = {
        "limit": lambda: limiter.limit("1/minute"),
        "shared_limit": lambda: limiter.shared_limit("1/minute", scope="s"),
        "exempt": lambda: limiter.exempt,
    }

    class Item(MethodView):
        pass

    with pytest.raises(TypeError, match=r"decorators = \[...\]"):
        decorators[decorate]()(Item)


def test_all_options_hold_on_a_method(make_site):
    site = make_site()

    class Item(MethodView):
        @site.limiter.limit("5/minute", cost=2, error_message="gone", deduct_when=lambda response: True)
        def get(self):
            return "got"

    add(site, "/item", Item)
    assert site.ask("/item", 2) == [200, 200]
    assert "gone" in site.open("/item", headers={"Accept": "application/json"}).text
