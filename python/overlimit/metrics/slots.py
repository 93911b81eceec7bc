"""The counters of a process as the core keeps them: slots of numbers (cpp/bindings/counters.hpp)."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

STATUSES = ("allowed", "over", "locked", "never")
FAILURES = ("timeout", "unavailable", "config", "script")
BREAKER_STATES = ("closed", "open", "half_open")

LATENCY_BOUNDS = (
    0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0,
)  # fmt: skip
WAIT_BOUNDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0)

# The places of the numbers, by the kind of the slot.
STORE, LOCAL, ERROR, REFUSAL, LEASE, SHADOW = 0, 4, 8, 12, 16, 20
CROWDED, WAITS_BEGUN, WAIT_MICROS, WAITS = range(4)
GRANTED, RETURNED, LAPSED, SPENT = 16, 17, 18, 19
ERRORS, BREAKER, LATENCY_MICROS, LATENCIES, COMMANDS, RESTORED, FAILED_AT = 0, 4, 5, 6, 20, 21, 22

_SLOT = struct.Struct("=256s32Q")
SLOT_BYTES = _SLOT.size


class Key(NamedTuple):
    """What a slot is about: a limit of a policy (``l``), a policy (``p``) or a store (``s``)."""

    kind: str
    label: str
    limit: str = ""


Slots: TypeAlias = "dict[Key, list[int]]"


def parsed(data: bytes) -> Slots:
    """Return the slots in use."""
    found: Slots = {}
    for place in range(0, len(data) - SLOT_BYTES + 1, SLOT_BYTES):
        if data[place] == 0:
            break
        text, *numbers = _SLOT.unpack_from(data, place)
        found[Key(*text.rstrip(b"\0").decode("utf-8", "replace").split("\t", 2))] = numbers
    return found


def summed(parts: Iterable[Slots]) -> Slots:
    """Return the sums of numbers with the same key."""
    total: Slots = {}
    for slots in parts:
        for key, numbers in slots.items():
            before = total.get(key)
            total[key] = numbers if before is None else [a + b for a, b in zip(before, numbers, strict=True)]
    return total


def of_dead(slots: Slots) -> Slots:
    """Return what is left of a process that has died: nobody waits in it, and it has no breaker.

    What it had leased and neither spent nor released is lost: at most all of the leases that it died with.
    """
    left: Slots = {}
    for key, numbers in slots.items():
        kept = list(numbers)
        if key.kind == "p":
            kept[WAITS_BEGUN] = sum(kept[WAITS : WAITS + len(WAIT_BOUNDS) + 1])
            kept[LAPSED] += max(0, kept[GRANTED] - kept[RETURNED] - kept[LAPSED] - kept[SPENT])
        elif key.kind == "s":
            kept[BREAKER] = 0
        left[key] = kept
    return left
