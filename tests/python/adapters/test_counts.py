"""Who and what is counted together, at what cost, and what is not counted, under every adapter."""

from __future__ import annotations

import logging

import pytest

from adapters import each
from adapters.site import Reply
from overlimit import FixedWindow, TokenBucket

TWO = {"/": lambda asked: "ok", "/b": lambda asked: "ok"}


def status_of(asked):
    return Reply(status=int(asked.header("X-Status") or "200"))


@each()
@pytest.mark.every_store
def test_limits_of_all_routes_count_them_together_and_global_ones_all_clients(serve):
    site = serve(TWO, together="3/minute", global_limits="5/minute")
    assert site.statuses("/", 2) + site.statuses("/b", 2) == [200, 200, 200, 429]
    assert site.statuses("/b", 3, peer="192.0.2.2") == [200, 200, 429]
    refusal = site.ask(peer="192.0.2.3")
    assert (refusal.status, refusal.left["global"]) == (429, 0)
    assert refusal.json["violated-policies"] == ["global"]


@each()
def test_what_one_limit_refuses_is_charged_to_no_other(serve, clock):
    site = serve(TWO, routes={"/b": "1/minute"}, global_limits="3/hour")
    assert site.statuses("/b", 5) == [200] + [429] * 4
    clock.advance(60)
    assert site.statuses("/b", 2) == [200, 429]
    assert site.statuses("/", 2) == [200, 429]


@each()
def test_the_limit_of_a_path_replaces_that_of_the_others(serve):
    site = serve(TWO, limits="1/minute", routes={"/b": "2/minute"})
    assert site.statuses("/b", 3) == [200, 200, 429]
    assert site.statuses("/", 2) == [200, 429]
    assert site.ask("/b").headers["RateLimit-Policy"] == '"b";q=2;w=60'


@each()
def test_another_prefix_is_another_count_and_the_same_store_the_same_one(serve):
    for prefix, statuses in (("a", [200, 429]), ("b", [200, 429]), ("a", [429, 429])):
        assert serve(together="1/minute", key_prefix=prefix).statuses(times=2) == statuses
    for _ in range(2):
        assert serve(together="1/minute", store="memory://").statuses(times=2) == [200, 429]


@each()
def test_a_cost_is_spent_at_once_or_not_at_all(serve):
    site = serve(limits="10/minute", cost=lambda asked: int(asked.header("X-Cost")))
    costs = [7, 7, 4, 3, 1, 0, 11]
    asked = [site.ask("/", ("X-Cost", str(cost))).status for cost in costs]
    assert asked == [200, 429, 429, 200, 429, 200, 429]
    assert serve(limits="5/minute", cost=2, key_prefix="b").statuses(times=3) == [200, 200, 429]


@each()
def test_the_time_to_come_again_is_enough_for_the_cost_and_not_a_second_more(serve, at):
    site = serve(limits=TokenBucket(1, per=1, burst=10), cost=lambda asked: int(asked.header("X-Cost")))
    assert site.ask("/", ("X-Cost", "10")).status == 200
    assert site.ask("/", ("X-Cost", "7")).headers["Retry-After"] == "7"
    at(6.999999)
    assert site.ask("/", ("X-Cost", "7")).status == 429
    at(7)
    assert site.ask("/", ("X-Cost", "7")).status == 200


@each()
@pytest.mark.parametrize("cost", [-1, 1.5, "2", None], ids=repr)
def test_a_bad_cost_fails_the_request_and_charges_nothing(serve, cost):
    costs = [cost]
    site = serve(limits="2/minute", global_limits="9/minute", cost=lambda asked: costs[0])
    assert site.statuses(times=2) == [500, 500]
    costs[0] = 1
    assert site.statuses(times=3) == [200, 200, 429]


@each()
@pytest.mark.every_store
def test_what_does_not_count_is_given_back_once_the_response_is_known(serve, clock):
    site = serve(
        status_of, limits="2/minute", deduct_when=lambda response, asked: response.status_code == 401
    )
    ann = {"user": "ann"}
    assert site.statuses(times=5, **ann) == [200] * 5, "to the address, and to the user"
    assert site.statuses("/", 3, ("X-Status", "401"), **ann) == [401, 401, 429]
    assert site.statuses(times=2) + site.statuses(peer="192.0.2.2", **ann) == [429] * 3
    clock.advance(60)
    assert site.statuses(times=3, **ann) == [200] * 3


@each()
def test_only_limits_with_the_condition_get_it_back_and_a_refusal_is_not_asked_about(serve):
    asked_about = []

    def counts(response, asked):
        asked_about.append(response.status_code)
        return False

    site = serve(status_of, limits="2/minute", deduct_when=counts, together="3/hour")
    assert site.statuses(times=4) == [200, 200, 200, 429]
    assert asked_about == [200] * 3


@each()
def test_a_view_that_fails_is_a_500_with_the_fields_and_counts_as_one(serve):
    def fails(asked):
        raise LookupError("the view failed")

    told = []
    site = serve(fails, limits="1/minute", deduct_when=lambda response, _: told.append(response.status_code))
    assert site.statuses(times=3) == [500] * 3
    assert told == [500] * 3
    counted = serve(fails, limits="1/minute", key_prefix="b")
    assert counted.statuses(times=2) == [500, 429]


@each()
def test_a_condition_that_fails_is_a_failure_of_the_app_and_keeps_the_charge(serve):
    site = serve(limits="1/minute", deduct_when=lambda response, asked: 1 // 0)
    assert site.statuses(times=2) == [500, 429]


@each()
def test_what_is_exempt_is_not_counted_and_has_no_fields(serve):
    site = serve(TWO, limits="1/minute", exempt=["/b"])
    answers = [site.ask("/b") for _ in range(4)]
    assert [(answer.status, answer.ours) for answer in answers] == [(200, [])] * 4
    assert site.statuses(times=2) == [200, 429]


@each()
def test_a_function_says_who_is_exempt(serve):
    site = serve(limits="1/minute", exempt=lambda asked: asked.header("X-Vip") == "yes")
    assert site.statuses("/", 3, ("X-Vip", "yes")) == [200] * 3
    assert site.statuses("/", 3, ("X-Vip", "no")) == [200, 429, 429]
    assert site.ask("/", ("X-Vip", "yes")).ours == []


@each()
def test_in_shadow_all_is_counted_nothing_shown_and_nobody_refused(serve, caplog, adapter):
    caplog.set_level(logging.INFO, logger="overlimit")
    site = serve(limits="2/minute", shadow=True, headers="both", on_breach=lambda *_: 1 // 0)
    answers = [site.ask() for _ in range(4)]
    assert [(answer.status, answer.ours) for answer in answers] == [(200, [])] * 4
    told = [record for record in caplog.records if record.name == "overlimit"]
    assert [record.levelno for record in told] == [logging.WARNING, logging.INFO]
    assert all("would have refused 'ip:192.0.2.1' at " in record.getMessage() for record in told)
    real = serve(limits="3/minute") if adapter.one_limit == "application" else None
    assert real is None or real.statuses(times=2) == [200, 429]


@each()
def test_what_is_switched_off_limits_nothing(serve):
    site = serve(limits="1/minute", together="1/minute", enabled=False)
    answers = [site.ask() for _ in range(3)]
    assert [(answer.status, answer.ours) for answer in answers] == [(200, [])] * 3


@each()
@pytest.mark.parametrize("of", ["limits", "routes"])
def test_functions_name_the_limits_of_each_request(serve, of):
    def named(asked):
        return asked.header("X-Limits") or ""

    site = serve(**{of: named if of == "limits" else {"/": named}})
    unlimited = site.ask()
    assert (unlimited.status, unlimited.ours) == (200, [])
    sent = ["1/minute", "3/minute", "3/minute", "1/minute", "9/hour"]
    answers = [site.ask("/", ("X-Limits", each)) for each in sent]
    assert [answer.status for answer in answers] == [200, 200, 200, 429, 200]
    shown = [answer.headers["RateLimit-Policy"].split(";")[1] for answer in answers]
    assert shown == ["q=1", "q=3", "q=3", "q=1", "q=9"]


@each()
@pytest.mark.parametrize(
    "value",
    [FixedWindow(2, per=60), ["2/minute", "9/hour"], "2/minute; 9/hour"],
    ids=["limit", "list", "text"],
)
def test_a_function_names_limits_as_they_can_be_written_and_its_cost_is_asked_for_once(serve, value):
    costs = []
    site = serve(limits=lambda asked: value, cost=lambda asked: costs.append(1) or 1)
    assert site.statuses(times=3) == [200, 200, 429]
    assert len(costs) == 3 or isinstance(value, list), "of a list each is a limit of its own"


@each()
@pytest.mark.parametrize("on_error", ["allow", "raise"])
@pytest.mark.parametrize("nothing", [[], "often", 5], ids=repr)
def test_a_function_that_names_no_limit_fails_the_request(serve, nothing, on_error):
    returned = [nothing]
    site = serve(limits=lambda asked: returned[0], global_limits="2/minute", on_error=on_error)
    assert site.statuses(times=3) == [500] * 3
    returned[0] = ""
    assert site.statuses(times=3) == [200, 200, 429]


@each("meta")
@pytest.mark.every_store
def test_refusals_use_up_a_meta_limit_and_then_nothing_passes(serve, at):
    site = serve(TWO, limits="2/second", meta_limits=["2/minute", "3/hour"])
    for second in (0, 1):
        at(second)
        assert site.statuses(times=3) == [200, 200, 429]
    at(2)
    assert site.statuses() + site.statuses("/b") == [429, 429]
    assert site.ask().headers["Retry-After"] == "58"
    assert site.ask().left == {"default": 2}, "a meta limit is not shown"
    at(59.999999)
    assert site.statuses() == [429]
    at(60)
    assert site.statuses(times=3) == [200, 200, 429]
    at(3599.999999)
    assert site.statuses() == [429], "the other meta limit"
    at(3600)
    assert site.statuses(times=3) == [200, 200, 429]
