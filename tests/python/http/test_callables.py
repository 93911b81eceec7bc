"""Functions that an app gives as options: which are taken, and what of their answers is none."""

from __future__ import annotations

import pytest

from overlimit.http.callables import check_callable, result_of, truth_of


async def later():
    return False


def yields():
    yield False


async def yields_later():
    yield False


class Called:
    async def __call__(self):
        return False


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (5, "a function without parameters, not 5$"),
        (lambda name: name, "cannot be called like that: missing a required argument: 'name'"),
        (lambda *, plan: plan, "cannot be called like that"),
        (later, r"not a coroutine function: .*later\(\) would never be awaited"),
        (Called(), "not a coroutine function"),
        (yields, r"yields\(\) must return its value, not yield it"),
        (yields_later, "must return its value, not yield it"),
        (Called, r"not the class .*\.Called$"),
    ],
)
def test_what_cannot_be_called_is_an_error_that_says_so(given, says):
    with pytest.raises(TypeError, match=f"^cost must be .*{says}"):
        check_callable("cost", given, 0)


def test_what_is_no_answer_is_told_with_the_function():
    def returns_it():
        return later()

    with pytest.raises(TypeError, match=r"returns_it\(\) returned a coroutine, which is not awaited here"):
        result_of(returns_it, returns_it())
    for returned, kind in ((later(), "coroutine"), (yields(), "generator, which is always true")):
        with pytest.raises(TypeError, match=rf"returns_it\(\) returned a {kind}"):
            truth_of(returns_it, returned)
