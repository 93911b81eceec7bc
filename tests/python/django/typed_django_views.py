"""Views as their author's type checker sees them; nothing here is run. Django itself has no types."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import assert_type

from django.http import HttpRequest, HttpResponse
from django.utils.decorators import method_decorator
from django.views import View

from overlimit import Decision, FixedWindow, Limiter
from overlimit.django import RateLimitExceeded, by_header, by_post, current_decision, exempt, rate_limit
from overlimit.django.drf import OverlimitThrottle


@rate_limit("10/second; 120/minute", key="user_or_ip", methods="POST", block=False)
def function(request: HttpRequest, number: int, *, name: str = "") -> str:
    return name * number


@rate_limit(
    lambda request: "5/minute",
    key=["ip", by_post("username", normalise=str.casefold), lambda request: request.path],
    methods=["GET", "POST"],
    cost=lambda request: 2,
    deduct_when=lambda response: response.status_code == 200,
    exempt_when=lambda request: False,
    on_breach=lambda decision, request: None,
    error_message="slowly",
    group="login",
    on_error="deny",
    override_defaults=False,
)
@rate_limit([FixedWindow(9, per=60), "5/hour"], key=by_header("X-Api-Key"), scope=lambda view: view)
@rate_limit(None)
async def asynchronous(request: HttpRequest, number: int) -> int:
    return number


def rate(request: HttpRequest) -> str | None:
    return "5/minute" if request.path else None


@rate_limit(rate)
@rate_limit(["5/hour", rate])
@rate_limit(lambda request: None)
def of_plan(request: HttpRequest, number: int) -> int:
    return number


async def rate_later(request: HttpRequest) -> str | None:
    return rate(request)


async def number_later(request: HttpRequest) -> int:
    return 2


async def name_later(view: str, request: HttpRequest) -> str:
    return view


@rate_limit(rate_later, key=rate_later, cost=number_later, scope=name_later, on_breach=name_later)
@rate_limit(["5/hour", rate_later], group=name_later, exempt_when=number_later, deduct_when=name_later)
def looked_up(request: HttpRequest, number: int) -> int:
    return number


@exempt
def free(request: HttpRequest, number: int) -> int:
    return number


@method_decorator(rate_limit("5/minute"), name="dispatch")
class Page(View):  # type: ignore[misc]
    @rate_limit("5/minute")
    def get(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse()


class Burst(OverlimitThrottle):
    limits = "5/minute"
    key = "user_or_ip"


class OfPlan(OverlimitThrottle):
    limits = rate


class Several(OverlimitThrottle):
    limits = ["5/minute", FixedWindow(9, per=60)]  # noqa: RUF012 - as users write it
    key = ["ip", "user"]  # noqa: RUF012


def wrong(request: HttpRequest) -> int | None:
    return 5


def checked(request: HttpRequest, page: Page) -> None:
    assert_type(function(request, 5, name="a"), str)
    assert_type(free(request, 5), int)
    assert_type(of_plan(request, 5), int)
    answers: Callable[[HttpRequest, int], Awaitable[int]] = asynchronous
    page.get(request)
    decision = Limiter("5/minute").hit("a")
    assert_type(current_decision(HttpRequest()), Decision | None)
    assert_type(RateLimitExceeded(decision, "slowly").decision, Decision)
    function(request, "5")  # type: ignore[arg-type]
    free(request)  # type: ignore[call-arg]
    rate_limit("5/minute", blok=False)  # type: ignore[call-arg]
    rate_limit("5/minute", methods=5)  # type: ignore[arg-type]
    rate_limit(5)  # type: ignore[arg-type]
    rate_limit(wrong)  # type: ignore[arg-type]
    del answers
