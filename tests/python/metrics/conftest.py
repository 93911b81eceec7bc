"""What a test reads of the metrics that have been counted since it began."""

from __future__ import annotations

import os
import secrets

import pytest
from prometheus_client import CollectorRegistry

import overlimit.metrics
from scraping import Scraped

ALONE = "METRICS_ALONE"
"""Set where nothing but these tests runs: a process counts so many limits apart, and other tests use more."""

collect_ignore = [] if ALONE in os.environ else ["alone"]


@pytest.fixture
def scraped():
    registry = CollectorRegistry()
    overlimit.metrics.prometheus(registry, max_policies=1000)
    return Scraped(registry)


@pytest.fixture
def policy():
    """Return the name of a policy that nobody has used."""
    return f"p-{secrets.token_hex(6)}"
