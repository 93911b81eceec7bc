"""The pytest plugin of overlimit: its fixtures, in every project that has the package.

It stands beside the package, and imports it only in a fixture, so that a test run without them loads nothing
more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from overlimit import ManualClock

__all__ = ["overlimit_fresh", "overlimit_python_time", "overlimit_time"]


@pytest.fixture
def overlimit_time() -> Iterator[ManualClock]:
    """Have every limiter without a clock of its own follow this ManualClock during the test.

    It begins now and stands still until the test moves it, as ``overlimit_time.advance(60)``: see
    ``overlimit.testing.manual_time``.
    """
    from overlimit.testing import manual_time

    with manual_time() as clock:
        yield clock


@pytest.fixture
def overlimit_python_time() -> Iterator[None]:
    """Have every limiter without a clock of its own follow ``time.time`` during the test.

    So freezegun, time-machine and ``mock.patch`` move them: see ``overlimit.testing.python_time``.
    """
    from overlimit.testing import python_time

    with python_time():
        yield


@pytest.fixture
def overlimit_fresh() -> Callable[[], None]:
    """Have all memory stores of the process forget their counts before the test.

    Its value is ``overlimit.testing.fresh_counts``, to be called whenever they shall do so again. Shared
    memory and Redis stay as they are.
    """
    from overlimit.testing import fresh_counts

    fresh_counts()
    return fresh_counts
