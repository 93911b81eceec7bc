"""Commands for operators where something is wrong: each says in a line what, and what to do."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from overlimit import SharedMemoryStore
from overlimit.stores import sqlite
from servers.patience import PATIENCE, eventually

from .test_commands import run
from .test_operating import limiter_at, told

COMMANDS = {
    "doctor": ["doctor"],
    "top": ["top"],
    "show": ["show", "--policy", "login", "ada"],
    "locked": ["locked"],
    "watch": ["watch", "--every", "0.1", "--count", "1"],
}
MORE = {"bench": ["bench"], "check": ["check", "--name", "login", "--limits", "1/s", "ada"]}
"""Those that are run as well where nothing can be asked."""
FINE = dict.fromkeys(COMMANDS, 0)
BROKEN = dict.fromkeys(COMMANDS, 2)
UNASKED = dict.fromkeys(COMMANDS | MORE, 2)


def check(url: str, codes: dict[str, int], says: str, to_do: str, *, left: object = lambda: None) -> None:
    """Run all commands; those that do not end with 0 must say in a line what is so and what to do."""
    before = left()
    for name, code in codes.items():
        command, *words = (COMMANDS | MORE)[name]
        done = run(command, url, *words)
        assert done.returncode == code, (name, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        assert "secret" not in done.stdout + done.stderr
        assert bool(done.stderr) == (code == 2)
        if code == 2:
            what = re.search(r"^(unreachable|broken|missing): .+\n\Z", done.stderr, re.MULTILINE)
            answer = json.loads(run(command, url, *words, "--json").stdout)
            assert what is not None, done.stderr
            assert answer["status"] == ("broken" if name == "doctor" else what[1])
        if code:
            text = done.stderr or done.stdout
            assert re.search(says, text), (name, text)
            assert re.search(to_do, text, re.IGNORECASE), (name, text)
        if name != "doctor" and done.stderr.startswith("missing: "):
            assert run("doctor", url).stderr.startswith("missing: ")
    assert left() == before


@contextlib.contextmanager
def foreign(said: bytes) -> Iterator[int]:
    """Have a server tell everybody who connects the same, and yield its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listening = threading.Thread(target=say, args=(listener, said))
        listening.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            listening.join()


def say(listener: socket.socket, said: bytes) -> None:
    """Tell everybody who connects the same, until nobody listens any more, and hear out what they say."""
    with contextlib.suppress(OSError), ExitStack() as connections:
        while True:
            connection = connections.enter_context(listener.accept()[0])
            connection.sendall(said)


def keys_of(server):
    return lambda: sorted(server.ask("KEYS", "*"))


def at(server, user: str = "") -> str:
    return f"redis://{user}127.0.0.1:{server.port}/0?timeout={PATIENCE}"


def test_nobody():
    check("redis://:secret@127.0.0.1:1/0", UNASKED, "Connection refused", "check that the server is running")


@pytest.mark.parametrize("said", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-OpenSSH_9.2p1 Debian\r\n"])
def test_a_foreign_server(said):
    with foreign(said) as port:
        url = f"redis://:secret@127.0.0.1:{port}/0?timeout={PATIENCE}"
        check(url, UNASKED, "not a Redis reply", "check the server and the network")


def test_a_wrong_password(start_redis):
    server = start_redis(password="right")
    check(at(server, ":secret@"), UNASKED, "WRONGPASS", "check user and password in the URL")
    check(at(server), UNASKED, "NOAUTH", "")


def refused_to(server) -> set[str]:
    """Return what ACL LOG says that users may not do."""
    return {
        dict(zip(entry[::2], entry[1::2], strict=True))[b"object"].decode()
        for entry in server.ask("ACL", "LOG")
    }


def test_few_rights(start_redis):
    server = start_redis()
    limiter_at(at(server)).hit("ada")
    server.ask("ACL", "SETUSER", "few", "on", ">secret", "~ol1:*", "+get", "+select", "+ping")
    check(at(server, "few:secret@"), BROKEN, "NOPERM", "grant the user.*Permissions", left=keys_of(server))
    server.ask("ACL", "LOG", "RESET")
    for command in ("top", "show", "locked"):
        assert (
            "run the 'time' command" in run(command, at(server, "few:secret@"), *COMMANDS[command][1:]).stderr
        )
    assert refused_to(server) <= {"time", "getrange"}


def test_doctor_makes_no_calls_whose_keys_it_may_not_delete(start_redis):
    server = start_redis()
    rules = "~ol1:* +evalsha +eval +get +set +setrange +time +scan +unlink +select +ping"
    server.ask("ACL", "SETUSER", "limiter", "on", ">secret", *rules.split())
    done = run("doctor", at(server, "limiter:secret@"))
    assert (done.returncode, "may not run DEL" in done.stderr, keys_of(server)()) == (2, True, [])


def test_keys_that_may_not_be_read_are_not_taken_for_those_of_others(start_redis):
    server = start_redis()
    limiter_at(at(server)).hit("ada")
    server.ask("ACL", "SETUSER", "other", "on", ">secret", "~other:*", "+@all")
    check(at(server, "other:secret@"), BROKEN, "NOPERM", "Grant the user|Grant ~ol1", left=keys_of(server))
    server.ask("ACL", "SETUSER", "some", "on", ">secret", "~ol1:login:*", "+@all")
    limiter_at(at(server), name="api").hit("ada")
    answer = told(0, "top", at(server, "some:secret@"))
    assert ([each["policy"] for each in answer["top"]], answer["foreign"]) == (["login"], 0)
    assert (answer["looked_at"], answer["is_complete"]) == (2, False)
    assert "This user may not read 1 of them." in run("top", at(server, "some:secret@")).stdout


def test_the_rights_that_are_documented(start_redis):
    server = start_redis()
    limiter_at(at(server)).hit("ada")
    rules = "~ol1:* +evalsha +eval +get +set +setrange +getrange +time +del +scan +unlink +select +ping"
    server.ask("ACL", "SETUSER", "limiter", "on", ">secret", *rules.split())
    url = at(server, "limiter:secret@")
    check(url, FINE | {"doctor": 1}, "may not run|cannot be asked", "as a user who may", left=keys_of(server))
    assert refused_to(server) == {"info", "memory|usage"}
    server.ask("ACL", "LOG", "RESET")
    run("watch", url, "--every", "0.1", "--count", "3")
    assert [entry[1] for entry in server.ask("ACL", "LOG")] == [1]


def test_a_read_only_replica(start_redis):
    master = start_redis()
    limiter_at(at(master)).hit("ada")
    replica = start_redis(replica_of=master)
    eventually(lambda: replica.ask("KEYS", "*") == [b"ol1:login:ada"])
    url = at(replica).replace(f"timeout={PATIENCE}", "timeout=0.5")
    check(url, FINE | {"doctor": 2}, "READONLY", "connect to the master", left=keys_of(replica))


def test_a_server_that_evicts_and_a_full_one(start_redis):
    server = start_redis(options={"maxmemory": "100mb", "maxmemory-policy": "allkeys-lru"})
    limiter_at(at(server)).hit("ada")
    evicts = "maxmemory-policy is allkeys-lru"
    check(at(server), FINE | {"doctor": 1}, evicts, "set maxmemory-policy to", left=keys_of(server))
    server.ask("CONFIG", "SET", "maxmemory-policy", "noeviction", "maxmemory", "1")
    check(at(server), FINE | {"doctor": 2}, "OOM", "raise maxmemory", left=keys_of(server))
    hit = told(2, "check", at(server), "--name", "login", "--limits", "1/minute", "--hit", "a")
    assert (hit["status"], "raise maxmemory" in hit["message"]) == ("broken", True)


def test_a_cluster_with_a_dead_node_and_a_node_of_it_by_itself(start_cluster):
    cluster = start_cluster(masters=3)
    url = f"{cluster.url()}?timeout={PATIENCE}"
    limiter_at(url).hit("ada")
    owner = cluster.owner_of(cluster.slot_of("ol1:login:ada"))
    down, other = (each for each in cluster.masters if each is not owner)
    of_others = r"begin (the URL|the store's URL) with redis\+cluster://"
    check(at(owner), FINE | {"doctor": 2}, "node of a", of_others, left=keys_of(owner))
    check(at(other), FINE | {"doctor": 2, "show": 2}, "node of", of_others, left=keys_of(other))
    assert "keys of other nodes are not seen: begin the URL" in run("top", at(other)).stdout
    answer = told(0, "reset", at(other), "--policy", "login", "--all")
    assert answer["was_kept"] is None
    assert "Everybody on this node begins anew in login. The server is a node of a" in answer["message"]
    assert told(0, "top", at(owner), "--policy", "login")["is_complete"] is False
    down.kill()
    eventually(lambda: owner.state() == "ok" and owner.known_slots() > 0)
    to_do = "Check that the server is running|bring it back"
    check(url, BROKEN | {"show": 0}, f"{down.port}.*Connection refused", to_do, left=keys_of(owner))
    left = keys_of(owner)(), keys_of(other)()
    assert f"127.0.0.1:{down.port}" in run("bench", url, "--seconds", "0.1").stderr
    assert (keys_of(owner)(), keys_of(other)()) == left
    done = run("doctor", url)
    assert all(f"127.0.0.1:{each.port}: It is a master" in done.stdout for each in (owner, other))
    assert f"127.0.0.1:{down.port}: " in done.stdout


def test_sentinels_with_a_password(start_sentinels):
    sentinels = start_sentinels(replicas=0, password="secret-of-master", sentinel_password="secret-too")
    url = f"{sentinels.url}?timeout={PATIENCE}"
    limiter_at(f"{url}&sentinel_password=secret-too").hit("ada")
    left = keys_of(sentinels.master)
    check(f"{url}&sentinel_password=secret-too", FINE, "", "", left=left)
    for wrong in ("", "&sentinel_password=secret"):
        to_do = "sentinel_username and sentinel_password"
        check(f"{url}{wrong}", BROKEN, "NOAUTH|WRONGPASS", to_do, left=left)


@pytest.mark.parametrize("what", ["absent", "empty", "foreign", "newer"])
def test_a_file_of_shared_memory(shared_memory, tmp_path, what):
    path = tmp_path / "limits"
    if what == "newer":
        SharedMemoryStore(path, max_bytes=1 << 18, max_keys=100).ping()
        with path.open("r+b") as file:
            file.seek(8)
            file.write(b"\x63")
    elif what != "absent":
        path.write_bytes(b"" if what == "empty" else b"mine" * 100_000)
        path.chmod(0o600)
    says, to_do = {
        "absent": ("there is no shared memory", "overlimit shm list"),
        "newer": ("has version 99", "use `overlimit shm remove`"),
    }.get(what, ("is not one of overlimit's", "give the store another name"))
    check(
        f"shm://{path}",
        BROKEN,
        says,
        to_do,
        left=lambda: [(each.name, each.read_bytes()) for each in tmp_path.iterdir()],
    )


@pytest.mark.parametrize("what", ["empty", "of something else"])
def test_a_file_of_sqlite_without_the_table(tmp_path, what):
    path = tmp_path / "app.db"
    path.touch()
    if what == "of something else":
        with contextlib.closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("CREATE TABLE orders (number)")
    without = f"there is no table overlimit_counts in {path}"
    to_do = "run `overlimit stores init URL` to make it"
    files = lambda: [(each.name, each.read_bytes()) for each in tmp_path.iterdir()]  # noqa: E731
    check(f"sqlite:///{path}", UNASKED, without, to_do, left=files)
    assert told(0, "stores", "init", f"sqlite:///{path}")["status"] == "ok"
    assert told(0, "top", f"sqlite:///{path}")["looked_at"] == 0


def test_bench_leaves_nothing_in_a_database(tmp_path, postgresql_server, prefix):
    for url in (f"sqlite:///{tmp_path}/limits.db", postgresql_server.url(table=prefix)):
        told(0, "stores", "init", url)
        assert told(0, "bench", url, "--seconds", "0.1")["decisions"] > 0
        assert told(0, "top", url)["looked_at"] == 0


def test_a_standby_of_postgresql(postgresql_server, prefix):
    told(0, "stores", "init", postgresql_server.url(table=prefix))
    url = postgresql_server.url(table=prefix, options="-cdefault_transaction_read_only=on")
    limiter_at(postgresql_server.url(table=prefix)).hit("ada")
    codes = FINE | {"doctor": 2, "bench": 2}
    check(url, codes, "read-only transaction", "connect to the server that takes writes")


def test_a_table_of_something_else_in_postgresql(postgresql_server, prefix):
    postgresql_server.ask(f"CREATE TABLE {prefix} (number int)")
    url = postgresql_server.url(table=prefix)
    check(url, UNASKED, 'column "key" does not exist', "name another one by table=")
    assert "name another one by table=" in run("stores", "init", url).stderr


@pytest.mark.parametrize("what", ["no database", "damaged", "with a table of something else", "a directory"])
def test_a_file_that_sqlite_cannot_use(tmp_path, what):
    path = tmp_path / "limits.db"
    limiter_at(f"sqlite:///{path}").hit("ada")
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        if what == "with a table of something else":
            connection.execute("ALTER TABLE overlimit_counts RENAME COLUMN value TO other")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = path.read_bytes()
    path.with_name("limits.db-wal").unlink(missing_ok=True)
    if what == "a directory":
        path.unlink()
        path.mkdir()
    elif what != "with a table of something else":
        path.write_bytes(b"mine" * 3000 if what == "no database" else whole[:4096] + b"x" * 4096)
    says, to_do = {
        "no database": ("file is not a database", "it is of something else: give the store another path"),
        "damaged": ("malformed", "restore a copy, or move it away: counts begin anew in a new file"),
        "a directory": ("unable to open", "this user has to be able to write the file"),
    }.get(what, ("no such column", "it is of something else: give the store another path"))
    check(f"sqlite:///{path}", UNASKED, f"SQLite cannot use {path}: .*{says}", to_do)


def test_a_file_of_sqlite_that_may_not_be_written(tmp_path, monkeypatch):
    path = tmp_path / "limits.db"
    limiter_at(f"sqlite:///{path}").hit("ada")
    opened = sqlite.sqlite3.connect

    def read_only(*given, **options):  # as for a user who may not, also where tests run as root
        connection = opened(*given, **options)
        connection.execute("PRAGMA query_only = ON")
        return connection

    monkeypatch.setattr(sqlite.sqlite3, "connect", read_only)
    codes = {"top": 0, "show": 0, "bench": 2}
    check(f"sqlite:///{path}", codes, "readonly database", "this user has to be able to write the file")
