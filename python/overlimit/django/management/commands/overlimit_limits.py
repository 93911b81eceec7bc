"""``manage.py overlimit_limits``: the limits of every view, and the views that nothing protects."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser

from overlimit.django.routes import routes
from overlimit.django.settings import LABELS
from overlimit.django.site import site
from overlimit.http import reports
from overlimit.http.callables import function_name


class Command(BaseCommand):  # type: ignore[misc]  # it has no types
    """Lists limits; no store is asked, and no function of the app is called."""

    help = (
        "List the limits of every view, and the views that nothing protects. No store is asked, and no "
        "function of the app is called: where one decides during a request, its name is listed."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Take ``--json``."""
        parser.add_argument("--json", action="store_true", dest="as_json", help="Print JSON.")

    def handle(self, *_: Any, as_json: bool, **__: Any) -> str:
        """Return what is printed."""
        try:
            listed = reports.limits_list((site().rate_limit,), tuple(routes()), as_json=as_json)
        except (ImproperlyConfigured, TypeError, ValueError) as error:
            raise CommandError(f"{error} (manage.py check says where)") from error
        exempts = site().exempt.function
        if exempts is not None:
            told = f"{LABELS['exempt']} is {function_name(exempts)}, which may exempt requests to any of them"
            self.stderr.write(f"Hint: {told}.")
        return listed
