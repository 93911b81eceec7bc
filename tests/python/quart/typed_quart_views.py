"""An app as its author's type checker sees it; nothing here is run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import assert_type

from quart import Blueprint, Quart, Request, Response

from overlimit import Decision
from overlimit.quart import ExemptionScope, RateLimit, RateLimitExceeded, by_header, get_identifiers

app = Quart(__name__)
blueprint = Blueprint("api", __name__)


async def limits_of(request: Request) -> str:
    return "5/minute"


limiter = RateLimit(
    app,
    default_limits=limits_of,
    application_limits="100/minute",
    identifiers=[get_identifiers, by_header("X-Key")],
    on_error="deny",
    headers="both",
)
limiter.init_app(app)
limiter.init_app(3)  # type: ignore[arg-type]


@app.get("/asynchronous")
@limiter.limit("5/minute", cost=2, exempt_when=lambda: False)
async def asynchronous(number: int) -> str:
    return "ok" * number


@limiter.shared_limit("5/minute", "all", methods=["GET"])
def synchronous(number: int) -> str:
    return "ok" * number


limiter.limit("5/minute", cost="2")  # type: ignore[arg-type]
assert_type(limiter.limit("9/minute")(blueprint), Blueprint)
assert_type(synchronous(2), str)
assert_type(limiter.current_decision, Decision | None)
limiter.exempt(blueprint, flags=ExemptionScope.DEFAULT)


@app.errorhandler(RateLimitExceeded)
async def refused(error: RateLimitExceeded) -> Response:
    return Response(str(error.decision.retry_after), 429)


handler: Callable[[RateLimitExceeded], Awaitable[Response]] = refused
