"""The store of tests in folders where it hardly matters: memory, unless marked ``every_store``.

On the web side what the store does with charges, roles and refunds is marked; of waiting, real time.
"""

from __future__ import annotations

from typing import Any

import pytest

from overlimit import _core
from overlimit.stores import MemoryStore, Store

__all__ = ["pytest_generate_tests", "store", "store_calls"]


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Store:
    """Return one of the stores of the root's conftest."""
    kind = getattr(request, "param", "memory")
    chosen: Store = MemoryStore() if kind == "memory" else request.getfixturevalue(f"{kind}_store")
    return chosen


@pytest.fixture
def store_calls(monkeypatch: pytest.MonkeyPatch) -> list[list[str | None]]:
    """Return the names of the limiters that each call to a store charges for a request, as they come."""
    calls: list[list[str | None]] = []
    decide, later = _core._decide_request, _core._later

    def note(rules: Any, known: Any, *_: Any) -> None:
        calls.append([limiter.name for limiter, identify, _, _ in rules for _ in known[identify]])

    def noted(*arguments: Any) -> Any:
        decision = decide(*arguments)
        note(*arguments)
        return decision

    def noted_later(operation: Any, *arguments: Any, **keywords: Any) -> Any:
        if operation is not noted:
            return later(operation, *arguments, **keywords)
        decision = later(decide, *arguments)
        note(*arguments)
        return decision

    monkeypatch.setattr(_core, "_decide_request", noted)
    monkeypatch.setattr(_core, "_later", noted_later)
    return calls


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what is marked on every store."""
    if "store" in metafunc.fixturenames and metafunc.definition.get_closest_marker("every_store"):
        metafunc.parametrize("store", ["memory", "shared_memory", "redis", "values"], indirect=True)
