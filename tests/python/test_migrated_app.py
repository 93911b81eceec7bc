"""The app of examples/migrated_app.py behind gunicorn with two workers, on a real Redis."""

from __future__ import annotations

import itertools
import time
import urllib.parse
from collections import Counter
from pathlib import Path

import pytest

from faults.bounds import LATEST, RECOVERY
from servers.fault_proxy import FaultProxy
from servers.gunicorn import Gunicorn
from servers.http_clients import Clients
from servers.patience import eventually
from servers.redis_server import RedisServer

EXAMPLES = Path(__file__).parents[2] / "examples"
TIMEOUT = 0.1
PROBE = {"X-Probe": "s3same"}
EACH_ANEW = {"Connection": "close"}  # so that whichever worker is free takes it
ANN, BOB, OPS = ({"X-API-Key": key} for key in ("k-ann", "k-bob", "k-ops"))


def gunicorn(log, store, **environment):
    return Gunicorn(
        "migrated_app:create_app()",
        EXAMPLES,
        health="/health",
        log=log,
        environment={"OVERLIMIT_STORE": store, "PROBE_TOKEN": PROBE["X-Probe"], **environment},
    )


@pytest.fixture(scope="module")
def redis():
    server = RedisServer()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def server(redis, tmp_path_factory):
    log = tmp_path_factory.mktemp("gunicorn") / "log"
    server = gunicorn(log, f"{redis.tcp_url()}?timeout=10")
    yield server
    server.stop()


@pytest.fixture
def clients(redis, server):
    """Return clients of an app of several workers that has counted nothing yet."""
    redis.ask("FLUSHALL")
    clients = Clients(server.port)
    eventually(lambda: len(workers_of(clients)) >= 2)
    yield clients
    clients.close()


def workers_of(clients):
    """Return the process ids of the workers that many requests at once met."""
    return {answer.json["worker"] for answer in clients.ask_often("/health", 32, headers=EACH_ANEW)}


def from_address(address):
    return {"X-Forwarded-For": address}


def log_in(clients, user, password, times=1, **headers):
    return clients.ask_often(
        "/login",
        times,
        method="POST",
        headers={"Content-Type": "application/x-www-form-urlencoded", **headers},
        body=urllib.parse.urlencode({"user": user, "password": password}).encode(),
    )


class TestLimitsOfAllRoutes:
    def test_several_workers_together_admit_exactly_the_default_limit(self, clients):
        assert clients.statuses("/", 60, headers=EACH_ANEW) == {200: 30, 429: 30}
        assert len(workers_of(clients)) == 2

    def test_the_default_limit_counts_each_method_on_its_own(self, clients):
        assert clients.statuses("/", 31) == {200: 30, 429: 1}
        assert clients.statuses("/", 31, method="POST") == {200: 30, 429: 1}

    def test_the_limit_of_the_application_spans_all_routes(self, clients):
        assert clients.statuses("/", 30) == {200: 30}
        assert clients.statuses("/", 30, method="POST") == {200: 30}
        assert clients.statuses("/search", 30) == {200: 30}
        assert clients.statuses("/api/v1/orders", 60, headers=OPS) == {200: 60}
        assert clients.statuses("/api/v1/orders", 10, headers=OPS) == {429: 10}

    def test_each_address_that_the_proxy_tells_counts_for_itself(self, clients):
        for address in ("192.0.2.1", "192.0.2.2"):
            assert clients.statuses("/", 32, headers=from_address(address)) == {200: 30, 429: 2}
        forged = from_address("198.51.100.9, 192.0.2.1")
        assert clients.statuses("/", 2, headers=forged) == {429: 2}
        answer = clients.ask("/", headers=from_address("203.0.113.5"))
        assert answer.json["client"] == "ip:203.0.113.5"

    def test_health_checks_are_not_counted(self, clients):
        assert clients.statuses("/health", 200) == {200: 200}
        assert "RateLimit" not in clients.ask("/health").headers
        assert clients.statuses("/", 30) == {200: 30}

    def test_the_monitoring_passes_uncounted_and_who_guesses_its_token_does_not(self, clients):
        assert clients.statuses("/", 100, headers=PROBE) == {200: 100}
        assert clients.statuses("/", 40, headers={"X-Probe": "guess"}) == {200: 30, 429: 10}

    def test_who_is_refused_a_hundred_times_is_shut_out_everywhere(self, clients, server):
        home = clients.statuses("/", 140)
        assert home == {200: 30, 429: 110}
        assert clients.statuses("/weather", 3) == {429: 3}
        assert clients.statuses("/weather", 3, headers=from_address("192.0.2.77")) == {200: 3}
        assert clients.statuses("/health", 3) == {200: 3}
        retry_after = int(clients.ask("/weather").headers["Retry-After"])
        assert 3000 <= retry_after <= 3700
        assert "is shut out" in server.log.read_text()


class TestAnswers:
    def test_a_refusal_is_a_problem_that_says_when_to_come_back(self, clients):
        assert clients.statuses("/weather", 5) == {200: 5}
        refused = clients.ask("/weather")
        assert refused.status == 429
        assert refused.headers["Content-Type"] == "application/problem+json"
        assert refused.json["type"].endswith("#quota-exceeded")
        assert (refused.json["status"], refused.json["reason"]) == (429, "over")
        assert 50 <= int(refused.headers["Retry-After"]) <= 62


class TestLogin:
    def test_the_right_password_is_never_counted(self, clients):
        for _ in range(30):
            (answer,) = log_in(clients, "ann", "correct horse")
            assert answer.status == 200

    def test_an_address_fails_twenty_times_an_hour_at_all_users(self, clients):
        statuses = Counter(log_in(clients, f"user{i}", "x")[0].status for i in range(30))
        assert statuses == {401: 20, 429: 10}
        (refused,) = log_in(clients, "ann", "correct horse")
        assert refused.status == 429
        assert refused.json["detail"] == "Too many failed logins from this address."
        (elsewhere,) = log_in(clients, "ann", "correct horse", **from_address("192.0.2.9"))
        assert elsewhere.status == 200

    def test_failures_at_once_are_all_counted(self, clients):
        statuses = Counter(answer.status for answer in log_in(clients, "ann", "wrong", times=60))
        assert 3 <= statuses[401] <= 6
        assert statuses[401] + statuses[429] == 60

    def test_failing_again_and_again_locks_an_account_for_longer_and_longer(self, clients):
        waits = []
        for _ in range(2):
            refused = next(
                answer
                for i in range(20)
                for answer in log_in(clients, "ann", "wrong", **from_address(f"192.0.2.{10 + i}"))
                if answer.status == 429
            )
            waits.append(int(refused.headers["Retry-After"]))
            if waits[-1] <= 2:
                time.sleep(waits[-1])
        assert waits[0] <= 2
        assert 58 <= waits[1] <= 60
        (right,) = log_in(clients, "ann", "correct horse")
        assert (right.status, right.json["reason"]) == (429, "locked")
        (other,) = log_in(clients, "bob", "battery staple")
        assert other.status == 200

    def test_success_forgets_the_failures(self, clients):
        for _ in range(5):
            statuses = [log_in(clients, "ann", "wrong")[0].status for _ in range(2)]
            assert statuses == [401, 401]
            assert log_in(clients, "ann", "correct horse")[0].status == 200

    def test_an_account_is_locked_and_let_in_by_hand(self, clients):
        assert clients.ask("/api/admin/lockouts/bob", method="PUT", headers=OPS).status == 204
        (locked,) = log_in(clients, "bob", "battery staple")
        assert (locked.status, locked.json["reason"]) == (429, "locked")
        assert 3590 <= int(locked.headers["Retry-After"]) <= 3600
        assert clients.ask("/api/admin/lockouts/bob", method="DELETE", headers=OPS).status == 204
        assert log_in(clients, "bob", "battery staple")[0].status == 200


class TestApi:
    def test_a_plan_says_how_much_a_customer_may(self, clients):
        assert clients.statuses("/api/v1/orders", 20, headers=ANN) == {200: 10, 429: 10}
        assert clients.statuses("/api/v1/orders", 65, headers=BOB) == {200: 60, 429: 5}
        assert clients.statuses("/api/v1/orders", 70, headers=OPS) == {200: 70}

    def test_a_plan_spans_addresses_and_routes(self, clients):
        for i in range(5):
            headers = {**ANN, **from_address(f"192.0.2.{i}")}
            assert clients.ask("/api/v1/orders", headers=headers).status == 200
            assert clients.ask("/api/v1/files/f", method="PUT", body=b"x", headers=headers).status == 201
        assert clients.ask("/api/v1/orders", headers=ANN).status == 429

    def test_ordering_stands_under_a_limit_of_its_own_and_under_the_plan(self, clients):
        assert clients.statuses("/api/v1/orders", 8, method="POST", headers=ANN) == {201: 3, 429: 5}
        assert clients.statuses("/api/v1/orders", 8, headers=ANN) == {200: 7, 429: 1}

    def test_the_admin_part_has_a_limit_instead_of_the_plan(self, clients):
        path = "/api/admin/lockouts/nobody"
        assert clients.statuses(path, 8, method="DELETE", headers=BOB) == {204: 5, 429: 3}
        assert clients.statuses("/api/v1/orders", 61, headers=BOB) == {200: 60, 429: 1}

    def test_an_upload_costs_its_size(self, clients):
        def put(kilobytes):
            path, body = "/api/v1/files/f", b"x" * kilobytes * 1024
            return clients.ask(path, method="PUT", headers=BOB, body=body)

        assert put(60).status == 201
        refused = put(41)
        assert refused.status == 429
        assert 3000 <= int(refused.headers["Retry-After"]) <= 3700
        assert put(40).status == 201
        assert put(1).status == 429
        assert clients.ask("/api/v1/orders", headers=BOB).status == 200

    def test_an_upload_beyond_the_quota_is_not_told_to_come_back(self, clients):
        body = b"x" * 101 * 1024
        never = clients.ask("/api/v1/files/f", method="PUT", headers=BOB, body=body)
        assert (never.status, never.json["reason"]) == (429, "never")
        assert "Retry-After" not in never.headers


class TestSingleRoutes:
    def test_a_shared_limit_spans_its_routes(self, clients):
        assert clients.statuses("/orders.csv", 4) == {200: 4}
        assert clients.statuses("/orders.json", 4) == {200: 2, 429: 2}
        assert clients.statuses("/orders.csv", 1) == {429: 1}

    def test_a_scope_divides_the_limit_of_a_route(self, clients):
        for team in ("red", "blue"):
            assert clients.statuses(f"/teams/{team}/news", 6) == {200: 4, 429: 2}

    def test_a_limit_in_shadow_refuses_nobody_and_is_logged(self, clients, server):
        before = server.log.read_text().count("over a limit: /search")
        assert clients.statuses("/search", 12) == {200: 12}
        eventually(lambda: server.log.read_text().count("over a limit: /search") == before + 7)
        assert clients.statuses("/search", 20) == {200: 18, 429: 2}

    def test_a_limit_inside_a_view_refuses(self, clients):
        assert clients.statuses("/search?deep=1", 6) == {200: 2, 429: 4}
        assert clients.statuses("/search", 5) == {200: 5}


@pytest.fixture
def proxy(redis):
    redis.ask("FLUSHALL")
    proxy = FaultProxy(redis.port)
    yield proxy
    proxy.stop()


@pytest.fixture
def serve(proxy, tmp_path):
    """Return a function that serves the app, its store behind the proxy, and returns clients."""
    started = []

    def start(on_error):
        server = gunicorn(tmp_path / "log", f"{proxy.url}?timeout={TIMEOUT}", OVERLIMIT_ON_ERROR=on_error)
        started.append(server)
        clients = Clients(server.port)
        started.append(clients)
        eventually(lambda: decided_by_the_store(clients))
        return clients

    yield start
    for each in reversed(started):
        (each.stop if isinstance(each, Gunicorn) else each.close)()


_fresh = (f"10.{i >> 8 & 255}.{i & 255}.1" for i in itertools.count())


def decided_by_the_store(clients):
    """Whether all workers count in one place: one that counts for itself admits more than all together."""
    return clients.statuses("/weather", 24, headers=from_address(next(_fresh))) == {200: 5, 429: 19}


FAULTS = {
    "refusing": FaultProxy.refuse,
    "a black hole": FaultProxy.hold_all,
    "slow": lambda proxy: proxy.delay(replies=5 * TIMEOUT),
    "resetting": lambda proxy: proxy.cut_replies_after(1),
}


@pytest.mark.check
def test_a_redis_that_fails_holds_nobody_up_and_is_used_again_by_itself(serve, proxy):
    clients = serve("deny")
    for number, fault in enumerate(FAULTS):
        FAULTS[fault](proxy)
        answers = clients.ask_often("/", 48, headers=from_address(f"192.0.2.{number}"))
        proxy.restore()
        assert Counter(answer.status for answer in answers) == {503: 48}
        assert all("RateLimit" not in answer.headers for answer in answers)
        assert max(answer.seconds for answer in answers) <= TIMEOUT + LATEST
        assert all(int(answer.headers["Retry-After"]) >= 1 for answer in answers)
        assert all(answer.json["status"] == 503 for answer in answers)
        eventually(lambda: decided_by_the_store(clients), within=2 * RECOVERY)

    def counts_to_the_limit():
        return clients.statuses("/", 40, headers=from_address(next(_fresh))) == {200: 30, 429: 10}

    eventually(counts_to_the_limit, within=RECOVERY)
    proxy.delay(replies=TIMEOUT / 10)  # slow, but within its deadline
    statuses = clients.statuses("/", 40, headers=from_address(next(_fresh)))
    assert statuses[200] == 30
    assert statuses[429] + statuses[503] == 10


@pytest.mark.check
def test_each_worker_counts_for_itself_while_redis_is_away(serve, proxy):
    clients = serve("local")
    assert clients.statuses("/", 10) == {200: 10}
    for fault in FAULTS.values():
        fault(proxy)
        answers = clients.ask_often("/", 48)
        assert {answer.status for answer in answers} <= {200, 429}
        assert max(answer.seconds for answer in answers) <= TIMEOUT + LATEST
        proxy.restore()
        eventually(lambda: decided_by_the_store(clients), within=2 * RECOVERY)
    proxy.refuse()
    locally = clients.statuses("/", 200, headers=from_address("192.0.2.1"))
    assert 30 <= locally[200] <= 2 * 30
    assert locally[200] + locally[429] == 200
    proxy.restore()
