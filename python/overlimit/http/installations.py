"""The RateLimits of one app, and which of them a decorator acts through."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from overlimit import MemoryStore
from overlimit.http.exemptions import Exemptions
from overlimit.http.identities import Identify
from overlimit.http.installation import Installation
from overlimit.http.marks import Mark
from overlimit.http.policy_names import distinct
from overlimit.http.settings import Settings

__all__ = ["Installations", "RateLimitLike"]

_log = logging.getLogger("overlimit")


class RateLimitLike(Protocol):
    """A RateLimit, as far as an app keeps to what it says at any time."""

    @property
    def exemptions(self) -> Exemptions:
        """What it leaves alone."""

    @property
    def request_filters(self) -> Sequence[Callable[[], object]]:
        """Tell of requests that pass uncounted."""


class Installations:
    """What each RateLimit has in one app, in the order they were registered."""

    def __init__(self, app_name: str, default_identify: Identify) -> None:
        """Start without any; ``default_identify`` says who sends a request, where no option does."""
        self._app_name = app_name
        self._default_identify = default_identify
        self._known: dict[object, Installation] = {}
        self._fallback: Installation | None = None
        self._memory: MemoryStore | None = None

    def __iter__(self) -> Iterator[Installation]:
        """Yield every installation that may have to decide a request."""
        yield from self._known.values()
        if self._fallback is not None and not self._known:
            yield self._fallback

    def get(self, limiter: object) -> Installation | None:
        """Return what a RateLimit has in this app."""
        return self._known.get(limiter)

    def register(self, limiter: RateLimitLike, settings: Settings) -> None:
        """Add a RateLimit with its complete settings, or set one up anew that is there already.

        Raises
        ------
        InvalidLimit
            A limit is malformed.
        ValueError, TypeError
            Another option has a value that it must not have.
        """
        settings.check()
        taken = [installation.prefix for known, installation in self._known.items() if known is not limiter]
        self._known[limiter] = Installation(
            settings,
            _unused_prefix(settings.options.get("key_prefix") or "", taken),
            self._own_memory,
            default_identify=self._default_identify,
            exemptions=limiter.exemptions,
            request_filters=limiter.request_filters,
        )

    def acting_for(self, mark: Mark) -> Installation:
        """Return the installation that a decorator's limits go through.

        Raises
        ------
        RuntimeError
            The RateLimit of a bound decorator is not registered on this app.
        """
        if mark.limiter is None:
            return next(iter(self._known.values()), None) or self._in_process()
        installation = self._known.get(mark.limiter)
        if installation is None:
            raise RuntimeError(
                f"a view of {self._app_name!r} is limited by a RateLimit that this app doesn't have: "
                "call init_app(app) on it"
            )
        return installation

    def check(self, marks: Iterable[Mark]) -> None:
        """Raise RuntimeError if one of the marks is bound to a RateLimit that is not registered here."""
        for mark in marks:
            self.acting_for(mark)

    def _in_process(self) -> Installation:
        if self._fallback is None:
            _log.warning(
                "%r has no RateLimit: rate_limit counts in the memory of this process. "
                "RateLimit(app, store=...) chooses where, RateLimit(app) keeps it and ends this hint.",
                self._app_name,
            )
            self._fallback = Installation(Settings({}).completed({}), default_identify=self._default_identify)
        return self._fallback

    def _own_memory(self) -> MemoryStore:
        if self._memory is None:
            self._memory = MemoryStore()
        return self._memory


def _unused_prefix(prefix: str, taken: list[str]) -> str:
    # Two RateLimits of one app never share a count, not even when nobody gave them a prefix.
    return prefix if prefix not in taken else distinct([*taken, prefix or "second"])[-1]
