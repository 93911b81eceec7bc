"""``Depends(limiter.dependency(...))``, routers, and apps that are mounted: docs/reference/fastapi.md."""

from __future__ import annotations

import logging

import pytest
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request
from fastapi.routing import APIRoute
from starlette.endpoints import HTTPEndpoint
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route, Router

from asgi_sites import AsgiSite
from overlimit.fastapi import RateLimit, by_user


def test_a_dependency_of_a_route_joins_its_one_call(site, store_calls):
    per_minute = Depends(site.limiter.dependency("3/minute", name="dependency"))

    @site.app.get("/", dependencies=[per_minute])
    @site.limiter.limit("5/hour", name="decorator")
    def index() -> None: ...

    assert site.items("/") == {"decorator": 4, "dependency": 2}
    assert [len(charges) for charges in store_calls] == [2]
    assert site.statuses("/", 3) == [200, 200, 429]
    assert site.items("/") == {"decorator": 2, "dependency": 0}


@pytest.mark.parametrize("where", ["router", "include_router", "app", "nested"])
def test_a_dependency_limits_all_routes_below_it_each_by_itself(store, clock, where):
    limiter = RateLimit(store=store, clock=clock, algorithm="fixed_window")
    limited = [Depends(limiter.dependency("2/minute"))]
    app = FastAPI(dependencies=limited if where == "app" else [])
    limiter.init_app(app)
    router = APIRouter(prefix="/in", dependencies=limited if where == "router" else [])

    @router.get("/a")
    async def a() -> str:
        return "a"

    @router.get("/b")
    def b() -> str:
        return "b"

    outer = APIRouter(prefix="/out", dependencies=limited if where == "nested" else [])
    outer.include_router(router)
    app.include_router(outer, prefix="/api", dependencies=limited if where == "include_router" else [])

    @app.get("/elsewhere")
    async def elsewhere() -> None: ...

    site = AsgiSite(app)
    assert site.statuses("/api/out/in/a", 3) + site.statuses("/api/out/in/b", 3) == [200, 200, 429] * 2
    assert site.statuses("/elsewhere", 3)[2] == (429 if where == "app" else 200)
    site.close()


def test_a_decorated_dependency_limits_the_routes_that_depend_on_it(site):
    @site.limiter.limit("1/minute")
    def database() -> str:
        return "db"

    def session(db: str = Depends(database)) -> str:
        return db

    @site.app.get("/")
    async def index(db: str = Depends(session)) -> str:
        return db

    @site.app.get("/free")
    async def free() -> None: ...

    assert site.statuses("/", 2) + site.statuses("/free", 2) == [200, 429, 200, 200]


class Paging:
    def __init__(self, page: int = 1):
        self.page = page


def test_whom_a_dependency_turns_away_spends_nothing(site):
    def login(token: str) -> str:
        if token != "good":
            raise HTTPException(401)
        return token

    @site.app.get("/", dependencies=[Depends(site.limiter.dependency("1/minute"))])
    async def index(user: str = Depends(login), paging: Paging = Depends(Paging)) -> int:
        return paging.page

    assert site.statuses("/?token=bad", 5) == [401] * 5
    assert site.ask("/?token=good&page=7").json() == 7
    assert site.statuses("/?token=good") == [429]


def test_a_user_that_a_dependency_loads_is_known(site):
    loaded = []

    async def load(request: Request, token: str) -> None:
        loaded.append(token)
        request.scope["user"] = token.upper()

    @site.app.get("/", dependencies=[Depends(load)])
    @site.limiter.limit("1/minute", identifiers=by_user)
    def index() -> None: ...

    assert [site.ask(f"/?token={token}").status_code for token in "aba"] == [200, 200, 429]
    assert loaded == [*"aba"], "once in each request"


def test_what_a_dependency_has_opened_is_closed_when_the_limit_refuses(site):
    noted = []

    async def session():
        noted.append("opened")
        try:
            yield "session"
        finally:
            noted.append("closed")

    def synchronous(opened: str = Depends(session)):
        yield opened
        noted.append("ended")

    @site.app.get("/")
    @site.limiter.limit("1/minute")
    def index(opened: str = Depends(synchronous)) -> str:
        noted.append(opened)
        return opened

    assert site.statuses("/") == [200]
    assert noted == ["opened", "session", "ended", "closed"]
    noted.clear()
    assert site.statuses("/", 2) == [429, 429]
    assert noted == ["opened", "closed"] * 2


def test_one_dependency_in_several_places_of_a_route_is_one_hit(site, store_calls):
    per_minute = Depends(site.limiter.dependency("3/minute"))

    def inner(_: None = per_minute) -> int:
        return 1

    @site.app.get("/", dependencies=[per_minute])
    def index(given: int = Depends(inner), _: None = per_minute) -> int:
        return given

    assert site.statuses("/", 4) == [200, 200, 200, 429]
    assert [len(charges) for charges in store_calls] == [1] * 4


def test_shared_dependencies_count_together(site):
    both = Depends(site.limiter.shared_dependency("3/minute", "both"))
    for name in ("a", "b"):
        site.app.get(f"/{name}", dependencies=[both], name=name)(lambda: None)
    assert site.statuses("/a", 2) + site.statuses("/b", 2) == [200, 200, 200, 429]


def test_one_router_under_two_prefixes_counts_its_functions_together(site):
    router = APIRouter()

    @router.get("/read")
    @site.limiter.limit("2/minute")
    async def read() -> None: ...

    site.app.include_router(router, prefix="/v1")
    site.app.include_router(router, prefix="/v2")
    assert site.statuses("/v1/read", 2) + site.statuses("/v2/read", 1) == [200, 200, 429]


def test_routes_of_mounted_apps_are_limited(make_site):
    site = make_site(default_limits="2/minute", application_limits="9/minute")
    inner, innermost = FastAPI(), FastAPI()

    @inner.get("/own/{name}")
    @site.limiter.limit("1/minute", identifiers=lambda request: request.path_params["name"])
    def own(name: str) -> str:
        return name

    @innermost.get("/default")
    async def default() -> None: ...

    inner.mount("/innermost", innermost)
    site.app.mount("/inner", inner)
    site.app.mount("/plain", Router([Route("/text", lambda request: PlainTextResponse("text"))]))
    refused = [site.ask(f"/inner/own/{name}") for name in "aba"]
    assert [answer.status_code for answer in refused] == [200, 200, 429]
    assert refused[2].headers["Content-Type"] == "application/problem+json"
    assert refused[2].headers["RateLimit"].startswith('"own";r=0')
    assert site.statuses("/inner/innermost/default", 3) == [200, 200, 429]
    assert site.statuses("/plain/text", 3) == [200, 200, 429]


def test_a_mounted_app_may_have_limits_of_its_own(make_site):
    outer = make_site(default_limits="1/minute", key_prefix="outer")
    inner = make_site(default_limits="2/minute")
    inner.app.get("/")(lambda: None)
    outer.app.get("/")(lambda: None)
    outer.app.mount("/inner", inner.app)
    assert outer.statuses("/", 2) == [200, 429]
    assert outer.statuses("/inner/", 3) == [200, 200, 429]


def test_classes_and_functions_of_starlette_as_endpoints(make_site, caplog):
    site = make_site(default_limits="1/minute")

    class Item(HTTPEndpoint):
        @site.limiter.limit("2/minute")
        async def get(self, request):
            return PlainTextResponse("got")

        async def post(self, request):
            return PlainTextResponse("posted")

    site.app.add_route("/item", Item)
    site.app.add_route("/text", lambda request: PlainTextResponse("text"))
    assert site.statuses("/item", 2) + site.statuses("/item", method="HEAD") == [200, 200, 429]
    assert site.statuses("/item", 2, method="POST") == [200, 429]
    assert site.statuses("/text", 2) == [200, 429]
    assert "holds for no request" not in caplog.text


class Loud(APIRoute):
    """A route class of the user's own, as FastAPI documents them."""

    def get_route_handler(self):
        handler = super().get_route_handler()

        async def loud(request):
            response = await handler(request)
            response.headers["X-Loud"] = "yes"
            return response

        return loud


def test_route_classes_of_the_users_own(site):
    router = APIRouter(route_class=Loud)

    @router.get("/loud")
    @site.limiter.limit("1/minute")
    def loud() -> None: ...

    site.app.include_router(router)
    first = site.ask("/loud")
    assert (first.status_code, first.headers["X-Loud"], first.headers["RateLimit"]) == (
        200,
        "yes",
        '"loud";r=0;t=60',
    )
    assert site.statuses("/loud") == [429]


def test_routes_that_are_added_later_are_limited(make_site):
    site = make_site(default_limits="1/minute")
    router = APIRouter()
    router.get("/first")(lambda: None)
    site.app.include_router(router)
    assert site.statuses("/first", 2) == [200, 429]
    site.app.get("/second")(lambda: None)
    router.get("/third")(lambda: None)
    assert site.statuses("/second", 2) == [200, 429]
    assert site.statuses("/first") == [429]
    assert site.statuses("/third", 2) in ([200, 429], [404, 404])  # before FastAPI kept routers apart


def test_a_dependency_that_is_overridden_takes_its_limits_with_it(make_site):
    site = make_site()
    of_router = site.limiter.dependency("1/minute")

    @site.limiter.limit("1/hour")
    def limited() -> None: ...

    def needs(_=Depends(limited)) -> None: ...

    router = APIRouter(dependencies=[Depends(of_router)])
    router.get("/router")(lambda: None)
    site.app.include_router(router)
    site.app.get("/needs", dependencies=[Depends(needs)])(lambda: None)
    overrides = site.app.dependency_overrides
    for path, overridden in (("/router", of_router), ("/needs", limited), ("/needs", needs)):
        site.limiter.reset_all()
        assert site.statuses(path, 2) == [200, 429]
        overrides[overridden] = lambda: None
        assert site.statuses(path, 2) == [200, 200]
        del overrides[overridden]
        assert site.statuses(path) == [429]
    site.app.dependency_overrides = {needs: of_router}
    site.limiter.reset_all()
    assert site.statuses("/needs", 2) == [200, 429]
    site.app.dependency_overrides = {needs: lambda _=Depends(limited): None}
    site.limiter.reset_all()
    assert site.statuses("/needs", 2) == [200, 429]
    assert site.ask("/needs").headers["RateLimit-Policy"].endswith("w=3600")


def test_a_decorator_that_limits_nothing_is_named_in_the_log(site, caplog):
    def swallowing(function):
        async def other() -> int:
            return 1

        return other

    @site.app.get("/")
    @swallowing
    @site.limiter.limit("1/minute")
    async def lost() -> int:
        return 1

    with caplog.at_level(logging.WARNING, logger="overlimit"):
        assert site.statuses("/", 2) == [200, 200]
    (record,) = [each for each in caplog.records if "holds for no request" in each.getMessage()]
    assert lost.__name__ == "other"
    assert "lost()" in record.getMessage()


def test_an_app_that_was_started_cannot_be_limited_any_more():
    app = FastAPI()
    site = AsgiSite(app)
    site.ask("/")
    site.close()
    with pytest.raises(RuntimeError, match="before the app is started"):
        RateLimit(app)
    with pytest.raises(TypeError, match="init_app takes the FastAPI app"):
        RateLimit().init_app(Mount("/", app))


def test_several_ratelimits_of_one_app_are_asked_together(make_site, store_calls):
    site = make_site(default_limits="9/minute")
    second = RateLimit(
        site.app,
        application_limits="2/minute",
        store=site.limiter._settings.options["store"],
        clock=site.limiter._settings.options["clock"],
        algorithm="fixed_window",
    )
    site.app.get("/")(lambda: None)
    assert site.statuses("/", 3) == [200, 200, 429]
    assert [len(charges) for charges in store_calls] == [2, 2, 2]
    second.enabled = False
    assert site.statuses("/", 1) == [200]
