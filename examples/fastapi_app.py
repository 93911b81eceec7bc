"""A small FastAPI app under rate limits: decorators, a limited router, a websocket, one decision per request.

Run it with ``uvicorn --app-dir examples fastapi_app:app``. ``OVERLIMIT_STORE`` says where the counts live
(default: this process), ``OVERLIMIT_PREFIX`` keeps apps on one store apart.
"""

from __future__ import annotations

import os
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, Header, Request, Response, WebSocket
from fastapi.responses import JSONResponse

from overlimit.fastapi import RateLimit, RateLimitExceeded, get_address

app = FastAPI(title="overlimit")


def load_user(request: Request, x_user: Annotated[str | None, Header()] = None) -> str:
    """For this demo only: anybody can send this header. A real app takes the user from its login."""
    request.scope["user"] = x_user
    return x_user or "stranger"


User = Annotated[str, Depends(load_user)]

limiter = RateLimit(
    app,
    application_limits="2000/minute",
    store=os.environ.get("OVERLIMIT_STORE", "memory://"),
    key_prefix=os.environ.get("OVERLIMIT_PREFIX", ""),
)


@app.get("/hello")
@limiter.limit("10/second; 120/minute; 240/hour")
async def hello(user: User) -> dict[str, object]:
    """Limited for the address and, if somebody is logged in, for the user: whoever comes from where."""
    decision = limiter.current_decision
    return {"hello": user, "remaining": None if decision is None else decision.remaining}


@app.post("/report")
@limiter.limit("60/minute", cost=5)
def report(user: User) -> dict[str, str]:
    """Cost as much as five others; as it is no coroutine function, it runs in a thread."""
    return {"report": user}


@app.post("/login")
@limiter.limit("3/minute", identifiers=get_address, deduct_when=lambda response: response.status_code == 401)
def login(password: str, response: Response) -> dict[str, bool]:
    """Only failures count, so nobody is locked out by logging in often."""
    is_right = password == "open sesame"
    response.status_code = 200 if is_right else 401
    return {"welcome": is_right}


partners = APIRouter(prefix="/partners", dependencies=[Depends(limiter.dependency("5/minute"))])


@partners.get("/prices")
async def prices() -> list[float]:
    return [1.0, 2.5]


@partners.get("/stock")
async def stock() -> dict[str, int]:
    return {"apples": 7}


app.include_router(partners)


@app.websocket("/talk")
@limiter.limit("2/minute")
async def talk(websocket: WebSocket) -> None:
    await websocket.accept()
    async for text in websocket.iter_text():
        await websocket.send_text(text.upper())


@app.get("/health")
@limiter.exempt
async def health() -> dict[str, str]:
    return {"status": "ok"}


@app.exception_handler(RateLimitExceeded)
async def too_many_requests(request: Request, refusal: RateLimitExceeded) -> JSONResponse:
    """Answer in a format of its own; the header fields come by themselves."""
    decision = refusal.decision
    content = {"error": refusal.detail, "identifier": decision.identifier, "status": decision.status}
    return JSONResponse(content, refusal.status_code)
