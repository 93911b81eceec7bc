"""The navigation, which is kept out of the text of the first page for whoever reads that elsewhere."""

from __future__ import annotations

from sphinx.application import Sphinx

CHAPTERS = {
    "Start": "tutorial guides/choosing performance",
    "How-to guides": "guides/web guides/limiter guides/recipes guides/asyncio guides/language_models "
    "guides/clients guides/jobs guides/migrating guides/shared_memory guides/databases guides/own_store "
    "guides/mod_wsgi_and_uwsgi guides/operations guides/fewer_commands guides/alarms guides/metrics "
    "guides/simulation guides/testing",
    "Notebooks": "gallery notebooks/first_look notebooks/which_algorithm notebooks/tune_from_a_log "
    "notebooks/retry_storms notebooks/redis_live",
    "Reference": "reference/api genindex reference/limits reference/limiter reference/stores reference/web "
    "reference/flask reference/fastapi reference/django reference/quart reference/middleware "
    "reference/limits_file reference/simulation "
    "reference/log_formats reference/command_line semantics",
    "Explanation": "algorithms appendix/systems appendix/over_limit",
    "Contributing": "architecture testing building adding_an_algorithm adding_a_store adding_a_framework "
    "adding_a_question forks decisions",
}

NUMBERS = {"guides/alarms": {"## HTTP 429 that nobody expects": "429"}}
"""Headings by page with the number that leads there in the search, which takes no number from a text."""


def setup(app: Sphinx) -> dict[str, bool]:
    """Have Sphinx call what is here."""
    app.connect("source-read", append_navigation)
    app.connect("source-read", index_numbers)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def append_navigation(_: Sphinx, page: str, text: list[str]) -> None:
    """Append the pages of each chapter to the first page."""
    if page == "index":
        text[0] += "".join(toctree(title, pages.split()) for title, pages in CHAPTERS.items())


def index_numbers(_: Sphinx, page: str, text: list[str]) -> None:
    """Put an entry of the index below each heading that has one."""
    for heading, number in NUMBERS.get(page, {}).items():
        text[0] = text[0].replace(f"{heading}\n", f"{heading}\n\n```{{index}} {number}\n```\n", 1)


def toctree(title: str, pages: list[str]) -> str:
    """Return the Markdown that gives pages a place in the navigation."""
    return "\n".join(("\n```{toctree}", ":hidden:", f":caption: {title}", "", *pages, "```\n"))
