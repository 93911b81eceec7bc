"""What notebooks need: a quiet kernel, a Redis, and a word where a page cannot show controls."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from servers.redis_server import RedisServer

WIDGET = "application/vnd.jupyter.widget-view+json"
WIDGET_TEXT = "A notebook shows controls here, and below them what they bring about; a page cannot."
running: list[RedisServer] = []


def setup(app: Sphinx) -> dict[str, bool]:
    """Have Sphinx call what is here."""
    app.connect("builder-inited", quieten)
    app.connect("builder-inited", start_redis)
    app.connect("build-finished", stop_redis)
    app.connect("doctree-read", replace_widgets)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def quieten(app: Sphinx) -> None:
    """Have kernels and their client tell of errors only, whatever the profile of whoever builds."""
    logging.getLogger("traitlets").setLevel(logging.ERROR)
    profile = Path(app.doctreedir) / "ipython" / "profile_default"
    profile.mkdir(parents=True, exist_ok=True)
    (profile / "ipython_kernel_config.py").write_text("c.IPKernelApp.log_level = 'ERROR'\n", encoding="utf-8")
    os.environ["IPYTHONDIR"] = str(profile.parent)


def start_redis(_: Sphinx) -> None:
    """Run a server for the notebook that talks to one."""
    running.append(RedisServer())
    os.environ["REDIS_URL"] = running[0].tcp_url()


def stop_redis(*_: object) -> None:
    """End the server."""
    running.pop().stop()


def replace_widgets(_: Sphinx, page: Any) -> None:
    """Say what a notebook would show where it shows controls."""
    for node in list(page.findall(nodes.raw)):
        if WIDGET in node.astext():
            node.replace_self(nodes.paragraph("", "", nodes.emphasis("", WIDGET_TEXT)))
