"""Limits on what Flask calls besides views: error handlers, hooks, functions of templates, commands."""

from __future__ import annotations

import contextlib
import logging

import click
import pytest
from flask import Blueprint, Flask, abort, render_template_string
from werkzeug.exceptions import NotFound

import overlimit
from overlimit.flask import RateLimit, RateLimitExceeded, rate_limit


def fail():
    raise LookupError


HANDLED = {404: 404, NotFound: 404, 500: 500, LookupError: 500, Exception: 500}


@pytest.mark.parametrize("handled", HANDLED)
@pytest.mark.parametrize("place", ["app", "blueprint"])
@pytest.mark.parametrize("bare", [True, False])
def test_an_error_handler_is_limited_by_itself(clock, handled, place, bare):
    app, pages = Flask("pages"), Blueprint("pages", __name__)
    limiter = None if bare else RateLimit(app, clock=clock, default_limits="5/minute")
    limit = rate_limit if limiter is None else limiter.limit
    status = HANDLED[handled]
    answer = limit("2/minute", name="handler")(lambda error: ("handled", status))
    (pages if place == "blueprint" and handled != 500 else app).register_error_handler(handled, answer)
    pages.add_url_rule("/", view_func=fail if status == 500 else lambda: abort(404))
    app.register_blueprint(pages)
    client = app.test_client()
    answers = [client.get("/") for _ in range(4)]
    assert [each.status_code for each in answers] == [status, status, 429, 429]
    assert answers[0].text == "handled"
    refusal = answers[-1]
    assert refusal.json["violated-policies"] == ["handler"]
    assert 0 < int(refusal.headers["Retry-After"]) <= 62
    assert '"handler";r=0' in refusal.headers["RateLimit"]


def test_what_answers_refusals_may_be_refused_itself(make_site):
    site = make_site(default_limits="1/minute")
    site.app.register_error_handler(429, site.limiter.limit("2/minute")(lambda error: ("slowly", 429)))
    answers = [site.open("/free").text for _ in range(5)]
    assert answers[:3] == ["free", "slowly", "slowly"]
    assert all("violated-policies" in each for each in answers[3:])


def test_handlers_that_raise_what_is_no_refusal_are_a_500_as_before(make_site):
    site = make_site()
    site.app.register_error_handler(404, site.limiter.limit("1/minute")(lambda error: fail()))
    assert site.ask("/absent", 3) == [500, 429, 429]


@pytest.mark.parametrize(
    "hook", ["before_request", "after_request", "context_processor", "url_value_preprocessor"]
)
def test_hooks_and_functions_of_templates_are_limited(make_site, hook):
    site = make_site()
    answers = {"after_request": lambda response: response, "context_processor": lambda: {}}
    getattr(site.app, hook)(site.limiter.limit("2/minute")(answers.get(hook, lambda *_: None)))
    site.route("/page", lambda view: lambda: render_template_string("page"))
    assert site.ask("/page", 4) == [200, 200, 429, 429]


@pytest.mark.parametrize("hook", ["teardown_request", "teardown_appcontext"])
def test_a_limit_on_what_runs_after_the_response_is_an_error(make_site, caplog, hook):
    site = make_site()
    getattr(site.app, hook)(site.limiter.limit("5/minute")(lambda error: None))
    with contextlib.suppress(RuntimeError):  # by the hook itself, for which Flask has no answer
        assert site.ask("/free", 1) == [500]
    assert "is called after the response, and cannot be refused" in caplog.text


@pytest.mark.parametrize(
    ("register", "answer"),
    [
        (lambda app: app.errorhandler(404), None),
        (lambda app: app.before_request, None),
        (lambda app: app.after_request, None),
        (lambda app: app.context_processor, {}),
        (lambda app: app.template_filter("short"), None),
    ],
)
def test_a_limit_above_the_registration_is_warned_of(make_site, caplog, register, answer):
    site = make_site()

    @site.limiter.limit("1/minute")
    @register(site.app)
    def registered(given=answer):
        return given

    @site.limiter.limit("1/minute")
    @site.app.get("/view")
    def view():
        return "ok"

    assert site.ask("/free", 2) == [200, 200]
    assert site.ask("/view", 2) == [200, 429]
    told = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert len(told) == 1
    assert "registered() holds for no request" in told[0].getMessage()
    assert "below the decorator of the app" in told[0].getMessage()


def test_a_limit_on_a_command_is_an_error(make_site):
    site, calls = make_site(), []

    @site.app.cli.command("report")
    @site.limiter.limit("5/minute")
    def report():
        calls.append("made")

    @site.app.cli.command("helped")
    def helped():
        site.limiter.limit("5/minute")(lambda: calls.append("helped"))()

    runner = site.app.test_cli_runner()
    error = runner.invoke(args=["report"]).exception
    assert isinstance(error, RuntimeError)
    assert "report() is limited, but it is a command" in str(error)
    assert runner.invoke(args=["helped"]).exception is None
    assert calls == ["helped"]
    with pytest.raises(TypeError, match=r"not on the command 'report', .*throttle"):
        site.limiter.limit("5/minute")(report)
    assert isinstance(report, click.Command)


class Slow(overlimit.RateLimitExceeded):
    """One of the app's own."""


HANDLERS = [429, overlimit.RateLimitExceeded, RateLimitExceeded, overlimit.OverlimitError, Exception]


@pytest.mark.parametrize("raised", [overlimit.RateLimitExceeded, Slow])
@pytest.mark.parametrize("handler", [*HANDLERS, Slow])
def test_handlers_of_the_app_see_what_its_own_limiters_refuse(make_site, clock, raised, handler):
    site, own = make_site(default_limits="9/minute"), overlimit.Limiter("1/minute", name="own", clock=clock)
    seen = []

    def handle(error):
        seen.append(error)
        return "handled", 429

    def view():
        decision = own.hit("somebody")
        if not decision:
            raise raised(decision)
        return "ok"

    site.app.register_error_handler(handler, handle)
    site.route("/own", lambda _: view)
    assert site.ask("/own", 1) == [200]
    refusal = site.open("/own")
    is_handled = handler is not Slow or raised is Slow
    assert (refusal.status_code, refusal.text == "handled") == (429, is_handled)
    assert [error.decision.limit.quota for error in seen] == [1] * is_handled
    assert isinstance(seen[0], Slow) == (handler is Slow) if seen else True
    if handler is not Slow:
        assert 0 < int(refusal.headers["Retry-After"]) <= 62
        assert '"own";r=0' in refusal.headers["RateLimit"]


def test_a_decision_of_the_ratelimit_that_is_raised_again_keeps_its_names(make_site):
    site = make_site(headers="both")

    def view():
        raise RateLimitExceeded(site.limiter.current_decision)

    site.route("/again", site.limiter.limit("1/minute", name="mine"), lambda _: view)
    refusal = site.open("/again")
    assert refusal.json["violated-policies"] == []
    assert refusal.headers["RateLimit"] == '"mine";r=0;t=60'
