"""A site of each adapter in turn, with a clock that stands still; in memory, unless a test is marked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from adapters import DRIVERS
from adapters.site import Driver, Site
from memory_unless_marked import pytest_generate_tests, store
from overlimit import ManualClock
from overlimit.stores import Store

__all__ = ["pytest_generate_tests", "store"]


@pytest.fixture
def adapter(driver: str) -> Driver:
    return DRIVERS[driver]


@pytest.fixture
def serve(adapter: Driver, store: Store, clock: ManualClock) -> Iterator[Callable[..., Site]]:
    """Return ``Driver.serve`` with the store and the clock of this test, which ends what it serves."""
    with ExitStack() as served:

        def make(views: Any = lambda asked: "ok", **options: Any) -> Site:
            given = {"store": store, "clock": clock, "algorithm": "fixed_window", **options}
            return served.enter_context(adapter.serve(views, **given))

        yield make
