"""Build the documentation: ``make docs``."""

from __future__ import annotations

import sys
from pathlib import Path

import fastrank_eval

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent)]

project = "fastrank_eval"
author = "fastrank_eval developers"
project_copyright = author
version = release = fastrank_eval.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "numpydoc",
    "sphinx_click",
    "sphinx_copybutton",
    "mathml",
    "offline",
    "reference_pages",
]
exclude_patterns = ["_ext"]
nitpicky = True
#: Types of other libraries and of private files: their documentation is not here.
nitpick_ignore_regex = [
    ("py:.*", r"(?!fastrank_eval\.).*"),
    ("py:.*", r"fastrank_eval\.(?!integrations|pytrec_eval|spark|testing|trec)[a-z_]+\..*"),
    ("py:.*", r"fastrank_eval\.integrations\.[a-z_]+\..*"),
]

myst_enable_extensions = ["deflist", "dollarmath", "attrs_block"]
myst_heading_anchors = 3

#: The notebook is run with each build; an error in it ends the build.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings have types, with shapes and ranges
autodoc_preserve_defaults = True
smartquotes = False
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "furo"
html_title = f"fastrank_eval {release}"
html_show_sourcelink = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
pygments_style = "friendly"
pygments_dark_style = "monokai"
