"""Traffic that is made up has the rates that were asked for, and is the same each time."""

from __future__ import annotations

import math

import numpy as np
import pytest

from overlimit.simulation import Events, traffic

KINDS = [traffic.poisson, traffic.bursty, traffic.diurnal, traffic.scanner]


@pytest.mark.parametrize("make", KINDS)
def test_every_kind_keeps_its_promises(make):
    events = make(5, 86_400, 7, start=1000, label="who", seed=3)
    assert isinstance(events, Events)
    assert 0.95 < len(events) / (5 * 86_400) < 1.05
    assert 1000 <= events[0].time <= events[-1].time < 1000 + 86_400
    assert set(events.identifiers) == {f"who-{k}" for k in range(7)}
    assert set(events.labels) == {"who"}
    assert set(events.costs) == {1}
    shares = np.bincount(events._columns[0].codes) / len(events)
    assert 0.12 < shares.min() <= shares.max() < 0.17
    again, other = make(5, 86_400, 7, start=1000, label="who", seed=3), make(5, 86_400, 7, start=1000, seed=4)
    assert again.times.tolist() == events.times.tolist()
    assert again.identifiers.tolist() == events.identifiers.tolist()
    assert other.times.tolist() != events.times.tolist()


def gaps(events):
    return np.diff(events.times) / 1e6


def test_events_of_a_poisson_process_know_nothing_of_each_other():
    apart = gaps(traffic.poisson(10, 10_000))
    assert 0.95 < apart.std() / apart.mean() < 1.05
    assert 0.60 < (apart < 0.1).mean() < 0.66  # 1 - 1/e


def test_bursts_are_of_one_identifier():
    events = traffic.bursty(1, 20_000, 50, burst=20)
    counts = np.bincount(events.times // 1_000_000 - events.times[0] // 1_000_000, minlength=20_000)
    assert 0.8 < (counts == 0).mean() < 0.97
    codes = events._columns[0].codes
    assert (codes[1:] == codes[:-1]).mean() > 0.85
    assert 0.8 < gaps(traffic.bursty(1, 20_000, 50, burst=1)).mean() < 1.2


def test_the_day_has_a_busy_and_a_quiet_half():
    events = traffic.diurnal(2, 2 * 86_400, swing=0.8, peak=14)
    hours = np.bincount(events.times // 3_600_000_000 % 24, minlength=24) / (2 * 3600 * 2)
    assert 1.7 < hours[13:15].mean() < 1.9
    assert 0.1 < hours[1:3].mean() < 0.3
    later = traffic.diurnal(2, 86_400, start="2026-01-01T12:00")
    assert 0.9 < len(later) / (2 * 86_400) < 1.1


def test_a_scanner_is_steady():
    events = traffic.scanner(10, 100)
    assert len(events) == 1000
    assert 0.09 < gaps(events).min() <= gaps(events).max() < 0.11
    assert traffic.scanner(10, 1, ["a", "b"]).identifiers.tolist() == ["a", "b"] * 5


def test_a_mix_keeps_labels():
    people, scanner = traffic.poisson(1, 100, label="people"), traffic.scanner(5, 100)
    events = traffic.mix(people, scanner)
    assert len(events) == len(people) + 500
    assert (events.labels == "scanner").sum() == 500
    assert all(each.startswith(label) for each, label in zip(events.identifiers, events.labels, strict=True))
    assert sorted(events.times) == events.times.tolist()
    plain = Events([events[0].time], ["b"])
    assert traffic.mix(plain, scanner).labels.tolist().count(None) == 1


@pytest.mark.parametrize("make", KINDS)
def test_nothing_and_mistakes(make):
    assert len(make(0, 10)) == len(make(10, 0)) == 0
    for rate, duration in ((-1, 1), (1, math.inf), (math.nan, 1)):
        with pytest.raises(ValueError, match=r"(rate|duration) must be a number from 0"):
            make(rate, duration)
    with pytest.raises(TypeError, match="rate must be a number"):
        make("1", 1)
    for identifiers in (0, [], ["a", "a"], [""]):
        with pytest.raises(ValueError, match="a number from 1 or different names"):
            make(1, 1, identifiers)
    with pytest.raises(TypeError, match="a list of names"):
        make(1, 1, "abc")
    with pytest.raises(ValueError, match="year 2219"):
        make(1, 1e6, start=7_881_000_000)


def test_other_mistakes():
    with pytest.raises(ValueError, match="swing must be"):
        traffic.diurnal(1, 1, swing=1.5)
    with pytest.raises(ValueError, match="burst must be"):
        traffic.bursty(1, 1, burst=0)
