"""The traces of tests/vectors, worked out by hand: the oracle and every store answer as they say."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .oracle import Charge, Oracle, PlainLimit, PlainPenalty, Records, hit_all, peek_all

Json = dict[str, Any]

FOLDER = Path(__file__).parents[1] / "vectors"
EXPECTED = ("status", "remaining", "retry_after_us", "reset_after_us")
VECTORS: dict[str, Json] = {path.stem: json.loads(path.read_text("utf-8")) for path in FOLDER.glob("*.json")}


def speaks_python(vector: Json) -> bool:
    """Whether limiters can be asked all of it: what they are asked always enforces."""
    charges = [charge for step in vector["steps"] for charge in step.get("charges", [])]
    return all(charge.get("role", "enforce") == "enforce" for charge in charges)


def parametrized(names: list[str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("vector", [VECTORS[name] for name in sorted(names)], ids=sorted(names))


every_vector = parametrized(list(VECTORS))
every_vector_in_python = parametrized([name for name, vector in VECTORS.items() if speaks_python(vector)])


class Player:
    """Whoever can be asked the steps of a vector: the oracle, or limiters on a store."""

    def __init__(self, vector: Json) -> None:
        self.vector = vector
        self.decisions: dict[str, Any] = {}

    def play(self) -> None:
        for number, step in enumerate(self.vector["steps"]):
            try:
                self.take(step)
            except AssertionError as error:
                raise AssertionError(f"step {number}: {step['why']}\n{error}") from error

    def take(self, step: Json) -> None:
        if step["do"] not in ("hit", "peek"):
            self.move_to(self.instant_of(step))
            getattr(self, step["do"])(self.policy_of(step), step)
            return
        decisions = list(self.decisions_of(step))
        admitted = [decision.allowed for decision in decisions]
        if "admitted" in step:
            assert admitted == [number < step["admitted"] for number in range(len(admitted))]
        self.decisions[step.get("as", "")] = decisions[-1]
        expected = {**dict(zip(EXPECTED, step["expect"], strict=False)), **step.get("also", {})}
        assert parts_of(self.answer_of(decisions[-1]), expected) == expected

    def decisions_of(self, step: Json) -> Iterator[Any]:
        for number in range(step.get("repeat", 1)):
            self.move_to(self.instant_of(step) + number * step.get("every_us", 0))
            yield self.ask_charges(step) if "charges" in step else self.ask(self.policy_of(step), step)

    def instant_of(self, step: Json) -> int:
        return int(step["at_us"] if "at_us" in step else self.vector["start_us"] + step["after_us"])

    def policy_of(self, step: Json) -> str:
        (only, *_) = self.vector["policies"]
        return str(step.get("policy", only))

    def answer_of(self, decision: Any) -> Json:
        """Everything a decision says, in the words of a vector."""
        rows = list(self.rows_of(decision))
        binding = next(
            row for row, shown in zip(rows, decision.details, strict=True) if self.binds(shown, decision)
        )
        return {
            "status": str(getattr(decision.status, "value", decision.status)),
            "remaining": decision.remaining,
            "retry_after_us": self.micros(decision.retry_after),
            "reset_after_us": self.micros(decision.reset_after),
            "delay_us": self.micros(decision.delay),
            **{key: binding[key] for key in ("policy", "identifier", "limit")},
            "rows": rows,
        }

    def rows_of(self, decision: Any) -> Iterator[Json]:
        seen: Counter[tuple[str, str]] = Counter()
        for row in decision.details:
            owner = (row.policy, row.identifier)
            yield {
                "policy": row.policy,
                "identifier": row.identifier,
                "limit": seen[owner],
                "allowed": row.allowed,
                "remaining": row.remaining,
                "retry_after_us": self.micros(row.retry_after),
                "reset_after_us": self.micros(row.reset_after),
            }
            seen[owner] += 1


def parts_of(answer: Json, expected: Json) -> Json:
    """As much of an answer as a vector says something about."""
    shown = {key: value for key, value in answer.items() if key in expected}
    if "rows" in expected:
        assert len(answer["rows"]) == len(expected["rows"])
        pairs = zip(answer["rows"], expected["rows"], strict=True)
        shown["rows"] = [parts_of(row, expected_row) for row, expected_row in pairs]
    return shown


def identifiers_of(step: Json) -> list[str]:
    return list(step.get("identifiers", ["x"]))


class OraclePlayer(Player):
    def __init__(self, vector: Json) -> None:
        super().__init__(vector)
        self.now = 0
        records = Records()
        self.oracles = {
            key: Oracle(
                tuple(map(self.limit, policy["limits"])),
                policy.get("name", key),
                records,
                self.penalty(policy),
            )
            for key, policy in vector["policies"].items()
        }

    @staticmethod
    def limit(described: Json) -> PlainLimit:
        numbers, name = tuple(described["numbers"]), described.get("name")
        calendar = described.get("calendar")
        if calendar is None:
            return PlainLimit(described["algorithm"], numbers, name)
        names = (calendar["unit"], calendar["timezone"], calendar["week_start"])
        return PlainLimit(described["algorithm"], numbers, name, *names)

    @staticmethod
    def penalty(policy: Json) -> PlainPenalty | None:
        described = policy.get("penalty")
        if described is None:
            return None
        return PlainPenalty(
            (tuple(described["levels_us"]), described["extend"], described["forget_after_us"])
        )

    def binds(self, row: Any, decision: Any) -> bool:
        return row is decision.binding

    def micros(self, duration: float) -> int | str:
        return "never" if duration == math.inf else int(duration)

    def move_to(self, instant: int) -> None:
        self.now = instant

    def ask(self, policy: str, step: Json) -> Any:
        oracle, cost = self.oracles[policy], step.get("cost", 1)
        if step["do"] == "peek":
            return oracle.peek(self.now, identifiers_of(step), cost)
        return oracle.hit(self.now, identifiers_of(step), cost, step.get("patience_us"))

    def ask_charges(self, step: Json) -> Any:
        charges = [
            Charge(
                self.oracles[each["policy"]], each["identifier"], each["cost"], each.get("role", "enforce")
            )
            for each in step["charges"]
        ]
        return (peek_all if step["do"] == "peek" else hit_all)(self.now, charges)

    def refund(self, policy: str, step: Json) -> None:
        self.oracles[policy].refund(self.now, self.decisions[step["of"]])

    def reset(self, policy: str, step: Json) -> None:
        self.oracles[policy].reset(identifiers_of(step))

    def reset_all(self, policy: str, step: Json) -> None:
        self.oracles[policy].reset_all()

    def lock(self, policy: str, step: Json) -> None:
        for identifier in identifiers_of(step):
            self.oracles[policy].lock(self.now, identifier, step["for_us"])

    def update(self, policy: str, step: Json) -> None:
        self.oracles[policy].update(tuple(map(self.limit, step["limits"])))


class LimiterPlayer(Player):
    def __init__(self, vector: Json, store: Any) -> None:
        import overlimit

        super().__init__(vector)
        self.overlimit = overlimit
        self.clock = overlimit.ManualClock(start=vector["start_us"] / 1e6)
        self.limiters = {
            key: overlimit.Limiter(
                [self.limit(described) for described in policy["limits"]],
                name=policy.get("name", key),
                store=store,
                clock=self.clock,
                **self.penalty(policy),
            )
            for key, policy in vector["policies"].items()
        }

    def evaluated(self, python: str) -> Any:
        return eval(python, dict(vars(self.overlimit)))

    def limit(self, described: Json) -> Any:
        limit = self.evaluated(described["python"])
        assert limit._kept_as == described["algorithm"]
        assert list(limit._numbers) == described["numbers"]
        assert limit.name == described.get("name")
        calendar = described.get("calendar")
        if calendar is not None:
            assert {
                "unit": limit.per,
                "timezone": limit.timezone,
                "week_start": limit.week_start,
            } == calendar
        return limit

    def penalty(self, policy: Json) -> Json:
        if "penalty" not in policy:
            return {}
        described = policy["penalty"]
        penalty = self.evaluated(described["python"])
        levels_us, extend, forget_after_us = penalty._numbers
        assert list(levels_us) == described["levels_us"]
        assert (extend, forget_after_us) == (described["extend"], described["forget_after_us"])
        return {"penalty": penalty}

    def binds(self, row: Any, decision: Any) -> bool:
        shown = (row.identifier, row.limit, row.reset_after, row.retry_after)
        return shown == (decision.identifier, decision.limit, decision.reset_after, decision.retry_after)

    def micros(self, duration: float) -> int | str:
        return "never" if duration == math.inf else round(duration * 1e6)

    def move_to(self, instant: int) -> None:
        self.clock.set(instant / 1e6)

    def ask(self, policy: str, step: Json) -> Any:
        options = {"cost": step.get("cost", 1)}
        method = step["do"]
        if "patience_us" in step:
            method, options["patience"] = "_hit_within", step["patience_us"] / 1e6
        return getattr(self.limiters[policy], method)(*identifiers_of(step), **options)

    def ask_charges(self, step: Json) -> Any:
        assert step["do"] == "hit"
        charges = [
            (self.limiters[each["policy"]], each["identifier"], each["cost"]) for each in step["charges"]
        ]
        return self.overlimit.hit_all(charges)

    def refund(self, policy: str, step: Json) -> None:
        self.limiters[policy].refund(self.decisions[step["of"]])

    def reset(self, policy: str, step: Json) -> None:
        self.limiters[policy].reset(*identifiers_of(step))

    def reset_all(self, policy: str, step: Json) -> None:
        self.limiters[policy].reset_all()

    def lock(self, policy: str, step: Json) -> None:
        for identifier in identifiers_of(step):
            self.limiters[policy].lock(identifier, step["for_us"] / 1e6)

    def update(self, policy: str, step: Json) -> None:
        self.limiters[policy].update([self.limit(described) for described in step["limits"]])


@every_vector
def test_the_oracle_answers_as_worked_out(vector):
    OraclePlayer(vector).play()


@every_vector_in_python
def test_every_store_answers_as_worked_out(vector, store):
    LimiterPlayer(vector, store).play()


@every_vector
def test_every_step_says_why(vector):
    assert {"title", "source", "start_us", "policies", "steps"} == set(vector)
    for step in vector["steps"]:
        assert step["why"].endswith((".", "..."))
        assert ("at_us" in step) != ("after_us" in step)
        assert ("expect" in step) == (step["do"] in ("hit", "peek"))
        assert "policy" in step or "charges" in step or len(vector["policies"]) == 1


@every_vector
def test_every_source_is_a_part_of_the_docs(vector):
    sources = re.findall(r"(docs/[\w/]+\.md)#([\w-]+)", vector["source"])
    assert len(sources) == vector["source"].count("docs/") > 0
    for page, anchor in sources:
        headings = re.findall(r"^#+ (.+)$", (FOLDER.parents[1] / page).read_text("utf-8"), re.MULTILINE)
        assert anchor in {re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-")) for heading in headings}
