"""A throttle for Django REST framework."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

from overlimit._messages.optional import needed

with needed(
    "overlimit.django.drf needs Django REST framework: pip install 'overlimit[drf]' brings it",
    "rest_framework",
):
    from rest_framework.exceptions import APIException, Throttled
    from rest_framework.settings import api_settings
    from rest_framework.throttling import BaseThrottle

from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest

from overlimit import errors
from overlimit._messages.texts import nearest
from overlimit.django.keys import Key
from overlimit.django.ledger import Ledger, is_kept
from overlimit.django.options import VIEW_OPTIONS, applied_limits
from overlimit.django.request import http_request, method_of
from overlimit.django.site import site
from overlimit.django.views import name_of, shown_name
from overlimit.http.answering.fields import retry_after_seconds
from overlimit.http.callables import dotted_name
from overlimit.http.deciding.answer import StoreAnswer
from overlimit.http.identifying.builtin import unknown_parameters
from overlimit.http.options.limit_options import hashable
from overlimit.http.options.optional_limits import OptionalLimits
from overlimit.http.rules.applied_limits import AppliedLimits
from overlimit.http.rules.count_names import usable_field_name

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.views import APIView

__all__ = ["OverlimitThrottle", "exception_handler"]

_TOLD = "_overlimit_throttles"
"""The attribute of a request that holds what its throttles are told."""

_ANSWERED_OTHERWISE = frozenset({"block", "error_message", "on_breach", "override_defaults"})
_OPTIONS = VIEW_OPTIONS.keys() - {*_ANSWERED_OTHERWISE, "group", "name", "scope"}
_HINTS = {
    "rate": "limits",
    "limit": "limits",
    "rates": "limits",
    "identifiers": "key",
    "throttle_scope": "scope",
}


class StoreFailed(APIException):  # type: ignore[misc]  # it has no types
    """503: the store failed, and ``on_error`` is ``"deny"``."""

    status_code = 503
    default_detail = "The rate limit cannot be checked right now."
    default_code = "store_failed"

    def __init__(self, wait: int | None) -> None:
        super().__init__()
        self.wait = wait


class OverlimitThrottle(BaseThrottle):  # type: ignore[misc]  # it has no types
    """Throttles the views of Django REST framework exactly, by the setting ``OVERLIMIT``.

    Authentication and permissions come before it, so ``"user"`` is the user of the API. All throttles of this
    kind on a view are decided in one call to the store: what one refuses, none is charged for. Views with the
    same throttle are counted together, by ``scope``, or else by the class's dotted name. Options of
    ``rate_limit`` may be attributes, too: ``cost``, ``methods``, ``anonymous``, ``algorithm``, ``on_error``
    and so on.

    Attributes
    ----------
    limits
        As for ``rate_limit``; by default the rate of the scope in ``DEFAULT_THROTTLE_RATES``, where None is
        no limit.
    key
        Who is limited, as for ``rate_limit``.
    scope
        The name of the rate and of the count; by default the view's ``throttle_scope``. Without a scope and
        without ``limits`` nothing is limited.
    """

    limits: ClassVar[OptionalLimits | None] = None
    key: ClassVar[Key | None] = None
    scope: ClassVar[str | None] = None

    def __init_subclass__(cls, **more: Any) -> None:
        """Check the attributes; raise InvalidLimit, ValueError or TypeError for wrong ones."""
        super().__init_subclass__(**more)
        for name in vars(cls).keys() & _ANSWERED_OTHERWISE:
            raise TypeError(f"{cls.__name__} has no option {name!r}: REST framework answers what it refuses")
        for name in vars(cls):
            like = _HINTS.get(name) or (None if name.startswith("_") else _misspelt(name))
            if like and not callable(getattr(cls, name)):
                raise TypeError(f"{cls.__name__} has no option {name!r}: did you mean {like!r}?")
        _applied(cls, cls.limits, _name(cls, None))

    def __init__(self) -> None:
        self._wait: float | None = None

    def allow_request(self, request: Request, view: APIView) -> bool:
        """Decide a request by all throttles of the view, once, and return whether this one allows it."""
        answer = _Told.of(request).answer(type(self), request, view)
        name = _shown(type(self), _name(type(self), view))
        waits = [] if answer is None else answer.waits_for(usable_field_name(name))
        self._wait = max(waits, default=None)
        return not waits

    def wait(self) -> float | None:
        """Return after how many seconds the request that was refused passes; None: never."""
        return None if self._wait == math.inf else self._wait


def exception_handler(error: Exception, context: dict[str, Any]) -> Any:
    """Answer refusals by limiters of a view's own as the framework answers those of its throttles.

    For ``REST_FRAMEWORK = {"EXCEPTION_HANDLER": "overlimit.django.drf.exception_handler"}``; without it, the
    middleware answers them by problem details. Other exceptions are left to the framework's own handler.
    """
    from rest_framework.views import exception_handler as handle  # which may be what imports this

    asked = http_request(context["request"])
    if asked is None or not isinstance(error, errors.RateLimitExceeded):
        return handle(error, context)
    ledger, wait = Ledger.of(asked), retry_after_seconds(error.decision)
    ledger.note_raised(error.decision, ledger.site.rate_limit)
    answer = handle(StoreFailed(wait) if error.decision.source == "error" else Throttled(wait), context)
    for name, value in ledger.fields():
        answer[name] = value
    return answer


class _Told:
    """What the throttles of a request are told, each once: those of a view are decided together."""

    def __init__(self) -> None:
        self._decided: set[type[OverlimitThrottle]] = set()
        self._answers: dict[type[OverlimitThrottle], StoreAnswer | None] = {}

    @classmethod
    def of(cls, request: Any) -> _Told:
        asked = http_request(request)
        if asked is None:
            raise TypeError(f"a throttle is asked with a request, not with {request!r}")
        told: _Told | None = getattr(asked, _TOLD, None)
        if told is None:
            told = cls()
            setattr(asked, _TOLD, told)
        return told

    def answer(self, kind: type[OverlimitThrottle], request: Any, view: Any) -> StoreAnswer | None:
        """Return the answer of the store to a throttle; one that asks again is decided again, alone."""
        if kind not in self._answers:
            kinds = {kind: None} if kind in self._decided else self._kinds_of(view) | {kind: None}
            self._answers |= dict.fromkeys(kinds, _decide(tuple(kinds), request, view))
            self._decided |= kinds.keys()
        return self._answers.pop(kind)

    def _kinds_of(self, view: Any) -> dict[type[OverlimitThrottle], None]:
        throttles = view.get_throttles() if hasattr(view, "get_throttles") else ()
        found = (type(each) for each in throttles if isinstance(each, OverlimitThrottle))
        return {kind: None for kind in found if kind not in self._decided}


def _decide(kinds: tuple[type[OverlimitThrottle], ...], request: Any, view: Any) -> StoreAnswer | None:
    """Decide a request by throttles of a view, and return what the store answered."""
    asked = cast(HttpRequest, http_request(request))
    ledger = Ledger.of(asked)
    applied = tuple(each for kind in kinds for each in _limits_of(kind, view))
    if not (applied and ledger.limits(asked)):
        return None
    _show_fields(ledger, asked, view)
    plan = ledger.site.plan(name_of(cast(Any, type(view))), method_of(asked), applied, None)
    before = len(ledger.answers)
    ledger.enforce(plan, request, asked)
    answer = next(iter(ledger.answers[before:]), None)
    if answer is not None and answer.refuses and answer.store_failed:
        raise StoreFailed(retry_after_seconds(answer.decision))
    return answer


def _show_fields(ledger: Ledger, request: HttpRequest, view: Any) -> None:
    """Have a view write the header fields into its response, unless that is done outside of it."""
    finalize = getattr(view, "finalize_response", None)
    if ledger.is_taken or finalize is None:
        return
    show = partial(ledger.show, is_kept=is_kept(request))

    def finalize_response(*args: Any, **kwargs: Any) -> Any:
        response = finalize(*args, **kwargs)
        show(response)
        return response

    view.finalize_response = finalize_response


def _limits_of(kind: type[OverlimitThrottle], view: Any) -> AppliedLimits:
    limits = kind.limits
    if limits is None:
        scope = kind.scope or getattr(view, "throttle_scope", None)
        limits = None if scope is None else _rate_of(scope)
    return () if limits is None else _applied(kind, limits, _name(kind, view))


def limits_of_throttles(view: Any) -> AppliedLimits:
    """Return the limits of all throttles of a class of views; raise as they do at a request."""
    kinds = (each for each in getattr(view, "throttle_classes", ()) if _is_ours(each))
    return tuple(each for kind in kinds for each in _limits_of(kind, view))


def _is_ours(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, OverlimitThrottle)


def problems_of_throttles(view: Any, parameters: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the numbers of the checks that the throttles of a class of views fail, and what is wrong."""
    from rest_framework.views import APIView  # which may be what imports this, by the settings

    throttles = getattr(view, "throttle_classes", ())
    for kind in throttles:
        if not _is_ours(kind):
            continue
        try:
            applied = _limits_of(kind, view)
            site().plan(_name(kind, view), "GET", applied, None)
        except (ImproperlyConfigured, TypeError, ValueError) as error:
            yield "E002", str(error)
            continue
        if throttles is APIView.throttle_classes:  # that of the settings is for views of all kinds
            continue
        for each in applied:
            yield from (("W003", told) for told in unknown_parameters(each.options.identifiers, parameters))
        if kind.limits is None and not (kind.scope or getattr(view, "throttle_scope", None)):
            hint = "give it limits or a scope, or the view a throttle_scope"
            yield "W004", f"{dotted_name(kind)} limits nothing here: {hint}"


def _rate_of(scope: str) -> Any:
    rates = api_settings.DEFAULT_THROTTLE_RATES
    if scope in rates:
        return rates[scope]
    like = nearest(scope, rates)
    hint = f"did you mean {like!r}?" if like else "add it, with None for no limit"
    raise ImproperlyConfigured(f"DEFAULT_THROTTLE_RATES has no rate for the scope {scope!r}: {hint}")


def _name(kind: type[OverlimitThrottle], view: Any) -> str:
    own = kind.scope or (getattr(view, "throttle_scope", None) if kind.limits is None else None)
    return str(own or dotted_name(kind))


def _shown(kind: Any, name: str) -> str:
    return shown_name(name) if name == dotted_name(kind) else name


def _applied(kind: Any, limits: Any, name: str) -> AppliedLimits:
    return _kept(kind, hashable(limits), name, isinstance(limits, list))


@lru_cache(1024)
def _kept(kind: Any, limits: Any, name: str, is_list: bool) -> AppliedLimits:
    given = {option: getattr(kind, option) for option in _OPTIONS if hasattr(kind, option)}
    given["name"] = _shown(kind, name)
    return applied_limits(list(limits) if is_list else limits, given, shared=name)


def _misspelt(name: str) -> str | None:
    if name in _OPTIONS or hasattr(OverlimitThrottle, name):
        return None
    return nearest(name, [*_OPTIONS, "limits", "scope"], 0.8)
