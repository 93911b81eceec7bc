"""The file llms.txt of the site: what the project is, and a line for each page, for programs that read it."""

from __future__ import annotations

import re
from pathlib import Path

from navigation import CHAPTERS
from sphinx.application import Sphinx

NOT_PAGES = ("genindex", "notebooks/")
TITLE = re.compile(r"^# (.+)\n\n((?:(?!#|\||<|```).+\n)+)", re.M)
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def setup(app: Sphinx) -> dict[str, bool]:
    """Have Sphinx call what is here."""
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write(app: Sphinx, error: Exception | None) -> None:
    """Put the file beside the pages."""
    if error is None:
        text = llms_text(Path(app.srcdir))
        Path(app.outdir, "llms.txt").write_text(text, encoding="utf-8")


def llms_text(docs: Path) -> str:
    """Return the file: a title, a summary, and a list of pages for each chapter."""
    title, summary = title_and_first_sentence(docs / "index.md")
    chapters = [
        "\n".join([f"## {chapter}", "", *(line_of(docs, page) for page in pages.split() if is_page(page))])
        for chapter, pages in CHAPTERS.items()
    ]
    return "\n\n".join([f"# {title}", f"> {summary}", *chapters]) + "\n"


def is_page(page: str) -> bool:
    """Whether a place in the navigation is a page in Markdown."""
    return not page.startswith(NOT_PAGES)


def line_of(docs: Path, page: str) -> str:
    """Return a link to a page, and what that says first."""
    title, sentence = title_and_first_sentence(docs / f"{page}.md")
    return f"- [{title}]({page}.html): {sentence}"


def title_and_first_sentence(page: Path) -> tuple[str, str]:
    """Return the heading of a page, and the first sentence below it without its links."""
    found = TITLE.search(page.read_text(encoding="utf-8"))
    if found is None:
        raise ValueError(f"{page} does not begin with a heading and a sentence")
    text = LINK.sub(r"\1", " ".join(found[2].split()))
    return found[1], re.split(r"(?<=[.?])\s", text)[0]
