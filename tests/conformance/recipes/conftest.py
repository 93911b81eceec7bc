"""Fixtures for every recipe, in memory: recipes are limiters, which others hold to every store."""

from __future__ import annotations

import itertools

import pytest

from memory_unless_marked import pytest_generate_tests, store

__all__ = ["pytest_generate_tests", "store"]


@pytest.fixture
def make(store, clock):
    """Return a function that builds a recipe, by itself unless it's named, on the test's store and clock."""

    made = itertools.count(1)

    def recipe(kind, *numbers, **options):
        return kind(*numbers, **{"name": f"own-{next(made)}", "store": store, "clock": clock, **options})

    return recipe
