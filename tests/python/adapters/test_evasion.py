"""No way to write a request leads around its pattern, under every middleware."""

from __future__ import annotations

import itertools

import pytest

from adapters import each
from adapters.site import Reply

ALIKE = [
    ("/größe", "/grüße"),
    ("/a-b", "/a/b"),
    ("/a.b", "/a/b"),
    ("/a:b", "/a/b"),
    ("/a_b", "/a-b"),
    ("/A", "/a"),
    ("/x--y", "/x/-y"),
    ("/get/x", "GET /x"),
    ("POST /get", "GET /post"),
    ("POST /x", "GET /x"),
    (f"/{'l' * 200}a", f"/{'l' * 200}b"),
    ("/application", "/default"),
]


@pytest.fixture
def limited(serve):
    """Return a function that serves an app without routes, which answers each path with a 404."""
    return lambda **options: serve({"/": lambda asked: Reply("nowhere", 404)}, **options)


@each("patterns")
def test_no_slash_and_no_method_is_a_way_around_a_pattern(limited):
    site = limited(routes={"GET /api/login": "1/minute"})
    assert site.statuses("/api/login") == [404]
    for first, between, last in itertools.product(("/", "//"), ("/", "//", "///"), ("", "/", "//")):
        path = f"http://site{first}api{between}login{last}"
        assert site.statuses(path) == [429], path
    assert site.statuses("/api/%6Cogin") + site.statuses("/api/login?x=1") == [429, 429]
    assert site.statuses("/api/login", method="HEAD") == [429]
    assert site.statuses("/api/login", method="POST") + site.statuses("/api/logins") == [404, 404]


@each(only={"core", "wsgi parts"})
def test_a_method_in_small_letters_is_no_way_around(limited):
    site = limited(routes={"POST /login": "1/minute"}, exempt=["GET /health"])
    asked = [site.ask("/login", method=method).status for method in ("POST", "post", "Post", "GET")]
    assert asked == [404, 429, 429, 404]


@each("patterns")
def test_the_first_pattern_that_matches_replaces_the_limits_and_is_one_count(limited):
    site = limited(
        limits="1/minute",
        routes={"POST /upload/*": "2/minute", "/login": "1/minute", "/upload/*": "3/minute"},
    )
    posts = [site.ask(path, method="POST").status for path in ("/upload/a", "/upload/b/c", "/upload/")]
    assert posts == [404, 404, 429]
    assert site.statuses("/upload/a", 4) == [404, 404, 404, 429]
    assert site.statuses("/login", 2) + site.statuses("/x", 1) + site.statuses("/y", 1) == [404, 429] * 2


@each("patterns")
@pytest.mark.every_store
def test_patterns_that_look_alike_count_apart(limited):
    for number, pair in enumerate(pair for two in ALIKE for pair in (two, two[::-1])):
        site = limited(routes=dict.fromkeys(pair, "1/hour"), key_prefix=f"n{number}")
        asked = [pattern.rpartition(" ")[::2] for pattern in pair]
        assert [site.statuses(path, 2, method=method or "PUT") for method, path in asked] == [
            [404, 429]
        ] * 2, pair


@each("patterns")
def test_what_is_beside_an_exempt_pattern_is_limited(limited):
    site = limited(limits="1/minute", exempt=["/static/*", "GET /health"])
    assert site.statuses("/static/a", 2) + site.statuses("/health", 2) == [404] * 4
    assert site.statuses("/health", method="POST") == [404]
    for path in ("/staticx", "/x/static/a", "/healthy", "/Health", "/health/x", "/"):
        assert site.statuses(path) == [429], path
    assert site.statuses("/health", 2, method="HEAD") == [404, 404]


@each(only={"core", "wsgi", "wsgi parts"})
def test_segments_of_dots_exempt_nothing_however_an_app_reads_them(limited):
    site = limited(routes={"/files/*": "1/minute"}, exempt=["/static/*", "/health"], limits="2/minute")
    for path, answers in {
        "/files/../health": [404, 429],
        "/files/../files/a/": [429],
        "/static/../login": [404, 404, 429],
        "/static/..": [429],
        "/./health": [429],
        "/static/x/../y": [404] * 9,
        "/static/./y": [404] * 9,
        "/.well-known/x": [429],
    }.items():
        assert site.statuses(path, len(answers)) == answers, path


@each("patterns")
def test_middleware_around_another_counts_apart_and_is_shown_beside_it(serve):
    site = serve(limits="2/minute", together="9/minute", headers="both")
    *_, refusal = [site.ask() for _ in range(3)]
    assert refusal.headers["RateLimit-Policy"] == '"application";q=2;w=60, "application-2";q=9;w=60'
    assert refusal.headers["RateLimit"] == '"application";r=0;t=60, "application-2";r=6;t=60'
    assert (refusal.headers["X-RateLimit-Remaining"], refusal.headers["Retry-After"]) == ("0", "60")
    alike = serve(limits="4/hour", together="4/hour", store="memory://")
    assert alike.statuses(times=5) == [200] * 4 + [429]
