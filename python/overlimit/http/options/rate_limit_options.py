"""The options of a RateLimit: each described once, and their types."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict, TypeVar

from overlimit._forwarded import FORWARDED_FOR
from overlimit.clocks import ClockLike
from overlimit.http.answering.fields import HeaderNames
from overlimit.http.identifying.identifiers import Anonymous, Identify
from overlimit.http.options import kinds
from overlimit.http.options.kinds import Option, options
from overlimit.http.options.limit_options import ANONYMOUS, ON_ERROR, AnyCost, AnyLimits
from overlimit.limiter import OnError
from overlimit.limits.penalty import Penalty
from overlimit.stores import Store

F = TypeVar("F", bound=Callable[..., Any])

Headers = Literal["draft", "legacy", "both"] | None
"""The fields of the IETF draft, X-RateLimit-*, both, or none."""


class CommonOptions(TypedDict, total=False):
    """The options of every adapter; None means not set, except for ``headers``."""

    global_limits: AnyLimits | None
    on_breach: Callable[..., object] | None
    identifiers: Identify | Sequence[Identify] | None
    key_func: Identify | None
    anonymous: Anonymous | None
    store: str | Store | None
    clock: ClockLike | None
    algorithm: str | None
    key_prefix: str | None
    enabled: bool | None
    headers: Headers
    header_names: HeaderNames | None
    on_error: OnError | None
    penalty: Penalty | None
    local_share: float | None
    shadow: bool | None
    trusted_proxies: int | Sequence[str] | None
    address_header: str | None
    ipv6_prefix: int | None


class RateLimitOptions(CommonOptions, total=False):
    """The options of a RateLimit."""

    default_limits: AnyLimits | None
    default_limits_per_method: bool | None
    default_limits_exempt_when: Callable[..., object] | None
    default_limits_deduct_when: Callable[..., object] | None
    default_limits_cost: AnyCost | None
    application_limits: AnyLimits | None
    application_limits_per_method: bool | None
    application_limits_exempt_when: Callable[..., object] | None
    application_limits_deduct_when: Callable[..., object] | None
    application_limits_cost: AnyCost | None
    global_limits_per_method: bool | None
    global_limits_exempt_when: Callable[..., object] | None
    global_limits_deduct_when: Callable[..., object] | None
    global_limits_cost: AnyCost | None
    meta_limits: AnyLimits | None
    in_memory_fallback: AnyLimits | None
    on_meta_breach: Callable[..., object] | None


def _group(name: str, key: str, prefix: str, text: str) -> dict[str, Option]:
    """Return the option of limits, and those that say how they count."""
    beside: dict[str, tuple[kinds.Kind, object]] = {
        "per_method": (kinds.SWITCH, False),
        "exempt_when": (kinds.function(), None),
        "deduct_when": (kinds.function("the response"), None),
        "cost": (kinds.COST, None),
    }
    return {name: Option(kinds.LIMITS_OF_ALL, text, key)} | {
        f"{name}_{option}": Option(
            kind, "As for a single limit.", f"{prefix}_{option.upper()}", default=default
        )
        for option, (kind, default) in beside.items()
    }


RATE_LIMIT_OPTIONS = options(
    **_group(
        "default_limits",
        "RATELIMIT_DEFAULT",
        "RATELIMIT_DEFAULTS",
        "Hold for each route that has no decorator, counted per endpoint.",
    ),
    **_group(
        "application_limits",
        "RATELIMIT_APPLICATION",
        "RATELIMIT_APPLICATION",
        "Hold for all routes, counted together.",
    ),
    **_group(
        "global_limits",
        "RATELIMIT_GLOBAL",
        "RATELIMIT_GLOBAL",
        "Hold for all clients together: one count for the app, whatever the identifiers.",
    ),
    meta_limits=Option(
        kinds.LIMITS_OF_ALL,
        "How often one may be refused: each refusal spends one, and when they are used up every request is "
        "refused.",
        "RATELIMIT_META",
    ),
    in_memory_fallback=Option(
        kinds.LIMITS_OF_ALL,
        "Replaces all limits, in the memory of this process, while the store fails, whatever ``on_error`` "
        "says.",
        "RATELIMIT_IN_MEMORY_FALLBACK",
    ),
    on_breach=Option(
        kinds.function("the decision"),
        "Called with the Decision of a refusal; a response it returns is the answer.",
        "RATELIMIT_ON_BREACH_CALLBACK",
    ),
    on_meta_breach=Option(
        kinds.function("the decision"),
        "As ``on_breach``, for a refusal by a meta limit.",
        "RATELIMIT_ON_META_BREACH_CALLBACK",
    ),
    identifiers=Option(
        kinds.IDENTIFY,
        "Returns one identifier of the current request or several, all of which are limited; called once per "
        "request. May be `by_address` and the like, or a list of functions. Default: `get_identifiers`.",
    ),
    key_func=Option(
        kinds.KEY_FUNC,
        "As ``identifiers``, but what it returns is one identifier: the ``str()`` of it, the parts of a "
        "tuple joined.",
        other_keys=("RATELIMIT_KEY_FUNC",),
    ),
    anonymous=Option(
        ANONYMOUS,
        'How requests without an identity (``""``, None, ``[]``) are treated: ``"share"``, the default, '
        'gives them one limit together, ``"exempt"`` does not limit them.',
        "RATELIMIT_ANONYMOUS",
        default="share",
    ),
    store=Option(
        kinds.STORE,
        'URL or store; ``"memory://"``, the default, is one store per app. Storage options are a dict, which '
        "completes the URL.",
        other_keys=("RATELIMIT_STORAGE_URI", "RATELIMIT_STORAGE_OPTIONS"),
        default="memory://",
    ),
    clock=Option(kinds.CLOCK, "Drives every limit; default: the time of the store."),
    algorithm=Option(
        kinds.ALGORITHM,
        "The algorithm of limits that are given as strings.",
        "RATELIMIT_ALGORITHM",
        other_keys=("RATELIMIT_STRATEGY",),
    ),
    key_prefix=Option(kinds.TEXT, "Keeps apart what shares a store.", "RATELIMIT_KEY_PREFIX", default=""),
    enabled=Option(
        kinds.SWITCH, "False lets everything pass.", "RATELIMIT_ENABLED", default=True, is_strict=True
    ),
    headers=Option(
        kinds.HEADERS,
        '``"draft"``, the default, sends the fields of the IETF draft, ``"legacy"`` ``X-RateLimit-*``, '
        '``"both"`` both, None sends none.',
        "RATELIMIT_HEADERS",
        other_keys=("RATELIMIT_HEADERS_ENABLED",),
        default="draft",
    ),
    header_names=Option(
        kinds.HEADER_NAMES,
        'The names of the ``"legacy"`` fields, and of ``Retry-After``.',
        other_keys=tuple(f"RATELIMIT_HEADER_{field.upper()}" for field in HeaderNames._fields),
    ),
    on_error=Option(
        ON_ERROR,
        'What happens when the store fails: ``"allow"`` (the default), ``"deny"`` (503), ``"local"`` (this '
        'process decides, by ``local_share`` of the limits) or ``"raise"``.',
        "RATELIMIT_ON_ERROR",
        other_keys=("RATELIMIT_IN_MEMORY_FALLBACK_ENABLED", "RATELIMIT_SWALLOW_ERRORS"),
        default="allow",
    ),
    penalty=Option(
        kinds.PENALTY,
        "A ``Penalty``: whoever goes over a limit is locked there for a while, and longer each time, but not "
        "by ``global_limits`` and ``meta_limits``.",
        "RATELIMIT_PENALTY",
    ),
    local_share=Option(kinds.SHARE, "As for ``Limiter``.", default=1.0),
    shadow=Option(
        kinds.SWITCH,
        "Whether everything is counted, headers are left out and nothing is refused.",
        "RATELIMIT_SHADOW",
        default=False,
    ),
    trusted_proxies=Option(
        kinds.PROXIES,
        "How many proxies, or which addresses and networks, are believed about the client's address; "
        "with 0 ``address_header`` is ignored.",
        "RATELIMIT_TRUSTED_PROXIES",
        default=0,
    ),
    address_header=Option(
        kinds.ADDRESS_HEADER,
        "The field in which ``trusted_proxies`` say it, such as ``Forwarded`` (RFC 7239) or, with a single "
        "address, ``CF-Connecting-IP``; by default ``X-Forwarded-For``.",
        "RATELIMIT_ADDRESS_HEADER",
        default=FORWARDED_FOR,
    ),
    ipv6_prefix=Option(
        kinds.IPV6_PREFIX,
        "How many bits of an IPv6 address make one client.",
        "RATELIMIT_IPV6_PREFIX",
        default=64,
    ),
)
"""The options of a RateLimit, in the order of ``help()``."""

REQUEST_IDENTIFIER = Option(kinds.function(), "", "RATELIMIT_REQUEST_IDENTIFIER", name="request_identifier")
"""Returns what is counted instead of the endpoint; only a configuration has it."""

GROUPS = tuple(name for name, option in RATE_LIMIT_OPTIONS.items() if option.kind is kinds.LIMITS_OF_ALL)
"""The options that are limits."""


def shows_options(known: Mapping[str, Option]) -> Callable[[F], F]:
    """Show options in a signature in place of ``**options``, and parameters as those given by name."""

    def shown(function: F) -> F:
        signature = inspect.signature(function)
        placed = [
            each.replace(kind=each.POSITIONAL_OR_KEYWORD)
            for each in signature.parameters.values()
            if each.kind is not each.VAR_KEYWORD
        ]
        named = [_parameter(option) for option in known.values()]
        function.__signature__ = signature.replace(parameters=placed + named)  # type: ignore[attr-defined]
        return function

    return shown


def _parameter(option: Option) -> inspect.Parameter:
    annotation = RateLimitOptions.__annotations__.get(option.name, type(option.default).__name__)
    written = getattr(annotation, "__forward_arg__", annotation)
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(option.name, kind, default=option.default, annotation=written)
