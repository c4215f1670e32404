"""Sphinx: `pip install '.[docs]' && sphinx-build -W docs site`. Nothing is fetched, neither here nor by the pages."""

import sys
from importlib.metadata import version as installed
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for mathml.py

project = "tamis"
author = "The tamis developers"
copyright = author  # noqa: A001, Sphinx's name
version = release = installed("tamis")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "mathml"]
myst_enable_extensions = ["dollarmath", "deflist", "smartquotes"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = "tamis"
html_static_path = ["_static"]
html_css_files = ["tamis.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sphinx = False

autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False
