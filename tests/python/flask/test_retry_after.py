"""A refusal says when to come again, whoever raises it and whatever answers it.

docs/reference/web.md, "What the client sees".
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from flask import Blueprint, Flask, Response, abort, jsonify, make_response, request
from werkzeug.exceptions import HTTPException, TooManyRequests
from werkzeug.http import http_date

from overlimit import Limiter, ManualClock
from overlimit.flask import HeaderNames, RateLimit, RateLimitExceeded, StoreFailed, rate_limit

START = 1_700_000_000


def by_decorator(site, own):
    return site.limiter.limit("1/minute", name="n")(lambda: "ok")


def by_with_block(site, own):
    def view():
        with site.limiter.limit("1/minute", name="n"):
            return "ok"

    return view


def by_function(site, own):
    function = site.limiter.limit("1/minute", name="n")(lambda: "ok")
    return lambda: f"{function()}"


def by_hand(site, own, *description):
    def view():
        decision = own.hit("ann")
        if not decision:
            raise RateLimitExceeded(decision, *description)
        return "ok"

    return view


def by_hand_in_a_function(site, own):
    view = by_hand(site, own, "slowly, please")
    return lambda: f"{view()}"


def by_hand_in_a_thread(site, own):
    view = by_hand(site, own)

    def in_a_thread():
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(view).result()

    return in_a_thread


def by_abort(site, own):
    site.app.aborter.mapping[429] = RateLimitExceeded

    def view():
        decision = own.hit("ann")
        return "ok" if decision else abort(429, decision)

    return view


def by_an_async_view(site, own):
    decide = by_hand(site, own)

    async def view():
        return decide()

    return view


WAYS = [
    by_decorator,
    by_with_block,
    by_function,
    by_hand,
    by_hand_in_a_function,
    by_hand_in_a_thread,
    by_abort,
    by_an_async_view,
]

ANSWERS = {
    "none": None,
    "text": lambda error: ("wait", 429),
    "tuple with headers": lambda error: ("wait", 429, {"X-More": "1"}),
    "response": lambda error: Response("wait", status=429),
    "made response": lambda error: make_response("wait", 429),
    "json": lambda error: (jsonify(error=error.description), 429),
    "dict": lambda error: ({"error": error.description}, 429),
    "the error": lambda error: error,
    "its response": lambda error: error.get_response(),
    "another exception": lambda error: TooManyRequests("wait"),
}


@pytest.fixture
def own(store, clock):
    return Limiter("1/minute", name="own", algorithm="fixed_window", store=store, clock=clock)


def refused(site, view, path="/refused"):
    site.app.add_url_rule(path, "refused", view)
    assert site.open(path).status_code == 200
    return site.open(path)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_whatever_the_error_handler_answers(make_site, own, way, answer):
    site = make_site()
    if answer is not None:
        site.app.register_error_handler(429, answer)
    response = refused(site, way(site, own))
    assert response.status_code == 429
    assert response.headers.getlist("Retry-After") == ["60"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("handled", [429, RateLimitExceeded, HTTPException])
@pytest.mark.parametrize("of_blueprint", [True, False])
def test_whatever_is_handled_and_where(make_site, own, way, handled, of_blueprint):
    site = make_site()
    pages = Blueprint("pages", __name__)
    pages.add_url_rule("/refused", "refused", way(site, own))
    (pages if of_blueprint else site.app).register_error_handler(handled, lambda error: ("wait", 429))
    site.app.register_blueprint(pages)
    assert site.open("/refused").status_code == 200
    response = site.open("/refused")
    assert response.status_code == 429
    assert response.headers.getlist("Retry-After") == ["60"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("given", "sent"), [("59", "60"), ("61", "61"), ("3600", "3600"), ("soon", "60"), (-1, "60"), (90, 90)]
)
def test_a_later_one_of_the_handler_is_kept(make_site, own, way, given, sent):
    def as_field(value):
        when = datetime.fromtimestamp(START, UTC)
        return value if isinstance(value, str) else http_date(when + timedelta(seconds=value))

    site = make_site()
    site.app.register_error_handler(429, lambda error: ("wait", 429, {"Retry-After": as_field(given)}))
    assert refused(site, way(site, own)).headers.getlist("Retry-After") == [as_field(sent)]


@pytest.mark.parametrize("way", [each for each in WAYS if each not in (by_decorator, by_an_async_view)])
def test_a_view_that_catches_it_and_answers_429_itself(make_site, own, way):
    site = make_site()
    decide = way(site, own)

    def view():
        try:
            return decide()
        except TooManyRequests:
            return "wait", int(request.headers.get("X-Status", "429"))

    response = refused(site, view)
    if way is not by_hand_in_a_thread:
        assert (response.status_code, response.headers.get("Retry-After")) == (429, "60")
    response = site.open("/refused", headers={"X-Status": "200"})
    assert (response.status_code, response.headers.get("Retry-After")) == (200, None)


@pytest.mark.parametrize("status", [503, 200, 302, 403, 404, 420, 500])
@pytest.mark.parametrize("way", [by_decorator, by_hand])
def test_a_503_of_the_handler_has_it_and_other_statuses_have_none(make_site, own, way, status):
    site = make_site()
    site.app.register_error_handler(429, lambda error: ("no", status))
    response = refused(site, way(site, own))
    sent = "60" if status == 503 else None
    assert (response.status_code, response.headers.get("Retry-After")) == (status, sent)


def test_a_hook_may_refuse_before_the_view(make_site, own):
    site = make_site()
    site.app.register_error_handler(429, lambda error: ("wait", 429))

    @site.app.before_request
    def check():
        decision = own.hit("ann")
        if not decision:
            raise RateLimitExceeded(decision)

    responses = [site.open("/free") for _ in range(2)]
    assert [each.status_code for each in responses] == [200, 429]
    assert responses[1].headers["Retry-After"] == "60"
    assert site.open("/missing").headers["Retry-After"] == "60"


@pytest.mark.parametrize("handler", [True, False])
def test_an_app_without_any_rate_limit(own, handler):
    app = Flask("bare")
    if handler:
        app.register_error_handler(429, lambda error: ("wait", 429))

    @app.get("/")
    def index():
        decision = own.hit("ann")
        if not decision:
            raise RateLimitExceeded(decision)
        return "ok"

    client = app.test_client()
    assert "Retry-After" not in client.get("/").headers
    assert client.get("/").headers.getlist("Retry-After") == ["60"]


def test_of_several_refusals_the_one_that_is_answered_counts(make_site, own):
    site = make_site()
    site.app.register_error_handler(429, lambda error: ("wait", 429))
    hourly = site.limiter.limit("0/hour; 1/day")(lambda: "never")

    @site.app.get("/")
    def index():
        try:
            hourly()
        except RateLimitExceeded as first:
            daily = first
        decision = own.hit("ann")
        if "X-First" in request.headers:
            RateLimitExceeded(decision)
            raise daily
        raise RateLimitExceeded(decision)

    own.hit("ann")
    assert site.open("/").headers["Retry-After"] == "60"
    assert "Retry-After" not in site.open("/", headers={"X-First": "1"}).headers


def as_they_are(error):
    return error


def with_another_body(error):
    response = error.get_response(request.environ)
    response.set_data("wait")
    return response


def with_its_fields(error):
    return "wait", error.code, error.get_headers()


def with_none_of_its_fields(error):
    return "wait", error.code


@pytest.mark.parametrize("where", ["option", "configuration"])
@pytest.mark.parametrize("accept", ["application/json", "text/html"])
@pytest.mark.parametrize(
    "handler", [None, as_they_are, with_another_body, with_its_fields, with_none_of_its_fields]
)
@pytest.mark.parametrize("status", [429, 503])
def test_the_time_is_in_the_field_that_settings_name_and_in_no_other(
    make_site, where, accept, handler, status
):
    names = {"header_names": HeaderNames(retry_after="X-Wait")} if where == "option" else {}
    site = make_site(
        default_limits="1/minute",
        store="memory://" if status == 429 else "redis://127.0.0.1:1/0?timeout=1",
        on_error="deny",
        config={"RATELIMIT_HEADER_RETRY_AFTER": "X-Wait" if where == "configuration" else "X-Other"},
        **names,
    )
    if handler is not None:
        site.app.register_error_handler(status, handler)
    site.open("/free")
    response = site.open("/free", headers={"Accept": accept})
    assert response.status_code == status
    assert len(response.headers.getlist("X-Wait")) == 1
    assert "Retry-After" not in response.headers


def test_of_several_rate_limits_the_one_that_refused_names_the_field(make_site, store, clock):
    site = make_site(default_limits="9/minute")
    names = HeaderNames(retry_after="X-Wait")
    RateLimit(site.app, store=store, clock=clock, default_limits="1/minute", header_names=names)
    response = [site.open("/free") for _ in range(2)][1]
    assert response.status_code == 429
    assert "X-Wait" in response.headers
    assert "Retry-After" not in response.headers


def test_a_store_that_failed_may_be_told_by_hand(make_site, own):
    site = make_site()
    site.app.register_error_handler(503, lambda error: ("closed", 503))
    own.hit("ann")

    @site.app.get("/")
    def index():
        raise StoreFailed(own.hit("ann"))

    response = site.open("/")
    assert (response.status_code, response.headers["Retry-After"]) == (503, "60")


def test_one_request_leaves_nothing_to_the_next(make_site, own):
    site = make_site()
    site.app.register_error_handler(429, lambda error: ("wait", 429))
    site.app.add_url_rule("/full", "full", lambda: ("full", 429))
    assert refused(site, by_hand(site, own)).headers["Retry-After"] == "60"
    assert "Retry-After" not in site.open("/full").headers


def test_two_apps_at_once_do_not_mix_their_refusals():
    def make(limit):
        app = Flask(limit)
        app.register_error_handler(429, lambda error: ("wait", 429))
        RateLimit(app, algorithm="fixed_window", clock=ManualClock())
        return app

    inner, outer = make("inner"), make("outer")
    inner.add_url_rule("/", view_func=rate_limit("0/hour; 1/minute")(lambda: "ok"), endpoint="index")

    @outer.get("/")
    @rate_limit("1/minute")
    def index():
        assert inner.test_client().get("/").status_code == 429
        return "ok"

    client = outer.test_client()
    assert client.get("/").status_code == 200
    assert client.get("/").headers["Retry-After"] == "60"


@pytest.mark.parametrize("where", ["on_breach", "error handler"])
def test_one_response_object_for_all_tells_each_its_own(make_site, clock, where):
    response = Response("wait", status=429)
    if where == "on_breach":
        site = make_site(on_breach=lambda decision: response)
    else:
        site = make_site()
        site.app.register_error_handler(429, lambda error: response)
    site.route("/", site.limiter.limit("1/minute"))
    site.route("/never", site.limiter.limit("0/minute"))
    assert site.ask("/", 1) == [200]
    for left in (60, 45, 10):
        assert site.open("/").headers.getlist("Retry-After") == [str(left)]
        clock.advance(15 if left == 60 else 35)
    assert site.open("/never").headers.getlist("Retry-After") == []
