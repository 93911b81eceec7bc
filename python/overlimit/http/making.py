"""From the options of a limit and where it is put to the rules that hold there."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from typing import NamedTuple, cast

from overlimit import Decision, InvalidLimit, Limiter
from overlimit.clocks import ClockLike
from overlimit.http.functions import is_set, shown
from overlimit.http.identified_by import Request, reading
from overlimit.http.identities import Anonymous, Identify
from overlimit.http.made_names import MadeNames
from overlimit.http.options import Dynamic, LimitOptions, ReadLimits, counted_method, hashable, is_dynamic
from overlimit.http.plan import MOST_PLANS
from overlimit.http.policy_names import policy_name, shown_name
from overlimit.http.rules import Choice, Role, Rule, Terms, VaryingLimiter
from overlimit.limiter import OnError
from overlimit.limits import Limit, LimitsLike, as_limits
from overlimit.stores import Store

__all__ = ["Forget", "Maker", "Origin", "Placed"]

Forget = Callable[[Limiter], None]
"""Makes a limiter forget somebody, or everybody."""


class Origin(NamedTuple):
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


class Maker(NamedTuple):
    """Makes the rules of one RateLimit: what they have in common unless their options say otherwise."""

    store: Store
    clock: ClockLike | None
    prefix: str
    read: ReadLimits
    identify: Identify
    on_error: OnError
    local_share: float
    on_breach: Callable[[Decision], object] | None
    in_fields: bool
    anonymous: Anonymous
    request: Request
    """Reads what ready-made identifiers go by."""
    request_identifier: Callable[[], str] | None
    """Says instead of the endpoint what a request asks for."""
    made: MadeNames
    """The names of the policies it has made."""

    def forget(self, names: Iterable[str], endpoint: str | None, forget: Forget) -> None:
        """Give a fresh start under policies of these names, and under those it has made lately.

        Of the latter only those that count ``endpoint`` alone, if it is given.

        Raises
        ------
        StoreError
            The store cannot answer.
        """
        made = self.made if endpoint is None else self.made.of_endpoint(endpoint)
        for name in dict.fromkeys((*names, *made)):
            # Of any limits: the name says what is forgotten, and "local" that this process forgets its part.
            any_limits = as_limits("1/second")
            forget(VaryingLimiter(any_limits, name=name, store=self.store, on_error="local"))

    def place(self, options: LimitOptions, origin: Origin, role: Role = Role.ENFORCE) -> Iterator[Placed]:
        """Yield what each policy of these options is where it is put."""
        origin = _by_method(origin) if options.per_method else origin
        for number, part in enumerate(options.parts):
            place = origin
            if number:
                place = origin._replace(kind=f"{origin.kind}-member", parts=(*origin.parts, str(number)))
            by_numbers = is_dynamic(part) and not self.counts_per_endpoint(options, place)
            yield Placed(self, options, place, role, part, by_numbers=by_numbers)

    def place_by_numbers(
        self, options: LimitOptions, origin: Origin, *, answers_apart: bool
    ) -> Iterator[Placed]:
        """Yield each limit of these options so that equal ones count together, wherever they are put.

        That is: under the same ``origin``, for the same ``identifiers`` and by the same ``name``. Of what a
        function names, what the same function names elsewhere; ``answers_apart`` says whether different
        numbers that it answers count apart.
        """
        if options.is_shared:
            yield from self.place(options, origin)
            return
        origin = _by_method(origin) if options.per_method else origin
        for part in options.parts:
            if is_dynamic(part):
                place = _beside(origin, options, "function", options.told_apart(part))
                yield Placed(self, options, place, Role.ENFORCE, part, by_numbers=answers_apart)
                continue
            limits = self.read(part, options.algorithm)
            for limit in limits:
                place = _beside(origin, options, limit._core_limit.tag, limit._numbers)
                label = limit.label if len(limits) > 1 else ""
                yield Placed(self, options, place, Role.ENFORCE, limit, label)

    def counts_per_endpoint(self, options: LimitOptions, origin: Origin) -> bool:
        """Tell whether limits of these options count the origin's endpoint alone."""
        return origin.counts_per_endpoint and not options.is_shared and self.request_identifier is None


class _Place(NamedTuple):
    """What is found out of a count's name during a request."""

    scope: str | None = None
    instead_of_endpoint: str | None = None


_MakeRule = Callable[[LimitsLike, _Place], Rule]


class Placed(NamedTuple):
    """One policy where it is put: all that is known of its rule before the request."""

    maker: Maker
    options: LimitOptions
    origin: Origin
    role: Role
    value: LimitsLike | Dynamic
    label: str = ""
    """Tells it from others of the same name in header fields."""
    by_numbers: bool = False
    """Whether limits with different numbers count apart."""

    def choice(self) -> Choice:
        """Return the rule, or a function that makes it during a request.

        Raises
        ------
        InvalidLimit
            The limits do not fit the algorithm.
        """
        value, scope = self.value, self.options.scope
        if is_dynamic(value) or callable(scope) or self.options.exempt_when or self._request_identifier():
            # Kept, since a limiter costs more than a request; bounded, since a request may choose the scope.
            return partial(self._choose, lru_cache(MOST_PLANS)(partial(self._rule, VaryingLimiter)))
        kind = VaryingLimiter if self.options.during_request else Limiter
        return self._rule(kind, value, _Place(scope))

    @property
    def shown(self) -> str:
        """The name it has in header fields."""
        scope = self.options.scope if self.options.is_shared else None
        name = shown_name(
            self.options.name or (scope if isinstance(scope, str) and scope else self.origin.shown)
        )
        return f"{name}:{self.label}" if self.label else name

    @property
    def limits(self) -> tuple[Limit, ...] | None:
        """The limits; None when a function names them during a request."""
        return None if is_dynamic(self.value) else self.maker.read(self.value, self.options.algorithm)

    def rule_now(self) -> Rule | None:
        """Return the rule as it is at this moment, whatever ``exempt_when`` would say; None: no limit.

        Functions that need a request raise here what they raise without one.
        """
        return self._found(partial(self._rule, VaryingLimiter))

    def policy_name_now(self) -> str:
        """Return the name its counts have at this moment; functions raise what they raise."""
        if self.options.is_shared:
            rule = self.rule_now()
            if rule is None:
                raise LookupError("no limit holds now, and the name of a shared count tells how it counts")
            return cast("str", rule.limiter.name)
        return self._policy_name((), self._place())

    def forget(self, identifier: str) -> None:
        """Give an identifier a fresh start where this counts at this moment, whatever the limits are.

        Functions raise what they raise; StoreError: the store cannot answer.
        """
        self._limiter(VaryingLimiter, as_limits("1/second"), self.policy_name_now()).reset(identifier)

    @property
    def counted_endpoint(self) -> str | None:
        """The endpoint that it counts alone; None: it counts several."""
        alone = self.maker.counts_per_endpoint(self.options, self.origin)
        return self.origin.endpoint if alone else None

    def _choose(self, rule: _MakeRule) -> Rule | None:
        exempt_when = self.options.exempt_when
        return None if exempt_when is not None and exempt_when() else self._found(rule)

    def _found(self, rule: _MakeRule) -> Rule | None:
        limits = self.value() if is_dynamic(self.value) else self.value
        if limits is None or not is_set(limits):
            return None
        place = self._place()
        try:
            return rule(hashable(limits), place)
        except InvalidLimit as error:
            if not is_dynamic(self.value):
                raise
            where = f" for {self.origin.endpoint!r}" if self.origin.endpoint else ""
            raise InvalidLimit(f"{shown(self.value)}{where}: {error}") from None

    def _place(self) -> _Place:
        scope, identifier = self.options.scope, self._request_identifier()
        found = str(scope(self.origin.endpoint)) if callable(scope) else scope
        return _Place(found, None if identifier is None else str(identifier()))

    def _request_identifier(self) -> Callable[[], str] | None:
        return self.maker.request_identifier if self.origin.counts_per_endpoint else None

    def _rule(self, kind: type[Limiter], value: LimitsLike, place: _Place) -> Rule:
        options, maker = self.options, self.maker
        limits = maker.read(value, options.algorithm)
        name = self._policy_name(limits, place)
        if self.by_numbers:
            limits = tuple(limit.counted_by_numbers() for limit in limits)
        limiter = self._limiter(kind, limits, name)
        hooks = tuple(hook for hook in (maker.on_breach, options.on_breach) if hook is not None)
        return Rule(
            limiter,
            reading(options.identifiers or maker.identify, maker.request),
            self.shown,
            Role.SHADOW if options.shadow and self.role is Role.ENFORCE else self.role,
            options.cost,
            Terms(options.deduct_when, hooks, options.error_message),
            maker.in_fields,
            (options.anonymous or maker.anonymous) == "exempt",
        )

    def _limiter(self, kind: type[Limiter], limits: tuple[Limit, ...], name: str) -> Limiter:
        self.maker.made.add(name, self.counted_endpoint)
        return kind(
            limits,
            name=name,
            store=self.maker.store,
            clock=self.maker.clock,
            on_error=self.options.on_error or self.maker.on_error,
            local_share=self.maker.local_share,
        )

    def _policy_name(self, limits: tuple[Limit, ...], place: _Place) -> str:
        kind, parts = self.origin.kind, self.origin.parts
        if self.options.is_shared:
            kind, parts = self._shared(limits, place.scope or "")
        elif place.instead_of_endpoint is not None:
            kind, parts = f"{kind}-of", (place.instead_of_endpoint, *parts[1:])
        if place.scope is not None and not self.options.is_shared:
            kind, parts = f"{kind}-scoped", (*parts, place.scope)
        return policy_name(kind, *parts, prefix=self.maker.prefix)

    # Limits of one scope that count differently may hold side by side, for the same identifiers.
    def _shared(self, limits: tuple[Limit, ...], scope: str) -> tuple[str, tuple[str, ...]]:
        what = (
            self.options.told_apart(self.options.identifiers),
            self.options.shadow,
            *sorted(str(limit._core_limit.tag) for limit in limits),
        )
        parts = (scope, hashlib.sha256(ascii(what).encode()).hexdigest()[:8])
        if not self.options.per_method:
            return "shared", parts
        return "shared-by-method", (*parts, counted_method(self.origin.method))


def _by_method(origin: Origin) -> Origin:
    parts = (*origin.parts, counted_method(origin.method))
    return origin._replace(kind=f"{origin.kind}-by-method", parts=parts)


def _beside(origin: Origin, options: LimitOptions, *what: object) -> Origin:
    """Return the place of a limit among those put to the same origin; ``what`` tells it from them."""
    apart = (options.told_apart(options.identifiers), options.shadow, options.name, *what)
    return origin._replace(parts=(*origin.parts, hashlib.sha256(ascii(apart).encode()).hexdigest()[:8]))
