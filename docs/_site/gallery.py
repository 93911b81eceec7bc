"""The gallery shows what its own code makes."""

from __future__ import annotations

import io
import re
from pathlib import Path

from sphinx.application import Sphinx

PAGE = "gallery"
BLOCK = re.compile(
    r"^#+ (?P<title>[^\n]*)\n\n(?:(?!^#|^```).)*^```python\n(?P<code>.*?)^```\n", re.MULTILINE | re.DOTALL
)


def setup(app: Sphinx) -> dict[str, bool]:
    """Have Sphinx call what is here."""
    app.connect("source-read", show_what_blocks_make)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def show_what_blocks_make(app: Sphinx, page: str, text: list[str]) -> None:
    """Put each figure of the gallery below the code that has made it."""
    if page != PAGE:
        return
    folder = Path(app.srcdir) / PAGE  # a copy of docs, which a build may write to
    folder.mkdir(exist_ok=True)
    text[0] = BLOCK.sub(lambda block: block[0] + shown(block["title"], draw(block["code"]), folder), text[0])


def shown(title: str, figure: bytes, folder: Path) -> str:
    """Return the Markdown that shows a figure, which goes to a file."""
    file = folder / f"{title.lower().replace(' ', '-')}.png"
    file.write_bytes(figure)
    return f"\n![{title}]({folder.name}/{file.name})\n"


def draw(code: str) -> bytes:
    """Run the code and return its last figure as a PNG."""
    from matplotlib import pyplot

    pyplot.switch_backend("agg")
    pyplot.close("all")
    exec(compile(code, PAGE, "exec"), {})
    image = io.BytesIO()
    pyplot.gcf().savefig(image, format="png", dpi=150)
    pyplot.close("all")
    return image.getvalue()
