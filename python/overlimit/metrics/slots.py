"""The counters of a process as the core keeps them: slots of numbers, whose layout the core says."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from overlimit import _core

AT = _core._PLACES
"""Where the numbers of a name begin in their slot."""
STATUSES = ("allowed", *_core._STATUSES[1:])

_SLOT = struct.Struct(_core._SLOT)
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


def several(numbers: list[int], name: str, count: int) -> list[int]:
    """Return those of a slot that have one name."""
    return numbers[AT[name] : AT[name] + count]


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
            kept[AT["waits_begun"]] = sum(several(kept, "waits", len(_core._WAIT_BOUNDS) + 1))
            ended = sum(kept[AT[name]] for name in ("returned", "lapsed", "spent"))
            kept[AT["lapsed"]] += max(0, kept[AT["granted"]] - ended)
        elif key.kind == "s":
            kept[AT["breaker"]] = 0
        left[key] = kept
    return left
