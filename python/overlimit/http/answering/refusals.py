"""How a refused request is answered: its status, body, header fields and Retry-After.

A body says the same to programs and to people. It never contains identifiers or the store's address, only a
detail and the names that are in the header fields anyway. The ``RateLimit`` fields are in fields.py.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus

from overlimit._core import Decision
from overlimit.decision_urns import urn_of
from overlimit.http.answering.fields import given_seconds, retry_after_seconds

MEDIA_TYPES = ("application/problem+json", "application/json", "text/html")
"""The media types of a body, in our order of preference.

A request without ``Accept`` or with ``*/*`` (curl, ``fetch``) gets the first, a request for JSON gets JSON,
and a browser, which prefers it, gets ``text/html``.
"""

_HTML = "text/html"
_STATUS = re.compile(r"[1-5][0-9]{2}( [^\r\n]*)?")
_QUALITY = re.compile(r"[0-9]*\.?[0-9]+|[0-9]+\.")
_TYPES = "https://iana.org/assignments/http-problem-types"
_PROBLEMS = {"locked": ("abnormal-usage-detected", "Abnormal Usage Detected")}
_QUOTA_EXCEEDED = ("quota-exceeded", "Quota Exceeded")


RefusalResponse = tuple[HTTPStatus, list[tuple[str, str]], bytes]
"""The answer to a refused request, for any framework to send: its status, header fields and body."""


def refusal_response(
    problem: Problem, decision: Decision, accept: str | None, retry_after_name: str
) -> RefusalResponse:
    """Write a refusal in the media type that the request accepts, with Retry-After under the given name."""
    media_type = accepted_media_type(accept)
    body = problem.body(media_type).encode()
    fields = [("Content-Type", media_type), ("Content-Length", str(len(body)))]
    seconds = retry_after_seconds(decision)
    if seconds is not None:
        fields.append((retry_after_name, str(seconds)))
    fields += [("Cache-Control", "no-store"), ("Vary", "Accept")]
    return problem.status, fields, body


def retry_after_instead(decision: Decision, present: str | None) -> str | None:
    """Return the Retry-After that a 429 or 503 needs; None: ``present`` says as much, or nothing helps."""
    seconds = retry_after_seconds(decision)
    given = given_seconds(present, decision.time)
    return str(seconds) if seconds is not None and (given is None or given < seconds) else None


def status_code(status: object) -> int:
    """Return the number of a status that ``on_breach`` answers; TypeError or ValueError if it is none."""
    if isinstance(status, str) and _STATUS.fullmatch(status):
        return int(status[:3])
    message = (
        "the app that on_breach returned must answer with a status from 100 to 599, as in "
        f"'429 Too Many Requests', not {status!r}"
    )
    raise ValueError(message) if isinstance(status, str) else TypeError(message)


@dataclass(frozen=True)
class Problem:
    """A refusal as problem details (RFC 9457); without a ``type`` its status says what it is."""

    status: HTTPStatus
    title: str
    detail: str
    type: str | None = None
    violated_policies: tuple[str, ...] | None = None
    instance: str | None = None
    """A URN that says what was decided, for whoever is asked about it."""

    def body(self, media_type: str) -> str:
        """Write it as one of `MEDIA_TYPES`; both kinds of JSON have the same members."""
        if media_type not in MEDIA_TYPES:
            raise ValueError(f"media_type must be one of {', '.join(MEDIA_TYPES)}, not {media_type!r}")
        return self._as_html() if media_type == _HTML else self._as_json()

    def _as_json(self) -> str:
        members = {
            "type": self.type,
            "title": self.title,
            "status": self.status.value,
            "detail": self.detail,
            "instance": self.instance,
            "violated-policies": self.violated_policies,
        }
        return json.dumps({name: value for name, value in members.items() if value is not None}) + "\n"

    def _as_html(self) -> str:
        phrase = self.status.phrase
        # In ASCII a page is the same under any charset, and no text can fail to be encoded.
        escaped = html.escape(self.detail).encode("ascii", "xmlcharrefreplace").decode()
        detail = escaped.replace("\n", "<br>")
        if self.instance is not None:
            detail += f"</p>\n<p><small>{self.instance}</small>"
        return (
            f"<!doctype html>\n<html lang=en>\n<title>{self.status.value} {phrase}</title>\n"
            f"<h1>{phrase}</h1>\n<p>{detail}</p>\n"
        )


def limit_exceeded(
    decision: Decision, message: str | None, violated_policies: Iterable[str], *, explains: bool = True
) -> Problem:
    """Return the body of a 429 with this message, or else with a sentence on what the decision means.

    It names the limits that refused as the header fields do, and with ``explains`` has a URN.

    Source: the problem types of draft-ietf-httpapi-ratelimit-headers-11, section 5. They have no member for a
    time, which is in ``Retry-After``.
    """
    name, title = _PROBLEMS.get(decision.status, _QUOTA_EXCEEDED)
    violated = tuple(dict.fromkeys(violated_policies))
    return Problem(
        status=HTTPStatus.TOO_MANY_REQUESTS,
        title=title,
        detail=message or explained(decision),
        type=f"{_TYPES}#{name}",
        violated_policies=violated,
        instance=urn_of(decision, next(iter(violated), "")) if explains else None,
    )


def raised_refusal(
    decision: Decision, message: str | None, violated_policies: Iterable[str], *, explains: bool
) -> Problem:
    """Return the body for a refusal that code of the app has raised: a 429, or a 503 if its store failed."""
    if decision.source == "error":
        return store_failed()
    return limit_exceeded(decision, message, violated_policies, explains=explains)


def store_failed(detail: str = "The rate limit cannot be checked right now.") -> Problem:
    """Return the body of a 503: the store does not answer, and ``on_error`` is ``"deny"``."""
    status = HTTPStatus.SERVICE_UNAVAILABLE
    return Problem(status=status, title=status.phrase, detail=detail)


def explained(decision: Decision) -> str:
    """Say in a sentence what a refusal means."""
    seconds = retry_after_seconds(decision)
    if seconds is None:
        return "The rate limit here never admits this request."
    until = f"in {seconds} second{'s' * (seconds != 1)}"
    if decision.limit is not None and decision.limit._are_slots:
        most = decision.limit.quota
        these = f"Too many at once (at most {most})"
        return f"{these}: the next one is admitted once one of these is over, at the latest {until}."
    return f"Too many requests: the next one is admitted {until}."


def accepted_media_type(accept: str | None) -> str:
    """Return which of `MEDIA_TYPES` a request with this ``Accept`` field gets; the first if none fits.

    For each of them the most specific range counts (RFC 9110, section 12.5.1), and then the highest weight,
    the more specific range, and our order.
    """
    ranges = [found for part in (accept or "").split(",") if (found := _media_range(part)) is not None]
    best, result = (0.0, 0), MEDIA_TYPES[0]
    for media_type in MEDIA_TYPES:
        matching = [each for each in ranges if _matches(each[0], media_type)]
        specificity, weight = max(
            ((3 - name.count("*"), weight) for name, weight in matching), default=(0, 0.0)
        )
        if weight > 0 and (weight, specificity) > best:
            best, result = (weight, specificity), media_type
    return result


def _media_range(part: str) -> tuple[str, float] | None:
    """Return a media range and its weight; None if it is invalid or has other parameters."""
    name, *parameters = (each.strip() for each in part.lower().split(";"))
    weight = 1.0
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() != "q" or not _QUALITY.fullmatch(value.strip()):
            return None
        weight = float(value)
    return (name, weight) if weight <= 1 else None


def _matches(name: str, media_type: str) -> bool:
    return name in (media_type, f"{media_type.partition('/')[0]}/*", "*/*")
