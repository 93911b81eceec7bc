"""Rate limits for every ASGI app: Starlette, Litestar, Quart, FastAPI without decorators, or plain ASGI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from overlimit._addresses import group_address
from overlimit.errors import RateLimitExceeded
from overlimit.http.answering.fields import HeaderNames
from overlimit.http.asgi.lifespan import run_lifespan
from overlimit.http.asgi.messages import LimitedMessages
from overlimit.http.asgi.requests import (
    ASGIApp,
    AsgiRequest,
    Receive,
    Scope,
    Send,
    kept_in,
    read_json,
)
from overlimit.http.asgi.responses import Answering, Noting, Response, answer_raised, refuse
from overlimit.http.asgi.settling import arefund, asettle, refund, settle
from overlimit.http.callables import defaults_of, function_name
from overlimit.http.deciding.ledger import RequestLedger
from overlimit.http.deciding.plans import NO_PLAN, RoutePlan
from overlimit.http.deciding.settling import DECISION, ENTRY, NOTHING, keep_admitted
from overlimit.http.deciding.steps import run_async
from overlimit.http.identifying.builtin import (
    by_address,
    by_cookie,
    by_header,
    by_json,
    by_user,
    by_user_or_address,
)
from overlimit.http.middleware import Exempt, LimitsByPath, MiddlewareOptions, RouteSteps, checks_arguments
from overlimit.http.options.limit_options import AnyLimits
from overlimit.stores import Store

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["HeaderNames", "LifespanMiddleware", "RateLimitMiddleware", "Response", "group_address"]
__all__ += ["arefund", "asettle", "refund", "settle"]
__all__ += ["by_address", "by_cookie", "by_header", "by_json", "by_user", "by_user_or_address"]

_LIMITED = ("http", "websocket")


class RateLimitMiddleware:
    """Limits the requests to an ASGI app, and the handshakes of its websockets, before it sees them.

    OPTIONS requests are not limited; all others are, including those that end with a 404. Functions are given
    the scope if they take it, after the response or the decision if they are given one, and may be coroutine
    functions. ``scope["overlimit.decision"]`` is the Decision on the request; None if it is not limited.
    ``scope["overlimit"]`` has `asettle` and `arefund` for it, and for threads `settle` and `refund`.

    Parameters
    ----------
    limits
        Hold for all requests of an identifier together: a string, a limit, a function that returns one of
        these, or a list. Optional if there are ``routes``.
    routes
        Limits by pattern: ``{"/login": "5/minute", "POST /upload/*": "10/hour"}``, below the ``root_path``.
        The first that matches replaces ``limits``, and has one count per identifier; ``*`` matches any rest,
        slashes too. The handshake of a websocket is a GET.
    message_limits
        Hold for the messages that all websockets of an identifier receive together; a refusal closes that
        websocket with the code 1008.
    global_limits
        Hold for all clients together, on every path that is not exempt: one count, whoever asks.
    exempt
        Patterns of requests that are not limited, or a function that returns true for them.
    identifiers, key_func, anonymous
        Who is limited, as for `overlimit.flask.RateLimit`; by default the address, and the user that a
        middleware around this one has put into ``scope["user"]``.
    cost, deduct_when
        What a request spends, and whether it counts, given the `Response`.
    on_breach
        Called with the Decision of a refusal; an ASGI app that it returns, such as a response of Starlette,
        is the answer.
    limits_file
        The path of a ``limits.toml``, which goes before ``limits`` and ``routes``, and is followed.
    store, clock, algorithm, key_prefix, enabled, headers, header_names, on_error, penalty, local_share, \
explain, shadow, trusted_proxies, address_header, ipv6_prefix
        As for `overlimit.flask.RateLimit`.

    Raises
    ------
    InvalidLimit
        A limit is malformed.
    ValueError, TypeError
        Another option has an invalid value, or there is no option of this name.
    """

    @checks_arguments()
    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: AnyLimits | None = None,
        routes: Mapping[str, AnyLimits] | None = None,
        message_limits: AnyLimits | None = None,
        exempt: Exempt = None,
        **options: Unpack[MiddlewareOptions],
    ) -> None:
        """Compile the limits; nothing is connected to."""
        if not callable(app):
            raise TypeError(f"the first argument must be the ASGI app, not {type(app).__name__}")
        _check_depend_on_nothing(limits=limits, message_limits=message_limits, exempt=exempt, **options)
        self._app = app
        others = {"message_limits": message_limits}
        self._limits = LimitsByPath(limits, routes, exempt, others, kept_in, app, **options)

    @property
    def store(self) -> Store:
        """Where requests are counted."""
        return self._limits.rate_limit.store

    def route_charges(self, method: str, path: str) -> RouteSteps:
        """Return what is decided for a request, for ``overlimit.simulation.replay``."""
        return self._limits.route_charges(method, path)

    def close(self) -> None:
        """Give back what the store has leased, and close its connections; a later request opens new ones."""
        self.store.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Decide a request or a handshake, and hand it to the app unless it is refused."""
        if scope["type"] not in _LIMITED:
            await run_lifespan(self._app, scope, receive, send)
            return
        scope[DECISION] = None
        request, limits = AsgiRequest(scope), self._limits
        request.begin()
        if limits.awaits:
            await run_async(limits.awaiting(request.arguments))
        method, path = request.method, request.path
        plan = messages = None
        if not limits.lets_pass(method, path, request.arguments):
            plan = limits.plan_of(method, path)
            of_messages = limits.others["message_limits"] if scope["type"] == "websocket" else None
            if of_messages is not None:
                messages = self._limited_messages(of_messages, request, receive, send)
                receive, send = messages.receive, messages.send
        if plan is None:
            scope["overlimit"] = scope.setdefault(ENTRY, NOTHING)
            await self._call_unlimited(request, receive, send)
            return
        if plan.memories:
            limits.warn_if_apart(plan)
        if plan.needs_body:
            receive = await read_json(request, receive)
        ledger = RequestLedger(request, plan)
        later = ledger.decide_later()
        if later is not None:
            await later
        scope[DECISION] = ledger.latest
        if messages is not None:
            messages.identifiers = ledger.identifiers
        answering = Answering(send, ledger)
        if ledger.refusal is not None:
            await refuse(ledger.refusal, request, receive, answering)
            return
        keep_admitted(ledger, scope)
        scope["overlimit"] = scope[ENTRY]
        try:
            await self._app(scope, receive, answering)
        except RateLimitExceeded as error:
            await answer_raised(error, ledger, limits.rate_limit, request, answering)
        except Exception:
            await answering.fail()
            raise

    def _limited_messages(
        self, plan: RoutePlan, request: AsgiRequest, receive: Receive, send: Send
    ) -> LimitedMessages:
        if plan.memories:
            self._limits.warn_if_apart(plan)
        return LimitedMessages(plan, self._limits.rate_limit, request, receive, send)

    async def _call_unlimited(self, request: AsgiRequest, receive: Receive, send: Send) -> None:
        """Let the app answer a request that is not limited, which limiters of its own may refuse."""
        noting = Noting(send)
        try:
            await self._app(request.scope, receive, noting)
        except RateLimitExceeded as error:
            ledger = RequestLedger(request, NO_PLAN)
            answering = Answering(send, ledger)
            answering.has_started = noting.has_started
            await answer_raised(error, ledger, self._limits.rate_limit, request, answering)


class LifespanMiddleware:
    """Has every store of the process release what it has leased when the server shuts down.

    For ASGI apps that are limited without `RateLimitMiddleware` and without `overlimit.fastapi.RateLimit`,
    which do the same, such as ``LifespanMiddleware(get_asgi_application())`` of Django. The app need not know
    the lifespan of ASGI.
    """

    def __init__(self, app: ASGIApp) -> None:
        """Stand around an app."""
        if not callable(app):
            raise TypeError(f"the first argument must be the ASGI app, not {type(app).__name__}")
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand everything to the app."""
        await run_lifespan(self._app, scope, receive, send, answers=True)


def _check_depend_on_nothing(**options: object) -> None:
    """Raise TypeError for a function with a ``Depends(...)`` of FastAPI, which would get just that object."""
    for name, value in options.items():
        for function in filter(callable, value if isinstance(value, (list, tuple)) else (value,)):
            if any(type(each).__module__ == "fastapi.params" for each in defaults_of(function)):
                raise TypeError(
                    f"{name}: {function_name(function)} depends on others, as only functions for a RateLimit "
                    "of overlimit.fastapi may"
                )
