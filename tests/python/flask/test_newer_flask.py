"""Flask 3.2 gives the methods that we wrap its context, before what it gave them until then."""

from __future__ import annotations

import inspect

import pytest
from flask import Flask
from flask.globals import app_ctx

from overlimit import ManualClock
from overlimit.flask import RateLimit


class FlaskWithContexts(Flask):
    """Calls its methods as Flask 3.2 does."""

    def full_dispatch_request(self):
        context = app_ctx._get_current_object()
        try:
            answer = self.preprocess_request()
            answer = self.dispatch_request(context) if answer is None else answer
        except Exception as error:
            answer = self.handle_user_exception(context, error)
        return self.finalize_request(answer)

    def finalize_request(self, rv, from_error_handler=False):
        return self.process_response(app_ctx._get_current_object(), self.make_response(rv))

    def dispatch_request(self, ctx):
        assert ctx is app_ctx._get_current_object()
        return super().dispatch_request()

    def handle_user_exception(self, ctx, e):
        assert ctx is app_ctx._get_current_object()
        return super().handle_user_exception(e)

    def process_response(self, ctx, response):
        assert ctx is app_ctx._get_current_object()
        return super().process_response(response)


class FlaskWithNames(FlaskWithContexts):
    """Names what it gives."""

    def finalize_request(self, rv, from_error_handler=False):
        response = self.make_response(rv)
        return self.process_response(ctx=app_ctx._get_current_object(), response=response)


GIVES_CONTEXTS = "ctx" in inspect.signature(Flask.dispatch_request).parameters


@pytest.mark.parametrize("kind", [Flask] if GIVES_CONTEXTS else [FlaskWithContexts, FlaskWithNames])
def test_passes_on_what_it_is_given(kind):
    app, clock = kind("newer"), ManualClock()
    limiter = RateLimit(app, application_limits="9/minute", clock=clock, algorithm="fixed_window")
    app.get("/", endpoint="plain")(lambda: "ok")
    views = {
        "/login": (limiter.limit("2/minute", deduct_when=lambda response: response.status_code == 401), 401),
        "/login-that-worked": (limiter.limit("1/minute", deduct_when=lambda response: False), 200),
    }
    for path, (limit, status) in views.items():
        app.get(path, endpoint=path)(limit(lambda status=status: ("done", status)))
    app.after_request(lambda response: response)
    client = app.test_client()

    def ask(path, times):
        return [client.get(path).status_code for _ in range(times)]

    assert ask("/login", 3) == [401, 401, 429]
    assert ask("/login-that-worked", 3) == [200] * 3
    assert ask("/absent", 1) == [404]
    assert client.options("/").status_code == 200
    clock.advance(8)
    assert client.get("/").headers["RateLimit"] == '"application";r=3;t=52'
    assert client.get("/login").headers["Retry-After"] == "52"
