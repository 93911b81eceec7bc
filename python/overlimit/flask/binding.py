"""One RateLimit on one app: where its counts live and the rules made for that app."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import cast

from overlimit import MemoryStore
from overlimit.flask.exemptions import Exemptions
from overlimit.flask.identifiers import Addresses, CurrentRequest, identifiers_from
from overlimit.flask.settings import Settings
from overlimit.http.identities import Identify
from overlimit.http.legacy import HeaderNames
from overlimit.http.made_names import MadeNames
from overlimit.http.making import Forget, Maker, Origin, Placed
from overlimit.http.options import LimitOptions, text_of
from overlimit.http.rules import Role
from overlimit.stores import Store, as_store

__all__ = ["Binding"]


class Binding:
    """Makes the rules of one RateLimit for one app; ``prefix`` starts the names of all its policies."""

    def __init__(
        self,
        settings: Settings,
        prefix: str,
        memory: Callable[[], MemoryStore],
        exemptions: Exemptions,
        request_filters: Sequence[Callable[[], object]] = (),
    ) -> None:
        """Take complete settings whose limits have been checked; raises ValueError for a store's bad URL.

        ``memory`` returns the app's own memory store.
        """
        given = settings.options
        self.settings = settings
        self.prefix = prefix
        self.header_names = given.get("header_names") or HeaderNames()
        self.legacy_names = self.header_names if given.get("headers") in ("legacy", "both") else None
        self.shadow = bool(given.get("shadow"))
        self.enabled_by_settings = given.get("enabled") is not False
        self.enabled = self.enabled_by_settings
        self.request_filters = request_filters
        self.exemptions = exemptions
        self.addresses = Addresses.of(given.get("trusted_proxies"), given.get("ipv6_prefix"))
        self._unusable_store = given.get("unusable_store")
        self.store: Store = self._store_or_stand_in(given.get("store") or "memory://", memory)
        identify = cast("Identify | None", given.get("identifiers")) or identifiers_from(self.addresses)
        share = given.get("local_share")
        replaced = bool(settings.fallback.parts)
        self._rules = Maker(
            self.store,
            given.get("clock"),
            prefix,
            settings.limits,
            identify,
            "raise" if replaced else given.get("on_error") or "allow",
            1.0 if share is None else share,
            given.get("on_breach"),
            given.get("headers") in ("draft", "both") and not self.shadow,
            given.get("anonymous") or "share",
            CurrentRequest(self.addresses),
            given.get("request_identifier"),
            MadeNames(),
        )
        self._meta_rules = self._rules._replace(on_breach=given.get("on_meta_breach"))
        self._instead = (
            self._rules._replace(store=MemoryStore(), on_error="allow", made=MadeNames())
            if replaced
            else None
        )

    def _store_or_stand_in(self, store: str | Store, memory: Callable[[], MemoryStore]) -> Store:
        """Return the store; what is not enabled needs none, and finds out when it is enabled."""
        # Each app has counts of its own in memory, as it would in a process of its own.
        if self._unusable_store is not None or store == "memory://":
            return memory()
        try:
            return as_store(store)
        except ValueError as error:
            if self.enabled:
                raise
            self._unusable_store = error
            return memory()

    def check_store(self) -> None:
        """Raise ValueError if there is no store for it, which it did not need as long as it was disabled."""
        if self._unusable_store is not None:
            raise self._unusable_store

    @property
    def shared(self) -> tuple[object, ...]:
        """What bindings must have in common to be decided in one call."""
        alone = id(self) if self._instead else None
        return id(self.store), id(self.settings.options.get("clock")), self.shadow, alone

    def concerns_this_request(self) -> bool:
        """Tell whether it is enabled and none of its filters lets the request pass."""
        if not self.request_filters:
            return self.enabled
        return self.enabled and not any(passes() for passes in self.request_filters)

    def forget(self, names: Iterable[str], endpoint: str | None, forget: Forget) -> None:
        """Give a fresh start under policies of these names, and under all that it has made lately.

        Of the latter only those that count ``endpoint`` alone, if it is given.

        Raises
        ------
        StoreError
            The store cannot answer.
        """
        if self._instead is not None:
            self._instead.forget((), endpoint, forget)
        self._rules.forget(names, endpoint, forget)

    def decorated(self, options: LimitOptions, origin: Origin) -> Iterator[Placed]:
        """Yield the limits of a decorator, and its meta limits, which count for the whole app."""
        yield from self._rules.place(options, origin)
        yield from self._meta_of(options, origin)

    def on_function(self, options: LimitOptions, origin: Origin) -> Iterator[Placed]:
        """Yield the limits of a decorator on one of several functions of an endpoint, and its meta limits."""
        yield from self._rules.place_by_numbers(options, origin, answers_apart=True)
        yield from self._meta_of(options, origin)

    def on_block(self, options: LimitOptions, origin: Origin) -> Iterator[Placed]:
        """Yield the limits of one of several ``with`` blocks of an endpoint, and its meta limits."""
        yield from self._rules.place_by_numbers(options, origin, answers_apart=False)
        yield from self._meta_of(options, origin)

    def _meta_of(self, options: LimitOptions, origin: Origin) -> Iterator[Placed]:
        if options.meta_limits:
            meta = LimitOptions(
                options.meta_limits,
                identifiers=options.identifiers,
                algorithm=options.algorithm,
                anonymous=options.anonymous,
            )
            place = origin._replace(kind="meta-of", parts=(text_of(options.meta_limits),), shown="meta")
            yield from self._meta_rules.place(meta, place, Role.ON_REFUSAL)

    def default(self, origin: Origin) -> Iterator[Placed]:
        """Yield the limits of an endpoint whose limits nothing overrides."""
        return self._rules.place(self.settings.default, origin)

    def application(self, origin: Origin) -> Iterator[Placed]:
        """Yield the limits that count the whole app."""
        return self._rules.place(self.settings.application, origin)

    def meta(self, origin: Origin) -> Iterator[Placed]:
        """Yield the limits that count refusals."""
        return self._meta_rules.place(self.settings.meta, origin, Role.ON_REFUSAL)

    def instead(self, origin: Origin) -> Iterator[Placed]:
        """Yield the limits that replace all others while the store fails."""
        return iter(()) if self._instead is None else self._instead.place(self.settings.fallback, origin)
