"""Limits of a Flask app, in a test client and behind gunicorn."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection

import pytest


@pytest.mark.needs("flask")
def test_an_app_refuses_with_429_and_says_when_to_come_back():
    from flask import Flask

    from overlimit.flask import RateLimit

    app = Flask("smoke")
    app.get("/")(lambda: "hello")
    RateLimit(app, default_limits="2/minute")
    answers = [app.test_client().get("/") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert [answer.headers.get("Retry-After") for answer in answers[:2]] == [None, None]
    assert {answer.headers["RateLimit-Policy"] for answer in answers} == {'"default";q=2;w=62'}
    assert 30 <= int(answers[2].headers["Retry-After"]) <= 62


@pytest.mark.needs("flask", "gunicorn", "shm")
def test_two_workers_admit_exactly_the_limit_together(gunicorn, shared_memory):
    port = gunicorn(shared_memory, "50/hour")

    def ask(_: int) -> tuple[int, str | None, str]:
        with closing(HTTPConnection("127.0.0.1", port, timeout=120)) as connection:
            connection.request("GET", "/")
            answer = connection.getresponse()
            return answer.status, answer.headers["Retry-After"], answer.read().decode()

    with ThreadPoolExecutor(4) as clients:
        answers = list(clients.map(ask, range(80)))
    assert Counter(status for status, _, _ in answers) == {200: 50, 429: 30}
    assert len({worker for status, _, worker in answers if status == 200}) == 2
    assert all(retry is None for status, retry, _ in answers if status == 200)
    assert all(3500 <= int(retry or 0) <= 3672 for status, retry, _ in answers if status == 429)
