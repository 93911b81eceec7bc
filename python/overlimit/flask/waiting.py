"""How an app without a RateLimit is noticed that may lose limits."""

from __future__ import annotations

from flask import Flask, request_started

from overlimit.flask.app_state import AppState
from overlimit.http.rules.unnoticed import Unnoticed


def _set_up(app: Flask, **_: object) -> None:
    state = AppState.of(app)
    if state.has_new_views():
        unnoticed.discard(state.decorated())


# Flask sends this signal for every request of every app, which costs them all a little.
unnoticed = Unnoticed(_set_up, request_started)
