"""Fixtures for every test: a real Redis, each store in turn, and a clock that stands still."""

from __future__ import annotations

import gc
import os
import secrets
import signal
import subprocess
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from event_loops import AnyLimiter, AwaitedLimiter, LoopThread, TimedCalls, assert_short
from overlimit import (
    Limiter,
    ManualClock,
    MemoryStore,
    RedisStore,
    SharedMemoryStore,
    Store,
    StoreConfigError,
)
from overlimit.aio import loops
from overlimit.stores import PostgreSQLStore, SQLiteStore, ValueStore
from own_stores import DictStore
from servers.cluster import Cluster
from servers.patience import PATIENCE
from servers.postgresql_server import PostgreSQLServer
from servers.redis_server import RedisServer, TlsRedisServer
from servers.sentinels import Sentinels

# The same examples in every run, and other ones each time in `make prove`; on a busy machine, too.
settings.register_profile(
    "tests",
    derandomize="PROVE" not in os.environ,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("tests")

TOGETHER = 8
"""So many of the tests that any worker may run go to one at a time: many groups take pytest-xdist long."""

if sysconfig.get_config_var("Py_GIL_DISABLED"):
    collect_ignore = [
        "faults/test_greenlets.py",  # gevent, which there is not
        "python/clients/test_event_loops.py",  # aiohttp and trio, which there are not
        "python/bindings/test_misuse.py",  # a heap that ends: this one grows until it is killed
        "python/bindings/test_pickled_objects.py",
        "python/django/test_servers.py",  # daphne, which there is not
        "python/jobs",  # celery and its like, which there are not
        "python/test_docs.py",  # numpydoc, of the environment of developers
        "python/test_types.py",  # mypy and pyright, of that too
    ]
    """What needs something that an environment without the GIL has not."""

START = 1_700_000_000
"""Where the clock of a test starts, in seconds since the epoch."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Have the garbage collector not look at what pytest keeps of 20,000 tests, again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Tell pytest-xdist which tests stay together (docs/testing.md), and see that it has understood."""
    for number, item in enumerate(items):
        if " at 0x" in item.nodeid:
            raise pytest.UsageError(f"{item.nodeid} has another name in each process: give its cases ids=")
        if not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(_group_of(item) or f"part {number // TOGETHER}"))
    yield
    if config.getoption("loadgroup", False) and not all("@" in item.nodeid for item in items):
        raise pytest.UsageError("pytest-xdist does not keep groups of tests together with this pytest")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests recorded as ``figure`` in `make prove`, which shows these lines."""
    if "PROVE" not in os.environ:
        return
    reports = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    properties = [each for report in reports if report.when == "call" for each in report.user_properties]
    if figures := sorted(text for name, text in properties if name == "figure"):
        terminalreporter.section("figures")
        for text in figures:
            terminalreporter.write_line(f"figure: {text}")


def _group_of(item: pytest.Item) -> str | None:
    """Return the group whose tests one worker must run, one after the other; None: any worker may run it."""
    fixtures = item._fixtureinfo.name2fixturedefs.values() if isinstance(item, pytest.Function) else ()
    shared = any(each.scope in {"class", "module"} for definitions in fixtures for each in definitions)
    return str(item.path) if shared else None


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    server = RedisServer()
    yield server
    server.stop()


@pytest.fixture
def start_redis() -> Iterator[Callable[..., RedisServer]]:
    """Return a function that starts another server: ``start_redis(password=..., port=...)``."""
    with ExitStack() as servers:

        def start(**options: Any) -> RedisServer:
            server = RedisServer(**options)
            servers.callback(server.stop)
            return server

        yield start


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with what tests/make-certificates makes."""
    directory = tmp_path_factory.mktemp("certificates")
    subprocess.run([Path(__file__).parent / "make-certificates", directory], check=True)
    return directory


@pytest.fixture(scope="session")
def tls_server(certificates: Path) -> Iterator[TlsRedisServer]:
    server = TlsRedisServer(certificates)
    yield server
    server.stop()


@pytest.fixture
def start_tls_redis(certificates: Path) -> Iterator[Callable[..., TlsRedisServer]]:
    """Return a function that starts another: ``start_tls_redis(certificate=..., tls_auth_clients=...)``."""
    with ExitStack() as servers:

        def start(**options: Any) -> TlsRedisServer:
            server = TlsRedisServer(certificates, **options)
            servers.callback(server.stop)
            return server

        yield start


@pytest.fixture
def start_cluster() -> Iterator[Callable[..., Cluster]]:
    """Return a function that starts a cluster: ``start_cluster(masters=3, replicas=1)``."""
    with ExitStack() as clusters:

        def start(**options: Any) -> Cluster:
            cluster = Cluster(**options)
            clusters.callback(cluster.stop)
            return cluster

        yield start


@pytest.fixture
def start_sentinels() -> Iterator[Callable[..., Sentinels]]:
    """Return a function that starts a master, replicas and sentinels: ``start_sentinels(sentinels=3)``."""
    with ExitStack() as all_of_them:

        def start(**options: Any) -> Sentinels:
            sentinels = Sentinels(**options)
            all_of_them.callback(sentinels.stop)
            return sentinels

        yield start


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Have SIGINT raise KeyboardInterrupt, which a shell prevents in what it runs in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def prefix() -> str:
    return f"t{secrets.token_hex(6)}"


@pytest.fixture
def redis_store(redis_server: RedisServer, prefix: str) -> RedisStore:
    return RedisStore(redis_server.unix_url(), timeout=PATIENCE, prefix=prefix)


@pytest.fixture(scope="session")
def shared_memory() -> None:
    """Skip the test where this system has no shared memory, with what the store says."""
    try:
        SharedMemoryStore("test")
    except StoreConfigError as error:
        pytest.skip(str(error))


@pytest.fixture
def shared_memory_store(shared_memory: None) -> Iterator[SharedMemoryStore]:
    store = SharedMemoryStore(f"test-{secrets.token_hex(6)}", max_bytes=4 << 20, timeout=PATIENCE)
    yield store
    store.unlink()


@pytest.fixture
def values_store() -> ValueStore:
    store = DictStore()
    store.timeout = PATIENCE
    return store


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgreSQLServer]:
    server = PostgreSQLServer()
    yield server
    server.stop()


@pytest.fixture
def start_postgresql() -> Iterator[Callable[[], PostgreSQLServer]]:
    """Return a function that starts another, for tests that end it."""
    with ExitStack() as servers:

        def start() -> PostgreSQLServer:
            server = PostgreSQLServer()
            servers.callback(server.stop)
            return server

        yield start


@pytest.fixture
def postgresql_url(postgresql_server: PostgreSQLServer, prefix: str) -> str:
    """Return the URL of a store that has a table of its own."""
    return postgresql_server.url(table=prefix, timeout=PATIENCE, unlogged="true")


@pytest.fixture
def postgresql_store(postgresql_url: str) -> Iterator[Store]:
    store = PostgreSQLStore(postgresql_url)
    yield store
    store.close()


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[Store]:
    store = SQLiteStore(tmp_path / "limits.db", timeout=PATIENCE)
    yield store
    store.close()


@pytest.fixture(params=["memory", "shared_memory", "redis", "values", "sqlite", "postgresql"])
def store(request: pytest.FixtureRequest) -> Store:
    if request.param == "memory":
        return MemoryStore()
    store: Store = request.getfixturevalue(f"{request.param}_store")
    return store


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(start=START)


@pytest.fixture
def at(clock: ManualClock) -> Callable[[float], None]:
    """Return a function that moves the clock to so many seconds after ``START``."""

    def move(seconds: float) -> None:
        clock.set(START + seconds)

    return move


@pytest.fixture
def make_limiter(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., AnyLimiter]]:
    """Return Limiter, or what calls an AsyncLimiter on an event loop, which is then never blocked long."""
    if getattr(request, "param", "threads") == "threads":
        yield Limiter
        return
    monkeypatch.setattr(loops, "CallsOfLoop", TimedCalls)
    TimedCalls.longest_turn = 0.0
    loop = LoopThread()
    yield partial(AwaitedLimiter, loop)
    loop.stop()
    assert_short(TimedCalls.longest_turn)


@pytest.fixture
def build(
    store: Store, clock: ManualClock, make_limiter: Callable[..., AnyLimiter]
) -> Callable[..., AnyLimiter]:
    """Return ``Limiter`` with the store and the clock of this test."""

    def limiter(limits: Any, **options: Any) -> AnyLimiter:
        return make_limiter(limits, **{"name": "default", "store": store, "clock": clock, **options})

    return limiter
