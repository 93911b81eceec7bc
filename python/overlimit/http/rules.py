"""A rule: one limit somewhere. Whose requests it counts, where, when, and at what cost."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from overlimit import InvalidLimit, Limiter
from overlimit.http.charges import Charge, Role, UnregisteredLimiter
from overlimit.http.functions import is_set, shown
from overlimit.http.identities import with_addresses
from overlimit.http.options import Dynamic, LimitOptions, counted_method, hashable, is_dynamic
from overlimit.http.policy_names import policy_name, shown_name
from overlimit.limits import Limit, LimitsLike, as_limits

if TYPE_CHECKING:
    from overlimit.http.installation import Installation

__all__ = ["MOST_KEPT", "ChargeOrFinder", "Place", "Rule"]

MOST_KEPT = 256
"""How many of what depends on the request are kept: limiters of one rule, and store calls of a route."""

Arguments: TypeAlias = tuple[Any, ...]
"""What functions of the app are called with; see `Request.arguments`."""

ChargeOrFinder: TypeAlias = Charge | Callable[[Arguments], Charge | None]
"""What a rule charges, or a function that finds it out during a request; None: nothing."""


class Place(NamedTuple):
    """Where a limit is put: what its counts are kept by, and its name in header fields."""

    kind: str
    """What sort of place it is; each has a fixed number of ``parts``."""
    parts: tuple[str, ...]
    """Of a limit that counts per endpoint the first one is the endpoint."""
    shown: str
    endpoint: str
    method: str

    @property
    def counts_per_endpoint(self) -> bool:
        """Whether what is put here counts per endpoint, and not for the whole app."""
        return self.kind.partition("-")[0] not in ("application", "meta")

    def by_method(self) -> Place:
        """Return the place of what each HTTP method has counts of its own of."""
        parts = (*self.parts, counted_method(self.method))
        return self._replace(kind=f"{self.kind}-by-method", parts=parts)

    def member(self, number: int) -> Place:
        """Return the place of a further policy that the same options put here; the first one stays here."""
        if number == 0:
            return self
        return self._replace(kind=f"{self.kind}-member", parts=(*self.parts, str(number)))

    def beside(self, options: LimitOptions, *what: object) -> Place:
        """Return the place of one of several limits that are put here; ``what`` tells it from the others."""
        apart = (options.told_apart(options.identifiers), options.shadow, options.name, *what)
        return self._replace(parts=(*self.parts, _digest(apart)))


class _Found(NamedTuple):
    """What is found out of a count's name during a request."""

    scope: str | None = None
    instead_of_endpoint: str | None = None


_MakeCharge = Callable[[LimitsLike, _Found], Charge]


class Rule(NamedTuple):
    """One limit somewhere: all that is known of it before a request.

    Limits that are counted as one policy, as those of one text, are one rule.
    """

    installation: Installation
    options: LimitOptions
    place: Place
    role: Role
    value: LimitsLike | Dynamic
    label: str = ""
    """Tells it from others of the same name in header fields."""
    by_numbers: bool = False
    """Whether limits with different numbers count apart."""

    def compiled(self) -> ChargeOrFinder:
        """Return what it charges, or a function that finds it out during a request.

        Raises
        ------
        InvalidLimit
            The limits do not fit the algorithm.
        """
        value, scope = self.value, self.options.scope
        if is_dynamic(value) or callable(scope) or self.options.exempt_when or self._request_identifier():
            # Kept, since a limiter costs more than a request; bounded, since a request may choose the scope.
            return partial(self._charge_unless_exempt, lru_cache(MOST_KEPT)(self._make_unregistered))
        kind = UnregisteredLimiter if self.options.during_request else Limiter
        return self._charge_under(kind, value, _Found(scope))

    @property
    def shown(self) -> str:
        """The name it has in header fields."""
        scope = self.options.scope if self.options.is_shared else None
        name = shown_name(
            self.options.name or (scope if isinstance(scope, str) and scope else self.place.shown)
        )
        return f"{name}:{self.label}" if self.label else name

    @property
    def limits(self) -> tuple[Limit, ...] | None:
        """The limits; None when a function names them during a request."""
        if is_dynamic(self.value):
            return None
        return self.installation.read_limits(self.value, self.options.algorithm)

    @property
    def in_shadow(self) -> bool:
        """Whether it counts and never refuses."""
        return self.options.shadow or self.installation.shadow

    @property
    def can_refuse(self) -> bool:
        """Whether it can refuse a request by itself."""
        return self.role is Role.ENFORCE and not self.in_shadow and self.installation.enabled

    @property
    def skips_anonymous(self) -> bool:
        """Whether it leaves requests with an empty identity alone."""
        return (self.options.anonymous or self.installation.anonymous) == "exempt"

    @property
    def counted_endpoint(self) -> str | None:
        """The endpoint that it counts alone; None: it counts several."""
        alone = self.installation.counts_per_endpoint(self.options, self.place)
        return self.place.endpoint if alone else None

    def raising(self) -> Rule:
        """Return the same rule with a store whose failures are raised."""
        return self._replace(options=dataclasses.replace(self.options, on_error="raise"))

    def charge_now(self, arguments: Arguments = ()) -> Charge | None:
        """Return what it charges at this moment, whatever ``exempt_when`` would say; None: no limit holds.

        Functions that need a request raise here what they raise without one.
        """
        return self._charge(self._make_unregistered, arguments)

    def policy_name_now(self) -> str:
        """Return the name its counts have at this moment; functions raise what they raise."""
        if not self.options.is_shared:
            return self._policy_name((), self._found(()))
        charge = self.charge_now()
        if charge is None or charge.limiter.name is None:
            raise LookupError("no limit holds now, and the name of a shared count tells how it counts")
        return charge.limiter.name

    def reset(self, identifier: str) -> None:
        """Give an identifier a fresh start where this counts at this moment, whatever the limits are.

        Functions raise what they raise; StoreError: the store cannot answer.
        """
        self._limiter(UnregisteredLimiter, as_limits("1/second"), self.policy_name_now()).reset(identifier)

    def _charge_unless_exempt(self, make: _MakeCharge, arguments: Arguments) -> Charge | None:
        exempt_when = self.options.exempt_when
        if exempt_when is not None and exempt_when(*arguments):
            return None
        return self._charge(make, arguments)

    def _charge(self, make: _MakeCharge, arguments: Arguments) -> Charge | None:
        limits = self.value(*arguments) if is_dynamic(self.value) else self.value
        if limits is None or not is_set(limits):
            return None
        found = self._found(arguments)
        try:
            return make(hashable(limits), found)
        except InvalidLimit as error:
            if not is_dynamic(self.value):
                raise
            where = f" for {self.place.endpoint!r}" if self.place.endpoint else ""
            raise InvalidLimit(f"{shown(self.value)}{where}: {error}") from None

    def _found(self, arguments: Arguments) -> _Found:
        scope, identifier = self.options.scope, self._request_identifier()
        found = str(scope(self.place.endpoint, *arguments)) if callable(scope) else scope
        return _Found(found, None if identifier is None else str(identifier(*arguments)))

    def _request_identifier(self) -> Callable[..., str] | None:
        return self.installation.request_identifier if self.place.counts_per_endpoint else None

    def _make_unregistered(self, value: LimitsLike, found: _Found) -> Charge:
        return self._charge_under(UnregisteredLimiter, value, found)

    def _charge_under(self, kind: type[Limiter], value: LimitsLike, found: _Found) -> Charge:
        options, installation = self.options, self.installation
        limits = installation.read_limits(value, options.algorithm)
        name = self._policy_name(limits, found)
        if self.by_numbers:
            limits = tuple(limit.counted_by_numbers() for limit in limits)
        hooks = (installation.on_breach_of(self.role), options.on_breach)
        return Charge(
            self._limiter(kind, limits, name),
            with_addresses(options.identifiers or installation.identify, installation.addresses),
            self.shown,
            Role.SHADOW if options.shadow and self.role is Role.ENFORCE else self.role,
            options.cost,
            options.deduct_when,
            tuple(hook for hook in hooks if hook is not None),
            options.error_message,
            installation.in_fields,
            self.skips_anonymous,
        )

    def _limiter(self, kind: type[Limiter], limits: tuple[Limit, ...], name: str) -> Limiter:
        installation = self.installation
        installation.recent_names.add(name, self.counted_endpoint)
        return kind(
            limits,
            name=name,
            store=installation.store,
            clock=installation.clock,
            on_error=self.options.on_error or installation.on_error,
            local_share=installation.local_share,
        )

    def _policy_name(self, limits: tuple[Limit, ...], found: _Found) -> str:
        kind, parts = self.place.kind, self.place.parts
        if self.options.is_shared:
            kind, parts = self._shared(limits, found.scope or "")
        elif found.instead_of_endpoint is not None:
            kind, parts = f"{kind}-of", (found.instead_of_endpoint, *parts[1:])
        if found.scope is not None and not self.options.is_shared:
            kind, parts = f"{kind}-scoped", (*parts, found.scope)
        return policy_name(kind, *parts, prefix=self.installation.prefix)

    # Limits of one scope that count differently may hold side by side, for the same identifiers.
    def _shared(self, limits: tuple[Limit, ...], scope: str) -> tuple[str, tuple[str, ...]]:
        what = (
            self.options.told_apart(self.options.identifiers),
            self.options.shadow,
            *sorted(str(limit._core_limit.tag) for limit in limits),
        )
        if not self.options.per_method:
            return "shared", (scope, _digest(what))
        return "shared-by-method", (scope, _digest(what), counted_method(self.place.method))


def _digest(what: tuple[object, ...]) -> str:
    return hashlib.sha256(ascii(what).encode()).hexdigest()[:8]
