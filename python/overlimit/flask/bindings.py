"""The RateLimits of one app, and which of them a decorator acts through."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from overlimit import MemoryStore
from overlimit.flask.binding import Binding
from overlimit.flask.exemptions import Exemptions
from overlimit.flask.marks import Mark
from overlimit.flask.settings import Settings
from overlimit.http.policy_names import distinct

__all__ = ["Bindings", "Registrant"]

_log = logging.getLogger("overlimit")


class Registrant(Protocol):
    """A RateLimit, as far as an app keeps to what it says at any time."""

    @property
    def exemptions(self) -> Exemptions:
        """What it leaves alone."""

    @property
    def request_filters(self) -> Sequence[Callable[[], object]]:
        """Tell of requests that pass uncounted."""


class Bindings:
    """What each RateLimit has in one app, in the order they were registered."""

    def __init__(self, app_name: str, config: dict[str, object]) -> None:
        """Start without any; ``config`` is the app's."""
        self._app_name = app_name
        self._config = config
        self._known: dict[object, Binding] = {}
        self._fallback: Binding | None = None
        self._memory: MemoryStore | None = None

    def __iter__(self) -> Iterator[Binding]:
        """Yield every binding that may have to decide a request."""
        yield from self._known.values()
        if self._fallback is not None and not self._known:
            yield self._fallback

    def get(self, limiter: object) -> Binding | None:
        """Return what a RateLimit has in this app."""
        return self._known.get(limiter)

    def register(self, limiter: Registrant, settings: Settings) -> None:
        """Add a RateLimit, or complete the settings anew of one that is there already.

        Raises
        ------
        InvalidLimit
            A limit in the configuration is malformed.
        ValueError, TypeError
            Another key of the configuration has a value that cannot be.
        """
        complete = settings.completed(self._config)
        complete.check()
        taken = [binding.prefix for known, binding in self._known.items() if known is not limiter]
        prefix = _unused_prefix(complete.options.get("key_prefix") or "", taken)
        self._known[limiter] = Binding(
            complete, prefix, self._own_memory, limiter.exemptions, limiter.request_filters
        )

    def acting_for(self, mark: Mark) -> Binding:
        """Return the binding that a decorator's limits go through.

        Raises
        ------
        RuntimeError
            The RateLimit of a bound decorator is not registered on this app.
        """
        if mark.limiter is None:
            return next(iter(self._known.values()), None) or self._in_process()
        binding = self._known.get(mark.limiter)
        if binding is None:
            raise RuntimeError(
                f"a view of {self._app_name!r} is limited by a RateLimit that this app doesn't have: "
                "call init_app(app) on it"
            )
        return binding

    def check(self, marks: Iterable[Mark]) -> None:
        """Raise RuntimeError if one of the marks is bound to a RateLimit that is not registered here."""
        for mark in marks:
            self.acting_for(mark)

    def _in_process(self) -> Binding:
        if self._fallback is None:
            _log.warning(
                "%r has no RateLimit: rate_limit counts in the memory of this process. "
                "RateLimit(app, store=...) chooses where, RateLimit(app) keeps it and ends this hint.",
                self._app_name,
            )
            self._fallback = Binding(Settings({}).completed({}), "", MemoryStore, Exemptions())
        return self._fallback

    def _own_memory(self) -> MemoryStore:
        if self._memory is None:
            self._memory = MemoryStore()
        return self._memory


def _unused_prefix(prefix: str, taken: list[str]) -> str:
    # Two RateLimits of one app never share a count, not even when nobody gave them a prefix.
    return prefix if prefix not in taken else distinct([*taken, prefix or "second"])[-1]
