"""Requests that cost what they turned out to cost: which limits that concerns, and what may go wrong."""

from __future__ import annotations

from functools import partial

import pytest
from flask import Blueprint, copy_current_request_context, request

from overlimit import Penalty

USED = 30


@pytest.fixture
def settled(make_site):
    """Return a function that settles a request under these limits, and says what is left of each."""

    def left_of(*limits, used=USED, status=200, **options):
        site = make_site(**options)
        limiter = site.limiter

        def view():
            limiter.settle(used)
            return "ok", status

        for value, of in limits:
            view = limiter.limit(value, **of)(view)
        site.app.add_url_rule("/", "index", view)
        assert site.open("/").status_code == status
        with site.app.test_request_context("/"):
            rules = next(
                rules for route, rules in limiter._current_state().routes() if route.endpoint == "index"
            )
            found = [rule.resolve_now().limiter for rule in rules]
        return [
            each.peek("all" if "global" in each.name else "ip:192.0.2.1", cost=0).remaining for each in found
        ]

    return left_of


@pytest.mark.every_store
def test_limits_with_a_cost_are_settled_and_those_without_count_requests(settled):
    limits = [
        ("100/day", {"cost": 5}),
        ("90/day", {}),
        ("80/day", {"cost": lambda: 50}),
        ("70/day", {"cost": 0}),
    ]
    assert settled(*limits) == [70, 89, 50, 40]


@pytest.mark.every_store
def test_options_of_a_ratelimit_say_a_cost_too(settled):
    more = {"default_limits": "90/day", "default_limits_cost": 1, "application_limits": "80/day"}
    assert settled(**more, global_limits="70/day", global_limits_cost=2) == [60, 79, 40]


@pytest.mark.every_store
def test_a_limit_in_shadow_is_settled_if_it_was_charged(settled):
    of = {"shadow": True, "cost": 5}
    assert settled(("100/day", {"cost": 1}), ("90/day", of), ("4/day", of)) == [70, 60, 4]


@pytest.mark.every_store
def test_a_meta_limit_is_not_settled(settled):
    assert settled(("100/day", {"cost": 1}), meta_limits="9/day") == [70, 9]


@pytest.mark.every_store
def test_what_does_not_count_is_given_back_and_the_rest_is_settled(settled):
    of = {"cost": 5, "deduct_when": lambda response: response.status_code < 400}
    limits = [("100/day", of), ("90/day", {"cost": 50}), ("80/day", {})]
    assert settled(*limits, status=404) == [100, 60, 79]


def test_outside_of_a_request_it_says_how_to_keep_one(make_site):
    site = make_site()

    def parts():
        yield "begun"
        site.limiter.settle(5)

    site.app.add_url_rule("/", "index", lambda: site.app.response_class(parts()))
    site.limiter.limit("9/day", cost=1)(site.app.view_functions["index"])
    response = site.open("/")
    with pytest.raises(RuntimeError, match=r"settle\(\) needs a request, .* in flask.stream_with_context"):
        response.get_data()
    with pytest.raises(RuntimeError, match=r"refund\(\) needs a request"):
        site.limiter.refund()


def test_what_is_called_when_a_response_is_closed_settles_it_in_a_copy_of_its_context(make_site):
    site = make_site()

    @site.limiter.limit("100/day", cost=10, name="tokens")
    def view():
        response = site.app.response_class("ok")
        settle = partial(site.limiter.settle, USED)
        response.call_on_close(settle if request.args else copy_current_request_context(settle))
        return response

    site.app.add_url_rule("/", "index", view)
    refused = site.open("/?uncopied=1")
    with pytest.raises(RuntimeError, match=r"call_on_close calls in flask\.copy_current_request_context"):
        refused.close()
    for left in (80, 50):
        with site.open("/") as response:
            assert f'"tokens";r={left};' in response.headers["RateLimit"]


@pytest.mark.parametrize(
    ("used", "error", "message"),
    [
        (-1, ValueError, "used must be a whole number from 0, not -1"),
        (1.5, TypeError, "used must be a whole number from 0, not 1.5"),
        (True, TypeError, "used must be a whole number from 0, not True"),
        (5, RuntimeError, "no limit of this request has a cost="),
    ],
)
def test_what_is_wrong_is_an_error(make_site, used, error, message):
    site = make_site()
    site.app.testing = True
    site.app.add_url_rule("/", "index", site.limiter.limit("9/day")(lambda: site.limiter.settle(used)))
    with pytest.raises(error, match=message):
        site.open("/")


def test_what_no_limit_held_for_stays_as_it_is(make_site):
    site = make_site()
    limited = site.limiter.limit("9/day", cost=2, exempt_when=lambda: "free" in request.args)

    def view():
        site.limiter.settle(5)
        return "ok"

    def unlimited():
        return view()

    site.app.add_url_rule("/", "index", limited(view))
    site.app.add_url_rule("/unlimited", "unlimited", unlimited)
    assert site.ask("/?free=1", 20) == site.ask("/unlimited", 20) == [200] * 20
    assert site.ask("/", 3) == [200, 200, 429]


def test_what_only_defaults_and_a_blueprint_limit_stays_as_it_is(make_site):
    site = make_site(default_limits="2/day")
    blueprint = Blueprint("shop", "shop", url_prefix="/shop")

    def view():
        site.limiter.settle(5)
        return "ok"

    site.app.add_url_rule("/", "index", view)
    blueprint.add_url_rule("/", "index", view)
    site.limiter.limit("3/day")(blueprint)
    site.app.register_blueprint(blueprint)
    assert site.ask("/", 3) == [200, 200, 429]
    assert site.ask("/shop/", 4) == [200, 200, 200, 429]


def test_a_penalty_of_all_limits_locks_nobody_by_those_of_all_clients_nor_by_refusals(make_site, at):
    site = make_site(
        global_limits="2/minute", meta_limits="1/minute", default_limits="99/minute", penalty=Penalty(1000)
    )
    assert site.ask("/free", 3) == [200, 200, 429]
    at(60)
    assert site.ask("/free", 2) == [200, 200]


def test_a_penalty_locks_where_it_was_earned_alone(make_site, at):
    site = make_site(penalty=Penalty(1000))
    site.route("/login", site.limiter.limit("1/minute"))
    site.route("/search", site.limiter.limit("1/minute", penalty=Penalty(70)))
    site.route("/shadow", site.limiter.limit("1/minute", shadow=True))
    assert site.ask("/login", 2) == site.ask("/search", 2) == [200, 429]
    assert site.ask("/shadow", 3) == [200] * 3
    at(69)
    assert site.ask("/search", 1) == [429]
    at(70)
    assert site.ask("/search", 1) + site.ask("/login", 1) + site.ask("/free", 1) == [200, 429, 200]
    site.limiter.reset("ip:192.0.2.1")
    assert site.ask("/login", 1) == [200]


@pytest.mark.parametrize("value", [Penalty([60, 300]), "60, 300", [60, 300], "60"])
def test_the_key_of_the_configuration(make_site, value):
    site = make_site(config={"RATELIMIT_PENALTY": value}, default_limits="1/minute")
    assert [site.open("/free").headers.get("Retry-After") for _ in range(3)] == [None, "60", "60"]


@pytest.mark.parametrize("value", ["soon", "-5", [], "60;300", Penalty])
def test_what_is_no_penalty_is_an_error(make_site, value):
    if value != []:
        with pytest.raises(
            ValueError, match=r"RATELIMIT_PENALTY must be a Penalty such as Penalty\(60\), not"
        ):
            make_site(config={"RATELIMIT_PENALTY": value})
    with pytest.raises(TypeError, match=r"^penalty must be a Penalty such as Penalty\(60\), not"):
        make_site().limiter.limit("1/minute", penalty=value)
