"""Names of slowapi 0.1 and fastapi-limiter 0.1, and what to write instead: data for error messages.

docs/guides/migrating.md has them as tables.
"""

from __future__ import annotations

from types import MappingProxyType

ARGUMENTS = MappingProxyType(
    {
        "auto_check": "leave it out: every request is decided by itself",
        "config_filename": "leave it out, and give the options themselves",
        "headers_enabled": "write headers='both' for True, headers=None for False",
        "in_memory_fallback_enabled": "write on_error='local'",
        "key_style": "leave it out: a limit counts by its function, whatever the path",
        "limit": "write default_limits='100/minute', or application_limits= for all routes together",
        "limits": "write default_limits='100/minute', or application_limits= for all routes together",
        "retry_after": "leave it out: Retry-After is always in seconds",
        "storage_options": "write store=RedisStore(url, ...)",
        "storage_uri": "write store='redis://host:6379/0', or another URL or store",
        "strategy": "write algorithm='fixed_window', 'sliding_log' or 'sliding_window_counter'",
        "swallow_errors": "write on_error='allow' for True, on_error='raise' for False",
    }
)
"""Arguments of slowapi's ``Limiter``, and what else people try."""

OF_LIMIT = MappingProxyType(
    {
        "key": "write identifiers=by_address, or another function",
        "limit_value": "write the limits first: limiter.limit('5/minute')",
        "times": "write the limits first: limiter.dependency('5/minute')",
    }
)
"""Arguments of their decorators and dependencies."""

OF_MODULE = MappingProxyType(
    {
        "FastAPILimiter": "write RateLimit(app, store='redis://host:6379/0')",
        "Limiter": "import RateLimit",
        "RateLimiter": "write Depends(limiter.dependency('2/second'))",
        "SlowAPIMiddleware": "leave it out: RateLimit(app) adds what it needs",
        "WebSocketRateLimiter": "write Depends(limiter.dependency('2/second')), for websockets too",
        "_rate_limit_exceeded_handler": "leave it out: RateLimit(app) answers refusals",
        "get_ipaddr": "write identifiers=by_address with trusted_proxies=1",
        "get_remote_address": "import get_address, or write identifiers=by_address",
    }
)
"""Names of their modules."""
