"""The site: Sphinx reads the pages as Markdown, the notebooks and the docstrings (docs/testing.md)."""

import sys
from pathlib import Path

import overlimit

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "docs" / "_site"), str(ROOT / "tests")]

import inventories  # noqa: E402 - it is in the path only now

project = "overlimit"
version = release = overlimit.__version__
extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "api_pages",
    "commands",
    "gallery",
    "llms",
    "measurements",
    "navigation",
    "notebooks",
    "tabs",
]
exclude_patterns = ["_*", "conf.py"]

myst_heading_anchors = 6
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_ipywidgets_js = {}

default_role = "py:obj"
autosummary_generate = True
templates_path = ["_templates"]
# What is inherited from these is documented elsewhere.
FOREIGN = (
    "AsyncBaseTransport, BaseException, BaseThrottle, BaseTransport, Flag, HTTPAdapter, HTTPException, "
    "IntEnum, Response, int, object, tuple"
)
autodoc_default_options = {"members": True, "inherited-members": FOREIGN, "no-value": True}
autodoc_member_order = "bysource"
TYPES = ("ClockLike", "LimitsLike", "OnError", "StoreLike")
autodoc_type_aliases = {name: f"overlimit.{name}" for name in TYPES}
autodoc_typehints_format = "short"
maximum_signature_line_length = 88
numpydoc_show_class_members = False
add_module_names = False
toc_object_entries_show_parents = "hide"

# "Response" in a signature is that of a framework.
suppress_warnings = ["ref.python"]
# Types in signatures may be private, or of projects whose inventories are not there.
nitpick_ignore_regex = [("py:class", ".*")]
intersphinx_mapping = inventories.reachable(ROOT / "build" / "inventories")

html_theme = "furo"
html_title = "overlimit"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
html_theme_options = {"top_of_page_buttons": []}
copybutton_exclude = ".linenos, .gp, .go"  # prompts and what is printed


def setup(_: object) -> None:
    """Have Django know settings, without which rest_framework cannot be imported."""
    import django.conf

    django.conf.settings.configure()
