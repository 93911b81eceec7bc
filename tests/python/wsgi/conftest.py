"""The tests of the middleware run in memory, unless they are marked."""

from memory_unless_marked import pytest_generate_tests, store

__all__ = ["pytest_generate_tests", "store"]
