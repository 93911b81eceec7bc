"""The page on performance shows the tables and figures of the last full run, below its text on each part."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from measuring import figures, report, tables

PAGE = "performance"
FOLDER = "benchmarks"
PLACE = re.compile(r"<!-- results: (\w+) -->")


def setup(app: Sphinx) -> dict[str, bool]:
    """Have Sphinx call what is here."""
    app.connect("source-read", show_results)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def show_results(app: Sphinx, page: str, text: list[str]) -> None:
    """Put the figures and tables of each part in the place that the page has for them."""
    if page != PAGE:
        return
    folder = Path(app.srcdir) / FOLDER  # a copy of docs, which a build may write to
    found = report.read(folder / "results.json")
    for part in found.parts():
        figures.write_figures(folder, part, found.of(part))
    text[0] = PLACE.sub(lambda place: tables.markdown_of_part(found, place[1], FOLDER), text[0])
