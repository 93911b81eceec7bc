"""``check_store``: a store that keeps its promises passes, and each that is broken is told in a sentence."""

from __future__ import annotations

import os
import re
import threading
import time
from typing import ClassVar

import pytest

from overlimit.stores import PostgreSQLStore, SQLiteStore, ValueStore
from overlimit.testing import check_store


class Place:
    """Values of this process, and a lock of it."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.lock = threading.RLock()


class DictStore(ValueStore):
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
        return step([self.place.values.get(key) for key in keys])

    def write(self, keys, writes):
        for key, write in zip(keys, writes or (), strict=False):
            if write is not None:
                self.place.values[key] = write.value

    def after_fork(self):
        self.place.lock = threading.RLock()

    def scan(self, prefix):
        return [(key, value) for key, value in self.place.values.items() if key.startswith(prefix)]


class Unlocked(DictStore):
    def transact(self, keys, step):
        self.write(keys, self.decide(keys, step))


class Swapping(DictStore):
    """Compares and swaps, in a loop, with the time at which it has read."""

    def transact(self, keys, step):
        while True:
            read = [self.place.values.get(key) for key in keys]
            writes = step(read, time.time())
            with self.place.lock:
                if read == [self.place.values.get(key) for key in keys]:
                    return self.write(keys, writes)


class WithTime(DictStore):
    def decide(self, keys, step):
        return step([self.place.values.get(key) for key in keys], time.time())


class Forgetful(DictStore):
    def __init__(self, place: Place) -> None:
        super().__init__(Place())


class Reversed(DictStore):
    def decide(self, keys, step):
        return step([self.place.values.get(key) for key in reversed(keys)])


class Truncating(DictStore):
    def write(self, keys, writes):
        super().write(keys, [write and write._replace(value=write.value[:100]) for write in writes or ()])


class Folding(DictStore):
    """Keeps keys as a collation that knows no small letters does."""

    def scan(self, prefix):
        pattern = re.compile(re.escape(prefix).replace("_", "."), re.IGNORECASE)
        return [each for each in self.place.values.items() if pattern.match(each[0])]


class Expiring(DictStore):
    """Removes a key when the first of its values has expired."""

    ends: ClassVar[dict[str, float]] = {}

    def write(self, keys, writes):
        super().write(keys, writes)
        now = time.monotonic()
        for key, write in zip(keys, writes or (), strict=False):
            if write is not None:
                self.ends.setdefault(key, now + write.expires_in)
        for key in [key for key, end in self.ends.items() if end < now]:
            self.place.values.pop(key, None)


class HalfWriting(DictStore):
    """Writes the first key before it asks what to write."""

    def decide(self, keys, step):
        before = dict(self.place.values)
        self.place.values[keys[0]] = b"7"
        return step([before.get(key) for key in keys])


class Early(DictStore):
    """Reads the clock before it waits for the lock."""

    def transact(self, keys, step):
        now = time.time()
        with self.place.lock:
            self.write(keys, step([self.place.values.get(key) for key in keys], now))


class Timeless(DictStore):
    def decide(self, keys, step):
        return step([self.place.values.get(key) for key in keys], "soon")


class Endless(DictStore):
    """Waits for the lock for as long as that takes."""

    def transact(self, keys, step):
        with self.place.lock:
            self.write(keys, self.decide(keys, step))


class Unforkable(DictStore):
    process = os.getpid()

    def decide(self, keys, step):
        if os.getpid() != self.process:
            raise ConnectionError("this is the connection of another process")
        return super().decide(keys, step)


class Lazy(DictStore):
    """Answers without asking what to write."""

    def transact(self, keys, step):
        return None


def checked(kind: type[DictStore], seconds: float = 60.0) -> str:
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


@pytest.mark.parametrize("kind", [DictStore, Swapping, WithTime])
def test_a_store_that_keeps_its_promises_passes(kind: type[DictStore]) -> None:
    assert checked(kind) == ""


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (Forgetful, "What one object has written, another sees"),
        (Reversed, "Values are given in the order of the keys"),
        (Truncating, "byte for byte"),
        (Folding, "takes the prefix literally"),
        (Expiring, "lives as long as the new one is given"),
        (HalfWriting, "Nothing is written if step raises, such as a ValueError"),
        (Unlocked, "nobody else writes these keys"),
        (Early, "now is the time at which the values are held"),
        (Timeless, "now is a number of seconds"),
        (Endless, "ends when step.time_left() is 0"),
        (Unforkable, "A forked child can use the store"),
        (Lazy, "without having called step"),
    ],
)
def test_a_broken_promise_is_told(kind: type[DictStore], sentence: str) -> None:
    said = checked(kind)
    assert sentence in said
    assert all(line.endswith(".") or "This raised" in line for line in said.splitlines())


def test_stores_that_are_shipped_keep_their_promises(tmp_path, postgresql_url: str) -> None:
    check_store(lambda: SQLiteStore(tmp_path / "limits.db"))
    check_store(lambda: PostgreSQLStore(postgresql_url))
