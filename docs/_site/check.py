"""Check a built site: every link leads somewhere, and pages of each kind look right on a phone and a desktop.

``python docs/_site/check.py build/site``
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

sys.path.append(str(Path(__file__).parents[2] / "tests"))

from servers.browser import Browser

SHOWN = ("index", "tutorial", "guides/web", "guides/migrating", "performance", "gallery", "genindex")
SHOWN += ("notebooks/tune_from_a_log", "reference/api", "reference/api/overlimit.Limiter")
WIDTHS = (390, 1280)
MARKDOWN_LINK = re.compile(r"\]\(([^)]*)\)")
BROKEN_IMAGES = "[...document.images].filter(image => !image.naturalWidth).map(image => image.src)"


class Page(HTMLParser):
    """What can be linked to in a page, and what it links to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        text = path.read_text(encoding="utf-8")
        self.links.update(MARKDOWN_LINK.findall(text) if path.suffix == ".txt" else ())
        self.feed(text)

    def handle_starttag(self, _: str, attributes: list[tuple[str, str | None]]) -> None:
        """Note the anchor and the links of a tag."""
        for name, value in attributes:
            if name == "id" and value:
                self.anchors.add(value)
            if name in ("href", "src") and value:
                self.links.add(value)


def broken_links(site: Path) -> list[str]:
    """Return every link to a file or an anchor of the site that is not there."""
    pages = {path: Page(path) for path in [*site.rglob("*.html"), *site.glob("llms.txt")]}
    return [
        f"{path.relative_to(site)}: {link}"
        for path, page in pages.items()
        for link in sorted(page.links)
        if not urlsplit(link).scheme and not leads_somewhere(path, link, pages)
    ]


def leads_somewhere(path: Path, link: str, pages: dict[Path, Page]) -> bool:
    """Whether a link from a page leads to a file, and to an anchor there if it names one."""
    parts = urlsplit(link)
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.is_file():
        return False
    # A source links back to one of the names that a function is exported under, maybe on the page of another.
    if not parts.fragment or target not in pages or "_modules" in path.parts:
        return True
    return unquote(parts.fragment) in pages[target].anchors


def flaws(browser: Browser, site: Path, width: int) -> list[str]:
    """Return what is wrong with the pages at a width: too wide, without an image, or with a complaint."""
    browser.tell(
        "Emulation.setDeviceMetricsOverride", width=width, height=844, deviceScaleFactor=1, mobile=width < 500
    )
    found = []
    for name in SHOWN:
        browser.open(f"{(site / name).as_uri()}.html")
        asked = [event["request"]["url"] for event in browser.of("Network.requestWillBeSent")]
        wrong = {
            "wider than the window": browser.value("document.documentElement.scrollWidth > innerWidth"),
            "images that are not there": browser.value(BROKEN_IMAGES),
            "from elsewhere": [url for url in asked if not url.startswith(("file:", "data:"))],
            "complaints": browser.complaints(),
        }
        found += [f"{name}, {width} pixels wide: {what}: {said}" for what, said in wrong.items() if said]
    return found


def main() -> None:
    """Print what is wrong, and fail if there is anything."""
    site = Path(sys.argv[1]).resolve()
    browser = Browser()
    try:
        wrong = broken_links(site) + [flaw for width in WIDTHS for flaw in flaws(browser, site, width)]
    finally:
        browser.stop()
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
