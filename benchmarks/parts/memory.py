"""Hits in memory and in shared memory, beside a dict update and others' limiters."""

from __future__ import annotations

import random
from collections.abc import Iterator

from measuring.servers import shared_memory
from measuring.timing import Statement, looped
from measuring.turns import Contest, Contestant, Effort, Found, contest
from overlimit import Limiter, MemoryStore
from parts.peers import PLENTY, THREE, dict_update, ours, peers_in_memory

FLOOR = "d[k] += 1"
ONE = f"{PLENTY}/minute"
BUCKET = f"{PLENTY}/minute burst 1000000"
SECOND = "ip:192.0.2.1"


def contests(effort: Effort) -> Found:
    hits = {FLOOR: dict_update(), **ours_in_memory(), **peers_in_memory()}
    yield of_statements("One hit after the other", hits, effort)
    with shared_memory() as store:
        shared = {
            FLOOR: dict_update(),
            "overlimit, one sliding window": ours(ONE, store, name="one"),
            "overlimit, 2 identifiers x 3 windows": ours(THREE, store, second=SECOND, name="three"),
        }
        yield of_statements("The same in shared memory", shared, effort)
    yield from at_random(effort)
    yield many(effort)


def of_statements(title: str, statements: dict[str, Statement], effort: Effort) -> Contest:
    turns = {name: looped(statement, effort.seconds) for name, statement in statements.items()}
    return contest(title, "ns", turns)


def ours_in_memory() -> dict[str, Statement]:
    refused = Limiter("1/hour", store=MemoryStore())
    refused.hit("user:1")
    peeked = Limiter(ONE, store=MemoryStore())
    peeked.hit("user:1")
    return {
        "overlimit, one sliding window": ours(ONE, MemoryStore()),
        "overlimit, one token bucket": ours(BUCKET, MemoryStore()),
        "overlimit, three sliding windows": ours(THREE, MemoryStore()),
        "overlimit, 2 identifiers x 3 windows": ours(THREE, MemoryStore(), second=SECOND),
        "overlimit, a refusal": Statement("hit(k)", {"hit": refused.hit, "k": "user:1"}),
        "overlimit, a peek": Statement("peek(k)", {"peek": peeked.peek, "k": "user:1"}),
    }


def at_random(effort: Effort) -> Iterator[Contest]:
    """Yield one key again and again beside all in an order that no cache foresees: of ours, and of a dict."""
    keys = [f"user:{number}" for number in range(effort.of(1_000_000, 10_000))]
    random.Random(1).shuffle(keys)
    hot = [keys[0]] * 1000
    limiter = Limiter(ONE, store=MemoryStore(max_keys=len(keys) + 1, max_bytes=1 << 30))
    limiter.hit_many(keys)
    both = {
        "overlimit": Statement("hit(k)", {"hit": limiter.hit}),
        FLOOR: Statement(FLOOR, {"d": dict.fromkeys(keys, 0)}),
    }
    for name, statement in both.items():
        turns = {
            f"{name}, one key": looped(statement.for_each("k", hot), effort.seconds, len(hot)),
            f"{name}, random keys": looped(statement.for_each("k", keys), effort.seconds, len(keys)),
        }
        yield contest(f"{name}: one key, and {len(keys):,} at random", "ns", turns)


def many(effort: Effort) -> Contest:
    """Return calls of many rows, whose keys are a thousand, in an order of chance."""
    points = []
    for count in (10_000, 100_000, 1_000_000)[: effort.of(3, 1)]:
        rows = random.Random(1).choices([f"user:{number}" for number in range(1000)], k=count)
        hit_many = Limiter(ONE, store=MemoryStore()).hit_many
        statements = {
            FLOOR: Statement(FLOOR, {"d": dict.fromkeys(rows, 0)}).for_each("k", rows),
            "overlimit, hit in a loop": ours(ONE, MemoryStore()).for_each("k", rows),
            "overlimit, hit_many": Statement("hit_many(rows)", {"hit_many": hit_many, "rows": rows}),
        }
        points += [
            Contestant(name, looped(statement, effort.seconds, count), count)
            for name, statement in statements.items()
        ]
    return Contest("A list of rows", "ns", points, "rows")
