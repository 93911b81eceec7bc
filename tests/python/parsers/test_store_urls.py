"""Whatever a store's URL says, it is a store or an error that keeps its password to itself."""

from __future__ import annotations

import warnings
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from overlimit import Limiter, MemoryStore, RedisStore
from overlimit.aio import AsyncConcurrency, AsyncLimiter
from overlimit.http.options.storage_urls import store_url
from overlimit.stores import PostgreSQLStore, as_store

from .amounts import MANY

pytestmark = pytest.mark.longer_in_prove

SECRET = "hunter2"
SCHEMES = ["redis", "rediss", "valkey", "valkeys", "unix", "redis+sentinel", "valkeys+cluster", "redis+unix"]


def all_of(error):
    """Return what a log shows of an error and of those that led to it, but for lines of code."""
    told = str(error)
    for each in (error.__cause__, None if error.__suppress_context__ else error.__context__):
        told += "" if each is None else all_of(each)
    return told


def store_of(build):
    """Return the store, or None for a refusal, which names no secret."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            store = build()
        except ValueError as error:
            message = all_of(error)
            assert message
            assert SECRET not in message
            return None
    assert isinstance(store, (MemoryStore, RedisStore, PostgreSQLStore))
    assert SECRET not in repr(store)
    return store


@pytest.mark.parametrize("option", ["ssl_password", "ssl_ca_certs", "ssl_ca_data", "ssl_certfile"])
def test_an_option_that_is_no_text_is_refused_without_the_secrets(option):
    options = {"ssl_password": SECRET, "ssl_certfile": "c.pem"} | {option: f"{SECRET}\ud800"}
    assert store_of(lambda: RedisStore("rediss://h", **options)) is None


@MANY
@given(st.text())
@example("redis://")
@example("redis://[")
@example("redis://[::1")
@example("redis://h:\uff16")
@example("redis://h/" + "0" * 5000)
@example("unix://\x00")
@example("redis://\ud800")
@example("memory://x")
@example(f"redis://:{SECRET}\ud800@h")
@example(f"rediss://h?ssl_password={SECRET}\ud800")
def test_any_text(text):
    store_of(lambda: RedisStore(text))
    store_of(lambda: as_store(store_url(text)))


@pytest.mark.parametrize(
    "url",
    [
        "foo://u:{}@h",
        "postgres://u:{}@h/db",
        "u:{}@h:6379",
        "redis:/u:{}@h",
        "redis//u:{}@h",
        " redis://u:{}@h:x",
        "REDIS://u:{}@h:x",
        "redis://u:{}@h:-1",
        "redis://{}@@h:-1",
        "redis://u:{}@h/zz",
        "redis://u:p/{}@h:x",
        "redis://u:p?{}@h:x",
        "redis://u:{}#f@h:x",
        "redis://u:{}%@h:x",
        "redis://u:{}\n@h",
        "redis://u:{}@h?timeout=abc",
        "redis://u:{}@h?bogus=1",
        "redis://h?password={}",
        "redis+sentinel://u:{}@h/",
        "redis+cluster://u:{}@h:x,h2",
        "rediss://u:{}@h?ssl_cert_reqs=bad",
        "unix://u:{}@",
    ],
)
def test_nothing_that_is_given_a_wrong_url_tells_its_password(url, caplog):
    caplog.set_level(0)
    given = url.format(SECRET)
    for build in (
        lambda: Limiter("1/minute", name="n", store=given).store,
        lambda: AsyncLimiter("1/minute", name="n", store=given).store,
        lambda: AsyncConcurrency(1, name="n", store=given)._limiter.store,
        lambda: as_store(store_url(given)),
    ):
        store_of(build)
    assert SECRET not in caplog.text


PARTS = st.sampled_from(
    [
        "@",
        ":",
        "/",
        "?",
        "#",
        "&",
        "=",
        ",",
        "%",
        "[::1]",
        "h",
        "6379",
        "0",
        "db=3",
        "db=",
        "timeout=1",
        "ssl=true",
    ]
)


@MANY
@given(st.sampled_from(SCHEMES), st.lists(PARTS | st.just(f":{SECRET}@"), max_size=8).map("".join))
@example("redis", f":{SECRET}/@h")
@example("redis", f":{SECRET}?@h")
@example("redis", f":{SECRET}#@h")
@example("redis", f"u:{SECRET}@h:99999")
@example("redis+sentinel", f"u:{SECRET}@h")
@example("redis", f":{SECRET}@h?db=1&db=2")
def test_any_parts_of_urls(scheme, rest):
    direct = store_of(lambda: RedisStore(f"{scheme}://{rest}"))
    configured = store_of(lambda: as_store(store_url(f"{scheme}://{rest}")))
    if direct is not None and configured is not None and "ssl" not in rest:
        assert configured.endpoint == direct.endpoint


@pytest.mark.parametrize(
    ("url", "options"),
    [
        (f"redis://h?ssl_password={SECRET}\ud800", None),
        (f"redis://:{SECRET}\udcff@h", None),
        ("redis://h", {"password": f"{SECRET}\ud800"}),
    ],
)
def test_what_is_not_unicode_is_an_error_that_repeats_nothing(url, options):
    with pytest.raises(ValueError, match="must be Unicode") as raised:
        store_url(url, options)
    assert SECRET not in repr(raised.value)
    assert raised.value.__context__ is None


NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True)
PORTS = st.none() | st.integers(1, 65535)


@MANY
@given(
    st.sampled_from(["redis", "rediss", "valkey", "valkeys"]),
    st.text(max_size=8),
    NAMES | st.just("[::1]"),
    PORTS,
    st.none() | st.integers(0, 15),
    st.none() | st.integers(0, 15),
)
def test_a_url_is_read_as_it_was_written(scheme, password, host, port, in_path, in_query):
    try:
        encoded = quote(password, safe="")
    except UnicodeEncodeError:
        return
    url = f"{scheme}://{f':{encoded}@' if encoded else ''}{host}"
    url += "" if port is None else f":{port}"
    url += "" if in_path is None else f"/{in_path}"
    url += "" if in_query is None else f"?db={in_query}"
    database = in_query if in_query is not None else in_path or 0
    tls = "rediss" if scheme in ("rediss", "valkeys") else "redis"
    endpoint = f"{tls}://{host}:{port or 6379}/{database}"
    assert RedisStore(url).endpoint == as_store(store_url(url)).endpoint == endpoint


OPTIONS = st.dictionaries(
    st.sampled_from(
        ["db", "username", "password", "ssl", "socket_timeout", "key_prefix", "hash_tag", "other"]
    ),
    st.none() | st.integers(-1, 20) | st.booleans() | st.floats() | st.text(max_size=4) | st.just(SECRET),
    max_size=3,
)


@MANY
@given(
    st.sampled_from(["redis://h", "redis://h/1", "redis://h?db=2", "unix:///p", "redis+sentinel://h/m"]),
    OPTIONS,
)
@example("redis://h/1", {"db": 3})
def test_any_options(url, options):
    options = {name: value for name, value in options.items() if value != SECRET or name == "password"}
    store = store_of(lambda: as_store(store_url(url, options)))
    if store is not None and url == "redis://h/1":
        assert store.endpoint.endswith("/1")


@pytest.mark.parametrize("option", ["password", "username"])
def test_credentials_in_the_query_are_shown_their_place(option):
    with pytest.raises(ValueError, match="unknown option") as raised:
        RedisStore(f"redis://h?{option}={SECRET}")
    assert " :password@host" in str(raised.value)
    assert SECRET not in str(raised.value)
