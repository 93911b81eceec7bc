"""What mkdocs does besides: notebooks become pages, and the gallery's own code draws its figures."""

from __future__ import annotations

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
NOTEBOOKS = ROOT / "examples" / "notebooks"
GALLERY = "gallery.md"
BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```\n", re.MULTILINE | re.DOTALL)

sys.path.insert(0, str(ROOT / "tests"))
from servers.redis_server import RedisServer  # noqa: E402 - the docs are built where the tests are


def on_files(files: Files, config: Any) -> Files:
    """Add a page for each notebook, with what its cells have shown, and the figures of the gallery."""
    with redis_for_notebooks():
        for path in sorted(NOTEBOOKS.glob("*.ipynb")):
            add_notebook(path, files, config)
    gallery = (Path(config.docs_dir) / GALLERY).read_text(encoding="utf-8")
    for number, block in enumerate(BLOCK.finditer(gallery)):
        files.append(File.generated(config, figure_name(number), content=drawn(block["code"])))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put each figure of the gallery below the code that has drawn it."""
    if page.file.src_uri != GALLERY:
        return markdown
    numbers = iter(range(len(BLOCK.findall(markdown))))
    return BLOCK.sub(lambda block: f"{block[0]}\n![]({figure_name(next(numbers))})\n", markdown)


def figure_name(number: int) -> str:
    """Return where a figure of the gallery lies, from the root of the site."""
    return f"gallery/figure-{number}.png"


def drawn(code: str) -> bytes:
    """Run the code and return its last figure as a PNG."""
    from matplotlib import pyplot

    pyplot.switch_backend("agg")
    pyplot.close("all")
    exec(code, {})
    image = io.BytesIO()
    pyplot.gcf().savefig(image, format="png", dpi=150)
    pyplot.close("all")
    return image.getvalue()


def add_notebook(path: Path, files: Files, config: Any) -> None:
    """Run a notebook and add it as a page, with a file for each of its figures."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute(cwd=str(path.parent))
    exporter = MarkdownExporter()
    text, resources = exporter.from_notebook_node(notebook)
    for name, content in resources["outputs"].items():
        own = f"{path.stem}_{name}"
        text = text.replace(f"({name})", f"({own})")
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
