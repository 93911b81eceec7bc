"""The names that limits accept and refuse."""

from __future__ import annotations

import pytest

from overlimit.errors import InvalidLimit
from overlimit.limits import FixedWindow, SlidingWindow, TokenBucket

from .kinds import KINDS, queueless


@KINDS
@pytest.mark.parametrize("name", ["a", "A-Z_0.9", "x" * 64])
def test_of_up_to_64_plain_characters_are_fine(kind, name):
    assert kind(1, 1, name=name).name == name


@KINDS
@pytest.mark.parametrize("name", ["", "x" * 65, "a b", "a:b", "é", "a\n", "{a}", b"a", 5, True])
def test_of_anything_else_are_refused(kind, name):
    with pytest.raises(InvalidLimit, match="name"):
        kind(1, 1, name=name)


@KINDS
def test_are_given_by_keyword(kind):
    by_place = {
        FixedWindow: ("first", "UTC", 0),
        SlidingWindow: (None,),
        TokenBucket: (1, "continuous", 0, "first"),
        queueless: (0,),
    }
    with pytest.raises(TypeError):
        kind(1, 1, *by_place.get(kind, ()), "name")
