"""Objects that each process has of its own, forked ones too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from overlimit._core import _fork_generation

T = TypeVar("T")


class PerProcess(Generic[T]):
    """Something that each process makes for itself when it first asks: a lock, mostly.

    A forked child never sees its parent's, which a thread that the child lacks may have held. No hook runs
    after a fork, so servers may fork without Python's knowledge. Thread-safe, by single steps of a dict.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: dict[int, T] = {}

    def __call__(self) -> T:
        """Return the object of this process, made at the first call."""
        generation = _fork_generation()
        made = self._made.get(generation)
        return self._made.setdefault(generation, self._make()) if made is None else made


openers_of_counters: list[Callable[[], object]] = []
"""What opens a file for the counters of a forked child; see ``overlimit.metrics``."""


def open_counters_file() -> None:
    """Have a child keep its counters in a file, as its parent does; the core calls this."""
    for opener in openers_of_counters:
        opener()
