"""Storage URLs and options of the limits package, as stores."""

from __future__ import annotations

import inspect
import ssl
import warnings
from pathlib import Path

import pytest

from overlimit import RedisStore
from overlimit.http.options.storage_urls import _OWN, store_url


@pytest.mark.parametrize(
    ("uri", "url"),
    [
        ("memory://", "memory://"),
        ("memory://localhost", "memory://"),
        ("redis://localhost:6379/0", "redis://localhost:6379/0"),
        ("REDIS://localhost", "redis://localhost"),
        ("redis://:p%40ss@h/1", "redis://:p%40ss@h/1"),
        ("rediss://h:6380", "rediss://h:6380"),
        ("valkey://h", "valkey://h"),
        ("valkeys://h", "valkeys://h"),
        ("redis+unix:///run/redis.sock", "unix:///run/redis.sock"),
        ("redis+unix:///run/redis.sock?db=3", "unix:///run/redis.sock?db=3"),
        ("valkey+unix://u:p@/run/v.sock", "unix://u:p@/run/v.sock"),
        ("unix:///run/redis.sock", "unix:///run/redis.sock"),
        ("redis+sentinel://a:26379,b:26379/mymaster", "redis+sentinel://a:26379,b:26379/mymaster"),
        ("redis+cluster://a:7000,b:7001", "redis+cluster://a:7000,b:7001"),
    ],
)
def test_each_kind_of_url_is_the_url_of_a_store(uri, url):
    assert store_url(uri) == url
    if url != "memory://":
        RedisStore(url)


OTHERS = r"redis://, valkey://, postgresql://, sqlite:///, shm:// or memory://"
ASYNC = r"leave async\+ out.*memory:// or redis://localhost"


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        *((f"{scheme}://user:secret@host:1", OTHERS) for scheme in ("memcached", "mongodb+srv", "etcd")),
        *(
            (f"{scheme}://:secret@h", ASYNC)
            for scheme in ("async+memory", "async+redis", "ASYNC+valkey+cluster")
        ),
        ("user:secret@host", "storage URL"),
    ],
)
def test_what_is_no_url_of_ours_is_an_error_that_says_what_to_write(uri, says):
    with pytest.raises(ValueError, match=says) as caught:
        store_url(uri)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("uri", "options", "url"),
    [
        ("redis://h", {"password": "p@/s?"}, "redis://:p%40%2Fs%3F@h"),
        ("redis://h", {"username": "u", "password": "p"}, "redis://u:p@h"),
        ("redis://u@h", {"username": "x", "password": "p"}, "redis://u:p@h"),
        ("redis://u:own@h", {"username": "x", "password": "p"}, "redis://u:own@h"),
        ("redis://h", {"db": 3}, "redis://h?db=3"),
        ("redis://h/1", {"db": 3}, "redis://h/1"),
        ("redis://h?db=1", {"db": 3}, "redis://h?db=1"),
        ("redis://h/0?db=3", {}, "redis://h/0?db=3"),
        ("redis://h/1?db=3", {"db": 5}, "redis://h/1?db=3"),
        ("redis://h/1?db=", {"db": 5}, "redis://h/1"),
        ("redis://h?db=", {"db": 5}, "redis://h?db=5"),
        ("redis://h?db=3#main", {"db": 5}, "redis://h?db=3"),
        ("redis+unix:///run/5?db=1", {"db": 3}, "unix:///run/5?db=1"),
        ("redis+sentinel://h/7", {"db": 3}, "redis+sentinel://h/7?db=3"),
        ("redis+unix:///run/5", {"db": 3}, "unix:///run/5?db=3"),
        ("redis+sentinel://h/m", {"db": 3}, "redis+sentinel://h/m?db=3"),
        ("redis+sentinel://h/m/2", {"db": 3}, "redis+sentinel://h/m/2"),
        ("redis+sentinel://h", {"service_name": "m"}, "redis+sentinel://h/m"),
        ("redis+sentinel://h/m", {"service_name": "x"}, "redis+sentinel://h/m"),
        ("redis://h", {"ssl": True}, "rediss://h"),
        ("valkey+cluster://h", {"ssl": "True"}, "valkeys+cluster://h"),
        ("redis://h", {"ssl": False}, "redis://h"),
        ("redis://h", {"key_prefix": "app"}, "redis://h?prefix=app"),
        ("redis://h", {"socket_timeout": 2}, "redis://h?timeout=2.0"),
        ("redis://h?socket_timeout=3", {"socket_timeout": 2}, "redis://h?timeout=3.0"),
        ("redis://h", {"socket_connect_timeout": 30}, "redis://h?timeout=0.1"),
        ("redis://h", {"socket_connect_timeout": 0.05}, "redis://h?timeout=0.05"),
        ("redis://h", {"socket_timeout": 1, "socket_connect_timeout": 0.5}, "redis://h?timeout=0.5"),
        ("redis://h", {"timeout": 0.2, "socket_timeout": 9}, "redis://h?timeout=0.2"),
        ("redis://h", {"hash_identifiers": True, "prefix": "x"}, "redis://h?hash_identifiers=true&prefix=x"),
        ("redis://h", {"username": None, "socket_timeout": None}, "redis://h"),
        ("rediss://h", {"ssl_cert_reqs": None}, "rediss://h?ssl_cert_reqs=none"),
        ("rediss://h", {"ssl_cert_reqs": ssl.CERT_NONE}, "rediss://h?ssl_cert_reqs=none"),
        ("rediss://h", {"ssl_cert_reqs": ssl.CERT_REQUIRED}, "rediss://h?ssl_cert_reqs=required"),
        ("rediss://h", {"ssl_ca_certs": Path("/etc/ca.pem")}, "rediss://h?ssl_ca_certs=/etc/ca.pem"),
        ("rediss://h?ssl_cert_reqs=optional", {}, "rediss://h?ssl_cert_reqs=required"),
        ("memory://", {"socket_timeout": 2, "wrap_exceptions": True}, "memory://"),
    ],
)
def test_options_become_parts_of_the_url(uri, options, url):
    assert store_url(uri, options) == url
    if url != "memory://":
        assert "p%40" not in repr(RedisStore(url))


def test_every_option_of_a_store_is_known():
    assert set(inspect.signature(RedisStore).parameters) - {"url"} == _OWN


def test_options_without_effect_are_named_in_one_warning():
    options = {"wrap_exceptions": True, "health_check_interval": 3, "db": 1}
    with pytest.warns(UserWarning, match="health_check_interval, retry_on_timeout, wrap_exc") as caught:
        url = store_url("redis://h?retry_on_timeout=1", options)
    assert len(caught) == 1
    assert url == "redis://h?db=1"


def test_a_pool_is_an_error_since_it_would_connect_elsewhere():
    with pytest.raises(ValueError, match="connection_pool"):
        store_url("redis://h", {"connection_pool": object()})


@pytest.mark.parametrize("uri", ["redis://u:sec/ret@h/0", "redis://u:sec?ret@h/0", "redis://u:sec#ret@h/0"])
def test_a_password_that_tears_the_url_apart_is_in_no_message(uri):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        url = store_url(uri, {"socket_timeout": 1})
    with pytest.raises(ValueError, match="percent-encoded") as caught:
        RedisStore(url)
    assert "sec" not in str(caught.value).replace("second", "")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"socket_timeout": "soon"}, "socket_timeout"),
        ({"socket_connect_timeout": "soon"}, "socket_connect_timeout"),
        ({"ssl": "maybe"}, "ssl"),
    ],
)
def test_a_value_that_cannot_be_is_an_error_that_names_the_option(options, message):
    with pytest.raises(ValueError, match=message):
        store_url("redis://h", options)
