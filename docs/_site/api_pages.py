"""Pages of public names: how they are found, and kept out of the navigation, which every page repeats."""

from __future__ import annotations

import importlib
import re
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.ext.autosummary import autosummary_toc

MODULES = ("", "recipes", "testing", "aio", "flask", "fastapi", "asgi", "django", "wsgi", "requests", "httpx")
MODULES += ("aiohttp", "http", "http.fields", "simulation")
PAGE = "reference/api.md"
NAMES = re.compile(r"^## (?P<title>[^\n]+)\n\n(?P<names>`\w+`(?:,\s`\w+`)*)\n", re.M)
ALIAS = re.compile(r"TypeAliasForwardRef\('([\w.]+)'\)")


def setup(app: Sphinx) -> dict[str, bool]:
    """Have Sphinx call what is here."""
    app.connect("builder-inited", summarize, priority=400)  # before it is searched for names
    app.connect("autodoc-process-signature", name_aliases)
    app.connect("doctree-read", leave_navigation, priority=400)  # before it is read from there
    app.connect("missing-reference", resolve)
    app.connect("html-collect-pages", forget_what_has_no_source, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def summarize(app: Sphinx) -> None:
    """Make the names below each heading a table with their first sentences, and a page for each of them."""
    file = Path(app.srcdir) / PAGE  # a copy of docs, which a build may write to
    file.write_text(NAMES.sub(summary, file.read_text(encoding="utf-8")), encoding="utf-8")


def summary(section: re.Match[str]) -> str:
    """Return a heading, and the directive for the names below it."""
    title, names = section["title"], re.findall(r"\w+", section["names"])
    module = title if title.startswith("overlimit.") else "overlimit"
    directive = f".. currentmodule:: {module}\n.. autosummary::\n   :toctree: api\n   :nosignatures:\n"
    rows = "".join(f"\n   {name}" for name in names)
    return f"## {title}\n\n```{{eval-rst}}\n{directive}{rows}\n```\n"


def name_aliases(*event: Any) -> tuple[str | None, ...]:
    """Write the names of types, which Sphinx wraps where they are part of a union."""
    *_, arguments, returned = event
    return tuple(text and ALIAS.sub(r"~\1", text) for text in (arguments, returned))


def leave_navigation(_: Sphinx, page: nodes.document) -> None:
    """Drop what would put a page for each name into the navigation."""
    for toctree in list(page.findall(autosummary_toc)):
        toctree.parent.remove(toctree)


def forget_what_has_no_source(app: Any) -> tuple[()]:
    """Keep the core, which is no Python, out of the list of sources."""
    sources = app.env._viewcode_modules
    app.env._viewcode_modules = {name: known for name, known in sources.items() if known}
    return ()


@cache
def public_names() -> dict[str, str]:
    """Return the public name of each class and function, by the one that it has where it is defined."""
    names: dict[str, str] = {}
    for each in MODULES:
        module = importlib.import_module(f"overlimit.{each}".rstrip("."))
        for name in module.__all__:
            value = getattr(module, name)
            defined = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"
            names.setdefault(defined, f"{module.__name__}.{name}")
    return names


def resolve(app: Sphinx, env: Any, node: Any, content: nodes.TextElement) -> nodes.reference | None:
    """Link what has no page under the name that it was given to the page of its public name."""
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"]
    public = public_names().get(target, f"overlimit.{target}")
    link: nodes.reference | None = env.domains["py"].resolve_xref(
        env, node["refdoc"], app.builder, "obj", public, node, content
    )
    return link
