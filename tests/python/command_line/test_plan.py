"""``overlimit plan`` in a repository of git, and ``overlimit suggest --write``."""

from __future__ import annotations

import json
import re
import stat
import subprocess

import click
import pytest
from click.testing import CliRunner

from overlimit import InvalidLimit
from overlimit.command_line.program import program
from overlimit.limits_file import read_limits_file
from overlimit.simulation import RouteLimits

LIMITS = """# The limits of the shop.
version = 1  # of the format
default = "100/minute"

[policies.search]
# What the index bears.
limits = "{}/minute"  # since March

[routes]
"/search" = {{policy = "search"}}
"""

ME = ("-c", "user.name=test", "-c", "user.email=test@example.com")
COMMIT = ("git", *ME, "commit", "-q", "-m")


def line(address: str, second: int, target: str, user: str = "-") -> str:
    when = f"02/Mar/2026:12:00:{second:02d} +0000"
    return f'{address} - {user} [{when}] "GET {target} HTTP/1.1" 200 5 "-" "x"'


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """Return a repository whose limits.toml was changed since its only commit."""
    lines = [line("203.0.113.1", k, f"/search?q={k}", "ann") for k in range(8)]
    lines += [line("203.0.113.2", k, "/search", "ben") for k in range(12)]
    lines += [line(f"203.0.113.{k}", 0, "/search") for k in range(3, 11)]
    lines += [line("203.0.113.1", k, "/other") for k in range(50)]
    (tmp_path / "access.log").write_text("\n".join(lines))
    (tmp_path / "limits.toml").write_text(LIMITS.format(10))
    monkeypatch.chdir(tmp_path)
    for command in (["git", "init", "-q"], ["git", "add", "limits.toml"], [*COMMIT, "Limit searches"]):
        subprocess.run(command, check=True)
    (tmp_path / "limits.toml").write_text(LIMITS.format(5))
    return tmp_path


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(program, list(arguments), standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.return_value or 0, done.stdout


def plan(*more: str) -> tuple[int, str]:
    return run("plan", "limits.toml", "--log", "access.log", *more)


def test_who_is_newly_refused(repository):
    code, text = plan("--against", "HEAD")
    assert code == 0
    # One had 12 searches and was refused before; one has 8, which were within 10.
    assert "78 requests: 1 of 10 identifiers (10.00%) newly refused" in text
    code, text = plan("--against", "HEAD", "--labels", "user", "--json")
    told = json.loads(text)
    assert told["newly_refused"] == [
        {"label": "ann", "route": "/search", "identifiers": 1, "events": 3},
        {"label": "ben", "route": "/search", "identifiers": 0, "events": 5},
    ]
    assert (told["identifiers"], told["newly_refused_identifiers"], told["share"]) == (10, 1, 0.1)


@pytest.mark.parametrize(
    ("bound", "code"), [("10%", 0), ("0.1", 0), ("9.9%", 1), ("0.099", 1), ("0%", 1), ("100%", 0)]
)
def test_the_bound_is_on_identifiers(repository, bound, code):
    assert plan("--against", "HEAD", "--fail-over", bound)[0] == code


def test_among_whom(repository):
    about = ("--against", "HEAD", "--labels", "user", "--fail-over", "0%")
    assert plan(*about, "--among", "ben") == (0, plan(*about, "--among", "ben")[1])
    code, text = plan(*about, "--among", "ann", "--json")
    assert code == 1
    assert json.loads(text)["share"] == 1.0


def test_what_was_changed_is_told_of_any_limits(repository):
    """Those of policies that no route has, too, and a side without any limits of requests is none."""
    before, now = repository / "before.toml", repository / "now.toml"
    before.write_text('version = 1\npolicies.login = "5/minute"\npolicies.old = "1/second"')
    now.write_text(
        'version = 1\npolicies.login = "3/minute"\n[policies.new]\nlimits = "2/day"\npenalty = [60]'
    )
    about = ("plan", "now.toml", "--log", "access.log", "--fail-over", "0%")
    code, text = run(*about, "--against", "before.toml")
    assert code == 0
    assert "0 of 10 identifiers" in text
    unknown = "no route uses it, so the log does not say whom this hits"
    assert text.splitlines()[-4:-1] == [
        f"policies.login: 5 per 1 minute -> 3 per 1 minute; {unknown}",
        f"policies.old: removed, which was 1 per 1 second; {unknown}",
        f"policies.new: added, 2 per 1 day, Penalty(60); {unknown}",
    ]
    assert run(*about, "--against", "limits.toml")[0] == 0
    code, text = run("plan", "limits.toml", *about[2:], "--against", "before.toml", "--json")
    assert (code, json.loads(text)["newly_refused_identifiers"]) == (1, 2)
    changes = {each.pop("limits"): each for each in json.loads(text)["changes"]}
    assert changes.keys() == {
        "policies.login",
        "policies.old",
        "policies.search",
        'routes."/search"',
        "default",
    }
    assert changes["default"] == {"before": None, "after": "100 per 1 minute", "checked": True}
    assert [limits for limits, each in changes.items() if not each["checked"]] == [
        "policies.login",
        "policies.old",
    ]
    code, text = plan("--against", "limits.toml")
    assert (code, text.splitlines()[-2]) == (0, "no limits were changed")
    with pytest.raises(InvalidLimit, match=r"now\.toml, line 1: .* write routes, default or application"):
        RouteLimits.from_file("now.toml")


def test_a_symbolic_link_is_what_it_leads_to(repository, tmp_path_factory):
    (repository / "deployed").mkdir()
    link = repository / "deployed" / "limits.toml"
    link.symlink_to("../limits.toml")
    subprocess.run(["git", "add", "deployed"], check=True)
    subprocess.run([*COMMIT, "Deploy"], check=True)
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "limits.toml"  # which is in no repository
    elsewhere.symlink_to(repository / "limits.toml")
    for file in (link, elsewhere):
        code, text = run("plan", str(file), "--log", "access.log", "--against", "HEAD", "--json")
        assert (code, json.loads(text)["newly_refused_identifiers"]) == (0, 1)
    link.unlink()
    link.write_text(LIMITS.format(5))  # which was a link then
    _, text = run("plan", str(link), "--log", "access.log", "--against", "HEAD", "--json")
    assert json.loads(text)["newly_refused_identifiers"] == 1


def test_a_file_goes_before_a_revision_of_its_name(repository):
    (repository / "HEAD").write_text(LIMITS.format(5))
    code, text = plan("--against", "HEAD", "--json")
    assert (code, json.loads(text)["newly_refused"]) == (0, [])


def test_a_revision_is_a_commit_in_whatever_words_of_git(repository):
    assert plan("--against", ":/Limit", "--json") == plan("--against", "HEAD", "--json")


def test_a_file_that_is_new_is_compared_with_no_limits(repository):
    (repository / "new.toml").write_text(LIMITS.format(5))
    code, text = run("plan", "new.toml", "--log", "access.log", "--against", "HEAD", "--json")
    assert json.loads(text)["newly_refused_identifiers"] == 2
    assert code == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--against", "nowhere"), "neither a file nowhere nor such a revision"),
        (("--against", "HEAD:limits.toml"), "neither a file HEAD:limits.toml nor such a revision"),
        (("--against=--help",), "is a file or a revision, not --help"),
        (("--against", "HEAD", "--fail-over", "2"), "a share is written as 0.1% or 0.001"),
        (("--against", "HEAD", "--among", "nobody"), "'nobody' is no identifier or label"),
        (("--against", "HEAD", "--endpoint", "target"), "target"),
    ],
)
def test_what_is_wrong_ends_with_2(repository, arguments, told):
    with pytest.raises(click.ClickException) as raised:
        plan(*arguments)
    assert raised.value.exit_code == 2
    assert told in raised.value.format_message()


def test_of_a_shallow_clone_more_is_to_be_fetched(repository, monkeypatch):
    subprocess.run([*COMMIT, "Limit them more", "-a"], check=True)
    subprocess.run(["git", "clone", "-q", "--depth", "1", repository.as_uri(), "shallow"], check=True)
    for folder, told in (("shallow", True), (".", False)):
        monkeypatch.chdir(repository / folder)
        with pytest.raises(click.ClickException) as raised:
            run("plan", "limits.toml", "--log", str(repository / "access.log"), "--against", "HEAD~5")
        assert ("fetch-depth: 0" in raised.value.format_message()) == told


def test_a_wrong_file_is_named_with_its_revision(repository):
    (repository / "limits.toml").write_text(LIMITS.format(5).replace("version = 1", "version = 3"))
    with pytest.raises(Exception, match=r"limits\.toml, line 2: version") as raised:
        plan("--against", "HEAD")
    assert raised.value.exit_code == 2


SUGGEST = ("suggest", "access.log", "--limits", "{}/minute", "--between", "1", "100")


def test_what_is_suggested_is_written_and_all_else_stays(repository):
    file = repository / "limits.toml"
    file.chmod(0o640)
    before = file.read_text().replace('"5/minute"', "'5/minute'")
    file.write_text(before)
    code, _ = run(
        *SUGGEST, "--where", "path.str.startswith('/search')", "--write", "limits.toml", "--policy", "search"
    )
    assert code == 0
    assert file.read_text() == before.replace("5/minute", "12/minute")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    run(*SUGGEST, "--lock", "60", "--lock", "300", "--write", "limits.toml", "--policy", "api")
    found = read_limits_file(file).policies
    assert found["api"].penalty.levels == (60, 300)
    assert found["search"].penalty is None
    assert "# What the index bears." in file.read_text()
    run(*SUGGEST, "--write", "fresh.toml", "--policy", "api")
    assert read_limits_file("fresh.toml").policies.keys() == {"api"}


def test_a_policy_that_no_route_uses_is_said_to_limit_nothing(repository):
    def said(policy: str) -> str:
        command = [*SUGGEST, "--write", "limits.toml", "--policy", policy]
        return str(CliRunner().invoke(program, command, standalone_mode=False).stderr)

    assert "limits nothing" not in said("search")
    told = said("login")
    assert 'under [routes], write "POST /path" = {policy = "login"}' in told
    assert "another key" not in told
    assert "the file's own default is another key" in said("default")


LISTED = """[
  "5/minute",  # a client
  # and
  "100/day",  # in all
]"""


@pytest.mark.parametrize(
    "written",
    [
        'policies.api.limits = "5/minute"  # why\npolicies.api.cost = 2\npolicies.b = "2/day"\n',
        'policies.api = "5/minute"  # why\npolicies.b = "2/day"\n',
        'policies = {api = "5/minute", b = "2/day"}  # why\n',
        'policies = {api = {limits = "5/minute", cost = 2}, b = "2/day"}  # why\n',
        'policies = {b = "2/day"}  # why\n',
        'policies.b = "2/day"  # why\n[routes]\n"/x" = {policy = "b"}  # there\n',
        f'[policies]\napi = {LISTED}  # why\nb = "2/day"\n',
        f"[policies]\nb = '2/day'\n[policies.api]\nlimits = {LISTED}  # why\npenalty = [\n  1,  # s\n]\n",
        '[policies.api]\nlimits = "1/day"\npenalty.levels = [5]  # s\n[policies.b]\nlimits = "2/day"\n',
        '[policies.b]\nlimits = "2/day"  # why\n[routes]\n"/x" = "1/d"\n[policies.api]\nlimits = ["9/d"]\n',
    ],
)
@pytest.mark.parametrize("more", [(), ("--limits", "900/hour", "--lock", "60", "--lock", "300")])
def test_what_is_suggested_is_written_in_whatever_way_a_policy_is(repository, written, more):
    file = repository / "limits.toml"
    file.write_text(f"# The limits of the shop.\nversion = 1\n{written}")
    before = read_limits_file(file)
    run(*SUGGEST, "--write", "limits.toml", "--policy", "api", *more)
    found = read_limits_file(file)
    named = found.policies.pop("api")
    assert 5 < named.limits[0].quota < 100
    assert len(named.limits) == (2 if more else 1)
    assert named.cost == (known := before.policies.pop("api", named)).cost
    assert (named.penalty.levels if more else named.penalty) == ((60, 300) if more else known.penalty)
    assert (found.policies, found.routes) == (before.policies, before.routes)
    kept = {each.strip() for each in re.findall("#.*", before.text)} - ({"# in all"} if not more else set())
    assert kept <= {each.strip() for each in re.findall("#.*", found.text)}


def test_nothing_is_written_without_an_answer_or_into_a_wrong_file(repository):
    file = repository / "limits.toml"
    before = file.read_text()
    with pytest.raises(click.ClickException) as raised:
        run(
            "suggest",
            "access.log",
            "--limits",
            "{}/minute",
            "--between",
            "1",
            "2",
            "--write",
            "limits.toml",
            "--policy",
            "search",
        )
    assert raised.value.exit_code == 1
    assert file.read_text() == before
    for more, told in (
        (("--write", "x.toml"), "go together"),
        (("--write", "x.toml", "--policy", "a", "--algorithm", "token_bucket"), "excludes"),
    ):
        with pytest.raises(Exception, match=told):
            run(*SUGGEST, *more)
    file.write_text("version = 5")
    with pytest.raises(Exception, match="line 1: version"):
        run(*SUGGEST, "--write", "limits.toml", "--policy", "search")
    assert file.read_text() == "version = 5"
