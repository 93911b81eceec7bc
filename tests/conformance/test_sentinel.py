"""A store behind sentinels: the master they name decides, and nobody else."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from overlimit import Limiter, RedisStore, StoreConfigError, StoreError, StoreUnavailable
from servers.patience import PATIENCE, eventually
from servers.redis_server import RedisServer
from servers.sentinels import SERVICE, Sentinels

RECOVERY = 3.0
"""Seconds within which a new master serves."""
MANY = 1_000_000


@pytest.fixture(scope="module")
def watched() -> Iterator[Sentinels]:
    watched = Sentinels(sentinels=2)
    yield watched
    watched.stop()


@pytest.fixture
def limiter_at(prefix: str) -> Callable[..., Limiter]:
    """Return a function that builds a limiter on a URL."""

    def build(url: str, timeout: float = PATIENCE) -> Limiter:
        return Limiter(f"{MANY}/day", store=RedisStore(url, timeout=timeout, prefix=prefix), name="api")

    return build


def counted(server: RedisServer, prefix: str, identifier: str = "a") -> int:
    """Return what this server itself counts."""
    limiter = Limiter(
        f"{MANY}/day", store=RedisStore(server.tcp_url(), timeout=PATIENCE, prefix=prefix), name="api"
    )
    return MANY - limiter.peek(identifier, cost=0).remaining


def is_admitted(limiter: Limiter) -> bool:
    try:
        return bool(limiter.hit("a"))
    except StoreError:
        return False


def connections_of_clients(sentinel: RedisServer) -> int:
    """Return how many clients are connected by TCP, which `ask` is not; other sentinels do not count."""
    listed = sentinel.ask("CLIENT", "LIST").decode().splitlines()
    return sum(" addr=127.0.0.1:" in each and " name=sentinel-" not in each for each in listed)


def addresses(watched: Sentinels) -> list[str]:
    return [f"127.0.0.1:{sentinel.port}" for sentinel in watched.sentinels]


class TestFinding:
    def test_the_master_counts(self, watched, limiter_at, prefix):
        limiter = limiter_at(watched.url)
        assert [limiter.hit("a").remaining for _ in range(3)] == [MANY - 1, MANY - 2, MANY - 3]
        assert counted(watched.master, prefix) == 3

    def test_the_database_is_the_urls(self, watched, limiter_at, prefix):
        limiter_at(f"{watched.url}/3").hit("a")
        assert counted(watched.master, prefix) == 0
        assert watched.master.client(db=3).exists(f"{prefix}1:api:a") == 1

    def test_a_service_they_do_not_know_is_a_configuration_error(self, watched, limiter_at):
        url = f"redis+sentinel://{','.join(addresses(watched))}/other"
        with pytest.raises(StoreConfigError, match="'other'"):
            limiter_at(url).hit("a")

    def test_a_server_that_is_no_sentinel_is_a_configuration_error(self, redis_server, limiter_at):
        with pytest.raises(StoreConfigError, match="sentinel"):
            limiter_at(f"redis+sentinel://127.0.0.1:{redis_server.port}/{SERVICE}").hit("a")

    def test_sentinels_that_were_not_up_yet_are_asked_again(self, start_sentinels, limiter_at):
        watched = start_sentinels()
        [sentinel] = watched.sentinels
        limiter = limiter_at(watched.url)
        sentinel.kill()
        with pytest.raises(StoreUnavailable):
            limiter.hit("a")
        sentinel.restart()
        assert eventually(lambda: is_admitted(limiter)) < RECOVERY

    def test_it_holds_one_connection_to_each_sentinel(self, watched, limiter_at):
        def connections() -> list[int]:
            return [connections_of_clients(each) for each in watched.sentinels]

        eventually(lambda: connections() == [0, 0])
        limiter = limiter_at(watched.url)

        def listens_to_all() -> bool:
            limiter.hit("a")
            return connections() == [1, 1]

        eventually(listens_to_all)
        for _ in range(20):
            limiter.hit("a")
        assert connections() == [1, 1]
        limiter.store.close()
        eventually(lambda: connections() == [0, 0])


class TestFailover:
    def test_a_switch_while_no_sentinel_was_heard_is_learned_by_asking(
        self, start_sentinels, limiter_at, prefix
    ):
        watched = start_sentinels()
        [sentinel] = watched.sentinels
        limiter = limiter_at(watched.url, timeout=1.0)
        limiter.hit("a")
        sentinel.kill()
        limiter.hit("a")
        sentinel.restart()
        new = watched.fail_over()
        switched = time.monotonic()

        def is_counted_by_the_new() -> bool:
            return is_admitted(limiter) and counted(new, prefix) > 2

        eventually(is_counted_by_the_new)
        assert time.monotonic() - switched < RECOVERY
