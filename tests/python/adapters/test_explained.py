"""What the body of a refusal says of it: the type of the problem, and a URN for whoever is asked about it."""

from __future__ import annotations

import pytest

from adapters import each
from overlimit import Penalty, TokenBucket
from overlimit.decision_urns import read_urn

PROBLEMS = "https://iana.org/assignments/http-problem-types"


@each()
def test_a_refusal_has_a_urn_that_says_what_was_decided_and_names_nobody(serve, adapter, clock):
    site = serve(limits="5/minute")
    answers = [site.ask(user="ann") for _ in range(6)]
    told = answers[-1].json
    assert [answer.status for answer in answers] == [200] * 5 + [429]
    assert len(told["instance"]) < 60
    assert not any(who in told["instance"] for who in ("192.0.2.1", "ann"))
    refusal = read_urn(told["instance"])
    assert (refusal.quota, refusal.window, refusal.remaining, refusal.retry_after) == (5, 60, 0, 60)
    assert (refusal.time, refusal.status, refusal.source) == (int(clock.now()), "over", "store")
    assert told["violated-policies"] == [adapter.one_limit]
    assert refusal.name == adapter.one_limit[: len(refusal.name)].lower() != ""
    page = site.ask("/", ("Accept", "text/html"), user="ann").text
    assert told["instance"] in page


@each()
def test_explain_false_leaves_it_out(serve):
    site = serve(limits="0/minute; 1/hour", explain=False)
    assert "instance" not in site.ask().json
    assert "urn:overlimit" not in site.ask("/", ("Accept", "text/html")).text


@each()
def test_who_is_locked_is_told_of_abnormal_usage_and_others_of_their_quota(serve):
    site = serve(limits="1/minute", penalty=Penalty(3600))
    answers = [site.ask() for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 429, 429]
    first, locked = (answer.json for answer in answers[1:])
    assert (first["type"], first["title"]) == (f"{PROBLEMS}#quota-exceeded", "Quota Exceeded")
    assert locked["type"] == f"{PROBLEMS}#abnormal-usage-detected"
    assert locked["title"] == "Abnormal Usage Detected"
    assert read_urn(locked["instance"]).status == "locked"


@each()
@pytest.mark.parametrize("quota", [10, 7])
def test_the_fields_of_a_bucket_promise_no_more_than_its_rate(serve, clock, quota):
    site = serve(limits=[TokenBucket(quota, per=60)], headers="both")
    for asked in range(1, quota + 2):
        answer = site.ask()
        (state,) = (item.partition(";")[2] for item in answer.headers["RateLimit"].split(", "))
        left, seconds = (int(part.partition("=")[2]) for part in state.split(";"))
        assert left == max(0, quota - asked)
        until_full = -(-60 * min(asked, quota) // quota) if asked <= quota else -(-60 // quota)
        assert seconds == max(until_full, -(-left * 60 // quota))
        reset = int(answer.headers["X-RateLimit-Reset"]) - int(clock.now())
        assert seconds <= reset <= seconds + 1


@each()
def test_the_fields_of_a_window_say_when_it_ends(serve, clock):
    site = serve(limits="9/minute")
    (first,) = site.ask().headers["RateLimit"].split(", ")
    clock.advance(int(first.rpartition("=")[2]) - 1)
    assert site.ask().headers["RateLimit"].endswith(";r=7;t=1")
