"""The tests of the middleware run in memory, unless they are marked."""

from store_of_web_tests import pytest_generate_tests, store

__all__ = ["pytest_generate_tests", "store"]
