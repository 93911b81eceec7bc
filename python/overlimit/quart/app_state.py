"""What ``app.extensions["overlimit"]`` holds: an app's RateLimits and the compiled plans of its views."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any

from quart import Quart, Request, Websocket, current_app
from quart.cli import with_appcontext
from werkzeug.exceptions import HTTPException

from overlimit import errors
from overlimit._limits_commands import limits_group
from overlimit.http.app_state import AppStateOfViews
from overlimit.http.asgi.conversations import ConversationMiddleware
from overlimit.http.deciding.plans import RoutePlan
from overlimit.http.identifying.default import by_address_and_user
from overlimit.http.options.configuration import warn_of_keys
from overlimit.http.raised import as_refusal, own_kinds
from overlimit.http.rules.applied_limits import AppliedLimit, LimitedFunction
from overlimit.http.rules.precedence import Route
from overlimit.http.rules.views import counted_place, groups_of, route_of
from overlimit.quart.conversation import Conversation, QuartRequest, limited_request, this_request
from overlimit.quart.errors import RateLimitExceeded, RefusedRequest, StoreFailed

EXTENSION = "overlimit"


class AppState(AppStateOfViews):
    """The RateLimits of one app and the plans of its views."""

    def __init__(self, app: Quart) -> None:
        """Add a middleware, and decide before views are called; `of` makes one state per app."""
        super().__init__(app, app.name, app.view_functions, by_address_and_user)
        self.app = app
        app.cli.commands.setdefault("limits", limits_group(lambda: AppState.of(app), with_appcontext))
        app.asgi_app = ConversationMiddleware(app.asgi_app, lambda scope, send: Conversation(self, send))  # type: ignore[method-assign, assignment, arg-type]
        # The only place after all before_request functions, whenever these and views are added, and inside
        # the code that turns exceptions into responses.
        for name in ("dispatch_request", "dispatch_websocket"):
            setattr(app, name, partial(self._decide_then, getattr(app, name)))
        app.handle_user_exception = partial(self._note_then, app.handle_user_exception)  # type: ignore[method-assign]

    @classmethod
    def of(cls, app: Quart) -> AppState:
        """Return the state of the app, made at first use."""
        if EXTENSION not in app.extensions:
            app.extensions[EXTENSION] = cls(app)
        return app.extensions[EXTENSION]  # type: ignore[no-any-return]

    @classmethod
    def current(cls) -> AppState:
        """Return the state of the current app."""
        return cls.of(current_app._get_current_object())  # type: ignore[attr-defined]

    def configuration(self) -> Mapping[str, Any]:
        """Warn of keys that a RateLimit of Flask would read, and return none."""
        warn_of_keys(self.app.config)
        return {}

    def find_route(self, endpoint: str, method: str) -> Route:
        """Return the limits of an endpoint's view for one HTTP method."""
        if (view := self.app.view_functions.get(endpoint)) is None:
            return Route(endpoint, method)
        groups = groups_of(endpoint, "blueprint", self.app.blueprints)
        rules = self.app.url_map.iter_rules(endpoint)
        paths = [rule.rule for rule in rules if method in (rule.methods or ("GET",))]
        is_static = getattr(view, "__name__", "") == Quart.send_static_file.__name__
        return route_of(self.app, endpoint, method, view, groups, paths, is_static=is_static)

    def methods_taken(self) -> Collection[str]:
        """Return the methods of all rules."""
        return {name for rule in self.app.url_map.iter_rules() for name in rule.methods or ()}

    def plan_of(self, asked: Request | Websocket) -> RoutePlan:
        """Return the plan of the view that answers a request."""
        rule = asked.url_rule
        return self.plan_of_view(None if rule is None else rule.endpoint, asked.method)

    async def _decide_then(self, dispatch: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any) -> Any:
        asked = limited_request()
        plan = None if asked is None else self.plan_of(asked)
        if asked is not None and plan is not None and plan.stores:
            conversation = Conversation.of(self)
            ledger = conversation.ledger_of(asked, plan)
            if not plan.handler_decides:
                await conversation.decide(ledger, plan)
        return await dispatch(*args, **kwargs)

    async def enforce(self, function: LimitedFunction, asked: Request | Websocket) -> None:
        """Decide the request if this call of a decorated function decides it."""
        conversation = Conversation.of(self)
        ledger = conversation.ledger_of(asked)
        plan = self.plan_of_call(function, ledger.plan, counted_place(asked))
        if plan is not None:
            await conversation.decide(ledger, plan)

    async def enforce_block(self, applied: AppliedLimit, asked: Request | Websocket) -> None:
        """Decide the request by the limits of a ``with`` block."""
        conversation = Conversation.of(self)
        ledger = conversation.ledger_of(asked)
        await conversation.decide(ledger, self.plans.of_block(applied, *counted_place(asked)))

    async def _note_then(self, handle: Callable[..., Awaitable[Any]], error: Exception) -> Any:
        """Handle a refusal as an HTTP exception, and have the response show it."""
        refused = self._as_refused(error)
        asked = this_request()
        if isinstance(refused, RefusedRequest) and asked is not None:
            Conversation.of(self).show_raised(refused, QuartRequest(asked))
        try:
            return await handle(refused)
        except (errors.RateLimitExceeded, RefusedRequest) as again:  # of an error handler
            if again is refused:
                raise
            if isinstance(refused, RefusedRequest):  # and it was to answer one
                return as_refusal(again, RateLimitExceeded, StoreFailed)
            return await self._note_then(handle, again)

    def _as_refused(self, error: Exception) -> Exception:
        """Return the HTTP exception for a refusal by a limiter of the app's own, and others as they are."""
        if isinstance(error, HTTPException) or not isinstance(error, errors.RateLimitExceeded):
            return error
        own, asked = own_kinds(error), this_request()
        for name in (*(() if asked is None else asked.blueprints), None):
            if any(kind in self.app.error_handler_spec[name][None] for kind in own):
                return error
        return as_refusal(error, RateLimitExceeded, StoreFailed)
