"""Stores of one's own for tests."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

from overlimit._core import Step
from overlimit.stores import ValueStore


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
