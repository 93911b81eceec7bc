"""Commands for operators where something is wrong: each says what in a line, and leaves nothing behind."""

from __future__ import annotations

import os
import re

import pytest

from overlimit import SharedMemoryStore
from servers.patience import PATIENCE, eventually

from .test_commands import run
from .test_operating import limiter_at

COMMANDS = {
    "doctor": ["doctor"],
    "top": ["top"],
    "show": ["show", "--policy", "login", "ada"],
    "locked": ["locked"],
    "watch": ["watch", "--every", "0.1", "--count", "1"],
}
FINE = dict.fromkeys(COMMANDS, 0)
BROKEN = dict.fromkeys(COMMANDS, 2)


def check(url: str, codes: dict[str, int], says: str, *, left: object = lambda: None) -> None:
    """Run all commands; those that end with 2 must say so in one line with these words."""
    before = left()
    for name, (command, *words) in COMMANDS.items():
        done = run(command, url, *words)
        assert done.returncode == codes[name], (name, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        assert "secret" not in done.stdout + done.stderr
        if codes[name] == 2:
            assert re.match("(unreachable|broken): ", done.stderr), done.stderr
            assert re.search(says, done.stderr), (name, done.stderr)
        elif codes[name] == 1 and says:
            assert re.search(says, done.stdout), (name, done.stdout)
    assert left() == before


def keys_of(server):
    return lambda: sorted(server.ask("KEYS", "*"))


def at(server, user: str = "") -> str:
    return f"redis://{user}127.0.0.1:{server.port}/0?timeout={PATIENCE}"


def test_nobody():
    check("redis://:secret@127.0.0.1:1/0", BROKEN, "cannot connect|Connection refused")


def test_a_wrong_password(start_redis):
    check(at(start_redis(password="right"), ":secret@"), BROKEN, "WRONGPASS|invalid username-password")


def test_few_rights(start_redis):
    server = start_redis()
    limiter_at(at(server)).hit("ada")
    server.ask("ACL", "SETUSER", "few", "on", ">secret", "~ol1:*", "+get", "+select", "+ping")
    codes = BROKEN | {"show": 2}
    check(
        at(server, "few:secret@"), codes, "NOPERM|may not run|permissions|no permission", left=keys_of(server)
    )


def test_a_read_only_replica(start_redis):
    master = start_redis()
    limiter_at(at(master)).hit("ada")
    replica = start_redis(replica_of=master)
    eventually(lambda: replica.ask("KEYS", "*") == [b"ol1:login:ada"])
    url = at(replica).replace(f"timeout={PATIENCE}", "timeout=0.5")
    check(url, FINE | {"doctor": 2}, "READONLY", left=keys_of(replica))


def test_a_server_that_evicts(start_redis):
    server = start_redis(options={"maxmemory": "100mb", "maxmemory-policy": "allkeys-lru"})
    limiter_at(at(server)).hit("ada")
    check(at(server), FINE | {"doctor": 1}, "maxmemory-policy is allkeys-lru", left=keys_of(server))


def test_a_full_server(start_redis):
    server = start_redis()
    limiter_at(at(server)).hit("ada")
    server.ask("CONFIG", "SET", "maxmemory", "1")
    check(at(server), FINE | {"doctor": 2}, "OOM", left=keys_of(server))


def test_a_cluster_with_a_dead_node_and_a_node_of_it_by_itself(start_cluster):
    cluster = start_cluster(masters=3)
    url = f"{cluster.url()}?timeout={PATIENCE}"
    limiter_at(url).hit("ada")
    owner = cluster.owner_of(cluster.slot_of("ol1:login:ada"))
    down = next(each for each in cluster.masters if each is not owner)
    check(at(owner), FINE | {"doctor": 2}, r"redis\+cluster://", left=keys_of(owner))
    down.kill()
    eventually(lambda: owner.state() == "ok" and owner.known_slots() > 0)
    check(url, BROKEN | {"show": 0}, str(down.port), left=keys_of(owner))
    done = run("doctor", url)
    healthy = [each for each in cluster.masters if each is not down]
    assert all(f"127.0.0.1:{each.port}: It is a master" in done.stdout for each in healthy)


@pytest.mark.parametrize("what", ["empty", "foreign", "newer"])
def test_a_file_of_shared_memory(shared_memory, tmp_path, what):
    path = tmp_path / "limits"
    if what == "newer":
        SharedMemoryStore(path, max_bytes=1 << 18, max_keys=100).ping()
        with path.open("r+b") as file:
            file.seek(8)
            file.write(b"\x63")
    else:
        path.write_bytes(b"" if what == "empty" else b"mine" * 100_000)
        path.chmod(0o600)
    says = "has version 99" if what == "newer" else "is not one of overlimit's"
    check(f"shm://{path}", BROKEN, says, left=lambda: (os.listdir(tmp_path), path.read_bytes()))
