"""When a client sends a request, and when it sends it again, whatever library it uses; without any I/O.

Each try waits for its turn by the limiters of the client, and for as long as the server has asked. A refusal
that names a time holds back all requests to its host for that time, and is answered by another try after it.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypedDict, TypeVar

from overlimit._core import Decision
from overlimit._messages.arguments import check_options
from overlimit._messages.texts import short_repr
from overlimit._options import whole_number
from overlimit._patterns import methods_of
from overlimit._steps import Steps
from overlimit.errors import RateLimitExceeded
from overlimit.http.client_options import (
    CLIENT_OPTIONS,
    HINTS,
    IDEMPOTENT,
    ClientKeywords,
    Cost,
    Identify,
    Settle,
    complete,
    host_of,
    several,
)
from overlimit.http.fields import ServerLimits, parse, waiting_time
from overlimit.http.held_back import HeldBack
from overlimit.http.learning import Learning, LearntStats
from overlimit.http.received import Ended, Received
from overlimit.limiter import Limiter
from overlimit.stores.kinds import state_key
from overlimit.waiting.acquiring import acquire_all

if TYPE_CHECKING:
    from typing_extensions import Unpack

_LONGEST = 1e9
"""Seconds that time.sleep can sleep: 30 years."""
_LONGEST_LOCK = 5e8

_log = logging.getLogger("overlimit")

Charge = tuple[Limiter, "str | bytes", int]
"""What a limiter is to charge an identifier."""


class SentRequest(Protocol):
    """A request, as each library has it."""

    @property
    def method(self) -> str | None:
        """The HTTP method."""

    @property
    def url(self) -> Any:
        """What the whole URL is the text of."""


class GotResponse(Protocol):
    """A response, as each library has it."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The header fields."""


R = TypeVar("R", bound=GotResponse)

Call = Callable[[], Any]
"""Does something; whoever calls it may have to await what it returns."""


class Waiting(NamedTuple):
    """How a library waits; on an event loop, what these return is awaited."""

    sleep: Callable[[float], Any]
    acquire: Callable[[list[Charge], float | None], Any]
    """Waits for a turn, as `acquire_all` does."""
    ask: Callable[..., Any]
    """Calls a method of a Limiter: ``ask(Limiter.refund, limiter, decision)``."""


def _ask(method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    return method(*arguments, **named)


def _acquire(charges: list[Charge], timeout: float | None) -> Decision:
    (limiter, identifier, cost), *others = charges
    if others:
        return acquire_all(charges, timeout)
    return limiter.acquire(identifier, cost=cost, timeout=timeout)  # which mostly is faster


IN_THREADS = Waiting(time.sleep, _acquire, _ask)
"""How threads wait."""


@dataclass(frozen=True, eq=False)
class Exchange(Generic[R]):
    """What a library does for one request."""

    request: SentRequest
    can_repeat: bool
    """Whether the body can be read again."""
    send: Call
    """Sends the request, and returns the response."""
    close: Callable[[R], Any]
    """Lets go of a response that nobody reads; if it is returned after all, its body is empty."""
    record: Callable[[R, Ended], Any]
    """Has something done with the body of a response when it has ended or is closed; returns the response."""
    waiting: Waiting
    error: Callable[[Decision], RateLimitExceeded]
    """What is raised when the turn of a request comes too late or never."""
    status_of: Callable[[R], int] = attrgetter("status_code")


class ClientStats(TypedDict):
    """What ``stats()`` of a client returns."""

    learnt: dict[str, LearntStats]
    """What is learnt with ``learn=True``, by host."""


class Budget(NamedTuple):
    """A limiter, whom it limits, what a request costs it, and what says what it came to."""

    limiter: Limiter
    identifiers: tuple[Identify, ...]
    cost: Cost = 1
    settle: Settle | None = None

    def spent_by(self, request: SentRequest) -> Spent:
        """Return what a request is to spend of it."""
        found: list[str | bytes] = []
        for given in self.identifiers:
            found.extend(several(given(request) if callable(given) else given))
        if not found:
            raise ValueError("identifiers must name who is limited, and their function has returned none")
        cost = self.cost(request) if callable(self.cost) else self.cost
        return Spent(self.limiter, tuple(dict.fromkeys(found)), cost, self.settle)


class Spent(NamedTuple):
    """What one request spends of a budget."""

    limiter: Limiter
    identifiers: tuple[str | bytes, ...]
    cost: int
    settle: Settle | None

    def charges(self) -> list[Charge]:
        """Return it as `acquire_all` takes it."""
        return [(self.limiter, identifier, self.cost) for identifier in self.identifiers]

    def at_most(self, limiter: Limiter) -> Spent:
        """Return the same of a limiter of smaller numbers, which cannot grant more than these."""
        number, quota = (min(each.quota for each in of.limits) for of in (limiter, self.limiter))
        cost = min(self.cost, number) if number < self.cost <= quota else self.cost
        return self._replace(limiter=limiter, cost=cost)


class Turn(NamedTuple):
    """The turn of one try of a request."""

    decision: Decision
    spent: tuple[Spent, ...]
    seen: int
    """How many refusals were known when it came."""


class Turns:
    """Whose turn a request waits for, and how long a server may ask a client to wait.

    Raises TypeError or ValueError for a wrong option. ``as_limiter`` returns the Limiter that is meant by one
    of ``budgets``.
    """

    def __init__(
        self,
        owner: str,
        limiter: Limiter,
        as_limiter: Callable[[Any], Limiter],
        **options: Unpack[ClientKeywords],
    ) -> None:
        check_options(owner, options, CLIENT_OPTIONS, HINTS)
        said = complete(options)
        own = Budget(limiter, several(said["identifiers"]), said["cost"], said["settle"])
        others = ((as_limiter(given), several(who), *rest) for given, who, *rest in said["budgets"])
        self._budgets = (own, *(Budget(*each) for each in others))
        if len({id(each.limiter) for each in self._budgets}) < len(self._budgets):
            raise ValueError("each budget must have a limiter of its own, other than that of the client")
        if len({state_key(each.limiter.store) for each in self._budgets}) > 1:
            raise ValueError("the limiters of budgets must be on the store of the client's limiter")
        self._retries = said["retries"]
        self._methods = methods_of(said["methods"]) or IDEMPOTENT
        self._max_wait = min(said["max_wait"], _LONGEST)
        self._statuses, self._timeout = said["statuses"], said["timeout"]
        self._holds = HeldBack()
        of_tokens = own.cost != 1 or own.settle is not None
        self._learning = Learning(limiter, of_tokens=of_tokens) if said["learn"] else None

    def stats(self) -> ClientStats:
        """Return what is learnt of each host."""
        return {"learnt": self._learning.stats() if self._learning else {}}

    def sending(self, exchange: Exchange[R]) -> Steps[Call, R]:
        """Make as many tries as it takes, and return the last response."""
        return _Sending(self, exchange).tries()


class _Sending(Generic[R]):
    """The tries of one request."""

    def __init__(self, turns: Turns, exchange: Exchange[R]) -> None:
        self._turns, self._exchange, self._waiting = turns, exchange, exchange.waiting
        self._holds, self._learning = turns._holds, turns._learning
        self._host = host_of(exchange.request)
        self._spent = tuple(each.spent_by(exchange.request) for each in turns._budgets)

    def tries(self) -> Steps[Call, R]:
        """Make as many as it takes, and return the last response."""
        exchange, refused = self._exchange, None
        may_repeat = exchange.can_repeat and exchange.request.method in self._turns._methods
        retries = self._turns._retries if may_repeat else 0
        while True:
            try:
                turn = yield from self._turn()
                response: R = yield exchange.send
                is_refusal = yield from self._judging(response)
                asks_again = yield from self._heard(turn, response, is_refusal)
            except RateLimitExceeded:
                if refused is None:
                    raise
                return refused
            finally:
                self._holds.end(self._host, exchange)
            if is_refusal:
                yield from self._giving_back(turn)
            if not asks_again or retries == 0 or (yield from self._is_too_late()):
                break
            retries, refused = retries - 1, response
            yield partial(exchange.close, response)
        if is_refusal or not any(each.settle for each in self._spent):
            return response
        recorded: R = yield partial(exchange.record, response, partial(self._ended, turn, response))
        return recorded

    def _asking(self, method: Callable[..., Any], *arguments: Any, **named: Any) -> Call:
        return partial(self._waiting.ask, method, *arguments, **named)

    def _turn(self) -> Steps[Call, Turn]:
        """Wait until the host takes requests and it is the client's turn, both at once."""
        timeout = self._turns._timeout
        until = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            yield from self._waiting_for_host(until)
            own, others = self._now()
            charges = [charge for each in own for charge in each.charges()] + others
            longest = self._learning.period if self._learning else math.inf
            left = max(0.0, min(until - time.monotonic(), longest))
            decision: Decision = yield partial(
                self._waiting.acquire, charges, None if left == math.inf else left
            )
            if decision and self._holds.seconds_left(self._host) == 0:
                return Turn(
                    decision, own, self._learning.begin(self._host, decision) if self._learning else 0
                )
            self._holds.end(self._host, self._exchange)
            if decision:
                yield self._asking(Limiter.refund, own[0].limiter, decision)
            else:
                yield from self._learning_meanwhile(own, decision, until)

    def _is_too_late(self) -> Steps[Call, bool]:
        """Whether it is known that the turn of another try comes too late."""
        timeout = self._turns._timeout
        if timeout is None:
            return False
        own, held = self._now()[0][0], self._holds.seconds_left(self._host)
        peeked: Decision = yield self._asking(Limiter.peek, own.limiter, *own.identifiers, cost=own.cost)
        return bool(0 < held >= timeout or peeked._ready_after > timeout)

    def _learning_meanwhile(
        self, own: tuple[Spent, ...], refusal: Decision, until: float
    ) -> Steps[Call, None]:
        """Go on waiting, as others do without whose refusals this one may wait for less; or raise."""
        left = until - time.monotonic()
        is_never = refusal.status == "never"
        is_capped = is_never and self._now()[0] != own
        if self._learning is None or ((is_never or refusal.retry_after > left) and not is_capped):
            raise self._exchange.error(refusal)
        self._learning.begin(self._host, refusal)
        self._learning.passed(self._host)
        if not is_capped:
            yield partial(self._waiting.sleep, min(refusal.retry_after, self._learning.period, left))

    def _now(self) -> tuple[tuple[Spent, ...], list[Charge]]:
        """Return what is to be spent by what is learnt now, and what only reads the refusals of all."""
        if self._learning is None:
            return self._spent, []
        own = self._spent[0].at_most(self._learning.limiter_of(self._host))
        return (own, *self._spent[1:]), [(self._learning.refusals, self._host, 0)]

    def _waiting_for_host(self, until: float) -> Steps[Call, None]:
        while (wait := self._holds.begin(self._host, self._exchange)) > 0:
            left, held = until - time.monotonic(), self._holds.seconds_left(self._host)
            if left <= held:
                own = self._spent[0]
                peeked: Decision = yield self._asking(Limiter.peek, own.limiter, *own.identifiers)
                raise self._exchange.error(peeked._postponed(math.ceil(max(held, wait) * 1e6), 0))
            yield partial(self._waiting.sleep, min(wait, left))

    def _judging(self, response: R) -> Steps[Call, bool]:
        """Return whether a response is a refusal; let go of it if a function of the app fails to say so."""
        statuses = self._turns._statuses
        if not callable(statuses):
            return self._exchange.status_of(response) in statuses
        try:
            return bool(statuses(response))
        except BaseException:
            yield partial(self._exchange.close, response)
            raise

    def _heard(self, turn: Turn, response: R, is_refusal: bool) -> Steps[Call, bool]:
        """Note what the server says, and return whether it asks for another try."""
        if not is_refusal and self._exchange.status_of(response) // 100 != 2:
            return False
        said = parse(response.headers)
        wait = self._hold(said, is_refusal)
        if self._learning is not None:
            self._learning.follow(self._host, said.limits)
            if is_refusal:
                is_new = self._learning.refused(self._host, turn.seen, said.limits)
                yield from self._telling(self._learning, turn, wait, is_new)
            else:
                self._learning.passed(self._host)
        return is_refusal and wait is not None and wait <= self._turns._max_wait

    def _hold(self, said: ServerLimits, is_refusal: bool) -> float | None:
        """Hold a host back for as long as it asks, up to ``max_wait``; return that time, or None."""
        has_no_end = is_refusal and any(each.has_no_end for each in said.limits)
        guess = self._holds.guess(self._host) if has_no_end else 0.0
        wait = waiting_time(said, is_refusal=is_refusal, unsaid=guess or 1.0)
        if wait is not None:
            held = min(wait, self._turns._max_wait)
            self._holds.hold(self._host, held, guess if wait == guess else 0.0)
        elif not is_refusal:
            left = (limit.remaining for limit in said.limits if limit.remaining)
            self._holds.allow(self._host, min(left, default=0))
        return wait

    def _telling(self, learning: Learning, turn: Turn, wait: float | None, is_new: bool) -> Steps[Call, None]:
        """Have the processes that share the store learn of a refusal if it is new, and wait as well."""
        host, refusals = self._host, learning.refusals
        try:
            if is_new:
                known: Decision = yield self._asking(Limiter.peek, refusals, host, cost=0)
                if not known.details or learning.count_in(known) <= turn.seen:
                    yield self._asking(Limiter.charge, refusals, host)
            held = min(wait or 0.0, self._turns._max_wait, _LONGEST_LOCK)
            if held and refusals.store.is_shared:
                yield self._asking(Limiter.lock, refusals, host, held)
        except Exception:
            _log.warning("other processes may not know that %s has refused a request", host, exc_info=True)

    def _giving_back(self, turn: Turn) -> Steps[Call, None]:
        """Have a refused try cost its turn only."""
        for each in turn.spent:
            if each.cost > 1:
                yield from self._settling(turn, each, lambda: 1)

    def _ended(self, turn: Turn, response: R, content: bytes) -> Steps[Call, None]:
        """Settle what a request came to, now that its response has ended."""
        received = Received(self._exchange.status_of(response), response.headers, content)
        for each in turn.spent:
            if each.settle is not None:
                yield from self._settling(turn, each, partial(each.settle, received))

    def _settling(self, turn: Turn, spent: Spent, cost_of: Callable[[], int | None]) -> Steps[Call, None]:
        try:
            cost = cost_of()
            if cost is not None:
                if whole_number(cost) is None:
                    raise TypeError(f"settle must return a whole number or None, not {short_repr(cost)}")
                yield self._asking(Limiter.settle, spent.limiter, turn.decision, cost)
        except Exception:
            _log.warning("a request could not be settled: what was charged stays", exc_info=True)


def checked_limiter(kind: type[Limiter], wanted: str, given: Any, hint: str = "") -> Limiter:
    """Return a limiter of this kind; raise TypeError for all else."""
    if isinstance(given, kind):
        return given
    raise TypeError(f"limiter must be {wanted}, not {short_repr(given)}{hint}")
