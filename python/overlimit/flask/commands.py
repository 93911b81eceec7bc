"""``flask limits``: lists the limits of an app, shows what an identifier has left, and resets it."""

from __future__ import annotations

from flask.cli import with_appcontext

from overlimit._limits_commands import limits_group
from overlimit.flask.app_state import AppState
from overlimit.flask.current import this_app

limits = limits_group(lambda: AppState.of(this_app()), with_appcontext)
"""The commands."""
