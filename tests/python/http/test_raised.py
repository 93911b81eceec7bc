"""The exceptions of the adapters: those of the framework too, which name nobody and can be pickled."""

from __future__ import annotations

import pickle

import pytest
from starlette.exceptions import HTTPException
from werkzeug.exceptions import ServiceUnavailable, TooManyRequests

import overlimit.django
import overlimit.fastapi
import overlimit.flask
import overlimit.quart
from overlimit import FixedWindow, Limiter, ManualClock, RateLimitExceeded

KINDS = {
    "flask": (overlimit.flask.RateLimitExceeded, (RateLimitExceeded, TooManyRequests), "description"),
    "flask, of a store": (overlimit.flask.StoreFailed, (ServiceUnavailable,), "description"),
    "quart": (overlimit.quart.RateLimitExceeded, (RateLimitExceeded, TooManyRequests), "description"),
    "quart, of a store": (overlimit.quart.StoreFailed, (ServiceUnavailable,), "description"),
    "fastapi": (overlimit.fastapi.RateLimitExceeded, (RateLimitExceeded, HTTPException), "detail"),
    "fastapi, of a store": (overlimit.fastapi.StoreFailed, (HTTPException,), "detail"),
    "django": (overlimit.django.RateLimitExceeded, (RateLimitExceeded,), "message"),
}


@pytest.mark.parametrize(("kind", "bases", "said"), KINDS.values(), ids=KINDS)
def test_a_copy_says_the_same_of_the_same_decision(kind, bases, said):
    limiter = Limiter(FixedWindow(1, 60), name="p", clock=ManualClock())
    decision = [limiter.hit("user:secret") for _ in range(2)][1]
    error = kind(decision, *([] if "StoreFailed" in kind.__name__ else ["Too fast."]))
    assert all(isinstance(error, base) for base in bases)
    assert "secret" not in str(error) + repr(error) + str(vars(error).get(said))
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.decision, str(again)) == (kind, decision, str(error))
    assert getattr(again, said) == getattr(error, said)
    assert getattr(again, "headers", None) == getattr(error, "headers", None)
    if hasattr(error, "answer"):
        assert again.answer("text/html") == error.answer("text/html")


@pytest.mark.parametrize("adapter", [overlimit.flask, overlimit.quart, overlimit.fastapi])
def test_the_limits_that_were_violated_are_kept(adapter):
    error = adapter.RateLimitExceeded(Limiter("0/minute").hit("a"), "Too fast.", violated=["p", "q"])
    assert b'["p", "q"]' in pickle.loads(pickle.dumps(error)).answer("application/json")[2]
