"""Whether the store decides."""

from __future__ import annotations

from overlimit import Limiter, StoreError


def answers(limiter: Limiter) -> bool:
    """Whether a hit is decided by the store itself."""
    try:
        return limiter.hit("probe").source == "store"
    except StoreError:
        return False
