"""Requests that cost what they turned out to cost, and penalties, under every adapter."""

from __future__ import annotations

import pytest

from adapters import each
from adapters.site import Reply
from overlimit import Penalty

LIMITS = {"routes": {"/spend": "1000/day"}, "cost": 100, "together": "50/day"}


def spending(asked):
    """Spend as the query says: a list of calls, and whether they wait for the end of the stream."""
    calls = [name.partition("=")[::2] for name in asked.query.get("call", [])]
    spends = tuple((name, *([int(used)] if used else [])) for name, used in calls)
    return Reply(
        status=int(asked.query.get("status", ["200"])[0]), spends=spends, stream="stream" in asked.query
    )


@pytest.fixture
def spend(serve, adapter):
    """Return a function that makes a request with such calls, and one that returns what is left then."""

    def make(**options):
        site = serve({"/spend": spending, "/free": spending}, **{**LIMITS, **options})

        def ask(*calls, path="/spend", user="ann", status=200, stream=False):
            query = [f"call={each}" for each in calls] + [f"status={status}"] + ["stream=1"] * stream
            return site.ask(f"{path}?{'&'.join(query)}", user=user)

        def left(user="ann", **options):
            found = ask(user=user, **options).left
            return found.get("spend"), found.get(adapter.all_limits)

        return ask, left

    return make


def settled(spend, stream):
    ask, left = spend()
    assert ask("settle=437", stream=stream).status == 200
    assert left() == (463, 48)
    ask("settle=30", stream=stream)
    assert left() == (333, 46)
    ask("settle=0", stream=stream)
    assert left() == (233, 44)


def settled_once(spend, stream):
    ask, left = spend()
    ask("settle=437", "settle=5", stream=stream)
    assert left() == (463, 48)
    ask("settle=5", "settle=437", "refund", stream=stream)
    assert left() == (358, 47)


def owed(spend, stream):
    ask, left = spend(identifiers=lambda asked: asked.header("X-User"))
    assert ask("settle=5000", stream=stream).status == 200
    assert ask("settle=0", stream=stream).status == 429
    assert left(user="bob") == (900, 49)


def given_back(spend, stream):
    ask, left = spend()
    for _ in range(60):
        assert ask("refund", "settle=437", stream=stream).status == 200
    assert left() == (900, 49)


CASES = [settled, settled_once, owed, given_back]


@each()
@pytest.mark.every_store
@pytest.mark.parametrize("case", CASES)
def test_a_request_costs_what_its_view_says(spend, case):
    case(spend, stream=False)


@each("stream")
@pytest.mark.parametrize("case", CASES)
def test_a_stream_says_what_it_has_cost_when_it_has_ended(spend, case):
    case(spend, stream=True)


@each("stream")
def test_what_does_not_count_by_the_response_is_not_settled(spend):
    ask, left = spend(deduct_when=lambda response, asked: response.status_code < 500)
    ask("settle=437", status=500)
    assert left() == (900, 48)
    ask("settle=437")
    assert left() == (363, 46)
    ask("settle=63", stream=True)
    assert left() == (200, 44)


@each()
def test_a_wrong_cost_fails_the_request_and_the_estimate_stays(spend):
    ask, left = spend()
    assert ask("settle=-1").status == 500
    assert left() == (800, 48)


@each()
def test_without_a_cost_nothing_can_be_settled_and_all_be_given_back(spend):
    ask, left = spend(cost=None)
    assert ask("settle=5").status == 500
    ask("refund")
    assert left() == (998, 48)


@each("meta")
def test_shared_code_may_settle_in_a_view_without_limits_of_its_own(spend):
    ask, left = spend()
    assert ask("settle=5", path="/free").status == 200
    assert left(path="/free") == (None, 48)


@each()
def test_whoever_goes_over_is_locked_longer_each_time_and_nobody_else(serve, at):
    site = serve(limits="2/minute", penalty=Penalty([100, 1000]))
    assert site.statuses(times=3) == [200, 200, 429]
    assert site.ask().headers["Retry-After"] == "100"
    assert site.ask(peer="192.0.2.2").status == 200
    at(99)
    assert site.ask().headers["Retry-After"] == "1"
    at(100)
    assert site.statuses(times=3) == [200, 200, 429]
    assert site.ask().headers["Retry-After"] == "1000"
    at(1099)
    assert site.statuses() == [429]
    at(1100)
    assert site.statuses() == [200]


@each()
def test_a_request_that_is_not_limited_may_be_settled_and_given_back(serve):
    site = serve(lambda asked: Reply(spends=(("settle", 5), ("refund",))), limits="1/minute", exempt=["/"])
    assert site.statuses(times=2) == [200, 200]
