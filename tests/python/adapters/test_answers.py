"""What a client sees of limits: statuses, fields and bodies, exactly, under every adapter."""

from __future__ import annotations

import pytest

from adapters import each
from adapters.site import Reply
from overlimit.asgi import HeaderNames

DRAFT = ["ratelimit", "ratelimit-policy"]
LEGACY = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"]


@each()
def test_a_client_passes_as_often_as_the_limit_says_and_is_told_when_it_may_come_again(serve, adapter, at):
    site, name = serve(limits="2/minute"), adapter.one_limit
    answers = [site.ask() for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 429]
    assert [answer.headers["RateLimit"] for answer in answers] == [f'"{name}";r={r};t=60' for r in (1, 0, 0)]
    assert {answer.headers["RateLimit-Policy"] for answer in answers} == {f'"{name}";q=2;w=60'}
    assert [answer.headers.get("Retry-After") for answer in answers] == [None, None, "60"]
    assert site.ask(peer="192.0.2.2").status == 200
    for second, left in ((58.5, "2"), (59.5, "1")):
        at(second)
        assert site.ask().headers["Retry-After"] == left
    at(60)
    assert site.statuses(times=3) == [200, 200, 429]


@each()
@pytest.mark.parametrize(
    ("accept", "sent"),
    [
        ([], "application/problem+json"),
        ([("Accept", "application/json")], "application/json"),
        ([("Accept", "text/html,*/*;q=0.8")], "text/html"),
    ],
)
def test_a_refusal_is_in_the_form_that_the_client_accepts_and_names_nobody(serve, adapter, accept, sent):
    site = serve(limits="1/minute")
    site.ask()
    refusal = site.ask("/", *accept)
    assert (refusal.status, refusal.headers["Content-Type"].partition(";")[0]) == (429, sent)
    assert (refusal.headers["Vary"], refusal.headers["Cache-Control"]) == ("Accept", "no-store")
    assert "in 60 seconds" in refusal.text
    assert "192.0.2.1" not in refusal.text
    if sent != "text/html":
        told = refusal.json
        assert (told["status"], told["title"]) == (429, "Quota Exceeded")
        assert told["violated-policies"] == [adapter.one_limit]


@each()
def test_head_is_counted_as_get_and_its_refusal_has_no_body(serve, adapter):
    site = serve(limits="2/minute")
    assert site.statuses(times=1) + site.statuses(times=1, method="HEAD") == [200, 200]
    refusal = site.ask(method="HEAD")
    assert refusal.status == 429
    assert refusal.text == "" or "head" in adapter.cannot
    assert int(refusal.headers["Content-Length"]) > 0
    assert refusal.headers["Retry-After"] == "60"


@each()
def test_options_is_never_limited(serve):
    site = serve(limits="1/minute", together="1/minute", global_limits="1/minute")
    asked = [site.ask(method="OPTIONS") for _ in range(3)]
    assert len({answer.status for answer in asked} - {200, 405}) == 0
    assert [answer.ours for answer in asked] == [[]] * 3
    assert site.statuses(times=2) == [200, 429]


@each()
@pytest.mark.parametrize(
    ("headers", "shown"),
    [("draft", DRAFT), ("legacy", LEGACY), ("both", DRAFT + LEGACY), (None, [])],
)
def test_headers_chooses_the_fields(serve, headers, shown):
    site = serve(limits="1/minute", headers=headers)
    for status in (200, 429):
        answer = site.ask()
        assert (answer.status, answer.ours) == (status, shown)
        assert ("Retry-After" in answer.headers) == (status == 429)


@each()
def test_names_of_fields_may_be_others(serve):
    names = HeaderNames(limit="X-L", remaining="X-Left", reset="X-Again", retry_after="X-Wait")
    site = serve(limits="1/minute", headers="legacy", header_names=names)
    site.ask()
    refusal = site.ask()
    assert (refusal.headers["X-L"], refusal.headers["X-Left"], refusal.headers["X-Wait"]) == ("1", "0", "60")
    assert int(refusal.headers["X-Again"]) == 1_700_000_060
    assert "Retry-After" not in refusal.headers
    assert refusal.ours == []


@each()
def test_fields_of_the_app_are_replaced_not_doubled(serve):
    theirs = {"ratelimit": "mine", "X-RateLimit-Limit": "mine", "X-Own": "1"}
    answer = serve(lambda asked: Reply(headers=theirs), limits="2/minute", headers="both").ask()
    assert answer.headers["X-Own"] == "1"
    assert answer.ours == DRAFT + LEGACY
    assert "mine" not in [answer.headers["X-RateLimit-Limit"], answer.headers["RateLimit"].split(", ")[-1]]


@each()
@pytest.mark.parametrize("status", [200, 301, 302, 304, 308, 404, 500])
def test_whatever_a_view_answers_has_the_fields_but_a_redirect(serve, status):
    view = serve(
        lambda asked: Reply(status=status, headers={"Location": "/x"}), limits="5/minute", headers="both"
    )
    answer = view.ask()
    assert (answer.status, answer.headers["Location"]) == (status, "/x")
    assert answer.ours == ([] if 300 <= status < 400 else DRAFT + LEGACY)


@each("stream")
def test_a_stream_has_the_fields_and_arrives_whole(serve):
    answer = serve(lambda asked: Reply("in parts", stream=True), limits="5/minute").ask()
    assert (answer.status, answer.text, answer.ours) == (200, "in parts", DRAFT)


@each()
def test_several_limits_are_one_decision_that_charges_none_if_one_refuses(serve, adapter, at):
    site = serve(limits="1/minute; 2/hour", headers="both")
    name = adapter.one_limit
    assert site.statuses(times=9) == [200] + [429] * 8
    refusal = site.ask()
    assert refusal.left == {f"{name}:1-per-60s": 0, f"{name}:2-per-3600s": 1}
    assert (refusal.headers["X-RateLimit-Limit"], refusal.headers["Retry-After"]) == ("1", "60")
    assert refusal.json["violated-policies"] == [f"{name}:1-per-60s"]
    at(60)
    assert site.ask().left == {f"{name}:1-per-60s": 0, f"{name}:2-per-3600s": 0}
    at(120)
    refusal = site.ask()
    assert (refusal.status, refusal.headers["X-RateLimit-Limit"]) == (429, "2")
    assert refusal.headers["Retry-After"] == "3480"


@each()
def test_what_waiting_cannot_help_has_no_time(serve):
    for options in ({"limits": "0/minute"}, {"limits": "2/minute", "cost": 3}):
        refusal = serve(headers="both", key_prefix=f"p{len(options)}", **options).ask()
        assert (refusal.status, refusal.headers.get("Retry-After")) == (429, None)
        assert "t=" not in refusal.headers["RateLimit"]
        assert "X-RateLimit-Reset" not in refusal.headers
        assert "never admits" in refusal.text


@each()
def test_the_view_knows_the_decision_or_that_there_is_none(serve):
    seen = []
    site = serve(lambda asked: seen.append(asked.decision) or "ok", limits="5/minute", exempt=["/"])
    assert (site.ask().status, seen.pop()) == (200, None)
    limited = serve(lambda asked: seen.append(asked.decision) or "ok", limits="5/minute", key_prefix="b")
    limited.ask()
    assert (seen[0].allowed, seen[0].remaining, seen[0].identifier) == (True, 4, "ip:192.0.2.1")
