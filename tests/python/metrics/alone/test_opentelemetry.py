"""The same counters as instruments of OpenTelemetry, read by its SDK."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import overlimit.metrics
from overlimit import Limiter, RedisStore
from overlimit.metrics.definitions import METRICS


@pytest.fixture
def reader():
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    overlimit.metrics.opentelemetry(provider.get_meter("overlimit"), max_policies=1000)
    yield reader
    provider.shutdown()


def collected(reader):
    data = reader.get_metrics_data()
    return {
        metric.name: metric
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


def values(metric, **attributes):
    return [
        point.value
        for point in metric.data.data_points
        if attributes.items() <= dict(point.attributes).items()
    ]


def test_decisions_and_latencies_are_observed(reader, policy, redis_store):
    limiter = Limiter("2/minute", name=policy, store=redis_store)
    for _ in range(3):
        limiter.hit("a")
    metrics = collected(reader)
    decisions = metrics["overlimit.decisions"]
    attributes = {"policy": policy, "limit": "2-per-60s", "source": "store"}
    assert values(decisions, outcome="allowed", **attributes) == [2]
    assert values(decisions, outcome="over", **attributes) == [1]
    assert decisions.data.is_monotonic
    store = redis_store.endpoint
    assert values(metrics["overlimit.store.latency.bucket"], store=store, le="+Inf")[0] >= 3
    assert values(metrics["overlimit.store.latency.sum"], store=store)[0] > 0
    assert metrics["overlimit.store.latency.sum"].unit == "s"
    assert values(metrics["overlimit.store.breaker_state"], store=store, state="closed") == [1]


def test_every_metric_has_an_instrument(reader, policy, shared_memory_store):
    down = Limiter("2/minute", name=policy, store=RedisStore("unix:///nowhere/redis.sock"), on_error="local")
    down.hit("a")
    Limiter("2/minute", name=policy, store=shared_memory_store).hit("a")
    leasing = RedisStore("unix:///nowhere/redis.sock", lease=1)
    idle = Limiter("9/minute", name=policy, store=leasing)
    limiter = Limiter("1/10ms", name=policy)
    for _ in range(3):
        limiter.acquire("a")
    names = set(collected(reader))
    assert {
        "overlimit.waiting_calls",
        "overlimit.wait.bucket",
        "overlimit.wait.sum",
        "overlimit.store.keys",
    } <= names
    assert {"overlimit.store.errors", "overlimit.store.bytes", "overlimit.store.restored_keys"} <= names
    assert {"overlimit.leased_units", "overlimit.returned_units", "overlimit.lapsed_units"} <= names
    assert idle.stats()["held"] == 0
    assert len(METRICS) == 20
