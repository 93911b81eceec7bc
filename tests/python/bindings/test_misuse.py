"""Everything the core has, called in every wrong way: a clear exception or an answer, never a crash."""

from __future__ import annotations

import ctypes
import gc
import itertools
import math
import pickle
import sys
from array import array

import pytest

from overlimit import MemoryStore, _core

from .uses import (
    CLASSES,
    ENDPOINT,
    LIMITS,
    LOCATION,
    STORE,
    WITHOUT_CONSTRUCTOR,
    World,
    everything,
    members_of,
    uses,
)

pytestmark = pytest.mark.check

SEARCHES = 30
"""How often a search for leaks is repeated before it's believed."""
HELD_PER_CALL = 4
"""More references to one object than a call can wrongly give back."""
KEPT = []
"""References to objects that have too few."""

NAMES = sorted(uses())
EACH = pytest.mark.parametrize("name", NAMES)
PICKLED = {cls.__name__ for cls in WITHOUT_CONSTRUCTOR}
REFUSED = {name for name in NAMES if name.endswith(".__reduce__") and name.split(".")[0] not in PICKLED}
TAKE_ANYTHING = {"Store", "Step", "Store.__init__", *PICKLED, *REFUSED}
"""Whose uses here are those of ``type`` and ``__new__``, or right when they fail."""
MADE_BY_THE_CORE = (*WITHOUT_CONSTRUCTOR, _core.Step)
NOT_MADE = (*MADE_BY_THE_CORE, _core.Store, _core.PendingCall, _core.RawServer)
MADE = [cls for cls in CLASSES if cls not in NOT_MADE]
"""Classes whose objects are made by calling them."""


class HostileError(Exception):
    """What hostile objects raise."""


class Raises:
    """Raises whatever it's asked."""

    def _raise(self, *_):
        raise HostileError

    __index__ = __int__ = __float__ = __len__ = __iter__ = __getitem__ = __contains__ = __call__ = _raise
    __bool__ = __str__ = __repr__ = __eq__ = __hash__ = __getattr__ = __fspath__ = _raise


class Lies:
    """Has everything that numbers, sequences and clocks have, and means none of it."""

    def __len__(self):
        return 2**62

    def __getitem__(self, index):
        return self

    def __index__(self):
        return 2**64

    def __float__(self):
        return math.nan

    def now(self):
        return "noon"

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 1

    _core_limit = _numbers = property(lambda self: self)


class Text(str):
    """A string that raises when it's compared, shown or encoded."""

    __slots__ = ()

    def _raise(self, *_):
        raise HostileError

    __eq__ = __str__ = encode = _raise
    __hash__ = None


class Pair(tuple):
    """A tuple that shows something else than it holds."""

    __slots__ = ()

    def __getitem__(self, index):
        raise HostileError

    def __len__(self):
        return 99

    def __iter__(self):
        raise HostileError


@pytest.fixture(autouse=True)
def own_time():
    """Among what is given to each function are clocks, which nobody is to follow afterwards."""
    yield
    _core._follow_clock(None)


def half_built():
    return [cls.__new__(cls) for cls in CLASSES if cls not in MADE_BY_THE_CORE]


def hostile():
    """Return new objects that nothing expects, but for sizes that a machine would try to make."""
    return [
        *(None, True, False, 0, -1, 1, 16, 2**31, 2**49 + 1, 2**63 - 1, 2**63, -(2**63), 2**70, -(2**70)),
        *(0.5, -0.0, 1e308, math.nan, math.inf, -math.inf, 1j),
        *("", "x", "\0", "\ud800", "x" * 10_000, b"", b"x", bytearray(b"x"), memoryview(b"x"), Text("x")),
        *((), [], {}, set(), (1,), [None], Pair((1, 2, 3)), Pair(("a", "b")), (("x",),), ((), ()), range(3)),
        *(object(), object, Raises(), Lies(), len, lambda: None, lambda *_: 1 / 0, iter([1, 2]), ..., sys),
        *half_built(),
    ]


def attempt(call, *positional, **named):
    """Call something wrongly; fail where the interpreter itself complains."""
    try:
        return call(*positional, **named)
    except SystemError:
        raise
    except Exception as error:
        return error


def still_works(limiter=None):
    limiter = World().limiter if limiter is None else limiter
    assert limiter.hit("someone", cost=2).remaining == 10**9 - 2
    assert limiter.peek("someone", cost=0).remaining == 10**9 - 2


def test_all_of_the_core_is_here():
    assert set(NAMES) == set(everything())
    assert {"Limiter.hit", "Decision", "hit_all", "MemoryStore.__len__", "Decision.details"} <= set(NAMES)


def test_what_is_awaited_answers_as_its_method_does():
    world = World()
    limiter, method = world.limiter, _core.Limiter
    assert _core._later(method.charge, limiter, "user:1", cost=7).remaining == 10**9 - 7
    assert limiter.peek("user:1", cost=0).remaining == 10**9 - 7
    _core._later(method.refund, limiter, limiter.hit("user:1"))
    assert limiter.peek("user:1", cost=0).remaining == 10**9 - 7
    for arguments in ([], [method.hit], [method.hit, limiter, "user:1"], [len, []], [method.stats]):
        with pytest.raises(TypeError, match=r"_later\(\)"):
            _core._later(*arguments)
    for wrong in ([method.refund, limiter], [method.stats, limiter, 1], [method.settle, limiter]):
        with pytest.raises(TypeError, match="takes"):
            _core._later(*wrong)
    with pytest.raises(TypeError, match="takes"):
        _core._later(method.stats, limiter, cost=1)
    assert limiter.peek("user:1", cost=0).remaining == 10**9 - 7


@EACH
def test_wrong_counts_and_unknown_keywords(name):
    use = uses()[name]
    for count in range(len(use.positional)):
        attempt(use.call, *use.positional[:count], **use.named)
    for more in (1, 2, 20, 300):
        attempt(use.call, *use.positional, *use.positional[:1] * more, *[None] * more, **use.named)
    for key in ("unknown", "cosT", "", "self", "x" * 1000, "\ud800", "cost\udfff"):
        error = attempt(use.call, *use.positional, **{**use.named, key: 1})
        assert isinstance(error, (TypeError, ValueError, HostileError, UnicodeError)) or name in TAKE_ANYTHING
    for left_out in use.named:
        attempt(use.call, *use.positional, **{key: use.named[key] for key in use.named if key != left_out})
    still_works()


def test_wrong_fields_of_a_redis_store_are_refused_by_name():
    def without(fields, name):
        return {key: fields[key] for key in fields if key != name}

    for name in STORE:
        with pytest.raises(KeyError, match=name):
            _core.RedisStore(LOCATION, without(STORE, name))
        with pytest.raises(TypeError, match=f"{name} is of a wrong type"):
            _core.RedisStore(LOCATION, {**STORE, name: object()})
    for name in ENDPOINT:
        for fields, error in ((without(ENDPOINT, name), KeyError), ({**ENDPOINT, name: object()}, TypeError)):
            with pytest.raises(error, match=name):
                _core.RedisStore({**LOCATION, "server": fields}, STORE)


@EACH
def test_wrong_owners(name):
    """A method of the class, called on what is none of its objects."""
    cls, _, member = name.partition(".")
    if not member:
        return
    owner = getattr(_core, cls)
    method = vars(owner)[member]
    for value in [*hostile(), owner]:
        if type(value) is owner:
            continue
        if hasattr(method, "__get__") and not callable(method):
            error = attempt(method.__get__, value, type(value))
        else:
            error = attempt(getattr(owner, member), value)
        assert (
            isinstance(error, Exception) or value is None or value is owner or member in ("__eq__", "__ne__")
        )


@pytest.mark.parametrize("cls", [cls for cls in CLASSES if cls not in MADE_BY_THE_CORE])
def test_objects_whose_init_was_never_called(cls):
    found = uses()
    for member in members_of(cls):
        one, use = cls.__new__(cls), found[f"{cls.__name__}.{member}"]
        if member == "__init__":
            continue
        answer = attempt(lambda one=one, member=member: getattr(one, member))
        if callable(answer) and not isinstance(answer, Exception):
            answer = attempt(answer, *use.positional, **use.named)
        if member == "__reduce__" and cls is not _core.MemoryStore:
            assert isinstance(answer, TypeError), "none of these can be pickled"
        elif cls is not _core.ManualClock:
            assert isinstance(answer, RuntimeError), (member, answer)
            assert "__init__" in str(answer)
    for protocol in (0, 2):
        answer = attempt(pickle.dumps, cls.__new__(cls), protocol)
        assert isinstance(answer, (bytes, TypeError, RuntimeError))
    gc.collect()


@pytest.mark.parametrize("cls", WITHOUT_CONSTRUCTOR)
def test_decisions_and_their_details_are_made_by_limiters_alone(cls):
    with pytest.raises(TypeError, match=r"not safe|cannot create"):
        object.__new__(cls)
    with pytest.raises(TypeError, match="cannot create"):
        cls()
    with pytest.raises(TypeError, match="not an acceptable base type"):
        type("Own", (cls,), {})


def test_objects_whose_init_was_never_called_are_refused_as_arguments():
    world = World()
    store = MemoryStore.__new__(MemoryStore)
    limit = type("Bad", (), {"_core_limit": _core.Limit.__new__(_core.Limit)})()
    limiter = _core.Limiter.__new__(_core.Limiter)
    for call in (
        lambda: world.new_limiter(store=store),
        lambda: world.new_limiter(limits=(limit,)),
        lambda: _core.hit_all([(limiter, "a")]),
        lambda: _core._decide_request(((limiter, lambda: "a", 1, 0),), {}, tuple, ()),
        lambda: limiter.refund(world.decision),
        lambda: limiter.settle(world.decision, 1),
        lambda: limiter.charge("a"),
        lambda: _core.peek_all([(limiter, "a")]),
        lambda: _core._hit_all_within([(limiter, "a")], 5),
        lambda: _core._checked_charges([(limiter, "a")]),
    ):
        with pytest.raises(RuntimeError, match="__init__"):
            call()


@pytest.mark.parametrize(
    ("name", "column", "error", "says"),
    [
        ("reply", array("q", [0, 0, 0]), ValueError, "there is no column reply"),
        ("remaining", array("q", [0]), ValueError, "column must have a row per decision"),
        ("remaining", array("d", [0, 0, 0]), TypeError, "column must be a contiguous column of numbers"),
    ],
)
def test_a_column_that_cannot_be_filled_is_refused_by_the_right_error(name, column, error, says):
    """What pybind11 raises by itself was once a RuntimeError where the core's own errors are translated."""
    decisions = _core.ManyDecisions(World().limiter, ["a", "b", "c"], 1, False)
    with pytest.raises(error, match=says):
        decisions.fill(name, column)


@pytest.mark.parametrize("cls", MADE)
def test_a_second_init_breaks_nothing_and_one_that_fails_can_be_called_again(cls):
    use, late = uses()[cls.__name__], cls.__new__(cls)
    for one, wrong in itertools.product((use(), late), (Raises(), None, ())):
        attempt(one.__init__, *[wrong] * 3)
        attempt(one.__init__, wrong)
        attempt(one.__init__)
        attempt(one.__init__, *use.positional, **{**use.named, "unknown": 1})
        attempt(repr, one)
    for _ in range(2):
        attempt(late.__init__, *use.positional, **use.named)
        attempt(repr, late)
    if cls is _core.Limiter:
        with pytest.raises(ValueError, match="once"):
            late.__init__(*use.positional, **use.named)
        still_works(late)


@pytest.mark.parametrize("cls", MADE)
def test_subclasses_work(cls):
    use = uses()[cls.__name__]
    one = type("Own", (cls,), {"extra": 1})(*use.positional, **use.named)
    one.attribute = one
    bare = type("Bare", (cls,), {"__init__": lambda self, *_, **__: None})
    attempt(lambda: attempt(repr, bare()))
    if cls is _core.Limiter:
        still_works(one)
    del one
    gc.collect()


class MallInfo(ctypes.Structure):
    """What glibc says of its heap, as in ``man mallinfo2``."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks"),
            *("uordblks", "fordblks", "keepcost"),
        )
    ]


CLEAR_CACHES = getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache
"""Has the interpreter forget the names it looked up: by their addresses it keeps up to 4096 strings."""

MALLINFO = ctypes.CDLL(None).mallinfo2
MALLINFO.restype = MallInfo
SMALLEST_CHUNK = 32
"""Bytes that glibc takes for the smallest allocation."""


def heap_chunks() -> int:
    """Return how many of the smallest allocations all that C and C++ have allocated comes to."""
    heap = MALLINFO()
    return (heap.uordblks + heap.hblkhd) // SMALLEST_CHUNK


def growth_of(run, watched, calls):
    """Return which of heap chunks, memory blocks, objects and references grow with a run of so many calls.

    What leaks grows each time by as much as there are calls; what is kept for later grows ever less, so the
    least of several times counts. References are held meanwhile, and as many again for each run: what is
    given back too often destroys nothing before it's found.
    """
    counts = array("q", [0] * (len(watched) + 3))

    def count():
        CLEAR_CACHES()
        gc.collect()
        counts[:3] = array("q", [heap_chunks(), sys.getallocatedblocks(), len(gc.get_objects())])
        for place, one in enumerate(watched):
            counts[place + 3] = sys.getrefcount(one)
        return counts[:]

    held = []
    gc.collect()
    gc.freeze()  # what was there before need not be looked at again, not even by the next test
    hold(held, watched, calls)
    run()
    least = None
    for _ in range(SEARCHES):
        hold(held, watched, calls)
        before = count()
        run()
        growth = [new - old for old, new in zip(before, count(), strict=True)]
        growth[3:] = map(abs, growth[3:])  # references may be given back too often, too
        least = growth if least is None else [*map(min, least, growth)]
        if max(least) < calls // 2:
            return {}
    KEPT.append(held)
    names = ["heap chunks", "memory blocks", "objects"]
    names += [f"references to {place}, {type(one).__name__}" for place, one in enumerate(watched)]
    return {name: growth for name, growth in zip(names, least, strict=True) if growth >= calls // 2}


def hold(held, watched, calls):
    """Hold each object by so many more references than it has, unless enough are left from the last time."""
    wanted = HELD_PER_CALL * calls
    if not held:
        held.extend([one] * wanted for one in watched)
        return
    for references, one in zip(held, watched, strict=True):
        lost = len(references) + 1 - sys.getrefcount(one)
        if lost > 0:
            references.extend([one] * (lost + wanted))


def test_a_leak_of_the_smallest_c_allocation_is_found():
    malloc, free = ctypes.CDLL(None).malloc, ctypes.CDLL(None).free
    malloc.restype, free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    leaked = array("Q", [0] * 300 * (SEARCHES + 1))
    places = iter(range(len(leaked)))

    def run():
        for _ in range(300):
            leaked[next(places)] = malloc(16)

    assert growth_of(run, [], 300)["heap chunks"] >= 150
    for pointer in leaked:
        free(pointer)


@pytest.mark.parametrize(("change", "repair"), [("Py_IncRef", "Py_DecRef"), ("Py_DecRef", "Py_IncRef")])
def test_a_reference_too_many_or_too_few_is_found_and_destroys_nothing(change, repair):
    one = ctypes.py_object(object())
    changes = 0

    def run():
        nonlocal changes
        for _ in range(300):
            getattr(ctypes.pythonapi, change)(one)
            changes += 1

    assert growth_of(run, [one.value], 300)["references to 0, object"] >= 150
    for _ in range(changes):
        getattr(ctypes.pythonapi, repair)(one)


@EACH
def test_a_right_use_works_time_and_again_and_leaks_nothing(name):
    """Neither objects nor references, also not those of what is always there."""
    use = uses()[name]
    watched = [*use.positional, *use.named.values(), *CLASSES, *LIMITS, None, True, False, 1, "", ()]
    calls = 300

    def run():
        for _ in itertools.repeat(None, calls):
            use()

    assert growth_of(run, watched, calls) == {}


@EACH
def test_wrong_values_in_every_place_break_and_leak_nothing(name):
    values = hostile()
    use = uses()[name]
    calls = 10

    def run():
        for value in [*values] * calls:
            for place in range(len(use.positional)):
                positional = [*use.positional]
                positional[place] = value
                attempt(use.call, *positional, **use.named)
            for key in use.named:
                attempt(use.call, *use.positional, **{**use.named, key: value})
        for _ in range(calls):
            attempt(use.call, *use.positional, **use.named, unknown=1)

    assert growth_of(run, [*values, *CLASSES, *use.positional, *use.named.values()], calls) == {}
    still_works()
