"""The cookies of a request, as Starlette reads them, whatever a client sends."""

import random

import pytest
from starlette.requests import cookie_parser

from overlimit.http.cookies import cookies_in


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("s=a; flag", "a"),
        ("flag; s=a", "a"),
        ("s=a; a,b=1", "a"),
        ('prefs={"a": 1}; s=a', "a"),
        ("x[y]=1;s=a", "a"),
        ("path=/; s=a", "a"),
        ("s=a b", "a b"),
        ("s=b; s=a", "a"),
        ("s==", "="),
        (r's="a\054\"b"', 'a,"b'),
        ('s="', '"'),
        ("S=a", None),
        ("", None),
    ],
)
def test_nothing_hides_a_cookie(field, value):
    assert cookies_in(field).get("s") == value


def test_all_texts_are_read_as_starlette_reads_them():
    numbers = random.Random(1)
    texts = ["".join(numbers.choices('ab=;" \\01237,\0é', k=numbers.randrange(15))) for _ in range(5000)]
    assert [cookies_in(text) for text in texts] == [cookie_parser(text) for text in texts]
