"""The bodies of refusals, and which one a request gets."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.datastructures import MIMEAccept
from werkzeug.http import parse_accept_header

from overlimit import FixedWindow, Limiter, ManualClock
from overlimit.http.answering.refusals import (
    MEDIA_TYPES,
    accepted_media_type,
    explained,
    limit_exceeded,
    store_failed,
)

LIMITER = Limiter(FixedWindow(1, 1), clock=ManualClock())
LIMITER.hit("a")


def quota_exceeded(message, violated_policies=()):
    return limit_exceeded(LIMITER.hit("a"), message, violated_policies, explains=False)


JSON_TYPES = [kind for kind in MEDIA_TYPES if kind.endswith("json")]


@pytest.mark.parametrize("media_type", JSON_TYPES)
def test_a_refusal_is_the_problem_of_the_draft(media_type):
    body = json.loads(quota_exceeded("Wait.", ["day", "hour", "day"]).body(media_type))
    assert body == {
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Quota Exceeded",
        "status": 429,
        "detail": "Wait.",
        "violated-policies": ["day", "hour"],
    }


@pytest.mark.parametrize("media_type", JSON_TYPES)
def test_a_failed_store_is_a_503_without_a_type(media_type):
    assert json.loads(store_failed("Later.").body(media_type)) == {
        "title": "Service Unavailable",
        "status": 503,
        "detail": "Later.",
    }


@pytest.mark.parametrize(
    ("problem", "heading"),
    [(quota_exceeded("Wait."), "429 Too Many Requests"), (store_failed("Wait."), "503 Service Unavailable")],
)
def test_a_page_says_status_and_detail(problem, heading):
    page = problem.body("text/html")
    assert page.startswith("<!doctype html>")
    assert f"<title>{heading}</title>" in page
    assert f"<h1>{heading[4:]}</h1>" in page
    assert "<p>Wait.</p>" in page


def test_a_page_escapes_what_it_is_given():
    page = quota_exceeded("<script>\"&'</script>\nnext").body("text/html")
    assert "<script>" not in page
    assert "&lt;script&gt;&quot;&amp;&#x27;&lt;/script&gt;<br>next" in page
    assert "<p>&#233;&#9731;&#55296;</p>" in quota_exceeded("é☃\ud800").body("text/html")


@pytest.mark.parametrize("media_type", JSON_TYPES)
def test_json_survives_any_text(media_type):
    detail = '"\\\n\0é☃\ud800</script>'
    body = quota_exceeded(detail, ['"']).body(media_type)
    assert body.isascii()
    assert json.loads(body)["detail"] == detail


def test_other_media_types_are_an_error():
    with pytest.raises(ValueError, match="image/png"):
        store_failed().body("image/png")


@pytest.mark.parametrize(
    ("seconds", "cost", "text"),
    [
        (1, 1, "Too many requests: the next one is admitted in 1 second."),
        (2, 1, "Too many requests: the next one is admitted in 2 seconds."),
        (2, 9, "The rate limit here never admits this request."),
    ],
)
def test_a_refusal_is_explained_in_a_sentence(seconds, cost, text):
    limiter = Limiter(FixedWindow(1, seconds), clock=ManualClock())
    limiter.hit("a")
    assert explained(limiter.hit("a", cost=cost)) == text


NAMES = (
    *MEDIA_TYPES,
    "*/*",
    "application/*",
    "text/*",
    "*/html",
    "text/plain",
    "Text/HTML",
    "application",
    "*",
    "",
)
RANGES = st.builds(
    lambda name, weight: f"{name}{weight}",
    st.sampled_from(NAMES),
    st.sampled_from(("", "", ";q=0", ";q=0.1", "; q=0.5", ";q=1", ";q=1.0", ";q=2", ";q=x", ";level=1")),
)


@given(st.lists(RANGES, max_size=6).map(", ".join))
def test_it_is_the_one_that_werkzeug_finds(accept):
    theirs = parse_accept_header(accept, MIMEAccept).best_match(MEDIA_TYPES, MEDIA_TYPES[0])
    assert accepted_media_type(accept) == theirs


@pytest.mark.parametrize(
    "accept", [None, "", ",", ";;", "\u20ac", "a/b;q=", "*/*;q=1e400", "text/html;" * 500]
)
def test_whatever_is_sent_there_is_an_answer(accept):
    assert accepted_media_type(accept) in MEDIA_TYPES
