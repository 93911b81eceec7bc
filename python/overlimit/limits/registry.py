"""The algorithms by name."""

from __future__ import annotations

from types import MappingProxyType

from overlimit._messages.texts import nearest, short_repr
from overlimit.errors import InvalidLimit
from overlimit.limits import algorithms
from overlimit.limits.limit import Limit

ALGORITHMS: MappingProxyType[str, type[Limit]] = MappingProxyType(
    {
        kind.algorithm: kind
        for kind in vars(algorithms).values()
        if isinstance(kind, type) and issubclass(kind, Limit)
    }
)
"""Every algorithm by the name that ``Limiter(algorithm=...)`` takes."""

_NAMES_ELSEWHERE = {"gcra": "token_bucket", "moving_window": "sliding_log", "sliding": "sliding_window"}
"""What other rate limiters call an algorithm."""


def algorithm_named(name: object) -> type[Limit]:
    """Return the class of the algorithm called ``name``; else raise InvalidLimit listing the known ones."""
    if not isinstance(name, str) or name not in ALGORITHMS:
        known = ", ".join(repr(known) for known in ALGORITHMS)
        meant = _meant(name)
        instead = f": write {meant!r}" if meant else ""
        raise InvalidLimit(f"algorithm must be None or one of {known}, not {short_repr(name)}{instead}")
    return ALGORITHMS[name]


def _meant(name: object) -> str | None:
    """Return the algorithm that a wrong name or a class probably means."""
    if isinstance(name, type) and issubclass(name, Limit):
        return getattr(name, "algorithm", None)
    if not isinstance(name, str):
        return None
    plain = name.strip().lower().replace("-", "_").replace(" ", "_")
    by_class = {kind.__name__.lower(): algorithm for algorithm, kind in ALGORITHMS.items()}
    return _NAMES_ELSEWHERE.get(plain) or by_class.get(plain) or nearest(plain, ALGORITHMS)
