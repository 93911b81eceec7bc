"""What ``overlimit doctor`` finds on servers that are well, and on those that are not."""

from __future__ import annotations

import json
import re
import secrets
from pathlib import Path
from typing import Any

import pytest

from overlimit import Limiter, SharedMemoryStore
from overlimit.command_line.operating.doctor import golden, redis_checks
from overlimit.command_line.operating.doctor.redis_checks import Info
from servers.patience import PATIENCE

from .test_commands import printed, run
from .test_operating import redis_url, shared_memory_url, told  # noqa: F401

VECTORS = Path(__file__).parents[2] / "vectors"
PERMISSIONS = "+evalsha +eval +get +set +setrange +time +del +select +ping"


def examined(code: int, url: str) -> dict[str, Any]:
    """Examine a store; return what was found that is not well, by check, with the severities."""
    answer = told(code, "doctor", url)
    assert answer["status"] == ("healthy", "warnings", "broken")[code]
    for finding in answer["findings"]:
        assert set(finding) == {"severity", "check", "message", "advice"}
        assert finding["message"].endswith(".")
        assert finding["severity"] in {"ok", "unknown"} or finding["advice"]
    return {each["check"]: each["severity"] for each in answer["findings"] if each["severity"] != "ok"}


def at(server: Any, user: str = "") -> str:
    return f"{server.unix_url().replace('unix://', f'unix://{user}')}&timeout={PATIENCE}"


def test_a_server_that_is_well_is_healthy_and_left_as_it_was(start_redis):
    server = start_redis()
    Limiter("3/minute", name="login", store=at(server)).hit("user:42")
    assert examined(0, at(server)) == {}
    assert server.ask("KEYS", "*") == [b"ol1:login:user:42"]
    text = printed("doctor", at(server))
    assert text.splitlines()[0].split() == ["severity", "check", "finding"]
    assert re.search(r"It is (Redis|Valkey) \d", text)
    assert "A key takes " in text
    assert text.endswith(": healthy\n")


def test_a_password_is_no_finding(start_redis):
    assert examined(0, at(start_redis(password="secret"))) == {}


def test_a_database_that_is_not_there_is_broken_and_nothing_else_is_said(redis_server):
    url = f"{redis_server.unix_url(db=77)}&timeout={PATIENCE}"
    answer = told(2, "doctor", url)
    assert [each["check"] for each in answer["findings"]] == ["reach", "TLS"]
    assert "DB index is out of range" in answer["findings"][0]["message"]
    assert "databases" in told(2, "top", url)["message"]


def test_a_replica_is_broken(start_redis):
    master = start_redis()
    replica = start_redis(replica_of=master)
    url = f"{replica.unix_url()}&timeout=0.3"
    assert examined(2, url) == {"reach": "broken", "replication": "broken"}
    assert run("doctor", url).stderr.startswith("broken: ")
    assert told(0, "top", url)["is_complete"]


def test_a_server_that_evicts_says_how_much(start_redis):
    server = start_redis(options={"maxmemory": "3mb", "maxmemory-policy": "volatile-ttl"})
    for number in range(40):
        server.ask("SET", f"other:{number}", bytes(100_000), "EX", 1000)
    assert examined(1, at(server)) == {"eviction": "warning"}
    assert re.search(
        r"maxmemory-policy is volatile-ttl \([1-9]\d* keys were evicted", run("doctor", at(server)).stdout
    )


def test_a_renamed_command_is_broken(start_redis):
    server = start_redis(options={"rename-command": ("EVALSHA", "")})
    found = examined(2, at(server))
    assert (found["permissions"], found["vectors"]) == ("broken", "broken")
    assert "EVALSHA" in run("doctor", at(server)).stderr


def test_what_a_user_may_not_run_is_told(redis_server):
    redis_server.ask("ACL", "SETUSER", "few", "on", ">hidden", "~ol1:*", *PERMISSIONS.split())
    url = at(redis_server, "few:hidden@")
    assert examined(1, url) == {"permissions": "warning", "server": "unknown", "memory": "unknown"}
    redis_server.ask("FLUSHALL")  # of what could not be removed
    redis_server.ask("ACL", "SETUSER", "few", "+scan", "+unlink")
    assert examined(1, url) == {"server": "unknown"}
    assert told(0, "doctor", url, "--ignore-unknown")["status"] == "healthy"
    logged = {(each[9], each[7]) for each in redis_server.ask("ACL", "LOG")}
    assert {name for user, name in logged if user == b"few"} == {b"scan", b"unlink", b"info"}
    redis_server.ask("ACL", "SETUSER", "few", "-get")
    assert examined(2, url)["permissions"] == "broken"
    done = run("doctor", url)
    assert "hidden" not in done.stdout + done.stderr
    redis_server.ask("ACL", "DELUSER", "few")


def test_a_server_that_hangs_is_unreachable(start_redis, monkeypatch):
    monkeypatch.setattr("overlimit.command_line.operating.servers._TIMEOUT", 0.2)
    server = start_redis()
    server.pause()
    done = run("doctor", f"{server.unix_url()}&timeout=0.2", "--json")
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["status"], answer["reachable"]) == (2, "broken", False)
    assert done.stderr.startswith("unreachable: ")


def test_tls_is_told_and_a_server_without_trust_is_broken(tls_server):
    trusted = f"{tls_server.tls_url()}?ssl_ca_certs={tls_server.ca}&timeout={PATIENCE}"
    assert examined(1, trusted) == {"certificate": "warning"}  # it is valid for two days
    blind = f"{tls_server.tls_url()}?ssl_cert_reqs=none&timeout={PATIENCE}"
    assert examined(1, blind) == {"TLS": "warning"}
    distrusted = f"{tls_server.tls_url()}?timeout={PATIENCE}"
    assert examined(2, distrusted)["reach"] == "broken"
    assert "ssl_ca_certs" in told(2, "top", distrusted)["message"]
    missing = f"{tls_server.tls_url()}?ssl_ca_certs=/no/such.pem&timeout={PATIENCE}"
    assert told(2, "top", missing)["status"] == "broken"


@pytest.mark.parametrize(
    "url", ["rediss://127.0.0.1:1", "rediss://no-such-host.invalid:6379", "redis://192.0.2.1"]
)
def test_nothing_is_said_about_the_tls_of_no_connection(url):
    answer = told(2, "doctor", f"{url}?timeout=0.3")
    assert [each["check"] for each in answer["findings"]] == ["reach"]


def test_a_port_without_tls_has_no_finding_about_it(start_redis):
    server = start_redis()
    answer = told(2, "doctor", f"{server.tcp_url().replace('redis:', 'rediss:')}?timeout=1")
    assert [each["check"] for each in answer["findings"]] == ["reach"]
    assert "redis:// goes without" in answer["findings"][0]["advice"]


@pytest.mark.parametrize(("options", "pattern"), [("", "~ol1:*"), ("&hash_tag=policy", "~{ol1:*")])
def test_a_pattern_of_keys_that_is_missing_is_named(redis_server, options, pattern):
    redis_server.ask("ACL", "SETUSER", "keyless", "on", ">hidden", *PERMISSIONS.split())
    done = run("doctor", f"{at(redis_server, 'keyless:hidden@')}{options}")
    redis_server.ask("ACL", "DELUSER", "keyless")
    assert done.returncode == 2
    assert f"may not use the keys of this store: the pattern {pattern} is missing." in done.stdout
    assert "may not run DEL" not in done.stdout


def test_a_replica_that_takes_writes_is_broken(start_redis):
    replica = start_redis(replica_of=start_redis(), options={"replica-read-only": "no"})
    done = run("doctor", at(replica))
    assert done.returncode == 2
    assert "It is a replica that takes writes" in done.stdout


def test_full_shared_memory_is_not_charged(shared_memory):
    name = f"test-{secrets.token_hex(6)}"
    store = SharedMemoryStore(name, max_keys=100)
    limiter = Limiter("3/minute", name="login", store=store)
    try:
        for number in range(200):
            limiter.hit(f"user:{number}")
        url, crowded = f"shm://{name}?timeout={PATIENCE}", store.stats()["crowded"]
        assert examined(1, url) == {"room": "warning", "call": "unknown"}
        assert store.stats()["crowded"] == crowded
        answer = told(0, "shm", "show", url)
        assert (answer["keys"], answer["max_keys"], answer["used_share"]) == (100, 100, 1)
        assert re.search(r"max bytes +\d+,\d", printed("shm", "show", url))
    finally:
        store.unlink()


def test_shared_memory_is_examined(shared_memory_url):  # noqa: F811
    Limiter("3/minute", name="login", store=shared_memory_url).hit("user:42")
    assert examined(0, shared_memory_url) == {}
    assert told(0, "top", shared_memory_url)["looked_at"] == 1


def test_a_server_that_answers_otherwise_is_broken(redis_url, monkeypatch):  # noqa: F811
    def wrong() -> list[Any]:
        vector = json.loads((VECTORS / "sliding_log.json").read_text("utf-8"))
        vector["steps"][0]["expect"][1] += 1
        path = Path(golden.__file__)
        return [type("File", (), {"read_text": lambda self, encoding: json.dumps(vector), "path": path})()]

    monkeypatch.setattr(golden, "_vectors", wrong)
    assert examined(2, redis_url) == {"vectors": "broken"}


def test_the_vectors_of_the_package_are_those_that_the_stores_are_tested_with():
    shipped = list((Path(golden.__file__).parent / "vectors").glob("*.json"))
    assert len(shipped) >= 7
    for path in shipped:
        assert path.read_bytes() == (VECTORS / path.name).read_bytes()
        steps = json.loads(path.read_text("utf-8"))["steps"]
        assert {step["do"] for step in steps} <= {"hit", "peek", "lock", "reset"}
        assert not [step for step in steps if len(step.get("identifiers", ["x"])) > 1 or "every_us" in step]


INFO = {
    "redis_version": "7.2.4",
    "role": "master",
    "maxmemory": "1000",
    "used_memory": "100",
    "maxmemory_policy": "noeviction",
    "maxclients": "100",
    "connected_clients": "5",
}


@pytest.mark.parametrize(
    ("check", "change", "severity"),
    [
        ("version", {}, "ok"),
        ("version", {"redis_version": "6.0.16"}, "broken"),
        ("version", {"valkey_version": "8.1.0"}, "ok"),
        ("version", {"valkey_version": "7.0.0"}, "broken"),
        ("version", {"redis_version": ""}, "broken"),
        ("role", {"slave0": "ip=::1,port=1,state=online,offset=1,lag=0"}, "ok"),
        ("role", {"slave0": "ip=::1,port=1,state=online,offset=1,lag=60"}, "warning"),
        ("role", {"slave0": "ip=::1,port=1,state=wait_bgsave,offset=1,lag=0"}, "warning"),
        ("eviction", {"maxmemory_policy": "volatile-ttl"}, "ok"),
        ("eviction", {"maxmemory_policy": "volatile-lru"}, "warning"),
        ("eviction", {"maxmemory_policy": "allkeys-lru", "maxmemory": "0"}, "ok"),
        ("eviction", {"used_memory": "950"}, "warning"),
        ("persistence", {"aof_enabled": "1"}, "ok"),
        ("persistence", {"aof_last_write_status": "err"}, "warning"),
        ("persistence", {"loading": "1"}, "broken"),
        ("clients", {"connected_clients": "95"}, "warning"),
        ("clients", {"rejected_connections": "1"}, "warning"),
    ],
)
def test_what_a_server_says_of_itself_is_judged(check, change, severity):
    (finding,) = getattr(redis_checks, check)(Info(INFO | change))
    assert finding.severity == severity


def test_what_a_restart_loses_depends_on_whether_processes_remember():
    (strict,) = redis_checks.persistence(Info(INFO))
    (remembering,) = redis_checks.persistence(Info(INFO), 600.0)
    (losing,) = redis_checks.persistence(Info(INFO), 0.0, 80_000.0)
    assert (strict.severity, losing.severity, remembering.severity) == ("ok", "warning", "ok")
    assert "for another 22 h 13 min: a restart loses them" in losing.message
    assert "bring back those that they were told of within 600 s" in remembering.message


@pytest.mark.parametrize(("ahead", "severity"), [(0, "ok"), (-90, "warning"), (90, "warning")])
def test_clocks_that_are_apart_are_a_warning(ahead, severity, monkeypatch):
    class Ahead:
        def answer(self, *words: str) -> list[bytes]:
            import time

            return [str(int(time.time()) + ahead).encode(), b"0"]

    (finding,) = redis_checks.clock(Ahead())
    assert finding.severity == severity
