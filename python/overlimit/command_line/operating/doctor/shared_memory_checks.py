"""What the doctor looks at in shared memory."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from overlimit.command_line.operating.doctor.findings import Finding, broken, ok, unknown, warning
from overlimit.command_line.operating.tables import be, counted
from overlimit.limiter import Limiter
from overlimit.stores import SharedMemoryStore

_LITTLE_ROOM = 0.05
_NEARLY_FULL = 0.9


def findings_in(store: SharedMemoryStore) -> Iterator[Finding]:
    """Examine a file that exists and can be used."""
    stats = store.stats()
    yield from _damage(stats["damaged"])
    yield from _crowd(stats["crowded"])
    alive, attached = stats["processes"]["alive"], stats["processes"]["attached"]
    told = (
        f"{counted(len(store), 'key')} {be(len(store), 'is', 'are')} kept; {counted(alive, 'process')} "
        f"{be(alive, 'uses', 'use')} it, this one included"
    )
    yield ok("processes", f"{told}." if alive == attached else f"{told}, and {attached - alive} died.")
    yield from _room(Path(store.path).parent)
    yield from _mode(store)


def live_call(store: SharedMemoryStore) -> Finding:
    """Make a call that counts, and forget it; not where it might share the counts of others."""
    if store.stats()["crowded"] or share_used(store) > _NEARLY_FULL:
        return unknown("call", "No call was made: there may be no room to count it apart.")
    limiter = Limiter("1/hour", name=f"overlimit-doctor-{secrets.token_hex(6)}", store=store)
    answers = [limiter.hit("x").allowed, limiter.hit("x").allowed]
    limiter.reset("x")
    if answers == [True, False]:
        return ok("call", "A call was counted, the next one refused, and both are forgotten.")
    return broken("call", f"Two calls under 1/hour were admitted as {answers}.", "Report this as a bug.")


def share_used(store: SharedMemoryStore) -> float:
    """Return how much of the room for keys is used: of their number or of their bytes, what is more."""
    used = store._usage()
    return max(used["keys"] / used["max_keys"], used["bytes"] / used["max_bytes"])


@contextmanager
def beside(store: SharedMemoryStore) -> Iterator[SharedMemoryStore]:
    """Make a small shared memory in the same directory, and remove it in the end."""
    path = Path(store.path).parent / f"overlimit-doctor-{secrets.token_hex(6)}"
    own = SharedMemoryStore(path, max_keys=1000, max_bytes=1 << 18)
    try:
        yield own
    finally:
        own.unlink()


def _damage(damaged: int) -> Iterator[Finding]:
    if damaged:
        yield broken(
            "damage",
            f"{counted(damaged, 'part')} of it {be(damaged, 'is', 'are')} damaged: no more is granted there.",
            "Remove it with `overlimit shm remove`, and restart all processes that use it.",
        )
    else:
        yield ok("damage", "No part of it is known to be damaged.")


def _crowd(crowded: int) -> Iterator[Finding]:
    if crowded:
        yield warning(
            "room",
            f"It was full: in {counted(crowded, 'decision')} identifiers shared counts, and some were "
            "refused early.",
            "Make it anew with a larger max_keys or max_bytes.",
        )
    else:
        yield ok("room", "It was never full.")


def _room(directory: Path) -> Iterator[Finding]:
    room = os.statvfs(directory)
    share = room.f_bavail / room.f_blocks if room.f_blocks else 1.0
    if share < _LITTLE_ROOM:
        yield warning(
            "file system",
            f"{share:.1%} of {directory} is free.",
            "Give it more room, or remove what is not used: `overlimit shm list` shows what there is.",
        )


def _mode(store: SharedMemoryStore) -> Iterator[Finding]:
    mode = os.stat(store.path).st_mode & 0o777
    if mode & 0o002:
        yield warning(
            "permissions",
            f"Everybody may change counts: its mode is {mode:o}.",
            "Make it 600 or 660.",
        )
    else:
        yield ok("permissions", f"Its mode is {mode:o}.")
