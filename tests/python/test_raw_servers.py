"""What looks after a store asks its servers: any command, answered as it is."""

from __future__ import annotations

import pytest

from overlimit import RedisStore, _core
from overlimit.errors import ScriptError, StoreConfigError, StoreTimeout
from servers.patience import PATIENCE

PATIENT = round(PATIENCE * 1e6)


def test_answers_come_as_they_are_and_in_order(redis_server, prefix):
    (server,) = _core.raw_servers(RedisStore(redis_server.tcp_url())._location, PATIENT)
    assert server.name == f"127.0.0.1:{redis_server.port}"
    key = f"{prefix}:list"
    commands = [
        ("RPUSH", key, b"\xff\0", "b"),
        ("LRANGE", key, "0", "-1"),
        ("GET", f"{prefix}:none"),
        ("PING",),
    ]
    nested = ("EVAL", "return {1, {'a', {}}}", "0")
    assert server.ask([*commands, nested]) == [2, [b"\xff\0", b"b"], None, b"PONG", [1, [b"a", []]]]
    assert server.ask([]) == []
    assert server.certificate_left() is None


def test_an_error_is_what_a_store_would_raise_and_does_not_hide_other_answers(redis_server, prefix):
    redis_server.ask("ACL", "SETUSER", "few", "on", ">hidden", "~*", "+get", "+set")
    url = redis_server.tcp_url().replace("://", "://few:hidden@")
    (server,) = _core.raw_servers(RedisStore(url)._location, PATIENT)
    commands = [("SET", f"{prefix}:x", "1"), ("TIME",), ("SET", "x"), ("GET", f"{prefix}:x")]
    done, refused, wrong, read = server.ask(commands)
    redis_server.ask("ACL", "DELUSER", "few")
    assert (done, read) == (b"OK", b"1")
    assert (type(refused), type(wrong)) == (StoreConfigError, ScriptError)
    assert f'redis at {server.name} answered "NOPERM' in str(refused)


def test_a_server_that_hangs_is_waited_for_as_long_as_is_said(start_redis):
    server = start_redis()
    (asked,) = _core.raw_servers(RedisStore(server.tcp_url())._location, 100_000)
    server.pause()
    with pytest.raises(StoreTimeout, match=r"timeout=0\.1"):
        asked.ask([("PING",)])


def test_a_key_leads_to_the_master_that_has_it(start_cluster):
    cluster = start_cluster(masters=3)
    location = RedisStore(cluster.url())._location
    every = _core.raw_servers(location, PATIENT)
    assert {each.name for each in every} == {f"127.0.0.1:{each.port}" for each in cluster.masters}
    for key in ("a", "b", "{c}d"):
        (owner,) = _core.raw_servers(location, PATIENT, key)
        assert owner.name == f"127.0.0.1:{cluster.owner_of(cluster.slot_of(key)).port}"
        assert owner.ask([("SET", key, "1"), ("GET", key)]) == [b"OK", b"1"]
