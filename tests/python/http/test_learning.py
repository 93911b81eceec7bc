"""What is learnt of a server: never above what was written, and together with other processes."""

from __future__ import annotations

import pickle
import time
from itertools import pairwise

import pytest

from overlimit import LeakyBucket, Limiter, SlidingWindow, TokenBucket, acquire_all
from overlimit.http.fields import ServerLimit, parse
from overlimit.http.learning import Learning


def learning(limits="100/hour", **options):
    return Learning(Limiter(limits, **options), of_tokens=False)


def begun(learnt, host="a"):
    """Return how many refusals a request knows of that begins now."""
    own = learnt.limiter_of(host)
    return learnt.begin(host, acquire_all([(own, host, 1), (learnt.refusals, host, 0)], timeout=0))


def refuse(learnt, seen, host="a"):
    if learnt.refused(host, seen):
        learnt.refusals.charge(host)


def number(learnt, host="a"):
    return learnt.stats()[host]["number"]


def told(quota, window=None, name=None, remaining=None, reset_after=None):
    return ServerLimit(name, quota, window, remaining, reset_after, unit=name)


def said(headers, now=1_700_000_000.0):
    return parse(headers, now=now).limits


def test_a_refusal_takes_three_tenths_and_those_under_way_are_part_of_it():
    learnt = learning()
    under_way = [begun(learnt) for _ in range(5)]
    for seen in under_way:
        refuse(learnt, seen)
    assert number(learnt) == 70
    refuse(learnt, begun(learnt))
    assert number(learnt) == 49
    assert learnt.limiter_of("a").limits[0].quota == 49
    begun(learnt, "b")
    assert number(learnt, "b") == 100, "another host"


def test_there_is_a_floor():
    for limits, floor in (("100/hour", 5), ("10/hour", 1), ("1/hour", 1)):
        learnt = learning(limits)
        for _ in range(20):
            refuse(learnt, learnt.begin("a", learnt.refusals.peek("a", cost=0)))
        assert learnt.stats()["a"]["number"] == floor


def test_a_period_without_refusals_that_was_used_adds_a_step_up_to_the_ceiling():
    learnt = learning(SlidingWindow(20, per=0.05))
    for _ in range(4):
        refuse(learnt, begun(learnt))
    assert number(learnt) == 4
    began, numbers = time.monotonic(), []
    while number(learnt) < 20:
        assert time.monotonic() - began < 30
        acquire_all([(learnt.limiter_of("a"), "a", 1)], timeout=None)
        begun(learnt)
        learnt.passed("a")
        numbers.append(number(learnt))
    assert time.monotonic() - began >= 15 * 0.05
    assert max(later - earlier for earlier, later in pairwise(numbers)) == 1


def test_what_is_hardly_used_does_not_grow():
    learnt = learning(SlidingWindow(20, per=0.01))
    refuse(learnt, begun(learnt))
    for _ in range(3):
        time.sleep(0.02)
        begun(learnt)
        learnt.passed("a")
    assert number(learnt) == 14


def test_processes_that_share_a_store_decrease_together_and_once(shared_memory_store):
    first, second, third = (learning(name="api", store=shared_memory_store) for _ in range(3))
    seen = [begun(each) for each in (first, second, third)]
    refuse(first, seen[0])
    assert begun(second) == seen[1] + 1
    second.refused("a", seen[1])
    for each in (first, second, third):
        begun(each)
    assert [number(each) for each in (first, second, third)] == [70, 70, 70]
    assert third.stats()["a"]["why"] == "a request of another process was refused"


def test_who_waits_with_the_others_counts_one_refusal_once(shared_memory_store):
    first, second = (learning(name="api", store=shared_memory_store) for _ in range(2))
    seen = [begun(each) for each in (first, second)]
    refuse(first, seen[0])
    first.refusals.lock("a", 60)
    assert [begun(each) for each in (first, second)] == [1, 0]
    first.refusals.unlock("a")
    assert [begun(each) for each in (first, second)] == [1, 1]
    assert [number(each) for each in (first, second)] == [70, 70]


@pytest.mark.parametrize(
    ("limits", "said", "quotas"),
    [
        ("60/minute", [told(50)], [50]),
        ("60/minute", [told(50, 60.0), told(5, 1.0)], [50]),
        ("60/minute", [told(5000, 3600.0)], [60]),
        ("60/minute", [told(50), told(40)], [40]),
        ("60/minute", [told(0)], [60]),
        ("60/minute", [told(50, name="requests"), told(40, name="tokens")], [50]),
        ("10/second; 60/minute", [told(50, 60.4)], [10, 50]),
        ("10/second; 60/minute", [told(5)], [10, 60]),
        ("60/minute", [told(50, reset_after=3000.0)], [60]),
        (TokenBucket(10, per=60, burst=50), [told(8, 60.0)], [40]),
        (TokenBucket(10, per=60, burst=50), [told(50, 60.0)], [50]),
        (LeakyBucket(10, per=60, capacity=20), [told(5, 60.0)], [15]),
        ("60/minute", [told(50, reset_after=60.0)], [50]),
        ("60/minute", [told(50, 60.0, "content-bytes"), told(40, 60.0, "concurrent-requests")], [60]),
        ("60/minute", said({"x-ratelimit-limit-requests-per-day": "50"}), [60]),
        ("60/minute; 900/day", said({"x-ratelimit-limit-requests-per-day": "50"}), [60, 50]),
        ("60/minute", said({"x-ratelimit-limit-tokens-minute": "50"}), [60]),
        (
            "60/minute",
            said({"RateLimit-Policy": '"a";q=9;w=60;qu="content-bytes", "b";q=50;w=60;qu="requests"'}),
            [50],
        ),
        (
            "600/hour",
            said({"X-RateLimit-Limit-Minute": "50", "RateLimit-Limit": "50", "RateLimit-Reset": "9"}),
            [600],
        ),
        (
            "60/minute; 600/hour",
            said(
                {"X-RateLimit-Limit-Minute": "50", "X-RateLimit-Limit-Hour": "500", "RateLimit-Limit": "50"}
            ),
            [50, 500],
        ),
    ],
    ids=range(20),
)
def test_what_a_server_says_of_the_same_period_is_the_number(limits, said, quotas):
    learnt = learning(limits)
    begun(learnt)
    learnt.follow("a", said)
    assert [limit.quota for limit in learnt.limiter_of("a").limits] == quotas


def test_a_refusal_that_says_that_a_quota_is_used_up_is_not_guessed_at():
    learnt = learning()
    learnt.follow("a", [told(90)])
    for used_up in (told(90), told(None, remaining=0), told(90, remaining=0), told(None, 60.0, "tokens", 0)):
        assert not learnt.refused("a", begun(learnt), [used_up])
    assert number(learnt) == 90


@pytest.mark.parametrize("bare", [[], [told(90, remaining=40)]], ids=["no fields", "there is some left"])
def test_a_refusal_that_the_server_does_not_explain_counts_below_what_it_has_said(bare):
    learnt = learning("100/hour; 1000/day")
    learnt.follow("a", [told(90, 3600.0)])
    assert learnt.refused("a", begun(learnt), bare)
    assert [limit.quota for limit in learnt.limiter_of("a").limits] == [63, 700]
    learnt.follow("a", [told(90, 3600.0)])
    assert number(learnt) == 63, "what it says is the most"
    learnt.follow("a", [told(50, 3600.0)])
    assert number(learnt) == 50


def test_a_refusal_counts_for_a_limit_of_which_the_server_says_nothing():
    learnt = learning("200/second; 1000/hour")
    learnt.follow("a", [told(100, 3600.0)])
    refuse(learnt, begun(learnt))
    assert [limit.quota for limit in learnt.limiter_of("a").limits] == [140, 70]


def test_what_a_server_has_said_is_the_most_until_it_is_old(monkeypatch):
    learnt, began, late = learning(SlidingWindow(20, per=20)), time.monotonic(), [0.0]
    monkeypatch.setattr("overlimit.http.learning.time.monotonic", lambda: began + late[0])
    learnt.follow("a", [told(10)])
    numbers = []
    for late[0] in (11, 19.9, 31, 42, 53):
        learnt.limiter_of("a").reset("a")
        learnt.limiter_of("a").hit("a", cost=number(learnt))
        learnt.begin(
            "a", acquire_all([(learnt.limiter_of("a"), "a", 0), (learnt.refusals, "a", 0)], timeout=0)
        )
        learnt.passed("a")
        numbers.append(number(learnt))
    assert numbers == [10, 10, 11, 12, 13]
    refuse(learnt, learnt.begin("a", learnt.refusals.peek("a", cost=0)))
    learnt.follow("a", [told(10)])
    assert number(learnt) == 9


def test_limits_of_tokens_are_those_of_a_client_that_spends_tokens():
    learnt = Learning(Limiter("1000/minute"), of_tokens=True)
    learnt.follow("a", [told(50, name="requests"), told(400, name="tokens"), told(600, name="tokens")])
    assert number(learnt) == 400


def test_a_copy_learns_anew_and_hosts_beyond_a_thousand_are_forgotten():
    learnt = learning(name="copied")
    refuse(learnt, begun(learnt))
    assert pickle.loads(pickle.dumps(learnt)).stats() == {}
    for host in range(1100):
        learnt.limiter_of(str(host))
    assert len(learnt.stats()) <= 1024
