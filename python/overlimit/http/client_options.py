"""What may be said of a throttled client, whatever its library: each option once."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Annotated, Any, TypeAlias, TypedDict
from urllib.parse import urlsplit

from overlimit._messages.texts import short_repr
from overlimit._options import whole_number
from overlimit._patterns import methods_of
from overlimit.http.fields import ASKS_TO_WAIT
from overlimit.http.options import kinds
from overlimit.http.options.kinds import Kind, Option, described, documents
from overlimit.http.received import Received
from overlimit.waiting.acquiring import timeout_us
from overlimit.waiting.throttled_calls import check_cost, check_identifier, check_is_plain

IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
"""The methods of requests that may be sent again, as it makes no difference (RFC 9110, section 9.2.2)."""

_DEFAULT_PORTS = {"http": 80, "https": 443}

Identify: TypeAlias = str | bytes | Callable[[Any], str | bytes | Iterable[str | bytes]]
"""Who is limited, or a function of a request that returns it."""

Identifiers: TypeAlias = Identify | Iterable[Identify]
"""One of them, or several, all of which are limited."""

Cost: TypeAlias = int | Callable[[Any], int]
"""What a request is to spend, or a function of it that returns that."""

Settle: TypeAlias = Callable[[Received], int | None]
"""Returns what a request came to, given its response; None: as much as was charged."""

Budget: TypeAlias = (
    tuple[Any, Identifiers] | tuple[Any, Identifiers, Cost] | tuple[Any, Identifiers, Cost, Settle | None]
)
"""A limiter, who is limited by it, what a request costs, and what says what it came to."""


def host_of(request: Any) -> str:
    """Return the host of a request as an identifier, with the port unless that is the usual one."""
    url = urlsplit(str(request.url))
    host = url.hostname or ""
    name = f"[{host}]" if ":" in host else host
    return name if url.port in (None, _DEFAULT_PORTS.get(url.scheme)) else f"{name}:{url.port}"


def several(given: Any) -> tuple[Any, ...]:
    """Return what is one or several as a tuple."""
    is_one = callable(given) or isinstance(given, str | bytes) or not isinstance(given, Iterable)
    return (given,) if is_one else tuple(given)


def _check_identifiers(name: str, given: Any, _: int) -> None:
    if not several(given):
        raise ValueError(f"{name} must not be empty: write identifiers=host_of, or a name for all")
    for each in several(given):
        if not callable(each) and not isinstance(each, str | bytes):
            raise TypeError(
                f"{name} must be text, a function of the request, or a list of these, not {short_repr(each)}"
            )
        check_identifier(each)


def _check_retries(name: str, given: Any, _: int) -> None:
    number = whole_number(given)
    if number is None:
        raise TypeError(f"{name} must be a whole number, not {short_repr(given)}")
    if number < 0:
        raise ValueError(f"{name} must be a whole number from 0, not {number}")


def _check_max_wait(name: str, given: Any, _: int) -> None:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise TypeError(f"{name} must be a number of seconds (math.inf for any), not {short_repr(given)}")
    if not given >= 0 or math.isnan(given):
        raise ValueError(f"{name} must be a number of seconds from 0, not {given!r}")


def _check_statuses(name: str, given: Any, _: int) -> None:
    if callable(given):
        return check_is_plain(name, given)
    wanted = f"{name} must be a list of statuses such as [429, 503], or a function of the response"
    if isinstance(given, str | bytes) or not isinstance(given, Collection):
        raise TypeError(f"{wanted}, not {short_repr(given)}")
    for each in given:
        if whole_number(each) is None or not 400 <= each <= 599:
            raise ValueError(
                f"{wanted}: one that refuses is from 400 to 599, and this has {short_repr(each)}"
            )
    return None


def _check_settle(name: str, given: Any, _: int) -> None:
    if given is None:
        return
    if not callable(given):
        raise TypeError(f"{name} must be a function of the response, not {short_repr(given)}")
    check_is_plain(name, given)


def _check_budgets(name: str, given: Any, _: int) -> None:
    wanted = f"{name} must be a list of tuples (limiter, identifier[, cost[, settle]])"
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise TypeError(f"{wanted}, not {short_repr(given)}")
    for each in given:
        if not isinstance(each, tuple) or not 2 <= len(each) <= 4:
            raise TypeError(f"{wanted}, and this has {short_repr(each)}")
        _check_identifiers("the identifier of a budget", each[1], 0)
        if len(each) > 2:
            check_cost(each[2])
        if len(each) > 3:
            _check_settle("the settle of a budget", each[3], 0)


class WhoKeyword(TypedDict, total=False):
    """Who is limited."""

    identifiers: Annotated[
        Identifiers,
        Option(
            Kind(_check_identifiers),
            "Who is limited: text, a function of the request that returns it, or a list of these, of which "
            "all are limited. By default the host.",
            default=host_of,
        ),
    ]


class TurnKeywords(TypedDict, total=False):
    """What a turn costs, how long it is waited for, and what is heard of the server."""

    retries: Annotated[
        int,
        Option(
            Kind(_check_retries),
            "How many further tries there are at most after a refusal that names a time. None but the first "
            "is made of a request whose body is not in memory, such as a file or a generator: it is never "
            "sent twice.",
            default=3,
        ),
    ]
    methods: Annotated[
        Iterable[str] | None,
        Option(
            Kind(lambda name, value, _: methods_of(value)),
            "The HTTP methods of which there are further tries; by default those that are idempotent: GET, "
            "HEAD, OPTIONS, TRACE, PUT and DELETE.",
        ),
    ]
    max_wait: Annotated[
        float,
        Option(
            Kind(_check_max_wait),
            "The longest time in seconds to hold a host back; ``math.inf`` for any. A refusal that asks for "
            "more is not tried again.",
            default=60.0,
        ),
    ]
    statuses: Annotated[
        Collection[int] | Callable[[Any], object],
        Option(
            Kind(_check_statuses),
            "The statuses with which the server refuses, by default 429 and 503, or a function that is true "
            "of such a response, whose body is not read yet.",
            default=ASKS_TO_WAIT,
        ),
    ]
    timeout: Annotated[
        float | None,
        Option(
            Kind(lambda name, value, _: timeout_us(value)),
            "The longest wait for a turn in seconds. If it comes later, RateLimitExceeded is raised at once, "
            "and nothing is charged; if it is that of another try, the refusal before it is returned. None: "
            "as long as it takes.",
        ),
    ]
    cost: Annotated[
        Cost,
        Option(
            Kind(lambda name, value, _: check_cost(value)),
            "What a request spends, or a function of the request that returns it; by default 1.",
            default=1,
        ),
    ]
    settle: Annotated[
        Settle | None,
        Option(
            Kind(_check_settle),
            "A function that is given the response when its body has ended or was closed, and returns what "
            "the request came to, such as ``overlimit.http.total_tokens``; None: what was charged. It has "
            "``status_code``, ``headers``, ``content``, ``text`` and ``json()``. What it raises is logged.",
        ),
    ]
    budgets: Annotated[
        Sequence[Budget],
        Option(
            Kind(_check_budgets),
            "What a request spends besides, all or nothing: tuples (limiter, identifiers[, cost[, settle]]), "
            "each settled by its own function. The limiters share a store and a clock.",
            default=(),
        ),
    ]
    learn: Annotated[
        bool,
        Option(
            kinds.SWITCH,
            "Whether the limiter's numbers, which are the most that there is, follow what each host says of "
            "its quotas, and how much it refuses without saying why.",
            default=False,
        ),
    ]


class ClientKeywords(WhoKeyword, TurnKeywords, total=False):
    """The options of a client."""


CLIENT_OPTIONS = described(ClientKeywords)
"""The options of a client, by their names."""

describes_client = partial(
    documents,
    CLIENT_OPTIONS,
    turns="""\
A refusal that names a time is followed by another try after it. One that names none or too long a time, and
the last, is returned. All requests to the host are held back until the time that a refusal names, and so they
are by a successful response that says that nothing is left.""",
    errors="""\
StoreError
    From a request: the limiter's store fails, and its ``on_error`` is ``"raise"``.
ValueError, TypeError
    A wrong option.""",
)
"""Write into the docstring of a client what is the same of all: ``{turns}``, ``{options}``, ``{errors}``."""

HINTS = {"max_retries": "did you mean 'retries'?"}
"""What to write in the place of options that others have."""


def complete(options: ClientKeywords) -> dict[str, Any]:
    """Return the options with those that are not given; raise TypeError or ValueError for a wrong one."""
    said = {name: option.default for name, option in CLIENT_OPTIONS.items()} | dict(options)
    for name, value in said.items():
        CLIENT_OPTIONS[name].check(value, 1)
    return said
