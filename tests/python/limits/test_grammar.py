"""Strings and tuples that describe limits, and what is said about those that do not."""

from __future__ import annotations

from datetime import timedelta

import pytest

from overlimit import Limiter
from overlimit.errors import InvalidLimit
from overlimit.limits import (
    ALGORITHMS,
    FixedWindow,
    LeakyBucket,
    SlidingLog,
    SlidingWindow,
    SlidingWindowCounter,
    TokenBucket,
    as_limits,
    parse,
)


def message(text: object, algorithm: str | None = None) -> str:
    with pytest.raises(InvalidLimit) as caught:
        parse(text, algorithm)
    return str(caught.value)


def place(text: str, algorithm: str | None = None) -> str:
    """Return the rest of the text from where the caret of its refusal points."""
    _, shown, caret = message(text, algorithm).rsplit("\n", 2)
    assert shown == f"    {text}"
    assert caret.strip() == "^"
    return text[caret.index("^") - 4 :]


class TestPhrases:
    @pytest.mark.parametrize(
        "text",
        [
            "10/second",
            "10 / second",
            "10 per second",
            "10/1 second",
            "10 per 1s",
            " 10\t/\nsec ",
            "010/01S",
            "10PER SECONDS",
        ],
    )
    def test_may_be_written_in_many_ways(self, text):
        assert parse(text) == [SlidingWindow(10, 1)]

    @pytest.mark.parametrize(
        ("words", "seconds"),
        [
            (["ms", "MS", "Ms"], 0.001),
            (["s", "sec", "secs", "second", "seconds", "S", "Seconds"], 1),
            (["m", "min", "mins", "minute", "minutes", "M", "MINUTE"], 60),
            (["h", "hour", "hours"], 3_600),
            (["d", "day", "days"], 86_400),
            (["w", "week", "weeks"], 7 * 86_400),
            (["month", "months", "Month"], 30 * 86_400),
            (["year", "years"], 365 * 86_400),
        ],
    )
    def test_know_these_units(self, words, seconds):
        for word in words:
            assert parse(f"7/{word}") == parse(f"7 per {word}") == [SlidingWindow(7, seconds)]
            assert parse(f"7/3{word}") == parse(f"7 / 3 {word}") == [SlidingWindow(7, 3 * seconds)]

    @pytest.mark.parametrize("separator", [";", ",", "|", " ; ", ", ", "\n|\n"])
    def test_are_several_when_separated(self, separator):
        text = separator.join(["10/second", "120/minute", "240/hour"])
        assert parse(text) == [SlidingWindow(10, 1), SlidingWindow(120, 60), SlidingWindow(240, 3600)]

    def test_with_a_burst_are_token_buckets(self):
        assert parse("100/minute burst 20") == [TokenBucket(100, 60, burst=20)]
        assert parse("100/minute BURST 0") == [TokenBucket(100, 60, burst=0)]
        assert parse("5/s; 100 per 2 min burst 20|9/h") == [
            SlidingWindow(5, 1),
            TokenBucket(100, 120, burst=20),
            SlidingWindow(9, 3600),
        ]

    def test_of_zero_refuse_everything(self, clock):
        assert parse("0/minute") == [SlidingWindow(0, 60)]
        for algorithm in (None, *ALGORITHMS):
            assert not Limiter("0/minute", algorithm=algorithm, clock=clock).hit("a")


class TestAlgorithms:
    @pytest.mark.parametrize(
        ("algorithm", "limit"),
        [
            (None, SlidingWindow(10, 60)),
            ("sliding_window", SlidingWindow(10, 60)),
            ("fixed_window", FixedWindow(10, 60, start="first")),
            ("sliding_log", SlidingLog(10, 60)),
            ("sliding_window_counter", SlidingWindowCounter(10, 60)),
            ("token_bucket", TokenBucket(10, 60, burst=10)),
            ("leaky_bucket", LeakyBucket(10, 60, capacity=0)),
        ],
    )
    def test_are_chosen_by_name(self, algorithm, limit):
        assert parse("10/minute", algorithm) == [limit]
        assert as_limits("10/minute", algorithm) == as_limits((60, 10), algorithm) == (limit,)

    @pytest.mark.parametrize(
        ("algorithm", "limits"),
        [
            (
                "token_bucket",
                [TokenBucket(10, burst=3), TokenBucket(5, burst=5), TokenBucket(0, 60, burst=0)],
            ),
            (
                "leaky_bucket",
                [
                    LeakyBucket(10, 1, capacity=3),
                    LeakyBucket(5, 1, capacity=0),
                    LeakyBucket(0, 60, capacity=0),
                ],
            ),
        ],
    )
    def test_that_are_buckets_take_a_burst(self, algorithm, limits):
        assert parse("10/s burst 3; 5/s; 0/m burst 0", algorithm) == limits
        assert place("5/s, 0/s burst 3", algorithm) == "0/s burst 3"

    def test_that_are_queues_take_a_burst_beside_what_waits(self):
        text = "10/s burst 3 queue 4; 5/s queue 2"
        queues = [LeakyBucket(10, 1, capacity=4, burst=3), LeakyBucket(5, 1, capacity=2)]
        assert parse(text) == parse(text, "leaky_bucket") == queues
        assert place("10/s queue 4 burst 3", None) == "burst 3"
        assert place("10/s burst 3 queue 4", "token_bucket") == "queue 4"

    def test_refuse_numbers_of_their_own(self):
        assert place("5/s; 10001/s", "sliding_log") == "10001/s"
        assert "10000" in message("10001/s", "sliding_log")

    @pytest.mark.parametrize(
        "algorithm", ["fixed_window", "sliding_window", "sliding_log", "sliding_window_counter"]
    )
    def test_that_know_no_burst_refuse_it(self, algorithm):
        assert place("9/s; 10/s burst 3", algorithm) == "burst 3"
        assert "burst" in message("10/s burst 3", algorithm)
        assert algorithm in message("10/s burst 3", algorithm)

    @pytest.mark.parametrize("unknown", ["", "leaky", "SlidingWindow", "cell_rate", 5, True, SlidingWindow])
    def test_that_are_unknown_are_refused_with_the_known_ones_even_if_no_text_needs_one(self, unknown):
        for call, value in ((parse, "10/s"), (as_limits, "10/s"), (as_limits, FixedWindow(1, 1))):
            with pytest.raises(InvalidLimit) as caught:
                call(value, unknown)
            for known in ("algorithm", *map(repr, ALGORITHMS)):
                assert known in str(caught.value)

    @pytest.mark.parametrize(
        ("algorithm", "meant"),
        [
            ("moving-window", "sliding_log"),
            ("fixed-window", "fixed_window"),
            ("Sliding Window", "sliding_window"),
            ("sliding", "sliding_window"),
            ("LeakyBucket", "leaky_bucket"),
            (FixedWindow, "fixed_window"),
        ],
    )
    def test_by_another_name_are_refused_with_their_own(self, algorithm, meant):
        assert message("5/s", algorithm).endswith(f"write {meant!r}")


class TestRefusals:
    @pytest.mark.parametrize(
        ("text", "at", "said"),
        [
            ("10", "", ""),
            ("10/", "", ""),
            ("10/fortnight", "fortnight", "write '2 weeks'"),
            ("10/hr", "hr", "'hr' is not a unit: write 'hour'"),
            ("10/hrs", "hrs", "'hrs' is not a unit: write 'hours'"),
            ("10/yr", "yr", "write 'year'"),
            ("10/mths", "mths", "write 'months'"),
            ("10/minuet", "minuet", "write 'minute'"),
            ("10/parsec", "parsec", "expected a unit (ms, second, minute, "),
            ("10/season", "season", "expected a unit (ms, second, minute, "),
            ("10/secondly", "secondly", "write 'second'"),
            ("10/milliseconds", "milliseconds", "write 'ms'"),
            ("10/mss", "mss", ""),
            ("10/ss", "ss", ""),
            ("5/60", "", "(ms, second, minute, hour, day, week, month, year)"),
            ("ten/second", "ten/second", ""),
            ("10 a second", "a second", ""),
            ("10 requests per minute", "requests per minute", "'10/second' or '10 per 5 minutes'"),
            ("10//s", "/s", ""),
            ("10/s/s", "/s", ""),
            ("10/s 5/m", "5/m", "';' and another limit"),
            ("100/minute and 5/second", "and 5/second", "expected ';' between two limits"),
            ("10/s;", "", ""),
            (";10/s", ";10/s", ""),
            ("10/s;;5/m", ";5/m", ""),
            ("-10/s", "-10/s", "whole number, 0 or more"),
            ("+10/s", "+10/s", ""),
            ("1.5/second", ".5/second", "write '3 per 2 seconds', or"),
            ("5/s; 2.5 per 5 MIN", ".5 per 5 MIN", "write '5 per 10 minutes', or"),
            ("0.1/year", ".1/year", "write '1 per 3650 days', or"),
            ("1.000001/year", ".000001/year", "write '3 per 2 seconds' for 1.5 a second"),
            ("1.5.1/second", ".5.1/second", "write '3 per 2 seconds' for 1.5 a second"),
            ("1.5/0 seconds", ".5/0 seconds", "write '3 per 2 seconds' for 1.5 a second"),
            ("1.5/fortnight", ".5/fortnight", "write '3 per 2 seconds' for 1.5 a second"),
            ("1,000/hour", ",000/hour", "without separators, such as 1000"),
            ("1e3/s", "e3/s", ""),
            ("1_000/s", "_000/s", ""),
            ("0x10/s", "x10/s", ""),
            ("10/-5 s", "-5 s", ""),
            ("10/1.5 s", ".5 s", ""),
            ("10/0 s", "0 s", ""),
            ("10/s burst", "", "as in '100/minute burst 20'"),
            ("10/s burst -1", "-1", ""),
            ("10/s; burst 60", "burst 60", "leave out the ';', as in '20/minute burst 60'"),
            ("10/s burst 5 5", "5", ""),
            ("10/s burst 1 burst 2", "burst 2", ""),
            ("10/s bursts 5", "bursts 5", ""),
            ("10 per", "", ""),
            ("10 per per s", "per s", ""),
            ("unlimited", "unlimited", "'unlimited' is not a limit"),
            ("none", "none", ""),
            ("٣/s", "٣/s", ""),
            ("\uff110/s", "\uff110/s", ""),
            ("10\uff0fs", "\uff0fs", ""),
            ("10/s # fine", "# fine", ""),
            ("99999999999999999/s", "99999999999999999/s", ""),
            ("5/s, 9007199254740992/s", "9007199254740992/s", ""),
            ("5/s, 10/1000 years", "10/1000 years", ""),
            ("5/s, 0/s burst 3", "0/s burst 3", ""),
        ],
    )
    def test_show_the_text_and_the_place_and_say_what_to_write(self, text, at, said):
        assert place(text) == at
        assert said in message(text)

    @pytest.mark.parametrize("text", ["", "  "])
    def test_of_an_empty_text_have_no_place_to_point_at(self, text):
        assert "write at least one, as in '10/second; 120/minute'" in message(text)
        assert "\n" not in message(text)

    @pytest.mark.parametrize("text", [None, 10, b"10/s", ["10/s"]])
    def test_of_what_is_no_string_say_so(self, text):
        assert "a string" in message(text)

    @pytest.mark.parametrize("text", ["x" * 100_000, "9" * 100_000 + "/s", "1/s;" * 50 + "\x00\x1b[31m"])
    def test_of_long_or_unprintable_texts_stay_readable(self, text):
        shown = message(text)
        assert len(shown) < 400
        assert shown.replace("\n", "").isprintable()

    def test_of_a_place_far_in_show_what_is_around_it(self):
        assert "7/fortnight" in message("1/s;" * 1000 + "7/fortnight" + ";1/s" * 1000)


class TestAsLimits:
    @pytest.mark.parametrize(
        "value",
        [
            "120/minute",
            SlidingWindow(120, 60),
            (60, 120),
            (60, 120, 1.2),
            (timedelta(minutes=1), 120, None),
            ["120/minute"],
            [SlidingWindow(120, 60)],
            [(60, 120)],
            [60, 120],
            [60, 120, 1.2],
            [[60, 120]],
            [[60, 120, None]],
            ([60, 120],),
        ],
    )
    def test_one_limit_may_be_given_in_many_ways(self, value):
        assert as_limits(value) == (SlidingWindow(120, 60),)

    def test_a_list_may_mix_them_and_keeps_the_order(self):
        bucket = TokenBucket(3)
        assert as_limits(["1/s; 2/s", bucket, (3600, 240, 60), (1, 4)]) == (
            SlidingWindow(1, 1),
            SlidingWindow(2, 1),
            bucket,
            SlidingWindow(240, 3600, precision=60),
            SlidingWindow(4, 1),
        )

    def test_its_own_answer_is_an_answer(self):
        limits = as_limits("1/s; 2/s burst 9")
        assert as_limits(limits) == as_limits(list(limits)) == limits

    def test_a_limit_stays_what_it_is_whatever_the_algorithm(self):
        limit = SlidingWindow(5, 1)
        assert as_limits([limit, "5/s"], "fixed_window") == (limit, FixedWindow(5, 1))

    @pytest.mark.parametrize("algorithm", ALGORITHMS)
    def test_tuples_follow_the_algorithm(self, algorithm):
        assert as_limits([(60, 120), (1, 10, None)], algorithm) == as_limits("120/min; 10/s", algorithm)
        assert {limit.algorithm for limit in as_limits((60, 120), algorithm)} == {algorithm}

    def test_a_precision_needs_a_sliding_window(self):
        assert as_limits((60, 120, 1), "sliding_window") == (SlidingWindow(120, 60, precision=1),)
        for algorithm in ALGORITHMS.keys() - {"sliding_window"}:
            with pytest.raises(InvalidLimit, match="precision"):
                as_limits((60, 120, 1), algorithm)

    @pytest.mark.parametrize(
        ("wrong", "said"),
        [
            *((nothing, "write at least one, as in") for nothing in ([], (), "")),
            *(
                (wrong, "limits")
                for wrong in (None, 5, 1.5, b"10/s", bytearray(b"10/s"), {60: 120}, {"10/s"})
            ),
            *((wrong, "limits") for wrong in ((60,), (60, 120, 1, 1), [[(60, 120)]], [None], object(), len)),
            (FixedWindow, r"pass FixedWindow\(\.\.\.\), not the class FixedWindow"),
            ([(0, 120)], "per"),
            ([(60, -1)], "limit"),
            ([(60, 1.5)], "limit"),
            ([(60, 120, 7)], "precision"),
            ([(None, 1)], "per"),
            *(
                (wrong, r"not the text '(\d+)': write \1$")
                for wrong in (("60", 10), [("60", 10)], (60, "10"))
            ),
        ],
        ids=range(25),
    )
    def test_anything_else_is_refused(self, wrong, said):
        with pytest.raises(InvalidLimit, match=said):
            as_limits(wrong)

    def test_sixteen_are_fine_and_seventeen_are_not(self):
        phrases = [f"{n}/s" for n in range(17)]
        assert len(as_limits("; ".join(phrases[:16]))) == 16
        for value in ("; ".join(phrases), phrases, [*phrases[:8], "; ".join(phrases[8:])]):
            with pytest.raises(InvalidLimit, match="17"):
                as_limits(value)
