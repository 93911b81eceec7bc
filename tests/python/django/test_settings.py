"""The setting ``OVERLIMIT``: what it says, what is wrong with it, and when it changes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpResponse
from django.test import override_settings
from django.urls import path

from overlimit.django.options import VIEW_OPTIONS
from overlimit.django.settings import SITE_OPTIONS

from .conftest import statuses


def plain(request):
    return HttpResponse("plain")


def yields(request):
    yield False


def test_override_settings_is_followed(serve):
    client = serve(path("", plain), default_limits="2/minute")
    assert statuses(client) == [200, 200, 429]
    with override_settings(OVERLIMIT={"ENABLED": False, "DEFAULT_LIMITS": "2/minute"}):
        assert statuses(client) == [200] * 3
    with override_settings(OVERLIMIT={"DEFAULT_LIMITS": "1/minute"}):
        assert statuses(client) == [200, 429, 429]
    with override_settings():
        del settings.OVERLIMIT
        assert statuses(client) == [200] * 3


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (5, "OVERLIMIT must be a dict"),
        ({"DEFAULT_LIMIT": "5/minute"}, "did you mean 'DEFAULT_LIMITS'"),
        ({"default_limits": "5/minute"}, "write 'DEFAULT_LIMITS'"),
        ({"IDENTIFIERS": "ip"}, "write 'KEY'"),
        ({"DEFAULT_LIMITS": "5/minutee"}, r"OVERLIMIT\['DEFAULT_LIMITS'\]: .*minutee"),
        ({"STORE": "redi://localhost"}, r"OVERLIMIT\['STORE'\]: "),
        ({"STORE": 5}, r"OVERLIMIT\['STORE'\]: .*URL"),
        ({"TRUSTED_PROXIES": ["10.0.0.0/99"]}, r"OVERLIMIT\['TRUSTED_PROXIES'\]: "),
        ({"ON_ERROR": "alow"}, r"OVERLIMIT\['ON_ERROR'\] must be 'raise', 'allow'"),
        ({"HEADERS": "all"}, r"OVERLIMIT\['HEADERS'\] must be"),
        ({"ENABLED": "perhaps"}, r"OVERLIMIT\['ENABLED'\] must be True or False"),
        ({"KEY": "usr"}, r"OVERLIMIT\['KEY'\]: .*did you mean 'user'"),
        ({"KEY": "shop.nowhere.key"}, r"OVERLIMIT\['KEY'\]: "),
        ({"KEY": 5}, r"OVERLIMIT\['KEY'\] must be"),
        ({"EXEMPT": "/health"}, r"write OVERLIMIT\['EXEMPT'\]=\['/health'\]"),
        ({"EXEMPT": ["GTE /health"]}, "did you mean 'GET'"),
        ({"CLOCK": "noon"}, r"OVERLIMIT\['CLOCK'\] must have .* not 'noon'"),
        ({"CLOCK": "time.tiem"}, r"OVERLIMIT\['CLOCK'\]: .*tiem"),
        ({"ADDRESS_HEADER": "HTTP_X_REAL_IP"}, r"OVERLIMIT\['ADDRESS_HEADER'\] must be .* write 'X-Real-Ip'"),
        ({"ADDRESS_HEADER": "X-Real-IP"}, "OVERLIMIT: address_header: .* trusted_proxies"),
        ({"DEFAULT_LIMITS_COST": -1}, "DEFAULT_LIMITS_COST"),
        ({"EXEMPT": yields}, r"OVERLIMIT\['EXEMPT'\].* must return its value, not yield it"),
        ({1: 2}, "keys of OVERLIMIT must be strings, not 1"),
        ({"KEY": []}, r"OVERLIMIT\['KEY'\]: key=\[\] names nobody"),
        ({"TRUSTED_PROXIES": -1}, r"OVERLIMIT\['TRUSTED_PROXIES'\] must not be negative"),
        ({"TRUSTED_PROXIES": "x/y"}, r"OVERLIMIT\['TRUSTED_PROXIES'\]: 'x/y'"),
        ({"IPV6_PREFIX": 0}, r"OVERLIMIT\['IPV6_PREFIX'\] must be from 1"),
    ],
    ids=range(27),
)
def test_wrong_settings_stop_the_server_from_starting(serve, given, said):
    client = serve(path("", plain))
    with override_settings(OVERLIMIT=given), pytest.raises(ImproperlyConfigured, match=said):
        client.get("/")


def test_no_password_is_shown(serve):
    client = serve(path("", plain))
    with (
        override_settings(OVERLIMIT={"STORE": "redis://admin:secret@localhost:port/0"}),
        pytest.raises(ImproperlyConfigured) as raised,
    ):
        client.get("/")
    assert "secret" not in str(raised.value)


def by_shop(request):
    return f"shop:{request.GET['shop']}"


def test_functions_may_be_named_by_their_paths(serve):
    client = serve(path("", plain), default_limits="1/minute", key=f"{__name__}.by_shop")
    assert statuses(client, "/?shop=a") == statuses(client, "/?shop=b") == [200, 429, 429]


NOW = [1_700_000_000.0]


def now():
    return NOW[0]


def test_a_clock_may_be_named_by_its_path(serve):
    client = serve(path("", plain), default_limits="1/minute", clock=f"{__name__}.now")
    assert statuses(client) == [200, 429, 429]
    NOW[0] += 62
    assert statuses(client) == [200, 429, 429]


def test_unused_options_are_named(serve):
    client = serve(path("", plain), default_limits_cost=2)
    with pytest.warns(
        UserWarning, match=r"OVERLIMIT\['DEFAULT_LIMITS_COST'\] has no effect without OVERLIMIT"
    ):
        client.get("/")


def test_methods_that_a_client_makes_up_are_one(serve):
    client = serve(path("", plain), default_limits="2/minute", default_limits_per_method=True)
    asked = [client.generic(method, "/").status_code for method in ("FROB", "GET", "FRAB", "FRIB")]
    assert asked == [200, 200, 200, 429]


def test_the_reference_lists_every_setting_and_option_and_no_others():
    def names(page: str, start: str, end: str) -> set[str]:
        text = (Path(__file__).parents[3] / "docs/reference" / page).read_text(encoding="utf-8")
        table = text.partition(start)[2].partition(end)[0]
        rows = " ".join(line.split(" | ")[0] for line in table.splitlines() if line.startswith("| `"))
        return set(re.findall(r"`(\w+)`", rows))

    elsewhere = {"identifiers", "key_func", "before_validation"}
    shared = {name.upper() for name in names("web.md", "## Options", "\nOf one limit") - elsewhere}
    assert shared | names("django.md", "## Settings", "\n## ") == SITE_OPTIONS.keys() | {"KEY", "EXEMPT"}
    own = names("web.md", "\nOf one limit", "\n## ") - elsewhere
    assert own | {"key"} == VIEW_OPTIONS.keys() | {"key"}
