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
