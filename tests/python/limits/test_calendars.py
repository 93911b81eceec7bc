"""Natural periods: where they begin and end, whatever the clocks of a time zone do."""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from datetime import UTC, date, datetime, timedelta
from io import BytesIO
from itertools import pairwise
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlimit.errors import InvalidLimit
from overlimit.limits import calendars
from overlimit.limits.calendars import Calendar

SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US
LAST_US = 2**53
"""The end of the times that may be asked for, in the year 2255."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LENGTHS_US = {"second": SECOND_US, "minute": 60 * SECOND_US, "hour": 3_600 * SECOND_US}
DATED = ["day", "week", "month"]
UNITS = [*LENGTHS_US, *DATED]
ZONES = [
    *("UTC", "Etc/GMT+12", "Africa/Casablanca", "Africa/Monrovia", "Atlantic/Azores", "America/Caracas"),
    *("America/Havana", "America/New_York", "America/Sao_Paulo", "America/St_Johns", "Asia/Beirut"),
    *("Asia/Gaza", "Asia/Kathmandu", "Asia/Kolkata", "Asia/Pyongyang", "Asia/Tehran", "Australia/Lord_Howe"),
    *("Europe/Berlin", "Europe/London", "Pacific/Apia", "Pacific/Auckland", "Pacific/Kiritimati"),
    "Pacific/Kwajalein",
]


def us(text: str) -> int:
    """Return an instant, written in ISO 8601 with a Z or in full, in microseconds since the epoch."""
    return (datetime.fromisoformat(text.replace("Z", "+00:00")) - EPOCH) // timedelta(microseconds=1)


def shown(*instants: int) -> list[str]:
    return [
        (EPOCH + timedelta(microseconds=instant)).isoformat().replace("+00:00", "Z") for instant in instants
    ]


def zone_of(rule: str) -> ZoneInfo:
    """Return the zone that has always followed a rule, written as in RFC 9636, section 3.3.1."""
    header = b"TZif2" + bytes(15) + struct.pack(">6l", 0, 0, 0, 0, 1, 4)
    standard_time = struct.pack(">lbb", 0, 0, 0) + b"XXX\0"
    return ZoneInfo.from_file(BytesIO(2 * (header + standard_time) + f"\n{rule}\n".encode()))


def offset_us(zone: str, instant_us: int) -> int:
    moment = (EPOCH + timedelta(microseconds=instant_us)).astimezone(ZoneInfo(zone))
    return moment.utcoffset() // timedelta(microseconds=1)


def changes(zone: str, first_us: int, last_us: int) -> list[tuple[int, int]]:
    """Return (instant, UTC offset from then on), of which the first is ``first_us`` itself."""
    steps = range(first_us, last_us, DAY_US // 4)
    found = [(first_us, offset_us(zone, first_us))]
    for before, after in pairwise(steps):
        offset = offset_us(zone, after)
        if offset != found[-1][1]:
            whole_steps = range(before, after)
            at = before + bisect_left(whole_steps, True, key=lambda t, to=offset: offset_us(zone, t) == to)
            found.append((at, offset))
    return found


class Slowly:
    """The same periods from a list of all that is in reach: offsets first, then the beginnings they make."""

    def __init__(self, unit: str, zone: str, week_start: int, around_us: int) -> None:
        self.unit, self.week_start = unit, week_start
        reach = 40 * DAY_US if unit in DATED else DAY_US // 2
        self.changes = changes(zone, around_us - reach, around_us + 3 * reach)
        ends = [at for at, _ in self.changes[1:]] + [around_us + 3 * reach]
        self.spans = [(at, end, offset) for (at, offset), end in zip(self.changes, ends, strict=True)]
        self.beginnings = self.of_days() if unit in DATED else self.of_parts_of_a_day(around_us)

    def of_days(self) -> list[int]:
        start, _, offset = self.spans[0]
        _, last, _ = self.spans[-1]
        first = (EPOCH + timedelta(microseconds=start + offset)).date()
        days = (first + timedelta(n) for n in range(2, (last - start) // DAY_US - 2))
        return sorted({self.beginning(day) for day in days if self.is_first(day)})

    def is_first(self, day: date) -> bool:
        return {"day": True, "week": day.weekday() == self.week_start, "month": day.day == 1}[self.unit]

    def beginning(self, day: date) -> int:
        """Return the first instant of all at which clocks are not before the day."""
        midnight = (day - EPOCH.date()).days * DAY_US
        return min(max(at, midnight - offset) for at, end, offset in self.spans if end > midnight - offset)

    def of_parts_of_a_day(self, around_us: int) -> list[int]:
        length = LENGTHS_US[self.unit]
        grids = {
            instant
            for at, end, offset in self.spans
            for instant in range(around_us - (around_us + offset) % length - 3 * length, end, length)
            if at <= instant < around_us + 5 * length
        }
        shifts = {at for (_, old), (at, new) in pairwise(self.changes) if (new - old) % length}
        return sorted(grids | shifts)

    def periods(self, now_us: int) -> tuple[int, int, int]:
        place = bisect_right(self.beginnings, now_us)
        start, end, end_of_next = self.beginnings[place - 1 : place + 2]
        return max(0, start), end, end_of_next


@st.composite
def instants_around_changes(draw: st.DrawFn, zone: str) -> int:
    """Draw an instant up to two days from a change of the zone's offset, where there is one."""
    base = draw(st.integers(0, us("2060-01-01T00:00:00Z")))
    instants = [at for at, _ in changes(zone, base, base + 400 * DAY_US)[1:]]
    around = draw(st.sampled_from(instants)) if instants else base
    nearby = st.sampled_from([-1, 0, 1]) | st.integers(-2 * DAY_US, 2 * DAY_US)
    return max(0, around + draw(nearby))


class TestPeriods:
    @given(
        data=st.data(),
        unit=st.sampled_from(UNITS),
        zone=st.sampled_from(ZONES),
        week_start=st.integers(0, 6),
    )
    def test_are_those_of_a_slow_list_of_all_from_the_first_instant_to_the_last(
        self, data, unit, zone, week_start
    ):
        now = data.draw(st.integers(0, LAST_US - 1) | instants_around_changes(zone))
        calendar, slowly = Calendar(unit, zone, week_start), Slowly(unit, zone, week_start, now)
        start, end, end_of_next = calendar.periods(now)
        assert (start, end, end_of_next) == slowly.periods(now)
        assert 0 <= start <= now < end < end_of_next
        assert calendar.periods(start) == calendar.periods(end - 1) == (start, end, end_of_next)
        assert calendar.periods(end)[:2] == (end, end_of_next)
        if start > 0:
            assert calendar.periods(start - 1)[1:] == (start, end)
        if unit in LENGTHS_US:
            assert end - start <= calendar.longest_us

    @pytest.mark.parametrize("unit", UNITS)
    def test_begin_at_the_epoch_at_the_earliest(self, unit):
        for zone in ("UTC", "Pacific/Auckland", "America/Los_Angeles"):
            start, end, end_of_next = Calendar(unit, zone, 0).periods(0)
            assert start == 0 < end < end_of_next

    @pytest.mark.parametrize(
        ("unit", "bounds"),
        [
            ("second", ["2219-08-12T21:21:21Z", "2219-08-12T21:21:22Z", "2219-08-12T21:21:23Z"]),
            ("minute", ["2219-08-12T21:21:00Z", "2219-08-12T21:22:00Z", "2219-08-12T21:23:00Z"]),
            ("hour", ["2219-08-12T21:00:00Z", "2219-08-12T22:00:00Z", "2219-08-12T23:00:00Z"]),
            ("day", ["2219-08-12T00:00:00Z", "2219-08-13T00:00:00Z", "2219-08-14T00:00:00Z"]),
            ("week", ["2219-08-09T00:00:00Z", "2219-08-16T00:00:00Z", "2219-08-23T00:00:00Z"]),
            ("month", ["2219-08-01T00:00:00Z", "2219-09-01T00:00:00Z", "2219-10-01T00:00:00Z"]),
        ],
    )
    def test_floor_to_their_unit(self, unit, bounds):
        now = us("2219-08-12T21:21:21.211000Z")
        assert shown(*Calendar(unit, "UTC", 0).periods(now)) == bounds

    @pytest.mark.parametrize("week_start", range(7))
    def test_of_weeks_begin_on_the_day_asked_for(self, week_start):
        for day in range(14):
            now = us("2024-02-26T12:00:00Z") + day * DAY_US
            start, end, _ = Calendar("week", "UTC", week_start).periods(now)
            assert (EPOCH + timedelta(microseconds=start)).weekday() == week_start
            assert end - start == 7 * DAY_US

    def test_of_months_have_the_months_length(self):
        def days(text: str) -> float:
            start, end, _ = Calendar("month", "UTC", 0).periods(us(text))
            return (end - start) / DAY_US

        assert [days(f"2023-{month:02}-15T00:00:00Z") for month in range(1, 13)] == [
            31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31,
        ]  # fmt: skip
        assert days("2024-02-29T23:59:59.999999Z") == 29
        assert days("2100-02-01T00:00:00Z") == 28


class TestChangesOfClocks:
    @pytest.mark.parametrize(
        ("zone", "now", "start", "end"),
        [
            pytest.param(
                "Europe/Berlin", "2024-03-31T12:00:00Z", "2024-03-30T23:00:00Z", "2024-03-31T22:00:00Z",
                id="a day of 23 hours",
            ),
            pytest.param(
                "Europe/Berlin", "2024-10-27T12:00:00Z", "2024-10-26T22:00:00Z", "2024-10-27T23:00:00Z",
                id="a day of 25 hours",
            ),
            pytest.param(
                "America/Sao_Paulo", "2018-11-04T03:00:00Z", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z",
                id="midnight does not exist",
            ),
            pytest.param(
                "America/Sao_Paulo", "2018-11-04T02:59:59.999999Z", "2018-11-03T03:00:00Z",
                "2018-11-04T03:00:00Z", id="the day before midnight does not exist",
            ),
            pytest.param(
                "Asia/Beirut", "2022-03-27T09:00:00Z", "2022-03-26T22:00:00Z", "2022-03-27T21:00:00Z",
                id="midnight does not exist in Asia",
            ),
            pytest.param(
                "America/Havana", "2023-11-05T04:30:00Z", "2023-11-05T04:00:00Z", "2023-11-06T05:00:00Z",
                id="the first of two midnights",
            ),
            pytest.param(
                "America/Havana", "2023-11-05T05:30:00Z", "2023-11-05T04:00:00Z", "2023-11-06T05:00:00Z",
                id="the second of two midnights begins nothing",
            ),
            pytest.param(
                "America/St_Johns", "2006-10-29T03:00:00Z", "2006-10-29T02:30:00Z", "2006-10-30T03:30:00Z",
                id="an hour that clocks show as the day before",
            ),
            pytest.param(
                "Pacific/Apia", "2011-12-30T09:59:59Z", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z",
                id="the day before a day that does not exist",
            ),
            pytest.param(
                "Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z",
                id="the day after a day that does not exist",
            ),
        ],
    )  # fmt: skip
    def test_make_days_of_their_own(self, zone, now, start, end):
        assert shown(*Calendar("day", zone, 0).periods(us(now))[:2]) == [start, end]

    def test_that_jump_over_midnight_or_back_over_it_at_half_past(self, monkeypatch):
        # No zone has done so since 1970.
        odd = zone_of("XXX0YYY,M3.2.0/23:30,M10.4.0/0:30")
        monkeypatch.setattr(calendars, "ZoneInfo", lambda name: odd)
        of_days = Calendar("day", "Odd/Place", 0)
        spring = of_days.periods(us("2024-03-10T12:00:00Z"))
        assert shown(*spring) == ["2024-03-10T00:00:00Z", "2024-03-10T23:30:00Z", "2024-03-11T23:00:00Z"]
        for now in (
            "2024-10-26T23:00:00Z",
            "2024-10-26T23:29:59Z",
            "2024-10-26T23:30:00Z",
            "2024-10-27T12:00:00Z",
        ):
            autumn = of_days.periods(us(now))
            assert shown(*autumn) == ["2024-10-26T23:00:00Z", "2024-10-28T00:00:00Z", "2024-10-29T00:00:00Z"]

    def test_a_skipped_day_is_the_end_of_no_period(self):
        bounds = Calendar("day", "Pacific/Apia", 0).periods(us("2011-12-29T12:00:00Z"))
        assert shown(*bounds) == ["2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"]

    def test_weeks_and_months_hold_them(self):
        march = Calendar("month", "Europe/Berlin", 0).periods(us("2024-03-15T00:00:00Z"))
        assert shown(*march) == ["2024-02-29T23:00:00Z", "2024-03-31T22:00:00Z", "2024-04-30T22:00:00Z"]
        week = Calendar("week", "Europe/Berlin", 6).periods(us("2024-03-31T12:00:00Z"))
        assert shown(*week) == ["2024-03-30T23:00:00Z", "2024-04-06T22:00:00Z", "2024-04-13T22:00:00Z"]

    @pytest.mark.parametrize(
        ("zone", "day", "time", "bounds"),
        [
            ("Asia/Kolkata", "2024-01-01", "12:00", "11:30 12:30 13:30"),  # five and a half hours ahead
            ("Europe/Berlin", "2024-10-27", "00:30", "00:00 01:00 02:00"),  # what comes twice is two
            ("Australia/Lord_Howe", "2024-06-01", "12:00", "11:30 12:30 13:30"),  # in winter
            ("Australia/Lord_Howe", "2024-12-01", "12:00", "12:00 13:00 14:00"),  # in summer
            ("Australia/Lord_Howe", "2023-09-30", "15:00", "14:30 15:30 16:00"),  # half is skipped next
            ("Australia/Lord_Howe", "2023-09-30", "15:45", "15:30 16:00 17:00"),  # the half that is left
            ("Australia/Lord_Howe", "2023-04-01", "15:10", "15:00 15:30 16:30"),  # a half shown again
            ("Asia/Pyongyang", "2018-05-04", "14:45", "14:30 15:00 16:00"),  # an hour that is cut short
        ],
    )
    def test_count_for_hours_by_the_offset_in_force(self, zone, day, time, bounds):
        expected = [us(f"{day}T{bound}:00Z") for bound in bounds.split()]
        assert Calendar("hour", zone, 0).periods(us(f"{day}T{time}:00Z")) == tuple(expected)

    def test_count_for_minutes_only_with_seconds_in_the_offset(self):
        kolkata = Calendar("minute", "Asia/Kolkata", 0).periods(us("2024-01-01T12:00:30Z"))
        assert shown(*kolkata) == ["2024-01-01T12:00:00Z", "2024-01-01T12:01:00Z", "2024-01-01T12:02:00Z"]
        monrovia = Calendar("minute", "Africa/Monrovia", 0).periods(us("1972-01-07T00:44:29Z"))
        assert shown(*monrovia) == ["1972-01-07T00:43:30Z", "1972-01-07T00:44:30Z", "1972-01-07T00:45:00Z"]


class TestCalendar:
    def test_is_told_by_its_identity(self):
        assert Calendar("day", "Europe/Berlin", 0).identity == "day Europe/Berlin 0"
        calendars_of_all = [Calendar(*each) for each in [("day", "UTC", 0), ("day", "Asia/Gaza", 0)]]
        calendars_of_all += [Calendar("week", "UTC", day) for day in range(7)]
        assert len({each.identity for each in calendars_of_all}) == len(set(calendars_of_all)) == 9

    def test_knows_utc_without_time_zone_data(self, monkeypatch):
        def missing(name: str) -> ZoneInfo:
            raise ZoneInfoNotFoundError(name)

        monkeypatch.setattr(calendars, "ZoneInfo", missing)
        assert Calendar("day", "UTC", 0).periods(DAY_US) == (DAY_US, 2 * DAY_US, 3 * DAY_US)
        with pytest.raises(InvalidLimit, match="Europe/Berlin"):
            Calendar("day", "Europe/Berlin", 0)
