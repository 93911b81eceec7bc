"""Which media type a request with an ``Accept`` field gets, against Werkzeug's reading of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.datastructures import MIMEAccept
from werkzeug.http import parse_accept_header

from overlimit.http.answering.refusals import MEDIA_TYPES, accepted_media_type

NAMES = (
    *MEDIA_TYPES,
    "*/*",
    "application/*",
    "text/*",
    "*/html",
    "text/plain",
    "Text/HTML",
    "application",
    "*",
    "",
)
RANGES = st.builds(
    lambda name, weight: f"{name}{weight}",
    st.sampled_from(NAMES),
    st.sampled_from(("", "", ";q=0", ";q=0.1", "; q=0.5", ";q=1", ";q=1.0", ";q=2", ";q=x", ";level=1")),
)


@given(st.lists(RANGES, max_size=6).map(", ".join))
def test_it_is_the_one_that_werkzeug_finds(accept):
    theirs = parse_accept_header(accept, MIMEAccept).best_match(MEDIA_TYPES, MEDIA_TYPES[0])
    assert accepted_media_type(accept) == theirs


@pytest.mark.parametrize(
    "accept", [None, "", ",", ";;", "\u20ac", "a/b;q=", "*/*;q=1e400", "text/html;" * 500]
)
def test_whatever_is_sent_there_is_an_answer(accept):
    assert accepted_media_type(accept) in MEDIA_TYPES
