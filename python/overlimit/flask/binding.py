"""One RateLimit on one app: where its counts live and the rules made for that app."""

from __future__ import annotations

from collections.abc import Callable

from overlimit import Limiter, MemoryStore
from overlimit.flask.identifiers import get_identifiers
from overlimit.flask.marks import Mark
from overlimit.flask.settings import Settings
from overlimit.http.plan import Identify, Rule
from overlimit.http.policy_names import Kind, policy_name, shown_name
from overlimit.limits import LimitsLike
from overlimit.stores import as_store

__all__ = ["Binding"]


class Binding:
    """Makes the rules of one RateLimit for one app; ``prefix`` starts the names of all its policies."""

    def __init__(self, settings: Settings, prefix: str, memory: Callable[[], MemoryStore]) -> None:
        """Take complete settings whose limits have been checked; raises ValueError for a store's bad URL.

        ``memory`` returns the app's own memory store.
        """
        self.enabled = settings.enabled
        self.headers = settings.headers
        self.prefix = prefix
        self._settings = settings
        # Each app has counts of its own in memory, as it would in a process of its own.
        store = settings.store or "memory://"
        self._store = memory() if store == "memory://" else as_store(store)
        self._identify: Identify = settings.identifiers or get_identifiers

    @property
    def shared(self) -> tuple[object, ...]:
        """What bindings must have in common to be decided in one call and shown alike."""
        return id(self._store), id(self._settings.clock), self.headers, self.enabled

    def application(self) -> tuple[Rule, ...]:
        """Return the rule that counts the whole app, if there is one."""
        return self._configured(self._settings.application_limits, "application")

    def default(self, endpoint: str) -> tuple[Rule, ...]:
        """Return the rule of an endpoint without limits of its own, if there is one."""
        return self._configured(self._settings.default_limits, "default", endpoint)

    def decorated(self, mark: Mark, kind: Kind, *parts: str, shown: str) -> Rule:
        """Return the rule of one decorator, shown under its own name or else ``shown``.

        Raises
        ------
        InvalidLimit
            The decorator's text does not fit the algorithm of this RateLimit.
        """
        limiter = self._limiter(mark.limits, mark.algorithm, kind, *parts)
        return Rule(limiter, mark.identifiers or self._identify, shown_name(mark.name or shown))

    def _configured(self, limits: LimitsLike | None, kind: Kind, *parts: str) -> tuple[Rule, ...]:
        if limits is None:
            return ()
        return (Rule(self._limiter(limits, None, kind, *parts), self._identify, kind),)

    def _limiter(self, limits: LimitsLike, algorithm: str | None, kind: Kind, *parts: str) -> Limiter:
        return Limiter(
            limits,
            name=policy_name(kind, *parts, prefix=self.prefix),
            store=self._store,
            algorithm=algorithm or self._settings.algorithm,
            clock=self._settings.clock,
        )
