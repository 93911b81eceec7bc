"""Patterns of requests, such as ``POST /upload/*``: how they are written, and which requests they match."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from itertools import combinations
from typing import Any, NamedTuple

from overlimit._messages.texts import nearest

_WRITTEN = re.compile(r"(?:([A-Za-z]+) +)?([/*]\S*)")
_SLASHES = re.compile(r"//+")
_OF_HTTP = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "TRACE")
_OF_WEBDAV = ("PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK", "REPORT", "SEARCH", "ACL")
METHODS = (*_OF_HTTP, *_OF_WEBDAV, "PURGE")
_PLACEHOLDER = re.compile(r"<[^/]*>|\{[^/]*\}|(?<=/):[^/]+")
_REGEX = re.compile(r"(?:[A-Za-z]+ +)?\^.*|.*\\.*", re.DOTALL)
"""What begins as regular expressions do, or has the backslash that no path has."""
_END_OF_REGEX = re.compile(r"\^|\\[AZz]|\$\Z")
_WILDCARD_OF_REGEX = re.compile(r"(?:\([^()]*\)|\[[^]]*\]|\\[a-zA-Z]|\.(?=[+*{]))(?:[+*?]|\{[0-9,]*\})*|\*+")
ANYTHING = "\0"
"""A text in no path: only a ``*`` matches it."""


class Pattern(NamedTuple):
    """An HTTP method, None for all, and the paths."""

    method: str | None
    path: re.Pattern[str]
    text: str
    examples: tuple[str, ...]
    """Paths that it matches; another pattern that matches them all matches whatever this one does."""

    @classmethod
    def read(cls, text: object) -> Pattern:
        """Return a pattern that was written; raise ValueError for what is none."""
        _check_is_no_regex(text)
        found = _WRITTEN.fullmatch(text.strip()) if isinstance(text, str) else None
        if found is None:
            raise ValueError(
                f"a pattern is a path with or without an HTTP method, as '/login' or 'POST /upload/*', "
                f"not {text!r}"
            )
        method, path = found.groups()
        if method is not None:
            where = f"the pattern {found.string!r}"
            check_method(where, method, "write one such as 'POST', or only the path")
        _check_path(found.string)
        below, start = _split(_without_repeated_slashes(path))
        examples = (start, f"{start}/{ANYTHING}") if below else (start,)
        return cls(
            method and counted_method(method.upper()),
            re.compile(".*".join(map(re.escape, start.split("*"))) + "(?:/.*)?" * below, re.DOTALL),
            found.string,
            tuple(example.replace("*", ANYTHING) for example in examples),
        )

    def matches(self, method: str, path: str) -> bool:
        """Return whether it matches a request; the path ends with no slash."""
        return self.method in (None, method) and self.path.fullmatch(path) is not None

    def covers(self, other: Pattern) -> bool:
        """Return whether it matches all that another matches."""
        return self.method in (None, other.method) and all(map(self.path.fullmatch, other.examples))

    def leads_to(self, method: str, path: str) -> bool:
        """Return whether it matches all requests to a route, by its path as a framework writes it."""
        return self.matches(*as_asked(method, example_of(path)))


def counted_method(method: str) -> str:
    """Return the HTTP method that a request counts as: HEAD is a GET without the body."""
    return "GET" if method == "HEAD" else method


def methods_of(methods: object) -> frozenset[str] | None:
    """Return HTTP methods in capitals; None: all."""
    if methods is None:
        return None
    if isinstance(methods, str):
        raise TypeError(f"methods must be a list of HTTP methods, as in methods=[{methods!r}]")
    found = frozenset(methods) if isinstance(methods, Iterable) else frozenset()
    if not found or not all(isinstance(method, str) for method in found):
        raise TypeError(f"methods must be a list of HTTP methods, as in ['POST'], not {methods!r}")
    return frozenset(method.upper() for method in found)


def as_asked(method: str, path: str) -> tuple[str, str]:
    """Return the method and the path by which patterns are compared."""
    return counted_method(method), _without_repeated_slashes(path).rstrip("/") or "/"


def example_of(path: str) -> str:
    """Return a path of a route, with `ANYTHING` for what a framework or a regular expression leaves open."""
    plain = _WILDCARD_OF_REGEX.sub(ANYTHING, _END_OF_REGEX.sub("", path)) if "(" in path else path
    return _PLACEHOLDER.sub(ANYTHING, plain)


def readings(path: str) -> tuple[str, ...]:
    """Return how apps may read a path: as it is, and without segments of dots if there are any."""
    return (path, posixpath.normpath(path)) if "/." in path else (path,)


def _without_repeated_slashes(path: str) -> str:
    return _SLASHES.sub("/", path)


def check_reached(patterns: Iterable[Pattern]) -> None:
    """Raise ValueError if a pattern comes after one that matches everything it matches."""
    for earlier, pattern in combinations(patterns, 2):
        if earlier.covers(pattern):
            raise ValueError(
                f"the pattern {pattern.text!r} is never reached, because {earlier.text!r} before it "
                f"matches the same requests: write {pattern.text!r} first, or leave it out"
            )


def _split(path: str) -> tuple[bool, str]:
    """Return whether a path ends with ``/*``, which also matches the path before it, and the path before."""
    if path.endswith("/*"):
        return True, path.removesuffix("/*")
    return False, path.rstrip("/") or "/"


def check_method(where: str, method: str, instead: str = "write one such as 'POST'") -> None:
    """Raise ValueError, about ``where``, for an HTTP method that is unknown, or never limited."""
    if method.upper() in METHODS:
        return
    if method.upper() == "OPTIONS":
        raise ValueError(f"{where} has the method OPTIONS, but OPTIONS requests are never limited")
    like = nearest(method.upper(), METHODS)
    hint = f"did you mean {like!r}?" if like else instead
    raise ValueError(f"{where} has an unknown HTTP method, {method!r}: {hint}")


def as_methods(given: Any) -> Any:
    """Return HTTP methods as a list, given one or several."""
    return [given] if isinstance(given, str) else given


def check_methods(where: str, given: object) -> None:
    """Raise ValueError or TypeError for HTTP methods, one or several, as far as they can be known."""
    for method in sorted(methods_of(as_methods(given)) or ()):
        check_method(where, method)


def _check_is_no_regex(text: object) -> None:
    if not isinstance(text, str) or not _REGEX.fullmatch(text.strip()):
        return
    path = _END_OF_REGEX.sub("", text.strip())
    wildcards = _PLACEHOLDER.sub("*", _WILDCARD_OF_REGEX.sub("*", path))
    instead = re.sub(r"\*{2,}", "*", wildcards).replace("\\", "")
    hint = f"write {instead!r}" if _WRITTEN.fullmatch(instead) else "write a path such as '/upload/*'"
    raise ValueError(
        f"a pattern is no regular expression, but a path in which * is any text: {hint} instead of {text!r}"
    )


def _check_path(text: str) -> None:
    path, query, _ = text.partition("?")
    instead = _PLACEHOLDER.sub("*", path)
    if query or instead != path:
        raise ValueError(
            f"a pattern contains an HTTP method, a path without its query, and * for any text, not "
            f"placeholders of a framework: write {instead!r} instead of {text!r}"
        )
