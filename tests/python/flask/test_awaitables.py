"""Functions that return a coroutine or a generator, always true, or an object without a text."""

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


@pytest.mark.parametrize("returns", [returns_it, lambda: (each for each in ())])
def test_it_lets_no_request_pass_as_a_filter(returns):
    app = Flask(__name__)
    RateLimit(app, default_limits="1/minute").request_filter(returns)
    app.get("/")(lambda: "hello")
    app.testing = True
    with pytest.raises(TypeError, match=r"\(\) returned a (coroutine|generator, which is always true)"):
        app.test_client().get("/")


class Tenant:
    """A model, loaded anew for each request."""


@pytest.mark.parametrize(
    ("option", "returned"),
    [
        ("exempt_when", lambda: (each for each in ())),
        ("deduct_when", lambda: (each for each in ())),
        ("scope", Tenant),
        ("scope", lambda: ("blue", [Tenant()])),
        ("key_func", lambda: {"tenant": Tenant()}),
    ],
)
def test_what_is_true_or_new_in_each_request_leaves_no_view_unlimited(option, returned):
    app = Flask(__name__)
    RateLimit(app)
    app.get("/")(rate_limit("1/minute", **{option: lambda *_: returned()})(lambda: "hello"))
    client = app.test_client()
    first, *more = [client.get("/").status_code for _ in range(3)]
    assert (first, 200 in more) == (500, False)
