"""A response is settled by what was read of it, whatever method read it."""

from __future__ import annotations

import asyncio
import gzip
import importlib
import io
import json
import shutil
from importlib.util import find_spec

import httpx
import pytest
import requests

from overlimit import Limiter
from overlimit.aio import AsyncLimiter
from overlimit.http import total_tokens
from overlimit.httpx import AsyncThrottledTransport, ThrottledTransport
from overlimit.requests import ThrottledAdapter
from servers.patience import PATIENCE, eventually
from servers.scripted_http import Scripted

TOKENS = json.dumps({"usage": {"total_tokens": 30}, "text": "x" * 200, "lines": "\\n"}, indent=1).encode()
OPTIONS = {"identifiers": "x", "cost": 100, "settle": total_tokens}
SMALL = 7


@pytest.fixture
def limiter():
    return Limiter("1000/hour")


def spent(limiter):
    return 1000 - limiter.peek("x", cost=0).remaining


def chunked(body):
    parts = [body[start : start + 50] for start in range(0, len(body), 50)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (*parts, b""))


@pytest.fixture(params=["gzip", "chunked"])
def tokens(request, server):
    """Have the server answer with a count of tokens."""
    body, headers = TOKENS, {"Content-Type": "application/json"}
    if request.param == "gzip":
        body, headers = gzip.compress(body), {**headers, "Content-Encoding": "gzip"}
    else:
        body, headers = chunked(body), {**headers, "Transfer-Encoding": "chunked"}
    server.answers = [Scripted(200, headers, body)]


def until_empty(read):
    while read(SMALL):
        pass


OF_REQUESTS = {
    "content": lambda got: got.content,
    "json": lambda got: got.json(),
    "iter_content": lambda got: list(got.iter_content(SMALL)),
    "iter_lines": lambda got: list(got.iter_lines(decode_unicode=True)),
    "iteration": list,
    "raw.read": lambda got: got.raw.read(),
    "raw.read, decoded": lambda got: got.raw.read(decode_content=True),
    "raw.read of so many": lambda got: until_empty(got.raw.read),
    "raw.read of so many, decoded": lambda got: until_empty(
        lambda size: got.raw.read(size, decode_content=True)
    ),
    "raw.stream": lambda got: list(got.raw.stream(SMALL, decode_content=True)),
    "raw.stream, not decoded": lambda got: list(got.raw.stream(SMALL, decode_content=False)),
    "raw.data": lambda got: got.raw.data,
    "iteration of raw": lambda got: list(got.raw),
    "raw.readlines": lambda got: got.raw.readlines(),
    "raw.readinto": lambda got: until_empty(lambda size: got.raw.readinto(bytearray(size))),
    "a copied raw": lambda got: shutil.copyfileobj(got.raw, io.BytesIO()),
}
if hasattr(requests.packages.urllib3.HTTPResponse, "read1"):
    OF_REQUESTS["raw.read1"] = lambda got: until_empty(lambda _: got.raw.read1())


@pytest.mark.parametrize("read", OF_REQUESTS.values(), ids=OF_REQUESTS.keys())
def test_of_requests(server, tokens, limiter, read):
    with requests.Session() as session:
        session.trust_env = False
        session.mount("http://", ThrottledAdapter(limiter, **OPTIONS))
        got = session.get(server.url, stream=True, timeout=PATIENCE)
        assert spent(limiter) == 100
        read(got)
        assert spent(limiter) == 30
        got.close()
    assert spent(limiter) == 30


@pytest.mark.parametrize("library", [requests, httpx])
def test_what_is_left_without_being_read_keeps_its_estimate(server, tokens, limiter, library):
    seen = []
    options = {**OPTIONS, "settle": lambda response: seen.append(response.content)}
    if library is requests:
        session = requests.Session()
        session.trust_env = False
        session.mount("http://", ThrottledAdapter(limiter, **options))
        with session, session.get(server.url, stream=True, timeout=PATIENCE):
            pass
    else:
        client = httpx.Client(transport=ThrottledTransport(limiter, **options))
        with client, client.stream("GET", server.url):
            pass
    assert (seen, spent(limiter)) == ([b""], 100)


OF_HTTPX = {
    "read": lambda got: got.read(),
    "iter_bytes": lambda got: list(got.iter_bytes(SMALL)),
    "iter_text": lambda got: list(got.iter_text(SMALL)),
    "iter_lines": lambda got: list(got.iter_lines()),
    "iter_raw": lambda got: list(got.iter_raw(SMALL)),
}


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("way", OF_HTTPX)
def test_of_httpx(server, tokens, limiter, way, is_async):
    async def main():
        transport = AsyncThrottledTransport(AsyncLimiter._of(limiter), **OPTIONS)
        async with httpx.AsyncClient(transport=transport) as client, client.stream("GET", server.url) as got:
            found = getattr(got, f"a{way}")()
            if way == "read":
                await found
            else:
                [part async for part in found]
            assert spent(limiter) == 30

    if is_async:
        asyncio.run(main())
        return
    client = httpx.Client(transport=ThrottledTransport(limiter, **OPTIONS))
    with client, client.stream("GET", server.url) as got:
        OF_HTTPX[way](got)
        assert spent(limiter) == 30


async def all_of(parts):
    return [part async for part in parts]


async def until_nothing(read):
    while await read():
        pass


async def all_at_once(content):
    while not content.at_eof():
        if not content.read_nowait(SMALL):
            await asyncio.sleep(0.001)


async def all_exactly(content):
    with pytest.raises(asyncio.IncompleteReadError):
        await content.readexactly(10_000)


OF_AIOHTTP = {
    "read": lambda got: got.read(),
    "json": lambda got: got.json(),
    "content.read": lambda got: got.content.read(),
    "content.read of so many": lambda got: until_nothing(lambda: got.content.read(SMALL)),
    "content.readany": lambda got: until_nothing(got.content.readany),
    "content.readchunk": lambda got: until_nothing(lambda: _first(got.content.readchunk())),
    "content.readline": lambda got: until_nothing(got.content.readline),
    "content.readuntil": lambda got: until_nothing(lambda: got.content.readuntil(b"x")),
    "content.readexactly": lambda got: all_exactly(got.content),
    "content.read_nowait": lambda got: all_at_once(got.content),
    "content": lambda got: all_of(got.content),
    "content.iter_any": lambda got: all_of(got.content.iter_any()),
    "content.iter_chunked": lambda got: all_of(got.content.iter_chunked(SMALL)),
    "content.iter_chunks": lambda got: all_of(got.content.iter_chunks()),
}


async def _first(read):
    return (await read)[0]


if find_spec("aiohttp"):  # which there is not without the GIL

    @pytest.mark.parametrize("read", OF_AIOHTTP.values(), ids=OF_AIOHTTP.keys())
    def test_of_aiohttp(server, tokens, limiter, read):
        aiohttp, ours = importlib.import_module("aiohttp"), importlib.import_module("overlimit.aiohttp")

        async def main():
            middleware = ours.ThrottledMiddleware(AsyncLimiter._of(limiter), **OPTIONS)
            async with (
                aiohttp.ClientSession(middlewares=[middleware]) as session,
                session.get(server.url) as got,
            ):
                assert spent(limiter) == 100
                await read(got)
                await asyncio.sleep(0)
            await asyncio.sleep(0)
            eventually(lambda: spent(limiter) == 30)

        asyncio.run(main())
