"""A document as one HTML file: no script, no request of any kind, texts escaped whoever wrote them."""

from __future__ import annotations

import re

from ctxbench.report.document import Document
from ctxbench.report.page_templates import page_template, stylesheet
from ctxbench.report.wording import on_one_line, without_surrogates


def page(document: Document) -> str:
    """Render a document; the same document gives the same page."""
    template = page_template(
        "document.html.j2", line=on_one_line, unbroken=_keep_unbroken, kind=lambda block: type(block).__name__
    )
    return without_surrogates(template.render(document=document, style=stylesheet("report.css", "document.css")))


def _keep_unbroken(text: str) -> str:
    """A text whose parts in brackets stay on one line."""
    return re.sub(r"\(.*?\)", lambda match: match[0].replace(" ", "\u00a0"), text)
