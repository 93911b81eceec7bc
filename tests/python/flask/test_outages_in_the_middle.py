"""The store stops between two steps of a request: what the client sees, and what is counted afterwards
(docs/reference/web.md, when the store fails)."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from flask import Flask, request

from overlimit import Limiter, ManualClock, RedisStore
from overlimit.errors import StoreError
from overlimit.flask import RateLimit
from servers.patience import eventually
from servers.redis_server import RedisServer

DEADLINE = 0.5
"""Seconds of a call, much more than a healthy server takes on a busy machine."""

ME = "ip:127.0.0.1"


def is_answered(limiter: Limiter) -> bool:
    """Tell whether the store answers, and charge nothing."""
    try:
        limiter.peek(ME)
    except StoreError:
        return False
    return True


@dataclass(frozen=True)
class Fault:
    """One way to stop a server, and to bring it back."""

    stop: Callable[[RedisServer], object]
    start: Callable[[RedisServer], object]
    forgets: bool = False
    """Whether what was counted is gone."""
    may_charge: bool = False
    """Whether a call that failed may be carried out later."""


def restart_empty(server: RedisServer) -> None:
    server.kill()
    server.restart()


FAULTS = {
    "killed": Fault(RedisServer.kill, RedisServer.restart, forgets=True),
    "stopped": Fault(RedisServer.pause, RedisServer.resume, may_charge=True),
    "read-only": Fault(
        lambda server: server.ask("REPLICAOF", "127.0.0.1", "1"),
        lambda server: server.ask("REPLICAOF", "NO", "ONE"),
    ),
}

WAYS: dict[str, dict[str, Any]] = {
    "allow": {"on_error": "allow"},
    "deny": {"on_error": "deny"},
    "local": {"on_error": "local"},
    "raise": {"on_error": "raise"},
    "fallback": {"in_memory_fallback": "5/hour"},
}

STEPS = (
    "before the decision",
    "in the view",
    "behind the function",
    "behind the fields",
    "at the refund",
    "last",
)
"""Where the store stops: before the first of these, or between two."""

FIRST, IN_VIEW, LAST = STEPS[0], STEPS[1], STEPS[-1]


class Site:
    """An app whose ``/`` has all kinds of limits; its store may stop on the way."""

    def __init__(self, store: RedisStore, clock: ManualClock, **options: Any) -> None:
        self.app = Flask("stopping")
        self.store, self.clock = store, clock
        self.probe = Limiter("1/hour", name="probe", store=store, clock=clock)
        self.limiter = RateLimit(
            self.app,
            store=store,
            clock=clock,
            algorithm="fixed_window",
            application_limits="50/hour",
            meta_limits="40/hour",
            **options,
        )
        self.at: dict[str, Callable[[], object]] = {}
        self.torn_down: list[BaseException | None] = []
        self.sources: list[str] = []
        self._add_hooks()
        self._add_view()

    def _add_hooks(self) -> None:
        self.app.before_request(lambda: self._pass(STEPS[0]))
        self.app.teardown_request(self.torn_down.append)

        @self.app.after_request
        def fields_are_there(response):
            self._pass(STEPS[3])
            decision = self.limiter.current_decision
            self.sources.append("none" if decision is None else decision.source)
            return response

        self.app.teardown_request(lambda error: self._pass(STEPS[5]))

    def _add_view(self) -> None:
        limit = self.limiter.limit

        @limit("30/hour", name="function")
        def send():
            return "sent"

        @self.app.get("/")
        @limit("9/hour", shadow=True, name="shadow")
        @limit("20/hour", name="all")
        @limit("3/hour", name="failures", deduct_when=self._counts)
        def index():
            self._pass(STEPS[1])
            send()
            self._pass(STEPS[2])
            return "ok", int(request.headers.get("X-Status", "200"))

    def _counts(self, response) -> bool:
        self._pass(STEPS[4])
        return response.status_code == 401

    def _pass(self, step: str) -> None:
        self.at.pop(step, lambda: None)()

    def get(self, status: int = 200) -> Any:
        return self.app.test_client().get("/", headers={"X-Status": str(status)})

    def used(self) -> dict[str, int]:
        """Return what is charged under each policy of mine, by the name it's shown under."""
        names = {
            "route--index--failures": 3,
            "route--index--all": 20,
            "route--index--shadow": 9,
            "application": 50,
            "meta": 40,
        }
        found = {}
        for name, quota in names.items():
            limiter = Limiter(
                f"{quota}/hour", name=name, store=self.store, clock=self.clock, algorithm="fixed_window"
            )
            found[name.rpartition("--")[2]] = quota - limiter.peek(ME, cost=0).remaining
        return found


BEFORE = {"failures": 1, "all": 2, "shadow": 2, "application": 2, "meta": 0}
"""What the two requests before an outage have charged: a 401 and a 200."""


@pytest.fixture
def make_stopping(start_redis, prefix, clock):
    """Return a function that makes a site and its server, with two requests behind them."""

    def make(**options: Any) -> tuple[Site, RedisServer]:
        server = start_redis()
        site = Site(RedisStore(server.tcp_url(), timeout=DEADLINE, prefix=prefix), clock, **options)
        assert [site.get(status).status_code for status in (401, 200)] == [401, 200]
        assert site.used() == BEFORE
        site.torn_down.clear()
        site.sources.clear()
        return site, server

    return make


def expected_status(step: str, way: str) -> int:
    """Return what the client gets while the store is stopped from that step on."""
    if step == LAST:
        return 200
    if way == "raise":
        return 500
    return 503 if way == "deny" and step in (FIRST, IN_VIEW) else 200


def check_fields(response: Any, step: str, way: str) -> None:
    fields = response.headers.get("RateLimit", "")
    shown = {item.partition(";")[0].strip('" ') for item in fields.split(",") if item}
    own = {"all", "failures", "application"}
    if step == FIRST:
        assert shown == {"local": {*own, "function"}, "fallback": {"index", "send"}}.get(way, set())
    elif step == IN_VIEW:
        assert shown == own | {"local": {"function"}, "fallback": {"send"}}.get(way, set())
    else:
        assert shown == {*own, "function"}
    assert ("Retry-After" in response.headers) == (response.status_code == 503)


# What comes of a call that has failed does not depend on how it failed.
PAIRS = [
    pytest.param(
        way, fault, marks=() if name == "killed" or way == "deny" else pytest.mark.prove, id=f"{way}-{name}"
    )
    for way, (name, fault) in itertools.product(WAYS, FAULTS.items())
]
"""Each way and fault; all but those of a kill and of one way are left to `make prove`."""


@pytest.mark.check
@pytest.mark.parametrize(("way", "fault"), PAIRS)
@pytest.mark.parametrize("step", STEPS)
def test_the_answer_and_the_counts_are_those_documented(make_stopping, step, way, fault, caplog):
    site, server = make_stopping(**WAYS[way])
    site.at[step] = lambda: fault.stop(server)
    with caplog.at_level(logging.WARNING):
        response = site.get()
    assert response.status_code == expected_status(step, way)
    check_fields(response, step, way)
    assert len(site.torn_down) == 1
    # Flask's words for an error behind an error: the refund of what an unhandled StoreError has ended.
    assert ("finalizing failed" in caplog.text) == (way == "raise" and step == IN_VIEW)
    assert ("Exception on" in caplog.text) == (response.status_code == 500)
    warned = [each for each in caplog.records if each.name.startswith("overlimit")]
    assert bool(warned) == (step != LAST and way != "raise")

    fault.start(server)
    eventually(lambda: is_answered(site.probe))
    check_counts(site.used(), step, fault)
    left = 3 - site.used()["failures"]
    assert [site.get(401).status_code for _ in range(left + 1)] == [401] * left + [429]
    assert site.sources[-1] == "store"


def check_counts(used: dict[str, int], step: str, fault: Fault) -> None:
    if fault.forgets:
        assert used == dict.fromkeys(BEFORE, 0)
        return
    decided = step != FIRST
    least = {
        name: count + decided * (name in ("all", "shadow", "application")) for name, count in BEFORE.items()
    }
    # A refund that cannot be made is lost; one that may have been sent comes late or not at all.
    kept = int(decided and step != LAST)
    most = least | {"failures": BEFORE["failures"] + kept}
    if not fault.may_charge:
        assert used == most
        return
    if not decided:
        most = {name: count + (name != "meta") for name, count in BEFORE.items()}
    assert {name: least[name] <= used[name] <= most[name] for name in used} == dict.fromkeys(used, True), used


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("step", [FIRST, IN_VIEW, STEPS[4]])
def test_a_store_that_lost_everything_on_the_way_is_given_nothing_back(make_stopping, step, way):
    site, server = make_stopping(**WAYS[way])
    site.at[step] = lambda: restart_empty(server)
    response = site.get()
    # The connection is lost, too: a call may fail by that.
    assert response.status_code in {200, expected_status(step, way)}
    eventually(lambda: is_answered(site.probe))
    charged = site.used()
    assert all(count in ((0, 1) if step == FIRST else (0,)) for count in charged.values())
    left = 3 - charged["failures"]
    assert [site.get(401).status_code for _ in range(left + 1)] == [401] * left + [429]


@pytest.mark.parametrize(("way", "fault"), PAIRS)
def test_what_was_not_charged_is_not_given_back_when_the_store_is_there_again(make_stopping, way, fault):
    site, server = make_stopping(**WAYS[way])

    def revive():
        fault.start(server)
        eventually(lambda: is_answered(site.probe))

    site.at = {FIRST: lambda: fault.stop(server), STEPS[3]: revive}
    assert site.get().status_code == expected_status(FIRST, way)
    used = site.used()
    before = dict.fromkeys(BEFORE, 0) if fault.forgets else BEFORE
    late = {name: int(fault.may_charge and name != "meta") for name in used}
    assert all(before[name] <= used[name] <= before[name] + late[name] for name in used), used


# Several RateLimits, each on a server of its own.


@pytest.fixture
def make_pair(start_redis, prefix, clock):
    """Return a function that makes an app with two RateLimits, whose stores may stop between them."""

    def make(first: dict[str, Any], second: dict[str, Any], quota: int) -> Any:
        servers = [start_redis(), start_redis()]
        stores = [RedisStore(each.tcp_url(), timeout=DEADLINE, prefix=prefix) for each in servers]
        pair = SimpleNamespace(app=Flask("pair"), servers=servers, between=lambda: None, stores=stores)

        def who():
            pair.between()
            return ME

        options = {"clock": clock, "algorithm": "fixed_window"}
        RateLimit(pair.app, default_limits="9/hour", store=stores[0], **options, **first)
        RateLimit(
            pair.app,
            default_limits=f"{quota}/hour",
            store=stores[1],
            identifiers=who,
            key_prefix="b",
            **options,
            **second,
        )
        pair.app.add_url_rule("/", "index", lambda: "ok")
        pair.get = lambda: pair.app.test_client().get("/")
        pair.limiters = [
            Limiter("9/hour", name=name, store=store, clock=clock, algorithm="fixed_window")
            for name, store in zip(("default--index", "b--default--index"), stores, strict=True)
        ]
        pair.used = lambda place: 9 - pair.limiters[place].peek(ME, cost=0).remaining
        assert pair.get().status_code == 200
        return pair

    return make


@pytest.mark.parametrize(("way", "fault"), PAIRS)
def test_the_second_store_stops_after_the_first_has_charged(make_pair, way, fault):
    pair = make_pair({"on_error": "allow"}, WAYS[way], quota=9)
    pair.between = lambda: fault.stop(pair.servers[1])
    response = pair.get()
    status = {"deny": 503, "raise": 500}.get(way, 200)
    assert response.status_code == status
    assert ("Retry-After" in response.headers) == (status == 503)
    assert pair.used(0) == (2 if status == 200 else 1)
    fault.start(pair.servers[1])
    pair.between = lambda: None
    eventually(lambda: is_answered(pair.limiters[1]))
    charged = pair.used(1)
    assert (0 if fault.forgets else 1) <= charged <= (0 if fault.forgets else 1 + fault.may_charge)
    assert pair.get().status_code == 200
    assert pair.used(1) == charged + 1


@pytest.mark.parametrize(("way", "fault"), PAIRS)
@pytest.mark.parametrize("refused", [True, False])
def test_the_first_store_stops_before_its_charge_can_be_taken_back(make_pair, way, fault, refused, caplog):
    pair = make_pair(WAYS[way], {"on_error": "allow"}, quota=1 if refused else 9)
    pair.between = lambda: fault.stop(pair.servers[0])
    with caplog.at_level(logging.WARNING):
        response = pair.get()
    status = (500 if way == "raise" else 429) if refused else 200
    assert response.status_code == status
    assert response.headers.get("Retry-After") == ("3600" if status == 429 else None)
    assert ("Exception on" in caplog.text) == (status == 500)
    fault.start(pair.servers[0])
    eventually(lambda: is_answered(pair.limiters[0]))
    charged = pair.used(0)
    if fault.forgets:
        assert charged == 0
    elif fault.may_charge and refused:
        assert charged in (1, 2)
    else:
        assert charged == 2


def test_what_can_be_taken_back_is_though_another_refund_fails(start_redis, prefix, clock):
    servers = [start_redis() for _ in range(3)]
    stores = [RedisStore(each.tcp_url(), timeout=DEADLINE, prefix=prefix) for each in servers]
    app = Flask("three")
    app.add_url_rule("/", "index", lambda: "ok")

    def who():
        servers[0].kill()
        return ME

    for place, (store, limit) in enumerate(zip(stores, ("9/hour", "9/hour", "0/hour"), strict=True)):
        RateLimit(
            app,
            default_limits=limit,
            store=store,
            clock=clock,
            on_error="raise",
            key_prefix=f"p{place}",
            **({"identifiers": who} if place == 2 else {}),
        )
    assert app.test_client().get("/").status_code == 500
    second = Limiter("9/hour", name="p1--default--index", store=stores[1], clock=clock)
    assert second.peek(ME, cost=0).remaining == 9


def test_the_strictest_of_a_request_says_what_happens_when_a_refund_fails(start_redis, prefix):
    server = start_redis()
    app = Flask("strict")
    limiter = RateLimit(app, store=RedisStore(server.tcp_url(), timeout=DEADLINE, prefix=prefix))

    @app.get("/")
    @limiter.limit("9/hour", deduct_when=lambda response: False, on_error="raise")
    @limiter.limit("9/hour", on_error="allow")
    def index():
        server.kill()
        return "ok"

    assert app.test_client().get("/").status_code == 500
