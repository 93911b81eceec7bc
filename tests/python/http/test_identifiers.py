"""From the answer of an ``identifiers`` callable to who is charged."""

from __future__ import annotations

import itertools
from ipaddress import ip_address, ip_interface, ip_network
from types import SimpleNamespace
from uuid import UUID

import pytest

from overlimit.http.identifying.identifiers import NOBODY, as_identifiers, as_key, from_key_function


@pytest.mark.parametrize("found", [None, "", b"", [], (), [None], ["", b""], iter(())])
def test_nobody_is_anonymous(found):
    assert as_identifiers(found) == ("anonymous",)
    assert as_identifiers(found) is NOBODY
    assert as_identifiers("anonymous") is not NOBODY


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
        (UUID(int=5), ("00000000-0000-0000-0000-000000000005",)),
        ([ip_address("192.0.2.1"), ip_address("2001:db8::1")], ("192.0.2.1", "2001:db8::/64")),
        ([ip_address("::ffff:192.0.2.1"), "192.0.2.1"], ("192.0.2.1",)),
        ([ip_interface("2001:db8::1/48"), ip_address("2001:db8::2")], ("2001:db8::/64",)),
        (ip_network("10.0.0.0/8"), ("10.0.0.0/8",)),
        ([ip_network("2001:db8::/64"), 1], ("2001:db8::/64", "1")),
    ],
)
def test_each_identity_is_there_once_at_its_first_place(found, identifiers):
    assert as_identifiers(found) == identifiers


@pytest.mark.parametrize("found", [0.5, False, [True], ["a", ["b"]], {"sub": "a"}, [{"a": 1}], object()])
def test_anything_else_is_an_error(found):
    with pytest.raises(TypeError, match="identifier"):
        as_identifiers(found)


@pytest.mark.parametrize(
    ("found", "key"),
    [
        (None, ""),
        ("", ""),
        (b"", ""),
        ([], ""),
        ((), ""),
        ("a:b", "a:b"),
        (b"a", "a"),
        (0, "0"),
        (7, "7"),
        (True, "True"),
        (1.5, "1.5"),
        (UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (ip_address("2001:db8::1"), "2001:db8::/64"),
        (ip_address("::ffff:192.0.2.1"), "192.0.2.1"),
        (ip_network("10.0.0.0/8"), "10.0.0.0/8"),
        (("a", "b"), "a:b"),
        (["a", 7, ip_address("192.0.2.1")], "a:7:192.0.2.1"),
        (("a:b", "c"), "a\\:b:c"),
        (("a", "b:c"), "a:b\\:c"),
        (("a\\", "b"), "a\\\\:b"),
        (("a", "\\:b"), "a:\\\\\\:b"),
        (("a", ""), ""),
        (("a", None), ""),
        ((["a", "b"], "c"), "a\\:b:c"),
        (("a",), "a"),
    ],
    ids=repr,
)
def test_a_key_function_names_one_identifier(found, key):
    assert as_key(found) == key


PARTS = ["a", ":", "\\", "a:", ":b", "\\:", "::"]


def test_parts_never_run_into_each_other():
    tuples = [parts for size in (1, 2, 3) for parts in itertools.product(PARTS, repeat=size)]
    joined = {as_key(parts) for parts in tuples if len(parts) > 1}
    assert len(joined) == len(PARTS) ** 2 + len(PARTS) ** 3


@pytest.mark.parametrize(
    "found", [object(), {"a"}, frozenset(), iter("a"), (c for c in "a"), len, lambda: "a", ("a", object())]
)
def test_what_is_another_text_at_each_request_is_no_key(found):
    with pytest.raises(TypeError, match="key function"):
        as_key(found)


def test_keys_of_one_function_are_equal():
    class Keys:
        def of(self):
            return 1

    keys = Keys()
    assert from_key_function(keys.of) == from_key_function(keys.of) != from_key_function(Keys().of)
    assert hash(from_key_function(keys.of)) == hash(from_key_function(keys.of))
    assert from_key_function(keys.of).read(SimpleNamespace(arguments=())) == "1"
