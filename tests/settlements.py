"""What a view can say of the cost of its request, and what clients then see: the same under each framework.

A site has a limit of 1000 a day at an estimated cost of 100, and one of 50 requests a day. Its view does the
`actions` that are in the query: before it answers, or with ``stream`` when all has been sent. ``ask`` sends a
request with such a query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

LIMIT, ESTIMATE, REQUESTS = "1000/day", 100, "50/day"


def actions(query: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the names of the functions to be called, each with its arguments."""
    if query.get("refund") == "before":
        yield ("refund",)
    yield from (("settle", int(used)) for used in query.getlist("used"))
    if query.get("refund") == "after":
        yield ("refund",)


class Answer(NamedTuple):
    """What a client sees; ``left`` by the quota of the limit."""

    status: int
    left: dict[int, int]
    retry_after: int | None

    @classmethod
    def of(cls, status: int, headers: Mapping[str, str]) -> Answer:
        """Read the header fields of a response."""
        quotas = [int(item.split(";")[1].removeprefix("q=")) for item in _items(headers, "RateLimit-Policy")]
        left = [int(item.split(";")[1].removeprefix("r=")) for item in _items(headers, "RateLimit")]
        seconds = headers.get("Retry-After")
        return cls(status, dict(zip(quotas, left, strict=True)), None if seconds is None else int(seconds))


def _items(headers: Mapping[str, str], name: str) -> list[str]:
    return [item for item in headers.get(name, "").split(", ") if item]


Ask = Callable[..., Answer]


def more_and_less_is_settled_and_requests_are_counted(ask: Ask, **how: Any) -> None:
    """Settle at more than the estimate, then at less, and once more at nothing."""
    assert ask(used=437, **how).status == 200
    assert ask().left == {1000: 463, 50: 48}
    ask(used=30, **how)
    assert ask().left == {1000: 333, 50: 46}
    ask(used=0, **how)
    assert ask().left == {1000: 233, 50: 44}


def it_is_settled_once(ask: Ask, **how: Any) -> None:
    """Settle twice, and give back what was settled."""
    ask(used=[437, 5], **how)
    assert ask().left == {1000: 463, 50: 48}
    ask(used=[5, 437], refund="after", **how)
    assert ask().left == {1000: 358, 50: 47}


def what_is_owed_refuses_the_next(ask: Ask, **how: Any) -> None:
    """Use more than the limit grants; nobody else pays for it."""
    assert ask(used=5000, **how).status == 200
    assert ask(used=0, **how).status == 429
    assert ask(user="bob").left == {1000: 900, 50: 49}


def all_of_a_request_is_given_back(ask: Ask, **how: Any) -> None:
    """Give back whole requests, and settle what was given back."""
    for _ in range(60):
        assert ask(refund="before", used=437, **how).status == 200
    assert ask().left == {1000: 900, 50: 49}


def a_response_that_does_not_count_is_not_settled(ask: Ask) -> None:
    """Fail after the cost was said, and answer after that."""
    ask(used=437, status=500)
    assert ask().left == {1000: 900, 50: 48}
    ask(used=437)
    assert ask().left == {1000: 363, 50: 46}
    ask(used=63, stream=1)
    assert ask().left == {1000: 200, 50: 44}


EVERYWHERE = (
    more_and_less_is_settled_and_requests_are_counted,
    it_is_settled_once,
    what_is_owed_refuses_the_next,
    all_of_a_request_is_given_back,
)


def whoever_goes_over_is_locked_longer_each_time(ask: Ask, at: Callable[[float], None]) -> None:
    """Go over a limit of 2 a minute with a penalty of 100 s, then 1000 s; others are not locked."""
    assert [ask().status for _ in range(3)] == [200, 200, 429]
    assert ask().retry_after == 100
    assert ask(user="bob").status == 200
    at(99)
    refusal = ask()
    assert (refusal.status, refusal.retry_after) == (429, 1)
    at(100)
    assert [ask().status for _ in range(3)] == [200, 200, 429]
    assert ask().retry_after == 1000
    at(1099)
    assert ask().status == 429
    at(1100)
    assert ask().status == 200
