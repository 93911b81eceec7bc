"""A small Flask app under rate limits: several limits, several identifiers, one decision per request.

Run it with ``make serve``, or ``flask --app examples/flask_app.py run``: ``/`` is a page that sends requests
to the limited routes and draws what becomes of them. ``OVERLIMIT_STORE`` says where the counts live (default:
this process), ``FLASK_RATELIMIT_KEY_PREFIX`` keeps apps on one Redis apart.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from flask import Flask, Response, g, jsonify, render_template, request

from overlimit.flask import RateLimit, RateLimitExceeded

app = Flask(__name__)
app.config.from_prefixed_env()


@app.before_request
def load_user() -> None:
    # For this demo only: anybody can send this header. A real app takes the user from its login.
    g.user = request.headers.get("X-User")


limiter = RateLimit(
    app,
    application_limits="2000/minute",
    store=os.environ.get("OVERLIMIT_STORE", "memory://"),
    # For this demo only: there is no proxy, so that anybody may choose an address by X-Forwarded-For.
    trusted_proxies=1,
)


class LimitedRoute(NamedTuple):
    """What the page says of a route."""

    path: str
    limits: str
    remark: str


WINDOWS = LimitedRoute("/hello", "10/second; 120/minute; 240/hour", "three sliding windows at once")
BUCKET = LimitedRoute("/feed", "5/second burst 30", "a token bucket: 30 at once, then 5 a second")
COSTLY = LimitedRoute("/report", "60/minute", "each request costs 5")


@app.get("/")
@limiter.exempt
def page() -> str:
    return render_template("page.html", routes=[WINDOWS, BUCKET, COSTLY])


@app.get(WINDOWS.path)
@limiter.limit(WINDOWS.limits)
def hello() -> Response:
    return answer()


@app.get(BUCKET.path)
@limiter.limit(BUCKET.limits)
def feed() -> Response:
    return answer()


@app.get(COSTLY.path)
@limiter.limit(COSTLY.limits, cost=5)
def report() -> Response:
    return answer()


def answer() -> Response:
    decision = limiter.current_decision
    return jsonify(hello=g.user or "stranger", remaining=None if decision is None else decision.remaining)


@app.get("/health")
@limiter.exempt
def health() -> Response:
    return jsonify(status="ok")


@app.errorhandler(429)
def too_many_requests(refusal: RateLimitExceeded) -> tuple[Response, int]:
    decision = refusal.decision
    return jsonify(error=refusal.description, identifier=decision.identifier, status=decision.status), 429
