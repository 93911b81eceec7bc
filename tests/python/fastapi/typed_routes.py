"""An app as its author's type checker sees it; nothing here is run."""

from __future__ import annotations

from typing import assert_type

from fastapi import APIRouter, Depends, FastAPI, Request, WebSocket
from starlette.responses import PlainTextResponse

from overlimit import Decision, FixedWindow
from overlimit.asgi import RateLimitMiddleware, Response
from overlimit.fastapi import ExemptionScope, RateLimit, RateLimitExceeded, by_header, get_identifiers

app = FastAPI()


async def limits_of(request: Request) -> str:
    return "5/minute"


async def cost_of() -> int:
    return 2


async def counts(response: Response) -> bool:
    return response.status_code == 200


limiter = RateLimit(
    app,
    default_limits=["100/minute", FixedWindow(9, per=60), lambda: "5/hour"],
    default_limits_cost=cost_of,
    application_limits=limits_of,
    application_limits_deduct_when=counts,
    meta_limits="9/hour",
    store="redis://localhost:6379/0",
    identifiers=[get_identifiers, by_header("X-Key")],
    headers="both",
    on_error="deny",
    trusted_proxies=["10.0.0.0/8"],
    before_validation=True,
)


@app.get("/asynchronous")
@limiter.limit("5/minute", cost=cost_of, before_validation=False)
async def asynchronous(number: int, *, name: str = "") -> str:
    return name * number


@app.get("/synchronous")
@limiter.limit(limits_of, methods=["GET"], scope=lambda endpoint, request: request.url.path)
def synchronous(number: int) -> dict[str, int]:
    return {"number": number}


@limiter.shared_limit("5/minute", scope="all")
def shared(number: int) -> int:
    return number


@limiter.exempt
def exempt(number: int) -> str:
    return str(number)


@limiter.exempt(flags=ExemptionScope.APPLICATION)
async def partly_exempt(number: int) -> str:
    return str(number)


@limiter.request_filter
async def from_inside(request: Request) -> bool:
    return request.client is None


@app.websocket("/talk")
@limiter.limit("5/minute")
async def talk(websocket: WebSocket) -> None:
    await websocket.accept()


async def on_breach(decision: Decision, request: Request) -> PlainTextResponse | None:
    return PlainTextResponse(str(decision.retry_after))


router = APIRouter(dependencies=[Depends(limiter.dependency("5/minute", on_breach=on_breach))])
router.get("/", dependencies=[Depends(limiter.shared_dependency("5/minute", "both"))])(shared)

assert_type(synchronous(1), dict[str, int])
assert_type(shared(1), int)
assert_type(exempt(1), str)
assert_type(limiter.current_decision, Decision | None)
assert_type(limiter.enabled, bool)


async def coroutines(request: Request) -> None:
    assert_type(await asynchronous(1, name="a"), str)
    assert_type(await partly_exempt(1), str)
    assert_type(await from_inside(request), bool)
    assert_type(get_identifiers(request), list[str])
    await asynchronous("one")  # type: ignore[arg-type]


@app.exception_handler(RateLimitExceeded)
async def handler(request: Request, error: RateLimitExceeded) -> PlainTextResponse:
    assert_type(error.decision, Decision)
    return PlainTextResponse(error.detail, error.status_code)


synchronous("one")  # type: ignore[arg-type]
synchronous(1, title="a")  # type: ignore[call-arg]
limiter.limit("5/minute", costs=2)  # type: ignore[call-arg]
limiter.dependency("5/minute", scope=5)  # type: ignore[arg-type]
RateLimit(app=app, key_func=lambda request: "me", headers=None)
RateLimit(storage_uri="memory://")  # type: ignore[call-arg]
RateLimit(lambda: "me")  # type: ignore[arg-type]

wrapped = RateLimitMiddleware(
    app, limits=limits_of, cost=cost_of, deduct_when=counts, message_limits="5/second", exempt=["/health"]
)
app.add_middleware(RateLimitMiddleware, limits="5/minute")
RateLimitMiddleware(app, limits="5/minute", costs=2)  # type: ignore[call-arg]
