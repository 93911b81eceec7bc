"""The commands for operators, on real servers and in shared memory: what they print, and how they end."""

from __future__ import annotations

import io
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from overlimit import (
    FixedWindow,
    LeakyBucket,
    Limiter,
    ManualClock,
    Penalty,
    RedisStore,
    SharedMemoryStore,
    SlidingLog,
    SlidingWindow,
    SlidingWindowCounter,
    StoreConfigError,
    TokenBucket,
)
from overlimit.command_line.operating import COMMANDS
from overlimit.command_line.operating.identifiers import _MAY_COME_BACK, _MAY_GO_ON
from overlimit.command_line.operating.key_names import KeyNames
from overlimit.command_line.operating.places import Place, StoreUrl, without_secrets
from overlimit.command_line.operating.shapes import algorithm_of, by_tag, growth, readings_of
from overlimit.command_line.operating.tables import counted, span
from overlimit.command_line.operating.values import Record, Value, decoded
from overlimit.stores import PostgreSQLStore, SQLiteStore
from servers.patience import PATIENCE, eventually

from .test_commands import printed, refused, run

ALL_LIMITS = [
    FixedWindow(5, per=60),
    SlidingLog(7, per=60),
    SlidingWindowCounter(9, per=60),
    TokenBucket(1, per=60, burst=11),
    LeakyBucket(1, per=60, capacity=12),
]


def told(code: int, *arguments: str) -> dict[str, Any]:
    """Run a command for JSON, which must be all that it prints to the standard output."""
    done = run(*arguments, "--json")
    assert done.returncode == code, done.stderr
    assert bool(done.stderr) == (code == 2)
    return json.loads(done.stdout)


@pytest.fixture
def redis_url(redis_server, prefix):
    return f"{redis_server.unix_url()}&prefix={prefix}&timeout={PATIENCE}"


@pytest.fixture
def shared_memory_url(shared_memory):
    name = f"test-{secrets.token_hex(6)}"
    store = SharedMemoryStore(name, max_bytes=1 << 20, max_keys=1000)
    store.ping()
    yield f"shm://{name}?timeout={PATIENCE}"
    store.unlink()


@pytest.fixture
def sqlite_url(tmp_path):
    SQLiteStore(tmp_path / "limits.db").create_table()
    return f"sqlite:///{tmp_path}/limits.db?timeout={PATIENCE}"


@pytest.fixture
def postgresql_url(postgresql_url):
    PostgreSQLStore(postgresql_url).create_table()
    return postgresql_url


@pytest.fixture(params=["redis", "shared_memory", "sqlite", "postgresql"])
def url(request):
    return request.getfixturevalue(f"{request.param}_url")


def limiter_at(url: str, limits: Any = "3/minute", name: str = "login", **options: Any) -> Limiter:
    return Limiter(limits, name=name, store=url, **options)


def test_check_peeks_and_charges_only_if_asked_to(url):
    check = ["check", url, "--name", "login", "--limits", "3/minute", "user:42"]
    for _ in range(2):
        assert told(0, *check)["remaining"] == 2
    for left in (2, 1, 0):
        answer = told(0, *check, "--hit")
        assert (answer["remaining"], answer["charged"]) == (left, True)
    answer = told(1, *check)
    assert (answer["status"], answer["allowed"], answer["limit"]) == ("over", False, "3 per 1 minute")
    assert 0 < answer["retry_after"] <= 62
    assert answer["details"][0]["identifier"] == "user:42"
    done = run(*check)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("Refused, over 3 per 1 minute: it would pass in ")
    assert told(1, *check, "--cost", "9")["status"] == "never"


def test_show_tells_every_record_and_the_lock(url):
    limiter = limiter_at(url, ["5/minute", *ALL_LIMITS], penalty=Penalty([30, 60]))
    limiter.hit("a", cost=3)
    limiter.hit("a", cost=3)
    answer = told(0, "show", url, "--policy", "login", "a")
    assert answer["status"] == "locked"
    assert {each["algorithm"]: each["charged"] for each in answer["records"]} == {
        "fixed_window": 3,
        "sliding_window": 3,
        "sliding_log": 3,
        "sliding_window_counter": 3,
        "token_bucket": 3,
        "leaky_bucket": 3,
    }
    assert {each["known_by"] for each in answer["records"]} == {"shape"}
    assert answer["lock"] == {"left": pytest.approx(30, abs=5), "by": "penalty", "level": 1}
    named = told(0, "show", url, "--policy", "login", "a", "--limits", "5/minute")["records"]
    assert [each["limit"] for each in named if each["known_by"] == "tag"] == ["5 per 1 minute"]
    text = printed("show", url, "--policy", "login", "a")
    assert "fixed window?" in text
    assert "\n? = guessed; give --limits\n" in text
    assert "set by a penalty, level 1." in text


def test_show_of_nobody_says_so(url):
    assert told(1, "show", url, "--policy", "login", "nobody")["status"] == "unknown"
    assert run("show", url, "--policy", "login", "nobody").stdout == "Nothing is kept of nobody in login.\n"


def hint_at(url: str, *sentences: str) -> str:
    """Return what is said of processes with options after a change by a URL without any."""
    return "" if not url.startswith("unix:") else "".join(f"{each}\n" for each in sentences)


class TestAStoreThatRemembers:
    """A reset, and a lock by hand, leave a record of when; a key with nothing else keeps nothing."""

    @pytest.fixture
    def url(self, redis_url):
        return f"{redis_url}&remember=600"

    @pytest.fixture(params=["reset", "unlock"])
    def noted(self, request, redis_server, url, prefix):
        limiter = limiter_at(url)
        if request.param == "reset":
            limiter.hit("a")
        getattr(limiter, request.param)("a")
        key = f"{prefix}1:login:a"
        assert 0 < redis_server.ask("PTTL", key) <= 3_602_000
        return key

    def test_is_told_to_have_forgotten(self, url, noted):
        assert run("show", url, "--policy", "login", "a").stdout == "Nothing is kept of a in login.\n"
        answer = told(1, "show", url, "--policy", "login", "a")
        assert (answer["status"], answer["key"], answer["records"]) == ("unknown", noted, [])
        assert told(0, "check", url, "--name", "login", "--limits", "3/minute", "a")["unknown"] == ["a"]
        listed = told(0, "top", url)
        assert (listed["top"], listed["looked_at"], listed["forgotten"]) == ([], 1, 1)
        assert "1 key was looked at. In 1 of them nothing counts any more" in printed("top", url)
        assert told(0, "watch", url, "--every", "0.1", "--count", "1")["samples"][0]["policies"] == []
        assert told(0, "unlock", url, "--policy", "login", "a")["was_locked"] is False
        assert told(0, "reset", url, "--policy", "login", "--all")["was_kept"] is False
        assert printed("reset", url, "--policy", "login", "a") == "Nothing was kept of a in login.\n"
        assert told(0, "lock", url, "--policy", "login", "b", "60")["policy_is_new"] is True
        assert told(0, "lock", url, "--policy", "login", "c", "60")["policy_is_new"] is False

    def test_counts_again_when_it_is_hit(self, url, noted):
        limiter_at(url).hit("a")
        assert len(told(0, "show", url, "--policy", "login", "a")["records"]) == 1
        assert told(0, "top", url)["forgotten"] == 0
        assert told(0, "reset", url, "--policy", "login", "a")["was_kept"] is True

    @pytest.mark.parametrize("options", ["", "&lease=0.5&max_stale=2"])
    def test_is_left_as_it_was_by_bench_and_doctor(self, redis_server, url, prefix, options):
        told(0, "bench", url + options, "--seconds", "0.1", "--identifiers", "40", "--limits", "10000/hour")
        assert (
            "test calls gave the expected answers, and their keys are deleted."
            in run("doctor", url + options).stdout
        )
        assert redis_server.ask("KEYS", f"{prefix}*") == []


def test_reset_lock_and_unlock_do_what_a_limiter_does(url):
    limiter = limiter_at(url)
    limiter.hit("a", cost=3)
    hint = hint_at(url, _MAY_GO_ON, _MAY_COME_BACK)
    assert printed("reset", url, "--policy", "login", "a") == f"a begins anew in login.\n{hint}"
    assert limiter.hit("a").remaining == 2
    limiter.hit("b")
    assert printed("reset", url, "--policy", "login", "--all") == f"Everybody begins anew in login.\n{hint}"
    assert [limiter.peek(each, cost=0).remaining for each in "ab"] == [3, 3]
    assert "takes an ID, or --all" in refused(2, "reset", url, "--policy", "login")
    assert "takes an ID, or --all" in refused(2, "reset", url, "--policy", "login", "--all", "a")
    limiter.hit("a")
    hint = hint_at(url, _MAY_GO_ON)
    assert printed("lock", url, "--policy", "login", "a", "60") == f"a is locked in login for 1 min.\n{hint}"
    assert limiter.hit("a").status == "locked"
    assert told(0, "lock", url, "--policy", "login", "b", "600")["status"] == "ok"
    rows = told(0, "locked", url, "--policy", "login")["locked"]
    assert [row["by"] for row in rows] == ["hand", "hand"]
    assert 60 < rows[0]["locked_for"] <= 600
    assert rows[1]["locked_for"] <= 60
    assert printed("unlock", url, "--policy", "login", "a") == f"a is no longer locked in login.\n{hint}"
    assert limiter.peek("a", cost=0).remaining == 2
    assert len(told(0, "locked", url)["locked"]) == 1


def test_what_was_not_there_is_told(url):
    for command, sentence in {
        ("reset", "--all"): "Nothing was kept in login.",
        ("reset", "a"): "Nothing was kept of a in login.",
        ("unlock", "a"): "a was not locked in login anyway.",
    }.items():
        words = (command[0], url, "--policy", "login", command[1])
        hint = hint_at(url, _MAY_COME_BACK) if command[0] == "reset" else ""
        assert printed(*words) == f"{sentence}\n{hint}"
        answer = told(0, *words)
        assert False in {answer.get("was_kept"), answer.get("was_locked")}
    check = ["check", url, "--name", "login", "--limits", "3/minute", "a"]
    assert printed(*check).endswith("\n\nNothing is kept of a in login.\n")
    assert told(0, *check)["unknown"] == ["a"]
    assert told(0, "lock", url, "--policy", "login", "a", "60")["policy_is_new"] is True
    assert told(0, "unlock", url, "--policy", "login", "a")["was_locked"] is True
    limiter_at(url).hit("b")
    assert told(0, "check", *check[1:-1], "b")["unknown"] == []
    assert told(0, "lock", url, "--policy", "login", "c", "60")["policy_is_new"] is False
    assert told(0, "reset", url, "--policy", "login", "b")["was_kept"] is True
    assert told(0, "reset", url, "--policy", "login", "--all")["was_kept"] is True
    assert told(0, "reset", url, "--policy", "login", "--all")["was_kept"] is False


def test_a_misspelt_policy_is_answered_with_those_that_there_are(redis_url):
    there = "There is something in api, login.\n"
    for name in ("login", "api"):
        Limiter("3/minute", name=name, store=redis_url).hit("a")
    of_logn = redis_url, "--policy", "logn"
    for command in (["top", *of_logn], ["locked", *of_logn]):
        assert printed(*command).endswith(f" 0 keys were looked at. {there}".strip(" "))
    assert run("show", *of_logn, "a").stdout == f"Nothing is kept of a in logn. {there}"
    assert printed("check", *of_logn, "--limits", "3/minute", "a").endswith(f" in logn. {there}")
    assert there in printed("reset", *of_logn, "a")
    assert there in printed("unlock", *of_logn, "a")
    assert f"Nothing else is kept in logn. {there}" in printed("lock", *of_logn, "a", "60")
    assert "There is something" not in printed("unlock", redis_url, "--policy", "login", "b")
    assert "There is something" not in printed("top", redis_url, "--policy", "login")


def test_tables_of_nothing_are_left_out(url, shared_memory_url):
    limiter_at(url).lock("a", 60)
    shown = printed("show", url, "--policy", "login", "a")
    assert " made " in shown
    assert "state" not in shown
    limiter_at(url).hit("b", cost=2)
    shown = printed("show", url, "--policy", "login", "b")
    assert " first charged " in shown
    assert "2 charged, the last 2 close together" in shown
    assert not printed("watch", url, "--every", "0.1", "--count", "1").startswith("\n")
    limiter_at(shared_memory_url).reset_all()
    assert "hashes" not in printed("locked", shared_memory_url, "--policy", "other")


def test_a_check_says_what_would_be_left(url):
    check = ["check", url, "--policy", "login", "--limits", "3/minute"]
    assert "left afterwards" in printed(*check, "a")
    assert "left afterwards" not in printed(*check, "--cost", "0", "a")
    assert "left afterwards" not in run(*check, "--cost", "5", "a").stdout


def test_who_may_not_look_may_reset(redis_server, redis_url, prefix):
    limiter_at(redis_url).hit("a")
    redis_server.ask("ACL", "SETUSER", "blind", "on", ">hidden", f"~{prefix}1:*", "+del", "+select", "+ping")
    blind = redis_url.replace("unix://", "unix://blind:hidden@")
    answer = told(0, "reset", blind, "--policy", "login", "a")
    redis_server.ask("ACL", "DELUSER", "blind")
    assert (answer["was_kept"], answer["message"]) == (None, "a begins anew in login.")
    assert told(1, "show", redis_url, "--policy", "login", "a")["status"] == "unknown"


def test_counts_and_ages_are_told_as_people_say_them():
    assert [counted(number, "key") for number in (0, 1, 1234)] == ["0 keys", "1 key", "1,234 keys"]
    assert counted(2, "process") == "2 processes"
    ages = {5.91: "5.91 s", 60: "1 min", 3600: "1 h", 31_451.2: "8 h 44 min", 86_400 * 3 + 5: "3 d"}
    assert [span(seconds * 1e6) for seconds in ages] == list(ages.values())


def test_top_lists_whom_most_was_charged_to(url):
    for number in range(20):
        limiter_at(url, "100/minute").hit(f"user:{number}", cost=number + 1)
    limiter_at(url, "1000/minute", name="api").hit("user:1", cost=50)
    answer = told(0, "top", url, "-n", "3")
    assert [row["charged"] for row in answer["top"]] == [50, 20, 19]
    assert (answer["looked_at"], answer["is_complete"], answer["unreachable"]) == (21, True, [])
    named = told(0, "top", url, "--policy", "login", "-n", "1", "--limits", "100/minute")["top"]
    assert named[0]["policy"] == "login"
    assert named[0]["limits"][0]["limit"] == "100 per 1 minute"
    limits = ("--limits", "100/minute", "--limits", "1000/minute")
    assert "guessed" not in printed("top", url, *limits)
    assert "guessed" not in printed("show", url, "--policy", "login", "user:1", *limits)
    text = printed("top", url)
    assert "\n? = guessed; give --limits\n" in text
    assert "21 keys were looked at." in text
    assert ("keeps no identifiers, only hashes" in text) == answer["identifiers_are_hashes"]


def test_identifiers_in_shared_memory_are_hashes_that_show_prints(shared_memory_url):
    limiter_at(shared_memory_url).hit("user:42")
    (row,) = told(0, "top", shared_memory_url, "--policy", "login")["top"]
    assert row["identifier"] == told(0, "show", shared_memory_url, "--policy", "login", "user:42")["key"]


def test_a_walk_that_is_bounded_says_so(url):
    for number in range(400):
        limiter_at(url).hit(f"user:{number}")
    answer = told(0, "top", url, "--keys", "10")
    assert not answer["is_complete"]
    assert 1 <= answer["looked_at"] < 400  # Redis decides how many keys a step has
    assert "which is not all: --keys raises the bound." in printed("top", url, "--keys", "10")


@pytest.mark.parametrize("options", ["", "hash_tag=policy", "hash_tag=prefix", "hash_identifiers=true"])
def test_keys_are_named_as_the_store_names_them(redis_server, redis_url, prefix, options):
    place: Place = StoreUrl().convert(f"{redis_url}&{options}".rstrip("&"), None, None)
    for identifier in ("user:42", "ü#:1", "x" * 256, "x" * 257, b"\xff{}\0\n:"):
        Limiter("3/minute", name="a.b-c", store=place.store).hit(identifier)
        key = KeyNames(place).key("a.b-c", identifier)
        assert redis_server.ask("EXISTS", key) == 1
        assert KeyNames(place).read(key).policy == "a.b-c"
        if isinstance(identifier, str):
            assert told(0, "show", place.url, "--policy", "a.b-c", identifier)["status"] == "ok"
    assert told(0, "top", place.url, "--policy", "a.b-c")["looked_at"] == 5
    assert KeyNames(place).read(b"other") is None


def test_shapes_of_charged_records_tell_the_algorithm(redis_server, redis_url, prefix):
    for limit in ALL_LIMITS:
        limiter = Limiter(limit, name="shape", store=redis_url)
        for _ in range(3):
            limiter.hit("x")
        value = decoded(redis_server.ask("GET", f"{prefix}1:shape:x"))
        assert value is not None
        assert [algorithm_of(record) for record in value.records] == [limit.algorithm]
        (reading,) = readings_of(value, by_tag([limit]), 0)
        assert (reading.limit, round(reading.charged or 0)) == (limit, 3)
        limiter.reset("x")


@pytest.mark.parametrize("limit", [SlidingWindow(10, per=60), *ALL_LIMITS], ids=lambda each: each.algorithm)
def test_values_are_read_as_the_core_reads_them(redis_server, redis_url, prefix, shared_memory_store, limit):
    clock = ManualClock(start=1_700_000_000)
    penalty = Penalty([1, 2])
    limiters = [
        Limiter(limit, name="read", store=store, clock=clock, penalty=penalty)
        for store in (redis_url, shared_memory_store)
    ]
    for wait in (0, 1, 30, 0, 0.001, 45, 7, 0, 0, 0, 0, 0, 100, 3):
        clock.advance(wait)
        for limiter in limiters:
            limiter.hit("x", cost=2)
        value = decoded(redis_server.ask("GET", f"{prefix}1:read:x"))
        *_, records = shared_memory_store._key("read", "x")
        kept, now = Value(0, [Record(*record) for record in records]), round(clock.now() * 1e6)
        assert value.limits(now) == kept.limits(now)
        assert value.lock(now) == kept.lock(now)


@pytest.mark.parametrize("value", [b"", b"1234567", b"x" * 9, b"x" * 28, bytes(8) + b"\xff" * 20])
def test_what_no_limiter_wrote_is_not_read(value):
    assert decoded(value) is None


def test_growth_is_what_was_charged_since():
    log = Record(1, 0, (300, 2, 5), [(100, 1), (200, 2)])
    later = Record(1, 0, (400, 1, 7), [(200, 2), (300, 4)])
    assert growth(log, later, "sliding_log") == 3
    window, next_window = Record(1, 60, (0, 60, 4), []), Record(1, 120, (60, 120, 2), [])
    assert growth(window, Record(1, 60, (0, 60, 5), []), "fixed_window") == 1
    assert growth(window, next_window, "fixed_window") == 2
    before, after = Record(1, 120, (0, 7, 4), []), Record(1, 180, (60, 6, 1), [])
    assert growth(before, after, "sliding_window_counter") == 3
    assert growth(None, window, "fixed_window") == 4


def test_watch_counts_what_is_charged(url):
    limiter = limiter_at(url, "100000/minute", name="api")
    limiter.hit("a")
    stop = threading.Event()

    def hit() -> None:
        while not stop.wait(0.01):
            limiter.hit("a", cost=2)

    thread = threading.Thread(target=hit)
    thread.start()
    try:
        answer = told(0, "watch", url, "--policy", "api", "--every", "0.2", "--count", "2")
    finally:
        stop.set()
        thread.join()
    charged = sum(row["charged"] for each in answer["samples"] for row in each["policies"])
    assert 2 <= charged <= limiter.peek("a", cost=0).limit.limit
    assert charged % 2 == 0
    assert (answer["samples"][0]["calls"] is None) == (not url.startswith("unix:"))


@pytest.mark.usefixtures("ctrl_c")
def test_watch_streams_json_without_a_count(url):
    limiter = limiter_at(url, "1000000/minute")
    command = [sys.executable, "-m", "overlimit", "watch", url, "--every", "0.1", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        charged = 0.0
        while charged == 0:
            limiter.hit("a")
            sample = json.loads(child.stdout.readline())
            charged = sum(each["charged"] for each in sample["policies"])
        child.send_signal(signal.SIGINT)
        assert child.wait(60) == 130


def test_bench_cleans_up(url, redis_server, prefix):
    answer = told(0, "bench", url, "--seconds", "0.1", "--threads", "2", "--identifiers", "40")
    assert answer["decisions"] > (4 if url.startswith("postgresql:") else 40)
    assert 0 < answer["seconds"]["p50"] <= answer["seconds"]["max"]
    left = told(0, "top", url)
    assert left["looked_at"] == left["forgotten"]  # a database keeps when somebody was reset, for an hour


@pytest.mark.usefixtures("ctrl_c")
def test_bench_cleans_up_after_ctrl_c(redis_server, redis_url, prefix):
    command = ["bench", redis_url, "--seconds", "600", "--threads", "3", "--identifiers", "50"]
    with subprocess.Popen(
        [sys.executable, "-m", "overlimit", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        eventually(lambda: len(redis_server.ask("KEYS", f"{prefix}*")) == 50)
        child.send_signal(signal.SIGINT)
        assert child.wait(PATIENCE) == 130
    assert redis_server.ask("KEYS", f"{prefix}*") == []


def test_the_shortest_bench_makes_a_call(redis_url):
    assert told(0, "bench", redis_url, "--seconds", "1e-300", "--threads", "2")["decisions"] == 2


def test_foreign_keys_are_counted_and_left_alone(redis_server, redis_url, prefix):
    redis_server.ask("SET", f"{prefix}1:login:text", "what another program wrote")
    redis_server.ask("RPUSH", f"{prefix}1:login:list", "a")
    redis_server.ask("SET", f"{prefix}1::", "x")
    limiter_at(redis_url).hit("user:42")
    answer = told(0, "top", redis_url)
    assert (answer["foreign"], len(answer["top"]), answer["looked_at"]) == (3, 1, 4)
    assert redis_server.ask("LRANGE", f"{prefix}1:login:list", 0, -1) == [b"a"]
    assert "has not written" in told(2, "show", redis_url, "--policy", "login", "list")["message"]


def test_keys_of_others_are_stepped_over_within_the_bound(start_redis):
    server = start_redis()
    with server.client() as client:
        client.mset({f"other:{number}": "x" for number in range(5000)})
    url = f"{server.unix_url()}&timeout={PATIENCE}"
    assert not told(0, "top", url, "--keys", "200")["is_complete"]
    answer = told(0, "top", url)
    assert (answer["is_complete"], answer["looked_at"], answer["foreign"]) == (True, 0, 0)


@pytest.mark.check
def test_top_on_many_keys_delays_nobody(start_redis):
    server = start_redis(options={"slowlog-log-slower-than": "5000", "slowlog-max-len": "100"})
    url = f"{server.unix_url()}&timeout={PATIENCE}"
    limiter = Limiter("1000/hour", name="api", store=url)
    limiter.hit("model")
    value = server.ask("GET", "ol1:api:model")
    with server.client() as client:
        for first in range(0, 100_000, 10_000):
            client.mset({f"ol1:api:user:{number}": value for number in range(first, first + 10_000)})
    server.ask("SLOWLOG", "RESET")
    stop, late = threading.Event(), []

    def hit() -> None:
        while not stop.wait(0.001):
            began = time.perf_counter()
            limiter.hit("busy")
            late.append(time.perf_counter() - began)

    thread = threading.Thread(target=hit)
    thread.start()
    try:
        answer = told(0, "top", url, "-n", "5")
    finally:
        stop.set()
        thread.join()
    assert answer["looked_at"] >= 100_000
    assert answer["is_complete"]
    assert answer["top"][0]["identifier"] == "busy"
    assert len(late) > 50
    # The machine may do something else in the middle of a command, but not in that of many.
    assert len(server.ask("SLOWLOG", "GET", 100)) < 10
    stats = server.ask("INFO", "commandstats").decode()
    took = dict(re.findall(r"cmdstat_(\w+):.*usec_per_call=([\d.]+)", stats))
    assert "keys" not in took
    assert float(took["scan"]) < 2000
    assert float(took["getrange"]) < 500


def test_a_url_may_come_from_the_environment(redis_url, monkeypatch):
    monkeypatch.setenv("LIMITS_URL", f"{redis_url}\n")
    assert told(0, "top", "env:LIMITS_URL")["status"] == "ok"


def test_texts_lose_their_secrets():
    assert without_secrets("to redis://user:pass@host:1/0 and") == "to redis://host:1/0 and"
    assert without_secrets("http:/user:pass@host/a@b") == "http:/host/a@b"
    assert without_secrets("?ssl_password=abc&x=1") == "?ssl_password=...&x=1"


def test_shared_memories_are_listed_looked_at_and_removed(shared_memory_url):
    base = shared_memory_url.partition("?")[0]
    limiter_at(shared_memory_url).hit("a")
    files = told(0, "shm", "list")["files"]
    assert [each["keys"] for each in files if each["url"] == base] == [1]
    assert base in printed("shm", "list")
    assert told(0, "shm", "show", shared_memory_url)["keys"] == 1
    assert "--yes" in refused(2, "shm", "remove", shared_memory_url, "--json")
    assert "is removed" in told(0, "shm", "remove", shared_memory_url, "--yes")["message"]
    assert told(2, "top", shared_memory_url)["status"] == "missing"
    assert told(2, "check", shared_memory_url, "--name", "a", "--limits", "1/s", "x")["status"] == "missing"
    assert refused(2, "shm", "show", shared_memory_url).startswith("missing: there is no shared memory")


def test_a_shared_memory_is_removed_only_on_a_yes(shared_memory_url, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    done = run("shm", "remove", shared_memory_url)
    assert done.returncode == 1
    assert done.stdout.endswith("Nothing is removed.\n")
    assert told(0, "shm", "show", shared_memory_url)["keys"] == 0
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert "--yes" in run("shm", "remove", shared_memory_url).stderr
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert "is removed." in printed("shm", "remove", shared_memory_url)


def test_help_of_every_command_has_an_example():
    for command in COMMANDS:
        text = printed(command.name, "--help")
        assert "--json" in text or command.name in ("shm", "stores")
        assert "Example" in text or command.name in ("shm", "stores")


COMPLETED = """
eval "$(_OVERLIMIT_COMPLETE=bash_source overlimit)"
complete_words() {
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
    _overlimit_completion overlimit
    echo "${COMPREPLY[*]}"
}
complete_words overlimit top env :
complete_words overlimit top env : STORE_URL --policy ""
complete_words overlimit top unix : //"$STORE_PATH?prefix" = "$STORE_PREFIX" --policy log
complete_words overlimit show env : STORE_URL --policy = a
"""


def test_bash_completes_words_that_it_takes_apart(start_redis, prefix):
    server = start_redis()  # completion looks at a few thousand keys at most
    redis_url = f"{server.unix_url()}&prefix={prefix}"
    for name in ("login", "logout", "api"):
        limiter_at(redis_url, name=name).hit("a")
    names = {"STORE_URL": redis_url, "STORE_PATH": str(server.socket_path), "STORE_PREFIX": prefix}
    scripts = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", COMPLETED],
        env={"PATH": scripts, **names},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [
        "STORE_URL",
        "api login logout",
        "login logout",
        "api",
    ]


def test_commands_print_no_warnings_of_programs(redis_url):
    program = "from overlimit.command_line import main; main()"
    check = ["check", f"{redis_url}&lease=0.5", "--policy", "login", "--limits", "3/minute", "a"]
    done = subprocess.run([sys.executable, "-c", program, *check], capture_output=True, text=True, check=True)
    assert "Nothing is leased: a limit grants less than" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("command", [["top"], ["doctor"], ["show", "--policy", "login", "ada"]])
def test_no_other_client_of_redis_is_needed(redis_url, command):
    from programs import run_without

    limiter_at(redis_url).hit("ada")
    arguments = ["overlimit", command[0], redis_url, *command[1:]]
    program = f"import sys; sys.argv = {arguments}\nfrom overlimit.command_line import main; main()"
    done = run_without("redis", program)
    assert (done.returncode, done.stderr) == (0, "")
    assert "login" in done.stdout or "healthy" in done.stdout


def test_a_store_pickles_no_secret_into_its_place(redis_url):
    place = StoreUrl().convert("redis://:hidden@localhost/0", None, None)
    assert "hidden" not in repr(place)
    assert isinstance(place.store, RedisStore)


def test_a_password_in_the_wrong_place_is_hinted_at(start_redis):
    server = start_redis(password="right")
    done = run("doctor", f"redis://hidden@127.0.0.1:{server.port}/0?timeout={PATIENCE}")
    assert done.returncode == 2
    assert " :password@host" in done.stderr
    assert "hidden" not in done.stdout + done.stderr


@pytest.mark.parametrize("name", ["ada", "x" * 300])
@pytest.mark.parametrize("hashed", [False, True])
def test_whoever_is_shown_as_a_hash_can_be_acted_on_by_it(url, name, hashed):
    url = f"{url}&hash_identifiers=true" if hashed and url.startswith("unix:") else url
    limiter = limiter_at(url)
    limiter.hit(name, cost=2)
    limiter.lock(name, 600)
    limiter.hit("other")
    (row,) = told(0, "locked", url)["locked"]
    about = [url, "--policy", row["policy"] if url.startswith("shm:") else "login", row["identifier"]]
    by_hash, by_name = (told(0, "show", *each) for each in (about, [*about[:2], "login", name]))
    assert by_hash["records"][0]["state"] == by_name["records"][0]["state"]
    assert by_hash["key"] == by_name["key"]
    assert [each["identifier"] for each in told(0, "top", *about[:3])["top"]].count(row["identifier"]) == 1
    assert told(0, "unlock", *about)["was_locked"] is True
    assert limiter.peek(name, cost=0).remaining == 1
    assert told(0, "unlock", *about)["was_locked"] is False
    told(0, "lock", *about, "60")
    assert limiter.hit(name).status == "locked"
    assert told(0, "reset", *about)["was_kept"] is True
    assert limiter.peek(name, cost=0).remaining == 3
    assert told(0, "reset", *about)["was_kept"] is False
    assert limiter.peek("other", cost=0).remaining == 2
    assert told(0, "unlock", url, "--policy", "other", row["identifier"])["was_locked"] is False


def test_a_hash_of_nobody_cannot_be_locked(shared_memory_url):
    message = refused(2, "lock", shared_memory_url, "--policy", "login", "#" + "0" * 24, "60")
    assert "name whom to lock" in message
    assert told(0, "top", shared_memory_url)["looked_at"] == 0


def test_until_when_processes_go_on_is_told(redis_url):
    whole = f"{redis_url}&lease=0.5&max_stale=2"
    for command in (["lock", "a", "60"], ["unlock", "a"], ["reset", "a"], ["reset", "--all"]):
        limiter_at(redis_url).hit("a")
        words = [command[0], whole, "--policy", "login", *command[1:]]
        assert "may go on as before for up to 2 s, by the options of the URL.\n" in printed(*words)
        assert told(0, *words)["noticed_within"] == 2.0


class TestFilesOfOthers:
    """What overlimit has not made is neither used nor shown nor removed, whatever its name."""

    @pytest.fixture(params=[b"", b"mine", b"x" * (1 << 20), b"ol" + bytes(500_000)], ids=len)
    def path(self, request, shared_memory, tmp_path):
        path = tmp_path / "diary"
        path.write_bytes(request.param)
        path.chmod(0o600)
        return path

    @pytest.mark.parametrize(
        "command",
        [["shm", "show"], ["shm", "remove", "--yes"], ["top"], ["locked"], ["doctor"],
         ["watch", "--every", "0.1", "--count", "1"], ["show", "--policy", "p", "x"],
         ["reset", "--policy", "p", "--all"], ["lock", "--policy", "p", "x", "9"]],
        ids=" ".join,
    )  # fmt: skip
    def test_are_left_alone(self, path, command):
        before = path.read_bytes()
        place = 2 if command[0] == "shm" else 1
        done = run(*command[:place], f"shm://{path}", *command[place:])
        assert done.returncode == 2
        assert "is not one of overlimit's" in done.stderr
        assert "shm remove" not in done.stdout + done.stderr
        assert path.read_bytes() == before

    def test_are_not_listed(self, shared_memory_url):
        own = SharedMemoryStore(shared_memory_url.partition("?")[0].removeprefix("shm://"))
        path = Path(f"{own.path[:-3]}x-v3")
        path.write_bytes(b"mine")
        try:
            listed = [each["path"] for each in told(0, "shm", "list")["files"]]
            assert own.path in listed
            assert str(path) not in listed
            name = own.endpoint.removeprefix("shm://")
            assert [each["path"] for each in told(0, "shm", "list", f"{name[:-1]}?")["files"]] == [own.path]
            assert told(0, "shm", "list", "--own", "nobody*")["files"] == []
            path.unlink()
            os.mkfifo(path)
            assert "not a regular file" in run("shm", "remove", f"shm://{path}", "--yes").stderr
        finally:
            path.unlink()

    def test_unlink_leaves_them(self, path):
        before = path.read_bytes()
        with pytest.raises(StoreConfigError, match="is left alone"):
            SharedMemoryStore(path).unlink()
        assert path.read_bytes() == before


@pytest.mark.parametrize("damage", ["cut", "version", "mode"])
def test_a_file_that_cannot_be_opened_says_so_and_can_be_removed(shared_memory, tmp_path, damage):
    path = tmp_path / "limits"
    SharedMemoryStore(path, max_bytes=1 << 18, max_keys=100).ping()
    if damage == "cut":
        os.truncate(path, 4096)
    elif damage == "version":
        with path.open("r+b") as file:
            file.seek(8)
            file.write(b"\x63")
    else:
        path.chmod(0o644)
    url = f"shm://{path}"
    for command in (["shm", "show"], ["top"], ["locked"], ["doctor"]):
        done = run(*command, url, "--json")
        assert done.returncode == 2
        assert re.search("damaged, too short by far|has version 99|has the mode 644", done.stderr)
        assert json.loads(done.stdout)["status"] == "broken"
    assert "is removed" in told(0, "shm", "remove", url, "--yes")["message"]
    assert not path.exists()


class TestStoresInDatabases:
    def test_init_makes_what_is_missing(self, tmp_path, postgresql_server, prefix):
        for url in (f"sqlite:///{tmp_path}/new.db", postgresql_server.url(table=prefix)):
            assert "has its table" in printed("stores", "init", url)
            assert "has its table" in printed("stores", "init", url)
            assert told(0, "top", url)["looked_at"] == 0
            assert told(0, "doctor", url)["status"] == "healthy"
            assert told(0, "top", url)["looked_at"] == 0
        assert "there is nothing to make" in refused(2, "stores", "init", "redis://localhost")

    def test_no_command_but_init_makes_a_file_or_a_table(self, tmp_path, postgresql_server, prefix):
        database = postgresql_server.url(table=prefix)
        whom = ["--policy", "login", "a"]
        for url, what in ((f"sqlite:///{tmp_path}/none.db", "file"), (database, f"table {prefix}")):
            for command in ("doctor", "top", "locked", "show", "check", "reset", "lock", "watch", "bench"):
                more = {"check": [*whom, "--limits", "3/minute", "--hit"], "lock": [*whom, "60"]}
                done = run(command, url, *more.get(command, whom if command in ("show", "reset") else []))
                assert (done.returncode, f"there is no {what}" in done.stderr) == (2, True)
                assert "run `overlimit stores init URL` to make it" in done.stderr.replace("Run", "run")
        assert list(tmp_path.iterdir()) == []
        assert postgresql_server.ask(f"SELECT to_regclass('{prefix}')") == [(None,)]

    def test_doctor_says_what_a_role_needs(self, postgresql_server, prefix):
        postgresql_server.ask(f"CREATE ROLE app_{prefix} LOGIN")
        printed("stores", "init", postgresql_server.url(table=prefix))
        url = postgresql_server.url(user=f"app_{prefix}", table=prefix)
        said = run("doctor", url).stderr
        assert f"permission denied for table {prefix}. Run `overlimit stores init URL` as a role" in said
        assert f"then GRANT SELECT, INSERT, UPDATE, DELETE ON {prefix} to this role." in said
        postgresql_server.ask(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {prefix} TO app_{prefix}")
        assert told(0, "doctor", url)["status"] == "healthy"

    def test_what_the_server_says_is_shown_without_a_traceback(self, postgresql_url):
        url = postgresql_url.replace("/postgres?", "/nowhere?")
        for command in (["top", url], ["show", url, "--policy", "login", "a"], ["doctor", url]):
            done = run(*command)
            assert (done.returncode, 'database "nowhere" does not exist' in done.stderr) == (2, True)
            assert "Traceback" not in done.stderr

    def test_values_that_are_damaged_are_not_taken_for_counts(self, tmp_path):
        import sqlite3
        from contextlib import closing

        url = f"sqlite:///{tmp_path}/limits.db"
        limiter_at(url, "3/minute").hit("a")
        with closing(sqlite3.connect(tmp_path / "limits.db")) as connection, connection:
            connection.execute("UPDATE overlimit_counts SET value = value || x'00'")
        assert told(0, "top", url)["foreign"] == 1
        assert "holds what overlimit has not written" in refused(2, "show", url, "--policy", "login", "a")
        assert limiter_at(url, "3/minute").hit("a").remaining == 2
