"""The algorithms by name."""

from __future__ import annotations

from types import MappingProxyType

from overlimit.errors import InvalidLimit
from overlimit.limits import algorithms
from overlimit.limits.limit import Limit
from overlimit.limits.quantities import shown

__all__ = ["ALGORITHMS", "algorithm_named"]

ALGORITHMS: MappingProxyType[str, type[Limit]] = MappingProxyType(
    {
        kind.algorithm: kind
        for kind in vars(algorithms).values()
        if isinstance(kind, type) and issubclass(kind, Limit)
    }
)
"""Every algorithm by the name that ``Limiter(algorithm=...)`` takes."""


def algorithm_named(name: object) -> type[Limit]:
    """Return the class of the algorithm called ``name``; else raise InvalidLimit listing the known ones."""
    if not isinstance(name, str) or name not in ALGORITHMS:
        known = ", ".join(repr(known) for known in ALGORITHMS)
        raise InvalidLimit(f"algorithm must be None or one of {known}, not {shown(name)}")
    return ALGORITHMS[name]
