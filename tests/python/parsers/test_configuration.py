"""Whatever a configuration holds, its options are right or an error names the key."""

from __future__ import annotations

import warnings

import pytest
from flask import Flask
from hypothesis import example, given
from hypothesis import strategies as st

from overlimit.flask import RateLimit
from overlimit.http.options.configuration import KEYS, read
from overlimit.limits import as_limits

from .amounts import MANY

pytestmark = pytest.mark.longer_in_prove

SECRET = "hunter2"
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.binary(max_size=4),
    st.lists(st.integers() | st.text(max_size=4), max_size=3),
    st.dictionaries(st.text(max_size=4), st.integers(), max_size=2),
    st.sampled_from(
        [f"redis://:{SECRET}@h", f"redis://:{SECRET}/@h", "memory://", "5/minute", len, object(), "on"]
    ),
)
CONFIGURATIONS = st.dictionaries(
    st.sampled_from(KEYS) | st.text(max_size=4).map(lambda end: f"RATELIMIT_{end}"), VALUES, max_size=4
)


@MANY
@given(CONFIGURATIONS)
@example({"RATELIMIT_STORAGE_URI": f"redis://:{SECRET}/@h"})
@example({"RATELIMIT_STORAGE_URI": f"redis://:{SECRET}@h:x"})
@example({"RATELIMIT_STORAGE_OPTIONS": {"db": [1]}, "RATELIMIT_STORAGE_URI": "redis://h"})
def test_any_configuration(config):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            options = read(config)
        except (TypeError, ValueError) as error:
            message = str(error)
            assert any(key in message for key in config)
            elsewhere = [str(value) for key, value in config.items() if "STORAGE" not in key]
            assert SECRET not in message or SECRET in "".join(elsewhere)  # where no URL belongs
            return
    assert options.keys().isdisjoint(config)


LIMITS = st.one_of(
    VALUES.filter(lambda value: not callable(value)),
    st.integers(0, 3).map(lambda limit: f"{limit}/minute"),
    st.integers(1, 3).map(lambda limit: [[60, limit]]),
)


@MANY
@given(LIMITS)
@example([[60, 2], [3600, 100, 60]])
@example("0/minute")
@example([60, 1])
def test_a_default_limit_limits_or_is_refused_or_is_none_at_all(limits):
    app = Flask("configured")
    app.config["RATELIMIT_DEFAULT"] = limits
    app.get("/")(lambda: "ok")
    try:
        RateLimit(app)
    except (TypeError, ValueError) as error:
        message = str(error)
        assert message
        return
    answers = [app.test_client().get("/").status_code for _ in range(4)]
    is_nothing = limits is None or limits in ("", b"", [], {}, ())
    assert (429 in answers) == (not is_nothing and _are_small(limits))


def _are_small(limits):
    """Whether one of these limits admits less than four."""
    return any(limit.quota < 4 for limit in as_limits(limits))
