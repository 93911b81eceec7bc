"""Any bytes give a Decision or a ValueError; a pickled one holds its values and nothing else."""

from __future__ import annotations

import copy
import gc
import pickle
import pickletools
import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from overlimit import (
    Decision,
    FixedWindow,
    Limiter,
    ManualClock,
    MemoryStore,
    SlidingWindow,
    TokenBucket,
    hit_all,
)
from overlimit._pickling import restored_decision

from .decisions import IDENTIFIERS, KINDS, fields_of
from .test_misuse import Text

EACH = pytest.mark.parametrize("decision", KINDS.values(), ids=range(len(KINDS)))
PAYLOADS = [decision.__reduce__()[1][0] for decision in KINDS.values()]


def read(payload: bytes) -> Decision | None:
    """Return the decision of these bytes, or None when they were refused as they should be."""
    try:
        decision = restored_decision(payload)
    except ValueError:
        return None
    fields_of(decision)
    again = decision.__reduce__()[1][0]
    assert restored_decision(again) == decision
    assert restored_decision(again).__reduce__()[1][0] == again
    Limiter("5/minute", name="p", store=MemoryStore()).peek("a")
    return decision


@EACH
def test_a_copy_says_the_same(decision):
    pickled = [pickle.dumps(decision, protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    for copied in (*map(pickle.loads, pickled), copy.copy(decision), copy.deepcopy(decision)):
        assert fields_of(copied) == fields_of(decision)
        assert copied == decision
        assert not copied != decision  # noqa: SIM202
        kinds = [type(each.identifier) for each in copied.details]
        assert kinds == [type(each.identifier) for each in decision.details]


@EACH
def test_is_one_bytes_object_and_one_function(decision):
    function, arguments = decision.__reduce__()
    assert function is restored_decision
    assert [type(argument) for argument in arguments] == [bytes]
    named = {text for _, text, _ in pickletools.genops(pickle.dumps(decision)) if isinstance(text, str)}
    assert named == {"overlimit._pickling", "restored_decision"}


def test_equal_decisions_have_equal_bytes_and_others_have_others():
    decided = [(decision, decision.__reduce__()[1][0]) for decision in KINDS.values()]
    for decision, payload in decided:
        for other, its in decided:
            assert (decision == other) == (payload == its)
            assert (decision != other) == (payload != its)


def make(*, limits="3/minute", name="p", identifier="a", cost=1, start=1_700_000_000):
    store = MemoryStore()
    return Limiter(limits, name=name, store=store, clock=ManualClock(start)).hit(identifier, cost=cost)


@pytest.mark.parametrize(
    "other",
    [
        {"limits": "4/minute"},
        {"limits": [FixedWindow(3, 60)]},
        {"limits": [SlidingWindow(3, 60, name="own")]},
        {"name": "q"},
        {"identifier": b"a"},
        {"identifier": "b"},
        {"cost": 2},
        {"cost": 0},
        {"cost": 2**71},
        {"start": 1_700_000_000.000001},
    ],
)
def test_what_differs_in_anything_is_unequal(other):
    for one in (make(), make(cost=2**70)):
        assert one == pickle.loads(pickle.dumps(one))
        assert one != make(**other)
        assert one.__reduce__() != make(**other).__reduce__()
    assert pickle.loads(pickle.dumps(make(cost=2**71))).cost == 2**71


def test_the_same_call_in_another_process_has_the_same_bytes():
    script = """
import sys
from overlimit import Limiter, ManualClock, MemoryStore
made = [bytearray(b"x" * size) for size in range(1, 5000, 7)]
limiter = Limiter("3/minute; 5/hour burst 9", name="p", store=MemoryStore(), clock=ManualClock(1_700_000_000))
decision = limiter.hit("a", b"b", cost=2)
sys.stdout.buffer.write(decision.__reduce__()[1][0])
"""
    run = [sys.executable, *(["-S"] if "-S" in sys.orig_argv else []), "-c", script]
    payload = subprocess.run(run, capture_output=True, check=True).stdout
    limiter = Limiter(
        "3/minute; 5/hour burst 9", name="p", store=MemoryStore(), clock=ManualClock(1_700_000_000)
    )
    assert payload == limiter.hit("a", b"b", cost=2).__reduce__()[1][0]


def test_what_it_refers_to_is_alive_when_its_limiter_is_gone():
    decision = make(identifier="user:" + "4" * 3)
    gc.collect()
    assert decision.details[0].identifier == "user:444"
    assert decision.details[0].policy == "p"
    assert decision.limit == SlidingWindow(3, 60)


def test_a_copy_gives_nothing_back():
    limiter = Limiter("3/minute", name="p", store=MemoryStore(), clock=ManualClock(1_700_000_000))
    decision = limiter.hit("a")
    limiter.refund(pickle.loads(pickle.dumps(decision)))
    assert limiter.peek("a", cost=0).remaining == 2
    limiter.refund(decision)
    assert limiter.peek("a", cost=0).remaining == 3


def test_a_limit_of_a_class_of_ones_own_comes_back_as_its_algorithm():
    class Own(SlidingWindow):
        __slots__ = ()

        def __reduce__(self):
            raise AssertionError("limits are not pickled as objects")

    decision = make(limits=Own(3, 60))
    assert decision == make()
    assert type(pickle.loads(pickle.dumps(decision)).limit) is SlidingWindow


def test_an_identifier_of_a_class_of_ones_own_is_what_it_holds():
    decision = make(identifier=Text("a"))
    assert decision == make()
    assert type(pickle.loads(pickle.dumps(decision)).identifier) is str


@pytest.mark.parametrize("wrong", [None, "text", 1, [1], bytearray(b"1"), ()])
def test_what_is_no_bytes_is_a_type_error(wrong):
    with pytest.raises(TypeError, match="bytes"):
        restored_decision(wrong)


@settings(max_examples=300)
@given(st.sampled_from(PAYLOADS), st.sampled_from(PAYLOADS), st.data())
def test_those_with_a_part_replaced_are_read_or_refused(payload, other, data):
    """By random bytes, by other parts of JSON, or by the end of another payload."""
    start = data.draw(st.integers(0, len(payload)))
    end = data.draw(st.integers(start, min(len(payload), start + 16)))
    parts = [b"9" * 19, b"-1", b"[]", b"{}", b'""', b"null", b"true", b"NaN", b"],["]
    part = data.draw(st.binary(max_size=16) | st.sampled_from(parts))
    read(payload[:start] + part + payload[end:])
    read(payload[:start] + other[data.draw(st.integers(0, len(other))) :])


@given(st.binary(max_size=400))
@example(b"[" * 100_000)
def test_random_bytes_are_refused(payload):
    assert read(payload) is None
    assert read(b"[1," + payload + b"]") is None


@EACH
def test_those_that_end_early_or_go_on_are_refused(decision):
    payload = decision.__reduce__()[1][0]
    for length in range(0, len(payload), max(1, len(payload) // 150)):
        assert read(payload[:length]) is None
    for more in (b"\0", b"\x01", payload):
        assert read(payload + more) is None


def replaced(old: bytes, new: bytes) -> bytes:
    limits = [FixedWindow(3, "day", start="calendar", timezone="Europe/Rome")]
    payload = make(limits=limits).__reduce__()[1][0]
    assert old in payload
    return payload.replace(old, new, 1)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (b"Europe/Rome", b"Europe/Nowhere", "timezone"),
        (b"Europe/Rome", b"../../etc/passwd", "timezone"),
        (b"Europe/Rome", b"\xff", "ascii"),
        (b"fixed_window", b"no_window", "algorithm"),
        (b"fixed_window", b"token_bucket", "pickled"),
        (b"timezone", b"__class__", "pickled"),
        (b"timezone", b"limit", "pickled"),
        (b"calendar", b"first", "per"),
        (b"day", b"year", "per"),
        (b"[3]", b"[-3]", "limit"),
        (b"[3]", b"[%d]" % 10**1000, "limit"),
        (b"[3]", b"[" + b"9" * 5000 + b"]", "digits"),
        (b'"0x1"', b'"-0x1"', "the cost"),
        (b"[[0,1,", b"[[1,1,", "the policy"),
        (b'[[0,1,"a"', b'[[0,1,""', "empty"),
        (b'"a",1,0]', b'"a",-1,0]', "a cost"),
        (b'"a",1,0]', b'"a",1,4]', "a role"),
        (b"[[0,2,0,", b"[[4,2,0,", "a status"),
        (b"[[0,2,0,", b"[[0,-1,0,", "what remains"),
        (b"[[0,2,0,", b"[[0,2,-1,", "a retry_after"),
        (b"[[0,2,0,", b"[[0,2,1152921504606846977,", "a retry_after"),
        (b"[[0,2,0,", b"[[0,2,0,0,0],[0,2,0,", "the number of rows"),
        (b"[1,", b"[1,-", "the time"),
    ],
)
def test_limits_that_cannot_be_say_why(old, new, says):
    with pytest.raises(ValueError, match=says):
        restored_decision(replaced(old, new))


def test_another_version_is_named():
    with pytest.raises(ValueError, match="format 2"):
        restored_decision(b"[2" + PAYLOADS[0][2:])


def test_infinite_debts_and_shares_of_a_rate_come_back_as_they_were():
    endless = TokenBucket(1, per=60, debt=float("inf"))
    exact = TokenBucket(1, per=60, debt=endless._numbers[-1])
    assert endless != exact
    assert make(limits=endless) != make(limits=exact)
    for limit in (endless, exact):
        assert repr(pickle.loads(pickle.dumps(make(limits=limit))).limit) == repr(limit)


def test_sixty_charges_of_sixteen_limits_come_back():
    store, clock = MemoryStore(), ManualClock(1_700_000_000)
    limits = [FixedWindow(9, per=60, name=f"n{i}") for i in range(16)]
    limiters = [Limiter(limits, name=f"p{i}", store=store, clock=clock) for i in range(10)]
    charges = [(each, identifier) for each in limiters for identifier in IDENTIFIERS[1:]][:60]
    decision = hit_all(charges)
    copied = pickle.loads(pickle.dumps(decision))
    assert copied == decision
    assert len(copied.details) == 60 * 16
    assert copied.details == decision.details
