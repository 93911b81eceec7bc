"""Views that tests decorate, each with a name of its own."""

from __future__ import annotations

import itertools

from django.http import JsonResponse

numbers = itertools.count()


def told(request, **more):
    """Answer with what the view was told."""
    decision = getattr(request, "rate_limit", None)
    return JsonResponse({"allowed": None if decision is None else bool(decision), **more})


def view_of(*decorators, view=told):
    """Return a view of its own, decorated from the inside to the outside."""

    def decorated(request, **kwargs):
        return view(request, **kwargs)

    decorated.__qualname__ = f"view_{next(numbers)}"
    for decorate in decorators:
        decorated = decorate(decorated)
    return decorated


def async_view_of(*decorators):
    async def decorated(request):
        return told(request)

    decorated.__qualname__ = f"async_view_{next(numbers)}"
    for decorate in decorators:
        decorated = decorate(decorated)
    return decorated
