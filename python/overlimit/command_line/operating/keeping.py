"""What is kept of an identifier or in a policy, which no answer of a limiter says."""

from __future__ import annotations

from overlimit._messages.texts import printable
from overlimit.command_line.operating.places import Place
from overlimit.command_line.operating.servers import servers_of
from overlimit.command_line.operating.targets import Target
from overlimit.command_line.operating.walking import KEYS, Walk
from overlimit.errors import StoreError


def keeps(place: Place, policy: str, identifier: str | None, most: int = KEYS) -> bool | None:
    """Whether anything is kept of an identifier, or of anybody; None where that is not seen.

    For anybody, at most so many keys are looked at.
    """
    try:
        if identifier is None:
            return _keeps_any(place, policy, most)
        return Target(place, policy, identifier).kept().value is not None
    except StoreError:
        return None


FEW = 20_000
"""How many keys are looked at where nobody is to wait for it."""

_SHOWN = 10


def policies_instead(place: Place, policy: str) -> str:
    """Say in which policies anything is kept, if nothing is in this one, as under a misspelt name."""
    return policies_besides(place, policy) if keeps(place, policy, None, FEW) is False else ""


def policies_besides(place: Place, policy: str) -> str:
    """Say in which other policies a short look finds anything; nothing where that is not seen."""
    if place.shared_memory is not None:  # which knows policies by hashes
        return ""
    try:
        found = sorted({each.policy for each in Walk(place, None, FEW) if each.counts} - {policy})
    except StoreError:
        return ""
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return f" There is something in {', '.join(map(printable, found[:_SHOWN]))}{more}." if found else ""


def holds_lock(target: Target) -> bool | None:
    """Whether an identifier is locked; None where that is not seen."""
    try:
        kept = target.kept()
        return kept.value is not None and kept.value.locked_for(kept.now) > 0
    except StoreError:
        return None


def is_part_of_cluster(place: Place) -> bool:
    """Whether the URL names a node of a cluster as a server by itself; False where that is not seen."""
    if not place.is_redis or place.is_cluster:
        return False
    try:
        return any(each.is_node_of_cluster for each in servers_of(place))
    except StoreError:
        return False


def _keeps_any(place: Place, policy: str, most: int) -> bool | None:
    walk = Walk(place, policy, most)
    if any(found.counts for found in walk) or walk.foreign:
        return True
    return False if walk.saw_all else None
