"""What stands in the body of a refusal: the same facts for programs and for people.

Nothing in it tells who was asked for or which store was: a detail, and the names that the response's header
shows.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus

__all__ = ["MEDIA_TYPES", "Problem", "accepted_media_type", "explained", "quota_exceeded", "store_failed"]

MEDIA_TYPES = ("application/problem+json", "application/json", "text/html")
"""What a body may be, the first for whoever names none or takes anything.

Among equally welcome ones the earlier is right. So a request without ``Accept`` or with ``*/*`` (curl,
``fetch``) gets the first, one that asks for JSON gets JSON, and a browser, which prefers it, ``text/html``.
"""

_HTML = "text/html"
_QUALITY = re.compile(r"[0-9]*\.?[0-9]+|[0-9]+\.")
_QUOTA_EXCEEDED = "https://iana.org/assignments/http-problem-types#quota-exceeded"


@dataclass(frozen=True)
class Problem:
    """A refusal as problem details (RFC 9457); without a ``type`` it means what its status means."""

    status: HTTPStatus
    title: str
    detail: str
    type: str | None = None
    violated_policies: tuple[str, ...] | None = None

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
            "violated-policies": self.violated_policies,
        }
        return json.dumps({name: value for name, value in members.items() if value is not None}) + "\n"

    def _as_html(self) -> str:
        phrase = self.status.phrase
        # In ASCII a page is the same under any charset, and no text can fail to be encoded.
        escaped = html.escape(self.detail).encode("ascii", "xmlcharrefreplace").decode()
        detail = escaped.replace("\n", "<br>")
        return (
            f"<!doctype html>\n<html lang=en>\n<title>{self.status.value} {phrase}</title>\n"
            f"<h1>{phrase}</h1>\n<p>{detail}</p>\n"
        )


def quota_exceeded(detail: str, violated_policies: Iterable[str] = ()) -> Problem:
    """Return the body of a 429.

    Parameters
    ----------
    detail
        For a person: what happened and what to do, as from `explained`.
    violated_policies
        The names under which the header shows what refused; the same name twice is there once.

    Source: the problem type of draft-ietf-httpapi-ratelimit-headers-10, section 5.1. It has no member for a
    time: that is ``Retry-After``.
    """
    return Problem(
        status=HTTPStatus.TOO_MANY_REQUESTS,
        title="Quota Exceeded",
        detail=detail,
        type=_QUOTA_EXCEEDED,
        violated_policies=tuple(dict.fromkeys(violated_policies)),
    )


def store_failed(detail: str = "Whether this request is within its limits cannot be told now.") -> Problem:
    """Return the body of a 503, for when the store does not answer and nothing may pass without it."""
    status = HTTPStatus.SERVICE_UNAVAILABLE
    return Problem(status=status, title=status.phrase, detail=detail)


def explained(retry_after: int | None) -> str:
    """Say in a sentence what a refusal means; ``retry_after`` in seconds, None when waiting cannot help."""
    if retry_after is None:
        return "The rate limit here never admits this request."
    return f"Too many requests: the next one is admitted in {retry_after} second{'s' * (retry_after != 1)}."


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
            ((_specificity(name), weight) for name, weight in matching), default=(0, 0.0)
        )
        if weight > 0 and (weight, specificity) > best:
            best, result = (weight, specificity), media_type
    return result


def _media_range(part: str) -> tuple[str, float] | None:
    """Return a media range and its weight; None for what is none, and for one with other parameters."""
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


def _specificity(name: str) -> int:
    return 3 - name.count("*")
