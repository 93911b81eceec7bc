"""The options of a RateLimit: each described once, and their types."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypedDict, TypeVar, cast

from overlimit._forwarded import FORWARDED_FOR
from overlimit.clocks import ClockLike
from overlimit.http.answering.fields import HeaderNames
from overlimit.http.identifying.identifiers import Anonymous, Identify
from overlimit.http.options import kinds
from overlimit.http.options.kinds import Option, described, type_of
from overlimit.http.options.limit_options import ANONYMOUS, ON_ERROR, AnyCost, AnyLimits, Said
from overlimit.limiter import OnError
from overlimit.limits.penalty import Penalty
from overlimit.stores import Store

F = TypeVar("F", bound=Callable[..., Any])

Headers = Literal["draft", "legacy", "both"] | None
"""The fields of the IETF draft, X-RateLimit-*, both, or none."""


_TERMS: Mapping[str, Option] = {
    "per_method": Option(kinds.SWITCH, "As for a single limit.", default=False),
    "exempt_when": Option(kinds.function(), "As for a single limit."),
    "deduct_when": Option(kinds.function("the response"), "As for a single limit."),
    "cost": Option(kinds.COST, "As for a single limit."),
}
"""What may be said of the limits that an option names, in options that are called after both."""


def _term(name: str, keys: str) -> Option:
    """Return the option of a term, whose key begins like those of its limits."""
    return _TERMS[name]._replace(key=f"{keys}_{name.upper()}")


class LimitsOfRoutes(TypedDict, total=False):
    """The limits of routes, and how they count."""

    default_limits: Annotated[
        AnyLimits | None,
        Option(
            kinds.LIMITS_OF_ALL,
            "Hold for each route that has no decorator, counted per endpoint.",
            "RATELIMIT_DEFAULT",
        ),
    ]
    default_limits_per_method: Annotated[bool | None, _term("per_method", "RATELIMIT_DEFAULTS")]
    default_limits_exempt_when: Annotated[
        Callable[..., object] | None, _term("exempt_when", "RATELIMIT_DEFAULTS")
    ]
    default_limits_deduct_when: Annotated[
        Callable[..., object] | None, _term("deduct_when", "RATELIMIT_DEFAULTS")
    ]
    default_limits_cost: Annotated[AnyCost | None, _term("cost", "RATELIMIT_DEFAULTS")]
    application_limits: Annotated[
        AnyLimits | None,
        Option(kinds.LIMITS_OF_ALL, "Hold for all routes together, per client.", "RATELIMIT_APPLICATION"),
    ]
    application_limits_per_method: Annotated[bool | None, _term("per_method", "RATELIMIT_APPLICATION")]
    application_limits_exempt_when: Annotated[
        Callable[..., object] | None, _term("exempt_when", "RATELIMIT_APPLICATION")
    ]
    application_limits_deduct_when: Annotated[
        Callable[..., object] | None, _term("deduct_when", "RATELIMIT_APPLICATION")
    ]
    application_limits_cost: Annotated[AnyCost | None, _term("cost", "RATELIMIT_APPLICATION")]


class CommonOptions(TypedDict, total=False):
    """The options of every adapter; None means not set, except for ``headers``."""

    global_limits: Annotated[
        AnyLimits | None,
        Option(
            kinds.LIMITS_OF_ALL,
            "Hold for all clients together: one count for the app, whatever the identifiers.",
            "RATELIMIT_GLOBAL",
        ),
    ]
    limits_file: Annotated[
        str | os.PathLike[str] | None,
        Option(
            kinds.FILE,
            "The path of a ``limits.toml``, which goes before limits in code for all that it names, and is "
            "followed when it changes: docs/reference/limits_file.md.",
            "RATELIMIT_LIMITS_FILE",
        ),
    ]
    on_breach: Annotated[
        Callable[..., object] | None,
        Option(
            kinds.function("the decision"),
            "Called with the Decision of a refusal; a response it returns is the answer.",
            "RATELIMIT_ON_BREACH_CALLBACK",
        ),
    ]
    identifiers: Annotated[
        Identify | Sequence[Identify] | None,
        Option(
            kinds.IDENTIFY,
            "Returns one identifier of the current request or several, all of which are limited; called once "
            "per request. May be `by_address` and the like, or a list of functions. Default: "
            "`get_identifiers`.",
        ),
    ]
    key_func: Annotated[
        Identify | None,
        Option(
            kinds.KEY_FUNC,
            "As ``identifiers``, but what it returns is one identifier: the ``str()`` of it, the parts of a "
            "tuple joined.",
            other_keys=("RATELIMIT_KEY_FUNC",),
        ),
    ]
    anonymous: Annotated[
        Anonymous | None,
        Option(
            ANONYMOUS,
            'How requests without an identity (``""``, None, ``[]``) are treated: ``"share"``, the default, '
            'gives them one limit together, ``"exempt"`` does not limit them.',
            "RATELIMIT_ANONYMOUS",
            default="share",
        ),
    ]
    store: Annotated[
        str | Store | None,
        Option(
            kinds.STORE,
            'URL or store; ``"memory://"``, the default, is one store per app. Storage options are a dict, '
            "which completes the URL.",
            other_keys=("RATELIMIT_STORAGE_URI", "RATELIMIT_STORAGE_OPTIONS"),
            default="memory://",
        ),
    ]
    clock: Annotated[
        ClockLike | None, Option(kinds.CLOCK, "Drives every limit; default: the time of the store.")
    ]
    algorithm: Annotated[
        str | None,
        Option(
            kinds.ALGORITHM,
            "The algorithm of limits that are given as strings.",
            "RATELIMIT_ALGORITHM",
            other_keys=("RATELIMIT_STRATEGY",),
        ),
    ]
    key_prefix: Annotated[
        str | None,
        Option(kinds.TEXT, "Keeps apart what shares a store.", "RATELIMIT_KEY_PREFIX", default=""),
    ]
    enabled: Annotated[
        bool | Callable[[], bool] | None,
        Option(
            kinds.SWITCH_OR_FUNCTION,
            "False lets everything pass. Or a function without parameters, such as one that asks for a "
            "feature flag: it is called at most once a second; while it fails, its last answer holds.",
            "RATELIMIT_ENABLED",
            default=True,
            is_strict=True,
        ),
    ]
    headers: Annotated[
        Headers,
        Option(
            kinds.HEADERS,
            '``"draft"``, the default, sends the fields of the IETF draft, ``"legacy"`` ``X-RateLimit-*``, '
            '``"both"`` both, None sends none.',
            "RATELIMIT_HEADERS",
            other_keys=("RATELIMIT_HEADERS_ENABLED",),
            default="draft",
        ),
    ]
    header_names: Annotated[
        HeaderNames | None,
        Option(
            kinds.HEADER_NAMES,
            'The names of the ``"legacy"`` fields, and of ``Retry-After``.',
            other_keys=tuple(f"RATELIMIT_HEADER_{field.upper()}" for field in HeaderNames._fields),
        ),
    ]
    on_error: Annotated[
        OnError | None,
        Option(
            ON_ERROR,
            'What happens when the store fails: ``"allow"`` (the default), ``"deny"`` (503), ``"local"`` '
            '(this process decides, by ``local_share`` of the limits) or ``"raise"``.',
            "RATELIMIT_ON_ERROR",
            other_keys=("RATELIMIT_IN_MEMORY_FALLBACK_ENABLED", "RATELIMIT_SWALLOW_ERRORS"),
            default="allow",
        ),
    ]
    penalty: Annotated[
        Penalty | None,
        Option(
            kinds.PENALTY,
            "A ``Penalty``: whoever goes over a limit is locked there for a while, and longer each time, but "
            "not by ``global_limits`` and ``meta_limits``.",
            "RATELIMIT_PENALTY",
        ),
    ]
    local_share: Annotated[float | None, Option(kinds.SHARE, "As for ``Limiter``.", default=1.0)]
    explain: Annotated[
        bool | None,
        Option(
            kinds.SWITCH,
            "Whether the body of a refusal has an ``instance``, a URN that says what was decided and that "
            "``overlimit explain`` makes a sentence of. It names nobody.",
            "RATELIMIT_EXPLAIN",
            default=True,
        ),
    ]
    shadow: Annotated[
        bool | Callable[[], bool] | None,
        Option(
            kinds.SWITCH_OR_FUNCTION,
            "Whether everything is counted, headers are left out and nothing is refused; or a function that "
            "says so, as for ``enabled``.",
            "RATELIMIT_SHADOW",
            default=False,
        ),
    ]
    trusted_proxies: Annotated[
        int | Sequence[str] | None,
        Option(
            kinds.PROXIES,
            "How many proxies, or which addresses and networks, are believed about the client's address; "
            "with 0 ``address_header`` is ignored.",
            "RATELIMIT_TRUSTED_PROXIES",
            default=0,
        ),
    ]
    address_header: Annotated[
        str | None,
        Option(
            kinds.ADDRESS_HEADER,
            "The field in which ``trusted_proxies`` say it, such as ``Forwarded`` (RFC 7239) or, with a "
            "single address, ``CF-Connecting-IP``; by default ``X-Forwarded-For``.",
            "RATELIMIT_ADDRESS_HEADER",
            default=FORWARDED_FOR,
        ),
    ]
    ipv6_prefix: Annotated[
        int | None,
        Option(
            kinds.IPV6_PREFIX,
            "How many bits of an IPv6 address make one client.",
            "RATELIMIT_IPV6_PREFIX",
            default=64,
        ),
    ]


class RateLimitOptions(LimitsOfRoutes, CommonOptions, total=False):
    """The options of a RateLimit."""

    global_limits_per_method: Annotated[bool | None, _term("per_method", "RATELIMIT_GLOBAL")]
    global_limits_exempt_when: Annotated[
        Callable[..., object] | None, _term("exempt_when", "RATELIMIT_GLOBAL")
    ]
    global_limits_deduct_when: Annotated[
        Callable[..., object] | None, _term("deduct_when", "RATELIMIT_GLOBAL")
    ]
    global_limits_cost: Annotated[AnyCost | None, _term("cost", "RATELIMIT_GLOBAL")]
    meta_limits: Annotated[
        AnyLimits | None,
        Option(
            kinds.LIMITS_OF_ALL,
            "How often one may be refused: each refusal spends one, and when they are used up every request "
            "is refused.",
            "RATELIMIT_META",
        ),
    ]
    in_memory_fallback: Annotated[
        AnyLimits | None,
        Option(
            kinds.LIMITS_OF_ALL,
            "Replaces all limits, in the memory of this process, while the store fails, whatever "
            "``on_error`` says.",
            "RATELIMIT_IN_MEMORY_FALLBACK",
        ),
    ]
    on_meta_breach: Annotated[
        Callable[..., object] | None,
        Option(
            kinds.function("the decision"),
            "As ``on_breach``, for a refusal by a meta limit.",
            "RATELIMIT_ON_META_BREACH_CALLBACK",
        ),
    ]


_DESCRIBED = described(RateLimitOptions)

GROUPS = tuple(name for name, option in _DESCRIBED.items() if option.kind is kinds.LIMITS_OF_ALL)
"""The options that are limits."""

_FIRST = (*GROUPS, "on_breach", "on_meta_breach")
"""How the first options in ``help()`` begin."""


def _place(name: str) -> int:
    return next((place for place, first in enumerate(_FIRST) if name.startswith(first)), len(_FIRST))


RATE_LIMIT_OPTIONS = {name: _DESCRIBED[name] for name in sorted(_DESCRIBED, key=_place)}
"""The options of a RateLimit, in the order of ``help()``."""

REQUEST_IDENTIFIER = Option(kinds.function(), "", "RATELIMIT_REQUEST_IDENTIFIER", name="request_identifier")
"""Returns what is counted instead of the endpoint; only a configuration has it."""


def terms_of(options: Mapping[str, Any], group: str) -> Said:
    """Return what options say of the limits that one of them names."""
    named = {term: f"{group}_{term}" for term in _TERMS}
    return cast(Said, {term: options[name] for term, name in named.items() if name in options})


def shows_options(keywords: type, known: Mapping[str, Option]) -> Callable[[F], F]:
    """Show options in a signature in place of ``**options``, and parameters as those given by name."""

    def shown(function: F) -> F:
        signature = inspect.signature(function)
        placed = [
            each.replace(kind=each.POSITIONAL_OR_KEYWORD)
            for each in signature.parameters.values()
            if each.kind is not each.VAR_KEYWORD
        ]
        named = [_parameter(option, type_of(keywords, option.name)) for option in known.values()]
        function.__signature__ = signature.replace(parameters=placed + named)  # type: ignore[attr-defined]
        return function

    return shown


def _parameter(option: Option, written: str) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(option.name, kind, default=option.default, annotation=written)
