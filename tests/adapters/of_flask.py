"""Flask, with views that are called and views that are awaited."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flask import Flask, Response, g, request, stream_with_context

from adapters.clients import wsgi_client
from adapters.site import Asked, Driver, Reply, Site, by_path, decorators_of, named, of_decorators
from overlimit.flask import RateLimit

AS_A_VIEW_IS_SYNC = "functions of the app are called in the thread of the request, where nobody awaits them"


class FlaskDriver(Driver):
    def __init__(self, *, is_async: bool = False) -> None:
        self._is_async = is_async
        self.cannot = {
            "await": AS_A_VIEW_IS_SYNC,
            "patterns": "limits hold for routes, which the decorators name",
            **({"stream": "the parts of a response are no coroutine"} if is_async else {}),
        }

    @contextmanager
    def serve(self, views: Any, *, awaits: bool = False, **options: Any) -> Iterator[Site]:
        app = Flask("site", static_folder=None)
        given, of_one, exempt = of_decorators(self.functions(options, awaits=awaits))
        routes = given.pop("routes", {})
        limiter = RateLimit(app, **given)
        app.before_request(lambda: setattr(g, "user", request.headers.get("X-User")))
        for path, view in by_path(views).items():
            answer = self._view(view, limiter)
            for limits, shared, own in decorators_of(self, routes.get(path, []), of_one, awaits=awaits):
                if shared is None:
                    answer = limiter.limit(limits, **{"name": path.strip("/") or "root", **own})(answer)
                else:
                    answer = limiter.shared_limit(limits, shared, **own)(answer)
            if path in exempt:
                answer = limiter.exempt(answer)
            app.add_url_rule(path, path.strip("/") or "index", answer, methods=["GET", "POST"])
        yield Site(wsgi_client(app), limiter)

    def _view(self, view: Any, limiter: RateLimit) -> Any:
        def spend(reply: Reply) -> None:
            for name, *arguments in reply.spends:
                getattr(limiter, name)(*arguments)

        def parts(reply: Reply) -> Iterator[str]:
            yield reply.text
            spend(reply)

        def answer() -> Response:
            reply = Reply.of(view(_asked(limiter)))
            if reply.stream:
                return Response(stream_with_context(parts(reply)), reply.status, reply.headers)
            spend(reply)
            return response(reply)

        async def answer_later() -> Response:
            reply = Reply.of(view(_asked(limiter)))
            for name, *arguments in reply.spends:
                await getattr(limiter, f"a{name}")(*arguments)
            return response(reply)

        return answer_later if self._is_async else answer

    def function(self, function: Any, own: int, *, awaits: bool) -> Any:
        if own:
            return named(lambda given: response(function(given, _asked())), function)
        return named(lambda: function(_asked()), function)


def response(answer: Any) -> Any:
    return Response(answer.text, answer.status, answer.headers) if isinstance(answer, Reply) else answer


def _asked(limiter: RateLimit | None = None) -> Asked:
    body = request.get_data() if request.method == "POST" else b""
    return Asked.of_environ(request.environ, lambda: limiter and limiter.current_decision, body)
