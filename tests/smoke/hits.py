"""Hits limits on a store when told to, and prints how often they admitted it: hits.py LIMITS STORE HITS."""

from __future__ import annotations

import sys

from overlimit import Limiter

limits, store, hits = sys.argv[1:]
limiter = Limiter(limits, name="smoke", store=store)
limiter.peek("anybody")
print("ready", flush=True)
sys.stdin.readline()
print(sum(bool(limiter.hit("anybody")) for _ in range(int(hits))))
