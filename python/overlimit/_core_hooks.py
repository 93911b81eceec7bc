"""What the core leaves to Python because it need not be fast.

The core imports no other module, but for `aio.loops`, once an event loop awaits a store of one's own.
Whatever the core calls is loaded with the package: a child that is forked while another thread imports a
module for the first time would wait for ever for the end of that import.
"""

from typing import Any, NoReturn

from overlimit import _core
from overlimit._forks import open_counters_file
from overlimit._logging.limiters import announce
from overlimit._logging.limiters import compare as compare_with_namesakes
from overlimit._logging.stores import answered as store_answered
from overlimit._logging.stores import (
    endpoint_of,
    warn_about_shared_memory,
    warn_of_crowded_store,
    warn_of_fork,
    warn_of_lost_counts,
)
from overlimit._logging.stores import failed as store_failed
from overlimit._messages.arguments import charges_in, expected_limiter
from overlimit._messages.migration_hints import missing_of_decision
from overlimit._messages.texts import short_repr
from overlimit._options import timeout_us_given
from overlimit._pickling import decision_bytes, restored_decision
from overlimit.clocks import limiter_reader
from overlimit.decisions import Detail, decision_html
from overlimit.errors import InvalidLimit, store_error
from overlimit.statistics import limiter_stats
from overlimit.stores.memory import local_fallback_of
from overlimit.stores.values import Write, scanned_keys, store_failure, told_of_store_error


def _refuse_pickling(self: object) -> NoReturn:
    of = type(self)
    raise TypeError(f"{of.__module__}.{of.__qualname__} objects cannot be pickled")


_reduce_of_object: Any = object.__reduce__


def _is_bound(value: Any) -> bool:
    """Whether it is a class of pybind11, of whose base type object.__reduce__ makes a copy: a crash."""
    return isinstance(value, type) and type(value) is not type and value.__reduce__ is _reduce_of_object


for _each in [*vars(_core).values()]:
    if _is_bound(_each):
        _each.__reduce__ = _refuse_pickling
