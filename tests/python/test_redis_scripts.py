"""What Redis runs can be read beforehand, and fragments truly say what they take and give (lua/README.md)."""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

import pytest
import redis

from overlimit import FixedWindow, Limiter, Penalty, SlidingWindow, TokenBucket
from overlimit.limits import ALGORITHMS
from overlimit.limits.limit import Terms
from overlimit.redis_scripts import main, script_for
from programs import finished

LUA = Path(__file__).parents[2] / "lua"
FRAGMENTS = sorted((LUA / "lib").glob("*.lua"))
DECIDING = """\
-- SHA1      {sha1}
-- KEYS[1]   ol1:example:user:1
-- KEYS[2]   ol1:example:user:2
-- ARGV[1]   151 bytes, little-endian:
--           now -1, slack_ms 1000, patience 9223372036854775807
--           for ol1:example:user:1: policy at 61, number of limits 1, cost 1, role 0
--           for ol1:example:user:2: policy at 61, number of limits 1, cost 1, role 0
--           sliding_window of 10 per 1 minute: algorithm 2, tag 2d1e272905b80041, then 10, 1200000, 50
--           penalty: levels 2, extend 0, then 60000000, 60000000, 300000000, 300000000
--
{text}"""
REFUNDING = """\
-- SHA1      {sha1}
-- KEYS[1]   ol1:example:user:1
-- ARGV[1]   86 bytes, little-endian:
--           now -1, answer 0
--           for ol1:example:user:1: policy at 28, number of limits 1, cost 1, role 0
--           fixed_window of 10 per 1 minute: algorithm 1, tag acf940ca49794e19, then 10, 60000000, 0, 0, 0, 0
--           penalty: levels 0, extend 0, then nothing
-- ARGV[2]   32 bytes, little-endian:
--           zeros here: per key when it was created, and per limit its state right after the charge
--
{text}"""


class TestScripts:
    @pytest.fixture
    def client(self, redis_server):
        with redis.Redis(unix_socket_path=str(redis_server.socket_path)) as client:
            yield client

    @pytest.mark.parametrize("algorithm", ALGORITHMS)
    def test_are_those_that_a_store_sends(self, client, redis_store, algorithm):
        limits = [ALGORITHMS[algorithm].from_terms(Terms(limit, 60)) for limit in (5, 9)]
        limiter = Limiter(limits, name="example", store=redis_store, penalty=Penalty(5))
        sent = [
            script_for(limits, which, penalty=Penalty(5), identifiers=number)
            for which, number in [("decide", 1), ("decide", 2), ("read", 1), ("refund", 2), ("lock", 1)]
        ]
        client.script_flush()
        limiter.hit("user:1")
        limiter.refund(limiter.hit("user:1", "user:2"))
        limiter.peek("user:1")
        limiter.lock("user:1", 1)
        assert client.script_exists(*[script.sha1 for script in sent]) == [True] * len(sent)

    def test_are_seven_whatever_the_limits(self):
        shapes = [[FixedWindow(1, 60)], [TokenBucket(5, burst=20), SlidingWindow(10, 60)]]
        sha1s = {
            script_for(limits, which, penalty=penalty, identifiers=number).sha1
            for limits in shapes
            for penalty in (None, Penalty(5))
            for which in ("decide", "read", "refund", "lock", "lease", "restore")
            for number in (1, 2)
            if number == 1 or which not in {"lease", "restore"}
        }
        assert len(sha1s) == 7

    @pytest.mark.parametrize("which", ["decide", "read", "refund", "lock", "lease", "restore"])
    def test_are_known_by_the_sha1_of_their_text(self, client, which):
        script = script_for([FixedWindow(1, 60)], which)
        assert script.sha1 == hashlib.sha1(script.text.encode()).hexdigest()
        assert script.sha1 == client.script_load(script.text)

    def test_run_with_the_keys_and_arguments_that_are_shown(self, client, prefix):
        for which, charged in (("decide", 16), ("lease", 16 + 1)):
            script = script_for([FixedWindow(1, 60)], which)
            key = f"{prefix}:{script.keys[0].decode()}"
            replies = [client.eval(script.text, 1, key, *script.arguments) for _ in range(2)]
            client.delete(key)
            assert [reply[0] for reply in replies] == [charged, 8]

    def test_show_their_keys_and_arguments_above_the_text(self):
        deciding = script_for([SlidingWindow(10, 60)], penalty=Penalty([60, 300]), identifiers=2)
        refunding = script_for([FixedWindow(10, 60)], "refund")
        for script, shown in [(deciding, DECIDING), (refunding, REFUNDING)]:
            assert script.commented() == shown.format(sha1=script.sha1, text=script.text)

    def test_show_what_a_lease_is_asked_for(self):
        shown = script_for([FixedWindow(10, 60)], "lease").commented()
        assert "patience 9223372036854775807, cost 1, extra 0, term 0, number of limits 1\n" in shown

    @pytest.mark.parametrize("which", ["lease", "restore"])
    def test_lease_and_restore_for_one_identifier(self, which):
        with pytest.raises(ValueError, match=f"'{which}' takes one identifier, not 2"):
            script_for([FixedWindow(10, 60)], which, identifiers=2)

    def test_show_what_is_restored(self):
        shown = script_for([FixedWindow(10, 60)], "restore").commented()
        assert "--           now -1, slack_ms 1000, number of limits 1\n" in shown
        assert "-- ARGV[2]   8 bytes, little-endian:\n--           zeros here: when the key" in shown

    def test_show_limits_in_the_order_of_their_numbers(self):
        script = script_for([TokenBucket(5, burst=20), FixedWindow(10, 60)])
        assert [limit.algorithm for limit, _ in script.limits] == ["fixed_window", "token_bucket"]
        assert "fixed_window of 10 per 1 minute: algorithm 1, tag" in script.commented()


class TestTheCommand:
    def test_prints_the_script_behind_a_comment_that_shows_its_arguments(self):
        module = [sys.executable, "-W", "error", "-m", "overlimit.redis_scripts"]
        done = finished([*module, "10/second; 120/minute"])
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("-- SHA1      ")
        for line in [
            "-- KEYS[1]   ol1:example:user:1",
            ", cost 1, number of limits 2\n",
            "sliding_window of 10 per 1 second",
        ]:
            assert line in done.stdout

    def test_prints_the_script_alone_for_other_programs(self, capsys):
        assert main(["10/second", "--script-only"]) == 0
        assert capsys.readouterr().out == script_for([SlidingWindow(10, 1)]).text

    def test_takes_what_makes_another_script(self, capsys):
        options = ["--algorithm", "fixed_window", "--penalty", "60,300", "--extend", "--identifiers", "3"]
        expected = script_for([FixedWindow(10, 60)], penalty=Penalty([60, 300], extend=True), identifiers=3)
        assert main(["10/minute", *options]) == 0
        assert capsys.readouterr().out == expected.commented()

    def test_explains_itself(self, capsys):
        with pytest.raises(SystemExit, match=r"^0$"):
            main(["--help"])
        text = capsys.readouterr().out
        assert "--which {decide,read,refund,lock,lease,restore}" in text
        assert all(name in text for name in ALGORITHMS)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ([], "LIMITS"),
            (["10 a second"], "expected '/' or 'per'"),
            (["10/second", "--algorithm", "bucket"], "algorithm must be"),
            (["10/second", "--penalty", "long"], "expected seconds such as 60 or 60,300, not 'long'"),
            (["10/second", "--penalty", "0"], "levels must be"),
            (["10/second", "--identifiers", "65"], "identifiers must be 1 to 64"),
            (["10/second", "--identifiers", "0"], "identifiers must be 1 to 64"),
            (["10/second", "--which", "write"], "'write'"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_says_what_is_wrong_and_fails(self, capsys, arguments, message):
        with pytest.raises(SystemExit, match=r"^2$"):
            main(arguments)
        printed = capsys.readouterr()
        assert printed.out == ""
        assert message in printed.err


LUA_WORDS = set(
    re.findall(
        r"\w+",
        "and break do else elseif end false for function if in local nil not or repeat return then true "
        "until while KEYS ARGV redis string table math type ipairs pairs",
    )
)
COMMENT_OR_TEXT = re.compile(r"'[^'\n]*'|--[^\n]*")
LOCAL = re.compile(r"\b(?:local|for)\s+((?:\w+\s*,\s*)*\w+)")
WORD = re.compile(r"(?<![\w.:])[A-Za-z_]\w*")
PASTED = re.compile(r"--\[\[ (\w+) \]\]")
GENERATED = {"steps", "refunds"}


def listed(path: Path, kind: str) -> set[str]:
    """Return the names that a fragment's header lists: first in a line, with commas between them."""
    names: set[str] = set()
    inside = False
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("-- "):
            break
        inside = line.startswith(f"-- {kind} ") or (inside and line.startswith("--    "))
        if inside:
            first = re.split(r" {2,}", line[10:].strip())[0]
            names |= set(re.findall(r"\w+", first))
    return names


def ambient() -> set[str]:
    prelude = LUA / "lib" / "prelude.lua"
    return listed(prelude, "takes") | listed(prelude, "gives")


def unexplained(path: Path) -> set[str]:
    """Return the names that a fragment uses without declaring or listing them."""
    text = path.read_text(encoding="utf-8")
    known = LUA_WORDS | ambient() | listed(path, "takes") | listed(path, "gives")
    for name in set(PASTED.findall(text)) - GENERATED:
        known |= listed(LUA / "lib" / f"{name}.lua", "gives")
    code = COMMENT_OR_TEXT.sub("", text)
    for names in LOCAL.findall(code):
        known |= set(re.findall(r"\w+", names))
    keys = set(re.findall(r"[{,]\s*(\w+)\s*=[^=]", code))
    return set(WORD.findall(code)) - known - keys


class TestFragments:
    def test_share_fourteen_names(self):
        assert len(ambient()) == 14

    @pytest.mark.parametrize("path", sorted(LUA.rglob("*.lua")), ids=lambda path: path.stem)
    def test_are_lua_by_themselves(self, path, redis_server):
        with redis.Redis(unix_socket_path=str(redis_server.socket_path)) as client:
            complaint = client.eval("return select(2, loadstring(ARGV[1])) or ''", 0, path.read_bytes())
        assert complaint == b""

    @pytest.mark.parametrize("path", FRAGMENTS, ids=lambda path: path.stem)
    def test_begin_with_what_they_take_and_give(self, path):
        text = path.read_text(encoding="utf-8")
        assert text.startswith(f"-- {path.stem}: ")
        assert listed(path, "takes")
        assert listed(path, "gives")

    @pytest.mark.parametrize("path", FRAGMENTS, ids=lambda path: path.stem)
    def test_use_no_name_that_they_do_not_list(self, path):
        assert unexplained(path) == set()

    @pytest.mark.parametrize("path", FRAGMENTS, ids=lambda path: path.stem)
    def test_list_no_name_that_they_have_nothing_to_do_with(self, path):
        text = path.read_text(encoding="utf-8")
        pasted = [(LUA / "lib" / f"{name}.lua") for name in set(PASTED.findall(text)) - GENERATED]
        reached = text.split("\n\n" if path.stem == "charge" else "\n", 1)[1]
        body = "\n".join(line for line in reached.splitlines() if not line.startswith("-- "))
        words = set(WORD.findall(body)).union(
            *(listed(other, "takes") | listed(other, "gives") for other in pasted)
        )
        # What the steps of limits use.
        generated = {"cost", "needed", "extra", "term", "patience"} if "--[[ steps ]]" in text else set()
        assert (listed(path, "takes") | listed(path, "gives")) - words - generated - {"nothing"} == set(
            {"unpack", "pack", "args"} if path.stem == "prelude" else ()
        )
