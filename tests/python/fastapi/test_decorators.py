"""``@limiter.limit`` and its relatives on path functions: docs/reference/fastapi.md."""

from __future__ import annotations

import threading
from functools import partial, wraps
from urllib.parse import quote

import pytest
from fastapi import APIRouter, Depends, FastAPI, Request

from asgi_sites import AsgiSite
from overlimit import InvalidLimit
from overlimit.fastapi import ExemptionScope, RateLimit, by_cookie, by_header, by_json, by_path_parameter
from overlimit.http.rules.applied_limits import applied_limits_above


def test_neither_kind_of_path_function_asks_for_a_request(site):
    threads = []

    @site.app.get("/async")
    @site.limiter.limit("2/minute")
    async def asynchronous(number: int = 1) -> dict[str, int]:
        threads.append(threading.current_thread() is threading.main_thread())
        return {"number": number}

    @site.app.get("/sync")
    @site.limiter.limit("2/minute")
    def synchronous(number: int = 1) -> dict[str, int]:
        threads.append(threading.current_thread() is threading.main_thread())
        return {"number": number}

    for path in ("/async", "/sync"):
        assert site.ask(f"{path}?number=5").json() == {"number": 5}
        assert site.statuses(path, 3) == [200, 429, 429]
    assert threads == [True, True, False, False]
    assert synchronous(7) == {"number": 7}
    assert site.run(asynchronous(7)) == {"number": 7}


def test_the_order_of_the_decorators_does_not_matter(site):
    @site.limiter.limit("1/minute")
    @site.app.get("/above")
    async def above() -> None: ...

    def doubled(function):
        @wraps(function)
        async def wrapper():
            return [await function()] * 2

        return wrapper

    @site.app.get("/below-a-wrapper")
    @doubled
    @site.limiter.limit("1/minute")
    async def below_a_wrapper():
        return 1

    @site.limiter.limit("1/minute")
    @doubled
    @site.app.get("/above-a-wrapper")
    async def above_a_wrapper():
        return 1

    for path in ("/above", "/below-a-wrapper", "/above-a-wrapper"):
        assert site.statuses(path, 2) == [200, 429], path


def test_the_pages_of_fastapi_itself_are_not_limited(make_site):
    site = make_site(default_limits="1/minute", application_limits="1/minute")
    assert site.statuses("/docs", 2) + site.statuses("/openapi.json", 2) == [200] * 4


def test_it_is_decided_after_dependencies_and_validation_so_a_422_is_free(site):
    @site.app.get("/")
    @site.limiter.limit("1/minute")
    async def index(number: int) -> int:
        return number

    invalid = [site.ask("/?number=x") for _ in range(3)]
    assert [answer.status_code for answer in invalid] == [422] * 3
    assert "RateLimit" not in invalid[0].headers
    assert site.statuses("/?number=1", 2) == [200, 429]
    assert site.statuses("/?number=x", 1) == [422]


@pytest.mark.parametrize("where", ["RateLimit", "limit"])
def test_before_validation_decides_first(make_site, where):
    of_all, of_one = (
        ({"before_validation": True}, {}) if where == "RateLimit" else ({}, {"before_validation": True})
    )
    site = make_site(**of_all)

    @site.app.post("/")
    @site.limiter.limit("2/minute", **of_one)
    def index(body: dict[str, int]) -> dict[str, int]:
        return body

    assert site.statuses("/", 1, method="POST", json={"a": "x"}) == [422]
    assert site.ask("/", method="POST", json={"a": 1}).json() == {"a": 1}
    assert site.statuses("/", 1, method="POST", json={"a": "x"}) == [429]


def test_counts_are_per_function_whatever_leads_to_it(site):
    @site.app.get("/a")
    @site.app.get("/a/")
    @site.limiter.limit("2/minute")
    async def one(): ...

    @site.app.get("/b")
    @site.limiter.limit("2/minute")
    async def other(): ...

    assert site.statuses("/a", 1) + site.statuses("/a/", 1) + site.statuses("/a", 1) == [200, 200, 429]
    assert site.statuses("/b", 3) == [200, 200, 429]


def test_functions_of_one_name_count_apart(site):
    def make(path):
        @site.app.get(path)
        @site.limiter.limit("1/minute")
        async def read() -> str:
            return path

    make("/a")
    make("/b")
    assert site.statuses("/a", 2) + site.statuses("/b", 2) == [200, 429] * 2


def test_a_method_that_no_route_takes_fails_its_requests(site):
    @site.app.get("/misspelt")
    @site.limiter.limit("1/minute", methods=["PSOT"])
    async def misspelt() -> None: ...

    assert site.statuses("/misspelt") == [500]


def test_a_plain_exempt_when_is_called_once_a_request_among_coroutine_functions(site):
    asked = []

    async def cost():
        return 1

    def exempt_when():
        asked.append(1)
        return False

    @site.app.get("/")
    @site.limiter.limit("9/minute", exempt_when=exempt_when, cost=cost)
    async def index() -> None: ...

    assert site.statuses("/", 3) == [200] * 3
    assert asked == [1] * 3


def test_plain_functions_of_a_path_function_in_a_thread_are_called_there(site):
    on_main_thread = []

    def noted(value):
        def function():
            on_main_thread.append(threading.current_thread() is threading.main_thread())
            return value

        return function

    functions = {"exempt_when": noted(False), "cost": noted(2), "identifiers": noted("all")}

    @site.app.get("/")
    @site.limiter.limit(noted("4/minute"), **functions)
    def index() -> None: ...

    site.limiter.request_filter(noted(False))
    assert site.statuses("/", 3) == [200, 200, 429]
    assert on_main_thread == [False] * 15


@pytest.mark.parametrize("kind", ["by_json", "function", "first"])
def test_limits_by_the_body_leave_it_to_the_path_function(site, kind):
    async def account(request):
        return (await request.json())["account"]

    identifiers = by_json("account") if kind == "by_json" else account
    limit = site.limiter.limit("1/minute", identifiers=identifiers, before_validation=kind == "first")

    @site.app.post("/model")
    @limit
    async def model(body: dict[str, str]) -> dict[str, str]:
        return body

    @site.app.post("/request")
    @limit
    async def of_request(request: Request) -> dict[str, str]:
        return await request.json()

    for path in ("/model", "/request"):
        sent = [site.ask(path, method="POST", json={"account": name}) for name in ("ann", "bob", "ann")]
        assert [answer.status_code for answer in sent] == [200, 200, 429], path
        assert sent[1].json() == {"account": "bob"}


def test_exemptions(make_site):
    site = make_site(default_limits="1/minute", application_limits="2/minute")

    @site.app.get("/free")
    @site.limiter.exempt
    async def free() -> None: ...

    @site.limiter.exempt(flags=ExemptionScope.APPLICATION)
    @site.app.get("/partly")
    async def partly() -> None: ...

    @site.app.get("/")
    async def index() -> None: ...

    assert site.statuses("/free", 5) == [200] * 5
    assert site.statuses("/partly", 2) == [200, 429]
    assert site.statuses("/", 2) == [200, 429]


def test_an_endpoint_is_named_by_its_function_and_path(make_site):
    site = make_site(default_limits="1/minute")

    @site.app.get("/")
    async def index() -> None: ...

    assert site.statuses("/", 2) == [200, 429]
    site.limiter.reset("ip:192.0.2.1", endpoint=f"{__name__}.{index.__qualname__}:/")
    assert site.statuses("/", 2) == [200, 429]
    with pytest.raises(ValueError, match=r"no endpoint is called 'index'; .* as 'main.read_items'"):
        site.limiter.reset_all(endpoint="index")


@pytest.mark.parametrize("value", ["v", "é" * 300, "a:b"], ids=["short", "long", "with a colon"])
@pytest.mark.parametrize(
    ("identify", "sent"),
    [
        (by_header("X-Key"), lambda value: {"headers": {"X-Key": value.encode("latin-1")}}),
        (by_cookie("session"), lambda value: {"headers": {"Cookie": f"session={quote(value)}"}}),
        (by_json("account"), lambda value: {"json": {"account": value}}),
        (by_path_parameter("tenant"), lambda value: {"path": f"/{quote(value)}"}),
    ],
    ids=["header", "cookie", "json", "path"],
)
def test_the_identifier_that_is_told_for_a_value_is_the_one_that_counts(site, identify, sent, value):
    @site.app.post("/")
    @site.app.post("/{tenant}")
    @site.limiter.limit("1/minute", identifiers=identify)
    async def index() -> None: ...

    asking = {"method": "POST", **sent(value)}
    told = identify.identifier(quote(value) if "Cookie" in asking.get("headers", {}) else value)
    assert site.statuses(times=2, **asking) == [200, 429]
    site.limiter.reset(identify.identifier("other"))
    assert site.statuses(**asking) == [429]
    site.limiter.reset(told)
    assert site.statuses(times=2, **asking) == [200, 429]


def test_apps_of_one_ratelimit_count_apart_in_memory(clock):
    limiter = RateLimit(default_limits="1/minute", clock=clock)
    sites = [AsgiSite(FastAPI()) for _ in range(2)]
    for site in sites:
        limiter.init_app(site.asked)
        site.asked.get("/")(lambda: 1)
        assert site.statuses(times=2) == [200, 429]
        site.close()


class Counter:
    def __init__(self, limiter):
        self.limiter = limiter
        self.router = APIRouter()
        self.router.get("/read")(self.read)

    async def read(self) -> str:
        return "read"


class Called:
    def __call__(self, number: int) -> int:
        return number


def test_methods_and_objects_as_path_functions(make_site):
    site = make_site(default_limits="1/minute")
    site.limiter.limit("2/minute")(Counter.read)
    site.app.include_router(Counter(site.limiter).router, prefix="/counter")
    called = Called()
    site.app.get("/called")(called)
    assert site.statuses("/counter/read", 3) == [200, 200, 429]
    assert site.statuses("/called?number=1", 2) == [200, 429]


def test_partials_of_limited_functions_are_limited(make_site, caplog):
    site = make_site(default_limits="9/minute")

    @site.limiter.limit("1/minute")
    async def shop(name: str) -> str:
        return name

    @site.limiter.limit("2/minute")
    async def price(of: str) -> str:
        return of

    for name in "ab":
        site.app.get(f"/{name}")(partial(shop, name=name))

    @site.app.get("/price", dependencies=[Depends(partial(price, of="apples"))])
    async def priced() -> None: ...

    assert site.statuses("/a", 2) + site.statuses("/b", 2) == [200, 429] * 2
    assert site.items("/price") == {"priced": 1}
    assert not caplog.records


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda limiter: limiter.limit("5/sec onds"), InvalidLimit, "5/sec onds"),
        (lambda limiter: limiter.limit(None), InvalidLimit, "limits must be given"),
        (lambda limiter: limiter.limit("1/s", costs=2), TypeError, r"did you mean 'cost'\?"),
        (lambda limiter: limiter.limit("1/s", cost=-1), ValueError, "cost must be 0 or more"),
        (lambda limiter: limiter.limit("1/s", before_validation="yes"), TypeError, "must be True or False"),
        (lambda limiter: limiter.limit(limit_value="1/s"), TypeError, "write the limits first"),
        (lambda limiter: limiter.limit("1/s", cost=lambda a, b: 1), TypeError, "cannot be called like that"),
        (lambda limiter: limiter.limit("1/s")(APIRouter()), TypeError, r"APIRouter\(dependencies=\[Depends"),
        (lambda limiter: limiter.limit("1/s")(FastAPI()), TypeError, "write RateLimit"),
        (lambda limiter: limiter.limit("1/s")(Counter), TypeError, "Counter is a class"),
        (lambda limiter: limiter.limit("1/s")(len), TypeError, "cannot stay on"),
        (lambda limiter: FastAPI().get("/")(limiter.limit("1/s")), TypeError, r"limiter\.dependency"),
        (lambda limiter: limiter.exempt(FastAPI()), TypeError, "only a path function can be exempt"),
        (lambda limiter: limiter.reset(), ValueError, "reset_all"),
    ],
)
def test_what_is_wrong_is_an_error_where_it_is_written(make, error, message):
    with pytest.raises(error, match=message):
        make(RateLimit())
    assert not applied_limits_above(len), "what cannot be limited has no limit left on it"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"default_limits": "5/sec onds"}, InvalidLimit, r"(?s)^default_limits: .*5/sec onds"),
        ({"default_limit": "1/s"}, TypeError, r"did you mean 'default_limits'\?"),
        ({"storage_uri": "memory://"}, TypeError, "write store="),
        ({"before_validation": 1}, TypeError, "before_validation must be True or False"),
        ({"headers": "all"}, ValueError, "headers must be"),
        ({"identifiers": lambda a, b: ""}, TypeError, "identifiers must be"),
        ({"app": "app"}, TypeError, "app must be a FastAPI app, not a str"),
        ({"app": lambda request: ""}, TypeError, r"write RateLimit\(app, key_func=...\)"),
    ],
)
def test_wrong_options_are_errors_that_name_them(options, error, message):
    with pytest.raises(error, match=message):
        RateLimit(**options)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Limiter", "import RateLimit"),
        ("RateLimiter", r"limiter\.dependency"),
        ("get_remote_address", "get_address"),
    ],
)
def test_names_of_other_packages_say_what_to_import(name, hint):
    with pytest.raises(ImportError, match=hint):
        exec(f"from overlimit.fastapi import {name}")
