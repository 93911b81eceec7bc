"""Names of slowapi 0.1 and fastapi-limiter 0.1, and what to write instead: data for error messages.

docs/guides/migrating.md has them as tables.
"""

from __future__ import annotations

from types import MappingProxyType

from overlimit._messages.migration_hints import OF_RATE_LIMIT

ARGUMENTS = MappingProxyType(
    {
        **OF_RATE_LIMIT,
        "config_filename": "leave it out, and give the options themselves",
        "key_style": "leave it out: a limit counts by its function, whatever the path",
        "storage_options": "write store=RedisStore(url, ...)",
    }
)
"""Arguments of slowapi's ``Limiter``."""

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
