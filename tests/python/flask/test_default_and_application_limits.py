"""Which of the RateLimit's own limits hold for which routes."""

from __future__ import annotations

import pytest
from flask import Blueprint

from overlimit import InvalidLimit
from overlimit.flask import RateLimit, rate_limit


def test_a_default_limit_counts_each_undecorated_endpoint_apart(make_site):
    site = make_site(default_limits="2/minute")
    site.app.get("/other")(lambda: "other")
    assert site.ask("/free", 3) == [200, 200, 429]
    assert site.ask("/other", 3) == [200, 200, 429]


def test_a_decorated_route_has_its_own_limits_instead_of_the_default_ones(make_site):
    site = make_site(default_limits="1/minute")
    site.app.get("/")(rate_limit("3/minute")(lambda: "ok"))
    assert site.ask("/", 4) == [200] * 3 + [429]
    assert site.ask("/free", 2) == [200, 429]


def test_an_application_limit_counts_all_routes_together(make_site):
    site = make_site(application_limits="5/minute")
    site.app.get("/")(rate_limit("3/minute")(lambda: "ok"))
    assert site.ask("/", 3) == [200] * 3
    assert site.ask("/free", 3) == [200, 200, 429]


def test_a_request_refused_by_its_route_leaves_the_application_limit_alone(make_site):
    site = make_site(application_limits="5/minute")
    site.app.get("/")(rate_limit("2/minute")(lambda: "ok"))
    assert site.ask("/", 9) == [200] * 2 + [429] * 7
    assert site.ask("/free", 4) == [200] * 3 + [429]


def test_a_request_refused_by_the_application_leaves_its_route_alone(make_site, clock):
    site = make_site(application_limits="1/minute")
    site.app.get("/")(rate_limit("2/hour")(lambda: "ok"))
    assert site.ask("/", 5) == [200] + [429] * 4
    clock.advance(60)
    assert site.ask("/", 1) == [200]
    clock.advance(60)
    assert site.ask("/", 1) == [429]


@pytest.mark.parametrize("path", ["/", "/free"])
def test_all_limits_of_a_request_are_one_store_call(make_site, store_calls, path):
    site = make_site(default_limits="10/minute; 20/hour", application_limits="30/minute")
    site.app.get("/")(rate_limit("10/minute")(lambda: "ok"))
    assert site.ask(path, 2, user="ann") == [200, 200]
    assert [len(charges) for charges in store_calls] == [4, 4]


def test_an_app_without_limits_calls_no_store(make_site, store_calls):
    site = make_site()
    assert site.ask("/free", 3) == [200] * 3
    assert store_calls == []


def test_static_files_are_not_limited(make_site, store_calls, tmp_path):
    (tmp_path / "a.txt").write_text("a")
    site = make_site(static_folder=str(tmp_path), default_limits="1/minute", application_limits="1/minute")
    pages = Blueprint("pages", __name__, static_folder=str(tmp_path), static_url_path="/files")
    site.app.register_blueprint(pages, url_prefix="/pages")
    assert site.ask(f"/{tmp_path.name}/a.txt", 3) == [200] * 3
    assert site.ask("/pages/files/a.txt", 3) == [200] * 3
    assert store_calls == []


def test_a_view_that_only_calls_itself_static_is_limited(make_site):
    site = make_site(default_limits="1/minute")
    pages = Blueprint("pages", __name__)
    pages.get("/", endpoint="static")(lambda: "not a file")
    site.app.register_blueprint(pages, url_prefix="/pages")
    assert site.ask("/pages/", 2) == [200, 429]


@pytest.mark.parametrize("option", ["default_limits", "application_limits"])
@pytest.mark.parametrize("value", [[""], "many", "5/minute; x"])
def test_a_malformed_limit_is_an_error_where_the_rate_limit_is_made(option, value):
    with pytest.raises(InvalidLimit):
        RateLimit(**{option: value})
