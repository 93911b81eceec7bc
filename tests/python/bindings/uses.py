"""One right use of everything that ``overlimit._core`` has, found by reflection."""

from __future__ import annotations

import types
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from overlimit import FixedWindow, ManualClock, MemoryStore, Penalty, RedisStore, TokenBucket, _core
from overlimit._pickling import _values_in

NOWHERE = "unix:///nowhere/redis.sock"
LIMITS = (FixedWindow(10**9, 3600), TokenBucket(10**9, per=60))
_INHERITED = {*dir(object), "__module__", "__weakref__", "__dict__", "__annotations__"}


@dataclass
class Use:
    """A callable with right arguments, what it's called on kept alive."""

    call: Callable[..., Any]
    positional: list[Any] = field(default_factory=list)
    named: dict[str, Any] = field(default_factory=dict)
    rounds: int = 100_000
    """How often it's called in a search for leaks."""

    def __call__(self) -> Any:
        return self.call(*self.positional, **self.named)


def everything() -> Iterator[str]:
    """Return the names of all functions, classes, methods and properties of the core."""
    for name, value in vars(_core).items():
        if isinstance(value, type):
            yield name
            yield from (f"{name}.{member}" for member in members_of(value))
        elif callable(value):
            yield name


def members_of(cls: type) -> Iterator[str]:
    """Return what a class itself adds to every object: its own methods, slots and properties."""
    for member in vars(cls):
        if not member.startswith("_pybind11") and (member not in _INHERITED or member in _SLOTS):
            yield member


_SLOTS = {"__init__", "__repr__", "__reduce__", "__eq__", "__ne__", "__hash__"}


class World:
    """A fresh limiter with its store and its clock, and what they decide."""

    def __init__(self) -> None:
        self.clock = ManualClock(1_700_000_000)
        self.store = MemoryStore(max_keys=1000, max_bytes=4 << 20)
        self.limiter = self.new_limiter()
        self.decision = self.limiter.hit("user:42")
        self.rules = ((self.limiter, lambda: ("a",), 1, 0),)
        self.endpoint = _core.Endpoint(**ENDPOINT)

    def new_limiter(self, **options: Any) -> _core.Limiter:
        arguments = {"name": "core", "limits": LIMITS, "store": self.store, "clock": self.clock}
        return _core.Limiter(**{**arguments, **options})


ENDPOINT = {
    "host": "127.0.0.1",
    "port": 1,
    "unix_path": "",
    "username": "",
    "password": "",
    "database": 0,
    "tls": None,
}
TLS = {
    "ca_file": "",
    "ca_directory": "",
    "ca_data": "",
    "certificate_file": "",
    "key_file": "",
    "key_password": "",
    "verify": True,
    "check_hostname": True,
}
STORE = {"prefix": "t", "hash_tag": "none", "hash_identifiers": False, "timeout_us": 1000}

SHARED_MEMORY = {"max_keys": 100, "max_bytes": 1 << 20, "mode": 0o600, "timeout_us": 1000}


def _periods(instant: int) -> tuple[int, int, int]:
    return instant, instant + 1, instant + 2


def uses() -> dict[str, Use]:
    """Return a right use of each, by name, in a world of its own."""
    world = World()
    limiter, decision, clock, store = world.limiter, world.decision, world.clock, world.store
    shared_memory = _core.SharedMemoryStore("core-uses", **SHARED_MEMORY)
    limit = _core.Limit("fixed_window", [5, 60, 0])
    calendar = _core.Calendar("own", _periods)
    redis = RedisStore(NOWHERE)
    payload = decision.__reduce__()[1][0]
    ids = ["user:42", b"user:43"]
    costs = {"cost": 1}
    many = _core.ManyDecisions(limiter, ids, 1, False)
    replay = _core.Replay(limiter, [3])
    replay.start_tallies()
    patience = {"cost": 1, "patience": 5.0}
    new = {
        "Calendar": Use(_core.Calendar, ["own", _periods], rounds=20_000),
        "Limit": Use(_core.Limit, ["fixed_window", [5, 60, 0]], {"name": "n", "calendar": None}, 20_000),
        "Store": Use(_core.Store.__new__, [_core.Store]),
        "MemoryStore": Use(_core.MemoryStore, [], {"max_keys": 100, "max_bytes": 1 << 20}, 200),
        "TlsOptions": Use(_core.TlsOptions, [], TLS, 20_000),
        "Endpoint": Use(_core.Endpoint, [], {**ENDPOINT, "tls": _core.TlsOptions(**TLS)}, 20_000),
        "SentinelLocation": Use(
            _core.SentinelLocation, [[("h", 1)], "service", world.endpoint], rounds=20_000
        ),
        "ClusterLocation": Use(_core.ClusterLocation, [[("h", 1)], world.endpoint], rounds=20_000),
        "SharedMemoryStore": Use(_core.SharedMemoryStore, ["core-uses"], SHARED_MEMORY, 2_000),
        "RedisStore": Use(_core.RedisStore, [world.endpoint], STORE, 2_000),
        "ManualClock": Use(_core.ManualClock, [1.5]),
        "ManyDecisions": Use(_core.ManyDecisions, [limiter, [*ids, ("a", "b")], [1, 2, 3], False], {}, 5_000),
        "Replay": Use(_core.Replay, [limiter, [3, 4]], {}, 5_000),
        "Decision": Use(type, [decision]),
        "Limiter": Use(
            _core.Limiter,
            ["core", LIMITS, store],
            {
                "clock": clock,
                "penalty": Penalty([1, 2]),
                "on_decision": print,
                "on_error": "raise",
                "local_limits": LIMITS,
            },
            5_000,
        ),
    }
    inits = {
        f"{name}.__init__": Use(_remake(use.call), use.positional, use.named, 200)
        for name, use in new.items()
        if name != "Decision"
    }
    methods = {
        "Calendar.identity": Use(lambda: calendar.identity),
        "Limit.tag": Use(lambda: limit.tag),
        "MemoryStore.__len__": Use(store.__len__),
        "MemoryStore.stats": Use(store.stats, rounds=20_000),
        "MemoryStore.__bool__": Use(store.__bool__),
        "MemoryStore.__repr__": Use(store.__repr__),
        "MemoryStore.__copy__": Use(store.__copy__),
        "MemoryStore.__deepcopy__": Use(store.__deepcopy__, [{}]),
        "MemoryStore.__reduce__": Use(_refused(store.__reduce__), rounds=20_000),
        "ManyDecisions.__len__": Use(many.__len__),
        "ManyDecisions.counts": Use(many.counts),
        "ManyDecisions.decision": Use(many.decision, [1], rounds=20_000),
        "ManyDecisions.fill": Use(many.fill, ["remaining", array("q", [0, 0])], rounds=20_000),
        "Replay.max_cells": Use(lambda: replay.max_cells),
        "Replay.start_tallies": Use(replay.start_tallies),
        "Replay.tallies": Use(replay.tallies, rounds=20_000),
        "Replay.run": Use(replay.run, _replayed(), rounds=5_000),
        "RedisStore.close": Use(redis.close, rounds=10_000),
        "SharedMemoryStore.__len__": Use(shared_memory.__len__),
        "SharedMemoryStore.__bool__": Use(shared_memory.__bool__),
        "SharedMemoryStore.stats": Use(shared_memory.stats, rounds=10_000),
        "SharedMemoryStore.unlink": Use(shared_memory.unlink, rounds=10_000),
        "SharedMemoryStore.path": Use(lambda: shared_memory.path),
        "ManualClock.now": Use(clock.now),
        "ManualClock.advance": Use(clock.advance, [0.0]),
        "ManualClock.set": Use(clock.set, [1_700_000_000.0]),
        "ManualClock.__repr__": Use(_core.ManualClock(1).__repr__),
        "Decision.__reduce__": Use(decision.__reduce__, rounds=5_000),
        "Decision.__repr__": Use(decision.__repr__, rounds=5_000),
        "Decision.__eq__": Use(decision.__eq__, [limiter.peek("user:42")], rounds=5_000),
        "Decision.__ne__": Use(decision.__ne__, [limiter.peek("user:42")], rounds=5_000),
        "Decision.__hash__": Use(decision.__hash__),
        "Decision.__bool__": Use(decision.__bool__),
        "Decision._repr_html_": Use(decision._repr_html_, rounds=2_000),
        "Decision._postponed": Use(decision._postponed, [100]),
        "Decision._with_shadows_enforced": Use(decision._with_shadows_enforced),
        "Limiter.hit": Use(limiter.hit, ids, costs),
        "Limiter._hit_within": Use(limiter._hit_within, ids, patience),
        "Limiter.peek": Use(limiter.peek, ids, costs),
        "Limiter._peek_within": Use(limiter._peek_within, ids, patience),
        "Limiter.refund": Use(limiter.refund, [decision]),
        "Limiter._refund_part": Use(limiter._refund_part, [decision, [0]]),
        "Limiter._lock": Use(limiter._lock, ["banned", 1000]),
        "Limiter.unlock": Use(limiter.unlock, ["banned"]),
        "Limiter.reset": Use(limiter.reset, ["user:43"]),
        "Limiter.reset_all": Use(limiter.reset_all, rounds=20_000),
        "Limiter._unlike_limits": Use(limiter._unlike_limits, [world.new_limiter()], rounds=20_000),
        "Limiter.stats": Use(limiter.stats, rounds=20_000),
        "Limiter._set_limits": Use(limiter._set_limits, [LIMITS, None], rounds=20_000),
    }
    unpicklable = {
        f"{type(one).__name__}.__reduce__": Use(_refused(one.__reduce__), rounds=20_000)
        for one in (
            calendar,
            limit,
            _core.Store.__new__(_core.Store),
            _core.TlsOptions(**TLS),
            world.endpoint,
            _core.SentinelLocation([("h", 1)], "service", world.endpoint),
            _core.ClusterLocation([("h", 1)], world.endpoint),
        )
    }
    unpicklable |= {
        f"{type(one).__name__}.__reduce__": Use(_refused(one.__reduce__), rounds=20_000)
        for one in (many, _core.Replay(limiter, [3]))
    }
    properties = {
        f"{cls.__name__}.{name}": Use(_read(one, name), rounds=20_000)
        for cls, one in ((_core.Decision, decision), (_core.Limiter, limiter))
        for name, value in vars(cls).items()
        if isinstance(value, types.GetSetDescriptorType)
    }
    functions = {
        "hit_all": Use(_core.hit_all, [[(limiter, "a", 1), (limiter, b"b")]]),
        "_decide_request": Use(_core._decide_request, [world.rules, {}, tuple, ()]),
        "_rate_field": Use(_core._rate_field, [(("a", "b"),), decision]),
        "_fork_generation": Use(_core._fork_generation),
        "default_precision_us": Use(_core.default_precision_us, [60_000_000], rounds=20_000),
        "is_key_name": Use(_core.is_key_name, ["api"], rounds=20_000),
        "redis_script": Use(
            _core.redis_script, ["decide", "api", [limit], ((1000,), False, None), ["user:42"]], rounds=500
        ),
        "_decision_of": Use(_core._decision_of, [_values_in(payload)], rounds=2_000),
        "_load_hooks": Use(_core._load_hooks, rounds=2_000),
    }
    return {**new, **inits, **methods, **unpicklable, **properties, **functions}


def _replayed() -> list[Any]:
    times, codes, costs, order = (array(kind, (0, 1)) for kind in "qiqq")
    answers = {"allowed": array("B", (0, 0)), "remaining": array("q", (0, 0))}
    return [times, [codes], costs, order, answers, 0, 2]


def _remake(cls: Any) -> Callable[..., Any]:
    """Return a function that makes an object bare and then calls ``__init__`` on it by hand."""
    if not isinstance(cls, type):
        return cls

    def make(*positional: Any, **named: Any) -> Any:
        one = cls.__new__(cls)
        cls.__init__(one, *positional, **named)
        return one

    return make


def _refused(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that is right when the call is a TypeError."""

    def refused(*positional: Any, **named: Any) -> None:
        try:
            call(*positional, **named)
        except TypeError:
            return
        raise AssertionError("it was not refused")

    return refused


def _read(one: object, name: str) -> Callable[[], Any]:
    return lambda: getattr(one, name)
