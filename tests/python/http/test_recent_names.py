"""Which names of counts a process remembers."""

from __future__ import annotations

from overlimit import MemoryStore
from overlimit.http.rules.counts import Counts


def test_each_name_is_remembered_once_and_the_latest_last():
    counts = Counts(MemoryStore(), "raise")
    for name in ("a", "b", "a"):
        counts.note(name)
    assert counts.latest() == ("b", "a")


def test_the_oldest_of_many_are_forgotten():
    counts = Counts(MemoryStore(), "raise")
    for number in range(1026):
        counts.note(str(number))
        counts.note("used")
    known = counts.latest()
    assert len(known) == 1024
    assert (known[0], known[-2:]) == ("3", ("1025", "used"))
