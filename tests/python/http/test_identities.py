"""From the answer of an ``identifiers`` callable to who is charged."""

from __future__ import annotations

import pytest

from overlimit.http.identities import as_identifiers


@pytest.mark.parametrize("found", [None, "", b"", [], (), [None], ["", b""], iter(())])
def test_nobody_is_anonymous(found):
    assert as_identifiers(found) == ("anonymous",)


@pytest.mark.parametrize(
    ("found", "identifiers"),
    [
        ("a", ("a",)),
        (b"a", (b"a",)),
        (["a", "b"], ("a", "b")),
        (["b", "a", "b"], ("b", "a")),
        (["a", b"a"], ("a",)),
        ([b"a", "a"], (b"a",)),
        (["", "a", None], ("a",)),
        (["\ud800", "\ud801"], ("\ud800", "\ud801")),
        ((name for name in "ab"), ("a", "b")),
        (42, ("42",)),
        ([0, "0", b"1", 1], ("0", b"1")),
    ],
)
def test_each_identity_is_there_once_at_its_first_place(found, identifiers):
    assert as_identifiers(found) == identifiers


@pytest.mark.parametrize("found", [0.5, False, [True], ["a", ["b"]], object()])
def test_anything_else_is_an_error(found):
    with pytest.raises(TypeError, match="identifier"):
        as_identifiers(found)
