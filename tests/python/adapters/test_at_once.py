"""Many requests at once, how often they ask the store, and what they leave behind, under every adapter."""

from __future__ import annotations

import gc
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from adapters import each
from adapters.site import Limited, request
from overlimit.http.deciding.ledger import RequestLedger
from overlimit.wsgi import by_header
from servers.patience import PATIENCE


@each()
@pytest.mark.every_store
def test_of_many_at_once_exactly_as_many_pass_as_each_limit_says(serve):
    site = serve(limits="10/hour", identifiers=by_header("X-Key"), global_limits="18/hour")
    requests = [request("/", ("X-Key", key)) for key in "aaab" * 15]
    site.ask("/", ("X-Key", "a"))
    if site.send_all is not None:
        answers = site.send_all(requests)
    else:
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(site.send, requests))
    asked = zip(requests, answers, strict=True)
    passed = Counter(sent.fields[0][1] for sent, answer in asked if answer.status == 200)
    assert passed.total() == 17
    assert 7 <= passed["a"] <= 9
    assert 8 <= passed["b"] <= 10
    assert {answer.status for answer in answers} == {200, 429}


def scripts_run(server, action):
    before = server.scripts_run()
    action()
    return server.scripts_run() - before


@each()
@pytest.mark.parametrize("store", ["redis"], indirect=True)
def test_all_limits_of_a_request_are_one_call_and_all_it_gets_back_one_more(serve, redis_server):
    site = serve(limits=["90/minute; 900/hour", "800/day"], global_limits="99/minute")
    assert site.statuses() == [200]
    assert scripts_run(redis_server, lambda: site.statuses(times=5)) == 5
    refunded = serve(limits="2/minute; 9/hour", deduct_when=lambda response, asked: False, key_prefix="b")
    assert refunded.statuses() == [200]
    assert scripts_run(redis_server, lambda: refunded.statuses(times=5)) == 10
    free = serve(limits="1/minute", exempt=["/"], key_prefix="c")
    assert scripts_run(redis_server, lambda: free.statuses(times=5)) == 0
    assert scripts_run(redis_server, lambda: site.statuses(times=5, method="OPTIONS")) == 0


@each("decorators")
@pytest.mark.parametrize("store", ["redis"], indirect=True)
def test_decorators_of_all_kinds_are_one_call_with_all_that_holds_besides(serve, redis_server):
    limits = [
        Limited("1/second", shadow=True),
        Limited(lambda asked: "200/minute", cost=2, scope=lambda view, asked: "s"),
        Limited("300/minute", shared="all", override_defaults=False),
    ]
    site = serve(routes={"/": limits}, limits="500/minute", together="900/minute", global_limits="999/minute")
    assert site.statuses() == [200]
    assert scripts_run(redis_server, lambda: site.statuses(times=5)) == 5


@each("meta")
@pytest.mark.parametrize("store", ["redis"], indirect=True)
def test_a_refusal_is_one_call_with_its_meta_limits(serve, redis_server):
    site = serve(limits="2/hour", meta_limits=["900/hour", "800/day"])
    assert site.statuses(times=3) == [200, 200, 429]
    assert scripts_run(redis_server, lambda: site.statuses(times=5)) == 5


@each()
def test_requests_are_decided_by_leases_for_the_options_of_a_url_alone(serve, redis_server, prefix):
    url = f"{redis_server.unix_url()}&timeout={PATIENCE}&prefix={prefix}&lease=10&max_stale=1"
    site = serve(limits="1000/hour", store=url, clock=None, algorithm=None)
    asked = scripts_run(redis_server, lambda: site.statuses(times=100))
    assert 0 < asked <= 25
    assert site.ask().headers["RateLimit"].partition("r=")[2].startswith("899;")


@each()
def test_a_request_leaves_nothing_to_the_garbage_collector(serve):
    site = serve(limits="99/minute", cost=1)
    site.statuses(times=3)
    gc.collect()
    gc.disable()
    try:
        before = sum(type(each) is RequestLedger for each in gc.get_objects())
        site.statuses(times=20)
        after = sum(type(each) is RequestLedger for each in gc.get_objects())
    finally:
        gc.enable()
    assert after - before <= 1
