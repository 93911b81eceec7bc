"""The metrics there are: docs/guides/metrics.md says what each means to an operator."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Metric(NamedTuple):
    """A metric as Prometheus calls it, a counter without its ``_total``."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    help: str
    unit: str = ""


DECISIONS = Metric(
    "overlimit_decisions",
    "counter",
    ("policy", "limit", "outcome", "source"),
    "Decisions by the limit that binds.",
)
SHADOW_REFUSALS = Metric(
    "overlimit_shadow_refusals",
    "counter",
    ("policy", "limit"),
    "Requests to a web app that a limit in shadow would have refused.",
)
CROWDED = Metric(
    "overlimit_crowded_decisions",
    "counter",
    ("policy",),
    "Decisions by counts that identifiers share because a memory store is full.",
)
WAITING = Metric("overlimit_waiting_calls", "gauge", ("policy",), "Calls that wait in acquire or throttle.")
WAITS = Metric(
    "overlimit_wait_seconds",
    "histogram",
    ("policy",),
    "How long calls have waited in acquire or throttle.",
    "s",
)
LEASED = Metric(
    "overlimit_leased_units",
    "gauge",
    ("policy",),
    "Units that this process has leased and not spent.",
)
GRANTED = Metric("overlimit_granted_units", "counter", ("policy",), "Units that were leased.")
RETURNED = Metric(
    "overlimit_returned_units", "counter", ("policy",), "Units of leases that were released unspent."
)
LAPSED = Metric("overlimit_lapsed_units", "counter", ("policy",), "Units of leases that were lost unspent.")
LATENCY = Metric(
    "overlimit_store_latency_seconds", "histogram", ("store",), "How long calls to the store took.", "s"
)
COMMANDS = Metric(
    "overlimit_store_commands",
    "counter",
    ("store",),
    "Commands sent to the store for decisions, with those that release leases or restore counts.",
)
RESTORED = Metric(
    "overlimit_restored_keys",
    "counter",
    ("store",),
    "Keys whose counts were brought back after the store had lost them.",
)
ERRORS = Metric("overlimit_store_errors", "counter", ("store", "kind"), "Calls to the store that failed.")
BREAKER = Metric(
    "overlimit_breaker_state",
    "gauge",
    ("store", "state"),
    "Processes whose last call to the store left its circuit breaker in this state; of the last minute, "
    "unless it is closed.",
)
KEYS = Metric("overlimit_store_keys", "gauge", ("store",), "Identifiers that are counted one by one.")
MAX_KEYS = Metric("overlimit_store_max_keys", "gauge", ("store",), "The most keys there may be.")
BYTES = Metric("overlimit_store_bytes", "gauge", ("store",), "Memory in use for keys.", "By")
MAX_BYTES = Metric("overlimit_store_max_bytes", "gauge", ("store",), "The most memory for keys.", "By")
FILE_ERRORS = Metric(
    "overlimit_limits_file_errors",
    "counter",
    ("file",),
    "Changes to a file of limits that were wrong, so that this process has kept the limits it had.",
)

BUILD = Metric("overlimit_build_info", "gauge", ("version",), "1, for the version of overlimit that runs.")

METRICS = (
    BUILD, DECISIONS, SHADOW_REFUSALS, CROWDED, WAITING, WAITS, LEASED, GRANTED, RETURNED, LAPSED,
    LATENCY, COMMANDS, RESTORED, ERRORS, BREAKER, KEYS, MAX_KEYS, BYTES, MAX_BYTES, FILE_ERRORS,
)  # fmt: skip
