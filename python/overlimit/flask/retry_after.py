"""When a refused caller may come again, told by whatever answers the refusal."""

from __future__ import annotations

from typing import NamedTuple

from flask import Response, after_this_request

from overlimit import Decision
from overlimit.flask.current import EXTENSION, current_request, this_app, this_request
from overlimit.http.fields import RETRY_AFTER, given_seconds, retry_after_seconds

__all__ = ["note_refusal"]

_REFUSAL = "_overlimit_refusal"
"""The attribute of a request that holds its latest refusal."""

_OURS = "_overlimit_retry_after"
"""The attribute of a response that holds what was added to it."""


class _Refusal(NamedTuple):
    """A refusal, and what the app calls Retry-After; None: as its first RateLimit does."""

    decision: Decision
    header: str | None


def note_refusal(decision: Decision, header: str | None = None) -> None:
    """Let the response to the current request tell when to come again, if its status is 429 or 503.

    Of several refusals the latest counts. Outside of a request nothing happens.
    """
    asked = this_request()
    if asked is None:
        return
    known: _Refusal | None = getattr(asked, _REFUSAL, None)
    if known is None:
        after_this_request(_add_retry_after)
    elif known.decision is decision:
        return
    setattr(asked, _REFUSAL, _Refusal(decision, header))


def _add_retry_after(response: Response) -> Response:
    if response.status_code in (429, 503):
        refusal: _Refusal = getattr(current_request(), _REFUSAL)
        header = refusal.header or _usual_header()
        _take_off(response, header)
        seconds = retry_after_seconds(refusal.decision)
        given = given_seconds(response.headers.get(header), refusal.decision.time)
        if seconds is not None and (given is None or given < seconds):
            response.headers[header] = str(seconds)
            setattr(response, _OURS, str(seconds))
    return response


def _take_off(response: Response, header: str) -> None:
    """Remove what was added to a response that answers more than one request."""
    ours = getattr(response, _OURS, None)
    if ours is not None and response.headers.get(header) == ours:
        del response.headers[header]


def _usual_header() -> str:
    state = this_app().extensions.get(EXTENSION)
    first = None if state is None else next(iter(state.bindings), None)
    return RETRY_AFTER if first is None else str(first.header_names.retry_after)
