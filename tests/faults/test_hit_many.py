"""Many calls at once while a store fails: what was answered counts, and what was not is told apart."""

from __future__ import annotations

import math
import time

import pytest

from overlimit import Limiter, RedisStore, StoreError, StoreTimeout, StoreUnavailable

NOWHERE = "unix:///nowhere/redis.sock"
UNKNOWN = 4
ROWS = [f"user:{k}" for k in range(500)]


def limiter_on(url, on_error, timeout=5.0, **options):
    return Limiter(
        "3/minute", name="many", store=RedisStore(url, timeout=timeout), on_error=on_error, **options
    )


class TestRepliesThatAreCutOff:
    @pytest.fixture(params=["raise", "allow", "deny", "local"])
    def decided(self, request, proxy):
        told = []
        limiter = limiter_on(proxy.url, request.param, on_decision=told.append)
        limiter.hit("warm")
        told.clear()
        proxy.cut_replies_after(2000)
        decided = limiter.hit_many(ROWS)
        assert told == [each for each in decided if each is not None]
        return request.param, decided

    def test_leave_the_first_rows_decided_and_the_others_follow_on_error(self, decided):
        on_error, decided = decided
        known = (decided.status != UNKNOWN).sum()
        assert 0 < known < len(ROWS)
        assert (decided.status[:known] == 0).all()
        assert (decided.status[known:] == UNKNOWN).all()
        assert decided.allowed[:known].all()
        assert (decided.allowed[known:] == (on_error in {"allow", "local"})).all()
        assert [each.source for each in decided if each is not None][:known] == ["store"] * known
        rest = decided[len(ROWS) - 1]
        last = {
            name: getattr(decided, name)[-1] for name in ("remaining", "retry_after", "limit", "identifier")
        }
        if on_error == "raise":
            assert rest is None
            assert math.isnan(last.pop("retry_after"))
            assert last == {"remaining": 0, "limit": -1, "identifier": -1}
        elif on_error == "local":
            assert (rest.source, rest.remaining) == ("local", 2)
            assert last == {"remaining": 2, "retry_after": 0.0, "limit": 0, "identifier": 0}
        else:
            assert (rest.source, rest.limit, rest.details) == ("error", None, ())
            assert last.pop("retry_after") == rest.retry_after
            assert (rest.retry_after > 0) == (on_error == "deny")
            assert last == {"remaining": 0, "limit": -1, "identifier": -1}
        assert f"{len(ROWS) - known} unknown" in repr(decided)


def test_what_was_answered_was_charged_and_what_was_not_may_have_been(proxy):
    limiter = limiter_on(proxy.url, "raise")
    limiter.hit("warm")
    proxy.cut_replies_after(2000)
    decided = limiter.hit_many(ROWS)
    proxy.restore()
    after = 5.0 + time.monotonic()
    while True:
        try:
            left = limiter.peek_many(ROWS, 0)
            break
        except StoreError:
            assert time.monotonic() < after
    known = int((decided.status != UNKNOWN).sum())
    assert (left.remaining[:known] == 2).all()
    charged = int((left.remaining == 2).sum())
    assert known <= charged <= known + 64, "so many calls at most were under way"


def test_when_nothing_at_all_is_decided_it_raises():
    with pytest.raises(StoreUnavailable):
        limiter_on(NOWHERE, "raise").hit_many(ROWS)
    denied = limiter_on(NOWHERE, "deny").hit_many(ROWS)
    assert (denied.status == UNKNOWN).all()
    assert denied.refused == len(ROWS)
    local = limiter_on(NOWHERE, "local").hit_many(["a"] * 5)
    assert local.allowed.tolist() == [True] * 3 + [False] * 2


def test_a_timeout_of_its_own_is_that_of_a_thousand_rows(proxy):
    limiter = limiter_on(proxy.url, "raise", timeout=60)
    limiter.hit("warm")
    proxy.hold_replies()
    before = time.monotonic()
    with pytest.raises(StoreTimeout, match=r"\(timeout=0\.2\)"):
        limiter.hit_many(ROWS, timeout=0.2)
    assert time.monotonic() - before < 2.0


@pytest.mark.parametrize("many", ["hit_many", "peek_many"])
@pytest.mark.parametrize("rows", [["a"], ["a", "b"]], ids=len)
def test_the_timeout_of_the_store_is_named_as_by_hit(proxy, many, rows):
    limiter = limiter_on(proxy.url, "raise", timeout=1)
    limiter.hit("warm")
    proxy.hold_replies()
    with pytest.raises(StoreTimeout, match=r"\(timeout=1\)"):
        getattr(limiter, many)(rows)


@pytest.mark.parametrize(
    ("known", "rows", "costs", "admitted"),
    [
        ("a", [("a", "b"), "a", "a"], [2, 1, 1], [True, True, False]),
        (("a", "b"), ["a", ("a", "b")], [2, 2], [True, False]),
        ("a", ["a", "a", ("a", "b"), "a"], [1, 0, 2, 1], [True, True, True, False]),
    ],
    ids=["several", "one", "questions"],
)
def test_a_server_that_has_some_of_the_scripts_decides_in_the_order_given(
    redis_server, prefix, known, rows, costs, admitted
):
    limiter = Limiter(
        "3/minute", name="many", store=RedisStore(redis_server.unix_url(), timeout=20, prefix=prefix)
    )
    redis_server.ask("SCRIPT", "FLUSH")
    limiter.hit(*([known] if isinstance(known, str) else known))
    limiter.reset("a", "b")
    assert limiter.hit_many(rows, costs).allowed.tolist() == admitted
