"""Who is limited: the words of ``key=``, functions, lists, proxies, and users."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pytest
from django.http import HttpResponse
from django.test import RequestFactory
from django.urls import path
from django.utils.functional import SimpleLazyObject
from rest_framework.views import APIView

from overlimit.django import by_get, by_header, by_json, by_post, get_address, rate_limit

from .conftest import OURS, statuses

WHO = f"{__name__}.UserOfHeader"


class UserOfHeader:
    """Sets ``request.user`` as authentication does, lazily, by a header."""

    sync_capable = async_capable = True

    def __new__(cls, get_response):
        def middleware(request):
            request.user = SimpleLazyObject(lambda: user_of(request))
            return get_response(request)

        async def middleware_async(request):
            request.user = SimpleLazyObject(lambda: forbidden_on_a_loop(request))
            return await get_response(request)

        return middleware_async if asyncio.iscoroutinefunction(get_response) else middleware


def user_of(request):
    name = request.headers.get("X-User")
    return SimpleNamespace(is_authenticated=name is not None, pk=name)


def forbidden_on_a_loop(request):
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return user_of(request)
    raise AssertionError("the user was fetched from the database on the event loop")


def view_of(key, limits="1/minute", *, asynchronous=False, **options):
    async def view_async(request, **kwargs):
        return HttpResponse()

    def view(request, **kwargs):
        return HttpResponse()

    view = view_async if asynchronous else view
    view.__qualname__ = f"view_by_{key}"
    return rate_limit(limits, key=key, **options)(view)


def served(serve, who, route="", *, asynchronous=False, **options):
    """Serve a limited view, where users are known."""
    url = path(route, view_of(who, asynchronous=asynchronous))
    return serve(url, middleware=[OURS, WHO], **options)


def test_a_view_may_ask_for_the_address(serve):
    class Api(APIView):
        def get(self, request):
            return HttpResponse(get_address(request))

    def view(request):
        return HttpResponse(get_address(request))

    given = {"trusted_proxies": 1, "address_header": "CF-Connecting-IP", "ipv6_prefix": 48}
    client = serve(path("", view), path("api", Api.as_view()), **given)
    for page in ("/", "/api"):
        for sent, counted in (("192.0.2.1", "192.0.2.1"), ("2001:db8:1::2", "2001:db8:1::/48")):
            answer = client.get(page, headers={"CF-Connecting-IP": sent, "X-Forwarded-For": "6.6.6.6"})
            assert answer.content.decode() == counted
    client = served(serve, get_address)
    assert [client.get("/", REMOTE_ADDR=f"192.0.2.{n}").status_code for n in (1, 1, 2)] == [200, 429, 200]


@pytest.mark.parametrize(("trusted", "limited"), [(0, [200, 429, 429]), (1, [200, 200, 429])])
def test_behind_a_unix_socket_clients_are_told_apart_if_a_proxy_is_trusted(serve, trusted, limited):
    client = served(serve, "ip", trusted_proxies=trusted)
    reported = ("203.0.113.1", "203.0.113.2", "203.0.113.1")
    asked = [client.get("/", headers={"X-Forwarded-For": each}, REMOTE_ADDR="") for each in reported]
    assert [answer.status_code for answer in asked] == limited


@pytest.mark.parametrize("how", ["sync", "async", "async view"])
def test_by_user(serve, how):
    to = serve if how == "sync" else serve.asynchronously
    client = served(to, "user", asynchronous=how == "async view")

    def ask(user, address="192.0.2.1"):
        headers = {"X-User": user} if user else {}
        if how == "sync":
            return client.get("/", headers=headers, REMOTE_ADDR=address).status_code
        return asyncio.run(client.get("/", headers=headers)).status_code

    assert [ask("ann"), ask("ann", "192.0.2.2"), ask("ben"), ask("ben")] == [200, 429, 200, 429]
    assert [ask(None), ask(None)] == [200, 429]  # who is nobody shares one count


def test_a_user_counts_by_the_primary_key(serve):
    user = SimpleNamespace(is_authenticated=True, id=1, pk="a")
    asked = []
    for pk in ("a", "b"):
        request = RequestFactory().get("/")
        request.user = SimpleNamespace(**{**vars(user), "pk": pk})
        asked += [view_of("user")(request).status_code for _ in range(2)]
    assert asked == [200, 429, 200, 429]


def test_the_setting_is_the_default(serve):
    client = served(serve, None, key="user")
    assert statuses(client, headers={"X-User": "ann"}) == [200, 429, 429]
    assert client.get("/", headers={"X-User": "ben"}).status_code == 200


def test_the_user_is_not_fetched_where_nobody_asks_for_it(serve):
    class Counting(SimpleLazyObject):
        pass

    asked = []
    client = serve(path("", view_of("ip")), middleware=[OURS])
    request = RequestFactory().get("/")
    request.user = Counting(lambda: asked.append("fetched") or user_of(request))
    assert view_of("ip")(request).status_code == 200
    assert asked == []
    assert view_of("user")(request).status_code == 200
    assert asked == ["fetched"]
    assert client.get("/").status_code == 429


def test_by_header_cookie_query_and_path(serve):
    client = served(serve, "header:X-Api-Key")
    assert [client.get("/", headers={"x-api-key": key}).status_code for key in "aab"] == [200, 429, 200]
    client = served(serve, "cookie:session")
    assert [client.get("/", headers={"Cookie": f"session={key}"}).status_code for key in "aab"] == [
        200,
        429,
        200,
    ]
    client = served(serve, "get:q")
    assert [client.get(f"/?q={key}").status_code for key in "aab"] == [200, 429, 200]
    client = served(serve, "path:tenant", route="<str:tenant>/x")
    assert [client.get(f"/{key}/x").status_code for key in "aab"] == [200, 429, 200]


@pytest.mark.parametrize("form", ["multipart", "urlencoded"])
def test_by_a_field_of_a_form_which_the_view_still_reads(serve, form):
    def view(request):
        return HttpResponse(request.POST["password"])

    client = serve(path("", rate_limit("1/minute", key="post:username")(view)))
    kind = {} if form == "multipart" else {"content_type": "application/x-www-form-urlencoded"}

    def ask(name):
        fields = {"username": name, "password": "p"}
        data = fields if form == "multipart" else "&".join(f"{key}={value}" for key, value in fields.items())
        answer = client.post("/", data, **kind)
        return answer.status_code, answer.content[:1]

    assert [ask("ann"), ask("ann"), ask("ben")] == [(200, b"p"), (429, b"{"), (200, b"p")]


def test_by_json_which_the_view_still_reads(serve):
    def view(request):
        return HttpResponse(json.loads(request.body)["account"])

    key = by_json("account", normalise=str.casefold)
    client = serve(path("", rate_limit("1/minute", key=key)(view)))

    def ask(name):
        return client.post("/", {"account": name}, content_type="application/json").status_code

    assert [ask("Ann"), ask("ann"), ask("ben")] == [200, 429, 200]
    wrong = [client.post("/", body, content_type="application/json") for body in ("[", "[1]")]
    assert [each.status_code for each in wrong] == [500, 429]  # both count as nobody; the view fails


UNREADABLE = [
    (b"\xff\xfe", "application/json"),
    (b"{", "application/json"),
    (b"[" * 90_000, "application/json"),
    (b'{"username": "\\ud800"}', "application/json"),
    (b"x" * 3_000_000, "application/json"),
    (b"x" * 3_000_000, "application/x-www-form-urlencoded"),
    (b"a=1&" * 2000, "application/x-www-form-urlencoded"),
    (b"username=%ff%00", "application/x-www-form-urlencoded"),
    (b"username=a", "application/x-www-form-urlencoded; charset=nope"),
    (b"--x\r\nbroken", "multipart/form-data; boundary=x"),
    (b"", "multipart/form-data"),
    (b"username=a", "text/plain"),
]


@pytest.mark.parametrize("key", ["post:username", "json:username"])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_body_that_cannot_be_read_is_no_error_of_the_limit_and_no_new_client(serve, key, asynchronous):
    limits = {"limits": "3/minute", "asynchronous": asynchronous}
    client = serve(path("", view_of([key], **limits)))
    found = [client.generic("POST", "/", body, kind).status_code for body, kind in UNREADABLE * 2]
    assert set(found) <= {200, 400, 413, 429}
    assert found.count(429) >= len(UNREADABLE)
    assert 4 <= found.count(200) <= 7, "nobody three times, and each that is read after all twice"


def test_by_json_counts_a_number_as_its_text_and_a_fraction_apart(serve):
    client = served(serve, "json:account")

    def ask(account):
        return client.post("/", f'{{"account": {account}}}', content_type="application/json").status_code

    assert [ask("1"), ask('"1"'), ask("1.0"), ask('"1.0"')] == [200, 429, 200, 429]


@pytest.mark.parametrize(
    ("identify", "value", "identifier"),
    [
        (by_post("username", normalise=str.lower), "Ann", "post:username:ann"),
        (by_get("q"), "x", "get:q:x"),
        (by_get("q"), "x" * 256, f"get:q:{'x' * 256}"),
        (by_get("q"), "x" * 257, "get:q:15eb95a462ee20bd91a415ae2d4aed34"),
        (by_header("X-A"), "a", "header:x-a:ca978112ca1bbdcafac231b39a23dc4d"),
    ],
    ids=["post", "get", "long", "longer", "header"],
)
def test_identifiers_can_be_told(identify, value, identifier):
    assert identify.identifier(value) == identifier


@pytest.mark.parametrize("make", [by_post, by_get])
def test_names_are_checked(make):
    with pytest.raises(ValueError, match="name of a field"):
        make("")
    with pytest.raises(TypeError, match="not 5"):
        make(5)
