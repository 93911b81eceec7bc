"""Who is limited."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from flask import Flask, g, request

from overlimit.flask import get_address, get_identifiers


@pytest.fixture
def visit():
    """Return a function that asks for the identifiers of a request by ``g.user``."""
    app = Flask("identifiers")

    def ask(user=None, **environment):
        with app.test_request_context("/", environ_overrides={"REMOTE_ADDR": "192.0.2.7", **environment}):
            g.user = user
            return get_identifiers()

    return ask


def test_the_address_comes_first(visit):
    assert visit() == ["ip:192.0.2.7"]
    assert visit(REMOTE_ADDR="2001:db8::1") == ["ip:2001:db8::/64"]


def test_a_request_without_an_address_still_has_an_identity(visit):
    assert visit(REMOTE_ADDR="") == ["ip:unknown"]


@pytest.mark.parametrize(
    ("user", "identifier"),
    [
        ("ann", "user:ann"),
        (7, "user:7"),
        (0, "user:0"),
        (SimpleNamespace(id=5), "user:5"),
        (SimpleNamespace(id=5, is_authenticated=True), "user:5"),
        (SimpleNamespace(id=5, is_authenticated=lambda: True), "user:5"),
        (SimpleNamespace(id=5, get_id=lambda: "five"), "user:five"),
    ],
)
def test_a_user_is_limited_beside_the_address(visit, user, identifier):
    assert visit(user) == ["ip:192.0.2.7", identifier]


@pytest.mark.parametrize(
    "user",
    [
        None,
        "",
        False,
        True,
        SimpleNamespace(id=5, is_authenticated=False),
        SimpleNamespace(id=5, is_authenticated=lambda: False),
        SimpleNamespace(id=None),
        SimpleNamespace(get_id=lambda: None),
        SimpleNamespace(),
    ],
)
def test_nobody_logged_in_leaves_the_address(visit, user):
    assert visit(user) == ["ip:192.0.2.7"]


def test_a_user_of_flask_login_is_known(monkeypatch):
    user = SimpleNamespace(is_authenticated=True, get_id=lambda: "9")
    monkeypatch.setitem(sys.modules, "flask_login", SimpleNamespace(current_user=user))
    app = Flask("login")
    with app.test_request_context("/"):
        assert get_identifiers() == ["ip:unknown"]
    app.login_manager = object()
    with app.test_request_context("/"):
        assert get_identifiers() == ["ip:unknown", "user:9"]
        g.user = "ann"
        assert get_identifiers() == ["ip:unknown", "user:ann"]


def policies(number):
    """Return limits that count each as one policy."""
    return [lambda: "1/minute" for _ in range(number)]


def test_sixteen_identifiers_under_four_policies_are_one_call(make_site):
    who = [f"user:{number}" for number in range(16)]
    site = make_site(default_limits=policies(4), identifiers=lambda: who)
    assert site.ask("/free", 2) == [200, 429]


@pytest.mark.parametrize("on_error", ["allow", "deny", "raise"])
@pytest.mark.parametrize(
    ("identifiers", "limits", "message"),
    [
        (17, policies(1), "<lambda>() returned 17 identifiers, where at most 16 are allowed"),
        (16, policies(5), "at most 64 charges"),
        (2, policies(33), "at most 64 charges"),
    ],
)
def test_a_call_that_is_too_large_is_an_error_that_charges_nothing(
    make_site, on_error, identifiers, limits, message
):
    who = [f"user:{number}" for number in range(identifiers)]
    site = make_site(default_limits=limits, identifiers=lambda: who, on_error=on_error)
    site.app.register_error_handler(ValueError, lambda error: (str(error), 500))
    assert message in site.open("/free").text
    assert site.ask("/free", 2) == [500, 500]
    del who[1:]
    assert site.ask("/free", 2) == [200, 429]


def who():
    return request.headers.get("X-Key")


def test_application_and_meta_limits_and_shared_ones_exempt_too(make_site):
    site = make_site(application_limits="1/minute", meta_limits="1/hour", identifiers=who, anonymous="exempt")
    site.route("/s", site.limiter.shared_limit("1/minute", "s"))
    assert site.ask("/free", 3) == [200] * 3
    assert site.ask("/free", 3, headers={"X-Key": "a"}) == [200, 429, 429]
    assert site.ask("/s", 3) == [200] * 3


def test_a_fallback_exempts(make_site):
    site = make_site(
        default_limits="5/minute",
        in_memory_fallback="1/minute",
        store="redis://127.0.0.1:1/0",
        identifiers=who,
        config={"RATELIMIT_ANONYMOUS": "exempt"},
    )
    assert site.ask("/free", 3) == [200] * 3
    assert site.ask("/free", 2, headers={"X-Key": "a"}) == [200, 429]


def test_functions_of_ones_own_may_ask_for_the_address(make_site):
    own = {"trusted_proxies": 1, "identifiers": lambda: f"tenant:{get_address()}"}
    site = make_site(default_limits="9/minute", **own)
    for sent, counted in (("198.51.100.9", "198.51.100.9"), ("2001:db8::1", "2001:db8::/64")):
        decision = site.decision("/free", ip="10.0.0.1", headers={"X-Forwarded-For": sent})
        assert decision.identifier == f"tenant:{counted}"
    assert get_address() == "unknown"
