"""What ``overlimit`` shows to its users."""

from __future__ import annotations

import typing
from collections.abc import Callable

import overlimit
from overlimit import (
    ClockLike,
    FixedWindow,
    Limiter,
    LimitsLike,
    ManualClock,
    MemoryStore,
    OnError,
    OverlimitError,
    RateLimitExceeded,
    RedisStore,
    Store,
    StoreLike,
)
from overlimit.limits import ALGORITHMS


def test_dir_shows_the_public_names_and_no_others():
    assert dir(overlimit) == sorted(overlimit.__all__)
    assert not [name for name in dir(overlimit) if name.startswith("_") and name != "__version__"]
    assert all(hasattr(overlimit, name) for name in dir(overlimit))
    assert {kind.__name__ for kind in ALGORITHMS.values()} <= set(dir(overlimit))


def test_types_can_annotate_and_be_read_back():
    def make(limits: LimitsLike, store: StoreLike, clock: ClockLike | None, on_error: OnError) -> Store:
        raise NotImplementedError

    hints = typing.get_type_hints(make)
    assert hints["store"] == str | Store
    assert hints["return"] is Store
    assert typing.get_args(hints["on_error"]) == ("raise", "allow", "deny", "local")
    assert Callable[[], float] in typing.get_args(ClockLike)
    assert str in typing.get_args(LimitsLike)


def test_stores_are_stores():
    assert isinstance(MemoryStore(), Store)
    assert isinstance(RedisStore("unix:///nowhere"), Store)


def test_an_error_holds_the_decision_says_how_long_to_wait_and_names_nobody():
    limiter = Limiter(FixedWindow(1, 60), clock=ManualClock())
    limiter.hit("user:secret")
    refused = limiter.hit("user:secret")
    error = RateLimitExceeded(refused)
    assert error.decision is refused
    assert isinstance(error, OverlimitError)
    assert "60 seconds" in str(error)
    assert "secret" not in str(error) + repr(error)
    assert "never" in str(RateLimitExceeded(limiter.hit("a", cost=2)))
