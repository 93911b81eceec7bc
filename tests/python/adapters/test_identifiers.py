"""Who a client is, whatever it sends to be somebody else, under every adapter."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from adapters import each
from overlimit.wsgi import by_address, by_cookie, by_header, by_json, by_user, by_user_or_address


def api_key(name):
    return ("X-Api-Key", name)


@each()
@pytest.mark.parametrize(
    ("identify", "sent"),
    [
        (by_header("X-Api-Key"), lambda name: {"fields": [("x-api-key", name)]}),
        (by_cookie("session"), lambda name: {"fields": [("Cookie", f"a=b; session={name}")]}),
        (by_user, lambda name: {"user": name}),
        (by_user_or_address, lambda name: {"user": name}),
        (by_address, lambda name: {"peer": f"192.0.2.{ord(name)}"}),
        (by_json("account"), lambda name: {"body": {"account": name}, "method": "POST"}),
        (lambda asked: asked.header("X-Api-Key"), lambda name: {"fields": [api_key(name)]}),
        (
            [by_address, lambda asked: asked.header("X-Api-Key")],
            lambda name: {"fields": [api_key(name)], "peer": f"192.0.2.{ord(name)}"},
        ),
    ],
    ids=["header", "cookie", "user", "user or address", "address", "json", "function", "list"],
)
def test_clients_are_told_apart_by_what_is_said(serve, identify, sent):
    site = serve(limits="1/minute", identifiers=identify)
    asked = []
    for name in "abab":
        given = sent(name)
        asked.append(site.ask("/", *given.pop("fields", []), **given).status)
    assert asked == [200, 200, 429, 429]


@each()
def test_by_default_address_and_user_are_limited_both(serve):
    site = serve(limits="2/minute")
    who = [("1", "ann"), ("2", "ann"), ("3", "ann"), ("3", "bob"), ("1", "bob"), ("1", "eve")]
    asked = [site.ask(peer=f"192.0.2.{last}", user=user).status for last, user in who]
    assert asked == [200, 200, 429, 200, 200, 429]


@each()
@pytest.mark.parametrize("kind", [list, tuple])
def test_all_of_a_list_are_limited(serve, kind):
    site = serve(limits="1/minute", identifiers=kind([by_address, by_header("X-Api-Key")]))

    def ask(last, key):
        return site.ask("/", api_key(key), peer=f"192.0.2.{last}").status

    assert ask(1, "a") == 200
    assert [ask(1, "b"), ask(2, "a"), ask(2, "b")] == [429, 429, 200]


@each()
@pytest.mark.parametrize(
    "nobody",
    [by_header("X-Api-Key"), by_cookie("s"), by_user, lambda asked: None, lambda asked: [""]],
    ids=["header", "cookie", "user", "None", "list"],
)
def test_who_is_nobody_shares_a_count_or_is_exempt(serve, nobody):
    site = serve(limits="1/minute", identifiers=nobody)
    assert [site.ask(peer=f"192.0.2.{last}").status for last in (1, 2)] == [200, 429]
    exempt = serve(limits="1/minute", identifiers=nobody, anonymous="exempt", key_prefix="b")
    answers = [exempt.ask() for _ in range(3)]
    assert [(answer.status, answer.ours) for answer in answers] == [(200, [])] * 3


@each()
def test_a_function_is_called_once_a_request_however_many_limits_ask_it(serve):
    called = []

    def key(asked):
        called.append(asked.path)
        return ["a", asked.header("X-Api-Key")]

    site = serve(limits="5/minute; 9/hour", global_limits="9/minute", identifiers=key)
    assert [site.ask("/", api_key(name)).status for name in "xyz"] == [200] * 3
    assert called == ["/"] * 3
    assert min(site.ask("/", api_key("x")).left.values()) == 1


@each()
@pytest.mark.parametrize("returned", [0.5, ["a", True], object()], ids=["float", "bool", "object"])
def test_an_identity_of_another_kind_fails_the_request_and_charges_nobody(serve, returned):
    found = [returned]
    site = serve(limits="1/minute", identifiers=lambda asked: found[0])
    assert site.statuses(times=2) == [500, 500]
    found[0] = "a"
    assert site.statuses(times=2) == [200, 429]


@each("key_func")
def test_a_key_function_names_one_client_by_all_that_it_returns(serve):
    site = serve(limits="1/minute", key_func=lambda asked: ("shop", asked.header("X-Api-Key"), 7))
    assert [site.ask("/", api_key(name)).status for name in "abab"] == [200, 200, 429, 429]


@each()
@pytest.mark.parametrize("trusted", [0, 1, ["10.0.0.0/8"]], ids=str)
def test_a_forged_address_never_gives_a_fresh_quota(serve, trusted):
    site = serve(limits="2/minute", trusted_proxies=trusted)
    peer = "10.0.0.1" if trusted else "192.0.2.1"
    real = ", 198.51.100.9" if trusted else ""
    forged = [("X-Forwarded-For", f"203.0.113.{number}{real}") for number in range(4)]
    assert [site.ask("/", field, peer=peer).status for field in forged] == [200, 200, 429, 429]
    if trusted:
        other = ("X-Forwarded-For", "203.0.113.1, 198.51.100.7")
        assert site.ask("/", other, peer=peer).status == 200


@each()
def test_neighbours_in_one_network_are_one_client(serve):
    site = serve(limits="2/minute")
    assert [site.ask(peer=f"2001:db8::{last}").status for last in (1, 2, 3)] == [200, 200, 429]
    assert site.ask(peer="2001:db8:0:1::1").status == 200
    wide = serve(limits="1/minute", ipv6_prefix=48, key_prefix="b")
    assert [wide.ask(peer=f"2001:db8:0:{part}::1").status for part in (1, 2)] == [200, 429]


@each()
@pytest.mark.parametrize("prefix", [None, 48, 128])
def test_addresses_that_functions_return_are_grouped(serve, prefix):
    given = iter(
        ["192.0.2.1", "::ffff:192.0.2.1", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", "2001:db8:0:1::1"]
    )
    by = {48: [200, 429, 200, 429, 429, 429], 128: [200, 429, 200, 200, 200, 429]}
    site = serve(limits="1/minute", identifiers=lambda asked: ip_address(next(given)), ipv6_prefix=prefix)
    assert site.statuses(times=6) == by.get(prefix, [200, 429, 200, 429, 200, 429])


@each()
def test_a_cookie_that_is_none_for_browsers_hides_no_other(serve):
    site = serve(limits="1/minute", identifiers=by_cookie("s"), anonymous="exempt")
    hiding = ['prefs={"a": 1}; s=a', "x[y]=1; s=a", "flag; s=a", "a,b=1; s=a", "path=/; s=a", "s=a; flag"]
    asked = [site.ask("/", ("Cookie", text)).status for text in ("s=a", *hiding, "s=b")]
    assert asked == [200, *[429] * len(hiding), 200]


@each()
def test_a_body_that_limits_go_by_is_still_there_for_the_view(serve):
    site = serve(lambda asked: asked.body.decode(), limits="2/minute", identifiers=by_json("account"))
    first = site.ask(method="POST", body={"account": "ann", "more": 1})
    assert (first.status, first.json) == (200, {"account": "ann", "more": 1})
    assert [site.ask(method="POST", body={"account": name}).status for name in ("ann", "ann", "bob")] == [
        200,
        429,
        200,
    ]
    broken = [site.ask("/", ("Content-Type", "application/json"), method="POST", body=b"{") for _ in range(3)]
    assert [answer.status for answer in broken] == [200, 200, 429]


@each("key_func")
@pytest.mark.parametrize("by", [by_address, by_user_or_address])
def test_what_needs_no_call_is_a_key_function_too(serve, by):
    site = serve(limits="1/minute", key_func=by)
    assert [site.ask(peer=f"192.0.2.{last}").status for last in (1, 1, 2)] == [200, 429, 200]


PROXY, STRANGER = "10.0.0.1", "198.51.100.7"
NO_ADDRESS = ["unknown", "_hidden", "", "1.1.1.1, 6.6.6.6", "1.1.1", "6.6.6.6;1.1.1.1", "for=6.6.6.6", "[::1"]


@pytest.fixture
def behind(serve):
    """Return a function that serves one request a minute behind proxies, and returns what asks by them."""

    def make(header, trusted):
        site = serve(limits="1/minute", address_header=header, trusted_proxies=trusted)

        def ask(*values, header=header, peer=PROXY):
            """Return the statuses of requests with these values, of each several lines if it is a list."""
            lines = ([value] if isinstance(value, str) else value for value in values)
            fields = [[(header, line) for line in several] for several in lines]
            return [site.ask("/", *each_line, peer=peer).status for each_line in fields]

        return ask

    return make


@each()
@pytest.mark.parametrize("trusted", [1, 2, ["10.0.0.0/8"]], ids=str)
def test_a_field_with_one_address_is_read_however_it_is_written(behind, trusted):
    ask = behind("CF-Connecting-IP", trusted)
    assert ask("1.1.1.1", "1.1.1.1:4711", "::ffff:1.1.1.1", " 1.1.1.1 ") == [200, 429, 429, 429]
    assert ask("2001:db8::1", "[2001:db8::2]:80") == [200, 429]
    assert ask(*NO_ADDRESS, ["1.1.1.1", "6.6.6.7"]) == [200] + [429] * len(NO_ADDRESS)
    assert ask("9.9.9.9", "9.9.9.8", header="X-Forwarded-For") == [429, 429]


@each()
def test_elements_of_the_standard_field_are_read_from_all_its_lines(behind):
    ask, nearest = behind("Forwarded", 2), 'for="10.0.0.2:_port";by=10.0.0.1'
    same = ["for=1.1.1.1", "FOR=1.1.1.1:80", 'proto=https; For="1.1.1.1" ;by=_x', 'x="a,b";for=1.1.1.1']
    asked = [f"for=6.6.6.{number}, {value}, {nearest}" for number, value in enumerate(same)]
    assert ask(*asked) == [200, 429, 429, 429]
    assert ask(["for=1.1.1.1", nearest], ["for=2.2.2.2", nearest], header="forwarded") == [429, 200]
    unread = ["for=unknown", "for=_hidden", 'for="', "by=3.3.3.3", "for=3.3.3.3;for=3.3.3.4"]
    asked = [f"for=6.6.6.{number}, {value}, {nearest}" for number, value in enumerate(unread)]
    assert ask(*asked) == [200, 429, 429, 429, 429]
    assert ask("for=6.6.6.6", "for=6.6.6.7") == [200, 429]


@each()
@pytest.mark.parametrize(
    ("header", "value"),
    [("X-Forwarded-For", "6.6.6.{}"), ("Forwarded", "for=6.6.6.{}"), ("X-Real-IP", "6.6.6.{}")],
)
def test_what_strangers_send_changes_nothing(behind, header, value):
    ask = behind(header, ["10.0.0.0/8"])
    values = [value.format(number) for number in range(4)]
    assert ask(*values, peer=STRANGER) == [200, 429, 429, 429]
    assert ask(*values) == [200] * 4


@each()
def test_a_field_that_nobody_is_trusted_to_write_is_an_error(behind):
    for trusted in (None, 0, []):
        with pytest.raises(Exception, match="'X-Real-IP' is believed of proxies"):
            behind("X-Real-IP", trusted)
