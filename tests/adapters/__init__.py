"""One kit of cases for every adapter: its drivers, and the client that asks through them.

A case is written once, in ``tests/python/adapters``, in the words of `adapters.site`; a driver says them in
those of its framework. What a framework cannot do stands in its driver's ``cannot``, with the reason.
"""

from __future__ import annotations

from typing import Any

import pytest

from adapters.of_asgi import AsgiDriver
from adapters.of_core import CoreDriver
from adapters.of_django import DjangoDriver
from adapters.of_fastapi import FastAPIDriver
from adapters.of_flask import FlaskDriver
from adapters.of_quart import QuartDriver
from adapters.of_wsgi import WsgiDriver
from adapters.site import Driver

DRIVERS: dict[str, Driver] = {
    "core": CoreDriver(),
    "flask": FlaskDriver(),
    "flask async": FlaskDriver(is_async=True),
    "fastapi": FastAPIDriver(is_async=True),
    "fastapi thread": FastAPIDriver(),
    "quart": QuartDriver(is_async=True),
    "quart thread": QuartDriver(),
    "asgi": AsgiDriver(),
    "asgi thread": AsgiDriver(in_thread=True),
    "wsgi": WsgiDriver(),
    "wsgi parts": WsgiDriver(in_parts=True),
    "django": DjangoDriver(),
    "django async": DjangoDriver(is_async=True, on_asgi=True),
    "django async on wsgi": DjangoDriver(is_async=True),
    "django on asgi": DjangoDriver(on_asgi=True),
}

IN_CHECK = {name for name in DRIVERS if " " in name}
"""Those that ask a framework in another way than is usual there, under which `make check` runs the cases."""


def each(*needs: str, only: Any = None) -> pytest.MarkDecorator:
    """Run a case under each driver that can do all of these."""
    able = [name for name, driver in DRIVERS.items() if not set(needs) & driver.cannot.keys()]
    return pytest.mark.parametrize(
        "driver",
        [
            pytest.param(name, marks=[pytest.mark.check] * (name in IN_CHECK))
            for name in able
            if only is None or name in only
        ],
    )
