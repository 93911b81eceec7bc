"""The store in the memory of one process."""

from __future__ import annotations

from typing import SupportsIndex

from overlimit import _core
from overlimit._messages.arguments import checks_arguments
from overlimit._options import size_of


class MemoryStore(_core.MemoryStore):
    """A store in this process's memory, of bounded size.

    A full store never forgives: identifiers that it does not know then share counts of what all of them
    spend, so some are refused early. Policies that are too many for counts of their own share those of
    others with the same limits.

    Parameters
    ----------
    max_keys
        The most identifiers that are counted one by one, over all policies; at least 1.
    max_bytes
        The most memory for them, in bytes; at least 65,536.

    Notes
    -----
    ``len(store)`` is how many identifiers it counts, and ``bool(store)`` always True. A copy is the store
    itself, and it does not pickle. Thread-safe. Raises TypeError or ValueError naming the argument.
    """

    @checks_arguments(synonyms={"size": "max_keys", "maxsize": "max_keys", "max_size": "max_keys"})
    def __init__(self, max_keys: SupportsIndex = 1_000_000, max_bytes: SupportsIndex = 256 << 20) -> None:
        super().__init__(size_of(max_keys, "max_keys"), size_of(max_bytes, "max_bytes"))
