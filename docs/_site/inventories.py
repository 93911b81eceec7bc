"""What other projects document: without a network there are fewer links, and no warning."""

from __future__ import annotations

import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SITES = {
    "python": "https://docs.python.org/3/",
    "numpy": "https://numpy.org/doc/stable/",
    "pandas": "https://pandas.pydata.org/docs/",
    "matplotlib": "https://matplotlib.org/stable/",
    "flask": "https://flask.palletsprojects.com/en/stable/",
    "werkzeug": "https://werkzeug.palletsprojects.com/en/stable/",
    "django": "https://docs.djangoproject.com/en/stable/",
    "requests": "https://requests.readthedocs.io/en/latest/",
}
FIRST_LINE = b"# Sphinx inventory version 2\n"
PATIENCE = 3.0


def reachable(folder: Path) -> dict[str, tuple[str, str]]:
    """Return the ``intersphinx_mapping`` of what is in the folder, or can be fetched into it."""
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(len(SITES)) as pool:
        there = list(pool.map(lambda name: fetched(SITES[name], folder / f"{name}.inv"), SITES))
    known = [name for name, has in zip(SITES, there, strict=True) if has]
    return {name: (SITES[name], str(folder / f"{name}.inv")) for name in known}


def fetched(site: str, file: Path) -> bool:
    """Whether the inventory of a site is in a file, into which it is fetched if it can be."""
    if file.exists():
        return True
    try:
        with urllib.request.urlopen(f"{site}objects.inv", timeout=PATIENCE) as answer:
            inventory = answer.read()
    except OSError:
        return False
    if not inventory.startswith(FIRST_LINE):
        return False
    file.write_bytes(inventory)
    return True
