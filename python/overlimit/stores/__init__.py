"""Stores: where state lives and where decisions are made."""

from typing import TYPE_CHECKING, Any

from overlimit._core import Step as Step
from overlimit._core import Store as Store
from overlimit.stores.by_url import StoreLike as StoreLike
from overlimit.stores.by_url import as_store as as_store
from overlimit.stores.by_url import url_or_store as url_or_store
from overlimit.stores.memory import MemoryStore as MemoryStore
from overlimit.stores.redis import RedisStore as RedisStore
from overlimit.stores.shared_memory import SharedMemoryStore as SharedMemoryStore
from overlimit.stores.values import ValueStore as ValueStore
from overlimit.stores.values import Write as Write

if TYPE_CHECKING:
    from overlimit.stores.postgresql import PostgreSQLStore as PostgreSQLStore
    from overlimit.stores.sqlite import SQLiteStore as SQLiteStore


def __getattr__(name: str) -> Any:
    """Import a store that needs another package, or that few use, when it is first asked for."""
    if name == "PostgreSQLStore":
        from overlimit.stores.postgresql import PostgreSQLStore

        return PostgreSQLStore
    if name == "SQLiteStore":
        from overlimit.stores.sqlite import SQLiteStore

        return SQLiteStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
