"""Code for one framework after the other, each below its name in bold, becomes tabs of which one is shown."""

from __future__ import annotations

from html import escape

from docutils import nodes
from sphinx.application import Sphinx

NAMES = ("Flask", "FastAPI", "Django", "Quart", "ASGI", "WSGI")


def setup(app: Sphinx) -> dict[str, bool]:
    """Have Sphinx call what is here."""
    app.connect("doctree-read", put_in_tabs)
    app.add_js_file("tabs.js")
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def put_in_tabs(_: Sphinx, page: nodes.document) -> None:
    """Replace each row of names with code by tabs."""
    for number, label in enumerate([each for each in page.findall(nodes.paragraph) if name_of(each)]):
        if label in label.parent.children:  # and not among the tabs of one before
            make_tabs(label, f"tabs-{number}")


def name_of(node: nodes.Node) -> str:
    """Return the name that is all that a paragraph has, in bold, or nothing."""
    if not isinstance(node, nodes.paragraph) or node.astext() not in NAMES:
        return ""
    return "".join(each.astext() for each in node.children if isinstance(each, nodes.strong))


def make_tabs(label: nodes.Node, group: str) -> None:
    """Put the names from this one on, and the code below each, into one element."""
    parent, tabs = label.parent, nodes.container(classes=["tabs"])
    place = parent.index(label)
    parent.insert(place, tabs)
    place += 1
    while place < len(parent) and (name := name_of(parent[place])):
        parent.pop(place)
        tabs += nodes.raw("", choice(name, f"{group}-{name}", group, len(tabs) == 0), format="html")
        code = nodes.container(classes=["tab"])
        while place < len(parent) and isinstance(parent[place], nodes.literal_block):
            code += parent.pop(place)
        tabs += code


def choice(name: str, identity: str, group: str, is_first: bool) -> str:
    """Return the HTML by which a tab is chosen."""
    checked = " checked" if is_first else ""
    return (
        f'<input type="radio" name="{group}" id="{identity}" value="{escape(name)}"{checked}>'
        f'<label for="{identity}">{escape(name)}</label>'
    )
