"""``limits.toml``: limits by name, in a file that is followed when it changes."""

from __future__ import annotations

import errno
import logging
import os
import stat
import threading
from bisect import bisect_left
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple, Protocol, TypeAlias
from weakref import WeakSet, WeakValueDictionary

from overlimit import _core
from overlimit._forks import PerProcess
from overlimit._messages.texts import nearest, printable, short_repr
from overlimit._options import whole_number
from overlimit._patterns import Pattern, check_reached
from overlimit.errors import InvalidLimit
from overlimit.limits import Limit, as_limits
from overlimit.limits.penalty import Penalty

Key: TypeAlias = tuple[str, ...]
"""Where something is in a file, such as ``("policies", "login", "limits")``."""

FilePath: TypeAlias = "str | os.PathLike[str]"

_log = logging.getLogger("overlimit")

_VERSION = 1
_EVERY_US = 1_000_000
_MOST_BYTES = 4_000_000
_FILE_KEYS = ("version", "default", "application", "policies", "routes")
_POLICY_KEYS = ("limits", "penalty", "cost", "shadow")
_PENALTY_KEYS = ("levels", "extend", "forget_after")


class FilePolicy(NamedTuple):
    """Limits as a file has them, and what it says of them."""

    limits: tuple[Limit, ...]
    penalty: Penalty | None = None
    cost: int | None = None
    """What a request spends; None: what it costs elsewhere, which is 1 in an app."""
    shadow: bool = False

    def __str__(self) -> str:
        """Return what it says in one line."""
        told = ["; ".join(map(str, self.limits))]
        told += [] if self.penalty is None else [str(self.penalty)]
        told += [] if self.cost is None else [f"cost {self.cost}"]
        return ", ".join([*told, *["shadow"] * self.shadow])


class _Wrong(Exception):
    """What is wrong at a key."""


class LimitsFile(NamedTuple):
    """What a file of limits says; it is right."""

    path: str
    text: str
    policies: Mapping[str, FilePolicy]
    default: FilePolicy | None
    application: FilePolicy | None
    routes: Mapping[str, FilePolicy]
    """By patterns, such as ``"POST /orders"``; of several that match a request the first counts."""

    def wrong(self, key: Key, message: str) -> InvalidLimit:
        """Return an error that names the line of a key, the key, and what is wrong there."""
        return _located(self.path, self.text, key, message)

    def is_used(self, name: str) -> bool:
        """Whether a route, or the limits of all, are those of a policy; else only code can name it."""
        others = (*self.routes.values(), self.default, self.application)
        return name in self.policies and any(each is self.policies[name] for each in others)

    def named(self) -> dict[Key, FilePolicy]:
        """Return all limits by where they are."""
        groups = {"policies": self.policies, "routes": self.routes}
        found = {(group, name): each for group, named in groups.items() for name, each in named.items()}
        others = {("default",): self.default, ("application",): self.application}
        return found | {key: each for key, each in others.items() if each is not None}


def read_limits_file(path: FilePath) -> LimitsFile:
    """Return what a file says; raise OSError if it cannot be read, InvalidLimit for what is wrong in it."""
    return parsed(bytes_of(path), os.fspath(path))


def bytes_of(path: FilePath) -> bytes:
    """Return what is in a file; raise OSError if it cannot be read, is a pipe or a device, or is too long."""
    # Opened as others are, a pipe would be waited for.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", path)
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise OSError(errno.EFBIG, f"it is longer than {_MOST_BYTES:,} bytes", path)
    return data


def parsed(data: bytes, path: str) -> LimitsFile:
    """Return what the bytes of a file say; raise InvalidLimit, naming line and key, for what is wrong."""
    import tomllib  # which few programs need

    try:
        text = data.decode("utf-8-sig")
        given = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidLimit(f"{path} is no TOML: {error}") from None
    try:
        return _read(given, path, text)
    except _Wrong as wrong:
        raise _located(path, text, *wrong.args) from None


def _located(path: str, text: str, key: Key, message: str) -> InvalidLimit:
    while key and not _line_of(text, key):
        key, message = key[:-1], f"{written(key[-1:])} {message}" if key[:-1] else message
    return InvalidLimit(
        f"{path}, line {_line_of(text, key) or 1}: {f'{written(key)}: ' * bool(key)}{message}"
    )


def written(key: Key) -> str:
    """Return a key as it is written in TOML."""
    return ".".join(part if part.replace("_", "").isalnum() else f'"{printable(part)}"' for part in key)


def _line_of(text: str, key: Key) -> int:
    """Return the line in which a key begins; 0 if it is not there."""
    import tomllib

    lines = text.split("\n")

    def is_known(count: int) -> bool:
        """Return whether the first lines have it, and what is begun in the last of them up to its end."""
        found: Any = None
        while found is None:
            with suppress(tomllib.TOMLDecodeError):
                found = tomllib.loads("\n".join(lines[:count]))
            count += 1
        for part in key:
            if not (isinstance(found, dict) and part in found):
                return False
            found = found[part]
        return True

    place = bisect_left(range(1, len(lines) + 1), True, key=is_known)
    return place + 1 if place < len(lines) else 0


def _read(given: dict[str, Any], path: str, text: str) -> LimitsFile:
    _check_keys((), given, _FILE_KEYS)
    if given.get("version") != _VERSION or given["version"] is True:
        told = f"not {short_repr(given['version'])}" if "version" in given else "and it is missing"
        raise _Wrong(
            ("version",) * ("version" in given), f"version must be {_VERSION}, {told}: write version = 1"
        )
    policies: dict[str, FilePolicy] = {}
    for name, value in _table(given, "policies").items():
        policies[name] = _policy(("policies", name), value, {})
    routes = {
        pattern: _policy(("routes", pattern), value, policies)
        for pattern, value in _table(given, "routes").items()
    }
    _check_patterns(routes)
    others = {
        name: _policy((name,), given[name], policies) if name in given else None
        for name in ("default", "application")
    }
    return LimitsFile(path, text, policies, routes=routes, **others)


def _table(given: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = given.get(name, {})
    if not isinstance(value, dict):
        raise _Wrong((name,), f"must be a table, as [{name}], not {short_repr(value)}")
    return value


def _check_keys(key: Key, given: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            like = nearest(name, known)
            hint = f"did you mean {like}?" if like else f"there are {', '.join(known)}"
            raise _Wrong((*key, name), f"there is no such key: {hint}")


def _check_patterns(routes: Mapping[str, FilePolicy]) -> None:
    read = []
    for pattern in routes:
        try:
            read.append(Pattern.read(pattern))
            check_reached(read)
        except ValueError as error:
            raise _Wrong(("routes", pattern), str(error)) from None


def _policy(key: Key, value: object, policies: Mapping[str, FilePolicy]) -> FilePolicy:
    """Read a policy: a text, a table, or the name of one of the policies."""
    if isinstance(value, dict) and "policy" in value and key[0] != "policies":
        return _named(key, value, policies)
    if not isinstance(value, dict):
        return FilePolicy(_limits(key, value))
    _check_keys(key, value, _POLICY_KEYS)
    if "limits" not in value:
        raise _Wrong(key, 'has no limits: write limits = "100/minute"')
    shadow = value.get("shadow", False)
    if not isinstance(shadow, bool):
        raise _Wrong((*key, "shadow"), f"must be true or false, not {short_repr(shadow)}")
    return FilePolicy(
        _limits((*key, "limits"), value["limits"]),
        _penalty((*key, "penalty"), value["penalty"]) if "penalty" in value else None,
        _cost((*key, "cost"), value["cost"]) if "cost" in value else None,
        shadow,
    )


def _named(key: Key, value: Mapping[str, Any], policies: Mapping[str, FilePolicy]) -> FilePolicy:
    name = value["policy"]
    if len(value) > 1:
        other = next(each for each in value if each != "policy")
        raise _Wrong((*key, other), f"stands beside policy, which says all: write it into policies.{name}")
    if not isinstance(name, str) or name not in policies:
        like = nearest(str(name), policies)
        hint = f'did you mean "{like}"?' if like else f"write [policies.{name}]"
        raise _Wrong((*key, "policy"), f"there is no policy {short_repr(name)}: {hint}")
    return policies[name]


def _limits(key: Key, value: object) -> tuple[Limit, ...]:
    texts = value if isinstance(value, list) else [value]
    if not all(isinstance(each, str) for each in texts):
        raise _Wrong(key, f'must be limits in text, as "10/second; 100/minute", not {short_repr(value)}')
    try:
        return as_limits([str(each) for each in texts])
    except InvalidLimit as error:
        raise _Wrong(key, str(error)) from None


def _penalty(key: Key, value: object) -> Penalty:
    given = value if isinstance(value, dict) else {"levels": value}
    _check_keys(key, given, _PENALTY_KEYS)
    try:
        return Penalty(**given)
    except (TypeError, ValueError) as error:
        raise _Wrong(key, f"{error}: write the seconds of each lock, as penalty = [60, 300]") from None


def _cost(key: Key, value: object) -> int:
    cost = whole_number(value)
    if cost is None or not 0 <= cost < 2**53:
        raise _Wrong(key, f"must be a whole number from 0 to 2^53 - 1, not {short_repr(value)}")
    return cost


class Follower(Protocol):
    """Who has limits of a file, and others when it changes."""

    def check_limits_file(self, found: LimitsFile) -> None:
        """Raise ValueError if these limits cannot be taken."""

    def take_limits_file(self, found: LimitsFile) -> None:
        """Go on with these limits."""

    def __hash__(self) -> int: ...


class FollowedFile:
    """A file that is looked at once a second at most, and what it said when it last was right."""

    def __init__(self, path: FilePath) -> None:
        """Read it; raise OSError or InvalidLimit."""
        self.path = os.fspath(path)
        self.errors = 0
        """How often it has changed to something wrong."""
        data = self._bytes()
        self._seen: object = data
        self.current = parsed(data, self.path)
        self._due = _core._steady_micros() + _EVERY_US
        self._followers: WeakSet[Follower] = WeakSet()
        self._looking = PerProcess(threading.Lock)

    def look(self) -> None:
        """Go on with what it says now, if it was not looked at within a second and has changed since.

        What is wrong is logged and counted, and changes nothing. Where another thread looks, return at once.
        """
        now = _core._steady_micros()
        if now < self._due:
            return
        lock = self._looking()
        if not lock.acquire(blocking=False):
            return
        try:
            self._due = now + _EVERY_US
            self._look()
        finally:
            lock.release()

    def add(self, follower: Follower) -> None:
        """Have somebody follow it, who is held weakly; raise ValueError if it is wrong, or for them."""
        with self._looking():
            data = self._bytes()
            found = parsed(data, self.path)
            follower.check_limits_file(found)
            if found.text != self.current.text:
                self._take(found)
            self._seen = data
            follower.take_limits_file(self.current)
            self._followers.add(follower)

    def _bytes(self) -> bytes:
        return bytes_of(self.path)

    def _look(self) -> None:
        try:
            seen: object = self._bytes()
        except OSError as error:
            seen = f"it cannot be read ({error.strerror})"
        if seen == self._seen:
            return
        self._seen = seen
        try:
            if not isinstance(seen, bytes):
                raise InvalidLimit(f"{self.path}: {seen}")
            self._take(parsed(seen, self.path))
        except ValueError as error:
            self.errors += 1
            _log.error("%s. The limits stay as they are, until the file is right again", error)
        else:
            _log.warning("%s has changed: its limits hold from now on", self.path)

    def _take(self, found: LimitsFile) -> None:
        for key in self.current.named():
            if key not in found.named():
                message = f"{written(key)} is gone, and would be unlimited: restart to do without it"
                raise found.wrong((), message)
        followers = tuple(self._followers)
        for each in followers:
            each.check_limits_file(found)
        self.current = found
        for each in followers:
            each.take_limits_file(found)


_followed: WeakValueDictionary[str, FollowedFile] = WeakValueDictionary()
_opening = PerProcess(threading.Lock)


def follow(path: object, follower: Follower) -> FollowedFile:
    """Have somebody take the limits of a file now, and when it changes, as long as what is returned is kept.

    Raises TypeError for what is no path, OSError for a file that cannot be read, and InvalidLimit, or what
    the follower raises, for what is wrong in it.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"limits_file must be a path, as 'limits.toml', not {short_repr(path)}")
    whole = os.path.abspath(path)
    with _opening():
        file = _followed.get(whole)
        if file is None:
            file = _followed[whole] = FollowedFile(path)
    file.add(follower)
    return file


def followed_files() -> list[FollowedFile]:
    """Return the files that are followed in this process."""
    return list(_followed.values())
