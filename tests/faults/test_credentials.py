"""The password or the permissions are wrong, and then right."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

import pytest

from overlimit import StoreConfigError
from servers.patience import eventually

from .answering import answers
from .bounds import LATEST, RECOVERY

SECRET = "s3cret"
BOB = f"ACL SETUSER bob reset on >{SECRET} ~* &*"


@dataclass(frozen=True)
class Wrong:
    """What the URL says, what makes it wrong on the server, and what makes it right."""

    credentials: str
    at_first: str
    at_last: str


WRONG = {
    "no password": Wrong("", "CONFIG SET requirepass other", "ACL SETUSER default nopass"),
    "another password": Wrong(
        f":{SECRET}@", "CONFIG SET requirepass other", f"CONFIG SET requirepass {SECRET}"
    ),
    "another user": Wrong(f"bob:{SECRET}@", "ACL SETUSER alice on", f"{BOB} +@all"),
    "no permission for scripts": Wrong(f"bob:{SECRET}@", f"{BOB} +@all -@scripting", f"{BOB} +@all"),
    "no permission inside a script": Wrong(f"bob:{SECRET}@", f"{BOB} +@all -set", f"{BOB} +@all"),
    "no permission for the keys": Wrong(f"bob:{SECRET}@", f"{BOB} resetkeys ~other +@all", f"{BOB} +@all"),
}


@pytest.fixture(params=WRONG.values(), ids=WRONG)
def wrong(request):
    return request.param


@pytest.fixture
def admin(server, wrong):
    """A connection that stays logged in, on a server where it is wrong."""
    with closing(server.client()) as client:
        client.execute_command(*wrong.at_first.split())
        yield client


@pytest.fixture
def limiter(server, admin, wrong, limiter_at):
    return limiter_at(f"redis://{wrong.credentials}127.0.0.1:{server.port}/0", timeout=1.0)


def accepted(admin):
    return admin.info("stats")["total_connections_received"]


def test_it_is_a_configuration_error_that_charges_nothing(limiter, admin, ledger, wrong):
    outcomes = ledger.hit_times(3, limiter, "a")
    assert all(isinstance(outcome, StoreConfigError) for outcome in outcomes), outcomes
    assert (ledger.failed, ledger.unknown, ledger.acknowledged) == (3, 0, 0)
    assert ledger.slowest < LATEST
    assert not any(SECRET in f"{error!r} {error}" for error in ledger.errors)
    assert admin.dbsize() == 0


@pytest.mark.check
def test_it_works_soon_after_it_became_right(limiter, admin, ledger, wrong):
    ledger.hit_for(0.3, limiter, "a")
    admin.execute_command(*wrong.at_last.split())
    eventually(lambda: answers(limiter), within=RECOVERY)
    ledger.hit_times(5, limiter, "b")
    assert ledger.acknowledged == 5
    assert limiter.peek("b", cost=0).remaining == 1_000_000 - 5


@pytest.mark.check
@pytest.mark.parametrize(
    "wrong", [WRONG["another password"], WRONG["no permission inside a script"]], indirect=True
)
def test_a_storm_of_calls_is_no_storm_of_connections(limiter, admin, ledger):
    before = accepted(admin)
    with ledger.hammering(limiter, "a"):
        eventually(lambda: len(ledger.errors) > 20)
        ledger.hit_for(0.6, limiter, "a")
    assert 1 <= accepted(admin) - before <= 5 + 1
    assert all(isinstance(error, StoreConfigError) for error in ledger.errors)
