"""Names of policies: readable, valid, and never shared by two origins."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlimit import MemoryStore
from overlimit.http.rules.count_names import policy_name, usable_field_name
from overlimit.http.rules.counts import Counts

VALID = re.compile(r"[A-Za-z0-9_.-]{1,64}")
HASHED = re.compile(r".*[0-9a-f]{16}")
AWKWARD = [
    "a",
    "a-b",
    "a--b",
    "-a",
    "a-",
    "--",
    "route",
    "default",
    "application",
    "1",
    "é",
    "",
    "a b",
    "a/b",
    "x" * 70,
]


@pytest.mark.parametrize(
    ("name", "readable"),
    [
        (policy_name("application"), "application"),
        (policy_name("application", prefix="shop"), "shop--application"),
        (policy_name("default", "pages.index"), "default--pages.index"),
        (policy_name("route", "user-list", "1", prefix="my-shop"), "my-shop--route--user-list--1"),
    ],
)
def test_a_plain_origin_stays_readable(name, readable):
    assert name == readable


@pytest.mark.parametrize("endpoint", ["naïve", "a b", "", "x" * 65, "a--b", "a\n"])
def test_what_cannot_stand_gets_a_readable_part_and_a_hash(endpoint):
    name = policy_name("default", endpoint)
    assert VALID.fullmatch(name)
    assert HASHED.fullmatch(name)
    assert name.startswith("default-")


def test_no_two_origins_share_a_name():
    origins = [
        *(("application", (), prefix) for prefix in AWKWARD),
        *(("default", (endpoint,), prefix) for endpoint, prefix in itertools.product(AWKWARD, AWKWARD)),
        *(("route", parts, prefix) for *parts, prefix in itertools.product(AWKWARD, AWKWARD, AWKWARD)),
    ]
    names = [policy_name(kind, *parts, prefix=prefix) for kind, parts, prefix in origins]
    assert len(set(names)) == len(origins)
    assert all(map(VALID.fullmatch, names))


@given(st.text(), st.text())
def test_any_text_makes_a_valid_name_and_different_texts_different_ones(one, other):
    names = policy_name("default", one), policy_name("default", other)
    assert all(map(VALID.fullmatch, names))
    assert (names[0] == names[1]) == (one == other)


@given(st.text())
def test_a_usable_field_name_is_the_text_itself_or_hashed(text):
    name = usable_field_name(text)
    assert VALID.fullmatch(name)
    assert name == text or HASHED.fullmatch(name)


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
