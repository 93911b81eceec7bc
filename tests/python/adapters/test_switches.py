"""What switches all limits of an app while it serves, and forgets what was counted."""

from __future__ import annotations

import pytest

from adapters import each


class Flag:
    """A feature flag, which counts how often it was asked for."""

    def __init__(self, answer: object) -> None:
        self.answer, self.asked = answer, 0

    def __call__(self) -> object:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@each()
@pytest.mark.parametrize(("option", "limits"), [("enabled", True), ("shadow", False)])
def test_a_function_switches_all_limits_and_is_asked_once_a_second(serve, clock, option, limits):
    flag = Flag(limits)
    site = serve(limits="1/minute", **{option: flag})
    assert site.statuses(times=2) == [200, 429]
    flag.answer = not limits
    clock.advance(0.9)
    assert (site.ask().status, flag.asked) == (429, 1)
    clock.advance(0.2)
    answers = [site.ask() for _ in range(3)]
    assert [(answer.status, answer.ours) for answer in answers] == [(200, [])] * 3
    assert flag.asked == 2
    flag.answer = limits
    clock.advance(1)
    answer = site.ask()
    assert (answer.status, answer.left.popitem()[1], flag.asked) == (429, 0, 3)


@each()
@pytest.mark.parametrize("failure", [ConnectionError("the flags are away"), "False", None], ids=repr)
def test_while_the_function_fails_its_last_answer_holds_and_that_is_logged_once(
    serve, clock, caplog, failure
):
    flag = Flag(failure)
    site = serve(limits="1/minute", enabled=flag)
    assert site.statuses(times=2) == [200, 429]
    flag.answer = False
    clock.advance(1)
    assert site.ask().status == 200
    for _ in range(3):
        flag.answer = failure
        clock.advance(1)
        assert site.ask().status == 200
    told = [record for record in caplog.records if "the function of enabled failed" in record.message]
    assert [record.message.rpartition(" ")[2] for record in told] == ["True", "False"]


@each()
def test_what_cannot_be_asked_is_an_error_of_the_app(serve):
    async def later():
        return True

    for wrong in (later, lambda request: True, 7):
        with pytest.raises(Exception, match=r"(?i)enabled") as raised:
            serve(limits="1/minute", enabled=wrong).ask()
        assert type(raised.value).__name__ in ("TypeError", "ValueError", "ImproperlyConfigured")


@each("ratelimit")
def test_limits_are_off_within_a_block_and_then_as_they_were(serve):
    site = serve(limits="1/minute")
    limiter, first, second = site.limiter, site.limiter.disabled(), site.limiter.disabled()
    with limiter.disabled():
        answers = [site.ask() for _ in range(3)]
        with limiter.disabled():
            pass
        assert not limiter.enabled
    assert [(answer.status, answer.ours) for answer in answers] == [(200, [])] * 3
    with pytest.raises(LookupError), limiter.disabled():
        raise LookupError
    first.__enter__()  # as blocks of two threads, which overlap
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert limiter.enabled
    assert site.statuses(times=2) == [200, 429]


@each("ratelimit")
def test_limits_are_switched_off_and_on_also_within_a_block(serve):
    site = serve(limits="1/minute", enabled=False)
    with site.limiter.disabled():
        pass
    assert site.statuses(times=3) == [200] * 3
    with site.limiter.disabled():
        site.limiter.enabled = True
        assert not site.limiter.enabled
        assert site.statuses(times=2) == [200, 200]
    assert site.limiter.enabled
    assert site.statuses(times=2) == [200, 429]
    with pytest.raises(ValueError, match="enabled must be True or False, not 'maybe'"):
        site.limiter.enabled = "maybe"
    assert site.limiter.enabled
    site.limiter.enabled = "no"
    assert site.statuses(times=2) == [200, 200]


@each("ratelimit")
@pytest.mark.every_store
def test_whoever_is_named_begins_anew_or_everybody(serve):
    site = serve(limits="1/minute")
    peers = ("192.0.2.1", "192.0.2.2")
    for reset, again in (
        (lambda: site.limiter.reset("ip:192.0.2.1"), [200, 429]),
        (site.limiter.reset_all, [200, 200]),
    ):
        assert [site.statuses(times=2, peer=peer)[1] for peer in peers] == [429, 429]
        reset()
        assert [site.ask(peer=peer).status for peer in peers] == again


@each("ratelimit")
def test_what_any_filter_lets_pass_is_not_counted(serve, adapter):
    site = serve(limits="1/minute", together="2/minute")
    for name, awaits in (("X-Inside", False), ("X-Probe", "await" not in adapter.cannot)):
        passes = adapter.function(lambda asked, name=name: asked.header(name) == "yes", 0, awaits=awaits)
        site.limiter.request_filter(passes)
    for name in ("X-Inside", "X-Probe"):
        answers = [site.ask("/", (name, "yes")) for _ in range(3)]
        assert [(answer.status, answer.ours) for answer in answers] == [(200, [])] * 3
    assert site.statuses("/", 2, ("X-Inside", "no")) == [200, 429]


async def later():
    return False


@each("ratelimit")
@pytest.mark.parametrize("returned", [later, lambda: (each for each in ())], ids=["coroutine", "generator"])
def test_a_filter_that_returns_what_is_always_true_lets_nobody_pass(serve, returned):
    site = serve(limits="1/minute")
    site.limiter.request_filter(lambda *given: returned())
    assert 200 not in site.statuses(times=3)[1:]
