"""Types of the C++ core; the docstrings are those of ``help()``, unless a subclass has its own."""

import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import (
    Any,
    Literal,
    ParamSpec,
    Protocol,
    SupportsFloat,
    SupportsIndex,
    TypeAlias,
    TypeVar,
    final,
    overload,
)

from typing_extensions import disjoint_base

from overlimit.decisions import Detail
from overlimit.limits import Limit as LimitValue
from overlimit.limits.penalty import Penalty
from overlimit.statistics import LimiterStats, MemoryStoreStats, SharedMemoryStoreStats
from overlimit.stores.values import Write

__version__: str

KEY_NAME_RULE: str
MAX_IDENTIFIERS: int
MAX_CELLS: int
MAX_CHARGES: int
"""How many blocks and log entries one call takes, over all its identifiers and limits."""

# How counters are laid out in slots, and what their numbers are about.
_PLACES: dict[str, int]
_SLOT: str
_STATUSES: list[str]
_SOURCES: list[str]
_FAILURES: list[str]
_BREAKER_STATES: list[str]
_LATENCY_BOUNDS: tuple[float, ...]
_WAIT_BOUNDS: tuple[float, ...]

_P = ParamSpec("_P")
_T = TypeVar("_T")
_LimiterT = TypeVar("_LimiterT", bound="Limiter")
_Charges: TypeAlias = Iterable[tuple[Limiter, str | bytes] | tuple[Limiter, str | bytes, int]]
"""Tuples (limiter, identifier[, cost]), of limiters on one store."""
_Rules: TypeAlias = tuple[tuple[Limiter, object, int | Callable[..., int], int], ...]
_Known: TypeAlias = dict[Any, tuple[str | bytes, ...]]
_Read: TypeAlias = Callable[[object], tuple[str | bytes, ...]]
_Record: TypeAlias = tuple[int, int, tuple[int, int, int], list[tuple[int, int]]]
"""The tag, when it expires in microseconds, the state and its cells."""
_Key: TypeAlias = tuple[str, int, int, bool, list[_Record]]
"""The hash, the policy's digest, when it was created, whether identifiers share it, and the records."""

class _Clock(Protocol):
    def now(self) -> float: ...

class Calendar:
    def __init__(self, identity: str, periods: Callable[[int], tuple[int, int, int]]) -> None: ...
    @property
    def identity(self) -> str: ...

class Limit:
    def __init__(
        self,
        algorithm: str,
        numbers: Sequence[SupportsIndex],
        name: str | None = ...,
        calendar: Calendar | None = ...,
    ) -> None: ...
    @property
    def tag(self) -> int: ...

class Store:
    """Where state lives and decisions are made: the base class of all stores."""

    # What `overlimit.stores.kinds` says; all stores have it from there.
    waits: bool
    is_shared: bool
    _has_connections: bool
    _longest_lease: float
    _longest_stale: float
    _shown: Mapping[str, Any]
    _when_full: str
    _example: str
    @property
    def _why_unleased(self) -> str | None: ...
    @property
    def _missing(self) -> str | None: ...
    def _hints(self) -> Iterator[str]: ...
    def close(self) -> None:
        """Give back what is leased, and close this process's connections; a later call opens new ones.

        A store without them, such as memory, does nothing.
        """

    def ping(self, timeout: float | None = None) -> float:
        """Ask whoever keeps the counts for an answer, as a call would, and return the seconds it took.

        Nothing is charged or written, and ``on_error`` has no say. Memory answers in 0.0. Shared memory is
        opened, or created. Redis gets a write that changes nothing, by the same connection, breaker, TLS and
        sentinels as calls; in a cluster each node that owns slots is asked too, and the slowest counts.

        Parameters
        ----------
        timeout
            The longest that all of it may take, in seconds above 0. By default the store's timeout.

        Returns
        -------
        float
            Seconds, those for connecting included if there was no connection yet.

        Raises
        ------
        StoreError
            What a hit would raise now: StoreTimeout, StoreUnavailable, StoreConfigError.
        ValueError, TypeError
            A timeout that is no number, or not above 0.
        """

class MemoryStore(Store):
    def __init__(self, max_keys: SupportsIndex = 1_000_000, max_bytes: SupportsIndex = 268435456) -> None: ...
    def stats(self) -> MemoryStoreStats:
        """Return what this store has counted, as a new dict.

        ``crowded`` says how many decisions used counts that identifiers share because the store had no room
        left for their own; peeks are not counted.
        """

    def _usage(self) -> dict[str, int]: ...
    def _clear(self) -> None: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __copy__(self) -> MemoryStore: ...
    def __deepcopy__(self, memo: object) -> MemoryStore: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

class SharedMemoryStore(Store):
    def __init__(
        self,
        name_or_path: str,
        *,
        max_keys: SupportsIndex | None,
        max_bytes: SupportsIndex | None,
        mode: SupportsIndex,
        timeout_us: SupportsIndex,
    ) -> None: ...
    def stats(self) -> SharedMemoryStoreStats:
        """Return what this store has counted, as a new dict.

        ``crowded`` is that of a ``MemoryStore``, over all processes. ``processes`` says how many have the
        file open (``attached``, those that died with it included) and how many of them are ``alive``;
        ``damaged`` how many parts grant nothing any more because their memory was found damaged; ``unlinked``
        whether the file was removed while this process uses it.
        """

    def unlink(self) -> None:
        """Remove the file: whoever opens it from now on begins anew, and whoever has it open goes on with it.

        Nothing happens if there is none. Raises StoreConfigError for a file of another user.
        """

    def _usage(self) -> dict[str, int]: ...
    @property
    def path(self) -> str:
        """Where the file is, or will be."""

    @property
    def _shards(self) -> int: ...
    def _keys(
        self, shard: SupportsIndex, below: SupportsIndex, buckets: SupportsIndex
    ) -> tuple[int, list[_Key]]: ...
    def _key(self, policy: str, identifier: str | bytes) -> _Key | None: ...
    def _key_at(self, hash: str) -> _Key | None: ...
    def _reset_at(self, hash: str) -> None: ...
    def _lock_at(self, hash: str, microseconds: int) -> None: ...
    def _unlock_at(self, hash: str) -> None: ...
    def _policy_digest(self, policy: str) -> int: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...

class Replay:
    def __init__(self, limiter: Limiter, distinct: Sequence[SupportsIndex]) -> None: ...
    @property
    def max_cells(self) -> int: ...
    def run(
        self,
        times: Any,
        codes: Sequence[Any],
        costs: Any,
        order: Any,
        answers: dict[str, Any],
        first: SupportsIndex,
        last: SupportsIndex,
    ) -> None:
        """Decide the events from first to before last, without the GIL, and write the answers."""

    def start_tallies(self) -> None: ...
    def tallies(self) -> list[tuple[int, int, int, int, float]]:
        """Per limit, then of locks: refused, refused_alone, least_left, most, longest_retry_after in s."""

def access_lines(log: bytes, combined: bool) -> tuple[bytes, bytes, bytes, bytes]:
    """Where lines end, which are plain, and where their addresses end and quotes are: int64 in bytes."""

class ManyDecisions:
    def __init__(
        self, limiter: Limiter, identifiers: Any, cost: Any, is_peek: bool, timeout: float | None = None
    ) -> None: ...
    def decide(self) -> None: ...
    def _next_step(self) -> PendingCall | None:
        """Return the decisions on the next thousand rows, to be awaited; None: there are none."""

    def __len__(self) -> int: ...
    def counts(self) -> list[int]: ...
    def decision(self, row: SupportsIndex) -> Decision | None:
        """Return a new Decision on a row; keep it, or it could be refunded twice."""

    def fill(self, name: str, column: Any) -> None: ...

class PendingCall:
    """A call to a store that is awaited: begun by a CallsOfLoop, and answered once it is done."""

    @property
    def is_done(self) -> bool: ...
    def answer(self) -> Any: ...

class CallsOfLoop:
    """The calls to stores that one event loop awaits; ``run`` when the descriptor is readable."""

    def __init__(self) -> None: ...
    def fileno(self) -> int: ...
    @property
    def needs_run(self) -> bool: ...
    def begin(self, call: PendingCall) -> list[PendingCall]:
        """Begin a call, which may be done already; return those begun before that are done now."""

    def run(self) -> list[PendingCall]: ...
    def notify(self, event: object) -> list[PendingCall]: ...
    def cancel(self, call: PendingCall) -> list[PendingCall]: ...

class ValueStore(Store):
    def __init__(self, store: ValueStore, /) -> None: ...
    def _ping(self, timeout: float | None) -> float: ...

@final
class Step:
    """What a store does with the values that it holds; see ``ValueStore.transact``."""

    def __call__(
        self, values: Sequence[bytes | None], now: SupportsFloat | None = None
    ) -> list[Write | None] | None: ...
    @property
    def reads_only(self) -> bool:
        """Whether nothing will be written, as by a peek."""

    def time_left(self) -> float:
        """Return the seconds that are left, at least 0.0; then calling it raises StoreTimeout."""

class RedisStore(Store):
    def __init__(self, location: dict[str, Any], options: dict[str, Any], /) -> None: ...

class RawServer:
    """A server of Redis that is asked anything."""

    @property
    def name(self) -> str: ...
    def ask(self, commands: Sequence[Sequence[str | bytes]]) -> list[Any]:
        """Send commands, and return the answers; an error is one that a store would raise, as a value."""

    def certificate_left(self) -> timedelta | None:
        """Return for how long the certificate is valid, if it is verified, since it was last seen."""

def raw_servers(
    location: dict[str, Any], timeout_us: SupportsIndex, key: str | bytes = ""
) -> list[RawServer]:
    """Return the servers that have keys of their own; of a cluster, the one that has a key, if given."""

@disjoint_base
class ManualClock:
    def __init__(self, start: float = 0.0) -> None: ...
    def now(self) -> float:
        """Return the reading, in seconds since the Unix epoch."""

    def advance(self, seconds: float, /) -> None: ...
    def set(self, seconds: float, /) -> None: ...

@final
class Decision:
    """The answer to a call; a value. A refusal is not an error, and ``bool(decision)`` is ``allowed``."""

    @property
    def allowed(self) -> bool:
        """Whether the call may pass; ``bool(decision)`` is the same."""

    @property
    def status(self) -> Literal["ok", "over", "locked", "never"]:
        """``"ok"``, ``"over"``, ``"locked"`` or ``"never"``."""

    @property
    def remaining(self) -> int:
        """The smallest over all pairs of what a limit still grants after this call, in cost units."""

    @property
    def retry_after(self) -> float:
        """Seconds until this same call could succeed: 0.0 if allowed, ``math.inf`` for never."""

    @property
    def limit(self) -> LimitValue | None:
        """The limit that binds; None when ``source`` is ``"error"``."""

    @property
    def identifier(self) -> str | bytes | None:
        """The identifier that binds, as it was given; None when ``source`` is ``"error"``."""

    @property
    def reset_after(self) -> float:
        """Seconds until the binding pair is as if it had never been seen."""

    @property
    def delay(self) -> float:
        """Seconds the caller must wait before it proceeds; 0.0 when refused."""

    @property
    def _ready_after(self) -> float: ...
    @property
    def _refused_by_meta(self) -> bool: ...
    @property
    def cost(self) -> int:
        """What was asked for; of ``hit_all`` the sum."""

    @property
    def time(self) -> float:
        """When it was decided, in seconds since the Unix epoch."""

    @property
    def source(self) -> Literal["store", "local", "error", "refusal", "lease"]:
        """Who decided.

        ``"store"``; ``"local"``, the local fallback, or ``"error"``, ``on_error``, while the store failed;
        ``"refusal"``, this process by what the store had told it (``max_stale``); ``"lease"``, this process
        by what it had charged early (``lease``).
        """

    @property
    def choice(self) -> int | None:
        """Of ``hit_first`` and its relatives: the place of the entry that admitted, from 0.

        None when refused, and of other calls.
        """

    @property
    def details(self) -> Details:
        """One Detail per (identifier, limit), in the order given; each is made when it is first read."""

    def __bool__(self) -> bool: ...
    def _count_shadow_refusal(self) -> None: ...
    def _with_shadows_enforced(self) -> Decision: ...
    def _postponed(self, microseconds: int, place: int, /) -> Decision: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def _repr_html_(self) -> str: ...

@final
class Details(Sequence[Detail]):
    """The rows of a Decision: like a tuple, but each is made when it is first read."""

    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: SupportsIndex, /) -> Detail: ...
    @overload
    def __getitem__(self, index: slice, /) -> tuple[Detail, ...]: ...
    def __iter__(self) -> Iterator[Detail]: ...
    def __contains__(self, value: object, /) -> bool: ...
    def index(self, value: object, start: SupportsIndex = 0, stop: SupportsIndex = sys.maxsize, /) -> int:
        """Return the first place of a row; ValueError if there is none."""

    def count(self, value: object, /) -> int:
        """Return how often a row occurs."""

    def __add__(self, other: tuple[_T, ...] | Details, /) -> tuple[Detail | _T, ...]: ...
    def __radd__(self, other: tuple[_T, ...], /) -> tuple[_T | Detail, ...]: ...
    def __mul__(self, times: SupportsIndex, /) -> tuple[Detail, ...]: ...
    def __rmul__(self, times: SupportsIndex, /) -> tuple[Detail, ...]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __lt__(self, other: tuple[Any, ...] | Details, /) -> bool: ...
    def __le__(self, other: tuple[Any, ...] | Details, /) -> bool: ...
    def __gt__(self, other: tuple[Any, ...] | Details, /) -> bool: ...
    def __ge__(self, other: tuple[Any, ...] | Details, /) -> bool: ...
    def __hash__(self) -> int: ...

@disjoint_base
class Limiter:
    def __init__(
        self,
        name: str | None,
        limits: tuple[LimitValue, ...],
        store: Store,
        clock: _Clock | Callable[[], float] | None,
        penalty: Penalty | None,
        on_decision: Callable[[Decision], object] | None,
        on_error: Literal["raise", "allow", "deny", "local"],
        local_limits: tuple[LimitValue, ...] | None,
        /,
    ) -> None: ...
    @property
    def name(self) -> str | None:
        """The policy's name, which is part of the key; None without one."""

    @property
    def limits(self) -> tuple[LimitValue, ...]:
        """The limits, in the order given."""

    @property
    def store(self) -> Store:
        """The store that decides."""

    @property
    def clock(self) -> Any:
        """The clock, or None for the store's own."""

    @property
    def penalty(self) -> Penalty | None:
        """The penalty, or None."""

    @property
    def on_decision(self) -> Callable[[Decision], object] | None:
        """The function that is called with every decision, or None."""

    @property
    def on_error(self) -> Literal["raise", "allow", "deny", "local"]:
        """What a call answers when the store fails."""

    @property
    def _tells_time_time(self) -> bool: ...
    def _hit_within(self, *identifiers: str | bytes, cost: int = 1, patience: float = ...) -> Decision: ...
    def _peek_within(self, *identifiers: str | bytes, cost: int = 1, patience: float = ...) -> Decision: ...
    def _hit_later(
        self, *identifiers: str | bytes, cost: int = 1, patience: float = ...
    ) -> Decision | PendingCall: ...
    def _peek_later(
        self, *identifiers: str | bytes, cost: int = 1, patience: float = ...
    ) -> Decision | PendingCall: ...
    def _count_wait(self, microseconds: int | None, /) -> None: ...
    def _derive(
        self: _LimiterT, limits: tuple[LimitValue, ...], local_limits: tuple[LimitValue, ...] | None, /
    ) -> _LimiterT: ...
    def _set_limits(
        self, limits: tuple[LimitValue, ...], local_limits: tuple[LimitValue, ...] | None, /
    ) -> None: ...
    def _lease_bounds(self) -> tuple[int, int]: ...
    def stats(self) -> LimiterStats:
        """Return statistics of this limiter's calls to its store, in this process, as a new dict.

        ``calls`` says how often the store was asked to decide, refund, lock or reset; ``errors`` how many of
        these calls failed, by kind; ``timeouts`` how many of them missed their deadline; ``local`` how many
        decisions were made in this process instead; ``crowded`` how many used counts that identifiers share
        because a memory store had no room left.

        Of leases and cached refusals: ``leased`` and ``refusals`` count decisions for which no server was
        asked (``refusals`` only such refusals); ``asked`` the commands sent for all others, with those that
        give back leases or restore counts; ``held`` is how many units are leased here and not spent,
        ``returned`` how many were given back unspent, and ``lapsed`` how many were lost unspent, as with a
        connection; ``restored`` counts keys whose counts this process has brought back after the server had
        lost them.

        ``breaker`` is ``"closed"``, ``"open"`` or ``"half_open"``; ``latency`` maps an upper bound in seconds
        to how many calls took that long and longer than the bound before, and is counted for stores that
        wait only.
        """

    def refund(self, decision: Decision, /) -> None: ...
    def _refund_part(self, decision: Decision, places: Container[int], /) -> None: ...
    def _lock(self, identifier: str | bytes, microseconds: int, /) -> None: ...
    def unlock(self, identifier: str | bytes, /) -> None: ...
    def reset_all(self) -> None: ...
    def hit(self, *identifiers: str | bytes, cost: int = 1) -> Decision:
        """Decide whether these identifiers may spend this cost, and charge it if they may.

        Every limit is checked for every identifier; if any refuses, nothing is charged.

        Parameters
        ----------
        identifiers
            Who is limited, such as ``"user:42"``: 1 to 16 of them, duplicates counting once.
        cost
            What the call spends, 0 or more; 0 asks and charges nothing.

        Returns
        -------
        Decision
            Truthy when the call may pass. A refusal is not an exception.

        Raises
        ------
        ValueError, TypeError
            A wrong argument; nothing was charged.
        StoreError
            The store cannot answer within its timeout, and ``on_error`` is ``"raise"``.
        """

    def peek(self, *identifiers: str | bytes, cost: int = 1) -> Decision:
        """Return the Decision that ``hit`` would give now; nothing is charged.

        So ``remaining`` is what would be left after such a hit; ``cost=0`` shows the present.
        """

    def charge(self, *identifiers: str | bytes, cost: int = 1) -> Decision:
        """Charge this cost whatever is left, and say whether ``hit`` would have admitted it.

        Never refused, not by a lock either, and sets none. What is owed counts like any charge: windows hold
        more than their limit, buckets owe beyond burst and debt. Arguments and errors are those of ``hit``.

        Returns
        -------
        Decision
            ``allowed`` and ``status`` say what ``hit`` would have answered; ``retry_after`` is from when on
            the same cost would fit; ``remaining`` is what is left, never below 0. It can be refunded, and
            settled.
        """

    def settle(self, decision: Decision, cost: int, /) -> Decision: ...
    def reset(self, *identifiers: str | bytes) -> None: ...
    def _ping(self, timeout: float | None, /) -> float: ...
    def _close(self) -> None: ...

def _decision_of(
    time: int,
    cost: int,
    source: int,
    status: int,
    retry_after: int,
    policies: tuple[Any, ...],
    subjects: tuple[Any, ...],
    rows: tuple[Any, ...],
    chosen: int,
    /,
) -> Decision: ...
def _load_hooks() -> None: ...
def _later(operation: Callable[_P, _T], /, *arguments: _P.args, **keywords: _P.kwargs) -> _T | PendingCall:
    """Return what an operation, such as ``Limiter.settle``, answers; a PendingCall if that has to wait."""

def _reset(store: Store, name: str, identifiers: tuple[str | bytes, ...] | None, /) -> None: ...
def hit_all(charges: Iterable[tuple[Limiter, str | bytes] | tuple[Limiter, str | bytes, int]], /) -> Decision:
    """Decide several policies at once: charges are (limiter, identifier[, cost]) tuples on one store.

    All or nothing, in one step and at one instant; at most 64 charges. Raises ValueError for limiters on
    different stores or clocks, or for a policy and identifier that occur twice.
    """

def peek_all(
    charges: Iterable[tuple[Limiter, str | bytes] | tuple[Limiter, str | bytes, int]], /
) -> Decision:
    """Return the Decision that ``hit_all`` would give now; nothing is charged."""

def _hit_all_within(charges: _Charges, patience: float | None, /) -> Decision: ...
def _peek_all_within(charges: _Charges, patience: float | None, /) -> Decision: ...
def _try_all(charges: _Charges, patience: float | None, place: int, /) -> Decision: ...
def _note_refusal(limiters: tuple[Limiter, ...], refusal: Decision, /) -> None: ...
def _checked_charges(
    charges: Iterable[tuple[_LimiterT, str | bytes] | tuple[_LimiterT, str | bytes, int]],
    function: str = "acquire_all",
    /,
) -> tuple[tuple[_LimiterT, str | bytes, int], ...]: ...
def _decide_request(rules: _Rules, known: _Known, read: _Read, arguments: tuple[Any, ...], /) -> Decision: ...
def _try_request(
    rules: _Rules,
    known: _Known,
    read: _Read,
    arguments: tuple[Any, ...],
    patience: float | None,
    place: int,
    /,
) -> Decision: ...
def _settle_more(limiters: tuple[Limiter, ...], decision: Decision, cost: int, /) -> Decision: ...
def _settle_rest(limiters: tuple[Limiter, ...], decision: Decision, cost: int, /) -> Decision: ...
def _call_locked(lock: Any, function: Callable[..., _T], /, *arguments: Any) -> _T: ...
def _fork_generation() -> int: ...
def _counters() -> bytes: ...
def _count_in(path: str, /) -> None: ...
def _follow_clock(clock: ManualClock | Callable[[], float] | None, /) -> None: ...
def _steady_micros() -> int: ...
def default_precision_us(period_us: SupportsIndex) -> int: ...
def is_key_name(name: str) -> bool: ...
def redis_script(
    which: str, name: str, limits: tuple[LimitValue, ...], penalty: Penalty | None, identifiers: Sequence[str]
) -> tuple[str, str, list[bytes], list[bytes], list[tuple[int, int]]]:
    """Return the script that the Redis store would send: its SHA1, text, keys and arguments.

    Last comes the order of the limits in them, each as its place in the list and how many numbers it has.
    """

def _rate_field(keys: tuple[tuple[str, ...] | None, ...], decision: Decision, /) -> str: ...
def _raw_rate_field(keys: tuple[tuple[str, ...] | None, ...], decision: Decision, /) -> bytes: ...
def _add_fields(headers: list[tuple[_T, _T]], fields: Sequence[tuple[_T, _T]], /) -> bool: ...
