"""Connections call themselves by ``client_name``, so that CLIENT LIST tells an operator whose they are."""

from __future__ import annotations

import asyncio
from contextlib import closing

import pytest

from overlimit import Limiter, RedisStore
from overlimit.aio import AsyncLimiter
from servers.patience import PATIENCE

NAME = "checkout@host-1#web"
"""All kinds of characters that Redis takes."""


def names_at(server) -> list[str]:
    """Return how the connections are called that somebody else has to a server."""
    with closing(server.client()) as admin:
        own = admin.client_id()
        return [each["name"] for each in admin.client_list() if int(each["id"]) != own]


def limiter_at(url, prefix, **options):
    return Limiter("9/minute", name="api", store=RedisStore(url, timeout=PATIENCE, prefix=prefix, **options))


@pytest.fixture
def server(start_redis):
    """Return a server of its own, to which nobody else connects."""
    return start_redis()


@pytest.mark.parametrize("is_in_url", [False, True])
def test_connections_of_threads_have_the_name(server, prefix, is_in_url):
    in_url = f"&client_name={NAME.replace('#', '%23').replace('@', '%40')}"
    url = server.unix_url() + (in_url if is_in_url else "")
    limiter = limiter_at(url, prefix, **({} if is_in_url else {"client_name": NAME}))
    assert limiter.hit("a")
    assert names_at(server) == [NAME]
    with closing(server.client()) as admin:
        admin.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    assert limiter.hit("a").remaining == 7  # by another connection
    assert names_at(server) == [NAME]


def test_stores_of_two_names_have_connections_of_their_own_and_share_their_counts(server, prefix):
    first, second = (limiter_at(server.unix_url(), prefix, client_name=name) for name in ("one", "two"))
    assert first.hit("a").remaining == 8
    assert second.hit("a").remaining == 7
    assert sorted(names_at(server)) == ["one", "two"]


def test_connections_of_an_event_loop_have_the_name(server, prefix):
    async def hits() -> list[str]:
        store = RedisStore(server.unix_url(), timeout=PATIENCE, prefix=prefix, client_name=NAME)
        limiter = AsyncLimiter("9/minute", name="api", store=store)
        answers = await asyncio.gather(*(limiter.hit("a") for _ in range(3)))
        assert sorted(answer.remaining for answer in answers) == [6, 7, 8]
        return names_at(server)

    names = asyncio.run(hits())
    assert names
    assert set(names) == {NAME}


def test_whoever_may_not_set_names_has_one_nonetheless(server, prefix):
    with closing(server.client()) as admin:
        allowed = ["-@all", "+evalsha", "+eval", "+get", "+set", "+setrange", "+time", "+ping", "~*"]
        admin.execute_command("ACL", "SETUSER", "limiter", "on", ">password", *allowed)
    url = server.unix_url().replace("unix://", "unix://limiter:password@")
    limiter = limiter_at(url, prefix, client_name=NAME)
    assert limiter.hit("a").remaining == 8
    assert names_at(server) == [NAME]


def test_connections_to_the_master_of_sentinels_have_the_name(start_sentinels, prefix):
    sentinels = start_sentinels(replicas=0)
    limiter = limiter_at(sentinels.url, prefix, client_name=NAME)
    assert limiter.hit("a")
    assert NAME in names_at(sentinels.master)


def test_connections_to_the_nodes_of_a_cluster_have_the_name(start_cluster, prefix):
    cluster = start_cluster(replicas=0)
    limiter = limiter_at(cluster.url(), prefix, client_name=NAME)
    for i in range(40):
        assert limiter.hit(f"id:{i}")
    for node in cluster.masters:
        assert NAME in names_at(node)


@pytest.mark.parametrize("name", ["", "check out", "a\nb", "a\x00", "naïve", "x\x7f"])
def test_what_redis_takes_as_no_name_is_refused_before_anything_is_touched(name):
    with pytest.raises(ValueError, match="client_name must be printable ASCII without spaces"):
        RedisStore("redis://localhost", client_name=name)


def test_a_name_of_another_type_is_refused():
    with pytest.raises(TypeError, match="client_name must be a str"):
        RedisStore("redis://localhost", client_name=7)
