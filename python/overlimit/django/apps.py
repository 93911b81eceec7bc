"""The app, which brings the system checks."""

from __future__ import annotations

from django.apps import AppConfig
from django.core.checks import register


class OverlimitConfig(AppConfig):  # type: ignore[misc]  # it has no types
    """``"overlimit.django"`` in ``INSTALLED_APPS``."""

    name = "overlimit.django"
    label = "overlimit"
    verbose_name = "Rate limits"

    def ready(self) -> None:
        """Register the checks."""
        from overlimit.django.checks import TAG, check_settings, check_views

        register(check_settings, TAG)
        register(check_views, TAG)
