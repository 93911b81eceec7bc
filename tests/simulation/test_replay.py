"""What a replay says of its events; test_replay_of_anything.py holds each answer against a limiter's."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from overlimit import InvalidLimit, Limiter, ManualClock, MemoryStore, Penalty, SlidingLog
from overlimit.simulation import Events, replay

COLUMNS = ("allowed", "status", "remaining", "retry_after", "reset_after", "delay", "limit", "identifier")


def test_columns_that_were_not_asked_for_say_so():
    events = Events([0, 1], ["a", "a"])
    answers = replay(events, "1/minute", columns=("allowed",))
    assert answers.allowed.tolist() == [True, False]
    assert (answers.refused, answers.refused_share) == (1, 0.5)
    with pytest.raises(AttributeError, match=r"columns=\('allowed', 'delay'\)"):
        _ = answers.delay
    with pytest.raises(ValueError, match="did you mean 'remaining'"):
        replay(events, "1/minute", columns=("remainin",))


def test_an_event_that_is_too_large_for_a_call_is_named_before_anything_is_replayed():
    columns = {name: ["x", "y"] for name in "abcdefghij"}
    columns["a"][1] = None
    with pytest.raises(ValueError, match=r"row 0 names 10 identifiers, .* at most 6"):
        replay(Events([5, 4], columns), SlidingLog(10_000, 60))


@pytest.mark.parametrize("seed", range(3))
def test_answers_and_columns_of_events_pair_in_whatever_order_they_were_given(seed):
    random_ = random.Random(seed)
    rows = [(random_.randrange(100), random_.choice("abc"), random_.choice("xy")) for _ in range(200)]
    times, ips, labels = map(list, zip(*rows, strict=True))
    events = Events(times, {"ip": ips}).with_labels(labels)
    clock = ManualClock(0)
    limiter = Limiter("7/minute", clock=clock, store=MemoryStore())
    refused = np.zeros(len(rows), bool)
    for row in sorted(range(len(rows)), key=times.__getitem__):
        clock.set(times[row])
        refused[row] = not limiter.hit(ips[row])
    assert 50 < refused.sum() < 180
    answers = replay(events, "7/minute")
    assert (~answers.allowed).tolist() == refused.tolist()
    expected = [(times[row], f"ip:{ips[row]}", labels[row]) for row in np.flatnonzero(refused)]
    columns = events.times // 1_000_000, events["ip"], events.labels
    assert list(zip(*(column[~answers.allowed].tolist() for column in columns), strict=True)) == expected
    assert [(each.time, *each.identifiers, each.label) for each in events[~answers.allowed]] == expected
    table = answers.to_pandas()
    assert table[["ip", "label"]].to_numpy().tolist() == [[f"ip:{ip}", label] for _, ip, label in rows]
    assert table["allowed"].tolist() == answers.allowed.tolist()
    late = events[50:]
    found = replay(late, "7/minute").to_pandas()
    assert found["ip"].tolist() == late["ip"].tolist() == events["ip"][50:].tolist()


def test_tables_say_what_each_limit_identifier_and_minute_got():
    times = [0, 0, 0, 1, 62, 125]
    events = Events(times, {"ip": ["x", "x", "x", "x", "x", "y"]})
    answers = replay(events, ["2/minute", "100/hour"], penalty=Penalty(30))
    summary = answers.summary()
    assert summary.index.tolist() == ["2 per 1 minute", "100 per 1 hour", "lock"]
    assert summary["refused"].tolist() == [2, 0, 1], "the lock refused what the limit refused too"
    assert summary["refused_alone"].tolist() == [1, 0, 0]
    assert summary["least_left"].tolist()[:2] == [0.0, 0.97]
    people = answers.by_identifier()
    assert people.index.tolist() == ["ip:x", "ip:y"]
    counted = people.drop(columns=["first_refused", "last_refused"])
    assert counted.loc["ip:x"].tolist() == [5, 3, 2, pytest.approx(61.2), 2], "until its window lets it pass"
    assert counted.loc["ip:y"].tolist() == [1, 1, 0, 0.0, 0]
    minutes = answers.by_time()
    assert minutes["sent"].tolist() == [4, 1, 1]
    assert minutes["refused"].tolist() == [2, 0, 0]
    table = answers.to_pandas()
    assert table["status"].tolist() == ["ok", "ok", "over", "locked", "ok", "ok"]
    assert table["binding_identifier"].tolist() == ["ip:x"] * 5 + ["ip:y"]


@pytest.mark.parametrize(
    ("limits", "events", "seconds"),
    [
        (SlidingLog(1, 60), [(0, 1), (1, 1)], 59),
        (SlidingLog(1, 60), [(0, 1), (1, 1), (30, 1), (200_000, 1)], 59),
        (SlidingLog(1, 60), [(0, 1), (10, 1), (100_000, 1), (100_055, 1)], 50),
        (("1/minute", Penalty(600)), [(0, 1), (10, 1), (20, 1)], 600),
        (("1/minute", Penalty(100, extend=True)), [(0, 1), (10, 1), (90, 1)], 180),
        (SlidingLog(3, 60), [(0, 3), (10, 3), (15, 3), (70, 1), (80, 3)], 50),
        ("3/minute", [(0, 2), (10, 2), (20, 1)], 10),
        ("3/minute", [(0, 4)], np.inf),
        ("3/minute", [(0, 4), (5, 1)], 5),
        ("3/minute", [(0, 1)], 0),
    ],
)
def test_a_lock_out_lasts_until_the_limits_would_have_let_it_pass(limits, events, seconds):
    times, costs = zip(*events, strict=True)
    for columns in (COLUMNS, ("allowed",)):
        answers = replay(Events(times, ["a"] * len(times), costs), limits, columns=columns)
        assert answers.by_identifier()["longest_lock_out"].tolist() == [pytest.approx(seconds, abs=1e-5)]


def test_lock_outs_of_many_identifiers_are_those_of_each_alone():
    random_ = random.Random(3)
    events = Events(
        [random_.randint(0, 600) for _ in range(400)], [random_.choice("abcdef") for _ in range(400)]
    )
    together = replay(events, ("5/30 seconds", Penalty(7))).by_identifier()["longest_lock_out"]
    for name in "abcdef":
        alone = replay(events[events.identifiers == name], ("5/30 seconds", Penalty(7)))
        assert alone.by_identifier()["longest_lock_out"].tolist() == [together[name]]
    assert len(set(together)) > 2


def rows_of(starts, zone, every, *, step=600, hours=75):
    """Return when the periods of a few days begin in a zone, and how many minutes of events each has."""
    start = datetime.fromisoformat(starts).replace(tzinfo=ZoneInfo(zone)).timestamp()
    times = start + np.arange(0, hours * 3600, step)
    table = replay(Events(times, ["a"] * len(times)), "1/hour").by_time(every, zone)
    assert table["sent"].sum() == len(times)
    assert (table["passed"] + table["refused"] == table["sent"]).all()
    return [f"{time:%d %H:%M %z}" for time in table.index], (table["sent"] * step // 60).tolist()


@pytest.mark.parametrize("every", [86_400, timedelta(days=1), "day"])
def test_days_are_those_of_the_zone(every):
    starts, minutes = rows_of("2026-03-28", "Europe/Berlin", every)
    assert starts == ["28 00:00 +0100", "29 00:00 +0100", "30 00:00 +0200", "31 00:00 +0200"]
    assert minutes == [24 * 60, 23 * 60, 24 * 60, 4 * 60]
    longer = [25 * 60] if every == "day" else [24 * 60, 60]  # seconds are those that have passed
    assert rows_of("2026-10-24", "Europe/Berlin", every)[1][1:-2] == longer
    assert rows_of("2026-10-24", "UTC", every)[1][:3] == [24 * 60] * 3, "whose start is at midnight there"


def test_other_periods_of_the_zone():
    starts, minutes = rows_of("2026-03-29", "Europe/Berlin", 43_200, hours=23)
    assert starts == ["29 00:00 +0100", "29 13:00 +0200"]
    assert minutes == [12 * 60, 11 * 60], "cut by the next midnight"
    assert rows_of("2026-03-28T20:00", "Europe/Berlin", "week")[0] == ["23 00:00 +0100", "30 00:00 +0200"]
    assert rows_of("2026-03-30T20:00", "Europe/Berlin", "month")[0] == ["01 00:00 +0100", "01 00:00 +0200"]
    assert rows_of("2026-03-29", "Europe/Berlin", 100_000)[0][0] == "28 13:13 +0100", "from the epoch"


@pytest.mark.parametrize("every", ["hour", 3600])
def test_hours_across_a_change_of_the_clock(every):
    starts, minutes = rows_of("2026-03-29", "Europe/Berlin", every, hours=5)
    assert [start[3:] for start in starts[:4]] == ["00:00 +0100", "01:00 +0100", "03:00 +0200", "04:00 +0200"]
    assert minutes == [60] * 5
    starts, minutes = rows_of("2026-10-25", "Europe/Berlin", every, hours=5)
    assert [start[3:] for start in starts[1:4]] == ["01:00 +0200", "02:00 +0200", "02:00 +0100"]


def test_hours_are_cut_where_clocks_change_by_less_and_seconds_are_not():
    starts, minutes = rows_of("2026-04-05", "Australia/Lord_Howe", "hour", hours=4)
    assert [start[3:] for start in starts] == [
        *("00:00 +1100", "01:00 +1100", "01:30 +1030", "02:00 +1030", "03:00 +1030")
    ]
    assert minutes == [60, 60, 30, 60, 30]
    assert rows_of("2026-04-05", "Australia/Lord_Howe", 3600, hours=4)[1] == [60] * 4


def test_a_midnight_that_comes_twice_is_the_first():
    times = datetime(2026, 10, 31, 12, tzinfo=ZoneInfo("America/Havana")).timestamp() + np.arange(36) * 3600
    table = replay(Events(times, ["a"] * 36), "1/hour").by_time("day", "America/Havana")
    assert [f"{time:%d %H:%M %z}" for time in table.index] == ["31 00:00 -0400", "01 00:00 -0400"]
    assert table["sent"].tolist() == [12, 24]


@pytest.mark.parametrize(
    ("every", "zone", "message"),
    [
        ("dya", "UTC", "every must be a duration, in seconds or one of 'hour', 'day'.*, not 'dya'"),
        ("60", "UTC", "every must be a duration"),
        (0, "UTC", "every must be at least one microsecond"),
        (60, "Europe/Berlim", "timezone must be a name .* which the time zone data does not have"),
        ("day", None, "timezone must be a name"),
    ],
)
def test_wrong_periods_are_refused_whatever_the_events(every, zone, message):
    for events in (Events([], []), Events([1], ["a"])):
        with pytest.raises(InvalidLimit, match=message):
            replay(events, "1/minute").by_time(every, zone)


def test_too_many_periods_are_refused():
    with pytest.raises(InvalidLimit, match=r"every=1e-06 is too short: .* 100,000,000 periods"):
        replay(Events([1, 101], ["a", "a"]), "1/minute").by_time(1e-6)


def test_nothing_comes_of_no_events():
    answers = replay(Events([], []), "1/minute")
    assert (len(answers), answers.refused, answers.refused_share) == (0, 0, 0.0)
    assert len(answers.by_identifier()) == len(answers.by_time()) == 0
    assert answers.summary()["refused"].tolist() == [0]


def test_a_replay_of_some_events_answers_in_their_order():
    events = Events([3, 1, 2, 0], ["a", "a", "b", "a"])[1:]
    answers = replay(events, "1/minute")
    assert np.array_equal(answers.allowed, [False, True, True])
