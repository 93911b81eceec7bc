"""Limits of all clients of an app together: docs/reference/web.md, "Which limits hold"."""

from __future__ import annotations

import json

import pytest

from overlimit.flask import ExemptionScope, rate_limit


@pytest.mark.parametrize("how", ["exempt", "filter", "shadow", "exempt_when", "disabled"])
def test_it_does_not_hold_where_application_limits_do_not(make_site, how):
    options = {"exempt_when": {"global_limits_exempt_when": lambda: True}, "shadow": {"shadow": True}}
    site = make_site(global_limits="1/minute", **options.get(how, {}))
    if how == "exempt":
        site.limiter.exempt(site.app.view_functions["free"], flags=ExemptionScope.APPLICATION)
    elif how == "filter":
        site.limiter.request_filter(lambda: True)
    elif how == "disabled":
        site.limiter.enabled = False
    assert site.ask("/free", 3) == [200] * 3


def test_costs_methods_and_deductions_are_those_of_application_limits(make_site):
    site = make_site(global_limits="5/minute", global_limits_cost=lambda: 2, global_limits_per_method=True)
    site.app.post("/free", endpoint="posted")(lambda: "ok")
    assert site.ask("/free", 3) == [200, 200, 429]
    assert site.ask("/free", 1, method="POST") == [200]
    counted = make_site(global_limits="1/minute", global_limits_deduct_when=lambda response: False)
    assert counted.ask("/free", 4) == [200] * 4


def test_it_holds_on_routes_with_a_decorator_and_without_a_client(make_site):
    site = make_site(global_limits="2/minute", anonymous="exempt", identifiers=lambda: None)
    site.app.get("/")(rate_limit("9/minute")(lambda: "ok"))
    assert site.ask("/", 3) == [200, 200, 429]


def test_commands_list_check_and_reset_it(make_site):
    site = make_site(global_limits="1/minute", default_limits="9/minute")
    assert site.ask("/free", 2) == [200, 429]
    run = site.app.test_cli_runner().invoke
    listed = json.loads(run(args=["limits", "list", "--json"]).stdout)
    assert {limit["kind"]: limit["identifiers"] for limit in listed[0]["limits"]}["global"] == "everybody"
    checked = json.loads(run(args=["limits", "check", "all", "--json"]).stdout)
    assert [(each["name"], each["remaining"]) for each in checked] == [("global", 0)]
    site.limiter.reset("all")
    assert site.ask("/free", 2) == [200, 429]
