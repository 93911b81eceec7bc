"""What a ledger says of a request that was decided, to whoever sends text and to whoever sends bytes."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from overlimit import ManualClock, MemoryStore
from overlimit.http.asgi.requests import AsgiRequest
from overlimit.http.deciding.ledger import RequestLedger
from overlimit.http.deciding.steps import run, run_async
from overlimit.http.middleware import LimitsByPath
from overlimit.waiting import wait_queues
from servers.patience import PATIENCE, eventually

FIELDS = {
    "draft": {"ratelimit-policy", "ratelimit"},
    "legacy": {"x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"},
}
FIELDS |= {"both": FIELDS["draft"] | FIELDS["legacy"], None: set()}


def ledger_of(headers, **options):
    limits = LimitsByPath(
        "2/minute; 9/hour", None, None, headers=headers, store=MemoryStore(), clock=ManualClock(), **options
    )
    request = AsgiRequest({"type": "http", "path": "/", "headers": [], "client": ("203.0.113.7", 5000)})
    return RequestLedger(request, limits.plan_of("GET", "/"))


@pytest.mark.parametrize("headers", FIELDS)
@pytest.mark.parametrize("shadow", [False, True])
def test_the_fields_are_the_same_as_texts_and_in_bytes(headers, shadow):
    ledger = ledger_of(headers, shadow=shadow)
    assert ledger.fields() == []
    assert ledger.raw_fields() == ()
    ledger.decide()
    fields = ledger.fields()
    assert {name.lower() for name, _ in fields} == (set() if shadow else FIELDS[headers])
    assert ledger.raw_fields() == tuple((name.lower().encode(), value.encode()) for name, value in fields)


def test_what_a_store_answers_at_once_is_not_awaited():
    ledger = ledger_of("draft")
    assert ledger.latest is None
    assert ledger.decide_later() is None
    assert ledger.latest.remaining == 1


def test_an_answer_like_one_that_was_refunded_is_shown():
    ledger = ledger_of("draft", cost=0)
    for _ in range(2):
        ledger.decide(ledger.plan.stores)
    refunded, shown = ledger.answers
    ledger.rolled_back = (refunded,)
    assert refunded.decision == shown.decision
    assert refunded != shown
    assert dict(ledger.fields())["RateLimit"].count("r=") == 2


@pytest.mark.parametrize("make", [run, lambda steps: asyncio.run(run_async(steps))], ids=["now", "later"])
@pytest.mark.parametrize("give_back", [RequestLedger.refunding, lambda ledger: ledger.refunding_uncounted(0)])
def test_what_is_given_back_wakes_who_waits_for_it(give_back, make):
    ledger = ledger_of("draft", cost=2, deduct_when=lambda response, scope: False)
    ledger.decide()
    (rule,) = ledger.answers[0].call.rules
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(rule.limiter.acquire, *ledger.identifiers[rule.identify], timeout=None)
        eventually(lambda: wait_queues().by_family)
        make(give_back(ledger))
        try:
            assert waiting.result(PATIENCE).remaining == 1
        finally:
            rule.limiter.reset_all()  # which wakes it in any case


@pytest.mark.parametrize("cost", [1, 3])
def test_what_waits_is_decided_once_it_is_awaited(cost):
    async def price(scope):
        await asyncio.sleep(0)
        return cost

    limits = LimitsByPath(
        "2/minute", None, None, {}, lambda scope: scope["kept"], store=MemoryStore(), cost=price
    )
    scope = {"type": "http", "path": "/", "headers": [], "client": ("203.0.113.7", 5000), "kept": {}}

    async def main():
        ledger = RequestLedger(AsgiRequest(scope), limits.plan_of("GET", "/"))
        later = ledger.decide_later()
        assert ledger.latest is None
        await later
        return ledger

    ledger = asyncio.run(main())
    assert ledger.latest.allowed is (cost <= 2)
    assert (ledger.refusal is None) is ledger.latest.allowed
