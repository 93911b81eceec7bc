"""The options of a limit on a view: those of every limit, and what only views of Django have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, TypedDict

from django.utils.decorators import method_decorator

from overlimit._messages.arguments import check_options
from overlimit._patterns import as_methods, check_methods
from overlimit.django.keys import Key, identifiers_of
from overlimit.django.request import kept_in
from overlimit.django.settings import KEY
from overlimit.http.callables import check_takes_no_group
from overlimit.http.identifying.identifiers import as_identify
from overlimit.http.options import kinds
from overlimit.http.options.kinds import Option, described, with_request
from overlimit.http.options.limit_options import (
    LIMIT_OPTIONS,
    AnyScope,
    BlockKeyword,
    CommonKeywords,
    ScopeKeyword,
    limit_options,
)
from overlimit.http.options.optional_limits import optional
from overlimit.http.rules.applied_limits import AppliedLimit, AppliedLimits


class OwnKeywords(TypedDict, total=False):
    """What only views of Django have."""

    key: Annotated[Key | None, KEY]
    methods: Annotated[
        str | Iterable[str] | None,
        Option(
            kinds.Kind(lambda name, value, _: check_methods(name, value)),
            "The HTTP methods it holds for, one or a list; None: all but OPTIONS, which is never limited.",
            is_strict=True,
        ),
    ]
    group: Annotated[
        AnyScope | None,
        Option(
            kinds.SCOPE,
            "Views of the same group are counted together: a string, or a function that returns one, given "
            "the dotted name of the view.",
        ),
    ]


class ViewKeywords(OwnKeywords, BlockKeyword, ScopeKeyword, CommonKeywords, total=False):
    """The options of a limit on a view; see `rate_limit`."""


VIEW_OPTIONS = MappingProxyType(described(ViewKeywords))
"""The options of `rate_limit`."""

_HINTS = {
    "rate": "write the limits first, as in rate_limit('5/minute')",
    "limits": "write the limits first, as in rate_limit('5/minute')",
    "method": "write methods=",
    "identifiers": "write key=",
    "key_func": "write key=",
    "key_prefix": "set OVERLIMIT['KEY_PREFIX']",
}


def applied_limits(limits: Any, given: Mapping[str, Any], *, shared: str | None = None) -> AppliedLimits:
    """Return what a decorator puts on a view, checked; nothing if ``limits`` is None.

    ``shared`` names the count if there is a single one for all views. Raises InvalidLimit, ValueError or
    TypeError for what is wrong.
    """
    check_options("rate_limit", given, VIEW_OPTIONS, _HINTS)
    if shared is None:
        _check_parentheses(limits)
    keywords = with_request(given, VIEW_OPTIONS, kept_in)
    keywords["identifiers"] = identifiers_of(keywords.pop("key", None))
    as_identify("key", keywords["identifiers"], 1)
    keywords["methods"] = as_methods(keywords.get("methods"))
    group = keywords.pop("group", None) or shared
    if group is not None:
        _check_group(group, keywords)
        keywords["scope"] = group
    known = {**LIMIT_OPTIONS, **VIEW_OPTIONS}
    made = limit_options(optional(limits, kept_in), keywords, known, arguments=1, is_shared=group is not None)
    return (AppliedLimit(made, None),) if made.parts else ()


def _check_parentheses(limits: Any) -> None:
    """Raise TypeError where no limits are written, for want of parentheses or in them."""
    if limits == ():
        raise TypeError(_HINTS["limits"])
    if getattr(limits, "__module__", None) == method_decorator.__module__:  # what it tries decorators with
        raise TypeError("write @method_decorator(rate_limit('5/minute')), not @method_decorator(rate_limit)")
    _check_is_no_view(limits)


def _check_is_no_view(limits: Any) -> None:
    """Raise TypeError for a view in the place of limits, which a decorator without parentheses is given."""
    if hasattr(limits, "as_view"):
        raise TypeError(
            f"{limits.__name__} is a class: write @method_decorator(rate_limit('5/minute'), name='dispatch')"
        )
    check_takes_no_group(limits)
    if isinstance(limits, list):
        return
    try:
        optional(limits, kept_in)
    except TypeError as error:
        raise TypeError(f"above a view write @rate_limit('5/minute'), not @rate_limit: {error}") from None


def _check_group(group: object, keywords: Mapping[str, Any]) -> None:
    VIEW_OPTIONS["group"].check(group, 1)
    if keywords.get("scope") is not None:
        raise TypeError("group and scope both say what is counted together: give one of them")
