"""The smallest adapter, of no framework: by it the core is tested."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote, urlsplit
from wsgiref.headers import Headers

from adapters.site import Answer, Asked, Driver, Reply, Request, Site, by_path, named, within
from overlimit import RateLimitExceeded
from overlimit.http.answering.fields import shows_fields, with_ours
from overlimit.http.answering.refusals import retry_after_instead
from overlimit.http.cookies import cookies_in
from overlimit.http.deciding import settling
from overlimit.http.deciding.ledger import RequestLedger
from overlimit.http.deciding.plans import NO_PLAN
from overlimit.http.middleware import LimitsByPath
from overlimit.http.request import json_in, may_have_json


class FakeRequest:
    """A request as `overlimit.http.request.Request` wants it; functions of the app are given it."""

    def __init__(self, asked: Request) -> None:
        self.asked = asked
        self.path, self.query = unquote(urlsplit(asked.path).path), urlsplit(asked.path).query
        self.fields = {name.lower(): value for name, value in reversed(asked.fields)}
        self.kept: dict[str, Any] = {settling.DECISION: None}

    @property
    def arguments(self) -> tuple[Any, ...]:
        return (self,)

    def header(self, name: str) -> str | None:
        return self.fields.get(name.lower())

    def joined(self, name: str) -> str | None:
        return ", ".join(value for field, value in self.asked.fields if field.lower() == name.lower()) or None

    def peer_address(self) -> str:
        return self.asked.peer

    def user(self) -> object:
        return self.header("X-User")

    def cookie(self, name: str) -> str | None:
        return cookies_in(self.header("Cookie") or "").get(name)

    def path_parameter(self, name: str) -> object:
        return None

    def json(self) -> object:
        readable = may_have_json(self.header("Content-Type"), str(len(self.asked.body)))
        return json_in(self.asked.body) if readable else None


class FakeAdapter:
    """Limits what answers a request: a middleware, as is docs/adding_a_framework.md's."""

    def __init__(
        self, app: Any, *, limits: Any = None, routes: Any = None, exempt: Any = None, **options: Any
    ):
        self.app, self._limits = app, LimitsByPath(limits, routes, exempt, {}, None, app, **options)
        self.store = self._limits.rate_limit.store

    def __call__(self, request: FakeRequest) -> tuple[int, list[tuple[str, str]], str]:
        asked = request.asked
        plan = self._limits.plan(asked.method, request.path, request.arguments)
        ledger = RequestLedger(request, plan or NO_PLAN)
        if plan is not None:
            ledger.decide()
            request.kept[settling.DECISION] = ledger.decision(self._limits.rate_limit)
        status, fields, text = self._answer(request, ledger, plan)
        if ledger.may_refund:
            try:
                ledger.refund_uncounted(SimpleNamespace(status_code=status))
            except Exception:
                status, fields, text = 500, [], ""
        sent = with_ours(fields, ledger.fields()) if shows_fields(str(status)) else fields
        return status, list(sent), "" if asked.method == "HEAD" else text

    def _answer(self, request: FakeRequest, ledger: RequestLedger, plan: Any) -> Any:
        accept, refusal = request.header("Accept"), ledger.refusal
        try:
            if refusal is None:
                if plan is not None:
                    settling.keep_admitted(ledger, request.kept)
                return self.app(request)
            reply = refusal.answer_of_hooks(lambda answer: isinstance(answer, Reply), "a reply")
            if reply is None:
                return as_texts(refusal.response(accept))
        except RateLimitExceeded as error:
            return as_texts(ledger.raised(error.decision, self._limits.rate_limit, accept))
        except Exception:
            return 500, [], "failed"
        given = next((value for name, value in reply.headers.items() if name.lower() == "retry-after"), None)
        fields = [each for each in reply.headers.items() if each[0].lower() != "retry-after"]
        needed = retry_after_instead(refusal.decision, given) if reply.status in (429, 503) else None
        seconds = needed or given
        return reply.status, fields + [("Retry-After", seconds)] * (seconds is not None), reply.text


def as_texts(response: Any) -> tuple[int, list[tuple[str, str]], str]:
    status, fields, body = response
    return status.value, fields, body.decode()


class CoreDriver(Driver):
    one_limit = all_limits = "application"
    cannot = {  # noqa: RUF012
        "await": "it runs no event loop",
        "decorators": "limits are given to the middleware, by patterns",
        "meta": "a middleware has no refusals of other routes to count",
        "ratelimit": "a middleware has its options, and no methods",
        "stream": "it answers at once",
    }

    @contextmanager
    def serve(self, views: Any, *, awaits: bool = False, **options: Any) -> Iterator[Site]:
        at = by_path(views)

        def app(request: FakeRequest) -> Any:
            view = at.get(request.path)
            if view is None:
                return 404, [], "nowhere"
            reply = Reply.of(view(_asked(request)))
            for name, *arguments in reply.spends:
                getattr(settling, name)(settling.ledgers_in(request.kept), *arguments)
            return reply.status, [*reply.headers.items()], reply.text

        adapter = within(FakeAdapter, app, self.functions(options, awaits=False))

        def send(asked: Request) -> Answer:
            try:
                status, fields, text = adapter(FakeRequest(asked))
            except Exception:
                status, fields, text = 500, [], "failed"
            return Answer(status, Headers(list(fields)), text)

        yield Site(send, adapter)

    def function(self, function: Any, own: int, *, awaits: bool) -> Any:
        if own:
            return named(lambda given, request: function(given, _asked(request)), function)
        return named(lambda request: function(_asked(request)), function)


def _asked(request: FakeRequest) -> Asked:
    environ = {"PATH_INFO": request.path, "QUERY_STRING": request.query}
    asked = Asked.of_environ(environ, lambda: request.kept[settling.DECISION], request.asked.body)
    return asked._replace(header=request.header)
