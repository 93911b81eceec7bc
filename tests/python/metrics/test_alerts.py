"""The alerts of the guide, by promtool, and by a Prometheus that scrapes workers through an outage."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from servers.http_clients import Clients
from servers.patience import PATIENCE, eventually
from servers.ports import free_port
from servers.redis_server import installed
from servers.web_server import AsgiServer

pytestmark = pytest.mark.prove

GUIDE = (Path(__file__).parents[3] / "docs/guides/metrics.md").read_text(encoding="utf-8")
RULES = re.search(r"```yaml\n(groups:\n.*?)```", GUIDE, re.DOTALL)[1]
STORE = 'store="redis://h:6379/0"'
DECIDED = 'overlimit_decisions_total{policy="p",limit="l"'

SYMPTOMS = {
    "OverlimitStoreFails": {
        f'overlimit_store_errors_total{{{STORE},kind="timeout"}}': ("0x30 0+60x30 1800x90", "store kind"),
    },
    "OverlimitBreakerOpen": {
        f'overlimit_breaker_state{{{STORE},state="open"}}': ("0x30 1x30 0x90", "store"),
    },
    "OverlimitDecidesWithoutStore": {
        'overlimit_decisions_total{policy="p",limit="",outcome="denied",source="error"}': (
            "0x30 0+60x30 1800x90",
            "policy source",
        ),
    },
    "OverlimitStoreSlow": {
        f'overlimit_store_latency_seconds_bucket{{{STORE},le="0.05"}}': (
            "0+60x30 1800x30 1800+60x90",
            "store",
        ),
        f'overlimit_store_latency_seconds_bucket{{{STORE},le="0.1"}}': ("0+60x150", ""),
        f'overlimit_store_latency_seconds_bucket{{{STORE},le="+Inf"}}': ("0+60x150", ""),
    },
    "OverlimitRefusesMany": {
        f'{DECIDED},outcome="allowed",source="store"}}': ("0+60x150", "policy"),
        f'{DECIDED},outcome="over",source="store"}}': ("0x30 0+60x30 1800x90", ""),
    },
    "OverlimitCostNeverPasses": {
        f'{DECIDED},outcome="never",source="store"}}': ("0x30 1x120", "policy limit"),
    },
    "OverlimitCrowded": {'overlimit_crowded_decisions_total{policy="p"}': ("0x30 3x120", "policy")},
    "OverlimitLeasesLapse": {
        'overlimit_granted_units_total{policy="p"}': ("0+600x150", "policy"),
        'overlimit_lapsed_units_total{policy="p"}': ("0x30 0+60x30 1800x90", ""),
    },
    "OverlimitCountsLost": {
        f"overlimit_restored_keys_total{{{STORE}}}": ("0x30 1x120", "store"),
    },
    "OverlimitStoreNearlyFull": {
        'overlimit_store_keys{store="memory://"}': ("10x30 90x30 10x90", "store"),
        'overlimit_store_max_keys{store="memory://"}': ("100x150", ""),
    },
    "OverlimitWaitsLong": {
        'overlimit_wait_seconds_bucket{policy="p",le="10.0"}': ("0+60x30 1800x30 1800+60x90", "policy"),
        'overlimit_wait_seconds_bucket{policy="p",le="30.0"}': ("0+60x150", ""),
        'overlimit_wait_seconds_bucket{policy="p",le="+Inf"}': ("0+60x150", ""),
    },
}
"""What each alert is about: series of 30 quiet minutes, 30 of the symptom and 90 quiet ones."""

LABELS = {
    "store": "redis://h:6379/0",
    "kind": "timeout",
    "policy": "p",
    "source": "error",
    "limit": "l",
}


def rehearsal(alert: str) -> dict[str, Any]:
    series = SYMPTOMS[alert]
    named = next(labels for _, labels in series.values()).split()
    labels = {name: LABELS[name] for name in named}
    if alert == "OverlimitStoreNearlyFull":
        labels["store"] = "memory://"

    first = 35 if alert in ("OverlimitCrowded", "OverlimitCountsLost") else 52

    def at(minute: int, *, fires: bool) -> dict[str, Any]:
        expected = [{"exp_labels": labels}] if fires else []
        return {"eval_time": f"{minute}m", "alertname": alert, "exp_alerts": expected}

    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, (values, _) in series.items()],
        "alert_rule_test": [at(29, fires=False), at(first, fires=True), at(149, fires=False)],
    }


def test_each_alert_fires_on_its_symptom_and_clears_after_it(tmp_path):
    assert re.findall(r"- alert: (\w+)", RULES) == list(SYMPTOMS)
    promtool = installed("promtool", package="prometheus")
    (tmp_path / "rules.yml").write_text(RULES)
    tests = {"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": [*map(rehearsal, SYMPTOMS)]}
    (tmp_path / "tests.yml").write_text(json.dumps(tests))
    done = subprocess.run(
        [promtool, "test", "rules", "tests.yml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


APP = """
import os
from fastapi import FastAPI
from prometheus_client import CollectorRegistry, make_asgi_app
import overlimit.metrics
from overlimit.fastapi import RateLimit

registry = CollectorRegistry()
overlimit.metrics.prometheus(registry)
app = FastAPI()
limiter = RateLimit(app, store=os.environ["STORE"], on_error="deny")
app.get("/health")(lambda: os.getpid())
app.mount("/metrics", make_asgi_app(registry))

@app.get("/")
@limiter.limit("100000/hour")
def index():
    return "hello"
"""


class Prometheus:
    """A Prometheus that scrapes one address every second, by rules whose times are a sixtieth."""

    def __init__(self, directory: Path, target: int) -> None:
        self.port = free_port()
        faster = re.sub(r"(?<=[\[ ])(\d+)m\b", lambda minutes: f"{2 * int(minutes[1])}s", RULES)
        (directory / "rules.yml").write_text(faster.replace("[1h]", "[30s]"))
        scrape = {"job_name": "app", "metrics_path": "/metrics/"}
        scrape["static_configs"] = [{"targets": [f"127.0.0.1:{target}"]}]
        settings = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        configuration = {"global": settings, "rule_files": ["rules.yml"], "scrape_configs": [scrape]}
        (directory / "prometheus.yml").write_text(json.dumps(configuration))
        listens = f"--web.listen-address=127.0.0.1:{self.port}"
        with (directory / "prometheus.log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    installed("prometheus"),
                    "--config.file=prometheus.yml",
                    "--storage.tsdb.path=data",
                    listens,
                ],
                cwd=directory,
                stdout=log,
                stderr=log,
            )

    def firing(self) -> set[str]:
        """Return the names of the alerts that fire now."""
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.port}/api/v1/alerts", timeout=PATIENCE
            ) as told:
                alerts = json.load(told)["data"]["alerts"]
        except OSError:
            return {"nothing yet"}
        return {each["labels"]["alertname"] for each in alerts if each["state"] == "firing"}

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE)


@pytest.fixture
def watched(tmp_path, start_redis, prefix) -> Iterator[tuple[Any, AsgiServer, Prometheus]]:
    redis = start_redis()
    (tmp_path / "served.py").write_text(APP)
    environment = {
        "STORE": f"{redis.tcp_url()}?prefix={prefix}",
        "PROMETHEUS_MULTIPROC_DIR": str(tmp_path / "counters"),
    }
    server = AsgiServer("uvicorn", "served:app", tmp_path, environment=environment)
    prometheus = Prometheus(tmp_path, server.port)
    yield redis, server, prometheus
    prometheus.stop()
    server.stop()


@pytest.mark.timeout(600)
def test_a_real_prometheus_sees_an_outage_and_its_end(watched, start_redis):
    redis, server, prometheus = watched
    clients = Clients(server.port)

    def calls(status: int) -> bool:
        return set(clients.statuses("/", 20)) == {status}

    eventually(lambda: calls(200), within=60)
    eventually(lambda: prometheus.firing() == set(), within=60)
    redis.stop()
    wanted = {"OverlimitStoreFails", "OverlimitBreakerOpen", "OverlimitDecidesWithoutStore"}
    seen: set[str] = set()
    eventually(
        lambda: seen.update(prometheus.firing()) or (clients.statuses("/", 20) and seen >= wanted), within=90
    )
    assert "OverlimitRefusesMany" not in seen, "an outage is no attack"
    start_redis(port=redis.port)
    eventually(lambda: clients.statuses("/", 1) == {200: 1}, within=60)
    clients.close()
    # From now on nobody calls, and a worker may never hear that the server is back.
    eventually(lambda: prometheus.firing() == set(), within=150)
