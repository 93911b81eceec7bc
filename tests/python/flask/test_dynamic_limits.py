"""Limits that are looked up for each request."""

from __future__ import annotations

import gc

import pytest

from overlimit import FixedWindow


def test_it_follows_the_algorithm_of_its_rate_limit(make_site, clock):
    site = make_site(algorithm="token_bucket")
    site.route("/", site.limiter.limit(lambda: "2/minute"))
    assert site.ask("/", 3) == [200, 200, 429]
    clock.advance(30)
    assert site.ask("/", 2) == [200, 429]


def test_a_decorators_list_may_mix_them_too(make_site):
    site = make_site()
    site.route("/", site.limiter.limit(["30/minute; 40/hour", FixedWindow(20, per=3600), lambda: "10/day"]))
    assert site.quotas("/") == [10, 20, 30, 40]
    assert site.ask("/", 10) == [200] * 9 + [429]


@pytest.mark.parametrize("text", ["often", "1/fortnight"])
def test_the_error_of_a_malformed_one_names_its_function_and_endpoint(make_site, caplog, text):
    def of_the_plan():
        return text

    site = make_site()
    site.route("/reports", site.limiter.limit(of_the_plan))
    assert site.ask("/reports", 1) == [500]
    assert f"{__name__}." in caplog.text
    assert "of_the_plan() for 'reports': " in caplog.text


def test_many_different_answers_do_not_pile_up(make_site):
    site = make_site()
    numbers = iter(range(5001, 9000))
    site.route("/", site.limiter.limit(lambda: f"{next(numbers)}/minute"))
    assert site.ask("/", 300) == [200] * 300
    gc.collect()
    before = len(gc.get_objects())
    assert site.ask("/", 300) == [200] * 300
    gc.collect()
    assert len(gc.get_objects()) - before < 300
