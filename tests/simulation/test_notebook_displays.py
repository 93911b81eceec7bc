"""How results and limits look in a notebook: well-formed, safe tables without colours of their own."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from overlimit import (
    FixedWindow,
    LeakyBucket,
    Limiter,
    ManualClock,
    Penalty,
    SlidingLog,
    SlidingWindow,
    SlidingWindowCounter,
    TokenBucket,
)
from overlimit.simulation import Clients, Events, compare, error_of, replay, suggest, sweep

HOSTILE = '<script>alert("1")</script>&amp;\x1b[31m\u202e\ud800'
SHOWN = r'<script>alert("1")</script>&amp;\x1b[31m\u202e\ud800'

EVENTS = Events(
    [0, 1, 2, 3, 3600], {"ip": [HOSTILE, HOSTILE, HOSTILE, b"\xff", "c"]}, labels=["<i>", "x", "x", "x", "x"]
)


class Page(HTMLParser):
    """The elements and the texts of a page; an AssertionError if an element is not closed, or in no table."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.styles: set[str] = set()
        self.rows: list[list[str]] = []
        self.text = ""
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attributes}
        self.styles |= {value for name, value in attributes if name == "style"}
        if tag == "tr":
            assert self.open[-3:-1] in (["table", "thead"], ["table", "tbody"])
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        self.text += text + " "
        if self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += text


def decided(*identifiers, cost=1):
    return Limiter("2/minute", clock=ManualClock()).hit(*identifiers, cost=cost)


def limiter():
    return Limiter("2/minute; 5/hour", name="api", penalty=Penalty([60, 120]), on_error="allow")


DISPLAYS = {
    "events": EVENTS,
    "replay": replay(EVENTS, "1/minute; 9/hour"),
    "comparison": compare(EVENTS, {HOSTILE: "1/minute", "new": "2/minute"}),
    "comparison of one": compare(EVENTS, {"today": "1/minute"}),
    "sweep": sweep(EVENTS, lambda n: f"{n}/minute", (1, 2)),
    "suggestion": suggest(EVENTS, lambda n: f"{n}/minute", (1, 9)),
    "no suggestion": suggest(EVENTS, lambda n: f"{n}/hour", (1, 2), 0.0),
    "error": error_of(EVENTS, FixedWindow(1, 60)),
    "clients": Clients(50, rate=2.5, jitter=0.25, gives_up_after=3, label=HOSTILE),
    "hammering clients": Clients(1200, rate=20, honours_retry_after=False),
    "limiter": limiter(),
    "decision": decided(HOSTILE, "b"),
    "refusal": decided(HOSTILE, cost=9),
    "decisions": Limiter("1/minute").hit_many([HOSTILE, HOSTILE, b"\xff"]),
    "no decisions": Limiter("1/minute").hit_many([]),
    "fixed window": FixedWindow(5, 60, name="a"),
    "sliding window": SlidingWindow(5, 60, precision=2),
    "sliding log": SlidingLog(5, 60),
    "sliding window counter": SlidingWindowCounter(5, 60),
    "token bucket": TokenBucket(5, 60, burst=10),
    "leaky bucket": LeakyBucket(5, 60, capacity=10),
    "penalty": Penalty([60, 120], extend=True),
}

COLOUR = re.compile(
    r"#[0-9a-f]{3,8}\b|rgba?\(|hsla?\(|background|(?<![\w-])color:|\b(black|white|gr[ae]y)\b(?!-)", re.I
)


@pytest.fixture(params=DISPLAYS)
def display(request):
    return DISPLAYS[request.param]


def test_a_display_is_a_well_formed_table(display):
    page = Page(display._repr_html_())
    assert page.elements == {"div", "b", "table", "thead", "tbody", "tr", "th", "td"} - (
        {"td"} if len(page.rows) == 1 else set()
    )
    assert page.attributes == {"style"}
    assert len({len(row) for row in page.rows}) <= display._repr_html_().count("<table")


def test_a_display_has_the_colours_of_the_notebook(display):
    assert not [style for style in Page(display._repr_html_()).styles if COLOUR.search(style)]


def test_a_display_is_printable_and_can_be_written(display):
    page = display._repr_html_()
    page.encode()
    assert page.isprintable()
    assert "<script" not in page
    assert "<i>" not in page


def test_a_display_says_what_the_text_says(display):
    """All numbers of the text are there, in texts of the page."""
    told = Page(display._repr_html_()).text
    numbers = re.findall(r"(?<![\w.])\d[\d,]*(?:\.\d+)?%?", repr(display).replace(repr(HOSTILE), ""))
    numbers = [number.removesuffix(".0").rstrip(",") for number in numbers]
    assert numbers
    assert [number for number in numbers if number not in told] == []


@pytest.mark.parametrize(
    "name", ["events", "replay", "comparison", "sweep", "clients", "decision", "refusal"]
)
def test_a_hostile_identifier_is_a_text(name):
    assert SHOWN in Page(DISPLAYS[name]._repr_html_()).text


def test_the_tables_have_the_figures():
    assert Page(DISPLAYS["replay"]._repr_html_()).rows == [
        ["most refused", "sent", "passed", "refused"],
        [f"ip:{SHOWN}", "3", "1", "2"],
    ]
    assert Page(DISPLAYS["token bucket"]._repr_html_()).rows == [["rate", "per", "burst"], ["5", "60", "10"]]
    assert Page(DISPLAYS["decisions"]._repr_html_()).rows == [
        ["status", "decisions"],
        ["ok", "2"],
        ["over", "1"],
    ]
    assert Page(DISPLAYS["hammering clients"]._repr_html_()).rows == [
        ["count", "rate", "honours_retry_after", "jitter", "gives_up_after", "label"],
        ["1200", "20", "no", "0.0", "never", "hammering"],
    ]
    assert Page(DISPLAYS["limiter"]._repr_html_()).rows[1:] == [
        ["sliding_window", "2 per 1 minute", "SlidingWindow(2, per=60)"],
        ["sliding_window", "5 per 1 hour", "SlidingWindow(5, per=3600)"],
    ]


def test_numbers_are_to_the_right():
    page = DISPLAYS["replay"]._repr_html_()
    assert re.search(r"text-align:left[^>]*\">ip:", page)
    assert re.search(r"text-align:right[^>]*\">3<", page)


@pytest.mark.parametrize("name", ["clients", "hammering clients"])
def test_the_text_of_clients_makes_equal_ones(name):
    assert eval(repr(DISPLAYS[name])) == DISPLAYS[name]
    assert repr(DISPLAYS[name]).isprintable()
