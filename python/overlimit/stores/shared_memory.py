"""The store in memory that all processes of a host share."""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Hashable, Iterator
from functools import partial
from typing import Any, ClassVar, SupportsIndex
from urllib.parse import quote, unquote

from overlimit import _core
from overlimit._core import KEY_NAME_RULE, is_key_name
from overlimit._messages.arguments import checks_arguments
from overlimit._messages.initialised import Initialised
from overlimit._messages.texts import short_repr
from overlimit._options import size_of, timeout_us_given, timeout_us_of, whole_number
from overlimit.stores.kinds import StoreKind
from overlimit.stores.redis_url import known_options

_DEFAULT_TIMEOUT = 0.1
_MODE_RULE = "mode must let the owner read and write, and nobody execute"


class SharedMemoryStore(_core.SharedMemoryStore, StoreKind, Initialised):
    """A store in memory that all processes of this host share, such as the workers of a web server.

    It needs no server and answers about as fast as a ``MemoryStore``. Any process may die at any moment: what
    it had half done is undone, and limits still hold.

    Parameters
    ----------
    name_or_path
        A name, ``[A-Za-z0-9_.-]{1,64}``, for a file of this user in ``/dev/shm``; or the absolute path of a
        file in another tmpfs, such as one that containers share.
    max_keys
        The most identifiers that are counted one by one, over all policies; at least 1, by default 100,000.
    max_bytes
        The size of the file in bytes, all of which is memory in use; at least 262,144, by default 32 MiB.
        Both sizes are those of the process that creates the file.
    mode
        Who may use the file, such as ``0o660`` for a group: whoever can write it can change any count. By
        default ``0o600``, its owner alone.
    timeout
        How long a call waits for another process that is in the middle of one, in seconds: more than that and
        it raises StoreTimeout, which has charged nothing. Only a stopped process, or a machine without time
        for it, takes so long; one that has died is noticed within 50 ms.

    Notes
    -----
    The first call opens the file, or creates it. ``len(store)`` is how many identifiers it counts (perhaps
    one more or less after a process was killed, until the next calls), and ``bool(store)`` always True. It
    pickles by its arguments. Thread-safe, also in forked children. On Linux only: elsewhere making one is a
    StoreConfigError that says what to use instead. Raises ValueError or TypeError that names
    the wrong argument; what the machine refuses is a StoreConfigError at the call.
    """

    _set_last: ClassVar[str] = "_state_key"
    _example = "'myapp'"
    _when_full = (
        "remove it with unlink(), and restart all processes that use it with a larger max_keys or max_bytes"
    )

    @checks_arguments(synonyms={"name": "name_or_path", "path": "name_or_path", "size": "max_bytes"})
    def __init__(
        self,
        name_or_path: str | os.PathLike[str],
        *,
        max_keys: SupportsIndex | None = None,
        max_bytes: SupportsIndex | None = None,
        mode: SupportsIndex | None = None,
        timeout: float = _DEFAULT_TIMEOUT,
    ) -> None:
        name = _name_of(name_or_path)
        super().__init__(
            name,
            max_keys=None if max_keys is None else size_of(max_keys, "max_keys"),
            max_bytes=None if max_bytes is None else size_of(max_bytes, "max_bytes"),
            mode=0o600 if mode is None else _mode_of(mode),
            timeout_us=timeout_us_given(timeout),
        )
        given: dict[str, Any] = {
            "max_keys": max_keys,
            "max_bytes": max_bytes,
            "mode": mode,
            "timeout": timeout,
        }
        defaults = (None, _DEFAULT_TIMEOUT)
        self._arguments = (name, {key: value for key, value in given.items() if value not in defaults})
        _all_of_them[id(self)] = self
        self._state_key: Hashable = ("shm", self.path)

    @property
    def endpoint(self) -> str:
        """Where it is, as a URL without options."""
        return f"shm://{quote(self._arguments[0])}"

    @property
    def is_created(self) -> bool:
        """Whether its file exists. A call creates it."""
        return os.path.lexists(self.path)

    @property
    def _missing(self) -> str | None:
        return None if self.is_created else f"shared memory {self.path}"

    def _hints(self) -> Iterator[str]:
        for path in self.paths_of_others():
            yield f"this user has no shared memory {self.path} yet: run this command as the user of {path}"

    def __repr__(self) -> str:
        name, options = self._arguments
        written = [
            f"mode={value:#o}" if key == "mode" else f"{key}={value!r}" for key, value in options.items()
        ]
        return f"SharedMemoryStore({', '.join([repr(name), *written])})"

    def __copy__(self) -> SharedMemoryStore:
        return self

    def __deepcopy__(self, memo: object) -> SharedMemoryStore:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        name, options = self._arguments
        return partial(SharedMemoryStore, name, **options), ()

    def paths_of_others(self) -> list[str]:
        """Return the files of this name that other users have made, if this user has none."""
        name = self._arguments[0]
        if os.path.isabs(name) or self.is_created:
            return []
        directory, own = os.path.split(self.path)
        same_name = re.compile(r"overlimit-[0-9]+-" + re.escape(own.split("-", 2)[2]))
        return sorted(
            os.path.join(directory, each) for each in os.listdir(directory) if same_name.fullmatch(each)
        )

    @classmethod
    def from_url(cls, url: str) -> SharedMemoryStore:
        """Return the store of a URL such as ``shm://myapp?max_keys=1000000`` or ``shm:///run/shared/limits``."""
        rest, _, query = url.strip().removeprefix("shm://").partition("?")
        options = known_options(query, _READ)
        read: dict[str, Any] = {name: _READ[name](name, text) for name, text in options.items()}
        return cls(unquote(rest), **read)


def lease_file_of(url: object) -> tuple[str, int] | None:
    """Return the name or path and the mode of ``lease_in``; None if there is none."""
    if url is None:
        return None
    if not isinstance(url, str) or not url.strip().startswith("shm://"):
        raise ValueError(f"lease_in must be a URL such as 'shm://myapp', not {short_repr(url)}")
    rest, _, query = url.strip().removeprefix("shm://").partition("?")
    name = unquote(rest)
    if not (is_key_name(name) or (os.path.isabs(name) and not name.endswith("/") and "\0" not in name)):
        raise ValueError(
            f"lease_in must name shared memory, such as 'shm://myapp' with a name that has {KEY_NAME_RULE}, "
            f"or 'shm:///run/shared/leases' with an absolute path, not {url!r}"
        )
    options = known_options(query, ("mode",))
    return name, _read_mode("mode", options["mode"], "lease_in") if options else 0o600


_all_of_them: weakref.WeakValueDictionary[int, SharedMemoryStore] = weakref.WeakValueDictionary()


def shared_memory_stores() -> list[SharedMemoryStore]:
    """Return all shared memory stores of this process."""
    stores = [reference() for reference in _all_of_them.valuerefs()]
    return [store for store in stores if store is not None]


def _name_of(given: object) -> str:
    name = os.fspath(given) if isinstance(given, os.PathLike) else given
    if not isinstance(name, str):
        raise TypeError(
            f"name_or_path must be a str such as 'myapp', or an absolute path, not {short_repr(given)}"
        )
    if name.startswith("shm://"):
        raise ValueError(f"name_or_path is a name such as 'myapp': a URL is for store=, as in store={name!r}")
    if isinstance(given, os.PathLike) and not os.path.isabs(name):
        raise ValueError(f"name_or_path must be an absolute path, or a name as a str, not {given!r}")
    if "\0" in name:
        raise ValueError(f"name_or_path must not have NUL characters, and {name!r} has")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError(f"name_or_path must be text that UTF-8 can encode, not {name!r}") from None
    return name


def _mode_of(mode: object) -> int:
    number = whole_number(mode)
    if number is None:
        raise TypeError(f"mode must be a whole number, such as 0o600, not {short_repr(mode)}")
    if not _is_mode(number):
        meant = f"0o{number}" if set(str(number)) <= set("01234567") else ""
        hint = f": write {meant}" if meant and _is_mode(int(meant, 8)) else ""
        raise ValueError(f"{_MODE_RULE}, such as 0o600 or 0o660, not {number} ({number:#o}){hint}")
    return number


def _is_mode(number: int) -> bool:
    return number & 0o600 == 0o600 and number & ~0o666 == 0


def _read_number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{name} in the store's URL must be a whole number, not {text!r}")
    return int(text)


def _read_mode(name: str, text: str, where: str = "the store's URL") -> int:
    try:
        mode = int(text, 8)
    except ValueError:
        raise ValueError(f"{name} in {where} must be octal, such as 660, not {text!r}") from None
    if not _is_mode(mode):
        hint = f", not decimal: write {int(text):o}" if text.isdecimal() and _is_mode(int(text)) else ""
        raise ValueError(f"{_MODE_RULE}: in {where} {name}={text} is octal{hint}")
    return mode


def _read_timeout(name: str, text: str) -> float:
    return timeout_us_of(text) / 1e6


_READ = {"max_keys": _read_number, "max_bytes": _read_number, "mode": _read_mode, "timeout": _read_timeout}
