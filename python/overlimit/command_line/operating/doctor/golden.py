"""Calls whose answers were worked out by hand (tests/vectors), made on the store that is examined."""

from __future__ import annotations

import ast
import json
import math
import secrets
from collections.abc import Iterator
from importlib.resources import files
from itertools import product
from typing import Any

from overlimit import limits
from overlimit._core import Decision
from overlimit.clocks import ManualClock
from overlimit.command_line.operating.doctor.findings import Finding, broken, ok
from overlimit.command_line.operating.value_stores import forget
from overlimit.errors import StoreError
from overlimit.limiter import Limiter
from overlimit.limits.penalty import Penalty
from overlimit.stores import Store

_EXPECTED = ("status", "remaining", "retry_after_us", "reset_after_us")


def play(store: Store) -> Finding:
    """Play all vectors under policies of their own, and forget them; raise StoreError if that cannot be."""
    forget(
        store, f"overlimit-doctor-{secrets.token_hex(6)}", ["x"]
    )  # before there is anything to leave behind
    vectors = [json.loads(each.read_text("utf-8")) for each in _vectors()]
    steps = sum(len(vector["steps"]) for vector in vectors)
    wrong = [text for vector in vectors for text in _played(vector, store)]
    if not wrong:
        told = f"{steps} test calls gave the expected answers, and their keys are deleted."
        return ok("vectors", told)
    return broken(
        "vectors",
        f"{len(wrong)} of {steps} test calls gave another answer than expected: {wrong[0]}.",
        "Look for another program that writes these keys, or a proxy; else report this as a bug.",
    )


def _vectors() -> Iterator[Any]:
    folder = files("overlimit.command_line.operating.doctor") / "vectors"
    return (each for each in sorted(folder.iterdir(), key=str) if each.name.endswith(".json"))


def _played(vector: dict[str, Any], store: Store) -> Iterator[str]:
    clock = ManualClock(start=vector["start_us"] / 1e6)
    own = f"overlimit-doctor-{secrets.token_hex(6)}"
    limiters = {
        key: Limiter(
            [_evaluated(each["python"]) for each in policy["limits"]],
            name=f"{own}-{key}",
            store=store,
            clock=clock,
            penalty=_evaluated(policy["penalty"]["python"]) if "penalty" in policy else None,
        )
        for key, policy in vector["policies"].items()
    }
    try:
        for step in vector["steps"]:
            clock.set(step.get("at_us", vector["start_us"] + step.get("after_us", 0)) / 1e6)
            yield from _taken(step, limiters[step.get("policy", next(iter(limiters)))])
    finally:
        _forget(vector, limiters, store)


def _taken(step: dict[str, Any], limiter: Limiter) -> Iterator[str]:
    """Take a step, and yield what is wrong with the answer."""
    identifiers = step.get("identifiers", ["x"])
    if step["do"] == "lock":
        for each in identifiers:
            limiter.lock(each, step["for_us"] / 1e6)
    elif step["do"] == "reset":
        limiter.reset(*identifiers)
    else:
        ask = limiter._hit_within if step["do"] == "hit" else limiter._peek_within
        options = {"patience": step["patience_us"] / 1e6} if "patience_us" in step else {}
        for _ in range(step.get("repeat", 1)):
            decision = ask(*identifiers, cost=step.get("cost", 1), **options)
        expected = dict(zip(_EXPECTED, step["expect"], strict=False)) | step.get("also", {})
        answered = {name: value for name, value in _answer(decision).items() if name in expected}
        if answered != {name: value for name, value in expected.items() if name in answered}:
            yield f"expected {expected}, not {answered} ({step['why']})"


def _answer(decision: Decision) -> dict[str, Any]:
    return {
        "status": decision.status,
        "remaining": decision.remaining,
        "retry_after_us": _micros(decision.retry_after),
        "reset_after_us": _micros(decision.reset_after),
        "delay_us": _micros(decision.delay),
    }


def _micros(duration: float) -> int | str:
    return "never" if math.isinf(duration) else round(duration * 1e6)


def _forget(vector: dict[str, Any], limiters: dict[str, Limiter], store: Store) -> None:
    """Forget all of it, also where some of the keys are out of reach; raise for those in the end."""
    used = sorted({each for step in vector["steps"] for each in step.get("identifiers", ["x"])})
    failed: StoreError | None = None
    for limiter, identifier in product(limiters.values(), used):
        assert limiter.name is not None
        try:
            forget(store, limiter.name, [identifier])
        except StoreError as error:
            failed = error
    if failed is not None:
        raise failed


def _evaluated(python: str) -> Any:
    """Return the limit or penalty that a call with literals makes, such as ``SlidingLog(3, per=10)``."""
    call = ast.parse(python, mode="eval").body
    assert isinstance(call, ast.Call)
    assert isinstance(call.func, ast.Name)
    named = {each.arg: ast.literal_eval(each.value) for each in call.keywords if each.arg is not None}
    make = Penalty if call.func.id == "Penalty" else getattr(limits, call.func.id)
    return make(*map(ast.literal_eval, call.args), **named)
