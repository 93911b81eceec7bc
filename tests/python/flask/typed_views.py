"""An app as its author's type checker sees it; nothing here is run."""

from __future__ import annotations

from typing import assert_type

from flask import Blueprint, Flask, Response

from overlimit import Decision, FixedWindow
from overlimit.flask import ExemptionScope, RateLimit, RateLimitExceeded, get_identifiers, rate_limit

app = Flask(__name__)
pages = Blueprint("pages", __name__)
limiter = RateLimit(
    app,
    default_limits=["100/minute", FixedWindow(9, per=60), lambda: "5/hour"],
    default_limits_per_method=True,
    default_limits_cost=lambda: 2,
    application_limits="1000/minute",
    application_limits_deduct_when=lambda response: response.status_code == 200,
    meta_limits="9/hour",
    store="redis://localhost:6379/0",
    identifiers=lambda: ["ip:1", "user:2"],
    headers="both",
    on_error="deny",
    shadow=False,
    trusted_proxies=["10.0.0.0/8"],
    ipv6_prefix=56,
    enabled=True,
)


@rate_limit("10/second; 120/minute")
def free(number: int, *, name: str = "") -> str:
    return name * number


@limiter.limit(lambda: "5/minute", cost=2, methods=["GET"], error_message="slowly")
def bound(number: int) -> dict[str, int]:
    return {"number": number}


@limiter.shared_limit("5/minute", scope=lambda endpoint: endpoint.upper())
def shared(number: int) -> int:
    return number


@rate_limit("5/minute")
async def asynchronous(number: int) -> str:
    return str(number)


@limiter.exempt
def exempt(number: int) -> str:
    return str(number)


@limiter.exempt(flags=ExemptionScope.APPLICATION | ExemptionScope.DEFAULT)
def partly_exempt(number: int) -> str:
    return str(number)


@limiter.request_filter
def from_inside() -> bool:
    return False


class Item:
    @limiter.limit("5/minute", deduct_when=lambda response: response.status_code == 200)
    def get(self, number: int) -> str:
        return str(number)

    @rate_limit("5/minute")
    async def post(self, number: int) -> bytes:
        return bytes(number)


def on_breach(decision: Decision) -> Response | None:
    return Response(str(decision.retry_after))


assert_type(free(1, name="a"), str)
assert_type(bound(1), dict[str, int])
assert_type(shared(1), int)
assert_type(exempt(1), str)
assert_type(partly_exempt(1), str)
assert_type(from_inside(), bool)
assert_type(Item().get(1), str)
assert_type(limiter.current_decision, Decision | None)
assert_type(limiter.enabled, bool)
assert_type(get_identifiers(), list[str])
assert_type(limiter.limit("1/minute")(pages), Blueprint)
assert_type(limiter.shared_limit("1/minute", "scope")(pages), Blueprint)
assert_type(limiter.exempt(pages), Blueprint)


def handler(error: RateLimitExceeded) -> str:
    assert_type(error.decision, Decision)
    return str(error.description)


async def coroutines() -> None:
    assert_type(await asynchronous(1), str)
    assert_type(await Item().post(1), bytes)
    await asynchronous("one")  # type: ignore[arg-type]


def blocks() -> None:
    with limiter.limit("5/minute", on_breach=on_breach), rate_limit("5/minute"), limiter.disabled():
        pass


free("one")  # type: ignore[arg-type]
free(1, title="a")  # type: ignore[call-arg]
shared()  # type: ignore[call-arg]
Item().get("one")  # type: ignore[arg-type]
limiter.limit("5/minute", costs=2)  # type: ignore[call-arg]
RateLimit(app=app, key_func=lambda: "me", headers=None)
RateLimit(storage_uri="memory://")  # type: ignore[call-arg]
RateLimit(shadow="yes")  # type: ignore[arg-type]
RateLimit(lambda: "me")  # type: ignore[arg-type]
limit = limiter.current_limit  # type: ignore[attr-defined]


def old_handler(error: RateLimitExceeded) -> object:
    return error.limit  # type: ignore[attr-defined]
