"""A small Flask app under rate limits: several limits, several identifiers, one decision per request.

Run it with ``make serve``, or ``flask --app examples/flask_app.py run``. ``OVERLIMIT_STORE`` says where the
counts live (default: this process), ``FLASK_RATELIMIT_KEY_PREFIX`` keeps apps on one Redis apart.
"""

from __future__ import annotations

import os

from flask import Flask, Response, g, jsonify, request

from overlimit.flask import RateLimit, RateLimitExceeded, rate_limit

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
)


@app.get("/")
@rate_limit("10/second; 120/minute; 240/hour")
def index() -> Response:
    decision = limiter.current_decision
    return jsonify(hello=g.user or "stranger", remaining=decision and decision.remaining)


@app.get("/health")
def health() -> Response:
    return jsonify(status="ok")


@app.errorhandler(429)
def too_many_requests(refusal: RateLimitExceeded) -> tuple[Response, int]:
    decision = refusal.decision
    return jsonify(error=refusal.description, identifier=decision.identifier, status=decision.status), 429
