"""The examples run as they stand."""

from __future__ import annotations

import importlib.util
import json
import re
import signal
import subprocess
import sys
from collections import Counter
from contextlib import closing
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot

from notebook_claims import CLAIMS
from programs import finished, output_of

EXAMPLES = Path(__file__).parents[2] / "examples"
DEMO = EXAMPLES / "demo.py"


def get(port: int, path: str, user: str = "") -> tuple[HTTPResponse, dict[str, object]]:
    with closing(HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
        connection.request("GET", path, headers={"X-User": user})
        answer = connection.getresponse()
        return answer, json.load(answer)


def test_the_demo_holds_every_claim_in_memory():
    run = finished([sys.executable, DEMO])
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stderr == ""
    assert run.stdout.count("ok: ") >= 9
    assert_statuses_are_named(run.stdout)


def assert_statuses_are_named(output: str) -> None:
    """The timeline names what each burst met, and the closing lines how often it was met in all."""
    rows = re.findall(r"^ *[\d.]+s .*127\.0\.0\.\d +(\d+)  (\d+ x .*?)(?:  |$)", output, re.MULTILINE)
    met: Counter[str] = Counter()
    for sent, statuses in rows:
        of_burst = {status: int(times) for times, status in re.findall(r"(\d+) x (\d+)", statuses)}
        assert sum(of_burst.values()) == int(sent)
        met.update(of_burst)
    assert met["200"] > 20
    assert met["429"] > 20
    closing = output.splitlines()[-2]
    assert closing.startswith("every claim held, in ")
    assert closing.endswith(f"seen: {met['200']} x 200, {met['429']} x 429")
    assert "429 Too Many Requests" in output.splitlines()[-1]


def test_the_demo_holds_every_claim_on_redis_and_again(redis_server):
    for _ in range(2):
        run = finished([sys.executable, DEMO, "--store", redis_server.tcp_url() + "?timeout=10"])
        assert run.returncode == 0, run.stdout + run.stderr


def test_the_demo_fails_when_a_claim_does(tmp_path):
    (tmp_path / "demo.py").write_text(DEMO.read_text())
    app = (EXAMPLES / "flask_app.py").read_text()
    (tmp_path / "flask_app.py").write_text(app.replace("120/minute", "121/minute"))
    run = finished([sys.executable, tmp_path / "demo.py"])
    assert run.returncode == 1
    assert "claim failed: " in run.stderr


@pytest.mark.usefixtures("ctrl_c")
def test_serving_stays_up_until_interrupted():
    command = [sys.executable, str(DEMO), "--serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            port = int(process.stdout.readline().rpartition(":")[2].partition("/")[0])
            assert get(port, "/health")[1] == {"status": "ok"}
            process.send_signal(signal.SIGINT)
            assert process.wait(10) == 0, process.stderr.read()
            assert process.stderr.read() == ""
        finally:
            process.kill()


def test_the_polite_client_is_not_refused():
    run = finished([sys.executable, EXAMPLES / "polite_client.py"])
    assert run.returncode == 0, run.stdout + run.stderr
    hasty, polite = run.stdout.splitlines()
    assert re.fullmatch(r"in a hurry: \d+ x 200, \d+ x 429 in \d+\.\d s", hasty)
    assert re.fullmatch(r"waiting for turns and for the server: 10 x 200 in \d+\.\d s", polite)


@pytest.fixture
def example_app(monkeypatch):
    monkeypatch.delenv("OVERLIMIT_STORE", raising=False)
    spec = importlib.util.spec_from_file_location("flask_app", EXAMPLES / "flask_app.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.app


def test_the_example_app_explains_a_refusal(example_app):
    client = example_app.test_client()
    answers = [client.get("/hello", headers={"X-User": "ben"}) for _ in range(40)]
    refusals = [answer for answer in answers if answer.status_code == 429]
    assert 1 <= len(refusals) <= 30
    assert refusals[0].json["identifier"] == "ip:127.0.0.1"
    assert refusals[0].json["status"] == "over"
    assert int(refusals[0].headers["Retry-After"]) >= 1


FIGURES = {"first_look": 1, "redis_live": 0, "retry_storms": 3, "tune_from_a_log": 4, "which_algorithm": 2}
"""How many figures each notebook draws at least."""


def notebooks() -> list[Path]:
    return sorted((EXAMPLES / "notebooks").glob("*.ipynb"))


def outputs_of(cells):
    return [output for cell in cells for output in cell.outputs]


def test_the_readme_lists_every_notebook():
    assert {path.stem for path in notebooks()} == set(FIGURES)
    readme = (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")
    assert all(f"(examples/notebooks/{name}.ipynb)" in readme for name in FIGURES)


def with_claim(cell):
    """Return a cell, and one that holds its claim, if there is one."""
    import nbformat  # which takes each worker of pytest over a second

    return [cell, *([nbformat.v4.new_code_cell(CLAIMS[cell.id])] if cell.get("id") in CLAIMS else [])]


def test_every_claim_is_of_a_cell():
    cells = {cell["id"] for path in notebooks() for cell in json.loads(path.read_text("utf-8"))["cells"]}
    assert set(CLAIMS) - cells == set()


@pytest.mark.check
@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)
def test_a_notebook_is_committed_without_outputs_and_runs(path, monkeypatch, redis_server):
    """What its cells have found is held against what they should by `notebook_claims.py`."""
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("REDIS_URL", redis_server.tcp_url())
    notebook = nbformat.read(path, as_version=4)
    assert notebook.metadata.kernelspec.name == "python3"
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in cells)
    assert not [cell.source for cell in cells if "assert" in cell.source]
    claimed = [cell.id for cell in cells if cell.id in CLAIMS]
    assert len(claimed) >= 2
    notebook.cells = [each for cell in notebook.cells for each in with_claim(cell)]
    NotebookClient(notebook, timeout=60, kernel_name="python3").execute(cwd=str(path.parent))
    assert all(cell.execution_count for cell in cells)
    outputs = outputs_of(cells)
    if path.stem != "redis_live":  # which shows an outage, and that is logged
        assert not [output for output in outputs if output.get("name") == "stderr"]
    figures = [output for output in outputs if "image/png" in output.get("data", {})]
    assert len(figures) >= FIGURES[path.stem]


@pytest.mark.check
def test_the_figure_of_the_readme_is_what_its_four_lines_draw(tmp_path):
    readme = (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")
    (code,) = [block for block in re.findall(r"```python\n(.*?)```", readme, re.S) if "savefig" in block]
    assert len([line for line in code.splitlines() if line]) <= 4
    output_of(code, cwd=tmp_path)
    drawn, shown = (
        pyplot.imread(path)[..., :3] * 255
        for path in (tmp_path / "timeline.png", EXAMPLES.parent / "docs" / "images" / "timeline.png")
    )
    assert drawn.shape == shown.shape
    assert np.sqrt(np.mean((drawn - shown) ** 2)) < 12
    assert drawn.std() > 20


LIMITS_OFF = """
from shop import settings
settings.OVERLIMIT["ENABLED"] = False
import django
from django.test import Client
django.setup()
print([Client(HTTP_HOST="localhost").get("/search").json() for _ in range(21)][-1])
"""


@pytest.mark.check
def test_the_django_project_goes_on_while_its_limits_are_switched_off(monkeypatch, tmp_path):
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "shop.settings")
    monkeypatch.setenv("SHOP_DATABASE", str(tmp_path / "db.sqlite3"))
    assert output_of(LIMITS_OFF, cwd=EXAMPLES / "django_app") == "{'found': [], 'remaining': None}\n"
