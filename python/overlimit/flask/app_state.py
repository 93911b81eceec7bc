"""What ``app.extensions["overlimit"]`` holds: an app's RateLimits and the compiled plans of its routes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from flask import Flask, Request, Response
from werkzeug.exceptions import HTTPException

from overlimit import _core, errors
from overlimit._core import Decision
from overlimit._forks import PerProcess
from overlimit.flask.current import EXTENSION, LEDGER, current_request, this_app
from overlimit.flask.errors import (
    REFUSALS,
    RefusedRequest,
    as_refused,
    headers_of,
    rate_limited,
    refuse,
    send_retry_after,
)
from overlimit.flask.identifiers import BY_DEFAULT, CURRENT
from overlimit.flask.proxies import without_proxies
from overlimit.flask.routes import find_route
from overlimit.http.answering.fields import shows_fields
from overlimit.http.app_state import AppStateOfViews
from overlimit.http.deciding.answer import StoreAnswer
from overlimit.http.deciding.ledger import RequestLedger
from overlimit.http.deciding.plans import RoutePlan, StorePlan
from overlimit.http.raised import own_kinds
from overlimit.http.rules.applied_limits import AppliedLimit, LimitedFunction
from overlimit.http.rules.precedence import Route
from overlimit.http.rules.views import counted_place

_HOOKS_FAILED = "_overlimit_hooks_failed"
"""The attribute of a request whose ``after_request`` hooks have failed."""

_creating = PerProcess(threading.Lock)


class Ledger(RequestLedger):
    """The ledger of a Flask request."""

    __slots__ = ()

    def enforce(self, stores: Iterable[StorePlan] | None = None) -> None:
        """Decide as `decide` does; raises RateLimitExceeded or StoreFailed if the request is refused."""
        refusal = self.decide(stores)
        if refusal is not None:
            refuse(refusal)

    def report_shadow_refusal(self, answer: StoreAnswer) -> None:
        """Log that limits in shadow would have refused the request, and send the signal."""
        super().report_shadow_refusal(answer)
        rate_limited.send(this_app(), decision=answer.decision_with_shadows)


class AppState(AppStateOfViews):
    """The RateLimits of one app and the plans of its routes; safe for threads."""

    def __init__(self, app: Flask) -> None:
        """Wrap the app's dispatching, its error handling and its responses; `of` makes one state per app."""
        super().__init__(app, app.name, app.view_functions, BY_DEFAULT)
        self.app = app
        self._dispatch, self._process = app.dispatch_request, app.process_response
        self._handle_error, self._handle_exception = app.handle_user_exception, app.handle_exception
        app.dispatch_request = self._decide_then_dispatch  # type: ignore[method-assign]
        app.handle_user_exception = self._note_then_handle  # type: ignore[method-assign]
        app.handle_exception = self._handle_failure  # type: ignore[method-assign]
        app.process_response = self._add_fields_then_process  # type: ignore[method-assign]

    @classmethod
    def of(cls, app: Flask) -> AppState:
        """Return the state of the app, made at first use."""
        state: AppState | None = app.extensions.get(EXTENSION)
        if state is None:
            with _creating():
                state = app.extensions.get(EXTENSION)
                if state is None:
                    state = app.extensions[EXTENSION] = cls(app)
        return state

    def configuration(self) -> Mapping[str, Any]:
        """Return the keys of the app's configuration."""
        config = self.app.config
        return without_proxies({key: config[key] for key in config if str(key).startswith("RATELIMIT_")})

    def find_route(self, endpoint: str, method: str) -> Route:
        """Return the limits of an endpoint's view for one HTTP method."""
        return find_route(self.app, endpoint, method)

    def methods_taken(self) -> Collection[str] | None:
        """Return the methods of all rules; None: one of them takes any."""
        rules = tuple(self.app.url_map.iter_rules())
        if any(rule.methods is None for rule in rules):
            return None
        return {name for rule in rules for name in rule.methods or ()}

    def active(self) -> AbstractContextManager[object]:
        """Return a context of the app."""
        return self.app.app_context()

    def enforce(self, function: LimitedFunction, asked: Request) -> None:
        """Decide the request, as `Ledger.enforce` does, if this call of a decorated function decides it."""
        ledger = self._ledger(asked)
        plan = self.plan_of_call(function, ledger.plan, counted_place(asked))
        if plan is ledger.plan:
            ledger.enforce()
        elif plan is not None:
            self._enforce_besides(plan, asked)

    def enforce_block(self, applied: AppliedLimit, asked: Request) -> None:
        """Decide the request by the limits of a ``with`` block, as `Ledger.enforce` does."""
        self._enforce_besides(self.plans.of_block(applied, *counted_place(asked)), asked)

    def _enforce_besides(self, plan: RoutePlan, asked: Request) -> None:
        if plan.memories:
            plan.warn_if_apart(asked.environ.get("wsgi.multiprocess"), self.app.name)
        self._ledger(asked).enforce(plan.stores)

    def _ledger(self, asked: Request) -> Ledger:
        ledger: Ledger | None = getattr(asked, LEDGER, None)
        if ledger is None:
            ledger = Ledger(CURRENT, self._route_plan(asked))
            setattr(asked, LEDGER, ledger)
        return ledger

    # Wrapped on the app: the only place after all before_request hooks, whenever hooks and views are added,
    # and inside the code that turns exceptions into responses.
    # Flask 3.2 gives each of them its context first, and what else it gives is passed on as it comes.
    def _decide_then_dispatch(self, *args: Any, **kwargs: Any) -> Any:
        asked = current_request()
        if asked.method != "OPTIONS":
            plan = self._route_plan(asked)
            if plan.stores:
                if plan.memories:
                    plan.warn_if_apart(asked.environ.get("wsgi.multiprocess"), self.app.name)
                ledger: Ledger | None = getattr(asked, LEDGER, None)
                if ledger is None:
                    ledger = Ledger(CURRENT, plan)
                    setattr(asked, LEDGER, ledger)
                if not plan.handler_decides:
                    ledger.enforce()
        return self._dispatch(*args, **kwargs)

    # A refusal may have been made where there was no request, such as in another thread of the app.
    def _note_then_handle(self, *args: Any, **kwargs: Any) -> Any:
        error = self._as_refused(_last(args, kwargs))
        if isinstance(error, RefusedRequest):
            self._note_refusal(error.decision)
        try:
            return self._handle_error(*_with_last(error, args, kwargs))
        except REFUSALS as refusal:  # of an error handler, for which Flask would send a 500
            if refusal is error:
                raise
            if isinstance(error, REFUSALS):  # and it was to answer one
                return as_refused(refusal)
            return self._note_then_handle(*_with_last(refusal, args, kwargs))

    # Called with what after_request hooks raise, too; and nothing else handles what a handler for 500 raises.
    def _handle_failure(self, *args: Any, **kwargs: Any) -> Response:
        refusal = self._as_refused(_last(args, kwargs))
        if not isinstance(refusal, RefusedRequest):
            try:
                return self._handle_exception(*args, **kwargs)
            except REFUSALS as raised:
                refusal = raised
        given = _with_last(refusal, args, kwargs)
        answer = self._note_then_handle(*given)
        finalize: Callable[..., Response] = self.app.finalize_request
        return finalize(*given[:-1], answer, from_error_handler=True)

    def _as_refused(self, error: Any) -> Any:
        """Return the HTTP exception for a refusal by a limiter of the app's own, and others as they are."""
        if not isinstance(error, errors.RateLimitExceeded) or isinstance(error, HTTPException):
            return error
        own = own_kinds(error)
        handlers = self.app.error_handler_spec
        for name in (*current_request().blueprints, None):
            if any(kind in handlers.get(name, {}).get(None, {}) for kind in own):
                return error
        return as_refused(error)

    def _note_refusal(self, decision: Decision) -> None:
        send_retry_after(decision)
        first = self.rate_limits.first
        if first is not None:
            self._ledger(current_request()).note_raised(decision, first)

    # The after_request hooks see the header fields and may change them; whether a request counts is decided
    # after them, by the response that is sent.
    def _add_fields_then_process(self, *args: Any, **kwargs: Any) -> Response:
        asked = current_request()
        ledger: Ledger | None = getattr(asked, LEDGER, None)
        if ledger is None:
            return self._process(*args, **kwargs)
        response: Response = kwargs["response"] if kwargs else args[-1]
        fields = ledger.fields() if shows_fields(response.status_code) else []
        headers = headers_of(response)
        # Headers.add searches for line breaks, which our fields never have; that costs as much as deciding.
        present: list[tuple[str, str]] | None = getattr(headers, "_list", None)
        if present is None or not _core._add_fields(present, fields):
            for name, value in fields:
                headers.set(name, value)
        try:
            response = self._process(*args, **kwargs)
        except Exception:
            # Flask calls the hooks once more, with its answer to their failure, and sends that answer
            # whatever they do: there will be no other response.
            if ledger.may_refund and hasattr(asked, _HOOKS_FAILED):
                ledger.refund_uncounted(response)
            setattr(asked, _HOOKS_FAILED, True)
            raise
        if ledger.may_refund:
            ledger.refund_uncounted(response)
        return response

    def _route_plan(self, asked: Request) -> RoutePlan:
        rule = asked.url_rule
        return self.plan_of_view(None if rule is None else rule.endpoint, asked.method)


def _last(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return (*args, *kwargs.values())[-1]


def _with_last(value: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Return the arguments in their order, with this as the last."""
    return (*(*args, *kwargs.values())[:-1], value)
