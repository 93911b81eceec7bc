"""What is charged only when the response says so."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from flask import abort, request


def failed(response) -> bool:
    return response.status_code >= 400


def make_view():
    """Return a view that answers with the status that the request asks for."""

    def answer():
        status = int(request.headers.get("X-Status", "200"))
        return ("ok", 200) if status == 200 else abort(status)

    return answer


@pytest.fixture
def make_login(make_site):
    """Return a function that makes a site whose ``/`` answers as asked, once a minute on this condition."""

    def make(deduct_when):
        site = make_site()
        limit = site.limiter.limit("1/minute", deduct_when=deduct_when)
        site.app.add_url_rule("/", "index", limit(make_view()))
        return site

    return make


def ask(site, *statuses):
    return [site.open("/", headers={"X-Status": str(status)}).status_code for status in statuses]


def test_quota_is_reserved_while_the_view_runs(make_site):
    site = make_site()
    inside, go_on, view = threading.Semaphore(0), threading.Event(), make_view()

    @site.app.get("/")
    @site.limiter.limit("2/minute", deduct_when=failed)
    def slow():
        inside.release()
        assert go_on.wait(30)
        return view()

    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(ask, site, 200) for _ in range(2)]
        for _ in waiting:
            assert inside.acquire(timeout=30)
        assert ask(site, 200, 200) == [429, 429]
        go_on.set()
        assert [each.result() for each in waiting] == [[200], [200]]
    assert ask(site, 401, 401, 401) == [401, 401, 429]


def test_the_final_response_decides_behind_all_hooks(make_login):
    site = make_login(failed)

    @site.app.after_request
    def fail_late(response):
        response.status_code = 418
        return response

    assert ask(site, 200, 200) == [418, 418]
    site.app.after_request_funcs.clear()
    assert ask(site, 200) == [429]


@pytest.mark.parametrize("failures", [1, 2])
def test_a_hook_that_fails_counts_by_its_500(make_login, failures):
    asked = []

    def condition(response):
        asked.append(response.status_code)
        return response.status_code == 200

    site = make_login(condition)
    failing = []

    @site.app.after_request
    def fail(response):
        if failing:
            failing.pop()
            raise LookupError
        return response

    for _ in range(3):
        failing += [True] * failures
        assert ask(site, 200) == [500]
    assert asked == [500] * 3
    assert ask(site, 200, 200) == [200, 429]
