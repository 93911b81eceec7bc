"""The options of one limit, from a decorator or the configuration, checked before anything else."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

from overlimit import InvalidLimit
from overlimit._options import is_set
from overlimit.http.callables import check_callable, expected_function, fingerprint, shown
from overlimit.http.identifying.identifiers import Anonymous, Combined, Identify, Key, ReadsRequest
from overlimit.http.options.storage_urls import hides_passwords
from overlimit.limiter import OnError
from overlimit.limits import Limit, LimitsLike, as_limits

if TYPE_CHECKING:
    from typing_extensions import TypeIs

__all__ = [
    "Cost",
    "Dynamic",
    "LimitOptions",
    "LimitsValue",
    "ReadLimits",
    "Scope",
    "check_anonymous",
    "check_on_error",
    "check_switch",
    "counted_method",
    "hashable",
    "identify_by",
    "is_dynamic",
    "limit_options",
    "methods_of",
    "parts_of",
    "text_of",
]

Dynamic: TypeAlias = Callable[..., LimitsLike]
"""Returns the limits that hold during a request; ``""``: there are none."""

LimitsValue: TypeAlias = LimitsLike | Dynamic | list[Any]
"""Limits, a function that returns them during a request, or a list of these."""

ReadLimits: TypeAlias = Callable[[LimitsLike, str | None], tuple[Limit, ...]]
"""Reads limits; strings by the named algorithm, if there is one."""

Cost: TypeAlias = int | Callable[..., int]
"""What a request spends, or a function that returns it during the request."""

Scope: TypeAlias = str | Callable[..., str]
"""What a count is divided by, or a function that returns it for an endpoint."""


@dataclasses.dataclass(frozen=True)
class LimitOptions:
    """All options of one limit."""

    parts: tuple[LimitsLike | Dynamic, ...]
    """The limits; each part is counted as one policy (see `parts_of`)."""
    identifiers: Identify | None = None
    per_method: bool = False
    methods: frozenset[str] | None = None
    error_message: str | Callable[..., str] | None = None
    exempt_when: Callable[..., object] | None = None
    override_defaults: bool = True
    deduct_when: Callable[..., object] | None = None
    on_breach: Callable[..., object] | None = None
    cost: Cost = 1
    scope: Scope | None = None
    is_shared: bool = False
    meta_limits: tuple[LimitsLike | Dynamic, ...] = ()
    algorithm: str | None = None
    name: str | None = None
    shadow: bool = False
    on_error: OnError | None = None
    anonymous: Anonymous | None = None
    during_request: bool = False
    """Whether they were made while a request was handled, so that there may be any number of them."""

    def fingerprint(self, function: object) -> str:
        """Return a string that tells a function from others, without values that may come from a request."""
        return fingerprint(function, by_values=not self.during_request)

    def holds_for(self, method: str) -> bool:
        """Return whether it holds for this HTTP method; HEAD counts as GET."""
        return self.methods is None or method in self.methods or counted_method(method) in self.methods

    def check(self, read: ReadLimits = as_limits, arguments: int = 0) -> None:
        """Check everything; ``read`` reads the limits.

        ``arguments`` is the number of arguments for the request with which functions are called.

        Raises
        ------
        InvalidLimit
            The limits are malformed.
        ValueError, TypeError
            Another option cannot be used.
        """
        for part in (*self.parts, *self.meta_limits):
            _check_part(part, read, self.algorithm, arguments)
        self._check_functions(arguments)
        for name in ("per_method", "override_defaults", "shadow"):
            check_switch(name, getattr(self, name))
        _check_cost(self.cost)
        _check_name(self.name)
        check_anonymous(self.anonymous)
        check_on_error(self.on_error)

    def _check_functions(self, arguments: int) -> None:
        if not isinstance(self.identifiers, ReadsRequest):
            check_callable("identifiers", self.identifiers, arguments)
        check_callable("exempt_when", self.exempt_when, arguments)
        check_callable("deduct_when", self.deduct_when, arguments, of="the response")
        check_callable("on_breach", self.on_breach, arguments, of="the decision")
        if callable(self.error_message):
            check_callable("error_message", self.error_message, arguments)
        if callable(self.cost):
            check_callable("cost", self.cost, arguments)
        _check_scope(self.scope, arguments)


@hides_passwords
def limit_options(
    value: LimitsValue,
    keywords: Mapping[str, Any],
    known: Collection[str],
    *,
    read: ReadLimits = as_limits,
    arguments: int = 0,
    is_shared: bool = False,
    during_request: bool = False,
) -> LimitOptions:
    """Return the checked options of a decorator that takes the ``known`` keywords.

    Raises
    ------
    InvalidLimit
        ``value`` is malformed.
    ValueError, TypeError
        An option has an invalid value, or there is no option of this name.
    """
    given = {
        name: option for name, option in keywords.items() if is_set(option) or name not in _EMPTY_IS_NOT_SET
    }
    unknown = given.keys() - set(known)
    if unknown:
        raise TypeError(f"a limit has no option {min(unknown)!r}; it has {', '.join(known)}")
    given["identifiers"] = identify_by(given.get("identifiers"), given.pop("key_func", None), arguments)
    given["methods"] = methods_of(given.get("methods"))
    given["meta_limits"] = parts_of(given.get("meta_limits"))
    options = LimitOptions(parts_of(value), is_shared=is_shared, during_request=during_request, **given)
    options.check(read, arguments)
    return options


_EMPTY_IS_NOT_SET = frozenset(
    {
        "anonymous",
        "cost",
        "deduct_when",
        "error_message",
        "exempt_when",
        "identifiers",
        "key_func",
        "meta_limits",
        "on_breach",
        "per_method",
        "scope",
    }
)
"""Options for which None and empty values mean that they are not set, as in Flask-Limiter."""


def identify_by(identifiers: object, key_func: object, arguments: int = 0) -> Identify | None:
    """Return the function that the options of these names stand for; None: neither is set.

    ``arguments`` is the number of arguments for the request with which it is called.

    Raises
    ------
    TypeError
        Both are set, or one is not what it must be.
    """
    if is_set(identifiers) and is_set(key_func):
        raise TypeError(
            "identifiers and key_func both say who is limited: give one of them, and identifiers=[...] for "
            "several"
        )
    if not is_set(key_func):
        return as_identify("identifiers", identifiers, arguments)
    check_callable("key_func", key_func, arguments)
    return Key(key_func)  # type: ignore[arg-type]


def as_identify(name: str, given: object, arguments: int = 0) -> Identify | None:
    """Return the function that an option stands for, one for a whole list; None: it is not set.

    Raises
    ------
    TypeError
        It is neither such a function nor a list of them; the message names the option.
    """
    if not is_set(given):
        return None
    if isinstance(given, (list, tuple)):
        return Combined(_as_function(f"each of {name}", member, arguments) for member in given)
    return _as_function(name, given, arguments)


def _as_function(name: str, given: object, arguments: int) -> Identify:
    if isinstance(given, ReadsRequest):
        return given
    if not callable(given):
        raise TypeError(f"{name} must be {expected_function(arguments)}, not {given!r}")
    check_callable(name, given, arguments)
    return given


def check_switch(name: str, value: object) -> None:
    """Raise TypeError unless it is True or False: a string such as "False" would be true."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, not {value!r}")


def counted_method(method: str) -> str:
    """Return the HTTP method that a request counts as: HEAD is a GET without the body."""
    return "GET" if method == "HEAD" else method


def methods_of(methods: object) -> frozenset[str] | None:
    """Return HTTP methods in capitals; None: all."""
    if methods is None:
        return None
    if isinstance(methods, str):
        raise TypeError(f"methods must be a list of HTTP methods, as in methods=[{methods!r}]")
    found = frozenset(methods) if isinstance(methods, Iterable) else frozenset()
    if not found or not all(isinstance(method, str) for method in found):
        raise TypeError(f"methods must be a list of HTTP methods, as in ['POST'], not {methods!r}")
    return frozenset(method.upper() for method in found)


def parts_of(value: LimitsValue | None) -> tuple[LimitsLike | Dynamic, ...]:
    """Return limits in parts that are counted as one policy each: all fixed limits, then each function."""
    if value is None:
        return ()
    if not isinstance(value, list):
        return (value,)
    fixed = hashable([member for member in value if not is_dynamic(member)])
    functions = tuple(member for member in value if is_dynamic(member))
    return (fixed, *functions) if fixed or not functions else functions


def hashable(limits: LimitsLike) -> LimitsLike:
    """Return limits with tuples in place of lists, such as JSON has for ``(duration, limit)``."""
    if not isinstance(limits, list):
        return limits
    return tuple(tuple(part) if isinstance(part, list) else part for part in limits)


def text_of(parts: tuple[LimitsLike | Dynamic, ...]) -> str:
    """Return limits as a string, with functions by their names."""
    return "; ".join(
        part if isinstance(part, str) else shown(part) if is_dynamic(part) else repr(part) for part in parts
    )


def is_dynamic(value: LimitsLike | Dynamic) -> TypeIs[Dynamic]:
    """Return whether it is a function that returns limits during a request."""
    return callable(value) and not isinstance(value, Limit)


def check_anonymous(anonymous: object) -> None:
    """Raise ValueError unless it is None or one of the words."""
    if anonymous is not None and anonymous not in get_args(Anonymous):
        raise ValueError(f"anonymous must be 'share' or 'exempt', not {anonymous!r}")


def check_on_error(on_error: object) -> None:
    """Raise ValueError unless it is None or says what happens when the store fails."""
    if on_error is not None and on_error not in get_args(OnError):
        raise ValueError(f"on_error must be one of {', '.join(get_args(OnError))}, not {on_error!r}")


def _check_part(part: LimitsLike | Dynamic, read: ReadLimits, algorithm: str | None, arguments: int) -> None:
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


def _check_scope(scope: object, arguments: int) -> None:
    if scope is None or isinstance(scope, str):
        return
    if not callable(scope):
        instead = f": write scope='{scope}'" if isinstance(scope, int) else ""
        raise TypeError(f"scope must be a string or a function of the endpoint, not {scope!r}{instead}")
    check_callable("scope", scope, arguments, of="the endpoint")


def _check_cost(cost: object) -> None:
    if callable(cost):
        return
    if isinstance(cost, bool) or not isinstance(cost, int):
        raise TypeError(f"cost must be a whole number or a function that returns one, not {cost!r}")
    if cost < 0:
        raise ValueError(f"cost must be 0 or more, not {cost}")


def _check_name(name: object) -> None:
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name must be a str, not {name!r}")
    if name == "":
        raise InvalidLimit("name must not be empty")
