"""Stores: where state lives and where decisions are made."""

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
