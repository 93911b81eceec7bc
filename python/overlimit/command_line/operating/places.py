"""The store that a command asks, by its URL, which is never printed with what is secret in it."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast
from urllib.parse import unquote

import click
from click.shell_completion import CompletionItem

from overlimit._options import hash_tag_of, truth_of
from overlimit.errors import StoreConfigError
from overlimit.stores import RedisStore, SharedMemoryStore
from overlimit.stores.by_url import made_from_url
from overlimit.stores.redis import _OPTIONS
from overlimit.stores.redis_url import RedisUrl, without_option
from overlimit.stores.shared_memory import lease_file_of

if TYPE_CHECKING:
    from overlimit.stores import PostgreSQLStore, SQLiteStore

    DatabaseStore: TypeAlias = SQLiteStore | PostgreSQLStore
    AnyStore: TypeAlias = RedisStore | SharedMemoryStore | DatabaseStore

Held: TypeAlias = Literal["counts", "leases"]

_OF_PROCESS = (
    "memory:// is the memory of one process, into which no other can look: ask a store that processes share, "
    "such as shm://myapp, sqlite:///limits.db, postgresql://localhost/mydb or redis://localhost:6379/0"
)
_MAKE = (
    "no process has called yet, or only one of another user, or it has another name; `overlimit shm list` "
    "shows which there are"
)
_IN_SHARED_MEMORY = re.compile(r"overlimit-(?P<user>[0-9]+)-(?P<name>.+)-v(?P<version>[0-9]+)")
_DIRECTORY = Path("/dev/shm")
_SCHEMES = ("shm://", "redis", "unix://", "valkey", "sqlite:///", "postgres")
_BEGINNINGS = (
    "sqlite:///",
    "postgresql://",
    "redis://localhost:6379/0",
    "rediss://",
    "redis+sentinel://",
    "redis+cluster://",
    "unix:///",
)


@dataclass(frozen=True)
class Place:
    """Where limits are counted: a store, and the URL by which it was named."""

    url: str
    store: AnyStore

    def __repr__(self) -> str:
        return f"Place({self.store.endpoint!r})"

    @property
    def shared_memory(self) -> SharedMemoryStore | None:
        """The store, if it is shared memory."""
        other = self.store._has_connections or self.store._keeps_values
        return None if other else cast("SharedMemoryStore", self.store)

    @property
    def values(self) -> DatabaseStore | None:
        """The store, if it keeps values in a database."""
        return cast("DatabaseStore", self.store) if self.store._keeps_values else None

    @property
    def is_redis(self) -> bool:
        """Whether it is on Redis."""
        return self.store._has_connections and not self.store._keeps_values

    @property
    def redis(self) -> RedisStore:
        """The store, if it is on Redis."""
        assert self.is_redis
        return cast("RedisStore", self.store)

    @property
    def is_cluster(self) -> bool:
        """Whether the URL says that it is a cluster."""
        return self.redis._where.layout == "cluster"

    @property
    def prefix(self) -> str:
        """What keys on Redis begin with."""
        return str(self.redis._shown["prefix"])

    @property
    def hash_tag(self) -> str:
        """What keys share: ``"none"``, ``"policy"`` or ``"prefix"``."""
        return hash_tag_of(self.redis._shown["hash_tag"])

    @property
    def hashes_identifiers(self) -> bool:
        """Whether keys hold the hashes of all identifiers."""
        return truth_of("hash_identifiers", self.redis._shown["hash_identifiers"])

    @property
    def without_remember(self) -> AnyStore:
        """The store as one that remembers nothing, so that it leaves nothing of what it resets."""
        return self.store if not self.is_redis else RedisStore(without_option(self.url, "remember"))

    @property
    def by_hashes(self) -> RedisStore:
        """The store on Redis for identifiers that are named by the hashes in their keys."""
        return _StoreByHashes(self.url)

    def require(self) -> None:
        """Raise StoreConfigError for shared memory that cannot be used, or what only a call would make."""
        if self.values is not None and (missing := self.values._missing):
            raise MissingStore(f"there is no {missing}; run `overlimit stores init URL` to make it")
        store = self.shared_memory
        if store is None:
            return
        if store.is_created:
            store.ping()
            return
        others = store.paths_of_others()
        hint = f"; another user has {', '.join(others)}" if others else ""
        leases = lease_file(store._arguments[0])
        hint += f"; {leases} has leases, of which only overlimit shm knows" if leases else ""
        raise MissingStore(f"there is no shared memory {store.path}{hint}: {_MAKE}")


class MissingStore(StoreConfigError):
    """There is no shared memory, file or table of this name: the first call of a limiter makes it."""


class _StoreByHashes(RedisStore):
    _takes_hashes = True


if TYPE_CHECKING:
    _UrlType = click.ParamType[Place]
else:
    _UrlType = click.ParamType


class StoreUrl(_UrlType):
    """The URL of a store, or ``env:NAME`` for the one in an environment variable."""

    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Place:
        """Return the place of a URL."""
        if isinstance(value, Place):
            return value
        url = (self._from_environment(value, param, ctx) if value.startswith("env:") else value).strip()
        if url.startswith("memory:") or url == "sqlite://":
            self.fail(_OF_PROCESS, param, ctx)
        if _names_user_of_shared_memory(url):
            self.fail("shared memory has neither a user nor a password: write shm://myapp", param, ctx)
        try:
            return _place_at(url)
        except (ValueError, TypeError, StoreConfigError, ModuleNotFoundError) as error:
            self.fail(without_secrets(str(error)), param, ctx)

    def _from_environment(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        name = value.removeprefix("env:")
        if name not in os.environ:
            self.fail(f"there is no environment variable {name!r}", param, ctx)
        return os.environ[name]

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return this user's shared memories, the variables that name stores, and how other URLs begin."""
        named = [f"env:{name}" for name, value in os.environ.items() if value.startswith(_SCHEMES)]
        own = [f"shm://{each.name}" for each in shared_memory_files() if each.is_current]
        return [
            CompletionItem(each)
            for each in (*own, *sorted(named), *_BEGINNINGS)
            if each.startswith(incomplete)
        ]


def _place_at(url: str) -> Place:
    if url.startswith(("shm:", "sqlite", "postgres")):
        return Place(url, cast("AnyStore", made_from_url(url)))
    leases = lease_file_of(RedisUrl.read(url, _OPTIONS).options.get("lease_in"))
    if leases is None or lease_file(leases[0]):
        return Place(url, RedisStore(url))
    # A call with lease_in would make the file, and so would any other of this process on the same server.
    alone = without_option(url, "lease_in")
    store = RedisStore(alone)
    return Place(alone, store) if store._longest_lease > 0 else Place(url, RedisStore(url))


@dataclass(frozen=True)
class SharedMemoryFile:
    """A file with counts or leases, by its name in the directory of shared memory."""

    path: Path
    user: int
    name: str
    version: int
    has_leases: bool

    @property
    def is_current(self) -> bool:
        """Whether it has counts that this user and this version of overlimit can open by its name."""
        try:
            return not self.has_leases and self.path == Path(SharedMemoryStore(self.name).path)
        except StoreConfigError:  # of a system that shares no memory
            return False


def shared_memory_files() -> list[SharedMemoryFile]:
    """Return the files that were made by name, of all users."""
    paths = sorted(_DIRECTORY.iterdir()) if _DIRECTORY.is_dir() else ()
    return [file for file in map(_file_at, paths) if file is not None]


def _file_at(path: Path) -> SharedMemoryFile | None:
    parts = _IN_SHARED_MEMORY.fullmatch(path.name)
    if parts is None:
        return None
    holds = held_in(path, unless_readable="leases" if parts["name"].endswith(_LEASES) else "counts")
    if holds is None:
        return None
    has_leases = holds == "leases" and parts["name"].endswith(_LEASES)
    name = parts["name"].removesuffix(_LEASES) if has_leases else parts["name"]
    return SharedMemoryFile(path, int(parts["user"]), name, int(parts["version"]), has_leases)


_LEASES = "-leases"
"""What the names of files with leases have besides the name in lease_in."""
_HEADS: dict[bytes, Held] = {b"overlmt\n": "counts", b"overlse\n": "leases"}
"""What the files of overlimit begin with, of whatever version."""


def held_in(path: Path, *, unless_readable: Held | None = None) -> Held | None:
    """Return what a file of overlimit holds; None for any other, as for a link or a pipe.

    Of a file that this user may not read, it is ``unless_readable``.
    """
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except PermissionError:
        return unless_readable
    except OSError:
        return None
    try:
        return _HEADS.get(os.read(opened, 8)) if stat.S_ISREG(os.fstat(opened).st_mode) else None
    finally:
        os.close(opened)


def lease_file(name: str) -> Path | None:
    """Return the file of this user with leases that has this name or path; None: there is none."""
    if os.path.isabs(name):
        return Path(name) if held_in(Path(name)) == "leases" else None
    own = (each for each in shared_memory_files() if each.has_leases and each.user == os.geteuid())
    return next((each.path for each in own if each.name == name), None)


def _names_user_of_shared_memory(url: str) -> bool:
    """Tell of a URL whether it has something before an ``@`` that may be secret, which no name has."""
    name, _, _ = url.removeprefix("shm://").partition("?")
    return url.startswith("shm://") and not name.startswith("/") and "@" in unquote(name)


def without_secrets(text: str) -> str:
    """Return a text without the user, password and key of a URL in it."""
    text = re.sub(r"://.*@", "://", text)
    text = re.sub(r"\b([a-z][a-z0-9+.-]+:/)[^/\s]+@", r"\1", text)  # as a path shows it, with one slash
    return re.sub(r"((?:ssl_?)?(?:password|keyfile|ca_data)=)[^&\s'\"]*", r"\1...", text)


url_argument = click.argument("place", metavar="URL", type=StoreUrl())
