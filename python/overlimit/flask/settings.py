"""The options of a RateLimit, from its arguments and the app's configuration."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from types import NoneType
from typing import Any, Final, Literal, get_args

from overlimit import Decision, InvalidLimit
from overlimit.clocks import ClockLike
from overlimit.http import configuration
from overlimit.http.addresses import Proxies, checked_ipv6_prefix
from overlimit.http.identities import Identify
from overlimit.http.legacy import HeaderNames, checked_header_name
from overlimit.http.options import LimitOptions, LimitsValue, check_callable, parts_of
from overlimit.http.rules import Cost
from overlimit.http.strategies import limits_under
from overlimit.limiter import OnError
from overlimit.limits import Limit, LimitsLike, as_limits
from overlimit.limits.registry import algorithm_named
from overlimit.stores import Store

__all__ = ["UNSET", "Headers", "Settings", "Unset"]

Headers = Literal["draft", "legacy", "both"] | None
"""The fields of the IETF draft, X-RateLimit-*, both, or none."""


class Unset(Enum):
    """The type of `UNSET`: not given, where None has a meaning of its own."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """The options of a RateLimit; None, or `UNSET` for ``headers``, is what nobody has set."""

    default_limits: LimitsValue | None = None
    default_limits_per_method: bool | None = None
    default_limits_exempt_when: Callable[[], object] | None = None
    default_limits_deduct_when: Callable[[Any], object] | None = None
    default_limits_cost: Cost | None = None
    application_limits: LimitsValue | None = None
    application_limits_per_method: bool | None = None
    application_limits_exempt_when: Callable[[], object] | None = None
    application_limits_deduct_when: Callable[[Any], object] | None = None
    application_limits_cost: Cost | None = None
    meta_limits: LimitsValue | None = None
    in_memory_fallback: LimitsValue | None = None
    on_breach: Callable[[Decision], object] | None = None
    on_meta_breach: Callable[[Decision], object] | None = None
    identifiers: Identify | None = None
    store: str | Store | None = dataclasses.field(default=None, repr=False)
    clock: ClockLike | None = None
    algorithm: str | None = None
    strategy: str | None = None
    request_identifier: Callable[[], str] | None = None
    key_prefix: str | None = None
    enabled: bool | None = None
    headers: Headers | Unset = UNSET
    header_names: HeaderNames | None = None
    on_error: OnError | None = None
    local_share: float | None = None
    shadow: bool | None = None
    trusted_proxies: int | Sequence[str] | None = None
    ipv6_prefix: int | None = None
    _checked: dict[LimitsLike, tuple[Limit, ...]] = dataclasses.field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def check(self) -> None:
        """Check what can be checked without the app.

        Raises
        ------
        InvalidLimit
            A limit is malformed.
        ValueError, TypeError
            Another option cannot be.
        """
        for name, options in {
            "default_limits (RATELIMIT_DEFAULT)": self.default,
            "application_limits (RATELIMIT_APPLICATION)": self.application,
            "meta_limits (RATELIMIT_META)": self.meta,
            "in_memory_fallback (RATELIMIT_IN_MEMORY_FALLBACK)": self.fallback,
        }.items():
            self._check_limits(name, options)
        if self.algorithm is not None:
            algorithm_named(self.algorithm)
        if not isinstance(self.header_names, (HeaderNames, NoneType)):
            raise TypeError(f"header_names is a HeaderNames, not {self.header_names!r}")
        check_callable("identifiers", self.identifiers, 0)
        check_callable("on_breach", self.on_breach, 1)
        check_callable("on_meta_breach", self.on_meta_breach, 1)
        if self.headers not in (UNSET, "draft", "legacy", "both", None):
            raise ValueError(f"headers is 'draft', 'legacy', 'both' or None, not {self.headers!r}")
        if self.on_error is not None and self.on_error not in get_args(OnError):
            raise ValueError(f"on_error is one of {', '.join(get_args(OnError))}, not {self.on_error!r}")
        for name in self.header_names or ():
            checked_header_name(name)
        Proxies(0 if self.trusted_proxies is None else self.trusted_proxies)
        checked_ipv6_prefix(64 if self.ipv6_prefix is None else self.ipv6_prefix)

    def _check_limits(self, name: str, options: LimitOptions) -> None:
        try:
            options.check(self._checking)
        except InvalidLimit as error:
            raise InvalidLimit(f"{name}: {error}") from None

    def _checking(self, value: LimitsLike, algorithm: str | None) -> tuple[Limit, ...]:
        limits = self._checked[value] = self.limits(value, algorithm)
        return limits

    def completed(self, config: Mapping[str, Any]) -> Settings:
        """Fill what is not set from the ``RATELIMIT_*`` keys, and the rest from the defaults.

        Raises
        ------
        ValueError
            A key has a value that cannot be.
        """
        found = {name: value for name, value in configuration.read(config).items() if value not in ("", [])}
        given = {
            field.name: value
            for field in dataclasses.fields(self)
            if (field.init and (value := getattr(self, field.name)) is not None) or field.name == "headers"
        }
        if given["headers"] is UNSET:
            del given["headers"]
        if "algorithm" in given:
            found.pop("strategy", None)
        return Settings(**{"headers": "draft", **found, **given})

    def limits(self, value: LimitsLike, algorithm: str | None = None) -> tuple[Limit, ...]:
        """Read limits, texts as ``algorithm`` or else as what the settings say.

        Raises
        ------
        InvalidLimit
            They are malformed.
        """
        if algorithm is None and self.strategy is not None:
            return self._under(self.strategy, value)
        return as_limits(value, algorithm or self.algorithm)

    # What is compiled was checked before: what there is to be said of it is said once.
    def _under(self, strategy: str, value: LimitsLike) -> tuple[Limit, ...]:
        known = self._checked.get(value)
        return limits_under(strategy, value) if known is None else known

    @property
    def default(self) -> LimitOptions:
        """The limits of routes without limits of their own."""
        return LimitOptions(
            parts_of(self.default_limits),
            per_method=bool(self.default_limits_per_method),
            exempt_when=self.default_limits_exempt_when,
            deduct_when=self.default_limits_deduct_when,
            cost=1 if self.default_limits_cost is None else self.default_limits_cost,
        )

    @property
    def application(self) -> LimitOptions:
        """The limits of the whole app."""
        return LimitOptions(
            parts_of(self.application_limits),
            per_method=bool(self.application_limits_per_method),
            exempt_when=self.application_limits_exempt_when,
            deduct_when=self.application_limits_deduct_when,
            cost=1 if self.application_limits_cost is None else self.application_limits_cost,
        )

    @property
    def meta(self) -> LimitOptions:
        """The limits of how often one is refused."""
        return LimitOptions(parts_of(self.meta_limits))

    @property
    def fallback(self) -> LimitOptions:
        """What holds instead of all limits while the store fails."""
        return LimitOptions(parts_of(self.in_memory_fallback))
