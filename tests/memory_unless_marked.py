"""The store of tests in folders where it hardly matters: memory, unless marked ``every_store``.

On the web side what the store does with charges, roles and refunds is marked; of waiting, real time.
"""

from __future__ import annotations

import pytest

from overlimit.stores import MemoryStore, Store

__all__ = ["pytest_generate_tests", "store"]


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Store:
    """Return one of the stores of the root's conftest."""
    kind = getattr(request, "param", "memory")
    chosen: Store = MemoryStore() if kind == "memory" else request.getfixturevalue(f"{kind}_store")
    return chosen


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what is marked on every store."""
    if "store" in metafunc.fixturenames and metafunc.definition.get_closest_marker("every_store"):
        metafunc.parametrize("store", ["memory", "shared_memory", "redis", "values"], indirect=True)
