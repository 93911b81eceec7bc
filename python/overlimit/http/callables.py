"""The functions that an app gives as options: how they can be called, and by what names they are known."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import (
    AsyncGenerator,
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
)
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias, TypeVar

from overlimit._messages.texts import short_repr
from overlimit._options import whole_number
from overlimit.budgets import FirstOf

_FOR_REQUESTS = re.compile(r"(?i)(request|websocket|connection|scope|environ)\b")
"""The names of parameters that are for a request even if they have a default."""

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
S = TypeVar("S", bound="StandsForFunctions")


@dataclass(frozen=True)
class StandsForFunctions:
    """What stands for functions of the app; it is equal to others of its kind for the same functions."""

    made_of: tuple[Any, ...]
    """The functions."""

    @property
    def name(self) -> str:
        """How messages and tables call it, the same in every process."""
        return ", ".join(map(function_name, self.made_of))


def check_callable(
    name: str, given: object, arguments: int, *, of: str = "", may_yield: bool = False
) -> None:
    """Raise TypeError, about ``name``, unless it is None or an ordinary function that can be called so.

    It is called with so many ``arguments`` for the request, none or one, and before them with what ``of``
    says, such as ``"the response"``. With ``may_yield`` it may be a generator.
    """
    if given is None:
        return
    expected = expected_function(arguments, of=of)
    if not callable(given):
        raise TypeError(f"{name} must be {expected}, not {given!r}")
    called = function_name(given)
    for each in _functions_of(given):
        if inspect.isasyncgenfunction(each) or (is_generator(each) and not may_yield):
            raise TypeError(f"{name} must be {expected}; {called} must return its value, not yield it")
        if isinstance(each, type) and of != "the value":
            raise TypeError(f"{name} must be {expected}, not the class {dotted_name(each)}")
    if isinstance(given, AwaitedFunction):
        given = given.function
    elif is_coroutine_function(given):
        raise TypeError(
            f"{name} must be {expected}, not a coroutine function: {called} would never be awaited"
        )
    try:
        inspect.signature(given).bind(*(None,) * (bool(of) + arguments))
    except TypeError as error:
        raise TypeError(f"{name} must be {expected}; {called} cannot be called like that: {error}") from None
    except ValueError:  # a built-in function without a signature
        return


def check_takes_no_group(given: object) -> None:
    """Raise TypeError for a function of a group and the request, as other packages call them."""
    names = list(needed_parameters(given)) if callable(given) else []
    if len(names) == 2 and names[0] != "self" and names[1] in ("request", "req", "r"):
        raise TypeError(
            f"{function_name(given)} has the parameters {names[0]!r} and {names[1]!r}, but functions are "
            f"given the request only: leave {names[0]!r} out"
        )


def expected_function(arguments: int, *, of: str = "") -> str:
    """Say which function an error message expects; the parameters are those of `check_callable`."""
    if not arguments:
        return f"a function of {of}" if of else "a function without parameters"
    if not of:
        return "a function of the request, or without parameters"
    return f"a function of {of}, and of the request if it has a second parameter"


def is_coroutine_function(given: Any) -> bool:
    """Return whether calling it makes a coroutine, also for an object, or what stands for functions."""
    if isinstance(given, StandsForFunctions):
        return not isinstance(given, AwaitedFunction) and any(map(is_coroutine_function, given.made_of))
    return any(map(inspect.iscoroutinefunction, (given, type(given).__call__)))


def is_generator(function: object) -> bool:
    """Return whether calling it runs nothing, but makes what is iterated over."""
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def _functions_of(given: Any) -> Iterator[object]:
    """Yield the function itself, of an object its method, and those that something stands for."""
    if isinstance(given, StandsForFunctions):
        for each in given.made_of:
            yield from _functions_of(each)
    elif isinstance(given, partial):
        yield from _functions_of(given.func)
    else:
        yield given
        yield type(given).__call__


def mark_as_coroutine_function(function: F) -> F:
    """Have frameworks await what an ordinary function returns, which may raise when it is called."""
    if sys.version_info >= (3, 12):
        return inspect.markcoroutinefunction(function)
    import asyncio.coroutines

    vars(function)["_is_coroutine"] = vars(asyncio.coroutines)["_is_coroutine"]
    return function


def method_handler(of: object, method: str) -> Callable[..., Any] | None:
    """Return what a class of views answers an HTTP method by; for HEAD by that of GET if it has no other."""
    name = method.lower()
    found: Callable[..., Any] | None = getattr(
        of, "get" if name == "head" and not hasattr(of, name) else name, None
    )
    return found


def needed_parameters(function: Callable[..., object]) -> Collection[str]:
    """Return the names of parameters without defaults; none where a built-in function has no signature."""
    return [each.name for each in _parameters_of(function) if each.default is each.empty]


def defaults_of(function: Callable[..., object]) -> Collection[object]:
    """Return the defaults of its parameters."""
    return [each.default for each in _parameters_of(function) if each.default is not each.empty]


def _parameters_of(function: Callable[..., object]) -> Collection[inspect.Parameter]:
    try:
        return inspect.signature(function).parameters.values()
    except ValueError:  # a built-in function without a signature
        return ()


def as_cost(function: object, returned: object) -> int:
    """Return the cost that a function of the app returned; raise TypeError or ValueError for what is none."""
    cost = whole_number(result_of(function, returned))
    if cost is None or cost < 0:
        kind = TypeError if cost is None else ValueError
        raise kind(
            f"{function_name(function)} returned the cost {short_repr(returned)}: a cost must be a whole "
            "number from 0"
        )
    return cost


def result_of(function: object, returned: T) -> T:
    """Return what a function of the app returned; raise TypeError if that would have to be awaited.

    As a condition it would be true, whatever it comes to.
    """
    if hasattr(type(returned), "__await__"):
        close = getattr(returned, "close", None)
        if close is not None:
            close()  # or a warning that it was never awaited would hide the error
        raise TypeError(
            f"{function_name(function)} returned a {type(returned).__name__}, which is not awaited here: let "
            "it return the value itself, or await it in a coroutine function where one may be given"
        )
    return returned


def truth_of(function: object, returned: object) -> bool:
    """Return whether a condition of the app holds; raise TypeError for what would be true in any case."""
    if isinstance(result_of(function, returned), (Generator, AsyncGenerator)):
        raise TypeError(
            f"{function_name(function)} returned a generator, which is always true: let it return True or "
            "False"
        )
    return bool(returned)


def taking_request(given: Any, own: int | None = 0, kept_in: KeptIn | None = None) -> Any:
    """Return a function to call with ``own`` arguments and the request, which ``given`` need not take.

    Functions in a list are treated alike, and anything else is returned unchanged, with ``own`` None too.
    With ``kept_in``, which returns where a request keeps what coroutine functions returned, these become
    functions that are awaited before; without it they stay, and are refused.
    """
    if own is None:
        return given
    if isinstance(given, (list, tuple)):
        return type(given)(taking_request(member, own, kept_in) for member in given)
    if isinstance(given, FirstOf):
        return FirstOf(taking_request(given.budgets, own, kept_in))
    if not callable(given) or isinstance(given, StandsForFunctions):
        return given
    if _takes(given, own + 1):
        _check_keeps_no_value(given, own)
        found = given
    else:
        found = _WithoutRequest((given,)) if _takes(given, own) else given
    return (
        found if kept_in is None or not is_coroutine_function(given) else AwaitedFunction((found,), kept_in)
    )


def _check_keeps_no_value(function: Callable[..., object], own: int) -> None:
    """Raise TypeError if the parameter that is given the request is there to keep a value, its default."""
    by_position = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [each for each in _parameters_of(function) if each.kind in by_position]
    for each in parameters[own : own + 1]:
        keeps_it = each.default is not each.empty and each.default is not None
        if keeps_it and not _FOR_REQUESTS.search(each.name):
            raise TypeError(
                f"{function_name(function)} would be given the request as {each.name!r}, in the place of its "
                f"default: let it take the request before, or bind {each.name}= by functools.partial"
            )


def _takes(function: Callable[..., object], arguments: int) -> bool:
    try:
        inspect.signature(function).bind(*(None,) * arguments)
    except TypeError:
        return False
    except ValueError:  # a built-in function without a signature
        return True
    return True


class _WithoutRequest(StandsForFunctions):
    """A function of the app that takes no request, and is called without the last argument."""

    def __call__(self, *arguments: object) -> object:
        return self.made_of[0](*arguments[:-1])


Outcomes: TypeAlias = MutableMapping[Any, tuple[Any, Exception | None]]
"""What functions returned, or raised, in one request."""

KeptIn: TypeAlias = Callable[[Any], Outcomes]
"""Returns where a request keeps the outcomes of its `AwaitedFunction`, given what functions are given."""


@dataclass(frozen=True)
class AwaitedFunction(StandsForFunctions):
    """A function of the app that has been awaited before it is called.

    So what decides a request calls all functions alike: `awaiting` (deciding/steps.py) is asked before, and
    has the outcome kept with the request.
    """

    kept_in: KeptIn = field(compare=False)

    @property
    def function(self) -> Callable[..., Any]:
        """The function itself, whose result may have to be awaited."""
        function: Callable[..., Any] = self.made_of[0]
        return function

    @property
    def waits(self) -> bool:
        """Whether it is a coroutine function; another one is only called once a request."""
        return any(map(is_coroutine_function, self.made_of))

    def __call__(self, *arguments: Any) -> Any:
        """Return or raise what the function has for these arguments, the last of which is the request's."""
        outcomes = self.kept_in(arguments[-1]) if arguments else {}
        try:
            returned, raised = outcomes[self._key(arguments)]
        except KeyError:
            raise RuntimeError(f"{self.name} is a coroutine function, and was not awaited here") from None
        if raised is not None:
            raise raised
        return returned

    def keep(self, arguments: tuple[Any, ...], returned: Any, raised: Exception | None) -> None:
        """Keep an outcome for calls with these very arguments."""
        self.kept_in(arguments[-1])[self._key(arguments)] = (returned, raised)

    def is_kept(self, arguments: tuple[Any, ...]) -> bool:
        """Return whether its outcome for these arguments is known."""
        return self._key(arguments) in self.kept_in(arguments[-1])

    def _key(self, arguments: tuple[Any, ...]) -> Any:
        return self, *map(id, arguments[:-1])


def asked_once(given: Any, kept_in: KeptIn) -> Any:
    """Return a function that is called once a request, where those that are awaited are; else ``given``."""
    is_plain = callable(given) and not isinstance(given, AwaitedFunction)
    return AwaitedFunction((given,), kept_in) if is_plain else given


@dataclass(frozen=True)
class SuppliedFunction(StandsForFunctions):
    """A function of the app that is given more than the request, which the adapter keeps with the request."""

    names: tuple[str, ...]
    """Its other parameters, which are given arguments by these names."""
    __signature__: inspect.Signature = field(compare=False)
    """How it may be called, without what it is supplied with."""
    kept_in: KeptIn = field(compare=False)

    def __call__(self, *arguments: Any) -> Any:
        """Return what the function returns for these arguments, the last of which is the request's."""
        supplied, _ = self.kept_in(arguments[-1])[self]
        return self.made_of[0](**dict(zip(self.names, arguments, strict=False)), **supplied)

    def supply(self, values: Mapping[str, Any], request: Any) -> None:
        """Keep what the function is given in a request besides its arguments."""
        self.kept_in(request)[self] = values, None


def found_in(kind: type[S], functions: Iterable[object]) -> Iterator[S]:
    """Yield what is of a kind among functions, and among those that make them up."""
    for function in functions:
        if isinstance(function, kind):
            yield function
        elif isinstance(function, StandsForFunctions):
            yield from found_in(kind, function.made_of)


def awaited_in(functions: Iterable[object]) -> Iterator[AwaitedFunction]:
    """Yield the functions to be awaited among these, and among those that make them up."""
    return found_in(AwaitedFunction, functions)


def function_name(function: object) -> str:
    """Return the module and name of a function, not its ``repr``, which may show secrets."""
    if isinstance(function, StandsForFunctions):
        return function.name
    if isinstance(function, partial):
        return function_name(function.func)
    of = function if hasattr(function, "__qualname__") else type(function)
    module = getattr(of, "__module__", None)  # None of a method of a built-in class
    return f"{module}.{of.__qualname__}()" if module else f"{of.__qualname__}()"


def dotted_name(function: object) -> str:
    """Return the module and name of a function or a class."""
    return function_name(function).removesuffix("()")


def fingerprint(function: object, *, by_values: bool = True) -> str:
    """Return a string that tells a function from others and is the same in every process.

    It is the function's name, for a lambda also its code. With ``by_values`` the strings and numbers in its
    closure, defaults and bound arguments are added, because a factory makes many functions of one name.
    """
    if function is None:
        return ""
    inner = partial(fingerprint, by_values=by_values)
    if isinstance(function, StandsForFunctions):
        return " ".join((function.name, *map(inner, function.made_of)))
    values = _plain(_made_with(function)) if by_values else []
    if isinstance(function, partial):
        return f"{inner(function.func)} {values}"
    name = function_name(function)
    code = getattr(function, "__code__", None)
    if code is None or "<lambda>" not in name:
        return f"{name} {values}"
    return f"{name} {values} {code.co_code!r} {code.co_names!r} {_plain(code.co_consts)}"


def _made_with(function: object) -> Iterator[object]:
    """Yield the arguments that a partial binds, or what a function has captured and defaults to."""
    if isinstance(function, partial):
        yield from function.args
        for name, value in sorted(function.keywords.items()):
            yield from (name, value)
        return
    for cell in getattr(function, "__closure__", None) or ():
        yield cell.cell_contents
    yield from getattr(function, "__defaults__", None) or ()


def _plain(values: Iterable[object]) -> list[object]:
    return [value for value in values if isinstance(value, (str, bytes, int, float))]
