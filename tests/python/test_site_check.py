"""What `make docs` says of a site whose links lead nowhere."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


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
