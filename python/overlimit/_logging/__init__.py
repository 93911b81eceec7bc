"""What is logged, and how often."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TypeVar

K = TypeVar("K")


def is_first(noted: MutableMapping[K, object], what: K) -> bool:
    """Note something, and tell one caller alone, whichever thread it is in, that it was not noted before."""
    mine = object()
    return noted.setdefault(what, mine) is mine
