"""What requests cost beyond one, statuses that refuse, and turns that come too late, with every library."""

from __future__ import annotations

import gzip
import json
import threading
import time
from types import SimpleNamespace

import pytest

from overlimit import FixedWindow, Limiter, MemoryStore, RateLimitExceeded, SlidingLog
from overlimit.http import total_tokens
from servers.patience import eventually
from servers.scripted_http import Scripted

from .async_arguments import as_async

TOKENS = json.dumps({"usage": {"total_tokens": 30}}).encode()
LATER = {"Retry-After": "0.01"}


@pytest.fixture
def tokens():
    return Limiter("1000/hour")


def spent(limiter, identifier):
    return limiter.limits[0].quota - limiter.peek(identifier, cost=0).remaining


def test_a_request_takes_its_estimate_and_costs_what_it_came_to(client, server, limiter, tokens):
    server.answers = [Scripted(body=TOKENS)]
    budgets = [(tokens, ["all", lambda request: request.method], lambda request: 100, total_tokens)]
    asking = client(limiter, budgets=budgets)
    assert asking.ask("GET", server.url) == (200, TOKENS)
    assert (spent(limiter, server.host), spent(tokens, "all"), spent(tokens, "GET")) == (1, 30, 30)
    assert asking.ask("GET", server.url) == (200, b"ok")
    assert (spent(limiter, server.host), spent(tokens, "all")) == (2, 130), (
        "nothing is said: the estimate stays"
    )


def test_cost_and_settle_are_those_of_the_limiter_itself(client, server, tokens):
    server.answers = [Scripted(body=TOKENS)] * 2
    client(tokens, cost=100).ask("GET", server.url)
    client(tokens, identifiers="settled", settle=total_tokens).ask("GET", server.url)
    client(tokens, identifiers="both", cost=lambda _: 7, settle=lambda _: 0).ask("GET", server.url)
    assert [spent(tokens, name) for name in (server.host, "settled", "both")] == [100, 30, 0]


def test_a_refused_try_costs_one_and_the_next_its_estimate(client, server, limiter, tokens):
    server.answers = [Scripted(429, LATER, TOKENS)] * 2 + [Scripted(body=TOKENS), Scripted(503, {}, TOKENS)]
    asking = client(limiter, cost=20, budgets=[(tokens, "all", 100, total_tokens)])
    assert asking.ask("GET", server.url) == (200, TOKENS)
    assert (spent(limiter, server.host), spent(tokens, "all")) == (22, 32)
    assert asking.ask("GET", server.url) == (503, TOKENS)
    assert (spent(limiter, server.host), spent(tokens, "all")) == (23, 33)


def test_nothing_is_charged_where_one_budget_does_not_admit(client, server, limiter, tokens):
    other = Limiter("50/hour")
    asking = client(limiter, budgets=[(tokens, "all", 30), (other, "all", 30)], turn_within=0)
    asking.ask("GET", server.url)
    with pytest.raises(RateLimitExceeded, match="try again in"):
        asking.ask("GET", server.url)
    assert (spent(limiter, server.host), spent(tokens, "all"), spent(other, "all")) == (1, 30, 30)
    assert len(server.asked) == 1


def test_a_stream_is_settled_when_it_ends_and_when_it_is_closed_early(client, server, tokens):
    seen = []
    asking = client(
        tokens,
        cost=100,
        settle=lambda response: seen.append(response.content) or min(len(response.content), 50),
    )
    may_go_on = threading.Event()
    server.answers = [Scripted(200, {}, b"first", b" and the rest", may_go_on), Scripted(body=b"x" * 100_000)]
    assert asking.stream(server.url, lambda: may_go_on.set() or seen.append(spent(tokens, server.host)))
    eventually(lambda: spent(tokens, server.host) == 18)
    assert seen == [100, b"first and the rest"]
    assert asking.first_part(server.url) == b"xxxxx"
    eventually(lambda: 18 + 5 <= spent(tokens, server.host) <= 18 + 50)
    assert len(seen) == 3
    assert seen[2].startswith(b"xxxxx")


def test_a_compressed_body_is_settled_by_what_it_says(client, server, tokens):
    server.answers = [Scripted(200, {"Content-Encoding": "gzip"}, gzip.compress(TOKENS))]
    assert client(tokens, cost=100, settle=total_tokens).ask("GET", server.url) == (200, TOKENS)
    eventually(lambda: spent(tokens, server.host) == 30)


@pytest.mark.parametrize("settle", [lambda response: response.json()["usage"], lambda _: "5", lambda _: -1])
def test_a_settle_that_fails_is_logged_and_what_was_charged_stays(client, server, tokens, settle, caplog):
    assert client(tokens, cost=100, settle=settle).ask("GET", server.url) == (200, b"ok")
    assert spent(tokens, server.host) == 100
    (record,) = caplog.records
    assert "could not be settled" in record.message


@pytest.mark.parametrize(
    ("statuses", "refuses"),
    [
        ([403, 429, 430, 529], {403: True, 430: True, 529: True, 429: True, 503: False}),
        (lambda response: response.headers.get("X-Refused") == "yes", {400: True, 529: True}),
    ],
    ids=["list", "function"],
)
def test_what_refuses_may_be_said(client, server, limiter, statuses, refuses):
    asking = client(limiter, statuses=statuses, cost=5)
    for status, is_refusal in refuses.items():
        before, server.answers = (
            spent(limiter, server.host),
            [Scripted(status, {**LATER, "X-Refused": "yes"})],
        )
        assert asking.ask("GET", server.url)[0] == (200 if is_refusal else status)
        assert spent(limiter, server.host) - before == (6 if is_refusal else 5)


def test_a_refusal_of_a_budget_without_a_reset_is_tried_again_after_its_period_or_a_second(
    client, server, limiter
):
    server.answers = [
        Scripted(429, {"X-RateLimit-Remaining-Second": "0"}),
        Scripted(429, {"X-RateLimit-Remaining": "0"}),
    ]
    assert client(limiter).ask("GET", server.url) == (200, b"ok")
    assert all(1 <= gap < 10 for gap in server.gaps())
    assert len(server.asked) == 3


def test_a_turn_that_comes_too_late_is_an_error_at_once_and_nothing_is_charged(client, server):
    limiter = Limiter(FixedWindow(1, per=3600))
    asking = client(limiter, turn_within=2)
    asking.ask("GET", server.url)
    began = time.monotonic()
    with pytest.raises(RateLimitExceeded, match="try again in") as raised:
        asking.ask("GET", server.url)
    assert isinstance(raised.value, asking.errors)
    assert time.monotonic() - began < 2
    assert (len(server.asked), spent(limiter, server.host)) == (1, 1)


def test_a_turn_in_time_is_waited_for(client, server):
    asking = client(Limiter(SlidingLog(1, 0.2)), turn_within=30)
    began = time.monotonic()
    assert [asking.ask("GET", server.url)[0] for _ in range(2)] == [200, 200]
    assert server.asked[1].at - began >= 0.2


def test_a_host_that_is_held_back_for_too_long_is_an_error_at_once(client, server, limiter):
    server.answers = [Scripted(429, {"Retry-After": "40"})]
    asking = client(limiter, turn_within=2, retries=0)
    assert asking.ask("GET", server.url)[0] == 429
    began = time.monotonic()
    with pytest.raises(RateLimitExceeded, match="try again in") as raised:
        asking.ask("GET", server.url)
    assert 30 < raised.value.decision.retry_after <= 40
    assert time.monotonic() - began < 2
    assert (len(server.asked), spent(limiter, server.host)) == (1, 1)


@pytest.mark.parametrize(
    ("limits", "later"), [("1000/hour", "40"), ("1/hour", "0.01")], ids=["of the host", "of the limiter"]
)
def test_a_refusal_is_returned_where_the_turn_of_the_next_try_comes_too_late(client, server, limits, later):
    server.answers = [Scripted(429, {"Retry-After": later}, b"slow down")]
    limiter = Limiter(FixedWindow(int(limits.partition("/")[0]), per=3600))
    began = time.monotonic()
    assert client(limiter, turn_within=2).ask("GET", server.url) == (429, b"slow down")
    assert time.monotonic() - began < 20
    assert (len(server.asked), spent(limiter, server.host)) == (1, 1)


def test_a_refusal_without_its_body_is_returned_where_that_is_found_out_after_it_was_closed(client, server):
    limiter, later = Limiter(FixedWindow(2, per=3600)), Limiter(FixedWindow(1, per=3600))
    headers = {"Retry-After": "0.01", "Content-Encoding": "gzip"}
    server.answers = [Scripted(429, headers, gzip.compress(b"slow down"))]
    asking = client(limiter, budgets=[(later, "all")], turn_within=2)
    assert asking.ask("GET", server.url) == (429, b"")
    assert (len(server.asked), spent(limiter, server.host), spent(later, "all")) == (1, 1, 1)


def test_numbers_that_a_server_says_are_followed_up_to_those_that_are_written(client, server):
    limiter = Limiter("60/minute")
    asking = client(limiter, learn=True)
    assert asking.throttle.stats() == {"learnt": {}}
    for said, number in ((9, 9), (30, 30), (99, 60)):
        server.answers = [Scripted(200, {"RateLimit-Policy": f'"a";q={said};w=60'})]
        asking.ask("GET", server.url)
        learnt = asking.throttle.stats()["learnt"][server.host]
        assert (learnt["number"], learnt["ceiling"]) == (number, 60)
        assert learnt["why"] == "the server says so"
    assert spent(limiter, server.host) == 3


def test_a_refusal_lowers_the_numbers_where_a_server_says_nothing(client, server, caplog):
    caplog.set_level("INFO", "overlimit")
    server.answers = [Scripted(429), Scripted(429), Scripted(500)]
    asking = client(Limiter("100/hour"), learn=True, cost=1)
    assert [asking.ask("GET", server.url)[0] for _ in range(4)] == [429, 429, 500, 200]
    assert asking.throttle.stats()["learnt"][server.host]["number"] == 49
    said = [record.message for record in caplog.records if "at most" in record.message]
    assert said == [
        f"{server.host}: {number} of 100-per-3600s at most, as a request was refused" for number in (70, 49)
    ]


def test_what_is_wrong_with_budgets_is_said_when_the_client_is_made(client, limiter, tokens):
    for wrong in ([(limiter, "a")], [(tokens, "a"), (tokens, "b")]):
        with pytest.raises(ValueError, match="limiter of its own"):
            client(limiter, budgets=wrong)
    with pytest.raises(TypeError, match="plain function"):
        client(limiter, budgets=[(tokens, "a", as_async)])


def test_budgets_are_on_one_store(client, limiter):
    elsewhere = Limiter("5/hour", store=MemoryStore())
    with pytest.raises(ValueError, match="on the store of the client's limiter"):
        client(limiter, budgets=[(elsewhere, "a")])


def test_a_function_of_the_response_that_fails_leaves_no_connection_behind(client, server, limiter):
    asking = client(limiter, statuses=lambda response: response.headers["X-None"])
    for _ in range(2):  # of one connection
        with pytest.raises(KeyError):
            asking.ask("GET", server.url)


def test_what_a_function_of_the_cost_returns_is_checked_and_nothing_is_sent(client, server, limiter):
    for returned, error in ((None, TypeError), (-1, ValueError), ("5", TypeError)):
        with pytest.raises(error, match="cost"):
            client(limiter, cost=lambda _, given=returned: given).ask("GET", server.url)
    assert server.asked == []


def test_a_response_of_any_library_has_its_tokens_read():
    assert total_tokens(SimpleNamespace(content=TOKENS)) == 30
