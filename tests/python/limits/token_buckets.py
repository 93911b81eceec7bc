"""What tests of token buckets share."""

from __future__ import annotations

import pytest

from overlimit.limits import TokenBucket

INTERVALS = pytest.mark.parametrize("refill", ["continuous", "interval"])


def units(bucket: TokenBucket) -> tuple[int, int]:
    """Return (units per token, refill in units per microsecond)."""
    _, _, units_per_token, refill_per_us, *_ = bucket._numbers
    return units_per_token, refill_per_us
