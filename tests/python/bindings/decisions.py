"""Decisions of every kind, to be pickled, compared and read."""

from __future__ import annotations

import math
from fractions import Fraction

from overlimit import (
    Decision,
    FixedWindow,
    LeakyBucket,
    Limiter,
    ManualClock,
    MemoryStore,
    Penalty,
    RedisStore,
    SlidingLog,
    SlidingWindow,
    SlidingWindowCounter,
    TokenBucket,
    _core,
    hit_all,
)

LIMITS = [
    FixedWindow(9, per=60, name="first"),
    FixedWindow(8, per=0.5, start="epoch"),
    FixedWindow(7, "day", start="calendar", timezone="Europe/Berlin"),
    FixedWindow(7, "week", start="calendar", week_start=6),
    SlidingWindow(6, per=3600, precision=60),
    SlidingLog(5, per=10),
    SlidingWindowCounter(4, per=86400),
    TokenBucket(Fraction(1, 3), per=7.25, burst=3),
    TokenBucket(10**6, per=60, debt=math.inf),
    TokenBucket(5, per=60, burst=7, refill="interval", start="epoch"),
    LeakyBucket(2, per=1, capacity=3),
]
IDENTIFIERS = ["user:42", b"user:42", "\0", "ü€😀", "\ud800x", b"\xff\0", "x" * 1000]
NOW = 1_700_000_000.123456


def fields_of(decision: Decision) -> dict[str, object]:
    """Return everything that a decision says: each attribute, what is computed, and how it is shown."""
    shown = {name: getattr(decision, name) for name in dir(type(decision)) if not name.startswith("_")}
    hidden = {name: getattr(decision, name) for name in ("_ready_after", "_refused_by_meta")}
    enforced = decision._with_shadows_enforced()
    texts = {"repr": repr(decision), "html": decision._repr_html_(), "enforced": repr(enforced)}
    return {**shown, **hidden, **texts, "bool": bool(decision), "hash": hash(decision)}


def every_kind() -> dict[str, Decision]:
    """Return decisions of all statuses, sources, roles and limits by what they are."""
    clock, store = ManualClock(NOW), MemoryStore()

    def limiter(limits: object, name: str = "p", **options: object) -> Limiter:
        return Limiter(limits, **{"name": name, "store": store, "clock": clock, **options})

    kinds = {}
    for index, limit in enumerate(LIMITS):
        own = limiter(limit, f"limit-{index}")
        kinds[f"{limit!r} allowed"] = own.hit(*IDENTIFIERS, cost=1)
        kinds[f"{limit!r} over"] = [own.hit("a") for _ in range(3)][-1]
        kinds[f"{limit!r} never"] = own.hit("b", cost=2**100)
        kinds[f"{limit!r} peeked"] = own.peek("b", cost=0)
    locking = limiter("1/minute", "locking", penalty=Penalty([60, 120]))
    kinds["locks"], kinds["locked"] = [locking.hit("a") for _ in range(3)][1:]
    several = [limiter(LIMITS[i : i + 3], f"several-{i}") for i in range(8)]
    kinds["several"] = hit_all([(each, who, 1) for each in several for who in IDENTIFIERS[1:]])
    kinds["one limit twice"] = limiter([FixedWindow(3, 60), FixedWindow(5, 60)], "twice").hit("a")
    roles = [limiter("1/minute", f"role-{role}") for role in range(3)]
    rules = tuple((each, lambda: ("a",), 1, role) for role, each in enumerate(roles))
    for name in ("roles allow", "roles refuse", "meta refuses"):
        kinds[name] = _core._decide_request(rules, {}, tuple, ())
    nowhere = RedisStore("unix:///nowhere/redis.sock")
    for on_error in ("allow", "deny", "local"):
        kinds[on_error] = limiter("3/minute", store=nowhere, on_error=on_error).hit("a", cost=7)
    return kinds


KINDS = every_kind()
