"""Limits that processes share, in shared memory and in Redis, without TLS and with it."""

from __future__ import annotations

import pytest

from overlimit import Limiter, StoreConfigError

LIMIT = 100


@pytest.fixture
def exactly_the_limit(admitted_by_processes):
    """Return a function that says whether three processes together are admitted exactly ``LIMIT`` times."""

    def holds(store: str) -> bool:
        admitted = admitted_by_processes(3, f"{LIMIT}/hour", store, hits=LIMIT // 2)
        return sum(admitted) == LIMIT and not Limiter(f"{LIMIT}/hour", name="smoke", store=store).hit(
            "anybody"
        )

    return holds


@pytest.mark.needs("shm")
def test_processes_share_memory(shared_memory, exactly_the_limit):
    assert exactly_the_limit(shared_memory)


@pytest.mark.needs("redis")
def test_processes_share_a_redis(redis_server, exactly_the_limit):
    assert exactly_the_limit(f"redis://127.0.0.1:{redis_server.port}/0?timeout=10")
    assert exactly_the_limit(f"unix://{redis_server.socket}?db=1&timeout=10")


@pytest.mark.needs("tls")
def test_processes_share_a_redis_with_tls(tls_server, exactly_the_limit):
    for database, host in enumerate(("localhost", "127.0.0.1")):
        url = f"rediss://{host}:{tls_server.tls_port}/{database}?timeout=10"
        assert exactly_the_limit(f"{url}&ssl_ca_certs={tls_server.certificate}")


@pytest.mark.needs("tls")
@pytest.mark.parametrize("trusted", ["", "other.pem"], ids=["the-system", "another"])
def test_a_server_that_nobody_vouches_for_is_refused(tls_server, certificates, trusted):
    url = f"rediss://localhost:{tls_server.tls_port}/0?timeout=10"
    store = f"{url}&ssl_ca_certs={certificates / trusted}" if trusted else url
    with pytest.raises(StoreConfigError, match="certificate"):
        Limiter("1/hour", name="refused", store=store).hit("anybody")
