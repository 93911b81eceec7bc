"""Stores of one's own for tests."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from overlimit.stores import Step, ValueStore


class DictStore(ValueStore):
    """The simplest one: values in a dict, for one thread at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[str, bytes] = {}
        self.lock = threading.Lock()

    def transact(self, keys: Sequence[str], step: Step) -> None:
        with self.lock:
            writes = step([self.values.get(key) for key in keys]) or []
            self.values |= {key: write.value for key, write in zip(keys, writes, strict=False) if write}

    def scan(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        return ((key, value) for key, value in list(self.values.items()) if key.startswith(prefix))


class TableStore(ValueStore):
    """Compare and swap: items with versions, which are all written if each has the version that was read."""

    max_keys = 100

    def __init__(self, region: Any, *, size: int = 0) -> None:
        super().__init__()
        self.region, self.size = region, size
        self.items: dict[str, tuple[bytes | None, int]] = {}
        self.lock = threading.Lock()

    def transact(self, keys: Sequence[str], step: Step) -> None:
        while True:
            found = [self.items.get(key, (None, 0)) for key in keys]
            writes = step([value for value, _ in found])
            if writes is None or self._swap(keys, found, writes):
                return
            time.sleep(min(step.time_left(), random.uniform(0, 0.002)))

    def _swap(
        self, keys: Sequence[str], found: Sequence[tuple[bytes | None, int]], writes: Sequence[Any]
    ) -> bool:
        with self.lock:
            if any(self.items.get(key, (None, 0)) != item for key, item in zip(keys, found, strict=True)):
                return False
            for key, write, (value, version) in zip(keys, writes, found, strict=True):
                self.items[key] = (write.value if write else value, version + 1)
            return True
