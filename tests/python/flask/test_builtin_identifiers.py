"""Who is limited, by built-in functions: docs/reference/web.md, "Who is limited"."""

from __future__ import annotations

import hashlib
import logging
import re
import uuid
from types import SimpleNamespace

import pytest
from flask import Flask, g, request
from werkzeug.local import LocalProxy

from overlimit.flask import (
    RateLimit,
    by_address,
    by_cookie,
    by_header,
    by_json,
    by_path_parameter,
    by_user,
    by_user_or_address,
    get_identifiers,
)
from overlimit.http.identifying import builtin


def hashed(value):
    return hashlib.sha256(value.encode()).hexdigest()[:32]


def charged(site, path="/free", **options):
    """Return whom a request is charged to."""
    decision = site.decision(path, **options)
    return [] if decision is None else [detail.identifier for detail in decision.details]


def as_user(user):
    def load():
        g.user = user

    return load


@pytest.fixture
def site_by(make_site):
    """Return a function that makes a site under ten a minute, for those whom the identifiers name."""

    def make(identifiers, **options):
        return make_site(default_limits="10/minute", identifiers=identifiers, **options)

    return make


def test_a_list_may_hold_functions_of_the_app_and_those_that_return_several(site_by):
    who = [get_identifiers, lambda: ["tenant:1", None, "tenant:2"], lambda: 7]
    assert charged(site_by(who), user="ann") == ["ip:192.0.2.1", "user:ann", "tenant:1", "tenant:2", "7"]


@pytest.mark.parametrize("who", ["ip:1", [by_address, "ip:1"], [None], [by_address, None], 5])
def test_what_is_no_function_is_an_error_where_it_is_written(who):
    with pytest.raises(TypeError, match="identifiers must be a function without parameters"):
        RateLimit(identifiers=who)
    with pytest.raises(TypeError, match="identifiers must be a function without parameters"):
        RateLimit().limit("1/minute", identifiers=who)


@pytest.mark.parametrize("make", [by_header, by_cookie, by_path_parameter, by_json])
@pytest.mark.parametrize("name", ["", None, 5])
def test_a_name_that_cannot_be_is_an_error_where_it_is_written(make, name):
    with pytest.raises((TypeError, ValueError), match="name"):
        make(name)


@pytest.mark.parametrize(
    ("body", "identifier"),
    [
        ('{"account": "ann"}', "json:account:ann"),
        ('{"account": 7}', "json:account:7"),
        ('{"account": 1.5}', "json:account:1.5"),
        ('{"account": true}', "json:account:true"),
        ('{"account": {"b": 1, "a": [2]}}', 'json:account:{"a": [2], "b": 1}'),
        ('{"account": ""}', "anonymous"),
        ('{"account": null}', "anonymous"),
        ('{"other": 1}', "anonymous"),
        ("[1]", "anonymous"),
        ('"account"', "anonymous"),
        ("not json", "anonymous"),
        ("", "anonymous"),
        ("[" * 100_000, "anonymous"),
    ],
    ids=repr,
)
def test_a_member_of_a_json_body(site_by, body, identifier):
    site = site_by(by_json("account"))
    site.app.post("/login")(lambda: "ok")
    with site.app.test_client() as client:
        assert client.post("/login", data=body, content_type="application/json").status_code == 200
        assert [row.identifier for row in site.limiter.current_decision.details] == [identifier]


def test_a_body_that_is_not_said_to_be_json_is_left_to_the_view(site_by):
    site = site_by(by_json("account"))
    site.app.post("/form")(lambda: request.form["account"])
    assert site.app.test_client().post("/form", data={"account": "ann"}).text == "ann"


def test_names_that_hold_a_colon_do_not_run_into_values(site_by):
    site = site_by([by_json("a"), by_json("a:b")])
    site.app.post("/login")(lambda: "ok")
    with site.app.test_client() as client:
        client.post("/login", json={"a": "b:c", "a:b": "c"})
        rows = [row.identifier for row in site.limiter.current_decision.details]
    assert rows == ["json:a:b:c", "json:a\\:b:c"]


def test_an_address_is_read_as_its_own_rate_limit_says(clock):
    app = Flask("proxied")
    app.add_url_rule("/", "index", lambda: "ok")
    first = RateLimit(app, default_limits="9/minute", identifiers=by_address, clock=clock)
    second = RateLimit(
        app, default_limits="9/minute", identifiers=[by_user_or_address], trusted_proxies=1, clock=clock
    )
    with app.test_client() as client:
        client.get(
            "/",
            headers={"X-Forwarded-For": "2001:db8:1:2:3::4"},
            environ_overrides={"REMOTE_ADDR": "10.0.0.1"},
        )
        rows = {row.identifier for row in second.current_decision.details}
    assert rows == {"ip:10.0.0.1", "ip:2001:db8:1:2::/64"}
    assert first.current_decision is None


def test_they_may_be_called_within_a_function_of_the_app():
    app = Flask("own")
    RateLimit(app, trusted_proxies=1)
    sent = {"X-Forwarded-For": "203.0.113.7", "X-Key": "k"}
    with app.test_request_context("/", headers=sent):
        g.user = "ann"
        assert (by_address(), by_user(), by_user_or_address()) == ("ip:203.0.113.7", "user:ann", "user:ann")
        assert by_header("X-Key")() == f"header:x-key:{hashed('k')}"


def test_the_same_one_is_asked_once_per_request(make_site, monkeypatch):
    asked = []
    monkeypatch.setattr("overlimit.http.identifying.builtin.user_id", lambda user: asked.append(user) or "x")
    site = make_site(default_limits="9/minute", identifiers=by_user, application_limits="99/minute")
    site.route("/two", *[site.limiter.limit("5/minute", identifiers=by_user, override_defaults=False)] * 2)
    assert site.ask("/two", 2, user="ann") == [200, 200]
    assert len(asked) == 2
    assert by_header("X-Key") == by_header("X-Key") != by_header("X-Other")
    assert hash(by_cookie("a")) == hash(by_cookie("a"))


NO_ID = [
    {"sub": "s3cret"},
    SimpleNamespace(),
    SimpleNamespace(id=None),
    SimpleNamespace(get_id=lambda: ""),
    True,
]


@pytest.fixture
def told_of(monkeypatch):
    """Start as a process that has told of no user yet."""
    monkeypatch.setattr(builtin, "_told_of", set())


@pytest.mark.parametrize("user", NO_ID)
@pytest.mark.parametrize("who", [None, by_user, by_user_or_address])
def test_a_user_without_an_id_is_told_of_once(site_by, told_of, caplog, user, who):
    site = site_by(who)
    site.app.before_request(as_user(user))
    with caplog.at_level(logging.WARNING, logger="overlimit"):
        assert site.ask("/free", 3) == [200] * 3
    assert len(caplog.records) == 1
    assert type(user).__name__ in caplog.text
    assert "s3cret" not in caplog.text
    assert "identifiers=" in caplog.text


NOBODY = [None, "", {}, False, SimpleNamespace(is_authenticated=False), LocalProxy(lambda: None)]
SOMEBODY = ["ann", 0, uuid.uuid4(), SimpleNamespace(id=5), LocalProxy(lambda: SimpleNamespace(id=5)), b"ann"]


@pytest.mark.parametrize("user", [*NOBODY, *SOMEBODY], ids=lambda user: type(user).__name__)
def test_nobody_and_users_with_an_id_are_told_of_never(site_by, told_of, caplog, user):
    site = site_by(None)
    site.app.before_request(as_user(user))
    with caplog.at_level(logging.WARNING, logger="overlimit"):
        names = charged(site)
    assert caplog.records == []
    assert len(names) == (1 if any(user is each for each in NOBODY) else 2)


@pytest.mark.parametrize(
    ("of", "value", "identifier"),
    [
        (by_address, "192.0.2.1", "ip:192.0.2.1"),
        (by_address, "2001:db8::7", "ip:2001:db8::/64"),
        (by_user, 42, "user:42"),
        (by_user, SimpleNamespace(id="ann"), "user:ann"),
        (by_user, None, ""),
        (by_user_or_address, "ann", "user:ann"),
        (by_user_or_address, "192.0.2.1", "ip:192.0.2.1"),
        (by_header("X-API-Key"), "free-1", f"header:x-api-key:{hashed('free-1')}"),
        (by_header("X-API-Key"), "", ""),
        (by_cookie("a:b"), "s3", f"cookie:a\\:b:{hashed('s3')}"),
        (by_path_parameter("tenant"), "acme", "path:tenant:acme"),
        (by_json("account"), 7, "json:account:7"),
        (by_json("account", normalise=str.casefold), "Ann", "json:account:ann"),
    ],
)
def test_each_says_what_a_value_counts_as(of, value, identifier):
    assert of.identifier(value) == identifier


@pytest.mark.parametrize("value", [b"x", {1, 2}, object()])
@pytest.mark.parametrize("of", [by_json("account"), by_header("X-API-Key")])
def test_a_value_that_no_request_has_is_an_error_that_says_what_it_must_be(of, value):
    with pytest.raises(TypeError, match=rf"^the value for {re.escape(repr(of))} must be a string"):
        of.identifier(value)


def test_an_address_counts_as_the_app_says():
    app = Flask("wide")
    RateLimit(app, ipv6_prefix=48)
    with app.app_context():
        assert by_address.identifier("2001:db8:1:2::7") == "ip:2001:db8:1::/48"


def normal(value):
    return value.strip().casefold()


@pytest.mark.parametrize(
    ("make", "counted"),
    [
        (by_header, f"header:account:{hashed('ann')}"),
        (by_cookie, f"cookie:account:{hashed('ann')}"),
        (by_json, "json:account:ann"),
        (by_path_parameter, "path:account:ann"),
    ],
)
def test_values_that_mean_the_same_count_together(make_site, make, counted):
    site = make_site()
    limit = site.limiter.limit("3/minute", identifiers=make("account", normalise=normal))
    site.app.add_url_rule("/<account>", "index", limit(lambda account: "ok"), methods=["POST"])
    asked = []
    for value in ("ann", "Ann", " ANN ", "aNN", ""):
        with site.app.test_client() as client:
            client.set_cookie("account", value, domain="localhost")
            path = f"/{value}" if make is by_path_parameter and value else "/bob"
            client.post(path, json={"account": value}, headers={"Account": value})
            decision = site.limiter.current_decision
            asked.append((decision.allowed, decision.identifier))
    nobody = (True, "path:account:bob" if make is by_path_parameter else "anonymous")
    assert asked == [(True, counted)] * 3 + [(False, counted), nobody]


def test_without_it_they_count_apart_and_limits_say_which():
    plain, folded = by_json("account"), by_json("account", normalise=str.casefold)
    assert plain != folded
    assert (repr(plain), repr(folded)) == ("by_json('account')", "by_json('account', normalise=str.casefold)")
    assert by_json("account", normalise=lambda value: "a") != by_json("account", normalise=lambda value: "b")


@pytest.mark.parametrize("returned", [None, 7, b"ann"])
def test_what_normalises_must_return_text(make_site, returned):
    site = make_site(
        identifiers=by_header("X-Key", normalise=lambda value: returned), default_limits="9/hour"
    )
    site.app.register_error_handler(TypeError, lambda error: (str(error), 500))
    says = f"must return a string, not {type(returned).__name__}"
    assert says in site.open("/free", headers={"X-Key": "1"}).text
    assert site.ask("/free", 1) == [200]


@pytest.mark.parametrize("make", [by_header, by_cookie, by_path_parameter, by_json])
@pytest.mark.parametrize("normalise", ["casefold", 5, lambda: "a", lambda a, b: a])
def test_what_normalises_must_take_the_value(make, normalise):
    with pytest.raises(TypeError, match="normalise must be a function of the value"):
        make("account", normalise=normalise)
