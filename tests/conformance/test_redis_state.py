"""What is in Redis, what happens when it is lost, damaged or foreign, and when the server does not answer."""

from __future__ import annotations

import hashlib
import random
import socket
import threading
import time
from contextlib import closing, suppress

import pytest

from overlimit import FixedWindow, Limiter, RedisStore, SlidingWindow, TokenBucket
from overlimit.errors import StoreConfigError, StoreError, StoreTimeout, StoreUnavailable

LIMITS = [FixedWindow(3, 60), SlidingWindow(3, 60), TokenBucket(3, 60)]
EACH = pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.algorithm)
PATIENCE = 10.0


@pytest.fixture
def raw(redis_server):
    with closing(redis_server.client()) as client:
        yield client


@pytest.fixture
def build(redis_store, clock):
    """Like ``build`` for every store, but Redis only."""

    def limiter(limits, **options):
        return Limiter(limits, **{"name": "default", "store": redis_store, "clock": clock, **options})

    return limiter


@pytest.fixture
def key(prefix):
    """The key of identifier "a" in the policy "default"."""
    return f"{prefix}1:default:a"


class TestKeys:
    def test_one_key_per_policy_and_identifier(self, build, raw, prefix):
        build(LIMITS, name="login").hit("ip:1", "user:2")
        build(LIMITS, name="api").hit("ip:1")
        keys = set(raw.scan_iter(f"{prefix}*"))
        names = ("login:ip:1", "login:user:2", "api:ip:1")
        assert keys == {f"{prefix}1:{name}".encode() for name in names}

    def test_bytes_stand_in_the_key_as_they_are(self, build, raw, prefix):
        build(LIMITS).hit(b"\x00\xff{x}\r\n")
        assert raw.exists(f"{prefix}1:default:".encode() + b"\x00\xff{x}\r\n")

    @pytest.mark.parametrize(("length", "hashed"), [(256, False), (257, True), (100_000, True)])
    def test_an_identifier_over_256_bytes_is_hashed(self, build, raw, prefix, length, hashed):
        identifier = "é" * (length // 2) + "x" * (length % 2)
        build(LIMITS).hit(identifier)
        digest = hashlib.sha256(identifier.encode()).hexdigest()
        end = f"#{digest}" if hashed else f":{identifier}"
        assert list(raw.scan_iter(f"{prefix}*")) == [f"{prefix}1:default{end}".encode()]

    def test_calls_that_charge_nothing_write_nothing(self, build, raw, prefix):
        limiter = build(LIMITS)
        limiter.peek("a")
        limiter.hit("a", cost=0)
        limiter.hit("a", cost=9)
        assert list(raw.scan_iter(f"{prefix}*")) == []

    def test_a_refused_call_does_not_rewrite_the_key(self, build, raw, key):
        limiter = build(LIMITS)
        limiter.hit("a", cost=3)
        value = raw.get(key)
        assert not limiter.hit("a")
        assert raw.get(key) == value

    def test_reset_deletes_the_key(self, build, raw, prefix, key):
        limiter = build(LIMITS)
        limiter.hit("a", "b")
        limiter.reset("a")
        assert list(raw.scan_iter(f"{prefix}*")) == [f"{prefix}1:default:b".encode()]

    def test_a_full_record_stays_small(self, build, raw, key, clock):
        limiter = build(SlidingWindow(10_000, per=50, precision=1))
        for _ in range(200):
            limiter.hit("a")
            clock.advance(1)
        assert raw.strlen(key) < 64 + 51 * 16


class TestTimeToLive:
    @EACH
    def test_every_key_expires_after_its_record_and_the_slack_of_an_injected_clock(
        self, build, raw, key, limit
    ):
        reset = build(limit).hit("a", cost=3).reset_after
        assert reset + 1 <= raw.pttl(key) / 1000 <= reset + 3_600 + 1

    @EACH
    def test_every_key_expires_soon_after_its_record_by_the_servers_own_clock(self, build, raw, key, limit):
        reset = build(limit, clock=None).hit("a", cost=3).reset_after
        assert reset <= raw.pttl(key) / 1000 <= reset + 10

    def test_the_longest_lived_record_decides(self, build, raw, key):
        build([FixedWindow(3, 0.001), FixedWindow(3, 5000), FixedWindow(3, 7)], clock=None).hit("a")
        assert 5000 <= raw.pttl(key) / 1000 <= 5010

    def test_a_window_below_a_millisecond_still_has_one(self, build, raw, key):
        assert build(FixedWindow(3, 1e-6), clock=None).hit("a")
        assert raw.pttl(key) > 0

    def test_a_bucket_that_fills_for_centuries_still_has_one(self, build, raw, key):
        limiter = build(TokenBucket(1, per=2**49 / 1e6, burst=15))
        limiter.hit("a", cost=15)
        assert raw.pttl(key) > 10**12
        assert not limiter.hit("a")

    @EACH
    def test_a_key_that_lost_it_keeps_counting_and_gets_it_back(self, build, raw, key, clock, limit):
        limiter = build(limit)
        limiter.hit("a")
        assert raw.persist(key)
        assert limiter.peek("a", cost=0).remaining == 2
        clock.advance(5)
        assert limiter.hit("a", cost=2).remaining == 0
        assert limiter.hit("a").status == "over"
        raw.persist(key)
        clock.advance(100)
        assert limiter.hit("a").remaining == 2
        assert raw.pttl(key) > 0

    def test_a_write_that_moves_the_expiry_sets_it_again(self, build, raw, key, clock):
        limiter = build(SlidingWindow(3, 60))
        limiter.hit("a")
        raw.persist(key)
        clock.advance(30)
        limiter.hit("a")
        assert raw.pttl(key) > 60_000

    @EACH
    def test_a_key_that_is_gone_starts_anew(self, build, raw, key, limit):
        limiter = build(limit)
        limiter.hit("a", cost=3)
        raw.delete(key)
        assert limiter.hit("a").remaining == 2


class TestScripts:
    def test_a_flush_of_the_scripts_between_calls_changes_nothing(self, build, raw):
        limiter = build(LIMITS)
        for remaining in (2, 1, 0):
            raw.script_flush()
            assert limiter.hit("a").remaining == remaining
        raw.script_flush()
        assert limiter.peek("a").status == "over"
        raw.script_flush()
        limiter.reset("a")
        assert limiter.hit("a").remaining == 2

    def test_their_number_is_bounded_by_policies_not_by_traffic(self, start_redis, clock):
        server = start_redis()
        store = RedisStore(server.unix_url(), timeout=PATIENCE)
        with closing(server.client()) as raw:
            for most in range(1, 30):
                limiter = Limiter(
                    [SlidingWindow(most, 60 + most), TokenBucket(most)],
                    name="default",
                    store=store,
                    clock=clock,
                )
                for identifiers in (["a"], ["a", "b"], [f"id:{i}" for i in range(16)]):
                    limiter.hit(*identifiers)
                    limiter.peek(*identifiers, cost=most)
                    limiter.reset(*identifiers)
            assert raw.info("memory")["number_of_cached_scripts"] <= 4


class TestForeignValues:
    """A value that isn't ours is as if absent, and overwritten: no error, no lock-out, never unlimited."""

    def counts_from_new(self, limiter) -> bool:
        answers = [limiter.hit("a") for _ in range(4)]
        return [answer.remaining for answer in answers] == [2, 1, 0, 0] and not answers[-1]

    @EACH
    @pytest.mark.parametrize(
        "value", [b"", b"0", b"5", b"-1", b"nonsense", b"\x00" * 64, b"\xff" * 64, b"x" * 9999]
    )
    def test_a_text_or_number(self, build, raw, key, limit, value):
        raw.set(key, value)
        limiter = build(limit)
        assert limiter.peek("a").remaining == 2
        assert self.counts_from_new(limiter)
        assert raw.pttl(key) > 0

    @EACH
    @pytest.mark.parametrize("kind", ["list", "hash", "set", "zset", "stream"])
    def test_another_type(self, build, raw, key, limit, kind):
        write = {
            "list": lambda: raw.rpush(key, "x"),
            "hash": lambda: raw.hset(key, "x", "y"),
            "set": lambda: raw.sadd(key, "x"),
            "zset": lambda: raw.zadd(key, {"x": 1}),
            "stream": lambda: raw.xadd(key, {"x": "y"}),
        }
        write[kind]()
        limiter = build(limit)
        assert limiter.peek("a").remaining == 2
        assert self.counts_from_new(limiter)
        assert raw.pttl(key) > 0

    @EACH
    def test_our_own_value_cut_short_anywhere(self, build, raw, key, limit):
        limiter = build(limit)
        limiter.hit("a", cost=2)
        value = raw.get(key)
        for length in range(len(value)):
            raw.set(key, value[:length])
            assert self.counts_from_new(limiter), f"cut to {length} of {len(value)} bytes"

    @EACH
    def test_random_bytes(self, build, raw, key, limit):
        limiter = build(limit)
        source = random.Random(20)
        for _ in range(200):
            raw.set(key, source.randbytes(source.randrange(120)))
            assert self.counts_from_new(limiter)

    @pytest.mark.parametrize("excess", [1, 8, 15])
    def test_a_record_with_a_part_of_a_cell_is_as_if_there_were_nothing(self, build, raw, key, excess):
        limiter = build(SlidingWindow(3, per=60))
        limiter.hit("a", cost=3)
        value = raw.get(key)
        size = int.from_bytes(value[16:20], "little") + excess
        raw.set(key, value[:16] + size.to_bytes(4, "little") + value[20:] + b"x" * excess)
        assert limiter.peek("a", cost=0).remaining == 3
        assert [bool(limiter.hit("a")) for _ in range(5)] == [True] * 3 + [False] * 2

    def test_a_fixed_window_of_another_length_is_as_if_there_were_nothing(self, build, raw, key):
        limiter = build(FixedWindow(3, per=1000))
        limiter.hit("a", cost=3)
        value = raw.get(key)
        end = int.from_bytes(value[36:44], "little") + 1_000_000
        raw.set(key, value[:36] + end.to_bytes(8, "little") + value[44:], keepttl=True)
        assert limiter.hit("a", cost=3)
        assert limiter.hit("a").retry_after == 1000.0
        assert 0 < raw.pttl(key) <= (1000 + 3600) * 1000

    @EACH
    def test_any_byte_of_our_own_value_changed_is_never_an_error(self, build, raw, key, limit):
        limiter = build(limit)
        limiter.hit("a", cost=2)
        value = raw.get(key)
        for place in range(len(value)):
            for byte in (0x00, 0x01, 0x7F, 0x80, 0xFF, value[place] ^ 1):
                raw.set(key, value[:place] + bytes([byte]) + value[place + 1 :])
                decisions = [limiter.peek("a", cost=0), *(limiter.hit("a") for _ in range(4))]
                assert not all(decisions), f"byte {place} as {byte} makes it unlimited"
                assert all(0 <= decision.remaining <= 3 for decision in decisions)

    def test_for_one_identifier_leaves_the_other_alone(self, build, raw, key):
        limiter = build(LIMITS)
        limiter.hit("a", "b")
        raw.set(key, "nonsense")
        rows = limiter.peek("a", "b", cost=0).details
        assert [row.remaining for row in rows] == [3, 3, 3, 2, 2, 2]


class TestClock:
    def test_without_a_clock_the_servers_time_decides(self, build, raw):
        limiter = build(FixedWindow(3, 60), clock=None)
        before, decision, after = server_time(raw), limiter.hit("a"), server_time(raw)
        assert before <= decision.time <= after

    def test_an_injected_clock_is_passed_along(self, build, at):
        limiter = build(FixedWindow(3, 60))
        at(-1_000_000.25)
        assert limiter.hit("a").time == 1_698_999_999.75


class TestAddresses:
    @pytest.mark.parametrize("url", ["tcp_url", "unix_url"])
    @pytest.mark.parametrize("password", [None, "s3cret"])
    @pytest.mark.parametrize("db", [0, 3])
    def test_transport_password_and_db_are_those_of_the_url(self, start_redis, prefix, url, password, db):
        server = start_redis(password=password)
        limiter = Limiter(
            LIMITS,
            name="default",
            store=RedisStore(getattr(server, url)(db), timeout=PATIENCE, prefix=prefix),
        )
        assert limiter.hit("a").remaining == 2
        with closing(server.client(db)) as raw:
            assert raw.exists(f"{prefix}1:default:a")
        with closing(server.client(1)) as elsewhere:
            assert elsewhere.dbsize() == 0

    def test_a_url_will_do_for_a_store(self, redis_server):
        limiter = Limiter(FixedWindow(3, 60), name="by-url", store=f"{redis_server.tcp_url(db=7)}?timeout=10")
        assert limiter.hit("a").remaining == 2
        limiter.reset("a")

    def test_building_connects_to_nothing(self, start_redis):
        server = start_redis()
        server.stop()
        Limiter(LIMITS, name="default", store=RedisStore(server.tcp_url()))
        Limiter(LIMITS, name="default", store=RedisStore("redis://nowhere.invalid:1"))

    @pytest.mark.parametrize("wrong", [":wr0ng@", ""])
    def test_wrong_or_missing_credentials_are_a_configuration_error(self, start_redis, wrong):
        server = start_redis(password="s3cret")
        url = f"redis://{wrong}127.0.0.1:{server.port}/0"
        with pytest.raises(StoreConfigError) as caught:
            Limiter(LIMITS, name="default", store=RedisStore(url, timeout=PATIENCE)).hit("a")
        assert "wr0ng" not in str(caught.value)
        assert not caught.value.maybe_charged

    def test_a_db_that_does_not_exist_is_a_configuration_error(self, redis_server):
        store = RedisStore(redis_server.unix_url(db=99), timeout=PATIENCE)
        with pytest.raises(StoreConfigError):
            Limiter(LIMITS, name="default", store=store).hit("a")


class TestServerTrouble:
    def test_a_stopped_server_is_unavailable_and_used_again_once_it_is_back(self, start_redis, clock):
        server = start_redis()
        limiter = Limiter(
            LIMITS, name="default", store=RedisStore(server.tcp_url(), timeout=1.0), clock=clock
        )
        assert limiter.hit("a")
        server.stop()
        for _ in range(3):
            with pytest.raises(StoreUnavailable):
                limiter.hit("a")
        start_redis(port=server.port)
        assert eventually_answers(limiter).remaining == 2

    def test_nobody_listening_is_unavailable_well_before_the_timeout(self, start_redis):
        server = start_redis()
        server.stop()
        for url in (server.tcp_url(), server.unix_url()):
            started = time.monotonic()
            with pytest.raises(StoreUnavailable) as caught:
                Limiter(LIMITS, name="default", store=RedisStore(url, timeout=5.0)).hit("a")
            assert time.monotonic() - started < 2.5
            assert isinstance(caught.value, ConnectionError)
            assert not caught.value.maybe_charged

    @pytest.mark.parametrize("timeout", [0.1, 0.5])
    def test_a_server_that_never_answers_costs_the_timeout_and_no_more(self, timeout):
        with socket.create_server(("127.0.0.1", 0)) as black_hole:
            url = f"redis://127.0.0.1:{black_hole.getsockname()[1]}/0"
            limiter = Limiter(LIMITS, name="default", store=RedisStore(url, timeout=timeout))
            started = time.monotonic()
            with pytest.raises(StoreTimeout) as caught:
                limiter.hit("a")
            assert timeout * 0.9 <= time.monotonic() - started < timeout * 10
            assert isinstance(caught.value, TimeoutError)
            for _ in range(3):
                started = time.monotonic()
                with pytest.raises(StoreError):
                    limiter.hit("a")
                assert time.monotonic() - started < timeout * 10

    def test_the_timeout_is_100_ms_by_default(self):
        with socket.create_server(("127.0.0.1", 0)) as black_hole:
            url = f"redis://127.0.0.1:{black_hole.getsockname()[1]}/0"
            started = time.monotonic()
            with pytest.raises(StoreTimeout):
                Limiter(LIMITS, name="default", store=RedisStore(url)).hit("a")
            assert 0.09 <= time.monotonic() - started < 1.0

    def test_a_call_of_unknown_outcome_is_never_replayed(self, redis_server, prefix, clock):
        limits = [FixedWindow(10, 3600)]
        store = RedisStore(redis_server.tcp_url(), timeout=PATIENCE, prefix=prefix)
        direct = Limiter(limits, name="default", store=store, clock=clock)
        with ReplyEater(redis_server.port) as proxy:
            store = RedisStore(f"redis://127.0.0.1:{proxy.port}/0", timeout=2.0, prefix=prefix)
            limiter = Limiter(limits, name="default", store=store, clock=clock)
            assert limiter.hit("a").remaining == 9
            proxy.eats = True
            with pytest.raises(StoreError) as caught:
                limiter.hit("a")
            assert caught.value.maybe_charged
            proxy.eats = False
            assert direct.peek("a", cost=0).remaining == 8
            assert eventually_answers(limiter).remaining == 7
        assert direct.peek("a", cost=0).remaining == 7

    def test_a_connection_that_the_server_closed_meanwhile_is_made_anew(self, redis_server, raw, build):
        limiter = build(FixedWindow(100, 3600))
        before = limiter.hit("a").remaining
        for client in raw.client_list():
            if int(client["id"]) != raw.client_id():
                raw.client_kill_filter(_id=client["id"])
        answered = eventually_answers(limiter)
        assert before - 3 <= answered.remaining < before


def server_time(raw) -> float:
    seconds, micros = raw.time()
    return (seconds * 1_000_000 + micros) / 1e6


def eventually_answers(limiter):
    """Hit until the store answers, for a bounded time: it may pause after a failure."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return limiter.hit("a")
        except StoreError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


class ReplyEater:
    """A proxy that passes everything on to a server, and while it ``eats``, closes instead of replying."""

    def __init__(self, server_port: int) -> None:
        self.eats = False
        self._server_port = server_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets = [self._listener]
        self._threads = [threading.Thread(target=self._accept)]
        self.port = self._listener.getsockname()[1]

    def __enter__(self) -> ReplyEater:
        self._threads[0].start()
        return self

    def __exit__(self, *exception: object) -> None:
        hang_up(self._listener)
        self._threads[0].join(PATIENCE)
        hang_up(*self._sockets)
        for thread in self._threads[1:]:
            thread.join(PATIENCE)
        for each in self._sockets:
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                self._sockets.append(client)
                server = socket.create_connection(("127.0.0.1", self._server_port))
                self._sockets.append(server)
                for pump in (self._requests, self._replies):
                    thread = threading.Thread(target=pump, args=(client, server))
                    self._threads.append(thread)
                    thread.start()

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(65_536):
                server.sendall(data)
        hang_up(client, server)

    def _replies(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while (data := server.recv(65_536)) and not self.eats:
                client.sendall(data)
        hang_up(client, server)


def hang_up(*sockets: socket.socket) -> None:
    """End the connections, which wakes whoever reads from them; closing them would not."""
    for each in sockets:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
