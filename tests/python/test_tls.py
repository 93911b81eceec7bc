"""Stores with TLS, and over_limit with redis-py clients that have it."""

from __future__ import annotations

import inspect
import os
import pickle
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from urllib.parse import quote

import pytest
import redis

from overlimit import (
    Limiter,
    RedisStore,
    StoreConfigError,
    StoreTimeout,
    StoreUnavailable,
    mirrored,
    over_limit,
)
from programs import output_of

AMPLE = 10.0


def answers(store):
    return bool(Limiter("5/minute", name="default", store=store).hit("a"))


class TestStores:
    @pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
    def test_one_decides_under_tls(self, tls_server, prefix, host):
        url = tls_server.tls_url(db=3, host=host)
        store = RedisStore(url, timeout=AMPLE, prefix=prefix, ssl_ca_certs=tls_server.ca)
        limiter = Limiter("2/minute", name="default", store=store)
        assert [bool(limiter.hit("a")) for _ in range(3)] == [True, True, False]
        with tls_server.client(db=3) as client:
            assert client.exists(f"{prefix}1:default:a") == 1

    def test_every_option_may_be_in_the_url(self, start_tls_redis, certificates):
        server = start_tls_redis(tls_auth_clients="yes", certificate="elsewhere", password="pass/word")
        options = {
            "timeout": AMPLE,
            "ssl_ca_certs": server.ca,
            "ssl_check_hostname": "no",
            "ssl_cert_reqs": "required",
            "ssl_certfile": certificates / "client.pem",
            "ssl_keyfile": certificates / "locked.key",
            "ssl_password": "pass phrase",
        }
        url = server.tls_url().replace("pass/word", "pass%2Fword")
        store = RedisStore(url + "?" + "&".join(f"{name}={quote(str(options[name]))}" for name in options))
        assert answers(store)

    def test_keywords_may_be_paths_and_pickle(self, start_tls_redis, certificates):
        server = start_tls_redis(tls_auth_clients="yes")
        store = RedisStore(
            server.tls_url(),
            timeout=AMPLE,
            ssl_ca_certs=certificates / "ca.pem",
            ssl_certfile=certificates / "client.pem",
            ssl_keyfile=certificates / "client.key",
        )
        assert answers(store)
        assert answers(pickle.loads(pickle.dumps(store)))

    def test_the_ca_may_be_a_text_or_a_directory(self, tls_server, certificates):
        for ca in (
            {"ssl_ca_data": (certificates / "ca.pem").read_text()},
            {"ssl_ca_path": certificates / "ca"},
        ):
            assert answers(RedisStore(tls_server.tls_url(), timeout=AMPLE, **ca))

    def test_the_system_s_cas_are_trusted_by_default(self, tls_server):
        script = """
            import sys
            from overlimit import Limiter
            print(bool(Limiter("5/minute", name="default", store=sys.argv[1]).hit("a")))
        """
        environment = {"SSL_CERT_FILE": tls_server.ca}
        assert output_of(script, tls_server.tls_url() + "?timeout=10", env=environment) == "True\n"

    @pytest.mark.parametrize(
        ("certificate", "options", "message"),
        [
            ("server", {"ssl_ca_certs": "other-ca.pem"}, "self-signed.*ssl_ca_certs"),
            ("server", {}, "certificate.*ssl_ca_certs"),
            ("elsewhere", {"ssl_ca_certs": "ca.pem"}, "hostname mismatch.*ssl_check_hostname"),
            ("expired", {"ssl_ca_certs": "ca.pem"}, "expired"),
            ("server", {"ssl_ca_certs": "missing.pem"}, "ssl_ca_certs.*missing.pem.*No such file"),
        ],
    )
    def test_a_server_that_cannot_be_trusted_is_a_config_error(
        self, start_tls_redis, certificates, certificate, options, message
    ):
        server = start_tls_redis(certificate=certificate, password="secret")
        options = {name: certificates / file for name, file in options.items()}
        store = RedisStore(server.tls_url(), timeout=AMPLE, **options)
        with pytest.raises(StoreConfigError, match=message) as caught:
            answers(store)
        assert not caught.value.maybe_charged
        assert "secret" not in str(caught.value)

    def test_without_verification_anyone_is_trusted(self, start_tls_redis):
        server = start_tls_redis(certificate="expired")
        assert answers(RedisStore(server.tls_url(), timeout=AMPLE, ssl_cert_reqs="none"))

    def test_a_server_that_wants_a_certificate_says_so(self, start_tls_redis):
        server = start_tls_redis(tls_auth_clients="yes")
        store = RedisStore(server.tls_url(), timeout=AMPLE, ssl_ca_certs=server.ca)
        with pytest.raises(StoreConfigError, match="ssl_certfile"):
            answers(store)

    def test_tls_where_there_is_none_and_none_where_there_is(self, tls_server):
        with pytest.raises(StoreTimeout, match="redis://"):
            answers(RedisStore(f"rediss://localhost:{tls_server.port}"))
        with pytest.raises(StoreUnavailable, match="rediss://"):
            answers(RedisStore(f"redis://localhost:{tls_server.tls_port}", timeout=AMPLE))

    def test_options_without_tls_are_a_value_error(self, redis_server):
        for url in (redis_server.tcp_url(), redis_server.unix_url()):
            with pytest.raises(ValueError, match=r"ssl_check_hostname.*rediss://"):
                RedisStore(url, ssl_check_hostname=False)

    @pytest.mark.parametrize("value", [5, b"ca.pem"])
    def test_a_file_of_another_type_is_a_type_error(self, value):
        with pytest.raises(TypeError, match="ssl_ca_certs"):
            RedisStore("rediss://localhost", ssl_ca_certs=value)

    def test_threads_may_be_in_a_call_when_the_process_ends(self, tls_server):
        script = """
            import sys, threading, time
            from overlimit import Limiter, RedisStore
            store = RedisStore(sys.argv[1], timeout=10, ssl_ca_certs=sys.argv[2])
            limiter = Limiter("1000000/minute", name="default", store=store)
            def hit():
                while True:
                    limiter.hit("a")
                    store.close()
            for _ in range(4):
                threading.Thread(target=hit, daemon=True).start()
            time.sleep(0.3)
        """
        for _ in range(5):
            assert output_of(script, tls_server.tls_url(), tls_server.ca) == ""

    def test_parent_and_child_both_decide_after_a_fork(self, tls_server, prefix):
        script = """
            import os, sys
            from overlimit import Limiter, RedisStore
            store = RedisStore(sys.argv[1], timeout=10, ssl_ca_certs=sys.argv[2], prefix=sys.argv[3])
            limiter = Limiter("1000/minute", name="default", store=store)
            limiter.hit("a")
            child = os.fork()
            for _ in range(200):
                limiter.hit("a")
            if child == 0:
                os._exit(0)
            assert os.wait()[1] == 0
            print(limiter.peek("a", cost=0).remaining)
        """
        assert output_of(script, tls_server.tls_url(), tls_server.ca, prefix) == "599\n"


# Which redis-py has since 6.
VERIFY_FLAGS = (
    [{"ssl_include_verify_flags": [ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF]}]
    if "ssl_include_verify_flags" in inspect.signature(redis.Redis.__init__).parameters
    else []
)


class TestClients:
    @pytest.fixture(autouse=True)
    def ample_timeout(self, monkeypatch):
        """The default of a tenth of a second is too little for a handshake on a busy machine."""
        monkeypatch.setattr(mirrored, "RedisStore", partial(RedisStore, timeout=AMPLE))

    @pytest.fixture
    def connect(self, tls_server):
        """Return a function that makes a redis-py client of the server; closed with the test."""
        clients = []

        def connect(**options):
            options = {"port": tls_server.tls_port, "ssl": True, "ssl_ca_certs": tls_server.ca, **options}
            clients.append(redis.Redis(**options))
            return clients[-1]

        yield connect
        for client in clients:
            client.close()

    def test_one_lends_its_options_and_not_its_connections(self, connect, prefix, tls_server):
        client = connect(db=2)
        answers = [over_limit(client, 3600, 2, identifiers=prefix) for _ in range(3)]
        assert answers == [False, False, True]
        assert connections_of(client) == 0
        with tls_server.client(db=2) as behind:
            assert behind.exists(f"ol1:over_limit.3600:{prefix}") == 1

    def test_one_in_use_is_left_as_it_is(self, connect, prefix):
        client = connect()
        assert client.ping()
        before = client.connection_pool._available_connections[:]
        assert not over_limit(client, 3600, 1, identifiers=prefix)
        assert client.connection_pool._available_connections == before
        assert connections_of(client) == 1

    def test_one_from_a_url(self, tls_server, prefix):
        url = f"{tls_server.tls_url()}?ssl_ca_certs={quote(tls_server.ca)}"
        with redis.from_url(url) as client:
            assert not over_limit(client, 3600, 1, identifiers=prefix)
        with redis.from_url(tls_server.tls_url() + "?ssl_cert_reqs=none") as client:
            assert over_limit(client, 3600, 1, identifiers=prefix)

    def test_one_is_taken_at_its_word_whether_it_verifies(self, connect, certificates, prefix):
        other = str(certificates / "other-ca.pem")
        for cert_reqs in ("required", "optional", ssl.CERT_REQUIRED, ssl.CERT_OPTIONAL):
            with pytest.raises(StoreConfigError, match="ssl_ca_certs"):
                over_limit(connect(ssl_cert_reqs=cert_reqs, ssl_ca_certs=other), 3600, 1, identifiers="a")
        for cert_reqs in ("none", None, ssl.CERT_NONE):
            client = connect(ssl_cert_reqs=cert_reqs, ssl_ca_certs=None)
            assert not over_limit(client, 3600, 9, identifiers=prefix)

    def test_a_host_name_is_checked_unless_the_client_does_not(self, start_tls_redis, connect):
        server = start_tls_redis(certificate="elsewhere")
        with pytest.raises(StoreConfigError, match="hostname mismatch"):
            over_limit(connect(port=server.tls_port, ssl_check_hostname=True), 3600, 1, identifiers="a")
        lenient = connect(port=server.tls_port, ssl_check_hostname=False)
        assert not over_limit(lenient, 3600, 1, identifiers="a")

    def test_a_ca_as_data_or_directory_and_a_least_version_that_is_there_anyway(
        self, connect, certificates, prefix
    ):
        text = (certificates / "ca.pem").read_text()
        for options in (
            {"ssl_ca_certs": None, "ssl_ca_data": text},
            {"ssl_ca_certs": None, "ssl_ca_path": str(certificates / "ca")},
            {"ssl_min_version": ssl.TLSVersion.TLSv1_2},
        ):
            assert not over_limit(connect(**options), 3600, 3, identifiers=prefix)

    def test_one_with_a_certificate_and_a_password(self, start_tls_redis, connect, certificates):
        server = start_tls_redis(tls_auth_clients="yes", password="se:c@ret/")
        client = connect(
            port=server.tls_port,
            password="se:c@ret/",
            ssl_certfile=str(certificates / "client.pem"),
            ssl_keyfile=str(certificates / "locked.key"),
            ssl_password="pass phrase",
        )
        assert [over_limit(client, 3600, 1, identifiers="a") for _ in range(2)] == [False, True]

    def test_one_of_an_acl_user(self, start_tls_redis, connect):
        server = start_tls_redis()
        with server.client() as admin:
            admin.acl_setuser(
                "limiter", enabled=True, passwords="+secret", keys="ol1:*", commands=["+@all"], reset=True
            )
        client = connect(port=server.tls_port, username="limiter", password="secret")
        assert not over_limit(client, 3600, 1, identifiers="a")
        wrong = connect(port=server.tls_port, username="limiter", password="wrong")
        with pytest.raises(StoreConfigError, match="WRONGPASS"):
            over_limit(wrong, 3600, 1, identifiers="a")

    @pytest.mark.parametrize(
        "option",
        [
            {"ssl_ciphers": "DEFAULT"},
            {"ssl_min_version": ssl.TLSVersion.TLSv1_3},
            {"ssl_validate_ocsp": True},
            {"ssl_ca_data": b"DER"},
            {"ssl_password": lambda: "secret"},
            {"ssl_cert_reqs": "perhaps"},
            *VERIFY_FLAGS,
        ],
    )
    def test_an_option_that_cannot_be_honoured_is_a_value_error_that_names_it(self, connect, option):
        [name] = option
        with pytest.raises(ValueError, match=name):
            over_limit(connect(**option), 3600, 1, identifiers="a")

    def test_an_asyncio_client_lends_its_options_too(self, tls_server, prefix):
        import redis.asyncio

        client = redis.asyncio.Redis(port=tls_server.tls_port, ssl=True, ssl_ca_certs=tls_server.ca)
        assert not over_limit(client, 3600, 1, identifiers=prefix)


def connections_of(client):
    pool = client.connection_pool
    return len(pool._available_connections) + len(pool._in_use_connections)


class TestRefusals:
    def test_the_reason_is_told_to_every_thread(self, start_tls_redis):
        server = start_tls_redis(certificate="elsewhere")
        start, told = threading.Barrier(4), []

        def ask():
            start.wait()
            with pytest.raises(StoreConfigError, match="not trusted") as caught:
                RedisStore(server.tls_url(), timeout=AMPLE, ssl_ca_certs=server.ca).ping()
            told.append(str(caught.value))

        with ThreadPoolExecutor(4) as threads:
            for asked in [threads.submit(ask) for _ in range(4)]:
                asked.result()
        assert len(told) == 4


class TestOpenssl:
    """Which OpenSSL a process uses, and what is said where there is none."""

    OPENED = """
import re
with open("/proc/self/maps") as maps:
    opened = set(re.findall(r"\\S*/lib(?:ssl|crypto)[^/\\s]*$", maps.read(), re.M))
"""

    def test_none_is_loaded_without_tls(self, redis_server):
        program = f"""
from overlimit import Limiter, RedisStore
store = RedisStore({redis_server.tcp_url()!r}, timeout={AMPLE})
assert Limiter("5/minute", name="no-openssl", store=store).hit("x" * 300)
{self.OPENED}
print(*opened)
"""
        assert output_of(program) == "\n"

    def test_it_is_that_of_pythons_ssl(self, tls_server):
        program = f"""
import ssl
{self.OPENED}
before = opened
from overlimit import RedisStore
RedisStore({tls_server.tls_url()!r}, timeout={AMPLE}, ssl_ca_certs={str(tls_server.ca)!r}).ping()
{self.OPENED}
assert len(before) == 2, before  # libssl and libcrypto
assert opened == before, opened - before
"""
        output_of(program)

    @pytest.mark.parametrize(
        ("library", "why"),
        [("/nowhere/libssl.so.3", "cannot be loaded"), ("libc.so.6", "has no ASN1_TIME_diff")],
        ids=["missing", "another"],
    )
    def test_a_store_without_it_says_what_to_do(self, redis_server, library, why):
        program = f"""
from overlimit import Limiter, RedisStore, StoreConfigError
for url in "rediss://localhost", "rediss+sentinel://localhost/master", "rediss+cluster://localhost":
    try:
        RedisStore(url)
    except StoreConfigError as error:
        print(error)
assert RedisStore({redis_server.tcp_url()!r}, timeout={AMPLE}).ping() > 0
"""
        said = output_of(program, env={**os.environ, "OVERLIMIT_OPENSSL": library}).splitlines()
        assert len(said) == 3
        for line in said:
            assert line.startswith("no TLS, as of rediss://, without OpenSSL 3 or 1.1.1: ")
            assert why in line
            assert line.endswith("; correct or unset the environment variable OVERLIMIT_OPENSSL")

    def test_an_empty_variable_is_none(self):
        program = "from overlimit import RedisStore; RedisStore('rediss://localhost')"
        assert output_of(program, env={**os.environ, "OVERLIMIT_OPENSSL": ""}) == ""

    @pytest.mark.parametrize("after", [0.0005, 0.001, 0.002, 0.004, 0.008])
    def test_a_child_that_is_forked_while_its_parent_loads_it_loads_its_own(self, after):
        program = f"""
import os, signal, threading, time, warnings
from overlimit import RedisStore
warnings.simplefilter("ignore", DeprecationWarning)
loads = threading.Thread(target=RedisStore, args=["rediss://localhost"])
loads.start()
time.sleep({after})
if (child := os.fork()) == 0:
    signal.alarm(60)
    RedisStore("rediss://localhost")
    os._exit(0)
loads.join()
print(os.waitpid(child, 0)[1])
"""
        assert output_of(program) == "0\n"

    def test_a_configuration_that_leaves_no_ciphers_is_told_as_openssl_tells_it(self, tls_server, tmp_path):
        configuration = """
[init]
alg_section = algorithms
[algorithms]
default_properties = fips=yes
"""
        said = self.said_under(configuration, tmp_path, tls_server)
        assert said.startswith("cannot use TLS as this machine's OpenSSL is configured for redis at local")
        assert said.endswith(": library has no ciphers")

    @pytest.mark.parametrize(("lowest", "may"), [("TLSv1.3", False), ("TLSv1.2", True), ("TLSv1", True)])
    def test_a_configuration_may_ask_for_a_later_version(self, start_tls_redis, tmp_path, lowest, may):
        server = start_tls_redis(tls_protocols="TLSv1.2")
        configuration = f"""
[init]
ssl_conf = ssl
[ssl]
system_default = policy
[policy]
MinProtocol = {lowest}
"""
        said = self.said_under(configuration, tmp_path, server)
        assert (said == "it answers") == may
        assert may or "TLS 1.2 and 1.3 are spoken here" in said

    @staticmethod
    def said_under(configuration, folder, server):
        path = folder / "openssl.cnf"
        path.write_text(f"openssl_conf = init\n{configuration}", encoding="utf-8")
        program = f"""
from overlimit import Limiter, RedisStore, StoreConfigError
store = RedisStore({server.tls_url()!r}, timeout={AMPLE}, ssl_ca_certs={str(server.ca)!r})
try:
    for _ in range(2):  # the second finds what the first has made
        Limiter("5/minute", name="configured", store=store, on_error="raise").hit("a")
    print("it answers")
except StoreConfigError as error:
    print(error)
"""
        return output_of(program, env={**os.environ, "OPENSSL_CONF": str(path)}).rstrip()
