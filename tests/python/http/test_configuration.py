"""The keys of a configuration, as options."""

from __future__ import annotations

import warnings

import pytest

from overlimit import MemoryStore
from overlimit.http.answering.fields import HeaderNames
from overlimit.http.identifying.identifiers import from_key_function
from overlimit.http.options.configuration import KEYS, read


def who():
    return "somebody"


def about(given):
    return True


def one(key, value):
    return read({f"RATELIMIT_{key}": value})


def test_what_is_not_set_is_no_option():
    assert read({}) == {}
    assert read(dict.fromkeys(set(KEYS) - {"RATELIMIT_HEADERS"})) == {}
    assert read({"SECRET_KEY": "x", "RATELIMIT": 5, 7: 8}) == {}


@pytest.mark.parametrize(
    ("key", "value", "options"),
    [
        ("ENABLED", False, {"enabled": False}),
        ("KEY_FUNC", who, {"identifiers": from_key_function(who)}),
        ("KEY_PREFIX", "app", {"key_prefix": "app"}),
        ("REQUEST_IDENTIFIER", who, {"request_identifier": who}),
        ("DEFAULT", "5/minute", {"default_limits": "5/minute"}),
        ("DEFAULT", ["5/minute", who], {"default_limits": ["5/minute", who]}),
        ("DEFAULTS_PER_METHOD", True, {"default_limits_per_method": True}),
        ("DEFAULTS_EXEMPT_WHEN", who, {"default_limits_exempt_when": who}),
        ("DEFAULTS_DEDUCT_WHEN", about, {"default_limits_deduct_when": about}),
        ("DEFAULTS_COST", 3, {"default_limits_cost": 3}),
        ("DEFAULTS_COST", "3", {"default_limits_cost": 3}),
        ("DEFAULTS_COST", who, {"default_limits_cost": who}),
        ("APPLICATION", "5/minute", {"application_limits": "5/minute"}),
        ("APPLICATION_PER_METHOD", "yes", {"application_limits_per_method": True}),
        ("APPLICATION_EXEMPT_WHEN", who, {"application_limits_exempt_when": who}),
        ("APPLICATION_DEDUCT_WHEN", about, {"application_limits_deduct_when": about}),
        ("APPLICATION_COST", 0, {"application_limits_cost": 0}),
        ("GLOBAL", "5/minute", {"global_limits": "5/minute"}),
        ("GLOBAL_COST", "2", {"global_limits_cost": 2}),
        ("META", "5/hour", {"meta_limits": "5/hour"}),
        ("ON_BREACH_CALLBACK", about, {"on_breach": about}),
        ("ON_META_BREACH_CALLBACK", about, {"on_meta_breach": about}),
        ("FAIL_ON_FIRST_BREACH", True, {}),
        ("HEADER_RETRY_AFTER_VALUE", "delta-seconds", {}),
        ("STRATEGY", "fixed-window", {"strategy": "fixed-window", "algorithm": "fixed_window"}),
        ("STRATEGY", "moving-window", {"strategy": "moving-window", "algorithm": "sliding_log"}),
        (
            "STRATEGY",
            "sliding-window-counter",
            {"strategy": "sliding-window-counter", "algorithm": "sliding_window_counter"},
        ),
        ("ALGORITHM", "token_bucket", {"algorithm": "token_bucket"}),
        ("HEADERS_ENABLED", True, {"headers": "both"}),
        ("HEADERS_ENABLED", "false", {"headers": None}),
        ("HEADERS", "legacy", {"headers": "legacy"}),
        ("HEADERS", "draft", {"headers": "draft"}),
        ("HEADERS", None, {"headers": None}),
        ("HEADERS", "none", {"headers": None}),
        ("SWALLOW_ERRORS", True, {"on_error": "allow"}),
        ("SWALLOW_ERRORS", False, {"on_error": "raise"}),
        ("IN_MEMORY_FALLBACK_ENABLED", True, {"on_error": "local"}),
        ("IN_MEMORY_FALLBACK_ENABLED", False, {}),
        ("IN_MEMORY_FALLBACK", "1/minute", {"in_memory_fallback": "1/minute"}),
        ("IN_MEMORY_FALLBACK", [], {}),
        ("ON_ERROR", "deny", {"on_error": "deny"}),
        ("SHADOW", "1", {"shadow": True}),
        ("TRUSTED_PROXIES", 2, {"trusted_proxies": 2}),
        ("TRUSTED_PROXIES", "2", {"trusted_proxies": 2}),
        ("TRUSTED_PROXIES", ("10.0.0.0/8",), {"trusted_proxies": ["10.0.0.0/8"]}),
        ("TRUSTED_PROXIES", "10.0.0.0/8, ::1", {"trusted_proxies": ["10.0.0.0/8", "::1"]}),
        ("IPV6_PREFIX", "56", {"ipv6_prefix": 56}),
        ("STORAGE_URI", "redis+unix:///run/r.sock", {"store": "unix:///run/r.sock"}),
        ("HEADER_LIMIT", "X-L", {"header_names": HeaderNames(limit="X-L")}),
        ("HEADER_RETRY_AFTER", "X-R", {"header_names": HeaderNames(retry_after="X-R")}),
    ],
)
def test_each_key_sets_its_option(key, value, options):
    assert one(key, value) == options


@pytest.mark.parametrize(
    ("word", "is_true"),
    [
        *((word, True) for word in ("true", "True", "TRUE", "yes", "1", "on", " true ", 1, True)),
        *((word, False) for word in ("false", "False", "no", "0", "off", 0, False)),
    ],
)
def test_a_word_for_true_or_false_is_understood(word, is_true):
    assert one("ENABLED", word) == {"enabled": is_true}


@pytest.mark.parametrize("key", ["ENABLED", "APPLICATION_PER_METHOD", "HEADERS_ENABLED", "SWALLOW_ERRORS"])
@pytest.mark.parametrize("value", ["maybe", "2", 2, 1.0, [True], b"true"])
def test_what_is_neither_true_nor_false_is_an_error(key, value):
    with pytest.raises(ValueError, match=f"RATELIMIT_{key}"):
        one(key, value)


def test_a_function_may_say_whether_all_is_limited_and_nothing_else():
    assert one("ENABLED", who) == {"enabled": who}
    with pytest.raises(TypeError, match="RATELIMIT_ENABLED must be a function without parameters"):
        one("ENABLED", lambda request: True)
    with pytest.raises(ValueError, match="RATELIMIT_HEADERS_ENABLED"):
        one("HEADERS_ENABLED", who)


LIMITS = {
    "RATELIMIT_APPLICATION",
    "RATELIMIT_DEFAULT",
    "RATELIMIT_GLOBAL",
    "RATELIMIT_IN_MEMORY_FALLBACK",
    "RATELIMIT_META",
}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (key, value)
        for key in sorted(set(KEYS) - {"RATELIMIT_HEADERS", "RATELIMIT_ENABLED"})
        for value in ("", [], ())
        if not (key in LIMITS and value == "")
    ],
)
def test_an_empty_value_is_not_set(key, value):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read({key: value}) == {}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ENABLED", ""),
        ("ENABLED", []),
        ("ANONYMOUS", "ignore"),
        ("KEY_FUNC", "get_remote_address"),
        ("KEY_PREFIX", 5),
        ("DEFAULTS_EXEMPT_WHEN", True),
        ("DEFAULTS_COST", -1),
        ("DEFAULTS_COST", "-1"),
        ("DEFAULTS_COST", 1.5),
        ("APPLICATION_COST", True),
        ("ON_BREACH_CALLBACK", "log"),
        ("REQUEST_IDENTIFIER", "endpoint"),
        ("STRATEGY", "fixed-window-elastic-expiry"),
        ("STRATEGY", "fixed_window"),
        ("ALGORITHM", "moving-window"),
        ("HEADERS", "all"),
        ("HEADERS", ""),
        ("HEADERS", True),
        ("HEADERS", ["draft"]),
        ("HEADER_LIMIT", "X Limit"),
        ("HEADER_RETRY_AFTER", "a\r\nb"),
        ("HEADER_RETRY_AFTER_VALUE", "minutes"),
        ("ON_ERROR", "ignore"),
        ("ON_ERROR", "none"),
        ("TRUSTED_PROXIES", -1),
        ("TRUSTED_PROXIES", True),
        ("TRUSTED_PROXIES", "nginx"),
        ("TRUSTED_PROXIES", ["10.0.0.1/8"]),
        ("IPV6_PREFIX", 0),
        ("IPV6_PREFIX", "129"),
        ("IPV6_PREFIX", True),
        ("STORAGE_URI", "memcached://h:1"),
        ("STORAGE_URI", "async+redis://h:1"),
        ("STORAGE_URI", "h:6379"),
        ("STORAGE_URI", "mysql://u:secret@h"),
        ("STORAGE_URI", "secret"),
        ("STORAGE_URI", "memcached://u:secret@h"),
        ("STORAGE_URI", "redis://h:0"),
        ("STORAGE_URI", "redis://h/one"),
        ("STORAGE_URI", "redis://h,i"),
        ("STORAGE_URI", "redis://h?timeout=never"),
        ("STORAGE_URI", "redis://h?prefix=a b"),
        ("STORAGE_URI", "redis://u:sec/ret@h"),
        ("STORAGE_URI", "redis+sentinel://h"),
        ("STORAGE_URI", "redis+cluster://h/3"),
        ("STORAGE_URI", "rediss://h?ssl_cert_reqs=maybe"),
        ("STORAGE_URI", 5),
        ("STORAGE_OPTIONS", "timeout=1"),
    ],
)
def test_nonsense_is_an_error_that_names_the_key_and_shows_no_password(key, value):
    with pytest.raises(ValueError, match=f"RATELIMIT_{key}") as caught:
        one(key, value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("RATELIMIT_DEFAULTS", "RATELIMIT_DEFAULT"),
        ("RATELIMIT_STORAGE_URL", "RATELIMIT_STORAGE_URI"),
        ("RATELIMIT_HEADER_ENABLED", "RATELIMIT_HEADERS_ENABLED"),
        ("RATELIMIT_DEFAULT_COST", "RATELIMIT_DEFAULTS_COST"),
    ],
)
def test_an_unknown_key_is_answered_with_the_nearest(key, nearest):
    with pytest.warns(UserWarning, match=rf"{key} .*did you mean {nearest}\?") as caught:
        assert read({key: "5/minute"}) == {}
    assert len(caught) == 1
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    "own",
    [
        "LOGIN",
        "API",
        "UPLOADS",
        "LOGIN_DEFAULT",
        "DEFAULT_API",
        "METRICS",
        "HEADER_LOGIN",
        "STORE_DIR",
        "BURST",
        "QQQQQQQQQQQQQQQQQQQQQQQQQ",
    ],
)
def test_a_key_of_the_app_s_own_is_not_taken_for_another(own):
    with pytest.warns(UserWarning, match=f"RATELIMIT_{own} .*it has no effect$"):
        assert one(own, "5/minute") == {}


@pytest.mark.parametrize(
    ("option", "key"),
    [("STORE", "STORAGE_URI"), ("DEFAULT_LIMITS", "DEFAULT"), ("ON_BREACH", "ON_BREACH_CALLBACK")],
)
def test_an_option_of_another_key_names_that_key(option, key):
    with pytest.warns(UserWarning, match=rf"did you mean RATELIMIT_{key}\?$"):
        assert one(option, "5/minute") == {}


NONSENSE = {
    "KEY_FUNC": ("identifiers", "get_remote_address"),
    "KEY_PREFIX": ("key_prefix", 5),
    "DEFAULTS_COST": ("default_limits_cost", -1),
    "APPLICATION_EXEMPT_WHEN": ("application_limits_exempt_when", True),
    "STRATEGY": ("algorithm", "leaky"),
    "HEADERS_ENABLED": ("headers", "maybe"),
    "HEADER_LIMIT": ("header_names", "X Limit"),
    "SWALLOW_ERRORS": ("on_error", "maybe"),
    "STORAGE_URI": ("store", "memcached://h"),
    "TRUSTED_PROXIES": ("trusted_proxies", "nginx"),
    "ANONYMOUS": ("anonymous", "ignore"),
    "ENABLED": ("enabled", "perhaps"),
}


@pytest.mark.parametrize("key", NONSENSE)
def test_a_key_of_an_option_that_is_given_is_not_read(key):
    option, value = NONSENSE[key]
    assert read({f"RATELIMIT_{key}": value}, {option: None}) == {}
    with pytest.raises(ValueError, match=f"RATELIMIT_{key}"):
        one(key, value)


@pytest.mark.parametrize("uri", ["memcached://h", "h:6379", "redis://h:0", 5])
def test_what_is_not_enabled_needs_no_store(uri):
    config = {"RATELIMIT_STORAGE_URI": uri, "RATELIMIT_ENABLED": False}
    options = read(config)
    assert options["enabled"] is False
    assert "RATELIMIT_STORAGE_URI" in str(options["unusable_store"])
    assert "unusable_store" in read({"RATELIMIT_STORAGE_URI": uri}, {"enabled": False})
    with pytest.raises(ValueError, match="RATELIMIT_STORAGE_URI"):
        read(config, {"enabled": True})


@pytest.mark.parametrize("order", [1, -1])
def test_our_own_key_counts_where_two_say_the_same(order):
    config = {
        "RATELIMIT_STRATEGY": "moving-window",
        "RATELIMIT_ALGORITHM": "leaky_bucket",
        "RATELIMIT_HEADERS_ENABLED": True,
        "RATELIMIT_HEADERS": "draft",
        "RATELIMIT_SWALLOW_ERRORS": True,
        "RATELIMIT_IN_MEMORY_FALLBACK_ENABLED": True,
        "RATELIMIT_ON_ERROR": "deny",
    }
    assert read(dict(list(config.items())[::order])) == {
        "algorithm": "leaky_bucket",
        "headers": "draft",
        "on_error": "deny",
    }


def test_storage_options_are_part_of_a_store_that_is_given_as_a_url():
    config = {
        "RATELIMIT_STORAGE_URI": "redis://elsewhere",
        "RATELIMIT_STORAGE_OPTIONS": {"password": "p", "db": 3, "socket_timeout": 1},
    }
    assert read(config, {"store": "redis://u:q@h/4"}) == {"store": "redis://u:q@h/4?timeout=1.0"}
    assert read(config, {"store": "rediss://h"}) == {"store": "rediss://:p@h?db=3&timeout=1.0"}
    assert read(config, {"store": "memory://"}) == {"store": "memory://"}
    assert read(config) == {"store": "redis://:p@elsewhere?db=3&timeout=1.0"}


@pytest.mark.parametrize(
    ("config", "given", "message"),
    [
        ({"HEADER_RETRY_AFTER_VALUE": "http-date"}, {}, "RATELIMIT_HEADER_RETRY_AFTER_VALUE"),
        ({"STORAGE_OPTIONS": {"socket_timeout": 1}}, {"store": MemoryStore()}, "without a URL as store"),
        ({"STORAGE_OPTIONS": {"socket_timeout": 1}}, {}, "RATELIMIT_STORAGE_OPTIONS has no effect"),
    ],
)
def test_what_has_no_effect_is_answered_with_a_warning(config, given, message):
    with pytest.warns(UserWarning, match=message):
        assert read({f"RATELIMIT_{key}": value for key, value in config.items()}, given) == {}


def test_storage_options_that_a_url_cannot_have_are_an_error_without_the_password():
    config = {"RATELIMIT_STORAGE_OPTIONS": {"password": "secret", "timeout": "never"}}
    with pytest.raises(ValueError, match="store with RATELIMIT_STORAGE_OPTIONS: timeout") as caught:
        read(config, {"store": "redis://h"})
    assert "secret" not in str(caught.value)
    assert list(read(config, {"store": "redis://h", "enabled": False})) == ["unusable_store"]
    with pytest.raises(ValueError, match="RATELIMIT_STORAGE_URI with RATELIMIT_STORAGE_OPTIONS: timeout"):
        read({"RATELIMIT_STORAGE_URI": "redis://h", **config})
