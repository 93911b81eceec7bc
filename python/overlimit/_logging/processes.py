"""The warning that several processes count in the memory of each."""

from __future__ import annotations

import logging
import os

_log = logging.getLogger("overlimit")

_warned_processes: set[int] = set()


def warn_of_fork(name: str | None) -> None:
    """Warn, once per process, that a forked child counts on its own; the core calls this."""
    _warn_of_processes(
        "%s keeps its state in memory, which a forked process does not share: N workers admit N times "
        "the limit; give it a store= that they share, as store='shm://myapp'",
        "a limiter without a name" if name is None else f"limiter {name!r}",
    )


def warn_of_other_processes(app: str, by: str = "RateLimit") -> None:
    """Warn, once per process, that an app which several processes serve counts in the memory of each."""
    _warn_of_processes(
        "%s counts requests in memory, which the other processes that serve it do not share: N workers admit "
        "N times the limit; give it a store= that they share, as store='shm://myapp' for processes of one "
        "host, or store='redis://localhost:6379/0'",
        f"{by} of {app!r}",
    )


def _warn_of_processes(message: str, whose: str) -> None:
    if os.getpid() not in _warned_processes:
        _warned_processes.add(os.getpid())
        _log.warning(message, whose)
