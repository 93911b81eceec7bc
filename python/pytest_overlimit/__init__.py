"""The pytest plugin of overlimit: its fixtures, in every project that has the package.

It stands beside the package, and imports it only in a fixture, so that a test run without them loads nothing
more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from overlimit import ManualClock

_DAY = 86_400  # where blocks of sliding windows begin, those of a second as well as those of a day

__all__ = ["overlimit_fresh", "overlimit_python_time", "overlimit_time"]


@pytest.fixture
def overlimit_time() -> Iterator[ManualClock]:
    """Have every limiter without a clock of its own follow this ManualClock during the test.

    It begins at the start of today in UTC, so that waits are the same in each run. It
    stands still until the test moves it, as ``overlimit_time.advance(60)``: see
    ``overlimit.testing.manual_time``.
    """
    from overlimit.testing import manual_time

    with manual_time(time.time() // _DAY * _DAY) as clock:
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
    """Have all stores in the process's memory, also ``sqlite://``, forget their counts before the test.

    Its value is ``overlimit.testing.fresh_counts``, to be called whenever they shall do so again. Shared
    memory, files and servers stay as they are.
    """
    from overlimit.testing import fresh_counts

    fresh_counts()
    return fresh_counts
