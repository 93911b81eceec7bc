"""The RateLimits of an app: each with its settings and its store, all of them, and how they are switched."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from overlimit._forks import PerProcess
from overlimit._logging.limiters import forget
from overlimit.budgets import FirstOf
from overlimit.errors import InvalidLimit
from overlimit.http.answering.fields import HeaderNames, distinct
from overlimit.http.callables import truth_of
from overlimit.http.identifying.default import by_address_and_user
from overlimit.http.identifying.identifiers import Anonymous, Identifiers, Identify
from overlimit.http.options.limit_options import LimitOptions
from overlimit.http.options.rate_limit_options import GROUPS
from overlimit.http.options.settings import Settings
from overlimit.http.rules.applied_limits import AppliedLimit, Exemptions, Handle
from overlimit.http.rules.counts import Arguments, Counts, Role
from overlimit.http.rules.file_limits import FileLimits
from overlimit.http.rules.switches import Switch
from overlimit.limiter import Limiter
from overlimit.limits.penalty import Penalty
from overlimit.stores import MemoryStore, Store, as_store
from overlimit.stores.kinds import state_key

_log = logging.getLogger("overlimit")


class AppRateLimit:
    """A RateLimit on one app: its settings, where it counts, and how the names of its policies begin."""

    def __init__(
        self,
        settings: Settings,
        prefix: str = "",
        memory: Callable[[], MemoryStore] = MemoryStore,
        *,
        default_identify: Identify = by_address_and_user,
        handle: RateLimitHandle | None = None,
        on_change: Callable[[], object] = lambda: None,
    ) -> None:
        """Take complete settings whose limits have been checked.

        ``memory`` returns the app's own memory store, and ``default_identify`` the identifiers of a request
        where no option does. ``handle`` is the RateLimit itself, whose exemptions and filters may change at
        any time, and ``on_change`` is called when the limits of a file do. Raises ValueError if the URL of
        the store is malformed, and what is wrong with the file as `follow` does.
        """
        given = settings.options
        self.settings = settings
        self.prefix = prefix
        self.read_limits = settings.limits
        self.header_names = given.get("header_names", HeaderNames())
        self.legacy_names = self.header_names if given["headers"] in ("legacy", "both") else None
        self.clock = given.get("clock")
        self._enabled = Switch("enabled", given["enabled"], True, self.clock)
        self._shadow = Switch("shadow", given["shadow"], False, self.clock)
        self._shows_fields = given["headers"] in ("draft", "both")
        self.handle = handle = RateLimitHandle() if handle is None else handle
        self.exemptions, self.request_filters = handle.exemptions, handle.request_filters
        self._unusable_store = given.get("unusable_store")
        store = self._store_or_memory(given["store"], memory)
        replaced = bool(settings.group("in_memory_fallback").parts)
        self.counts = Counts(store, "raise" if replaced else given["on_error"])
        self.fallback = Counts(MemoryStore(), "allow") if replaced else None
        """Where the limits count that replace all others while the store fails."""
        self.local_share = given["local_share"]
        self.explains: bool = given["explain"]
        self.penalty: Penalty | None = given.get("penalty")
        self.addresses = settings.addresses()
        self.identify: Identify = given.get("identifiers", default_identify)
        self.anonymous: Anonymous = given["anonymous"]
        self.before_validation: bool = given.get("before_validation") or False
        self.request_identifier: Callable[..., str] | None = given.get("request_identifier")
        self.shadows_warned_of: dict[tuple[str, str], object] = {}
        """The names of the limits in shadow of which the log has warned."""
        for name in GROUPS:
            for part in settings.group(name).parts:
                for budget in part.budgets if isinstance(part, FirstOf) else ():
                    if isinstance(budget, Limiter) and name != "in_memory_fallback":
                        self.check_limiter(budget)
        path = given.get("limits_file")
        self._on_change = on_change
        self.file = None if path is None else FileLimits(path, self._replace_limits)
        """The limits of a file that is followed, if there is one."""

    def group(self, name: str) -> LimitOptions:
        """Return the limits that an option names, or what the file says in their place."""
        options = self.settings.group(name)
        return options if self.file is None else self.file.group(name, options)

    def _replace_limits(self) -> None:
        for limiter in self.limiters():
            forget(limiter)  # which others of its name replace from now on, under other limits
        self._on_change()

    def check_limiter(self, limiter: Limiter) -> None:
        """Raise InvalidLimit unless a limiter of other code can be asked together with those made here."""
        if state_key(limiter.store) != state_key(self.store) or limiter.clock != self.clock:
            raise InvalidLimit(
                f"the limiter {limiter.name!r} in first_of(...) is not on the store and the clock of this "
                "RateLimit, with whose limits it is decided: give both the same store= and clock="
            )

    def _store_or_memory(self, store: str | Store, memory: Callable[[], MemoryStore]) -> Store:
        """Return the store; a RateLimit that is not enabled needs none, and raises when it is enabled."""
        # Each app has counts of its own in memory, as it would in a process of its own.
        is_memory = isinstance(store, str) and store.strip() == "memory://"
        if self._unusable_store is not None or is_memory:
            return memory()
        try:
            return as_store(store)
        except ValueError as error:
            if self._enabled.on:
                raise
            self._unusable_store = error
            return memory()

    @property
    def enabled(self) -> bool:
        """Whether it limits anything: by its settings, unless that was switched for all apps."""
        return self.handle.is_enabled(self.enabled_by_settings)

    @property
    def enabled_by_settings(self) -> bool:
        """What its settings say, or their function has said last."""
        return self._enabled.on

    @property
    def shadow(self) -> bool:
        """Whether everything is counted and nothing is refused."""
        return self._shadow.on

    @property
    def in_fields(self) -> bool:
        """Whether the fields of the draft show its limits."""
        return self._shows_fields and not self.shadow

    @property
    def has_switches(self) -> bool:
        """Whether functions say if it is enabled, or in shadow."""
        return self._enabled.function is not None or self._shadow.function is not None

    def ask_switches(self) -> bool:
        """Ask these functions, if it is time; return whether something changes, and plans with it."""
        changes = self._enabled.ask_again(), self._shadow.ask_again()
        return any(changes)

    @property
    def store(self) -> Store:
        """Where its limits are decided unless that fails."""
        return self.counts.store

    def check_store(self) -> None:
        """Raise ValueError if the store is unusable, which did not matter while this was disabled."""
        if self._unusable_store is not None:
            raise self._unusable_store

    @property
    def call_group(self) -> tuple[object, ...]:
        """The same for RateLimits that can be decided in one call."""
        alone = id(self) if self.fallback else None
        return id(self.store), id(self.clock), self.shadow, alone

    def holds_for(self, arguments: Arguments) -> bool:
        """Return whether it is enabled and none of its filters lets the request pass."""
        return self.enabled and not any(
            truth_of(passes, passes(*arguments)) for passes in self.request_filters
        )

    def on_breach_of(self, role: Role) -> Callable[..., object] | None:
        """Return the hook that is called with a refusal by a rule of this role."""
        options = self.settings.options
        return options.get("on_meta_breach") if role is Role.ON_REFUSAL else options.get("on_breach")

    def limiters(self) -> list[Limiter]:
        """Return its limiters, also those that hold while the store fails."""
        return [*self.counts.limiters(), *(self.fallback.limiters() if self.fallback else ())]

    def reset(self, names: Iterable[str], endpoint: str | None, identifiers: Identifiers | None) -> None:
        """Reset identifiers (None: all) in these policies and those used lately; raise StoreError."""
        if self.fallback is not None:
            self.fallback.reset(self.fallback.latest(endpoint), identifiers)
        self.counts.reset((*names, *self.counts.latest(endpoint)), identifiers)


class AppRateLimits:
    """All RateLimits of one app, in the order they were registered."""

    def __init__(self, app: object, app_name: str, default_identify: Identify) -> None:
        self.app: Any = app
        self.lock = PerProcess(threading.RLock)
        """Held while a RateLimit is registered, and while plans are compiled."""
        self.on_change: Callable[[], None] = lambda: None
        """Called whenever other limits may hold than before."""
        self.files: tuple[FileLimits, ...] = ()
        """The files that are followed, each to be looked at before a request."""
        self._app_name, self._default_identify = app_name, default_identify
        self._registered: dict[Handle, AppRateLimit] = {}
        self._implicit: AppRateLimit | None = None
        self._own_memory = cache(MemoryStore)
        self._switched: tuple[AppRateLimit, ...] = ()

    def follow_switches(self) -> None:
        """Ask the functions that switch a RateLimit, if there are any and it is time."""
        if self._switched and sum(each.ask_switches() for each in self._switched):
            self.on_change()

    def __iter__(self) -> Iterator[AppRateLimit]:
        """Yield every RateLimit that may have to decide a request."""
        registered = self._all_registered()
        yield from registered
        if self._implicit is not None and not registered:
            yield self._implicit

    @property
    def first(self) -> AppRateLimit | None:
        """The first of them."""
        return next(iter(self), None)

    def get(self, handle: RateLimitHandle) -> AppRateLimit | None:
        """Return what a RateLimit is on this app; None: it is not registered."""
        return self._registered.get(handle)

    def register(self, handle: RateLimitHandle, settings: Settings, **instead: str) -> None:
        """Add a RateLimit with its complete settings, once they are checked, or replace those it has.

        Messages name options as in ``instead``.
        """
        settings.check(**instead)
        settings.warn_of_unused(**instead)
        with self.lock():
            self._register(handle, settings)
            self.on_change()

    def _register(self, handle: RateLimitHandle, settings: Settings) -> None:
        taken = [own.prefix for known, own in self._registered.items() if known is not handle]
        self._registered[handle] = AppRateLimit(
            settings,
            unused_prefix(settings.options.get("key_prefix", ""), taken),
            self._own_memory,
            default_identify=self._default_identify,
            handle=handle,
            on_change=self._changed,
        )
        self._switched = tuple(each for each in self._all_registered() if each.has_switches)
        self.files = tuple(each.file for each in self._registered.values() if each.file is not None)
        handle.apps.add(self)

    def _changed(self) -> None:
        self.on_change()

    def look(self) -> None:
        """Take what files of limits say by now."""
        for each in self.files:
            each.look()

    def acting_for(self, applied: AppliedLimit) -> AppRateLimit:
        """Return the RateLimit through which limits hold; RuntimeError if it is not on the app."""
        if applied.handle is None:
            return next(iter(self._all_registered()), None) or self._make_implicit()
        rate_limit = self._registered.get(applied.handle)
        if rate_limit is None:
            others = ", ".join(sorted(repr(each._app_name) for each in applied.handle.apps))
            raise RuntimeError(
                f"a function of {self._app_name!r} is limited by a RateLimit that this app does not have"
                f"{others and f', but another one ({others})'}: call init_app(app) on it"
            )
        return rate_limit

    def _all_registered(self) -> tuple[AppRateLimit, ...]:
        """Return those of now: another thread may register one meanwhile."""
        return tuple(self._registered.values())

    def _make_implicit(self) -> AppRateLimit:
        with self.lock():
            if self._implicit is not None:
                return self._implicit
            self._implicit = AppRateLimit(Settings({}).completed({}), default_identify=self._default_identify)
        _log.warning(
            "%r has no RateLimit: rate_limit counts in the memory of this process. "
            "RateLimit(app, store=...) chooses where, RateLimit(app) keeps it and ends this warning.",
            self._app_name,
        )
        return self._implicit


class RateLimitHandle:
    """What a RateLimit has in common on all its apps: exemptions, filters, and whether it is enabled."""

    def __init__(self) -> None:
        self.exemptions = Exemptions()
        self.request_filters: list[Callable[..., object]] = []
        self.decorated: list[Callable[..., Any]] = []
        """The functions that it limits, where decorators leave them as they are and calls do not tell."""
        self.idle: WeakKeyDictionary[object, Callable[..., Any]] = WeakKeyDictionary()
        """Decorators that were given a function in the place of limits and have decorated nothing so far."""
        self.apps: WeakSet[AppRateLimits] = WeakSet()
        self.was_registered = False
        """Whether it was ever registered on an app, even if that no longer exists."""
        self._enabled: bool | None = None
        self._suspensions = 0
        self._switching = PerProcess(threading.Lock)

    def is_on(self, app: object) -> bool:
        """Return whether it is registered on this app."""
        return any(each.app is app for each in self.apps)

    def note_change(self) -> None:
        """Let the apps find out anew which limits hold where."""
        for each in self.apps:
            each.on_change()

    def is_enabled(self, by_settings: bool) -> bool:
        """Return whether it is enabled on an app whose settings say so, or not."""
        return not self._suspensions and (by_settings if self._enabled is None else self._enabled)

    @property
    def enabled(self) -> bool:
        """Whether anything is limited: False while `suspended`."""
        return self.is_enabled(True) and all(each.enabled for each in self._on_apps())

    def switch(self, enabled: bool) -> None:
        """Enable or disable it on all apps; raises ValueError if its store is needed and unusable."""
        with self._switching():
            self._switch(enabled)

    def switch_new_apps(self) -> None:
        """Enable or disable it on apps that were added since, as on the others; raises as `switch` does."""
        self.was_registered = True
        with self._switching():
            self._switch(self._enabled)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Limit nothing within a ``with`` block, in any thread. Blocks may overlap."""
        self._suspend(1)
        try:
            yield
        finally:
            self._suspend(-1)

    def _suspend(self, more: int) -> None:
        with self._switching():
            self._suspensions += more
            self._switch(self._enabled)

    def _switch(self, enabled: bool | None) -> None:
        """Switch on or off, except while suspended; None: as options and configuration say."""
        for each in self._on_apps():
            if each.enabled_by_settings if enabled is None else enabled:
                each.check_store()
        self._enabled = enabled
        self.note_change()

    def _on_apps(self) -> list[AppRateLimit]:
        found = [each.get(self) for each in self.apps]
        return [rate_limit for rate_limit in found if rate_limit is not None]


def unused_prefix(prefix: str, taken: list[str]) -> str:
    """Return a prefix that none of the others has: this one, or if it is taken one like it."""
    # Two RateLimits of one app never share a count, not even when nobody gave them a prefix.
    return prefix if prefix not in taken else distinct([*taken, prefix or "second"])[-1]
