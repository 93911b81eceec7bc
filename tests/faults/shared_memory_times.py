"""How long the first call of a process on shared memory takes, and how long most others do, in seconds.

A program of its own: python shared_memory_times.py NAME SECONDS
"""

import json
import sys
import time

from overlimit import Limiter

KEYS = 1000


def main(name: str, seconds: float) -> None:
    """Print both as JSON."""
    hit = Limiter("1000000000/minute", name="p", store=f"shm://{name}").hit
    identifiers = [f"user:{number}" for number in range(KEYS)]
    clock = time.perf_counter
    times = []
    end = clock() + seconds
    before = clock()
    while before < end:
        hit(identifiers[len(times) % KEYS])
        after = clock()
        times.append(after - before)
        before = clock()
    first = times.pop(0)
    print(json.dumps({"first": first, "p99.9": sorted(times)[int(len(times) * 0.999)], "calls": len(times)}))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
