"""Sentinels that ask for a password, for a user, or for TLS, which the master does not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from overlimit import Limiter, RedisStore, StoreConfigError, StoreError
from overlimit.aio import AsyncLimiter
from overlimit.command_line.program import program
from servers.patience import PATIENCE
from servers.ports import free_port
from servers.sentinels import SERVICE, Sentinels

USER = (
    "user watcher on >of-user &+switch-master -@all +auth +ping +subscribe +unsubscribe "
    "+sentinel|get-master-addr-by-name"
)


@pytest.fixture(scope="module")
def guarded(certificates: Path) -> Iterator[tuple[Sentinels, int]]:
    """Return a master with another password than its sentinel, and the port on which that speaks TLS."""
    port = free_port()
    tls = [
        f"tls-port {port}",
        f"tls-cert-file {certificates}/server.pem",
        f"tls-key-file {certificates}/server.key",
        f"tls-ca-cert-file {certificates}/ca.pem",
        "tls-auth-clients no",
    ]
    guarded = Sentinels(
        replicas=0, password="of-master", sentinel_password="p@ss-word", sentinel_lines=[USER, *tls]
    )
    yield guarded, port
    guarded.stop()


OF_ALL = {"sentinel_password": "p@ss-word"}
OF_USER = {"sentinel_username": "watcher", "sentinel_password": "of-user"}


def hit(url: str, prefix: str, **options: object) -> int:
    store = RedisStore(url, timeout=PATIENCE, prefix=prefix, **options)
    return Limiter("9/minute", name="api", store=store).hit("a").remaining


@pytest.mark.parametrize("login", [OF_ALL, OF_USER], ids=["password", "user"])
def test_sentinels_have_a_login_of_their_own(guarded, prefix, login):
    watched, _ = guarded
    assert hit(watched.url, prefix, **login) == 8
    in_url = "&".join(f"{name}={value.replace('@', '%40')}" for name, value in login.items())
    assert hit(f"{watched.url}?{in_url}", prefix) == 7

    async def awaited() -> int:
        store = RedisStore(watched.url, timeout=PATIENCE, prefix=prefix, **login)
        return (await AsyncLimiter("9/minute", name="api", store=store).hit("a")).remaining

    assert asyncio.run(awaited()) == 6


def test_sentinels_may_have_tls_that_the_master_has_not(guarded, prefix, certificates):
    watched, port = guarded
    url = f"redis+sentinel://:of-master@127.0.0.1:{port}/{SERVICE}"
    trusted = {"sentinel_ssl_ca_certs": certificates / "ca.pem"}
    assert hit(url, prefix, sentinel_ssl=True, **OF_ALL, **trusted) == 8
    with pytest.raises(StoreConfigError, match="certificate"):
        hit(url, prefix, sentinel_ssl=True, **OF_ALL)
    plain = f"rediss+sentinel://:of-master@127.0.0.1:{watched.sentinels[0].port}/{SERVICE}"
    with pytest.raises(StoreError, match=r"127\.0\.0\.1"):  # the sentinel answers, and the master has no TLS
        RedisStore(plain, timeout=1, sentinel_ssl=False, **OF_ALL).ping()


@pytest.mark.parametrize("login", [{}, {"sentinel_password": "wrong"}, {**OF_USER, "sentinel_username": "x"}])
def test_a_wrong_login_names_the_options(guarded, prefix, login):
    with pytest.raises(StoreConfigError, match="sentinel_username and sentinel_password") as refused:
        hit(guarded[0].url, prefix, **login)
    assert "wrong" not in str(refused.value)
    assert "of-master" not in str(refused.value)


def test_a_password_is_shown_nowhere():
    store = RedisStore(f"redis+sentinel://:secret@h/{SERVICE}?sentinel_password=secret&sentinel_username=me")
    assert "secret" not in repr(store) + store.endpoint + repr(vars(store).get("_shown"))


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("redis://h?sentinel_password=x", r"redis\+sentinel://"),
        ("redis+sentinel://h/s?sentinel_username=x", "needs sentinel_password"),
        ("redis+sentinel://h/s?sentinel_password=", "neither empty"),
        ("redis+sentinel://h/s?sentinel_ssl_ca_certs=x", "sentinel_ssl=True"),
        ("redis+sentinel://h/s?sentinel_ssl=maybe", "sentinel_ssl"),
        ("redis+sentinel://h/s?sentinel_pasword=x", "write sentinel_password="),
    ],
)
def test_a_wrong_option_is_refused_at_once(url, error):
    with pytest.raises(ValueError, match=error):
        RedisStore(url)


def test_the_commands_log_in_too(guarded, prefix):
    url = f"{guarded[0].url}?sentinel_password=p%40ss-word&prefix={prefix}"
    hit(f"{url}&timeout={PATIENCE}", prefix)
    shown = CliRunner().invoke(program, ["top", url, "--json"])
    assert shown.exit_code == 0, shown.output
    assert json.dumps("a") in shown.output
