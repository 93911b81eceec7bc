"""The options of a RateLimit that are set, from its arguments and the app's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from overlimit import InvalidLimit
from overlimit.http.identifying.identifiers import identify_by
from overlimit.http.options import configuration
from overlimit.http.options.limit_options import LimitOptions, parts_of
from overlimit.http.options.rate_limit_options import GROUPS, RATE_LIMIT_OPTIONS, AllOptions
from overlimit.http.options.strategies import limits_under
from overlimit.limits import Limit, LimitsLike, as_limits

__all__ = ["Settings"]


class Settings:
    """The options of a RateLimit."""

    def __init__(self, options: AllOptions, arguments: int = 0) -> None:
        """Keep the options that are set; a ``store`` may contain a password.

        ``arguments`` is the number of arguments for the request with which functions are called.

        Raises
        ------
        TypeError
            ``identifiers`` or ``key_func`` is not what it must be, or both are set.
        """
        given = {
            name: value
            for name, value in options.items()
            if name not in RATE_LIMIT_OPTIONS or RATE_LIMIT_OPTIONS[name].is_set(value)
        }
        identify = identify_by(given.get("identifiers"), given.pop("key_func", None), arguments)
        if identify is not None:
            given["identifiers"] = identify
        self._given: dict[str, Any] = given
        self.options = cast(AllOptions, given)
        self.arguments = arguments
        self._checked: dict[LimitsLike, tuple[Limit, ...]] = {}

    def check(self, **instead: str) -> None:
        """Check what can be checked without the app; ``instead`` is what errors call an option.

        Raises
        ------
        InvalidLimit
            A limit is malformed.
        ValueError, TypeError
            Another option has an invalid value.
        """
        for name, value in self._given.items():
            if name in RATE_LIMIT_OPTIONS:
                RATE_LIMIT_OPTIONS[name].check(value, self.arguments, instead.get(name))
        for name in GROUPS:
            if name in self._given:
                label = f"{name} ({RATE_LIMIT_OPTIONS[name].key})"
                self._check_limits(instead.get(name, label), self.group(name))

    def _check_limits(self, label: str, options: LimitOptions) -> None:
        if options.parts == ("",):
            raise InvalidLimit(f"{label}: '' is not a limit: leave it out, or give None, if there are none")
        try:
            options.check_limits(self._checking, self.arguments)
        except InvalidLimit as error:
            raise InvalidLimit(f"{label}: {error}") from None

    def _checking(self, value: LimitsLike, algorithm: str | None) -> tuple[Limit, ...]:
        limits = self._checked[value] = self.limits(value, algorithm)
        return limits

    def completed(self, config: Mapping[str, Any]) -> Settings:
        """Set what is not set from the ``RATELIMIT_*`` keys, and the rest from the defaults.

        Raises
        ------
        ValueError
            A key has an invalid value.
        TypeError
            A function in it cannot be called as it will be.
        """
        found = configuration.read(config, self.options, self.arguments)
        # The store comes last: the configuration may have completed a URL that is also in the options.
        store = {"store": found["store"]} if "store" in found else {}
        options = {"headers": "draft", **found, **self.options, **store}
        return Settings(cast(AllOptions, options), self.arguments)

    def limits(self, value: LimitsLike, algorithm: str | None = None) -> tuple[Limit, ...]:
        """Read limits; strings by ``algorithm``, or else by the algorithm of the settings.

        Raises
        ------
        InvalidLimit
            They are malformed.
        """
        strategy = self.options.get("strategy")
        if algorithm is not None or strategy is None:
            return as_limits(value, algorithm or self.options.get("algorithm"))
        # Limits are checked before they are compiled, and a warning about them is logged only once.
        known = self._checked.get(value)
        return limits_under(strategy, value) if known is None else known

    def group(self, name: str) -> LimitOptions:
        """Return the limits that an option names, and what the options beside it say of them."""
        given = self._given
        return LimitOptions(
            parts_of(given.get(name)),
            per_method=given.get(f"{name}_per_method", False),
            exempt_when=given.get(f"{name}_exempt_when"),
            deduct_when=given.get(f"{name}_deduct_when"),
            cost=given.get(f"{name}_cost", 1),
        )
