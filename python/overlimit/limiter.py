"""The Limiter: limits, a name and a store, asked with hit()."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from overlimit import _core, waiting
from overlimit._display import html_table
from overlimit._logging.limiters import Namesakes, announced, register, renew
from overlimit._messages.arguments import checks_arguments
from overlimit._messages.migration_hints import (
    OF_ACQUIRE,
    OF_LIMITER,
    OPTIONS_OF_LIMITER,
    OPTIONS_OF_THROTTLE,
    TIMEOUT_OF_STORE,
    HintingType,
    add_hints,
    there,
)
from overlimit._messages.texts import nearest, short_repr
from overlimit.clocks import ClockLike
from overlimit.decisions import Decisions, as_column
from overlimit.errors import InvalidLimit
from overlimit.leasing import note_unleased
from overlimit.limits import Limit, as_limits
from overlimit.limits.penalty import Penalty
from overlimit.limits.quantities import Rate, Seconds, micros, neat, share_of_all
from overlimit.stores import StoreLike, as_store, url_or_store
from overlimit.stores.kinds import state_key
from overlimit.stores.memory import local_fallback_of, local_limits
from overlimit.waiting.queues import QueuedLimiter
from overlimit.waiting.throttled_calls import CallCost, CallIdentifier
from overlimit.waiting.throttling import Throttle

if TYPE_CHECKING:
    from overlimit._core import Decision
    from overlimit.limits import LimitsLike
    from overlimit.limits_file import FilePath, FilePolicy, LimitsFile

OnError: TypeAlias = Literal["raise", "allow", "deny", "local"]
"""What ``on_error=`` takes."""

IdentifierRows: TypeAlias = "Iterable[str | bytes | Sequence[str | bytes]]"
"""What ``hit_many`` takes: an identifier for each call, or several."""


_MOST_DERIVED = 1024
"""So many limiters under other limits each limiter keeps."""

_SETTLE = "write limiter.settle(decision, cost), with what the call cost in the end"


class Limiter(QueuedLimiter, metaclass=HintingType):
    """Decides whether identifiers may spend a cost under several limits, all or nothing.

    Parameters
    ----------
    limits
        A string such as ``"10/second; 120/minute; 240/hour"``, a limit, a ``(duration, limit[, precision])``
        tuple with durations in seconds, or a list of these; 1 to 16 limits.
    name
        The name under which the store keeps the counts: limiters of one name on one store share them, also in
        other processes, and a limiter that is made again with its name continues with them. Without a name a
        limiter has counts of its own, which end with it. A store that other processes see, such as Redis,
        needs a name.
    store
        ``"memory://"`` (this process), ``"shm://myapp"`` (all processes of this host),
        ``"sqlite:///limits.db"``, ``"postgresql://host/db"``, ``"redis://host:port/db"``,
        ``"unix:///path"``, or a store object.
    algorithm
        What strings and tuples mean: the name of an algorithm such as ``"fixed_window"``. By default sliding
        windows, or a token bucket where the text says ``burst``, a leaky one where it says ``queue``.
    penalty
        A ``Penalty``: an identifier that goes over a limit is locked for a while, and longer each time.
    clock
        Where the time comes from: an object with ``now()`` or a callable, in float seconds. By default the
        store's own clock.
    on_error
        What ``hit``, ``peek``, ``hit_all``, ``acquire``, ``charge`` and ``settle`` answer when the store
        fails. ``"raise"``: they raise its StoreError. ``"allow"``: allowed. ``"deny"``: refused until the
        store is worth asking again. Under both, nothing is charged. ``"local"``: a memory store of this
        process decides, by the limits' ``local_share``, until the store answers. ``Decision.source`` says who
        decided. Wrong arguments are errors in any case.
    local_share
        What part of its limits this process grants with ``on_error="local"``: above 0 and at most 1. Limits,
        rates, bursts, capacities and debts are multiplied by it; the rate of a bucket that refills
        continuously is kept exactly, other numbers are rounded down, to 1 at least.
    on_decision
        Called with the Decision after every hit, also those of ``acquire`` and ``hit_all``. What it raises is
        logged.

    Notes
    -----
    Building one connects to nothing. Thread-safe. Raises InvalidLimit for wrong limits, and ValueError or
    TypeError for another wrong argument. A copied or unpickled limiter is another limiter: without a name it
    counts anew.
    """

    _derived: Callable[[LimitsLike], Limiter] | None = None
    """Returns the limiters under other limits, once there are any."""
    _is_derived = False

    @checks_arguments(
        synonyms=OPTIONS_OF_LIMITER,
        instead={
            "key": "write limiter.hit('user:42'), which takes the identifier of each call",
            "burst": "write it into the limits, as '20/minute burst 60'",
            "timeout": TIMEOUT_OF_STORE,
        },
        hint="write options by name, as name='login', several limits as one list, and 10 in 60 seconds as "
        "the tuple (60, 10)",
    )
    def __init__(
        self,
        limits: LimitsLike,
        *,
        name: str | None = None,
        store: StoreLike = "memory://",
        algorithm: str | None = None,
        penalty: Penalty | None = None,
        clock: ClockLike | None = None,
        on_error: OnError = "raise",
        local_share: Rate = 1.0,
        on_decision: Callable[[Decision], object] | None = None,
    ) -> None:
        given = as_limits(limits, algorithm)
        _check(name, penalty, on_decision)
        self._share = share_of_all(local_share, "local_share")
        own = local_limits(given, self._share)
        super().__init__(name, given, as_store(store, clock), clock, penalty, on_decision, on_error, own)
        self._algorithm = algorithm
        if on_error == "local" and self.store.waits:
            local_fallback_of(self.store)
        note_unleased(self)
        self._namesakes = self._register(name)
        self._family = object() if name is None else (state_key(self.store), name, _identity_of(clock))

    @classmethod
    def from_file(cls, path: FilePath, policy: str, **options: Any) -> Limiter:
        """Return a limiter of a policy in a file such as ``limits.toml``, whose limits are updated with it.

        The file is looked at before a call, once a second at most. When it has changed, the limits are
        replaced as by `update`, so what was used still counts. A file that is wrong by then (half written,
        without the policy, with another penalty) is logged once, and the limits stay. `hit_all` does not
        look by itself: it takes the limits that other calls, or ``limits``, have found last.

        Parameters
        ----------
        path
            The file: docs/reference/limits_file.md says what may be in it.
        policy
            The name of one of its ``policies``, which is also the limiter's ``name`` unless that is given.
        options
            As for ``Limiter``, but for ``limits``, ``algorithm`` and ``penalty``.

        Raises
        ------
        InvalidLimit
            The file is wrong, or has no such policy, or one with a ``cost`` or ``shadow``, which are said to
            ``hit`` and to web apps. The message names the line and the key.
        OSError
            It cannot be read.
        """
        return _LimiterOfFile(path, policy, options)

    @property
    def local_share(self) -> int | float | Fraction:
        """What part of its limits this process grants with ``on_error="local"``."""
        return neat(self._share)

    @checks_arguments(instead=OF_ACQUIRE)
    def acquire(
        self,
        *identifiers: str | bytes,
        cost: int = 1,
        timeout: float | None = 5.0,
        priority: int = 0,
        patience: float | None = None,
    ) -> Decision:
        """Wait until these identifiers may spend this cost, charge it, and wait for its delay to be over.

        Sleeps until the exact instant, without the GIL; Ctrl-C interrupts. Among the callers of limiters of
        this name in this process that wait for the same limit of an identifier, the first to come is the
        first served; others are not held up. Hits and other processes may overtake them. Waiting is no
        violation: it never sets or extends a penalty's lock.

        Parameters
        ----------
        identifiers, cost
            As for ``hit``.
        timeout
            The longest wait in seconds, by the limiter's clock, delay included. None: as long as it takes.
        priority
            A whole number: of the callers in this process that wait for the same, those of a higher one go
            first. Other processes do not know of it.
        patience
            For how many seconds those that came later may pass it, once one has; then it goes before all of
            them. None: ten times the wait that it was told at its start, and at least a second.

        Returns
        -------
        Decision
            Allowed, with its delay over; or, once the timeout is known to be too short, the refusal, and
            nothing is charged. Look at it: a call that goes on after a refusal is not throttled.
            ``timeout=None`` is refused only what it can never get, and `throttle` raises instead.

        Raises
        ------
        ValueError, TypeError, StoreError
            As ``hit``, each of whose attempts follows ``on_error``; also for a timeout that is no number or
            negative.
        RuntimeError
            The clock it waits by, as that of a test, did not move for a minute of real time.
        """
        return waiting.acquire(self, identifiers, cost, timeout, waiting.urgency_of(priority, patience))

    @checks_arguments(synonyms=OPTIONS_OF_THROTTLE, instead={"key": "write limiter.throttle('user:42')"})
    def throttle(
        self, *identifiers: CallIdentifier, cost: CallCost = 1, timeout: float | None = None
    ) -> Throttle:
        """Have a function, or what a with statement holds, wait for its turn each time before it begins.

        As a decorator, ``@limiter.throttle("api.example.com")``, it keeps the function's signature. As a
        context manager, ``with limiter.throttle("api.example.com") as decision:``, it can be used again, and
        by several threads at once. It waits as `acquire` does. What is charged stays charged, whatever the
        function raises.

        Parameters
        ----------
        identifiers, cost
            As for ``hit``; of a decorator each may be a function, which is called with the arguments of the
            call: ``throttle(lambda account: f"account:{account}")``.
        timeout
            The longest wait in seconds, by the limiter's clock, delay included. None: as long as it takes.

        Raises
        ------
        RateLimitExceeded
            When the function is called or the block entered: the timeout cannot be met, or the call can never
            pass, however long it waits. With ``on_error="deny"`` it waits on while the store fails.
        TypeError, ValueError
            A wrong argument. Also where it decorates a coroutine function or a generator function, whose call
            does not run it.
        StoreError
            As `acquire`.
        """
        return Throttle(self.acquire, identifiers, cost, timeout)

    def hit_many(
        self, identifiers: IdentifierRows, cost: Any = 1, *, timeout: float | None = None
    ) -> Decisions:
        """Decide many independent calls, each as ``hit`` would, in the order given.

        In memory, up to 128 identifiers at a time are decided at one instant, and other threads run
        meanwhile. On Redis up to 64 calls are under way at a time, in a store of one's own as many are one
        transaction; of those that got no answer in time, ``status`` says ``"unknown"``.

        Parameters
        ----------
        identifiers
            One for each call: a list or an array of str or bytes, or of tuples where a call names several.
        cost
            What each call spends, or a list or array with a cost for each.
        timeout
            The longest that a thousand calls may take, in seconds. By default the store's timeout.

        Returns
        -------
        Decisions
            Columns with a row for each call, and each Decision by its number.

        Raises
        ------
        ValueError, TypeError
            A wrong argument, with the row that is wrong; nothing was charged.
        StoreError
            The store has decided nothing at all within the timeout, and ``on_error`` is ``"raise"``. Calls
            that got no answer while others did follow ``on_error``, too; with ``"raise"`` they are refused,
            with a ``retry_after`` of NaN, and their Decision is None. They may have been charged.
        """
        return announced(self, self._decide_many(identifiers, cost, timeout, is_peek=False))

    def peek_many(
        self, identifiers: IdentifierRows, cost: Any = 1, *, timeout: float | None = None
    ) -> Decisions:
        """Return what ``peek`` would for each of many calls; nothing is charged.

        Arguments and errors are those of `hit_many`.
        """
        return self._decide_many(identifiers, cost, timeout, is_peek=True)

    def _decide_many(
        self, identifiers: object, cost: object, timeout: float | None, *, is_peek: bool
    ) -> Decisions:
        costs = as_column(cost, "cost") if hasattr(cost, "__iter__") else cost
        rows = as_column(identifiers, "identifiers")
        limits = self.limits  # before a clock of Python is read, which may change them
        many = _core.ManyDecisions(self, rows, costs, is_peek, timeout)
        many.decide()
        return Decisions(limits, many)

    @checks_arguments(instead={"cost": _SETTLE}, hint=_SETTLE)
    def refund(self, decision: Decision, /) -> None:
        """Give back what a decision charged, once, where it was charged.

        What no longer counts is not given back: a window that is over, what has drained from a bucket, or
        state that was reset since. A decision that charged nothing or was refunded before has no effect. An
        unpickled or copied decision has none either, which is no error: only the original knows what it
        charged. Raises ValueError for a decision of other policies, and StoreError when the store cannot
        answer, which is only logged unless ``on_error`` is ``"raise"``; after one that may have been carried
        out (``maybe_charged``) the decision counts as refunded. A decision of the local fallback is given
        back there.
        """
        super().refund(decision)
        waiting.wake_after_refund(self.store, decision)

    def settle(self, decision: Decision, /, cost: int) -> Decision:
        """Make an admitted call cost what it turned out to cost: estimate with ``hit``, then settle.

        What it cost less is given back as by ``refund``; what it cost more is charged as by ``charge``, now
        and whatever is left. Once per decision: one that was settled or refunded before, and one that
        admitted nothing (refused, peeked or unpickled) comes back as it is, and nothing happens. Of a
        ``hit_all`` decision, the charges of this limiter are settled; the others stay, each for its own
        limiter.

        Parameters
        ----------
        decision
            What ``hit``, ``hit_all``, ``acquire`` or ``charge`` answered.
        cost
            What each identifier of the call is to be charged in all. 0 is a refund.

        Returns
        -------
        Decision
            How things are then, as ``peek(cost=0)`` says: refused while more is used than a limit grants, or
            while locked. ``cost`` is this cost. It is final: it cannot be refunded or settled.

        Raises
        ------
        ValueError, TypeError
            For another cost than a whole number of 0 or more, a decision of other policies, or one that
            charged this limiter's identifiers different costs; nothing has changed.
        StoreError
            As ``refund`` and ``hit`` do; what was not carried out can be settled again.
        """
        settled = super().settle(decision, cost)
        waiting.wake_after_refund(self.store, decision)
        return settled

    def reset(self, *identifiers: str | bytes) -> None:
        """Forget everything of these identifiers in this policy, locks and levels too.

        With ``on_error="local"`` also what this process has counted by itself. Raises StoreError when the
        store cannot answer, whatever ``on_error`` is.
        """
        super().reset(*identifiers)
        waiting.wake_waiters(self.store, identifiers)

    def reset_all(self) -> None:
        """Forget everything of all identifiers in this policy, locks and levels too.

        Other calls may come in between. On Redis all keys of the database are looked at, some thousand per
        round trip, each of which has the store's timeout. Errors are those of ``reset``.
        """
        super().reset_all()
        waiting.wake_waiters(self.store)

    @checks_arguments()
    def lock(self, identifier: str | bytes, /, seconds: Seconds) -> None:
        """Refuse an identifier for this many seconds from now, whether or not it exceeded a limit.

        Works without a Penalty; with one, the level stays as it was. Hits do not extend the lock. Raises
        InvalidLimit for a duration below 1 or above 2**49 microseconds, StoreError when the store cannot
        answer, whatever ``on_error`` is, and MemoryError when a store in memory is full.
        """
        super()._lock(identifier, micros(seconds, "seconds"))
        waiting.wake_waiters(self.store, [identifier])

    def unlock(self, identifier: str | bytes, /) -> None:
        """Lift the lock of an identifier, set by hand or by a Penalty.

        What was counted stays, so that the next hit may be refused as any other, and so does the penalty's
        level, so that the next violation locks for longer: ``reset`` forgets both. That is remembered from
        now on for as long as after the end of a lock, which is all that changes without one. With
        ``on_error="local"`` also lifts what this process has locked by itself. Raises StoreError when the
        store cannot answer, whatever ``on_error`` is.
        """
        super().unlock(identifier)
        waiting.wake_waiters(self.store, [identifier])

    def update(self, limits: LimitsLike) -> None:
        """Change the limits while calls go on; those under way finish with the limits they began with.

        A limit that stays the same keeps its state, and so does one whose number alone changes: what was used
        counts against the new number. Another algorithm, period, precision, start or name is another limit,
        and begins empty. Other limiters of this name go on with their own limits, and so do those that
        ``with_limits`` has made, which cannot be updated. Raises InvalidLimit for wrong limits; the old ones
        then stay.
        """
        if self._is_derived:
            raise TypeError("a limiter of with_limits keeps its limits: ask with_limits for one with others")
        self._change_limits(as_limits(limits, self._algorithm))

    def _change_limits(self, limits: tuple[Limit, ...]) -> None:
        """Change the limits as ``update`` does, also of a limiter that is derived of another."""
        super()._set_limits(limits, local_limits(limits, self._share))
        if self._namesakes is not None:
            renew(self, self._namesakes)
        note_unleased(self)
        waiting.wake_waiters(self.store)

    def with_limits(self, limits: LimitsLike) -> Limiter:
        """Return the limiter of the same counts and options under other limits, for limits that vary by call.

        ``limiter.with_limits("200/minute").hit("user:42")`` costs hardly more than ``hit``: each limiter
        keeps the 1,024 that were asked for last. They are one family, with those made of them in turn, with
        or without a name. Limits that differ only in their numbers share a count, as after an ``update``, and
        no warning is logged. ``reset``, locks, and the queues of ``acquire`` are those of all, and any of
        them refunds a decision of another. Each has ``stats`` of its own. An ``update`` of this limiter
        changes none of them, and they cannot be updated themselves. Without a name, their counts end with the
        last of them.

        Parameters
        ----------
        limits
            As for ``Limiter``; text and tuples mean the ``algorithm`` that it was given.

        Raises
        ------
        InvalidLimit
            Wrong limits, each time they are asked for.
        """
        derived = self._derived or self._start_deriving()
        if type(limits) is str or isinstance(limits, Limit):
            return derived(limits)
        return derived(as_limits(limits, self._algorithm))

    def _start_deriving(self) -> Callable[[LimitsLike], Limiter]:
        """Return what makes and keeps limiters under other limits; it does not keep this one alive."""
        keep = lru_cache(_MOST_DERIVED)(partial(_derive, weakref.ref(self)))
        kept: Callable[[LimitsLike], Limiter] = self.__dict__.setdefault("_derived", keep)
        return kept

    def _register(self, name: str | None) -> Namesakes | None:
        """Let it be compared with others of its name."""
        return None if name is None else register(self, name)

    def __dir__(self) -> list[str]:
        return there(type(self), super().__dir__())

    def __repr__(self) -> str:
        options = [f"{name}={value!r}" for name, value in self._shown_options().items()]
        return f"Limiter({', '.join([repr(list(self.limits)), *options])})"

    def _repr_html_(self) -> str:
        rows = [(limit.algorithm, limit, repr(limit)) for limit in self.limits]
        text = ", ".join(f"{name}={value!r}" for name, value in self._shown_options().items())
        return html_table("Limiter", text, ("algorithm", "limit", "as a call"), rows, left=(0, 1, 2))

    def _shown_options(self) -> dict[str, object]:
        """Return the store, and each option that is not as it is by default."""
        return {
            **({"name": self.name} if self.name is not None else {}),
            "store": self.store,
            **({"penalty": self.penalty} if self.penalty else {}),
            **({"on_error": self.on_error} if self.on_error != "raise" else {}),
            **({"local_share": self.local_share} if self._share != 1 else {}),
        }

    def __reduce__(self) -> tuple[Any, ...]:
        options = {
            "name": self.name,
            "store": url_or_store(self.store, self.clock),
            "algorithm": self._algorithm,
            "penalty": self.penalty,
            "clock": self.clock,
            "on_error": self.on_error,
            "local_share": self.local_share,
            "on_decision": self.on_decision,
        }
        make = _restored if self._is_derived else Limiter
        return partial(make, list(self.limits), **options), ()


add_hints(Limiter, OF_LIMITER)


class _LimiterOfFile(Limiter):
    """A limiter whose limits are those of a policy in a file."""

    def __init__(self, path: FilePath, policy: str, options: dict[str, Any]) -> None:
        for name in ("limits", "algorithm", "penalty"):
            if name in options:
                raise TypeError(f"from_file takes no {name}=: the file says it, as policies.{policy}")
        self._made_of = path, policy, options
        self._policy: FilePolicy | None = None
        from overlimit.limits_file import follow  # which few programs need

        self._file = follow(path, self)

    def check_limits_file(self, found: LimitsFile) -> None:
        """Raise InvalidLimit unless it can have the limits that the file has by now."""
        _, name, _ = self._made_of
        policy = found.policies.get(name)
        if policy is None:
            like = nearest(str(name), found.policies)
            hint = f'did you mean "{like}"?' if like else f"write [policies.{name}]"
            raise found.wrong(("policies",), f"there is no policy {short_repr(name)}: {hint}")
        for key, is_said in (("cost", policy.cost is not None), ("shadow", policy.shadow)):
            if is_said:
                told = "is for routes of an app: a Limiter is told by hit(cost=...), and refuses or not"
                raise found.wrong(("policies", name, key), told)
        if self._policy is not None and self._policy.penalty != policy.penalty:
            told = "has another penalty by now, which a Limiter takes once: restart to change it"
            raise found.wrong(("policies", name, "penalty"), told)

    def take_limits_file(self, found: LimitsFile) -> None:
        """Go on with the limits that the file has by now."""
        _, name, options = self._made_of
        before, self._policy = self._policy, found.policies[name]
        if before is None:
            about = {"name": name, **options, "penalty": self._policy.penalty}
            super().__init__(list(self._policy.limits), **about)
        elif before != self._policy:
            self.update(list(self._policy.limits))

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The limits that the file has, in its order."""
        self._file.look()
        return super().limits

    def __reduce__(self) -> tuple[Any, ...]:
        if self._is_derived:
            return super().__reduce__()
        path, policy, options = self._made_of
        return partial(Limiter.from_file, path, policy, **options), ()


def _looking_first(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of an object with a ``_file`` that looks at it before the given one is called."""

    def looked(self: Any, *args: Any, **options: Any) -> Any:
        self._file.look()
        return function(self, *args, **options)

    looked.__doc__, looked.__name__ = function.__doc__, function.__name__
    return looked


for _name in ("hit", "peek", "_hit_within", "_peek_within", "_hit_later", "_peek_later", "_decide_many"):
    setattr(_LimiterOfFile, _name, _looking_first(getattr(Limiter, _name)))


def _identity_of(clock: object) -> int:
    """Tell a clock from others, also where its ``now`` was given."""
    return id(getattr(clock, "__self__", clock))


class UnregisteredLimiter(Limiter):
    """A limiter that may have other limits than others of its name, because they depend on the request."""

    def _register(self, name: str | None) -> None:
        """Do nothing."""


def _derive(parent: weakref.ref[Limiter], limits: LimitsLike) -> Limiter:
    """Return a new limiter that is like another one but for its limits."""
    like = cast(Limiter, parent())  # it lives: somebody calls its with_limits
    given = as_limits(limits, like._algorithm)
    derived = like._derive(given, local_limits(given, like._share))
    attributes = {**like.__dict__, "_is_derived": True, "_namesakes": None}
    attributes.pop("_derived", None)
    derived.__dict__.update(attributes)
    return derived


def _restored(limits: LimitsLike, **options: Any) -> Limiter:
    """Return a limiter that was pickled after ``with_limits`` had made it: its limits warn of nothing."""
    return Limiter(limits, **options).with_limits(limits)


def _check(name: object, penalty: object, on_decision: object) -> None:
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name must be a str or None, not {short_repr(name)}: write name='login'")
    if name is not None and not _core.is_key_name(name):
        raise InvalidLimit(f"name must be {_core.KEY_NAME_RULE}, not {short_repr(name)}")
    if penalty is not None and not isinstance(penalty, Penalty):
        raise TypeError(f"penalty must be a Penalty such as Penalty(60), or None, not {short_repr(penalty)}")
    if on_decision is not None and not callable(on_decision):
        raise TypeError(
            f"on_decision must be a function that takes a Decision, or None, not {short_repr(on_decision)}"
        )
