"""Fixtures for every recipe."""

from __future__ import annotations

import itertools

import pytest


@pytest.fixture
def make(store, clock):
    """Return a function that builds a recipe, by itself unless it's named, on the test's store and clock."""

    made = itertools.count(1)

    def recipe(kind, *numbers, **options):
        return kind(*numbers, **{"name": f"own-{next(made)}", "store": store, "clock": clock, **options})

    return recipe
