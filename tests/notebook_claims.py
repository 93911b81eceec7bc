"""What cells of the notebooks of examples/ have found, by their ids: each is held once its cell has run."""

CLAIMS = {
    "first-look-3": """
assert decision.allowed
assert [detail.remaining for detail in decision.details] == [9, 119, 239]
""",
    "first-look-5": """
assert row == "x" * 10 + "." * 10
""",
    "first-look-7": """
assert refused.identifier == "user:ada"
assert eve == "x" * 10 + ".."
""",
    "first-look-9": """
assert not too_early
assert in_time
""",
    "first-look-12": """
assert hit.loc["scanner-0", "sent"] == 10_800
assert hit.loc["scanner-0", "refused"] == answers.refused == 7260
""",
    "redis-live-3": """
assert decision.remaining == 4
""",
    "redis-live-4": """
assert not refused
""",
    "redis-live-6": """
assert sum(one_by_one) == decisions.allowed.sum() == 999  # user:42 had used up its five
""",
    "retry-storms-5": """
assert passed == [11_996, 11_979]
assert [answers.refused for answers in (waiting, storm)] == [2617, 12_034]
""",
    "retry-storms-7": """
assert busiest_second == {0.0: 84, 1.0: 43}
""",
    "retry-storms-9": """
assert list(by_kind["sent"]) == [14_535, 14_602, 23_805]
assert list(by_kind["share that passed"].round(2)) == [0.82, 0.82, 0.5]
""",
    "which-algorithm-5": """
assert table["peak_60s"].to_dict() == {
    "fixed window": 200,
    "sliding window counter": 101,
    "sliding window": 100,
    "sliding log": 100,
    "token bucket": 103,
}
""",
    "which-algorithm-9": """
assert [error.worst_overshoot for error in errors.values()] == [100, 65]
""",
    "tune-from-a-log-busiest": """
assert list(answers.by_identifier(top=2)["sent"]) == [720, 1200]
""",
    "tune-from-a-log-label": """
sent = replay(events, "10/minute").by_label()["sent"].to_dict()
assert sent == {"scanner": 720, "people": 8400, "crawlers": 1680, "warehouse": 1200}
""",
    "tune-from-a-log-compare": """
refused = (comparison.to_pandas()["refused_events"] * len(events)).round()
assert refused.to_dict() == {"strict": 608, "today": 276, "a bucket": 461, "with locks": 660}
assert comparison.effects["strict"].refused_by_label["warehouse"] > 0
""",
    "tune-from-a-log-best": """
assert best.index.tolist() == [(2, 2), (2, 5), (2, 10)]
assert best.loc[(2, 10), [f"refused_events[{label}]" for label in others]].tolist() == [0, 0, 0]
assert best.loc[(2, 10), "refused_events[scanner]"] > 0.9
""",
    "tune-from-a-log-suggest": """
assert suggestion.value == 6
assert suggestion.message.endswith("% of what scanner sends")
assert suggestion.stopped["scanner"] > 0.9
assert (suggestion.low, suggestion.high) == (4, 6)
""",
    "tune-from-a-log-backtest": """
assert tried.to_pandas().query("share > 0").index.hour.tolist() == [7]
""",
    "tune-from-a-log-scale": """
refused = {by: replay(more, chosen).by_label()["refused"] for by, more in busier.items()}
assert (refused["clients"]["warehouse"], refused["requests"]["warehouse"] > 0) == (0, True)
""",
    "tune-from-a-log-loop": """
assert reacting.dropped == 1375
assert 0 < reacting.delays[busier["requests"].labels == "warehouse"].max() < 600
""",
    "tune-from-a-log-choose": """
assert answers.refused == answers.by_label().loc["scanner", "refused"] > 600
""",
    "tune-from-a-log-explore": """
assert panel.policy == chosen
""",
}
