"""Labels of events against a model in plain Python, and answers that are told apart by them."""

from __future__ import annotations

import math
import pickle
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlimit import Penalty, SlidingLog
from overlimit.simulation import Events, compare, replay

ROWS = st.lists(
    st.tuples(st.integers(0, 300), st.sampled_from(["a", "b", "c", None]), st.sampled_from(["x", "y"])),
    min_size=1,
    max_size=30,
)
NAMES = ["ip:a", "ip:b", "ip:c", "user:x", "user:y"]
LABELS = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["office", "crawler", "", None]))


def built(rows):
    times, ips, users = zip(*rows, strict=True)
    return Events(times, {"ip": ips, "user": users})


def occurring(events, labels):
    """Return the labels of identifiers that occur; others are a warning."""
    names = {each for event in events for each in event.identifiers}
    return {name: label for name, label in labels.items() if name in names}


def modelled(events, labels, other):
    """Return each event's first label, of its columns in their order."""
    found = [[labels.get(each) for each in event.identifiers if labels.get(each)] for event in events]
    return [(of_event or [other])[0] for of_event in found]


@given(ROWS, LABELS, st.sampled_from(["", "rest", "office", None]))
def test_an_event_has_the_label_of_its_first_column_that_has_one(rows, labels, other):
    events = built(rows)
    labelled = events.with_labels(occurring(events, labels), other=other)
    expected = modelled(events, labels, other)
    assert labelled.labels.tolist() == expected
    assert labelled == events.with_labels(labels.get, other=other)
    assert labelled == events.with_labels(expected)
    assert labelled.order.tolist() == events.order.tolist()
    assert (events.labels, len(set(labelled._labels.labels))) == (None, len(labelled._labels.labels))


@given(ROWS, LABELS)
def test_labels_go_with_their_events(rows, labels):
    events = built(rows)
    events = events.with_labels(occurring(events, labels), other="rest")
    known = events.labels.tolist()
    mask = events.times % 2_000_000 == 0
    assert events[1:].labels.tolist() == known[1:]
    assert events[mask].labels.tolist() == [label for label, is_in in zip(known, mask, strict=True) if is_in]
    assert events.between(50).labels.tolist() == events[events.times >= 50_000_000].labels.tolist()
    merged = Events.concat([events, built(rows)])
    assert Counter(merged.labels) == Counter({**Counter(known), None: len(known)})
    assert pickle.loads(pickle.dumps(events)) == events
    assert events != built(rows)
    assert built(rows).with_labels(events.labels) == events


def test_a_function_is_asked_about_each_identifier_that_occurs_once():
    events = Events(range(100), ["a", "b"] * 50)[::2]
    asked = []
    events.with_labels(asked.append)
    assert asked == ["a"]


def test_what_labels_may_be():
    events = Events([2, 1, 3], [7, 8, 9])
    assert events.with_labels({7: "office", b"8": 5}).labels.tolist() == ["office", "5", ""]
    column = pd.Categorical(["x", None, "y"])
    assert events.with_labels(column, other="z").labels.tolist() == ["x", "z", "y"]
    assert events.with_labels(lambda identifier: math.nan).labels.tolist() == [""] * 3
    assert events.with_labels({}, other=None).labels.tolist() == [None] * 3
    assert Events([], []).with_labels({"a": "b"}).labels.tolist() == []


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        (["x"], ValueError, "labels has 1 rows, and times has 2"),
        ("office", TypeError, "labels must be a column"),
        ({"198.51.100.20": "office"}, ValueError, "write 'ip:198.51.100.20'"),
        ({"2001:db8::7": "office"}, ValueError, "write 'ip:2001:db8::/64'"),
        ({"ip:2001:db8::7": "office"}, ValueError, "write 'ip:2001:db8::/64'"),
        ({"ip:a": "x", "ip:b": "y"}, ValueError, "no event has any of these identifiers: 'ip:a', 'ip:b'$"),
        (lambda identifier: 0.5, TypeError, "a label must be a text, and a number a whole one, not 0.5"),
        ({"ip:198.51.100.20": ["office"]}, TypeError, "a label must be a text"),
    ],
)
def test_wrong_labels_say_what_to_write(labels, error, message):
    events = Events([1, 2], {"ip": ["198.51.100.20", "2001:db8::/64"]})
    with pytest.raises(error, match=message):
        events.with_labels(labels)


def test_names_of_no_event_are_a_warning_if_others_occur():
    events = Events([1, 2], {"ip": ["a", "b"]})
    with pytest.warns(UserWarning, match=r"no event has 6 of the 7 identifiers: 'ip:0', .*'ip:4', \.\.\.$"):
        labelled = events.with_labels({"ip:b": "office"} | {f"ip:{k}": "rest" for k in range(6)})
    assert labelled.labels.tolist() == ["", "office"]
    # A part knows the names of the whole, so days can be labelled one by one.
    assert events[:1].with_labels({"ip:b": "office"}).labels.tolist() == [""]


@given(ROWS, LABELS)
def test_labels_change_no_answer(rows, labels):
    events = built(rows)
    labelled = events.with_labels(labels.get)
    for policy in ("2/minute", [SlidingLog(3, 60), "1/second"]):
        plain, told = replay(events, policy), replay(labelled, policy)
        assert plain.to_pandas().equals(told.to_pandas().drop(columns="label", errors="ignore"))
        assert plain.by_identifier().equals(told.by_identifier().drop(columns="label"))


def test_an_empty_label_is_as_none():
    events = Events([1, 2, 3, 4], ["a", "b", "c", "b"])
    empty, none = events.with_labels({"a": "office"}), events.with_labels({"a": "office"}, other=None)
    assert empty == none == Events(events.times, events.identifiers, unit="us", labels=empty.labels)
    assert "; 1 label)" in repr(empty)
    answers = [replay(each, "1/minute") for each in (empty, none)]
    assert answers[0].by_label().equals(answers[1].by_label())
    assert answers[0].by_label()["sent"].to_dict() == {"": 3, "office": 1}
    assert answers[0].by_identifier()["label"].to_dict() == {"b": "", "a": "office", "c": ""}
    compared = [compare(each, {"one": "1/minute"}) for each in (empty, none)]
    assert list(compared[0].effects["one"].refused_by_label) == ["office"]
    assert compared[0].to_pandas().equals(compared[1].to_pandas())
    texts = [[text.get_text() for text in each.plot().get_legend().get_texts()] for each in answers]
    assert texts == [["refused: others (1)", "passed", "sent"]] * 2


def test_events_differ_in_the_order_of_their_columns():
    columns = {"ip": ["a", "b"], "user": ["x", "y"]}
    assert Events([1, 2], columns) != Events([1, 2], dict(reversed(columns.items())))


@settings(max_examples=40)
@given(ROWS, st.lists(st.sampled_from(["office", "crawler", None]), min_size=30, max_size=30))
def test_answers_are_counted_by_label(rows, labels):
    events = built(rows).with_labels(labels[: len(rows)])
    answers = replay(events, (SlidingLog(2, 60), Penalty(20)))
    table = answers.by_label()
    allowed, known = answers.allowed.tolist(), [label or "" for label in events.labels]
    sent, passed = (
        Counter(known),
        Counter(label for label, is_in in zip(known, allowed, strict=True) if is_in),
    )
    assert table["sent"].to_dict() == sent
    assert table["passed"].to_dict() == {label: passed[label] for label in sent}
    assert table["refused"].to_dict() == {label: sent[label] - passed[label] for label in sent}
    ranks = list(zip(table["refused"], table["sent"], strict=True))
    assert ranks == sorted(ranks, reverse=True)
    assert table["longest_lock_out"].max() == answers.by_identifier()["longest_lock_out"].max()
    assert not table.loc[table["refused"] == 0, "longest_lock_out"].any()


@settings(max_examples=40)
@given(ROWS, st.lists(st.sampled_from(["office", "crawler", None]), min_size=30, max_size=30))
def test_what_was_refused_of_whom_and_when(rows, labels):
    events = built(rows).with_labels(labels[: len(rows)], other=None)
    answers = replay(events, "2/minute")
    refused, names = ~answers.allowed, np.array([event.identifiers[0] for event in events])
    for table, groups in (
        (answers.by_identifier(top=None), names),
        (answers.by_label(), np.array([event.label or "" for event in events])),
    ):
        for name, row in table.iterrows():
            own = refused & (groups == name)
            assert row["refused_cost"] == events.costs[own].sum()
            ends = [row["first_refused"], row["last_refused"]]
            times = events.times[own]
            assert [end.value // 1000 for end in ends if not pd.isna(end)] == (
                [times.min(), times.max()] if own.any() else []
            )
    table = compare(events, {"a": "2/minute"}).to_pandas() if len(events) else None
    for label in {event.label for event in events} - {None}:
        own = np.array([event.label == label for event in events])
        share = len({*names[own & refused]}) / len({*names[own]})
        assert table.loc["a", f"refused_identifiers[{label}]"] == pytest.approx(share)


@settings(max_examples=40)
@given(ROWS)
def test_the_lock_out_of_a_label_is_the_longest_of_its_identifiers(rows):
    events = built(rows)
    events = events.with_labels({"ip:a": "one", "ip:b": "one", "user:x": "two"}.get, other="rest")
    whole = events.with_labels([event.identifiers[0] for event in events])
    answers = replay(whole, SlidingLog(1, 60))
    of_each = answers.by_identifier(top=None)["longest_lock_out"].to_dict()
    assert answers.by_label()["longest_lock_out"].to_dict() == of_each


@settings(max_examples=40)
@given(ROWS, st.lists(st.sampled_from(["office", "crawler", None]), min_size=30, max_size=30))
def test_an_identifier_has_the_label_that_most_of_its_events_have(rows, labels):
    events = built(rows).with_labels(labels[: len(rows)])
    in_time = sorted(events, key=lambda event: event.time)
    table = replay(events, "2/minute").by_identifier(top=None)
    hit = ["refused_cost", "first_refused", "last_refused"]
    assert table.columns.tolist() == ["sent", "passed", "refused", "longest_lock_out", *hit, "label"]
    for identifier in table.index:
        of_it = [event.label for event in in_time if event.identifiers[0] == identifier and event.label]
        counted = Counter(of_it).most_common(1)  # of equally many the first
        assert table.loc[identifier, "label"] == (counted[0][0] if counted else "")


def test_without_labels_there_is_no_table_of_them():
    answers = replay(Events([1], ["a"]), "1/minute")
    with pytest.raises(ValueError, match="with_labels"):
        answers.by_label()
    assert "label" not in answers.by_identifier()


def test_a_table_of_labels_that_utf_8_cannot_write():
    events = Events([1, 2], ["a", "b"], labels=["\ud801", b"\xff"])
    answers = replay(events, "1/minute")
    assert set(answers.by_label().index) == {"\ud801", b"\xff"}
    assert set(answers.by_identifier()["label"]) == {"\ud801", b"\xff"}
    assert np.all(answers.by_label()["sent"] == 1)
