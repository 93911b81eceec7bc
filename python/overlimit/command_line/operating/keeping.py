"""What is kept of an identifier or in a policy, which no answer of a limiter says."""

from __future__ import annotations

from overlimit.command_line.operating.endings import status_of
from overlimit.command_line.operating.places import Place
from overlimit.command_line.operating.servers import masters_of
from overlimit.command_line.operating.targets import Target
from overlimit.command_line.operating.walking import KEYS, Walk


def keeps(place: Place, policy: str, identifier: str | None, most: int = KEYS) -> bool | None:
    """Whether anything is kept of an identifier, or of anybody; None where that is not seen.

    For anybody, at most so many keys are looked at.
    """
    try:
        if identifier is None:
            return _keeps_any(place, policy, most)
        return Target(place, policy, identifier).kept().value is not None
    except Exception as error:
        if _matters(error):
            raise
        return None


def holds_lock(target: Target) -> bool | None:
    """Whether an identifier is locked; None where that is not seen."""
    try:
        kept = target.kept()
        return kept.value is not None and kept.value.locked_for(kept.now) > 0
    except Exception as error:
        if _matters(error):
            raise
        return None


def is_part_of_cluster(place: Place) -> bool:
    """Whether the URL names a node of a cluster as a server by itself; False where that is not seen."""
    if place.shared_memory is not None or place.is_cluster:
        return False
    try:
        with masters_of(place) as masters:
            return any(each.connected().is_node_of_cluster for each in masters)
    except Exception as error:
        if _matters(error):
            raise
        return False


def _matters(error: Exception) -> bool:
    """Whether it is no error of a server, which the command itself meets, or may not meet."""
    return status_of(error) is None and not isinstance(error, ImportError)


def _keeps_any(place: Place, policy: str, most: int) -> bool | None:
    walk = Walk(place, policy, most)
    if any(found.counts for found in walk) or walk.foreign:
        return True
    return False if walk.saw_all else None
