"""An option is said once: type checkers and the adapters read the same, and help() shows it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated

import pytest

import overlimit.fastapi
import overlimit.flask
from overlimit.django.options import VIEW_OPTIONS, ViewKeywords
from overlimit.fastapi.extension import Keywords
from overlimit.fastapi.route_limits import BEFORE_VALIDATION, OPTIONS, RouteKeywords
from overlimit.http.options import kinds
from overlimit.http.options.kinds import Option, described, documents, type_of
from overlimit.http.options.limit_options import LIMIT_OPTIONS, LimitKeywords, limit_options
from overlimit.http.options.rate_limit_options import RATE_LIMIT_OPTIONS, RateLimitOptions


@pytest.mark.parametrize(
    ("typed", "known"),
    [
        (LimitKeywords, LIMIT_OPTIONS),
        (RouteKeywords, OPTIONS),
        (ViewKeywords, VIEW_OPTIONS),
        (RateLimitOptions, RATE_LIMIT_OPTIONS),
        (Keywords, {**RATE_LIMIT_OPTIONS, BEFORE_VALIDATION.name: BEFORE_VALIDATION, "app": None}),
    ],
    ids=["Flask", "FastAPI", "Django", "RateLimit", "RateLimit of FastAPI"],
)
def test_each_that_is_typed_is_described(typed, known):
    assert typed.__annotations__.keys() == known.keys()


class WithColour(LimitKeywords, total=False):
    colour: Annotated[
        str | Callable[..., str] | None, Option(kinds.TEXT, "What it looks like.", default="grey")
    ]


def test_one_line_is_all_that_an_option_takes():
    known = described(WithColour)
    assert type_of(WithColour, "colour") == "str | Callable[..., str] | None"
    assert limit_options("5/minute", {"colour": "red"}, known).said["colour"] == "red"
    with pytest.raises(TypeError, match="colour must be a string, not 7"):
        limit_options("5/minute", {"colour": 7}, known)
    with pytest.raises(TypeError, match=r"'color'.*did you mean 'colour'"):
        limit_options("5/minute", {"color": "red"}, known)

    @documents(known)
    def limit():
        """{options}"""

    assert "colour\n    What it looks like." in limit.__doc__
    assert limit.__doc__.count("\n    ") > len(LIMIT_OPTIONS)


@pytest.mark.parametrize("adapter", [overlimit.flask, overlimit.fastapi])
def test_the_types_of_options_are_shown_as_they_are_written(adapter):
    shown = inspect.signature(adapter.RateLimit).parameters
    assert shown["default_limits_cost"].annotation == "AnyCost | None"
    assert shown["on_breach"].annotation == "Callable[..., object] | None"
    assert not [each for each in shown.values() if "Annotated" in each.annotation]
