"""For tests: a time that all limiters follow, counts that begin anew, and what a store of one's own promises.

pytest users have the first two as the fixtures ``overlimit_time``, ``overlimit_python_time`` and
``overlimit_fresh``, which need no import.
"""

from overlimit.testing.promises import check_store as check_store
from overlimit.testing.times import fresh_counts as fresh_counts
from overlimit.testing.times import manual_time as manual_time
from overlimit.testing.times import python_time as python_time

__all__ = ["check_store", "fresh_counts", "manual_time", "python_time"]
