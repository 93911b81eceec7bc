"""A report on policies and a log, in cells: a page whole in itself, or a notebook that makes the same."""

from __future__ import annotations

import base64
import html
import io
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from overlimit._display import html_table
from overlimit._messages.texts import number_text, percent, printable, seconds_text
from overlimit.limiter import Limiter
from overlimit.simulation.events.events import Events, busiest
from overlimit.simulation.figures.replays import plot_heatmap
from overlimit.simulation.figures.style import policy_text
from overlimit.simulation.optional import required
from overlimit.simulation.questions.comparing import Comparison, compare
from overlimit.simulation.replaying import Replay, replay

if TYPE_CHECKING:
    import pandas as pd

_DRAWS = 200
_TOP = 10
_SECONDS_A_DAY = 86_400
_DOTS_PER_INCH = 200

_SURE = (
    "Every request of this log was put to the code that will enforce the limits, so of this log the shares "
    "are exact. How much they depend on who happens to be in it: the same number of identifiers was drawn "
    f"from those of the log {_DRAWS} times, and nine tenths of the shares are between low and high. In a "
    "longer log more of the identifiers are refused at some time, and who is refused behaves differently."
)


class Cell(NamedTuple):
    """A part of a report: a title, a sentence, Python that shows it in a notebook, and what that shows."""

    title: str
    words: str
    code: str
    show: Callable[[], Any]


class Asked(NamedTuple):
    """A log and policies, each with Python that makes it; how many lines were bad is said of the log."""

    events: Events
    policies: Mapping[str, Limiter]
    code: str
    policy_codes: Mapping[str, str]
    timezone: str


def cells_of(asked: Asked, progress: bool | None = None) -> list[Cell]:
    """Return the parts of a report on a log and policies."""
    events, zone = asked.events, asked.timezone
    comparison = compare(events, asked.policies, progress=progress)
    policies = ", ".join(f"{name!r}: {code}" for name, code in asked.policy_codes.items())
    cells = [
        Cell("What was read", _read(events), f"{asked.code}\nevents", lambda: _Identifiers(events)),
        Cell(
            "Whom each policy hits",
            _in_words(comparison),
            f"comparison = compare(events, {{{policies}}})\ncomparison",
            lambda: comparison,
        ),
        Cell("", "", "comparison.plot()", comparison.plot),
    ]
    for name, limiter in asked.policies.items():
        cells += _cells_of_policy(name, replay(events, limiter, progress=progress), asked)
    resampled = f"comparison.resample({_DRAWS})"
    cells.append(Cell("How sure this is", _SURE, resampled, lambda: comparison.resample(_DRAWS)))
    if int(events._times[-1]) - int(events._times[0]) > _SECONDS_A_DAY * 1_000_000:
        for name, limiter in asked.policies.items():
            code = f"replay(events, {asked.policy_codes[name]}).by_time('day', {zone!r})"
            words = f"Each day under {name}."
            cells.append(Cell("", words, code, partial(_by_day, events, limiter, zone)))
    return cells


def _by_day(events: Events, limiter: Limiter, timezone: str) -> pd.DataFrame:
    return replay(events, limiter, columns=("allowed",)).by_time("day", timezone)


def _cells_of_policy(name: str, answers: Replay, asked: Asked) -> list[Cell]:
    zone, made = asked.timezone, f"answers = replay(events, {asked.policy_codes[name]})\n"
    title = f"{name}: {policy_text(answers.limits, answers.penalty)}"
    cells = [
        Cell(
            title,
            "When requests passed, and when they were refused.",
            f"{made}answers.plot(timezone={zone!r}, title='')",
            lambda: answers.plot(timezone=zone, title=""),
        )
    ]
    if not answers.refused:
        return [cells[0]._replace(words="Nothing would have been refused.")]
    if asked.events.labels is not None:
        cells.append(Cell("", "Of each label:", "answers.by_label()", answers.by_label))
    words = f"Those that were refused most, and how long at most. Times are in {zone}."
    top = f"answers.by_identifier(top={_TOP}).query('refused > 0')"
    return [
        *cells,
        Cell("", words, top, lambda: answers.by_identifier(top=_TOP).query("refused > 0")),
        Cell(
            "",
            "",
            f"plot_heatmap(answers, {_TOP}, timezone={zone!r}, title='')",
            lambda: plot_heatmap(answers, _TOP, timezone=zone, title=""),
        ),
        Cell("", "What each of its limits did:", "answers.summary()", answers.summary),
    ]


class _Identifiers(NamedTuple):
    """Of events, how many identifiers there are, and which are busiest."""

    events: Events

    def _repr_html_(self) -> str:
        head = ("identifiers", "distinct", "busiest (events)")
        return html_table("", "", head, map(busiest, self.events._columns), left=(0, 2))


def _read(events: Events) -> str:
    told = [f"{events.skipped:,} requests without an identifier were left out."] * bool(events.skipped)
    if events.bad_lines:
        reasons = "; ".join(f"{reason} ({count:,})" for reason, count in events.bad_lines.reasons.items())
        told.append(f"{events.bad_lines.count:,} lines could not be read: {reasons}.")
    return " ".join(told) or "All lines could be read."


def _in_words(comparison: Comparison) -> str:
    """Say of each policy how much it refuses, and of how many."""
    said = []
    for name, effect in comparison.effects.items():
        if not effect.refused_events:
            said.append(f"\u201c{name}\u201d would have refused nothing.")
            continue
        events, identifiers = map(percent, effect[:2])
        worst = f", most of {printable(effect.worst_hit[0])}" if effect.worst_hit else ""
        said.append(
            f"\u201c{name}\u201d would have refused {events} of the requests, and at least one request of "
            f"{identifiers} of the identifiers{worst}."
        )
    return " ".join(said)


_IMPORTS = """from overlimit import Limiter, Penalty
from overlimit.simulation import compare, plot_heatmap, read_log, replay"""


def notebook_of(cells: Sequence[Cell], title: str) -> str:
    """Return a notebook of Jupyter whose cells make the same."""
    imports = "import re\n" * any("re.compile(" in cell.code for cell in cells) + _IMPORTS
    parts = [_markdown(f"# {title}"), _code(imports)]
    for cell in cells:
        words = "\n\n".join(filter(None, [f"## {cell.title}" * bool(cell.title), cell.words]))
        parts += [_markdown(words)] * bool(words) + [_code(cell.code)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook = {"cells": parts, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 4}
    return json.dumps(notebook, indent=1) + "\n"


def _markdown(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": text.splitlines(keepends=True)}


def _code(text: str) -> dict[str, Any]:
    source = text.splitlines(keepends=True)
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}


_STYLE = """
:root { color-scheme: light; }
body { margin: 0 auto; max-width: 62rem; padding: 1rem 1.25rem 3rem; color: #1b1f24; background: #fff;
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 1rem 0 0.2rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 0.4rem; }
p { margin: 0.4rem 0 0.8rem; max-width: 45rem; }
table { font-size: 0.85rem; }
th, td { overflow-wrap: normal; white-space: nowrap; vertical-align: top; }
th { font-weight: 600; }
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


def page_of(cells: Sequence[Cell], title: str, about: str, timezone: str) -> str:
    """Return a page of HTML in which all is that it shows: it links to nothing and asks for nothing."""
    parts = []
    for cell in cells:
        parts += [f"<h2>{_escaped(cell.title)}</h2>"] * bool(cell.title)
        parts += [f"<p>{_escaped(cell.words)}</p>"] * bool(cell.words)
        parts.append(_shown(cell.show(), timezone))
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
    if hasattr(found, "_repr_html_") and not hasattr(found, "columns"):
        return str(found._repr_html_())
    return _figure(found) if hasattr(found, "figure") else _table(found, timezone)


def _figure(ax: Any) -> str:
    drawn, figure = io.BytesIO(), ax.figure
    figure.savefig(drawn, format="png", dpi=_DOTS_PER_INCH)
    required("matplotlib.pyplot", "a report").close(figure)
    data = base64.b64encode(drawn.getvalue()).decode()
    name = _escaped(ax.get_title().replace("\n", " ") or ax.get_ylabel() or "Figure")
    return f'<figure><img alt="{name}" src="data:image/png;base64,{data}"></figure>'


def _table(frame: pd.DataFrame, timezone: str) -> str:
    names = [" ".join(each) if isinstance(each, tuple) else str(each) for each in frame.columns]
    head = [str(frame.index.name), *(name.replace("_", " ") for name in names)]
    rows = [
        [
            _cell("", key, timezone) or "(none)",
            *(_cell(*each, timezone) for each in zip(names, cells, strict=True)),
        ]
        for key, *cells in frame.itertuples(name=None)
    ]
    return html_table("", "", head, rows)


def _cell(column: str, value: Any, timezone: str) -> str:
    """Return a value of a table as people read it, by the name of its column."""
    if hasattr(value, "tz_convert"):
        return "-" if value != value else f"{value.tz_convert(timezone):%b %d %H:%M:%S}"  # noqa: PLR0124
    if column.startswith("longest_"):
        return seconds_text(value)
    if column.startswith(("refused_events", "refused_identifiers", "least_left")):
        return "-" if value != value else percent(value)  # noqa: PLR0124
    return number_text(value) if isinstance(value, (int, float)) else str(value)
