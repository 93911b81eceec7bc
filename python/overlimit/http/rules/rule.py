"""A rule: one limit somewhere. Whose requests it counts, where, when, and at what cost; and its counts."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import NamedTuple, TypeAlias

from overlimit._options import is_set
from overlimit.errors import InvalidLimit
from overlimit.http.answering.fields import HeaderNames, Item
from overlimit.http.callables import function_name, result_of, truth_of
from overlimit.http.identifying.builtin import everybody
from overlimit.http.identifying.identifiers import Identify, as_text, with_addresses
from overlimit.http.options.limit_options import Cost, Dynamic, LimitOptions, hashable, is_dynamic
from overlimit.http.rules.app_rate_limits import AppRateLimit
from overlimit.http.rules.count_names import CountName, usable_field_name
from overlimit.http.rules.counts import Arguments, Counts, Role
from overlimit.limiter import Limiter, UnregisteredLimiter
from overlimit.limits import Limit, LimitsLike
from overlimit.limits.penalty import Penalty

MOST_KEPT = 256
"""How many values that depend on the request are kept: limiters of one rule, and store calls of a route."""


class Entry(NamedTuple):
    """A budget of a `first_of`."""

    of: CountName
    """What all of its budgets have in common, and no others."""
    place: int
    """Which of them it is, from 0."""


class ResolvedRule(NamedTuple):
    """A rule with the limits, the policy name and the functions that hold for this request."""

    limiter: Limiter
    identify: Identify
    field_name: str
    """Its name in header fields."""
    role: Role = Role.ENFORCE
    cost: Cost = 1
    has_cost: bool = False
    """Whether a cost was said, so that it can be settled; if not, it counts requests."""
    deduct_when: Callable[..., object] | None = None
    """Given the response: whether the request counts."""
    on_breach: tuple[Callable[..., object], ...] = ()
    """Called with a refusal, one after the other; each may return a response, and the last one counts."""
    error_message: str | Callable[..., str | Awaitable[str]] | None = None
    """What a refusal says, or a function that returns it."""
    in_fields: bool = True
    """Whether the ``RateLimit`` fields show it."""
    skips_anonymous: bool = False
    """Whether it does not hold for requests without an identifier."""
    is_reported: bool = True
    """Whether a refusal in shadow is reported, as it is unless the app is told of it."""
    header_names: HeaderNames = HeaderNames()
    """The names of the header fields of its refusals."""
    counts: Counts | None = None
    """Where its limiter counts."""
    entry: Entry | None = None
    """Which of several budgets it is, of which the first that admits a request is charged."""

    def items(self) -> Iterator[Item]:
        """Yield one header item per limit."""
        return items_of(self.field_name, self.limiter.limits)


def items_of(field_name: str, limits: Sequence[Limit]) -> Iterator[Item]:
    """Yield one header item per limit: that of a single limit has exactly the given name."""
    for limit in limits:
        name = field_name if len(limits) == 1 else f"{field_name}:{limit.label}"
        yield Item(name, limit.quota, limit.window, limit._refills)


Resolver: TypeAlias = Callable[[Arguments], ResolvedRule | None]
"""Resolves a rule during a request; None: it does not hold for the request."""

_MakeResolved: TypeAlias = Callable[[LimitsLike | Limiter, CountName], ResolvedRule]


class Rule(NamedTuple):
    """All that is known of one limit, or of several that are counted as one policy, before a request."""

    rate_limit: AppRateLimit
    options: LimitOptions
    counted_as: CountName
    role: Role
    value: LimitsLike | Dynamic | Limiter
    label: str = ""
    """Distinguishes it from others of the same name in header fields."""
    by_numbers: bool = False
    """Whether limits with different numbers have separate counts."""
    replaces_others: bool = False
    """Whether it holds in the place of all others while the store fails."""
    entry: Entry | None = None
    """Which of several budgets it is."""

    def resolve_early(self) -> ResolvedRule | Resolver:
        """Resolve it, or return a function that does so in each request; raise InvalidLimit."""
        value, said = self.value, self.options.said
        if is_dynamic(value) or callable(said["scope"]) or said["exempt_when"] or self._request_identifier():
            # Kept, since a limiter costs more than a request; bounded, since a request may choose the scope.
            return partial(self._resolve_unless_exempt, lru_cache(MOST_KEPT)(self._resolved))
        return self._resolved(value, self._count(), early=not self.options.during_request)

    @property
    def field_name(self) -> str:
        """Its name in header fields."""
        said = self.options.said
        if isinstance(self.value, Limiter):
            return str(self.value.name)
        scope = said["scope"] if self.options.is_shared else None
        name = usable_field_name(
            said["name"] or (scope if isinstance(scope, str) and scope else self.counted_as.field_name)
        )
        return f"{name}:{self.label}" if self.label else name

    @property
    def limits(self) -> tuple[Limit, ...] | None:
        """The limits; None when a function returns them during a request."""
        if is_dynamic(self.value):
            return None
        if isinstance(self.value, Limiter):
            return self.value.limits
        return self.rate_limit.read_limits(self.value, self.options.said["algorithm"])

    @property
    def identify(self) -> Identify:
        """Returns the identifiers of a request, by whatever addresses."""
        return self.options.identifiers or self.rate_limit.identify

    @property
    def penalty(self) -> Penalty | None:
        """What locks an identifier that goes over it: nothing locks all clients by locking one."""
        if isinstance(self.value, Limiter):
            return self.value.penalty
        own, is_of_all = self.options.said["penalty"], self.options.identifiers is everybody
        if own is not None or is_of_all or self.role is not Role.ENFORCE:
            return own
        return self.rate_limit.penalty

    @property
    def in_shadow(self) -> bool:
        """Whether it counts and never refuses."""
        return self.options.said["shadow"] or self.rate_limit.shadow

    @property
    def can_refuse(self) -> bool:
        """Whether it can refuse a request by itself."""
        return self.role is Role.ENFORCE and not self.in_shadow and self.rate_limit.enabled

    @property
    def skips_anonymous(self) -> bool:
        """Whether it does not hold for requests without an identifier."""
        return (self.options.said["anonymous"] or self.rate_limit.anonymous) == "exempt"

    @property
    def _only_counts(self) -> bool:
        """Whether the store is to count and to answer, but not to refuse because of it."""
        return self.options.said["shadow"] or not self.options.said["block"]

    @property
    def charged_as(self) -> Role:
        """How the store is to charge it."""
        return Role.SHADOW if self._only_counts and self.role is Role.ENFORCE else self.role

    @property
    def counted_endpoint(self) -> str | None:
        """The only endpoint whose requests it counts; None: it counts several."""
        named = self.options.is_shared or self.rate_limit.request_identifier is not None
        return None if named or self.counted_as.counted is None else self.counted_as.endpoint

    @property
    def _origin(self) -> object:
        return self.counted_as.slots, self.options

    @property
    def _counts(self) -> Counts:
        fallback = self.rate_limit.fallback
        return fallback if self.replaces_others and fallback is not None else self.rate_limit.counts

    @property
    def was_used_lately(self) -> bool:
        """Whether this process knows names under which it counts."""
        return self._counts.has_names_of(self._origin)

    def raising(self) -> Rule:
        """Return the same rule with a store whose failures are raised."""
        return self._replace(options=self.options.saying(on_error="raise"))

    def resolve_now(self, arguments: Arguments = ()) -> ResolvedRule | None:
        """Resolve it now, whatever ``exempt_when`` says, or raise as functions do; None: no limit."""
        return self._resolve(self._resolved, arguments)

    @property
    def policy_name(self) -> str | None:
        """The name that its counts have in the store and in metrics; None when a function decides."""
        asks = callable(self.options.said["scope"]) or self._request_identifier() is not None
        return None if asks and not isinstance(self.value, Limiter) else self.policy_name_now()

    def policy_name_now(self) -> str:
        """Return the name that its counts have at this moment; functions of the app may raise anything."""
        if isinstance(self.value, Limiter):
            return str(self.value.name)
        return self._count().policy(self.rate_limit.prefix)

    def reset(self, identifier: str) -> None:
        """Give an identifier a fresh start where this counts now; raise StoreError, or as functions do."""
        self._counts.reset((self.policy_name_now(),), (identifier,))

    def _resolve_unless_exempt(self, make: _MakeResolved, arguments: Arguments) -> ResolvedRule | None:
        exempt_when = self.options.said["exempt_when"]
        if exempt_when is not None and truth_of(exempt_when, exempt_when(*arguments)):
            return None
        return self._resolve(make, arguments)

    def _resolve(self, make: _MakeResolved, arguments: Arguments) -> ResolvedRule | None:
        value = self.value
        limits = result_of(value, value(*arguments)) if is_dynamic(value) else value
        if limits == "":
            return None
        count = self._count(arguments)
        try:
            if not is_set(limits):
                raise InvalidLimit(f"it returned {limits!r}, not a limit: return '' for no limit")
            return make(limits if isinstance(limits, Limiter) else hashable(limits), count)
        except InvalidLimit as error:
            if not is_dynamic(self.value):
                raise
            where = f" for {self.counted_as.endpoint!r}" if self.counted_as.endpoint else ""
            raise InvalidLimit(f"{function_name(self.value)}{where}: {error}") from None

    def _request_identifier(self) -> Callable[..., str] | None:
        return None if self.counted_as.counted is None else self.rate_limit.request_identifier

    def _resolved(
        self, value: LimitsLike | Limiter, count: CountName, *, early: bool = False
    ) -> ResolvedRule:
        said, rate_limit, counts = self.options.said, self.rate_limit, self._counts
        hooks = (rate_limit.on_breach_of(self.role), said["on_breach"])
        return ResolvedRule(
            limiter=counts.keep(self._limiter(value, count, early=early)),
            identify=with_addresses(self.identify, rate_limit.addresses),
            field_name=self.field_name,
            role=self.charged_as,
            cost=self.options.units,
            has_cost=said["cost"] is not None,
            deduct_when=said["deduct_when"],
            on_breach=tuple(hook for hook in hooks if hook is not None),
            error_message=said["error_message"],
            in_fields=rate_limit.in_fields and self.role is Role.ENFORCE and not said["shadow"],
            skips_anonymous=self.skips_anonymous,
            is_reported=said["shadow"] or said["block"],
            header_names=rate_limit.header_names,
            counts=counts,
            entry=self.entry,
        )

    def _limiter(self, value: LimitsLike | Limiter, count: CountName, *, early: bool) -> Limiter:
        said, rate_limit, counts = self.options.said, self.rate_limit, self._counts
        if isinstance(value, Limiter):
            rate_limit.check_limiter(value)
            return value
        limits = rate_limit.read_limits(value, said["algorithm"])
        if self.by_numbers:
            limits = tuple(limit.counted_by_numbers() for limit in limits)
        name = count.policy(rate_limit.prefix)
        counts.note(name, self.counted_endpoint, self._origin)
        return (Limiter if early else UnregisteredLimiter)(
            limits,
            name=name,
            store=counts.store,
            penalty=self.penalty,
            clock=rate_limit.clock,
            on_error=said["on_error"] or counts.on_error,
            local_share=rate_limit.local_share,
        )

    def _count(self, arguments: Arguments = ()) -> CountName:
        """Return where it counts in a request; functions that need one raise what they raise without."""
        scope, identifier = self.options.said["scope"], self._request_identifier()
        endpoint = self.counted_as.endpoint
        found = _text_of(scope, scope(endpoint, *arguments)) if callable(scope) else scope
        if self.options.is_shared:
            return self._shared(found or "")
        count = self.counted_as
        if identifier is not None:
            count = count.instead_of_endpoint(_text_of(identifier, identifier(*arguments)))
        return count if found is None else count.variant("scoped", found)

    # Limits of one scope that count differently may hold at the same time, for the same identifiers. Those
    # that a function returns are told apart within one policy, so its name is known before a request.
    def _shared(self, scope: str) -> CountName:
        limits, said = self.limits, self.options.said
        what = (
            self.options.fingerprint(self.options.identifiers),
            said["shadow"],
            *([] if said["block"] else ["told"]),
            *([] if self.entry is None else [f"budget {self.entry.place}"]),
            *(["function"] if limits is None else sorted(str(limit.tag) for limit in limits)),
        )
        parts = scope, digest(what)
        count = self.counted_as._replace(kind="shared", variants=(), counted=None, parts=parts)
        return count.by_method() if said["per_method"] else count


def _text_of(function: object, returned: object) -> str:
    """Return by what counts are told apart, as a function of the app says."""
    return as_text(function_name(function), result_of(function, returned))


def digest(what: tuple[object, ...]) -> str:
    """Return a short hash, the same in every process."""
    return hashlib.sha256(ascii(what).encode()).hexdigest()[:8]
