"""Who sends the current request."""

from __future__ import annotations

import sys

from overlimit.flask.current import these_globals, this_app, this_request

__all__ = ["get_identifiers"]


def get_identifiers() -> list[str]:
    """Return ``["ip:" + address]``, and ``"user:" + id`` when a user is logged in.

    The user is ``g.user``, else Flask-Login's ``current_user``. A str or int is the id itself. Any other
    object counts when its ``is_authenticated`` (attribute or method; missing means yes) is true; its id is
    ``get_id()`` or ``id``. The address is ``request.remote_addr``.
    """
    asked = this_request()
    address = asked.remote_addr if asked is not None else None
    user = _user()
    identifier = user if type(user) is str else _user_id(user)
    if identifier is None or identifier == "":
        return [f"ip:{address or 'unknown'}"]
    return [f"ip:{address or 'unknown'}", f"user:{identifier}"]


def _user() -> object:
    user = these_globals().get("user")
    return _flask_login_user() if user is None else user


def _flask_login_user() -> object:
    # An app that uses Flask-Login has imported it; importing it here would cost each request of all others.
    login = sys.modules.get("flask_login")
    if login is None or not hasattr(this_app(), "login_manager"):
        return None
    return login.current_user


def _user_id(user: object) -> object:
    if user is None or isinstance(user, (str, int)):
        return None if isinstance(user, bool) else user
    if not _value(user, "is_authenticated", True):
        return None
    return _value(user, "get_id", None) if hasattr(user, "get_id") else getattr(user, "id", None)


def _value(user: object, name: str, missing: object) -> object:
    found = getattr(user, name, missing)
    return found() if callable(found) else found
