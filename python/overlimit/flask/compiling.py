"""From the decorators of a route and the RateLimits of its app to the batches that decide a request."""

from __future__ import annotations

from overlimit.flask.binding import Binding
from overlimit.flask.bindings import Bindings
from overlimit.flask.layer import Layer
from overlimit.flask.ledger import Batch
from overlimit.flask.routes import Route, labelled
from overlimit.http.plan import Plan, Rule

__all__ = ["call_batches", "route_batches"]

Rules = dict[Binding, list[Rule]]


def route_batches(bindings: Bindings, route: Route) -> tuple[Batch, ...]:
    """Compile a route: its own limits, or else the default ones, and those of the application.

    Raises
    ------
    RuntimeError
        The RateLimit of a bound decorator is not registered on the app.
    """
    own: Rules = {}
    for label, mark in route.labelled:
        binding = bindings.acting_for(mark)
        rule = binding.decorated(mark, "route", route.endpoint, label, shown=route.endpoint)
        own.setdefault(binding, []).append(rule)
    if not route.limited:
        return ()
    return _batches(
        {by: [*(own.get(by) or by.default(route.endpoint)), *by.application()] for by in bindings}
    )


def call_batches(bindings: Bindings, layer: Layer, endpoint: str) -> tuple[Batch, ...]:
    """Compile the limits of a decorated function that a request calls beside its view: only its own.

    Raises
    ------
    RuntimeError
        The RateLimit of a bound decorator is not registered on the app.
    """
    own: Rules = {}
    for label, mark in labelled(layer.marks):
        binding = bindings.acting_for(mark)
        rule = binding.decorated(mark, "call", endpoint, layer.name, label, shown=layer.shown)
        own.setdefault(binding, []).append(rule)
    return _batches(own)


def _batches(rules: Rules) -> tuple[Batch, ...]:
    """Join what one store can decide in one call, so that a refusal charges nothing of it."""
    groups: dict[tuple[object, ...], Rules] = {}
    for binding, its in rules.items():
        if its:
            groups.setdefault(binding.shared, {})[binding] = its
    return tuple(
        Batch(tuple(group), Plan([rule for its in group.values() for rule in its]))
        for group in groups.values()
    )
