"""One RateLimit on one app: its settings there, where its counts live, and the rules it makes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import cast

from overlimit import Limiter, MemoryStore
from overlimit.http.addresses import Addresses
from overlimit.http.charges import Role, UnregisteredLimiter
from overlimit.http.exemptions import Exemptions
from overlimit.http.fields import HeaderNames
from overlimit.http.functions import shown
from overlimit.http.identities import Anonymous, Identify
from overlimit.http.options import LimitOptions, is_dynamic, text_of
from overlimit.http.policy_names import RecentNames
from overlimit.http.ready_made import by_address_and_user
from overlimit.http.rules import Arguments, Place, Rule
from overlimit.http.settings import Settings
from overlimit.limiter import OnError
from overlimit.limits import as_limits
from overlimit.stores import Store, as_store

__all__ = ["Forget", "Installation"]

Forget = Callable[[Limiter], None]
"""Makes a limiter forget somebody, or everybody."""


class Installation:
    """A RateLimit as it is set up for one app; ``prefix`` starts the names of all its policies."""

    def __init__(
        self,
        settings: Settings,
        prefix: str = "",
        memory: Callable[[], MemoryStore] = MemoryStore,
        *,
        default_identify: Identify = by_address_and_user,
        exemptions: Exemptions | None = None,
        request_filters: Sequence[Callable[..., object]] = (),
    ) -> None:
        """Take complete settings whose limits have been checked.

        Parameters
        ----------
        memory
            Returns the app's own memory store.
        default_identify
            Says who sends a request, where no option does.
        exemptions
            Of routes and groups of them; they may change at any time, as ``request_filters`` may.
        request_filters
            Return true for requests that pass uncounted.

        Raises
        ------
        ValueError
            The URL of the store is malformed.
        """
        given = settings.options
        self.settings = settings
        self.prefix = prefix
        self.read_limits = settings.limits
        self.header_names = given.get("header_names") or HeaderNames()
        self.legacy_names = self.header_names if given.get("headers") in ("legacy", "both") else None
        self.shadow = bool(given.get("shadow"))
        self.in_fields = given.get("headers") in ("draft", "both") and not self.shadow
        self.enabled_by_settings = given.get("enabled") is not False
        self.enabled = self.enabled_by_settings
        self.exemptions = Exemptions() if exemptions is None else exemptions
        self.request_filters = request_filters
        self._unusable_store = given.get("unusable_store")
        self.store: Store = self._store_or_stand_in(given.get("store") or "memory://", memory)
        self.clock = given.get("clock")
        self.on_error: OnError = given.get("on_error") or "allow"
        share = given.get("local_share")
        self.local_share = 1.0 if share is None else share
        self.addresses = Addresses.of(given.get("trusted_proxies"), given.get("ipv6_prefix"))
        self.identify = cast("Identify | None", given.get("identifiers")) or default_identify
        self.anonymous: Anonymous = given.get("anonymous") or "share"
        self.request_identifier = given.get("request_identifier")
        self.recent_names = RecentNames()
        self._fallback = self._make_fallback()

    def identifiers_shown(self, own: Identify | None = None) -> str:
        """Return the name of what says who is counted: a limit's own function, or else the RateLimit's."""
        return shown(own or self.identify)

    def _make_fallback(self) -> Installation | None:
        """Return what makes the rules that replace all others while the store fails."""
        if not self.settings.fallback.parts:
            return None
        self.on_error = "raise"
        fallback = copy.copy(self)
        fallback.store, fallback.on_error = MemoryStore(), "allow"
        fallback.recent_names, fallback._fallback = RecentNames(), None
        return fallback

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
    def decided_with(self) -> tuple[object, ...]:
        """What installations must have in common to be decided in one call."""
        alone = id(self) if self._fallback else None
        return id(self.store), id(self.clock), self.shadow, alone

    @property
    def always_holds(self) -> bool:
        """Whether it's enabled, and nothing lets a request pass."""
        return self.enabled and not self.request_filters

    def holds_for(self, arguments: Arguments) -> bool:
        """Tell whether it is enabled and none of its filters lets the request pass."""
        return self.enabled and not any(passes(*arguments) for passes in self.request_filters)

    def on_breach_of(self, role: Role) -> Callable[..., object] | None:
        """Return what is called with a refusal by a rule of this role."""
        options = self.settings.options
        return options.get("on_meta_breach") if role is Role.ON_REFUSAL else options.get("on_breach")

    def counts_per_endpoint(self, options: LimitOptions, place: Place) -> bool:
        """Tell whether limits of these options count the endpoint of a place alone."""
        return place.counts_per_endpoint and not options.is_shared and self.request_identifier is None

    def forget(self, names: Iterable[str], endpoint: str | None, forget: Forget) -> None:
        """Give a fresh start under policies of these names, and under all that it has used lately.

        Of the latter only those that count ``endpoint`` alone, if it is given.

        Raises
        ------
        StoreError
            The store cannot answer.
        """
        if self._fallback is not None:
            self._fallback.forget((), endpoint, forget)
        recent = self.recent_names if endpoint is None else self.recent_names.of_endpoint(endpoint)
        for name in dict.fromkeys((*names, *recent)):
            # Of any limits: the name says what is forgotten, and "local" that this process forgets its part.
            any_limits = as_limits("1/second")
            forget(UnregisteredLimiter(any_limits, name=name, store=self.store, on_error="local"))

    def rules(self, options: LimitOptions, place: Place, role: Role = Role.ENFORCE) -> Iterator[Rule]:
        """Yield the rules that options make where they are put."""
        place = place.by_method() if options.per_method else place
        for number, part in enumerate(options.parts):
            where = place.member(number)
            by_numbers = is_dynamic(part) and not self.counts_per_endpoint(options, where)
            yield Rule(self, options, where, role, part, by_numbers=by_numbers)

    def decorated(self, options: LimitOptions, place: Place) -> Iterator[Rule]:
        """Yield the rules of a decorator, and those of its meta limits, which count for the whole app."""
        yield from self.rules(options, place)
        yield from self._meta_of(options, place)

    def on_one_of_several(
        self, options: LimitOptions, place: Place, *, answers_apart: bool
    ) -> Iterator[Rule]:
        """Yield the rules of a decorator on one of several functions or blocks of an endpoint.

        Equal limits count together there: those for the same ``identifiers`` and by the same ``name``. Of
        what a function names, what the same function names elsewhere; ``answers_apart`` says whether
        different numbers that it answers count apart.
        """
        if options.is_shared:
            yield from self.rules(options, place)
        else:
            where = place.by_method() if options.per_method else place
            yield from self._rules_by_numbers(options, where, answers_apart)
        yield from self._meta_of(options, place)

    def _rules_by_numbers(self, options: LimitOptions, place: Place, answers_apart: bool) -> Iterator[Rule]:
        for part in options.parts:
            if is_dynamic(part):
                where = place.beside(options, "function", options.told_apart(part))
                yield Rule(self, options, where, Role.ENFORCE, part, by_numbers=answers_apart)
                continue
            limits = self.read_limits(part, options.algorithm)
            for limit in limits:
                where = place.beside(options, limit._core_limit.tag, limit._numbers)
                yield Rule(self, options, where, Role.ENFORCE, limit, limit.label if len(limits) > 1 else "")

    def _meta_of(self, options: LimitOptions, place: Place) -> Iterator[Rule]:
        if options.meta_limits:
            meta = LimitOptions(
                options.meta_limits,
                identifiers=options.identifiers,
                algorithm=options.algorithm,
                anonymous=options.anonymous,
            )
            where = place._replace(kind="meta-of", parts=(text_of(options.meta_limits),), shown="meta")
            yield from self.rules(meta, where, Role.ON_REFUSAL)

    def default(self, place: Place) -> Iterator[Rule]:
        """Yield the rules of an endpoint whose limits nothing overrides."""
        return self.rules(self.settings.default, place)

    def application(self, place: Place) -> Iterator[Rule]:
        """Yield the rules that count the whole app."""
        return self.rules(self.settings.application, place)

    def meta(self, place: Place) -> Iterator[Rule]:
        """Yield the rules that count refusals."""
        return self.rules(self.settings.meta, place, Role.ON_REFUSAL)

    def fallback(self, place: Place) -> Iterator[Rule]:
        """Yield the rules that replace all others while the store fails."""
        return iter(()) if self._fallback is None else self._fallback.rules(self.settings.fallback, place)
