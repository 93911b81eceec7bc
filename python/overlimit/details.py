"""What a decision says about each of its pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from overlimit.limits import Limit

__all__ = ["Detail"]


class Detail(NamedTuple):
    """One (identifier, limit) pair of a decision; times are in seconds."""

    identifier: str | bytes
    limit: Limit
    policy: str | None
    allowed: bool
    remaining: int
    retry_after: float
    reset_after: float
