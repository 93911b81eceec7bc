"""What two processes admit of what strict ones would, below and above the limit, if both or one lease."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter

import pytest

from servers.patience import PATIENCE

pytestmark = [pytest.mark.longer_in_prove, pytest.mark.xdist_group("storms")]

SECONDS = 0.8 * int(os.environ.get("PROVE", "1"))
PAUSES = {"below": 0.004, "above": 0.0}
"""Between two calls, in seconds, at a rate below or above the limit."""
LEASES = {"each": ("0.05", "0.05"), "one": ("0.05", "0")}
PROGRAM = f"""
import json, sys, time
from overlimit import FixedWindow, Limiter, RedisStore

url, prefix, lease, seconds, pause = sys.argv[1], sys.argv[2], *map(float, sys.argv[3:])
limit = FixedWindow(400, per=0.5, start="epoch")
own, strict = (
    Limiter(limit, name=name, store=RedisStore(url, prefix=prefix, timeout={PATIENCE}, lease=each))
    for name, each in (("own", lease), ("strict", 0))
)
counts = dict.fromkeys(("decisions", "admitted", "strictly"), 0)
ends = time.monotonic() + seconds
while time.monotonic() < ends:
    counts["decisions"] += 1
    counts["admitted"] += own.hit("a").allowed
    counts["strictly"] += strict.hit("a").allowed
    time.sleep(pause)
print(json.dumps(counts | {{"asked": own.stats()["asked"]}}))
"""


def counted(*arguments: tuple[str, ...]) -> Counter[str]:
    """Run a process for each tuple of arguments, all at once, and add up what they counted."""
    running = [
        subprocess.Popen([sys.executable, "-c", PROGRAM, *each], stdout=subprocess.PIPE) for each in arguments
    ]
    total: Counter[str] = Counter()
    for process in running:
        out, _ = process.communicate(timeout=60 + SECONDS)
        assert process.returncode == 0
        total.update(json.loads(out))
    return total


@pytest.mark.parametrize("rate", PAUSES)
@pytest.mark.parametrize("who", LEASES)
def test_admit_nine_tenths_of_what_the_strict_do(redis_server, prefix, rate, who, record_property):
    where = redis_server.unix_url(), prefix
    counts = counted(*((*where, lease, str(SECONDS), str(PAUSES[rate])) for lease in LEASES[who]))
    share = counts["admitted"] / counts["strictly"]
    assert share >= 0.9, counts
    assert counts["asked"] < counts["decisions"]
    record_property(
        "figure",
        f"two processes, {who} of which leases, at a rate {rate} the limit: {share:.1%} of strict "
        f"admissions, {counts['decisions'] / counts['asked']:.1f} decisions a command",
    )
