"""Limits that decorators put on views: which hold, what they count, and their options, in every framework."""

from __future__ import annotations

import logging

import pytest

from adapters import each
from adapters.site import Limited, Reply

TWO = {"/": lambda asked: "ok", "/b": lambda asked: "ok"}


@pytest.fixture
def decorated(serve):
    """Return a function that serves two views, the first under decorators, the innermost first."""

    def make(*limits, b=(), **options):
        return serve(TWO, routes={"/": list(limits), "/b": list(b)}, **options)

    return make


@each("decorators")
@pytest.mark.every_store
def test_all_decorators_of_a_view_are_one_decision_with_the_limits_of_all(decorated, at):
    site = decorated(Limited("3/hour", name="h"), Limited("1/minute", name="m"), together="9/minute")
    assert site.statuses(times=5) == [200] + [429] * 4
    refusal = site.ask()
    assert refusal.left == {"h": 2, "m": 0, "application": 8}
    assert (refusal.json["violated-policies"], refusal.headers["Retry-After"]) == (["m"], "60")
    at(60)
    assert site.statuses(times=2) == [200, 429]


@each("ratelimit")
def test_pages_and_methods_that_there_are_not_are_not_limited(serve):
    site = serve(limits="1/minute", together="1/minute")
    answers = [site.ask(path, method=method) for path, method in [("/nowhere", "GET"), ("/", "DELETE")] * 2]
    assert [(answer.status, answer.ours) for answer in answers] == [(404, []), (405, [])] * 2
    assert site.statuses(times=2) == [200, 429]


@each("decorators")
def test_default_limits_give_way_to_decorators_unless_these_say_otherwise(decorated):
    default = {"limits": "1/minute"}
    assert decorated(**default).statuses(times=2) == [200, 429]
    assert decorated(Limited("2/minute"), **default, key_prefix="a").statuses(times=3) == [200, 200, 429]
    both = decorated(Limited("2/minute", override_defaults=False, name="own"), **default, key_prefix="b")
    assert both.ask().left == {"own": 1, "default": 0}
    assert both.statuses() == [429]
    nothing = decorated(Limited(lambda asked: ""), **default, key_prefix="c")
    assert nothing.statuses(times=3) == [200] * 3, "it says that there is none"


@each("decorators")
def test_an_exempt_view_is_free_of_its_own_decorators_too(decorated):
    site = decorated(Limited("1/minute"), b=[Limited("1/minute")], exempt=["/"], limits="1/minute")
    assert site.statuses("/", 3) + site.statuses("/b", 2) == [200, 200, 200, 200, 429]


@each("decorators")
def test_limits_of_some_methods_leave_the_others_to_the_default_limits(decorated):
    site = decorated(Limited("1/minute", methods=["post"], name="posts"), limits="2/minute")
    assert site.statuses(times=2, method="POST") == [200, 429]
    assert site.statuses(times=2) + site.statuses(method="HEAD") == [200, 200, 429]
    reads = decorated(Limited("1/minute", methods=["GET"]), key_prefix="c")
    assert reads.statuses() + reads.statuses(method="HEAD") == [200, 429]
    each_method = decorated(Limited("1/minute", per_method=True), key_prefix="b")
    assert each_method.statuses(times=2) + each_method.statuses(times=2, method="POST") == [200, 429] * 2


@each("decorators")
def test_views_count_apart_and_those_of_one_scope_together(decorated):
    alike = decorated(Limited("1/minute"), b=[Limited("1/minute")])
    assert alike.statuses("/", 2) + alike.statuses("/b", 2) == [200, 429] * 2
    shared = Limited("3/minute", shared="both")
    site = decorated(shared, b=[shared], key_prefix="b")
    assert site.statuses("/", 2) + site.statuses("/b", 2) == [200, 200, 200, 429]


@each("decorators")
def test_a_function_is_asked_once_a_request_which_views_count_together(decorated):
    views = []
    shared = Limited("2/minute", shared=lambda view, asked: views.append(view) or asked.query["of"][0])
    site = decorated(shared, b=[shared])
    asked = [site.ask(path).status for path in ("/?of=x", "/b?of=x", "/b?of=x", "/b?of=y")]
    assert asked == [200, 200, 429, 200]
    assert views == [views[0], *[views[1]] * 3]
    assert views[0] != views[1]


@each("decorators")
def test_a_scope_divides_the_count_of_a_view(decorated):
    by_shop = Limited("1/minute", scope=lambda view, asked: asked.query["shop"][0])
    site = decorated(by_shop, b=[by_shop])
    asked = [site.ask(f"{path}?shop={shop}").status for path in ("/", "/b") for shop in "abab"]
    assert asked == [200, 200, 429, 429] * 2


@each("decorators")
def test_each_decorator_has_a_cost_a_condition_and_clients_of_its_own(decorated):
    site = decorated(
        Limited("100/day", cost=lambda asked: 7, name="costly"),
        Limited("50/day", deduct_when=lambda response, asked: False, name="free"),
        Limited("10/day", identifiers=lambda asked: asked.header("X-Shop"), anonymous="exempt", name="shop"),
    )
    assert site.ask().left == {"costly": 93, "free": 49}
    assert site.ask("/", ("X-Shop", "a")).left == {"costly": 86, "free": 49, "shop": 9}
    assert site.ask("/", ("X-Shop", "b")).left == {"costly": 79, "free": 49, "shop": 9}


@each("decorators")
def test_who_is_nobody_is_exempt_from_the_limits_that_say_so_and_no_others(decorated):
    def key(asked):
        return asked.header("X-Key")

    by_key = Limited("9/minute", identifiers=key, anonymous="exempt", name="key")
    of_all = Limited("1/minute", identifiers=lambda asked: "all", deduct_when=lambda *_: False, name="all")
    alone = Limited("1/minute", identifiers=key, anonymous="exempt")
    site = decorated(by_key, of_all, b=[alone], limits="1/minute")
    assert site.statuses(times=3) + site.statuses("/", 3, ("X-Key", "a")) == [200] * 6, "all is given back"
    assert site.ask().headers["RateLimit-Policy"] == '"all";q=1;w=60'
    assert site.statuses("/b", 3) == [200] * 3, "nor do the default limits hold"
    assert site.statuses("/b", 2, ("X-Key", "a")) == [200, 429]
    shares = decorated(
        Limited("1/minute", anonymous="share"), identifiers=key, anonymous="exempt", key_prefix="b"
    )
    assert shares.statuses(times=2) == [200, 429]


@each("decorators")
def test_a_limit_that_does_not_hold_for_a_request_spends_nothing(decorated):
    skipped = Limited("1/minute", exempt_when=lambda asked: "X-Staff" in (asked.header("X-As") or ""))
    site = decorated(skipped, Limited("3/minute"))
    staff = ("X-As", "X-Staff")
    assert site.statuses("/", 2, staff) + site.statuses(times=2) == [200, 200, 200, 429]
    assert site.statuses("/", 1, staff) == [429], "which the other limit refuses"


@each("decorators")
@pytest.mark.every_store
def test_a_limit_in_shadow_refuses_nobody_and_is_charged_as_if_it_did(decorated, at, caplog):
    caplog.set_level(logging.INFO, logger="overlimit")
    shadow = Limited("3/hour", shadow=True, on_breach=lambda *_: 1 // 0)
    site = decorated(shadow, Limited("1/minute", name="real"), headers="both")
    assert site.statuses(times=9) == [200] + [429] * 8
    for minute in (1, 2, 3, 4):
        at(60 * minute)
        answer = site.ask()
        assert (answer.status, answer.left) == (200, {"real": 0})
        assert answer.headers["X-RateLimit-Limit"] == "1"
        assert ("would have refused" in caplog.text) == (minute > 2), "what the other refused was free"
    alone = decorated(Limited("1/minute", shadow=True), limits="2/minute", key_prefix="b")
    assert alone.statuses(times=3) == [200, 200, 429], "the default limits hold beside it"


@each("decorators")
@pytest.mark.parametrize("message", ["slowly", lambda asked: f"slowly{asked.path.strip('/')}"])
@pytest.mark.parametrize("accept", ["application/problem+json", "application/json", "text/html"])
def test_the_message_of_the_limit_that_refuses_is_in_the_body(decorated, message, accept):
    site = decorated(Limited("9/hour", error_message="hourly"), Limited("1/minute", error_message=message))
    site.ask()
    refusal = site.ask("/", ("Accept", accept))
    assert ("slowly" in refusal.text, "hourly" in refusal.text) == (True, False)


@each("decorators")
def test_hooks_of_the_site_and_of_the_limit_that_refused_are_called_and_the_last_answers(decorated):
    called = []

    def hook(name, answers):
        return lambda decision, asked: called.append(name) or (Reply(name, 429) if answers else None)

    site = decorated(
        Limited("9/minute", on_breach=hook("other", True)),
        Limited("1/minute", on_breach=hook("own", True)),
        b=[Limited("1/minute", on_breach=hook("silent", False))],
        on_breach=hook("site", True),
    )
    assert [site.ask(path).text for path in ("/", "/", "/b", "/b")] == ["ok", "own", "ok", "site"]
    assert called == ["site", "own", "site", "silent"]


@each("decorators")
def test_of_two_that_count_together_the_stricter_holds_and_the_higher_cost_is_spent(decorated):
    def never(response, asked):
        return False

    alike = [
        Limited("9/minute; 9/hour", shared="s", cost=2),
        Limited("5/hour; 7/minute", shared="s", deduct_when=never),
    ]
    for number, order in enumerate((alike, alike[::-1])):
        site = decorated(*order, key_prefix=f"p{number}")
        assert site.statuses(times=3) == [200, 200, 429], "it counts for one of them"


@each("await", "decorators")
def test_what_decorators_ask_may_be_coroutine_functions(serve):
    limited = Limited(
        lambda asked: asked.header("X-Limits") or "9/minute",
        scope=lambda view, asked: asked.header("X-Shop") or "",
        exempt_when=lambda asked: asked.header("X-Free") is not None,
        cost=lambda asked: 3,
        error_message=lambda asked: f"slowly, {asked.header('X-User')}",
        identifiers=lambda asked: asked.header("X-User"),
    )
    site = serve(TWO, routes={"/": [limited]}, awaits=True)
    assert site.statuses("/", 5, ("X-Free", "1"), user="ann") == [200] * 5
    assert site.statuses(times=4, user="ann") == [200] * 3 + [429]
    assert site.ask(user="ann").json["detail"] == "slowly, ann"
    assert site.statuses("/", 1, ("X-Shop", "b"), user="ann") == [200]
    assert site.statuses("/", 1, ("X-Shop", "c"), ("X-Limits", "1/minute"), user="ann") == [429]
