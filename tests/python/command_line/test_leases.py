"""What the commands for operators say of leases: of those of others only what the store keeps."""

from __future__ import annotations

import re

import pytest

from overlimit import FixedWindow, Limiter, RedisStore, SharedMemoryStore, TokenBucket
from overlimit.command_line.operating.shapes import readings_of
from overlimit.command_line.operating.values import Record, Value
from servers.patience import PATIENCE

from .test_commands import printed
from .test_operating import refused, told

MANY = FixedWindow(1000, per=3600)
NOW = 1_795_721_192_000_000


@pytest.fixture
def url(redis_server, prefix):
    return f"{redis_server.unix_url()}&prefix={prefix}&timeout={PATIENCE}&lease=0.5&max_stale=2"


class TestCheck:
    def test_says_how_far_decisions_can_be_from_those_of_the_store(self, url):
        said = printed("check", url, "--name", "api", "--limits", "100/minute", "user:42")
        assert (
            "A process leases for 0.5 s at the longest; units leased by running processes count as used"
            in said
        )
        assert "a process notices what others do within 2 s." in said

    def test_says_why_nothing_is_leased(self, url):
        said = printed("check", url, "--name", "api", "--limits", "4/minute", "user:42")
        assert "Nothing is leased: a limit grants less than 5 at once." in said

    def test_has_bounds_in_json_without_what_only_running_processes_know(self, url):
        found = told(0, "check", url, "--name", "api", "--limits", "100/second", "user:42")["bounds"]
        assert found == {"over": 0, "stale": 2.0, "lease": 0.02, "reason": None, "share": 0.25}

    def test_says_nothing_of_it_without_these_options(self, url):
        said = printed("check", url.partition("&lease")[0], "--name", "api", "--limits", "9/minute", "a")
        assert "lease" not in said
        assert "notices" not in said
        assert "loses" not in said

    def test_says_what_comes_back(self, url):
        said = printed("check", f"{url}&remember=600", "--name", "api", "--limits", "9/minute", "a")
        assert "What the server loses, a process brings back as it was told of it within 600 s." in said


class TestBench:
    def test_counts_what_took_no_command(self, url):
        answer = told(0, "bench", url, "--seconds", "0.2", "--identifiers", "1", "--limits", "10000000/hour")
        assert answer["leased"] > 10 * answer["asked"] > 0
        assert answer["leased"] + answer["asked"] >= answer["decisions"]
        assert {answer["refusals"], answer["lapsed"]} == {0}

    def test_says_so(self, url):
        said = printed("bench", url, "--seconds", "0.1", "--identifiers", "1", "--limits", "10/hour")
        counts = re.search(
            r"^([\d,]+) commands\. ([\d,]+) decisions took none: ([\d,]+) from leases, ([\d,]+) cached ref",
            said,
            re.M,
        )
        commands, unasked, leased, refusals = (int(each.replace(",", "")) for each in counts.groups())
        assert commands < refusals <= leased + refusals == unasked
        assert "commands" not in printed("bench", url.partition("&lease")[0], "--seconds", "1e-9")


class TestShow:
    def test_says_what_of_a_bucket_is_held(self, url):
        limiter = Limiter(TokenBucket(1000, per=60), name="api", store=RedisStore(url))
        while limiter.stats()["held"] == 0:
            assert limiter.hit("a")
        (record,) = told(0, "show", url, "--policy", "api", "a")["records"]
        assert len(record["cells"]) >= 2

    def test_counts_holds_that_have_not_passed(self):
        cells = [(0, -60_000), (NOW - 1, 60_000), (NOW + 1, 120_000), (NOW + 250_000, 180_000)]
        record = Record(1, NOW + 9_000_000, (6_000_000, NOW - 500_000, 60_000), cells)
        (reading,) = readings_of(Value(NOW - 1_000_000, [record]), {}, NOW)
        assert reading.words == (
            "100 tokens were used as of 0.5 s ago, 5 of them leased, spent or not, for up to 0.25 s more"
        )


@pytest.mark.usefixtures("shared_memory")
class TestFiles:
    """What ``overlimit shm`` says of the files in which the processes of a host lease as one."""

    def test_are_listed_shown_and_removed(self, url, prefix):
        limiter = Limiter(MANY, name="api", store=f"{url}&lease_in=shm://{prefix}")
        while limiter.stats()["held"] == 0:
            assert limiter.hit("a")
        place = f"shm://{prefix}"
        (file,) = (each for each in told(0, "shm", "list")["files"] if each["url"] == place)
        assert (file["holds"], file["keys"]) == ("leases", None)
        assert 1e6 < file["bytes"] < 1e7
        assert file["path"].endswith(f"-{prefix}-leases-v1")
        assert re.search(f"^{place} +leases ", printed("shm", "list"), re.M)
        assert printed("shm", "show", place) == printed("shm", "show", "--leases", place)
        assert told(0, "shm", "show", place) | {"holds": "leases"} == {
            "status": "ok", "holds": "leases", **{name: file[name] for name in ("path", "bytes", "mode")}
        }  # fmt: skip
        assert f"{file['path']} has leases" in refused(2, "top", place)
        Limiter("9/minute", name="api", store=place).hit("a")
        assert told(0, "shm", "show", place)["keys"] == 1
        assert "--yes" in refused(2, "shm", "remove", "--leases", place, "--json")
        assert (
            told(0, "shm", "remove", place, "--yes")["message"]
            == f"{SharedMemoryStore(prefix).path} is removed."
        )
        assert (
            told(0, "shm", "remove", "--leases", place, "--yes")["message"] == f"{file['path']} is removed."
        )
        assert "no file with leases" in refused(2, "shm", "show", "--leases", place)
        assert limiter.hit("a").source == "lease"

    @pytest.mark.parametrize("place", ["shm://{name}", "shm://{folder}/leases?mode=660"])
    def test_are_used_and_not_made(self, url, prefix, tmp_path, place):
        place = place.format(name=prefix, folder=tmp_path)
        whole = f"{url}&lease_in={place}"
        bench = ["bench", whole, "--seconds", "0.1", "--identifiers", "1", "--limits", "1000000/hour"]
        about = ["--policy", "api", "a"]
        for command in (
            ["check", whole, "--name", "api", "--limits", "100/minute", "--hit", "a"],
            ["show", whole, *about],
            ["lock", whole, *about, "9"],
            ["unlock", whole, *about],
            ["reset", whole, *about],
            bench,
        ):
            told(0, *command)
        name = place.partition("?")[0]
        assert "no file with leases" in refused(2, "shm", "show", "--leases", name)
        limiter = Limiter(MANY, name="api", store=whole)
        while limiter.stats()["held"] == 0:
            assert limiter.hit("a")
        assert told(0, *bench)["leased"] > 0
        assert told(0, "reset", whole, *about)["was_kept"] is True
        assert limiter.hit("a").source == "store"  # as the host has no lease any more
        assert told(0, "shm", "remove", "--leases", name, "--yes")

    def test_need_a_lease(self, url):
        without = url.partition("&lease")[0]
        assert "none without lease" in refused(2, "top", f"{without}&lease_in=shm://nowhere")
        assert "lease_in must" in refused(2, "top", f"{url}&lease_in=nowhere")

    def test_at_paths_are_no_others(self, url, tmp_path):
        path = tmp_path / "leases"
        path.write_bytes(b"else")
        assert "no file with leases" in refused(2, "shm", "remove", "--leases", f"shm://{path}", "--yes")
        path.unlink()
        limiter = Limiter(MANY, name="api", store=f"{url}&lease_in=shm://{path}")
        while limiter.stats()["held"] == 0:
            assert limiter.hit("a")
        assert printed("shm", "remove", f"shm://{path}", "--yes") == f"{path} is removed.\n"
        assert not path.exists()


def test_what_is_held_counts_as_used(url):
    limiter = Limiter(FixedWindow(1000, per=3600), name="api", store=RedisStore(url))
    while limiter.stats()["held"] == 0:
        assert limiter.hit("a")
    (top,) = told(0, "top", url, "--policy", "api")["top"]
    assert top["charged"] >= limiter.stats()["calls"] + limiter.stats()["held"]
