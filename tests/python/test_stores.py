"""Stores by URL, and the bounds of the memory store as a user sees them."""

from __future__ import annotations

import copy
import gc
import importlib.metadata
import pickle
import re
import time
import weakref
from pathlib import Path

import pytest
import redis
from flask import Flask

import overlimit
import programs
from overlimit import Limiter, ManualClock, MemoryStore, RedisStore, SharedMemoryStore, StoreConfigError
from overlimit.flask import RateLimit
from overlimit.http.options.storage_urls import store_url
from overlimit.stores import as_store
from overlimit.stores.shared_memory import lease_file_of


def test_the_package_is_installed_as_the_version_it_says():
    assert importlib.metadata.version("overlimit") == overlimit.__version__


def outcome_of(make):
    try:
        return type(make())
    except StoreConfigError as error:
        return str(error)


def test_shared_memory_is_there_or_says_when_it_is_asked_for_what_to_use_instead():
    outcome = outcome_of(lambda: SharedMemoryStore("myapp"))
    assert outcome_of(lambda: Limiter("5/minute", name="p", store="shm://myapp").store) == outcome
    assert outcome is SharedMemoryStore or re.search("on Linux only: use Redis on a unix socket", outcome)


def test_a_store_says_what_others_would_ask_its_class():
    stores = [MemoryStore(), RedisStore("redis://localhost"), as_store("memory://")]
    assert [(each.waits, each.is_shared) for each in stores] == [(False, False), (True, True), (False, False)]
    sources = [path.read_text("utf-8") for path in Path(overlimit.__file__).parent.rglob("*.py")]
    assert len(sources) > 200
    assert not [each for each in sources if re.search(r"isinstance\([^)]*(Memory|Redis)Store", each)]


class TestUrls:
    @pytest.mark.parametrize(
        ("url", "shown"),
        [
            ("redis://localhost", "redis://localhost:6379/0"),
            ("valkey://example.org:7000/5", "redis://example.org:7000/5"),
            ("redis://user:se%3Acret@[::1]:6380/1", "redis://[::1]:6380/1"),
            ("rediss://:secret@localhost?ssl_password=secret", "rediss://localhost:6379/0"),
            ("valkeys://example.org:7000/5", "rediss://example.org:7000/5"),
            ("unix:///run/redis.sock?db=2", "unix:///run/redis.sock?db=2"),
            ("unix://user:secret@/run/redis.sock", "unix:///run/redis.sock?db=0"),
            ("redis+unix://:secret@/run/redis.sock?db=2", "unix:///run/redis.sock?db=2"),
            ("valkey+unix:///run/redis.sock", "unix:///run/redis.sock?db=0"),
            ("redis+sentinel://one,[::1]:5/cache", "redis+sentinel://one:26379,[::1]:5/cache/0"),
            ("valkeys+sentinel://u:secret@one:1/cache/3", "rediss+sentinel://one:1/cache/3"),
            ("redis+sentinel://one/cache?db=3", "redis+sentinel://one:26379/cache/3"),
            ("valkeys://localhost/2?db=3", "rediss://localhost:6379/3"),
            ("redis+sentinel://one/cache/1?db=3", "redis+sentinel://one:26379/cache/3"),
            ("redis+cluster://one/1?db=0", "redis+cluster://one:6379"),
            ("redis+cluster://u:secret@one,two:7001", "redis+cluster://one:6379,two:7001"),
            ("rediss+cluster://:secret@one/0", "rediss+cluster://one:6379"),
            ("valkey+cluster://one/?db=0", "redis+cluster://one:6379"),
        ],
    )
    def test_a_store_shows_where_it_is_and_never_the_password(self, url, shown):
        assert repr(RedisStore(url)) == f"RedisStore({shown!r})"

    @pytest.mark.parametrize("scheme", ["redis://localhost", "rediss://localhost", "unix:///run"])
    def test_the_database_is_that_of_redis_py(self, scheme):
        paths, queries = (
            ["", "/", "/0", "/1", "/7"],
            ["", "?db=0", "?db=3", "?db=", "?timeout=5", "?db=3&timeout=5"],
        )
        for url in (f"{scheme}{path}{query}" for path in paths for query in queries):
            theirs = redis.ConnectionPool.from_url(url).connection_kwargs.get("db", 0)
            shown = repr(RedisStore(url))
            assert repr(RedisStore(store_url(url))) == shown
            assert f"/{theirs}'" in shown or f"?db={theirs}'" in shown, url

    @pytest.mark.parametrize(
        ("url", "message"),
        [
            ("http://localhost:6379", "this one begins with http://"),
            ("localhost:6379", "this one has none: write 'redis://localhost:6379/0'"),
            ("redis//localhost", "redis://"),
            ("memory", "write 'memory://', not 'memory'"),
            ("shm:/app", "'shm://myapp'"),
            ("smh://app", "look like 'shm://myapp'"),
            ("memory://x", "is 'memory://', with nothing behind it"),
            ("unix:/tmp/r/s", "three slashes"),
            ("/tmp/r/s", "three slashes"),
            ("redis://localhost?ssl_ca_certs=ca.pem", "ssl_ca_certs.*rediss://"),
            ("unix:///run/redis.sock?ssl_cert_reqs=none", "ssl_cert_reqs.*rediss://"),
            ("unix://run/redis.sock", "three slashes, as in unix:///run"),
            ("unix://user:secret@run/redis.sock", "three slashes, as in unix:///run"),
            ("rediss://localhost?ssl_cert_reqs=optional", "ssl_cert_reqs"),
            ("rediss://localhost?ssl_check_hostname=maybe", "ssl_check_hostname"),
            ("rediss://localhost?ssl_keyfile=a.key", "ssl_certfile"),
            ("rediss://localhost?ssl_ciphers=all", "ssl_ciphers"),
            ("rediss://localhost?ssl_password=", "ssl_password"),
            ("redis://localhost/abc", "number"),
            ("redis://u:secret@localhost/2147483648", "number"),
            ("redis://localhost/0?db=x", "number"),
            ("redis://localhost/x?db=3", "number"),
            ("redis://localhost?db=-1", "number"),
            ("redis://localhost?db=%D9%A3", "number"),
            (f"redis://localhost/{'9' * 5000}", "number"),
            ("redis://localhost?db=1&db=2", "twice"),
            ("unix:///run/redis.sock?db=1.0", "number"),
            ("redis+sentinel://one/cache/1?db=x", "number"),
            ("redis+cluster://one/0?db=1", "database"),
            ("redis://bob:sec/ret@localhost:6379/0", "percent-encoded"),
            ("redis://:sec?ret=1@localhost/0", "percent-encoded"),
            ("redis://:sec#ret@localhost/0", "percent-encoded"),
            ("redis://localhost:99999", "port"),
            ("redis://:secret\n@localhost", r"has '\\n' within"),
            ("redis://localhost\n:6379/0", r"has '\\n' within"),
            ("redis://localhost?tiemout=1", "unknown option 'tiemout': write timeout="),
            ("redis://localhost?timeout=soon", "timeout"),
            ("redis://localhost?prefix=a:b", "prefix"),
            ("unix://", "path"),
            ("redis://localhost:0", "port"),
            ("postgresql://u:secret@localhost:99999/db", "port .* from 1 to 65535, not '99999'"),
            ("postgresql://u:secret@one:5432,two:x/db", "port .* from 1 to 65535, not 'x'"),
            ("postgresql://localhost/db?max_connections=1.5", "max_connections .* number from 1 .*'1.5'"),
            ("postgresql://localhost/db?max_connections=0", "max_connections .* number from 1 .*'0'"),
            ("redis://one:1,two:2/0", r"redis\+sentinel://.*redis\+cluster://"),
            ("redis+sentinel://one:1,two:2", "service"),
            ("redis+sentinel://one:1/my service/0", "service"),
            ("redis+sentinel://one:1/cache/x", "number"),
            ("redis+sentinel://one:1,,two:2/cache", "host"),
            ("redis+sentinel:///cache", "host"),
            ("redis+sentinel://u:sec/ret@one/cache", "percent-encoded"),
            ("redis+cluster://one:1/1", "database"),
            ("redis+cluster://one:1?db=2", "database"),
            ("redis+cluster://one:x", "port"),
            ("redis+cluster://u:sec,ret@", "host"),
            ("redis+cluster://one?tiemout=1", "tiemout"),
            ("redis+sentinels://one/cache", "redis\\+sentinel://"),
            ("unix+cluster:///run/redis.sock", "redis\\+cluster://"),
            ("redis+://one", "redis://"),
            ("redis+cluster://one?ssl_cert_reqs=none", "ssl_cert_reqs.*rediss://"),
            ("redis://localhost?hash_tag=both", "hash_tag"),
            ("redis://localhost?hash_identifiers=2", "hash_identifiers"),
        ],
    )
    def test_a_wrong_url_is_a_value_error_that_names_what_is_wrong(self, url, message):
        with pytest.raises(ValueError, match=message) as caught:
            Limiter("5/minute", name="default", store=url)
        assert "sec" not in str(caught.value).replace("seconds", "")

    def test_an_address_of_ipv6_is_shown_in_brackets(self):
        assert as_store("postgresql://u:secret@[::1]:5433/db").endpoint == "postgresql://u@[::1]:5433/db"

    @pytest.mark.parametrize(
        ("option", "wrong"),
        [
            ("timeout", [0, -1, float("nan"), float("inf"), "1", True, None]),
            ("prefix", [None, 5, "a b"]),
            ("hash_tag", ["slot", 1.5, None, b"policy", ""]),
            ("hash_identifiers", ["often", 1, None]),
        ],
    )
    def test_a_wrong_option_is_named_and_the_password_is_not(self, option, wrong):
        for value in wrong:
            with pytest.raises((ValueError, TypeError), match=option) as caught:
                RedisStore("redis://u:secret@localhost", **{option: value})
            assert "secret" not in str(caught.value)

    @pytest.mark.parametrize("site", ["redis://127.0.0.1:1/0", "redis+cluster://no-such-host.invalid:1"])
    def test_building_connects_to_nothing(self, site):
        Limiter("5/minute", name="default", store=site)

    def test_options_of_keys_are_shown(self):
        store = RedisStore("redis+cluster://one?hash_tag=prefix", hash_identifiers=True)
        assert repr(store) == (
            "RedisStore('redis+cluster://one:6379', hash_tag='prefix', hash_identifiers=True)"
        )
        assert repr(pickle.loads(pickle.dumps(store))) == repr(store)


class TestKeys:
    SHA256_OF_A = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"

    @pytest.mark.parametrize(
        ("options", "key"),
        [
            ({}, "{prefix}1:api:a"),
            ({"hash_tag": False}, "{prefix}1:api:a"),
            ({"hash_tag": "policy"}, "{{{prefix}1:api}}:a"),
            ({"hash_tag": True}, "{{{prefix}1:api}}:a"),
            ({"hash_tag": "prefix"}, "{{{prefix}1}}:api:a"),
            ({"hash_identifiers": True}, "{prefix}1:api#{a}"),
            ({"hash_tag": "prefix", "hash_identifiers": True}, "{{{prefix}1}}:api#{a}"),
        ],
    )
    def test_a_key_is_named_as_the_options_say(self, redis_server, prefix, options, key):
        of_url = f"{redis_server.tcp_url()}?timeout=10&prefix={prefix}"
        of_url += "".join(f"&{name}={str(value).lower()}" for name, value in options.items())
        for store in (
            RedisStore(redis_server.unix_url(), timeout=10, prefix=prefix, **options),
            RedisStore(of_url),
        ):
            limiter = Limiter("2/minute", store=store, name="api")
            limiter.hit("a", "b")
            with redis_server.client() as client:
                assert client.exists(key.format(prefix=prefix, a=self.SHA256_OF_A)) == 1
                limiter.reset("b")
                assert len(client.keys(f"*{prefix}1*")) == 1
                limiter.hit("x" * 300)
                limiter.reset_all()
                assert client.keys(f"*{prefix}1*") == []
            assert limiter.peek("a", cost=0).remaining == 2


class TestSharing:
    def test_memory_is_one_store_of_the_process_and_one_per_clock(self):
        one, other = ManualClock(), ManualClock()
        assert as_store("memory://") is as_store("memory://")
        assert as_store("memory://", one) is as_store("memory://", one)
        assert as_store("memory://", one) is not as_store("memory://", other)
        assert as_store("memory://", one) is not as_store("memory://")

    def test_the_store_of_a_clock_goes_with_it(self):
        clock = ManualClock()
        gone = weakref.ref(as_store("memory://", clock))
        assert gone() is not None
        del clock
        gc.collect()
        assert gone() is None

    def test_clocks_are_told_apart_by_identity(self):
        class Equal:
            __slots__ = ()

            def now(self):
                return 5.0

            def __eq__(self, other):
                return True

            def __hash__(self):
                return 1

        one, other = Equal(), Equal()
        assert as_store("memory://", one) is as_store("memory://", one)
        assert as_store("memory://", one) is not as_store("memory://", other)
        assert as_store("memory://", one.now) is as_store("memory://", one.now)
        assert as_store("memory://", time.time) is not as_store("memory://", time.monotonic)

    def test_a_url_is_one_store(self):
        one = as_store("redis://127.0.0.1:1/0")
        assert as_store("redis://127.0.0.1:1/0") is one
        assert as_store("redis://127.0.0.1:1/1") is not one

    @pytest.mark.usefixtures("shared_memory")
    @pytest.mark.parametrize("around", ["{}\n", "{}\r\n", " {}\t"])
    def test_white_space_around_a_url_as_from_a_file_of_secrets_is_none_of_it(self, around, tmp_path):
        assert as_store(around.format("memory://")) is as_store("memory://")
        socket, leases = f"unix://{tmp_path}/redis.sock?lease=1", f"&lease_in=shm://{tmp_path}/leases"
        for url in ("redis://127.0.0.1:1/0", "redis+sentinel://h/master", socket + leases):
            assert as_store(around.format(url)) is as_store(url)
            assert repr(RedisStore(around.format(url))) == repr(RedisStore(url))
        shared = f"shm://{tmp_path}/counts?max_keys=1000"
        assert as_store(around.format(shared)) is as_store(shared)
        assert lease_file_of(around.format("shm://myapp")) == lease_file_of("shm://myapp")

    def test_an_app_takes_a_url_with_a_line_break_for_its_own_memory_too(self):
        limited = [Flask(name) for name in ("one", "other")]
        for app in limited:
            RateLimit(app, default_limits="1/minute", store="memory://\n")
            app.add_url_rule("/", view_func=lambda: "ok")
        asked = [app.test_client().get("/").status_code for app in limited for _ in range(2)]
        assert asked == [200, 429, 200, 429]

    def test_a_redis_store_pickles_without_its_connections(self, redis_server, prefix):
        store = RedisStore(redis_server.unix_url(), timeout=10, prefix=prefix)
        limiter = Limiter("2/minute", name="default", store=store)
        assert limiter.hit("a")
        assert pickle.loads(pickle.dumps(limiter)).hit("a")
        assert not limiter.hit("a")
        assert repr(copy.copy(store)) == repr(store)


class TestMemoryStore:
    def test_it_shows_its_bounds(self):
        assert repr(MemoryStore(5, 1 << 20)) == "MemoryStore(max_keys=5, max_bytes=1048576)"

    def test_its_length_is_the_keys_it_tracks_and_it_is_always_true(self):
        store = MemoryStore()
        assert (len(store), bool(store)) == (0, True)
        Limiter("5/minute", name="default", store=store).hit("a", "b")
        assert len(store) == 2

    @pytest.mark.parametrize(
        ("bounds", "message"),
        [
            ({"max_keys": 0}, "max_keys must be at least 1, not 0"),
            ({"max_keys": -1}, "max_keys must be at least 1, not -1"),
            ({"max_keys": 2**70}, "max_keys must be at most"),
            ({"max_bytes": 1}, "max_bytes must be from 65536"),
            ({"max_bytes": -1}, "max_bytes must be at least 65536, not -1"),
            ({"max_bytes": 2**43 + 1}, r"max_bytes must be .*\(8 TiB\)"),
            ({"max_bytes": 2**70}, "max_bytes must be at most"),
        ],
    )
    def test_impossible_bounds_are_a_value_error(self, bounds, message):
        with pytest.raises(ValueError, match=message):
            MemoryStore(**bounds)

    @pytest.mark.parametrize("limits", ["1/minute", "3/minute", "6/minute burst 6"])
    def test_past_its_bounds_a_peek_answers_what_a_hit_would(self, limits):
        store, clock = MemoryStore(max_keys=1), ManualClock(1000.0)
        limiter = Limiter(limits, name="default", store=store, clock=clock)
        limiter.hit("known")
        for identifiers in (("x", "y"), ("x",), ("y", "z", "x"), ("w", "known")):
            for cost in (0, 1, 2):
                peeked, hit = limiter.peek(*identifiers, cost=cost), limiter.hit(*identifiers, cost=cost)
                assert peeked.details == hit.details
                assert (peeked.status, peeked.retry_after) == (hit.status, hit.retry_after)
        assert len(store) == 1


class TestLimiters:
    def test_a_limiter_shows_what_it_was_built_from(self):
        limiter = Limiter("10/second", name="api", store="redis://127.0.0.1:1/0")
        assert "SlidingWindow(10, per=1)" in repr(limiter)
        assert "'api'" in repr(limiter)
        assert (limiter.name, len(limiter.limits), limiter.clock) == ("api", 1, None)

    def test_a_limiter_that_was_never_initialised_says_so(self):
        class Forgetful(Limiter):
            def __init__(self) -> None:
                pass

        with pytest.raises(RuntimeError, match="__init__"):
            Forgetful().hit("a")

    def test_a_forked_child_is_warned_once_that_memory_is_not_shared(self):
        script = """
            import os, sys
            from overlimit import Limiter
            first, second = Limiter("5/minute", name="one"), Limiter("5/minute", name="two")
            first.hit("a"), first.hit("a")
            if os.fork() == 0:
                new = Limiter("9/day", name="new")
                print(*(limiter.hit("a").remaining for limiter in (first, second, new)))
                sys.stdout.flush()
                os._exit(0)
            os.wait()
            print(first.hit("a").remaining)
        """
        done = programs.run(script)
        assert done.stdout.split() == ["2", "4", "8", "2"]
        assert done.stderr.count("a store= that they share") == 1
