"""The limits that a file such as ``limits.toml`` has for an app, in place of those in code."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, cast

from overlimit._messages.texts import nearest
from overlimit._patterns import Pattern
from overlimit.http.options.limit_options import LimitOptions, Said
from overlimit.limits_file import FilePolicy, LimitsFile, follow

_log = logging.getLogger("overlimit")


class RoutePaths(NamedTuple):
    """A method, and the paths that lead to a route, as the framework writes them."""

    method: str
    paths: Sequence[str]

    def is_reached_by(self, pattern: Pattern) -> bool:
        """Return whether a pattern matches all requests to one of the paths."""
        method = pattern.method or "GET" if self.method == "ANY" else self.method
        return any(pattern.leads_to(method, path) for path in self.paths)


class FileLimits:
    """The limits of a file for one app, which change with it."""

    def __init__(self, path: object, on_change: Callable[[], object]) -> None:
        """Read the file, or raise as `follow` does; ``on_change`` is called when there are other limits."""
        self._on_change = on_change
        self._current: LimitsFile | None = None
        self._patterns: tuple[tuple[Pattern, LimitOptions], ...] = ()
        self._places: Callable[[], Iterable[RoutePaths]] | None = None
        self._told_of: set[str] = set()
        self._file = follow(path, self)
        self.look = self._file.look
        """Takes what the file says by now; called before each request."""

    @property
    def current(self) -> LimitsFile:
        """What the file says."""
        return self._file.current

    def check_limits_file(self, found: LimitsFile) -> None:
        """Raise InvalidLimit for a route that the app does not have, once its routes are known."""
        if self._places is not None:
            self._check_places(found, tuple(self._places()))

    def take_limits_file(self, found: LimitsFile) -> None:
        """Go on with these limits."""
        before, self._current = self._current, found
        self._patterns = tuple((Pattern.read(text), options_of(each)) for text, each in found.routes.items())
        if before is not None and before != found:
            self._on_change()

    def begin(self, places: Callable[[], Iterable[RoutePaths]]) -> None:
        """Check, the first time, that the app has the routes of the file, now that these are known."""
        if self._places is None:
            self._check_places(self.current, tuple(places()))
            self._places = places

    @staticmethod
    def _check_places(found: LimitsFile, places: Collection[RoutePaths]) -> None:
        for text in found.routes:
            if not any(each.is_reached_by(Pattern.read(text)) for each in places):
                known = sorted({path for each in places for path in each.paths})
                like = nearest(text.split()[-1], known)
                hint = f"did you mean {like!r}?" if like else f"there are {', '.join(known) or 'none'}"
                raise found.wrong(("routes", text), f"the app has no such route: {hint}")

    def group(self, name: str, options: LimitOptions, called: str | None = None) -> LimitOptions:
        """Return what the file says in place of the limits of an option, if it does.

        The log calls these by their name, or as they are ``called`` in a middleware.
        """
        known = {"default_limits": self.current.default, "application_limits": self.current.application}
        policy = known.get(name)
        if policy is None:
            return options
        if options.parts:
            self.tell_of(called or name)
        return options_of(policy, options)

    def before(
        self, routes: Mapping[str, LimitOptions], said_of_all: LimitOptions
    ) -> dict[str, LimitOptions]:
        """Return the limits of the file by patterns, and then those of others that they do not cover."""
        found = {text: options_of(policy, said_of_all) for text, policy in self.current.routes.items()}
        for text, options in routes.items():
            if any(pattern.covers(Pattern.read(text)) for pattern, _ in self._patterns):
                self.tell_of(f"routes[{text!r}]")
            else:
                found[text] = options
        return found

    def of_route(self, place: RoutePaths) -> tuple[str, LimitOptions] | None:
        """Return the first pattern that leads to a route, and its limits."""
        return next(
            ((pattern.text, options) for pattern, options in self._patterns if place.is_reached_by(pattern)),
            None,
        )

    def tell_of(self, what: str) -> None:
        """Log, once, that the file goes before limits that code has too."""
        if what not in self._told_of:
            self._told_of.add(what)
            _log.warning("%s goes before the limits in code: %s", self.current.path, what)


def options_of(policy: FilePolicy, options: LimitOptions | None = None) -> LimitOptions:
    """Return the limits of a policy, with what else options in code say of them."""
    known = LimitOptions(()) if options is None else options
    told = {"cost": policy.cost, "penalty": policy.penalty}
    said = {name: value for name, value in told.items() if value is not None}
    parts = dataclasses.replace(known, parts=(policy.limits,))
    return parts.saying(**cast(Said, {**said, "shadow": policy.shadow}))
