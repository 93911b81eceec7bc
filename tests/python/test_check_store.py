"""``check_store``: a store that keeps its promises passes, and each that is broken is told in a sentence."""

from __future__ import annotations

import contextlib
import fnmatch
import itertools
import math
import os
import re
import secrets
import threading
import time
from decimal import Decimal

import pytest

from overlimit.stores import PostgreSQLStore, SQLiteStore, ValueStore
from overlimit.testing import check_store

NOTHING = (None, None)


class Place:
    """What a database has: values with when they end, or with versions."""

    def __init__(self) -> None:
        self.items: dict[str, tuple[bytes | None, object]] = {}
        self.lock = threading.RLock()
        self.locks: dict[str, threading.Lock] = {}


class Locking(ValueStore):
    """It holds one lock for all keys, and forgets values once they have expired."""

    is_shared = False

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place

    def transact(self, keys, step):
        if not self.place.lock.acquire(timeout=step.time_left()):
            raise TimeoutError("others have it")
        try:
            self.write(keys, self.decide(keys, step))
        finally:
            self.place.lock.release()

    def decide(self, keys, step):
        return step(self.values(keys))

    def values(self, keys):
        now = time.monotonic()
        return [value if end and end > now else None for value, end in map(self.item, keys)]

    def item(self, key):
        return self.place.items.get(key, NOTHING)

    def write(self, keys, writes):
        for key, write in zip(keys, writes or (), strict=False):
            if write is not None:
                self.put(key, write)

    def put(self, key, write):
        self.place.items[key] = (write.value, time.monotonic() + write.expires_in)

    def after_fork(self):
        self.place.lock = threading.RLock()

    def scan(self, prefix):
        return [(key, value) for key, (value, _) in self.place.items.items() if key.startswith(prefix)]


class Swapping(Locking):
    """It compares versions and swaps, in a loop."""

    def transact(self, keys, step):
        while True:
            items = [self.item(key) for key in keys]
            writes = step([value for value, _ in items])
            if writes is None or self.swap(keys, items, writes):
                return
            time.sleep(min(step.time_left(), 0.001))

    def swap(self, keys, items, writes):
        with self.place.lock:
            if any(self.item(key) != item for key, item in zip(keys, items, strict=True)):
                return False
            self.write(keys, writes)
            return True

    def put(self, key, write):
        self.place.items[key] = (write.value, secrets.token_hex(4))

    def delete(self, keys):
        with self.place.lock:
            for key in keys:
                self.place.items.pop(key, None)


class OfOneKey(Swapping):
    max_keys = 1

    async def transact_async(self, keys, step):
        self.transact(keys, step)


class OfTwoKeys(Locking):
    """It tells whole seconds."""

    max_keys = 2

    def decide(self, keys, step):
        return step(self.values(keys), int(time.time()))


class Keeping(ValueStore):
    """The one of the guide, which keeps what has expired and never waits for long."""

    is_shared = waits = False

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place

    def transact(self, keys, step):
        with self.place.lock:
            writes = step(
                [memoryview(self.place.items[key]) if key in self.place.items else None for key in keys],
                self.now(),
            )
            self.place.items |= {
                key: write.value for key, write in zip(keys, writes or (), strict=False) if write
            }

    def now(self):
        return Decimal(time.time())


class Forgetful(Locking):
    def __init__(self, place: Place) -> None:
        super().__init__(Place())


class Reversed(Locking):
    def values(self, keys):
        return super().values([*reversed(keys)])


class Truncating(Locking):
    def put(self, key, write):
        super().put(key, write._replace(value=write.value[:100]))


class OfBlobs(Locking):
    """It cuts values as a BLOB of MySQL does where nobody is strict."""

    def put(self, key, write):
        super().put(key, write._replace(value=write.value[:65535]))


class Roomless(Locking):
    """It refuses what is too large, as DynamoDB does."""

    def put(self, key, write):
        if len(write.value) > 400_000:
            raise ValueError("the item is too large")
        super().put(key, write)


class Renaming(Locking):
    """It keeps keys by other names."""

    def item(self, key):
        return super().item(self.renamed(key))

    def put(self, key, write):
        super().put(self.renamed(key), write)


class OfShortKeys(Renaming):
    def renamed(self, key):
        return key[:100]


class Caseless(Renaming):
    """Its keys are those of a collation that knows no small letters."""

    def renamed(self, key):
        return key.upper()


class OfPaths(Renaming):
    """It keeps keys as names of files."""

    def renamed(self, key):
        return key.replace("/", ":")


class Stripping(Locking):
    def put(self, key, write):
        super().put(key, write._replace(value=write.value.rstrip()))


class OfMonths(Locking):
    """It takes more than thirty days for an instant, as memcached does."""

    def put(self, key, write):
        end = write.expires_in - time.time() if write.expires_in > 30 * 86400 else write.expires_in
        super().put(key, write._replace(expires_in=end))


class OfMilliseconds(Locking):
    def put(self, key, write):
        super().put(key, write._replace(expires_in=write.expires_in / 1000))


class RoundingDown(Locking):
    def put(self, key, write):
        super().put(key, write._replace(expires_in=int(write.expires_in)))


class Expiring(Locking):
    """It removes a key when the first of its values has expired."""

    def put(self, key, write):
        _, end = self.item(key)
        super().put(key, write)
        self.place.items[key] = (write.value, end or time.monotonic() + write.expires_in)


class HalfWriting(Locking):
    """It writes the first key before it asks what to write."""

    def decide(self, keys, step):
        before = self.values(keys)
        self.place.items[keys[0]] = (b"7", time.monotonic() + 9)
        return step(before)


class Unlocked(Locking):
    def transact(self, keys, step):
        self.write(keys, self.decide(keys, step))


class ComparingWritten(Swapping):
    """It compares what it writes, and not what else was read."""

    def swap(self, keys, items, writes):
        written = [each for each in zip(keys, items, writes, strict=True) if each[2]]
        return super().swap(*zip(*written, strict=True))


class KeyByKey(Swapping):
    def swap(self, keys, items, writes):
        return all(
            super(KeyByKey, self).swap([key], [item], [write])
            for key, item, write in zip(keys, items, writes, strict=True)
        )


class CountingVersions(Swapping):
    """Its versions begin anew once a key was removed."""

    def put(self, key, write):
        _, version = self.item(key)
        self.place.items[key] = (write.value, (version or 0) + 1)

    def swap(self, keys, items, writes):
        return super().swap(
            keys,
            [(self.item(key)[0], version) for key, (_, version) in zip(keys, items, strict=True)],
            writes,
        )


class KeyLocking(Locking):
    """It has a lock for each key."""

    def transact(self, keys, step):
        with contextlib.ExitStack() as held:
            for key in self.locked(keys):
                lock = self.place.locks.setdefault(key, threading.Lock())
                if not lock.acquire(timeout=step.time_left()):
                    raise TimeoutError("others have it")
                held.callback(lock.release)
            self.write(keys, self.decide(keys, step))

    def locked(self, keys):
        return keys


class LockingFirst(KeyLocking):
    def locked(self, keys):
        return keys[:1]


class LockingLast(KeyLocking):
    def locked(self, keys):
        return keys[-1:]


class Touching(Locking):
    """Its peeks write what they have read, so that it lives for longer."""

    def transact(self, keys, step):
        if not step.reads_only:
            return super().transact(keys, step)
        items = [self.item(key) for key in keys]
        self.decide(keys, step)
        time.sleep(0.001)
        self.place.items |= {key: item for key, item in zip(keys, items, strict=True) if item != NOTHING}


class Losing(Locking):
    """It catches what goes wrong with every fifth write."""

    count = itertools.count()

    def put(self, key, write):
        if next(self.count) % 5 != 4 or not write.value.isdigit():
            super().put(key, write)


class GivingUp(Swapping):
    """It says nothing of it when others were faster three times."""

    def transact(self, keys, step):
        with contextlib.suppress(StopIteration):
            self.rounds = iter(range(3))
            super().transact(keys, step)

    def swap(self, keys, items, writes):
        return super().swap(keys, items, writes) or next(self.rounds) is None


class Stubborn(Swapping):
    """It begins again whatever is raised."""

    def transact(self, keys, step):
        while True:
            try:
                return super().transact(keys, step)
            except OSError:
                continue


class Endless(Locking):
    """It waits for the lock for as long as that takes."""

    def transact(self, keys, step):
        with self.place.lock:
            super().transact(keys, step)


class Quiet(Locking):
    """It says nothing of what goes wrong."""

    def transact(self, keys, step):
        with contextlib.suppress(TimeoutError):
            super().transact(keys, step)


class Lazy(Locking):
    """It answers without asking what to write."""

    def transact(self, keys, step):
        return None


class Early(Locking):
    """It reads the clock before it waits for the lock."""

    def transact(self, keys, step):
        now = time.time()
        with self.place.lock:
            self.write(keys, step(self.values(keys), now))


def telling(now):
    """Return a kind of store that tells what a function returns for the time."""
    return type("Telling", (Keeping,), {"now": lambda self: now()})


class Standing(Keeping):
    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.began = time.time()

    def now(self):
        return self.began


class Backward(Standing):
    def now(self):
        return 2 * self.began - time.time()


class Unsteady(Keeping):
    turns = itertools.count()

    def now(self):
        return time.time() - next(self.turns) % 2


class Unforkable(Locking):
    process = os.getpid()

    def decide(self, keys, step):
        if os.getpid() != self.process:
            raise ConnectionError("this is the connection of another process")
        return super().decide(keys, step)


class SaidToBeShared(Locking):
    is_shared = True


class Folding(Locking):
    """It keeps keys as a collation that knows no small letters does."""

    def scan(self, prefix):
        pattern = re.compile(re.escape(prefix).replace("_", "."), re.IGNORECASE)
        return [each for each in super().scan("") if pattern.match(each[0])]


class Globbing(Locking):
    """It lists keys as a shell does."""

    def scan(self, prefix):
        return [each for each in super().scan("") if fnmatch.fnmatchcase(each[0], prefix + "*")]


class Finding(Locking):
    def scan(self, prefix):
        return [each for each in super().scan("") if prefix in each[0]]


class OfOnePage(Locking):
    def scan(self, prefix):
        return super().scan(prefix)[:1000]


class Retaining(Locking):
    def delete(self, keys):
        return None


class Sweeping(Locking):
    def delete(self, keys):
        self.place.items.clear()


class RemovingOne(Locking):
    def delete(self, keys):
        with self.place.lock:
            self.place.items.pop(keys[0], None)


class Reviving(Swapping):
    """It compares no versions of what is gone."""

    def swap(self, keys, items, writes):
        now = [
            item if self.item(key) == NOTHING else self.item(key)
            for key, item in zip(keys, items, strict=True)
        ]
        if now != items:
            return False
        return super().swap(keys, [self.item(key) for key in keys], writes)


class ClosedForGood(Locking):
    is_open = True

    def close(self):
        self.is_open = False

    def decide(self, keys, step):
        if not self.is_open:
            raise ConnectionError("it is closed")
        return super().decide(keys, step)


class Emptied(Locking):
    def close(self):
        self.place.items.clear()


class Everywhere(Locking):
    def is_same_as(self, other):
        return True


class Pong(Locking):
    def ping(self, timeout=None):
        return "PONG"


class Inserting(Locking):
    """It leaves a row of each stranger."""

    def values(self, keys):
        for key in keys:
            self.place.items.setdefault(key, NOTHING)
        return super().values(keys)


class BlockingTasks(Locking):
    """It waits for its lock on the event loop."""

    async def transact_async(self, keys, step):
        self.transact(keys, step)


class ForgettingTasks(Locking):
    async def transact_async(self, keys, step):
        self.decide(keys, step)


def checked(kind: type[ValueStore], seconds: float = 60.0) -> str:
    """Return what is said of a store, which may take so long."""
    place = Place()
    began = time.monotonic()
    try:
        check_store(lambda: kind(place))
    except AssertionError as error:
        return str(error)
    finally:
        assert time.monotonic() - began < seconds
    return ""


@pytest.mark.parametrize("kind", [Locking, KeyLocking, Swapping, OfOneKey, OfTwoKeys, Keeping, Roomless])
def test_a_store_that_keeps_its_promises_passes(kind: type[ValueStore]) -> None:
    assert checked(kind) == ""


@pytest.mark.check
@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (Forgetful, "another sees that was opened on the same place: this is what make"),
        (Reversed, "Values are given in the order of the keys"),
        (Truncating, "byte for byte"),
        (OfBlobs, "a store with less room raises, and cuts nothing off"),
        (OfShortKeys, "all of its 250 count"),
        (Caseless, "small letters are no capitals"),
        (OfPaths, "none stands for another"),
        (Stripping, "byte for byte"),
        (OfMonths, "also if these are more than a year"),
        (OfMilliseconds, "not for less: they are no milliseconds"),
        (RoundingDown, "whole seconds are rounded up"),
        (Expiring, "lives as long as the new one is given"),
        (HalfWriting, "Nothing is written if step raises, such as a ValueError"),
        (Unlocked, "nobody else writes these keys: lock them, or write only if nothing has changed"),
        (ComparingWritten, "lock or compare all keys that were read"),
        (KeyByKey, "a conflict at one key leaves no other changed"),
        (CountingVersions, "Take a random one for each write"),
        (LockingFirst, "lock or compare all keys, and not the first or the last alone"),
        (LockingLast, "lock or compare all keys, and not the first or the last alone"),
        (Touching, "what could not be written is raised"),
        (Losing, "what could not be written is raised"),
        (GivingUp, "if it could not be, that is raised"),
        (Stubborn, "again and again ends when step.time_left() is 0: what step raises then is raised"),
        (Endless, "acquire(timeout=step.time_left())"),
        (Quiet, "transact calls step, or raises what kept it from that"),
        (Lazy, "transact calls step, or raises what kept it from that"),
        (Early, "now is the time at which the values are held"),
        (telling(lambda: "soon"), "now is a number of seconds since the Unix epoch, not 'soon'"),
        (telling(lambda: math.inf), "now is a number of seconds since the Unix epoch, not inf"),
        (telling(lambda: time.time() * 1000), "now is in seconds since the Unix epoch"),
        (telling(lambda: time.time() + 3600), "it is 3600 seconds away"),
        (Backward, "now goes on as time does, and never backward"),
        (Standing, "it is read anew for each transaction"),
        (Unsteady, "now goes on as time does, and never backward"),
        (Unforkable, "A forked child can use the store"),
        (SaidToBeShared, "says is_shared = False"),
        (Folding, "takes the prefix literally"),
        (Globbing, "takes the prefix literally"),
        (Finding, "at the beginning of a key"),
        (OfOnePage, "however many pages these are"),
        (Retaining, "delete(keys) removes these keys and no others"),
        (Sweeping, "delete(keys) removes these keys and no others"),
        (RemovingOne, "delete(keys) removes these keys and no others"),
        (Reviving, "delete(keys) is a write of these keys"),
        (ClosedForGood, "Open at the next call what close() has closed"),
        (Emptied, "close() forgets nothing"),
        (Everywhere, "is_same_as(other) is False of a store of another place"),
        (Pong, "ping(timeout) returns how many seconds it took, not 'PONG'"),
        (Inserting, "insert nothing but what is written"),
        (BlockingTasks, "transact_async awaits whatever it waits for"),
        (ForgettingTasks, "transact_async: What is written is read"),
    ],
)
def test_a_broken_promise_is_told(kind: type[ValueStore], sentence: str) -> None:
    said = checked(kind)
    assert sentence in said
    assert all(line.endswith(".") or "This raised" in line for line in said.splitlines())


def test_who_shares_values_with_other_processes_says_so(tmp_path) -> None:
    def make() -> SQLiteStore:
        store = SQLiteStore(tmp_path / "limits.db")
        store.is_shared = False
        return store

    with pytest.raises(AssertionError, match="or the store says is_shared = True"):
        check_store(make)


def test_stores_that_are_shipped_keep_their_promises(tmp_path, postgresql_url: str) -> None:
    check_store(lambda: SQLiteStore(tmp_path / "limits.db"))
    check_store(lambda: PostgreSQLStore(postgresql_url))
