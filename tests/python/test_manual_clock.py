"""The clock that is moved by hand: by seconds, datetimes and timedeltas."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from overlimit import FixedWindow, Limiter, ManualClock, MemoryStore
from servers.patience import PATIENCE

NOON = datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=UTC)


def test_is_set_to_an_aware_datetime_to_the_microsecond():
    clock = ManualClock(5)
    clock.set(NOON)
    assert clock.now() == NOON.timestamp() == 1709208000.123456
    clock.set(NOON.astimezone(ZoneInfo("Asia/Tokyo")))
    assert clock.now() == 1709208000.123456
    assert ManualClock(NOON).now() == clock.now()


def test_is_moved_by_a_timedelta_forth_and_back():
    clock = ManualClock(NOON)
    clock.advance(timedelta(days=1, microseconds=1))
    assert clock.now() == 1709208000.123456 + 86400.000001
    clock.advance(-timedelta(days=1, microseconds=1))
    assert clock.now() == 1709208000.123456
    clock.advance(timedelta(microseconds=1))
    clock.advance(timedelta(days=36500))
    assert round(clock.now() * 10**6) == 1709208000123457 + 36500 * 86400 * 10**6


def test_methods_of_other_clocks_say_what_to_call():
    clock = ManualClock(5)
    for name, instead in (("tick", r"clock\.advance\(60\)"), ("move_to", r"clock\.set\(\.\.\.\)")):
        with pytest.raises(AttributeError, match=f"no attribute '{name}': use {instead}"):
            getattr(clock, name)
    assert not hasattr(clock, "other")


@pytest.mark.parametrize("move", [ManualClock, lambda naive: ManualClock().set(naive)])
def test_a_naive_datetime_is_an_error_that_says_what_to_write(move):
    with pytest.raises(ValueError, match=r"tzinfo=timezone\.utc"):
        move(datetime(2024, 2, 29))


@pytest.mark.parametrize("instant", [datetime(1969, 12, 31, tzinfo=UTC), -1, 2**53 / 1e6, float("nan")])
def test_an_instant_out_of_range_is_a_value_error_and_changes_nothing(instant):
    clock = ManualClock(5)
    with pytest.raises(ValueError, match="between 1970 and 2219"):
        clock.set(instant)
    assert clock.now() == 5


def test_starts_at_the_epoch_says_so_and_cannot_move_to_before_it():
    clock = ManualClock()
    assert "starts at 0.0" in ManualClock.__doc__
    with pytest.raises(ValueError, match=r"ManualClock\(start=0\.0\) cannot advance by -1.*1_700_000_000\)"):
        clock.advance(-1)
    assert clock.now() == 0


def test_a_text_is_a_type_error_that_says_what_to_write():
    for call in (ManualClock, ManualClock().set):
        with pytest.raises(TypeError, match=r"aware datetime, as datetime\(2030, .* not '2030-01-01'"):
            call("2030-01-01")


def test_what_is_of_the_other_kind_is_a_type_error():
    clock = ManualClock(5)
    for call, wrong in (
        (clock.set, timedelta(1)),
        (clock.advance, NOON),
        (clock.set, "noon"),
        (ManualClock, None),
    ):
        with pytest.raises(TypeError, match="seconds"):
            call(wrong)
    assert clock.now() == 5


@pytest.mark.parametrize(
    "move", [lambda clock: clock.advance(timedelta(minutes=1)), lambda clock: clock.set(NOON)]
)
def test_wakes_who_waits(move):
    clock = ManualClock(NOON - timedelta(minutes=1))
    limiter = Limiter(FixedWindow(1, 60), name="p", store=MemoryStore(), clock=clock)
    limiter.hit("a")
    decisions = []
    waiter = threading.Thread(target=lambda: decisions.append(limiter.acquire("a", timeout=60)))
    waiter.start()
    while not clock._wake_ups:
        waiter.join(0.001)
    move(clock)
    waiter.join(PATIENCE)
    assert [decision.time for decision in decisions] == [NOON.timestamp()]
