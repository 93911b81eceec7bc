"""The options of one limit, from a decorator or the configuration, checked before anything else."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypedDict, cast, get_args

from overlimit._messages.arguments import check_options
from overlimit._options import is_set
from overlimit._patterns import counted_method, methods_of
from overlimit.budgets import FirstOf
from overlimit.errors import InvalidLimit
from overlimit.http.callables import check_callable, fingerprint, function_name
from overlimit.http.identifying.identifiers import Anonymous, Identify, identify_by
from overlimit.http.options import kinds
from overlimit.http.options.kinds import Option, described
from overlimit.http.options.storage_urls import hides_passwords
from overlimit.limiter import Limiter, OnError
from overlimit.limits import Limit, LimitsLike, as_limits
from overlimit.limits.penalty import Penalty

if TYPE_CHECKING:
    from typing_extensions import TypeIs, Unpack

Dynamic: TypeAlias = Callable[..., LimitsLike]
"""Returns the limits that hold during a request; ``""``: there are none."""

LimitsValue: TypeAlias = LimitsLike | Dynamic | FirstOf | list[Any]
"""Limits, a function that returns them during a request, `overlimit.first_of`, or a list of these."""

Part: TypeAlias = LimitsLike | Dynamic | FirstOf
"""Limits that are counted as one policy, or several of which the first that admits a request is charged."""

ReadLimits: TypeAlias = Callable[[LimitsLike, str | None], tuple[Limit, ...]]
"""Reads limits; strings by the named algorithm, if there is one."""

Cost: TypeAlias = int | Callable[..., int]
"""What a request spends, or a function that returns it during the request."""

Scope: TypeAlias = str | Callable[..., str]
"""What a count is divided by, or a function that returns it for an endpoint."""


AnyLimits: TypeAlias = LimitsValue | Callable[..., Awaitable[LimitsLike]]
"""Limits where coroutine functions may return them, too."""

AnyCost: TypeAlias = Cost | Callable[..., Awaitable[int]]
"""A cost where coroutine functions may return it, too."""

AnyScope: TypeAlias = Scope | Callable[..., Awaitable[str]]
"""A scope where coroutine functions may return it, too."""


ANONYMOUS = kinds.one_of(*get_args(Anonymous))
ON_ERROR = kinds.one_of(*get_args(OnError))


class WhoKeywords(TypedDict, total=False):
    """Whose requests a limit counts, and which."""

    identifiers: Annotated[
        Identify | Sequence[Identify] | None,
        Option(
            kinds.IDENTIFY,
            "Returns one identifier of the request or several, or a list of such functions; by default the "
            "RateLimit's, or `get_identifiers`.",
        ),
    ]
    key_func: Annotated[
        Identify | None,
        Option(kinds.KEY_FUNC, "As ``identifiers``, but it returns a single one, as with Flask-Limiter."),
    ]
    methods: Annotated[
        Iterable[str] | None,
        Option(
            kinds.Kind(lambda name, value, _: methods_of(value)),
            "The HTTP methods it holds for; None: all but OPTIONS, which is never limited. One that neither "
            "HTTP nor any route has, such as PSOT, is an error at the first request.",
            is_strict=True,
        ),
    ]


class ScopeKeyword(TypedDict, total=False):
    """What divides the counts of a limit that does not span routes."""

    scope: Annotated[
        AnyScope | None,
        Option(
            kinds.SCOPE,
            "Divides the counts of the endpoint: a string, or a function that returns one, given the "
            "endpoint.",
        ),
    ]


class MetaKeyword(TypedDict, total=False):
    """The limits of refusals."""

    meta_limits: Annotated[
        AnyLimits | None,
        Option(
            kinds.LIMITS,
            "Limits of how often one may be refused: when they are used up every request here is refused.",
        ),
    ]


class PlainKeywords(TypedDict, total=False):
    """The options that are kept as they are given."""

    anonymous: Annotated[
        Anonymous | None,
        Option(
            ANONYMOUS,
            'Whether requests without an identifier ``"share"`` a limit or are ``"exempt"``; by default the '
            "RateLimit's.",
        ),
    ]
    per_method: Annotated[
        bool, Option(kinds.SWITCH, "Whether each HTTP method has counts of its own.", default=False)
    ]
    error_message: Annotated[
        str | Callable[..., str | Awaitable[str]] | None,
        Option(kinds.TEXT_OR_FUNCTION, "The description of a refusal, or a function that returns it."),
    ]
    exempt_when: Annotated[
        Callable[..., object] | None,
        Option(kinds.function(), "A function; if it returns true, the request is not limited by this."),
    ]
    override_defaults: Annotated[
        bool,
        Option(
            kinds.SWITCH,
            "Whether this replaces the default limits, and those that the route would inherit; not in "
            "shadow.",
            default=True,
            is_strict=True,
        ),
    ]
    deduct_when: Annotated[
        Callable[..., object] | None,
        Option(
            kinds.function("the response"),
            "Given the response: whether the request counts. It is charged before the view, and refunded if "
            "not. One that is cancelled during its view has no response, and keeps its charge.",
        ),
    ]
    on_breach: Annotated[
        Callable[..., object] | None,
        Option(
            kinds.function("the decision"),
            "Called with the Decision of a refusal by this limit; a response it returns is the answer.",
        ),
    ]
    cost: Annotated[
        AnyCost | None,
        Option(
            kinds.COST,
            "What a request spends, or a function that returns it; one if it is not said. It may be an "
            "estimate, which ``settle`` makes what was used.",
        ),
    ]
    algorithm: Annotated[
        str | None,
        Option(
            kinds.ALGORITHM,
            "The algorithm of limits given as strings; by default the RateLimit's.",
            is_strict=True,
        ),
    ]
    name: Annotated[
        str | None,
        Option(
            kinds.NAME,
            "The name in header fields; by default the endpoint. It also tells stacked decorators apart, "
            "which else count by their place from the view, so that one more would move the counts of the "
            "others.",
            is_strict=True,
        ),
    ]
    shadow: Annotated[
        bool,
        Option(
            kinds.SWITCH,
            "Whether it only counts and logs what it would have refused.",
            default=False,
            is_strict=True,
        ),
    ]
    on_error: Annotated[
        OnError | None,
        Option(
            ON_ERROR,
            'When the store fails: ``"allow"``, ``"deny"`` (503), ``"local"`` or ``"raise"``, the strictest '
            "of all limits of the request; by default the RateLimit's.",
            is_strict=True,
        ),
    ]
    penalty: Annotated[
        Penalty | None,
        Option(
            kinds.PENALTY,
            "A ``Penalty``: whoever goes over these limits is locked here for a while, and longer each time; "
            "by default the RateLimit's. In shadow nobody is locked.",
            is_strict=True,
        ),
    ]


class BlockKeyword(TypedDict, total=False):
    """Whether a refusal is the answer to the request; if not, the app is called, and told of it."""

    block: Annotated[
        bool,
        Option(
            kinds.SWITCH,
            "False: the view is called with a refused request, too, and finds the refusal in "
            "``request.rate_limit``. Nothing is then charged by this limit.",
            default=True,
            is_strict=True,
        ),
    ]


class ValidationKeyword(TypedDict, total=False):
    """When a request is decided, where not the app itself but its framework validates it."""

    before_validation: Annotated[
        bool,
        Option(
            kinds.SWITCH,
            "Whether a request is decided before its parameters are validated and its dependencies called. "
            "All limits of a route are decided together, so one of them says so for all.",
            default=False,
            is_strict=True,
        ),
    ]


class CommonKeywords(MetaKeyword, PlainKeywords, total=False):
    """The options that a limit has in every adapter."""


class SharedKeywords(WhoKeywords, CommonKeywords, total=False):
    """The options of a limit that spans routes."""


class LimitKeywords(WhoKeywords, ScopeKeyword, CommonKeywords, total=False):
    """The options of a limit that does not span routes."""


class Said(ScopeKeyword, PlainKeywords, BlockKeyword, ValidationKeyword, total=False):
    """What is kept as it was said of a limit."""


LIMIT_OPTIONS = described(LimitKeywords)
"""The options of one limit."""

_SAID = cast(Said, {name: option.default for name, option in described(Said).items()})
"""What holds where nothing is said."""


@dataclasses.dataclass(frozen=True)
class LimitOptions:
    """A limit, or several that are counted alike, and what was said of it."""

    parts: tuple[Part, ...]
    """The limits; each part is counted as one policy (see `parts_of`)."""
    identifiers: Identify | None = None
    methods: frozenset[str] | None = None
    meta_limits: tuple[Part, ...] = ()
    is_shared: bool = False
    during_request: bool = False
    """Whether they were made while a request was handled, so that there may be any number of them."""
    said: Said = dataclasses.field(default_factory=lambda: _SAID)
    """Each of its other options, in one order."""

    def __hash__(self) -> int:
        return hash((self.parts, self.identifiers, self.methods, self.meta_limits, *self.said.values()))

    def saying(self, **instead: Unpack[Said]) -> LimitOptions:
        """Return the same with other options."""
        said: Said = {**self.said, **instead}
        return dataclasses.replace(self, said=said)

    def fingerprint(self, function: object) -> str:
        """Return a string that tells a function from others, without values that may come from a request."""
        return fingerprint(function, by_values=not self.during_request)

    @property
    def units(self) -> Cost:
        """What a request spends, one unless a cost says otherwise; a coroutine function is awaited before."""
        cost = cast("Cost | None", self.said["cost"])
        return 1 if cost is None else cost

    @property
    def replaces_defaults(self) -> bool:
        """Whether default and inherited limits give way to it, as none does to one in shadow."""
        return self.said["override_defaults"] and not self.said["shadow"]

    def holds_for(self, method: str) -> bool:
        """Return whether it holds for this HTTP method; HEAD counts as GET."""
        return self.methods is None or method in self.methods or counted_method(method) in self.methods

    def check_limits(self, read: ReadLimits = as_limits, arguments: int = 0) -> None:
        """Check the limits by ``read``; raise InvalidLimit, or TypeError for what takes other arguments."""
        for part in (*self.parts, *self.meta_limits):
            _check_part(part, read, self.said["algorithm"], arguments)
        if any(isinstance(each, FirstOf) for each in self.meta_limits):
            raise TypeError("meta_limits takes no first_of: they count refusals, all of them")
        if any(isinstance(each, FirstOf) for each in self.parts) and (
            self.said["shadow"] or not self.said["block"]
        ):
            raise TypeError(
                "first_of(...) takes no shadow=True and no block=False, as what is charged is what refuses: "
                "RateLimit(shadow=True) has all of its limits in shadow"
            )


def check_limits_are_given(value: object) -> None:
    """Raise InvalidLimit for None in the place of limits."""
    if value is None:
        raise InvalidLimit("limits must be given: a string such as '10/second', a limit, or a list of these")


@hides_passwords
def limit_options(
    value: LimitsValue,
    keywords: Mapping[str, Any],
    known: Mapping[str, Option] = LIMIT_OPTIONS,
    *,
    read: ReadLimits = as_limits,
    arguments: int = 0,
    is_shared: bool = False,
    during_request: bool = False,
) -> LimitOptions:
    """Return a decorator's options, checked; raise InvalidLimit, ValueError or TypeError for wrong ones.

    ``known`` are the options that a limit has in an adapter.
    """
    check_options("a limit", sorted(keywords), known)
    # Flask-Limiter would read None as False where the default may be True.
    switches = {name for name, option in known.items() if option.kind is kinds.SWITCH and option.is_strict}
    given = {name: value for name, value in keywords.items() if name in switches or known[name].is_set(value)}
    for name, option in given.items():
        known[name].check(option, arguments)
    made = LimitOptions(
        parts_of(value),
        identify_by(given.pop("identifiers", None), given.pop("key_func", None), arguments),
        methods_of(given.pop("methods", None)),
        parts_of(given.pop("meta_limits", None)),
        is_shared,
        during_request,
    ).saying(**given)
    made.check_limits(read, arguments)
    return made


def parts_of(value: LimitsValue | None) -> tuple[Part, ...]:
    """Return limits in parts: all fixed limits, then each function and each `overlimit.first_of`."""
    if value is None:
        return ()
    if not isinstance(value, list):
        return (value,)
    fixed = hashable([member for member in value if not is_alone(member)])
    others = tuple(member for member in value if is_alone(member))
    return (fixed, *others) if fixed or not others else others


def is_alone(member: object) -> bool:
    """Return whether a limit of a list is counted apart from those beside it."""
    return isinstance(member, FirstOf) or is_dynamic(member)  # type: ignore[arg-type]


def hashable(limits: LimitsLike) -> LimitsLike:
    """Return limits with tuples in place of lists, such as JSON has for ``(duration, limit)``."""
    if not isinstance(limits, list):
        return limits
    return tuple(tuple(part) if isinstance(part, list) else part for part in limits)


def text_of(parts: tuple[Part, ...]) -> str:
    """Return limits as a string, with functions by their names."""
    return "; ".join(
        part if isinstance(part, str) else function_name(part) if is_dynamic(part) else repr(part)
        for part in parts
    )


def is_dynamic(value: Part | Limiter) -> TypeIs[Dynamic]:
    """Return whether it is a function that returns limits during a request."""
    return callable(value) and not isinstance(value, Limit)


def _check_part(part: Part | Limiter, read: ReadLimits, algorithm: str | None, arguments: int) -> None:
    if isinstance(part, FirstOf):
        for budget in part.budgets:
            _check_part(budget, read, algorithm, arguments)
        return None
    if isinstance(part, Limiter):
        return None
    if is_dynamic(part):
        return check_callable("a function that returns limits", part, arguments)
    members = part if isinstance(part, (list, tuple)) and part else (part,)
    if not all(is_set(member) for member in members):
        raise InvalidLimit(
            f"{part!r} is not a limit: exempt a view that has none, or write lambda: '' where that depends "
            "on the request"
        )
    read(part, algorithm)
    return None
