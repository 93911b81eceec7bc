"""A function that returns a coroutine, which as a condition would be true, whatever it comes to."""

from __future__ import annotations

import pytest
from flask import Flask

from overlimit.flask import RateLimit, rate_limit

OPTIONS = ["exempt_when", "deduct_when", "on_breach", "scope", "cost", "identifiers", "key_func"]


async def later():
    return False


def returns_it(*_):
    return later()


@pytest.mark.parametrize("option", [*OPTIONS, "error_message"])
def test_it_exempts_nobody(option):
    app = Flask(__name__)
    RateLimit(app)
    app.get("/")(rate_limit("1/minute", **{option: returns_it})(lambda: "hello"))
    app.testing = True
    with pytest.raises(TypeError, match=r"returns_it\(\) returned a coroutine"):
        assert [app.test_client().get("/").status_code for _ in range(2)] != [200, 200]


def test_it_lets_no_request_pass_as_a_filter():
    app = Flask(__name__)
    RateLimit(app, default_limits="1/minute").request_filter(returns_it)
    app.get("/")(lambda: "hello")
    app.testing = True
    with pytest.raises(TypeError, match=r"returns_it\(\) returned a coroutine"):
        app.test_client().get("/")
