"""A rule: one limit somewhere. Whose requests it counts, where, when, and at what cost."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from overlimit import InvalidLimit, Limiter
from overlimit._options import is_set
from overlimit.http.answering.fields import RETRY_AFTER, Item
from overlimit.http.callables import shown
from overlimit.http.identifying.identifiers import Identify, with_addresses
from overlimit.http.options.limit_options import (
    Cost,
    Dynamic,
    LimitOptions,
    counted_method,
    hashable,
    is_dynamic,
)
from overlimit.http.rules.count_names import policy_name, shown_name
from overlimit.limits import Limit, LimitsLike, as_limits

if TYPE_CHECKING:
    from overlimit.http.rules.app_rate_limits import AppRateLimit

__all__ = [
    "MOST_KEPT",
    "CounterScope",
    "ResolvedRule",
    "Resolver",
    "Role",
    "Rule",
    "UnregisteredLimiter",
    "items_of",
]

MOST_KEPT = 256
"""How many values that depend on the request are kept: limiters of one rule, and store calls of a route."""

Arguments: TypeAlias = tuple[Any, ...]
"""What functions of the app are called with; see `Request.arguments`."""


class Role(IntEnum):
    """How a rule takes part in a decision; the numbers are those of the core."""

    ENFORCE = 0
    """Refuses when its limit does."""
    SHADOW = 1
    """Is evaluated and charged like the enforced ones, and never refuses."""
    ON_REFUSAL = 2
    """A meta limit: charged when the enforced ones refuse; refuses everything once it is used up."""


class UnregisteredLimiter(Limiter):
    """A limiter that may have other limits than others of its name, because they depend on the request."""

    def _register(self, name: str | None) -> None:
        """Do nothing."""


class CounterScope(NamedTuple):
    """Where a limit counts: what the names of its counts are made of, and its name in header fields."""

    kind: str
    """Such as ``route`` or ``application``; each kind has a fixed number of ``parts``."""
    parts: tuple[str, ...]
    """Of a limit that counts per endpoint the first part is the endpoint."""
    shown: str
    endpoint: str
    method: str

    @property
    def counts_per_endpoint(self) -> bool:
        """Whether each endpoint has a count of its own, instead of one count for the whole app."""
        return self.kind.partition("-")[0] not in ("application", "meta")

    def by_method(self) -> CounterScope:
        """Return the scope that has separate counts for each HTTP method."""
        parts = (*self.parts, counted_method(self.method))
        return self._replace(kind=f"{self.kind}-by-method", parts=parts)

    def of_policy(self, number: int) -> CounterScope:
        """Return the scope of one of the policies that the same options make, numbered from 0."""
        if number == 0:
            return self
        return self._replace(kind=f"{self.kind}-member", parts=(*self.parts, str(number)))

    def of_equal_limits(self, options: LimitOptions, *what: object) -> CounterScope:
        """Return the scope in which limits that agree in ``what`` and in these options count together."""
        alike = (options.fingerprint(options.identifiers), options.shadow, options.name, *what)
        return self._replace(parts=(*self.parts, _digest(alike)))


class ResolvedRule(NamedTuple):
    """A rule with the limits, the policy name and the functions that hold for this request."""

    limiter: Limiter
    identify: Identify
    name: str
    """The name it has in header fields."""
    role: Role = Role.ENFORCE
    cost: Cost = 1
    deduct_when: Callable[..., object] | None = None
    """Given the response: whether the request counts."""
    on_breach: tuple[Callable[..., object], ...] = ()
    """Called with a refusal, one after the other; each may return a response, and the last one counts."""
    error_message: str | Callable[..., str] | None = None
    """What a refusal says, or a function that returns it."""
    in_fields: bool = True
    """Whether the ``RateLimit`` fields show it, if it is enforced."""
    skips_anonymous: bool = False
    """Whether it does not hold for requests without an identifier."""
    retry_after_name: str = RETRY_AFTER
    """The name of the Retry-After field of its refusals."""

    @property
    def is_shown(self) -> bool:
        """Whether the ``RateLimit`` fields show it."""
        return self.role is Role.ENFORCE and self.in_fields

    def items(self) -> Iterator[Item]:
        """Yield one header item per limit."""
        return items_of(self.name, self.limiter.limits)


def items_of(name: str, limits: Sequence[Limit]) -> Iterator[Item]:
    """Yield one header item per limit: that of a single limit has exactly the given name."""
    for limit in limits:
        shown = name if len(limits) == 1 else f"{name}:{limit.label}"
        yield Item(shown, limit.quota, limit.window)


Resolver: TypeAlias = Callable[[Arguments], ResolvedRule | None]
"""Resolves a rule during a request; None: it does not hold for the request."""


class _RequestScope(NamedTuple):
    """The parts of a policy name that functions of the app return during a request."""

    scope: str | None = None
    instead_of_endpoint: str | None = None


_MakeResolved = Callable[[LimitsLike, _RequestScope], ResolvedRule]


class Rule(NamedTuple):
    """One limit somewhere: all that is known of it before a request.

    Limits that are counted as one policy, such as those of one text, are one rule.
    """

    rate_limit: AppRateLimit
    options: LimitOptions
    counter_scope: CounterScope
    role: Role
    value: LimitsLike | Dynamic
    label: str = ""
    """Distinguishes it from others of the same name in header fields."""
    by_numbers: bool = False
    """Whether limits with different numbers have separate counts."""

    def resolve_early(self) -> ResolvedRule | Resolver:
        """Resolve it before any request, or return a function that resolves it during each request.

        Raises
        ------
        InvalidLimit
            The limits do not fit the algorithm.
        """
        value, scope = self.value, self.options.scope
        if is_dynamic(value) or callable(scope) or self.options.exempt_when or self._request_identifier():
            # Kept, since a limiter costs more than a request; bounded, since a request may choose the scope.
            return partial(self._resolve_unless_exempt, lru_cache(MOST_KEPT)(self._resolved_anew))
        kind = UnregisteredLimiter if self.options.during_request else Limiter
        return self._resolved(kind, value, _RequestScope(scope))

    @property
    def shown(self) -> str:
        """The name it has in header fields."""
        scope = self.options.scope if self.options.is_shared else None
        name = shown_name(
            self.options.name or (scope if isinstance(scope, str) and scope else self.counter_scope.shown)
        )
        return f"{name}:{self.label}" if self.label else name

    @property
    def limits(self) -> tuple[Limit, ...] | None:
        """The limits; None when a function returns them during a request."""
        if is_dynamic(self.value):
            return None
        return self.rate_limit.read_limits(self.value, self.options.algorithm)

    @property
    def identify(self) -> Identify:
        """Returns the identifiers of a request, by whatever addresses."""
        return self.options.identifiers or self.rate_limit.identify

    @property
    def in_shadow(self) -> bool:
        """Whether it counts and never refuses."""
        return self.options.shadow or self.rate_limit.shadow

    @property
    def can_refuse(self) -> bool:
        """Whether it can refuse a request by itself."""
        return self.role is Role.ENFORCE and not self.in_shadow and self.rate_limit.enabled

    @property
    def skips_anonymous(self) -> bool:
        """Whether it does not hold for requests without an identifier."""
        return (self.options.anonymous or self.rate_limit.anonymous) == "exempt"

    @property
    def counted_endpoint(self) -> str | None:
        """The only endpoint whose requests it counts; None: it counts several."""
        alone = self.rate_limit.counts_per_endpoint(self.options, self.counter_scope)
        return self.counter_scope.endpoint if alone else None

    @property
    def _origin(self) -> object:
        return self.counter_scope[:2], self.options

    @property
    def was_used_lately(self) -> bool:
        """Whether this process knows names under which it counts."""
        return self.rate_limit.recent_names.has_any_of(self._origin)

    def raising(self) -> Rule:
        """Return the same rule with a store whose failures are raised."""
        return self._replace(options=dataclasses.replace(self.options, on_error="raise"))

    def resolve_now(self, arguments: Arguments = ()) -> ResolvedRule | None:
        """Resolve it at this moment, without asking ``exempt_when``; None: there is no limit now.

        Functions that need a request raise here what they raise without one.
        """
        return self._resolve(self._resolved_anew, arguments)

    def policy_name_now(self) -> str:
        """Return the name that its counts have at this moment; functions of the app may raise anything."""
        return self._policy_name(self._request_scope(()))

    def reset(self, identifier: str) -> None:
        """Give an identifier a fresh start where this counts at this moment, whatever the limits are.

        Functions of the app may raise anything.

        Raises
        ------
        StoreError
            The store cannot answer.
        """
        self._limiter(UnregisteredLimiter, as_limits("1/second"), self.policy_name_now()).reset(identifier)

    def _resolve_unless_exempt(self, make: _MakeResolved, arguments: Arguments) -> ResolvedRule | None:
        exempt_when = self.options.exempt_when
        if exempt_when is not None and exempt_when(*arguments):
            return None
        return self._resolve(make, arguments)

    def _resolve(self, make: _MakeResolved, arguments: Arguments) -> ResolvedRule | None:
        limits = self.value(*arguments) if is_dynamic(self.value) else self.value
        if limits == "":
            return None
        found = self._request_scope(arguments)
        try:
            if not is_set(limits):
                raise InvalidLimit(f"it returned {limits!r}, not a limit: return '' for no limit")
            return make(hashable(limits), found)
        except InvalidLimit as error:
            if not is_dynamic(self.value):
                raise
            endpoint = self.counter_scope.endpoint
            where = f" for {endpoint!r}" if endpoint else ""
            raise InvalidLimit(f"{shown(self.value)}{where}: {error}") from None

    def _request_scope(self, arguments: Arguments) -> _RequestScope:
        scope, identifier = self.options.scope, self._request_identifier()
        found = str(scope(self.counter_scope.endpoint, *arguments)) if callable(scope) else scope
        return _RequestScope(found, None if identifier is None else str(identifier(*arguments)))

    def _request_identifier(self) -> Callable[..., str] | None:
        return self.rate_limit.request_identifier if self.counter_scope.counts_per_endpoint else None

    def _resolved_anew(self, value: LimitsLike, found: _RequestScope) -> ResolvedRule:
        return self._resolved(UnregisteredLimiter, value, found)

    def _resolved(self, kind: type[Limiter], value: LimitsLike, found: _RequestScope) -> ResolvedRule:
        options, rate_limit = self.options, self.rate_limit
        limits = rate_limit.read_limits(value, options.algorithm)
        name = self._policy_name(found)
        if self.by_numbers:
            limits = tuple(limit.counted_by_numbers() for limit in limits)
        hooks = (rate_limit.on_breach_of(self.role), options.on_breach)
        return ResolvedRule(
            self._limiter(kind, limits, name),
            with_addresses(self.identify, rate_limit.addresses),
            self.shown,
            Role.SHADOW if options.shadow and self.role is Role.ENFORCE else self.role,
            options.cost,
            options.deduct_when,
            tuple(hook for hook in hooks if hook is not None),
            options.error_message,
            rate_limit.in_fields,
            self.skips_anonymous,
            rate_limit.header_names.retry_after,
        )

    def _limiter(self, kind: type[Limiter], limits: tuple[Limit, ...], name: str) -> Limiter:
        rate_limit = self.rate_limit
        rate_limit.recent_names.add(name, self.counted_endpoint, self._origin)
        return kind(
            limits,
            name=name,
            store=rate_limit.store,
            clock=rate_limit.clock,
            on_error=self.options.on_error or rate_limit.on_error,
            local_share=rate_limit.local_share,
        )

    def _policy_name(self, found: _RequestScope) -> str:
        kind, parts = self.counter_scope.kind, self.counter_scope.parts
        if self.options.is_shared:
            kind, parts = self._shared(found.scope or "")
        elif found.instead_of_endpoint is not None:
            kind, parts = f"{kind}-of", (found.instead_of_endpoint, *parts[1:])
        if found.scope is not None and not self.options.is_shared:
            kind, parts = f"{kind}-scoped", (*parts, found.scope)
        return policy_name(kind, *parts, prefix=self.rate_limit.prefix)

    # Limits of one scope that count differently may hold at the same time, for the same identifiers. Those
    # that a function returns are told apart within one policy, so its name is known before a request.
    def _shared(self, scope: str) -> tuple[str, tuple[str, ...]]:
        limits = self.limits
        what = (
            self.options.fingerprint(self.options.identifiers),
            self.options.shadow,
            *(["function"] if limits is None else sorted(str(limit._core_limit.tag) for limit in limits)),
        )
        if not self.options.per_method:
            return "shared", (scope, _digest(what))
        return "shared-by-method", (scope, _digest(what), counted_method(self.counter_scope.method))


def _digest(what: tuple[object, ...]) -> str:
    return hashlib.sha256(ascii(what).encode()).hexdigest()[:8]
