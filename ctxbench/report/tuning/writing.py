"""Reports as files."""

from __future__ import annotations

from pathlib import Path

from ctxbench.io.files import write_atomic
from ctxbench.report.document import Document, Drawing
from ctxbench.report.document_markdown import markdown
from ctxbench.report.document_page import page
from ctxbench.report.pages import titles, write_parted
from ctxbench.report.tuning.tuning_document import document
from ctxbench.tuning.tuning_results import Tuning

_FIGURES = "figures"


def write_report(tuning: Tuning, folder: Path) -> tuple[Path, ...]:
    """Write `report.md`, its `figures/*.svg` and `report.html`, which needs no other file, into a folder.

    Each file is written whole or not at all, those that name others after them. The same tuning gives the same bytes.

    Returns:
        The paths of the report, the page, the tables of several datasets, and the figures.

    Raises:
        StorageError: the disk is full, or the place cannot be written.
    """
    report_document = document(tuning)
    html = page(report_document)
    report, *further = _write_markdown(
        report_document, folder / "report.md", _FIGURES, several=len(tuning.datasets) > 1
    )
    write_atomic(folder / "report.html", html)
    return report, folder / "report.html", *further


def write_markdown(tuning: Tuning, path: Path, *, figures: str) -> tuple[Path, ...]:
    """Write the report as Markdown, with its figures in a folder next to it.

    Args:
        tuning: what was found.
        path: of the Markdown.
        figures: the name of the folder for figures, in the folder of the Markdown.

    Returns:
        The paths of the Markdown, the tables of several datasets, and the figures.

    Raises:
        StorageError: the disk is full, or the place cannot be written.
    """
    return tuple(_write_markdown(document(tuning), path, figures, several=len(tuning.datasets) > 1))


def _write_markdown(report_document: Document, path: Path, figures: str, *, several: bool) -> list[Path]:
    """Write figures, page and, of several datasets, the file of their sections."""
    files = []
    for drawing in (block for block in report_document.blocks() if isinstance(block, Drawing)):
        files.append(path.parent / figures / f"{drawing.name}.svg")
        write_atomic(files[-1], drawing.svg, durable=False)
    text = markdown(report_document, limit=None, figures=f"{figures}/")
    return [*write_parted(path, text, titles(text)[1:-1] if several else ()), *files]
