"""What code of an app refuses by limiters of its own: a 429 like any other, whatever the adapter."""

from __future__ import annotations

import json

import pytest

from every_adapter import ADAPTERS, serving
from overlimit import Limiter, ManualClock, RateLimitExceeded
from overlimit.recipes import Concurrency

SEARCH = '"search";q=1;w=60'


@pytest.fixture(params=[(each, path) for each in ADAPTERS for path in ("/", "/async")], ids="".join)
def serve(request):
    """Return a function that serves a view, and a path that leads to it, for each adapter."""
    adapter, path = request.param

    def served(view, *, limits="9/minute", **options):
        given = {"algorithm": "fixed_window", "clock": ManualClock(), "headers": "both", **options}
        if limits is None:
            given["exempt"] = ["/*"]
        return serving(adapter, view, **given, **({} if limits is None else {"limits": limits})), path

    return served


def own_limiter(name="search", **options):
    return Limiter("1/minute", algorithm="fixed_window", name=name, clock=ManualClock(), **options)


def items(field):
    return dict(each.partition(";")[::2] for each in field.split(", "))


def test_a_refusal_by_a_throttle_is_a_429_with_all_that_one_has(serve):
    serving_it, path = serve(own_limiter().throttle("somebody", timeout=0)(lambda: "ok"))
    with serving_it as site:
        assert site.ask(path=path).status == 200
        refusal = site.ask(path=path)
        assert (refusal.status, refusal.headers["Retry-After"]) == (429, "60")
        assert refusal.headers["Content-Type"] == "application/problem+json"
        told = json.loads(refusal.text)
        assert (told["status"], told["title"]) == (429, "Quota Exceeded")
        assert told["violated-policies"] == ["search"]
        assert "somebody" not in refusal.text
        policies, states = (items(refusal.headers[name]) for name in ("RateLimit-Policy", "RateLimit"))
        assert (policies.pop('"search"'), states.pop('"search"')) == ("q=1;w=60", "r=0;t=60")
        assert (list(policies.values()), list(states.values())) == (["q=9;w=60"], ["r=7;t=60"])
        left = {name: refusal.headers[f"X-RateLimit-{name}"] for name in ("Limit", "Remaining", "Reset")}
        assert left == {"Limit": "1", "Remaining": "0", "Reset": "60"}
        page = site.ask(("Accept", "text/html"), path=path)
        assert (page.status, page.headers["Content-Type"].partition(";")[0]) == (429, "text/html")
        assert "429 Too Many Requests" in page.text


@pytest.mark.parametrize("headers", ["draft", None])
def test_where_nothing_else_is_limited_too(serve, headers):
    view = own_limiter().throttle("somebody", timeout=0)(lambda: "ok")
    serving_it, path = serve(view, limits=None, headers=headers)
    with serving_it as site:
        assert site.statuses((), (), (), path=path) == [200, 429, 429]
        refusal = site.ask(path=path)
        assert json.loads(refusal.text)["violated-policies"] == ["search"]
        assert refusal.headers["Retry-After"] == "60"
        assert refusal.headers.get("RateLimit-Policy") == (SEARCH if headers else None)
        assert refusal.headers.get("RateLimit") == ('"search";r=0;t=60' if headers else None)


def test_names_that_are_taken_and_limits_without_one(serve):
    refusing = [Limiter("9/minute; 1/hour", algorithm="fixed_window", clock=ManualClock())]

    def view():
        decision = refusing[-1].hit("somebody")
        if decision:
            return "ok"
        raise RateLimitExceeded(decision)

    serving_it, path = serve(view)
    with serving_it as site:
        (taken,) = items(site.ask(path=path).headers["RateLimit-Policy"])
        refusal = site.ask(path=path)
        assert json.loads(refusal.text)["violated-policies"] == ["1-per-3600s"]
        assert list(items(refusal.headers["RateLimit"])) == [taken, '"9-per-60s"', '"1-per-3600s"']
        refusing.append(own_limiter(taken.strip('"')))
        site.ask(path=path)
        refusal = site.ask(path=path)
        other = f"{taken[1:-1]}-2"
        assert json.loads(refusal.text)["violated-policies"] == [other]
        assert items(refusal.headers["RateLimit"]) == {taken: "r=5;t=60", f'"{other}"': "r=0;t=60"}


def test_of_slots_that_are_taken_it_is_no_rate(serve):
    slots = Concurrency(1, longest=100, clock=ManualClock())
    taken = [slots.enter("somebody")]

    def view():
        with slots.slot("somebody"):
            return "ok"

    serving_it, path = serve(view)
    with serving_it as site:
        refusal = site.ask(path=path)
        told = json.loads(refusal.text)
        assert (refusal.status, told["violated-policies"]) == (429, ["1-at-once"])
        assert told["detail"] == (
            "Too many at once (at most 1): the next one is admitted once one of these is over, at the latest "
            "in 100 seconds."
        )
        policies = items(refusal.headers["RateLimit-Policy"])
        assert policies.pop('"1-at-once"') == 'q=1;qu="concurrent-requests"'
        assert list(policies.values()) == ["q=9;w=60"]
        assert items(refusal.headers["RateLimit"])['"1-at-once"'] == "r=0;t=100"
        taken.pop().leave()
        assert site.ask(path=path).status == 200


def test_of_a_store_that_fails_it_is_a_503(serve):
    own = Limiter("1/minute", name="search", store="redis://localhost:1/0", on_error="deny")
    serving_it, path = serve(own.throttle("somebody", timeout=0)(lambda: "ok"))
    with serving_it as site:
        refusal = site.ask(path=path)
        assert (refusal.status, refusal.headers["Retry-After"]) == (503, "1")
        assert json.loads(refusal.text)["title"] == "Service Unavailable"
        assert len(items(refusal.headers["RateLimit"])) == 1


def test_whether_the_request_counts_is_asked_with_the_429(serve):
    view = own_limiter().throttle("somebody", timeout=0)(lambda: "ok")
    serving_it, path = serve(
        view, limits="2/minute", deduct_when=lambda response, *_: response.status_code != 429
    )
    with serving_it as site:
        assert site.statuses(*[()] * 4, path=path) == [200, 429, 429, 429]
        assert json.loads(site.ask(path=path).text)["violated-policies"] == ["search"]
