"""Times become whole microseconds, by the rules of a limiter's clock."""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlimit import ManualClock
from overlimit.simulation import Events

END = 2**53 - 2**50
BERLIN = timezone(timedelta(hours=2))


def micros(times, **options):
    return Events(times, ["a"] * len(times), **options).times.tolist()


@given(st.floats(-1e-3, END / 1e6 + 1, allow_nan=False))
def test_floats_are_read_as_a_manual_clock_reads_them(seconds):
    try:
        expected = round(ManualClock(seconds).now() * 1e6)
    except ValueError:
        with pytest.raises(ValueError, match="row 0"):
            micros([seconds])
    else:
        assert micros([seconds]) == micros(np.array([seconds])) == [expected]
        assert micros([seconds, 1]) == [expected, 1_000_000]


@pytest.mark.check
@given(st.integers(0, END * 1000 - 501))
def test_nanoseconds_are_rounded_to_the_nearest(nanos):
    expected = (nanos + 500) // 1000
    assert micros([nanos], unit="ns") == [expected]
    assert micros(np.array([nanos]).view("M8[ns]")) == [expected]
    assert micros([pd.Timestamp(nanos)]) == [expected]
    assert abs(expected * 1000 - nanos) <= 500


@pytest.mark.parametrize(("unit", "per_unit"), [(None, 10**6), ("s", 10**6), ("ms", 1000), ("us", 1)])
def test_numbers_count_in_the_unit(unit, per_unit):
    assert micros([1, 7], unit=unit) == [per_unit, 7 * per_unit]
    assert micros([1.5, 7.0], unit=unit) == [math.floor(1.5 * per_unit + 0.5), 7 * per_unit]
    assert micros(np.array([7], np.uint8), unit=unit) == [7 * per_unit]
    assert micros([END // per_unit - 1], unit=unit)
    with pytest.raises(ValueError, match="row 1"):
        micros([1, END // per_unit + 1], unit=unit)


INSTANT = 1_700_000_000_123_456
DAY = 1_699_920_000_000_000
AWARE = datetime(2023, 11, 15, 0, 13, 20, 123456, tzinfo=BERLIN)
NAIVE = datetime(2023, 11, 14, 22, 13, 20, 123456)


@pytest.mark.parametrize(
    "times",
    [
        [AWARE],
        [NAIVE],
        (np.datetime64(NAIVE),),
        [pd.Timestamp(AWARE)],
        np.array([NAIVE], "M8[us]"),
        np.array([NAIVE], "M8[ns]").astype(">M8[ns]"),
        np.array([INSTANT], ">i8").astype(">M8[us]"),
        pd.Series([AWARE]),
        pd.Series([NAIVE]),
        pd.DatetimeIndex([AWARE]),
        pd.Series([AWARE], dtype=object),
        pd.Series([AWARE], dtype=pd.ArrowDtype(pa.timestamp("us", "UTC"))),
        pa.array([AWARE], pa.timestamp("ns", "Europe/Berlin")),
        pa.chunked_array([[], [NAIVE]], pa.timestamp("us")),
        pd.Categorical([pd.Timestamp(NAIVE)]),
    ],
    ids=range(15),
)
def test_every_kind_of_datetime(times):
    assert micros(times) == [INSTANT]


@pytest.mark.parametrize("unit", ["Y", "M", "D", "h", "m", "s", "ms", "us", "ns", "25s"])
def test_every_unit_of_datetime64(unit):
    times = np.array([0, 3], f"M8[{unit}]")
    assert micros(times) == times.astype("M8[us]").astype(int).tolist()


def test_picoseconds_and_days_of_arrow():
    assert micros(np.array([1_499_999, 1_500_000], "M8[ps]")) == [1, 2]
    assert micros(pa.array([DAY // 86_400_000_000], pa.date32())) == [DAY]
    assert micros(pa.array([DAY // 1000], pa.date64())) == [DAY]


NOT_A_TIME = np.datetime64("NaT", "us")
BEYOND = [NOT_A_TIME, datetime(1969, 12, 31), datetime(2300, 1, 1), np.datetime64("9999", "Y")]


@pytest.mark.parametrize(
    "bad",
    [math.nan, math.inf, -math.inf, -1, -1.0, 10**400, 1e300, None, pd.NaT, pd.NA, END / 1e6, *BEYOND],
    ids=range(15),
)
def test_the_first_row_without_a_time_is_named(bad):
    with pytest.raises(ValueError, match=r"times: row 2 .* from 1970-01-01 to below"):
        micros([1.0, 2, bad, 3, bad])


@pytest.mark.parametrize(
    ("time", "unit", "word"),
    [
        (1_772_409_600_000, "ms", "milliseconds"),
        (1.7724096e15, "us", "microseconds"),
        (1_772_409_600 * 10**9, "ns", "nanoseconds"),
    ],
)
def test_numbers_that_are_no_seconds_are_recognised(time, unit, word):
    with pytest.raises(ValueError, match=f"^times look like {word}: unit='{unit}'; row 0 is"):
        Events([time], ["a"])
    assert Events([time], ["a"], unit=unit).times.tolist() == [1_772_409_600 * 10**6]


@pytest.mark.parametrize(
    "times",
    [
        np.array([1, math.nan]),
        np.array([1, -1]),
        np.array([1, 2**64 - 1], np.uint64),
        np.array([1, 2**63 - 1]),
        np.array([1, math.inf], np.float32),
        np.array(["2020", "NaT"], "M8[D]"),
        np.array([1, -(2**62)], "M8[Y]"),
        np.array([1, 2**62], "M8[D]"),
        np.ma.array([1, 2], mask=[False, True]),
        pd.Series([1, None], dtype="Int64"),
        pd.Series([1, None], dtype="Float64"),
        pd.Series([1, None], dtype="int64[pyarrow]"),
        pa.array([1, None]),
        pa.array([1.5, None]),
        pa.array([datetime(2020, 1, 1), None], pa.timestamp("s")),
    ],
    ids=range(15),
)
def test_the_row_is_named_in_every_kind_of_column(times):
    with pytest.raises(ValueError, match="times: row 1 "):
        micros(times)


NO_TIMES = [
    np.array([True]),
    np.array([1], "m8[s]"),
    np.array([1j]),
    np.array(["2020-01-01"]),
    pa.array(["a"]),
]


@pytest.mark.parametrize(
    "times",
    ["12", b"12", 5, None, {1: 2}, {1, 2}, (k for k in [1]), ["2020-01-01"], [True], [[1]], *NO_TIMES],
    ids=range(15),
)
def test_what_is_no_column_of_times(times):
    with pytest.raises(TypeError):
        Events(times, ["a"])


def test_texts_are_said_how_to_be_read():
    with pytest.raises(TypeError, match=r"row 1: .*pandas.to_datetime"):
        micros([1, "2020-01-01"])
    with pytest.raises(TypeError, match="make a list"):
        Events(iter([1]), ["a"])


def test_other_mistakes():
    with pytest.raises(ValueError, match="one dimension"):
        Events(np.zeros((2, 2)), ["a", "b"])
    with pytest.raises(ValueError, match="unit must be"):
        micros([1], unit="h")
    with pytest.raises(TypeError, match="leave it out"):
        micros(np.array([NAIVE], "M8[us]"), unit="s")


def test_precision_of_large_integers_is_kept():
    assert micros([END - 1], unit="us") == [END - 1]
    assert micros(np.array([(END - 1) * 1000 + 499]), unit="ns") == [END - 1]
    with pytest.raises(ValueError, match="row 0"):
        micros([(END - 1) * 1000 + 500], unit="ns")


def test_columns_that_cannot_be_written_or_have_gaps_between_their_values():
    frozen = np.array([3.0, 9.0, 1.0, 9.0])
    frozen.flags.writeable = False
    assert micros(frozen[::2]) == [3_000_000, 1_000_000]
    times = np.array([1, 2])
    events = Events(times, ["a", "b"], unit="us")
    times[:] = 7
    assert events.times.tolist() == [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        events.times[0] = 5
