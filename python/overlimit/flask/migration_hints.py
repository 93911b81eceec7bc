"""Names of Flask-Limiter 4.1, and what to write instead: data for error messages.

docs/guides/migrating.md has the arguments and the most common attributes as tables.
"""

from __future__ import annotations

from types import MappingProxyType

from overlimit._messages.migration_hints import OF_DECISION, OF_RATE_LIMIT

ARGUMENTS = MappingProxyType(
    {
        **OF_RATE_LIMIT,
        "fail_on_first_breach": "leave it out: all limits are decided in one step",
        "header_name_mapping": "write header_names=HeaderNames(limit=..., remaining=..., reset=...)",
        "request_identifier": "set the key RATELIMIT_REQUEST_IDENTIFIER",
        "storage_options": "write store=RedisStore(url, ...), or set the key RATELIMIT_STORAGE_OPTIONS",
    }
)
"""Arguments of its ``Limiter``."""

_OWN_LIMITER = "use an overlimit.Limiter of your own, with the same store="
_BY_ITSELF = "leave it out: every request is decided by itself; with limiter.limit(...): charges it once more"
_GIVEN = "keep what you give to RateLimit(...), or read it from app.config"

OF_LIMITER = MappingProxyType(
    {
        **{
            f"_{kind}_limits_{option}": _GIVEN
            for kind in ("default", "application")
            for option in ("cost", "deduct_when", "exempt_when", "per_method")
        },
        **dict.fromkeys(("_header_mapping", "_headers_enabled", "_retry_after"), _GIVEN),
        **dict.fromkeys(("_in_memory_fallback", "_in_memory_fallback_enabled", "_swallow_errors"), _GIVEN),
        **dict.fromkeys(("_fail_on_first_breach", "_meta_limits", "_on_breach", "_on_meta_breach"), _GIVEN),
        **dict.fromkeys(("_key_prefix", "_storage_options", "_storage_uri", "_strategy"), _GIVEN),
        "_request_identifier": _GIVEN,
        "_blueprint_exemptions": "use exemptions",
        "_check_request_limit": _BY_ITSELF,
        "_fallback_limiter": _OWN_LIMITER,
        "_key_func": "use overlimit.flask.get_identifiers, or the function that you gave",
        "_limiter": _OWN_LIMITER,
        "_marked_for_limiting": "write flask limits list --json",
        "_request_filters": "use request_filters",
        "_route_exemptions": "use exemptions",
        "_storage": _OWN_LIMITER,
        "_storage_dead": "use current_decision.source, which is 'error' or 'local' while the store fails",
        "check": _BY_ITSELF,
        "app": "use flask.current_app",
        "context": "use current_decision",
        "current_limit": (
            "use current_decision; it has .limit, .remaining, .identifier and .retry_after, "
            "and is false when it refused"
        ),
        "current_limits": "use current_decision.details",
        "identify_request": "use flask.request.endpoint",
        "initialized": "leave it out: a RateLimit works once init_app(app) was called",
        "limit_manager": "write flask limits list --json",
        "limiter": _OWN_LIMITER,
        "logger": "use logging.getLogger('overlimit')",
        "storage": _OWN_LIMITER,
    }
)
"""Attributes of its ``Limiter``."""

OF_ERROR = MappingProxyType(
    {name: hint.replace("decision", "error.decision") for name, hint in OF_DECISION.items()}
    | {
        "limit": "use error.decision.limit, with .quota, .window and .label",
        "remaining": "use error.decision.remaining",
    }
)
"""Attributes of the error that its error handlers are given, and of that error's limit."""

OF_FILTER = MappingProxyType({"fn": "write the function first: limiter.request_filter(function)"})
OF_EXCEPTION = MappingProxyType({"limit": "write the Decision first, as a Limiter of your own returns it"})

OF_LIMIT = MappingProxyType(
    {
        "key": "write identifiers=by_address, or another function",
        "key_function": "write key_func=",
        "limit_provider": "write the limits first: limiter.limit('5/minute')",
        "limit_value": "write the limits first: limiter.limit('5/minute')",
        "shared": "write limiter.shared_limit(limits, scope)",
    }
)
"""Arguments of its decorators and limits."""

OF_MODULE = MappingProxyType(
    {
        "ApplicationLimit": "write RateLimit(application_limits=...) and its options",
        "Limit": "write RateLimit(default_limits=...), with another key in a second RateLimit",
        "Limiter": "import RateLimit",
        "MetaLimit": "write RateLimit(meta_limits=...) or limiter.limit(..., meta_limits=...)",
        "RequestLimit": "import Decision from overlimit, which hooks are given",
        "RouteLimit": "write limiter.limit('5/minute')",
        "get_remote_address": "import get_address, or write identifiers=by_address",
        "get_remote_address_cloudflare": "write identifiers=by_header('CF-Connecting-IP')",
    }
)
"""Names of its modules."""
