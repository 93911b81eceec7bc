"""What docs/guides/operations.md has operators do to a server: its commands are run as shown."""

from __future__ import annotations

import re
from pathlib import Path

import redis

from overlimit import Limiter, RedisStore
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
