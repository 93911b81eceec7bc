"""Rate limits for Flask: the extension, the decorator, and who is limited."""

from __future__ import annotations

from overlimit.flask.decorator import rate_limit
from overlimit.flask.exceeded import RateLimitExceeded
from overlimit.flask.extension import RateLimit
from overlimit.flask.identifiers import get_identifiers

__all__ = ["RateLimit", "RateLimitExceeded", "get_identifiers", "rate_limit"]
