"""The bodies of refusals."""

from __future__ import annotations

import json

import pytest

from overlimit.http.answering.refusals import MEDIA_TYPES, explained, quota_exceeded, store_failed

JSON_TYPES = [kind for kind in MEDIA_TYPES if kind.endswith("json")]


def test_whoever_takes_anything_gets_problem_details():
    assert MEDIA_TYPES == ("application/problem+json", "application/json", "text/html")


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


def test_a_refusal_by_what_no_header_shows_has_an_empty_list():
    assert json.loads(quota_exceeded("Wait.").body("application/json"))["violated-policies"] == []


@pytest.mark.parametrize("media_type", JSON_TYPES)
def test_a_failed_store_is_a_503_without_a_type(media_type):
    assert json.loads(store_failed("Later.").body(media_type)) == {
        "title": "Service Unavailable",
        "status": 503,
        "detail": "Later.",
    }


@pytest.mark.parametrize(
    ("problem", "heading"),
    [
        (quota_exceeded("Wait."), "429 Too Many Requests"),
        (store_failed("Wait."), "503 Service Unavailable"),
    ],
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


@pytest.mark.parametrize("media_type", JSON_TYPES)
def test_json_survives_any_text(media_type):
    detail = '"\\\n\0é☃\ud800</script>'
    body = quota_exceeded(detail, ['"']).body(media_type)
    assert body.isascii()
    assert json.loads(body)["detail"] == detail


def test_a_page_survives_any_text():
    assert "<p>&#233;&#9731;&#55296;</p>" in quota_exceeded("é☃\ud800").body("text/html")


def test_other_media_types_are_an_error():
    with pytest.raises(ValueError, match="image/png"):
        store_failed().body("image/png")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (1, "Too many requests: the next one is admitted in 1 second."),
        (2, "Too many requests: the next one is admitted in 2 seconds."),
        (None, "The rate limit here never admits this request."),
    ],
)
def test_a_refusal_is_explained_in_a_sentence(seconds, text):
    assert explained(seconds) == text
