"""Write the access log of a shop's day as nginx would: people, crawlers, a scanner, an API client in a loop.

    python examples/shop_log.py --lines 100000 --seed 1 > access.log

The same arguments give the same log. It is written in the order of its times, line by line, so it may have
any size. examples/shop_day.log.gz is what `--lines 12000 --seed 1` gives.
"""

from __future__ import annotations

import argparse
import heapq
import math
import os
import random
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise

DAY = 86_400.0
SHARES = {"people": 0.70, "crawlers": 0.14, "scanner": 0.06, "api": 0.10}
SCAN = (3.2 * 3600, 3.6 * 3600)

BROWSERS = [
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/142.0.0.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148",
    "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0",
]
CRAWLERS = {
    "192.0.2.": "Mozilla/5.0 (compatible; Indexer/2.1; +https://indexer.example/bot)",
    "198.51.100.1": "PriceComparison/1.4 (+https://prices.example)",
}
PROBES = [
    "/.env",
    "/.git/config",
    "/wp-login.php",
    "/admin/",
    "/phpmyadmin/index.php",
    "/backup.zip",
    "/server-status",
]
SHOP = "https://shop.example"

Line = tuple[float, str]


def in_order(count: int, random: random.Random) -> Iterator[float]:
    """Yield so many random numbers from 0 to 1, rising, without holding them."""
    last = 0.0
    for left in range(count, 0, -1):
        last = 1 - (1 - last) * random.random() ** (1 / left)
        yield min(last, 1 - 1e-9)


def busy_hours() -> Callable[[float], float]:
    """Return a function from a share of the day's visits to the second by which it has come."""
    steps = [k * 300.0 for k in range(289)]
    level = [1 + 0.85 * math.cos(2 * math.pi * (second - 20 * 3600) / DAY) for second in steps]
    risen = [0.0]
    for below, above in pairwise(level):
        risen.append(risen[-1] + (below + above) / 2)

    def second_of(share: float) -> float:
        wanted, low, high = share * risen[-1], 0, len(risen) - 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if risen[middle] <= wanted else (low, middle)
        return steps[low] + 300 * (wanted - risen[low]) / (risen[high] - risen[low])

    return second_of


def request(
    address: str, what: str, status: int, size: int, agent: str, *, user: str = "-", referer: str = "-"
) -> str:
    """Return what follows the time in a line, and precedes it, with a place for it."""
    return f'{address} - {user} [{{}}] "{what} HTTP/1.1" {status} {size} "{referer}" "{agent}"'


def visitor(random: random.Random) -> tuple[str, str, str]:
    """Return the address, the user and the browser of somebody: a third have IPv6, a fifth log in."""
    known = random.randrange(4000)
    network = f"2001:db8:{known:x}:1::" if known % 3 == 0 else f"203.0.{100 + known // 256}.{known % 256}"
    user = f"customer{known}" if known % 5 == 0 else "-"
    return network, user, BROWSERS[known % len(BROWSERS)]


def people(count: int, random: random.Random) -> Iterator[Line]:
    """Yield the requests of visitors, each of whom looks at a few pages."""
    second_of = busy_hours()
    here = [visitor(random) for _ in range(20)]
    for share in in_order(count, random):
        place = random.randrange(len(here))
        if random.random() < 0.12:
            here[place] = visitor(random)
        address, user, browser = here[place]
        if address.endswith("::"):
            address += f"{random.getrandbits(64) >> 48:x}"  # one of the addresses of their network
        product = int(random.paretovariate(0.8)) % 900
        pages = [("GET /", 200), (f"GET /search?q={product:x}", 200), ("POST /cart", 302)]
        pages += [(f"GET /product/{product}", 200)] * 3 + [("POST /login", 401 if user == "-" else 302)]
        what, status = random.choice(pages)
        line = request(
            address, what, status, random.randrange(300, 9000), browser, user=user, referer=f"{SHOP}/"
        )
        yield second_of(share), line


def crawlers(count: int, random: random.Random) -> Iterator[Line]:
    """Yield the requests of crawlers, which go on all day."""
    for share in in_order(count, random):
        start, agent = random.choice(list(CRAWLERS.items()))
        what = f"GET /product/{random.randrange(900)}"
        address = start + str(random.randrange(10, 18))
        yield share * DAY, request(address, what, 200, random.randrange(4000, 9000), agent)


def scanner(count: int, random: random.Random) -> Iterator[Line]:
    """Yield the requests of somebody who looks for open doors, for half an hour at night."""
    start, end = SCAN
    for share in in_order(count, random):
        probe = random.choice(PROBES)
        # What is no request at all is logged as nginx does.
        what = f"GET {probe}" if random.random() < 0.97 else r"\x16\x03\x01"
        line = request("198.51.100.77", what, 404, 153, "zgrab/0.x")
        yield start + share * (end - start), line if what.startswith("GET") else line.replace(" HTTP/1.1", "")


def api(count: int, random: random.Random) -> Iterator[Line]:
    """Yield the requests of a program that asks for orders again and again."""
    for share in in_order(count, random):
        status = random.choices([200, 503], [0.97, 0.03])[0]
        line = request(
            "203.0.113.9", "GET /api/orders?state=open", status, 512, "orders-sync/3.0", user="warehouse"
        )
        yield share * DAY, line


def lines(count: int, seed: int, start: datetime) -> Iterator[str]:
    """Yield the lines of the log, in the order of their times."""
    counts = {name: int(count * share) for name, share in SHARES.items()}
    counts["people"] += count - sum(counts.values())
    sources = [
        source(counts[source.__name__], random.Random(f"{seed} {source.__name__}"))
        for source in (people, crawlers, scanner, api)
    ]
    for second, line in heapq.merge(*sources, key=lambda each: each[0]):
        time = start + timedelta(seconds=int(second))
        yield line.format(time.strftime("%d/") + MONTHS[time.month - 1] + time.strftime("/%Y:%H:%M:%S %z"))


MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lines", type=int, default=100_000, help="how many (default: 100000)")
    parser.add_argument("--seed", type=int, default=1, help="another number gives another day (default: 1)")
    parser.add_argument("--start", default="2026-03-02", help="the day (default: 2026-03-02)")
    options = parser.parse_args()
    start = datetime.fromisoformat(options.start).replace(tzinfo=UTC)
    try:
        for line in lines(options.lines, options.seed, start):
            print(line)
        sys.stdout.flush()
    except BrokenPipeError:  # as when it's read by `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
