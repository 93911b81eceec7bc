"""Hits on a store of one's own, over a dict, beside its own ``transact`` and a hit in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from measuring.timing import Statement, looped
from measuring.turns import Effort, Found, contest
from overlimit import MemoryStore
from overlimit.stores import ValueStore, Write
from parts.peers import PLENTY, ours

ONE = f"{PLENTY}/minute"


class DictStore(ValueStore):
    """The simplest one, for one thread."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[str, bytes] = {}

    def transact(self, keys: Sequence[str], step: Any) -> None:
        values = self.values
        for key, write in zip(keys, step([values.get(key) for key in keys]) or (), strict=False):
            if write is not None:
                values[key] = write.value


def contests(effort: Effort) -> Found:
    writes = [Write(b"x" * 60, 61.0)]
    alone = {"transact": DictStore().transact, "keys": ["one:user:1"], "step": lambda values: writes}
    statements = {
        "its transact alone": Statement("transact(keys, step)", alone),
        "overlimit, over a dict": ours(ONE, DictStore(), name="one"),
        "overlimit, in memory": ours(ONE, MemoryStore()),
    }
    turns = {name: looped(statement, effort.seconds) for name, statement in statements.items()}
    yield contest("A store of one's own, over a dict", "ns", turns)
