"""One call to a store: which rules it decides for a request, and what header fields show of the answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice, product
from typing import TYPE_CHECKING, Any

from overlimit import _core
from overlimit._core import Decision
from overlimit.budgets import WAITS
from overlimit.http.answering.fields import (
    POLICY,
    RATE,
    HeaderNames,
    Item,
    RawFields,
    distinct,
    legacy_fields,
    paced,
    policy_field,
    raw,
    raw_name,
)
from overlimit.http.callables import StandsForFunctions, as_cost, awaited_in, truth_of
from overlimit.http.deciding.steps import Call, Steps, asking, awaiting
from overlimit.http.identifying.identifiers import (
    FromFunctions,
    IdentifierCache,
    Identify,
    ReadsRequest,
    as_identifiers,
)
from overlimit.http.options.limit_options import Cost
from overlimit.http.rules.count_names import CountName
from overlimit.http.rules.counts import Role
from overlimit.http.rules.rule import ResolvedRule
from overlimit.limiter import Limiter, UnregisteredLimiter
from overlimit.limits import Limit
from overlimit.waiting import wake_after_refund

if TYPE_CHECKING:
    from overlimit.http.rules.app_rate_limits import AppRateLimit

ItemKeys = tuple[tuple[str, ...] | None, ...]
"""Per rule the text before the state of each of its limits; None for a rule that is not shown."""

_RAW_RATE = raw_name(RATE)

_BY_STRICTNESS = ("allow", "local", "deny", "raise")


class StoreCall:
    """Resolved rules on one store, with everything worked out that is the same for each request.

    ``rate_limits`` are those that it decides for; either all of them or none are in shadow. Rules of one
    policy are joined. Where one of several budgets is charged, there is a call for each, and the first of
    them is asked for all (`first_call`). ``policy_field`` is the value of ``RateLimit-Policy``, empty without
    ``items``. ``legacy_names`` are the names of the ``X-RateLimit-*`` fields; None: they are not sent.
    """

    others: tuple[StoreCall, ...] = ()
    """The calls for the other budgets, in order."""

    def __init__(self, rate_limits: tuple[AppRateLimit, ...], rules: Iterable[ResolvedRule]) -> None:
        """Build a call from at least one RateLimit and one rule."""
        self.rate_limits = rate_limits
        self.rules = _join_policies(rules)
        self.refunding = max((rule.limiter for rule in self.rules), key=_strictness)
        """The limiter that refunds: as for decisions, the strictest says what happens when that fails."""
        self.settled = tuple(rule.limiter for rule in self.rules if rule.has_cost)
        """The limiters of what has a cost."""
        self._core_rules = tuple(
            (each.limiter, each.identify, each.cost, int(each.role)) for each in self.rules
        )
        self._read_from_request = tuple(
            each.identify for each in self.rules if isinstance(each.identify, ReadsRequest)
        )
        roles = {rule.role for rule in self.rules}
        self.has_shadows = Role.SHADOW in roles
        self.enforces = Role.ENFORCE in roles
        self.in_shadow = rate_limits[0].shadow
        self.items = _renamed(item for rule in self.rules if rule.in_fields for item in rule.items())
        self._names = _names(self.rules, self.items)
        self._buckets = _buckets(self.items)
        self.policy_field = policy_field(self.items)
        self._policy = (POLICY, self.policy_field)
        (self._raw_policy,) = raw([self._policy])
        self._item_keys = _item_keys(self.rules, self.items)
        concerns_client = not self.in_shadow and (
            self.enforces or not all(rule.is_reported for rule in self.rules)
        )
        legacy = (
            each.legacy_names for each in rate_limits if concerns_client and each.legacy_names is not None
        )
        self.legacy_names: HeaderNames | None = next(legacy, None)
        self.refundable = tuple(i for i, rule in enumerate(self.rules) if rule.deduct_when is not None)
        of_request = (function for rule in self.rules for function in (rule.identify, rule.cost))
        self._awaits = any(awaited_in(of_request))

    def choosing(self, identifiers: IdentifierCache) -> Steps[tuple[StoreCall, Decision]]:
        """Decide by the first of several budgets that admits the request, or by the refusal that ends first.

        Leaves it to the caller to wait, for coroutine functions too.
        """
        if not self.others:
            asked = Call(partial(self.decide, identifiers), partial(self.decide_later, identifiers))
            return self, (yield from self._deciding(identifiers, asked))
        refused: list[tuple[StoreCall, Decision]] = []
        *earlier, last = enumerate((self, *self.others))
        are_used_up = yield from last[1]._meta_limits_used_up(identifiers)
        for place, call in [*([] if are_used_up else earlier), last]:
            asked = call._trying(identifiers, None if call is last[1] else WAITS, place)
            decision = yield from call._deciding(identifiers, asked)
            if decision:
                return call, decision
            refused.append((call, decision))
        call, decision = min(refused, key=lambda each: each[1].retry_after)
        _core._note_refusal(tuple(rule.limiter for rule in call.rules), decision)
        return call, decision

    def _meta_limits_used_up(self, identifiers: IdentifierCache) -> Steps[bool]:
        """Whether its meta limits refuse everything, so that no other budget is to be asked."""
        metas = [rule for rule in self.rules if rule.role is Role.ON_REFUSAL]
        yield from awaiting((rule.identify for rule in metas), *identifiers.request.arguments)
        charges = [(rule.limiter, name, 1) for rule in metas for name in identifiers[rule.identify]]
        return bool(charges) and not (yield asking(_core._peek_all_within, tuple(charges), None))

    def _deciding(self, identifiers: IdentifierCache, asked: Call) -> Steps[Decision]:
        if self._awaits:
            arguments = identifiers.request.arguments
            for rule in self.rules:
                if rule.identify not in identifiers:
                    yield from awaiting((rule.identify,), *arguments)
                yield from awaiting((rule.cost,), *arguments)
        decision: Decision = yield asked
        return decision

    def _trying(self, identifiers: IdentifierCache, patience: float | None, place: int) -> Call:
        def trying(ask: Callable[..., Any], *operation: Any) -> Any:
            for identify in self._read_from_request:
                identifiers[identify]
            arguments = identifiers.request.arguments
            return ask(*operation, self._core_rules, identifiers, as_identifiers, arguments, patience, place)

        return Call(partial(trying, _core._try_request), partial(trying, _core._later, _core._try_request))

    def decide(self, identifiers: IdentifierCache) -> Decision:
        """Charge a request; raise StoreError as ``on_error`` says, or what a cost or identifier raises."""
        for identify in self._read_from_request:
            identifiers[identify]
        # The core calls the other functions, and those that return a cost: that is the fast path.
        return _core._decide_request(
            self._core_rules, identifiers, as_identifiers, identifiers.request.arguments
        )

    def decide_later(self, identifiers: IdentifierCache) -> Any:
        """Decide as `decide` does; return a PendingCall if an event loop has to wait for the answer."""
        for identify in self._read_from_request:
            identifiers[identify]
        return _core._later(
            _core._decide_request,
            *(self._core_rules, identifiers, as_identifiers, identifiers.request.arguments),
        )

    def fields(self, decision: Decision) -> list[tuple[str, str]]:
        """Return the header fields that show a decision of this call; none if no store made it."""
        state = _core._rate_field(self._item_keys, decision)
        if self._buckets:
            state = paced(state, self._buckets)
        fields = [self._policy, (RATE, state)] if state else []
        if self.legacy_names is not None:
            fields += legacy_fields(decision, self.legacy_names)
        return fields

    def raw_fields(self, decision: Decision) -> RawFields:
        """Return what `fields` does in bytes, with the names in lower case."""
        state = _core._raw_rate_field(self._item_keys, decision)
        if self._buckets:
            state = paced(state.decode(), self._buckets).encode()
        fields: RawFields = (self._raw_policy, (_RAW_RATE, state)) if state else ()
        if self.legacy_names is not None:
            fields += raw(legacy_fields(decision, self.legacy_names))
        return fields

    def refund(self, decision: Decision) -> Steps[None]:
        """Refund what it charged."""
        yield asking(_core.Limiter.refund, self.refunding, decision)
        self._wake_waiters(decision)

    def settling(self, decision: Decision, used: int) -> Steps[None]:
        """Make what it charged under limits that have a cost what was used.

        One call charges what was too little, and one gives back what was too much; where there is nothing to
        do, no store is asked.
        """
        about = self.settled, decision, used
        yield asking(_core._settle_more, *about)
        yield asking(_core._settle_rest, *about)
        self._wake_waiters(decision)

    def _wake_waiters(self, decision: Decision) -> None:
        """Let those that wait in this process ask for what was given back."""
        wake_after_refund(self.refunding.store, decision)

    def refund_part(self, decision: Decision, charges: list[int]) -> Steps[None]:
        """Refund some of its charges."""
        yield asking(_core.Limiter._refund_part, self.refunding, decision, charges)
        self._wake_waiters(decision)

    def names_of(self, rule: ResolvedRule) -> list[str]:
        """Return the names that header fields give to the limits of one of its rules."""
        return self._names[id(rule)]

    def awaiting_uncounted(self, response: Any, identifiers: IdentifierCache) -> Steps[None]:
        """Await the ``deduct_when`` that are coroutine functions, for `uncounted`."""
        functions = [self.rules[index].deduct_when for index in self.refundable]
        yield from awaiting(functions, response, *identifiers.request.arguments)

    def uncounted(self, response: Any, identifiers: IdentifierCache) -> tuple[list[int], Exception | None]:
        """Return the charges whose ``deduct_when`` is false, and the first exception of a ``deduct_when``."""
        charges: list[int] = []
        raised: Exception | None = None
        for index in self.refundable:
            try:
                charges += self._uncounted_charges(index, response, identifiers)
            except Exception as error:
                raised = raised or error
        return charges, raised

    def _uncounted_charges(self, index: int, response: Any, identifiers: IdentifierCache) -> range:
        deduct_when = self.rules[index].deduct_when
        if deduct_when is None:
            return range(0)
        if truth_of(deduct_when, deduct_when(response, *identifiers.request.arguments)):
            return range(0)
        first = sum(len(identifiers[rule.identify]) for rule in self.rules[:index])
        return range(first, first + len(identifiers[self.rules[index].identify]))


def first_call(rate_limits: tuple[AppRateLimit, ...], rules: Sequence[ResolvedRule]) -> StoreCall:
    """Return the call for these rules: of several budgets the first, which knows those for the others.

    Only the last has the meta limits, as only what it refuses is refused.
    """
    *ways, last = _ways(rules)
    without = ([rule for rule in own if rule.role is not Role.ON_REFUSAL] for own in ways)
    first, *others = (StoreCall(rate_limits, own) for own in (*without, last))
    first.others = tuple(others)
    return first


def _ways(rules: Sequence[ResolvedRule]) -> Iterator[list[ResolvedRule]]:
    """Yield the rules that hold for each choice of budgets, in the order of these."""
    places: dict[CountName, list[int]] = {}
    for rule in rules:
        if rule.entry is not None:
            places.setdefault(rule.entry.of, []).append(rule.entry.place)
    for chosen in product(*places.values()):
        choice = dict(zip(places, chosen, strict=True))
        yield [each for each in rules if each.entry is None or choice[each.entry.of] == each.entry.place]


def rate_fields(decided: Iterable[tuple[StoreCall, Decision | None]]) -> list[tuple[str, str]]:
    """Return ``RateLimit-Policy`` and ``RateLimit`` for all calls that decided a request; none without items.

    A call without a decision is not shown, but its names stay reserved, so that the others keep theirs.
    """
    named = [(call, decision) for call, decision in decided if call.items]
    items = iter(_renamed(item for call, _ in named for item in call.items))
    policies, states = [], []
    for call, decision in named:
        own = tuple(islice(items, len(call.items)))
        if decision is not None:
            policies.append(policy_field(own))
            state = _core._rate_field(_item_keys(call.rules, own), decision)
            states.append(paced(state, _buckets(own)))
    return [(POLICY, ", ".join(policies)), (RATE, ", ".join(states))] if policies else []


def _buckets(items: Iterable[Item]) -> dict[str, Item]:
    """Return the items of buckets by their keys."""
    return {item.key: item for item in items if item.refills}


def _item_keys(rules: Iterable[ResolvedRule], items: Iterable[Item]) -> ItemKeys:
    """Return the texts before the states, by rule; ``items`` are those of the rules that are shown."""
    texts = iter([f"{item.key};r=" for item in items])
    return tuple(
        tuple(next(texts) for _ in rule.limiter.limits) if rule.in_fields else None for rule in rules
    )


def _names(rules: Iterable[ResolvedRule], items: Iterable[Item]) -> dict[int, list[str]]:
    """Return the names of the limits of each rule, by its id; a rule that is not shown keeps its own."""
    of_fields = iter(items)
    return {
        id(rule): [
            item.name
            for item in (islice(of_fields, len(rule.limiter.limits)) if rule.in_fields else rule.items())
        ]
        for rule in rules
    }


def _renamed(items: Iterable[Item]) -> tuple[Item, ...]:
    """Return the items with names that are unique within one header."""
    given = tuple(items)
    names = distinct(item.name for item in given)
    return tuple(item._replace(name=name) for item, name in zip(given, names, strict=True))


def _join_policies(rules: Iterable[ResolvedRule]) -> tuple[ResolvedRule, ...]:
    by_name: dict[str | None, ResolvedRule] = {}
    for rule in rules:
        name = rule.limiter.name
        by_name[name] = _join_rules(by_name[name], rule) if name in by_name else rule
    return tuple(by_name.values())


def _join_rules(one: ResolvedRule, other: ResolvedRule) -> ResolvedRule:
    """Merge rules of one policy: strictest limits, highest cost, all hooks; either makes a request count."""
    joined = _join_limiters(one.limiter, other.limiter)
    return one._replace(
        limiter=joined if one.counts is None else one.counts.keep(joined),
        identify=_all_of(one.identify, other.identify),
        cost=_highest(one.cost, other.cost),
        has_cost=one.has_cost or other.has_cost,
        deduct_when=_either(one.deduct_when, other.deduct_when),
        on_breach=tuple(dict.fromkeys((*one.on_breach, *other.on_breach))),
        error_message=one.error_message or other.error_message,
        in_fields=one.in_fields or other.in_fields,
    )


def _join_limiters(one: Limiter, other: Limiter) -> Limiter:
    """Return a limiter with the limits of both, and the stricter of two limits that share a count."""
    by_count = _by_count(one)
    for count, limit in _by_count(other).items():
        by_count[count] = min(by_count.get(count, limit), limit, key=lambda each: (each.quota, -each.window))
    strictest = max(one, other, key=_strictness)
    penalties = [each.penalty for each in (one, other) if each.penalty is not None]
    return UnregisteredLimiter(
        list(by_count.values()),
        name=one.name,
        store=one.store,
        penalty=max(penalties, key=lambda each: each.levels, default=None),
        clock=one.clock,
        on_error=strictest.on_error,
        local_share=one.local_share,
    )


def _strictness(limiter: Limiter) -> int:
    return _BY_STRICTNESS.index(limiter.on_error)


def _by_count(limiter: Limiter) -> dict[tuple[int, int], Limit]:
    """Return the limits by their tags, and by a number among limits of the same tag."""
    alike: Counter[int] = Counter()
    found = {}
    for limit in limiter.limits:
        tag = limit.tag
        found[tag, alike[tag]] = limit
        alike[tag] += 1
    return found


def _all_of(one: Identify, other: Identify) -> Identify:
    """Return what reads the identifiers of both, each of which may return none."""
    return one if one == other else FromFunctions((one, other), as_identifiers)


def _highest(one: Cost, other: Cost) -> Cost:
    if isinstance(one, int) and isinstance(other, int):
        return max(one, other)
    return _Highest((one, other))


class _Highest(StandsForFunctions):
    """Returns the higher of two costs, of which one may be a number."""

    def __call__(self, *arguments: Any) -> int:
        return max(
            cost if isinstance(cost, int) else as_cost(cost, cost(*arguments)) for cost in self.made_of
        )


def _either(
    one: Callable[..., object] | None, other: Callable[..., object] | None
) -> Callable[..., object] | None:
    return None if one is None or other is None else _Either((one, other))


class _Either(StandsForFunctions):
    """Returns whether one of two functions returns true, and calls both."""

    def __call__(self, *arguments: Any) -> bool:
        results = [truth_of(function, function(*arguments)) for function in self.made_of]
        return any(results)
