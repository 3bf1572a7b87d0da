"""The documentation site: `make docs` builds it from the pages and notebooks where they are, without a network.

Pages are written for a repository's web page, too. So what only the site needs is added here: a section page gets its
pages from the links in its lists and tables, and `<!-- site: NAME -->` is replaced by a part made from the code.
"""

import os
import re
import runpy
import shutil
from pathlib import Path

from sphinx.util.inspect import TypeAliasForwardRef

import ctxbench

ROOT = Path(__file__).parent
GUIDE = "experiments/guide"

project = "ctxbench"
author = "The ctxbench developers"
copyright = author  # noqa: A001 - Sphinx's name
version = release = ctxbench.__version__
root_doc = f"{GUIDE}/index"
include_patterns = [
    "*.md",
    "notebooks/*.ipynb",
    "datasets/*.md",
    "reports/*.md",
    "experiments/*.md",
    "experiments/*/*.md",
    "experiments/recipes/*/README.md",
    "ctxbench/*.md",
    "ctxbench/memory/*.md",
]
exclude_patterns = [".venv", "build"]

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
nb_execution_mode = "off"  # tests run the notebooks and compare what they show
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
suppress_warnings = [
    "myst.header",  # a part may begin below a level that its page lacks
    "mystnb.unknown_mime_type",
    "ref.python",  # fields of several classes have one name
]
smartquotes_action = "D"  # dashes alone: quotes in running text may be of a file
default_role = "code"  # of docstrings, which are Markdown in this
napoleon_attr_annotations = False  # signatures have the types
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
autodoc_member_order = "bysource"
autodoc_type_aliases = {name: name for name in ("FloatArray", "Float32Array", "IntArray", "BoolArray")}
TypeAliasForwardRef.__repr__ = lambda alias: alias.name  # within the type of a property it is written as it prints
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
# types in signatures are of other packages and of modules that have no page
nitpick_ignore_regex = [("py:(class|data|obj|exc|attr)", ".*")]

html_theme = "furo"
html_title = "ctxbench"
html_static_path = [f"{GUIDE}/site"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_copy_source = html_use_index = False
html_show_sphinx = False
html_permalinks_icon = "#"

SECTIONS = {f"{GUIDE}/{name}" for name in ("index", "tutorials", "how-to", "reference", "explanation")}
LISTED = re.compile(r"^[*|] \[([^\]]*)\]\(([^)#:]+)\.(?:md|ipynb)\)", re.MULTILINE)
# pages that a section has beside those that it links
REST = {
    f"{GUIDE}/how-to": ("experiments/gate/*.md",),
    f"{GUIDE}/explanation": ("reports/*.md",),
}
FIRST = f"""<!doctype html>
<html lang="en"><title>ctxbench</title><meta http-equiv="refresh" content="0; url={root_doc}.html">
<a href="{root_doc}.html">ctxbench</a></html>
"""
PART = re.compile(r"<!-- site: ([\w-]+) -->")


def complete(_app, page, source):
    """Add to a page what only the site needs."""
    parts = runpy.run_path(str(ROOT / GUIDE / "site_pages.py"))["PARTS"] if PART.search(source[0]) else {}
    source[0] = PART.sub(lambda match: parts[match[1]](), source[0])
    if page in SECTIONS:
        listed = {os.path.normpath(f"{GUIDE}/{path}"): text for text, path in LISTED.findall(source[0])}
        rest = [path for pattern in REST.get(page, ()) for path in sorted(ROOT.glob(pattern))]
        paths = dict.fromkeys([*listed, *(str(path.relative_to(ROOT).with_suffix("")) for path in rest)])
        lines = [f"{listed[path]} </{path}>" if page == root_doc else f"/{path}" for path in paths]
        source[0] += "\n\n```{toctree}\n:hidden:\n\n" + "\n".join(lines) + "\n```\n"


def changed_elsewhere(_app, _env, _added, _changed, _removed):
    """The pages with what is found in other files, which are made anew by every build."""
    pages = (ROOT / "experiments").rglob("*.md")
    parts = [str(page.relative_to(ROOT).with_suffix("")) for page in pages if PART.search(page.read_text("utf-8"))]
    return sorted({*SECTIONS, *parts})


def finish(app, fault):
    """Publish the JSON Schemas under their names, and lead from the root of the site to its first page."""
    if fault is None and app.builder.format == "html":
        shutil.copytree(ROOT / "ctxbench" / "schemas", Path(app.outdir, "schemas"), dirs_exist_ok=True)
        Path(app.outdir, "index.html").write_text(FIRST, "utf-8")


def restore_first_line(_app, what, _name, _value, _options, lines):
    """Put back the words in front of a colon in a property's first line, which napoleon takes for its type."""
    for number, line in enumerate(lines):
        if what == "property" and line.startswith(":type: "):
            lines[0] = f"{lines.pop(number).removeprefix(':type: ')}: {lines[0]}"
            return


def plain_types(_app, _what, _name, _value, _options, signature, returned):
    """Write types within brackets by their names alone, as those outside are."""
    nested = re.compile(r"(?<=\[)~(?:\w+\.)*(\w+)")
    return tuple(text and nested.sub(r"\1", text) for text in (signature, returned))


def setup(app):
    """Connect the functions of this file."""
    app.connect("autodoc-process-signature", plain_types)
    app.connect("autodoc-process-docstring", restore_first_line, priority=600)
    app.connect("env-get-outdated", changed_elsewhere)
    app.connect("source-read", complete)
    app.connect("build-finished", finish)
