"""Limits and penalties as the oracle reads them, for those who have nothing but their numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from .algorithm import Algorithm


@dataclass(frozen=True)
class PlainLimit:
    """``per``, ``timezone`` and ``week_start`` name the calendar of a fixed window with the third start."""

    algorithm: str
    _numbers: tuple[int, ...]
    name: str | None = None
    per: str = ""
    timezone: str = "UTC"
    week_start: int = 0


@dataclass(frozen=True)
class PlainPenalty:
    """``_numbers``: the levels, extend, and for how long a level is remembered (None: its own length)."""

    _numbers: tuple[tuple[int, ...], bool, int | None]


def algorithm_of(limit: Any) -> Algorithm:
    """The algorithm of a limit of the package or of this module."""
    return _class_named(getattr(limit, "_kept_as", limit.algorithm)).of(limit)


@cache
def _class_named(name: str) -> type[Algorithm]:
    """The class ``TokenBucket`` of ``token_bucket.py``, and so on."""
    module = import_module(f"{__package__}.{name}")
    found: type[Algorithm] = getattr(module, name.title().replace("_", ""))
    return found
