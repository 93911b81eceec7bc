"""Budgets of which the first that admits a request is charged, under every adapter."""

from __future__ import annotations

import pytest

from adapters import each
from adapters.site import Limited, Reply
from overlimit import InvalidLimit, Limiter, MemoryStore, Penalty, first_of


@pytest.fixture
def credits(store, clock):
    return Limiter("3/day", name="credits", store=store, clock=clock, algorithm="fixed_window")


def shown(answer, *apart):
    """Return the name and what is left of the budget that decided."""
    ((name, left),) = ((name, left) for name, left in answer.left.items() if name not in apart)
    return name.partition(":")[0], left


@each()
def test_the_first_budget_that_admits_is_charged_and_shown(serve, credits, clock):
    site = serve(limits=first_of("2/minute", credits), identifiers=lambda asked: asked.header("X-User"))
    answers = [site.ask(user="ann") for _ in range(6)]
    assert [each.status for each in answers] == [200] * 5 + [429]
    plan = shown(answers[0])[0]
    assert [shown(each) for each in answers[:5]] == [
        (plan, 1),
        (plan, 0),
        ("credits", 2),
        ("credits", 1),
        ("credits", 0),
    ]
    assert answers[5].headers["Retry-After"] == "60", "the plan admits it earlier than the credits do"
    assert shown(answers[5]) == (plan, 0)
    assert site.ask(user="bob").status == 200
    clock.advance(60)
    assert [site.ask(user="ann").status for _ in range(3)] == [200, 200, 429]
    assert credits.peek("ann", cost=0).remaining == 0
    assert credits.peek("bob", cost=0).remaining == 3


@each()
def test_what_does_not_count_comes_back_to_the_budget_that_was_charged(serve, credits):
    site = serve(
        {"/": lambda asked: Reply(status=int(asked.query["status"][0]))},
        limits=first_of("1/minute", credits),
        identifiers=lambda asked: asked.header("X-User"),
        deduct_when=lambda response, asked: response.status_code == 200,
    )
    assert site.ask("/?status=404", user="ann").status == 404
    assert site.ask("/?status=200", user="ann").status == 200
    assert site.ask("/?status=404", user="ann").status == 404
    assert credits.peek("ann", cost=0).remaining == 3
    assert site.ask("/?status=200", user="ann").status == 200
    assert credits.peek("ann", cost=0).remaining == 2


@each()
def test_limits_beside_it_hold_for_every_budget(serve, credits):
    site = serve(
        limits=[first_of("1/minute", credits), "3/minute"], identifiers=lambda asked: asked.header("X-User")
    )
    assert site.statuses(times=5, user="ann") == [200, 200, 200, 429, 429]
    assert credits.peek("ann", cost=0).remaining == 1


@each()
def test_in_shadow_each_budget_counts_and_none_refuses(serve, credits):
    site = serve(
        limits=first_of("1/minute", credits), shadow=True, identifiers=lambda asked: asked.header("X-User")
    )
    assert site.statuses(times=6, user="ann") == [200] * 6
    assert credits.peek("ann", cost=0).remaining == 0


@each()
def test_a_penalty_locks_by_the_last_budget_only(serve, store, clock):
    credits = Limiter("1/day", name="credits", store=store, clock=clock, penalty=Penalty(600))
    site = serve(
        limits=first_of("1/minute", credits),
        identifiers=lambda asked: asked.header("X-User"),
        penalty=Penalty(300),
    )
    assert site.statuses(times=3, user="ann") == [200, 200, 429]
    assert credits.peek("ann").status == "locked"
    clock.advance(60)
    assert site.statuses(times=1, user="ann") == [200], "no lock by the plan"


@each()
def test_a_limiter_on_another_store_or_clock_is_an_error_before_any_request(serve, store, clock):
    for options in ({"store": MemoryStore(), "clock": clock}, {"store": store}):
        with pytest.raises(InvalidLimit, match="same store= and clock="):
            serve(limits=first_of("1/minute", Limiter("3/day", name="away", **options)))


@each("decorators")
def test_a_decorator_takes_it_too_also_one_that_is_shared(serve):
    site = serve(
        {path: lambda asked: "ok" for path in ("/own", "/one", "/two")},
        routes={
            "/own": Limited(first_of("1/minute", "2/minute")),
            "/one": Limited(first_of("1/minute", "2/minute"), shared="pair"),
            "/two": Limited(first_of("1/minute", "2/minute"), shared="pair"),
        },
        identifiers=lambda asked: asked.header("X-User"),
    )
    assert site.statuses("/own", 4, user="ann") == [200, 200, 200, 429]
    assert [site.ask(path, user="ann").status for path in ("/one", "/two", "/one", "/two")] == [
        200,
        200,
        200,
        429,
    ]


@each("meta")
def test_a_refusal_counts_once_for_meta_limits_and_they_refuse_every_budget(serve, credits, clock):
    site = serve(
        limits=first_of("1/minute", credits),
        meta_limits="2/hour",
        identifiers=lambda asked: asked.header("X-User"),
    )
    assert site.statuses(times=6, user="ann") == [200, 200, 200, 200, 429, 429]
    clock.advance(60)
    answer = site.ask(user="ann")
    assert answer.status == 429, "two refusals, and no more"
    assert int(answer.headers["Retry-After"]) > 3000


@pytest.mark.parametrize(
    ("budgets", "says"),
    [
        (("1/minute",), "2 to 16"),
        (("1/minute",) * 17, "2 to 16"),
        (("1/minute", None), "not None"),
        (("1/minute", Limiter("1/day")), "name='credits'"),
        (("1/minute", first_of("1/day", "2/day")), "another first_of"),
    ],
    ids=["one", "many", "none", "nameless", "nested"],
)
def test_what_is_no_budget_is_an_error(budgets, says):
    with pytest.raises((TypeError, ValueError), match=says):
        first_of(*budgets)


@each("decorators", only=("flask", "fastapi", "django"))
@pytest.mark.parametrize(
    "options", [{"shadow": True}, {"meta_limits": first_of("1/day", "2/day")}], ids=["shadow", "meta"]
)
def test_options_that_mean_nothing_with_it_are_errors(serve, options):
    with pytest.raises(TypeError, match="first_of"):
        serve({"/": lambda asked: "ok"}, routes={"/": Limited(first_of("1/minute", "2/minute"), **options)})
