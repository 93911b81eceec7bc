"""``overlimit report``: a page that is whole in itself, and a notebook that makes the same."""

from __future__ import annotations

import json
import re
from pathlib import Path

from click.testing import CliRunner

from overlimit.command_line.program import program
from overlimit.simulation import Comparison, read_log, replay

LOG = Path(__file__).parents[2] / "examples" / "shop_day.log.gz"
WHO = ["--label", "ip:198.51.100.77=scanner", "--label", "ip:203.0.113.9=<warehouse>"]
POLICIES = ["--policy", "today=60/minute", "--policy", "new=10/minute; 200/hour"]
ZONE = ["--timezone", "Europe/Berlin"]


def report(*arguments):
    done = CliRunner().invoke(program, ["report", str(LOG), *POLICIES, *arguments])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_page_has_all_that_it_shows_and_what_replays_say(tmp_path):
    path = tmp_path / "report.html"
    assert report(*WHO, *ZONE, "-o", str(path), "--title", "For <you>") == f"{path}\n"
    page = path.read_text()
    assert "For &lt;you&gt;</h1>" in page
    assert not re.search(r"https?:|<link|<script|<iframe|@import|url\(", page)
    assert set(re.findall(r'src="([^,]*),', page)) == {"data:image/png;base64"}
    assert page.count("<img") == 4, "a comparison, two timelines and a heatmap, as one refuses nothing"
    assert not re.search(r"<img (?!alt=\"[^\"]+\")", page)
    answers = replay(read_log(LOG), "10/minute; 200/hour")
    words = re.sub(r"<[^>]*>", " ", page)
    assert re.search(rf"today\s+0\.00%.*new\s+{answers.refused_share:.2%}", words, re.DOTALL)
    assert words.count("Those that were refused most") == 1
    assert "12,000 requests, 2026-03-02 01:00:04 to 2026-03-03 00:59:54 Europe/Berlin" in words
    first = answers.by_identifier(top=1)["first_refused"].iloc[0].tz_convert("Europe/Berlin")
    assert f"{first:%b %d %H:%M:%S}" in words
    assert "UTC" not in words, "all times are in the zone"
    assert "&lt;warehouse&gt;" in page
    assert "All lines could be read." in words
    assert re.search(r"How sure this is.* low .* high", words, re.DOTALL)


def test_a_notebook_makes_what_the_page_has(tmp_path):
    path = tmp_path / "report.ipynb"
    locked = ["--lock", "5", "--lock", "30", "--algorithm", "token_bucket", "--since", "2026-03-02T06:00"]
    report(*WHO, *ZONE, *locked, "--notebook", str(path))
    notebook = json.loads(path.read_text())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 4)
    code = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    names: dict[str, object] = {}
    for source in code:
        exec(source, names)
    events = read_log(LOG, timezone="Europe/Berlin").between("2026-03-02T06:00", timezone="Europe/Berlin")
    assert names["events"].between() == names["events"] != events
    assert len(names["events"]) == len(events) < 12_000
    assert isinstance(names["comparison"], Comparison)
    assert list(names["comparison"].effects) == ["today", "new"]
    assert names["answers"].penalty.levels == (5.0, 30.0)


def test_a_page_and_a_notebook_exclude_each_other_and_what_cannot_be_written_is_an_error(tmp_path):
    both = CliRunner().invoke(
        program, ["report", str(LOG), *POLICIES, "-o", "a.html", "--notebook", "b.ipynb"]
    )
    assert (both.exit_code, "exclude each other" in both.output) == (2, True)
    nowhere = CliRunner().invoke(
        program, ["report", str(LOG), *POLICIES, "-o", str(tmp_path / "no" / "a.html")]
    )
    assert nowhere.exit_code == 2


def test_the_days_of_a_longer_log_and_its_bad_lines_are_told(tmp_path):
    line = '203.0.113.7 - - [{:02}/Mar/2026:12:00:0{} +0000] "GET / HTTP/1.1" 200 512 "-" "-"\n'
    log = tmp_path / "access.log"
    log.write_text("".join(line.format(day, k) for day in (1, 2, 3) for k in range(day)) + "<nonsense>\n")
    done = CliRunner().invoke(
        program, ["report", str(log), "--policy", "a=2/minute", "-o", str(tmp_path / "r.html")]
    )
    assert done.exit_code == 0, done.output
    words = re.sub(r"<[^>]*>", " ", (tmp_path / "r.html").read_text())
    assert "1 line could not be read" in words
    assert "Of each day:" in words
    assert re.search(r"Mar 03 00:00:00\s+3\s+2\s+1\s", words)
