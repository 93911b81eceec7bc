"""Limits on how often a caller may be refused."""

from __future__ import annotations

import pytest
from flask import Response, request

from overlimit import flask as extension


@pytest.mark.parametrize(
    ("flags", "statuses"),
    [(None, [200, 200]), ("META", [200, 429]), ("DEFAULT", [429, 429]), ("APPLICATION", [429, 429])],
)
def test_who_is_refused_too_often_still_reaches_what_is_exempt_from_meta_limits(make_site, flags, statuses):
    site = make_site(default_limits="1/minute", meta_limits="1/hour")
    exempt = site.limiter.exempt
    site.route("/exempt", exempt(flags=extension.ExemptionScope[flags]) if flags else exempt)
    assert site.ask("/free", 2) == [200, 429]
    assert site.ask("/exempt", 2) == statuses


def test_refusals_of_what_is_exempt_from_meta_limits_spend_none(make_site):
    site = make_site(default_limits="1/minute", meta_limits="1/hour")
    site.route("/a", site.limiter.exempt(flags=extension.ExemptionScope.META))
    assert site.ask("/a", 4) == [200] + [429] * 3
    assert site.ask("/free", 2) == [200, 429]


def test_refusals_of_a_block_and_of_a_function_count_too(make_site):
    site = make_site(meta_limits="2/hour")
    site.route("/other", site.limiter.limit("9/minute"))

    @site.limiter.limit("1/minute")
    def step():
        return "ok"

    @site.app.get("/block")
    def block():
        with site.limiter.limit("1/minute"):
            return "ok"

    site.app.add_url_rule("/function", "function", lambda: f"it is {step()}")
    assert site.ask("/block", 2) + site.ask("/function", 1) + site.ask("/other", 1) == [200, 429, 200, 200]
    assert site.ask("/function", 1) + site.ask("/other", 1) == [429, 429]


def test_a_request_that_never_fits_spends_no_meta_limit(make_site):
    site = make_site(meta_limits="1/hour")
    site.route("/", site.limiter.limit("2/minute", cost=3))
    site.route("/other", site.limiter.limit("1/minute"))
    assert site.ask("/", 3) == [429] * 3
    assert site.ask("/other", 1) == [200]


def test_a_limit_in_shadow_spends_no_meta_limit(make_site):
    site = make_site(default_limits="9/minute", meta_limits="1/hour")
    site.route("/", site.limiter.limit("1/minute", shadow=True))
    assert site.ask("/", 5) + site.ask("/free", 1) == [200] * 6


def test_meta_limits_of_a_decorator_hold_where_it_does(make_site, at):
    site = make_site(application_limits="1/second")
    given = {"meta_limits": "1/hour", "exempt_when": lambda: "X-Staff" in request.headers}
    site.route("/shadow", site.limiter.limit("9/minute", meta_limits="2/hour", shadow=True))
    site.route("/login", site.limiter.limit("9/minute", **given))
    assert site.ask("/shadow", 4) == [200] + [429] * 3
    at(2)
    assert site.ask("/shadow", 1) == [200], "a limit in shadow refuses nobody"
    at(4)
    assert site.ask("/login", 2) == [200, 429]
    at(6)
    assert site.open("/login", headers={"X-Staff": "yes"}).status_code == 200
    at(8)
    assert site.ask("/login", 1) == [429]


def test_on_meta_breach_answers_a_refusal_by_a_meta_limit_only(make_site, at):
    seen = []

    def answer(decision):
        seen.append(decision)
        return Response("some tea?", status=429)

    site = make_site(
        default_limits="1/second",
        meta_limits="1/minute",
        on_breach=lambda decision: Response("slowly", status=429),
        on_meta_breach=answer,
    )
    assert [site.open("/free").text for _ in range(2)] == ["free", "slowly"]
    assert seen == []
    at(1)
    response = site.open("/free")
    assert (response.status_code, response.text, response.headers["Retry-After"]) == (429, "some tea?", "59")
    (decision,) = seen
    assert (decision.allowed, decision.status, decision.limit.quota) == (False, "over", 1)
    assert decision.limit.window == 60
    assert decision.retry_after == 59
