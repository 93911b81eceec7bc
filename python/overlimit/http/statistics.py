"""What the limiters of an app have counted, summed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, cast

from overlimit.limiter import Limiter
from overlimit.statistics import FailureCounts, RateLimitStats, SummedStats
from overlimit.stores.kinds import state_key

_OF_POLICY = ("held", "returned", "lapsed")
"""What all limiters of a name on a store show alike."""


def summed_stats(limiters: Iterable[Limiter]) -> RateLimitStats:
    """Return the sums of all, and of each policy."""
    of_place: dict[tuple[Hashable, str], list[Mapping[str, Any]]] = defaultdict(list)
    for limiter in limiters:
        of_place[state_key(limiter.store), limiter.name or ""].append(limiter.stats())
    of_policy: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for (_, name), found in of_place.items():
        of_policy[name].append({**_sum(found), **{key: found[0][key] for key in _OF_POLICY}})
    policies = {name: _sum(found) for name, found in sorted(of_policy.items())}
    return {**_sum([*policies.values()]), "policies": policies}


def _sum(found: Sequence[Mapping[str, Any]]) -> SummedStats:
    counts = {name: sum(each[name] for each in found) for name in _COUNTS}
    errors = {kind: sum(each["errors"][kind] for each in found) for kind in FailureCounts.__annotations__}
    bounds = found[0]["latency"] if found else ()
    latency = {bound: sum(each["latency"][bound] for each in found) for bound in bounds}
    return cast("SummedStats", {**counts, "errors": errors, "latency": latency})


_COUNTS = tuple(name for name in SummedStats.__annotations__ if name not in ("errors", "latency"))
