"""Rate limiting that never admits more than it promises.

Several limits for several identifiers are decided in one atomic step: in the memory of a process, in memory
that all processes of a host share (``store="shm://myapp"``), or in Redis::

    from overlimit import Limiter

    limiter = Limiter("10/second; 120/minute; 240/hour")
    decision = limiter.hit("ip:203.0.113.7", "user:42")
    if not decision:
        print(f"come back in {decision.retry_after} s")
"""

import sys as _sys
import typing as _typing
from types import ModuleType as _ModuleType

from overlimit import _core
from overlimit._core import Decision as Decision
from overlimit._core import __version__ as __version__
from overlimit._core import hit_all as hit_all
from overlimit._core import peek_all as peek_all
from overlimit._messages.migration_hints import missing_of_package as _missing_of_package
from overlimit.budgets import acquire_first as acquire_first
from overlimit.budgets import first_of as first_of
from overlimit.budgets import hit_first as hit_first
from overlimit.clocks import ClockLike as ClockLike
from overlimit.clocks import ManualClock as ManualClock
from overlimit.decisions import Decisions as Decisions
from overlimit.decisions import Detail as Detail
from overlimit.errors import InvalidLimit as InvalidLimit
from overlimit.errors import OverlimitError as OverlimitError
from overlimit.errors import RateLimitExceeded as RateLimitExceeded
from overlimit.errors import ScriptError as ScriptError
from overlimit.errors import StoreConfigError as StoreConfigError
from overlimit.errors import StoreError as StoreError
from overlimit.errors import StoreTimeout as StoreTimeout
from overlimit.errors import StoreUnavailable as StoreUnavailable
from overlimit.leasing import Bounds as Bounds
from overlimit.leasing import bounds as bounds
from overlimit.limiter import Limiter as Limiter
from overlimit.limiter import OnError as OnError
from overlimit.limits import Limit as Limit
from overlimit.limits import LimitsLike as LimitsLike
from overlimit.limits.algorithms import *
from overlimit.limits.penalty import Penalty as Penalty
from overlimit.mirrored import over_limit as over_limit
from overlimit.mirrored import over_limit_multi as over_limit_multi
from overlimit.mirrored import over_limit_multi_lua as over_limit_multi_lua
from overlimit.mirrored import over_limit_sliding_window as over_limit_sliding_window
from overlimit.stores import MemoryStore as MemoryStore
from overlimit.stores import RedisStore as RedisStore
from overlimit.stores import SharedMemoryStore as SharedMemoryStore
from overlimit.stores import Store as Store
from overlimit.stores import StoreLike as StoreLike
from overlimit.waiting import acquire_all as acquire_all

_core._load_hooks()

if not _typing.TYPE_CHECKING:
    __all__ = ["__version__"]
    __all__ += [n for n, value in globals().items() if n[0] != "_" and not isinstance(value, _ModuleType)]


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(globals()["__all__"])


# A type checker shall go on telling of names that are not there.
if not _typing.TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Say which module has a name that is not here."""
        raise _missing_of_package(_sys.modules[__name__], name, _sys._getframe(1))
