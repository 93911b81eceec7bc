"""Metrics for operators: what limiters decided and how their stores answered.

The core counts anyway; `prometheus` and `opentelemetry` have a client library read that when it collects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

    from opentelemetry.metrics import Meter
    from prometheus_client.registry import Collector, CollectorRegistry

__all__ = ["opentelemetry", "prometheus"]


def prometheus(
    registry: CollectorRegistry | None = None,
    *,
    directory: str | os.PathLike[str] | None = None,
    max_policies: int = 100,
) -> Collector:
    """Show the metrics of all limiters in a registry of ``prometheus_client``.

    Parameters
    ----------
    registry
        What is exposed, by default ``prometheus_client.REGISTRY``.
    directory
        Where the processes of an app, such as the workers of a web server, keep their counters for each
        other: the response of each is then the sum of all, with those that have died. It is made if it does
        not exist. By default what the environment names as ``PROMETHEUS_MULTIPROC_DIR``; without either, the
        metrics are those of this process.
    max_policies
        This many policies have series of their own, and 32 limits of each, those that are seen first; all
        others are counted as ``(other)``. At least 1.

    Returns
    -------
    Collector
        What was registered, for ``registry.unregister``.

    Raises
    ------
    ImportError
        There is no prometheus_client: the extra ``prometheus`` brings it.
    ValueError, TypeError
        A wrong ``max_policies``, or a registry that shows these metrics already.
    OSError
        The directory cannot be used, such as one without room for 1 MiB.
    """
    from overlimit.metrics.collector import register

    return register(registry, directory, max_policies)


def opentelemetry(meter: Meter, *, max_policies: int = 100) -> None:
    """Have a meter of OpenTelemetry observe the metrics of all limiters of this process.

    Each process exports its own, and tells itself apart by the attributes of its resource.

    Parameters
    ----------
    meter
        Such as ``opentelemetry.metrics.get_meter("overlimit")``.
    max_policies
        As for `prometheus`.

    Raises
    ------
    ImportError
        There is no opentelemetry-api: the extra ``opentelemetry`` brings it.
    ValueError, TypeError
        A wrong ``max_policies``.
    """
    from overlimit.metrics.instruments import observe

    observe(meter, max_policies)
