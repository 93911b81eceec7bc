"""What would limit nothing says so: dependencies that are called, RateLimits without an app."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
from fastapi import APIRouter, Depends, FastAPI, WebSocket
from fastapi.testclient import TestClient
from starlette.applications import Starlette
from starlette.routing import Mount

from overlimit.fastapi import RateLimit
from overlimit.fastapi.extension import Keywords
from programs import output_of


def test_a_dependency_that_is_called_by_hand_raises_and_says_how_messages_are_limited(site):
    per_message = site.limiter.dependency("1/minute")
    raised = []

    @site.app.websocket("/chat")
    async def chat(websocket: WebSocket) -> None:
        await websocket.accept()
        for call in (lambda: per_message(websocket), lambda: per_message(connection=websocket), per_message):
            with pytest.raises(TypeError) as error:
                await call()
            raised.append(str(error.value))
        await websocket.close()

    with TestClient(site.app).websocket_connect("/chat"):
        pass
    assert len(raised) == 3
    for message in raised:
        assert "Depends(limiter.dependency(" in message
        assert "AsyncLimiter" in message
        assert "message_limits" in message


def test_a_dependency_is_no_decorator_and_does_not_stand_by_itself(site):
    def index() -> None: ...

    with pytest.raises(TypeError, match=r"does not decorate .*index\(\): write @limiter\.limit\("):
        site.limiter.dependency("1/minute")(index)
    limits = [site.limiter.dependency("1/minute")]
    for add in (site.app.get, APIRouter(dependencies=limits).get, FastAPI(dependencies=limits).get):
        own = {"dependencies": limits} if add == site.app.get else {}
        with pytest.raises(TypeError, match=r"write dependencies=\[Depends\(limiter\.dependency\("):
            add("/", **own)(index)
    site.app.get("/", dependencies=[Depends(limits[0])])(index)
    assert site.statuses("/", 2) == [200, 429]


@pytest.mark.parametrize("method", ["limit", "dependency", "shared_dependency"])
def test_a_method_that_is_not_called_says_what_depends_takes(site, method):
    with pytest.raises(TypeError, match=r"write Depends\(limiter\.dependency\('5/minute'\)\)"):
        site.app.get("/", dependencies=[Depends(getattr(site.limiter, method))])(lambda: None)


@pytest.mark.parametrize("method", ["limit", "dependency"])
def test_more_limits_by_position_are_an_error_that_says_what_to_write(site, method):
    with pytest.raises(TypeError, match="one text, as '5/minute; 100/hour', and options by name"):
        getattr(site.limiter, method)("5/minute", "100/hour")


def test_routes_with_limits_of_a_ratelimit_without_an_app_fail_instead_of_being_unlimited():
    limiter = RateLimit()
    app, other = FastAPI(), FastAPI()

    @app.get("/limited")
    @limiter.limit("1/minute")
    def limited() -> None: ...

    @app.get("/free")
    def free() -> None: ...

    other.get("/free")(free)
    client = TestClient(app)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"call init_app\(app\) on it"):
            client.get("/limited")
    assert TestClient(app, raise_server_exceptions=False).get("/limited").status_code == 500
    assert [each.get("/free").status_code for each in (client, TestClient(other))] == [200, 200]


def test_fastapi_is_as_it_was_before_the_first_limit_on_a_function():
    program = """
from fastapi import Depends, FastAPI
from fastapi.testclient import TestClient
build = FastAPI.build_middleware_stack
from overlimit.fastapi import RateLimit
app = FastAPI()
limiter = RateLimit(app, default_limits="1/minute")
app.get("/", dependencies=[Depends(limiter.dependency("5/minute"))])(lambda: "ok")
print(TestClient(app).get("/").status_code, FastAPI.build_middleware_stack is build)
limit = limiter.limit("5/minute")
print(FastAPI.build_middleware_stack is build)
app.get("/limited")(limit(lambda: "ok"))
print(FastAPI.build_middleware_stack is build)
"""
    assert output_of(program).splitlines() == ["200 True", "True", "False"]


@pytest.mark.parametrize("has_one_of_its_own", [False, True])
def test_a_route_with_a_limit_of_the_ratelimit_of_a_mounted_app_fails_instead_of_being_unlimited(
    caplog, has_one_of_its_own
):
    app, inner = FastAPI(title="shop"), FastAPI(title="api")
    limiter = RateLimit(inner, algorithm="fixed_window")
    if has_one_of_its_own:
        RateLimit(app)
    inner.get("/")(limiter.limit("1/minute")(lambda: "inner"))
    app.get("/outer")(limiter.limit("1/minute")(lambda: "outer"))
    app.get("/free")(lambda: "free")
    app.mount("/api", inner)
    client = TestClient(app)
    for _ in range(2):
        with pytest.raises(
            RuntimeError, match=r"RateLimit that this app does not have, but .* \('api'\): call"
        ):
            client.get("/outer")
    assert [client.get("/api/").status_code for _ in range(2)] == [200, 429]
    assert [client.get("/free").status_code for _ in range(2)] == [200, 200]
    assert "if it is called by another app, add the RateLimit to that one, too" in caplog.text


class Around:
    """Middleware that does not keep its app where it is looked for."""

    def __init__(self, inner):
        self.inner = inner

    async def __call__(self, *asked):
        await self.inner(*asked)


@pytest.mark.parametrize("outer_has_it", [None, False, True], ids=["none", "another", "this one"])
@pytest.mark.parametrize("is_deep", [False, True], ids=["directly", "in Starlette"])
@pytest.mark.parametrize("served_before", [False, True], ids=["", "served before"])
@pytest.mark.parametrize("decorates", [False, True], ids=["dependency", "decorator"])
def test_limits_in_an_app_that_is_hidden_where_it_is_mounted_fail_instead_of_being_unlimited(
    outer_has_it, is_deep, served_before, decorates
):
    limiter, app, inner = RateLimit(), FastAPI(), FastAPI()
    inner.get("/free")(lambda: "free")
    inner.get("/d", dependencies=[Depends(limiter.dependency("1/minute"))])(lambda: "ok")
    if decorates:
        inner.get("/l")(limiter.limit("1/minute")(lambda: "ok"))
    if outer_has_it is not None:
        (limiter if outer_has_it else RateLimit()).init_app(app)
    mounted = Starlette(routes=[Mount("/deep", app=inner)]) if is_deep else inner
    app.mount("/hidden", Around(mounted))
    prefix = "/hidden/deep" if is_deep else "/hidden"
    for client, path in [(TestClient(inner), "")] * served_before + [(TestClient(app), prefix)]:
        for _ in range(2):
            with pytest.raises(RuntimeError, match=r"call init_app\(app\)"):
                client.get(f"{path}/d")
        if decorates:
            with pytest.raises(RuntimeError, match=r"call init_app\(app\)"):
                client.get(f"{path}/l")
        assert [client.get(f"{path}/free").status_code for _ in range(2)] == [200, 200]


def test_an_app_that_is_limited_where_it_is_mounted_fails_where_it_is_served_by_itself():
    app, inner = FastAPI(), FastAPI()
    limiter = RateLimit(app, algorithm="fixed_window")
    inner.get("/")(limiter.limit("1/minute")(lambda: "ok"))
    app.mount("/inner", inner)
    client = TestClient(app)
    assert [client.get("/inner/").status_code for _ in range(2)] == [200, 429]
    with pytest.raises(RuntimeError, match=r"is limited, but its app has no RateLimit, .* as self\.app"):
        TestClient(inner).get("/")


def test_a_request_in_a_hidden_app_is_settled_with_the_app_around_it():
    app, inner = FastAPI(), FastAPI()
    limiter = RateLimit(app, application_limits="10/minute", application_limits_cost=5)

    @inner.get("/")
    async def index() -> int:
        await limiter.asettle(2)
        return limiter.current_decision.remaining

    app.get("/limited")(limiter.limit("1/minute")(lambda: "ok"))
    app.mount("/hidden", Around(inner))
    client = TestClient(app)
    assert [client.get("/hidden/").json() for _ in range(3)] == [5, 3, 1]


def test_apps_of_a_ratelimit_that_gets_them_later_are_limited_also_those_that_are_mounted():
    limiter = RateLimit(algorithm="fixed_window")
    waiting = RateLimit()
    waiting.limit("1/minute")(lambda: None)
    app, mounted = FastAPI(), FastAPI()

    @mounted.get("/")
    @limiter.limit("1/minute")
    def index() -> None: ...

    app.mount("/v1", mounted)
    limiter.init_app(app)
    client = TestClient(app)
    assert [client.get("/v1/").status_code for _ in range(3)] == [200, 429, 429]


def test_a_function_of_limits_that_takes_a_key_is_an_error_where_it_is_written(site):
    def limits_of(key: str) -> str:
        return "1/minute"

    for write in (
        lambda: site.limiter.limit(limits_of),
        lambda: site.limiter.dependency(["5/minute", limits_of]),
        lambda: RateLimit(default_limits=limits_of),
        lambda: RateLimit(application_limits=[limits_of]),
    ):
        with pytest.raises(TypeError, match=r"limits_of\(\) has a parameter 'key'.* def limits\(request\)"):
            write()
    site.app.get("/")(site.limiter.limit(lambda request, key="1/minute": key)(lambda: None))
    assert site.statuses("/", 2) == [200, 429]


def test_a_decorator_without_parentheses_above_that_of_the_route_is_named_in_the_log(site, caplog):
    @site.limiter.limit
    @site.app.get("/")
    async def index() -> None: ...

    named = site.limiter.limit(lambda: "1/minute")
    site.app.get("/named")(named(lambda: None))
    with caplog.at_level(logging.WARNING, logger="overlimit"):
        assert site.statuses("/", 2) == [200, 200]
        assert site.statuses("/named", 2) == [200, 429]
    (record,) = caplog.records
    assert re.search(
        r"index\(\) is not limited: .* @limiter.limit\('5/minute'\) above it", record.getMessage()
    )
    assert callable(index)


@pytest.mark.parametrize("target", [APIRouter(), FastAPI(), FastAPI, "index"])
def test_what_is_no_path_function_cannot_be_exempt(site, target):
    with pytest.raises(TypeError, match=r"only a path function can be exempt, .*@limiter.exempt above each"):
        site.limiter.exempt(target)


def test_a_limited_method_that_is_a_path_function_is_not_called_lost(site, caplog):
    class Items:
        @site.limiter.limit("1/minute")
        def get(self) -> int:
            return 7

    site.app.add_api_route("/items", Items().get)
    assert site.statuses("/items", 2) == [200, 429]
    assert [each for each in caplog.records if "holds for no request" in each.message] == []


def test_the_reference_lists_all_options_of_a_ratelimit_and_no_others():
    page = (Path(__file__).parents[3] / "docs/reference/web.md").read_text(encoding="utf-8")
    table = page.partition("## Options")[2].partition("\nOf one limit")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    listed = {name.strip(" `") for row in rows for name in row.split(",")}
    assert listed == set(Keywords.__annotations__) - {"app"}


def test_a_dependency_as_the_default_of_a_parameter_says_what_to_write(site):
    given = site.limiter.dependency("1/minute")

    @site.app.get("/")
    def index(limited=given): ...

    with pytest.raises(TypeError, match=r"by itself: write Depends\(limiter\.dependency\("):
        TestClient(site.app).get("/")
