"""What limits cost a request to Starlette, FastAPI and Django, in one run: python benchmarks/web_overhead.py.

Three limits by address, with header fields, in this process without a server. The sites of a framework take
turns; each is compared with the bare framework in the same round, and the medians over the rounds count.
Needs the dependency group ``bench``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib

import django_sites
from compare import redis_server
from turns import print_costs

import asgi_sites


def main() -> None:
    parser = argparse.ArgumentParser(description="What limits cost a request.")
    parser.add_argument("--rounds", type=int, default=40, help="default: %(default)s")
    rounds = parser.parse_args().rounds
    with contextlib.closing(asyncio.new_event_loop()) as loop, redis_server() as socket:
        of_asgi = {
            "Starlette, in memory": asgi_sites.starlette_sites(),
            "FastAPI, in memory": asgi_sites.fastapi_sites(),
            "FastAPI, in memory, a path function in a thread": asgi_sites.thread_sites(),
            "FastAPI, Redis on a unix socket": loop.run_until_complete(asgi_sites.redis_sites(socket)),
        }
        for title, sites in of_asgi.items():
            print_costs(title, asgi_sites.contestants(loop, sites), rounds)
    print_costs("Django, in memory", django_sites.contestants(), rounds)


if __name__ == "__main__":
    main()
