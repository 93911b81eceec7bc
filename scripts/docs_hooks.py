"""What mkdocs does besides: notebooks become pages, and the gallery shows what its own code makes."""

from __future__ import annotations

import ast
import io
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
from mkdocs.structure.files import File, Files
from nbclient import NotebookClient
from nbconvert import MarkdownExporter

ROOT = Path(__file__).parents[1]
shown: dict[str, str] = {}
NOTEBOOKS = ROOT / "examples" / "notebooks"
GALLERY = "gallery.md"
BLOCK = re.compile(
    r"^#+ (?P<title>[^\n]*)\n\n(?:(?!^#|^```).)*^```python\n(?P<code>.*?)^```\n", re.MULTILINE | re.DOTALL
)
WIDGET = "application/vnd.jupyter.widget-view+json"
WIDGET_TEXT = "*A notebook shows controls here, and below them what they bring about; a page cannot.*"

sys.path.insert(0, str(ROOT / "tests"))
from servers.redis_server import RedisServer  # noqa: E402 - the docs are built where the tests are


def on_files(files: Files, config: Any) -> Files:
    """Add a page for each notebook, with what its cells have shown, and the figures of the gallery."""
    with redis_for_notebooks():
        for path in sorted(NOTEBOOKS.glob("*.ipynb")):
            add_notebook(path, files, config)
    gallery = (Path(config.docs_dir) / GALLERY).read_text(encoding="utf-8")
    for number, block in enumerate(BLOCK.finditer(gallery)):
        made = run(block["code"])
        if isinstance(made, str):
            shown[block["code"]] = f'<div class="overlimit-shown">{made}</div>'
            continue
        name = f"gallery/figure-{number}.png"
        files.append(File.generated(config, name, content=made))
        shown[block["code"]] = f"![{block['title']}]({name})"
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put each figure and table of the gallery below the code that has made it."""
    if page.file.src_uri != GALLERY:
        return markdown
    return BLOCK.sub(lambda block: f"{block[0]}\n{shown[block['code']]}\n", markdown)


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
        return eval(compile(ast.Expression(node.value), GALLERY, "eval"), names)
    exec(compile(ast.Module([node], []), GALLERY, "exec"), names)
    return None


def add_notebook(path: Path, files: Files, config: Any) -> None:
    """Run a notebook and add it as a page, with a file for each of its figures."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute(cwd=str(path.parent))
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if WIDGET in output.get("data", ()):
                output["data"] = {"text/markdown": WIDGET_TEXT}
    exporter = MarkdownExporter()
    text, resources = exporter.from_notebook_node(notebook)
    for name, content in resources["outputs"].items():
        own = f"{path.stem}_{name}"
        text = text.replace(f"![png]({name})", f"![what the code above has drawn]({own})")
        files.append(File.generated(config, f"notebooks/{own}", content=content))
    text = text.replace(".ipynb)", ".md)")
    files.append(File.generated(config, f"notebooks/{path.stem}.md", content=text))


@contextmanager
def redis_for_notebooks() -> Iterator[None]:
    """Run a server for the notebook that talks to one."""
    server = RedisServer()
    os.environ["REDIS_URL"] = server.tcp_url()
    try:
        yield
    finally:
        del os.environ["REDIS_URL"]
        server.stop()
