"""What a RateLimit was given, completed from the configuration of one app."""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import Any, Final, Literal

from overlimit.clocks import ClockLike
from overlimit.http.plan import Identify
from overlimit.limits import LimitsLike, as_limits
from overlimit.stores import Store

__all__ = ["UNSET", "Headers", "Settings", "Unset"]

Headers = Literal["draft"] | None
"""``"draft"``: the fields of the IETF draft; None: no such fields."""


class Unset(Enum):
    """The type of `UNSET`: not given, where None has a meaning of its own."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET


@dataclasses.dataclass(frozen=True)
class Settings:
    """The options of a RateLimit; None, or `UNSET` for ``headers``, is what nobody has set."""

    default_limits: LimitsLike | None = None
    application_limits: LimitsLike | None = None
    identifiers: Identify | None = None
    store: str | Store | None = None
    clock: ClockLike | None = None
    algorithm: str | None = None
    key_prefix: str | None = None
    enabled: bool | None = None
    headers: Headers | Unset = UNSET

    def check_limits(self) -> None:
        """Raise InvalidLimit if a default or application limit is malformed."""
        for limits in (self.default_limits, self.application_limits):
            if limits is not None:
                as_limits(limits, self.algorithm)

    def completed(self, config: dict[str, Any]) -> Settings:
        """Fill what is not set from the ``RATELIMIT_*`` keys, and the rest from the defaults."""
        return dataclasses.replace(
            self,
            default_limits=_first(self.default_limits, config.get("RATELIMIT_DEFAULT")),
            application_limits=_first(self.application_limits, config.get("RATELIMIT_APPLICATION")),
            store=_first(self.store, config.get("RATELIMIT_STORAGE_URI"), "memory://"),
            key_prefix=_first(self.key_prefix, config.get("RATELIMIT_KEY_PREFIX"), ""),
            enabled=_first(self.enabled, config.get("RATELIMIT_ENABLED"), True),
            headers=_headers(self.headers, config.get("RATELIMIT_HEADERS_ENABLED")),
        )


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _headers(given: Headers | Unset, enabled: bool | None) -> Headers:
    if given is not UNSET:
        return given
    return "draft" if enabled is None or enabled else None
