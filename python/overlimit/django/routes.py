"""The views that the paths of a site lead to, and the limits of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.conf import settings

from overlimit.django.middleware import RateLimitMiddleware, is_a
from overlimit.django.site import Site, site
from overlimit.django.views import (
    METHODS,
    class_of,
    decisions,
    functions_called,
    is_exempt,
    is_static,
    name_of,
    reached,
)
from overlimit.http.rules.precedence import Route, RulesOfRoute
from overlimit.http.rules.rule import Rule

_ANY = "ANY"
"""The method of a view that takes all of them alike, as far as limits know."""


def routes() -> Iterator[RulesOfRoute]:
    """Yield the views of the site by path and method, each with all rules that may hold for it."""
    of = site()
    has_middleware = any(is_a(path, RateLimitMiddleware) for path in settings.MIDDLEWARE)
    for each in reached():
        view = each.pattern.callback
        if is_static(view):
            continue
        for method, rules in _rules_by_method(of, view, each.path, has_middleware).items():
            yield Route(name_of(view), method, limited=True, paths=(each.path,)), rules


def _rules_by_method(of: Site, view: Any, path: str, has_middleware: bool) -> dict[str, tuple[Rule, ...]]:
    methods = [method for method in METHODS if class_of(view) is None or _takes(view, method)]
    found = {method: _rules(of, view, method, path, has_middleware) for method in methods}
    alike = {tuple(map(_key, rules)) for rules in found.values()}
    return {_ANY: found[METHODS[0]]} if class_of(view) is None and len(alike) == 1 else found


def _takes(view: Any, method: str) -> bool:
    """Return whether a class of views answers a method."""
    return any(each is not view and each is not None for each in functions_called(view, method))


def _rules(of: Site, view: Any, method: str, path: str, has_middleware: bool) -> tuple[Rule, ...]:
    if is_exempt(view, method) or (of.exempt.function is None and of.exempt.include(method, path, ())):
        return ()
    found: dict[object, Rule] = {}
    for name, applied, site_view in decisions(view, method, has_middleware):
        found |= {_key(rule): rule for rule in of.rules(name, method, applied, site_view)}
    return tuple(found.values())


def _key(rule: Rule) -> object:
    return rule.role, rule.value, rule.options, rule.policy_name
