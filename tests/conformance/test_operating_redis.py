"""What docs/guides/operations.md has operators do to a server: its commands are run as shown.

Their user can do all that a limiter does and nothing else, and where no scripts can be run, an error says so.
"""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import redis

from overlimit import Limiter, Penalty, RedisStore, StoreConfigError
from servers.patience import PATIENCE, eventually

PAGE = (Path(__file__).parents[2] / "docs/guides/operations.md").read_text(encoding="utf-8")


def commands_of(heading: str) -> list[list[str]]:
    """Return the commands that a section shows, without the program that sends them."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^ {7}(?:redis-cli -h cache\.example )?([A-Z].*)$", section, re.MULTILINE)
    return [line.split() for line in lines]


def limiter_at(url: str) -> Limiter:
    return Limiter("3/day", name="backup", store=RedisStore(url, timeout=PATIENCE))


def takes(server, password: str) -> bool:
    """Whether a program that begins with this password is let in."""
    with redis.Redis(port=server.port, username="limiter", password=password) as client:
        try:
            return bool(client.ping())
        except redis.AuthenticationError:
            return False


def test_a_password_is_changed_without_a_refused_call(start_redis):
    server = start_redis()
    add, remove = commands_of("Change a password")
    server.ask("ACL", "SETUSER", "limiter", "on", ">old-password", "~ol1:*", "+@all")
    running = limiter_at(server.tcp_url().replace("redis://", "redis://limiter:old-password@"))
    assert running.hit("a").remaining == 2
    server.ask(*add)
    assert [takes(server, "old-password"), takes(server, "new-password")] == [True, True]
    server.ask(*remove)
    assert [takes(server, "old-password"), takes(server, "new-password")] == [False, True]
    assert running.hit("a").remaining == 1  # its connection stays logged in
    assert b"user=limiter" in server.ask("CLIENT", "LIST")


def test_a_backup_is_restored_by_a_server_that_begins_without_an_append_only_file(start_redis):
    save, when, append = commands_of("Backup and restore")
    server = start_redis()
    limiter_at(server.tcp_url()).hit("a", cost=2)
    before = server.ask(*when)
    eventually(lambda: server.ask("TIME")[0] > str(before).encode())
    server.ask(*save)
    eventually(lambda: server.ask(*when) > before)
    copy = (server.directory / "dump.rdb").read_bytes()

    for appends, left in (("yes", 3), ("no", 1)):
        restored = start_redis()
        restored.kill()
        (restored.directory / "dump.rdb").write_bytes(copy)
        restored.restart(appendonly=appends)
        assert limiter_at(restored.tcp_url()).peek("a", cost=0).remaining == left
    restored.ask(*append)
    eventually(lambda: b"aof_rewrite_in_progress:0" in restored.ask("INFO", "persistence"))
    restored.kill()
    restored.restart(appendonly="yes")
    assert limiter_at(restored.tcp_url()).peek("a", cost=0).remaining == 1


@pytest.fixture
def user_url(redis_server):
    rules = re.search(r"^ +ACL SETUSER limiter on >password (.*)$", PAGE, re.MULTILINE)
    assert rules is not None
    with closing(redis_server.client()) as admin:
        admin.execute_command("ACL", "SETUSER", "limiter", "on", ">password", *rules[1].split())
        yield redis_server.unix_url().replace("unix://", "unix://limiter:password@")
        admin.acl_deluser("limiter")


def test_may_do_all_that_a_limiter_does(user_url):
    store = RedisStore(user_url, timeout=5)
    limiter = Limiter("2/minute", name="acl", store=store, penalty=Penalty(1))
    decision = limiter.hit("a", "b")
    assert decision.remaining == 1
    assert limiter.peek("a").remaining == 0
    limiter.refund(decision)
    assert limiter.peek("a", cost=0).remaining == 2
    limiter.lock("a", 5)
    assert limiter.hit("a").status == "locked"
    limiter.reset("a")
    assert limiter.hit("a")
    limiter.reset_all()
    assert limiter.peek("a", cost=0).remaining == 2


def test_may_not_touch_other_keys(user_url):
    store = RedisStore(user_url, timeout=5, prefix="other")
    with pytest.raises(StoreConfigError):
        Limiter("2/minute", name="acl", store=store).hit("a")


def test_a_server_without_scripts_is_told(start_redis):
    url = start_redis(options={"rename-command": ["EVALSHA", ""]}).unix_url()
    with pytest.raises(
        StoreConfigError, match="runs no Lua scripts, which decide calls: load its module"
    ) as told:
        Limiter("2/minute", name="acl", store=RedisStore(url, timeout=5)).hit("a")
    assert not told.value.maybe_charged
    doctor = [sys.executable, "-m", "overlimit", "doctor", url]
    done = subprocess.run(doctor, capture_output=True, text=True, check=False)
    assert (done.returncode, "runs no Lua scripts" in done.stdout) == (2, True)


def test_a_user_who_may_run_no_scripts_is_told(redis_server):
    with closing(redis_server.client()) as admin:
        admin.execute_command("ACL", "SETUSER", "poor", "on", ">word", "~*", "+@all", "-evalsha")
        url = redis_server.unix_url().replace("unix://", "unix://poor:word@")
        with pytest.raises(StoreConfigError, match=r"'evalsha' command.*; grant the user of the URL"):
            Limiter("2/minute", name="acl", store=RedisStore(url, timeout=5)).hit("a")
        admin.acl_deluser("poor")
