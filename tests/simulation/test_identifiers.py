"""Which values are identifiers, which are the same, and which are refused."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlimit.simulation import Events


def labels(column, **options):
    events = Events(range(len(column)), column, **options)
    assert len(set(events._columns[0].labels.tolist())) == len(events._columns[0].labels)
    return events.identifiers.tolist()


TEXTS = ["b", "a", "b", "c\0", "c"]


@pytest.mark.parametrize(
    "column",
    [
        TEXTS,
        tuple(TEXTS),
        [text.encode() for text in TEXTS],
        np.array(TEXTS, object),
        np.array([None, *TEXTS], object)[1:],
        pd.Series(TEXTS),
        pd.Series(TEXTS, index=[9, 9, 1, 2, 3]),
        pd.Series(TEXTS, dtype=object),
        pd.Series(TEXTS, dtype="string"),
        pd.Series(TEXTS, dtype="category"),
        pd.Index(TEXTS),
        pd.Categorical(TEXTS, categories=["unused", "c", "c\0", "b", "a"]),
        pd.Series(TEXTS, dtype=pd.ArrowDtype(pa.string())),
        pa.array(TEXTS),
        pa.array(TEXTS, pa.large_string()),
        pa.array([text.encode() for text in TEXTS]),
        pa.array(TEXTS).dictionary_encode(),
        pa.chunked_array([["b", "a"], [], ["b", "c\0", "c"]]),
        pa.chunked_array([pa.array(["b", "a"]).dictionary_encode(), pa.array(TEXTS[2:]).dictionary_encode()]),
    ],
    ids=range(19),
)
def test_every_kind_of_column_of_texts(column):
    assert labels(column) == TEXTS


NUMBERS = [7, -1, 7, 10**12]


@pytest.mark.parametrize(
    "column",
    [
        NUMBERS,
        [7.0, -1.0, 7, 10**12],
        list(map(str, NUMBERS)),
        np.array(NUMBERS),
        np.array(NUMBERS, ">i8"),
        np.array(NUMBERS, float),
        np.repeat(np.array(NUMBERS), 2)[::2],
        np.array(NUMBERS, object),
        pd.Series(NUMBERS),
        pd.Series(NUMBERS, dtype="Int64"),
        pd.Series(NUMBERS, dtype="Float64"),
        pd.Series(NUMBERS, dtype="int64[pyarrow]"),
        pd.Series(NUMBERS, dtype="category"),
        pa.array(NUMBERS),
    ],
    ids=range(14),
)
def test_every_kind_of_column_of_numbers(column):
    assert labels(column) == ["7", "-1", "7", str(10**12)]


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)))
def test_integers_are_their_texts(numbers):
    assert labels(np.array(numbers, np.int64)) == list(map(str, numbers))


@pytest.mark.parametrize("kind", ["i1", "u1", "i8", "u8"])
def test_the_smallest_and_largest_integers(kind):
    least, most = np.iinfo(kind).min, np.iinfo(kind).max
    wide = range(-128, 127) if kind == "i1" else range(most - 200, most)
    for numbers in ([least, most], [most, most - 1], [least] * 3, [least, least + 1], wide):
        assert labels(np.array(numbers, kind)) == list(map(str, numbers))


def test_a_text_and_its_bytes_are_the_same():
    assert labels(
        ["ä", "ä".encode(), "\ud800", "\ud800".encode("utf-8", "surrogatepass"), b"\xff", "7", 7, 7.0]
    ) == [
        *["ä"] * 2,
        *["\ud800"] * 2,
        b"\xff",
        *["7"] * 3,
    ]
    assert Events([1], {"ip": [b"\xff"]}).identifiers["ip"].tolist() == [b"ip:\xff"]


@pytest.mark.parametrize(
    "column",
    [
        ["a", None, "", b"", math.nan, pd.NA, pd.NaT, np.float64("nan"), "b"],
        np.array(["a", "", "b"]),
        np.array([b"a", b"", b"b"]),
        np.ma.array(["a", "x", "b"], mask=[False, True, False]),
        pd.Series(["a", None, "b"]),
        pd.Series(["a", None, "b"], dtype="string[python]"),
        pd.Series(["a", None, "", "b"], dtype="category"),
        pa.array(["a", None, "", "b"]),
        pa.array(["a", None, "b"]).dictionary_encode(),
        pa.chunked_array([["a"], [None, None], ["b"]]),
    ],
    ids=range(10),
)
def test_what_is_missing(column):
    with pytest.raises(ValueError, match=r"row 1 has no identifier: missing='skip'"):
        labels(column)
    events = Events(range(len(column)), column, missing="skip")
    assert events.identifiers.tolist() == ["a", "b"]
    assert events.times.tolist() == [0, (len(column) - 1) * 1_000_000]
    assert events.skipped == len(column) - 2
    both = Events(range(len(column)), {"ip": column, "user": range(len(column))})
    assert both.identifiers["ip"].tolist() == ["ip:a", *[None] * (len(column) - 2), "ip:b"]


@pytest.mark.parametrize(
    "column",
    [
        np.array([7, math.nan, 8]),
        pd.Series([7, None, 8], dtype="Int64"),
        pd.Series([7, None, 8], dtype="int64[pyarrow]"),
        pd.Series([7.0, None, 8], dtype="Float64"),
        pa.array([7, None, 8]),
        np.ma.array([7, 9, 8], mask=[False, True, False]),
    ],
    ids=range(6),
)
def test_numbers_with_gaps(column):
    assert labels(column, missing="skip") == ["7", "8"]


def test_a_column_of_nothing():
    for column in ([None, None], pa.nulls(2), pd.Series([None, None], dtype="string"), np.full(2, math.nan)):
        events = Events([1, 2], {"ip": column, "user": ["a", "b"]})
        assert events.identifiers["ip"].tolist() == [None, None]


@pytest.mark.parametrize(
    "column",
    [
        ["a", True],
        [1, True],
        [1, np.bool_(True)],
        ["a", 1.5],
        ["a", 2.0**53],
        ["a", math.inf],
        ["a", ["b"]],
        ["a", {"b": 1}],
        ["a", Decimal(1)],
        ["a", object()],
        ["a", pd.Timestamp(0)],
        np.array([1, 1.5]),
        np.array([1, math.inf]),
        np.array([1, 2.0**60]),
        pd.Series(["a", 1.5], dtype="category"),
        pd.Series([None, True], dtype="boolean"),
        pa.array([None, True]),
        pa.array([1.0, 1.5]),
    ],
    ids=range(18),
)
def test_what_cannot_be_an_identifier(column):
    with pytest.raises(TypeError, match=r"identifiers\['ip'\]: row 1: .*(identifier)"):
        Events([1, 2], {"ip": column, "user": [1, 2]})


def test_what_is_no_column_of_identifiers():
    arrays = (np.array([True, False]), np.array([1j, 2]))
    times = (np.array([0, 1], "M8[s]"), np.array([0, 1], "m8[s]"))
    for column in (*arrays, *times, "ab", {"a", "b"}, (k for k in "ab"), 7, None):
        with pytest.raises(TypeError):
            Events([1, 2], column)


def test_unused_categories_may_be_anything():
    assert labels(pd.Categorical(["a", "b"], categories=["a", 1.5, "b"])) == ["a", "b"]


@pytest.mark.parametrize("name", ["", "a:b", "time", "cost", "label"])
def test_names_that_columns_cannot_have(name):
    with pytest.raises(ValueError, match="a column of identifiers"):
        Events([1], {name: ["a"]})


def test_tables_of_columns():
    table = pd.DataFrame({"ip": ["a", "b"], "user": [1, 2]})
    for columns in (table, pa.table(table), pa.record_batch(table)):
        assert Events([1, 2], columns)[1].identifiers == ("ip:b", "user:2")
    with pytest.raises(ValueError, match="two columns 'ip'"):
        Events([1, 2], pd.concat([table, table], axis=1)[["ip", "ip"]])
    with pytest.raises(TypeError, match="a text as its name"):
        Events([1, 2], {7: ["a", "b"]})
    for none in ({}, table[[]]):
        with pytest.raises(ValueError, match="no columns"):
            Events([1, 2], none)


def test_columns_of_another_length():
    with pytest.raises(ValueError, match=r"identifiers\['user'\] has 1 rows, and times has 2"):
        Events([1, 2], {"ip": ["a", "b"], "user": ["a"]})
    with pytest.raises(ValueError, match="labels has 3 rows, and times has 2"):
        Events([1, 2], ["a", "b"], labels=["a"] * 3)
    with pytest.raises(ValueError, match="missing must be"):
        Events([1], ["a"], missing="drop")


def test_as_many_identifiers_as_a_call_takes():
    columns = {f"c{k}": ["a", "a"] for k in range(16)}
    assert len(Events([1, 2], columns)[0].identifiers) == 16
    with pytest.raises(ValueError, match="row 1 has 17 identifiers, and one call takes 16"):
        Events([1, 2], {**columns, "more": [None, "a"]})


@pytest.mark.parametrize(
    "cost",
    [[1, 2], (1, 2), np.array([1, 2], np.uint8), np.array([1, 2], ">i4"), pd.Series([1, 2], dtype="Int64")],
)
def test_costs(cost):
    assert Events([2, 1], ["a", "b"], cost).costs.tolist() == [1, 2]
    assert Events([2, 1], ["a", "b"], np.int64(3)).costs.tolist() == [3, 3]
    assert Events([1], ["a"], 0).costs.tolist() == [0]


def test_costs_beyond_every_limit_are_the_same():
    for huge in (2**53 + 1, 2**63 - 1, 2**64 - 1, 10**30):
        for cost in (huge, [huge], np.array([huge])):
            assert Events([1], ["a"], cost).costs.tolist() == [2**53]


@pytest.mark.parametrize(
    ("cost", "error", "said"),
    [
        *((cost, ValueError, "cost: row [01] ") for cost in ([1, -1], np.array([1, -1]), [1, None])),
        *((cost, ValueError, "cost: row [01] ") for cost in ([1, -(10**30)], np.array([math.nan, 1.0]))),
        (pd.Series([1, None], dtype="Int64"), ValueError, "cost: row [01] "),
        *((cost, TypeError, "cost: row [01] ") for cost in ([1, 1.5], [1, True], [1, "2"])),
        (-1, ValueError, "cost must be a whole number from 0"),
        *((cost, TypeError, "cost must be a whole number from 0") for cost in (True, 1.0, "1")),
        ([1], ValueError, "cost has 1 rows"),
    ],
    ids=range(14),
)
def test_costs_that_a_limiter_refuses(cost, error, said):
    with pytest.raises(error, match=said):
        Events([1, 2], ["a", "b"], cost)


class Frame:
    """Rows as other libraries hand them over: a stream of Arrow, and the names of the columns."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self.columns = table.column_names

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


class LazyFrame:
    """Rows that there are once they are collected, as of polars."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def collect(self):
        return Frame(self._table)

    def collect_schema(self):
        return self._table.schema


@pytest.mark.parametrize("kind", [Frame, LazyFrame, lambda table: table])
def test_frames_of_arrow_are_taken_as_those_of_pandas(kind):
    texts = pa.array(["a", None, "b"]).cast(pa.string_view()), pa.array([None, "x", "y"]).dictionary_encode()
    table = pa.table(
        {"ip": texts[0], "user": texts[1], "time": pa.array([3, 1, 2]).cast(pa.decimal128(20, 1))}
    )
    expected = Events([3, 1, 2], {"ip": ["a", None, "b"], "user": [None, "x", "y"]}, labels=["a", None, "b"])
    given = kind(table.select(["ip", "user"]))
    is_plain = kind not in (Frame, LazyFrame)
    columns = [table.column(k) if is_plain else kind(table.select([k])) for k in ("time", "ip")]
    assert Events(columns[0], given, labels=columns[1]) == expected
    if not is_plain:
        with pytest.raises(ValueError, match="times must be one column, not a table of 'ip', 'user'"):
            Events(given, given)
