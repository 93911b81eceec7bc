"""Whether other processes serve an app, too, as far as its server lets that be known."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from types import FrameType, MappingProxyType
from typing import Any, TypeAlias

from overlimit._logging.stores import warn_of_other_processes
from overlimit.stores import Store

_BY_OPTION = (
    "give it a store= that they share, as store='shm://myapp' for processes of one host, or "
    "store='redis://localhost:6379/0'"
)

_Read: TypeAlias = Callable[[Mapping[str, Any]], int]


def _under_uvicorn(names: Mapping[str, Any]) -> int:
    config = names["config"]
    return 1 if config.should_reload else int(config.workers)  # it has one worker while it reloads


def _under_granian(names: Mapping[str, Any]) -> int:
    return int(names["worker_id"])  # a worker that was spawned is told no more than its number, from 1


_WORKERS: Mapping[tuple[str, str], _Read] = MappingProxyType(
    {
        ("gunicorn.arbiter", "spawn_worker"): lambda names: int(names["worker"].cfg.workers),
        ("uvicorn._subprocess", "subprocess_started"): _under_uvicorn,
        ("uvicorn.server", "run"): lambda _: 1,
        ("hypercorn.asyncio.run", "asyncio_worker"): lambda names: int(names["config"].workers),
        ("hypercorn.asyncio.run", "uvloop_worker"): lambda names: int(names["config"].workers),
        ("hypercorn.trio.run", "trio_worker"): lambda names: int(names["config"].workers),
        ("granian.server.mp", "serve"): lambda names: int(names["self"].workers),
        ("granian.server.mp", "wrapped"): _under_granian,
    }
)
"""How many workers a server starts, by the names in a function of its that runs as long as a worker does."""


def warn_if_apart(
    stores: Iterable[Store], multiprocess: object, app: str, by: str = "RateLimit", advice: str = _BY_OPTION
) -> None:
    """Warn, once per process and store, if other processes serve an app that counts in this one's memory.

    ``multiprocess`` is ``wsgi.multiprocess``, and False under ASGI, which has no such flag. What a server is
    known to have been told comes first: servers of ASGI that serve WSGI, too, set the flag to one value.
    """
    workers = _workers(os.getpid())
    if bool(multiprocess) if workers is None else workers > 1:
        for store in stores:
            warn_of_other_processes(store, f"{by} of {app!r}", advice)


# WSGI has a flag for it, and ASGI has nothing. What servers hand to their workers differs, but each worker is
# a call of a function of its server in the main thread, and that has the server's options at hand.
@lru_cache(1)
def _workers(_process: int) -> int | None:
    """Return how many workers the server of this process was told to start; None: it is not known."""
    found = None
    for frame in _main_stack():
        place = frame.f_globals.get("__name__", ""), frame.f_code.co_name
        try:
            found = _WORKERS[place](frame.f_locals) if place in _WORKERS else found
        except (AttributeError, KeyError, TypeError, ValueError):  # of a server of another version
            continue
    return found


def _main_stack() -> Iterator[FrameType]:
    """Yield what the main thread is doing, the outermost function last."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None:
        yield frame
        frame = frame.f_back
