"""SQLite and PostgreSQL in a storm: nothing is over-admitted, nobody waits for ever, counts survive."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import psycopg
import pytest

from overlimit import Limiter, StoreConfigError, StoreError, StoreTimeout, StoreUnavailable, aio, hit_all
from overlimit.stores import PostgreSQLStore, SQLiteStore, as_store, sqlite
from servers.patience import PATIENCE, eventually
from servers.ports import free_port

LIMIT = 1_000_000
PROCESSES, THREADS = 4, 4
BEYOND = 3.0
"""How many seconds a call may take beyond its timeout, on a busy machine."""

WORKER = """
import json, os, sys, threading, time
from overlimit import Limiter, StoreError
url, path, most, stop = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
limiter = Limiter(f"{most}/day", name="storm", store=url)
log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
def work():
    while not os.path.exists(stop):
        began = time.monotonic()
        try:
            told = "y" if limiter.hit("all").allowed else "n"
        except StoreError as error:
            told = "m" if error.maybe_charged else "e"
        # One write each, so that what a killed process was told is whole.
        os.write(log, f"{told} {time.monotonic() - began:.4f}\\n".encode())
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


class Storm:
    """Processes that hit one identifier, which are killed at random and come back."""

    def __init__(self, url: str, folder: Path, most: int) -> None:
        self._url, self._folder, self._most = url, folder, most
        self._random = random.Random(7)
        self.killed = 0
        self._processes = [self._started(number) for number in range(PROCESSES)]

    def _started(self, number: int) -> subprocess.Popen[bytes]:
        words = [self._url, self._folder / f"{number}.log", self._most, self._folder / "stop"]
        return subprocess.Popen([sys.executable, "-c", WORKER, *map(str, words)])

    def blow(self, kills: int, each_time: Callable[[], object] = lambda: None) -> None:
        """Kill so many, one after the other, and do something besides; then let all of them end."""
        for _ in range(kills):
            answered = len(self._lines())
            eventually(lambda before=answered: len(self._lines()) > before + 20, within=120)
            time.sleep(self._random.uniform(0.0, 0.05))
            number = self._random.randrange(PROCESSES)
            self._processes[number].kill()
            self._processes[number].wait()
            self._processes[number] = self._started(number)
            self.killed += 1
            each_time()
        (self._folder / "stop").touch()
        for process in self._processes:
            assert process.wait(120) == 0

    def _lines(self) -> list[str]:
        return [line for path in self._folder.glob("*.log") for line in path.read_text().splitlines()]

    def told(self) -> dict[str, int]:
        """Return how often each answer came, and that none came too late."""
        lines = [line.split() for line in self._lines()]
        assert max(float(taken) for _, taken in lines) < 5 + BEYOND
        return {kind: sum(told == kind for told, _ in lines) for kind in "ynme"}


KILLS = 8 * int(os.environ.get("PROVE", "1"))


def charged(url: str) -> int:
    """Return what is charged, as a new process would see it."""
    return LIMIT - Limiter(f"{LIMIT}/day", name="storm", store=url).peek("all", cost=0).remaining


def assert_accounted(storm: Storm, url: str) -> None:
    """All that was answered is charged, and no more than what was under way when somebody was killed."""
    told = storm.told()
    unknown = told["m"] + storm.killed * THREADS
    assert told["y"] > 100
    assert told["n"] == 0
    assert told["y"] <= charged(url) <= told["y"] + unknown


@pytest.mark.check
@pytest.mark.longer_in_prove
@pytest.mark.timeout(600)
class TestStorms:
    def test_sqlite(self, tmp_path):
        url = f"sqlite:///{tmp_path}/limits.db"
        storm = Storm(url, tmp_path, LIMIT)
        storm.blow(KILLS)
        assert_accounted(storm, url)
        assert storm.told()["e"] == storm.told()["m"] == 0

    def test_postgresql(self, tmp_path, start_postgresql):
        server = start_postgresql()
        storm, chance = Storm(server.url(), tmp_path, LIMIT), random.Random(3)
        storm.blow(KILLS, lambda: server.cut_connections() if chance.random() < 0.5 else None)
        assert_accounted(storm, server.url())

    def test_postgresql_that_crashes(self, tmp_path, start_postgresql):
        server = start_postgresql()
        url = server.url(host="127.0.0.1")
        storm, kills = Storm(url, tmp_path, LIMIT), iter(range(KILLS))
        storm.blow(KILLS, lambda: next(kills) % 4 == 2 and server.restart())
        assert_accounted(storm, url)

    @pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
    def test_a_limit_that_is_reached_holds(self, tmp_path, postgresql_url, kind):
        url = f"sqlite:///{tmp_path}/limits.db" if kind == "sqlite" else postgresql_url
        storm = Storm(url, tmp_path, 50)
        storm.blow(2)
        told = storm.told()
        assert 50 - THREADS * storm.killed - told["m"] <= told["y"] <= 50
        assert told["n"] > 0


def assert_swept(limiter: Limiter, run: Callable[[str], list[tuple[str]]]) -> None:
    """What has expired goes with a few writes, and nothing else does."""
    limiter.hit_many([f"gone:{number}" for number in range(200)])
    limiter.hit_many([f"kept:{number}" for number in range(40)])
    run("UPDATE {table} SET expires_at = 1.0 WHERE key LIKE 'x:gone:%'")
    limiter.hit_many([f"new:{number}" for number in range(400)])
    kept = {key for (key,) in run("SELECT key FROM {table}")}
    assert kept >= {f"x:kept:{number}" for number in range(40)}
    assert kept >= {f"x:new:{number}" for number in range(400)}
    assert len(kept) == 440


class TestSQLite:
    def test_a_process_that_is_stopped_delays_others_until_their_timeout(self, tmp_path):
        url = f"sqlite:///{tmp_path}/limits.db"
        limiter = Limiter("5/minute", name="x", store=f"{url}?timeout=0.3")
        assert limiter.hit("a").allowed
        code = (
            "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
            "c.execute('BEGIN IMMEDIATE'); print('held', flush=True); input()"
        )
        command = [sys.executable, "-c", code, str(tmp_path / "limits.db")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
            assert holder.stdout is not None
            holder.stdout.readline()
            began = time.monotonic()
            with pytest.raises(StoreTimeout) as raised:
                limiter.hit("a")
            assert 0.25 < time.monotonic() - began < 0.3 + BEYOND
            assert not raised.value.maybe_charged
            assert limiter.peek("a", cost=0).remaining == 4  # which needs no lock
            holder.kill()
        assert limiter.hit("a").remaining == 3

    def test_children_and_parents_that_have_hit_before_count_together(self, tmp_path):
        limiter = Limiter("1000/minute", name="x", store=f"sqlite:///{tmp_path}/limits.db")
        limiter.hit("a")
        stop = threading.Event()
        busy = threading.Thread(target=lambda: [limiter.hit("a") for _ in iter(stop.is_set, True)])
        busy.start()
        children = [os.fork() for _ in range(1)]
        if children == [0]:
            try:
                for _ in range(20):
                    limiter.hit("b")
            finally:
                os._exit(0 if limiter.peek("b", cost=0).remaining == 980 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0
        stop.set()
        busy.join()
        assert limiter.peek("b", cost=0).remaining == 980

    def test_what_has_expired_is_removed(self, tmp_path):
        store = SQLiteStore(tmp_path / "limits.db")
        assert_swept(Limiter("5/day", name="x", store=store), partial(self.run, tmp_path / "limits.db"))

    def run(self, path, query):
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            return connection.execute(query.format(table="overlimit_counts")).fetchall()

    def test_a_file_that_cannot_be_used_is_named(self, tmp_path):
        (tmp_path / "text.db").write_text("this is no database " * 100)
        for path in (tmp_path / "none" / "limits.db", tmp_path / "text.db", tmp_path):
            with pytest.raises(StoreError, match=str(path)):
                Limiter("5/minute", name="x", store=SQLiteStore(path)).hit("a")

    def test_a_directory_that_is_not_there_is_named(self, tmp_path):
        limiter = Limiter("5/minute", name="x", store=f"sqlite:///{tmp_path}/none/limits.db")
        with pytest.raises(StoreConfigError, match=f"there is no directory {tmp_path}/none$"):
            limiter.hit("a")

    def test_a_file_that_could_only_be_read_is_used_once_it_can_be_written(self, tmp_path):
        limiter = Limiter("5/minute", name="x", store=SQLiteStore(tmp_path / "limits.db"))
        assert limiter.hit("a").remaining == 4
        (writer,) = limiter.store._writer.things
        writer.cursor.connection.close()
        as_it_was = f"file:{tmp_path}/limits.db?mode=ro"
        writer.cursor = sqlite3.connect(as_it_was, uri=True, isolation_level=None).cursor()
        with pytest.raises(StoreConfigError, match=r"limits\.db: attempt to write a readonly") as raised:
            limiter.hit("a")
        assert not raised.value.maybe_charged
        assert limiter.hit("a").remaining == 3

    def test_a_full_disk_charges_nothing_and_says_so(self, tmp_path):
        limiter = Limiter("5/minute", name="x", store=SQLiteStore(tmp_path / "limits.db"))
        assert limiter.hit("a").remaining == 4
        limiter.store._writer.things[0].cursor.execute("PRAGMA max_page_count = 1")
        many = [f"{number}" * 50 for number in range(60)]
        with pytest.raises(StoreUnavailable, match="disk is full") as raised:
            limiter.hit_many(many)
        assert not raised.value.maybe_charged
        assert [limiter.peek(each, cost=0).remaining for each in many] == [5] * 60
        assert limiter.peek("a", cost=0).remaining == 4

    def test_a_file_and_a_link_to_it_are_one_place(self, tmp_path):
        (tmp_path / "link.db").symlink_to(tmp_path / "limits.db")
        linked, plain, other = (
            (Limiter("5/minute", name=name, store=SQLiteStore(tmp_path / f"{name}.db")), "a")
            for name in ("link", "limits", "other")
        )
        assert hit_all([linked, plain]).allowed
        with pytest.raises(ValueError, match="are on different ones"):
            hit_all([linked, other])

    def test_what_is_pickled_keeps_its_file_in_another_directory(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        store = SQLiteStore("limits.db", timeout=1.5)
        pickled = pickle.dumps(store)
        (tmp_path / "other").mkdir()
        monkeypatch.chdir("other")
        again = pickle.loads(pickled)
        assert again.is_same_as(store)
        assert again.timeout == 1.5
        assert [Limiter("5/minute", name="x", store=each).hit("a").remaining for each in (store, again)] == [
            4,
            3,
        ]

    @pytest.mark.parametrize("has_table", [False, True])
    def test_a_file_that_is_locked_as_it_is_opened_is_waited_for(self, tmp_path, has_table):
        path = tmp_path / "limits.db"
        if has_table:
            SQLiteStore(path).create_table()
        limiter = Limiter("5/minute", name="x", store=SQLiteStore(path, timeout=0.3))
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE" if has_table else "BEGIN EXCLUSIVE")
            began = time.monotonic()
            with pytest.raises(StoreTimeout) as raised:
                limiter.hit("a")
            assert 0.3 <= time.monotonic() - began < 0.3 + BEYOND
            assert not raised.value.maybe_charged
        assert limiter.hit("a").remaining == 4

    def test_two_threads_that_fork_at_once_give_it_back(self, tmp_path):
        """A hook of somebody else holds up the first, until the second has waited in vain."""
        code = (
            "import os, sys, threading, time; slow = [0.5, 0.0]\n"
            "os.register_at_fork(before=lambda: time.sleep(slow.pop(0)))\n"
            "from overlimit import Limiter\n"
            "limiter = Limiter('5/minute', name='x', store=sys.argv[1])\n"
            "limiter.hit('a')\n"
            "def fork():\n"
            "    limiter.store.timeout = 0.1\n"
            "    pid = os.fork()\n"
            "    limiter.store.timeout = 9\n"
            "    if pid == 0: os._exit(0 if limiter.hit('a').allowed else 1)\n"
            "    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0\n"
            "threads = [threading.Thread(target=fork) for _ in range(2)]\n"
            "for each in threads: each.start(); time.sleep(0.1)\n"
            "for each in threads: each.join()\n"
            "print(limiter.hit('a').remaining)\n"
        )
        command = [sys.executable, "-c", code, f"sqlite:///{tmp_path}/limits.db"]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
        assert (done.stdout, done.stderr) == ("1\n", "")

    def test_a_table_or_a_file_that_is_gone_is_made_again(self, tmp_path, caplog, monkeypatch):
        limiter = Limiter("5/minute", name="x", store=SQLiteStore(tmp_path / "limits.db"))
        limiter.hit("a")
        self.run(tmp_path / "limits.db", "DROP TABLE {table}")
        assert limiter.peek("a", cost=0).remaining == 5
        assert limiter.hit("a").remaining == 4
        for path in tmp_path.iterdir():
            path.unlink()
        monkeypatch.setattr(sqlite, "_LOOK", 0.0)
        eventually(lambda: limiter.hit("a").remaining == 4)
        assert "limits.db was removed or replaced: counts begin anew" in caplog.text
        eventually(lambda: limiter.peek("a", cost=0).remaining == 4)  # which another connection reads
        assert self.run(tmp_path / "limits.db", "SELECT key FROM {table}") == [("x:a",)]


def silent_server() -> socket.socket:
    """Return what takes no connection: its queue is full."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(0)
    return listening


class TestPostgreSQL:
    def test_a_server_that_is_stopped_does_not_hold_callers(self, start_postgresql):
        server = start_postgresql()
        limiter = Limiter("5/minute", name="x", store=server.url(timeout=0.5))
        assert limiter.hit("a").allowed
        pids = [
            pid
            for (pid,) in server.ask(
                "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' "
                "AND pid <> pg_backend_pid()"
            )
        ]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            began = time.monotonic()
            with pytest.raises(StoreTimeout) as raised:
                limiter.hit("a")
            assert 0.4 < time.monotonic() - began < 0.5 + BEYOND
            assert not raised.value.maybe_charged
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
        assert limiter.hit("a").remaining == 3

    def test_a_restart_between_two_hits_is_not_noticed(self, start_postgresql):
        server = start_postgresql()
        limiter = Limiter("5/minute", name="x", store=server.url(timeout=PATIENCE))
        assert limiter.hit("a").remaining == 4
        server.restart()
        assert limiter.hit("a").remaining == 3

    def test_a_server_that_is_down_is_told_at_once(self, start_postgresql):
        server = start_postgresql()
        limiter = Limiter("5/minute", name="x", store=server.url(timeout=PATIENCE))
        limiter.hit("a")
        server.kill()
        began = time.monotonic()
        with pytest.raises(StoreUnavailable) as raised:
            limiter.hit("a")
        assert time.monotonic() - began < PATIENCE / 2
        assert not raised.value.maybe_charged
        server.start()
        eventually(lambda: limiter.hit("a", cost=0))
        assert limiter.hit("a").remaining == 3

    @pytest.mark.parametrize("options", ["", "&options=-c%20lock_timeout%3D50"])
    def test_who_waits_too_long_for_a_row_has_charged_nothing(
        self, postgresql_server, postgresql_url, options
    ):
        url = postgresql_url.replace(f"timeout={PATIENCE}", "timeout=0.4") + options
        limiter = Limiter("5/minute", name="x", store=url)
        limiter.hit("a")
        table = postgresql_url.partition("table=")[2].partition("&")[0]
        with psycopg.connect(postgresql_server.url()) as other:
            other.execute(f"SELECT 1 FROM {table} FOR UPDATE")
            began = time.monotonic()
            with pytest.raises(StoreTimeout) as raised:
                limiter.hit("a")
            assert 0.3 < time.monotonic() - began < 0.4 + BEYOND
            assert not raised.value.maybe_charged
            assert limiter.hit("b").allowed
            assert limiter.peek("a", cost=0).remaining == 4
        assert limiter.hit("a").remaining == 3

    def test_a_refused_stranger_leaves_no_row(self, postgresql_store):
        assert not Limiter("5/minute", name="x", store=postgresql_store).hit("a", cost=6).allowed
        assert list(postgresql_store.scan("")) == []

    def test_few_privileges_are_enough(self, postgresql_server, prefix):
        admin = PostgreSQLStore(postgresql_server.url(table=prefix))
        app = PostgreSQLStore(postgresql_server.url(user=f"app_{prefix}", table=prefix))
        postgresql_server.ask(f"CREATE ROLE app_{prefix} LOGIN")
        limiter = Limiter("5/minute", name="x", store=app)
        needed = f".*role that may create tables, then GRANT SELECT, .* ON {prefix} to this role"
        with pytest.raises(
            StoreConfigError, match=f"permission denied for schema public; {needed}"
        ) as raised:
            limiter.hit("a")
        assert "LINE" not in str(raised.value)
        admin.create_table()
        for ask in (limiter.hit, limiter.peek, lambda _: limiter.reset_all()):
            with pytest.raises(StoreConfigError, match=f"permission denied for table {prefix}; {needed}"):
                ask("a")
        postgresql_server.ask(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {prefix} TO app_{prefix}")
        assert [limiter.hit("a").allowed for _ in range(6)].count(True) == 5

    def test_what_has_expired_is_removed(self, postgresql_server, postgresql_store, prefix):
        def run(query):
            return postgresql_server.ask(query.format(table=prefix))

        assert_swept(Limiter("5/day", name="x", store=postgresql_store), run)

    def test_tables_are_made_by_whoever_comes_first(self, postgresql_server, prefix):
        stores = [PostgreSQLStore(postgresql_server.url(table=prefix)) for _ in range(6)]
        limiters = [Limiter("100/minute", name="x", store=store) for store in stores]
        failed: list[Exception] = []

        def hit(limiter: Limiter) -> None:
            try:
                limiter.hit("a")
            except Exception as error:
                failed.append(error)

        threads = [threading.Thread(target=hit, args=(limiter,)) for limiter in limiters]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        assert limiters[0].peek("a", cost=0).remaining == 94
        assert as_store(postgresql_server.url(table=prefix)) is as_store(postgresql_server.url(table=prefix))

    @pytest.mark.parametrize(
        ("given", "shown"),
        [
            ("postgresql://app:secret@db/shop?timeout=1", "postgresql://app@db/shop"),
            ("postgresql://app:secret@db:6432", "postgresql://app@db:6432/app"),
            ("postgresql://app@/shop?host=/run/postgresql", "postgresql://app@/shop?host=/run/postgresql"),
            ("postgresql:///shop?host=/run&port=6432", "postgresql://:6432/shop?host=/run"),
            ("postgresql://a%40b:s%40t@/shop", "postgresql://a%40b@localhost/shop"),
        ],
    )
    def test_it_is_shown_as_it_was_given_without_a_password(self, given, shown):
        store = PostgreSQLStore(given)
        assert store.endpoint == shown
        assert repr(shown) in repr(store)
        assert PostgreSQLStore(shown).endpoint == shown
        assert PostgreSQLStore(shown).is_same_as(store)

    @pytest.mark.parametrize(
        ("wrong", "told"),
        [
            ({"database": "nowhere"}, 'database "nowhere" does not exist'),
            ({"user": "nobody"}, 'role "nobody" does not exist'),
            ({"user": "locked"}, "not permitted to log in"),
        ],
        ids=lambda each: next(iter(each.values())) if isinstance(each, dict) else "",
    )
    def test_wrong_urls_are_the_configuration_s(self, postgresql_server, wrong, told):
        with contextlib.suppress(psycopg.errors.DuplicateObject):
            postgresql_server.ask("CREATE ROLE locked NOLOGIN")
        url = postgresql_server.url(user=wrong.get("user", "overlimit"))
        store = PostgreSQLStore(url.replace("/postgres?", f"/{wrong.get('database', 'postgres')}?"))
        limiter = Limiter("5/minute", name="x", store=store)
        for ask in (limiter.hit, limiter.peek, lambda _: limiter.reset_all(), lambda _: store.create_table()):
            with pytest.raises(StoreConfigError, match=f"{told}.*the store's URL") as raised:
                ask("a")
            assert not raised.value.maybe_charged

    @pytest.mark.parametrize(
        "hit",
        [
            lambda *args, **options: Limiter(*args, **options).hit("a"),
            lambda *args, **options: asyncio.run(aio.AsyncLimiter(*args, **options).hit("a")),
        ],
        ids=["in a thread", "on an event loop"],
    )
    def test_a_server_that_takes_no_connection_holds_nobody_beyond_the_time(self, hit):
        with silent_server() as server:
            url = f"postgresql://app@127.0.0.1:{server.getsockname()[1]}/db?timeout=0.4"
            began = time.monotonic()
            with pytest.raises(StoreTimeout) as raised:
                hit("5/minute", name="x", store=url)
            assert 0.3 < time.monotonic() - began < 1.5
            assert not raised.value.maybe_charged

    def test_nobody_listening_is_told_at_once(self):
        url = f"postgresql://app@127.0.0.1:{free_port()}/db?timeout={PATIENCE}"
        with pytest.raises(StoreUnavailable, match="refused") as raised:
            Limiter("5/minute", name="x", store=url).hit("a")
        assert not raised.value.maybe_charged

    def test_a_conflict_that_outlasts_the_time_charges_nothing_and_ends_no_preparing(
        self, postgresql_server, postgresql_url, prefix
    ):
        store = PostgreSQLStore(postgresql_url, max_connections=1)
        limiter = Limiter("5/minute", name="x", store=store)
        limiter.hit("b")
        store.timeout = 0.4
        with psycopg.connect(postgresql_server.url()) as other:
            other.execute(f"INSERT INTO {prefix} VALUES ('x:a', '', 1e12)")
            for who in (["a"], ["a", "b"], ["a", "c"]):
                with pytest.raises(StoreTimeout) as raised:
                    limiter.hit(*who)
                assert not raised.value.maybe_charged
            other.rollback()
        store.timeout = PATIENCE
        assert limiter.hit("a").remaining == 4
        ((prepared,),) = store._ask("test", "SELECT count(*) FROM pg_prepared_statements")
        assert prepared == 8
        assert limiter.hit("a").remaining == 3

    def test_serialization_failures_without_end_charge_nothing(
        self, postgresql_server, postgresql_url, prefix
    ):
        store = PostgreSQLStore(postgresql_url)
        limiter = Limiter("5/minute", name="x", store=store)
        limiter.hit("a")
        store.timeout = 0.3
        postgresql_server.ask(
            f"CREATE FUNCTION {prefix}_fail() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'changed' USING ERRCODE = 'serialization_failure'; END $$"
        )
        postgresql_server.ask(
            f"CREATE TRIGGER fail BEFORE UPDATE ON {prefix} FOR EACH ROW EXECUTE FUNCTION {prefix}_fail()"
        )
        began = time.monotonic()
        with pytest.raises(StoreTimeout) as raised:
            limiter.hit("a")
        assert 0.3 <= time.monotonic() - began < 0.3 + BEYOND
        assert not raised.value.maybe_charged
        postgresql_server.ask(f"DROP TRIGGER fail ON {prefix}")
        store.timeout = PATIENCE
        assert limiter.hit("a").remaining == 3

    def test_a_table_may_be_named_like_a_word_of_sql_and_be_dropped(self, postgresql_server):
        postgresql_server.ask('CREATE SCHEMA IF NOT EXISTS "grant"')
        store = PostgreSQLStore(postgresql_server.url(table="grant.select"))
        limiter = Limiter("5/minute", name="x", store=store)
        limiter.hit("a")
        assert limiter.hit("a").remaining == 3
        postgresql_server.ask('DROP TABLE "grant"."select"')
        assert limiter.peek("a", cost=0).remaining == 5
        assert limiter.hit("a").remaining == 4
        postgresql_server.ask('DROP TABLE "grant"."select"')
        limiter.reset_all()
        store.delete(["x:a"])
        as_it_is = PostgreSQLStore(postgresql_server.url(table="grant.select"), create=False)
        with pytest.raises(StoreConfigError, match=r"no table grant\.select; run `overlimit stores init"):
            Limiter("5/minute", name="x", store=as_it_is).hit("a")
        store.create_table()
        assert limiter.hit("a").remaining == 4
        store.delete(["x:a"])
        assert [*store.scan("")] == []
