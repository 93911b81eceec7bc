"""Names of django-ratelimit 4.1, and what to write instead: data for error messages."""

from __future__ import annotations

from types import MappingProxyType

OF_MODULE = MappingProxyType(
    {
        "ALL": "leave methods= out, which limits all methods but OPTIONS",
        "RateLimit": "write @rate_limit('5/m'), or RateLimitMiddleware and the setting OVERLIMIT",
        "Ratelimited": "import RateLimitExceeded; refusals are answered with a 429 without it",
        "RatelimitMiddleware": "import RateLimitMiddleware; it answers refusals, by the setting ON_BREACH",
        "UNSAFE": "write methods=['POST', 'PUT', 'PATCH', 'DELETE']",
        "get_usage": "read request.rate_limit, or call peek(...) of an overlimit.Limiter",
        "is_ratelimited": "write not limiter.hit(...) with an overlimit.Limiter, or peek to charge nothing",
        "ratelimit": "import rate_limit, which takes the limits first: rate_limit('5/m', key='user_or_ip')",
    }
)
"""Names of its modules."""

OF_SETTINGS = MappingProxyType(
    {
        "RATELIMIT_CACHE_PREFIX": "write OVERLIMIT = {'KEY_PREFIX': ...}",
        "RATELIMIT_ENABLE": "write OVERLIMIT = {'ENABLED': False} for False",
        "RATELIMIT_EXCEPTION_CLASS": "write OVERLIMIT = {'ON_BREACH': ...}, a function of the decision",
        "RATELIMIT_FAIL_OPEN": "write OVERLIMIT = {'ON_ERROR': 'allow'} for True, 'deny' for False",
        "RATELIMIT_HASH_ALGORITHM": "leave it out",
        "RATELIMIT_IPV4_MASK": "leave it out, or write a function as key=",
        "RATELIMIT_IPV6_MASK": "write OVERLIMIT = {'IPV6_PREFIX': 64}",
        "RATELIMIT_IP_META_KEY": "write OVERLIMIT = {'TRUSTED_PROXIES': 1, 'ADDRESS_HEADER': 'X-Real-IP'}",
        "RATELIMIT_USE_CACHE": "write OVERLIMIT = {'STORE': 'redis://localhost:6379/0'}",
        "RATELIMIT_VIEW": "write OVERLIMIT = {'ON_BREACH': ...}, a function of the decision and the request",
    }
)
"""Its settings."""
