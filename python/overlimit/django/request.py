"""A request of Django, or of Django REST framework, as limits see it."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.http.request import RawPostDataException

from overlimit._core import Decision
from overlimit._patterns import METHODS
from overlimit.http.callables import Outcomes
from overlimit.http.request import EnvironRequest, json_in, may_have_json

_OUTCOMES = "_overlimit_outcomes"


class DjangoRequest(EnvironRequest):
    """Describes a request to limits; functions of the app are called with it as the view has it."""

    __slots__ = ("_request",)

    def __init__(self, request: Any) -> None:
        super().__init__(request.META, request)
        self._request = request

    def user(self) -> object:
        """Return the primary key of the user, which is not always called ``id``."""
        user = getattr(self._request, "user", None)
        if user is None or not getattr(user, "is_authenticated", True):
            return None
        key = getattr(user, "pk", None)
        return user if key is None else key

    def cookie(self, name: str) -> str | None:
        """Return the value of a cookie."""
        found: str | None = self._request.COOKIES.get(name)
        return found

    def path_parameter(self, name: str) -> object:
        """Return the value that the view is given by this name."""
        match = self._request.resolver_match
        return None if match is None else match.kwargs.get(name)

    def json(self) -> object:
        """Return the body of a JSON request, unless it is long; the view can read it again."""
        length = str(self._environ.get("CONTENT_LENGTH") or "")
        if not may_have_json(self._request.content_type, length):
            return None
        try:
            return json_in(self._request.body)
        except RawPostDataException:  # it was read as a stream, by REST framework if there is data
            return getattr(self._request, "data", None)


def http_request(given: object) -> HttpRequest | None:
    """Return Django's request, also out of that of REST framework; None: it is no request."""
    if isinstance(given, HttpRequest):
        return given
    within = getattr(given, "_request", None) if hasattr(given, "authenticators") else None
    return within if isinstance(within, HttpRequest) else None


def current_decision(request: HttpRequest) -> Decision | None:
    """Return ``request.rate_limit``, which type checkers do not know; None: nothing was decided so far."""
    found: Decision | None = getattr(request, "rate_limit", None)
    return found


def method_of(request: HttpRequest) -> str:
    """Return the method by which limits hold; one for all that a client has made up."""
    return request.method if request.method in METHODS else "OTHER"


def kept_in(given: Any) -> Outcomes:
    """Return where a request keeps what coroutine functions returned, given it as the view has it."""
    kept: Outcomes = vars(http_request(given)).setdefault(_OUTCOMES, {})
    return kept


def forget_outcomes(request: HttpRequest) -> None:
    """Begin a decision: no coroutine function has been awaited for it."""
    vars(request).pop(_OUTCOMES, None)
