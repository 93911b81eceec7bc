"""Functions given as options that depend on others, as path functions do: docs/reference/fastapi.md."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from fastapi import BackgroundTasks, Body, Depends, FastAPI, Header, HTTPException, Request, WebSocket
from fastapi.responses import PlainTextResponse, StreamingResponse
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, Response

from asgi_sites import Handshake
from overlimit.asgi import RateLimitMiddleware
from overlimit.fastapi import RateLimit

ASKED: list[str] = []
"""The plans that were looked up, in the order in which that was done."""


def plan_of(x_plan: Annotated[str, Header()] = "free") -> str:
    if x_plan == "none":
        raise HTTPException(402)
    ASKED.append(x_plan)
    return x_plan


Plan = Annotated[str, Depends(plan_of)]


class Plain:
    """Objects of it have no text of their own, and each is true."""


@pytest.fixture(autouse=True)
def nothing_asked():
    ASKED.clear()


async def limits(request: Request, plan: str = Depends(plan_of)) -> str:
    assert isinstance(request, (Request, WebSocket))
    return {"paid": "3/minute", "free": "1/minute"}[plan]


def limits_without_request(plan: Plan) -> str:
    return {"paid": "3/minute", "free": "1/minute"}[plan]


def cost(plan: Plan, request: Request) -> int:  # which is not the first of its parameters
    assert request.method == "GET"
    return {"paid": 1, "free": 3}[plan]


async def who(*, plan: Plan, x_key: Annotated[str, Header()] = "-") -> str:
    return f"{plan}:{x_key}"


def is_staff(request: Request, plan: Plan) -> bool:
    return plan == "staff"


def scope(endpoint: str, plan: Plan) -> str:
    assert "<locals>" in endpoint
    return plan


def counts(response: Any, request: Request, plan: Plan) -> bool:
    return plan == "free"


def told(plan: Plan) -> str:
    return f"no more for {plan}"


async def breach(decision: Any, plan: Plan) -> JSONResponse:
    return JSONResponse({"plan": plan}, 429)


FOR_PLANS = [
    ({"value": limits}, {"free": [200, 429, 429, 429], "paid": [200, 200, 429, 429]}),
    ({"value": [limits_without_request]}, {"free": [200, 429, 429, 429], "paid": [200, 200, 429, 429]}),
    ({"value": "4/minute", "cost": cost}, {"free": [200, 429, 429, 429], "paid": [200, 429, 429, 429]}),
    (
        {"value": "2/minute", "identifiers": [who]},
        {"free": [200, 200, 429, 429], "paid": [200, 200, 429, 429]},
    ),
    ({"value": "2/minute", "key_func": who}, {"free": [200, 200, 429, 429], "paid": [200, 200, 429, 429]}),
    ({"value": "2/minute", "exempt_when": is_staff}, {"staff": [200] * 4, "free": [200, 200, 429, 429]}),
    ({"value": "2/minute", "scope": scope}, {"free": [200, 200, 429, 429], "paid": [200, 200, 429, 429]}),
    ({"value": "2/minute", "deduct_when": counts}, {"paid": [200] * 4, "free": [200, 200, 429, 429]}),
]


def put(site, where: str, options: dict[str, Any]) -> None:
    """Limit what answers on /, which is of some kind."""
    limited = dict(options)
    value = limited.pop("value")

    async def awaited(plan: Plan) -> str:
        return plan

    def called() -> str:
        return "called in a thread"

    def streamed() -> Any:
        yield "streamed"

    async def of_starlette(request: Request) -> PlainTextResponse:
        return PlainTextResponse("of Starlette")

    if where == "dependency":
        depends = [Depends(site.limiter.dependency(value, **limited))]
        site.app.get("/", dependencies=depends)(awaited)
        return
    if where == "before validation":
        limited["before_validation"] = True
    function = {"thread": called, "generator": streamed, "starlette": of_starlette}.get(where, awaited)
    site.limiter.limit(value, **limited)(function)
    if where == "starlette":
        site.app.add_route("/", function)
    else:
        site.app.get("/", **({"response_class": StreamingResponse} if where == "generator" else {}))(function)


@pytest.mark.parametrize(
    "where", ["decorator", "thread", "dependency", "before validation", "generator", "starlette"]
)
@pytest.mark.parametrize(("options", "expected"), FOR_PLANS)
def test_a_function_is_given_what_it_depends_on(site, where, options, expected):
    put(site, where, options)
    for plan, statuses in expected.items():
        assert site.statuses("/", 4, headers={"X-Plan": plan}) == statuses
    assert site.ask("/", headers={"X-Plan": "none"}).status_code == 402


def passes(plan: Plan) -> bool:
    return plan == "inside"


@pytest.mark.parametrize("before_validation", [False, True])
@pytest.mark.parametrize("group", ["default_limits", "application_limits", "global_limits"])
def test_options_of_a_ratelimit_depend_on_others_on_every_kind_of_route(make_site, group, before_validation):
    of_group = {group: limits, f"{group}_cost": cost, f"{group}_exempt_when": is_staff}
    site = make_site(identifiers=who, on_breach=breach, before_validation=before_validation, **of_group)
    site.limiter.request_filter(passes)
    inner = FastAPI()
    for app, path in ((site.app, "/function"), (inner, "/function")):
        app.get(path)(lambda: "function")
    site.app.add_route("/starlette", lambda request: PlainTextResponse("of Starlette"))
    site.app.mount("/plain", PlainTextResponse("plain"))
    site.app.mount("/inner", inner)
    is_shared = group != "default_limits"
    for path in ("/function", "/starlette", "/plain/", "/inner/function"):
        if is_shared:
            site.limiter.reset_all()
        answers = [site.ask(path, headers={"X-Plan": "paid"}) for _ in range(4)]
        assert [each.status_code for each in answers] == [200, 200, 200, 429], path
        assert answers[3].json() == {"plan": "paid"}
        assert site.statuses(path, 1) == [429], "its cost is above its limit"
        for plan in ("staff", "inside"):
            assert site.statuses(path, 4, headers={"X-Plan": plan}) == [200] * 4


def test_one_look_up_serves_the_limits_and_the_path_function(site):
    @site.app.get("/")
    @site.limiter.limit(limits, cost=lambda plan=Depends(plan_of): 1, deduct_when=counts)
    @site.limiter.limit("9/minute", identifiers=who, error_message=told)
    async def index(plan: Plan) -> str:
        return plan

    assert site.statuses("/", 2) == [200, 429]
    assert ASKED == ["free"] * 2


@pytest.mark.parametrize("where", ["decorator", "before validation", "starlette"])
def test_what_overrides_a_dependency_overrides_it_for_limits(site, where):
    put(site, where, {"value": limits})
    site.app.dependency_overrides[plan_of] = lambda: "paid"
    assert site.statuses("/", 4) == [200, 200, 200, 429]
    assert not ASKED
    site.app.dependency_overrides.clear()
    site.limiter.reset_all()
    assert site.statuses("/", 2) == [200, 429]


@pytest.mark.parametrize("before_validation", [False, True])
def test_what_a_dependency_opens_is_open_while_the_path_function_runs(site, before_validation):
    noted: list[str] = []

    def session(tasks: BackgroundTasks):
        tasks.add_task(noted.append, "task")
        noted.append("opened")
        yield "1/minute"
        noted.append("closed")

    def limits_of(session: str = Depends(session)) -> str:
        return session

    @site.app.get("/")
    @site.limiter.limit(limits_of, before_validation=before_validation)
    async def index() -> None:
        noted.append("called")

    assert site.statuses("/") == [200]
    assert sorted(noted[2:]) == ["closed", "task"]
    assert noted[:2] == ["opened", "called"]
    assert site.statuses("/") == [429]
    assert "called" not in noted[4:]


@pytest.mark.parametrize("before_validation", [False, True])
def test_handshakes_and_parameters_of_the_path(site, before_validation):
    def limits_of(tenant: Annotated[str, Depends(lambda tenant: tenant.upper())]) -> str:
        return {"RED": "1/minute", "BLUE": "2/minute"}[tenant]

    @site.app.websocket("/{tenant}/talk")
    @site.limiter.limit(limits_of, before_validation=before_validation)
    async def talk(websocket: WebSocket, tenant: str) -> None:
        await websocket.accept()

    for path, passed in (("/red/talk", 1), ("/blue/talk", 1)):  # counted together, as one function
        kinds = [Handshake(path).through(site).kinds for _ in range(2)]
        assert [each[0] for each in kinds].count("accept") == passed


def test_what_a_function_asks_for_is_validated_and_described(site):
    def limits_of(x_rate: Annotated[int, Header()]) -> str:
        return f"{x_rate}/minute"

    @site.app.get("/")
    @site.limiter.limit(limits_of)
    async def index() -> None: ...

    (described,) = site.app.openapi()["paths"]["/"]["get"]["parameters"]
    assert (described["name"], described["in"], described["required"]) == ("x-rate", "header", True)
    assert [site.ask("/", headers={"X-Rate": rate}).status_code for rate in "a21"] == [422, 200, 429]


def of_body(account: Annotated[str, Body()]) -> str:
    return account


def of_nobody(request: Request, other: str, plan: Plan) -> str:
    return other


def by_position(request: Request, /, plan: Plan) -> str:
    return plan


def supplied_by_position(plan: Plan, /) -> str:
    return plan


def with_more(request: Request, pages: int = 1) -> int:
    return pages


def with_more_by_name(*, plan: Plan, pages: int = 1) -> int:
    return pages


async def yields_later(request: Request) -> Any:
    yield False


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (of_body, "of_body.. depends on the body of a request ..account.., which is read for the path"),
        (lambda plan=Depends(of_body): plan, "depends on the body of a request"),
        (of_nobody, "of_nobody.. cannot be called like that: missing a required argument: 'other'"),
        (by_position, "by_position.. depends on others, so leave out the / of its parameters"),
        (supplied_by_position, "by_position.. depends on others, so leave out the / of its parameters"),
        (with_more, "nothing gives .*with_more.. its parameter 'pages', .* write pages: Annotated"),
        (with_more_by_name, "nothing gives .*by_name.. its parameter 'pages', .* leave out its annotation"),
        (yields_later, "yields_later.. must return its value, not yield it"),
        (Plain, "not the class .*test_option_dependencies.Plain"),
    ],
)
@pytest.mark.parametrize("option", ["limits", "cost", "identifiers", "exempt_when"])
def test_what_cannot_be_had_is_an_error_where_it_is_written(site, function, message, option):
    given = {"value": function} if option == "limits" else {"value": "1/minute", option: function}
    with pytest.raises(TypeError, match=message):
        site.limiter.limit(**given)
    with pytest.raises(TypeError, match=message):
        RateLimit(
            **{
                "default_limits"
                if option in ("limits", "identifiers")
                else f"default_limits_{option}": function
            }
        )


def test_an_annotation_that_cannot_be_read_is_an_error(site):
    def inner() -> str:
        return "1/minute"

    class Database:
        """Of which nobody else can know, as all annotations here are texts."""

    Local = Annotated[str, Depends(inner)]

    def annotated(plan: Annotated[str, Depends(inner)]) -> str:
        return plan

    def alias(plan: Local) -> str:
        return plan

    def of_class(plan: Database = Depends()) -> str:
        return plan

    def known_to_type_checkers(plan: Asked) -> str:  # noqa: F821
        return plan

    for limits_of in (annotated, alias, of_class, known_to_type_checkers):
        with pytest.raises(
            TypeError, match=r"annotation .* of its parameter 'plan' cannot .* as in plan=Dep"
        ):
            site.limiter.limit(limits_of)

    def of_default(plan: Local = Depends(inner)) -> str:
        return plan

    site.app.get("/")(site.limiter.limit(of_default)(lambda: "ok"))
    assert site.statuses("/", 2) == [200, 429]


@pytest.mark.parametrize(
    ("option", "first"),
    [
        ("scope", "the endpoint"),
        ("on_breach", "the decision"),
        ("deduct_when", "the response"),
    ],
)
def test_what_is_given_before_the_request_is_not_taken_for_it(site, option, first):
    def takes_request(request: Request) -> str:
        return "blue"

    def takes_both(request: Request, given: Any) -> str:
        return "blue"

    for function in (takes_request, takes_both):
        with pytest.raises(TypeError, match=rf"is given {first} first, .* 'request' is a Request: write one"):
            site.limiter.limit("1/minute", **{option: function})
    site.limiter.limit("1/minute", **{option: lambda given, request: "blue"})


def internal(internal: bool = False) -> bool:
    return bool(internal)


def pages(pages: int = 1) -> int:
    return pages


def of_response(given: Response) -> str:
    return "1/minute"


def of_one_of(given: str | None = None) -> str:
    return given or "1/minute"


@pytest.mark.parametrize(
    ("function", "parameter"),
    [
        (internal, "internal"),
        (pages, "pages"),
        (of_response, "given"),
        (of_one_of, "given"),
        (lambda plan="free": plan, "plan"),
    ],
)
@pytest.mark.parametrize("option", ["limits", "cost", "identifiers", "exempt_when", "request_filter"])
def test_what_is_plainly_no_request_is_not_given_one(site, function, parameter, option):
    expected = rf"'{parameter}' is a plain parameter, .* write {parameter}: Annotated\[\.\.\., Query"
    give = {
        "limits": site.limiter.limit,
        "request_filter": site.limiter.request_filter,
    }.get(option, lambda given: site.limiter.limit("1/minute", **{option: given}))
    with pytest.raises(TypeError, match=expected):
        give(function)


def of_connection(connection: HTTPConnection) -> str:
    return type(connection).__name__


def of_any(given: Any = None) -> str:
    return type(given).__name__


def of_request_or_handshake(given: Request | WebSocket | None = None) -> str:
    return type(given).__name__


def of_what_a_type_checker_knows(request: MyRequest) -> str:  # noqa: F821
    return type(request).__name__


@pytest.mark.parametrize(
    "function",
    [
        of_connection,
        of_any,
        of_request_or_handshake,
        of_what_a_type_checker_knows,
        lambda given: type(given).__name__,
        lambda given=None: type(given).__name__,
    ],
)
def test_what_may_be_the_request_is_given_it(site, function):
    site.app.get("/")(site.limiter.limit("1/minute", identifiers=function)(lambda: "ok"))
    assert site.statuses("/", 2) == [200, 429]
    site.limiter.reset("Request")
    assert site.statuses("/", 2) == [200, 429]


@pytest.mark.parametrize("option", ["limits", "cost", "identifiers", "exempt"])
def test_a_middleware_for_any_app_says_that_it_resolves_no_dependencies(option):
    with pytest.raises(
        TypeError, match=r"depends on others, as only functions for a RateLimit of overlimit\.fastapi may"
    ):
        RateLimitMiddleware(
            FastAPI(), **{"limits": "1/minute", option: lambda scope, plan=Depends(plan_of): 1}
        )
