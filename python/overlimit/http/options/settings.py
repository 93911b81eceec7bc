"""The options of a RateLimit that are set, from its arguments and the app's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from overlimit._addresses import Addresses
from overlimit._messages.caller import warn_caller
from overlimit.errors import InvalidLimit
from overlimit.http.identifying.identifiers import identify_by
from overlimit.http.options import configuration
from overlimit.http.options.configuration import limits_under
from overlimit.http.options.limit_options import LimitOptions, parts_of
from overlimit.http.options.rate_limit_options import GROUPS, RATE_LIMIT_OPTIONS, terms_of
from overlimit.limits import Limit, LimitsLike, as_limits


class Settings:
    """The options of a RateLimit."""

    def __init__(self, options: Mapping[str, Any], arguments: int = 0) -> None:
        """Keep the options that are set; raise TypeError for a wrong ``identifiers`` or ``key_func``."""
        given = {
            name: value
            for name, value in options.items()
            if name not in RATE_LIMIT_OPTIONS or RATE_LIMIT_OPTIONS[name].is_set(value)
        }
        identify = identify_by(given.get("identifiers"), given.pop("key_func", None), arguments)
        if identify is not None:
            given["identifiers"] = identify
        self.options: Mapping[str, Any] = given
        """Those of `RATE_LIMIT_OPTIONS`, and those that only a configuration has."""
        self.arguments = arguments
        self._checked: dict[LimitsLike, tuple[Limit, ...]] = {}

    def replaced(self, **options: Any) -> Settings:
        """Return the same settings with other options; None leaves one as it is."""
        others = {name: value for name, value in options.items() if value is not None}
        return Settings({**self.options, **others}, self.arguments)

    def check(self, **instead: str) -> None:
        """Check what needs no app; raise as `limit_options` does, with names of options as in ``instead``."""
        for name, value in self.options.items():
            if name in RATE_LIMIT_OPTIONS:
                RATE_LIMIT_OPTIONS[name].check(value, self.arguments, instead.get(name))
        for name in GROUPS:
            if name in self.options:
                label = f"{name} ({RATE_LIMIT_OPTIONS[name].key})"
                self._check_limits(instead.get(name, label), self.group(name))

    def warn_of_unused(self, **instead: str) -> None:
        """Warn of options that say something of limits which there are not, by names as in ``instead``."""
        for name, option in RATE_LIMIT_OPTIONS.items():
            of = next((group for group in GROUPS if name.startswith(f"{group}_")), None)
            if of and of not in self.options and self.options.get(name, option.default) != option.default:
                called = instead.get(name, f"{name} ({option.key})")
                warn_caller(f"{called} has no effect without {instead.get(of, of)}")

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
        """Set the rest from ``RATELIMIT_*`` keys, or by default; raise ValueError or TypeError for a key."""
        found = configuration.read(config, self.options, self.arguments)
        # The store comes last: the configuration may have completed a URL that is also in the options.
        store = {"store": found["store"]} if "store" in found else {}
        defaults = {name: option.default for name, option in RATE_LIMIT_OPTIONS.items()}
        return Settings({**defaults, **found, **self.options, **store}, self.arguments)

    def addresses(self) -> Addresses:
        """Return how addresses are found; raise ValueError for a field that nobody is trusted to write."""
        given = self.options
        return Addresses(given["trusted_proxies"], given["ipv6_prefix"], given["address_header"])

    def limits(self, value: LimitsLike, algorithm: str | None = None) -> tuple[Limit, ...]:
        """Read limits; strings by ``algorithm``, or else by the algorithm of the settings."""
        strategy = self.options.get("strategy")
        if algorithm is not None or strategy is None:
            return as_limits(value, algorithm or self.options.get("algorithm"))
        # Limits are checked before they are compiled, and a warning about them is logged only once.
        known = self._checked.get(value)
        return limits_under(strategy, value) if known is None else known

    def group(self, name: str) -> LimitOptions:
        """Return the limits that an option names, and what the options beside it say of them."""
        return LimitOptions(parts_of(self.options.get(name))).saying(**terms_of(self.options, name))
