"""From the limits put on an app, its blueprints and its routes to what may hold for a request to a route.

docs/reference/flask.md has the rules as tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from overlimit.flask.batch import Batch
from overlimit.flask.binding import Binding
from overlimit.flask.bindings import Bindings
from overlimit.flask.exemptions import HANDED_DOWN, ExemptionScope
from overlimit.flask.layer import Layer
from overlimit.flask.marks import Mark, Marks, marks_of_blueprint
from overlimit.flask.routes import Route, labelled
from overlimit.http.making import Origin, Placed
from overlimit.http.rules import Choice

__all__ = ["block_batches", "call_batches", "check_marks", "placed_limits", "route_batches"]


def route_batches(bindings: Bindings, route: Route) -> tuple[Batch, ...]:
    """Compile a route.

    Raises
    ------
    RuntimeError
        The RateLimit of a bound decorator is not registered on the app.
    InvalidLimit
        Limits do not fit the algorithm of the RateLimit they go through.
    """
    check_marks(bindings, route)
    choices = {
        binding: tuple(placed.choice() for placed in placed_limits(bindings, binding, route))
        for binding in bindings
    }
    return _batches(choices, _origin(route, "fallback", route.endpoint))


def check_marks(bindings: Bindings, route: Route) -> None:
    """See to it that all limits of a route, inherited ones too, have a RateLimit to go through.

    Raises
    ------
    RuntimeError
        The RateLimit of a bound decorator is not registered on the app.
    """
    bindings.check(route.marks)
    for nest in route.nests:
        bindings.check(marks_of_blueprint(nest.blueprint))


def placed_limits(bindings: Bindings, binding: Binding, route: Route) -> Iterator[Placed]:
    """Yield what may hold for a route through one RateLimit; the order is that of the header fields."""
    if not route.limited:
        return
    exempt = binding.exemptions.of_route(route)
    overridden = False
    if ExemptionScope.DEFAULT not in binding.exemptions.of_view(route):
        yield from _own(bindings, binding, route)
        overridden = any(
            mark.options.override_defaults for mark in route.marks if _holds(bindings, binding, route, mark)
        )
    if not overridden and ExemptionScope.DEFAULT not in binding.exemptions.of_view(route):
        for nest, label, mark in _inherited(bindings, binding, route):
            yield from binding.decorated(
                mark.options, _origin(route, "blueprint", route.endpoint, nest, label)
            )
            overridden = overridden or mark.options.override_defaults
    if not overridden and ExemptionScope.DEFAULT not in exempt:
        yield from binding.default(_origin(route, "default", route.endpoint, shown="default"))
    if ExemptionScope.APPLICATION not in exempt:
        yield from binding.application(_origin(route, "application", shown="application"))
    if ExemptionScope.META not in exempt:
        yield from binding.meta(_origin(route, "meta", shown="meta"))


def _own(bindings: Bindings, binding: Binding, route: Route) -> Iterator[Placed]:
    """Yield the limits of the decorators on the view, then of those on the method that answers."""
    for label, mark in route.labelled:
        if _holds(bindings, binding, route, mark):
            yield from binding.decorated(mark.options, _origin(route, "route", route.endpoint, label))
    for mark in route.on_method:
        if _holds(bindings, binding, route, mark):
            yield from binding.on_function(mark.options, _origin(route, "route-function", route.endpoint))


def call_batches(bindings: Bindings, layer: Layer, route: Route) -> tuple[Batch, ...]:
    """Compile the limits of a decorated function that a request calls beside its view, and meta limits.

    Raises
    ------
    RuntimeError
        The RateLimit of a bound decorator is not registered on the app.
    """
    own: dict[Binding, tuple[Choice, ...]] = {}
    for mark in layer.marks:
        if mark.options.holds_for(route.method):
            binding = bindings.acting_for(mark)
            origin = _origin(route, "route-function", route.endpoint, shown=layer.shown)
            _add(own, binding, binding.on_function(mark.options, origin))
    return _batches(_with_meta(own, route), _origin(route, "fallback", route.endpoint, shown=layer.shown))


def block_batches(bindings: Bindings, mark: Mark, route: Route) -> tuple[Batch, ...]:
    """Compile the limits of a ``with`` block, and meta limits.

    Raises
    ------
    RuntimeError
        The RateLimit of a bound decorator is not registered on the app.
    """
    own: dict[Binding, tuple[Choice, ...]] = {}
    if mark.options.holds_for(route.method):
        binding = bindings.acting_for(mark)
        origin = _origin(route, "with", route.endpoint)
        _add(own, binding, binding.on_block(mark.options, origin))
    return _batches(_with_meta(own, route), _origin(route, "fallback", route.endpoint))


def _with_meta(own: dict[Binding, tuple[Choice, ...]], route: Route) -> dict[Binding, tuple[Choice, ...]]:
    for binding in own:
        if ExemptionScope.META not in binding.exemptions.of_route(route):
            meta = binding.meta(_origin(route, "meta", shown="meta"))
            own[binding] += tuple(placed.choice() for placed in meta)
    return own


def _holds(bindings: Bindings, binding: Binding, route: Route, mark: Mark) -> bool:
    return mark.options.holds_for(route.method) and bindings.acting_for(mark) is binding


def _inherited(bindings: Bindings, binding: Binding, route: Route) -> Iterator[tuple[str, str, Mark]]:
    """Yield the limits of the blueprints around a route, outwards up to the first that overrides."""
    for depth, nest in enumerate(route.nests):
        exempt = binding.exemptions.of_blueprint(nest.blueprint)
        if depth and HANDED_DOWN in exempt:
            continue
        marks: Marks = marks_of_blueprint(nest.blueprint)
        here = [each for each in labelled(marks) if _holds(bindings, binding, route, each[1])]
        yield from ((nest.name, label, mark) for label, mark in here)
        if any(mark.options.override_defaults for _, mark in here):
            return
        if ExemptionScope.ANCESTORS in exempt:
            return


def _origin(route: Route, kind: str, *parts: str, shown: str | None = None) -> Origin:
    return Origin(kind, parts, shown or route.endpoint, route.endpoint, route.method)


def _add(own: dict[Binding, tuple[Choice, ...]], binding: Binding, placed: Iterable[Placed]) -> None:
    own[binding] = (*own.get(binding, ()), *(each.choice() for each in placed))


def _batches(choices: dict[Binding, tuple[Choice, ...]], fallback: Origin) -> tuple[Batch, ...]:
    """Join what one store can decide in one call, so that a refusal charges nothing of it; shadows last."""
    groups: dict[tuple[object, ...], dict[Binding, tuple[Choice, ...]]] = {}
    for binding in sorted(choices, key=lambda binding: binding.shadow):
        if choices[binding]:
            groups.setdefault(binding.shared, {})[binding] = choices[binding]
    return tuple(Batch(group, _instead(next(iter(group)), fallback)) for group in groups.values())


def _instead(binding: Binding, origin: Origin) -> tuple[Choice, ...]:
    return tuple(placed.choice() for placed in binding.instead(origin))
