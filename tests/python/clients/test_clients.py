"""Clients of every library wait for their turn before each try, and for what the server says after it."""

from __future__ import annotations

import io
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from overlimit import Limiter, RateLimitExceeded, SlidingLog, StoreError
from servers.ports import free_port
from servers.scripted_http import Scripted

from .async_arguments import as_async

MOMENT = 0.15
LATER = {"Retry-After": str(MOMENT)}


def spent(limiter, identifier):
    return limiter.limits[0].quota - limiter.peek(identifier, cost=0).remaining


def test_each_request_waits_for_its_turn_and_spends_it(client, server):
    limiter = Limiter(SlidingLog(2, 0.3))
    asking = client(limiter)
    began = time.monotonic()
    assert [asking.ask("GET", server.url) for _ in range(5)] == [(200, b"ok")] * 5
    assert server.asked[2].at - began >= 0.3
    assert server.asked[4].at - began >= 0.6
    assert [each.method for each in server.asked] == ["GET"] * 5


def test_whoever_is_named_is_limited(client, server, limiter):
    client(limiter).ask("GET", server.url)
    client(limiter, identifiers="all").ask("GET", server.url)
    client(limiter, identifiers=["all", lambda request: f"{request.method} {str(request.url)[-2:]}"]).ask(
        "DELETE", f"{server.url}x"
    )
    client(limiter, identifiers=lambda request: [b"all", "more", "more"]).ask("GET", server.url)
    names = (server.host, "all", "DELETE /x", "more")
    assert [spent(limiter, name) for name in names] == [1, 3, 1, 1]
    assert len(server.asked) == 4


@pytest.mark.parametrize(
    ("status", "fields"),
    [
        (429, LATER),
        (503, LATER),
        (429, {"RateLimit": f'"day";r=9;t=9, "minute";r=0;t={MOMENT}'}),
        (429, {"RateLimit-Remaining": "0", "RateLimit-Reset": str(MOMENT)}),
        (503, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(MOMENT)}),
        (503, {**LATER, "RateLimit": '"minute";r=0;t=999'}),
    ],
    ids=range(6),
)
def test_a_refusal_is_tried_again_after_the_time_it_names(client, server, limiter, status, fields):
    server.answers = [Scripted(status, fields, b"no"), Scripted(body=b"yes")]
    assert client(limiter).ask("GET", server.url) == (200, b"yes")
    assert len(server.asked) == 2
    assert server.gaps()[0] >= MOMENT
    assert spent(limiter, server.host) == 2


@pytest.mark.parametrize(
    "answer",
    [
        Scripted(429),
        Scripted(503, {"Content-Type": "text/plain"}),
        Scripted(429, {"Retry-After": "soon"}),
        Scripted(503, {"Retry-After": "9" * 400}),
        Scripted(429, {"RateLimit": '"minute";r=3;t=0.1'}),
        Scripted(500, LATER),
        Scripted(404, LATER),
        Scripted(202, LATER),
    ],
    ids=range(8),
)
def test_what_names_no_time_and_what_is_no_refusal_is_returned_and_holds_nobody_back(
    client, server, limiter, answer
):
    server.answers = [answer]
    asking = client(limiter, max_wait=60)
    assert [asking.ask("GET", server.url) for _ in range(2)] == [(answer.status, b"ok"), (200, b"ok")]
    assert len(server.asked) == spent(limiter, server.host) == 2


@pytest.mark.parametrize(
    "answer",
    [
        Scripted(429, {"Retry-After": "0.31"}),
        Scripted(503, {"Retry-After": "9" * 25}),
        Scripted(429, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "9999999999"}),
        Scripted(200, {"RateLimit": '"day";r=0;t=61'}),
    ],
    ids=range(4),
)
def test_what_names_too_long_a_time_is_returned_and_holds_the_next_ones_back_for_the_longest(
    client, server, limiter, answer
):
    server.answers = [answer]
    asking = client(limiter, max_wait=0.3)
    assert [asking.ask("GET", server.url) for _ in range(2)] == [(answer.status, b"ok"), (200, b"ok")]
    assert len(server.asked) == spent(limiter, server.host) == 2
    assert 0.3 <= server.gaps()[0] < 30


def test_the_longest_time_is_waited_for(client, server, limiter):
    server.answers = [Scripted(429, {"Retry-After": "0.3"})]
    assert client(limiter, max_wait=0.3).ask("GET", server.url) == (200, b"ok")
    assert server.gaps()[0] >= 0.3


@pytest.mark.parametrize(
    ("options", "tries"), [({}, 4), ({"retries": 0}, 1), ({"retries": 2}, 3)], ids=range(3)
)
def test_after_the_last_try_its_response_is_returned(client, server, limiter, options, tries):
    server.answers = [Scripted(429, {"Retry-After": "0.01"}, str(number).encode()) for number in range(9)]
    assert client(limiter, **options).ask("GET", server.url) == (429, str(tries - 1).encode())
    assert len(server.asked) == spent(limiter, server.host) == tries


@pytest.mark.parametrize(
    ("method", "options", "tries"),
    [
        ("GET", {}, 2),
        ("PUT", {}, 2),
        ("DELETE", {}, 2),
        ("POST", {}, 1),
        ("POST", {"methods": ["post"]}, 2),
        ("GET", {"methods": {"POST"}}, 1),
    ],
)
def test_idempotent_methods_are_tried_again_unless_others_are_named(
    client, server, limiter, method, options, tries
):
    server.answers = [Scripted(429, {"Retry-After": "0.01"})]
    status, _ = client(limiter, **options).ask(method, server.url)
    assert (status, len(server.asked)) == ((200, 2) if tries == 2 else (429, 1))


def test_a_body_in_memory_is_sent_again_whole(client, server, limiter):
    server.answers = [Scripted(429, {"Retry-After": "0.01"})] * 2
    body = bytes(range(256)) * 400
    assert client(limiter).ask("PUT", server.url, body)[0] == 200
    assert [each.body for each in server.asked] == [body] * 3


@pytest.mark.parametrize(
    "make", [lambda: iter([b"ab", b"cd"]), lambda: io.BytesIO(b"abcd")], ids=["parts", "file"]
)
def test_a_body_that_cannot_be_read_again_is_never_sent_twice(client, server, limiter, make, request):
    if "async" in request.node.name and "file" in request.node.name:
        make = lambda: iter([b"abcd"])  # noqa: E731  # an AsyncClient takes no files
    server.answers = [Scripted(429, LATER, b"no")]
    assert client(limiter).ask("PUT", server.url, make()) == (429, b"no")
    assert [each.body for each in server.asked] == [b"abcd"]


@pytest.mark.parametrize(
    "fields",
    [
        {"RateLimit": f'"day";r=9;t=9, "minute";r=0;t={MOMENT}'},
        {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(MOMENT)},
    ],
    ids=range(2),
)
def test_a_host_that_has_nothing_left_is_held_back_until_it_has(client, server, limiter, fields):
    server.answers = [Scripted(201, fields)]
    asking = client(limiter)
    assert [asking.ask("POST", server.url)[0] for _ in range(3)] == [201, 200, 200]
    assert server.gaps()[0] >= MOMENT
    assert spent(limiter, server.host) == 3


def test_nobody_else_is_held_back_nor_by_what_is_left(client, server, other_server, limiter):
    server.answers = [
        Scripted(200, {"RateLimit": '"minute";r=1;t=30'}),
        Scripted(404, {"RateLimit": '"minute";r=0;t=30'}),
        Scripted(200, {"Retry-After": "30"}),
        Scripted(200, {"RateLimit": '"minute";r=0;t=30'}),
    ]
    asking = client(limiter)
    began = time.monotonic()
    assert [asking.ask("GET", server.url)[0] for _ in range(4)] == [200, 404, 200, 200]
    assert asking.ask("GET", other_server.url)[0] == 200
    assert time.monotonic() - began < 25


@pytest.mark.parametrize("status", [429, 503])
def test_a_refusal_holds_back_the_other_requests_to_its_host(client, server, limiter, status):
    server.answers = [Scripted(status, {"Retry-After": "0.3"}, b"no")]
    asking = client(limiter, retries=0)
    began = time.monotonic()
    assert [asking.ask("GET", server.url) for _ in range(2)] == [(status, b"no"), (200, b"ok")]
    assert server.gaps()[0] >= 0.3
    assert time.monotonic() - began < 15


def test_each_hop_of_a_redirect_waits_for_its_own_turn(client, server, other_server, limiter):
    server.answers = [Scripted(307, {"Location": other_server.url})]
    other_server.answers = [Scripted(429, LATER)]
    assert client(limiter).ask("GET", server.url) == (200, b"ok")
    assert (spent(limiter, server.host), spent(limiter, other_server.host)) == (1, 2)


def test_a_response_that_is_thrown_away_gives_its_connection_free(client, server, limiter):
    """These clients have one connection at a time, and wait for it until their timeout."""
    server.answers = [Scripted(429, {"Retry-After": "0.01"}, b"x" * 1_000_000)] * 3
    assert client(limiter, timeout=3).ask("GET", server.url) == (200, b"ok")
    assert len(server.asked) == 4


def test_a_refusal_whose_body_never_ends_is_not_read(client, server, limiter):
    never = threading.Event()
    server.answers = [Scripted(429, {"Retry-After": "0.01"}, b"x", b"the rest, some day", never)]
    try:
        assert client(limiter, timeout=3).ask("GET", server.url) == (200, b"ok")
    finally:
        never.set()
    assert len(server.asked) == 2
    assert server.gaps()[0] < 3.0


def test_a_host_that_had_nothing_left_is_asked_no_faster_than_the_limit_afterwards(client, server):
    server.answers = [Scripted(200, {"RateLimit": '"minute";r=0;t=0.3'})]
    asking = client(Limiter(SlidingLog(2, 0.4)))
    at_once = 1 if asking.is_async else 6
    asking.ask("GET", server.url)
    with ThreadPoolExecutor(at_once) as pool:
        assert list(pool.map(lambda _: asking.ask("GET", server.url), range(6))) == [(200, b"ok")] * 6
    assert server.gaps()[0] >= 0.3
    assert server.asked[6].at - server.asked[1].at >= 0.6, "0.8 but for what comes late"


def test_a_response_is_streamed(client, server, limiter):
    may_go_on = threading.Event()
    server.answers = [
        Scripted(429, {"Retry-After": "0.01"}),
        Scripted(200, {}, b"first", b" and the rest", may_go_on),
    ]
    assert client(limiter).stream(server.url, may_go_on.set) == [b"first", b" and the rest"]


def test_timeouts_of_the_client_do_not_include_waiting(client, server):
    server.answers = [Scripted(429, {"Retry-After": "1.2"})]
    assert client(Limiter(SlidingLog(1, 1.2)), timeout=1.0).ask("GET", server.url) == (200, b"ok")
    assert server.gaps()[0] >= 1.2


def test_what_fails_in_the_library_passes_and_spends_a_turn(client, limiter):
    host = f"127.0.0.1:{free_port()}"
    asking = client(limiter)
    with pytest.raises(asking.errors):
        asking.ask("GET", f"http://{host}/")
    assert spent(limiter, host) == 1


def test_what_can_never_pass_is_an_error_of_the_library_too_and_nothing_is_sent(client, server):
    asking = client(Limiter("5/hour"), cost=9)
    with pytest.raises(RateLimitExceeded, match="never") as raised:
        asking.ask("GET", server.url)
    assert isinstance(raised.value, asking.errors)
    assert raised.value.decision.status == "never"
    assert server.asked == []


def test_a_store_that_fails_is_an_error_and_nothing_is_sent(client, server):
    limiter = Limiter("5/hour", name="p", store=f"redis://127.0.0.1:{free_port()}/0?timeout=0.2")
    with pytest.raises(StoreError):
        client(limiter).ask("GET", server.url)
    assert server.asked == []


def test_what_a_function_returns_is_checked_and_nothing_is_sent(client, server, limiter):
    for returned, error in ((None, TypeError), ("", ValueError), ([], ValueError)):
        with pytest.raises(error, match="identifier"):
            client(limiter, identifiers=lambda _, given=returned: given).ask("GET", server.url)
    assert server.asked == []


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"retries": -1}, ValueError, "retries"),
        ({"retries": 1.5}, TypeError, "retries"),
        ({"methods": "POST"}, TypeError, "list of HTTP methods"),
        ({"methods": []}, TypeError, "list of HTTP methods"),
        ({"max_wait": -1}, ValueError, "max_wait"),
        ({"max_wait": float("nan")}, ValueError, "max_wait"),
        ({"max_wait": "5"}, TypeError, "max_wait"),
        ({"identifiers": []}, ValueError, "identifiers"),
        ({"identifiers": ""}, ValueError, "identifier"),
        ({"identifiers": ["a", 5]}, TypeError, "identifiers must be text, a function"),
        ({"retrys": 5}, TypeError, "did you mean 'retries'"),
        ({"statuses": 429}, TypeError, "statuses must be a list"),
        ({"statuses": [200]}, ValueError, "from 400 to 599"),
        ({"turn_within": -1}, ValueError, "timeout"),
        ({"cost": -1}, ValueError, "cost"),
        ({"cost": "5"}, TypeError, "cost"),
        ({"settle": 5}, TypeError, "settle must be a function"),
        ({"settle": as_async}, TypeError, "async generator"),
        ({"budgets": [(Limiter("5/hour"),)]}, TypeError, "budgets must be a list of tuples"),
        ({"budgets": [(Limiter("5/hour"), 5)]}, TypeError, "identifier of a budget"),
        ({"budgets": [(Limiter("5/hour"), "a", 1, "b")]}, TypeError, "settle of a budget"),
        ({"learn": 1}, TypeError, "learn must be True or False"),
    ],
    ids=range(22),
)
def test_a_wrong_option_is_an_error_when_the_client_is_made(client, limiter, options, error, said):
    with pytest.raises(error, match=said):
        client(limiter, **options)


def test_several_threads_share_the_turns_of_one_client(client, server):
    asking = client(Limiter(SlidingLog(3, 0.2)))
    at_once = 1 if asking.is_async else 3
    began = time.monotonic()
    with ThreadPoolExecutor(at_once) as pool:
        answers = list(pool.map(lambda _: asking.ask("GET", server.url), range(9)))
    assert answers == [(200, b"ok")] * 9
    assert len(server.asked) == 9
    assert max(each.at for each in server.asked) - began >= 0.4
