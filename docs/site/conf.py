"""Sphinx's settings for the site; scripts/site calls it on the pages that docs/site/pages.py collects."""
import os
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(ROOT / "python")]
import comments  # noqa: E402
from sphinx.ext.autodoc.mock import mock  # noqa: E402

project = "cusight"
copyright = "the authors of cusight; Apache-2.0"  # noqa: A001
release = ".".join(re.findall(r"#define CUSIGHT_VERSION_M\w+ (\d+)", (ROOT / "include/cusight/core.h").read_text(encoding="utf-8")))

extensions = ["breathe", "myst_parser", "sphinx.ext.autodoc"]
breathe_projects = {"cusight": os.environ.get("CUSIGHT_DOXYGEN_XML", "doxygen/xml")}
breathe_default_project = "cusight"
breathe_domain_by_extension = {"h": "c", "hpp": "cpp"}
breathe_show_enumvalue_initializer = True
myst_heading_anchors = 4  # the anchors that code hosts give to headings
suppress_warnings = ["myst.header"]  # a chapter may begin with a picture

html_theme = "furo"
html_title = f"cusight {release}"
html_static_path = [str(HERE / "static")]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
# The whole dark palette: Debian's Furo has lost the rules for readers whose system is dark.
DARK = {
    "foreground-primary": "#e6e9ec", "foreground-secondary": "#a0abb5", "foreground-muted": "#7d8893", "foreground-border": "#5d666f",
    "background-primary": "#14181c", "background-secondary": "#1a1f24", "background-hover": "#232a30",
    "background-hover--transparent": "#232a3000", "background-border": "#313940", "background-item": "#3a434b",
    "announcement-background": "#000000dd", "announcement-text": "#e6e9ec", "brand-primary": "#6db3ff", "brand-content": "#6db3ff",
    "highlighted-background": "#0b3a66", "guilabel-background": "#0b3a6680", "guilabel-border": "#1c4f8080",
    "highlight-on-target": "#3a3a0c", "admonition-background": "#1a1f24", "card-border": "#1a1f24", "card-background": "#1a1f24",
    "card-marginals-background": "#232a30", "problematic": "#ff8a80",
}
html_theme_options = {"navigation_with_keys": True, "dark_css_variables": {f"color-{name}": value for name, value in DARK.items()}}
highlight_language = "none"
pygments_style = "default"
c_id_attributes = ["CUS_API"]
cpp_id_attributes = ["CUS_API"]

# The Python package is read without its compiled module: its docstrings are in the Python files.
autodoc_mock_imports = ["cusight._core", "numpy", "cupy", "jax", "ray"]
with mock([*autodoc_mock_imports, "torch"]):  # cusight.ops cannot be imported without PyTorch, cusight.torch can
    import cusight.ops  # noqa: F401
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_default_options = {"undoc-members": True}


def plain_docstring(app, what, name, obj, options, lines):
    """The docstrings are plain text with "argument: meaning" lines, as the headers' comments are."""
    if lines and what != "attribute":
        lines[:] = comments.rst(lines).split("\n")


def keep_calls(app, what, name, obj, skip, options):
    return False if name == "__call__" and what == "class" else None


def setup(app):
    app.connect("autodoc-skip-member", keep_calls)
    app.connect("autodoc-process-docstring", plain_docstring)
