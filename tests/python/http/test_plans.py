"""What an adapter is told of a plan before it decides."""

from __future__ import annotations

import pytest

from overlimit import MemoryStore
from overlimit.http.middleware import LimitsByPath
from overlimit.wsgi import by_address, by_header, by_json


@pytest.mark.parametrize(
    ("identifiers", "is_read"),
    [
        (None, False),
        (by_address, False),
        ([by_address, by_header("X-API-Key")], False),
        (by_json("account"), True),
        ([by_address, by_json("account")], True),
    ],
)
def test_a_plan_needs_the_body_where_identifiers_are_in_it(identifiers, is_read):
    limits = LimitsByPath("9/minute", {"/login": "1/minute"}, (), identifiers=identifiers)
    assert [limits.plan("POST", path, ()).needs_body for path in ("/", "/login")] == [is_read] * 2


@pytest.mark.parametrize(
    ("store", "per_process"),
    [(MemoryStore(), True), ("shm://myapp", False), ("redis://localhost:1/0", False)],
    ids=["memory", "shared_memory", "redis"],
)
def test_a_plan_counts_per_process_in_memory_alone(store, per_process, request):
    if store == "shm://myapp":
        request.getfixturevalue("shared_memory")
    plan = LimitsByPath("9/minute", {}, (), store=store).plan("GET", "/", ())
    assert (plan.memories == (store,)) is per_process
    assert bool(plan.memories) is per_process
