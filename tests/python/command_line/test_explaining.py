"""``overlimit explain``: the URN of a refusal, and what the store keeps of its policy."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from overlimit import FixedWindow, Limiter, ManualClock, RedisStore, TokenBucket
from overlimit.command_line.program import program
from overlimit.decision_urns import read_urn, urn_of

START = 1_795_884_757


def refused(limits="5/minute", name="login", **options):
    limiter = Limiter(limits, name=name, clock=ManualClock(START), algorithm="fixed_window", **options)
    while decision := limiter.hit("user:ann"):
        pass
    return decision


def explain(*words):
    done = CliRunner().invoke(program, ["explain", *words])
    return done.exit_code, done.output


@given(
    quota=st.integers(1, 10**9) | st.integers(10**9, 2**53 - 1),
    per=st.integers(1, 10**8)
    | st.integers(1, 999).map(lambda millis: millis / 1000)
    | st.floats(1e-6, 10**8),
    name=st.text(max_size=80),
    cost=st.floats(0, 1),
)
def test_a_urn_says_the_same_whatever_the_limit_is_and_is_short_for_usual_ones(quota, per, name, cost):
    limit = FixedWindow(quota, per=per)
    limiter = Limiter(limit, name="p", clock=ManualClock(START))
    limiter.hit("ann", cost=max(1, int(quota * cost)))
    decision = limiter.hit("ann", cost=quota)
    if decision:
        return
    urn = urn_of(decision, name)
    is_usual = quota < 10**9 and (per < 1 or isinstance(per, int)) and round(per * 1e6) % 1000 == 0
    assert len(urn) < (60 if is_usual else 80)
    assert urn.isascii()
    read = read_urn(urn.upper())
    assert (read.quota, read.window, read.remaining) == (quota, limit.window, decision.remaining)
    assert 0 <= round((read.retry_after - decision.retry_after) * 1e6) < 10**6
    assert (read.time, read.status, read.source) == (START, "over", "store")


@pytest.mark.parametrize(
    ("limit", "span"),
    [
        (FixedWindow(10, per=0.1), "10 in 0.1 s"),
        (FixedWindow(10, per=0.000_25), "10 in 0.00025 s"),
        (FixedWindow(2**53 - 1, per=86_400), "9,007,199,254,740,991 in 86,400 s"),
        (TokenBucket(10**12, per=1.5), "1,000,000,000,000 in 1.5 s"),
    ],
    ids=range(4),
)
def test_periods_below_a_second_and_large_quotas_are_told_exactly(limit, span):
    limiter = Limiter(limit, clock=ManualClock(START))
    limiter.hit("ann", cost=limit.quota)
    decision = limiter.hit("ann", cost=limit.quota)
    refusal = read_urn(urn_of(decision, "burst"))
    assert f"of {span} refused" in refusal.sentence
    assert decision.retry_after <= refusal.retry_after <= max(limit.window, decision.retry_after + 0.001)


def test_it_is_a_sentence():
    status, told = explain(urn_of(refused(), "login"))
    assert status == 0
    assert told.startswith(
        "At 2026-11-28 16:52:37 UTC the limit 'login' of 5 in 60 s refused a request (status 'over', "
        "source 'store'): 0 were left, and the same request passes after 60 s."
    )
    status, told = explain(urn_of(refused("0/minute"), "").upper())
    assert "a limit of 0 in 60 s refused a request (status 'never', " in told
    assert "0 were left, and the same request never passes." in told


@pytest.mark.parametrize(
    "wrong",
    ["", "login", "urn:overlimit:1:k3f9a", "urn:overlimit:2:k3f9a:5-1q:thfk3w:0:1p00", "urn:isbn:0:1"],
)
def test_what_is_none_is_an_error(wrong):
    status, told = explain(wrong)
    assert status == 2
    assert "this is no URN of a refusal" in told


def test_with_a_store_it_says_what_is_kept_now(redis_server, prefix):
    store = RedisStore(redis_server.unix_url(), prefix=prefix)
    limiter = Limiter("5/minute", name="login", store=store)
    for identifier in ("ann", "bob"):
        while decision := limiter.hit(identifier):
            pass
    limiter.lock("ann", 60)
    Limiter("5/minute", name="other", store=store).hit("ann")
    urn = urn_of(decision, "login")
    url = redis_server.unix_url() + f"&prefix={prefix}"
    status, told = explain(urn, "--store", url)
    assert status == 0
    assert told.splitlines()[1] == "The store keeps 2 identifiers of the policy login now, 1 of them locked."
    status, told = explain(urn, "--store", url, "--json")
    read = json.loads(told)
    assert (read["kept"], read["locked"], read["status"]) == ({"login": 2}, {"login": 1}, "over")
    limiter.reset_all()
    assert "keeps nothing of this policy now" in explain(urn, "--store", url)[1]
