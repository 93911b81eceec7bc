"""The dashboard for Grafana asks for metrics that exist, by labels that they have."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from overlimit.metrics.definitions import METRICS

ROOT = Path(__file__).parents[3]
DASHBOARD = json.loads((ROOT / "examples/grafana/overlimit.json").read_text(encoding="utf-8"))
GUIDE = (ROOT / "docs/guides/metrics.md").read_text(encoding="utf-8")
SUFFIXES = {"counter": ["_total"], "gauge": [""], "histogram": ["_bucket", "_sum", "_count"]}
LABELS = {
    metric.name + suffix: {*metric.labels, "le"} for metric in METRICS for suffix in SUFFIXES[metric.kind]
}
NAME = re.compile(r"\boverlimit_\w+")
BY = re.compile(r"\bby \(([^)]*)\)")
MATCHER = re.compile(r'(\w+)(?:=~|!~|!=|=)"')


def queries(node):
    if isinstance(node, dict):
        found = [node[key] for key in ("expr", "definition") if key in node]
        return found + [query for value in node.values() for query in queries(value)]
    return [query for each in node for query in queries(each)] if isinstance(node, list) else []


def named_labels(query):
    words = [word.strip() for group in BY.findall(query) for word in group.split(",")]
    return {*words, *MATCHER.findall(query)}


def expressions():
    alerts = re.findall(r"^\s+expr: (.*)$", GUIDE, re.M)
    assert len(alerts) >= 5
    return [*queries(DASHBOARD), *alerts]


@pytest.mark.parametrize("query", expressions())
def test_every_metric_and_label_of_a_query_exists(query):
    names = NAME.findall(query)
    assert names
    assert set(names) <= set(LABELS)
    assert named_labels(query) <= set.union(*(LABELS[name] for name in names))


def test_the_dashboard_shows_every_metric():
    shown = {name for query in queries(DASHBOARD) for name in NAME.findall(query)}
    assert [
        metric.name for metric in METRICS if not any(name.startswith(metric.name) for name in shown)
    ] == []


def test_the_dashboard_has_what_grafana_wants():
    assert {"uid", "title", "schemaVersion", "version", "panels", "templating", "time"} <= set(DASHBOARD)
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    assert variables == {"datasource", "policy"}
    for panel in DASHBOARD["panels"]:
        assert {
            "id",
            "type",
            "title",
            "description",
            "datasource",
            "gridPos",
            "fieldConfig",
            "targets",
        } <= set(panel)
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
        assert [target["refId"] for target in panel["targets"]] == ["A", "B", "C"][: len(panel["targets"])]
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"]) >= 10
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD))) - {"__rate_interval", "__all"}
    assert used == variables


def test_the_table_of_the_guide_has_every_metric_with_its_type_and_labels():
    rows = re.findall(r"^\| `(overlimit_\w+)` \| (\w+) \| ([^|]*) \|", GUIDE, re.M)
    table = {name: (kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
    totals = {"counter": "_total"}
    assert table == {m.name + totals.get(m.kind, ""): (m.kind, m.labels) for m in METRICS}
