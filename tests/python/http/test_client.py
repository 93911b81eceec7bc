"""Waiting of clients, without a library or a network: whose turn, which host, in what order."""

from __future__ import annotations

import math
import pickle
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from overlimit import Limiter, RateLimitExceeded
from overlimit._steps import run_calls
from overlimit.http.client import IN_THREADS, Exchange, Turns
from overlimit.http.client_options import host_of
from overlimit.http.held_back import HeldBack


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://Example.com/x?y", "example.com"),
        ("https://example.com:443/", "example.com"),
        ("http://example.com:443/", "example.com:443"),
        ("https://user:secret@example.com:8443/", "example.com:8443"),
        ("http://[::1]:80/", "[::1]"),
        ("http://[::1]:8080/", "[::1]:8080"),
    ],
)
def test_a_host_has_its_port_unless_that_is_the_usual_one_and_no_secrets(url, host):
    assert host_of(SimpleNamespace(url=url, method="GET")) == host


@pytest.fixture
def limiter():
    return Limiter("5/hour")


@pytest.fixture
def exchange(limiter):
    def unexpected(*_):
        raise AssertionError

    return Exchange(
        SimpleNamespace(url="http://a/", method="GET"),
        can_repeat=True,
        send=unexpected,
        close=unexpected,
        record=unexpected,
        waiting=IN_THREADS,
        error=RateLimitExceeded,
    )


def answer(**headers):
    return SimpleNamespace(status_code=200, headers=headers)


@pytest.fixture
def turns(limiter):
    return Turns("a test", limiter, lambda given: given)


def test_a_turn_that_comes_while_the_host_is_held_back_is_given_back(exchange, turns, limiter):
    before, after = turns.sending(exchange), turns.sending(exchange)
    acquire_before, acquire_after = before.send(None), after.send(None)
    assert after.send(acquire_after()) is exchange.send
    with pytest.raises(StopIteration):
        after.send(answer(RateLimit='"a";r=0;t=30'))
    turn = acquire_before()
    assert limiter.peek("a", cost=0).remaining == 3
    give_back = before.send(turn)
    give_back()
    assert limiter.peek("a", cost=0).remaining == 4
    sleep = before.send(None)
    assert sleep.func is IN_THREADS.sleep
    assert 29 < sleep.args[0] <= 30


def test_a_refusal_that_asks_for_too_long_holds_all_processes_back_for_the_longest_wait(
    exchange, shared_memory_store
):
    limiter = Limiter("5/hour", name="api", store=shared_memory_store)
    turns = Turns("a test", limiter, lambda given: given, learn=True, max_wait=30)
    refusal = SimpleNamespace(status_code=429, headers={"Retry-After": "600"})
    assert run_calls(turns.sending(replace(exchange, send=lambda: refusal))) is refusal
    assert 29 < turns._learning.refusals.peek("a", cost=0).retry_after <= 30
    assert 29 < turns._holds.seconds_left("a") <= 30


def test_a_host_is_held_back_until_the_latest_time_that_was_told():
    held = HeldBack()
    held.hold("a", 30)
    held.hold("a", 10)
    held.hold("b", 0)
    assert 29 < held.seconds_left("a") <= 30
    assert held.seconds_left("b") == held.seconds_left("c") == 0
    held.hold("a", 40)
    assert 39 < held.seconds_left("a") <= 40
    assert pickle.loads(pickle.dumps(held)).seconds_left("a") == 0


def test_so_many_hosts_are_remembered_and_those_with_the_longest_to_wait():
    held = HeldBack(most=3)
    for number, seconds in enumerate([50, 0, 40, 60, 30, 70]):
        held.hold(str(number), seconds)
        assert len(held) <= 3
    left = [math.ceil(held.seconds_left(str(number))) for number in range(6)]
    assert left == [50, 0, 0, 60, 0, 70]


def test_a_host_that_does_not_say_for_how_long_is_held_back_a_second_doubled_up_to_a_minute():
    held = HeldBack()
    guesses = []
    for _ in range(8):
        guesses.append(held.guess("a"))
        held.hold("a", 0.0, guesses[-1])
    assert guesses == [1, 2, 4, 8, 16, 32, 60, 60]
    held.hold("a", 0.001)
    assert held.guess("a") == held.guess("b") == 1


@pytest.mark.parametrize("fields", [{}, {"RateLimit": '"a";r=9;t=9'}], ids=["says nothing", "some left"])
def test_a_host_that_takes_requests_again_is_held_back_for_a_second_at_the_next_refusal(
    exchange, turns, fields
):
    turns._holds.hold("a", 0.0, 4.0)
    turns._holds._hosts["a"].careful_until += 60
    asking = turns.sending(exchange)
    assert asking.send(asking.send(None)()) is exchange.send
    with pytest.raises(StopIteration):
        asking.send(answer(**fields))
    assert turns._holds.guess("a") == 1


def test_refusals_of_requests_that_were_under_way_are_one():
    held = HeldBack()
    for _ in range(8):
        held.hold("a", 60, held.guess("a"))
    assert held.guess("a") == 1


def test_a_time_that_is_over_holds_nobody_back():
    held = HeldBack()
    held.hold("a", 0.01)
    time.sleep(0.011)
    assert held.seconds_left("a") == 0


def test_after_the_time_of_a_host_one_request_asks_it_at_a_time_or_as_many_as_it_has_left():
    held = HeldBack()
    held.hold("a", 0.5)
    assert 0 < held.begin("a", "early") <= 0.5
    time.sleep(0.501)
    assert held.begin("a", "first") == held.begin("b", "other host") == 0
    assert 0 < held.begin("a", "second") <= 0.05
    held.end("a", "first")
    assert held.begin("a", "second") == 0
    held.allow("a", 3)
    assert [held.begin("a", number) > 0 for number in range(4)] == [False, False, True, True]
    time.sleep(0.5)
    assert [held.begin("a", number) for number in range(4)] == [0] * 4


def test_a_request_that_fails_while_a_host_is_asked_with_care_lets_the_next_one_begin(exchange, turns):
    turns._holds.hold("a", 0.5)
    time.sleep(0.501)
    failing, next_one = turns.sending(exchange), turns.sending(replace(exchange))
    assert failing.send(failing.send(None)()) is exchange.send
    assert next_one.send(None).func is IN_THREADS.sleep
    with pytest.raises(OSError, match="gone"):
        failing.throw(OSError("gone"))
    assert next_one.send(None).func == IN_THREADS.acquire
