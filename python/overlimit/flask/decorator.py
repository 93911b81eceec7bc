"""``rate_limit``: limits on a view, on a blueprint, on any function called in a request, or on a block."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypedDict, TypeVar, cast, overload

from flask import Blueprint, has_request_context

from overlimit import Decision, InvalidLimit
from overlimit.flask.app_state import LEDGER, AppState, Ledger, wait_for_apps
from overlimit.flask.current import current_request, this_app, this_request
from overlimit.flask.proxies import behind, without_proxies, without_proxy
from overlimit.http.charges import Cost
from overlimit.http.functions import is_set, shown
from overlimit.http.identities import Anonymous, Identify, identify_by
from overlimit.http.marks import MARKS, Layer, Mark, Owner, leave_mark, mark_group
from overlimit.http.migration_hints import OF_LIMIT, hints_at_arguments
from overlimit.http.options import LimitOptions, LimitsValue, ReadLimits, Scope, methods_of, parts_of
from overlimit.http.secrets import hides_passwords
from overlimit.limiter import OnError
from overlimit.limits import as_limits

if TYPE_CHECKING:
    from typing_extensions import Unpack


__all__ = ["LimitKeywords", "Limited", "SharedKeywords", "limiting", "rate_limit"]

P = ParamSpec("P")
R = TypeVar("R")
B = TypeVar("B", bound=Blueprint)


class SharedKeywords(TypedDict, total=False):
    """What every kind of limit takes by name; see `rate_limit`."""

    identifiers: Identify | Sequence[Identify] | None
    key_func: Callable[[], object] | None
    anonymous: Anonymous | None
    per_method: bool
    methods: Iterable[str] | None
    error_message: str | Callable[[], str] | None
    exempt_when: Callable[[], object] | None
    override_defaults: bool
    deduct_when: Callable[[Any], object] | None
    on_breach: Callable[[Decision], object] | None
    cost: Cost | None
    meta_limits: LimitsValue | None
    algorithm: str | None
    name: str | None
    shadow: bool
    on_error: OnError | None


class LimitKeywords(SharedKeywords, total=False):
    """What a limit takes by name that spans no routes."""

    scope: Scope | None


class Limited:
    """Limits to be put on something: as a decorator on a view, a function or a blueprint, or as a context."""

    def __init__(self, options: LimitOptions, limiter: Owner | None) -> None:
        """Keep the options; ``limiter`` is the RateLimit they are bound to, which is told of changes."""
        self._options = options
        self._limiter = limiter

    @overload
    def __call__(self, target: B) -> B: ...
    @overload
    def __call__(self, target: Callable[P, R]) -> Callable[P, R]: ...
    def __call__(self, target: Any) -> Any:
        """Limit a view, a function that a request calls, or all views of a blueprint."""
        target = behind(target)
        # One mark per decorated thing: a decorator may be kept and used for several.
        mark = Mark(self._options, self._limiter)
        if self._limiter is None or not self._limiter._was_registered:
            wait_for_apps(self._limiter)
        if isinstance(target, Blueprint):
            mark_group(target, mark)
            self._tell_of_change()
            return target
        if isinstance(target, type):
            raise TypeError(f"{target.__name__} is a class: put the limit into its decorators = [...]")
        if not callable(target):
            raise TypeError(f"a limit is put on a function or a blueprint, not on {target!r}")
        limited = _limited(target, mark)
        if not has_request_context():
            self._tell_of_change()
        return limited

    def _tell_of_change(self) -> None:
        if self._limiter is not None:
            self._limiter._forget_plans()

    @property
    def __name__(self) -> str:
        """Flask asks a view for it: what stands in its place is a decorator that was not called."""
        raise AttributeError("a limit is no view: write @rate_limit('10/second'), not @rate_limit")

    def __enter__(self) -> None:
        """Charge the current request, if there is one.

        Raises
        ------
        RateLimitExceeded, StoreFailed
            It is refused.
        """
        asked = this_request()
        if asked is not None and asked.method != "OPTIONS":
            AppState.of(this_app()).enforce_block(self._options, self._limiter, asked)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing: what is charged stays charged."""


@hints_at_arguments(OF_LIMIT)
def rate_limit(value: LimitsValue, **options: Unpack[LimitKeywords]) -> Limited:
    """Limit a view through the current app's first RateLimit, or else through one in the process's memory.

    Stacked decorators are all checked, together with the limits of blueprints and of the application, in one
    step: a refused request is charged nowhere. Counts are kept per endpoint. Below ``@app.route`` the request
    is decided when the innermost decorator is called; above it, when Flask is about to call the view. Any
    other decorated function is limited by itself whenever a request calls it. On a blueprint it holds for
    each of its routes, and for those of the blueprints nested in it. ``with rate_limit(...):`` charges the
    request there. Outside a request nothing is limited.

    Parameters
    ----------
    value
        Limits as text (``"10/second; 120/minute"``), a limit, a function without parameters that returns
        one of these for the current request (``""``: no limit), or a list of them.
    identifiers
        Returns who sends the request: one identifier or several; or a list of functions that do. By default
        what the RateLimit says, or `get_identifiers`.
    key_func
        As ``identifiers``, but what it returns is one identifier, as with Flask-Limiter.
    anonymous
        What becomes of requests with an empty identity: ``"share"`` limits them together, ``"exempt"`` does
        not limit them by this; by default what the RateLimit says.
    per_method
        Whether each HTTP method has counts of its own.
    methods
        The HTTP methods it holds for; None: all but OPTIONS, which is never limited.
    error_message
        The description of a refusal, or a function without parameters that returns it.
    exempt_when
        A function without parameters; where it returns true the request is not limited by this.
    override_defaults
        Whether this replaces the default limits, and on a view those of its blueprints, on a blueprint those
        of the ones it is nested in.
    deduct_when
        Given the response: whether the request counts. It is charged before the view, and given back if not.
    on_breach
        Called with the Decision of a refusal by this limit; a response it returns is the answer.
    cost
        What a request spends, or a function without parameters that returns it.
    scope
        Divides the counts of the endpoint: a text, or a function that returns one, given the endpoint.
    meta_limits
        Limits of how often one may be refused: when they are used up every request here is refused.
    algorithm
        The algorithm that limits given as text follow; by default the RateLimit's.
    name
        The name shown in header fields, by default the endpoint.
    shadow
        Whether it only counts, logs what it would have refused, and refuses nothing.
    on_error
        What happens when the store fails: ``"allow"``, ``"deny"`` (503), ``"local"`` or ``"raise"``; by
        default what the RateLimit says. Of all limits of a request the strictest counts.

    Raises
    ------
    InvalidLimit
        ``value`` is malformed; raised here and not at a request.
    ValueError, TypeError
        An option has a value that it must not have.
    """
    return limiting(value, None, options)


@hides_passwords
def limiting(
    value: LimitsValue,
    limiter: Owner | None,
    keywords: LimitKeywords,
    *,
    read: ReadLimits = as_limits,
    is_shared: bool = False,
) -> Limited:
    """Check the options of a decorator bound to ``limiter``, which reads limits so, and make it.

    Raises
    ------
    InvalidLimit
        ``value`` is malformed.
    ValueError, TypeError
        An option has a value that it must not have.
    """
    value = without_proxy(value)
    _check_limits_are_meant(value)
    given = {
        name: option
        for name, option in without_proxies(keywords).items()
        if is_set(option) or name not in _EMPTY_IS_NOT_SET
    }
    unknown = given.keys() - LimitKeywords.__annotations__.keys()
    if unknown:
        raise TypeError(
            f"a limit has no option {min(unknown)!r}; it has {', '.join(LimitKeywords.__annotations__)}"
        )
    identify = identify_by(given.get("identifiers"), given.pop("key_func", None))
    options = LimitOptions(
        parts_of(value),
        is_shared=is_shared,
        **{
            **given,
            "identifiers": identify,
            "methods": methods_of(given.get("methods")),
            "meta_limits": parts_of(given.get("meta_limits")),
        },
        during_request=has_request_context(),
    )
    options.check(read)
    return Limited(options, limiter)


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
"""Options of which None and what is empty say nothing, as with Flask-Limiter."""


def _check_limits_are_meant(value: object) -> None:
    """See to it that nobody wrote ``@rate_limit`` above a view."""
    if value is None:
        raise InvalidLimit("limits must be given: a text such as '10/second', a limit, or a list of these")
    if isinstance(value, type) or (inspect.isfunction(value) and _has_required_parameters(value)):
        raise TypeError(
            "rate_limit takes limits: write @rate_limit('10/second'). A function that names limits during a "
            f"request is called without arguments, which {shown(value)} cannot be"
        )


def _has_required_parameters(function: Callable[..., object]) -> bool:
    stars = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    parameters = inspect.signature(function).parameters.values()
    return any(each.default is each.empty and each.kind not in stars for each in parameters)


def _limited(target: Callable[P, R], mark: Mark) -> Callable[P, R]:
    layer = Layer.around(target, mark)
    wrapper = (_async_wrapper if inspect.iscoroutinefunction(target) else _wrapper)(target, layer)
    setattr(wrapper, MARKS, leave_mark(target, mark, during_request=has_request_context()))
    layer.belongs_to(wrapper)
    return wrapper


def _wrapper(target: Callable[P, R], layer: Layer) -> Callable[P, R]:
    function: Callable[P, R] = layer.function

    @functools.wraps(target)
    def limited(*args: P.args, **kwargs: P.kwargs) -> R:
        _enforce(layer)
        return function(*args, **kwargs)

    return limited


def _async_wrapper(target: Callable[P, R], layer: Layer) -> Callable[P, R]:
    function = layer.function

    @functools.wraps(target)
    async def limited(*args: P.args, **kwargs: P.kwargs) -> Any:
        _enforce(layer)
        return await function(*args, **kwargs)

    return cast(Callable[P, R], limited)


def _enforce(layer: Layer) -> None:
    try:
        asked = current_request()
    except RuntimeError:
        return
    ledger: Ledger | None = getattr(asked, LEDGER, None)
    if ledger is None or layer.marks[0] not in ledger.plan.marks:
        if asked.method != "OPTIONS":
            AppState.of(this_app()).enforce(layer, asked)
    elif layer.innermost:
        ledger.enforce()
