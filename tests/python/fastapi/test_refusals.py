"""What a refused request gets, who sees it, and what OpenAPI says of it: docs/reference/fastapi.md."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.applications import Starlette
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware

import overlimit
from asgi_sites import AsgiSite
from overlimit.aio import AsyncLimiter
from overlimit.fastapi import RateLimit, RateLimitExceeded


def limited(site, limits="1/minute", **options):
    @site.app.get("/")
    @site.limiter.limit(limits, **options)
    async def index() -> None: ...

    return site


@pytest.mark.parametrize("key", [RateLimitExceeded, StarletteHTTPException, 429])
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
def test_a_handler_of_the_app_sees_it(site, key, is_async):
    async def handle(request: Request, error: RateLimitExceeded) -> JSONResponse:
        return JSONResponse({"limit": error.decision.limit.quota, "detail": error.detail}, error.status_code)

    def handle_in_thread(request: Request, error: RateLimitExceeded) -> JSONResponse:
        return JSONResponse({"limit": error.decision.limit.quota, "detail": error.detail}, error.status_code)

    site.app.add_exception_handler(key, handle if is_async else handle_in_thread)
    limited(site, error_message="slowly")
    site.ask("/")
    refusal = site.ask("/")
    assert (refusal.status_code, refusal.json()) == (429, {"limit": 1, "detail": "slowly"})
    assert (refusal.headers["Retry-After"], refusal.headers["RateLimit"]) == ("60", '"index";r=0;t=60')


def test_no_handler_is_asked_where_on_breach_answers(site):
    @site.app.exception_handler(429)
    async def unused(request: Request, error: Exception) -> None:
        raise AssertionError

    limited(site, on_breach=lambda decision, request: PlainTextResponse(request.url.path, 429))
    site.ask("/")
    refusal = site.ask("/")
    assert (refusal.status_code, refusal.text, refusal.headers["Retry-After"]) == (429, "/", "60")


def test_fields_are_on_what_handlers_of_exceptions_answer(site):
    class OwnError(Exception): ...

    @site.app.exception_handler(OwnError)
    async def own(request: Request, error: OwnError) -> PlainTextResponse:
        return PlainTextResponse("own", 418)

    for path, raised in (("/http", HTTPException(403)), ("/own", OwnError())):

        @site.app.get(path, name=path)
        @site.limiter.limit("5/minute", name=path.strip("/"))
        def fail(raised=raised) -> None:
            raise raised

        del fail

    async def failing() -> None:
        raise RequestValidationError([])

    site.app.get("/invalid")(site.limiter.limit("5/minute")(failing))
    answers = [site.ask(path) for path in ("/http", "/own", "/invalid")]
    assert [answer.status_code for answer in answers] == [403, 418, 422]
    assert all(answer.headers["RateLimit"].endswith(";r=4;t=60") for answer in answers)


def test_a_middleware_around_it_sees_the_decision_in_the_scope(site):
    class Around(BaseHTTPMiddleware):
        async def dispatch(self, request, call_next):
            response = await call_next(request)
            response.headers["X-Decided"] = str(request.scope["overlimit.decision"].remaining)
            return response

    site.app.add_middleware(Around)
    limited(site, "5/minute")
    answer = site.ask("/")
    assert (answer.headers["X-Decided"], answer.headers["RateLimit"]) == ("4", '"index";r=4;t=60')


def test_middleware_of_starlette_around_it_treats_refusals_as_other_responses(site):
    site.app.add_middleware(GZipMiddleware, minimum_size=10)
    site.app.add_middleware(CORSMiddleware, allow_origins=["https://other.example"])

    @site.app.get("/")
    @site.limiter.limit("1/minute")
    async def index() -> str:
        return "x" * 1000

    asking = {"Origin": "https://other.example"}
    preflight = asking | {"Access-Control-Request-Method": "GET"}
    for status in (200, 429, 429):
        assert site.statuses("/", 2, method="OPTIONS", headers=preflight) == [200, 200]
        answer = site.ask("/", headers=asking)
        assert answer.status_code == status
        assert answer.headers["Access-Control-Allow-Origin"] == "https://other.example"
        assert answer.headers["Content-Encoding"] == "gzip"
        assert answer.headers["RateLimit"] == '"index";r=0;t=60'
    assert answer.json()["violated-policies"] == ["index"]


@pytest.mark.parametrize("status", [429, 503])
def test_what_a_path_function_says_of_another_service_is_left_as_it_is(site, status):
    @site.app.get("/")
    @site.limiter.limit("9/minute")
    def index() -> None:
        raise HTTPException(status, headers={"Retry-After": "3000"})

    answer = site.ask("/")
    assert (answer.status_code, answer.headers["Retry-After"]) == (status, "3000")
    assert answer.headers["RateLimit"] == '"index";r=8;t=60'


def test_openapi_says_what_a_refusal_is(make_site):
    site = limited(make_site(headers="both"))

    @site.app.get("/free")
    async def free() -> None: ...

    @site.app.get("/depends/{number}", dependencies=[Depends(site.limiter.dependency("1/minute"))])
    async def depends(number: int) -> None: ...

    @site.app.get("/own", responses={429: {"description": "Own"}})
    @site.limiter.limit("1/minute")
    async def own() -> None: ...

    paths = site.app.openapi()["paths"]
    response = paths["/"]["get"]["responses"]["429"]
    assert set(response["headers"]) == {
        *("RateLimit", "RateLimit-Policy", "Retry-After"),
        *("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"),
    }
    assert "application/problem+json" in response["content"]
    assert paths["/depends/{number}"]["get"]["responses"]["429"] == response
    assert [each["name"] for each in paths["/depends/{number}"]["get"]["parameters"]] == ["number"]
    assert "parameters" not in paths["/"]["get"], "a limit asks for none"
    assert "429" not in paths["/free"]["get"]["responses"]
    assert paths["/own"]["get"]["responses"]["429"]["description"] == "Own"
    assert site.ask("/openapi.json").json()["paths"] == paths


def test_openapi_of_included_routers_and_default_limits(make_site):
    from fastapi import APIRouter

    site = make_site(default_limits="1/minute", headers=None)
    router = APIRouter()
    router.get("/read")(lambda: None)
    site.app.include_router(router, prefix="/api")
    response = site.app.openapi()["paths"]["/api/read"]["get"]["responses"]["429"]
    assert set(response["headers"]) == {"Retry-After"}


def test_openapi_of_a_mounted_app(site):
    inner = FastAPI()
    inner.get("/read")(site.limiter.limit("1/minute")(lambda: None))
    site.app.mount("/inner", inner)
    described = site.ask("/inner/openapi.json").json()["paths"]["/read"]["get"]["responses"]
    assert "RateLimit" in described["429"]["headers"]


@pytest.mark.parametrize("is_outside", [True, False])
@pytest.mark.parametrize("before_validation", [False, True])
def test_a_browser_of_another_origin_reads_a_refusal_wherever_cors_is(is_outside, before_validation, clock):
    app, shop = FastAPI(), "https://shop.example"
    cors = {"allow_origins": [shop], "expose_headers": ["RateLimit", "RateLimit-Policy", "Retry-After"]}
    if not is_outside:
        app.add_middleware(CORSMiddleware, **cors)
    RateLimit(app, default_limits="1/minute", clock=clock, before_validation=before_validation)
    if is_outside:
        app.add_middleware(CORSMiddleware, **cors)
    app.get("/")(lambda: None)
    site = AsgiSite(app)
    asking = {"Origin": shop, "Access-Control-Request-Method": "GET"}
    assert site.statuses("/", 3, method="OPTIONS", headers=asking) == [200] * 3
    answers = [site.ask("/", headers={"Origin": shop}) for _ in range(2)]
    assert [each.status_code for each in answers] == [200, 429]
    for answer in answers:
        assert answer.headers["Access-Control-Allow-Origin"] == shop
        exposed = answer.headers["Access-Control-Expose-Headers"].split(", ")
        assert {name for name in exposed if name in answer.headers} >= {"RateLimit", "RateLimit-Policy"}
    assert "Retry-After" in exposed
    assert "Retry-After" in answers[1].headers
    site.close()


class Slow(overlimit.RateLimitExceeded):
    """One of the app's own."""


HANDLERS = [
    429,
    RateLimitExceeded,
    overlimit.RateLimitExceeded,
    overlimit.OverlimitError,
    StarletteHTTPException,
]


@pytest.mark.parametrize("raised", [overlimit.RateLimitExceeded, Slow, RateLimitExceeded])
@pytest.mark.parametrize("key", [*HANDLERS, Slow])
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
def test_handlers_of_the_app_see_what_its_own_limiters_refuse(site, clock, raised, key, is_async):
    own, seen = AsyncLimiter("1/minute", name="own", clock=clock, algorithm="fixed_window"), []

    def handle_in_thread(request: Request, error: Any) -> PlainTextResponse:
        seen.append(error.decision.limit.quota)
        return PlainTextResponse("handled", 429)

    async def handle(request: Request, error: Any) -> PlainTextResponse:
        return handle_in_thread(request, error)

    @site.app.get("/")
    async def index() -> str:
        decision = await own.hit("somebody")
        if not decision:
            raise raised(decision)
        return "ok"

    site.app.add_exception_handler(key, handle if is_async else handle_in_thread)
    assert site.ask("/").status_code == 200
    refusal = site.ask("/")
    is_handled = key is not Slow or raised is Slow
    assert (refusal.status_code, refusal.text == "handled") == (429, is_handled)
    assert seen == [1] * is_handled
    assert (refusal.headers["Retry-After"], refusal.headers["RateLimit"]) == ("60", '"own";r=0;t=60')


@pytest.mark.parametrize("kind", [FastAPI, Starlette])
def test_a_handler_of_a_mounted_app_answers_what_an_error_handler_or_an_exempt_function_refuses(
    site, clock, kind
):
    own = overlimit.Limiter("1/minute", name="own", clock=clock, algorithm="fixed_window")
    own.hit("somebody")

    @site.limiter.exempt
    def refuse(request: Request, error: Any = None) -> None:
        raise RateLimitExceeded(own.hit("somebody"))

    def fail(request: Request) -> None:
        raise KeyError

    def answer(request: Request, error: Any) -> PlainTextResponse:
        return PlainTextResponse("handled", error.status_code)

    inner = kind(exception_handlers={RateLimitExceeded: answer, 404: answer, KeyError: refuse})
    inner.add_route("/exempt", refuse)
    inner.add_route("/fails", fail)
    site.app.mount("/inner", inner)
    for path in ("/inner/exempt", "/inner/fails"):
        refusal = site.ask(path)
        assert (refusal.status_code, refusal.text) == (429, "handled")
        assert (refusal.headers["Retry-After"], refusal.headers["RateLimit"]) == ("60", '"own";r=0;t=60')
    assert (site.ask("/inner/").text, site.items("/inner/")) == ("handled", {})


def test_an_app_that_is_mounted_and_its_dependencies_may_refuse_too(site, clock):
    own, inner = overlimit.Limiter("1/minute", name="own", clock=clock), FastAPI()

    def spend() -> None:
        own.throttle("somebody", timeout=0)(lambda: None)()

    inner.get("/", dependencies=[Depends(spend)])(lambda: "ok")
    site.app.mount("/inner", inner)
    site.app.get("/")(site.limiter.limit("9/minute")(lambda: "ok"))
    assert site.statuses("/inner/", 3) == [200, 429, 429]
    assert site.ask("/inner/").json()["violated-policies"] == ["own"]


def test_a_limit_on_an_error_handler_is_warned_of(site, caplog):
    site.app.get("/")(lambda: "ok")

    @site.app.exception_handler(404)
    @site.limiter.limit("1/minute")
    async def not_found(request: Request, error: Exception) -> PlainTextResponse:
        return PlainTextResponse("nowhere", 404)

    assert site.statuses("/nowhere", 2) == [404, 404]
    assert "not_found() holds for no request" in caplog.text
