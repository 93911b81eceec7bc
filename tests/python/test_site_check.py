"""What `make docs` says of a site whose links lead nowhere, and makes of code for several frameworks."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from docutils import nodes
from docutils.core import publish_doctree
from myst_parser.parsers.docutils_ import Parser


@pytest.fixture
def broken_links(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "docs" / "_site")
    import check

    yield check.broken_links
    del sys.modules["check"]


def test_links_to_what_is_not_there_are_told(broken_links, tmp_path):
    (tmp_path / "guides").mkdir()
    (tmp_path / "index.html").write_text(
        '<a href="guides/a.html#there"></a><a href="guides/a.html#gone"></a><img src="gone.svg">'
        '<a href="#here" id="here"></a><a href="https://example.com/gone"></a>'
    )
    (tmp_path / "guides" / "a.html").write_text(
        '<p id="there"><a href="../gone.html"></a><a href="../index.html"></a>'
    )
    (tmp_path / "llms.txt").write_text("- [a](guides/a.html): there\n- [b](guides/b.html): gone\n")
    assert sorted(broken_links(tmp_path)) == [
        "guides/a.html: ../gone.html",
        "index.html: gone.svg",
        "index.html: guides/a.html#gone",
        "llms.txt: guides/b.html",
    ]


def test_code_below_names_of_frameworks_becomes_tabs_of_which_the_first_is_shown(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "docs" / "_site")
    import tabs

    code = "```python\n1\n```\n\n```text\n2\n```\n\n"
    page = publish_doctree(f"**Flask**\n\n{code}**Django**\n\n{code}After.\n\n**Bold**\n", parser=Parser())
    tabs.put_in_tabs(None, page)
    (made,) = page.findall(lambda node: "tabs" in node.get("classes", ()) if hasattr(node, "get") else False)
    chosen = [each.astext() for each in made.children if isinstance(each, nodes.raw)]
    assert [re.findall("<label.*>(.*)</label>", each) for each in chosen] == [["Flask"], ["Django"]]
    assert [" checked" in each for each in chosen] == [True, False]
    shown = [each for each in made.children if isinstance(each, nodes.container)]
    assert [[code.astext().strip() for code in tab.children] for tab in shown] == [["1", "2"]] * 2
    assert [each.astext() for each in page.children if each is not made] == ["After.", "Bold"]
