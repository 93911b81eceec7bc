"""What figures are drawn of, and how they look by default."""

from __future__ import annotations

import matplotlib as mpl
import pytest
from matplotlib import pyplot

from overlimit.simulation import traffic


@pytest.fixture(scope="module")
def mixed():
    return traffic.mix(
        traffic.poisson(2, 1800, 40, label="people", seed=1),
        traffic.bursty(0.5, 1800, 5, burst=30, label="mobile", seed=2),
        traffic.scanner(3, 600, label="scanner", seed=3),
    )


@pytest.fixture(autouse=True)
def style():
    with mpl.rc_context({"figure.autolayout": False}):
        mpl.rcdefaults()
        pyplot.switch_backend("agg")
        yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def busy():
    """One address with bursts, and single requests between them."""
    return traffic.mix(
        traffic.bursty(0.25, 1800, ["ip:203.0.113.7"], burst=12, label="page", seed=5),
        traffic.poisson(0.1, 1800, ["ip:203.0.113.7"], label="page", seed=6),
        traffic.poisson(1, 1800, label="others", seed=7),
    )
