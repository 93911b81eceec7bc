"""How the time of a hit grows with keys, limits, identifiers and blocks, in memory and on Redis."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import limits
import throttled
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

from measuring.machine import available_bytes
from measuring.servers import redis_server
from measuring.timing import Statement, looped, nanoseconds, one_by_one
from measuring.turns import Contest, Contestant, Effort, Found, Sample, Turn
from overlimit import FixedWindow, Limiter, ManualClock, MemoryStore, RedisStore, SlidingWindow, Store
from parts.peers import PLENTY, of_limits, of_throttled

COUNTS = (1, 2, 4, 8, 16)
BLOCKS = (16, 64, 256, 1024, 4096)
KEYS = tuple(10**power for power in range(2, 8))
MOST_KEYS_OF_PEERS = 10**5
BYTES_OF_A_KEY = 400
"""Of ours, of the dict and of the name."""

IN_A_TURN = 100_000
"""So many keys take a part in a turn, others each time, so that none is still near from the turn before."""


def contests(effort: Effort) -> Found:
    yield from by_keys(effort)
    yield Contest("Limits of a hit in memory", "ns", list(limits_in_memory(effort)), "limits")
    yield Contest("Identifiers of a hit in memory", "ns", list(identifiers_in_memory(effort)), "identifiers")
    yield Contest("Blocks of a window in memory", "ns", list(blocks_in_memory(effort)), "blocks")
    with redis_server() as socket:
        store = RedisStore(f"unix://{socket}", timeout=5.0)
        yield Contest("Limits of a hit on Redis", "us", list(limits_on(store, effort)), "limits")
        yield Contest(
            "Identifiers of a hit on Redis", "us", list(identifiers_on(store, effort)), "identifiers"
        )
        yield Contest("Blocks of a window on Redis", "us", list(blocks_on(store, effort)), "blocks")


def by_keys(effort: Effort) -> Found:
    """Yield a contest for each number of keys that there is memory for."""
    for count in KEYS[: effort.of(len(KEYS), 2)]:
        needed, free = count * BYTES_OF_A_KEY, available_bytes() // 2
        if needed > free:
            yield f"{count:,} keys take {needed / 1e9:.1f} GB; there are {free / 1e9:.1f} GB to spare"
            return
        yield Contest("Keys in memory", "ns", of_keys(count, effort), "keys", rounds=effort.of(7, 1))


def of_keys(count: int, effort: Effort) -> list[Contestant]:
    keys = [f"user:{number}" for number in range(count)]
    random.Random(1).shuffle(keys)
    store = MemoryStore(max_keys=count + 1, max_bytes=200 * count + (1 << 28))
    limiter = Limiter(f"{PLENTY}/hour", store=store)
    statements = {
        "d[k] += 1": Statement("d[k] += 1", {"d": dict.fromkeys(keys, 0)}),
        "overlimit": Statement("hit(k)", {"hit": limiter.hit}),
    }
    if count <= MOST_KEYS_OF_PEERS:
        own = throttled.MemoryStore(options={"MAX_SIZE": count + 1})
        statements["limits"] = of_limits(FixedWindowRateLimiter, MemoryStorage())
        statements["throttled-py"] = of_throttled("fixed_window", own)
    for name, statement in statements.items():
        if name != "d[k] += 1":
            statement.for_each("k", keys).compiled()(1)
    return [Contestant(name, walk(statement, keys, effort), count) for name, statement in statements.items()]


def walk(statement: Statement, keys: Sequence[str], effort: Effort) -> Turn:
    """Return a turn of the next keys of all: the nanoseconds of a hit."""
    size = min(len(keys), effort.of(IN_A_TURN, 1000))
    repeats = max(1, effort.of(IN_A_TURN // 10, 1) // size)
    place = 0

    def turn() -> Sample:
        nonlocal place
        run = statement.for_each("k", keys[place : place + size]).compiled()
        place = (place + size) % (len(keys) - size + 1)
        return Sample(nanoseconds(run, repeats) / repeats / size)

    return turn


def windows(count: int) -> list[SlidingWindow]:
    return [SlidingWindow(PLENTY, per=60 * (number + 1)) for number in range(count)]


def limits_in_memory(effort: Effort) -> Iterator[Contestant]:
    peer = FixedWindowRateLimiter(MemoryStorage()).hit
    for count in COUNTS:
        items = [limits.parse(f"{PLENTY}/{number + 1} minutes") for number in range(count)]
        names = [f"limit:{number}" for number in range(count)]
        update = Statement("for k in names: d[k] += 1", {"d": dict.fromkeys(names, 0), "names": names})
        loop = Statement("for item in items: hit(item, 'user:1')", {"hit": peer, "items": items})
        hit = Limiter(windows(count), store=MemoryStore()).hit
        yield Contestant("d[k] += 1 each", looped(update, effort.seconds), count)
        yield Contestant("overlimit", looped(Statement("hit('user:1')", {"hit": hit}), effort.seconds), count)
        yield Contestant("limits, a hit each", looped(loop, effort.seconds), count)


def identifiers_in_memory(effort: Effort) -> Iterator[Contestant]:
    peer = of_limits(FixedWindowRateLimiter, MemoryStorage())
    hit = Limiter(f"{PLENTY}/minute", store=MemoryStore()).hit
    for count in COUNTS:
        names = [f"user:{number}" for number in range(count)]
        update = Statement("for k in names: d[k] += 1", {"d": dict.fromkeys(names, 0), "names": names})
        yield Contestant("d[k] += 1 each", looped(update, effort.seconds), count)
        together = Statement("hit(*names)", {"hit": hit, "names": names})
        yield Contestant("overlimit", looped(together, effort.seconds), count)
        yield Contestant("limits, a hit each", looped(peer.for_each("k", names), effort.seconds), count)


def blocks_in_memory(effort: Effort) -> Iterator[Contestant]:
    for count in BLOCKS:
        full, moving = (filled(count, MemoryStore(), "blocks") for _ in range(2))
        yield Contestant("overlimit, all blocks in use", looped(full, effort.seconds), count)
        each = Statement(f"advance(1.0); {moving.code}", moving.names)
        yield Contestant("overlimit, a new block each hit", looped(each, effort.seconds), count)


def filled(count: int, store: Store, name: str) -> Statement:
    """Return a hit under a window each of whose blocks, a second long, has had a hit."""
    clock = ManualClock(1_700_000_000.0)
    limiter = Limiter(
        SlidingWindow(PLENTY, per=float(count), precision=1.0), name=name, store=store, clock=clock
    )
    for _ in range(count):
        clock.advance(1.0)
        limiter.hit("user:1")
    return Statement("hit('user:1')", {"hit": limiter.hit, "advance": clock.advance})


def limits_on(store: Store, effort: Effort) -> Iterator[Contestant]:
    for count in COUNTS:
        hit = Limiter(windows(count), name=f"limits-{count}", store=store).hit
        statement = Statement("hit('user:1')", {"hit": hit})
        yield Contestant("overlimit, sliding windows", one_by_one(statement, effort.seconds), count)
        fixed = [FixedWindow(PLENTY, per=60 * (number + 1)) for number in range(count)]
        hit = Limiter(fixed, name=f"fixed-limits-{count}", store=store).hit
        statement = Statement("hit('user:1')", {"hit": hit})
        yield Contestant("overlimit, fixed windows", one_by_one(statement, effort.seconds), count)


def identifiers_on(store: Store, effort: Effort) -> Iterator[Contestant]:
    hit = Limiter(f"{PLENTY}/minute", name="identifiers", store=store).hit
    for count in COUNTS:
        names = [f"user:{number}" for number in range(count)]
        statement = Statement("hit(*names)", {"hit": hit, "names": names})
        yield Contestant("overlimit", one_by_one(statement, effort.seconds), count)


def blocks_on(store: Store, effort: Effort) -> Iterator[Contestant]:
    for count in BLOCKS[: effort.of(len(BLOCKS), 2)]:
        full = filled(count, store, f"blocks-{count}")
        yield Contestant("overlimit, all blocks in use", one_by_one(full, effort.seconds), count)
