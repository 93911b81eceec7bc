"""The exception of a refused request is overlimit's own and werkzeug's."""

from __future__ import annotations

import pickle

import pytest
from werkzeug.exceptions import HTTPException, TooManyRequests

import overlimit
from overlimit import FixedWindow, Limiter, ManualClock, MemoryStore
from overlimit.flask import RateLimitExceeded


@pytest.fixture
def refused():
    limiter = Limiter(FixedWindow(1, 60), name="p", store=MemoryStore(), clock=ManualClock(1_700_000_000))
    limiter.hit("user:secret")
    return limiter.hit("user:secret")


def test_is_caught_as_either(refused):
    for base in (overlimit.RateLimitExceeded, overlimit.OverlimitError, TooManyRequests, HTTPException):
        with pytest.raises(base) as caught:
            raise RateLimitExceeded(refused)
        assert caught.value.decision is refused
        assert caught.value.code == 429


def test_names_nobody(refused):
    error = RateLimitExceeded(refused)
    assert "secret" not in str(error) + repr(error) + str(error.description)
    assert "429" in str(error)


def test_pickles(refused):
    error = RateLimitExceeded(refused, "Too fast.", violated=["p"])
    copied = pickle.loads(pickle.dumps(error))
    assert type(copied) is RateLimitExceeded
    assert (copied.decision, copied.description, copied.code) == (refused, "Too fast.", 429)
    assert copied.retry_after == error.retry_after == 60
    assert copied.get_response().get_data() == error.get_response().get_data()
