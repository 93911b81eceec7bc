"""Hits in SQLite and PostgreSQL, beside the transaction of a row that somebody would write by hand."""

from __future__ import annotations

import itertools
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyrate_limiter import Duration, Rate, SQLiteBucket

from measuring.servers import postgresql_server
from measuring.timing import Statement, one_by_one
from measuring.turns import Contest, Effort, Found, contest
from overlimit import Limiter
from overlimit.stores import PostgreSQLStore, SQLiteStore
from parts.peers import FEW_ENOUGH, PLENTY, THREE, of_pyrate, ours

ONE = f"{PLENTY}/minute"
_TABLE = (
    "CREATE TABLE counts (key TEXT PRIMARY KEY, value BLOB NOT NULL, expires_at REAL NOT NULL) WITHOUT ROWID"
)
_VALUES = itertools.count()


def contests(effort: Effort) -> Found:
    with tempfile.TemporaryDirectory() as folder:
        yield in_sqlite(Path(folder), effort)
    with postgresql_server() as url:
        yield in_postgresql(url, effort)


def in_sqlite(folder: Path, effort: Effort) -> Contest:
    store = SQLiteStore(folder / "limits.db")
    statements = {
        "a transaction that reads and writes a row": Statement("change()", {"change": bare_sqlite(folder)}),
        **hits(store),
        "pyrate-limiter, SQLiteBucket": of_pyrate(
            SQLiteBucket.init_from_file(
                [Rate(FEW_ENOUGH, Duration.MINUTE)], db_path=str(folder / "pyrate.db")
            )
        ),
    }
    turns = {name: one_by_one(statement, effort.seconds) for name, statement in statements.items()}
    return contest("SQLite, one hit after the other", "us", turns, rounds=effort.rounds)


def in_postgresql(url: str, effort: Effort) -> Contest:
    store = PostgreSQLStore(url)
    names: dict[str, Statement] = {
        "a transaction of SELECT FOR UPDATE and UPDATE": Statement(
            "change()", {"change": bare_postgresql(url)}
        ),
        **hits(store),
    }
    turns = {name: one_by_one(statement, 4 * effort.seconds) for name, statement in names.items()}
    return contest("PostgreSQL, one hit after the other", "us", turns, rounds=effort.rounds)


def hits(store: Any) -> dict[str, Statement]:
    refused = Limiter("1/hour", name="refused", store=store)
    refused.hit("user:1")
    return {
        "overlimit, one sliding window": ours(ONE, store, name="one"),
        "overlimit, three sliding windows": ours(THREE, store, name="three"),
        "overlimit, 2 identifiers x 3 windows": ours(THREE, store, second="ip:192.0.2.1", name="both"),
        "overlimit, a refusal": Statement("hit(k)", {"hit": refused.hit, "k": "user:1"}),
    }


def bare_sqlite(folder: Path) -> Callable[[], None]:
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    execute = connection.execute
    execute("PRAGMA journal_mode = WAL")
    execute("PRAGMA synchronous = NORMAL")
    execute(_TABLE)
    execute("INSERT INTO counts VALUES ('user:1', x'00', 0.0)")

    def change() -> None:
        execute("BEGIN IMMEDIATE")
        execute("SELECT value FROM counts WHERE key = ?", ("user:1",)).fetchone()
        row = (b"%080d" % next(_VALUES), time.time(), "user:1")  # one that is the same would not be written
        execute("UPDATE counts SET value = ?, expires_at = ? WHERE key = ?", row)
        execute("COMMIT")

    return change


def bare_postgresql(url: str) -> Callable[[], None]:
    import psycopg

    connection = psycopg.connect(url, autocommit=True)
    connection.execute("CREATE TABLE counts (key text PRIMARY KEY, value bytea, expires_at double precision)")
    connection.execute("INSERT INTO counts VALUES ('user:1', '', 0.0)")

    def change() -> None:
        with connection.transaction():
            connection.execute("SELECT value FROM counts WHERE key = %s FOR UPDATE", ("user:1",)).fetchone()
            row = (b"%080d" % next(_VALUES), time.time(), "user:1")
            connection.execute("UPDATE counts SET value = %s, expires_at = %s WHERE key = %s", row)

    return change
