"""Limits of an app that are a file, and the file's changes."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from adapters import DRIVERS, each
from overlimit import limits_file
from overlimit.limits_file import followed_files

FILE = """version = 1
default = "{default}/minute"
application = "{together}/minute"
[policies.search]
limits = "1/minute"
[routes]
"/search" = {{policy = "search"}}
"POST /orders" = {{limits = "4/minute", cost = 2}}
"""


class File:
    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, default: int = 3, together: int = 90, more: str = "") -> None:
        self.path.write_text(FILE.format(default=default, together=together) + more)

    @property
    def errors(self) -> int:
        return next(each.errors for each in followed_files() if each.path == str(self.path))


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> File:
    """Return a file that is looked at before each request."""
    monkeypatch.setattr(limits_file, "_EVERY_US", 0)
    made = File(tmp_path / "limits.toml")
    made.write()
    return made


VIEWS = dict.fromkeys(("/search", "/orders", "/other", "/free"), lambda asked: "ok")


@each()
def test_the_file_goes_before_limits_in_code_and_says_so(serve, file, caplog):
    site = serve(VIEWS, limits_file=str(file.path), limits="90/minute", exempt=["/free"])
    assert site.statuses("/search", 2) == [200, 429]
    assert site.statuses("/orders", 3, method="POST") == [200, 200, 429]
    assert site.statuses("/other", 4) == [200, 200, 200, 429]
    assert site.statuses("/other", 1, peer="192.0.2.2") == [200]
    assert site.statuses("/free", 9) == [200] * 9
    (told,) = [each.getMessage() for each in caplog.records if "goes before" in each.getMessage()]
    assert str(file.path) in told
    assert "limits" in told


@each()
def test_limits_of_the_application_hold_besides(serve, file):
    file.write(together=4)
    site = serve(VIEWS, limits_file=file.path)
    assert site.statuses("/search", 2) == [200, 429]  # and a refusal charges nothing
    assert site.statuses("/orders", 1, method="POST") == [200]
    assert site.statuses("/other", 3) == [200, 200, 429]


@each()
def test_a_change_takes_effect_and_loses_no_counts(serve, file, caplog):
    site = serve(VIEWS, limits_file=file.path)
    assert site.statuses("/other", 4) == [200, 200, 200, 429]
    with caplog.at_level(logging.WARNING, "overlimit"):
        file.write(default=5)
        assert site.statuses("/other", 3) == [200, 200, 429]
        file.write(default=2)
        assert site.statuses("/other", 1) == [429]
        assert site.statuses("/other", 3, peer="192.0.2.7") == [200, 200, 429]
    changes = [each.getMessage() for each in caplog.records if each.name == "overlimit"]
    assert [f"{file.path} has changed: its limits hold from now on"] * 2 == changes
    assert file.errors == 0


@each()
@pytest.mark.parametrize(
    ("break_it", "told"),
    [
        (lambda file: file.path.write_text(FILE[:-30].format(default=9, together=9)), "is no TOML"),
        (lambda file: file.path.write_text('version = 1\ndefault = "9/minute"\n'), "is gone"),
        (lambda file: file.write(9, more='"/x" = 5\n'), 'line 9: routes."/x": must be limits in text'),
        (lambda file: file.path.unlink(), "No such file"),
    ],
    ids=["half", "gone", "wrong", "deleted"],
)
def test_a_wrong_change_keeps_the_limits_and_is_told_of_once(serve, file, caplog, break_it, told):
    site = serve(VIEWS, limits_file=file.path)
    assert site.statuses("/other", 2) == [200, 200]
    break_it(file)
    assert site.statuses("/other", 2) == [200, 429]
    errors = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert told in errors[0].getMessage()
    assert len(errors) == file.errors == 1
    file.write(default=4)
    assert site.statuses("/other", 2) == [200, 429]
    assert file.errors == 1


@each("patterns")
def test_patterns_of_the_file_come_before_those_in_code(serve, file):
    site = serve(VIEWS, limits_file=file.path, routes={"/search": "9/minute", "/other": "1/minute"})
    assert site.statuses("/search", 2) == [200, 429]
    assert site.statuses("/other", 2) == [200, 429]


@each(only=[name for name, driver in DRIVERS.items() if "patterns" in driver.cannot])
def test_a_route_that_the_app_lacks_is_an_error(serve, file, caplog):
    site = serve(VIEWS, limits_file=file.path)
    assert site.statuses("/other", 1) == [200]
    file.write(9, more='"/oder" = "1/minute"\n')
    assert site.statuses("/other", 3) == [200, 200, 429]
    (error,) = [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
    assert 'line 9: routes."/oder": the app has no such route: did you mean' in error


@each("decorators")
def test_it_goes_before_the_decorators_of_a_route(serve, file, caplog):
    site = serve(VIEWS, limits_file=file.path, routes={"/search": "9/minute", "/other": "1/minute"})
    assert site.statuses("/search", 2) == [200, 429]
    assert site.statuses("/other", 2) == [200, 429]
    assert any("in place of the decorators" in each.getMessage() for each in caplog.records)


@each()
def test_a_wrong_file_is_an_error_at_the_start(serve, file):
    file.path.write_text('version = 1\ndefault = "5/fortnight"\n')
    for given, told in ((file.path, "line 2: default"), (5, r"(limits_file|LIMITS_FILE).* must be a path")):
        with pytest.raises(Exception, match=told):
            serve(VIEWS, limits_file=given)


@each()
def test_a_policy_in_shadow_refuses_nothing(serve, file):
    file.write(2, more='"/other" = {limits = "1/minute", shadow = true}\n')
    site = serve(VIEWS, limits_file=file.path)
    assert site.statuses("/other", 3) == [200, 200, 429]
