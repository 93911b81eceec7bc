"""Functions that switch all limits of an app while it serves: ``enabled=`` and ``shadow=``."""

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
