"""What every adapter is asked to do, and what a client sees: without a word of any framework."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from overlimit.http.identifying.builtin import BuiltinIdentifier
from overlimit.http.request import environ_key


@dataclass(frozen=True)
class Reply:
    """What a view, or ``on_breach``, answers; ``spends`` are calls such as ``("settle", 5)``.

    They are made before it answers, or with ``stream`` once the first part has been sent.
    """

    text: str = "ok"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    stream: bool = False
    spends: tuple[tuple[Any, ...], ...] = ()

    @classmethod
    def of(cls, answer: Reply | str) -> Reply:
        return answer if isinstance(answer, Reply) else cls(answer)


class Asked(NamedTuple):
    """A request, as views and functions of the app are given it here."""

    header: Callable[[str], str | None]
    path: str
    query: dict[str, list[str]]
    find_decision: Callable[[], Any]
    body: bytes = b""

    @classmethod
    def of_environ(
        cls, environ: Mapping[str, Any], find_decision: Callable[[], Any], body: bytes = b""
    ) -> Asked:
        query = parse_qs(environ.get("QUERY_STRING", ""))
        return cls(
            lambda name: environ.get(environ_key(name)), environ["PATH_INFO"], query, find_decision, body
        )

    @classmethod
    def of_scope(cls, scope: Any, find_decision: Callable[[], Any], body: bytes = b"") -> Asked:
        fields = {
            name.decode().lower(): value.decode("latin-1") for name, value in reversed(scope["headers"])
        }
        query = parse_qs(scope.get("query_string", b"").decode())
        return cls(lambda name: fields.get(name.lower()), scope["path"], query, find_decision, body)

    @property
    def decision(self) -> Any:
        """The Decision on the request, as the adapter shows it to the app."""
        return self.find_decision()


View = Callable[[Asked], "Reply | str"]


class Answer(NamedTuple):
    """What a client sees."""

    status: int
    headers: Any
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def left(self) -> dict[str, int]:
        """What is left under each limit, by the name that it is shown by."""
        items = [item.split(";") for item in self.headers.get("RateLimit", "").split(", ") if item]
        return {item[0].strip('"'): int(item[1].removeprefix("r=")) for item in items}

    @property
    def ours(self) -> list[str]:
        """The names of the fields that tell of limits, in lower case."""
        return sorted(name.lower() for name in self.headers.keys() if "ratelimit" in name.lower())  # noqa: SIM118


@dataclass(frozen=True)
class Request:
    """What a client sends."""

    path: str = "/"
    method: str = "GET"
    fields: tuple[tuple[str, str], ...] = ()
    peer: str = "192.0.2.1"
    body: bytes = b""


@dataclass
class Site:
    """An app that is served; each call of ``ask`` is one request."""

    send: Callable[[Request], Answer]
    limiter: Any = None
    """The RateLimit, or the middleware."""
    send_all: Callable[[Iterable[Request]], list[Answer]] | None = None
    """Sends requests at once on one event loop; None: threads do."""
    made: list[Any] = field(default_factory=list)

    def ask(
        self,
        path: str = "/",
        *fields: tuple[str, str],
        method: str = "GET",
        peer: str = "192.0.2.1",
        user: str = "",
        body: Any = b"",
    ) -> Answer:
        return self.send(request(path, *fields, method=method, peer=peer, user=user, body=body))

    def statuses(
        self, path: str = "/", times: int = 1, *fields: tuple[str, str], **options: Any
    ) -> list[int]:
        """Return the statuses of so many requests."""
        return [self.ask(path, *fields, **options).status for _ in range(times)]


def request(
    path: str = "/",
    *fields: tuple[str, str],
    method: str = "GET",
    peer: str = "192.0.2.1",
    user: str = "",
    body: Any = b"",
) -> Request:
    """Return a request; a body that is no bytes is sent as JSON."""
    named = [*fields, *([("X-User", user)] if user else [])]
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
        named.append(("Content-Type", "application/json"))
    return Request(path, method, tuple(named), peer, body)


class Driver:
    """Serves views under limits by one adapter, whose options have the names of `serve`."""

    cannot: Mapping[str, str] = MappingProxyType({})
    """What the adapter cannot do, each with the reason.

    ``await`` (functions), ``decorators``, ``head`` (leave out the body of its answer), ``key_func``, ``meta``
    (limits on refusals, and others while the store fails), ``patterns`` (of paths), ``ratelimit`` (have one,
    which is the ``limiter`` of the site), ``stream``.
    """
    one_limit, all_limits = "default", "application"
    """The names by which a limit of each route, and one of all routes together, are shown."""

    def serve(
        self, views: View | Mapping[str, View], *, awaits: bool = False, **options: Any
    ) -> AbstractContextManager[Site]:
        """Serve views by their paths, or a single one at /.

        ``limits`` hold for each route by itself (in a middleware for all), ``together`` for all of them,
        ``routes`` by path, where decorators may be several `Limited`; ``exempt`` is a list of paths or a
        function. Functions are given the request last, and are coroutine functions if it ``awaits``. The
        header X-User names the user.
        """
        raise NotImplementedError

    def function(self, function: Any, own: int, *, awaits: bool) -> Any:
        """Return a function of the app as the adapter takes it, with so many arguments of its own."""
        raise NotImplementedError

    def functions(self, options: dict[str, Any], *, awaits: bool) -> dict[str, Any]:
        """Return options with each function as the adapter takes it."""

        def taken(name: str, value: Any) -> Any:
            if isinstance(value, list):
                return [taken(name, each) for each in value]
            if name == "routes":
                return {path: taken("limits", limits) for path, limits in value.items()}
            if not callable(value) or isinstance(value, BuiltinIdentifier) or name not in _OWN:
                return value
            return self.function(value, _OWN[name], awaits=awaits)

        return {name: taken(name, value) for name, value in options.items()}


_OWN = dict.fromkeys(
    ("limits", "together", "cost", "identifiers", "key_func", "exempt", "exempt_when", "error_message"), 0
)
_OWN |= dict.fromkeys(("deduct_when", "on_breach", "scope", "shared"), 1)


class Limited:
    """Limits that a decorator puts on a view, with its options; ``shared`` names what counts together."""

    def __init__(self, limits: Any, *, shared: Any = None, **options: Any) -> None:
        self.limits, self.shared, self.options = limits, shared, options


def decorators_of(
    driver: Driver, found: Any, options: Mapping[str, Any], *, awaits: bool
) -> list[tuple[Any, Any, dict[str, Any]]]:
    """Return limits, what they share and the options of each decorator of a path, the innermost first."""
    made = []
    for each in found if isinstance(found, list) else [found]:
        limited = each if isinstance(each, Limited) else Limited(each, **options)
        given = {"limits": limited.limits, "shared": limited.shared, **limited.options}
        taken = driver.functions(given, awaits=awaits) if isinstance(each, Limited) else given
        made.append((taken.pop("limits"), taken.pop("shared"), taken))
    return made


def by_path(views: View | Mapping[str, View]) -> dict[str, View]:
    return {"/": views} if callable(views) else dict(views)


def of_decorators(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], Any]:
    """Return the options of a RateLimit, those of its decorators, and which paths are exempt."""
    given, of_one = dict(options), {}
    exempt = given.pop("exempt", None)
    beside = {name: given.pop(name) for name in ("cost", "deduct_when") if name in given}
    if callable(exempt):
        beside["exempt_when"], exempt = exempt, None
    for name, group in (("limits", "default_limits"), ("global_limits", "global_limits")):
        if name in given:
            given[group] = given.pop(name)
            given |= {f"{group}_{suffix}": value for suffix, value in beside.items()}
    if "together" in given:
        given["application_limits"] = given.pop("together")
    of_one = beside
    return given, of_one, exempt or ()


def within(middleware: Any, app: Any, options: dict[str, Any]) -> Any:
    """Put the middleware around an app, and one more for limits of all routes together."""
    given = dict(options)
    together = given.pop("together", None)
    own = any(each in given for each in ("limits", "routes", "global_limits", "limits_file"))
    if own:
        app = middleware(app, **given)
        given = {name: value for name, value in given.items() if name not in _OF_LIMITS}
    return app if together is None else middleware(app, limits=together, **given)


_OF_LIMITS = ("limits", "limits_file", "routes", "global_limits", "cost", "deduct_when", "exempt")


def named(made: Any, function: Any) -> Any:
    """Have a function be called as another is, but take what it takes."""
    made.__name__, made.__qualname__ = function.__name__, function.__qualname__
    made.__module__ = function.__module__
    return made
