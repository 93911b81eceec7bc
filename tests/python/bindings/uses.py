"""One right use of everything that ``overlimit._core`` has, found by reflection."""

from __future__ import annotations

import contextlib
import tempfile
import threading
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from overlimit import (
    FixedWindow,
    ManualClock,
    MemoryStore,
    Penalty,
    StoreConfigError,
    StoreError,
    TokenBucket,
    _core,
)
from overlimit._pickling import _values_in
from overlimit.stores import ValueStore
from own_stores import DictStore

LIMITS = (FixedWindow(10**9, 3600), TokenBucket(10**9, per=60))
SHARED_MEMORY = {"max_keys": 100, "max_bytes": 1 << 20, "mode": 0o600, "timeout_us": 1000}


def _has_shared_memory() -> bool:
    try:
        _core.SharedMemoryStore("core-uses", **SHARED_MEMORY)
    except StoreConfigError:
        return False
    return True


OF_CORE = {
    name: value for name, value in vars(_core).items() if name != "SharedMemoryStore" or _has_shared_memory()
}
"""What the core has on this system."""
CLASSES = [value for value in OF_CORE.values() if isinstance(value, type)]
_INHERITED = {*dir(object), "__module__", "__weakref__", "__dict__", "__annotations__"}
WITHOUT_CONSTRUCTOR = (_core.Decision, _core.Details)
"""Classes whose objects are made by the core alone. They can be pickled."""
_SLOTS = {"__init__", "__repr__", "__reduce__", "__eq__", "__ne__", "__hash__"}


AWAITED = (
    *("charge", "settle", "refund", "_refund_part", "_lock", "unlock", "reset", "reset_all", "stats"),
    *("_ping", "_close"),
)
"""The methods that ``_later`` takes, each a use of its own."""
AWAITED_FUNCTIONS = ("_hit_all_within", "_peek_all_within", "_decide_request")


@dataclass
class Use:
    """A callable with right arguments, what it's called on kept alive."""

    call: Callable[..., Any]
    positional: list[Any] = field(default_factory=list)
    named: dict[str, Any] = field(default_factory=dict)

    def __call__(self) -> Any:
        return self.call(*self.positional, **self.named)


def everything() -> Iterator[str]:
    """Return the names of all functions, classes, methods and properties of the core."""
    for name, value in OF_CORE.items():
        if isinstance(value, type):
            yield name
            yield from (f"{name}.{member}" for member in members_of(value))
        elif callable(value):
            yield name
    yield from (f"_later {name}" for name in (*AWAITED, *AWAITED_FUNCTIONS))


def members_of(cls: type) -> Iterator[str]:
    """Return what a class itself adds to every object: its own methods, slots and properties."""
    for member in vars(cls):
        if member.startswith("_pybind11") or member == "__slotnames__":  # which pickling remembers there
            continue
        if member not in _INHERITED or member in _SLOTS:
            yield member


class World:
    """A fresh limiter with its store and its clock, and what they decide."""

    def __init__(self) -> None:
        self.clock = ManualClock(1_700_000_000)
        self.store = MemoryStore(max_keys=1000, max_bytes=4 << 20)
        self.limiter = self.new_limiter()
        self.decision = self.limiter.hit("user:42")

    def new_limiter(self, **options: Any) -> _core.Limiter:
        arguments: dict[str, Any] = {
            **{"name": "core", "limits": LIMITS, "store": self.store, "clock": self.clock, "penalty": None},
            **{"on_decision": None, "on_error": "raise", "local_limits": None},
        }
        return _core.Limiter(*{**arguments, **options}.values())


TLS = {
    **dict.fromkeys(("ca_file", "ca_directory", "ca_data", "certificate_file"), ""),
    **{"key_file": "", "key_password": "", "verify": True, "check_hostname": True},
}
ENDPOINT = {
    **{"host": "127.0.0.1", "port": 1, "unix_path": "", "username": "", "password": "", "database": 0},
    **{"client_name": "", "tls": TLS},
}
LOCATION = {
    **{"layout": "sentinel", "hosts": [("h", 1)], "service": "service"},
    **{"server": ENDPOINT, "sentinel": {**ENDPOINT, "tls": None}},
}
STORE = {
    "prefix": "t",
    "hash_tag": "none",
    "hash_identifiers": False,
    "takes_hashes": False,
    "timeout_us": 1000,
    "max_stale_us": 0,
    "lease_in": None,
    "lease_us": 0,
    "remember_us": 0,
}
IDENTIFIERS = ["user:42", b"user:43"]
COUNTERS = tempfile.NamedTemporaryFile(suffix=".counters")  # noqa: SIM115  # as long as the tests
OWN_STORE = DictStore()
FIXED_WINDOW = ["fixed_window", [5, 60, 0]]


def _periods(instant: int) -> tuple[int, int, int]:
    return instant, instant + 1, instant + 2


def _pending_call(world: World) -> _core.PendingCall:
    """Return a call that no event loop has begun."""
    call = _core.ManyDecisions(world.limiter, ["a", "b"], 1, False)._next_step()
    assert call is not None
    return call


def _done_call(world: World) -> _core.PendingCall:
    """Return a call that has not been answered yet."""
    call = _pending_call(world)
    _core.CallsOfLoop().begin(call)
    return call


def _in_transaction(act: Callable[[Any], Any]) -> Any:
    """Return what a function does with a step while a store holds its values, or raise what it raises."""
    done: list[Any] = []

    class Store(ValueStore):
        def transact(self, keys: Sequence[str], step: Any) -> None:
            try:
                done.append(act(step))
            except Exception as error:  # which may be any
                done.extend((None, error))

    with contextlib.suppress(StoreError):  # of a step that was not called
        _core.Limiter("core", LIMITS, Store(), None, None, None, "raise", None).peek("user:42")
    if len(done) > 1:
        raise done[1]
    return done[0]


def _of_step(member: str) -> Callable[..., Any]:
    if not callable(vars(_core.Step)[member]):
        return lambda: _in_transaction(lambda step: getattr(step, member))
    return lambda *given, **named: _in_transaction(lambda step: getattr(step, member)(*given, **named))


def _constructors(world: World) -> dict[str, Use]:
    rows = [*IDENTIFIERS, ("a", "b")]
    limiter_options = [world.clock, Penalty([1, 2]), print, "raise", LIMITS]
    return {
        "Calendar": Use(_core.Calendar, ["own", _periods]),
        "Limit": Use(_core.Limit, FIXED_WINDOW, {"name": "n", "calendar": None}),
        "Store": Use(_core.Store.__new__, [_core.Store]),
        "MemoryStore": Use(_core.MemoryStore, [], {"max_keys": 100, "max_bytes": 1 << 20}),
        "SharedMemoryStore": Use(_core.SharedMemoryStore, ["core-uses"], SHARED_MEMORY),
        "RedisStore": Use(_core.RedisStore, [LOCATION, STORE]),
        "Step": Use(_in_transaction, [type]),
        "ValueStore": Use(_core.ValueStore, [OWN_STORE]),
        "RawServer": Use(lambda: _core.raw_servers(LOCATION, 1000)[0]),
        "ManualClock": Use(_core.ManualClock, [1.5]),
        "PendingCall": Use(_done_call, [world]),
        "CallsOfLoop": Use(_core.CallsOfLoop),
        "ManyDecisions": Use(_core.ManyDecisions, [world.limiter, rows, [1, 2, 3], False]),
        "Replay": Use(_core.Replay, [world.limiter, [3]]),
        "Decision": Use(type, [world.decision]),
        "Details": Use(type, [world.decision.details]),
        "Limiter": Use(_core.Limiter, ["core", LIMITS, world.store, *limiter_options]),
    }


def _arguments(world: World) -> dict[str, tuple[list[Any], dict[str, Any]]]:
    """Return what each method that needs some is given, by position and by name."""
    times, codes, costs, order = (array(kind, (0, 1)) for kind in "qiqq")
    answers = {"allowed": array("B", (0, 0)), "remaining": array("q", (0, 0))}
    equal, patience = world.limiter.peek("user:42"), {"cost": 1, "patience": 5.0}
    first = world.decision.details[0]
    positional = {
        "MemoryStore.__deepcopy__": [{}],
        "SharedMemoryStore._key": ["core", "user:42"],
        "SharedMemoryStore._key_at": ["0" * 24],
        "SharedMemoryStore._lock_at": ["0" * 24, 1000],
        "SharedMemoryStore._reset_at": ["0" * 24],
        "SharedMemoryStore._unlock_at": ["0" * 24],
        "SharedMemoryStore._keys": [0, 2**40, 10],
        "SharedMemoryStore._policy_digest": ["core"],
        "RawServer.ask": [[]],
        "Step.__call__": [[None], 1.5],
        "ValueStore._ping": [None],
        "CallsOfLoop.notify": [object()],
        "CallsOfLoop.begin": [_pending_call(world)],
        "CallsOfLoop.cancel": [_done_call(world)],
        "ManyDecisions.decision": [1],
        "ManyDecisions.fill": ["remaining", array("q", [0, 0, 0])],
        "Replay.run": [times, [codes], costs, order, answers, 0, 2],
        "ManualClock.advance": [0.0],
        "ManualClock.set": [1_700_000_000.0],
        "Decision.__eq__": [equal],
        "Decision.__ne__": [equal],
        "Decision._postponed": [100, 0],
        "Details.__getitem__": [0],
        "Details.__contains__": [first],
        "Details.index": [first, 0],
        "Details.count": [first],
        "Details.__add__": [()],
        "Details.__radd__": [()],
        "Details.__eq__": [equal.details],
        "Details.__ne__": [equal.details],
        "Details.__mul__": [2],
        "Details.__rmul__": [2],
        "Limiter.refund": [world.decision],
        "Limiter._refund_part": [world.decision, [0]],
        "Limiter.settle": [world.decision, 1],
        "Limiter._lock": ["banned", 1000],
        "Limiter.unlock": ["banned"],
        "Limiter.reset": ["user:43"],
        "Limiter._ping": [None],
        "Limiter._count_wait": [1000],
        "Limiter._derive": [LIMITS, None],
        "Limiter._set_limits": [LIMITS, None],
    }
    arguments = {name: (given, {}) for name, given in positional.items()}
    of_cost, ends = ("hit", "charge", "peek"), ("_within", "_later")
    arguments |= {f"Limiter.{name}": ([*IDENTIFIERS], {"cost": 1}) for name in of_cost}
    return arguments | {
        f"Limiter.{name}{end}": ([*IDENTIFIERS], patience) for name in ("_hit", "_peek") for end in ends
    }


def _functions(world: World) -> dict[str, Use]:
    limiter, rules = world.limiter, ((world.limiter, lambda: ("a",), 1, 0),)
    values = _values_in(world.decision.__reduce__()[1][0])
    awaited = {
        "_hit_all_within": [[(limiter, "a", 1), (limiter, b"b")], None],
        "_peek_all_within": [[(limiter, "a", 1), (limiter, b"b")], 5.0],
        "_decide_request": [rules, {}, tuple, ()],
    }
    return {
        "hit_all": Use(_core.hit_all, [[(limiter, "a", 1), (limiter, b"b")]]),
        "peek_all": Use(_core.peek_all, [[(limiter, "a", 1), (limiter, b"b")]]),
        "_hit_all_within": Use(_core._hit_all_within, [[(limiter, "a", 1), (limiter, b"b")], 5.0]),
        "_peek_all_within": Use(_core._peek_all_within, [[(limiter, "a", 1), (limiter, b"b")], 5.0]),
        "_try_all": Use(_core._try_all, [[(limiter, "a", 1), (limiter, b"b")], 5.0, 1]),
        "_try_request": Use(_core._try_request, [rules, {}, tuple, (), 5.0, 1]),
        "_note_refusal": Use(_core._note_refusal, [(limiter,), world.decision]),
        "_settle_more": Use(_core._settle_more, [(limiter,), world.decision, 2]),
        "_settle_rest": Use(_core._settle_rest, [(limiter,), world.decision, 2]),
        "_later": Use(_core._later, [_core._settle_more, (limiter,), world.decision, 2]),
        **{
            f"_later {name}": Use(_core._later, [getattr(_core, name), *use]) for name, use in awaited.items()
        },
        "_checked_charges": Use(_core._checked_charges, [[(limiter, "a", 1), (limiter, b"b")]]),
        "_decide_request": Use(_core._decide_request, [rules, {}, tuple, ()]),
        "_rate_field": Use(_core._rate_field, [(("a", "b"),), world.decision]),
        "_raw_rate_field": Use(_core._raw_rate_field, [(("a", "b"),), world.decision]),
        "_add_fields": Use(_core._add_fields, [[("Server", "x")], [("server", "y")]]),
        "_reset": Use(_core._reset, [world.store, "core", ("user:43",)]),
        "access_lines": Use(_core.access_lines, [b'192.0.2.1 - - [x] "GET / HTTP/1.1" 200 5\n', False]),
        "_call_locked": Use(_core._call_locked, [threading.RLock(), str, "a"]),
        "_fork_generation": Use(_core._fork_generation),
        "_counters": Use(_core._counters),
        "_count_in": Use(_core._count_in, [COUNTERS.name]),
        "_follow_clock": Use(_core._follow_clock, [None]),
        "_steady_micros": Use(_core._steady_micros),
        "default_precision_us": Use(_core.default_precision_us, [60_000_000]),
        "is_key_name": Use(_core.is_key_name, ["api"]),
        "raw_servers": Use(_core.raw_servers, [LOCATION, 1000, "key"]),
        "redis_script": Use(_core.redis_script, ["decide", "api", LIMITS, None, ["user:42"]]),
        "_decision_of": Use(_core._decision_of, [*values]),
        "_load_hooks": Use(_core._load_hooks),
    }


def _later(name: str, world: World, use: Use) -> Use:
    method = getattr(_core.Limiter, name)
    return Use(_core._later, [method, world.limiter, *use.positional], use.named)


def uses() -> dict[str, Use]:
    """Return a right use of each, by name, in a world of its own."""
    world = World()
    made = {name: use for name, use in _constructors(world).items() if name in OF_CORE}
    objects = {name: use() for name, use in made.items()}
    objects |= {"Decision": world.decision, "Details": world.decision.details, "Limiter": world.limiter}
    objects |= {"Store": world.store, "MemoryStore": world.store}
    objects["Replay"].start_tallies()
    arguments = _arguments(world)
    arguments |= {f"{name}.__init__": (use.positional, use.named) for name, use in made.items()}
    members = {}
    for cls in CLASSES:
        for member in members_of(cls):
            name = f"{cls.__name__}.{member}"
            is_init = member == "__init__"
            if cls is _core.Step:
                members[name] = Use(_of_step(member), *arguments.get(name, ()))
                continue
            call = _remake(made[cls.__name__].call) if is_init else _call(cls, member, objects[cls.__name__])
            members[name] = Use(call, *arguments.get(name, ()))
    members["PendingCall.answer"] = Use(lambda: _done_call(world).answer())  # once only
    awaited = {f"_later {name}": _later(name, world, members[f"Limiter.{name}"]) for name in AWAITED}
    return {**made, **members, **awaited, **_functions(world)}


def _call(cls: type, member: str, one: object) -> Callable[..., Any]:
    """Return a method of an object, or a function that reads its property."""
    if not callable(vars(cls)[member]):
        return lambda: getattr(one, member)
    is_refused = member == "__reduce__" and not isinstance(one, WITHOUT_CONSTRUCTOR)
    return _refused(getattr(one, member)) if is_refused else getattr(one, member)


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
