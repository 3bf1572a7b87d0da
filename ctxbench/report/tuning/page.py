"""A report as one HTML file: no script, no request of any kind, texts escaped whoever wrote them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ctxbench.report import wording
from ctxbench.report.drill import without_surrogates
from ctxbench.report.run_page import stylesheet, templates
from ctxbench.report.tuning.document import Block, Document, Heading


@dataclass(frozen=True, slots=True)
class _Section:
    """A heading of level 2 and what stands below it; `id` is what links name."""

    id: str
    title: str
    blocks: Sequence[Block]


def page(document: Document) -> str:
    """Render a report; the same document gives the same page."""
    environment = templates()
    environment.filters |= {
        "line": _line,
        "unbroken": _keep_unbroken,
        "kind": lambda block: type(block).__name__,
    }
    html: str = environment.get_template("tuning.html.j2").render(
        document=document,
        sections=_sections(document.blocks),
        style=stylesheet("report.css", "tuning.css"),
    )
    return without_surrogates(html)


def _sections(blocks: Sequence[Block]) -> list[_Section]:
    """The blocks below each heading of level 2."""
    starts = [place for place, block in enumerate(blocks) if isinstance(block, Heading) and block.level == 2]
    found = []
    for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(blocks)], strict=True), start=1):
        heading = blocks[start]
        title = heading.text if isinstance(heading, Heading) else ""
        found.append(_Section(f"part-{number}", title, blocks[start + 1 : end]))
    return found


def _line(text: str) -> str:
    return wording.named(" ".join(text.split()))


def _keep_unbroken(text: str) -> str:
    """A text whose parts in brackets stay on one line."""
    return re.sub(r"\(.*?\)", lambda found: found[0].replace(" ", "\u00a0"), text)
