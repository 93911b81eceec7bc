"""The few factors that pages show in their text, all of one run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from measuring.machine import sentence
from measuring.report import Report
from measuring.tables import number
from measuring.turns import Record


@dataclass(frozen=True)
class Factor:
    """A contestant, by how a page calls it."""

    words: str
    part: str
    title: str
    name: str


MEMORY, REDIS, WEB, TASKS = "memory", "redis", "web", "tasks"
HITS = "One hit after the other"
FIRST = (
    Factor("a hit in memory", MEMORY, HITS, "overlimit, one sliding window"),
    Factor("a hit in Redis", REDIS, HITS, "overlimit, one sliding window"),
    Factor("a request to Flask, with three limits", WEB, "Flask, in memory", "overlimit, two identifiers"),
    Factor("a request to FastAPI, with three limits", WEB, "FastAPI, in memory", "overlimit, decorator"),
)
CALLS = (
    FIRST[0],
    Factor("two identifiers under three limits", MEMORY, HITS, "overlimit, 2 identifiers x 3 windows"),
    Factor("a refusal", MEMORY, HITS, "overlimit, a refusal"),
    Factor("a hit in shared memory", MEMORY, "The same in shared memory", "overlimit, one sliding window"),
    Factor("a hit of an `AsyncLimiter`", TASKS, "Memory, one after the other", "overlimit, AsyncLimiter"),
    Factor("a hit of a lease", "leases", "A decision without asking", "a hit of a lease"),
    Factor("a cached refusal", "leases", "A decision without asking", "a refusal that is known"),
    FIRST[1],
    Factor(
        "two identifiers under three limits, in Redis", REDIS, HITS, "overlimit, 2 identifiers x 3 windows"
    ),
    Factor("a refusal in Redis", REDIS, HITS, "overlimit, a refusal"),
    Factor(
        "a hit in Redis, 0.5 ms away", "latency", "A hit with 0.5 ms added", "overlimit, one sliding window"
    ),
    Factor("an awaited hit in Redis", TASKS, "Redis, one after the other", "overlimit, AsyncLimiter"),
    FIRST[2],
    FIRST[3],
    Factor("the same, with the middleware", WEB, "FastAPI, in memory", "overlimit, middleware"),
    Factor("the same, on Redis", WEB, "FastAPI, Redis on a unix socket", "overlimit, decorator"),
    Factor("a request to Starlette", WEB, "Starlette, in memory", "overlimit, middleware"),
    Factor("a request to Django", WEB, "Django, in memory", "overlimit, decorator"),
)
SPEEDS = (
    Factor("`hit_many` of a list", "replay", "A list of str, one token bucket", "overlimit, hit_many"),
    Factor(
        "a replay, only `allowed`", "replay", "Replay, one token bucket", "overlimit, replay, only `allowed`"
    ),
    Factor("a replay, all columns", "replay", "Replay, one token bucket", "overlimit, replay, all columns"),
    Factor("reading `combined`", "reading", "Access logs", "overlimit, combined"),
    Factor("reading a saved file", "reading", "Access logs", "overlimit, a saved file"),
    Factor("reading JSON lines", "reading", "JSON lines", "overlimit, JSON lines"),
    Factor("reading CSV", "reading", "CSV", "overlimit, CSV"),
)
TABLES = {
    "first": (FIRST, "times the floor"),
    "calls": (CALLS, "times the floor"),
    "speeds": (SPEEDS, "times as fast as the floor"),
}
PLACE = re.compile(r"<!-- (?P<kind>factors|machine)(?:: (?P<name>\w+))? -->\n.*?<!-- end -->", re.S)


def put_into_page(path: Path, report: Report) -> None:
    """Replace what is between ``<!-- factors: NAME -->`` or ``<!-- machine -->`` and ``<!-- end -->``."""
    path.write_text(page_with(path.read_text(encoding="utf-8"), report), encoding="utf-8")


def page_with(text: str, report: Report) -> str:
    def result(place: re.Match[str]) -> str:
        made = sentence(report.machine) if place["kind"] == "machine" else markdown(report, place["name"])
        return f"{place[0].partition(chr(10))[0]}\n\n{made}\n\n<!-- end -->"

    return PLACE.sub(result, text)


def markdown(report: Report, name: str) -> str:
    """Return a table: what each contestant, and what other libraries beside it, take of the floor."""
    factors, meaning = TABLES[name]
    rows = [row_of(report, factor) for factor in factors]
    head = [f"| | {meaning} | other libraries | part |", "| --- | ---: | ---: | --- |"]
    return "\n".join([*head, *rows])


def row_of(report: Report, factor: Factor) -> str:
    contest = [each for each in report.of(factor.part) if each.title == factor.title]
    (own,) = [each for each in contest if each.name == factor.name]
    cells = (factor.words, number(own.ratio), range_of_others(report, contest), f"`{factor.part}`")
    return f"| {' | '.join(cells)} |".replace("  ", " ")


def range_of_others(report: Report, contest: Sequence[Record]) -> str:
    """Return the least and the most that other libraries take, if there are any."""
    peers = report.machine["peers"]
    assert isinstance(peers, dict)
    ratios = [each.ratio for each in contest if re.split("[ ,]", each.name)[0] in peers]
    return " to ".join(dict.fromkeys(number(ratio) for ratio in (min(ratios), max(ratios)))) if ratios else ""
