"""Which names of counts a process remembers."""

from __future__ import annotations

from overlimit.http.rules.count_names import RecentNames


def test_each_name_is_remembered_once_and_the_latest_last():
    names = RecentNames()
    for name in ("a", "b", "a"):
        names.add(name)
    assert list(names) == ["b", "a"]


def test_the_oldest_of_many_are_forgotten():
    names = RecentNames()
    for number in range(1026):
        names.add(str(number))
        names.add("used")
    known = list(names)
    assert len(known) == 1024
    assert (known[0], known[-2:]) == ("3", ["1025", "used"])
