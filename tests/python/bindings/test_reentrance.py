"""Objects that change what is being read, and call back into what calls them."""

from __future__ import annotations

import gc
import itertools
import sys
import weakref

import pytest

from overlimit import FixedWindow, Limiter, ManualClock, MemoryStore, Penalty, _core, hit_all

from .test_misuse import Text, still_works
from .uses import LIMITS, World

OTHER_LIMITS = (FixedWindow(7, 60, name="other"),)


class Cost:
    """A cost that does something when it's read."""

    def __init__(self, action, value=1):
        self.action, self.value = action, value

    def __index__(self):
        self.action()
        return self.value


@pytest.fixture
def world():
    return World()


def disturb(world, charges=None):
    """Return a function that does everything to a limiter that a call under way might not expect."""

    def action():
        world.limiter._set_limits(OTHER_LIMITS, None)
        world.limiter.hit("nested")
        world.limiter.reset_all()
        if charges is not None:
            charges.clear()
        with pytest.raises(ValueError, match="once"):
            world.limiter.__init__("again", LIMITS, world.store, None, None, None, "raise", None)
        gc.collect()

    return action


@pytest.mark.parametrize("method", ["hit", "peek", "_hit_within", "_peek_within"])
def test_a_cost_that_changes_the_limiter(world, method):
    decision = getattr(world.limiter, method)("a", b"b", cost=Cost(disturb(world), 3))
    assert (decision.cost, decision.remaining) == (3, 4)
    assert type(decision.cost) is int
    assert world.limiter.peek("a", cost=0).remaining == (7 if "peek" in method else 4)


def test_a_cost_is_read_once(world):
    class Counting:
        costs = itertools.count(5)

        def __index__(self):
            return next(self.costs)

    assert world.limiter.hit("a", cost=Counting()).cost == 5
    assert hit_all([(world.limiter, "b", Counting())]).cost == 6
    assert _core._checked_charges([(world.limiter, "b", Counting())]) == ((world.limiter, "b", 7),)


def decided_when_checked(charges):
    return hit_all(_core._checked_charges(charges))


@pytest.mark.parametrize("decide", [hit_all, decided_when_checked])
def test_a_cost_that_clears_the_list_of_charges(world, decide):
    charges = []
    charges += [(world.limiter, f"user:{i}", Cost(disturb(world, charges))) for i in range(4)]
    decision = decide(charges)
    assert (decision.cost, len(charges)) == (4, 0)
    assert {detail.identifier for detail in decision.details} == {f"user:{i}" for i in range(4)}


@pytest.mark.parametrize("error", [LookupError, KeyboardInterrupt, MemoryError])
def test_a_cost_that_raises(world, error):
    def action():
        raise error

    for call in (
        lambda: world.limiter.hit("a", cost=Cost(action)),
        lambda: hit_all([(world.limiter, "a", Cost(action))]),
        lambda: _core._checked_charges([(world.limiter, "a", Cost(action))]),
        lambda: _core._hit_all_within([(world.limiter, "a", Cost(action))], 5.0),
        lambda: _core._decide_request(((world.limiter, lambda: "a", Cost(action), 0),), {}, tuple, ()),
        lambda: _core._decide_request(((world.limiter, lambda: "a", action, 0),), {}, tuple, ()),
    ):
        with pytest.raises(error):
            call()
    assert world.limiter.peek("a", cost=0).remaining == 10**9


def test_identifiers_that_cannot_be_compared(world):
    one, same = Text("a"), Text("a")
    decision = world.limiter.hit(one, same, "a")
    assert len(decision.details) == 2
    assert decision.identifier is one
    assert decision.__reduce__()[1] == world.limiter.peek("a", cost=0).__class__.__reduce__(decision)[1]
    with pytest.raises(ValueError, match="twice"):
        hit_all([(world.limiter, one), (world.limiter, same)])
    assert not world.limiter.peek(one) == 5  # noqa: SIM201
    world.limiter.reset(one)
    world.limiter._lock(one, 100)
    world.limiter.unlock(one)
    world.limiter.refund(decision)
    still_works(world.limiter)


def test_charges_that_never_end_are_refused(world):
    with pytest.raises(ValueError, match="64"):
        hit_all(itertools.repeat((world.limiter, "a", 1)))
    with pytest.raises(ValueError, match="64"):
        hit_all((world.limiter, f"user:{i}") for i in itertools.count())
    assert len(hit_all((world.limiter, f"user:{i}") for i in range(64)).details) == 128


def test_charges_whose_iterator_destroys_them(world):
    limiters = [world.new_limiter(name=f"p{i}") for i in range(3)]

    def charges():
        while limiters:
            yield limiters.pop(), "a"
            gc.collect()

    assert len(hit_all(charges()).details) == 6


class CallsBack:
    """A clock that does something before it tells the time."""

    def __init__(self, action=None):
        self.action, self.reading = action, 1_700_000_000.0

    def now(self):
        action, self.action = self.action, None
        if action:
            action()
        return self.reading


def test_a_clock_that_calls_back_into_the_limiter(world):
    clock = CallsBack()
    limiter = world.new_limiter(clock=clock)
    decision = limiter.hit("a", cost=3)

    def action():
        limiter._set_limits(OTHER_LIMITS, None)
        limiter.refund(decision)
        limiter.hit("a")
        limiter.reset("b")
        gc.collect()

    for call in (
        lambda: limiter.hit("a"),
        lambda: limiter.peek("a"),
        lambda: hit_all([(limiter, "a"), (limiter, "b")]),
        lambda: limiter.refund(decision),
        lambda: limiter._refund_part(decision, [0]),
        lambda: limiter._lock("c", 5),
        lambda: limiter.unlock("c"),
    ):
        clock.action = action
        call()
    still_works(world.new_limiter(name="new"))


def test_what_calls_without_end_is_a_recursion_error(world, caplog):
    endless = world.new_limiter(clock=lambda: endless.hit("a").time)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(3000)  # as others in a process do
    try:
        with pytest.raises(RecursionError):
            endless.hit("a")
    finally:
        sys.setrecursionlimit(limit)
    telling = world.new_limiter(on_decision=lambda decision: telling.hit("a"))
    telling.hit("a")
    assert "on_decision failed" in caplog.text
    assert "RecursionError" in caplog.text


def test_a_clock_that_drops_the_last_reference_to_its_limiter(world):
    limiters = []

    class Dropping:
        def now(self):
            limiters.clear()
            gc.collect()
            return 1_700_000_000.0

    limiters.append(world.new_limiter(clock=Dropping()))
    decision = limiters[0].hit("a")
    assert decision.details[0].policy == "core"
    assert not limiters


@pytest.mark.parametrize("error", [LookupError, KeyboardInterrupt])
def test_a_clock_whose_attributes_raise(world, error):
    class Broken:
        @property
        def now(self):
            raise self.error

        def __call__(self):
            return 1_700_000_000.0

    Broken.error = error
    with pytest.raises(error):
        world.new_limiter(clock=Broken())
    Broken.error = AttributeError
    assert world.new_limiter(clock=Broken()).hit("a")


def test_on_decision_that_calls_back(world):
    told = []

    def on_decision(decision):
        told.append(decision)
        if len(told) < 5:
            limiter.hit("a")
            limiter._set_limits(OTHER_LIMITS, None)
            limiter.refund(decision)

    limiter = world.new_limiter(on_decision=on_decision)
    decision = limiter.hit("a", cost=4)
    assert len(told) == 5
    assert told[0] is decision
    assert (decision.cost, decision.limit) == (4, LIMITS[0])


class EvilLimit:
    """A limit that does something when its handle is read."""

    def __init__(self, action):
        self.action = action

    @property
    def _core_limit(self):
        self.action()
        return LIMITS[0]._core_limit


def test_limits_that_initialise_the_limiter_meanwhile(world):
    limiter = _core.Limiter.__new__(_core.Limiter)
    options = (world.store, None, None, None, "raise", None)
    limits = (EvilLimit(lambda: limiter.__init__("inner", LIMITS, *options)),)
    with pytest.raises(ValueError, match="once"):
        limiter.__init__("outer", limits, *options)
    assert limiter.name == "inner"
    still_works(limiter)


def test_limits_that_change_the_limiter_meanwhile(world):
    def change():
        world.limiter._set_limits(OTHER_LIMITS, None)
        gc.collect()

    world.limiter._set_limits((EvilLimit(change),), None)
    assert world.limiter.hit("a").remaining == 10**9 - 1
    assert world.limiter.name == "core"


def test_functions_of_rules_that_change_what_is_known(world):
    known = {}

    def who():
        known.clear()
        known[who] = ("other",)
        gc.collect()
        return ["a", "b"]

    def read(found):
        known.clear()
        return tuple(found)

    rules = ((world.limiter, who, 1, 0), (world.limiter, lambda: {"c": 1}, lambda: known.clear() or 2, 0))
    decision = _core._decide_request(rules, known, read, ())
    assert {detail.identifier for detail in decision.details} == {"a", "b", "c"}
    assert decision.cost == 4


@pytest.mark.parametrize(
    "found", [None, (), [], "", b"", ["a"] * 17, [f"u{i}" for i in range(17)], [1], ("a", None), 5, object()]
)
def test_functions_of_rules_that_return_nonsense(world, found):
    for read in (lambda found: found, lambda found: (found,), lambda found: None):
        with pytest.raises((TypeError, ValueError)):
            _core._decide_request(((world.limiter, lambda: found, 1, 0),), {}, read, ())
    still_works(world.limiter)


def test_functions_of_rules_are_given_the_arguments(world):
    rules = ((world.limiter, lambda who, cost: who, lambda who, cost: cost, 0),)
    decision = _core._decide_request(rules, {}, tuple, ("a", 3))
    assert (decision.identifier, decision.cost) == ("a", 3)


def test_rules_and_roles_that_are_nonsense(world):
    roles = (-1, 3, 2**80, None, "0", 0.5)
    for wrong in (
        *(([], {}, tuple, ()), ((), {}, tuple, ()), ((), [], tuple, ()), ((), {}, tuple, [])),
        *(((), {}, tuple), ((("a", "b", 1),), {}, tuple, ()), ((5,), {}, tuple, ())),
        *((((world.limiter, lambda: "a", 1, role),), {}, tuple, ()) for role in roles),
    ):
        with pytest.raises((TypeError, ValueError, OverflowError)):
            _core._decide_request(*wrong)
    still_works(world.limiter)


def test_penalties_whose_numbers_are_nonsense(world):
    class Fake:
        def __init__(self, numbers):
            self._numbers = numbers

    for numbers in (None, (), 5, ((), False, None), ((0,), False, None), ((-1,), True, None), (("x",), 1, 1)):
        with pytest.raises((TypeError, ValueError)):
            world.new_limiter(penalty=Fake(numbers))
    assert world.new_limiter(penalty=Penalty(5)).hit("a")


def test_what_decisions_refer_to_outlives_everything_else():
    world = World()
    other = world.new_limiter(name="q")
    decision = hit_all([(world.limiter, "".join(["us", "er"])), (other, bytes([65, 66]))])
    before = repr(decision.details)
    del world, other
    gc.collect()
    assert repr(decision.details) == before
    assert (decision.identifier, decision.limit) == ("user", LIMITS[0])
    assert decision._with_shadows_enforced() is decision


def test_cycles_through_clocks_and_callbacks_are_collected():
    for option in ("clock", "on_decision"):

        class Holder:
            limiter = None

            def now(self):
                return 1_700_000_000.0

            def __call__(self, decision):
                return None

        holder = Holder()
        holder.limiter = Limiter("5/minute", name="p", store=MemoryStore(), **{option: holder})
        assert holder.limiter.hit("a")
        gone = weakref.ref(holder)
        del holder
        gc.collect()
        assert gone() is None, option


def test_a_manual_clock_that_tells_the_time_its_own_way_is_asked(world):
    class Own(ManualClock):
        def now(self):
            return 1_800_000_000.0

    assert world.new_limiter(clock=Own(5)).hit("a").time == 1_800_000_000.0


def test_what_is_derived_of_a_decision_gives_nothing_back(world):
    limiters = [world.new_limiter(name=name) for name in ("enforced", "shadow")]
    rules = tuple((limiter, lambda: ("a",), 3, role) for role, limiter in enumerate(limiters))
    decision = _core._decide_request(rules, {}, tuple, ())
    derived = [decision._with_shadows_enforced(), decision._postponed(5, 0)]
    for each in derived:
        for limiter in limiters:
            limiter.refund(each)
            limiter._refund_part(each, [0, 1])
            assert limiter.peek("a", cost=0).remaining == 10**9 - 3
    limiters[0].refund(decision)
    assert limiters[1].peek("a", cost=0).remaining == 10**9
