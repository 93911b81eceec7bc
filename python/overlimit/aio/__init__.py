"""Limits for asyncio: `AsyncLimiter`, and the functions on several limiters that are awaited."""

import sys as _sys
import typing as _typing

from overlimit._messages.migration_hints import missing_of_aio as _missing_of_aio
from overlimit.aio.concurrency import AsyncConcurrency as AsyncConcurrency
from overlimit.aio.concurrency import AsyncSlot as AsyncSlot
from overlimit.aio.limiter import AsyncLimiter as AsyncLimiter
from overlimit.aio.several import acquire_all as acquire_all
from overlimit.aio.several import acquire_first as acquire_first
from overlimit.aio.several import hit_all as hit_all
from overlimit.aio.several import hit_first as hit_first
from overlimit.aio.several import peek_all as peek_all

__all__ = [
    "AsyncConcurrency",
    "AsyncLimiter",
    "AsyncSlot",
    "acquire_all",
    "acquire_first",
    "hit_all",
    "hit_first",
    "peek_all",
]

# A type checker shall go on telling of names that are not there.
if not _typing.TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Say which name or module to use instead of a name that is not here."""
        raise _missing_of_aio(_sys.modules[__name__], _sys.modules["overlimit"], name, _sys._getframe(1))
