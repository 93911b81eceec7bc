"""What the Redis client promises and doesn't do yet; a mark goes with the change that keeps its promise."""

from __future__ import annotations

import pytest


def _pending(reason: str) -> pytest.MarkDecorator:
    return pytest.mark.xfail(reason=reason, strict=False)


FAILING_FAST = _pending("an endpoint that is down isn't left alone between probes yet")
RETRYING = _pending("answers such as LOADING aren't retried within the deadline yet")
ONE_REGISTRY = _pending("connections belong to threads and stores yet, not to the process")
SENTINEL = _pending("there are no redis+sentinel:// URLs yet")
CLUSTER = _pending("there are no redis+cluster:// URLs yet")
