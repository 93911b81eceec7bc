"""A report on policies and a log, in cells of Python: a page that shows what they find, or a notebook."""

from __future__ import annotations

import base64
import html
import io
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from overlimit._display import html_table
from overlimit._messages.texts import number_text, percent, printable, seconds_text
from overlimit.simulation.events.events import Events
from overlimit.simulation.optional import required

if TYPE_CHECKING:
    import pandas as pd

_DAY_US = 86_400_000_000
_DOTS_PER_INCH = 200
_IMPORTS = """import re

from overlimit import Limiter, Penalty
from overlimit.simulation import compare, plot_heatmap, read_log, replay"""

_SURE = (
    "Every request of this log was put to the code that will enforce the limits, so of this log the shares "
    "are exact. How much they depend on who happens to be in it: the same number of identifiers was drawn "
    "from those of the log 200 times, and nine tenths of the shares are between low and high. In a longer "
    "log more of the identifiers are refused at some time, and who is refused behaves differently."
)


class Cell(NamedTuple):
    """A part of a report: Python whose last line is what it shows, below a title and a sentence if any.

    A page shows it only if what another expression says is so.
    """

    code: str
    title: str = ""
    words: str = ""
    only_if: str = "True"


def cells_of(events: Events, read: str, policies: Mapping[str, str], timezone: str) -> list[Cell]:
    """Return a report on events and policies, which are given as the Python that makes them."""
    made = ", ".join(f"{name!r}: {code}" for name, code in policies.items())
    cells = [
        Cell(f"{read}\nevents.head()", "What was read", _what_was_read(events)),
        Cell(f"comparison = compare(events, {{{made}}})\ncomparison", "Whom each policy hits"),
        Cell("comparison.plot()"),
    ]
    for name, code in policies.items():
        plotted = f"answers = replay(events, {code})\nanswers.plot(timezone={timezone!r})"
        cells.append(Cell(plotted, f"When requests passed under {name}, and when not"))
        if events.labels is not None:
            cells.append(Cell("answers.by_label()", words="Of each label:"))
        hit = "answers.by_identifier(top=10).query('refused > 0')"
        words = f"Those that were refused most. Times are in {timezone}."
        cells += [
            Cell(hit, words=words, only_if="answers.refused"),
            Cell(f"plot_heatmap(answers, 10, timezone={timezone!r}, title='')", only_if="answers.refused"),
            Cell("answers.summary()", words="What each of its limits did:"),
        ]
        if int(events._times[-1]) - int(events._times[0]) > _DAY_US:
            cells.append(Cell(f"answers.by_time('day', {timezone!r})", words="Of each day:"))
    return [*cells, Cell("comparison.resample(200)", "How sure this is", _SURE)]


def _what_was_read(events: Events) -> str:
    said = [f"{events.skipped:,} without an identifier were left out."] * bool(events.skipped)
    for reason, count in events.bad_lines.reasons.items():
        said.append(f"{count:,} line{'s' * (count != 1)} could not be read: {reason}.")
    return " ".join(said) or "All lines could be read. These are the first:"


def notebook_of(cells: Sequence[Cell], title: str) -> str:
    """Return a notebook of Jupyter of these cells."""
    parts = [_part("markdown", f"# {title}"), _part("code", _IMPORTS)]
    for cell in cells:
        words = "\n\n".join(filter(None, [cell.title and f"## {cell.title}", cell.words]))
        parts += [_part("markdown", words)] * bool(words) + [_part("code", cell.code)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook = {"cells": parts, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 4}
    return json.dumps(notebook, indent=1) + "\n"


def _part(kind: str, text: str) -> dict[str, Any]:
    own: dict[str, Any] = {"execution_count": None, "outputs": []} if kind == "code" else {}
    return {"cell_type": kind, "metadata": {}, "source": text.splitlines(keepends=True)} | own


_STYLE = """
:root { color-scheme: light; }
body { margin: 0 auto; max-width: 62rem; padding: 1rem 1.25rem 3rem; color: #1b1f24; background: #fff;
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 1rem 0 0.2rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 0.4rem; }
p { margin: 0.4rem 0 0.8rem; max-width: 45rem; }
table { font-size: 0.85rem; }
th, td { overflow-wrap: normal; white-space: nowrap; vertical-align: top; }
figure { margin: 0.8rem 0; overflow-x: auto; }
figure img { display: block; width: 100%; min-width: 30rem; max-width: 45rem; height: auto; }
.about { color: #57606a; }
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; }
  table { font-size: 7.5pt; }
  th, td { white-space: normal; }
  h2, figure, tr { break-inside: avoid; }
  h2 { break-after: avoid; }
  figure img { min-width: 0; max-width: 16cm; }
}
"""


def page_of(cells: Sequence[Cell], events: Events, title: str, about: str, timezone: str) -> str:
    """Return a page of HTML in which all is that it shows: it links to nothing and asks for nothing."""
    names: dict[str, Any] = {}
    exec(_IMPORTS, names)
    names["events"] = events  # so that what reads them need not be run again
    parts = []
    for number, cell in enumerate(cells):
        if not eval(cell.only_if, names):
            continue
        parts += [f"<h2>{_escaped(cell.title)}</h2>"] * bool(cell.title)
        parts += [f"<p>{_escaped(cell.words)}</p>"] * bool(cell.words)
        made, _, shown = cell.code.rpartition("\n")
        exec(made if number else "", names)
        parts.append(_shown(eval(shown, names), timezone))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_escaped(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f'<h1>{_escaped(title)}</h1>\n<p class="about">{_escaped(about)}</p>\n'
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def _escaped(text: object) -> str:
    return html.escape(printable(text))


def _shown(found: Any, timezone: str) -> str:
    if hasattr(found, "figure"):
        return _figure(found)
    return _table(found, timezone) if hasattr(found, "columns") else str(found._repr_html_())


def _figure(ax: Any) -> str:
    drawn, figure = io.BytesIO(), ax.figure
    figure.savefig(drawn, format="png", dpi=_DOTS_PER_INCH)
    required("matplotlib.pyplot", "a report").close(figure)
    data = base64.b64encode(drawn.getvalue()).decode()
    name = _escaped(ax.get_title().replace("\n", " ") or ax.get_ylabel() or "Figure")
    return f'<figure><img alt="{name}" src="data:image/png;base64,{data}"></figure>'


def _table(frame: pd.DataFrame, timezone: str) -> str:
    names = [" ".join(each) if isinstance(each, tuple) else str(each) for each in frame.columns]
    head = [frame.index.name or "", *(name.replace("_", " ") for name in names)]
    rows = [
        [
            _cell("", key, timezone) or "(none)",
            *(_cell(*each, timezone) for each in zip(names, row, strict=True)),
        ]
        for key, *row in frame.itertuples(name=None)
    ]
    return html_table("", "", head, rows)


def _cell(column: str, value: Any, timezone: str) -> str:
    """Return a value of a table as people read it, by the name of its column."""
    if value != value:  # noqa: PLR0124
        return "-"
    if hasattr(value, "tz_convert"):
        return f"{value.tz_convert(timezone):%b %d %H:%M:%S}"
    if column.startswith("longest_"):
        return seconds_text(value)
    if column.startswith(("refused_events", "refused_identifiers", "least_left")):
        return percent(value)
    return number_text(value) if isinstance(value, (int, float)) else printable(value)
