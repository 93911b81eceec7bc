"""What is written to the log while a store fails: little, and no secret."""

from __future__ import annotations

import pytest

from servers.patience import eventually

from .answering import answers


@pytest.fixture
def messages(caplog):
    """Return a function that returns the messages of this package so far."""
    caplog.set_level("DEBUG", logger="overlimit")
    return lambda: [each.getMessage() for each in caplog.records if each.name.startswith("overlimit")]


def test_a_kind_of_failure_is_told_once_in_a_while(proxy, limiter_at, ledger, messages):
    limiter = limiter_at(proxy.url, on_error="allow")
    assert answers(limiter)
    assert messages() == []
    proxy.refuse()
    ledger.hit_for(1.0, limiter, "a")
    assert ledger.unknown > 100
    assert 1 <= len(messages()) <= 2
    assert any(str(proxy.port) in message for message in messages())


def test_another_endpoint_is_told_of_too(proxy, start_redis, limiter_at, messages):
    other = start_redis()
    limiters = [limiter_at(url, on_error="deny") for url in (proxy.url, other.tcp_url())]
    for limiter in limiters:
        assert answers(limiter)
    proxy.refuse()
    other.kill()
    for _ in range(50):
        for limiter in limiters:
            limiter.hit("a")
    assert all(any(str(port) in each for each in messages()) for port in (proxy.port, other.port))
    assert 2 <= len(messages()) <= 4


@pytest.mark.parametrize("on_error", ["allow", "deny", "local"])
def test_no_password_is_told(start_redis, limiter_at, messages, on_error):
    server = start_redis(password="s3cret")
    limiter = limiter_at(server.tcp_url(), on_error=on_error)
    assert answers(limiter)
    server.kill()
    for _ in range(20):
        limiter.hit("a")
    server.restart()
    eventually(lambda: answers(limiter))
    assert messages()
    assert not any("s3cret" in message for message in messages())
