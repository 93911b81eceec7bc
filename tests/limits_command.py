"""``flask limits`` as tests run it, on an app that has just started."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from overlimit.flask.commands import limits

IMPORTS = """
import os
from flask import Blueprint, Flask, current_app, request
from overlimit.flask import ExemptionScope, RateLimit, rate_limit
"""

SHOP = f"""{IMPORTS}
app = Flask("shop", static_folder="static")
limiter = RateLimit(app, store=os.environ.get("STORE"), key_prefix="shop", application_limits="50/hour",
                    meta_limits="5/day", algorithm="fixed_window")


def plan():
    return "4/minute"


def asked():
    return request.args["limit"]


@app.route("/orders", methods=["GET", "POST"])
@app.get("/all-orders")
@limiter.limit("3/hour; 9/day", cost=2, name="orders")
@limiter.limit("8/minute", methods=["POST"], exempt_when=lambda: False)
def orders():
    return "ok"


@app.get("/dynamic")
@limiter.limit(plan)
@limiter.limit(asked, name="asked")
@limiter.limit("7/day", scope=lambda endpoint: request.path, name="divided")
def dynamic():
    return "ok"


@app.get("/shared")
@limiter.exempt(flags=ExemptionScope.APPLICATION | ExemptionScope.META)
@limiter.shared_limit(plan, "both", shadow=True)
def shared():
    return "ok"
"""


class Done(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def run(monkeypatch) -> Callable[..., Done]:
    """Return a function that runs ``flask limits`` on an app that has just started, or visits it."""

    def execute(source: str, *arguments: str, visits: int = 0, STORE: str = "memory://", **sent: Any) -> Done:
        monkeypatch.setenv("STORE", STORE)
        exec(source, module := {"__name__": "shop"})
        sent = {"method": "POST", **sent} if sent else {}
        if visits:
            client = module["app"].test_client(use_cookies=False)
            return Done(0, str([client.open(*arguments, **sent).status_code for _ in range(visits)]), "")
        done = module["app"].test_cli_runner().invoke(limits, arguments)
        return Done(done.exit_code, done.stdout, done.stderr)

    return execute


def limits_of(done: Done, endpoint: str, rule: str, method: str) -> list[dict[str, Any]]:
    (entry,) = (
        each
        for each in done.json
        if (each["endpoint"], each["rule"]) == (endpoint, rule) and method in each["methods"]
    )
    return entry["limits"]
