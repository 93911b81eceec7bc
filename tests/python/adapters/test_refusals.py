"""What answers a refusal besides the adapter: ``on_breach``, and what limiters of the app's own refuse."""

from __future__ import annotations

import pytest

from adapters import each
from adapters.site import Reply
from overlimit import Limiter, ManualClock, RateLimitExceeded
from overlimit.recipes import Concurrency


@each()
@pytest.mark.parametrize(
    ("status", "given", "sent"), [(429, None, "60"), (429, "1", "60"), (503, "300", "300"), (200, None, None)]
)
def test_an_answer_of_on_breach_is_sent_with_the_fields_and_the_time_to_come_again(
    serve, status, given, sent
):
    seen = []

    def later(decision, asked):
        seen.append((decision.allowed, decision.identifier, asked.path))
        return Reply("later", status, {"Retry-After": given} if given else {})

    site = serve(limits="1/minute", on_breach=later)
    assert site.ask().text == "ok"
    answer = site.ask()
    assert (answer.status, answer.text, answer.headers.get("Retry-After")) == (status, "later", sent)
    assert answer.headers["RateLimit"].endswith(";r=0;t=60")
    assert seen == [(False, "ip:192.0.2.1", "/")]


@each()
def test_where_on_breach_answers_nothing_the_usual_answer_is_sent(serve):
    refusal = serve(limits="0/minute; 1/hour", on_breach=lambda decision, asked: None).ask()
    assert (refusal.status, refusal.json["title"]) == (429, "Quota Exceeded")


@each()
@pytest.mark.parametrize("answer", ["later", b"later", ("later", 429), {"error": "later"}], ids=repr)
def test_an_on_breach_that_returns_what_is_no_response_fails_the_request(serve, answer):
    site = serve(limits="1/minute", on_breach=lambda decision, asked: answer)
    assert site.statuses(times=3) == [200, 500, 500]


@each()
@pytest.mark.parametrize("on_error", ["allow", "raise"])
def test_an_on_breach_that_fails_is_a_failure_of_the_app(serve, on_error):
    site = serve(limits="1/minute", on_error=on_error, on_breach=lambda decision, asked: 1 // 0)
    assert site.statuses(times=3) == [200, 500, 500]


def own_limiter(name="search", **options):
    return Limiter("1/minute", algorithm="fixed_window", name=name, clock=ManualClock(), **options)


def throttled(own):
    return own.throttle("somebody", timeout=0)(lambda asked: "ok")


def items(field):
    return dict(each.partition(";")[::2] for each in field.split(", "))


@pytest.fixture
def refusing(serve):
    """Return a function that serves a view of which a limiter of its own refuses some requests."""

    def make(view, **options):
        return serve(view, **{"limits": "9/minute", "clock": ManualClock(), "headers": "both", **options})

    return make


@each()
def test_a_refusal_by_a_limiter_of_the_app_is_a_429_with_all_that_one_has(refusing, adapter):
    site = refusing(throttled(own_limiter()))
    assert site.ask().status == 200
    refusal = site.ask()
    assert (refusal.status, refusal.headers["Retry-After"]) == (429, "60")
    assert refusal.headers["Content-Type"] == "application/problem+json"
    assert (refusal.json["status"], refusal.json["title"]) == (429, "Quota Exceeded")
    assert refusal.json["violated-policies"] == ["search"]
    assert "somebody" not in refusal.text
    assert refusal.left == {"search": 0, adapter.one_limit: 7}
    assert items(refusal.headers["RateLimit-Policy"]) == {
        '"search"': "q=1;w=60",
        f'"{adapter.one_limit}"': "q=9;w=60",
    }
    left = {name: refusal.headers[f"X-RateLimit-{name}"] for name in ("Limit", "Remaining", "Reset")}
    assert left == {"Limit": "1", "Remaining": "0", "Reset": "60"}
    page = site.ask("/", ("Accept", "text/html"))
    assert (page.status, page.headers["Content-Type"].partition(";")[0]) == (429, "text/html")
    assert "429 Too Many Requests" in page.text


@each()
@pytest.mark.parametrize("headers", ["draft", None])
def test_so_it_is_where_nothing_else_is_limited(refusing, headers):
    site = refusing(throttled(own_limiter()), exempt=["/"], headers=headers)
    assert site.statuses(times=3) == [200, 429, 429]
    refusal = site.ask()
    assert refusal.json["violated-policies"] == ["search"]
    assert refusal.headers["Retry-After"] == "60"
    assert refusal.headers.get("RateLimit-Policy") == ('"search";q=1;w=60' if headers else None)
    assert refusal.headers.get("RateLimit") == ('"search";r=0;t=60' if headers else None)


@each()
def test_names_that_are_taken_are_numbered_and_limits_without_one_have_their_numbers(refusing, adapter):
    limiters, name = (
        [Limiter("9/minute; 1/hour", algorithm="fixed_window", clock=ManualClock())],
        adapter.one_limit,
    )

    def view(asked):
        decision = limiters[-1].hit("somebody")
        if decision:
            return "ok"
        raise RateLimitExceeded(decision)

    site = refusing(view)
    assert site.ask().left == {name: 8}
    refusal = site.ask()
    assert refusal.json["violated-policies"] == ["1-per-3600s"]
    assert list(refusal.left) == [name, "9-per-60s", "1-per-3600s"]
    limiters.append(own_limiter(name))
    site.ask()
    refusal = site.ask()
    assert refusal.json["violated-policies"] == [f"{name}-2"]
    assert refusal.left == {name: 5, f"{name}-2": 0}


@each()
def test_of_slots_that_are_taken_it_is_no_rate(refusing, adapter):
    slots = Concurrency(1, longest=100, clock=ManualClock())
    taken = [slots.enter("somebody")]

    def view(asked):
        with slots.slot("somebody"):
            return "ok"

    site = refusing(view)
    refusal = site.ask()
    assert (refusal.status, refusal.json["violated-policies"]) == (429, ["1-at-once"])
    assert refusal.json["detail"] == (
        "Too many at once (at most 1): the next one is admitted once one of these is over, at the latest "
        "in 100 seconds."
    )
    policies = items(refusal.headers["RateLimit-Policy"])
    assert policies == {'"1-at-once"': 'q=1;qu="concurrent-requests"', f'"{adapter.one_limit}"': "q=9;w=60"}
    assert items(refusal.headers["RateLimit"])['"1-at-once"'] == "r=0;t=100"
    taken.pop().leave()
    assert site.ask().status == 200


@each()
def test_of_a_store_that_fails_it_is_a_503(refusing):
    own = Limiter("1/minute", name="search", store="redis://localhost:1/0", on_error="deny")
    refusal = refusing(throttled(own)).ask()
    assert (refusal.status, refusal.headers["Retry-After"]) == (503, "1")
    assert refusal.json["title"] == "Service Unavailable"
    assert len(refusal.left) == 1


@each()
def test_whether_the_request_counts_is_asked_with_the_429(refusing):
    options = {"limits": "2/minute", "deduct_when": lambda response, asked: response.status_code != 429}
    site = refusing(throttled(own_limiter()), **options)
    assert site.statuses(times=4) == [200, 429, 429, 429]
    assert site.ask().json["violated-policies"] == ["search"]
