"""``flask limits``: run as a command, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from overlimit.flask import RateLimit

APP = """
import os

from flask import Blueprint, Flask

from overlimit.flask import RateLimit, rate_limit

app = Flask("commanded", static_folder="static")
limiter = RateLimit(
    app,
    application_limits="50/hour",
    application_limits_exempt_when=lambda: False,
    store=os.environ["STORE"],
    key_prefix=os.environ["PREFIX"],
    identifiers=lambda: "me",
    meta_limits="40/day",
)


@app.get("/limited")
@limiter.limit("3/hour; 9/day", name="mine")
def limited():
    return "ok"


@app.get("/dynamic")
@limiter.limit(lambda: "5/hour")
def dynamic():
    return "ok"


@app.route("/mixed", methods=["GET", "POST"])
@limiter.exempt
@limiter.limit("4/hour", methods=["POST"])
def mixed():
    return "ok"


@app.get("/shadowed")
@limiter.exempt
@limiter.limit("4/hour", shadow=True)
def shadowed():
    return "ok"


@app.get("/bare")
@limiter.exempt
def bare():
    return "ok"


pages = Blueprint("pages", __name__, static_folder="static")
limiter.limit("7/minute")(pages)


@pages.get("/page")
def page():
    return "ok"


app.register_blueprint(pages, url_prefix="/pages")
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "commanded.py").write_text(APP)
    return tmp_path


@pytest.fixture
def run(directory, redis_server, prefix):
    """Return a function that runs a command in the directory of the app."""

    places = {"store": f"{redis_server.unix_url()}&timeout=10", "prefix": prefix}

    def execute(*command: str, fails: bool = False, **changed: str) -> str:
        environment = {name.upper(): value for name, value in (places | changed).items()}
        done = subprocess.run(
            [sys.executable, *command],
            cwd=directory,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode != 0) is fails, done.stderr
        return done.stdout + (done.stderr if fails else "")

    return execute


@pytest.fixture
def limits(run):
    def command(*arguments: str, **options) -> str:
        return run("-m", "flask", "--app", "commanded", "limits", *arguments, **options)

    return command


@pytest.fixture
def visit(run):
    """Return a function that sends requests in another process and returns their status codes."""

    def ask(path: str, times: int) -> list[int]:
        program = (
            "import sys, commanded; client = commanded.app.test_client(); "
            "print([client.get(sys.argv[1]).status_code for _ in range(int(sys.argv[2]))])"
        )
        return json.loads(run("-c", program, path, str(times)))

    return ask


def by_endpoint(text: str) -> dict[str, list[dict]]:
    entries: dict[str, list[dict]] = {}
    for entry in json.loads(text):
        entries.setdefault(entry["endpoint"], []).append(entry)
    return entries


def remaining_in(found: Any) -> set[int]:
    """Return the values of every ``remaining`` in what a command printed, however deep."""
    if isinstance(found, dict):
        own = {found["remaining"]} if "remaining" in found else set()
        return own.union(*map(remaining_in, found.values()))
    return set().union(*map(remaining_in, found)) if isinstance(found, list) else set()


def test_list_shows_each_endpoint_with_its_limits(limits):
    text = limits("list")
    for shown in ("limited", "dynamic", "mixed", "shadowed", "bare", "pages.page"):
        assert shown in text
    for limit in ("3", "9", "7", "50"):
        assert limit in text
    assert "mine" in text


def test_list_as_json_tells_which_routes_are_protected(limits):
    entries = by_endpoint(limits("list", "--json"))
    protected = {name: {entry["protected"] for entry in found} for name, found in entries.items()}
    assert protected["limited"] == protected["dynamic"] == protected["pages.page"] == {True}
    assert protected["bare"] == protected["shadowed"] == {False}
    assert False in protected["mixed"]
    assert "3" in json.dumps(entries["limited"])


def test_list_leaves_static_files_out_of_the_unprotected(limits):
    entries = by_endpoint(limits("list", "--json"))
    unprotected = {name for name, found in entries.items() if not all(each["protected"] for each in found)}
    assert unprotected == {"mixed", "shadowed", "bare"}


def test_list_asks_no_store(limits):
    text = limits("list", "--json", store="redis://:s3cret@127.0.0.1:1/0")
    assert "limited" in by_endpoint(text)
    assert "s3cret" not in text


def test_check_shows_what_is_left_and_charges_nothing(limits, visit):
    assert visit("/limited", 2) == [200, 200]
    assert {1, 7, 48, 40} <= remaining_in(json.loads(limits("check", "me", "--json")))
    limits("check", "me")
    assert visit("/limited", 2) == [200, 429]


def test_check_has_a_text_for_people(limits, visit):
    visit("/limited", 1)
    text = limits("check", "me")
    assert "limited" in text or "mine" in text
    assert "me" in text


def test_check_of_somebody_unseen_shows_full_quotas(limits):
    assert {3, 9, 50, 7} <= remaining_in(json.loads(limits("check", "nobody", "--json")))


def test_check_shows_meta_limits_too(limits, visit):
    assert visit("/limited", 5) == [200, 200, 200, 429, 429]
    assert 38 in remaining_in(json.loads(limits("check", "me", "--json")))


def test_reset_gives_a_fresh_start_without_asking(limits, visit):
    assert visit("/limited", 4) == [200] * 3 + [429]
    limits("reset", "me")
    assert visit("/limited", 4) == [200] * 3 + [429]


def test_reset_concerns_this_identifier_only(limits, visit):
    assert visit("/limited", 4) == [200] * 3 + [429]
    limits("reset", "you")
    assert visit("/limited", 1) == [429]


def test_reset_leaves_other_prefixes_alone(limits, visit, prefix):
    assert visit("/limited", 4) == [200] * 3 + [429]
    limits("reset", "me", prefix=f"{prefix}x")
    assert visit("/limited", 1) == [429]


def test_reset_reaches_the_limits_of_blueprints_and_shared_ones(limits, visit):
    assert visit("/pages/page", 8) == [200] * 7 + [429]
    limits("reset", "me")
    assert visit("/pages/page", 8) == [200] * 7 + [429]


@pytest.mark.parametrize("command", ["check", "reset"])
def test_a_store_that_is_away_is_a_clear_error_without_its_password(limits, command):
    text = limits(command, "me", store="redis://:s3cret@127.0.0.1:1/0", fails=True)
    assert "Traceback" not in text
    assert "s3cret" not in text
    assert "127.0.0.1" in text


def test_the_group_is_registered_once_for_several_rate_limits(directory, run):
    (directory / "commanded.py").write_text(
        "from flask import Flask\nfrom overlimit.flask import RateLimit\napp = Flask('twice')\n"
        "app.get('/', endpoint='index')(lambda: 'ok')\n"
        "RateLimit(app, default_limits='5/minute')\nRateLimit(app, default_limits='7/hour')\n"
    )
    entries = by_endpoint(run("-m", "flask", "--app", "commanded", "limits", "list", "--json"))
    text = json.dumps(entries["index"])
    assert "5" in text
    assert "7" in text


def make_small_app(limiters: int = 1) -> Flask:
    app = Flask("small")
    app.add_url_rule("/", "index", lambda: "hello")
    for _ in range(limiters):
        RateLimit(app, default_limits="1/minute")
    return app


@pytest.mark.parametrize("limiters", [1, 2])
def test_the_commands_are_the_apps_own_too(limiters):
    app = make_small_app(limiters)
    result = app.test_cli_runner().invoke(args=["limits", "list", "--json"])
    assert (result.exit_code, result.exception) == (0, None)
    listed = json.loads(result.output)
    assert [(each["endpoint"], each["protected"]) for each in listed] == [("index", True)]
    assert len(listed[0]["limits"]) == limiters


def test_in_the_process_of_a_test_they_see_what_is_counted_in_memory():
    app = make_small_app()
    client, runner = app.test_client(), app.test_cli_runner()
    assert [client.get("/").status_code for _ in range(2)] == [200, 429]
    checked = runner.invoke(args=["limits", "check", "ip:127.0.0.1", "--json"])
    assert json.loads(checked.stdout)[0]["remaining"] == 0
    assert runner.invoke(args=["limits", "reset", "ip:127.0.0.1"]).exit_code == 0
    assert [client.get("/").status_code for _ in range(2)] == [200, 429]


def test_a_command_group_of_the_app_by_this_name_stays():
    app = Flask("mine")

    @app.cli.group("limits")
    def own():
        """Show what is mine."""

    RateLimit(app)
    assert app.cli.commands["limits"] is own


def test_flask_knows_the_commands_once(tmp_path):
    (tmp_path / "small.py").write_text(
        "import flask\nfrom overlimit.flask import RateLimit\n\napp = flask.Flask('small')\nRateLimit(app)"
    )
    shown = subprocess.run(
        [sys.executable, "-m", "flask", "--app", "small", "--help"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONWARNINGS": "error"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.count("  limits ") == 1
