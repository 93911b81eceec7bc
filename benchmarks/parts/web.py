"""What limits add to an empty request to Flask, Starlette, FastAPI and Django, beside the bare framework.

Three limits by address, with header fields unless a name says that there are none, in this process without a
server.
"""

from __future__ import annotations

from measuring.loops import event_loop
from measuring.servers import redis_server
from measuring.turns import Effort, Found, contest
from parts import asgi_sites, django_sites, flask_sites


def contests(effort: Effort) -> Found:
    rounds = effort.of(25, 2)
    yield contest("Flask, in memory", "us", flask_sites.turns(), rounds=rounds)
    with event_loop() as loop, redis_server() as socket:
        of_asgi = {
            "Starlette, in memory": asgi_sites.starlette_sites(),
            "FastAPI, in memory": asgi_sites.fastapi_sites(),
            "FastAPI, in memory, a path function in a thread": asgi_sites.thread_sites(),
            "FastAPI, Redis on a unix socket": loop.run_until_complete(asgi_sites.redis_sites(socket)),
        }
        for title, sites in of_asgi.items():
            yield contest(title, "us", asgi_sites.turns(loop, sites), rounds=rounds)
    yield contest("Django, in memory", "us", django_sites.turns(), rounds=rounds)
