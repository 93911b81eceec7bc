"""``flask limits``: what it says of limits of all kinds, of stores and of mistakes, and what it resets."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner
from flask import Flask
from flask.cli import FlaskGroup

import limits_command
from limits_command import IMPORTS, SHOP, limits_of
from overlimit import Limiter, RedisStore
from overlimit.flask import RateLimit
from servers.redis_server import RedisServer

run = limits_command.run


def test_list_tells_everything_said_about_a_limit(run):
    done = run(SHOP, "list", "--json")
    first = limits_of(done, "orders", "/orders", "GET")[0]
    assert first == {
        "name": "orders:3-per-3600s",
        "limit": "3-per-3600s",
        "quota": 3,
        "window": 3600,
        "algorithm": "fixed_window",
        "policy": "shop--route--orders--orders",
        "kind": "route",
        "identifiers": "by_address, by_user",
        "methods": None,
        "scope": None,
        "cost": 2,
        "per_method": False,
        "shadow": False,
        "dynamic": None,
        "anonymous": "share",
        "exempt_when": None,
        "deduct_when": None,
        "penalty": None,
        "store": "memory://",
        "bounds": {"over": 0, "stale": 0.0, "lease": 0.0, "reason": "the store is not a RedisStore"},
        "store_options": {},
    }
    assert {each["kind"] for each in limits_of(done, "orders", "/orders", "GET")} == {
        "route",
        "application",
        "meta",
    }


def test_list_tells_methods_and_url_rules_with_other_limits_apart(run):
    done = run(SHOP, "list", "--json")
    found = [(each["rule"], each["methods"]) for each in done.json if each["endpoint"] == "orders"]
    assert found == [("/all-orders", ["GET"]), ("/orders", ["GET"]), ("/orders", ["POST"])]
    conditional = [
        each["exempt_when"] for each in limits_of(done, "orders", "/orders", "POST") if each["exempt_when"]
    ]
    assert conditional == ["shop.<lambda>()"]


def test_list_names_functions_and_calls_none(run):
    app = SHOP.replace('return "4/minute"', "raise SystemExit('called')")
    done = run(app, "list", "--json")
    assert done.status == 0, done.err
    dynamic = limits_of(done, "dynamic", "/dynamic", "GET")
    assert {each["dynamic"] for each in dynamic} == {"shop.plan()", "shop.asked()", None}
    assert {each["scope"] for each in dynamic} == {"shop.<lambda>()", None}
    assert {each["policy"] is None for each in dynamic if each["scope"]} == {True}
    assert all(each["policy"] for each in dynamic if not each["scope"])
    assert "called" not in run(app, "list").out


def test_list_shows_unprotected_routes_by_themselves(run):
    _, _, unprotected = run(SHOP, "list").out.partition("Unprotected")
    assert [line.split() for line in unprotected.splitlines()[1:]] == [["shared", "GET", "/shared"]]
    (limit,) = limits_of(run(SHOP, "list", "--json"), "shared", "/shared", "GET")
    assert (limit["kind"], limit["scope"], limit["shadow"]) == ("shared", "both", True)


@pytest.mark.parametrize("option", ["shadow=True", "enabled=False"])
def test_nothing_is_protected_by_a_rate_limit_that_refuses_nothing(run, option):
    app = f"{IMPORTS}app = Flask('shop', static_folder=None)\napp.get('/')(lambda: 'ok')\n"
    done = run(f"{app}RateLimit(app, default_limits='5/hour', {option})\n", "list", "--json")
    assert [each["protected"] for each in done.json] == [False]


def test_check_shows_each_policy_once_and_what_only_a_request_tells_without_numbers(run):
    done = run(SHOP, "check", "ip:192.0.2.1", "--json")
    assert done.status == 0, done.err
    found = {(each["name"], each["limit"]): each for each in done.json}
    assert len(found) == len(done.json) == 9
    assert found["application", "50-per-3600s"]["endpoints"] == ["dynamic", "orders"]
    assert found["dynamic", "4-per-60s"]["remaining"] == 4
    assert found["both", "4-per-60s"]["shadow"] is True
    unknown = {name for name, limit in found if limit is None}
    assert unknown == {"asked", "divided"}
    assert {found[name, None]["remaining"] for name in unknown} == {None}


def test_check_hints_at_how_identifiers_are_written(run):
    assert "write ip:192.0.2.1, as addresses are" in run(SHOP, "check", "192.0.2.1").err
    assert "write ip:2001:db8::/64, as addresses are" in run(SHOP, "check", "2001:db8::1").err
    assert "write user:ann for a user, as addresses are" in run(SHOP, "check", "ann").err
    assert "Hint: addresses are counted as ip:ADDRESS and users as user:ID" in run(SHOP, "check", "a:b").err
    assert "ip:2001:db8::/64" in run(SHOP, "check", "ip:2001:db8::1").err
    assert "memory://" in run(SHOP, "check", "192.0.2.1").err
    for identifier in ("ip:192.0.2.1", "ip:2001:db8::/64", "user:42", "anonymous"):
        said = run(SHOP, "check", identifier).err
        assert "counted as" not in said
        assert "addresses are" not in said


KEYS = f"""{IMPORTS}
from overlimit.flask import by_address, by_cookie, by_header, by_json, by_user
app = Flask("shop", static_folder=None)
limiter = RateLimit(app, store=os.environ.get("STORE"), key_prefix="shop", algorithm="fixed_window",
                    application_limits="50/hour", identifiers=[by_address, by_user], ipv6_prefix=48)

for path, who in {{
    "key": by_header("X-API-Key"),
    "cookie": by_cookie("session", normalise=str.strip),
    "login": [by_address, by_json("account", normalise=str.casefold)],
    "own": lambda: request.headers["X-Own"],
}}.items():
    view = limiter.limit("3/hour", identifiers=who, override_defaults=False)(lambda: "ok")
    app.add_url_rule(f"/{{path}}", path, view, methods=["POST"])
"""


@pytest.mark.parametrize(
    ("asked", "counted"),
    [
        (["--header", "X-API-Key=free-1"], {"key"}),
        (["--header", "x-api-key=free-1"], {"key"}),
        (["--cookie", "session= s3"], {"cookie"}),
        (["--json", "account=Ann"], {"login"}),
        (["--user", "42"], {"application", "own"}),
        (["--address", "2001:db8:1:2::3"], {"application", "login", "own"}),
        (["ip:2001:db8:1::/48"], {"application", "login", "own"}),
        (["json:account:ann"], {"login", "own"}),
        (["anonymous"], {"application", "key", "cookie", "login", "own"}),
    ],
)
def test_check_lists_what_counts_whom_it_is_asked_about(run, asked, counted):
    done = run(KEYS, "check", *asked, "--json")
    assert {each["name"] for each in done.json} == counted
    assert {each["name"] for each in run(KEYS, "check", "--json", *asked).json} == counted
    (identifier,) = {each["identifier"] for each in done.json}
    assert run(KEYS, "check", *asked).out.startswith(f"Limits of {identifier}:\n")


def test_whom_a_request_brings_is_checked_and_reset_without_a_hash(run, guarded):
    sent = {"headers": {"X-API-Key": "free-1", "Cookie": "session=s3"}, "json": {"account": "ANN"}}

    def visit():
        return [
            run(KEYS, path, visits=4, STORE=guarded, **sent).out for path in ("/key", "/cookie", "/login")
        ]

    assert visit() == ["[200, 200, 200, 429]"] * 3
    for asked in (["--header", "X-API-Key=free-1"], ["--cookie", "session=s3"], ["--json", "account=ann"]):
        (found,) = run(KEYS, "check", *asked, "--json", STORE=guarded).json
        assert (found["remaining"], found["status"]) == (0, "over")
        done = run(KEYS, "reset", *asked, "--json", STORE=guarded)
        assert done.json == {
            "identifiers": [found["identifier"]],
            "reset": [found["policy"]],
            "not_reset": [],
        }
    run(KEYS, "reset", "--address", "127.0.0.1", STORE=guarded)
    assert visit() == ["[200, 200, 200, 429]"] * 3


@pytest.mark.parametrize("command", ["check", "reset"])
@pytest.mark.parametrize(
    ("asked", "status", "says"),
    [
        (["--header", "X-Other=1"], 1, "no limit of this app counts the header X-Other"),
        (["--json", "name=ann"], 1, "no limit of this app counts the json name"),
        (["--header", "X-API-Key"], 2, "--header must be NAME=VALUE, such as --header X-API-Key=free-1"),
        (["--cookie", "=1"], 2, "--cookie must be NAME=VALUE"),
        (["--header", "X Key=1"], 2, "the name of a header must consist of"),
        (["--address", "nonsense"], 2, "--address must be an IP address, not 'nonsense'"),
        (["--user", "1", "ip:1"], 2, "name somebody: only one of IDENTIFIER, --address"),
        (["--json"], 2, "name somebody"),
        ([], 2, "name somebody"),
        ([""], 2, "anonymous"),
    ],
)
def test_nobody_and_somebody_whom_nothing_counts_are_errors(run, command, asked, status, says):
    done = run(KEYS, command, *asked)
    assert done.status == status
    assert says in done.err
    assert done.out == ""


@pytest.mark.parametrize("command", ["check", "reset"])
def test_an_identifier_that_nothing_counts_is_an_error(run, command):
    done = run(KEYS.replace('    "own"', "#"), command, "header:x-other:1")
    assert (done.status, done.out) == (1, "")
    assert "no limit of this app counts the identifier header:x-other:1; those it has count by " in done.err


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Return the port of a Redis with a password."""
    server = RedisServer(password="s3cret")
    yield server.port
    server.stop()


@pytest.fixture
def guarded(port: int, prefix: str) -> str:
    """Return the URL of a Redis with a password."""
    return f"redis://:s3cret@127.0.0.1:{port}/0?timeout=10&prefix={prefix}"


def test_check_and_reset_reach_a_redis_with_a_password_and_show_none(run, guarded):
    assert run(SHOP, "/orders", visits=2, STORE=guarded).out == "[200, 429]"

    checked = run(SHOP, "check", "ip:127.0.0.1", "--json", STORE=guarded)
    found = {each["name"]: each for each in checked.json}
    assert found["orders:3-per-3600s"]["remaining"] == 1
    assert found["orders:3-per-3600s"]["status"] == "over"
    assert 3590 < found["orders:3-per-3600s"]["retry_after"] <= 3600
    assert found["orders:9-per-86400s"]["status"] == "ok"
    assert found["application"]["remaining"] == 49
    assert found["meta"]["remaining"] == 4

    commands = (["list"], ["check", "ip:127.0.0.1"], ["reset", "ip:127.0.0.1"])
    everything = [checked, *(run(SHOP, *command, STORE=guarded) for command in commands)]
    assert [done.status for done in everything] == [0, 0, 0, 0]
    assert all("s3cret" not in done.out + done.err for done in everything)
    again = run(SHOP, "check", "ip:127.0.0.1", "--json", STORE=guarded)
    assert all(each["remaining"] in (each["quota"], None) for each in again.json)


def test_reset_reaches_a_limit_that_only_a_request_names(run, guarded):
    app = SHOP.replace('scope=lambda endpoint: request.path, name="divided"', 'name="divided"')
    assert run(app, "/dynamic?limit=1/day", visits=2, STORE=guarded).out == "[200, 429]"
    done = run(app, "reset", "ip:127.0.0.1", "--json", STORE=guarded)
    assert "shop--route--dynamic--asked" in done.json["reset"]
    assert done.json["not_reset"] == []
    assert run(app, "/dynamic?limit=1/day", visits=2, STORE=guarded).out == "[200, 429]"


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_reset_tells_what_it_could_not_reach(run, form):
    done = run(SHOP, "reset", "user:42", *form)
    assert done.status == 0
    assert "because the names of their counts depend on a request: divided" in done.err
    if form:
        assert done.json["not_reset"] == ["divided"]
        assert len(done.json["reset"]) == 7
    else:
        assert "fresh start under 7 policies:" in done.out
        assert "divided" not in done.out


def test_a_single_policy_is_said_to_be_one(run):
    app = f"{IMPORTS}app = Flask('shop')\napp.get('/', endpoint='index')(lambda: 'ok')\n"
    app += "RateLimit(app, default_limits='5/hour')\n"
    done = run(app, "reset", "user:42")
    assert done.status == 0
    assert done.out.splitlines() == ["user:42 has a fresh start under 1 policy:", "  default--index"]


OPTIONS = f"""{IMPORTS}
app = Flask("shop", static_folder=None)
limiter = RateLimit(app, default_limits="9/hour")


def by_key():
    return request.headers["X-Key"]


def failed(response):
    return response.status_code == 401


@app.route("/login", methods=["GET", "POST"])
@limiter.limit(
    "5/hour",
    identifiers=by_key,
    methods=["POST", "PUT"],
    deduct_when=failed,
    cost=2,
    anonymous="exempt",
)
def login():
    return "ok"


@app.get("/free")
def free():
    return "ok"
"""


def test_list_shows_who_is_counted_and_on_what_conditions(run):
    (limit,) = limits_of(run(OPTIONS, "list", "--json"), "login", "/login", "POST")
    assert (limit["identifiers"], limit["methods"]) == ("shop.by_key()", ["POST", "PUT"])
    assert (limit["deduct_when"], limit["cost"]) == ("shop.failed()", 2)
    assert limit["anonymous"] == "exempt"
    lines = run(OPTIONS, "list").out.splitlines()
    assert lines[0] == "Store: memory://, identifiers by_address, by_user"
    login = next(line for line in lines if "login" in line and "POST" in line)
    assert login.endswith(
        "identifiers shop.by_key(); cost 2; methods POST,PUT; "
        "exempt when anonymous; deduct when shop.failed()"
    )
    assert next(line for line in lines if "free" in line).endswith("default")


def test_list_shows_who_is_counted_in_each_row_when_rate_limits_differ(run):
    app = f"{OPTIONS}\nRateLimit(app, default_limits='7/hour', identifiers=by_key)\n"
    told = [line.partition("identifiers ")[2] for line in run(app, "list").out.splitlines()]
    theirs, ours = "by_address, by_user", "shop.by_key()"
    assert [each.partition(";")[0] for each in told if each] == [
        *(theirs, ours),  # the stores of the two
        *(theirs, ours),  # /free
        *(theirs, ours),  # GET /login
        *(ours, ours),  # POST /login
    ]


def test_check_shows_and_reset_lifts_a_lock(run, guarded):
    Limiter("1/hour", name="shop--application", store=RedisStore(guarded)).lock("user:42", 60)

    def locked() -> set[str]:
        done = run(SHOP, "check", "user:42", "--json", STORE=guarded)
        return {each["name"] for each in done.json if each["locked"]}

    assert locked() == {"application"}
    run(SHOP, "reset", "user:42", STORE=guarded)
    assert locked() == set()


@pytest.mark.parametrize("command", ["check", "reset"])
@pytest.mark.parametrize("away", [False, True], ids=["wrong password", "away"])
def test_a_store_that_cannot_be_asked_is_one_line_without_its_password(run, guarded, command, away):
    url = "redis://:wr0ng@127.0.0.1:1/0" if away else guarded.replace("s3cret", "wr0ng")
    done = run(SHOP, command, "user:42", STORE=url)
    assert done.status == 1
    assert done.err.startswith("Error: ")
    assert len(done.err.splitlines()) == 1
    assert "127.0.0.1" in done.err
    assert "wr0ng" not in done.out + done.err


def test_decorators_of_an_app_without_rate_limit_are_found(run):
    app = f"""{IMPORTS}
app = Flask("shop", static_folder=None)
pages = Blueprint("pages", __name__)
rate_limit("3/hour")(pages)
pages.get("/")(lambda: "ok")
app.register_blueprint(pages)
"""
    (entry,) = run(app, "list", "--json").json
    assert entry["protected"] is True
    assert [each["kind"] for each in entry["limits"]] == ["blueprint"]


@pytest.mark.parametrize("command", [["list"], ["check", "user:42"], ["reset", "user:42"]])
def test_an_app_that_nothing_limits_is_told_so(run, command):
    done = run("from flask import Flask\napp = Flask('shop')\n", *command)
    assert done.status == 1
    assert "has no RateLimit" in done.err
    assert "Traceback" not in done.err


def test_a_rate_limit_that_the_app_lacks_is_one_line(run):
    app = f"{IMPORTS}app = Flask('shop')\napp.get('/')(RateLimit().limit('5/hour')(lambda: 'ok'))\n"
    done = run(app, "list")
    assert done.status == 1
    assert "init_app(app)" in done.err
    assert "Traceback" not in done.err


def test_help_says_how_identifiers_are_written(run):
    for command in ("check", "reset"):
        text = run(SHOP, command, "--help").out
        assert "ip:203.0.113.7" in text
        assert "user:42" in text
    assert "--json" in run(SHOP, "list", "--help").out


SITE = f"""{IMPORTS}
app = Flask("shop", static_folder="static")
limiter = RateLimit(app, store=os.environ["STORE"], application_limits="50/hour", identifiers=lambda: "me")
app.add_url_rule("/limited", "limited", limiter.limit("3/hour")(lambda: "ok"))
app.add_url_rule("/dynamic", "dynamic", limiter.limit(lambda: "5/hour")(lambda: "ok"))
for name, limit in {{
    "mixed": limiter.limit("4/hour", methods=["POST"]),
    "shadowed": limiter.limit("4/hour", shadow=True),
    "bare": lambda view: view,
}}.items():
    app.add_url_rule(f"/{{name}}", name, limiter.exempt(limit(lambda: "ok")), methods=["GET", "POST"])
pages = Blueprint("pages", __name__, static_folder="static")
limiter.limit("7/minute")(pages)
pages.add_url_rule("/page", "page", lambda: "ok")
app.register_blueprint(pages)
"""
AWAY = "redis://:s3cret@127.0.0.1:1/0"


def test_list_tells_which_routes_are_protected_and_asks_no_store(run):
    done = run(SITE, "list", "--json", STORE=AWAY)
    protected = {(each["endpoint"], *each["methods"]): each["protected"] for each in done.json}
    assert protected == {
        ("bare", "GET", "POST"): False,
        ("dynamic", "GET"): True,
        ("limited", "GET"): True,
        ("mixed", "GET", "POST"): False,
        ("pages.page", "GET"): True,
        ("shadowed", "GET", "POST"): False,
    }
    assert "s3cret" not in done.out + done.err


def test_check_charges_nothing_and_reset_reaches_blueprints_but_no_other_prefix(run, guarded):
    def left(who):
        return {
            each["name"]: each["remaining"] for each in run(SITE, "check", who, "--json", STORE=guarded).json
        }

    assert run(SITE, "/limited", visits=2, STORE=guarded).out == "[200, 200]"
    assert run(SITE, "/page", visits=8, STORE=guarded).out == f"{[200] * 7 + [429]}"
    for _ in range(2):
        assert left("me") == {"application": 41, "dynamic": 5, "limited": 1, "pages.page": 0}
    assert left("nobody") == {"application": 50, "dynamic": 5, "limited": 3, "pages.page": 7}
    elsewhere = SITE.replace('identifiers=lambda: "me"', 'key_prefix="other"')
    run(elsewhere, "reset", "me", STORE=guarded)
    assert run(SITE, "/page", visits=1, STORE=guarded).out == "[429]"
    run(SITE, "reset", "me", STORE=guarded)
    assert run(SITE, "/page", visits=8, STORE=guarded).out == f"{[200] * 7 + [429]}"


@pytest.mark.parametrize("limiters", [1, 2])
def test_the_commands_are_the_apps_own_too_and_see_what_it_counts_in_memory(limiters):
    app = Flask("small")
    app.add_url_rule("/", "index", lambda: "hello")
    for _ in range(limiters):
        RateLimit(app, default_limits="1/minute")
    client, invoke = app.test_client(), app.test_cli_runner().invoke
    (listed,) = json.loads(invoke(args=["limits", "list", "--json"]).output)
    assert (listed["endpoint"], listed["protected"], len(listed["limits"])) == ("index", True, limiters)
    for _ in range(2):
        assert [client.get("/").status_code for _ in range(2)] == [200, 429]
        checked = invoke(args=["limits", "check", "ip:127.0.0.1", "--json"])
        assert json.loads(checked.stdout)[0]["remaining"] == 0
        assert invoke(args=["limits", "reset", "ip:127.0.0.1"]).exit_code == 0
    shown = CliRunner().invoke(FlaskGroup(create_app=lambda: app), ["--help"])
    assert shown.stdout.count("  limits ") == 1


def test_the_commands_make_no_file_and_no_table(tmp_path, postgresql_server, prefix):
    stores = {
        f"file {tmp_path}/limits.db": f"sqlite:///{tmp_path}/limits.db",
        f"table {prefix}": postgresql_server.url(table=prefix),
    }
    for what, url in stores.items():
        app = Flask("small")
        RateLimit(app, default_limits="1/minute", store=url)
        app.add_url_rule("/", "index", lambda: "hello")
        invoke = app.test_cli_runner().invoke
        for command in ("check", "reset"):
            done = invoke(args=["limits", command, "ip:127.0.0.1"])
            assert (done.exit_code, f"there is no {what};" in done.output) == (1, True)
        assert [app.test_client().get("/").status_code for _ in range(2)] == [200, 429]
        assert invoke(args=["limits", "check", "ip:127.0.0.1"]).exit_code == 0


def test_a_command_group_of_the_app_by_this_name_stays():
    app = Flask("mine")

    @app.cli.group("limits")
    def own():
        """Show what is mine."""

    RateLimit(app)
    assert app.cli.commands["limits"] is own
