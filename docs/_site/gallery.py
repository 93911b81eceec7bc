"""The gallery shows what its own code makes."""

from __future__ import annotations

import ast
import io
import re
from pathlib import Path
from typing import Any

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
    """Put each figure and table of the gallery below the code that has made it."""
    if page != PAGE:
        return
    folder = Path(app.srcdir) / PAGE  # a copy of docs, which a build may write to
    folder.mkdir(exist_ok=True)
    text[0] = BLOCK.sub(lambda block: block[0] + shown(block["title"], run(block["code"]), folder), text[0])


def shown(title: str, made: bytes | str, folder: Path) -> str:
    """Return the Markdown that shows a figure, which goes to a file, or a table."""
    if isinstance(made, str):
        return f'\n<div class="overlimit-shown">{made}</div>\n'
    file = folder / f"{title.lower().replace(' ', '-')}.png"
    file.write_bytes(made)
    return f"\n![{title}]({folder.name}/{file.name})\n"


def run(code: str) -> bytes | str:
    """Run the code and return its last figure as a PNG; without one, its last values as HTML."""
    from matplotlib import pyplot

    pyplot.switch_backend("agg")
    pyplot.close("all")
    names: dict[str, Any] = {}
    made = [statement(each, names) for each in ast.parse(code).body]
    if not pyplot.get_fignums():
        return "".join(each._repr_html_() for each in made if hasattr(each, "_repr_html_")).replace("\n", " ")
    image = io.BytesIO()
    pyplot.gcf().savefig(image, format="png", dpi=150)
    pyplot.close("all")
    return image.getvalue()


def statement(node: ast.stmt, names: dict[str, Any]) -> Any:
    """Run a statement, and return its value if it is an expression."""
    if isinstance(node, ast.Expr):
        return eval(compile(ast.Expression(node.value), PAGE, "eval"), names)
    exec(compile(ast.Module([node], []), PAGE, "exec"), names)
    return None
