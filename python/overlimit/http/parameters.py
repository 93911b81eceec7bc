"""The parameters of the functions that an app gives as options: what each of them is for."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from functools import partial
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from overlimit.http.callables import function_name, needed_parameters

_BY_NAME_ONLY = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)


def unread_annotation(parameter: inspect.Parameter) -> str | None:
    """Return an annotation that cannot be read, such as a local name; None: it is read, or there is none."""
    unread = getattr(parameter.annotation, "__forward_arg__", parameter.annotation)
    return unread if isinstance(unread, str) else None


def refuse_annotation(function: object, parameter: inspect.Parameter, instead: str) -> None:
    """Raise TypeError for an annotation that cannot be read; ``instead`` is a default to write."""
    name = parameter.name
    raise TypeError(
        f"{function_name(function)}: the annotation {unread_annotation(parameter)} of its parameter {name!r} "
        "cannot be read, as its module does not have all names in it where it runs: define or import them "
        f"there, or write a default in its place, as in {name}={instead}"
    )


def may_be_given(parameter: inspect.Parameter, kind: type, named: re.Pattern[str]) -> bool:
    """Return whether a parameter may be for objects of this kind, as far as it says.

    ``named`` finds what such parameters are called, and such kinds in annotations that nobody can read.
    """
    annotation, unread = parameter.annotation, unread_annotation(parameter)
    if parameter.kind is parameter.KEYWORD_ONLY:
        return True  # and is not given anything
    if annotation is parameter.empty:
        says_nothing = parameter.default is None or parameter.default is parameter.empty
        return says_nothing or bool(named.search(parameter.name))
    return _includes(annotation, kind) if unread is None else bool(named.search(unread))


def _includes(annotation: Any, kind: type) -> bool:
    """Return whether objects of this kind, or of one of its own kinds, may be of an annotated type."""
    of = get_origin(annotation)
    if of in (Annotated, Union, UnionType):
        members = get_args(annotation)
        return any(_includes(each, kind) for each in (members[:1] if of is Annotated else members))
    wanted = annotation if of is None else of
    if wanted is Any or not isinstance(wanted, type):
        return wanted not in (None, Literal)
    is_protocol = getattr(wanted, "_is_protocol", False)
    return is_protocol or issubclass(wanted, kind) or issubclass(kind, wanted)


def check_given_first(function: object, parameters: Sequence[inspect.Parameter], of: str, kind: type) -> None:
    """Raise TypeError if the first parameter is for the request, which is of a kind, and is given ``of``."""
    for each in parameters[: bool(of)]:
        if isinstance(each.annotation, type) and issubclass(each.annotation, kind):
            raise TypeError(
                f"{function_name(function)} is given {of} first, but its first parameter {each.name!r} is a "
                f"{each.annotation.__name__}: write one for {of} before it"
            )


def never_given(function: object, parameters: Sequence[inspect.Parameter], given: int) -> Iterator[str]:
    """Yield the names of annotated parameters that always have their defaults, with so many arguments.

    Those without an annotation are there to keep a value, as in ``lambda request, n=n: n``.
    """
    bound = function.keywords if isinstance(function, partial) else {}
    by_position = [each for each in parameters if each.kind not in _BY_NAME_ONLY]
    by_name = [each for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY]
    for each in (*by_position[given:], *by_name):
        is_annotated = each.annotation is not each.empty and each.default is not each.empty
        if is_annotated and each.name not in bound:
            yield each.name


def called_with(parameters: Sequence[inspect.Parameter], own: int) -> inspect.Signature:
    """Return how a function with these parameters may be called, which need not take the request."""
    signature = inspect.Signature(parameters)
    try:
        signature.bind(*(None,) * own)
    except TypeError:
        return signature
    return inspect.signature(lambda *arguments: None)


def check_takes_no_key(name: str, given: object) -> None:
    """Raise TypeError, about ``name``, for limits that are a function of a key, as slowapi calls it."""
    for each in given if isinstance(given, (list, tuple)) else (given,):
        if callable(each) and "key" in needed_parameters(each):
            raise TypeError(
                f"{name}: {function_name(each)} has a parameter 'key', but a function of limits is given the "
                "request: write def limits(request): ... and find in the request what the key was made of"
            )
