"""Fixtures for every recipe."""

from __future__ import annotations

import pytest


@pytest.fixture
def make(store, clock):
    """Return a function that builds a recipe on the store and the clock of this test."""

    def recipe(kind, *numbers, **options):
        return kind(*numbers, **{"store": store, "clock": clock, **options})

    return recipe
